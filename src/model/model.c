/* model.c: from a directory to something that can compute. */
#include "model/model.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/plan_text.h"

/* ---- which weights these are ---- */

enum {
  SAMPLES = 64,
  SAMPLE_BYTES = 16
};

static void hash_number(struct sha256_ctx *hash, int64_t value) {
  sha256_update(hash, sizeof value, (const uint8_t *)&value);
}

/* Name, type, shape and a spread of bytes of a tensor: enough to tell checkpoints apart without
 * reading gigabytes. */
static void hash_tensor(struct sha256_ctx *hash, const lap_tensor *tensor) {
  sha256_update(hash, strlen(tensor->name) + 1, (const uint8_t *)tensor->name);
  hash_number(hash, tensor->dtype);
  for (int i = 0; i < tensor->rank; i++) hash_number(hash, tensor->shape[i]);
  for (int i = 0; i < SAMPLES; i++) {
    uint64_t at = tensor->bytes / SAMPLES * (uint64_t)i;
    uint64_t n = tensor->bytes - at < SAMPLE_BYTES ? tensor->bytes - at : SAMPLE_BYTES;
    sha256_update(hash, n, tensor->data + at);
  }
}

static void hash_linear(struct sha256_ctx *hash, const lap_linear *linear, const lap_tensors *tensors) {
  if (!linear->present) return;
  hash_tensor(hash, lap_tensors_at(tensors, linear->weight));
  if (linear->bits == 0) return;
  hash_tensor(hash, lap_tensors_at(tensors, linear->scales));
  hash_tensor(hash, lap_tensors_at(tensors, linear->biases));
}

static void hash_layer(struct sha256_ctx *hash, const lap_layer *layer, const lap_tensors *tensors) {
  for (int i = 0; i < LAP_LAYER_LINEARS; i++) hash_linear(hash, &layer->linear[i], tensors);
  for (int i = 0; i < LAP_LAYER_VECTORS; i++)
    if (layer->vector[i].present) hash_tensor(hash, lap_tensors_at(tensors, layer->vector[i].tensor));
}

/* What K and V of a sequence depend on: the structure (the text that a cut's fingerprint is made of) and the
 * weights. */
static lap_status make_fingerprint(const lap_model *model, unsigned char *out, lap_error *error) {
  const lap_plan *plan = model->plan;
  struct sha256_ctx hash;
  char *text;
  size_t length;
  lap_status status = lap_plan_text(plan, &text, &length, error);
  if (status != LAP_OK) return status;
  sha256_init(&hash);
  sha256_update(&hash, length, (const uint8_t *)text);
  free(text);
  hash_linear(&hash, &plan->embed, model->tensors);
  hash_linear(&hash, &plan->embed_per_layer, model->tensors);
  hash_linear(&hash, &plan->per_layer_projection, model->tensors);
  for (int i = 0; i < plan->layers; i++) hash_layer(&hash, &plan->layer[i], model->tensors);
  sha256_digest(&hash, LAP_MODEL_FINGERPRINT_BYTES, out);
  return LAP_OK;
}

lap_status lap_model_fingerprint(lap_model *model, unsigned char out[LAP_MODEL_FINGERPRINT_BYTES],
                                 lap_error *error) {
  lap_status status = LAP_OK;
  pthread_mutex_lock(&model->mutex);
  if (!model->has_fingerprint) status = make_fingerprint(model, model->fingerprint, error);
  model->has_fingerprint = status == LAP_OK;
  memcpy(out, model->fingerprint, LAP_MODEL_FINGERPRINT_BYTES);
  pthread_mutex_unlock(&model->mutex);
  return status;
}

/* ---- opening ---- */

static lap_status open_device(const lap_model_options *options, lap_device **out, lap_error *error) {
  const lap_device_options how = {.isa = options ? options->isa : NULL};
  return lap_device_open("cpu", &how, out, error);
}

lap_status lap_model_choose_code(const lap_plan *plan, const lap_model_options *options, lap_device **device,
                                 lap_bound **bound, lap_error *error) {
  *bound = NULL;
  lap_status status = open_device(options, device, error);
  return status == LAP_OK ? (*device)->driver->bind(*device, plan, NULL, bound, error) : status;
}

void lap_model_release_code(lap_device *device, lap_bound *bound) {
  if (bound) device->driver->unbind(bound);
  if (device) device->driver->close(device);
}

