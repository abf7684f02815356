/* tokenizer_tables.h: what a loaded tokenizer consists of. Inside src/text only.
 *
 * The loader (tokenizer_load.c) fills these tables, tokenizer.c reads them. All of them are flat
 * arrays with open addressing, sized once: a lookup touches one or two cache lines, and there is
 * nothing to walk when the tokenizer is closed. */
#ifndef LAP_TEXT_TOKENIZER_TABLES_H
#define LAP_TEXT_TOKENIZER_TABLES_H

#include "text/tokenizer.h"

enum {
  LAP_TOKEN_MAX_ID = (1 << 22) - 1,
  LAP_BOUNDARY_BITS = 20
};

/* ---- strings --------------------------------------------------------------------------------- */

enum {
  LAP_TOKEN_IN_VOCAB = 1,
  LAP_TOKEN_ADDED = 2,
  LAP_TOKEN_SPECIAL = 4
};

/* A token's content. Strings are numbered in order of first mention, because a file may mention a
 * token before it gives the id; until then `id` is -1. */
typedef struct lap_token {
  uint32_t offset, length; /* in lap_token_strings.text; terminated there */
  uint32_t hash;
  int32_t id;
  uint8_t flags;
} lap_token;

typedef struct lap_token_strings {
  char *text;
  size_t text_length, text_capacity;
  lap_token *tokens;
  uint32_t count, capacity;
  uint32_t *slots; /* number of a token + 1; 0: free */
  uint32_t slot_mask;
  uint64_t seed; /* random: nobody can write a file whose strings all collide */
} lap_token_strings;

/* Makes room for about `expected` strings. Errors: MEMORY. */
lap_status lap_token_strings_init(lap_token_strings *strings, size_t expected, lap_error *error);
void lap_token_strings_free(lap_token_strings *strings);

/* The number of the string, or UINT32_MAX. */
uint32_t lap_token_strings_find(const lap_token_strings *strings, const char *text, size_t length);

typedef struct lap_string_query {
  const char *text;
  size_t length;
  uint32_t number; /* the answer */
  uint32_t hash;   /* scratch */
} lap_string_query;

/* The same for many strings; faster than one by one, because the cache misses overlap. */
void lap_token_strings_find_all(const lap_token_strings *strings, lap_string_query *queries, size_t count);

/* Finds or adds. The caller bounds the sum of all lengths (below 2^31). Errors: MEMORY. */
lap_status lap_token_strings_add(lap_token_strings *strings, const char *text, size_t length,
                                 uint32_t *number, lap_error *error);

/* ---- merges ---------------------------------------------------------------------------------- */

enum {
  LAP_NO_RANK = INT32_MAX
};

typedef struct lap_merge {
  int32_t left, right; /* ids; left -1: free slot */
  int32_t rank;
  int32_t merged; /* id */
} lap_merge;

typedef struct lap_merges {
  lap_merge *slots;
  uint32_t mask;
  uint64_t seed;
  /* Bit h(a, b) is set if some rule joins a token that ends with character a to one that begins with
   * character b. See tokenizer.c for what a clear bit proves. */
  uint64_t *boundaries;
} lap_merges;

lap_status lap_merges_init(lap_merges *merges, size_t count, uint64_t seed, lap_error *error);
void lap_merges_free(lap_merges *merges);

/* A pair that is already there gets the new rank: of two equal rules the later one counts. */
void lap_merges_set(lap_merges *merges, lap_merge merge);

static inline uint32_t lap_merge_hash(uint64_t seed, int32_t left, int32_t right) {
  uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) ^ seed;
  key = (key ^ key >> 31) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(key >> 32);
}

/* NULL if no rule joins the two. */
static inline const lap_merge *lap_merges_find(const lap_merges *merges, int32_t left, int32_t right) {
  uint32_t at = lap_merge_hash(merges->seed, left, right) & merges->mask;
  for (; merges->slots[at].left >= 0; at = (at + 1) & merges->mask)
    if (merges->slots[at].left == left && merges->slots[at].right == right) return &merges->slots[at];
  return NULL;
}

static inline void lap_merges_prefetch(const lap_merges *merges, int32_t left, int32_t right) {
  __builtin_prefetch(&merges->slots[lap_merge_hash(merges->seed, left, right) & merges->mask]);
}

static inline uint32_t lap_boundary_bit(uint32_t last, uint32_t first) {
  uint32_t h = last * 0x9e3779b1u + first * 0x85ebca77u;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  return h >> (32 - LAP_BOUNDARY_BITS);
}

static inline void lap_merges_note_boundary(lap_merges *merges, uint32_t last, uint32_t first) {
  uint32_t bit = lap_boundary_bit(last, first);
  merges->boundaries[bit / 64] |= UINT64_C(1) << bit % 64;
}

static inline bool lap_boundary_may_join(const lap_merges *merges, uint32_t last, uint32_t first) {
  uint32_t bit = lap_boundary_bit(last, first);
  return merges->boundaries[bit / 64] >> bit % 64 & 1;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* A trie whose edges stand in one hash table; node 0 is the root. */
typedef struct lap_trie_edge {
  uint32_t node, child; /* child 0: free slot (the root is nobody's child) */
  unsigned char byte;
} lap_trie_edge;

typedef struct lap_trie {
  lap_trie_edge *edges;
  uint32_t edge_mask;
  uint64_t seed;
  int32_t *ids; /* by node: the token that ends there, or -1 */
  uint32_t nodes;
  bool begins[256]; /* bytes with which some token begins */
} lap_trie;

/* Room for words of `bytes` bytes in all (below 2^30). */
lap_status lap_trie_init(lap_trie *trie, size_t bytes, uint64_t seed, lap_error *error);
void lap_trie_free(lap_trie *trie);
void lap_trie_add(lap_trie *trie, const char *text, size_t length, int32_t id);

/* The longest word at the start of `text`; its bytes, or 0 if none begins here. */
size_t lap_trie_match(const lap_trie *trie, const char *text, size_t length, int32_t *id);

/* ---- the whole ------------------------------------------------------------------------------- */

struct lap_tokenizer {
  lap_token_strings strings;
  uint32_t *by_id; /* [size]: number of the string, or UINT32_MAX for a hole */
  int32_t size;
  lap_merges merges;
  /* [0]: tokens to find in the text as given, [1]: then, in what is left of it; of each [0]: ordinary
   * ones, [1]: special ones, which count only in trusted text */
  lap_trie added[2][2];
  int32_t ascii[128];           /* ids of the one-byte characters, or -1 */
  int32_t bytes[256];           /* ids of <0x00>..<0xFF>, or -1 */
  int32_t unk;                  /* or -1; then every byte has a token */
  uint32_t unk_first, unk_last; /* first and last character of its content */
  bool fuse_unk;
  bool decodes_bytes;
};

/* The id with which merging begins for a character, or -1: a token of the vocabulary (an added token alone is
 * none), but not a special one. */
static inline int32_t lap_character_id(const lap_tokenizer *tokenizer, const char *text, size_t bytes) {
  uint32_t number = lap_token_strings_find(&tokenizer->strings, text, bytes);
  if (number == UINT32_MAX) return -1;
  const lap_token *token = &tokenizer->strings.tokens[number];
  return (token->flags & (LAP_TOKEN_IN_VOCAB | LAP_TOKEN_SPECIAL)) == LAP_TOKEN_IN_VOCAB ? token->id : -1;
}

/* U+2581, which stands for the space in tokens. */
#define LAP_SPACE_MARK "\xe2\x96\x81"

#endif
