/* chat_messages.h: messages and tools as clients send them, as templates want them.
 *
 * - a tool call's arguments, a JSON text, become an object;
 * - a tool's result gets the name of its tool (by tool_call_id), and a result that is a JSON object in a text
 *   becomes an object;
 * - the role developer is system, function is tool;
 * - content in parts: one text stays one text; of the assistant and of tools, all parts become one;
 * - reasoning and reasoning_content are both there if one is;
 * - in a tool's parameters every schema has a type, a single one: references are resolved, the first
 *   alternative that is not null stands for all. */
#ifndef LAP_TEXT_CHAT_MESSAGES_H
#define LAP_TEXT_CHAT_MESSAGES_H

#include "jinja/value.h"

/* `fold`: results of tools become the list tool_responses of the assistant's message before them, which some
 * revisions of the template expect. Errors: FORMAT, UNSUPPORTED; MEMORY is left to the arena. */
lap_status lap_chat_messages(lap_jinja_arena *arena, const lap_json_document *document,
                             const lap_json *messages, bool fold, lap_jinja_value *out, lap_error *error);

lap_status lap_chat_tools(lap_jinja_arena *arena, const lap_json_document *document, const lap_json *tools,
                          lap_jinja_value *out, lap_error *error);

#endif
