/* method_text.c: the methods of str. */
#include "jinja/call.h"
#include "jinja/format.h"
#include "jinja/iterate.h"
#include "jinja/tables.h"
#include "jinja/text_operation.h"
#include "jinja/unicode.h"

/* ---- case ---- */

static value text_upper(state *s, call *c) {
  return lap_jinja_change_case(s, c->self.string, CASING_UPPER);
}

static value text_lower(state *s, call *c) {
  return lap_jinja_change_case(s, c->self.string, CASING_LOWER);
}

static value text_casefold(state *s, call *c) {
  return lap_jinja_change_case(s, c->self.string, CASING_FOLD);
}

static value text_capitalize(state *s, call *c) {
  return lap_jinja_change_case(s, c->self.string, CASING_CAPITALIZE);
}

static value text_title(state *s, call *c) {
  return lap_jinja_change_case(s, c->self.string, CASING_TITLE);
}

static value text_swapcase(state *s, call *c) {
  return lap_jinja_change_case(s, c->self.string, CASING_SWAP);
}

/* ---- stripping and padding ---- */

static value strip(state *s, const call *c, bool left, bool right) {
  const string *characters = lap_jinja_has_argument(c, 0) ? lap_jinja_text_argument(s, c, 0) : NULL;
  return lap_jinja_strip(s, c->self.string, characters, left, right);
}

static value text_strip(state *s, call *c) {
  return strip(s, c, true, true);
}

static value text_lstrip(state *s, call *c) {
  return strip(s, c, true, false);
}

static value text_rstrip(state *s, call *c) {
  return strip(s, c, false, true);
}

static const string *fill_argument(state *s, const call *c, size_t index) {
  static const string space = {.text = " ", .length = 1};
  if (!c->given[index]) return &space;
  const string *fill = lap_jinja_text_argument(s, c, index);
  if (lap_jinja_count_characters(fill->text, fill->length) != 1)
    lap_jinja_fail(s, "%s: the fill character must be exactly one character long", c->name);
  return fill;
}

static value text_center(state *s, call *c) {
  return lap_jinja_center(s, c->self.string, lap_jinja_as_integer(s, c->argument[0]), fill_argument(s, c, 1));
}

static value pad(state *s, const call *c, bool left) {
  int64_t width = lap_jinja_as_integer(s, c->argument[0]);
  lap_jinja_field field = {
      .width = width > 0 ? (size_t)width : 0, .precision = -1, .fill = fill_argument(s, c, 1)};
  lap_jinja_out out = {0};
  lap_jinja_add_field(s, &out, c->self.string, &field, left ? '>' : '<');
  return lap_jinja_out_value(s, &out);
}

static value text_ljust(state *s, call *c) {
  return pad(s, c, false);
}

static value text_rjust(state *s, call *c) {
  return pad(s, c, true);
}

static value text_zfill(state *s, call *c) {
  static const string zero = {.text = "0", .length = 1};
  const string *text = c->self.string;
  int64_t width = lap_jinja_as_integer(s, c->argument[0]);
  size_t length = lap_jinja_count(s, c->self),
         sign = text->length && (text->text[0] == '-' || text->text[0] == '+');
  lap_jinja_out out = {0};
  lap_jinja_add_part(s, &out, text, 0, sign);
  lap_jinja_add_repeated(s, &out, &zero, width > 0 && (size_t)width > length ? (size_t)width - length : 0);
  lap_jinja_add_part(s, &out, text, sign, text->length - sign);
  return lap_jinja_out_value(s, &out);
}

static value text_expandtabs(state *s, call *c) {
  const string *text = c->self.string;
  int64_t size = lap_jinja_integer_argument(s, c, 0, 8);
  lap_jinja_out out = {0};
  size_t column = 0;
  for (size_t at = 0; at < text->length;) {
    uint32_t code;
    size_t bytes = lap_jinja_decode(text->text + at, text->length - at, &code);
    if (code == '\t') {
      size_t spaces = size > 0 ? (size_t)size - column % (size_t)size : 0;
      lap_jinja_add_spaces(s, &out, spaces);
      column += spaces;
    } else {
      lap_jinja_add_part(s, &out, text, at, bytes);
      column = code == '\n' || code == '\r' ? 0 : column + 1;
    }
    at += bytes;
  }
  return lap_jinja_out_value(s, &out);
}

/* ---- splitting and joining ---- */

