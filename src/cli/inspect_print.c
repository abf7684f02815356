/* inspect_print.c: a plan on paper, for people and for programs.
 *
 * The text form collapses modules that differ in nothing but their layer into one line with the
 * layers' ranges; the JSON form leaves nothing out. Both print only what the plan says. */
#include "cli/inspect_print.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/memory.h"
#include "cli/support.h"

static uint64_t context_or_limit(const lap_plan *plan, uint64_t context) {
  return context ? context : (uint64_t)plan->max_position_embeddings;
}

/* ---- pieces of text ---- */

enum {
  SHORT_TEXT = LAP_BYTES_TEXT
};

static const char *cache_text(int32_t bits, int32_t group, char text[SHORT_TEXT]) {
  if (bits)
    snprintf(text, SHORT_TEXT, "%d bit g%d", bits, group);
  else
    snprintf(text, SHORT_TEXT, "plain");
  return text;
}

static const char *weights_text(const lap_linear *linear, char text[SHORT_TEXT]) {
  const char *dtype = lap_dtype_name(linear->dtype);
  if (linear->bits)
    snprintf(text, SHORT_TEXT, "%d bit g%d %s", linear->bits, linear->group_size, dtype);
  else
    snprintf(text, SHORT_TEXT, "dense %s", dtype);
  return text;
}

static const char *shape_text(const lap_linear *linear, bool stack, char text[SHORT_TEXT]) {
  if (stack)
    snprintf(text, SHORT_TEXT, "%d x %d x %d", linear->experts, linear->out_features, linear->in_features);
  else
    snprintf(text, SHORT_TEXT, "%d x %d", linear->out_features, linear->in_features);
  return text;
}

/* ---- text: summary and layers ---- */

static void print_summary(FILE *out, const lap_plan *plan) {
  fprintf(out, "Model\n");
  fprintf(out, "  type        %s\n", plan->model_type);
  fprintf(out, "  layers      %d", plan->layers);
  if (plan->first_sharer < plan->layers)
    fprintf(out, " (%d compute keys and values, %d share them)", plan->caches,
            plan->layers - plan->first_sharer);
  fprintf(out, "\n  hidden      %d\n", plan->hidden_size);
  fprintf(out, "  vocabulary  %d\n", plan->vocab_size);
  fprintf(out, "  context     %d positions\n", plan->max_position_embeddings);
  if (plan->per_layer_width) fprintf(out, "  per layer   inputs %d wide\n", plan->per_layer_width);
  if (plan->num_experts)
    fprintf(out, "  experts     %d, %d for each token, %d wide\n", plan->num_experts, plan->top_k_experts,
            plan->moe_width);
  fprintf(out, "  head        %s", plan->tied_head ? "tied to the embedding" : "own weights");
  if (plan->final_logit_softcapping > 0)
    fprintf(out, ", logits capped at %g", (double)plan->final_logit_softcapping);
  fprintf(out, "\n  end tokens ");
  for (int32_t i = 0; i < plan->eos_count; i++) fprintf(out, " %d", plan->eos[i]);
  fprintf(out, plan->eos_count ? "\n" : " none\n");
  for (int type = 0; type < 2; type++)
    fprintf(out, "  rope        %s: theta %g, %d of %d pairs turn\n", lap_attention_name((lap_attention)type),
            plan->rope[type].theta, plan->rope[type].rotated_pairs, plan->head_dim[type] / 2);
}

static void print_flags(FILE *out, const lap_layer *layer) {
  if (layer->exports_kv) fprintf(out, " exports");
  if (layer->k_eq_v) fprintf(out, " k=v");
  if (layer->moe) fprintf(out, " moe");
  if (layer->linear[LAP_PLI_GATE].present) fprintf(out, " pli");
  if (layer->has_layer_scalar) fprintf(out, " scalar");
  fprintf(out, "\n");
}

