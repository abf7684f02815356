/* Plans of the golden checkpoints against facts stated by hand (goldens/README.md, models/README.md),
 * and of synthetic ones: spellings that mean the same give the same plan. */
#include <math.h>

#include "checkpoint/plan.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

#define CHECKPOINTS GOLDENS "/checkpoints"

/* ---- plans of directories and of specs ---- */

typedef struct loaded {
  lap_tensors *tensors;
  lap_plan *plan;
  checkpoint made; /* empty for directories */
} loaded;

static loaded load(const char *directory, lap_kv_mode mode) {
  loaded l = {0};
  lap_error error;
  expect_ok(lap_tensors_open(directory, &l.tensors, &error), &error);
  expect_ok(lap_plan_build(directory, l.tensors, mode, &l.plan, &error), &error);
  return l;
}

static loaded load_texts(const checkpoint_spec *spec, const char *config, const char *kv_config,
                         const char *generation, lap_kv_mode mode) {
  loaded l = {.made = checkpoint_make(spec)};
  lap_error error;
  if (!config) config = l.made.config;
  expect_ok(lap_tensors_open_memory(l.made.weights, l.made.weight_bytes, "memory", &l.tensors, &error),
            &error);
  expect_ok(
      lap_plan_build_memory(config, strlen(config), kv_config, kv_config ? strlen(kv_config) : 0, generation,
                            generation ? strlen(generation) : 0, l.tensors, mode, &l.plan, &error),
      &error);
  return l;
}

static loaded load_spec(const checkpoint_spec *spec) {
  return load_texts(spec, NULL, NULL, NULL, LAP_KV_PLAIN);
}

/* With the first `from` in the configuration replaced by `to`. */
static loaded load_changed(const checkpoint_spec *spec, const char *from, const char *to) {
  checkpoint made = checkpoint_make(spec);
  char *config = replaced(made.config, from, to);
  loaded l = load_texts(spec, config, NULL, NULL, LAP_KV_PLAIN);
  free(config);
  checkpoint_free(&made);
  return l;
}

static void unload(loaded *l) {
  lap_plan_free(l->plan);
  lap_tensors_close(l->tensors);
  checkpoint_free(&l->made);
}

/* ---- equality but for the tensors' indices ---- */

static void expect_same_linear(const lap_linear *a, const lap_linear *b) {
  assert_int_equal(a->present, b->present);
  assert_int_equal(a->out_features, b->out_features);
  assert_int_equal(a->in_features, b->in_features);
  assert_int_equal(a->experts, b->experts);
  assert_int_equal(a->bits, b->bits);
  assert_int_equal(a->group_size, b->group_size);
  assert_int_equal(a->dtype, b->dtype);
}

static void expect_same_layer(const lap_layer *a, const lap_layer *b) {
  assert_int_equal(a->attention, b->attention);
  assert_int_equal(a->sharer, b->sharer);
  assert_int_equal(a->donor, b->donor);
  assert_int_equal(a->exports_kv, b->exports_kv);
  assert_int_equal(a->cache, b->cache);
  assert_int_equal(a->window, b->window);
  assert_int_equal(a->heads, b->heads);
  assert_int_equal(a->kv_heads, b->kv_heads);
  assert_int_equal(a->head_dim, b->head_dim);
  assert_int_equal(a->k_eq_v, b->k_eq_v);
  assert_int_equal(a->kv_bits, b->kv_bits);
  assert_int_equal(a->kv_group_size, b->kv_group_size);
  assert_int_equal(a->mlp_width, b->mlp_width);
  assert_int_equal(a->moe, b->moe);
  assert_int_equal(a->has_layer_scalar, b->has_layer_scalar);
  for (int i = 0; i < LAP_LAYER_LINEARS; i++) expect_same_linear(&a->linear[i], &b->linear[i]);
  for (int i = 0; i < LAP_LAYER_VECTORS; i++) {
    assert_int_equal(a->vector[i].present, b->vector[i].present);
    assert_int_equal(a->vector[i].length, b->vector[i].length);
  }
}

static void expect_same_plan(const lap_plan *a, const lap_plan *b) {
  assert_int_equal(a->hidden_size, b->hidden_size);
  assert_int_equal(a->layers, b->layers);
  assert_int_equal(a->first_sharer, b->first_sharer);
  assert_int_equal(a->caches, b->caches);
  assert_int_equal(a->vocab_size, b->vocab_size);
  assert_int_equal(a->vocab_size_per_layer, b->vocab_size_per_layer);
  assert_int_equal(a->per_layer_width, b->per_layer_width);
  assert_int_equal(a->max_position_embeddings, b->max_position_embeddings);
  assert_true(a->rms_norm_eps == b->rms_norm_eps && a->embed_scale == b->embed_scale);
  assert_true(a->final_logit_softcapping == b->final_logit_softcapping);
  assert_int_equal(a->num_experts, b->num_experts);
  assert_int_equal(a->tied_head, b->tied_head);
  for (int i = 0; i < 2; i++) {
    assert_true(a->rope[i].theta == b->rope[i].theta && a->rope[i].factor == b->rope[i].factor);
    assert_int_equal(a->rope[i].rotated_pairs, b->rope[i].rotated_pairs);
  }
  assert_int_equal(a->eos_count, b->eos_count);
  assert_memory_equal(a->eos, b->eos, (size_t)a->eos_count * sizeof *a->eos);
  assert_int_equal(a->bos, b->bos);
  assert_int_equal(a->pad, b->pad);
  expect_same_linear(&a->embed, &b->embed);
  expect_same_linear(&a->embed_per_layer, &b->embed_per_layer);
  expect_same_linear(&a->per_layer_projection, &b->per_layer_projection);
  expect_same_linear(&a->head, &b->head);
  for (int i = 0; i < a->layers; i++) expect_same_layer(&a->layer[i], &b->layer[i]);
}