static value split(state *s, const call *c, bool right) {
  const string *separator = lap_jinja_has_argument(c, 0) ? lap_jinja_text_argument(s, c, 0) : NULL;
  return lap_jinja_list_value(
      lap_jinja_split(s, c->self.string, separator, lap_jinja_integer_argument(s, c, 1, -1), right));
}

static value text_split(state *s, call *c) {
  return split(s, c, false);
}

static value text_rsplit(state *s, call *c) {
  return split(s, c, true);
}

static value text_splitlines(state *s, call *c) {
  return lap_jinja_list_value(
      lap_jinja_split_lines(s, c->self.string, lap_jinja_truth_argument(s, c, 0, false)));
}

static value text_join(state *s, call *c) {
  return lap_jinja_join(s, c->self.string, c->argument[0], true);
}

/* Before, at and behind a separator. */
static value partition(state *s, const call *c, bool last) {
  const string *text = c->self.string, *separator = lap_jinja_text_argument(s, c, 0);
  if (!separator->length) lap_jinja_fail(s, "empty separator");
  list *parts = lap_jinja_list_create(&s->arena, 3);
  size_t found = lap_jinja_find_text(s, text, 0, text->length, separator, last);
  size_t begin = found == SIZE_MAX ? last ? 0 : text->length : found;
  size_t end = found == SIZE_MAX ? begin : found + separator->length;
  lap_jinja_list_push(&s->arena, parts, lap_jinja_slice(&s->arena, text, 0, begin));
  lap_jinja_list_push(&s->arena, parts, lap_jinja_slice(&s->arena, text, begin, end - begin));
  lap_jinja_list_push(&s->arena, parts, lap_jinja_slice(&s->arena, text, end, text->length - end));
  return lap_jinja_tuple_value(parts);
}

static value text_partition(state *s, call *c) {
  return partition(s, c, false);
}

static value text_rpartition(state *s, call *c) {
  return partition(s, c, true);
}

static value text_replace(state *s, call *c) {
  return lap_jinja_replace(s, c->self.string, lap_jinja_text_argument(s, c, 0),
                           lap_jinja_text_argument(s, c, 1), lap_jinja_integer_argument(s, c, 2, -1));
}

/* ---- searching ---- */

typedef struct searched {
  size_t begin, end; /* bytes; begin > end if the range is empty in a way that nothing is found */
} searched;

/* The part of the text between two arguments, counted in characters as slices are. */
static searched search_range(state *s, const call *c) {
  const string *text = c->self.string;
  searched range = {0, text->length};
  if (!lap_jinja_has_argument(c, 1) && !lap_jinja_has_argument(c, 2)) return range;
  int64_t length = (int64_t)lap_jinja_count(s, c->self);
  int64_t begin = lap_jinja_has_argument(c, 1) ? lap_jinja_integer_argument(s, c, 1, 0) : 0;
  int64_t end = lap_jinja_has_argument(c, 2) ? lap_jinja_integer_argument(s, c, 2, 0) : length;
  if (begin < 0) begin = begin < -length ? 0 : begin + length;
  if (end < 0) end = end < -length ? 0 : end + length;
  if (begin > length || begin > end) return (searched){1, 0};
  range.begin = lap_jinja_byte_offset(text->text, text->length, (size_t)begin);
  range.end = lap_jinja_byte_offset(text->text, text->length, (size_t)end);
  return range;
}

static int64_t find(state *s, const call *c, bool last) {
  const string *text = c->self.string;
  searched range = search_range(s, c);
  size_t found = lap_jinja_find_text(s, text, range.begin, range.end, lap_jinja_text_argument(s, c, 0), last);
  if (found == SIZE_MAX) return -1;
  lap_jinja_step_bytes(s, found);
  return (int64_t)lap_jinja_count_characters(text->text, found);
}

static value text_find(state *s, call *c) {
  return lap_jinja_integer(find(s, c, false));
}

static value text_rfind(state *s, call *c) {
  return lap_jinja_integer(find(s, c, true));
}

static value found_index(state *s, int64_t index) {
  if (index < 0) lap_jinja_fail(s, "substring not found");
  return lap_jinja_integer(index);
}

static value text_index(state *s, call *c) {
  return found_index(s, find(s, c, false));
}

static value text_rindex(state *s, call *c) {
  return found_index(s, find(s, c, true));
}

