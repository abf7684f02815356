/* places.c: where buffers stand in the arena. Each has room for the widest layer; what attention needs and
 * what feed-forward and per-layer inputs need is never alive at the same time, and has the same room. */
#include "kernels/forms.h"
#include "program/build.h"

enum {
  TILE_BYTES = 8 /* of a lap_tile (pass/attend_rows.h): there are at most as many as rows */
};

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t floats(int32_t width) {
  return (int64_t)width * (int64_t)sizeof(float);
}

static int64_t forms(const lap_program *program, int32_t width, lap_product_input input) {
  return (int64_t)lap_input_row_bytes(width, program->forms[input]);
}

/* Puts a buffer at `*used`, which is moved behind it. */
static void put(lap_program *program, lap_buffer buffer, int64_t bytes, int64_t *used) {
  program->place[buffer] = (lap_place){.at = *used, .bytes = bytes};
  *used += (int64_t)lap_aligned((size_t)bytes);
}

/* Bytes of the widest layer's part. */
typedef struct widest {
  int64_t query, query_forms, key, gate, gate_forms;
} widest;

static widest find_widest(const lap_program *program) {
  const lap_plan *plan = program->plan;
  widest w = {.gate = floats(plan->per_layer_width),
              .gate_forms = forms(program, plan->per_layer_width, LAP_INPUT_PER_LAYER)};
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    const int32_t width = layer->heads * layer->head_dim;
    w.query = larger(w.query, floats(width));
    w.query_forms = larger(w.query_forms, forms(program, width, LAP_INPUT_ATTENTION));
    w.key = larger(w.key, floats(layer->kv_heads * layer->head_dim));
    if (program->mlp_floats) w.gate = larger(w.gate, floats(layer->mlp_width));
    w.gate_forms = larger(w.gate_forms, forms(program, layer->mlp_width, LAP_INPUT_MLP));
  }
  return w;
}

static void put_ropes(lap_program *program, int64_t *used) {
  static const lap_buffer cosine[] = {LAP_BUFFER_COSINE_SLIDING, LAP_BUFFER_COSINE_FULL},
                          sine[] = {LAP_BUFFER_SINE_SLIDING, LAP_BUFFER_SINE_FULL};
  for (int type = 0; type < 2; type++) {
    const int64_t bytes = floats(program->plan->rope[type].rotated_pairs);
    put(program, cosine[type], bytes, used);
    put(program, sine[type], bytes, used);
  }
}

void lap_program_place(lap_program *program) {
  const lap_plan *plan = program->plan;
  const int32_t hidden = plan->hidden_size;
  const bool pli = plan->per_layer_width > 0;
  const widest w = find_widest(program);
  int64_t used = 0;
  for (int buffer = 0; buffer < LAP_BUFFERS; buffer++) program->place[buffer] = (lap_place){.at = -1};
  put(program, LAP_BUFFER_HIDDEN, floats(hidden), &used);
  if (pli) {
    put(program, LAP_BUFFER_EMBEDDED, floats(hidden), &used);
    put(program, LAP_BUFFER_EMBEDDED_FORMS, forms(program, hidden, LAP_INPUT_EMBEDDED), &used);
  }
  put_ropes(program, &used);
  put(program, LAP_BUFFER_NORMED, floats(hidden), &used);
  put(program, LAP_BUFFER_NORMED_FORMS, forms(program, hidden, LAP_INPUT_NORMED), &used);
  if (pli) put(program, LAP_BUFFER_PLI, floats(plan->per_layer_width), &used);
  /* Normed is not read any more when something goes back to the stream, but by experts. */
  program->place[LAP_BUFFER_OUTPUT] = program->place[LAP_BUFFER_NORMED];
  if (plan->num_experts) put(program, LAP_BUFFER_OUTPUT, floats(hidden), &used);
  int64_t attention = used, feed_forward = used;
  put(program, LAP_BUFFER_QUERY, w.query, &attention);
  put(program, LAP_BUFFER_KEY, w.key, &attention);
  put(program, LAP_BUFFER_VALUE, w.key, &attention);
  put(program, LAP_BUFFER_QUERY_FORMS, w.query_forms, &attention);
  put(program, LAP_BUFFER_GATE, w.gate, &feed_forward);
  put(program, LAP_BUFFER_GATE_FORMS, w.gate_forms, &feed_forward);
  used = larger(attention, feed_forward);
  put(program, LAP_BUFFER_TILES, TILE_BYTES, &used);
  program->row_bytes = used;
}
