/* fingerprint.c: a short name for a long text. 64 bits tell apart the few plans of a machine; whoever must
 * be certain compares the texts. */
#include "checkpoint/fingerprint.h"

#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/plan_text.h"

lap_status lap_plan_fingerprint(const lap_plan *plan, const char *versions,
                                char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error) {
  char *text;
  size_t length;
  out[0] = '\0';
  lap_status status = lap_plan_text(plan, &text, &length, error);
  if (status != LAP_OK) return status;
  struct sha256_ctx hash;
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_init(&hash);
  sha256_update(&hash, strlen(versions), (const uint8_t *)versions);
  sha256_update(&hash, 1, (const uint8_t *)"\n");
  sha256_update(&hash, length, (const uint8_t *)text);
  sha256_digest(&hash, sizeof digest, digest);
  free(text);
  base16_encode_update(out, (LAP_PLAN_FINGERPRINT_BYTES - 1) / 2, digest);
  out[LAP_PLAN_FINGERPRINT_BYTES - 1] = '\0';
  return LAP_OK;
}
