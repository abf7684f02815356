/* companions.c: generation_config.json and kv_config.json.
 *
 * Both are optional. Token ids must lie in the vocabulary, so that no later stage needs to check.
 * kv_config.json speaks of caches: an entry for a layer that has none is refused, because ignoring
 * it would be a setting without effect. */
#include "checkpoint/companions.h"

#include <string.h>

/* ---- token ids ---- */

/* Adds `value` to an ascending list without duplicates. */
static lap_status insert_id(const lap_json_document *document, const lap_json *value, int32_t vocab_size,
                            int32_t *ids, int32_t *count, int32_t capacity, lap_error *error) {
  if (value->type != LAP_JSON_INTEGER) return lap_json_fail(document, value, error, "must be a token id");
  if (value->integer < 0 || value->integer >= vocab_size)
    return lap_json_fail(document, value, error, "token id %lld is outside the vocabulary of %d",
                         (long long)value->integer, vocab_size);
  int32_t id = (int32_t)value->integer, at = 0;
  while (at < *count && ids[at] < id) at++;
  if (at < *count && ids[at] == id) return LAP_OK;
  if (*count == capacity)
    return lap_json_fail(document, value, error, "more than %d different ids", capacity);
  memmove(ids + at + 1, ids + at, (size_t)(*count - at) * sizeof *ids);
  ids[at] = id;
  ++*count;
  return LAP_OK;
}

