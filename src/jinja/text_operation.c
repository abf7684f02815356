/* text_operation.c: see text_operation.h. Positions here are bytes; characters are never cut. */
#include "jinja/text_operation.h"

#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/unicode.h"

enum {
  CAPITAL_SIGMA = 0x3a3
};

static size_t decode_at(const string *text, size_t at, size_t end, uint32_t *code) {
  return lap_jinja_decode(text->text + at, end - at, code);
}

/* ---- case ---- */

/* A capital sigma becomes the final form at the end of a word: behind a letter, before none, not counting
 * what case ignores. */
static bool is_final(const string *text, size_t begin, size_t at, size_t end) {
  uint32_t code;
  bool letter = false;
  for (size_t back = at; back > begin && !letter;) {
    back = begin + lap_jinja_last_character(text->text + begin, back - begin);
    decode_at(text, back, at, &code);
    if (lap_jinja_is_case_ignorable(code)) continue;
    letter = lap_jinja_is_cased(code);
    break;
  }
  if (!letter) return false;
  at += decode_at(text, at, end, &code);
  while (at < end) {
    at += decode_at(text, at, end, &code);
    if (!lap_jinja_is_case_ignorable(code)) return !lap_jinja_is_cased(code);
  }
  return true;
}

/* Appends the character at `at` of [begin, end) in another case; returns its bytes. */
static size_t add_mapped(state *s, lap_jinja_out *out, const string *text, size_t begin, size_t at,
                         size_t end, lap_jinja_case to) {
  char mapped[LAP_JINJA_MAX_CASE_BYTES];
  uint32_t code;
  size_t bytes = decode_at(text, at, end, &code), length;
  if (code == CAPITAL_SIGMA && to == LAP_JINJA_LOWER)
    length = lap_jinja_encode(is_final(text, begin, at, end) ? 0x3c2 : 0x3c3, mapped);
  else
    length = lap_jinja_map_case(code, to, mapped);
  lap_jinja_add(s, out, mapped, length, lap_jinja_mark_at(text, at));
  return bytes;
}

static void add_all_mapped(state *s, lap_jinja_out *out, const string *text, size_t begin, size_t end,
                           lap_jinja_case to) {
  for (size_t at = begin; at < end;) at += add_mapped(s, out, text, begin, at, end, to);
}

static bool begins_word(uint32_t code) {
  return lap_jinja_is_space(code) || (code && code < 0x80 && strchr("-({[<", (int)code));
}

/* The filter `title`: the first character of each word and the rest are mapped apart from one another. */
static void add_words(state *s, lap_jinja_out *out, const string *text) {
  size_t at = 0;
  uint32_t code;
  while (at < text->length) {
    size_t end = at + decode_at(text, at, text->length, &code);
    bool separator = begins_word(code);
    while (end < text->length) {
      size_t bytes = decode_at(text, end, text->length, &code);
      if (begins_word(code) != separator) break;
      end += bytes;
    }
    at += add_mapped(s, out, text, at, at, end, LAP_JINJA_UPPER);
    add_all_mapped(s, out, text, at, end, LAP_JINJA_LOWER);
    at = end;
  }
}

/* str.title and str.swapcase look at each character and the one before. */
static void add_by_character(state *s, lap_jinja_out *out, const string *text, lap_jinja_casing casing) {
  bool after_cased = false;
  for (size_t at = 0; at < text->length;) {
    uint32_t code;
    decode_at(text, at, text->length, &code);
    lap_jinja_case to = casing == CASING_TITLE     ? after_cased ? LAP_JINJA_LOWER : LAP_JINJA_TITLE
                        : lap_jinja_is_upper(code) ? LAP_JINJA_LOWER
                                                   : LAP_JINJA_UPPER;
    after_cased = lap_jinja_is_cased(code);
    if (casing == CASING_SWAP && !lap_jinja_is_upper(code) && !lap_jinja_is_lower(code)) {
      size_t bytes = decode_at(text, at, text->length, &code);
      lap_jinja_add_part(s, out, text, at, bytes);
      at += bytes;
    } else {
      at += add_mapped(s, out, text, 0, at, text->length, to);
    }
  }
}

value lap_jinja_change_case(state *s, const string *text, lap_jinja_casing casing) {
  lap_jinja_out out = {0};
  size_t first = 0;
  lap_jinja_step_bytes(s, 8 * text->length); /* more work than copying */
  switch (casing) {
    case CASING_UPPER:
      add_all_mapped(s, &out, text, 0, text->length, LAP_JINJA_UPPER);
      break;
    case CASING_LOWER:
      add_all_mapped(s, &out, text, 0, text->length, LAP_JINJA_LOWER);
      break;
    case CASING_FOLD:
      add_all_mapped(s, &out, text, 0, text->length, LAP_JINJA_FOLD);
      break;
    case CASING_CAPITALIZE:
      if (text->length) first = add_mapped(s, &out, text, 0, 0, text->length, LAP_JINJA_TITLE);
      while (first < text->length)
        first += add_mapped(s, &out, text, 0, first, text->length, LAP_JINJA_LOWER);
      break;
    case CASING_WORDS:
      add_words(s, &out, text);
      break;
    default:
      add_by_character(s, &out, text, casing);
  }
  return lap_jinja_out_value(s, &out);
}

