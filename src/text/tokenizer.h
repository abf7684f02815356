/* tokenizer.h: Gemma's tokenizer.json: BPE over the whole text, byte fallback, added tokens.
 *
 * Encoding: the text is cut at added tokens (the longest that may count at each position: special ones
 * count only in trusted text), each piece between them is normalized (" " becomes U+2581) and merged by rank
 * over the whole piece, lowest rank first and leftmost among equals, with a heap: O(n log n), no recursion.
 * Characters without a token become their byte tokens, or unk where those are missing. Decoding: U+2581
 * becomes a space, byte tokens become bytes, nothing is stripped.
 *
 * Source of the rules: docs/gemma4.md section 5 and the published behaviour of the tokenizers
 * library for this file format. The object is read-only after loading and may be shared. */
#ifndef LAP_TEXT_TOKENIZER_H
#define LAP_TEXT_TOKENIZER_H

#include "base/error.h"

/* Reads a tokenizer.json. Errors: IO, FORMAT (naming the field), UNSUPPORTED (another model type,
 * normalizer, pre-tokenizer or decoder than those above, added tokens that strip or need word
 * boundaries, a file larger than 256 MiB or a token longer than 1024 bytes), MEMORY. */
lap_status lap_tokenizer_open(const char *path, lap_tokenizer **out, lap_error *error);

/* The same from memory; `name` is used in messages. */
lap_status lap_tokenizer_open_memory(const char *text, size_t length, const char *name, lap_tokenizer **out,
                                     lap_error *error);

void lap_tokenizer_close(lap_tokenizer *tokenizer);

/* As lap_detokenize (lapidary.h), for bytes that come as text: appends the whole characters, holds back the
 * beginning of one, and writes U+FFFD for each maximal broken part. */
lap_status lap_detokenize_text(lap_detokenizer *state, const char *bytes, size_t count, char **text,
                               size_t *length, size_t *capacity, lap_error *error);

/* BPE alone: no added token is sought in the text. For tests, which compare it with the definition. */
lap_status lap_tokenizer_encode_merges(const lap_tokenizer *tokenizer, const char *text, size_t length,
                                       int32_t **ids, size_t *count, lap_error *error);

/* As lap_tokenizer_encode_marked (lapidary.h), beginning with `bos` exactly once, however often the text
 * begins with it; -1: without one. */
lap_status lap_tokenizer_encode_prompt(const lap_tokenizer *tokenizer, int32_t bos, const char *text,
                                       size_t length, const lap_range *trusted, size_t trusted_count,
                                       int32_t **ids, size_t *count, lap_error *error);

enum {
  /* The longest token of the Gemma family has 93 bytes. The limit bounds the work that a file can ask
   * for at one position of the text, and for one merge rule. */
  LAP_TOKEN_MAX_BYTES = 1024
};

/* The bytes that a token adds to the output, written to `bytes` [LAP_TOKEN_MAX_BYTES]: its content with
 * spaces for U+2581, the one byte of a byte token (which may be a part of a character). Special tokens have
 * those of their content. Returns their number; 0 if no token has the id. */
size_t lap_tokenizer_token_bytes(const lap_tokenizer *tokenizer, int32_t id, char *bytes);

/* The rest is public: lapidary.h. */

#endif
