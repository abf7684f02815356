/* print.c: see print.h.
 *
 * What is taken from a string keeps its origin; what is made here (quotes, commas, escapes' backslashes, the
 * digits of numbers that were not the template's) counts as context. */
#include "jinja/print.h"

#include <stdio.h>

#include "jinja/loop.h"
#include "jinja/number.h"
#include "jinja/unicode.h"

typedef lap_jinja_out out_text;

/* ---- repr of strings ---- */

/* Python prefers single quotes, unless that would need escapes that double ones spare. */
static char quote_for(const string *text) {
  bool single = memchr(text->text, '\'', text->length) != NULL;
  bool both = single && memchr(text->text, '"', text->length);
  return single && !both ? '"' : '\'';
}

static void escape_character(state *s, out_text *out, uint32_t code, bool from_template) {
  char escaped[16];
  const char *known = code == '\n' ? "\\n" : code == '\r' ? "\\r" : code == '\t' ? "\\t" : NULL;
  if (known)
    snprintf(escaped, sizeof escaped, "%s", known);
  else
    snprintf(escaped, sizeof escaped,
             code <= 0xff     ? "\\x%02x"
             : code <= 0xffff ? "\\u%04x"
                              : "\\U%08x",
             code);
  lap_jinja_add(s, out, escaped, strlen(escaped), from_template);
}

static void repr_string(state *s, out_text *out, const string *text) {
  char quote = quote_for(text);
  lap_jinja_add(s, out, &quote, 1, false);
  size_t plain = 0, at = 0; /* [plain, at) is copied as it is */
  while (at < text->length) {
    uint32_t code;
    size_t bytes = lap_jinja_decode(text->text + at, text->length - at, &code);
    bool backslash = code == '\\' || code == (unsigned char)quote;
    if (backslash || !lap_jinja_is_printable(code)) {
      lap_jinja_add_part(s, out, text, plain, at - plain);
      bool from_template = lap_jinja_mark_at(text, at);
      if (backslash)
        lap_jinja_add(s, out, "\\", 1, from_template);
      else
        escape_character(s, out, code, from_template);
      plain = backslash ? at : at + bytes;
    }
    at += bytes;
  }
  lap_jinja_add_part(s, out, text, plain, at - plain);
  lap_jinja_add(s, out, &quote, 1, false);
}

/* ---- repr of containers ---- */

static void repr_items(state *s, out_text *out, const list *l) {
  for (size_t i = 0; i < l->count; i++) {
    if (i) lap_jinja_add_made(s, out, ", ");
    lap_jinja_repr(s, out, l->items[i]);
  }
}

static void repr_list(state *s, out_text *out, list *l, const char *open, const char *close) {
  lap_jinja_add_made(s, out, open);
  if (l->printing) {
    lap_jinja_add_made(s, out, "...");
  } else {
    l->printing = true;
    repr_items(s, out, l);
    l->printing = false;
  }
  lap_jinja_add_made(s, out, close);
}

static void repr_dict(state *s, out_text *out, dict *d) {
  lap_jinja_add_made(s, out, "{");
  if (d->printing) {
    lap_jinja_add_made(s, out, "...}");
    return;
  }
  d->printing = true;
  for (size_t i = 0; i < d->count; i++) {
    if (i) lap_jinja_add_made(s, out, ", ");
    lap_jinja_repr(s, out, d->entries[i].key);
    lap_jinja_add_made(s, out, ": ");
    lap_jinja_repr(s, out, d->entries[i].value);
  }
  d->printing = false;
  lap_jinja_add_made(s, out, "}");
}

static void repr_view(state *s, out_text *out, value v) {
  static const char *const names[] = {
      [VIEW_KEYS] = "dict_keys(", [VIEW_VALUES] = "dict_values(", [VIEW_ITEMS] = "dict_items("};
  const lap_jinja_view *view = v.object;
  lap_jinja_add_made(s, out, names[view->kind]);
  repr_list(s, out, lap_jinja_collect(s, v), "[", "])");
}

