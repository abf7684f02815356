/* tokenizer.c: text to ids and back.
 *
 * Encoding follows the definition of BPE literally: begin with one symbol for each character; among
 * all adjacent pairs with a merge rule, join the pair of the lowest rank, the leftmost of several;
 * repeat. A doubly linked list holds the symbols and a binary heap the candidate pairs, keyed by
 * (rank, position). Joining two symbols makes candidates stale; each symbol knows the rank of its
 * pair with the next one, so a stale entry shows when it is taken out. n symbols cost O(n log n).
 *
 * One observation makes ordinary text fast without changing any result. The content of a token is
 * that of the symbols it was made from, in a row. So the first rule that joins across the boundary
 * between characters a and b joins a token that ends with a to one that begins with b. If no rule
 * does that, nothing is ever joined there, no rule looks across, and the two sides can be merged on
 * their own, each in its own order. Loading therefore notes the pair (last character of the left
 * part, first character of the right part) of each rule in a bitmap, hashed: a collision costs a
 * split, never correctness. With Gemma's vocabulary text falls apart into words, which stay in the
 * first-level cache; text without such a boundary still takes the O(n log n) path as a whole.
 *
 * A special token counts only where all its bytes are trusted. Special and ordinary added tokens stand in
 * tries of their own, so at each position the longest of each kind is sought, the special one no further
 * than trust reaches, and the longer of the two counts.
 *
 * Invariant: the encoder's `piece` holds symbols that have not been merged yet, and between any
 * two of its neighbours a merge is possible as far as the bitmap knows. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_tables.h"
#include "text/tokenizer_utf8.h"

enum {
  MAX_TEXT_BYTES = 1 << 30
};
#define NOWHERE UINT32_MAX

/* ---- the loaded tables ----------------------------------------------------------------------- */

void lap_tokenizer_close(lap_tokenizer *tokenizer) {
  if (!tokenizer) return;
  lap_token_strings_free(&tokenizer->strings);
  lap_merges_free(&tokenizer->merges);
  for (int i = 0; i < 4; i++) lap_trie_free(&tokenizer->added[i / 2][i % 2]);
  free(tokenizer->by_id);
  free(tokenizer);
}

int32_t lap_tokenizer_size(const lap_tokenizer *tokenizer) {
  return tokenizer->size;
}

int32_t lap_tokenizer_id(const lap_tokenizer *tokenizer, const char *text, size_t length) {
  uint32_t number = lap_token_strings_find(&tokenizer->strings, text, length);
  return number == UINT32_MAX ? -1 : tokenizer->strings.tokens[number].id;
}

static const lap_token *token_of(const lap_tokenizer *tokenizer, int32_t id) {
  if (id < 0 || id >= tokenizer->size || tokenizer->by_id[id] == UINT32_MAX) return NULL;
  return &tokenizer->strings.tokens[tokenizer->by_id[id]];
}

const char *lap_tokenizer_token(const lap_tokenizer *tokenizer, int32_t id, size_t *length) {
  const lap_token *token = token_of(tokenizer, id);
  if (!token) return NULL;
  if (length) *length = token->length;
  return tokenizer->strings.text + token->offset;
}

bool lap_tokenizer_is_special(const lap_tokenizer *tokenizer, int32_t id) {
  const lap_token *token = token_of(tokenizer, id);
  return token && token->flags & LAP_TOKEN_SPECIAL;
}

/* ---- merging --------------------------------------------------------------------------------- */

typedef struct symbol {
  int32_t id;
  int32_t rank;   /* of the rule that joins it to the next symbol; LAP_NO_RANK: none, or it is gone */
  int32_t merged; /* id that the rule makes */
  uint32_t previous, next;
} symbol;

