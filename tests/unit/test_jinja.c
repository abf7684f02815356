/* Of the template interpreter what tests/jinja/compare cannot ask Python: where output comes from, limits,
 * and what errors say. */
#include "jinja/jinja.h"

#include <locale.h>
#include <pthread.h>

#include "support/check.h"

/* ---- helpers ---- */

static lap_jinja_arena *new_arena(void) {
  lap_jinja_arena *arena;
  lap_error error;
  expect_ok(lap_jinja_arena_create(64 << 20, &arena, &error), &error);
  return arena;
}

static lap_jinja_template *compile(const char *source) {
  lap_jinja_template *compiled;
  lap_error error;
  expect_ok(lap_jinja_compile(source, strlen(source), "chat_template.jinja", NULL, &compiled, &error),
            &error);
  return compiled;
}

static lap_jinja_value text(lap_jinja_arena *arena, const char *characters, bool trusted) {
  return lap_jinja_text(arena, characters, strlen(characters), trusted);
}

/* What the tests' templates see: `u` is a user's, `t` is trusted, `i` and `f` are the user's numbers. */
static lap_jinja_value new_context(lap_jinja_arena *arena) {
  lap_jinja_value context = lap_jinja_new_dict(arena), users = lap_jinja_new_list(arena),
                  mapping = lap_jinja_new_dict(arena);
  lap_jinja_set(arena, context, "u", text(arena, "uU ü<b>", false));
  lap_jinja_set(arena, context, "t", text(arena, "<bos>", true));
  lap_jinja_set(arena, context, "i", lap_jinja_integer(42));
  lap_jinja_set(arena, context, "f", lap_jinja_real(1.5));
  lap_jinja_set(arena, context, "yes", lap_jinja_boolean(true));
  lap_jinja_append(arena, users, text(arena, "one", false));
  lap_jinja_append(arena, users, text(arena, "two", false));
  lap_jinja_set(arena, context, "us", users);
  lap_jinja_set(arena, mapping, "key", text(arena, "value", false));
  lap_jinja_set(arena, context, "d", mapping);
  return context;
}

/* Renders in that context; what comes from the template is put into brackets. */
static char *marked(const char *source) {
  static char out[8192];
  lap_jinja_arena *arena = new_arena();
  lap_jinja_template *compiled = compile(source);
  lap_jinja_output output;
  lap_error error;
  expect_ok(lap_jinja_render(compiled, arena, new_context(arena), NULL, &output, &error), &error);
  size_t used = 0, at = 0;
  for (size_t r = 0; r < output.run_count; r++) {
    const lap_jinja_run *run = &output.runs[r];
    assert_int_equal(run->begin, at);
    assert_true(run->length > 0);
    if (r) assert_int_not_equal(run->from_template, output.runs[r - 1].from_template);
    used += (size_t)snprintf(out + used, sizeof out - used, run->from_template ? "[%.*s]" : "%.*s",
                             (int)run->length, output.text + run->begin);
    at += run->length;
  }
  assert_int_equal(at, output.length);
  assert_int_equal(output.text[output.length], '\0');
  lap_jinja_output_free(&output);
  lap_jinja_free(compiled);
  lap_jinja_arena_destroy(arena);
  return out;
}

#define expect_marked(source, expected) assert_string_equal(marked(source), expected)

static void expect_error_within(const char *source, const lap_jinja_limits *limits, lap_status expected,
                                const char *message) {
  lap_jinja_arena *arena = new_arena();
  lap_jinja_template *compiled;
  lap_jinja_output output = {0};
  lap_error error = {0};
  lap_jinja_options options = {0};
  if (limits) options.limits = *limits;
  lap_status status =
      lap_jinja_compile(source, strlen(source), "chat_template.jinja", NULL, &compiled, &error);
  if (status == LAP_OK) {
    status = lap_jinja_render(compiled, arena, new_context(arena), &options, &output, &error);
    lap_jinja_free(compiled);
  } else {
    assert_null(compiled);
  }
  lap_jinja_arena_destroy(arena);
  if (status != expected || strcmp(error.message, message) != 0)
    fail_msg("%s\n  gives %d '%s'\n  not   %d '%s'", source, status, error.message, expected, message);
  assert_null(output.text);
  assert_int_equal(error.status, expected);
}

