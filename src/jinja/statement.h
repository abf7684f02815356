/* statement.h: executing the statements of the tree. */
#ifndef LAP_JINJA_STATEMENT_H
#define LAP_JINJA_STATEMENT_H

#include "jinja/loop.h"

typedef enum lap_jinja_flow {
  FLOW_NEXT,
  FLOW_BREAK,
  FLOW_CONTINUE
} lap_jinja_flow;

/* What `body` prints goes to `out` of the state. */
lap_jinja_flow lap_jinja_execute(state *s, const node *body);
/* What `body` prints in a scope of its own. */
value lap_jinja_capture(state *s, const node *body, lap_jinja_scope *scope, lap_jinja_flow *flow);

/* For the language, see builtin.h. */
value lap_jinja_call_loop(state *s, const lap_jinja_loop *loop, value iterable);
bool lap_jinja_passes(state *s, const lap_jinja_loop *loop, value item);

#endif
