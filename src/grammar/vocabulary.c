/* vocabulary.c: tokens sorted by their bytes are the trie in order.
 *
 * Each token shares a prefix with the one before it, which is the path that stays open, and adds a node for
 * each byte behind that. */
#include "grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

/* A token's bytes in `text`, and the first eight of them as a number that sorts like them. */
typedef struct spelling {
  uint64_t head;
  const unsigned char *text;
  uint32_t length;
  int32_t id;
} spelling;

enum {
  HEAD_BYTES = 8
};

typedef struct builder {
  lap_vocabulary *vocabulary;
  unsigned char *text; /* all bytes */
  spelling *tokens;
  size_t count;
} builder;

static int by_bytes(const void *a, const void *b) {
  const spelling *x = a, *y = b;
  if (x->head != y->head) return x->head < y->head ? -1 : 1;
  uint32_t shorter = x->length < y->length ? x->length : y->length;
  int order = memcmp(x->text, y->text, shorter);
  if (order != 0) return order;
  if (x->length != y->length) return x->length < y->length ? -1 : 1;
  return (x->id > y->id) - (x->id < y->id);
}

/* Sorts by the heads, byte by byte from the last one on: each pass keeps the order of the ones before. */
static void sort_by_head(spelling *tokens, spelling *scratch, size_t count) {
  for (int shift = 0; shift < 64; shift += 8) {
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++) starts[(tokens[i].head >> shift & 0xff) + 1]++;
    for (int digit = 0; digit < 256; digit++) starts[digit + 1] += starts[digit];
    for (size_t i = 0; i < count; i++) scratch[starts[tokens[i].head >> shift & 0xff]++] = tokens[i];
    spelling *sorted = scratch; /* after an even number of passes everything is where it was */
    scratch = tokens;
    tokens = sorted;
  }
}

/* Sorts the tokens; those with the same head are few. */
static void sort(spelling *tokens, spelling *scratch, size_t count) {
  sort_by_head(tokens, scratch, count);
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && tokens[end].head == tokens[i].head;) end++;
    if (end - i > 1) qsort(tokens + i, end - i, sizeof *tokens, by_bytes);
  }
}

static uint64_t head_of(const unsigned char *text, size_t length) {
  uint64_t head = 0;
  for (size_t i = 0; i < HEAD_BYTES; i++) head = head << 8 | (i < length ? text[i] : 0);
  return head;
}

/* Bytes of all tokens together, at least as many. */
static size_t text_bytes(const lap_tokenizer *tokenizer) {
  size_t total = 0;
  for (int32_t id = 0; id < lap_tokenizer_size(tokenizer); id++) {
    size_t length = 0;
    if (lap_tokenizer_token(tokenizer, id, &length)) total += length;
  }
  return total;
}

bool lap_vocabulary_is_eos(const lap_vocabulary *vocabulary, int32_t id) {
  for (size_t i = 0; i < vocabulary->eos_count; i++)
    if (vocabulary->eos[i] == id) return true;
  return false;
}

static bool spell(builder *b) {
  lap_vocabulary *v = b->vocabulary;
  b->text = malloc(text_bytes(v->tokenizer) + LAP_TOKEN_MAX_BYTES);
  b->tokens = malloc(((size_t)v->size + 1) * 2 * sizeof *b->tokens); /* half of it is for sorting */
  if (!b->text || !b->tokens) return false;
  unsigned char *text = b->text;
  for (int32_t id = 0; id < v->size; id++) {
    if (lap_tokenizer_is_special(v->tokenizer, id) || lap_vocabulary_is_eos(v, id)) continue;
    size_t length = lap_tokenizer_token_bytes(v->tokenizer, id, (char *)text);
    if (length == 0) continue;
    b->tokens[b->count++] = (spelling){head_of(text, length), text, (uint32_t)length, id};
    if (length > v->longest) v->longest = (uint32_t)length;
    text += length;
  }
  sort(b->tokens, b->tokens + b->count, b->count);
  return true;
}