static void print_layers(FILE *out, const lap_plan *plan) {
  fprintf(out, "\nLayers\n  %5s  %-7s  %-8s  %6s  %8s  %4s  %-10s  %6s  %s\n", "layer", "type", "K and V",
          "window", "heads/kv", "size", "cache", "MLP", "flags");
  for (int32_t i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    char kv[SHORT_TEXT] = "own", window[SHORT_TEXT] = "all", heads[SHORT_TEXT], cache[SHORT_TEXT];
    if (layer->sharer) snprintf(kv, sizeof kv, "from %d", layer->donor);
    if (layer->window) snprintf(window, sizeof window, "%d", layer->window);
    snprintf(heads, sizeof heads, "%d/%d", layer->heads, layer->kv_heads);
    fprintf(out, "  %5d  %-7s  %-8s  %6s  %8s  %4d  %-10s  %6d ", i, lap_attention_name(layer->attention), kv,
            window, heads, layer->head_dim, cache_text(layer->kv_bits, layer->kv_group_size, cache),
            layer->mlp_width);
    print_flags(out, layer);
  }
}

/* ---- text: modules ---- */

enum {
  LAYERS_COLUMN = 68,
  LAST_COLUMN = 100
};

static bool is_stack(int which) {
  return which >= LAP_EXPERT_GATE && which <= LAP_EXPERT_DOWN;
}

/* Equal but for the tensors that hold them. */
static bool same_kind(const lap_linear *a, const lap_linear *b) {
  return a->present == b->present && a->out_features == b->out_features && a->in_features == b->in_features &&
         a->experts == b->experts && a->bits == b->bits && a->group_size == b->group_size &&
         a->dtype == b->dtype;
}

static void print_module(FILE *out, const char *name, const lap_linear *linear, bool stack,
                         int shape_columns) {
  char weights[SHORT_TEXT], shape[SHORT_TEXT];
  fprintf(out, "  %-29s  %-15s  %-*s", name, weights_text(linear, weights), shape_columns,
          shape_text(linear, stack, shape));
}

/* Prints the layers from `first` on whose module is of the same kind: `0-7,9`, wrapped. */
static void print_ranges(FILE *out, const lap_plan *plan, int which, int32_t first) {
  const lap_linear *kind = &plan->layer[first].linear[which];
  int column = LAYERS_COLUMN;
  for (int32_t i = first; i < plan->layers; i++) {
    if (!same_kind(kind, &plan->layer[i].linear[which])) continue;
    int32_t last = i;
    while (last + 1 < plan->layers && same_kind(kind, &plan->layer[last + 1].linear[which])) last++;
    char range[SHORT_TEXT];
    int n = last > i ? snprintf(range, sizeof range, "%s%d-%d", i > first ? "," : "", i, last)
                     : snprintf(range, sizeof range, "%s%d", i > first ? "," : "", i);
    if (column + n >= LAST_COLUMN) {
      fprintf(out, ",\n%*s%s", LAYERS_COLUMN, "", range + 1);
      column = LAYERS_COLUMN + n - 1;
    } else {
      fputs(range, out);
      column += n;
    }
    i = last;
  }
  fprintf(out, "\n");
}

static bool is_first_of_kind(const lap_plan *plan, int which, int32_t index) {
  for (int32_t i = 0; i < index; i++)
    if (same_kind(&plan->layer[i].linear[which], &plan->layer[index].linear[which])) return false;
  return true;
}

static void print_modules(FILE *out, const lap_plan *plan) {
  const struct {
    const char *name;
    const lap_linear *linear;
  } model[] = {{"embed_tokens", &plan->embed},
               {"embed_tokens_per_layer", &plan->embed_per_layer},
               {"per_layer_model_projection", &plan->per_layer_projection},
               {"lm_head", plan->tied_head ? NULL : &plan->head}};
  fprintf(out, "\nModules\n  %-29s  %-15s  %-17s %s\n", "module", "weights", "shape", "layers");
  for (size_t i = 0; i < sizeof model / sizeof *model; i++) {
    if (!model[i].linear || !model[i].linear->present) continue;
    print_module(out, model[i].name, model[i].linear, false, 0);
    fprintf(out, "\n");
  }
  for (int which = 0; which < LAP_LAYER_LINEARS; which++)
    for (int32_t i = 0; i < plan->layers; i++) {
      const lap_linear *linear = &plan->layer[i].linear[which];
      if (!linear->present || !is_first_of_kind(plan, which, i)) continue;
      print_module(out, lap_layer_linear_name((lap_layer_linear)which), linear, is_stack(which), 18);
      print_ranges(out, plan, which, i);
    }
}