static void expect_error(const char *source, lap_status expected, const char *message) {
  expect_error_within(source, NULL, expected, message);
}

/* ---- provenance ---- */

static void literals_are_the_templates_and_values_are_not(void **state) {
  (void)state;
  expect_marked("a{{ u }}b", "[a]uU ü<b>[b]");
  expect_marked("{{ 'lit' }}{{ t }}{{ u }}", "[lit<bos>]uU ü<b>");
  expect_marked("{{ i }} {{ f }} {{ yes }} {{ nope }}", "42[ ]1.5[ ]True[ ]");
  expect_marked("{{ 7 }} {{ 1.50 }} {{ none }} {{ true }} {{ 1 + 1 }}{{ 1 + i }}{{ -i }}{{ -2 }}",
                "[7 1.5 None True 2]43-42[-2]");
  expect_marked("{{ u|length }}{{ us|length }}", "72");
}

static void provenance_follows_concatenation(void **state) {
  (void)state;
  expect_marked("{{ '<' ~ u ~ '>' }}", "[<]uU ü<b>[>]");
  expect_marked("{{ '<' + u + '>' + t }}", "[<]uU ü<b>[><bos>]");
  expect_marked("{{ u + u ~ 'x' 'y' }}", "uU ü<b>uU ü<b>[xy]");
  expect_marked("{{ ('a' ~ u)[0] }}{{ ('a' ~ u)[1] }}{{ ('a' ~ u ~ 'z')[-2:] }}{{ ('ab' ~ u)[1:4] }}",
                "[a]u>[zb]uU");
}

static void provenance_follows_slices_and_repetition(void **state) {
  (void)state;
  expect_marked("{{ ('a' ~ 'ü' ~ u)[::-1] }}", ">b<ü Uu[üa]");
  expect_marked("{{ ('a' ~ i) * 2 }}", "[a]42[a]42");
  expect_marked("{% for c in 'x' ~ i %}{{ c }}-{% endfor %}", "[x-]4[-]2[-]");
  expect_marked(
      "{{ ('x' ~ i)|list|join('|') }}{{ ('x' ~ i)|first }}{{ ('x' ~ i)|last }}{{ ('x' ~ i)|reverse }}",
      "[x|]4[|]2[x]2"
      "24[x]");
}

static void provenance_follows_string_methods(void **state) {
  (void)state;
  expect_marked("{{ (' L ' ~ u ~ ' R ')|trim }}{{ u.strip('u>') }}", "[L ]uU ü<b>[ R]U ü<b");
  expect_marked("{{ ('<a>' ~ u)|upper }}{{ ('Ab' ~ u)|lower }}{{ ('ab ' ~ u)|title }}",
                "[<A>]UU Ü<B>[ab]uu ü<b>[Ab ]Uu Ü<B>");
  expect_marked("{{ ('aß' ~ u).upper() }}{{ ('xY' ~ u).swapcase() }}{{ ('x' ~ u)|capitalize }}",
                "[ASS]UU Ü<B>[Xy]Uu Ü<B>[X]uu ü<b>");
  expect_marked(
      "{{ u.replace('U', 'L') }}{{ 'a-b'.replace('-', u) }}{{ u|replace('<b>', t) }}{{ 'ab'.replace('', "
      "u[0]) }}",
      "u[L] ü<b>[a]uU ü<b>[b]uU ü[<bos>]u[a]u[b]u");
  expect_marked("{% for p in ('l,' ~ u ~ ',r').split(',') %}{{ p }}/{% endfor %}", "[l/]uU ü<b>[/r/]");
  expect_marked("{{ '+'.join(us) }}{{ us|join(' ') }}{{ us|join }}{{ ['a', u, t]|join(u[0]) }}",
                "one[+]twoone[ ]twoonetwo[a]uuU ü<b>u[<bos>]");
  expect_marked("{{ u.partition(' ')[0] }}{{ ('x ' ~ u).rsplit(' ', 1)[0] }}{{ ('a\n' ~ u)|indent('>>') }}",
                "uU[x ]uU[a]\n[>>]uU ü<b>");
  expect_marked(
      "{{ ('ab' ~ u).removeprefix('a') }}{{ 'x'.center(3) }}{{ 'x'.center(3, u[0]) }}{{ u[0].rjust(3, '.') "
      "}}",
      "[b]uU ü<b> [x] u[x]u[..]u");
}

