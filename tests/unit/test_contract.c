/* The numerics contract and the bits that it stands for change together. What is stored (snapshots, the
 * prompt cache's directory) bears the contract's version and is read by whoever has the same; so bits that
 * change under an old version would be mixed with new ones in silence.
 *
 * The hashes are of Pebble's logits, 300 tokens, by the last release before the forward pass became data;
 * they are recorded anew only with a new contract. */
#include <nettle/sha2.h>

#include "engine/session.h"
#include "support/check.h"

enum {
  TOKENS = 300
};

static const struct {
  int contract;
  lap_kv_mode kv;
  const char *sha256;
} recorded[] = {
    {1, LAP_KV_CONFIG, "43645e92af66c52f1b0beb8f2416c5fbad2f5c847fd7d22a3fe8d41ee655bde5"},
    {1, LAP_KV_PLAIN, "daed97cec54a0d71782a53361ede1cb78cfb5d3e023a5e21045188ad228b20ce"},
    {1, LAP_KV_8, "4b52500365bd409a317890c6719559c1bc3136149d2653e63274d7fc49dae34a"},
    {1, LAP_KV_4, "fa565c0b2b130688e40d069a2b7abdfc48d4177fdc972d73e99f26d18c78683f"},
};

static void hash_logits(lap_kv_mode kv, char out[2 * SHA256_DIGEST_SIZE + 1]) {
  lap_error error;
  lap_model *model;
  lap_session *session;
  int32_t ids[TOKENS];
  uint8_t digest[SHA256_DIGEST_SIZE];
  struct sha256_ctx hash;
  for (int i = 0; i < TOKENS; i++) ids[i] = 2 + i * 7919 % 500;
  expect_ok(lap_model_open(SOURCE_DIR "/models/pebble", &(lap_model_options){.kv = kv}, &model, &error),
            &error);
  expect_ok(lap_session_create(model, NULL, &session, &error), &error);
  const size_t count = (size_t)TOKENS * (size_t)lap_model_vocab_size(model);
  float *logits = malloc(count * sizeof *logits);
  expect_ok(lap_session_eval(session, ids, TOKENS, TOKENS, logits, &error), &error);
  sha256_init(&hash);
  sha256_update(&hash, count * sizeof *logits, (const uint8_t *)logits);
  sha256_digest(&hash, sizeof digest, digest);
  for (int i = 0; i < SHA256_DIGEST_SIZE; i++) sprintf(out + 2 * i, "%02x", digest[i]);
  free(logits);
  lap_session_destroy(session);
  lap_model_close(model);
}

static void bits_change_only_with_the_contract(void **state) {
  (void)state;
  int known = 0;
  for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
    char sha256[2 * SHA256_DIGEST_SIZE + 1];
    if (recorded[i].contract != LAP_KERNEL_CONTRACT) continue;
    known++;
    hash_logits(recorded[i].kv, sha256);
    if (strcmp(sha256, recorded[i].sha256) != 0)
      fail_msg(
          "KV setting %d: the bits of contract %d have changed: LAP_KERNEL_CONTRACT must rise, "
          "docs/numerics.md "
          "say why, and this test record %s",
          recorded[i].kv, LAP_KERNEL_CONTRACT, sha256);
  }
  assert_int_equal(known, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits_change_only_with_the_contract)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
