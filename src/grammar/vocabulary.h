/* vocabulary.h: the tokens of a tokenizer as a trie over the bytes that they put out.
 *
 * Nodes are numbered so that each stands in front of its children and each subtree is a run of numbers: node
 * i adds byte[i] to its parent, its subtree ends before node end[i], its first child (if any) is node i + 1,
 * and the next child of the same parent is node end[i]. Tokens stand in the order of their nodes: those whose
 * bytes end at node i are ids[first[i]] up to ids[first[i + 1]], and those of its whole subtree go up to
 * ids[first[end[i]]].
 *
 * Special tokens are symbols, not bytes, and are not in the trie; nor are tokens that end the text and ids
 * without a token. */
#ifndef LAP_GRAMMAR_VOCABULARY_H
#define LAP_GRAMMAR_VOCABULARY_H

#include "text/tokenizer.h"

typedef struct lap_vocabulary {
  const lap_tokenizer *tokenizer;
  int32_t size;        /* ids: lap_tokenizer_size */
  uint32_t longest;    /* bytes of the longest token in the trie */
  uint32_t node_count; /* node 0 is the root, which has no byte */
  uint8_t *byte;       /* [node_count] */
  uint32_t *end;       /* [node_count] */
  uint32_t *first;     /* [node_count + 1] */
  int32_t *ids;        /* [first[node_count]] */
  int32_t *eos;        /* [eos_count], ids that end a text, all below size */
  size_t eos_count;
} lap_vocabulary;

/* Builds the trie; `eos` [eos_count] is copied, ids that no token has are left out. About 10 bytes for each
 * node, of which Gemma's 262,144 tokens have 600,000. The tokenizer must outlive it. Read-only afterwards and
 * may be shared. Errors: MEMORY. */
lap_status lap_vocabulary_create(const lap_tokenizer *tokenizer, const int32_t *eos, size_t eos_count,
                                 lap_vocabulary **out, lap_error *error);
void lap_vocabulary_destroy(lap_vocabulary *vocabulary);

size_t lap_vocabulary_bytes(const lap_vocabulary *vocabulary);

/* The special token whose content is `text`, or -1. */
int32_t lap_vocabulary_special(const lap_vocabulary *vocabulary, const char *text, size_t length);

bool lap_vocabulary_is_eos(const lap_vocabulary *vocabulary, int32_t id);

/* 64-bit words of a set of ids. */
static inline size_t lap_vocabulary_words(const lap_vocabulary *vocabulary) {
  return ((size_t)vocabulary->size + 63) / 64;
}

#endif