static void provenance_follows_formatting(void **state) {
  (void)state;
  expect_marked("{{ '<%s|%d|%5.1f>' % (u, i, f) }}{{ '%s' % 'lit' }}{{ u % () }}",
                "[<]uU ü<b>[|]42[|]  1.5[>lit]uU ü<b>");
  expect_marked(
      "{{ '<{}|{:>4}|{x}>'.format(u, i, x='lit') }}{{ '%s-%s'|format(u[0], 'q') }}{{ '{:*>3}'.format(u[0]) "
      "}}",
      "[<]uU ü<b>[|]  42[|lit>]u[-q**]u");
  expect_marked("{{ u[0]|tojson }}{{ 'l'|tojson }}{{ {'k': u[0], 'n': 1, 'm': i}|tojson }}",
                "\"u\"\"[l]\"{\"[k]\": \"u\", \"[n]\": [1], \"[m]\": 42}");
  expect_marked("{{ ['l', u[0]] }}{{ {'k': (none, yes)} }}{{ 'a\n' ~ u[0]|string }}{{ ['\n'] }}",
                "['[l]', 'u']{'[k]': ([None], True)}[a\n]u['[\\n]']");
  expect_marked(
      "{{ ('<' ~ u[5])|e }}{{ ('/ü' ~ u[3])|urlencode }}{{ ('long ' ~ u)|truncate(8, true, '!', 0) }}",
      "[&lt;]b[/%C3%BC]%C3%BC[long ]uU[!]");
}

static void provenance_follows_blocks_macros_and_containers(void **state) {
  (void)state;
  expect_marked("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u) }}{{ m('l')|upper }}", "[<]uU ü<b>[><L>]");
  expect_marked("{% macro w() %}({{ caller(u) }}){% endmacro %}{% call(x) w() %}{{ x }}!{% endcall %}",
                "[(]uU ü<b>[!)]");
  expect_marked(
      "{% set s %}a{{ u }}b{% endset %}{{ s }}{{ s|length }}{% set s|upper %}a{{ u }}{% endset %}{{ s }}",
      "[a]uU ü<b>[b]9[A]UU Ü<B>");
  expect_marked("{% filter upper %}a{{ u }}{% endfilter %}{% generation %}{{ u }}g{% endgeneration %}",
                "[A]UU Ü<B>uU ü<b>[g]");
  expect_marked(
      "{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}{% for k in {'lit': 1} %}{{ k }}{% endfor %}",
      "key[=]value[lit]");
  expect_marked(
      "{% set ns = namespace(s='') %}{% for x in us %}{% set ns.s = ns.s ~ '<' ~ x ~ '>' %}{% endfor %}{{ "
      "ns.s }}",
      "[<]one[><]two[>]");
  expect_marked(
      "{% for l in [1, 2] recursive %}{{ u[0] }}-{% if l == 1 %}{{ loop([3]) }}{% endif %}{% endfor %}",
      "u[-]u[-]u[-]");
  expect_marked(
      "{{ us|map('upper')|join('+') }}{{ us|sort(reverse=true)|first }}{{ nope|default('d') }}{{ "
      "nope|default(u[0]) }}",
      "ONE[+]TWOtwo[d]u");
  expect_marked("{% raw %}{{ u }}{% endraw %}{{ (u if yes else 'l')[0] }}{{ 'l' if yes else u }}",
                "[{{ u }}]u[l]");
}

