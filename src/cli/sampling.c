/* sampling.c: see sampling.h. */
#include "cli/sampling.h"

bool lap_check_sampling(const lap_verb *verb, const lap_sampling_settings *settings) {
  if (!settings->greedy || settings->temperature <= 0) return true;
  lap_usage_error(verb, "--greedy: contradicts --temperature");
  return false;
}

lap_sampling lap_sampling_of(const lap_sampling_settings *settings, const lap_model *model) {
  lap_sampling sampling = lap_model_sampling(model);
  sampling.seed = settings->seed;
  if (settings->temperature >= 0) sampling.temperature = (float)settings->temperature;
  if (settings->greedy) sampling.temperature = 0;
  if (settings->top_k >= 0) sampling.top_k = (int32_t)settings->top_k;
  if (settings->top_p >= 0) sampling.top_p = (float)settings->top_p;
  if (settings->min_p >= 0) sampling.min_p = (float)settings->min_p;
  if (settings->repeat_penalty >= 0) sampling.repeat_penalty = (float)settings->repeat_penalty;
  if (settings->repeat_last >= 0) sampling.repeat_last = (int32_t)settings->repeat_last;
  return sampling;
}
