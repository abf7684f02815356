/* filter_text.c: filters whose result is a text. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "jinja/call.h"
#include "jinja/format.h"
#include "jinja/loop.h"
#include "jinja/operators.h"
#include "jinja/path.h"
#include "jinja/print.h"
#include "jinja/tables.h"
#include "jinja/text_operation.h"
#include "jinja/unicode.h"

static const string *self_text(state *s, const call *c) {
  return lap_jinja_to_text(s, c->self);
}

/* A text that must be one: the filters that use the methods of str. */
static const string *strict_text(state *s, const call *c) {
  if (c->self.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, c->self);
  if (c->self.type != LAP_JINJA_STRING)
    lap_jinja_fail(s, "%s: '%s' object is no string", c->name, lap_jinja_type_name(c->self));
  return c->self.string;
}

static value filter_upper(state *s, call *c) {
  return lap_jinja_change_case(s, self_text(s, c), CASING_UPPER);
}

static value filter_lower(state *s, call *c) {
  return lap_jinja_change_case(s, self_text(s, c), CASING_LOWER);
}

static value filter_capitalize(state *s, call *c) {
  return lap_jinja_change_case(s, self_text(s, c), CASING_CAPITALIZE);
}

static value filter_title(state *s, call *c) {
  return lap_jinja_change_case(s, self_text(s, c), CASING_WORDS);
}

static value filter_string(state *s, call *c) {
  return lap_jinja_string_value(self_text(s, c));
}

static value filter_trim(state *s, call *c) {
  const string *characters = lap_jinja_has_argument(c, 0) ? lap_jinja_text_argument(s, c, 0) : NULL;
  return lap_jinja_strip(s, self_text(s, c), characters, true, true);
}

static value filter_center(state *s, call *c) {
  static const string space = {.text = " ", .length = 1};
  return lap_jinja_center(s, self_text(s, c), lap_jinja_integer_argument(s, c, 0, 80), &space);
}

static value filter_replace(state *s, call *c) {
  const string *old = lap_jinja_to_text(s, c->argument[0]), *new = lap_jinja_to_text(s, c->argument[1]);
  int64_t count = lap_jinja_has_argument(c, 2) ? lap_jinja_integer_argument(s, c, 2, -1) : -1;
  return lap_jinja_replace(s, self_text(s, c), old, new, count);
}

static value filter_join(state *s, call *c) {
  value separator = c->given[0] ? c->argument[0] : lap_jinja_literal(&s->arena, "", true);
  value items = c->self;
  if (lap_jinja_has_argument(c, 1)) {
    list *mapped = lap_jinja_list_create(&s->arena, 0);
    lap_jinja_iterator iterator = lap_jinja_iterate(s, c->self);
    value item;
    while (lap_jinja_next(s, &iterator, &item))
      lap_jinja_list_push(&s->arena, mapped, lap_jinja_follow(s, item, c->argument[1], NULL));
    items = lap_jinja_list_value(mapped);
  }
  return lap_jinja_join(s, lap_jinja_to_text(s, separator), items, false);
}

static value filter_format(state *s, call *c) {
  value values;
  if (c->rest.count && c->rest.keyword_count) lap_jinja_fail(s, "format takes either arguments or keywords");
  if (c->rest.keyword_count) {
    values = lap_jinja_new_dict(&s->arena);
    for (size_t i = 0; i < c->rest.keyword_count; i++)
      lap_jinja_put(s, values.dict, lap_jinja_string_value(c->rest.keywords[i].name),
                    c->rest.keywords[i].value);
  } else {
    list *l = lap_jinja_list_create(&s->arena, c->rest.count);
    for (size_t i = 0; i < c->rest.count; i++) lap_jinja_list_push(&s->arena, l, c->rest.positional[i]);
    values = lap_jinja_tuple_value(l);
  }
  return lap_jinja_format_percent(s, self_text(s, c), values);
}

/* ---- indent, truncate, wordcount ---- */

static const string *indentation(state *s, const call *c) {
  if (c->given[0] && c->argument[0].type == LAP_JINJA_STRING) return c->argument[0].string;
  return lap_jinja_new_spaces(s, lap_jinja_integer_argument(s, c, 0, 4));
}

static value filter_indent(state *s, call *c) {
  const string *indent = indentation(s, c), *text = strict_text(s, c);
  bool first = lap_jinja_truth_argument(s, c, 1, false), blank = lap_jinja_truth_argument(s, c, 2, false);
  lap_jinja_out out = {0};
  /* A text that ends in a newline has an empty last line. */
  list *lines = lap_jinja_split_lines(
      s, lap_jinja_concatenate(s, text, lap_jinja_literal(&s->arena, "\n", false).string).string, false);
  for (size_t i = 0; i < lines->count; i++) {
    const string *line = lines->items[i].string;
    if (i) lap_jinja_add_made(s, &out, "\n");
    if (i ? blank || line->length : first) lap_jinja_add_string(s, &out, indent);
    lap_jinja_add_string(s, &out, line);
  }
  return lap_jinja_out_value(s, &out);
}

