/* tokenizer.h: Gemma's tokenizer.json: BPE over the whole text, byte fallback, added tokens.
 *
 * Encoding: the text is cut at added tokens (longest match at each position, where the caller lets
 * them count), each piece between them is normalized (" " becomes U+2581) and merged by rank over
 * the whole piece, lowest rank first and leftmost among equals, with a heap: O(n log n), no
 * recursion. Characters without a token become their byte tokens, or unk where those are missing.
 * Decoding: U+2581 becomes a space, byte tokens become bytes, nothing is stripped.
 *
 * Source of the rules: facts/gemma4.md section 5 and the published behaviour of the tokenizers
 * library for this file format. The object is read-only after loading and may be shared. */
#ifndef LAP_TEXT_TOKENIZER_H
#define LAP_TEXT_TOKENIZER_H

#include "base/error.h"

typedef struct lap_tokenizer lap_tokenizer;

/* Reads a tokenizer.json. Errors: IO, FORMAT (naming the field), UNSUPPORTED (another model type,
 * normalizer, pre-tokenizer or decoder than those above, added tokens that strip or need word
 * boundaries, a file larger than 256 MiB or a token longer than 1024 bytes), MEMORY. */
lap_status lap_tokenizer_open(const char *path, lap_tokenizer **out, lap_error *error);

/* The same from memory; `name` is used in messages. */
lap_status lap_tokenizer_open_memory(const char *text, size_t length, const char *name, lap_tokenizer **out,
                                     lap_error *error);

void lap_tokenizer_close(lap_tokenizer *tokenizer);

/* Number of ids: one more than the highest id. */
int32_t lap_tokenizer_size(const lap_tokenizer *tokenizer);

/* The id whose content is exactly `text`, or -1. */
int32_t lap_tokenizer_id(const lap_tokenizer *tokenizer, const char *text, size_t length);

/* The content of a token as tokenizer.json spells it (terminated; NULL if no token has the id). */
const char *lap_tokenizer_token(const lap_tokenizer *tokenizer, int32_t id, size_t *length);

/* True for added tokens marked special: they are not shown as text by default. */
bool lap_tokenizer_is_special(const lap_tokenizer *tokenizer, int32_t id);

/* Encodes `text` [length bytes; any bytes, NUL and invalid UTF-8 included: each byte that is no part
 * of a valid character counts as a character of its own and becomes its byte token]. With
 * `parse_added` added tokens spelled in the text become their ids, else they stay text.
 * Adds no BOS. `*ids` is allocated with malloc and owned by the caller; `*count` ids.
 * Errors: MEMORY, ARGUMENT (text longer than 1 GiB). */
lap_status lap_tokenizer_encode(const lap_tokenizer *tokenizer, const char *text, size_t length,
                                bool parse_added, int32_t **ids, size_t *count, lap_error *error);

/* A stream of tokens to text: bytes of a character that is not complete are held back until the
 * next token completes or breaks it. Zero-initialise. */
typedef struct lap_detokenizer {
  unsigned char held[4];
  uint8_t held_bytes;
} lap_detokenizer;

/* Appends the text of `id` to `*text` (malloc'd or NULL, `*length` bytes, `*capacity`; kept
 * terminated). Special tokens are written only if `show_special`; else they count as absent, and
 * bytes held back stay so. Bytes that can no longer become a character are written as U+FFFD, one
 * for each maximal broken part.
 * Errors: ARGUMENT (id without a token), MEMORY. */
lap_status lap_detokenize(const lap_tokenizer *tokenizer, lap_detokenizer *state, int32_t id,
                          bool show_special, char **text, size_t *length, size_t *capacity, lap_error *error);

/* Writes out what is still held back (as U+FFFD). */
lap_status lap_detokenize_end(lap_detokenizer *state, char **text, size_t *length, size_t *capacity,
                              lap_error *error);

#endif
