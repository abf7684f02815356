/* tokenizer_tables.c: the hash tables of a tokenizer.
 *
 * All of them probe linearly and are at most half full, so every search ends at a free slot. Sizes
 * are powers of two. The string table alone can grow, because the number of strings is not known
 * before the file has been read; the others are told their size and allocate once. */
#include "text/tokenizer_tables.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

static lap_status no_memory(lap_error *error) {
  return lap_fail(error, LAP_ERROR_MEMORY, "tokenizer: out of memory");
}

/* The smallest power of two that leaves a table of `count` entries at most half full. */
static size_t slots_for(size_t count) {
  size_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  return slots;
}

/* ---- strings --------------------------------------------------------------------------------- */

static inline uint64_t mix(uint64_t h) {
  h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

/* Up to seven bytes as a number, different for different bytes of one length: from both ends, as the loads
 * overlap where the length is no power of two. */
static uint64_t short_word(const char *text, size_t length) {
  uint32_t a, b;
  uint16_t c, d;
  if (length >= sizeof a) {
    memcpy(&a, text, sizeof a);
    memcpy(&b, text + length - sizeof b, sizeof b);
    return (uint64_t)b << 32 | a;
  }
  if (length < sizeof c) return length ? (unsigned char)*text : 0;
  memcpy(&c, text, sizeof c);
  memcpy(&d, text + length - sizeof d, sizeof d);
  return (uint64_t)d << 16 | c;
}

static uint32_t hash_string(uint64_t seed, const char *text, size_t length) {
  uint64_t h = seed + length, word;
  for (; length >= sizeof word; text += sizeof word, length -= sizeof word) {
    memcpy(&word, text, sizeof word);
    h = mix(h ^ word);
  }
  return (uint32_t)(mix(mix(h ^ short_word(text, length))) >> 32);
}

lap_status lap_token_strings_init(lap_token_strings *strings, size_t expected, lap_error *error) {
  size_t slots = slots_for(expected);
  *strings = (lap_token_strings){.slot_mask = (uint32_t)(slots - 1)};
  strings->slots = lap_large_alloc(slots * sizeof *strings->slots);
  if (!strings->slots) return no_memory(error);
  memset(strings->slots, 0, slots * sizeof *strings->slots);
  if (getentropy(&strings->seed, sizeof strings->seed) != 0) strings->seed = 0x5851f42d4c957f2du;
  return LAP_OK;
}

void lap_token_strings_free(lap_token_strings *strings) {
  free(strings->text);
  free(strings->tokens);
  free(strings->slots);
}

/* The slot that holds the string, or the free slot where it belongs. */
static uint32_t string_slot(const lap_token_strings *strings, const char *text, size_t length,
                            uint32_t hash) {
  uint32_t at = hash & strings->slot_mask;
  for (; strings->slots[at]; at = (at + 1) & strings->slot_mask) {
    const lap_token *token = &strings->tokens[strings->slots[at] - 1];
    if (token->hash == hash && token->length == length &&
        memcmp(strings->text + token->offset, text, length) == 0)
      break;
  }
  return at;
}

uint32_t lap_token_strings_find(const lap_token_strings *strings, const char *text, size_t length) {
  if (length > LAP_TOKEN_MAX_BYTES) return UINT32_MAX;
  uint32_t at = string_slot(strings, text, length, hash_string(strings->seed, text, length));
  return strings->slots[at] - 1; /* a free slot holds 0 */
}

/* Each pass asks for the memory that the next one needs: slots, then tokens, then contents. The first
 * slot is nearly always the right one. */
void lap_token_strings_find_all(const lap_token_strings *strings, lap_string_query *queries, size_t count) {
  for (size_t i = 0; i < count; i++) {
    queries[i].hash = hash_string(strings->seed, queries[i].text, queries[i].length);
    __builtin_prefetch(&strings->slots[queries[i].hash & strings->slot_mask]);
  }
  for (size_t i = 0; i < count; i++) {
    uint32_t number = strings->slots[queries[i].hash & strings->slot_mask];
    if (number) __builtin_prefetch(&strings->tokens[number - 1]);
  }
  for (size_t i = 0; i < count; i++) {
    uint32_t number = strings->slots[queries[i].hash & strings->slot_mask];
    if (number) __builtin_prefetch(strings->text + strings->tokens[number - 1].offset);
  }
  for (size_t i = 0; i < count; i++)
    queries[i].number =
        strings->slots[string_slot(strings, queries[i].text, queries[i].length, queries[i].hash)] - 1;
}

static lap_status grow_slots(lap_token_strings *strings, lap_error *error) {
  size_t slots = 2 * ((size_t)strings->slot_mask + 1);
  uint32_t *grown = calloc(slots, sizeof *grown);
  if (!grown) return no_memory(error);
  uint32_t mask = (uint32_t)(slots - 1);
  for (uint32_t i = 0; i < strings->count; i++) {
    uint32_t at = strings->tokens[i].hash & mask;
    while (grown[at]) at = (at + 1) & mask;
    grown[at] = i + 1;
  }
  free(strings->slots);
  strings->slots = grown;
  strings->slot_mask = mask;
  return LAP_OK;
}

/* Room for one more token of `length` bytes and its terminator. */
static lap_status grow_strings(lap_token_strings *strings, size_t length, lap_error *error) {
  if (strings->text_capacity - strings->text_length < length + 1) {
    size_t capacity = 2 * strings->text_capacity + length + 4096;
    char *text = realloc(strings->text, capacity);
    if (!text) return no_memory(error);
    strings->text = text;
    strings->text_capacity = capacity;
  }
  if (strings->count == strings->capacity) {
    uint32_t capacity = 2 * strings->capacity + 64;
    lap_token *tokens = realloc(strings->tokens, capacity * sizeof *tokens);
    if (!tokens) return no_memory(error);
    strings->tokens = tokens;
    strings->capacity = capacity;
  }
  return LAP_OK;
}

lap_status lap_token_strings_add(lap_token_strings *strings, const char *text, size_t length,
                                 uint32_t *number, lap_error *error) {
  uint32_t hash = hash_string(strings->seed, text, length);
  uint32_t at = string_slot(strings, text, length, hash);
  if (strings->slots[at]) {
    *number = strings->slots[at] - 1;
    return LAP_OK;
  }
  lap_status status = grow_strings(strings, length, error);
  if (status != LAP_OK) return status;
  char *copy = strings->text + strings->text_length;
  memcpy(copy, text, length);
  copy[length] = '\0';
  strings->tokens[strings->count] = (lap_token){
      .offset = (uint32_t)strings->text_length, .length = (uint32_t)length, .hash = hash, .id = -1};
  strings->text_length += length + 1;
  *number = strings->count++;
  strings->slots[at] = strings->count;
  return strings->count > strings->slot_mask / 2 ? grow_slots(strings, error) : LAP_OK;
}

/* ---- merges ---------------------------------------------------------------------------------- */

lap_status lap_merges_init(lap_merges *merges, size_t count, uint64_t seed, lap_error *error) {
  size_t slots = slots_for(count);
  *merges = (lap_merges){.mask = (uint32_t)(slots - 1), .seed = seed};
  merges->slots = lap_large_alloc(slots * sizeof *merges->slots);
  merges->boundaries = calloc((1u << LAP_BOUNDARY_BITS) / 64, sizeof *merges->boundaries);
  if (!merges->slots || !merges->boundaries) return no_memory(error);
  for (size_t i = 0; i < slots; i++) merges->slots[i].left = -1;
  return LAP_OK;
}

void lap_merges_free(lap_merges *merges) {
  free(merges->slots);
  free(merges->boundaries);
}

void lap_merges_set(lap_merges *merges, lap_merge merge) {
  uint32_t at = lap_merge_hash(merges->seed, merge.left, merge.right) & merges->mask;
  for (; merges->slots[at].left >= 0; at = (at + 1) & merges->mask)
    if (merges->slots[at].left == merge.left && merges->slots[at].right == merge.right) break;
  merges->slots[at] = merge;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

lap_status lap_trie_init(lap_trie *trie, size_t bytes, uint64_t seed, lap_error *error) {
  size_t slots = slots_for(bytes);
  *trie = (lap_trie){.edge_mask = (uint32_t)(slots - 1), .seed = seed, .nodes = 1};
  trie->edges = calloc(slots, sizeof *trie->edges);
  trie->ids = malloc((bytes + 1) * sizeof *trie->ids);
  if (!trie->edges || !trie->ids) return no_memory(error);
  trie->ids[0] = -1;
  return LAP_OK;
}

void lap_trie_free(lap_trie *trie) {
  free(trie->edges);
  free(trie->ids);
}

/* The slot of the edge from `node` under `byte`, or the free slot where it belongs. */
static lap_trie_edge *trie_edge(const lap_trie *trie, uint32_t node, unsigned char byte) {
  uint32_t at = (uint32_t)(mix(((uint64_t)node << 8 | byte) ^ trie->seed) >> 32) & trie->edge_mask;
  for (; trie->edges[at].child; at = (at + 1) & trie->edge_mask)
    if (trie->edges[at].node == node && trie->edges[at].byte == byte) break;
  return &trie->edges[at];
}

void lap_trie_add(lap_trie *trie, const char *text, size_t length, int32_t id) {
  if (length == 0) return; /* nothing to find */
  uint32_t node = 0;
  for (size_t i = 0; i < length; i++) {
    lap_trie_edge *edge = trie_edge(trie, node, (unsigned char)text[i]);
    if (!edge->child) {
      *edge = (lap_trie_edge){.node = node, .child = trie->nodes, .byte = (unsigned char)text[i]};
      trie->ids[trie->nodes++] = -1;
    }
    node = edge->child;
  }
  trie->ids[node] = id;
  trie->begins[(unsigned char)text[0]] = true;
}

size_t lap_trie_match(const lap_trie *trie, const char *text, size_t length, int32_t *id) {
  uint32_t node = 0;
  size_t longest = 0;
  for (size_t i = 0; i < length; i++) {
    node = trie_edge(trie, node, (unsigned char)text[i])->child;
    if (!node) break;
    if (trie->ids[node] < 0) continue;
    longest = i + 1;
    *id = trie->ids[node];
  }
  return longest;
}
