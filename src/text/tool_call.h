/* tool_call.h: a call as the model writes it, `call:NAME{KEY:VALUE,...}`, to a name and JSON.
 *
 * Read strictly where the form is that of the published templates (docs/gemma4.md 6, 6.1): keys bare,
 * strings between two <|"|> and taken literally, true, false, null, numbers, [..], {..}. Read leniently where
 * models are known to deviate and one meaning is left: key=value; keys or strings in "..." or '...' (with
 * JSON's escapes) or `...` (literally); unquoted words ({city:Paris}: a string); a comma before the closing
 * brace; call:NAME(..) with the members, or one object, in the parentheses; numbers and constants as Python
 * prints them: True, False, None; .5 and 5. and +5; nan and inf, which JSON cannot say, become null as in
 * JavaScript. Everything else is no call: the caller has the text. */
#ifndef LAP_TEXT_TOOL_CALL_H
#define LAP_TEXT_TOOL_CALL_H

#include "base/error.h"

enum {
  /* Stands for <|"|> in a body. UTF-8 has no such byte, so no text can be taken for it. */
  LAP_TOOL_CALL_QUOTE = 0xff
};

typedef struct lap_tool_call {
  char *name;      /* NULL: the body is no call */
  char *arguments; /* a JSON object, one that lap_json_parse takes: no duplicate keys, not too deep */
  size_t length;   /* of `arguments`; both are terminated */
  size_t used;     /* bytes of the body that the call took; what follows is not part of it */
} lap_tool_call;

/* Reads what stands between <|tool_call> and <tool_call|> [length bytes of UTF-8, and quotes]. On success
 * `*call` is to be freed, whether there is a call or not. Linear in `length`. Errors: MEMORY. */
lap_status lap_tool_call_read(const char *body, size_t length, lap_tool_call *call, lap_error *error);

void lap_tool_call_free(lap_tool_call *call);

#endif
