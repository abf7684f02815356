/* fuzz_tokenizer.c: any bytes as a tokenizer.json; if it loads, it must encode and decode any bytes.
 *
 * The text to encode is the end of the file itself, which mentions the file's tokens. */
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_all(const lap_tokenizer *tokenizer, const int32_t *ids, size_t count, bool show_special) {
  char *text = NULL;
  size_t length = 0, capacity = 0;
  lap_detokenizer state = {0};
  for (size_t i = 0; i < count; i++)
    if (lap_detokenize(tokenizer, &state, ids[i], show_special, &text, &length, &capacity, NULL) != LAP_OK)
      abort();
  if (lap_detokenize_end(&state, &text, &length, &capacity, NULL) != LAP_OK) abort();
  if (strlen(text) > length) abort();
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lap_error error;
  lap_tokenizer *tokenizer;
  if (lap_tokenizer_open_memory((const char *)data, size, "fuzz", &tokenizer, &error) != LAP_OK) {
    if (tokenizer || strncmp(error.message, "fuzz: ", 6) != 0) abort();
    return 0;
  }
  size_t length = size < 256 ? size : 256;
  for (int parse_added = 0; parse_added < 2; parse_added++) {
    int32_t *ids;
    size_t count;
    if (lap_tokenizer_encode(tokenizer, (const char *)data + size - length, length, parse_added, &ids, &count,
                             &error) != LAP_OK)
      abort();
    decode_all(tokenizer, ids, count, parse_added);
    free(ids);
  }
  lap_tokenizer_close(tokenizer);
  return 0;
}