typedef struct encoder {
  const lap_tokenizer *tokenizer;
  const char *text;         /* as given */
  const lap_range *trusted; /* ascending, not touching */
  size_t trusted_count;
  size_t reached[2]; /* by pass: ranges that end before the position, which only grows */
  symbol *piece;
  size_t piece_count, piece_capacity;
  uint32_t last; /* last character of the piece */
  bool after_unk;
  uint64_t *heap; /* rank << 32 | position */
  size_t heap_count, heap_capacity;
  int32_t *ids;
  size_t id_count, id_capacity;
} encoder;

/* Makes `*array` hold `count` elements of `size` bytes, at least doubling it. */
static lap_status reserve(void **array, size_t count, size_t *capacity, size_t size, lap_error *error) {
  if (count <= *capacity) return LAP_OK;
  size_t larger = 2 * *capacity > count ? 2 * *capacity : count;
  void *grown = realloc(*array, larger * size);
  if (!grown) return lap_fail(error, LAP_ERROR_MEMORY, "tokenizer: out of memory for %zu symbols", count);
  *array = grown;
  *capacity = larger;
  return LAP_OK;
}

static void heap_push(encoder *e, uint64_t entry) {
  size_t at = e->heap_count++;
  for (size_t parent; at > 0 && e->heap[parent = (at - 1) / 2] > entry; at = parent)
    e->heap[at] = e->heap[parent];
  e->heap[at] = entry;
}

static uint64_t heap_pop(encoder *e) {
  uint64_t top = e->heap[0], entry = e->heap[--e->heap_count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < e->heap_count; at = child) {
    if (child + 1 < e->heap_count && e->heap[child + 1] < e->heap[child]) child++;
    if (e->heap[child] >= entry) break;
    e->heap[at] = e->heap[child];
  }
  e->heap[at] = entry;
  return top;
}

/* Looks up the rule for the symbol and its next one. */
static void find_rule(const encoder *e, uint32_t at) {
  symbol *s = &e->piece[at];
  s->rank = LAP_NO_RANK;
  if (s->next == NOWHERE) return;
  const lap_merge *merge = lap_merges_find(&e->tokenizer->merges, s->id, e->piece[s->next].id);
  if (!merge) return;
  s->rank = merge->rank;
  s->merged = merge->merged;
}

/* Replaces the symbol and its next one by what the rule makes of them. */
static void join(const encoder *e, uint32_t at) {
  symbol *left = &e->piece[at], *right = &e->piece[left->next];
  left->id = left->merged;
  left->next = right->next;
  if (left->next != NOWHERE) e->piece[left->next].previous = at;
  right->rank = LAP_NO_RANK;
  find_rule(e, at);
  if (left->previous != NOWHERE) find_rule(e, left->previous);
}

static void push_candidate(encoder *e, uint32_t at) {
  if (at != NOWHERE && e->piece[at].rank != LAP_NO_RANK) heap_push(e, (uint64_t)e->piece[at].rank << 32 | at);
}

/* The heap holds at most one entry for each pair at the start and one more after each join (it takes
 * one out and puts in two): fewer than twice the symbols. */
static lap_status merge_with_heap(encoder *e, lap_error *error) {
  void *heap = e->heap;
  lap_status status = reserve(&heap, 2 * e->piece_count, &e->heap_capacity, sizeof *e->heap, error);
  e->heap = heap;
  if (status != LAP_OK) return status;
  e->heap_count = 0;
  for (uint32_t i = 0; i < e->piece_count; i++) push_candidate(e, i);
  while (e->heap_count > 0) {
    uint64_t entry = heap_pop(e);
    uint32_t at = (uint32_t)entry;
    if ((uint64_t)e->piece[at].rank != entry >> 32) continue; /* stale */
    join(e, at);
    push_candidate(e, at);
    push_candidate(e, e->piece[at].previous);
  }
  return LAP_OK;
}

static lap_status emit(encoder *e, int32_t id, lap_error *error) {
  if (e->id_count == e->id_capacity) {
    void *ids = e->ids;
    lap_status status = reserve(&ids, e->id_count + 1, &e->id_capacity, sizeof *e->ids, error);
    e->ids = ids;
    if (status != LAP_OK) return status;
  }
  e->ids[e->id_count++] = id;
  return LAP_OK;
}

