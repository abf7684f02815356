/* experts.c: the mixture of experts of the 26B-A4B structure.
 *
 * Rows are taken in tiles. Each row's chosen experts become slots; slots are sorted by expert, so that
 * an expert's weights are read once for a tile, and all gate and up products run as one batch. The
 * weighted sum over a row's experts runs in ascending index of the expert: an order that neither the
 * batch nor the ranking of near-equal scores can change. */
#include "model/forward_state.h"

typedef struct slot {
  int row; /* within the tile */
  int expert;
  float weight;
} slot;

typedef struct experts {
  lap_forward *forward;
  const lap_layer *layer;
  const lap_layer_weights *weights;
  float *router_normed; /* [rows, hidden] */
  float *scores;        /* [rows, experts] */
  float *gathered;      /* [slots, hidden] */
  float *gate, *up;     /* [slots, width] */
  float *down;          /* [slots, hidden] */
  lap_input router_input, input, wide_input;
  slot *slots; /* [slots], by expert, then row */
  lap_product *products;
  lap_weight *stack; /* [3 * slots]: the matrices that products point to */
  int rows, count;
  int first_row;
} experts;

typedef struct carve {
  unsigned char *base;
  size_t used;
} carve;

static void *take(carve *from, size_t count, size_t size) {
  void *at = from->base ? from->base + from->used : NULL;
  from->used += (count * size + 63) / 64 * 64;
  return at;
}

/* Lays the tile's buffers out in memory; with base NULL it only adds up their sizes. */
static size_t lay_out(experts *e, const lap_plan *plan, unsigned char *base) {
  carve memory = {base, 0};
  size_t rows = LAP_EXPERT_TILE_ROWS, slots = rows * (size_t)plan->top_k_experts;
  size_t hidden = (size_t)plan->hidden_size, width = (size_t)plan->moe_width;
  e->router_normed = take(&memory, rows * hidden, sizeof(float));
  e->scores = take(&memory, rows * (size_t)plan->num_experts, sizeof(float));
  e->gathered = take(&memory, slots * hidden, sizeof(float));
  e->gate = take(&memory, slots * width, sizeof(float));
  e->up = take(&memory, slots * width, sizeof(float));
  e->down = take(&memory, slots * hidden, sizeof(float));
  e->slots = take(&memory, slots, sizeof(slot));
  e->products = take(&memory, 2 * slots, sizeof(lap_product));
  e->stack = take(&memory, 2 * slots, sizeof(lap_weight));
  void *router = take(&memory, lap_input_bytes((int)rows, plan->hidden_size), 1);
  void *input = take(&memory, lap_input_bytes((int)slots, plan->hidden_size), 1);
  void *wide = take(&memory, lap_input_bytes((int)slots, plan->moe_width), 1);
  if (base) {
    lap_input_place(&e->router_input, router, (int)rows, plan->hidden_size);
    lap_input_place(&e->input, input, (int)slots, plan->hidden_size);
    lap_input_place(&e->wide_input, wide, (int)slots, plan->moe_width);
  }
  return memory.used;
}

lap_status lap_experts_prepare(lap_forward *forward, lap_error *error) {
  experts e;
  if (!forward->model->plan->num_experts) return LAP_OK;
  return lap_buffer_need(&forward->expert_memory, 1, lay_out(&e, forward->model->plan, NULL), "the experts",
                         error);
}

/* ---- routing ---- */

static void norm_router_row(void *context, int row) {
  experts *e = context;
  const lap_plan *plan = e->forward->model->plan;
  const float *h = e->forward->hidden + (size_t)(e->first_row + row) * (size_t)plan->hidden_size;
  e->forward->workspace.kernels->rms_norm(h, e->weights->vector[LAP_ROUTER_SCALE], plan->hidden_size,
                                          plan->rms_norm_eps,
                                          e->router_normed + (size_t)row * (size_t)plan->hidden_size);
}

/* The k largest scores, the lower index first among equals; their softmax times per_expert_scale. */
static void choose(const experts *e, int row, slot *chosen) {
  const lap_plan *plan = e->forward->model->plan;
  const float *score = e->scores + (size_t)row * (size_t)plan->num_experts;
  float sum = 0.0f;
  for (int k = 0; k < plan->top_k_experts; k++) {
    int best = -1;
    for (int i = 0; i < plan->num_experts; i++) {
      bool taken = false;
      for (int j = 0; j < k; j++) taken = taken || chosen[j].expert == i;
      if (!taken && (best < 0 || score[i] > score[best])) best = i;
    }
    chosen[k] = (slot){.row = row, .expert = best};
  }
  for (int k = 0; k < plan->top_k_experts; k++) {
    chosen[k].weight = e->forward->workspace.kernels->exp(score[chosen[k].expert] - score[chosen[0].expert]);
    sum += chosen[k].weight;
  }
  for (int k = 0; k < plan->top_k_experts; k++)
    chosen[k].weight = chosen[k].weight / sum * e->weights->vector[LAP_PER_EXPERT_SCALE][chosen[k].expert];
}