static void print_bytes(FILE *out, const lap_plan *plan, const lap_tensors *tensors, uint64_t context) {
  lap_plan_sizes sizes = lap_plan_measure(plan);
  char text[SHORT_TEXT];
  fprintf(out, "\nBytes\n  weights on disk       %12s\n",
          lap_bytes_text(lap_tensors_file_bytes(tensors), text));
  fprintf(out, "  used by the text      %12s\n", lap_bytes_text(sizes.weights, text));
  fprintf(out, "  read for each token   %12s  (decoding, beside the caches)\n",
          lap_bytes_text(sizes.decode, text));
  fprintf(out, "  KV caches             %12s  for %llu positions\n",
          lap_bytes_text(lap_plan_kv_bytes(plan, context), text), (unsigned long long)context);
  fprintf(out, "    full layers         %12s  a position\n", lap_bytes_text(sizes.kv_per_token_full, text));
  fprintf(out, "    sliding layers      %12s  a position, up to their window\n",
          lap_bytes_text(sizes.kv_per_token_sliding, text));
}

static void print_cut(FILE *out, const lap_cut_info *cut) {
  fprintf(out, "\nCut\n  fingerprint %s\n  forward     ", cut->fingerprint);
  if (!cut->available)
    fprintf(out, "monolith: %s\n", cut->why);
  else
    fprintf(out, "cut, %s\n", cut->path ? cut->path : "built in");
}

void lap_inspect_text(FILE *out, const lap_plan *plan, const lap_tensors *tensors, const lap_cut_info *cut,
                      uint64_t context) {
  print_summary(out, plan);
  print_cut(out, cut);
  print_layers(out, plan);
  print_modules(out, plan);
  print_bytes(out, plan, tensors, context_or_limit(plan, context));
}

/* ---- JSON ---- */

/* As few digits (from six on) as read back as the same value: at most 9 for a float, 17 for a double. */
static void put_real(lap_json_writer *json, const char *key, double value, int digits) {
  char text[SHORT_TEXT];
  for (int n = 6; n <= digits; n++) {
    snprintf(text, sizeof text, "%.*g", n, value);
    double back = strtod(text, NULL);
    if (digits == 9 ? (float)back == (float)value : back == value) break;
  }
  lap_write_raw(json, key, text, strlen(text));
}

static void put_float(lap_json_writer *json, const char *key, float value) {
  put_real(json, key, (double)value, 9);
}

static void put_ids(lap_json_writer *json, const char *key, const int32_t *ids, int32_t count) {
  lap_write_array(json, key);
  for (int32_t i = 0; i < count; i++) lap_write_integer(json, NULL, ids[i]);
  lap_write_end_array(json);
}

static void put_linear(lap_json_writer *json, const char *key, const lap_linear *linear,
                       const lap_tensors *tensors) {
  if (!linear->present) return;
  lap_write_object(json, key);
  lap_write_integer(json, "out_features", linear->out_features);
  lap_write_integer(json, "in_features", linear->in_features);
  lap_write_integer(json, "experts", linear->experts);
  lap_write_integer(json, "bits", linear->bits);
  lap_write_integer(json, "group_size", linear->group_size);
  lap_write_string(json, "dtype", lap_dtype_name(linear->dtype));
  lap_write_integer(json, "bytes", (int64_t)lap_linear_bytes(linear));
  lap_write_string(json, "weight", lap_tensors_at(tensors, linear->weight)->name);
  lap_write_string(json, "file", lap_tensors_at(tensors, linear->weight)->file);
  lap_write_end_object(json);
}