/* Merges the piece, emits its ids and begins a new one. */
static lap_status flush(encoder *e, lap_error *error) {
  size_t count = e->piece_count;
  if (count == 0) return LAP_OK;
  for (uint32_t i = 0; i < count; i++) {
    e->piece[i].previous = i == 0 ? NOWHERE : i - 1;
    e->piece[i].next = i + 1 == count ? NOWHERE : i + 1;
    find_rule(e, i);
  }
  lap_status status = merge_with_heap(e, error);
  for (uint32_t i = 0; status == LAP_OK && i != NOWHERE; i = e->piece[i].next)
    status = emit(e, e->piece[i].id, error);
  e->piece_count = 0;
  return status;
}

/* ---- from characters to symbols -------------------------------------------------------------- */

/* Adds a symbol whose content begins and ends with these characters. */
static lap_status add_symbol(encoder *e, int32_t id, uint32_t first, uint32_t last, lap_error *error) {
  lap_status status = LAP_OK;
  if (e->piece_count > 0 && !lap_boundary_may_join(&e->tokenizer->merges, e->last, first))
    status = flush(e, error);
  if (status == LAP_OK && e->piece_count == e->piece_capacity) {
    void *piece = e->piece;
    status = reserve(&piece, e->piece_count + 1, &e->piece_capacity, sizeof *e->piece, error);
    e->piece = piece;
  }
  if (status != LAP_OK) return status;
  e->piece[e->piece_count++].id = id;
  e->last = last;
  e->after_unk = false;
  return LAP_OK;
}

/* A character without a token: its byte tokens if there is one for each byte, else unk, once for a
 * run of such characters if the file says so. */
static lap_status add_unknown(encoder *e, const char *text, size_t bytes, lap_error *error) {
  const lap_tokenizer *t = e->tokenizer;
  bool covered = true;
  for (size_t i = 0; i < bytes; i++) covered = covered && t->bytes[(unsigned char)text[i]] >= 0;
  if (!covered && e->after_unk && t->fuse_unk) return LAP_OK;
  lap_status status = LAP_OK;
  if (!covered) {
    status = add_symbol(e, t->unk, t->unk_first, t->unk_last, error);
    e->after_unk = true;
  } else {
    for (size_t i = 0; i < bytes && status == LAP_OK; i++)
      status = add_symbol(e, t->bytes[(unsigned char)text[i]], '<', '>', error);
  }
  return status;
}

static int32_t character_id(const lap_tokenizer *t, const char *text, size_t bytes, uint32_t code) {
  return code < 128 ? t->ascii[code] : lap_character_id(t, text, bytes);
}

