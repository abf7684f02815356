/* prepare.h: from what a client asks for to what the engine computes. */
#ifndef LAP_SERVER_PREPARE_H
#define LAP_SERVER_PREPARE_H

#include "server/request.h"
#include "server/served.h"

/* Renders and encodes the prompts, compiles the grammar, checks what only the model can say; gives up the
 * body. Errors: FORMAT, ARGUMENT, UNSUPPORTED (the request's), MEMORY. A prompt that does not fit in the
 * context is ARGUMENT and sets `*too_long`. */
lap_status lap_request_prepare(const lap_served *served, lap_request *request, bool *too_long,
                               lap_error *error);

/* Only the conversation, as text and ids. Errors: as above. */
lap_status lap_request_render(const lap_served *served, lap_request *request, lap_chat_prompt *out,
                              lap_error *error);

#endif
