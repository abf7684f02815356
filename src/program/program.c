/* program.c: kinds of layer, and the order of the pass. */
#include "program/program.h"

#include <stdio.h>
#include <stdlib.h>

#include "program/build.h"

/* ---- kinds ---- */

static bool same_format(const lap_linear *a, const lap_linear *b) {
  return a->bits == b->bits && a->group_size == b->group_size && a->dtype == b->dtype;
}

/* The same code, but for the formats of the weights. */
static bool same_kind(const lap_plan *plan, int32_t last_donor, int32_t i, int32_t j) {
  const lap_layer *a = &plan->layer[i], *b = &plan->layer[j];
  for (int which = 0; which < LAP_LAYER_LINEARS; which++) {
    const lap_linear *x = &a->linear[which], *y = &b->linear[which];
    if (x->present != y->present || x->out_features != y->out_features || x->in_features != y->in_features)
      return false;
  }
  return a->attention == b->attention && a->sharer == b->sharer && a->exports_kv == b->exports_kv &&
         a->window == b->window && a->heads == b->heads && a->kv_heads == b->kv_heads &&
         a->head_dim == b->head_dim && a->k_eq_v == b->k_eq_v && a->kv_bits == b->kv_bits &&
         a->kv_group_size == b->kv_group_size && a->mlp_width == b->mlp_width && a->moe == b->moe &&
         a->has_layer_scalar == b->has_layer_scalar && (i == last_donor) == (j == last_donor);
}

static void name_kind(const lap_program *program, lap_program_part *kind) {
  const lap_plan *plan = program->plan;
  const lap_layer *layer = &plan->layer[kind->layer];
  const lap_heads heads = {.bits = lap_layer_cache_bits(layer), .group_size = lap_layer_cache_group(layer)};
  char cache[LAP_CACHE_WORD_BYTES];
  lap_cache_word(&heads, cache);
  snprintf(kind->name, sizeof kind->name, "%s_%s_%s%s%s%s%s%s%s%s", layer->sharer ? "sharer" : "donor",
           lap_attention_name(layer->attention), cache,
           layer->sharer ? "" : (layer->k_eq_v ? "_k_is_v" : "_v"),
           layer->mlp_width > plan->layer[0].mlp_width ? "_wide" : "", layer->moe ? "_moe" : "",
           plan->per_layer_width ? "_pli" : "", layer->has_layer_scalar ? "_scalar" : "",
           layer->exports_kv ? "_export" : "", kind->layer == program->last_donor ? "_last" : "");
}

/* The number of layer `index`'s kind, which is made if it is the first of it. */
static int find_kind(lap_program *program, int32_t index) {
  int k = 1;
  while (k < program->parts && !same_kind(program->plan, program->last_donor, program->part[k].layer, index))
    k++;
  lap_program_part *kind = &program->part[k];
  if (k == program->parts) {
    program->parts++;
    kind->layer = index;
    name_kind(program, kind);
  }
  for (int which = 0; which < LAP_LAYER_LINEARS; which++)
    if (!same_format(&program->plan->layer[kind->layer].linear[which],
                     &program->plan->layer[index].linear[which]))
      kind->varies[which] = true;
  return k;
}

static int add_end(lap_program *program, const char *name) {
  lap_program_part *part = &program->part[program->parts];
  part->layer = -1;
  snprintf(part->name, sizeof part->name, "%s", name);
  return program->parts++;
}

static void order_parts(lap_program *program) {
  const lap_plan *plan = program->plan;
  program->calls = plan->layers + 2;
  program->call[0] = (lap_program_call){.part = add_end(program, "beginning"), .layer = -1, .cache = -1};
  for (int32_t i = 0; i < plan->layers; i++)
    program->call[i + 1] =
        (lap_program_call){.part = find_kind(program, i), .layer = i, .cache = plan->layer[i].cache};
  program->call[plan->layers + 1] =
      (lap_program_call){.part = add_end(program, "end"), .layer = plan->layers, .cache = -1};
}

static void number_steps(lap_program *program) {
  for (int c = 0; c < program->calls; c++) {
    program->call[c].first = program->length;
    program->length += program->part[program->call[c].part].steps;
  }
}

/* ---- the whole ---- */

static void take_forms(lap_program *program) {
  const lap_plan_forms forms = lap_plan_get_forms(program->plan);
  program->forms[LAP_INPUT_NORMED] = forms.normed;
  program->forms[LAP_INPUT_EMBEDDED] = forms.embedded;
  program->forms[LAP_INPUT_ATTENTION] = forms.attention;
  program->forms[LAP_INPUT_MLP] = forms.mlp;
  program->forms[LAP_INPUT_PER_LAYER] = forms.per_layer;
  program->forms[LAP_INPUT_ROUTER] = forms.router;
  program->forms[LAP_INPUT_EXPERT] = forms.expert;
  program->forms[LAP_INPUT_EXPERT_WIDE] = forms.expert_wide;
  program->mlp_floats = forms.mlp_floats;
  program->expert_floats = forms.expert_floats;
}

static lap_status out_of_memory(lap_error *error) {
  return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the list of steps");
}

static lap_status build(lap_program *program, lap_error *error) {
  const size_t ends = 2, layers = (size_t)program->plan->layers;
  program->part = calloc(layers + ends, sizeof *program->part);
  program->call = calloc(layers + ends, sizeof *program->call);
  if (!program->part || !program->call) return out_of_memory(error);
  order_parts(program);
  take_forms(program);
  lap_program_place(program);
  lap_status status = lap_program_list(program, error);
  if (status != LAP_OK) return status;
  status = lap_program_derive_runs(program, error);
  if (status != LAP_OK) return status;
  number_steps(program);
  lap_program_derive_barriers(program);
  return LAP_OK;
}

lap_status lap_program_build(const lap_plan *plan, lap_program **out, lap_error *error) {
  lap_program *program = calloc(1, sizeof *program);
  *out = NULL;
  if (!program) return out_of_memory(error);
  program->plan = plan;
  program->last_donor = plan->first_sharer - 1;
  lap_status status = build(program, error);
  if (status == LAP_OK)
    *out = program;
  else
    lap_program_free(program);
  return status;
}

void lap_program_free(lap_program *program) {
  if (!program) return;
  free(program->step);
  free(program->run);
  free(program->part);
  free(program->call);
  free(program);
}

const lap_program_step *lap_program_at(const lap_program *program, int number,
                                       const lap_program_call **call) {
  int low = 0, high = program->calls; /* the call is in [low, high) */
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (program->call[middle].first <= number)
      low = middle;
    else
      high = middle;
  }
  *call = &program->call[low];
  return &program->step[program->part[(*call)->part].first + number - (*call)->first];
}

const lap_linear *lap_program_linear(const lap_program *program, int32_t layer, int weight) {
  const lap_plan *plan = program->plan;
  switch (weight) {
    case LAP_WEIGHT_EMBED:
      return &plan->embed;
    case LAP_WEIGHT_EMBED_PER_LAYER:
      return &plan->embed_per_layer;
    case LAP_WEIGHT_PER_LAYER_ROWS:
      return &plan->per_layer_projection;
    case LAP_WEIGHT_HEAD:
      return &plan->head;
    default:
      return &plan->layer[layer].linear[weight];
  }
}