static void put_vector(lap_json_writer *json, const char *key, const lap_vector *vector) {
  if (!vector->present) return;
  lap_write_object(json, key);
  lap_write_integer(json, "length", vector->length);
  lap_write_string(json, "dtype", lap_dtype_name(vector->dtype));
  lap_write_end_object(json);
}

static void put_model(lap_json_writer *json, const lap_plan *plan) {
  lap_write_string(json, "model_type", plan->model_type);
  lap_write_integer(json, "num_hidden_layers", plan->layers);
  lap_write_integer(json, "first_sharer", plan->first_sharer);
  lap_write_integer(json, "caches", plan->caches);
  lap_write_integer(json, "hidden_size", plan->hidden_size);
  lap_write_integer(json, "vocab_size", plan->vocab_size);
  lap_write_integer(json, "vocab_size_per_layer_input", plan->vocab_size_per_layer);
  lap_write_integer(json, "hidden_size_per_layer_input", plan->per_layer_width);
  lap_write_integer(json, "max_position_embeddings", plan->max_position_embeddings);
  put_float(json, "rms_norm_eps", plan->rms_norm_eps);
  put_float(json, "final_logit_softcapping", plan->final_logit_softcapping);
  put_float(json, "embed_scale", plan->embed_scale);
  put_float(json, "per_layer_embed_scale", plan->per_layer_embed_scale);
  put_float(json, "per_layer_projection_scale", plan->per_layer_projection_scale);
  lap_write_integer(json, "num_experts", plan->num_experts);
  lap_write_integer(json, "top_k_experts", plan->top_k_experts);
  lap_write_integer(json, "moe_intermediate_size", plan->moe_width);
  lap_write_boolean(json, "tied_head", plan->tied_head);
  lap_write_boolean(json, "has_kv_config", plan->has_kv_config);
  lap_write_integer(json, "bos_token_id", plan->bos);
  lap_write_integer(json, "pad_token_id", plan->pad);
  put_ids(json, "eos_token_id", plan->eos, plan->eos_count);
}

static void put_ropes(lap_json_writer *json, const lap_plan *plan) {
  lap_write_object(json, "rope");
  for (int type = 0; type < 2; type++) {
    lap_write_object(json, lap_attention_name((lap_attention)type));
    lap_write_integer(json, "head_dim", plan->head_dim[type]);
    put_real(json, "theta", plan->rope[type].theta, 17);
    put_real(json, "factor", plan->rope[type].factor, 17);
    lap_write_integer(json, "rotated_pairs", plan->rope[type].rotated_pairs);
    lap_write_end_object(json);
  }
  lap_write_end_object(json);
}

static void put_generation(lap_json_writer *json, const lap_generation *generation) {
  lap_write_object(json, "generation");
  lap_write_boolean(json, "do_sample", generation->do_sample);
  put_float(json, "temperature", generation->temperature);
  lap_write_integer(json, "top_k", generation->top_k);
  put_float(json, "top_p", generation->top_p);
  put_float(json, "min_p", generation->min_p);
  put_float(json, "repetition_penalty", generation->repetition_penalty);
  put_ids(json, "suppress_tokens", generation->suppress, generation->suppress_count);
  lap_write_end_object(json);
}

static void put_bytes(lap_json_writer *json, const lap_plan *plan, const lap_tensors *tensors,
                      uint64_t context) {
  lap_plan_sizes sizes = lap_plan_measure(plan);
  lap_write_object(json, "bytes");
  lap_write_integer(json, "files", (int64_t)lap_tensors_file_bytes(tensors));
  lap_write_integer(json, "weights", (int64_t)sizes.weights);
  lap_write_integer(json, "decode", (int64_t)sizes.decode);
  lap_write_integer(json, "kv_per_token_full", (int64_t)sizes.kv_per_token_full);
  lap_write_integer(json, "kv_per_token_sliding", (int64_t)sizes.kv_per_token_sliding);
  lap_write_integer(json, "context", (int64_t)context);
  lap_write_integer(json, "kv", (int64_t)lap_plan_kv_bytes(plan, context));
  lap_write_end_object(json);
}