lap_status lap_plan_add_eos(const lap_json_document *document, const lap_json *object, lap_plan *plan,
                            lap_error *error) {
  const lap_json *eos = lap_json_get(document, object, "eos_token_id");
  if (!eos || eos->type == LAP_JSON_NULL) return LAP_OK;
  if (eos->type == LAP_JSON_ARRAY && !eos->child)
    return lap_json_fail(document, eos, error,
                         "the list is empty; leave the field out if no token ends the text");
  const lap_json *id = eos->type == LAP_JSON_ARRAY ? eos->child : eos;
  for (; id; id = eos->type == LAP_JSON_ARRAY ? id->next : NULL) {
    lap_status status =
        insert_id(document, id, plan->vocab_size, plan->eos, &plan->eos_count, LAP_MAX_EOS, error);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

static lap_status read_suppressed(const lap_json_document *document, lap_plan *plan, lap_error *error) {
  lap_generation *generation = &plan->generation;
  const lap_json *list = lap_json_get(document, lap_json_root(document), "suppress_tokens");
  if (!list || list->type == LAP_JSON_NULL) return LAP_OK;
  if (list->type != LAP_JSON_ARRAY)
    return lap_json_fail(document, list, error, "must be an array of token ids");
  for (const lap_json *id = list->child; id; id = id->next) {
    lap_status status = insert_id(document, id, plan->vocab_size, generation->suppress,
                                  &generation->suppress_count, LAP_MAX_SUPPRESS, error);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

/* ---- generation_config.json ---- */

void lap_generation_defaults(lap_generation *generation) {
  *generation = (lap_generation){
      .do_sample = true, .temperature = 1, .top_k = 64, .top_p = 0.95f, .min_p = 0, .repetition_penalty = 1};
}

static lap_status read_float(const lap_json_document *document, const char *key, double min, double max,
                             float *out, lap_error *error) {
  double value = (double)*out;
  lap_status status = lap_json_get_real(document, lap_json_root(document), key, min, max, &value, error);
  if (status == LAP_OK) *out = (float)value;
  return status;
}

lap_status lap_generation_read(const lap_json_document *document, lap_plan *plan, lap_error *error) {
  const lap_json *root = lap_json_root(document);
  lap_generation *generation = &plan->generation;
  if (root->type != LAP_JSON_OBJECT) return lap_json_fail(document, NULL, error, "must be a JSON object");
  int64_t top_k = generation->top_k;
  lap_status status = lap_json_get_bool(document, root, "do_sample", &generation->do_sample, error);
  if (status == LAP_OK)
    status = read_float(document, "temperature", 0, 1000, &generation->temperature, error);
  if (status == LAP_OK) status = lap_json_get_integer(document, root, "top_k", 0, INT32_MAX, &top_k, error);
  if (status == LAP_OK) status = read_float(document, "top_p", 0, 1, &generation->top_p, error);
  if (status == LAP_OK) status = read_float(document, "min_p", 0, 1, &generation->min_p, error);
  if (status == LAP_OK)
    status = read_float(document, "repetition_penalty", 1e-3, 1000, &generation->repetition_penalty, error);
  if (status == LAP_OK) status = read_suppressed(document, plan, error);
  if (status == LAP_OK) status = lap_plan_add_eos(document, root, plan, error);
  generation->top_k = (int32_t)top_k;
  return status;
}

/* ---- kv_config.json ---- */

static lap_status require_integer(const lap_json_document *document, const lap_json *entry, const char *key,
                                  int64_t *out, lap_error *error) {
  const lap_json *member = lap_json_get(document, entry, key);
  if (!member || member->type == LAP_JSON_NULL)
    return lap_json_fail(document, entry, error, "%s: missing", key);
  return lap_json_get_integer(document, entry, key, INT32_MIN, INT32_MAX, out, error);
}

static lap_status apply_entry(const lap_json_document *document, const lap_json *entry, lap_plan *plan,
                              lap_error *error) {
  if (entry->type != LAP_JSON_OBJECT)
    return lap_json_fail(document, entry, error, "must be an object {layer_idx, bits, group_size}");
  int64_t index = 0, bits = 0, group = 64;
  lap_status status = require_integer(document, entry, "layer_idx", &index, error);
  if (status == LAP_OK) status = require_integer(document, entry, "bits", &bits, error);
  if (status == LAP_OK)
    status = lap_json_get_integer(document, entry, "group_size", INT32_MIN, INT32_MAX, &group, error);
  if (status != LAP_OK) return status;
  if (index < 0 || index >= plan->layers)
    return lap_json_fail(document, entry, error, "layer_idx: %lld is outside the %d layers", (long long)index,
                         plan->layers);
  lap_layer *layer = &plan->layer[index];
  if (layer->sharer)
    return lap_json_fail(document, entry, error,
                         "layer_idx: layer %lld has no cache of its own, it reads layer %d's",
                         (long long)index, layer->donor);
  if (layer->kv_bits)
    return lap_json_fail(document, entry, error, "layer_idx: layer %lld has an entry already",
                         (long long)index);
  if (bits != 4 && bits != 8)
    return lap_json_fail(document, entry, error, "bits: %lld for layer %lld; must be 4 or 8", (long long)bits,
                         (long long)index);
  if ((group != 32 && group != 64 && group != 128) || layer->head_dim % group)
    return lap_json_fail(document, entry, error,
                         "group_size: %lld for layer %lld; must be 32, 64 or 128 and divide its head size %d",
                         (long long)group, (long long)index, layer->head_dim);
  layer->kv_bits = (int32_t)bits;
  layer->kv_group_size = (int32_t)group;
  return LAP_OK;
}

lap_status lap_kv_config_read(const lap_json_document *document, lap_plan *plan, lap_error *error) {
  const lap_json *root = lap_json_root(document);
  if (root->type != LAP_JSON_ARRAY)
    return lap_json_fail(document, NULL, error, "must be a JSON array of {layer_idx, bits, group_size}");
  for (const lap_json *entry = root->child; entry; entry = entry->next) {
    lap_status status = apply_entry(document, entry, plan, error);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

void lap_kv_uniform(lap_plan *plan, int32_t bits) {
  for (int32_t i = 0; i < plan->layers; i++) {
    plan->layer[i].kv_bits = bits;
    plan->layer[i].kv_group_size = plan->layer[i].head_dim % 64 ? 32 : 64;
  }
}

void lap_kv_copy_to_sharers(lap_plan *plan) {
  for (int32_t i = plan->first_sharer; i < plan->layers; i++) {
    const lap_layer *donor = &plan->layer[plan->layer[i].donor];
    plan->layer[i].kv_bits = donor->kv_bits;
    plan->layer[i].kv_group_size = donor->kv_group_size;
  }
}