/* Bytes that a token has in common with the one before it. */
static uint32_t shared(const builder *b, size_t i) {
  if (i == 0) return 0;
  const spelling *x = &b->tokens[i - 1], *y = &b->tokens[i];
  uint32_t length = 0;
  while (length < x->length && length < y->length && x->text[length] == y->text[length]) length++;
  return length;
}

static bool allocate(builder *b) {
  lap_vocabulary *v = b->vocabulary;
  size_t nodes = 1;
  for (size_t i = 0; i < b->count; i++) nodes += b->tokens[i].length - shared(b, i);
  v->node_count = (uint32_t)nodes; /* at most the bytes of a tokenizer.json, which has less than 2^28 */
  v->byte = malloc(nodes * sizeof *v->byte);
  v->end = malloc(nodes * sizeof *v->end);
  v->first = malloc((nodes + 1) * sizeof *v->first);
  v->ids = malloc((b->count + 1) * sizeof *v->ids);
  return v->byte && v->end && v->first && v->ids;
}

static void fill(builder *b) {
  lap_vocabulary *v = b->vocabulary;
  uint32_t path[LAP_TOKEN_MAX_BYTES + 1]; /* the open nodes: path[d] has the first d bytes */
  uint32_t depth = 0, node = 1;
  path[0] = 0;
  v->byte[0] = 0;
  v->first[0] = 0;
  for (size_t i = 0; i < b->count; i++) {
    const spelling *token = &b->tokens[i];
    for (uint32_t common = shared(b, i); depth > common; depth--) v->end[path[depth]] = node;
    for (; depth < token->length; depth++, node++) {
      path[depth + 1] = node;
      v->byte[node] = token->text[depth];
      v->first[node] = (uint32_t)i;
    }
    v->ids[i] = token->id;
  }
  for (; depth > 0; depth--) v->end[path[depth]] = node;
  v->end[0] = node;
  v->first[node] = (uint32_t)b->count;
}

static bool copy_eos(lap_vocabulary *v, const int32_t *eos, size_t count) {
  v->eos = malloc((count + 1) * sizeof *v->eos);
  if (!v->eos) return false;
  for (size_t i = 0; i < count; i++)
    if (lap_tokenizer_token(v->tokenizer, eos[i], NULL)) v->eos[v->eos_count++] = eos[i];
  return true;
}

lap_status lap_vocabulary_create(const lap_tokenizer *tokenizer, const int32_t *eos, size_t eos_count,
                                 lap_vocabulary **out, lap_error *error) {
  lap_vocabulary *v = calloc(1, sizeof *v);
  builder b = {.vocabulary = v};
  bool done = v != NULL;
  if (done) {
    v->tokenizer = tokenizer;
    v->size = lap_tokenizer_size(tokenizer);
    done = copy_eos(v, eos, eos_count) && spell(&b) && allocate(&b);
  }
  if (done) fill(&b);
  free(b.text);
  free(b.tokens);
  if (!done) lap_vocabulary_destroy(v);
  *out = done ? v : NULL;
  return done ? LAP_OK : lap_fail(error, LAP_ERROR_MEMORY, "grammar: out of memory for the vocabulary");
}

void lap_vocabulary_destroy(lap_vocabulary *vocabulary) {
  if (!vocabulary) return;
  free(vocabulary->byte);
  free(vocabulary->end);
  free(vocabulary->first);
  free(vocabulary->ids);
  free(vocabulary->eos);
  free(vocabulary);
}

size_t lap_vocabulary_bytes(const lap_vocabulary *v) {
  size_t node = sizeof *v->byte + sizeof *v->end + sizeof *v->first;
  return sizeof *v + v->node_count * node + v->first[v->node_count] * sizeof *v->ids;
}

int32_t lap_vocabulary_special(const lap_vocabulary *vocabulary, const char *text, size_t length) {
  int32_t id = lap_tokenizer_id(vocabulary->tokenizer, text, length);
  return id >= 0 && lap_tokenizer_is_special(vocabulary->tokenizer, id) ? id : -1;
}
