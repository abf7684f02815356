/* filter_json.c: tojson, as transformers defines it: json.dumps, without HTML escapes. */
#include <math.h>
#include <stdio.h>

#include "jinja/call.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/tables.h"
#include "jinja/unicode.h"

typedef struct writer {
  state *s;
  lap_jinja_out *out;
  bool ascii, sort;
  const string *indent; /* of one level; NULL: all in one line */
  const string *item_separator, *key_separator;
  size_t level;
} writer;

static void write_value(writer *w, value v);

static void write_escape(writer *w, uint32_t code, bool from_template) {
  static const char known[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
  const char *found = code && code < 0x80 ? strchr(known, (int)code) : NULL;
  char escape[16];
  if (found)
    snprintf(escape, sizeof escape, "\\%c", letters[found - known]);
  else if (code < 0x10000)
    snprintf(escape, sizeof escape, "\\u%04x", code);
  else
    snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
             0xdc00 + ((code - 0x10000) & 0x3ff));
  lap_jinja_add(w->s, w->out, escape, strlen(escape), from_template);
}

static void write_text(writer *w, const string *text) {
  size_t plain = 0;
  lap_jinja_add_made(w->s, w->out, "\"");
  for (size_t at = 0; at < text->length;) {
    uint32_t code;
    size_t bytes = lap_jinja_decode(text->text + at, text->length - at, &code);
    if (code < ' ' || code == '"' || code == '\\' || (w->ascii && code > '~')) {
      lap_jinja_add_part(w->s, w->out, text, plain, at - plain);
      write_escape(w, code, lap_jinja_mark_at(text, at));
      plain = at + bytes;
    }
    at += bytes;
  }
  lap_jinja_add_part(w->s, w->out, text, plain, text->length - plain);
  lap_jinja_add_made(w->s, w->out, "\"");
}

static void write_word(writer *w, const char *word, value v) {
  lap_jinja_add(w->s, w->out, word, strlen(word), v.from_template);
}

static void write_number(writer *w, value v) {
  if (v.type == LAP_JINJA_REAL && !isfinite(v.real))
    write_word(w, isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity", v);
  else
    lap_jinja_repr(w->s, w->out, v);
}

static void write_constant(writer *w, value v) {
  write_word(w, v.type == LAP_JINJA_NONE ? "null" : v.boolean ? "true" : "false", v);
}

/* Before an item, and before the closing bracket. */
static void write_break(writer *w) {
  if (!w->indent) return;
  lap_jinja_add_made(w->s, w->out, "\n");
  lap_jinja_add_repeated(w->s, w->out, w->indent, w->level);
}

static void begin_item(writer *w, bool first) {
  if (!first) lap_jinja_add_string(w->s, w->out, w->item_separator);
  write_break(w);
}

static void write_list(writer *w, list *l) {
  if (!l->count) {
    lap_jinja_add_made(w->s, w->out, "[]");
    return;
  }
  lap_jinja_add_made(w->s, w->out, "[");
  w->level++;
  for (size_t i = 0; i < l->count; i++) {
    begin_item(w, i == 0);
    write_value(w, l->items[i]);
  }
  w->level--;
  write_break(w);
  lap_jinja_add_made(w->s, w->out, "]");
}

static void write_key(writer *w, value key) {
  bool quoted = lap_jinja_is_number(key) || key.type == LAP_JINJA_NONE;
  if (!quoted && key.type != LAP_JINJA_STRING)
    lap_jinja_fail(w->s, "keys must be str, int, float, bool or None, not %s", lap_jinja_type_name(key));
  if (quoted) lap_jinja_add_made(w->s, w->out, "\"");
  write_value(w, key);
  if (quoted) lap_jinja_add_made(w->s, w->out, "\"");
}

static const lap_jinja_entry *sorted_entries(writer *w, const dict *d) {
  state *s = w->s;
  value *keys = lap_jinja_take_array(&s->arena, d->count, sizeof *keys);
  value *numbers = lap_jinja_take_array(&s->arena, d->count, sizeof *numbers);
  for (size_t i = 0; i < d->count; i++) {
    keys[i] = d->entries[i].key;
    numbers[i] = lap_jinja_integer((int64_t)i);
  }
  lap_jinja_sort(s, numbers, keys, d->count, false);
  lap_jinja_entry *sorted = lap_jinja_take_array(&s->arena, d->count, sizeof *sorted);
  for (size_t i = 0; i < d->count; i++) sorted[i] = d->entries[numbers[i].integer];
  return sorted;
}

static void write_dict(writer *w, const dict *d) {
  if (!d->count) {
    lap_jinja_add_made(w->s, w->out, "{}");
    return;
  }
  const lap_jinja_entry *entries = w->sort ? sorted_entries(w, d) : d->entries;
  lap_jinja_add_made(w->s, w->out, "{");
  w->level++;
  for (size_t i = 0; i < d->count; i++) {
    begin_item(w, i == 0);
    write_key(w, entries[i].key);
    lap_jinja_add_string(w->s, w->out, w->key_separator);
    write_value(w, entries[i].value);
  }
  w->level--;
  write_break(w);
  lap_jinja_add_made(w->s, w->out, "}");
}

static void write_value(writer *w, value v) {
  lap_jinja_descend(w->s);
  switch (v.type) {
    case LAP_JINJA_NONE:
    case LAP_JINJA_BOOLEAN:
      write_constant(w, v);
      break;
    case LAP_JINJA_INTEGER:
    case LAP_JINJA_REAL:
      write_number(w, v);
      break;
    case LAP_JINJA_STRING:
      write_text(w, v.string);
      break;
    case LAP_JINJA_LIST:
    case LAP_JINJA_TUPLE:
      write_list(w, v.list);
      break;
    case LAP_JINJA_DICT:
      write_dict(w, v.dict);
      break;
    default:
      lap_jinja_fail(w->s, "object of type %s is not JSON serializable", lap_jinja_type_name(v));
  }
  lap_jinja_ascend(w->s);
}

/* indent: a number of spaces, or the text itself. */
static const string *indent_argument(state *s, const call *c, size_t index) {
  if (c->self.type == LAP_JINJA_STRING || !lap_jinja_has_argument(c, index)) return NULL;
  if (c->argument[index].type == LAP_JINJA_STRING) return c->argument[index].string;
  return lap_jinja_new_spaces(s, lap_jinja_as_integer(s, c->argument[index]));
}

static value filter_tojson(state *s, call *c) {
  static const string comma = {.text = ",", .length = 1}, comma_space = {.text = ", ", .length = 2};
  static const string colon_space = {.text = ": ", .length = 2};
  lap_jinja_out out = {0};
  writer w = {.s = s,
              .out = &out,
              .ascii = lap_jinja_truth_argument(s, c, 0, false),
              .indent = indent_argument(s, c, 1),
              .sort = lap_jinja_truth_argument(s, c, 3, false),
              .key_separator = &colon_space};
  w.item_separator = w.indent ? &comma : &comma_space;
  if (lap_jinja_has_argument(c, 2)) {
    list *separators = lap_jinja_collect(s, c->argument[2]);
    if (separators->count != 2 || separators->items[0].type != LAP_JINJA_STRING ||
        separators->items[1].type != LAP_JINJA_STRING)
      lap_jinja_fail(s, "tojson: separators are two strings");
    w.item_separator = separators->items[0].string;
    w.key_separator = separators->items[1].string;
  }
  write_value(&w, c->self);
  return lap_jinja_out_value(s, &out);
}

const builtin lap_jinja_json_filters[] = {
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson}, {0}};