static value text_count(state *s, call *c) {
  const string *text = c->self.string, *part = lap_jinja_text_argument(s, c, 0);
  searched range = search_range(s, c);
  if (range.begin > range.end) return lap_jinja_integer(0);
  if (!part->length)
    return lap_jinja_integer(
        (int64_t)lap_jinja_count_characters(text->text + range.begin, range.end - range.begin) + 1);
  int64_t count = 0;
  for (;; count++) {
    size_t found = lap_jinja_find_text(s, text, range.begin, range.end, part, false);
    if (found == SIZE_MAX) return lap_jinja_integer(count);
    range.begin = found + part->length;
  }
}

static bool has_affix(const string *text, searched range, const string *affix, bool end) {
  if (range.begin > range.end || affix->length > range.end - range.begin) return false;
  return !memcmp(text->text + (end ? range.end - affix->length : range.begin), affix->text, affix->length);
}

/* Is one of the affixes (a string, or a tuple of them) at the begin, or end? */
static value test_affix(state *s, const call *c, bool end) {
  searched range = search_range(s, c);
  if (c->argument[0].type != LAP_JINJA_TUPLE)
    return lap_jinja_boolean(has_affix(c->self.string, range, lap_jinja_text_argument(s, c, 0), end));
  const list *affixes = c->argument[0].list;
  lap_jinja_step(s, affixes->count);
  for (size_t i = 0; i < affixes->count; i++) {
    if (affixes->items[i].type != LAP_JINJA_STRING)
      lap_jinja_fail(s, "%s: the tuple may hold strings only", c->name);
    if (has_affix(c->self.string, range, affixes->items[i].string, end)) return lap_jinja_boolean(true);
  }
  return lap_jinja_boolean(false);
}

static value text_startswith(state *s, call *c) {
  return test_affix(s, c, false);
}

static value text_endswith(state *s, call *c) {
  return test_affix(s, c, true);
}

static value text_removeprefix(state *s, call *c) {
  const string *text = c->self.string, *affix = lap_jinja_text_argument(s, c, 0);
  size_t cut = has_affix(text, (searched){0, text->length}, affix, false) ? affix->length : 0;
  return lap_jinja_slice(&s->arena, text, cut, text->length - cut);
}

static value text_removesuffix(state *s, call *c) {
  const string *text = c->self.string, *affix = lap_jinja_text_argument(s, c, 0);
  size_t cut = has_affix(text, (searched){0, text->length}, affix, true) ? affix->length : 0;
  return lap_jinja_slice(&s->arena, text, 0, text->length - cut);
}

/* ---- what the characters are ---- */

/* Not empty, and all characters satisfy. */
static value test_all(state *s, const call *c, bool (*holds)(uint32_t code), bool empty) {
  const string *text = c->self.string;
  lap_jinja_step_bytes(s, text->length);
  for (size_t at = 0; at < text->length;) {
    uint32_t code;
    at += lap_jinja_decode(text->text + at, text->length - at, &code);
    if (!holds(code)) return lap_jinja_boolean(false);
  }
  return lap_jinja_boolean(text->length || empty);
}

static bool is_alphanumeric(uint32_t code) {
  return lap_jinja_is_alphabetic(code) || lap_jinja_is_numeric(code);
}

static bool is_ascii(uint32_t code) {
  return code < 0x80;
}

static value text_isalnum(state *s, call *c) {
  return test_all(s, c, is_alphanumeric, false);
}

static value text_isalpha(state *s, call *c) {
  return test_all(s, c, lap_jinja_is_alphabetic, false);
}

static value text_isascii(state *s, call *c) {
  return test_all(s, c, is_ascii, true);
}

static value text_isdecimal(state *s, call *c) {
  return test_all(s, c, lap_jinja_is_decimal, false);
}

static value text_isdigit(state *s, call *c) {
  return test_all(s, c, lap_jinja_is_digit, false);
}

static value text_isnumeric(state *s, call *c) {
  return test_all(s, c, lap_jinja_is_numeric, false);
}

static value text_isspace(state *s, call *c) {
  return test_all(s, c, lap_jinja_is_space, false);
}

static value text_isprintable(state *s, call *c) {
  return test_all(s, c, lap_jinja_is_printable, true);
}

static value text_islower(state *s, call *c) {
  return lap_jinja_boolean(lap_jinja_has_case(s, c->self.string, false));
}

static value text_isupper(state *s, call *c) {
  return lap_jinja_boolean(lap_jinja_has_case(s, c->self.string, true));
}