static void expect_same(const char *from, const char *to, const checkpoint_spec *spec) {
  loaded plain = load_spec(spec), changed = load_changed(spec, from, to);
  expect_same_plan(plain.plan, changed.plan);
  unload(&plain);
  unload(&changed);
}

/* ---- facts about a checkpoint, written by hand ---- */

typedef struct facts {
  const char *model_type;
  int hidden, layers, first_sharer, caches, vocab, per_layer_width;
  int full[8], full_count;
  int sliding_donor, full_donor; /* -1 without sharers */
  int heads, kv_sliding, kv_full, head_sliding, head_full, window, mlp, sharer_mlp;
  bool k_eq_v, moe;
  int eos[2];
} facts;

static bool is_full(const facts *f, int layer) {
  for (int i = 0; i < f->full_count; i++)
    if (f->full[i] == layer) return true;
  return false;
}

static void expect_layer_facts(const lap_layer *layer, int index, int donors_before, const facts *f) {
  bool full = is_full(f, index), sharer = index >= f->first_sharer;
  assert_int_equal(layer->attention, full ? LAP_FULL : LAP_SLIDING);
  assert_int_equal(layer->sharer, sharer);
  assert_int_equal(layer->donor, !sharer ? index : full ? f->full_donor : f->sliding_donor);
  assert_int_equal(layer->cache, sharer ? layer->donor : donors_before);
  assert_int_equal(layer->exports_kv, index == f->sliding_donor || index == f->full_donor);
  assert_int_equal(layer->window, full ? 0 : f->window);
  assert_int_equal(layer->heads, f->heads);
  assert_int_equal(layer->kv_heads, full ? f->kv_full : f->kv_sliding);
  assert_int_equal(layer->head_dim, full ? f->head_full : f->head_sliding);
  assert_int_equal(layer->k_eq_v, full && f->k_eq_v);
  assert_int_equal(layer->mlp_width, sharer ? f->sharer_mlp : f->mlp);
  assert_int_equal(layer->moe, f->moe);
  assert_true(layer->has_layer_scalar);
  assert_int_equal(layer->linear[LAP_K_PROJ].present, !sharer);
  assert_int_equal(layer->linear[LAP_V_PROJ].present, !sharer && !layer->k_eq_v);
  assert_int_equal(layer->vector[LAP_K_NORM].present, !sharer);
  assert_int_equal(layer->linear[LAP_PLI_GATE].present, f->per_layer_width > 0);
  assert_int_equal(layer->linear[LAP_EXPERT_DOWN].present, f->moe);
}

static void expect_facts(const lap_plan *plan, const facts *f) {
  assert_string_equal(plan->model_type, f->model_type);
  assert_int_equal(plan->hidden_size, f->hidden);
  assert_int_equal(plan->layers, f->layers);
  assert_int_equal(plan->first_sharer, f->first_sharer);
  assert_int_equal(plan->caches, f->caches);
  assert_int_equal(plan->vocab_size, f->vocab);
  assert_int_equal(plan->per_layer_width, f->per_layer_width);
  assert_true(plan->embed_scale == sqrtf((float)f->hidden));
  assert_true(plan->tied_head);
  assert_int_equal(plan->head.weight, plan->embed.weight);
  for (int i = 0, donors = 0; i < plan->layers; i++) {
    expect_layer_facts(&plan->layer[i], i, donors, f);
    donors += !plan->layer[i].sharer;
  }
  assert_true(plan->rms_norm_eps == 1e-6f && plan->final_logit_softcapping == 30);
  assert_true(plan->rope[LAP_SLIDING].theta == 1e4 && plan->rope[LAP_FULL].theta == 1e6);
  assert_true(plan->rope[LAP_SLIDING].factor == 1 && plan->rope[LAP_FULL].factor == 1);
  assert_int_equal(plan->rope[LAP_SLIDING].rotated_pairs, f->head_sliding / 2);
  assert_int_equal(plan->rope[LAP_FULL].rotated_pairs, f->head_full / 8);
  assert_int_equal(plan->bos, 2);
  assert_int_equal(plan->pad, 0);
  assert_int_equal(plan->eos_count, 2);
  assert_int_equal(plan->eos[0], f->eos[0]);
  assert_int_equal(plan->eos[1], f->eos[1]);
}

static void expect_linear(const lap_linear *linear, int out, int in, int bits, int group) {
  assert_true(linear->present);
  assert_int_equal(linear->out_features, out);
  assert_int_equal(linear->in_features, in);
  assert_int_equal(linear->bits, bits);
  assert_int_equal(linear->group_size, group);
  assert_int_equal(linear->dtype, LAP_BF16);
}

