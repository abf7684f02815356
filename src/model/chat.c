/* chat.c: see chat.h. */
#include "model/chat.h"

#include "model/model.h"

lap_status lap_model_open_chat(lap_model *model, lap_chat **out, lap_error *error) {
  const lap_plan *plan = model->plan;
  lap_chat_checkpoint checkpoint = {
      .directory = model->directory, .bos = plan->bos, .eos = plan->eos_count ? plan->eos[0] : -1};
  *out = NULL;
  lap_status status = lap_model_tokenizer(model, &checkpoint.tokenizer, error);
  return status == LAP_OK ? lap_chat_open(&checkpoint, out, error) : status;
}