/* Capitals only at the begin of words, others only inside, and one word at least. */
static value text_istitle(state *s, call *c) {
  const string *text = c->self.string;
  bool inside = false, found = false;
  lap_jinja_step_bytes(s, text->length);
  for (size_t at = 0; at < text->length;) {
    uint32_t code;
    at += lap_jinja_decode(text->text + at, text->length - at, &code);
    bool capital = lap_jinja_is_upper(code) || lap_jinja_is_title(code), small = lap_jinja_is_lower(code);
    if ((capital && inside) || (small && !capital && !inside)) return lap_jinja_boolean(false);
    inside = capital || small;
    found |= inside;
  }
  return lap_jinja_boolean(found);
}

static value text_isidentifier(state *s, call *c) {
  const string *text = c->self.string;
  uint32_t code;
  if (!text->length) return lap_jinja_boolean(false);
  lap_jinja_step_bytes(s, text->length);
  size_t at = lap_jinja_decode(text->text, text->length, &code);
  bool identifier = lap_jinja_may_begin_name(code);
  while (identifier && at < text->length) {
    at += lap_jinja_decode(text->text + at, text->length - at, &code);
    identifier = lap_jinja_may_continue_name(code);
  }
  return lap_jinja_boolean(identifier);
}

/* ---- format ---- */

static value text_format(state *s, call *c) {
  return lap_jinja_format_braces(s, c->self.string, &c->rest);
}

static value text_format_map(state *s, call *c) {
  lap_jinja_arguments arguments = {0};
  if (c->argument[0].type != LAP_JINJA_DICT) lap_jinja_fail(s, "format_map needs a mapping");
  const dict *d = c->argument[0].dict;
  arguments.keywords = lap_jinja_take_array(&s->arena, d->count, sizeof *arguments.keywords);
  for (size_t i = 0; i < d->count; i++)
    if (d->entries[i].key.type == LAP_JINJA_STRING)
      arguments.keywords[arguments.keyword_count++] =
          (lap_jinja_keyword){.name = d->entries[i].key.string, .value = d->entries[i].value};
  return lap_jinja_format_braces(s, c->self.string, &arguments);
}

const builtin lap_jinja_text_methods[] = {{"capitalize", "", text_capitalize},
                                          {"casefold", "", text_casefold},
                                          {"center", "width fillchar?", text_center},
                                          {"count", "sub start? end?", text_count},
                                          {"endswith", "suffix start? end?", text_endswith},
                                          {"expandtabs", "tabsize?", text_expandtabs},
                                          {"find", "sub start? end?", text_find},
                                          {"format", "* **", text_format},
                                          {"format_map", "mapping", text_format_map},
                                          {"index", "sub start? end?", text_index},
                                          {"isalnum", "", text_isalnum},
                                          {"isalpha", "", text_isalpha},
                                          {"isascii", "", text_isascii},
                                          {"isdecimal", "", text_isdecimal},
                                          {"isdigit", "", text_isdigit},
                                          {"isidentifier", "", text_isidentifier},
                                          {"islower", "", text_islower},
                                          {"isnumeric", "", text_isnumeric},
                                          {"isprintable", "", text_isprintable},
                                          {"isspace", "", text_isspace},
                                          {"istitle", "", text_istitle},
                                          {"isupper", "", text_isupper},
                                          {"join", "iterable", text_join},
                                          {"ljust", "width fillchar?", text_ljust},
                                          {"lower", "", text_lower},
                                          {"lstrip", "chars?", text_lstrip},
                                          {"partition", "sep", text_partition},
                                          {"removeprefix", "prefix", text_removeprefix},
                                          {"removesuffix", "suffix", text_removesuffix},
                                          {"replace", "old new count?", text_replace},
                                          {"rfind", "sub start? end?", text_rfind},
                                          {"rindex", "sub start? end?", text_rindex},
                                          {"rjust", "width fillchar?", text_rjust},
                                          {"rpartition", "sep", text_rpartition},
                                          {"rsplit", "sep? maxsplit?", text_rsplit},
                                          {"rstrip", "chars?", text_rstrip},
                                          {"split", "sep? maxsplit?", text_split},
                                          {"splitlines", "keepends?", text_splitlines},
                                          {"startswith", "prefix start? end?", text_startswith},
                                          {"strip", "chars?", text_strip},
                                          {"swapcase", "", text_swapcase},
                                          {"title", "", text_title},
                                          {"upper", "", text_upper},
                                          {"zfill", "width", text_zfill},
                                          {0}};