static void expect_caches(const lap_plan *plan, const int bits[], const int groups[]) {
  for (int i = 0; i < plan->layers; i++) {
    int donor = plan->layer[i].donor;
    assert_int_equal(plan->layer[i].kv_bits, bits[donor]);
    assert_int_equal(plan->layer[i].kv_group_size, groups[donor]);
  }
}

static void pebble_is_as_its_readme_says(void **state) {
  (void)state;
  static const facts pebble = {"gemma4", 256, 12, 8,  8,   2048, 64,  {2, 5, 8, 11}, 4,     7,     5,
                               4,        2,   2,  64, 128, 128,  768, 768,           false, false, {1, 6}};
  loaded l = load(SOURCE_DIR "/models/pebble", LAP_KV_CONFIG);
  expect_facts(l.plan, &pebble);
  expect_linear(&l.plan->embed, 2048, 256, 8, 64);
  expect_linear(&l.plan->embed_per_layer, 2048, 768, 4, 64);
  expect_linear(&l.plan->per_layer_projection, 768, 256, 8, 64);
  expect_linear(&l.plan->layer[2].linear[LAP_Q_PROJ], 512, 256, 4, 64);
  expect_linear(&l.plan->layer[2].linear[LAP_V_PROJ], 256, 256, 8, 64);
  expect_linear(&l.plan->layer[3].linear[LAP_PLI_GATE], 64, 256, 8, 64);
  int eight_bit_down = 0;
  for (int i = 0; i < 12; i++) eight_bit_down += l.plan->layer[i].linear[LAP_DOWN_PROJ].bits == 8;
  assert_int_equal(eight_bit_down, 3);
  expect_caches(l.plan, (int[]){8, 4, 8, 4, 8, 4, 4, 8}, (int[]){64, 64, 64, 64, 64, 64, 64, 64});
  assert_true(l.plan->has_kv_config);
  assert_int_equal(l.plan->max_position_embeddings, 8192);
  assert_true(l.plan->generation.do_sample && l.plan->generation.temperature == 1);
  assert_int_equal(l.plan->generation.top_k, 64);
  assert_true(l.plan->generation.top_p == 0.95f);
  unload(&l);
}

static void e_tiny_is_as_the_goldens_say(void **state) {
  (void)state;
  static const facts e_tiny = {"gemma4", 256, 12, 8,  8,   512, 64,  {5, 11}, 2,     7,     5,
                               4,        2,   2,  64, 128, 32,  512, 512,     false, false, {1, 106}};
  loaded l = load(CHECKPOINTS "/e-tiny", LAP_KV_CONFIG);
  expect_facts(l.plan, &e_tiny);
  expect_linear(&l.plan->embed, 512, 256, 8, 64);
  expect_linear(&l.plan->per_layer_projection, 768, 256, 8, 64);
  expect_linear(&l.plan->layer[3].linear[LAP_PLI_PROJECTION], 256, 64, 8, 32);
  expect_linear(&l.plan->layer[0].linear[LAP_K_PROJ], 128, 256, 8, 64);
  expect_linear(&l.plan->layer[1].linear[LAP_DOWN_PROJ], 256, 512, 4, 64);
  expect_linear(&l.plan->layer[5].linear[LAP_DOWN_PROJ], 256, 512, 8, 64);
  expect_caches(l.plan, (int[]){4, 8, 4, 0, 4, 8, 8, 4}, (int[]){64, 64, 32, 0, 64, 64, 32, 64});
  unload(&l);
}

static void e2_tiny_is_as_the_goldens_say(void **state) {
  (void)state;
  static const facts e2_tiny = {
      "gemma4_text", 128, 15,  6,   6,     512,   64,      {4, 9, 14}, 3, 5, 4, 4, 1, 1, 64,
      128,           16,  256, 512, false, false, {1, 106}};
  static const int down_bits[15] = {4, 5, 3, 4, 4, 4, 6, 4, 4, 8, 4, 4, 4, 4, 2};
  loaded l = load(CHECKPOINTS "/e2-tiny", LAP_KV_CONFIG);
  expect_facts(l.plan, &e2_tiny);
  expect_linear(&l.plan->embed, 512, 128, 6, 64);
  expect_linear(&l.plan->per_layer_projection, 960, 128, 0, 0);
  assert_int_equal(l.plan->per_layer_projection.scales, -1);
  for (int i = 0; i < 15; i++)
    expect_linear(&l.plan->layer[i].linear[LAP_DOWN_PROJ], 128, i < 6 ? 256 : 512, down_bits[i], 64);
  expect_caches(l.plan, (int[]){0, 0, 0, 8, 4, 8}, (int[]){0, 0, 0, 64, 64, 32});
  unload(&l);
}

