/* bind.c: pointers into the mapping, and the vectors in f32.
 *
 * The plan has checked every shape, so nothing is checked here again. */
#include "cpu/bind.h"

#include <stdlib.h>

static lap_format format_of(lap_dtype dtype) {
  return dtype == LAP_F32 ? LAP_FORMAT_F32 : dtype == LAP_F16 ? LAP_FORMAT_F16 : LAP_FORMAT_BF16;
}

static lap_weight bind(const lap_linear *linear, const lap_tensors *tensors) {
  lap_weight weight = {.rows = linear->out_features, .cols = linear->in_features, .bits = linear->bits};
  if (!linear->present) return weight;
  lap_format format = format_of(linear->dtype);
  const unsigned char *data = lap_tensors_at(tensors, linear->weight)->data;
  size_t rows = (size_t)linear->out_features, cols = (size_t)linear->in_features;
  if (linear->bits == 0) {
    size_t row_bytes = cols * lap_format_bytes(format);
    weight.dense =
        (lap_dmatrix){.weight = data, .row_bytes = row_bytes, .cols = linear->in_features, .format = format};
    weight.expert_weight_bytes = rows * row_bytes;
    return weight;
  }
  size_t groups = cols / (size_t)linear->group_size;
  weight.block = lap_block_of_group(linear->group_size);
  weight.quantized = (lap_qmatrix){
      .codes = data,
      .scales = lap_tensors_at(tensors, linear->scales)->data,
      .biases = lap_tensors_at(tensors, linear->biases)->data,
      .row_bytes = cols * (size_t)linear->bits / 8,
      .scale_stride = groups,
      .cols = linear->in_features,
      .bits = linear->bits,
      .group_size = linear->group_size,
      .format = format,
  };
  weight.expert_weight_bytes = rows * weight.quantized.row_bytes;
  weight.expert_scale_bytes = rows * groups * lap_format_bytes(format);
  return weight;
}

static const float *widen(const lap_vector *vector, const lap_tensors *tensors, float **next) {
  if (!vector->present) return NULL;
  float *out = *next;
  const lap_tensor *tensor = lap_tensors_at(tensors, vector->tensor);
  for (int i = 0; i < vector->length; i++)
    out[i] = lap_format_load(format_of(vector->dtype), tensor->data, (size_t)i);
  *next += vector->length;
  return out;
}

static size_t vector_floats(const lap_plan *plan) {
  size_t floats = (size_t)plan->final_norm.length + (size_t)plan->per_layer_norm.length;
  for (int i = 0; i < plan->layers; i++)
    for (int v = 0; v < LAP_LAYER_VECTORS; v++)
      if (plan->layer[i].vector[v].present) floats += (size_t)plan->layer[i].vector[v].length;
  return floats;
}

static void bind_layer(const lap_plan *plan, int index, const lap_tensors *tensors, lap_layer_weights *out,
                       float **next) {
  const lap_layer *layer = &plan->layer[index];
  for (int i = 0; i < LAP_LAYER_LINEARS; i++) out->linear[i] = bind(&layer->linear[i], tensors);
  for (int i = 0; i < LAP_LAYER_VECTORS; i++) {
    float *vector = *next;
    out->vector[i] = widen(&layer->vector[i], tensors, next);
    if (i == LAP_ROUTER_SCALE && out->vector[i])
      for (int j = 0; j < layer->vector[i].length; j++) vector[j] *= 1.0f / sqrtf((float)plan->hidden_size);
  }
}

lap_status lap_weights_bind(const lap_plan *plan, const lap_tensors *tensors, lap_weights **out,
                            lap_error *error) {
  *out = NULL;
  lap_weights *weights = calloc(1, sizeof *weights);
  if (weights) {
    weights->layer = calloc((size_t)plan->layers, sizeof *weights->layer);
    weights->storage = malloc((vector_floats(plan) + 1) * sizeof(float));
  }
  if (!weights || !weights->layer || !weights->storage) {
    lap_weights_free(weights);
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %d layers", plan->layers);
  }
  float *next = weights->storage;
  weights->embed = bind(&plan->embed, tensors);
  weights->embed_per_layer = bind(&plan->embed_per_layer, tensors);
  weights->per_layer_projection = bind(&plan->per_layer_projection, tensors);
  weights->head = bind(&plan->head, tensors);
  weights->final_norm = widen(&plan->final_norm, tensors, &next);
  weights->per_layer_norm = widen(&plan->per_layer_norm, tensors, &next);
  for (int i = 0; i < plan->layers; i++) {
    bind_layer(plan, i, tensors, &weights->layer[i], &next);
    if (plan->per_layer_width)
      weights->layer[i].pli_rows =
          lap_weight_slice(&weights->per_layer_projection, i * plan->per_layer_width, plan->per_layer_width);
  }
  *out = weights;
  return LAP_OK;
}

void lap_weights_free(lap_weights *weights) {
  if (!weights) return;
  free(weights->layer);
  free(weights->storage);
  free(weights);
}