static void put_cache(lap_json_writer *json, const lap_layer *layer) {
  lap_write_object(json, "cache");
  lap_write_integer(json, "index", layer->cache);
  lap_write_string(json, "kind", layer->kv_bits ? "quantized" : "plain");
  lap_write_integer(json, "bits", layer->kv_bits ? layer->kv_bits : 16);
  lap_write_integer(json, "group_size", layer->kv_group_size);
  lap_write_integer(json, "bytes_per_position", (int64_t)lap_layer_kv_bytes(layer));
  lap_write_end_object(json);
}

static void put_layer(lap_json_writer *json, const lap_plan *plan, int32_t index,
                      const lap_tensors *tensors) {
  const lap_layer *layer = &plan->layer[index];
  lap_write_object(json, NULL);
  lap_write_integer(json, "index", index);
  lap_write_string(json, "attention", lap_attention_name(layer->attention));
  lap_write_string(json, "role", layer->sharer ? "sharer" : "donor");
  lap_write_integer(json, "donor", layer->donor);
  lap_write_boolean(json, "exports_kv", layer->exports_kv);
  lap_write_integer(json, "window", layer->window);
  lap_write_integer(json, "heads", layer->heads);
  lap_write_integer(json, "kv_heads", layer->kv_heads);
  lap_write_integer(json, "head_dim", layer->head_dim);
  lap_write_boolean(json, "k_eq_v", layer->k_eq_v);
  lap_write_integer(json, "mlp_width", layer->mlp_width);
  lap_write_boolean(json, "moe", layer->moe);
  lap_write_boolean(json, "layer_scalar", layer->has_layer_scalar);
  put_cache(json, layer);
  lap_write_object(json, "modules");
  for (int i = 0; i < LAP_LAYER_LINEARS; i++)
    put_linear(json, lap_layer_linear_name((lap_layer_linear)i), &layer->linear[i], tensors);
  lap_write_end_object(json);
  lap_write_object(json, "vectors");
  for (int i = 0; i < LAP_LAYER_VECTORS; i++)
    put_vector(json, lap_layer_vector_name((lap_layer_vector)i), &layer->vector[i]);
  lap_write_end_object(json);
  lap_write_end_object(json);
}

static void put_cut(lap_json_writer *json, const lap_cut_info *cut) {
  lap_write_object(json, "cut");
  lap_write_string(json, "fingerprint", cut->fingerprint);
  lap_write_boolean(json, "available", cut->available);
  if (cut->available) lap_write_string(json, "home", cut->path ? cut->path : "built in");
  if (!cut->available) lap_write_string(json, "why", cut->why);
  lap_write_end_object(json);
}

bool lap_inspect_json(FILE *out, const lap_plan *plan, const lap_tensors *tensors, const lap_cut_info *cut,
                      uint64_t context) {
  lap_text text = {0};
  lap_json_writer json;
  lap_write_begin_indented(&json, &text);
  lap_write_object(&json, NULL);
  put_model(&json, plan);
  put_ropes(&json, plan);
  put_generation(&json, &plan->generation);
  put_cut(&json, cut);
  put_bytes(&json, plan, tensors, context_or_limit(plan, context));
  lap_write_object(&json, "modules");
  put_linear(&json, "embed_tokens", &plan->embed, tensors);
  put_linear(&json, "embed_tokens_per_layer", &plan->embed_per_layer, tensors);
  put_linear(&json, "per_layer_model_projection", &plan->per_layer_projection, tensors);
  put_linear(&json, "lm_head", &plan->head, tensors);
  lap_write_end_object(&json);
  lap_write_array(&json, "layers");
  for (int32_t i = 0; i < plan->layers; i++) put_layer(&json, plan, i, tensors);
  lap_write_end_array(&json);
  lap_write_end_object(&json);
  lap_write_end(&json);
  return lap_text_print(&text, out);
}