static void dense_tiny_is_as_the_goldens_say(void **state) {
  (void)state;
  static const facts dense_tiny = {"gemma4", 192, 12, 12, 12,  512, 0,   {5, 11}, 2,    -1,    -1,
                                   4,        2,   1,  64, 128, 40,  416, 416,     true, false, {1, 106}};
  loaded l = load(CHECKPOINTS "/dense-tiny", LAP_KV_CONFIG);
  expect_facts(l.plan, &dense_tiny);
  expect_linear(&l.plan->embed, 512, 192, 0, 0);
  expect_linear(&l.plan->layer[0].linear[LAP_Q_PROJ], 256, 192, 0, 0);
  expect_linear(&l.plan->layer[5].linear[LAP_Q_PROJ], 512, 192, 0, 0);
  expect_linear(&l.plan->layer[3].linear[LAP_O_PROJ], 192, 256, 0, 0); /* dense with no entry in the map */
  expect_linear(&l.plan->layer[11].linear[LAP_DOWN_PROJ], 192, 416, 0, 0);
  expect_linear(&l.plan->layer[1].linear[LAP_GATE_PROJ], 416, 192, 4, 64);
  expect_linear(&l.plan->layer[2].linear[LAP_GATE_PROJ], 416, 192, 4, 32);
  expect_linear(&l.plan->layer[5].linear[LAP_K_PROJ], 128, 192, 8, 32);
  static const int bits[12] = {[5] = 4, [11] = 8}, groups[12] = {[5] = 32, [11] = 64};
  expect_caches(l.plan, bits, groups);
  unload(&l);
}

static void moe_tiny_is_as_the_goldens_say(void **state) {
  (void)state;
  static const facts moe_tiny = {"gemma4", 128, 6, 6,  6,   512, 0,   {5}, 1,    -1,   -1,
                                 4,        2,   1, 64, 128, 32,  192, 192, true, true, {1, 106}};
  loaded l = load(CHECKPOINTS "/moe-tiny", LAP_KV_CONFIG);
  expect_facts(l.plan, &moe_tiny);
  assert_int_equal(l.plan->num_experts, 8);
  assert_int_equal(l.plan->top_k_experts, 2);
  assert_int_equal(l.plan->moe_width, 128);
  for (int i = 0; i < 6; i++) {
    expect_linear(&l.plan->layer[i].linear[LAP_ROUTER], 8, 128, 8, 64);
    expect_linear(&l.plan->layer[i].linear[LAP_EXPERT_DOWN], 128, 128, i == 4 ? 8 : 4, 64);
    assert_int_equal(l.plan->layer[i].linear[LAP_EXPERT_DOWN].experts, 8);
    assert_int_equal(l.plan->layer[i].linear[LAP_GATE_PROJ].experts, 1);
    assert_int_equal(l.plan->layer[i].vector[LAP_PER_EXPERT_SCALE].length, 8);
  }
  expect_caches(l.plan, (int[]){0, 0, 8, 0, 0, 4}, (int[]){0, 0, 64, 0, 0, 64});
  unload(&l);
}

/* ---- the published structures (docs/gemma4.md, section 1.2) ---- */

static void published_structures_have_their_donors_and_caches(void **state) {
  (void)state;
  static const struct {
    const checkpoint_spec *spec;
    int first_sharer, caches, sliding_donor, full_donor, first_full, kv_full;
  } cases[] = {{&spec_e2b, 15, 15, 13, 14, 4, 1},
               {&spec_e4b, 24, 24, 22, 23, 5, 2},
               {&spec_12b, 48, 48, -1, -1, 5, 1},
               {&spec_26b, 30, 30, -1, -1, 5, 1},
               {&spec_31b, 60, 60, -1, -1, 5, 2}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    loaded l = load_spec(cases[c].spec);
    assert_int_equal(l.plan->first_sharer, cases[c].first_sharer);
    assert_int_equal(l.plan->caches, cases[c].caches);
    assert_int_equal(l.plan->layer[cases[c].first_full].attention, LAP_FULL);
    assert_int_equal(l.plan->layer[cases[c].first_full].kv_heads, cases[c].kv_full);
    for (int i = 0; i < l.plan->layers; i++) {
      const lap_layer *layer = &l.plan->layer[i];
      int expected = layer->attention == LAP_FULL ? cases[c].full_donor : cases[c].sliding_donor;
      assert_int_equal(layer->donor, layer->sharer ? expected : i);
      assert_int_equal(layer->exports_kv, i == cases[c].full_donor || i == cases[c].sliding_donor);
      assert_int_equal(layer->mlp_width,
                       cases[c].spec->intermediate * (cases[c].spec->double_wide && layer->sharer ? 2 : 1));
    }
    unload(&l);
  }
}

/* ---- spellings that mean the same ---- */

static void four_prefixes_give_the_same_plan(void **state) {
  (void)state;
  static const char *const prefixes[] = {"model.", "model.language_model.", "", "language_model."};
  loaded normal = load_spec(&spec_26b);
  for (int i = 0; i < 4; i++) {
    checkpoint_spec spec = spec_26b;
    spec.prefix = prefixes[i];
    loaded other = load_spec(&spec);
    expect_same_plan(normal.plan, other.plan);
    unload(&other);
  }
  unload(&normal);
}

