/* fuzz_grammar.c: any text as a grammar or a schema: an error of one line, or a grammar that can be followed.
 *
 * The first byte says what the rest is; the second begins the random walk. The vocabulary has all bytes, a
 * few tokens of several bytes that cross the borders of what grammars are made of, and the special tokens of
 * calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_buffer.h"
#include "grammar/matcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
  STEPS = 40,
  EOS = 0
};

static const char *const special[] = {"<eos>",    "<|tool_call>", "<tool_call|>",
                                      "<|\\\"|>", "<|channel>",   "<channel|>"};
static const char *const words[] = {"\\\":",    "\\\",\\\"", "}}",          "],[", "true",
                                    "null",     "12",        "aa",          "ab",  "\xe2\x96\x81{\\\"",
                                    "\xc3\xa9", "\\\\n",     "\xc3\xa9\xc3"};

static lap_vocabulary *make_vocabulary(void) {
  lap_text text = {0};
  int id = 0;
  char *json;
  lap_tokenizer *tokenizer;
  lap_vocabulary *vocabulary;
  const int32_t eos = EOS;
  lap_text_add(&text, "{\"added_tokens\":[");
  for (size_t i = 0; i < sizeof special / sizeof *special; i++, id++)
    lap_text_add(&text, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "", id, special[i]);
  lap_text_add(
      &text,
      "],\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"},"
      "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
      "\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},"
      "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":null,\"merges\":[],\"vocab\":{");
  for (int byte = 0; byte < 256; byte++, id++)
    lap_text_add(&text, "%s\"<0x%02X>\":%d", byte ? "," : "", byte, id);
  for (size_t i = 0; i + 1 < sizeof words / sizeof *words; i++, id++)
    lap_text_add(&text, ",\"%s\":%d", words[i], id);
  lap_text_add(&text, "}}}");
  lap_error error;
  size_t length;
  if (lap_text_take(&text, &json, &length, &error) != LAP_OK ||
      lap_tokenizer_open_memory(json, length, "tokenizer", &tokenizer, &error) != LAP_OK ||
      lap_vocabulary_create(tokenizer, &eos, 1, &vocabulary, &error) != LAP_OK) {
    fprintf(stderr, "%s\n", error.message);
    abort();
  }
  free(json);
  return vocabulary;
}

/* Follows masks at random; what they allow is accepted, and what they do not is not. */
static void walk(lap_grammar *grammar, uint32_t random) {
  const lap_vocabulary *v = lap_grammar_vocabulary(grammar);
  uint64_t bits[8];
  lap_error error = {0};
  lap_matcher *matcher;
  if (lap_vocabulary_words(v) > sizeof bits / sizeof *bits) abort();
  if (lap_matcher_create(grammar, &matcher, &error) != LAP_OK) {
    if (error.status != LAP_ERROR_UNSUPPORTED) abort();
    return;
  }
  for (int step = 0; step < STEPS && !lap_matcher_is_finished(matcher); step++) {
    if (lap_matcher_mask(matcher, bits, &error) != LAP_OK) break;
    int32_t chosen = -1;
    for (int32_t i = 0; i < v->size; i++) {
      random = random * 1664525u + 1013904223u;
      int32_t id = (int32_t)((uint32_t)i + (random >> 8)) % v->size;
      bool allowed = bits[id / 64] >> id % 64 & 1;
      if (id != EOS && allowed != lap_matcher_allows(matcher, id) && i < 16) abort();
      if (allowed && (chosen < 0 || random >> 28 == 0)) chosen = id;
    }
    for (int32_t id = 0; id < v->size && chosen < 0; id++)
      if (bits[id / 64] >> id % 64 & 1) chosen = id;
    if (chosen < 0) abort(); /* at least the end is always allowed */
    if (lap_matcher_accept(matcher, chosen, &error) != LAP_OK) {
      if (error.status != LAP_ERROR_UNSUPPORTED) abort();
      break;
    }
  }
  lap_matcher_destroy(matcher);
}

static lap_status compile(const lap_vocabulary *v, int kind, const char *text, size_t length,
                          lap_grammar **grammar, lap_error *error) {
  if (kind == 0) return lap_grammar_from_gbnf(v, text, length, "grammar", LAP_THOUGHTS_NONE, grammar, error);
  lap_json_document *document;
  *grammar = NULL;
  lap_status status = lap_json_parse(text, length, "schema", &document, error);
  if (status != LAP_OK) return status;
  const lap_json *root = lap_json_root(document);
  const lap_grammar_tool tool = {lap_json_get(document, root, "title"), root};
  if (kind == 1)
    status = lap_grammar_from_schema(v, document, root, true, LAP_THOUGHTS_FIRST, grammar, error);
  else
    status = lap_grammar_tool_calls(v, document, &tool, 1, true, LAP_THOUGHTS_NONE, grammar, error);
  lap_json_free(document);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static lap_vocabulary *vocabulary;
  if (!vocabulary) vocabulary = make_vocabulary();
  if (size < 2) return 0;
  lap_error error = {0};
  lap_grammar *grammar;
  if (compile(vocabulary, data[0] % 3, (const char *)data + 2, size - 2, &grammar, &error) != LAP_OK) {
    if (grammar || error.status == LAP_OK || error.message[0] == '\0' || strchr(error.message, '\n')) abort();
    return 0;
  }
  walk(grammar, data[1]);
  lap_grammar_release(grammar);
  return 0;
}
