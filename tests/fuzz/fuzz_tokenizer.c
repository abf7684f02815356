/* fuzz_tokenizer.c: any bytes as a tokenizer.json; if it loads, it must encode and decode any bytes.
 *
 * The text to encode is the end of the file itself, which mentions the file's tokens; parts of it are
 * trusted, and a special id (unk and byte tokens aside) must not come of the others. */
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_tables.h"

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

/* With trust in every other eighth of the text, or in nothing; then there is no special id. */
static void encode_marked(const lap_tokenizer *tokenizer, const char *text, size_t length, bool trust) {
  lap_range trusted[4];
  for (size_t i = 0; i < 4; i++) trusted[i] = (lap_range){length * 2 * i / 8, length * (2 * i + 1) / 8};
  int32_t *ids;
  size_t count;
  if (lap_tokenizer_encode_marked(tokenizer, text, length, trusted, trust ? 4 : 0, &ids, &count, NULL) !=
      LAP_OK)
    abort();
  for (size_t i = 0; i < count && !trust; i++) {
    const char *content = lap_tokenizer_token(tokenizer, ids[i], NULL);
    bool fallback = ids[i] == tokenizer->unk || strncmp(content, "<0x", 3) == 0;
    if (lap_tokenizer_is_special(tokenizer, ids[i]) && !fallback) abort();
  }
  free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lap_error error;
  lap_tokenizer *tokenizer;
  if (lap_tokenizer_open_memory((const char *)data, size, "fuzz", &tokenizer, &error) != LAP_OK) {
    if (tokenizer || strncmp(error.message, "fuzz: ", 6) != 0) abort();
    return 0;
  }
  size_t length = size < 256 ? size : 256;
  for (int parse_special = 0; parse_special < 2; parse_special++) {
    int32_t *ids;
    size_t count;
    if (lap_tokenizer_encode(tokenizer, (const char *)data + size - length, length, parse_special, &ids,
                             &count, &error) != LAP_OK)
      abort();
    decode_all(tokenizer, ids, count, parse_special);
    free(ids);
    encode_marked(tokenizer, (const char *)data + size - length, length, parse_special);
  }
  lap_tokenizer_close(tokenizer);
  return 0;
}