static void repr_range(state *s, out_text *out, const lap_jinja_range *range) {
  char text[80];
  int length =
      snprintf(text, sizeof text, "range(%lld, %lld", (long long)range->start, (long long)range->stop);
  if (range->step != 1)
    length += snprintf(text + length, sizeof text - (size_t)length, ", %lld", (long long)range->step);
  snprintf(text + length, sizeof text - (size_t)length, ")");
  lap_jinja_add_made(s, out, text);
}

static void repr_macro(state *s, out_text *out, const lap_jinja_macro *macro) {
  lap_jinja_add_made(s, out, "<Macro ");
  repr_string(s, out, macro->definition->value.string);
  lap_jinja_add_made(s, out, ">");
}

static void repr_loop(state *s, out_text *out, lap_jinja_loop *loop) {
  static const string names[] = {{.text = "index", .length = 5}, {.text = "length", .length = 6}};
  value index, length;
  char text[64];
  lap_jinja_loop_attribute(s, loop, &names[0], &index);
  lap_jinja_loop_attribute(s, loop, &names[1], &length);
  snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)index.integer, (long long)length.integer);
  lap_jinja_add_made(s, out, text);
}

static void repr_object(state *s, out_text *out, value v) {
  switch (v.type) {
    case LAP_JINJA_LIST:
      repr_list(s, out, v.list, "[", "]");
      break;
    case LAP_JINJA_TUPLE:
      repr_list(s, out, v.list, "(", v.list->count == 1 ? ",)" : ")");
      break;
    case LAP_JINJA_DICT:
      repr_dict(s, out, v.dict);
      break;
    case LAP_JINJA_NAMESPACE:
      lap_jinja_add_made(s, out, "<Namespace ");
      repr_dict(s, out, v.dict);
      lap_jinja_add_made(s, out, ">");
      break;
    case LAP_JINJA_VIEW:
      repr_view(s, out, v);
      break;
    case LAP_JINJA_RANGE:
      repr_range(s, out, v.object);
      break;
    case LAP_JINJA_MACRO:
      repr_macro(s, out, v.object);
      break;
    case LAP_JINJA_LOOP:
      repr_loop(s, out, v.object);
      break;
    default: /* Python would show an address */
      lap_jinja_add_made(s, out, "<");
      lap_jinja_add_made(s, out, lap_jinja_type_name(v));
      lap_jinja_add_made(s, out, ">");
  }
}

static void add_number(state *s, out_text *out, value v) {
  char text[LAP_JINJA_NUMBER_BYTES];
  size_t length = v.type == LAP_JINJA_REAL
                      ? lap_jinja_spell_real(v.real, text)
                      : (size_t)snprintf(text, sizeof text, "%lld", (long long)v.integer);
  lap_jinja_add(s, out, text, length, v.from_template);
}

static void add_word(state *s, out_text *out, const char *word, bool from_template) {
  lap_jinja_add(s, out, word, strlen(word), from_template);
}

void lap_jinja_repr(state *s, out_text *out, value v) {
  lap_jinja_descend(s);
  switch (v.type) {
    case LAP_JINJA_UNDEFINED:
      lap_jinja_add_made(s, out, "Undefined");
      break;
    case LAP_JINJA_NONE:
      add_word(s, out, "None", v.from_template);
      break;
    case LAP_JINJA_BOOLEAN:
      add_word(s, out, v.boolean ? "True" : "False", v.from_template);
      break;
    case LAP_JINJA_INTEGER:
    case LAP_JINJA_REAL:
      add_number(s, out, v);
      break;
    case LAP_JINJA_STRING:
      repr_string(s, out, v.string);
      break;
    default:
      repr_object(s, out, v);
  }
  lap_jinja_ascend(s);
}

void lap_jinja_print(state *s, out_text *out, value v) {
  if (v.type == LAP_JINJA_STRING)
    lap_jinja_add_string(s, out, v.string);
  else if (v.type != LAP_JINJA_UNDEFINED)
    lap_jinja_repr(s, out, v);
}

const string *lap_jinja_to_text(state *s, value v) {
  if (v.type == LAP_JINJA_STRING) return v.string;
  lap_jinja_out out = {0};
  lap_jinja_print(s, &out, v);
  return lap_jinja_out_value(s, &out).string;
}