bool lap_jinja_has_case(state *s, const string *text, bool upper) {
  bool found = false;
  lap_jinja_step_bytes(s, text->length);
  for (size_t at = 0; at < text->length;) {
    uint32_t code;
    at += decode_at(text, at, text->length, &code);
    bool is_upper = lap_jinja_is_upper(code), is_lower = lap_jinja_is_lower(code);
    if (lap_jinja_is_title(code) || (upper ? is_lower : is_upper)) return false;
    found |= is_upper || is_lower;
  }
  return found;
}

/* ---- stripping ---- */

static bool is_among(const string *characters, const char *character, size_t bytes) {
  for (size_t at = 0; at < characters->length;) {
    uint32_t code;
    size_t length = decode_at(characters, at, characters->length, &code);
    if (length == bytes && !memcmp(characters->text + at, character, bytes)) return true;
    at += length;
  }
  return false;
}

static bool strips(state *s, const string *text, size_t at, size_t bytes, const string *characters) {
  uint32_t code;
  if (characters) {
    lap_jinja_step_bytes(s, characters->length);
    return is_among(characters, text->text + at, bytes);
  }
  decode_at(text, at, at + bytes, &code);
  return lap_jinja_is_space(code);
}

value lap_jinja_strip(state *s, const string *text, const string *characters, bool left, bool right) {
  size_t begin = 0, end = text->length;
  lap_jinja_step_bytes(s, text->length);
  while (left && begin < end) {
    uint32_t code;
    size_t bytes = decode_at(text, begin, end, &code);
    if (!strips(s, text, begin, bytes, characters)) break;
    begin += bytes;
  }
  while (right && begin < end) {
    size_t last = begin + lap_jinja_last_character(text->text + begin, end - begin);
    if (!strips(s, text, last, end - last, characters)) break;
    end = last;
  }
  return lap_jinja_slice(&s->arena, text, begin, end - begin);
}

/* ---- finding and replacing ---- */

size_t lap_jinja_find_text(state *s, const string *text, size_t begin, size_t end, const string *part,
                           bool last) {
  lap_jinja_step(s, 1);
  if (begin > end || part->length > end - begin) return SIZE_MAX;
  if (!last) {
    const char *found = memmem(text->text + begin, end - begin, part->text, part->length);
    lap_jinja_step_bytes(s, found ? (size_t)(found - text->text) - begin : end - begin);
    return found ? (size_t)(found - text->text) : SIZE_MAX;
  }
  size_t found = SIZE_MAX, at = end - part->length + 1;
  while (found == SIZE_MAX && at-- > begin) {
    lap_jinja_step_bytes(s, part->length);
    if (!memcmp(text->text + at, part->text, part->length)) found = at;
  }
  lap_jinja_step_bytes(s, found == SIZE_MAX ? end - begin : end - found);
  return found;
}

/* Between all characters, and at both ends. */
static value insert_everywhere(state *s, const string *text, const string *new, int64_t count) {
  lap_jinja_out out = {0};
  size_t at = 0;
  for (; count != 0; count--) {
    lap_jinja_step(s, 1);
    lap_jinja_add_string(s, &out, new);
    if (at == text->length) break;
    uint32_t code;
    size_t bytes = decode_at(text, at, text->length, &code);
    lap_jinja_add_part(s, &out, text, at, bytes);
    at += bytes;
  }
  lap_jinja_add_part(s, &out, text, at, text->length - at);
  return lap_jinja_out_value(s, &out);
}

value lap_jinja_replace(state *s, const string *text, const string *old, const string *new, int64_t count) {
  if (!old->length) return insert_everywhere(s, text, new, count);
  lap_jinja_out out = {0};
  size_t at = 0;
  for (; count != 0; count--) {
    size_t found = lap_jinja_find_text(s, text, at, text->length, old, false);
    if (found == SIZE_MAX) break;
    lap_jinja_add_part(s, &out, text, at, found - at);
    lap_jinja_add_string(s, &out, new);
    at = found + old->length;
  }
  if (!at) return lap_jinja_string_value(text);
  lap_jinja_add_part(s, &out, text, at, text->length - at);
  return lap_jinja_out_value(s, &out);
}

