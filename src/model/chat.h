/* chat.h: the chat template of a model's checkpoint. */
#ifndef LAP_MODEL_CHAT_H
#define LAP_MODEL_CHAT_H

#include "text/chat.h"

/* As lap_chat_open; loads the model's tokenizer. The model must outlive `*out`. Errors: also those of
 * lap_model_tokenizer. */
lap_status lap_model_open_chat(lap_model *model, lap_chat **out, lap_error *error);

#endif