lap_status lap_model_assemble(const char *name, lap_tensors *tensors, lap_plan *plan,
                              const lap_model_options *options, lap_model **out, lap_error *error) {
  *out = NULL;
  lap_model *model = calloc(1, sizeof *model);
  if (!model) {
    lap_plan_free(plan);
    lap_tensors_close(tensors);
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
  }
  pthread_mutex_init(&model->mutex, NULL);
  model->tensors = tensors;
  model->plan = plan;
  model->directory = strdup(name);
  lap_status status =
      model->directory ? LAP_OK : lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
  if (status == LAP_OK) status = open_device(options, &model->device, error);
  if (status == LAP_OK)
    status = model->device->driver->bind(model->device, plan, tensors, &model->bound, error);
  if (status != LAP_OK) {
    lap_model_close(model);
    return status;
  }
  *out = model;
  return LAP_OK;
}

lap_status lap_model_open(const char *directory, const lap_model_options *options, lap_model **out,
                          lap_error *error) {
  lap_tensors *tensors;
  lap_plan *plan;
  *out = NULL;
  lap_status status = lap_tensors_open(directory, &tensors, error);
  if (status != LAP_OK) return status;
  status = lap_plan_build(directory, tensors, options ? options->kv : LAP_KV_CONFIG, &plan, error);
  if (status == LAP_OK) return lap_model_assemble(directory, tensors, plan, options, out, error);
  lap_tensors_close(tensors);
  return status;
}

void lap_model_close(lap_model *model) {
  if (!model) return;
  pthread_mutex_destroy(&model->mutex);
  lap_vocabulary_destroy(model->vocabulary);
  lap_tokenizer_close(model->tokenizer);
  lap_model_release_code(model->device, model->bound);
  lap_plan_free(model->plan);
  lap_tensors_close(model->tensors);
  free(model->directory);
  free(model);
}

void lap_model_warm(lap_model *model) {
  model->device->driver->warm(model->bound);
}

lap_status lap_model_tokenizer(lap_model *model, const lap_tokenizer **out, lap_error *error) {
  *out = model->tokenizer;
  if (*out) return LAP_OK;
  size_t bytes = strlen(model->directory) + sizeof "/tokenizer.json";
  char *path = malloc(bytes);
  if (!path) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", model->directory);
  snprintf(path, bytes, "%s/tokenizer.json", model->directory);
  /* A tokenizer may name ids beyond the vocabulary (Gemma 3's has one); evaluating one is refused. */
  lap_status status = lap_tokenizer_open(path, &model->tokenizer, error);
  free(path);
  *out = model->tokenizer;
  return status;
}

lap_status lap_model_vocabulary(lap_model *model, const lap_vocabulary **out, lap_error *error) {
  const lap_tokenizer *tokenizer;
  pthread_mutex_lock(&model->mutex);
  lap_status status = lap_model_tokenizer(model, &tokenizer, error);
  if (status == LAP_OK && !model->vocabulary)
    status = lap_vocabulary_create(tokenizer, model->plan->eos, (size_t)model->plan->eos_count,
                                   &model->vocabulary, error);
  *out = model->vocabulary;
  pthread_mutex_unlock(&model->mutex);
  return status;
}

lap_cut_info lap_model_cut(const lap_model *model) {
  return model->device->driver->cut(model->bound);
}

int32_t lap_model_vocab_size(const lap_model *model) {
  return model->plan->vocab_size;
}

int32_t lap_model_bos(const lap_model *model) {
  return model->plan->bos;
}

int32_t lap_model_context(const lap_model *model) {
  return model->plan->max_position_embeddings;
}

bool lap_model_is_eos(const lap_model *model, int32_t id) {
  for (int i = 0; i < model->plan->eos_count; i++)
    if (model->plan->eos[i] == id) return true;
  return false;
}

lap_status lap_model_encode_marked(lap_model *model, const char *text, size_t length,
                                   const lap_range *trusted, size_t trusted_count, int32_t **ids,
                                   size_t *count, lap_error *error) {
  const lap_tokenizer *tokenizer;
  *ids = NULL;
  *count = 0;
  lap_status status = lap_model_tokenizer(model, &tokenizer, error);
  return status != LAP_OK ? status
                          : lap_tokenizer_encode_prompt(tokenizer, model->plan->bos, text, length, trusted,
                                                        trusted_count, ids, count, error);
}

lap_status lap_model_encode(lap_model *model, const char *text, size_t length, int32_t **ids, size_t *count,
                            lap_error *error) {
  const lap_range whole = {0, length};
  return lap_model_encode_marked(model, text, length, &whole, 1, ids, count, error);
}