/* The same text once as a long string that is built up piece by piece, in place. */
static void a_string_that_grows_in_place_keeps_older_ones_and_origins(void **state) {
  (void)state;
  lap_jinja_arena *arena = new_arena();
  lap_jinja_template *compiled = compile(
      "{% set ns = namespace(s='', half='') %}{% for i in range(2000) %}{% set ns.s = ns.s ~ 'T' ~ user %}"
      "{% if i == 999 %}{% set ns.half = ns.s %}{% set other = ns.s ~ 'X' %}{% set ns.other = other %}{% "
      "endif %}"
      "{% endfor %}{{ ns.s }}|{{ ns.half }}|{{ ns.other }}");
  lap_jinja_value context = lap_jinja_new_dict(arena);
  lap_jinja_set(arena, context, "user", text(arena, "uu", false));
  lap_jinja_output output;
  lap_error error;
  expect_ok(lap_jinja_render(compiled, arena, context, NULL, &output, &error), &error);
  assert_int_equal(output.length, 6000 + 1 + 3000 + 1 + 3001);
  size_t run = 0;
  for (size_t i = 0; i < output.length; i++) {
    if (i >= output.runs[run].begin + output.runs[run].length) run++;
    bool from_template = i == 6000 || i == 9001 || i == output.length - 1 ||
                         (i < 6000   ? i % 3 == 0
                          : i < 9001 ? (i - 6001) % 3 == 0
                                     : (i - 9002) % 3 == 0);
    if (output.runs[run].from_template != from_template) fail_msg("byte %zu has the wrong origin", i);
    assert_int_equal(output.text[i] == 'u', !from_template);
  }
  lap_jinja_output_free(&output);
  lap_jinja_free(compiled);
  lap_jinja_arena_destroy(arena);
}

/* ---- errors ---- */

static void errors_tell_line_and_column(void **state) {
  (void)state;
  expect_error("one\ntwo {% if %}", LAP_ERROR_FORMAT,
               "chat_template.jinja:2:11: expected an expression, got '%}'");
  expect_error("{{ u }}\n  {{ nope.x }}", LAP_ERROR_FORMAT, "chat_template.jinja:2:11: 'nope' is undefined");
  expect_error("ü{{ u + 1 }}", LAP_ERROR_FORMAT,
               "chat_template.jinja:1:7: unsupported types for +: 'str' and 'int'");
  expect_error("\r\n\r{{ u.upper(1) }}", LAP_ERROR_FORMAT,
               "chat_template.jinja:3:6: upper takes at most 0 arguments, got 1");
  expect_error("{% for x in us %}\n{{ x|nofilter }}{% endfor %}", LAP_ERROR_FORMAT,
               "chat_template.jinja:2:6: no filter is named 'nofilter'");
  expect_error("a\n{% if yes %}\nb", LAP_ERROR_FORMAT, "chat_template.jinja:2:4: 'if' without its 'endif'");
  expect_error("x{# never", LAP_ERROR_FORMAT, "chat_template.jinja:1:2: a comment without its end");
  expect_error("{% include 'x' %}", LAP_ERROR_UNSUPPORTED,
               "chat_template.jinja:1:4: unsupported tag 'include'");
  expect_error("{% macro m(a) %}\n{{ a.b.c }}{% endmacro %}{{ m({}) }}", LAP_ERROR_FORMAT,
               "chat_template.jinja:2:8: 'dict object' has no attribute 'b'");
  expect_error("{{ '\xff' }}", LAP_ERROR_FORMAT, "chat_template.jinja:1:5: this is not UTF-8");
  expect_error("{{ 99999999999999999999 }}", LAP_ERROR_FORMAT,
               "chat_template.jinja:1:4: a number beyond 64 bits");
  expect_error("{{ 9223372036854775807 + 1 }}", LAP_ERROR_FORMAT,
               "chat_template.jinja:1:24: the result of + is beyond 64 bits");
}