static void keys_of_the_map_match_with_any_prefix(void **state) {
  (void)state;
  static const char *const keys[] = {"model.", "", "language_model.", "language_model.model.",
                                     "model.language_model."};
  static const char *const names[] = {"model.", "", "language_model.model."};
  loaded normal = load_spec(&spec_26b);
  for (int n = 0; n < 3; n++)
    for (int k = 0; k < 5; k++) {
      checkpoint_spec spec = spec_26b;
      spec.prefix = names[n];
      spec.key_prefix = keys[k];
      loaded other = load_spec(&spec);
      expect_same_plan(normal.plan, other.plan);
      unload(&other);
    }
  unload(&normal);
}

static void flat_and_nested_give_the_same_plan(void **state) {
  (void)state;
  static const checkpoint_spec *const specs[] = {&spec_e2b, &spec_e4b, &spec_12b, &spec_26b, &spec_31b};
  for (int i = 0; i < 5; i++) {
    checkpoint_spec flat = *specs[i];
    flat.nested = false;
    loaded a = load_spec(specs[i]), b = load_spec(&flat);
    expect_same_plan(a.plan, b.plan);
    unload(&a);
    unload(&b);
  }
}

static void unused_keys_and_values_of_sharers_are_ignored(void **state) {
  (void)state;
  static const checkpoint_spec *const specs[] = {&spec_e2b, &spec_e4b};
  for (int i = 0; i < 2; i++) {
    checkpoint_spec with = *specs[i];
    with.unused_sharer_kv = true;
    loaded a = load_spec(specs[i]), b = load_spec(&with);
    assert_true(lap_tensors_count(b.tensors) > lap_tensors_count(a.tensors));
    expect_same_plan(a.plan, b.plan);
    assert_true(lap_plan_measure(a.plan).weights == lap_plan_measure(b.plan).weights);
    unload(&a);
    unload(&b);
  }
}

static void the_per_layer_projection_may_be_dense_or_quantized(void **state) {
  (void)state;
  static const int bits[] = {0, 4, 8};
  for (int i = 0; i < 3; i++) {
    checkpoint_spec spec = spec_e4b;
    spec.projection_bits = bits[i];
    loaded l = load_spec(&spec);
    expect_linear(&l.plan->per_layer_projection, 42 * 32, 64, bits[i], bits[i] ? 32 : 0);
    unload(&l);
  }
}

static void overrides_apply_to_their_modules_only(void **state) {
  (void)state;
  checkpoint_spec spec = spec_26b;
  spec.mlp_bits = 8;
  spec.dense = "layers.3.self_attn.o_proj";
  loaded l = load_spec(&spec);
  expect_linear(&l.plan->layer[3].linear[LAP_O_PROJ], 64, 128, 0, 0);
  expect_linear(&l.plan->layer[4].linear[LAP_O_PROJ], 64, 128, 4, 32);
  for (int i = 0; i < 30; i++) {
    expect_linear(&l.plan->layer[i].linear[LAP_UP_PROJ], 64, 64, 8, 32);
    expect_linear(&l.plan->layer[i].linear[LAP_ROUTER], 16, 64, 8, 32);
    expect_linear(&l.plan->layer[i].linear[LAP_EXPERT_UP], 32, 64, 4, 32);
  }
  unload(&l);
}

static void a_checkpoint_without_a_map_is_dense(void **state) {
  (void)state;
  checkpoint_spec spec = spec_31b;
  spec.bits = 0;
  loaded l = load_spec(&spec);
  expect_linear(&l.plan->embed, 64, 64, 0, 0);
  expect_linear(&l.plan->layer[59].linear[LAP_DOWN_PROJ], 64, 128, 0, 0);
  unload(&l);
}

static void quantization_config_stands_in_for_quantization(void **state) {
  (void)state;
  expect_same("\"quantization\"", "\"quantization_config\"", &spec_26b);
}

