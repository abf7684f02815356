/* function.c: the functions that every template sees. */
#include "jinja/call.h"
#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/tables.h"

enum {
  MAX_RANGE = 100000 /* as in Jinja's sandbox */
};

/* ---- range ---- */

/* Elements from start up to stop, which is not reached. */
static uint64_t count_range(int64_t start, int64_t stop, int64_t step) {
  uint64_t distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
  uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
  bool empty = step > 0 ? start >= stop : start <= stop;
  return empty ? 0 : (distance - 1) / stride + 1;
}

static value function_range(state *s, call *c) {
  lap_jinja_range *range = lap_jinja_take(&s->arena, sizeof *range);
  *range = (lap_jinja_range){.step = 1, .from_template = true};
  int64_t first = lap_jinja_as_integer(s, c->argument[0]);
  range->start = c->given[1] ? first : 0;
  range->stop = c->given[1] ? lap_jinja_as_integer(s, c->argument[1]) : first;
  range->step = lap_jinja_integer_argument(s, c, 2, 1);
  for (size_t i = 0; i < 3; i++) range->from_template &= !c->given[i] || c->argument[i].from_template;
  if (range->step == 0) lap_jinja_fail(s, "range() arg 3 must not be zero");
  uint64_t count = count_range(range->start, range->stop, range->step);
  if (count > MAX_RANGE)
    lap_jinja_fail_with(s, LAP_ERROR_UNSUPPORTED, "a range of more than %d numbers", MAX_RANGE);
  range->count = (size_t)count;
  return lap_jinja_object(LAP_JINJA_RANGE, range);
}

/* ---- dict, namespace, cycler, joiner ---- */

static value function_dict(state *s, call *c) {
  value result = lap_jinja_new_dict(&s->arena);
  if (c->given[0]) lap_jinja_update(s, result.dict, c->argument[0]);
  for (size_t i = 0; i < c->rest.keyword_count; i++)
    lap_jinja_put(s, result.dict, lap_jinja_string_value(c->rest.keywords[i].name),
                  c->rest.keywords[i].value);
  return result;
}

static value function_namespace(state *s, call *c) {
  value result = function_dict(s, c);
  result.type = LAP_JINJA_NAMESPACE;
  return result;
}

static value function_cycler(state *s, call *c) {
  lap_jinja_cycler *cycler = lap_jinja_take(&s->arena, sizeof *cycler);
  *cycler = (lap_jinja_cycler){.items = lap_jinja_list_create(&s->arena, c->rest.count)};
  if (!c->rest.count) lap_jinja_fail(s, "cycler: at least one item has to be provided");
  for (size_t i = 0; i < c->rest.count; i++)
    lap_jinja_list_push(&s->arena, cycler->items, c->rest.positional[i]);
  return lap_jinja_object(LAP_JINJA_CYCLER, cycler);
}

static value function_joiner(state *s, call *c) {
  lap_jinja_joiner *joiner = lap_jinja_take(&s->arena, sizeof *joiner);
  *joiner = (lap_jinja_joiner){.separator =
                                   c->given[0] ? c->argument[0] : lap_jinja_literal(&s->arena, ", ", true)};
  return lap_jinja_object(LAP_JINJA_JOINER, joiner);
}

/* ---- what transformers adds ---- */

static value function_raise_exception(state *s, call *c) {
  const string *message = lap_jinja_to_text(s, c->argument[0]);
  int length =
      message->length < sizeof s->error->message ? (int)message->length : (int)sizeof s->error->message;
  lap_jinja_fail_with(s, LAP_ERROR_ARGUMENT, "%.*s", length, message->text);
}

/* The time without a zone, as Python's datetime.now() is: %z and %Z say nothing, %f is zero. */
static value function_strftime_now(state *s, call *c) {
  enum {
    MAX_PATTERN = 256,
    MAX_DATE = 4096
  };
  const string *pattern = lap_jinja_text_argument(s, c, 0);
  char plain[2 * MAX_PATTERN + 8], date[MAX_DATE];
  size_t used = 0;
  if (pattern->length > MAX_PATTERN) lap_jinja_fail(s, "strftime_now: the format is too long");
  for (size_t i = 0; i < pattern->length; i++) {
    char c0 = pattern->text[i], c1 = i + 1 < pattern->length ? pattern->text[i + 1] : '\0';
    if (!c0) lap_jinja_fail(s, "strftime_now: the format holds a NUL");
    if (c0 == '%' && (c1 == 'z' || c1 == 'Z')) {
      i++;
    } else if (c0 == '%' && c1 == 'f') {
      if (used + 6 > sizeof plain - 2) lap_jinja_fail(s, "strftime_now: the format is too long");
      memcpy(plain + used, "000000", 6);
      used += 6;
      i++;
    } else {
      plain[used++] = c0;
      if (c0 == '%') plain[used++] = c1 ? pattern->text[++i] : '%';
    }
  }
  /* One character more tells an empty date from one that does not fit. */
  plain[used] = '|';
  plain[used + 1] = '\0';
  size_t length = strftime(date, sizeof date, plain, s->now);
  if (!length) lap_jinja_fail(s, "strftime_now: the date is too long");
  return lap_jinja_text(&s->arena, date, length - 1, false);
}

const builtin lap_jinja_functions[] = {{"cycler", "*", function_cycler},
                                       {"dict", "mapping? **", function_dict},
                                       {"joiner", "sep?", function_joiner},
                                       {"namespace", "mapping? **", function_namespace},
                                       {"raise_exception", "message", function_raise_exception},
                                       {"range", "start stop? step?", function_range},
                                       {"strftime_now", "format", function_strftime_now},
                                       {0}};
