/* path.c: see path.h. */
#include "jinja/path.h"

#include "jinja/access.h"
#include "jinja/number.h"
#include "jinja/text_operation.h"
#include "jinja/unicode.h"

/* Parts that are digits are numbers of elements. */
static value part_of(state *s, const string *path, size_t begin, size_t end) {
  bool digits = end > begin;
  for (size_t at = begin; at < end && digits;) {
    uint32_t code;
    at += lap_jinja_decode(path->text + at, end - at, &code);
    digits = lap_jinja_is_digit(code);
  }
  int64_t number;
  bool overflow;
  if (digits && lap_jinja_read_integer(path->text + begin, end - begin, 10, &number, &overflow) && !overflow)
    return lap_jinja_integer(number);
  return lap_jinja_slice(&s->arena, path, begin, end - begin);
}

static value follow_part(state *s, value v, value part, const value *otherwise) {
  v = lap_jinja_item(s, v, part);
  return v.type == LAP_JINJA_UNDEFINED && otherwise ? *otherwise : v;
}

value lap_jinja_follow(state *s, value v, value path, const value *otherwise) {
  if (path.type == LAP_JINJA_NONE) return v;
  if (path.type != LAP_JINJA_STRING) return follow_part(s, v, path, otherwise);
  const string *text = path.string;
  for (size_t begin = 0; begin <= text->length;) {
    const char *dot = memchr(text->text + begin, '.', text->length - begin);
    size_t end = dot ? (size_t)(dot - text->text) : text->length;
    v = follow_part(s, v, part_of(s, text, begin, end), otherwise);
    begin = end + 1;
    lap_jinja_step(s, 1);
  }
  return v;
}

value lap_jinja_ignore_case(state *s, value v) {
  return v.type == LAP_JINJA_STRING ? lap_jinja_change_case(s, v.string, CASING_LOWER) : v;
}