/* Text between added tokens. */
static lap_status encode_plain(encoder *e, const char *text, size_t length, lap_error *error) {
  lap_status status = LAP_OK;
  e->after_unk = false;
  for (size_t at = 0, bytes; at < length && status == LAP_OK; at += bytes) {
    const char *character = text + at;
    uint32_t code = 0;
    size_t content = bytes = utf8_decode(character, length - at, &code);
    if (bytes == 0) { /* no character begins here: one byte for itself */
      bytes = 1;
      status = add_unknown(e, character, 1, error);
      continue;
    }
    if (code == ' ') {
      character = LAP_SPACE_MARK;
      content = sizeof LAP_SPACE_MARK - 1;
      code = 0x2581;
    }
    int32_t id = character_id(e->tokenizer, character, content, code);
    status = id < 0 ? add_unknown(e, character, content, error) : add_symbol(e, id, code, code, error);
  }
  return status == LAP_OK ? flush(e, error) : status;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* How many bytes from `at` on are trusted. */
static size_t trusted_bytes(encoder *e, int pass, const char *at) {
  size_t position = (size_t)(at - e->text), *next = &e->reached[pass];
  while (*next < e->trusted_count && e->trusted[*next].end <= position) ++*next;
  if (*next == e->trusted_count || e->trusted[*next].begin > position) return 0;
  return e->trusted[*next].end - position;
}

/* The longest added token at the start of `text` that counts there; its bytes, or 0. */
static size_t match_added(encoder *e, int pass, const char *text, size_t length, int32_t *id) {
  const lap_trie *ordinary = &e->tokenizer->added[pass][0], *special = &e->tokenizer->added[pass][1];
  unsigned char first = (unsigned char)text[0];
  size_t bytes = ordinary->begins[first] ? lap_trie_match(ordinary, text, length, id) : 0;
  if (!special->begins[first]) return bytes;
  size_t trusted = trusted_bytes(e, pass, text);
  int32_t special_id = -1;
  size_t special_bytes = lap_trie_match(special, text, trusted < length ? trusted : length, &special_id);
  if (special_bytes <= bytes) return bytes;
  *id = special_id;
  return special_bytes;
}

/* Emits the added tokens of a pass and hands what stands between them to the next one, at last to
 * merging. */
static lap_status cut_at_added(encoder *e, int pass, const char *text, size_t length, lap_error *error) {
  if (pass == 2) return encode_plain(e, text, length, error);
  lap_status status = LAP_OK;
  size_t begin = 0;
  for (size_t at = 0; at < length && status == LAP_OK;) {
    int32_t id = -1;
    size_t bytes = match_added(e, pass, text + at, length - at, &id);
    if (bytes == 0) {
      at++;
      continue;
    }
    if (at > begin) status = cut_at_added(e, pass + 1, text + begin, at - begin, error);
    if (status == LAP_OK) status = emit(e, id, error);
    begin = at += bytes;
  }
  if (status == LAP_OK && begin < length)
    status = cut_at_added(e, pass + 1, text + begin, length - begin, error);
  return status;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* Encodes from a pass on: 0 as it is meant, 2 without added tokens. */
static lap_status encode_from(encoder *e, int pass, size_t length, int32_t **ids, size_t *count,
                              lap_error *error) {
  *ids = NULL;
  *count = 0;
  if (length > MAX_TEXT_BYTES)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "tokenizer: text of %zu bytes, longer than 1 GiB", length);
  void *allocated = NULL; /* never NULL on success, even for no ids */
  lap_status status = reserve(&allocated, length / 4 + 1, &e->id_capacity, sizeof *e->ids, error);
  e->ids = allocated;
  if (status == LAP_OK) status = cut_at_added(e, pass, e->text, length, error);
  free(e->piece);
  free(e->heap);
  if (status != LAP_OK) {
    free(e->ids);
    return status;
  }
  *ids = e->ids;
  *count = e->id_count;
  return LAP_OK;
}

lap_status lap_tokenizer_encode_merges(const lap_tokenizer *tokenizer, const char *text, size_t length,
                                       int32_t **ids, size_t *count, lap_error *error) {
  encoder e = {.tokenizer = tokenizer, .text = text};
  return encode_from(&e, 2, length, ids, count, error);
}

lap_status lap_tokenizer_encode(const lap_tokenizer *tokenizer, const char *text, size_t length,
                                bool parse_special, int32_t **ids, size_t *count, lap_error *error) {
  const lap_range whole = {0, length};
  encoder e = {.tokenizer = tokenizer, .text = text, .trusted = &whole, .trusted_count = parse_special};
  return encode_from(&e, 0, length, ids, count, error);
}

static lap_status check_ranges(const lap_range *ranges, size_t count, size_t length, lap_error *error) {
  size_t end = 0;
  for (size_t i = 0; i < count; i++) {
    if (ranges[i].begin > ranges[i].end || ranges[i].end > length || ranges[i].begin < end)
      return lap_fail(error, LAP_ERROR_ARGUMENT,
                      "tokenizer: trusted[%zu]: bytes %zu to %zu do not follow byte %zu in a text of %zu", i,
                      ranges[i].begin, ranges[i].end, end, length);
    end = ranges[i].end;
  }
  return LAP_OK;
}

/* Ranges that touch become one, so that a token may lie in several. */
static size_t join_ranges(const lap_range *ranges, size_t count, lap_range *out) {
  size_t joined = 0;
  for (size_t i = 0; i < count; i++) {
    if (joined > 0 && out[joined - 1].end == ranges[i].begin)
      out[joined - 1].end = ranges[i].end;
    else
      out[joined++] = ranges[i];
  }
  return joined;
}

lap_status lap_tokenizer_encode_marked(const lap_tokenizer *tokenizer, const char *text, size_t length,
                                       const lap_range *trusted, size_t trusted_count, int32_t **ids,
                                       size_t *count, lap_error *error) {
  *ids = NULL;
  *count = 0;
  lap_status status = check_ranges(trusted, trusted_count, length, error);
  if (status != LAP_OK) return status;
  lap_range *joined = calloc(trusted_count + 1, sizeof *joined);
  if (!joined)
    return lap_fail(error, LAP_ERROR_MEMORY, "tokenizer: out of memory for %zu ranges", trusted_count);
  encoder e = {.tokenizer = tokenizer,
               .text = text,
               .trusted = joined,
               .trusted_count = join_ranges(trusted, trusted_count, joined)};
  status = encode_from(&e, 0, length, ids, count, error);
  free(joined);
  return status;
}

lap_status lap_tokenizer_encode_prompt(const lap_tokenizer *tokenizer, int32_t bos, const char *text,
                                       size_t length, const lap_range *trusted, size_t trusted_count,
                                       int32_t **ids, size_t *count, lap_error *error) {
  int32_t *body = NULL;
  size_t body_count = 0;
  *ids = NULL;
  *count = 0;
  lap_status status =
      lap_tokenizer_encode_marked(tokenizer, text, length, trusted, trusted_count, &body, &body_count, error);
  if (status != LAP_OK) return status;
  size_t spelled = 0, head = bos >= 0;
  while (head && spelled < body_count && body[spelled] == bos) spelled++;
  *count = head + body_count - spelled;
  *ids = malloc((*count + 1) * sizeof **ids);
  if (*ids) {
    if (head) (*ids)[0] = bos;
    if (body_count > spelled) memcpy(*ids + head, body + spelled, (body_count - spelled) * sizeof **ids);
  } else {
    status = lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %zu tokens", *count);
  }
  free(body);
  return status;
}

/* ---- decoding -------------------------------------------------------------------------------- */

#define REPLACEMENT "\xef\xbf\xbd"

typedef struct output {
  char **text;
  size_t *length, *capacity;
  lap_error *error;
} output;

static lap_status write_bytes(const output *out, const char *bytes, size_t count) {
  if (*out->capacity < *out->length + count + 1) {
    size_t capacity = 2 * *out->capacity + count + 64;
    char *grown = realloc(*out->text, capacity);
    if (!grown) return lap_fail(out->error, LAP_ERROR_MEMORY, "detokenizer: out of memory");
    *out->text = grown;
    *out->capacity = capacity;
  }
  memcpy(*out->text + *out->length, bytes, count);
  *out->length += count;
  (*out->text)[*out->length] = '\0';
  return LAP_OK;
}

/* The value of a byte token `<0xHH>`, or -1. */
static int byte_value(const char *content, size_t length) {
  if (length != 6 || memcmp(content, "<0x", 3) != 0 || content[5] != '>') return -1;
  int value = 0;
  for (int i = 3; i < 5; i++) {
    const char *digits = "0123456789ABCDEFabcdef";
    const char *digit = content[i] ? strchr(digits, content[i]) : NULL;
    if (!digit) return -1;
    int ordinal = (int)(digit - digits);
    value = value * 16 + (ordinal < 16 ? ordinal : ordinal - 6);
  }
  return value;
}

static lap_status release_held(lap_detokenizer *state, const output *out) {
  if (state->held_bytes == 0) return LAP_OK;
  state->held_bytes = 0;
  return write_bytes(out, REPLACEMENT, 3);
}

/* `held` is always the beginning of a character and not all of it. A byte that cannot go on with it
 * ends a maximal broken part and then counts for itself. */
static lap_status write_byte(lap_detokenizer *state, unsigned char byte, const output *out) {
  if (state->held_bytes > 0 && !utf8_may_follow(state->held[0], state->held_bytes, byte)) {
    lap_status status = release_held(state, out);
    if (status != LAP_OK) return status;
  }
  if (state->held_bytes == 0 && utf8_length(byte) == 0) return write_bytes(out, REPLACEMENT, 3);
  state->held[state->held_bytes++] = byte;
  size_t bytes = utf8_length(state->held[0]);
  if (state->held_bytes < bytes) return LAP_OK;
  state->held_bytes = 0;
  char character[4];
  memcpy(character, state->held, bytes);
  return write_bytes(out, character, bytes);
}

/* Copies a token's content with spaces for U+2581; it can only become shorter. Returns its length. */
static size_t spell_content(const char *content, size_t length, char *out) {
  size_t written = 0;
  while (length > 0) {
    const char *mark = memmem(content, length, LAP_SPACE_MARK, 3);
    size_t before = mark ? (size_t)(mark - content) : length;
    memcpy(out + written, content, before);
    written += before;
    if (mark) out[written++] = ' ';
    size_t used = mark ? before + 3 : before;
    content += used;
    length -= used;
  }
  return written;
}

/* The byte that a byte token stands for, or -1. */
static int byte_of(const lap_tokenizer *tokenizer, const lap_token *token) {
  if (!tokenizer->decodes_bytes) return -1;
  return byte_value(tokenizer->strings.text + token->offset, token->length);
}

size_t lap_tokenizer_token_bytes(const lap_tokenizer *tokenizer, int32_t id, char *bytes) {
  const lap_token *token = token_of(tokenizer, id);
  if (!token) return 0;
  int byte = byte_of(tokenizer, token);
  if (byte < 0) return spell_content(tokenizer->strings.text + token->offset, token->length, bytes);
  bytes[0] = (char)byte;
  return 1;
}

lap_status lap_detokenize(const lap_tokenizer *tokenizer, lap_detokenizer *state, int32_t id,
                          bool show_special, char **text, size_t *length, size_t *capacity,
                          lap_error *error) {
  const output out = {text, length, capacity, error};
  const lap_token *token = token_of(tokenizer, id);
  if (!token) return lap_fail(error, LAP_ERROR_ARGUMENT, "detokenizer: no token has id %d", id);
  if (token->flags & LAP_TOKEN_SPECIAL && !show_special) return write_bytes(&out, "", 0);
  int byte = byte_of(tokenizer, token);
  if (byte >= 0) {
    lap_status status = write_bytes(&out, "", 0);
    return status == LAP_OK ? write_byte(state, (unsigned char)byte, &out) : status;
  }
  char spelled[LAP_TOKEN_MAX_BYTES];
  size_t bytes = spell_content(tokenizer->strings.text + token->offset, token->length, spelled);
  lap_status status = release_held(state, &out);
  return status == LAP_OK ? write_bytes(&out, spelled, bytes) : status;
}

lap_status lap_detokenize_text(lap_detokenizer *state, const char *bytes, size_t count, char **text,
                               size_t *length, size_t *capacity, lap_error *error) {
  const output out = {text, length, capacity, error};
  lap_status status = write_bytes(&out, "", 0);
  for (size_t i = 0; i < count && status == LAP_OK; i++)
    status = write_byte(state, (unsigned char)bytes[i], &out);
  return status;
}

lap_status lap_detokenize_end(lap_detokenizer *state, char **text, size_t *length, size_t *capacity,
                              lap_error *error) {
  const output out = {text, length, capacity, error};
  lap_status status = write_bytes(&out, "", 0);
  return status == LAP_OK ? release_held(state, &out) : status;
}