static void raise_exception_has_a_status_of_its_own(void **state) {
  (void)state;
  expect_error("{% if i > 1 %}\n  {{ raise_exception('roles must ' ~ 'alternate') }}{% endif %}",
               LAP_ERROR_ARGUMENT, "chat_template.jinja:2:6: roles must alternate");
  expect_error("{{ raise_exception('a\nb') }}", LAP_ERROR_ARGUMENT, "chat_template.jinja:1:4: a?b");
}

/* ---- limits ---- */

static void limits_end_a_render_with_one_line(void **state) {
  (void)state;
  lap_jinja_limits steps = {.steps = 10000}, output = {.output_bytes = 100},
                   memory = {.memory_bytes = 1 << 20}, depth = {.depth = 50};
  expect_error_within("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", &steps,
                      LAP_ERROR_UNSUPPORTED,
                      "chat_template.jinja:1:30: the template takes more than 10000 steps");
  expect_error_within("{% for a in range(30) %}abcd{% endfor %}", &output, LAP_ERROR_UNSUPPORTED,
                      "chat_template.jinja:1:25: the output is longer than 100 bytes");
  expect_error_within("{{ 'ab' * 600000 }}", &memory, LAP_ERROR_UNSUPPORTED,
                      "chat_template.jinja:1:9: the template needs more than 1048576 bytes of memory");
  expect_error_within("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", &depth, LAP_ERROR_UNSUPPORTED,
                      "chat_template.jinja:1:19: nested too deep (more than 50 levels)");
}

/* Templates that would take all of memory, time or stack if they were let. */
static void hostile_templates_end_soon(void **state) {
  (void)state;
  static const char *const sources[] = {
      "{{ range(10 ** 12) }}",
      "{{ 'a' * 10 ** 10 }}",
      "{{ [0] * 10 ** 10 }}",
      "{{ 'a' * 9223372036854775807 }}",
      "{{ 'x'.center(10 ** 15) }}",
      "{{ '%999999999999d' % 1 }}",
      "{{ '{:999999999999}'.format(1) }}",
      "{{ '%.999999f' % 1 }}",
      "{{ us|batch(10 ** 15, 'x')|list }}",
      "{{ us|slice(10 ** 15)|list }}",
      "{{ 'x'|indent(10 ** 15) }}",
      "{{ 'x'.expandtabs(10 ** 15) ~ '\t'.expandtabs(10 ** 15) }}",
      "{{ [1]|tojson(indent=10 ** 15) }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = ns.s.replace('', ns.s) %}{% "
      "endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set l = [1] %}{% for x in l %}{% do l.append(x) %}{% endfor %}",
      "{% set ns = namespace(t=()) %}{% for i in range(90000) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ ns.t "
      "}}",
      "{% set ns = namespace(t=()) %}{% for i in range(90000) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ ns.t "
      "== ns.t[0] }}",
      "{% set ns = namespace(t=()) %}{% for i in range(90000) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ "
      "{ns.t: 1} }}",
      "{% set ns = namespace(t=[]) %}{% for i in range(90000) %}{% set ns.t = [ns.t] %}{% endfor %}{{ "
      "ns.t|tojson }}",
      "{% set a = [] %}{% set b = [] %}{% do a.append(b) %}{% do b.append(a) %}{{ a == b }}",
      "{% set l = [] %}{% do l.append(l) %}{{ l|tojson }}",
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'ab' in s %}{% endif %}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if s.rfind('ba') %}{% endif %}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s[999999] }}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if {s: 1}[s] %}{% endif %}{% endfor %}",
      "{% set l = range(100000)|list %}{% for i in l %}{% if -1 in l %}{% endif %}{% endfor %}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
      "endfor %}{% endfor %}",
      "{% set l = range(50000)|list %}{% for i in l %}{% do l.insert(0, 1) %}{% endfor %}",
      "{{ '{0[0][0]}{0:{0:{0}}}'.format(us) }}",
  };
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    lap_jinja_arena *arena = new_arena();
    lap_jinja_template *compiled = compile(sources[i]);
    lap_jinja_output output;
    lap_error error = {0};
    lap_jinja_options options = {.limits = {.steps = 5000000, .memory_bytes = 64 << 20}};
    lap_status status = lap_jinja_render(compiled, arena, new_context(arena), &options, &output, &error);
    if (status == LAP_OK) fail_msg("this should have failed: %s", sources[i]);
    if (status == LAP_ERROR_MEMORY || !strstr(error.message, "chat_template.jinja:1:"))
      fail_msg("%s: %s", sources[i], error.message);
    assert_null(strchr(error.message, '\n'));
    assert_null(output.text);
    lap_jinja_free(compiled);
    lap_jinja_arena_destroy(arena);
  }
}

