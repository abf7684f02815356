/* jinja.h: Jinja templates, as chat templates use the language: compiled once, rendered many times.
 *
 * The language is that of Jinja 3.1 in the sandbox that Hugging Face's transformers renders chat templates
 * in: every expression, statement, filter, test and method that makes sense without other templates (no
 * include, import, extends, block) and without HTML (no autoescape, so `safe` changes nothing), the
 * extensions loopcontrols and do, `generation` blocks, raise_exception and strftime_now, tojson without HTML
 * escapes. Values print as Python prints them. Deviations: integers are 64 bits and overflow is an error, as
 * are complex numbers; lists and dicts may be changed by their methods, inside one render; filters that are
 * lazy in Python are not; the filters pprint, random, striptags, urlize, wordwrap and xmlattr and the
 * function lipsum do not exist.
 *
 * Provenance: a template's author may spell control tokens, a user may not. So the output says for each of
 * its bytes whether it stood in the template or came from the context. Text that the interpreter itself makes
 * (quotes of a repr, padding, loop.index) counts as context.
 *
 * A template is hostile input like any other: nesting, output, memory and work are bounded. */
#ifndef LAP_JINJA_JINJA_H
#define LAP_JINJA_JINJA_H

#include "jinja/options.h"
#include "jinja/value.h"

typedef struct lap_jinja_template lap_jinja_template;

/* Compiles `source` [length bytes, UTF-8]. `name` is copied and begins every message. `syntax` NULL means
 * what transformers uses: both trims on, the last newline dropped. `*out` is read-only, may be shared by
 * threads, and is the caller's. Errors: FORMAT, as `name:line:column: what is wrong` (also: longer than 1
 * MiB, nested deeper than 100 levels), UNSUPPORTED (a statement that needs other templates), MEMORY. */
lap_status lap_jinja_compile(const char *source, size_t length, const char *name,
                             const lap_jinja_syntax *syntax, lap_jinja_template **out, lap_error *error);
void lap_jinja_free(lap_jinja_template *compiled);

typedef struct lap_jinja_run {
  size_t begin, length; /* bytes of the text */
  bool from_template;
} lap_jinja_run;

typedef struct lap_jinja_output {
  char *text; /* [length], then a terminator */
  size_t length;
  lap_jinja_run *runs; /* [run_count], in order, none empty, together the whole text; neighbours differ */
  size_t run_count;
} lap_jinja_output;

/* Renders with the dict `context`, built in the arena `of_context` (which is not changed). `options` may be
 * NULL. `*out` is the caller's to free, and empty after an error. Errors, all but MEMORY as
 * `name:line:column: what is wrong`: ARGUMENT (the template called raise_exception: what follows the position
 * is its message, meant for whoever sent the conversation), FORMAT (the template is wrong, or not made for
 * this context), UNSUPPORTED (a limit), MEMORY. */
lap_status lap_jinja_render(const lap_jinja_template *compiled, const lap_jinja_arena *of_context,
                            lap_jinja_value context, const lap_jinja_options *options, lap_jinja_output *out,
                            lap_error *error);
void lap_jinja_output_free(lap_jinja_output *output);

#endif