static void an_untied_head_is_found_under_its_names(void **state) {
  (void)state;
  static const char *const names[] = {"lm_head", "language_model.lm_head", "model.lm_head"};
  for (int i = 0; i < 3; i++) {
    checkpoint_spec spec = spec_31b;
    spec.head = names[i];
    loaded l = load_spec(&spec);
    assert_false(l.plan->tied_head);
    assert_int_not_equal(l.plan->head.weight, l.plan->embed.weight);
    expect_linear(&l.plan->head, 64, 64, 4, 32);
    unload(&l);
    l = load_changed(&spec, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    assert_true(l.plan->tied_head);
    unload(&l);
  }
}

static void a_tied_head_needs_no_field_and_untied_without_weights_is_tied(void **state) {
  (void)state;
  expect_same("\"tie_word_embeddings\": true, ", "", &spec_31b);
  expect_same("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", &spec_31b);
}

/* ---- defaults ---- */

static void missing_and_null_fields_have_the_published_defaults(void **state) {
  (void)state;
  static const char *const missing[] = {"\"rms_norm_eps\"",
                                        "\"final_logit_softcapping\"",
                                        "\"attention_bias\"",
                                        "\"hidden_activation\"",
                                        "\"num_global_key_value_heads\"",
                                        "\"num_kv_shared_layers\"",
                                        "\"hidden_size_per_layer_input\"",
                                        "\"vocab_size\"",
                                        "\"vocab_size_per_layer_input\"",
                                        "\"attention_k_eq_v\"",
                                        "\"use_double_wide_mlp\"",
                                        "\"enable_moe_block\"",
                                        "\"num_experts\"",
                                        "\"top_k_experts\"",
                                        "\"moe_intermediate_size\"",
                                        "\"rope_parameters\"",
                                        "\"full_attention\"",
                                        "\"sliding_attention\"",
                                        "\"rope_theta\"",
                                        "\"rope_type\""};
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
    expect_same(missing[i], "\"unknown\"", &spec_e4b);
  static const char *const nulls[][2] = {
      {"\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": null"},
      {"\"num_kv_shared_layers\": 18", "\"num_kv_shared_layers\": null"},
      {"\"hidden_size_per_layer_input\": 32", "\"hidden_size_per_layer_input\": null"},
      {"\"use_double_wide_mlp\": false", "\"use_double_wide_mlp\": null"},
      {"\"rope_type\": \"default\"", "\"rope_type\": null"},
      {"\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": null"}};
  for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) expect_same(nulls[i][0], nulls[i][1], &spec_e4b);
}

static void sizes_that_tensors_show_need_no_field(void **state) {
  (void)state;
  expect_same("\"use_double_wide_mlp\": true, ", "", &spec_e2b);
  expect_same("\"num_kv_shared_layers\": 20, ", "", &spec_e2b);
  expect_same("\"num_kv_shared_layers\": 0, ", "", &spec_12b);
  expect_same("\"hidden_size_per_layer_input\": 0, ", "", &spec_12b);
  expect_same("\"hidden_size_per_layer_input\": 0", "\"hidden_size_per_layer_input\": null", &spec_31b);
  expect_same("\"enable_moe_block\": true, ", "", &spec_26b);
  expect_same("\"moe_intermediate_size\"", "\"expert_intermediate_size\"", &spec_26b);
  checkpoint_spec all_keys = spec_e2b; /* nothing tells sharers from donors: the reference's 20 */
  all_keys.unused_sharer_kv = true;
  expect_same("\"num_kv_shared_layers\": 20, ", "", &all_keys);
}

static void layer_types_are_rebuilt_from_the_period(void **state) {
  (void)state;
  expect_same("\"layer_types\"", "\"no_types\"", &spec_e2b); /* default 5 */
  expect_same("\"layer_types\"", "\"sliding_window_pattern\": 6, \"no_types\"", &spec_31b);
}

static void the_top_level_states_vocabulary_and_tying_where_the_text_does_not(void **state) {
  (void)state;
  checkpoint made = checkpoint_make(&spec_31b);
  char *without = replaced(made.config, "\"vocab_size\": 64, ", "");
  char *config = replaced(without, "\"eos_token_id\"", "\"vocab_size\": 64, \"eos_token_id\"");
  loaded l = load_texts(&spec_31b, config, NULL, NULL, LAP_KV_PLAIN);
  assert_int_equal(l.plan->vocab_size, 64);
  unload(&l);
  free(config);
  free(without);
  checkpoint_free(&made);
}

static void a_null_softcap_is_none(void **state) {
  (void)state;
  loaded l =
      load_changed(&spec_31b, "\"final_logit_softcapping\": 30.0", "\"final_logit_softcapping\": null");
  assert_true(l.plan->final_logit_softcapping == 0);
  unload(&l);
}

static void full_heads_without_k_eq_v_follow_the_weights(void **state) {
  (void)state;
  checkpoint_spec spec = spec_e4b; /* full k_proj has 2 heads, as num_key_value_heads says */
  spec.global_kv_heads = 1;
  loaded l = load_spec(&spec);
  assert_int_equal(l.plan->layer[5].kv_heads, 2);
  assert_int_equal(l.plan->layer[41].kv_heads, 2);
  unload(&l);
}

static void rope_factor_and_partial_are_read(void **state) {
  (void)state;
  loaded l = load_changed(&spec_31b, "\"partial_rotary_factor\": 0.25",
                          "\"partial_rotary_factor\": 0.5, \"factor\": 8");
  assert_int_equal(l.plan->rope[LAP_FULL].rotated_pairs, 16);
  assert_true(l.plan->rope[LAP_FULL].factor == 8);
  unload(&l);
}

static void layer_scalars_may_be_absent(void **state) {
  (void)state;
  checkpoint_spec spec = spec_31b;
  spec.no_layer_scalar = true;
  loaded l = load_spec(&spec);
  for (int i = 0; i < 60; i++) {
    assert_false(l.plan->layer[i].has_layer_scalar);
    assert_false(l.plan->layer[i].vector[LAP_LAYER_SCALAR].present);
  }
  unload(&l);
}

/* ---- tokens and sampling ---- */

static void expect_eos(const loaded *l, int count, const int *ids) {
  assert_int_equal(l->plan->eos_count, count);
  for (int i = 0; i < count; i++) assert_int_equal(l->plan->eos[i], ids[i]);
}

static void end_tokens_are_the_union_of_all_places(void **state) {
  (void)state;
  checkpoint_spec spec = spec_31b;
  spec.text_extra = "\"eos_token_id\": 7, ";
  loaded l = load_texts(&spec, NULL, NULL, "{\"eos_token_id\": [10, 50, 1]}", LAP_KV_PLAIN);
  expect_eos(&l, 4, (int[]){1, 7, 10, 50});
  unload(&l);
  l = load_changed(&spec_31b, "[1, 10]", "5");
  expect_eos(&l, 1, (int[]){5});
  unload(&l);
}

static void end_tokens_may_stand_in_the_generation_config_only_or_nowhere(void **state) {
  (void)state;
  checkpoint made = checkpoint_make(&spec_31b);
  char *config = replaced(made.config, ", \"eos_token_id\": [1, 10]", "");
  loaded l = load_texts(&spec_31b, config, NULL, "{\"eos_token_id\": 3}", LAP_KV_PLAIN);
  expect_eos(&l, 1, (int[]){3});
  unload(&l);
  l = load_texts(&spec_31b, config, NULL, NULL, LAP_KV_PLAIN);
  expect_eos(&l, 0, NULL);
  unload(&l);
  free(config);
  checkpoint_free(&made);
}

static void missing_bos_and_pad_are_none(void **state) {
  (void)state;
  loaded l = load_changed(&spec_31b, "\"bos_token_id\": 2, \"pad_token_id\": 0", "\"bos_token_id\": null");
  assert_int_equal(l.plan->bos, -1);
  assert_int_equal(l.plan->pad, -1);
  unload(&l);
}

static void sampling_defaults_come_from_the_generation_config(void **state) {
  (void)state;
  loaded l =
      load_texts(&spec_31b, NULL, NULL,
                 "{\"do_sample\": false, \"temperature\": 0.5, \"top_k\": 0, \"top_p\": 1, \"min_p\": 0.05, "
                 "\"repetition_penalty\": 1.1, \"suppress_tokens\": [63, 5, 63]}",
                 LAP_KV_PLAIN);
  const lap_generation *g = &l.plan->generation;
  assert_true(!g->do_sample && g->temperature == 0.5f && g->top_p == 1 && g->min_p == 0.05f);
  assert_true(g->repetition_penalty == 1.1f);
  assert_int_equal(g->top_k, 0);
  assert_int_equal(g->suppress_count, 2);
  assert_int_equal(g->suppress[0], 5);
  assert_int_equal(g->suppress[1], 63);
  unload(&l);
}

/* ---- caches ---- */

static void kv_modes_override_the_file(void **state) {
  (void)state;
  static const struct {
    lap_kv_mode mode;
    int bits;
  } modes[] = {{LAP_KV_PLAIN, 0}, {LAP_KV_8, 8}, {LAP_KV_4, 4}};
  for (int m = 0; m < 3; m++) {
    loaded l = load(CHECKPOINTS "/e-tiny", modes[m].mode);
    assert_true(l.plan->has_kv_config);
    assert_int_equal(l.plan->kv_mode, modes[m].mode);
    for (int i = 0; i < 12; i++) {
      assert_int_equal(l.plan->layer[i].kv_bits, modes[m].bits);
      assert_int_equal(l.plan->layer[i].kv_group_size, modes[m].bits ? 64 : 0);
    }
    unload(&l);
  }
}

static void uniform_caches_use_groups_that_divide_the_head(void **state) {
  (void)state;
  loaded l = load_texts(&spec_e4b, NULL, NULL, NULL, LAP_KV_8);
  assert_int_equal(l.plan->layer[0].kv_group_size, 32);
  assert_int_equal(l.plan->layer[5].kv_group_size, 64);
  unload(&l);
}

static void a_broken_kv_config_does_not_concern_other_modes(void **state) {
  (void)state;
  char *directory = make_directory();
  checkpoint made = checkpoint_make(&spec_31b);
  checkpoint_save(&made, directory);
  write_file(directory, "kv_config.json", "{", 1);
  loaded l = load(directory, LAP_KV_PLAIN);
  assert_true(l.plan->has_kv_config);
  unload(&l);
  lap_error error;
  lap_tensors *tensors;
  lap_plan *plan;
  expect_ok(lap_tensors_open(directory, &tensors, &error), &error);
  assert_int_equal(lap_plan_build(directory, tensors, LAP_KV_CONFIG, &plan, &error), LAP_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "kv_config.json"));
  lap_tensors_close(tensors);
  checkpoint_free(&made);
  remove_directory(directory);
}

static void without_a_kv_config_all_caches_are_plain(void **state) {
  (void)state;
  loaded l = load_texts(&spec_e4b, NULL, NULL, NULL, LAP_KV_CONFIG);
  assert_false(l.plan->has_kv_config);
  for (int i = 0; i < 42; i++) assert_int_equal(l.plan->layer[i].kv_bits, 0);
  unload(&l);
  l = load_texts(&spec_e4b, NULL, "[]", NULL, LAP_KV_CONFIG);
  assert_true(l.plan->has_kv_config);
  unload(&l);
}

/* ---- sizes ---- */

/* These files hold nothing but what the text model uses. */
static void weights_add_up_to_the_file(void **state) {
  (void)state;
  static const struct {
    const char *path;
    uint64_t bytes;
  } cases[] = {{SOURCE_DIR "/models/pebble", 8140688 - 8 - 49136},
               {CHECKPOINTS "/e2-tiny", 2903303 - 8 - 50145},
               {CHECKPOINTS "/moe-tiny", 2329567 - 8 - 33259}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    loaded l = load(cases[i].path, LAP_KV_PLAIN);
    assert_true(lap_plan_measure(l.plan).weights == cases[i].bytes);
    unload(&l);
  }
}

static void a_token_reads_its_experts_and_one_row_of_each_table(void **state) {
  (void)state;
  loaded l = load(CHECKPOINTS "/moe-tiny", LAP_KV_PLAIN);
  lap_plan_sizes sizes = lap_plan_measure(l.plan);
  uint64_t unread = 0;
  for (int i = 0; i < 6; i++)
    for (int e = LAP_EXPERT_GATE; e <= LAP_EXPERT_DOWN; e++)
      unread += lap_linear_bytes(&l.plan->layer[i].linear[e]) / 8 * 6; /* 2 of 8 are read */
  uint64_t row = 128 + 2 * 2 * 2; /* 8-bit codes, scales and biases of two groups in bf16 */
  assert_true(sizes.decode == sizes.weights - unread + row);
  unload(&l);
}

static void kv_bytes_stop_at_the_window_of_sliding_layers(void **state) {
  (void)state;
  loaded l = load(CHECKPOINTS "/moe-tiny", LAP_KV_4);
  /* a head of 64: 32 bytes of codes, one scale and one bias of 4 bytes; K and V; two heads */
  assert_true(lap_layer_kv_bytes(&l.plan->layer[0]) == 2 * 2 * (32 + 8));
  /* the full layer: a head of 128, two groups, one head */
  assert_true(lap_layer_kv_bytes(&l.plan->layer[5]) == 2 * (64 + 16));
  assert_true(lap_plan_kv_bytes(l.plan, 10) == 10 * (5 * 160 + 160));
  assert_true(lap_plan_kv_bytes(l.plan, 1000) == 32 * 5 * 160 + 1000 * 160);
  unload(&l);
  l = load(CHECKPOINTS "/moe-tiny", LAP_KV_PLAIN);
  assert_true(lap_layer_kv_bytes(&l.plan->layer[0]) == 2 * 2 * (128 + 4));
  lap_plan_sizes sizes = lap_plan_measure(l.plan);
  assert_true(sizes.kv_per_token_sliding == 5 * 2 * 2 * (128 + 4));
  assert_true(sizes.kv_per_token_full == 2 * (256 + 8));
  unload(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pebble_is_as_its_readme_says),
      cmocka_unit_test(e_tiny_is_as_the_goldens_say),
      cmocka_unit_test(e2_tiny_is_as_the_goldens_say),
      cmocka_unit_test(dense_tiny_is_as_the_goldens_say),
      cmocka_unit_test(moe_tiny_is_as_the_goldens_say),
      cmocka_unit_test(published_structures_have_their_donors_and_caches),
      cmocka_unit_test(four_prefixes_give_the_same_plan),
      cmocka_unit_test(keys_of_the_map_match_with_any_prefix),
      cmocka_unit_test(flat_and_nested_give_the_same_plan),
      cmocka_unit_test(unused_keys_and_values_of_sharers_are_ignored),
      cmocka_unit_test(the_per_layer_projection_may_be_dense_or_quantized),
      cmocka_unit_test(overrides_apply_to_their_modules_only),
      cmocka_unit_test(a_checkpoint_without_a_map_is_dense),
      cmocka_unit_test(quantization_config_stands_in_for_quantization),
      cmocka_unit_test(an_untied_head_is_found_under_its_names),
      cmocka_unit_test(a_tied_head_needs_no_field_and_untied_without_weights_is_tied),
      cmocka_unit_test(missing_and_null_fields_have_the_published_defaults),
      cmocka_unit_test(sizes_that_tensors_show_need_no_field),
      cmocka_unit_test(layer_types_are_rebuilt_from_the_period),
      cmocka_unit_test(the_top_level_states_vocabulary_and_tying_where_the_text_does_not),
      cmocka_unit_test(a_null_softcap_is_none),
      cmocka_unit_test(full_heads_without_k_eq_v_follow_the_weights),
      cmocka_unit_test(rope_factor_and_partial_are_read),
      cmocka_unit_test(layer_scalars_may_be_absent),
      cmocka_unit_test(end_tokens_are_the_union_of_all_places),
      cmocka_unit_test(end_tokens_may_stand_in_the_generation_config_only_or_nowhere),
      cmocka_unit_test(missing_bos_and_pad_are_none),
      cmocka_unit_test(sampling_defaults_come_from_the_generation_config),
      cmocka_unit_test(kv_modes_override_the_file),
      cmocka_unit_test(uniform_caches_use_groups_that_divide_the_head),
      cmocka_unit_test(a_broken_kv_config_does_not_concern_other_modes),
      cmocka_unit_test(without_a_kv_config_all_caches_are_plain),
      cmocka_unit_test(weights_add_up_to_the_file),
      cmocka_unit_test(a_token_reads_its_experts_and_one_row_of_each_table),
      cmocka_unit_test(kv_bytes_stop_at_the_window_of_sliding_layers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