/* `open` many times around 1. */
static void expect_nesting_refused(const char *before, const char *open, const char *close,
                                   const char *after) {
  enum {
    TIMES = 300
  };
  lap_jinja_template *compiled;
  lap_error error = {0};
  char *source = calloc(strlen(before) + TIMES * (strlen(open) + strlen(close)) + strlen(after) + 2, 1),
       *end = stpcpy(source, before);
  for (int i = 0; i < TIMES; i++) end = stpcpy(end, open);
  *end++ = '1';
  for (int i = 0; i < TIMES; i++) end = stpcpy(end, close);
  stpcpy(end, after);
  assert_int_equal(lap_jinja_compile(source, strlen(source), "chat_template.jinja", NULL, &compiled, &error),
                   LAP_ERROR_FORMAT);
  if (!strstr(error.message, "nested too deep")) fail_msg("%.40s: %s", source, error.message);
  free(source);
}

static void sources_nest_to_a_limit(void **state) {
  (void)state;
  static const char *const pairs[][2] = {{"(", ")"},  {"[", "]"}, {"{1:", "}"}, {"f(", ")"},
                                         {"f[", "]"}, {"-", ""},  {"not ", ""}, {"1 if 1 else ", ""}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    expect_nesting_refused("{{ ", pairs[i][0], pairs[i][1], " }}");
  expect_nesting_refused("", "{% if true %}", "{% endif %}", "");
  expect_nesting_refused("", "{% for x in y %}", "{% endfor %}", "");
  expect_nesting_refused("{% for ", "(", ",)", " in y %}{% endfor %}");
}

/* A chain of operators does not nest in the source, but in the tree. */
static void long_chains_are_limited_when_they_run(void **state) {
  (void)state;
  enum {
    TIMES = 5000
  };
  char *source = calloc(TIMES * 3 + 16, 1);
  strcpy(source, "{{ 1");
  for (int i = 0; i < TIMES; i++) strcpy(source + 4 + 2 * i, "+1");
  strcat(source, " }}");
  lap_jinja_arena *arena = new_arena();
  lap_jinja_template *compiled = compile(source);
  lap_jinja_output output;
  lap_error error = {0};
  assert_int_equal(lap_jinja_render(compiled, arena, new_context(arena), NULL, &output, &error),
                   LAP_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "nested too deep (more than 1000 levels)"));
  lap_jinja_free(compiled);
  lap_jinja_arena_destroy(arena);
  free(source);
}

/* ---- contexts, threads, the surroundings ---- */

static void a_render_leaves_its_context_as_it_was(void **state) {
  (void)state;
  lap_jinja_arena *arena = new_arena();
  lap_jinja_value context = new_context(arena);
  lap_jinja_template *compiled =
      compile("{% do us.append('x') %}{% do d.update(k=1) %}{{ us|length }}{{ d|length }}");
  for (int i = 0; i < 2; i++) {
    lap_jinja_output output;
    lap_error error;
    expect_ok(lap_jinja_render(compiled, arena, context, NULL, &output, &error), &error);
    assert_string_equal(output.text, "32");
    lap_jinja_output_free(&output);
  }
  lap_jinja_free(compiled);
  lap_jinja_arena_destroy(arena);
}