value lap_jinja_center(state *s, const string *text, int64_t width, const string *fill) {
  size_t length = lap_jinja_count_characters(text->text, text->length);
  lap_jinja_step_bytes(s, text->length);
  if (width < 0 || (size_t)width <= length) return lap_jinja_string_value(text);
  size_t room = (size_t)width - length, left = room / 2 + (room & (size_t)width & 1);
  lap_jinja_out out = {0};
  lap_jinja_add_repeated(s, &out, fill, left);
  lap_jinja_add_string(s, &out, text);
  lap_jinja_add_repeated(s, &out, fill, room - left);
  return lap_jinja_out_value(s, &out);
}

/* ---- splitting and joining ---- */

static void push_part(state *s, list *parts, const string *text, size_t begin, size_t end) {
  lap_jinja_list_push(&s->arena, parts, lap_jinja_slice(&s->arena, text, begin, end - begin));
}

static void split_left(state *s, list *parts, const string *text, const string *separator, int64_t max) {
  size_t at = 0;
  for (; max != 0; max--) {
    size_t found = lap_jinja_find_text(s, text, at, text->length, separator, false);
    if (found == SIZE_MAX) break;
    push_part(s, parts, text, at, found);
    at = found + separator->length;
  }
  push_part(s, parts, text, at, text->length);
}

static void split_right(state *s, list *parts, const string *text, const string *separator, int64_t max) {
  size_t end = text->length;
  for (; max != 0; max--) {
    size_t found = lap_jinja_find_text(s, text, 0, end, separator, true);
    if (found == SIZE_MAX) break;
    push_part(s, parts, text, found + separator->length, end);
    end = found;
  }
  push_part(s, parts, text, 0, end);
}

/* The end of whitespace (or of what is none) that begins at `at`. */
static size_t skip_left(const string *text, size_t at, size_t end, bool space) {
  while (at < end) {
    uint32_t code;
    size_t bytes = decode_at(text, at, end, &code);
    if (lap_jinja_is_space(code) != space) break;
    at += bytes;
  }
  return at;
}

static size_t skip_right(const string *text, size_t begin, size_t end, bool space) {
  while (end > begin) {
    size_t last = begin + lap_jinja_last_character(text->text + begin, end - begin);
    uint32_t code;
    decode_at(text, last, end, &code);
    if (lap_jinja_is_space(code) != space) break;
    end = last;
  }
  return end;
}

static void split_words_left(state *s, list *parts, const string *text, int64_t max) {
  size_t at = skip_left(text, 0, text->length, true);
  for (; at < text->length && max != 0; max--) {
    size_t end = skip_left(text, at, text->length, false);
    push_part(s, parts, text, at, end);
    at = skip_left(text, end, text->length, true);
  }
  if (at < text->length) push_part(s, parts, text, at, text->length);
}

static void split_words_right(state *s, list *parts, const string *text, int64_t max) {
  size_t end = skip_right(text, 0, text->length, true);
  for (; end && max != 0; max--) {
    size_t begin = skip_right(text, 0, end, false);
    push_part(s, parts, text, begin, end);
    end = skip_right(text, 0, begin, true);
  }
  if (end) push_part(s, parts, text, 0, end);
}

list *lap_jinja_split(state *s, const string *text, const string *separator, int64_t max, bool right) {
  list *parts = lap_jinja_list_create(&s->arena, 0);
  lap_jinja_step_bytes(s, text->length);
  if (separator && !separator->length) lap_jinja_fail(s, "empty separator");
  if (separator && right)
    split_right(s, parts, text, separator, max);
  else if (separator)
    split_left(s, parts, text, separator, max);
  else if (right)
    split_words_right(s, parts, text, max);
  else
    split_words_left(s, parts, text, max);
  if (right) lap_jinja_list_reverse(parts);
  lap_jinja_step(s, parts->count);
  return parts;
}

list *lap_jinja_split_lines(state *s, const string *text, bool keep_ends) {
  list *lines = lap_jinja_list_create(&s->arena, 0);
  size_t begin = 0, at = 0;
  lap_jinja_step_bytes(s, text->length);
  while (at < text->length) {
    uint32_t code;
    size_t end = at;
    at += decode_at(text, at, text->length, &code);
    if (!lap_jinja_is_line_end(code)) continue;
    if (code == '\r' && at < text->length && text->text[at] == '\n') at++;
    push_part(s, lines, text, begin, keep_ends ? at : end);
    lap_jinja_step(s, 1);
    begin = at;
  }
  if (begin < at) push_part(s, lines, text, begin, at);
  return lines;
}

value lap_jinja_join(state *s, const string *separator, value items, bool strict) {
  lap_jinja_out out = {0};
  lap_jinja_iterator iterator = lap_jinja_iterate(s, items);
  value item;
  for (bool first = true; lap_jinja_next(s, &iterator, &item); first = false) {
    if (strict && item.type != LAP_JINJA_STRING)
      lap_jinja_fail(s, "join: expected str, found '%s'", lap_jinja_type_name(item));
    if (!first) lap_jinja_add_string(s, &out, separator);
    lap_jinja_print(s, &out, item);
  }
  return lap_jinja_out_value(s, &out);
}