static value filter_truncate(state *s, call *c) {
  value end = c->given[2] ? c->argument[2] : lap_jinja_literal(&s->arena, "...", false);
  int64_t length = lap_jinja_integer_argument(s, c, 0, 255), tail = (int64_t)lap_jinja_length(s, end), limit;
  int64_t leeway = lap_jinja_has_argument(c, 3) ? lap_jinja_integer_argument(s, c, 3, 5) : 5;
  if (length < tail) lap_jinja_fail(s, "truncate: expected length >= %lld", (long long)tail);
  if (leeway < 0) lap_jinja_fail(s, "truncate: expected leeway >= 0");
  if (__builtin_add_overflow(length, leeway, &limit)) limit = INT64_MAX;
  if ((int64_t)lap_jinja_length(s, c->self) <= limit) return c->self;
  const string *text = strict_text(s, c);
  if (end.type != LAP_JINJA_STRING) lap_jinja_fail(s, "truncate: the end must be a string");
  size_t kept = lap_jinja_byte_offset(text->text, text->length, (size_t)(length - tail));
  const char *space = lap_jinja_truth_argument(s, c, 1, false) ? NULL : memrchr(text->text, ' ', kept);
  if (space) kept = (size_t)(space - text->text);
  return lap_jinja_concatenate(s, lap_jinja_slice(&s->arena, text, 0, kept).string, end.string);
}

static value filter_wordcount(state *s, call *c) {
  const string *text = self_text(s, c);
  int64_t words = 0;
  bool inside = false;
  lap_jinja_step_bytes(s, text->length);
  for (size_t at = 0; at < text->length;) {
    uint32_t code;
    at += lap_jinja_decode(text->text + at, text->length - at, &code);
    bool word = code == '_' || lap_jinja_is_alphabetic(code) || lap_jinja_is_numeric(code);
    words += word && !inside;
    inside = word;
  }
  return lap_jinja_integer(words);
}

/* ---- escapes ---- */

static value filter_escape(state *s, call *c) {
  static const char characters[] = "&<>'\"";
  static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  const string *text = self_text(s, c);
  lap_jinja_out out = {0};
  size_t plain = 0;
  for (size_t at = 0; at < text->length; at++) {
    const char *found = text->text[at] ? strchr(characters, text->text[at]) : NULL;
    if (!found) continue;
    const char *entity = entities[found - characters];
    lap_jinja_add_part(s, &out, text, plain, at - plain);
    lap_jinja_add(s, &out, entity, strlen(entity), lap_jinja_mark_at(text, at));
    plain = at + 1;
  }
  lap_jinja_add_part(s, &out, text, plain, text->length - plain);
  return lap_jinja_out_value(s, &out);
}

static value filter_safe(state *s, call *c) {
  return lap_jinja_string_value(self_text(s, c));
}

/* Percent escapes; for a query also of "/", and "+" for spaces. */
static void add_quoted(state *s, lap_jinja_out *out, value v, bool query) {
  const string *text = lap_jinja_to_text(s, v);
  for (size_t at = 0; at < text->length; at++) {
    unsigned char byte = (unsigned char)text->text[at];
    bool plain = isalnum(byte) || (byte && strchr("_.-~", byte)) || (byte == '/' && !query);
    char escaped[4];
    snprintf(escaped, sizeof escaped, byte == ' ' && query ? "+" : plain ? "%c" : "%%%02X", byte);
    lap_jinja_add(s, out, escaped, strlen(escaped), lap_jinja_mark_at(text, at));
  }
}

static value filter_urlencode(state *s, call *c) {
  lap_jinja_out out = {0};
  if (c->self.type == LAP_JINJA_STRING || !lap_jinja_iterable(c->self)) {
    add_quoted(s, &out, c->self, false);
    return lap_jinja_out_value(s, &out);
  }
  value pairs = c->self, pair;
  if (pairs.type == LAP_JINJA_DICT) {
    lap_jinja_view *view = lap_jinja_take(&s->arena, sizeof *view);
    *view = (lap_jinja_view){.of = pairs.dict, .kind = VIEW_ITEMS};
    pairs = lap_jinja_object(LAP_JINJA_VIEW, view);
  }
  lap_jinja_iterator iterator = lap_jinja_iterate(s, pairs);
  for (bool first = true; lap_jinja_next(s, &iterator, &pair); first = false) {
    list *parts = lap_jinja_collect(s, pair);
    if (parts->count != 2) lap_jinja_fail(s, "urlencode: expected pairs");
    if (!first) lap_jinja_add_made(s, &out, "&");
    add_quoted(s, &out, parts->items[0], true);
    lap_jinja_add_made(s, &out, "=");
    add_quoted(s, &out, parts->items[1], true);
  }
  return lap_jinja_out_value(s, &out);
}

const builtin lap_jinja_text_filters[] = {{"capitalize", "", filter_capitalize},
                                          {"center", "width?", filter_center},
                                          {"e", "", filter_escape},
                                          {"escape", "", filter_escape},
                                          {"forceescape", "", filter_escape},
                                          {"format", "* **", filter_format},
                                          {"indent", "width? first? blank?", filter_indent},
                                          {"join", "d? attribute?", filter_join},
                                          {"lower", "", filter_lower},
                                          {"replace", "old new count?", filter_replace},
                                          {"safe", "", filter_safe},
                                          {"string", "", filter_string},
                                          {"title", "", filter_title},
                                          {"trim", "chars?", filter_trim},
                                          {"truncate", "length? killwords? end? leeway?", filter_truncate},
                                          {"upper", "", filter_upper},
                                          {"urlencode", "", filter_urlencode},
                                          {"wordcount", "", filter_wordcount},
                                          {0}};