typedef struct shared {
  const lap_jinja_template *compiled;
  const lap_jinja_arena *arena;
  lap_jinja_value context;
} shared;

static void *render_often(void *argument) {
  const shared *s = argument;
  for (int i = 0; i < 200; i++) {
    lap_jinja_output output;
    if (lap_jinja_render(s->compiled, s->arena, s->context, NULL, &output, NULL) != LAP_OK) return argument;
    bool right = !strcmp(output.text, "onetwouU ü<b>");
    lap_jinja_output_free(&output);
    if (!right) return argument;
  }
  return NULL;
}

static void threads_share_templates_and_contexts(void **state) {
  (void)state;
  lap_jinja_arena *arena = new_arena();
  lap_jinja_template *compiled = compile("{% for x in us %}{{ x }}{% endfor %}{{ u }}");
  shared s = {compiled, arena, new_context(arena)};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, render_often, &s), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  lap_jinja_free(compiled);
  lap_jinja_arena_destroy(arena);
}

#if defined(__has_feature)
#define LAP_TEST_CLANG_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define LAP_TEST_CLANG_SANITIZED 0
#endif

/* What recursion takes at most fits a small stack, so a server may run templates in its threads. */
static void *recurse(void *argument) {
  lap_jinja_template *compiled = compile(
      "{% macro m(n) %}{% for x in [n] %}{% if x %}{{ [{'k': m(n - 1)}]|map(attribute='k')|join|upper }}{% "
      "endif %}"
      "{% endfor %}{% endmacro %}{{ m(900) }}");
  const shared *s = argument;
  lap_jinja_output output;
  lap_error error = {0};
  lap_status status = lap_jinja_render(compiled, s->arena, s->context, NULL, &output, &error);
  lap_jinja_free(compiled);
  return status == LAP_ERROR_UNSUPPORTED && strstr(error.message, "nested too deep") ? NULL : argument;
}

static void the_deepest_template_needs_little_stack(void **state) {
  (void)state;
  lap_jinja_arena *arena = new_arena();
  shared s = {.arena = arena, .context = new_context(arena)};
  pthread_attr_t attributes;
  pthread_t thread;
  void *failed;
  pthread_attr_init(&attributes);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || LAP_TEST_CLANG_SANITIZED
  pthread_attr_setstacksize(&attributes, 8 << 20); /* the sanitizers' frames are several times as large */
#else
  pthread_attr_setstacksize(&attributes, 1 << 20);
#endif
  assert_int_equal(pthread_create(&thread, &attributes, recurse, &s), 0);
  pthread_join(thread, &failed);
  pthread_attr_destroy(&attributes);
  assert_null(failed);
  lap_jinja_arena_destroy(arena);
}

static void numbers_do_not_depend_on_the_locale(void **state) {
  (void)state;
  if (!use_decimal_comma()) skip();
  lap_jinja_arena *arena = new_arena();
  lap_jinja_template *compiled = compile("{{ 1.5 }} {{ f + 0.25 }} {{ '2.5'|float }} {{ '%.2f' % f }}");
  lap_jinja_output output;
  lap_error error;
  expect_ok(lap_jinja_render(compiled, arena, new_context(arena), NULL, &output, &error), &error);
  assert_string_equal(output.text, "1.5 1.75 2.5 1.50");
  char outside[16];
  snprintf(outside, sizeof outside, "%.1f", 0.5);
  assert_string_equal(outside, "0,5"); /* the caller's locale is back */
  setlocale(LC_NUMERIC, "C");
  lap_jinja_output_free(&output);
  lap_jinja_free(compiled);
  lap_jinja_arena_destroy(arena);
}