static void route(experts *e) {
  const lap_plan *plan = e->forward->model->plan;
  const lap_workspace *workspace = &e->forward->workspace;
  const lap_weight *router = &e->weights->linear[LAP_ROUTER];
  lap_for_rows(workspace, e->rows, norm_router_row, e);
  lap_input_fill(workspace, &e->router_input, e->router_normed, e->rows, &router, 1);
  lap_product product = {.weight = router,
                         .input = &e->router_input,
                         .input_rows = e->rows,
                         .y = e->scores,
                         .y_stride = (size_t)plan->num_experts};
  lap_multiply(workspace, &product, 1);
  e->count = e->rows * plan->top_k_experts;
  for (int row = 0; row < e->rows; row++) choose(e, row, e->slots + row * plan->top_k_experts);
}

static void show_routes(const experts *e, int layer) {
  const lap_probe *probe = e->forward->probe;
  int k = e->forward->model->plan->top_k_experts;
  float shown[2 * LAP_MAX_TOP_K];
  if (!probe) return;
  for (int row = 0; row < e->rows; row++) {
    for (int i = 0; i < k; i++) {
      shown[i] = (float)e->slots[row * k + i].expert;
      shown[k + i] = e->slots[row * k + i].weight;
    }
    probe->see(probe->context, "router", layer, shown, 1, 2 * k);
  }
}

static void sort_slots(experts *e) {
  for (int i = 1; i < e->count; i++) {
    slot moving = e->slots[i];
    int j = i;
    for (; j > 0 && e->slots[j - 1].expert > moving.expert; j--) e->slots[j] = e->slots[j - 1];
    e->slots[j] = moving;
  }
}

/* ---- products ---- */

/* One product for each expert that has slots. */
static int add_products(experts *e, int count, const lap_weight *stack, const lap_input *input, float *y) {
  for (int first = 0; first < e->count;) {
    int end = first;
    while (end < e->count && e->slots[end].expert == e->slots[first].expert) end++;
    e->stack[count] = lap_weight_expert(stack, e->slots[first].expert);
    e->products[count] = (lap_product){.weight = &e->stack[count],
                                       .input = input,
                                       .first_input_row = first,
                                       .input_rows = end - first,
                                       .y = y + (size_t)first * (size_t)stack->rows,
                                       .y_stride = (size_t)stack->rows};
    count++;
    first = end;
  }
  return count;
}

static void gather_slot(void *context, int i) {
  experts *e = context;
  size_t hidden = (size_t)e->forward->model->plan->hidden_size;
  memcpy(e->gathered + (size_t)i * hidden,
         e->forward->normed + (size_t)(e->first_row + e->slots[i].row) * hidden, hidden * sizeof(float));
}

static void activate_slot(void *context, int i) {
  experts *e = context;
  size_t width = (size_t)e->forward->model->plan->moe_width;
  float *gate = e->gate + (size_t)i * width;
  e->forward->workspace.kernels->geglu(gate, e->up + (size_t)i * width, (int)width, gate);
}

static void run_experts(experts *e) {
  const lap_workspace *workspace = &e->forward->workspace;
  const lap_weight *gate = &e->weights->linear[LAP_EXPERT_GATE], *up = &e->weights->linear[LAP_EXPERT_UP];
  const lap_weight *down = &e->weights->linear[LAP_EXPERT_DOWN];
  lap_for_rows(workspace, e->count, gather_slot, e);
  lap_input_fill(workspace, &e->input, e->gathered, e->count, (const lap_weight *[]){gate, up}, 2);
  int count = add_products(e, 0, gate, &e->input, e->gate);
  count = add_products(e, count, up, &e->input, e->up);
  lap_multiply(workspace, e->products, count);
  lap_for_rows(workspace, e->count, activate_slot, e);
  lap_input_fill(workspace, &e->wide_input, e->gate, e->count, &down, 1);
  count = add_products(e, 0, down, &e->wide_input, e->down);
  lap_multiply(workspace, e->products, count);
}

/* Slots are in ascending order of expert, so each row adds its experts in that order. */
static void add_up(experts *e, float *out) {
  size_t hidden = (size_t)e->forward->model->plan->hidden_size;
  memset(out, 0, (size_t)e->rows * hidden * sizeof(float));
  for (int i = 0; i < e->count; i++) {
    float *to = out + (size_t)e->slots[i].row * hidden;
    const float *from = e->down + (size_t)i * hidden;
    for (size_t d = 0; d < hidden; d++) to[d] = lap_fma(e->slots[i].weight, from[d], to[d]);
  }
}

void lap_route_experts(lap_forward *forward, int index, float *out) {
  experts e = {.forward = forward,
               .layer = &forward->model->plan->layer[index],
               .weights = &forward->model->weights->layer[index]};
  lay_out(&e, forward->model->plan, forward->expert_memory.data);
  for (e.first_row = 0; e.first_row < forward->rows; e.first_row += LAP_EXPERT_TILE_ROWS) {
    int left = forward->rows - e.first_row;
    e.rows = left < LAP_EXPERT_TILE_ROWS ? left : LAP_EXPERT_TILE_ROWS;
    route(&e);
    show_routes(&e, index);
    sort_slots(&e);
    run_experts(&e);
    add_up(&e, out + (size_t)e.first_row * (size_t)forward->model->plan->hidden_size);
  }
}