static void a_context_that_did_not_fit_is_refused(void **state) {
  (void)state;
  lap_jinja_arena *arena;
  lap_error error;
  expect_ok(lap_jinja_arena_create(1 << 12, &arena, &error), &error);
  lap_jinja_value context = lap_jinja_new_dict(arena);
  char large[8192];
  memset(large, 'x', sizeof large);
  lap_jinja_set(arena, context, "large", lap_jinja_text(arena, large, sizeof large, false));
  assert_true(lap_jinja_arena_failed(arena));
  lap_jinja_template *compiled = compile("x");
  lap_jinja_output output;
  assert_int_equal(lap_jinja_render(compiled, arena, context, NULL, &output, &error), LAP_ERROR_MEMORY);
  assert_string_equal(error.message, "chat_template.jinja: the context did not fit into memory");
  lap_jinja_free(compiled);
  lap_jinja_arena_destroy(arena);
}

static void contexts_hold_what_was_put_into_them(void **state) {
  (void)state;
  lap_jinja_arena *arena = new_arena();
  lap_json_document *document;
  lap_error error;
  const char *json =
      "{\"a\": [1, -2.5, null, true, \"t\\u0000x\"], \"b\": {}, \"big\": 12345678901234567890}";
  expect_ok(lap_json_parse(json, strlen(json), "context.json", &document, &error), &error);
  lap_jinja_value context = lap_jinja_from_json(arena, lap_json_root(document));
  lap_json_free(document); /* the values are copies */
  lap_jinja_set(arena, context, "b", lap_jinja_integer(1));
  lap_jinja_set(arena, context, "b", lap_jinja_integer(2));
  assert_int_equal(lap_jinja_get(context, "b").integer, 2);
  assert_int_equal(lap_jinja_get(context, "nope").type, LAP_JINJA_UNDEFINED);
  for (int i = 0; i < 1000; i++) lap_jinja_set(arena, context, path_of("key%d", i), lap_jinja_integer(i));
  for (int i = 0; i < 1000; i++) assert_int_equal(lap_jinja_get(context, path_of("key%d", i)).integer, i);
  lap_jinja_template *compiled =
      compile("{{ a }} {{ b }} {{ big }} {{ key999 }} {{ strftime_now is defined }}");
  lap_jinja_output output;
  expect_ok(lap_jinja_render(compiled, arena, context, NULL, &output, &error), &error);
  assert_string_equal(output.text, "[1, -2.5, None, True, 't\\x00x'] 2 1.2345678901234567e+19 999 False");
  lap_jinja_output_free(&output);
  lap_jinja_free(compiled);
  lap_jinja_arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(literals_are_the_templates_and_values_are_not),
      cmocka_unit_test(provenance_follows_concatenation),
      cmocka_unit_test(provenance_follows_slices_and_repetition),
      cmocka_unit_test(provenance_follows_string_methods),
      cmocka_unit_test(provenance_follows_formatting),
      cmocka_unit_test(provenance_follows_blocks_macros_and_containers),
      cmocka_unit_test(a_string_that_grows_in_place_keeps_older_ones_and_origins),
      cmocka_unit_test(errors_tell_line_and_column),
      cmocka_unit_test(raise_exception_has_a_status_of_its_own),
      cmocka_unit_test(limits_end_a_render_with_one_line),
      cmocka_unit_test(hostile_templates_end_soon),
      cmocka_unit_test(sources_nest_to_a_limit),
      cmocka_unit_test(long_chains_are_limited_when_they_run),
      cmocka_unit_test(a_render_leaves_its_context_as_it_was),
      cmocka_unit_test(threads_share_templates_and_contexts),
      cmocka_unit_test(the_deepest_template_needs_little_stack),
      cmocka_unit_test(numbers_do_not_depend_on_the_locale),
      cmocka_unit_test(a_context_that_did_not_fit_is_refused),
      cmocka_unit_test(contexts_hold_what_was_put_into_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
