/* The program: that its barriers are enough and none too many, that no buffer is overwritten while somebody
 * still wants it, that every module of a plan has its step, and that the arena is what the monolith asks for.
 *
 * What may run side by side is found here by brute force: every step becomes tasks that touch bytes of an
 * arena of a few rows, and any two tasks between two barriers may run at the same time, but for those of one
 * row, which follow each other. Nothing of that asks the program's own rule. */
#include "program/program.h"

#include "forge/forge.h"
#include "kernels/forms.h"
#include "model/forward.h"
#include "pass/attend_rows.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

#define CONFIGS SOURCE_DIR "/models/configs"
#define PEBBLE  SOURCE_DIR "/models/pebble"

/* ---- the plans ---- */

static const struct source {
  const char *name; /* of a size, or a directory */
  bool directory;
} sources[] = {{"e2b", false},
               {"e4b", false},
               {"12b", false},
               {"26b-a4b", false},
               {"31b", false},
               {PEBBLE, true},
               {GOLDENS "/checkpoints/e-tiny", true},
               {GOLDENS "/checkpoints/e2-tiny", true},
               {GOLDENS "/checkpoints/dense-tiny", true},
               {GOLDENS "/checkpoints/moe-tiny", true}};

/* Heads of 32 and of 64, modules of many formats. */
static const checkpoint_spec *const specs[] = {&spec_e2b, &spec_e4b, &spec_12b, &spec_26b, &spec_31b};

enum {
  SOURCES = sizeof sources / sizeof *sources,
  SPECS = sizeof specs / sizeof *specs
};

static lap_plan *plan_of_size(const char *name, lap_kv_mode kv) {
  lap_error error;
  lap_plan *plan;
  const lap_forge_options options = {.config = path_of("%s/%s.json", CONFIGS, name),
                                     .kv_config = path_of("%s/%s.kv_config.json", CONFIGS, name)};
  expect_ok(lap_forge_plan(&options, kv, &plan, &error), &error);
  return plan;
}

static lap_plan *plan_of(const struct source *source, lap_kv_mode kv) {
  lap_error error;
  lap_tensors *tensors;
  lap_plan *plan;
  if (!source->directory) return plan_of_size(source->name, kv);
  expect_ok(lap_tensors_open(source->name, &tensors, &error), &error);
  expect_ok(lap_plan_build(source->name, tensors, kv, &plan, &error), &error);
  lap_tensors_close(tensors);
  return plan;
}

static lap_program *program_of(const lap_plan *plan) {
  lap_error error;
  lap_program *program;
  expect_ok(lap_program_build(plan, &program, &error), &error);
  return program;
}

typedef void check_program(lap_program *program, const char *name);

/* With the caches of its kv_config and with plain ones. */
static void check_source(const struct source *source, check_program *check) {
  for (int plain = 0; plain < 2; plain++) {
    lap_plan *plan = plan_of(source, plain ? LAP_KV_PLAIN : LAP_KV_CONFIG);
    lap_program *program = program_of(plan);
    check(program, source->name);
    lap_program_free(program);
    lap_plan_free(plan);
  }
}

/* Calls `check` with the programs of every plan. */
static void for_each_program(check_program *check) {
  for (int i = 0; i < SOURCES; i++) check_source(&sources[i], check);
  for (int i = 0; i < SPECS; i++) {
    char *directory = make_directory();
    checkpoint made = checkpoint_make(specs[i]);
    checkpoint_save(&made, directory);
    checkpoint_free(&made);
    check_source(&(struct source){directory, true}, check);
    remove_directory(directory);
  }
}

/* ---- steps as tasks that touch bytes ---- */

enum {
  ROWS = 3,
  MOST = 4096 /* accesses of the steps between two barriers */
};

typedef struct access {
  int step, row; /* row -1: of a task that is not one row's */
  bool write;
  int64_t begin, end;
} access;

static int64_t row_bytes(const lap_program *program, const lap_operand *operand) {
  return operand->forms ? (int64_t)lap_input_row_bytes(operand->width, program->forms[operand->forms])
                        : operand->width * (int64_t)sizeof(float);
}

/* The bytes of an operand: of one row, or with row -1 of all. What is not in the arena stands behind it, a
 * byte a row; each cache is a thing of its own. */
static access access_of(const lap_program *program, const lap_program_call *call, const lap_operand *operand,
                        int row) {
  access a = {.row = row};
  if (operand->buffer >= LAP_BUFFERS_OF_ROWS) {
    const int64_t which =
        operand->buffer == LAP_BUFFER_CACHE ? LAP_BUFFERS + call->cache : (int)operand->buffer;
    a.begin = program->row_bytes * ROWS + which * ROWS;
    a.end = a.begin + ROWS;
    if (row >= 0) a.begin += row, a.end = a.begin + 1;
    return a;
  }
  const int64_t bytes = row_bytes(program, operand);
  a.begin = program->place[operand->buffer].at * ROWS + (row > 0 ? row * bytes : 0);
  a.end = a.begin + (row < 0 ? ROWS * bytes : bytes);
  return a;
}

static bool clash(const access *a, const access *b) {
  if (!a->write && !b->write) return false;
  if (a->begin >= b->end || b->begin >= a->end) return false;
  return a->row < 0 || b->row < 0 || a->row != b->row;
}

static int list_accesses(const lap_program *program, int number, access *list) {
  const lap_program_call *call;
  const lap_program_step *step = lap_program_at(program, number, &call);
  const bool by_rows = step->division == LAP_BY_ROWS;
  int count = 0;
  for (int i = 0; i < step->reads + step->writes; i++)
    for (int row = by_rows ? 0 : -1; row < (by_rows ? ROWS : 0); row++) {
      const bool write = i >= step->reads;
      list[count] = access_of(program, call, write ? &step->write[i - step->reads] : &step->read[i], row);
      list[count].step = number;
      list[count++].write = write;
    }
  return count;
}

/* The number of a step that may run beside one before it that it must not run beside, or -1. `ignored` is a
 * step whose barrier is not there. */
static int find_race(const lap_program *program, unsigned way, const lap_program_step *ignored) {
  static access list[MOST];
  int count = 0;
  for (int number = 0; number < program->length; number++) {
    const lap_program_call *call;
    const lap_program_step *step = lap_program_at(program, number, &call);
    if (!(step->ways & way) || step->kind == LAP_STEP_SHOW) continue;
    if (step->barrier && step != ignored) count = 0;
    assert_true(count + 2 * LAP_STEP_OPERANDS * ROWS <= MOST);
    const int added = list_accesses(program, number, list + count);
    for (int i = count; i < count + added; i++)
      for (int j = 0; j < count; j++)
        if (clash(&list[j], &list[i])) return number;
    count += added;
  }
  return -1;
}

static void expect_no_race(lap_program *program, const char *name) {
  static const unsigned ways[] = {LAP_WAY_ALL_STAY, LAP_WAY_ROWS_LEAVE};
  for (int w = 0; w < 2; w++) {
    const int number = find_race(program, ways[w], NULL);
    const lap_program_call *call;
    if (number < 0) continue;
    const lap_program_step *step = lap_program_at(program, number, &call);
    fail_msg("%s: '%s' of layer %d may run beside what it depends on", name, lap_step_kind_name(step->kind),
             call->layer);
  }
}

static void no_step_runs_beside_what_it_depends_on(void **state) {
  (void)state;
  for_each_program(expect_no_race);
}

static void expect_every_barrier_needed(lap_program *program, const char *name) {
  for (int i = 0; i < program->steps; i++) {
    const lap_program_step *step = &program->step[i];
    if (!step->barrier) continue;
    if (find_race(program, LAP_WAY_ALL_STAY, step) < 0 && find_race(program, LAP_WAY_ROWS_LEAVE, step) < 0)
      fail_msg("%s: the barrier before '%s', step %d of the list, is not needed", name,
               lap_step_kind_name(step->kind), i);
  }
}

static void without_any_of_the_barriers_something_would(void **state) {
  (void)state;
  for_each_program(expect_every_barrier_needed);
}

static void expect_runs_whole(lap_program *program, const char *name) {
  int steps = 0;
  for (int r = 0; r < program->runs; r++) {
    const lap_program_run *run = &program->run[r];
    assert_int_equal(run->first, steps);
    assert_true(run->steps > 0);
    steps += run->steps;
    for (int i = 1; i < run->steps; i++) {
      const lap_program_step *step = &program->step[run->first + i];
      if (step->barrier) fail_msg("%s: %s, in the middle of a run, needs a barrier", name, step->name);
      assert_int_equal(step->ways, program->step[run->first].ways);
    }
  }
  assert_int_equal(steps, program->steps);
}

static void no_barrier_falls_into_a_run(void **state) {
  (void)state;
  for_each_program(expect_runs_whole);
}

/* ---- runs ---- */

/* A run of the pass: its first step by number, and where the next one begins. */
typedef struct flat_run {
  int first, end;
} flat_run;

/* The runs that a pass goes through on this way, but for those that only show rows. */
static int list_runs(const lap_program *program, unsigned way, flat_run *list) {
  int count = 0;
  for (int c = 0; c < program->calls; c++) {
    const lap_program_part *part = &program->part[program->call[c].part];
    for (int r = part->first_run; r < part->first_run + part->runs; r++) {
      const lap_program_run *run = &program->run[r];
      const int first = program->call[c].first + run->first - part->first;
      if ((program->step[run->first].ways & way) && program->step[run->first].kind != LAP_STEP_SHOW)
        list[count++] = (flat_run){first, first + run->steps};
    }
  }
  return count;
}

static const lap_program_step *step_at(const lap_program *program, int number) {
  const lap_program_call *call;
  return lap_program_at(program, number, &call);
}

/* True if two tasks of different steps of [first, end) clash. */
static bool steps_clash(const lap_program *program, int first, int end) {
  static access list[MOST];
  int count = 0;
  for (int number = first; number < end; number++) {
    if (step_at(program, number)->kind == LAP_STEP_SHOW) continue;
    assert_true(count + 2 * LAP_STEP_OPERANDS * ROWS <= MOST);
    count += list_accesses(program, number, list + count);
  }
  for (int i = 0; i < count; i++)
    for (int j = 0; j < i; j++)
      if (list[i].step != list[j].step && clash(&list[j], &list[i])) return true;
  return false;
}

static bool can_share(const lap_program_step *a, const lap_program_step *b) {
  const bool rows = a->division == LAP_BY_ROWS && b->division == LAP_BY_ROWS;
  return (rows || (a->kind == LAP_STEP_PRODUCT && b->kind == LAP_STEP_PRODUCT)) && a->ways == b->ways;
}

/* No step of a run clashes with another of it, and no run could have been one with that before it, not even
 * across the border of two layers. */
static void expect_runs_as_long_as_they_can_be(lap_program *program, const char *name) {
  flat_run *list = calloc((size_t)program->length, sizeof *list);
  assert_non_null(list);
  for (unsigned way = LAP_WAY_ALL_STAY; way <= LAP_WAY_ROWS_LEAVE; way <<= 1) {
    const int count = list_runs(program, way, list);
    for (int i = 0; i < count; i++) {
      const lap_program_step *first = step_at(program, list[i].first);
      for (int number = list[i].first; number < list[i].end; number++)
        assert_true(can_share(first, step_at(program, number)) || list[i].end == list[i].first + 1);
      if (steps_clash(program, list[i].first, list[i].end))
        fail_msg("%s: the run of '%s' clashes with itself", name, first->name);
      if (i == 0 || !can_share(step_at(program, list[i - 1].first), first)) continue;
      if (!steps_clash(program, list[i - 1].first, list[i].end))
        fail_msg("%s: the run of '%s' could be one with that of '%s' before it", name, first->name,
                 step_at(program, list[i - 1].first)->name);
    }
  }
  free(list);
}

static void a_run_has_no_clash_and_is_as_long_as_it_can_be(void **state) {
  (void)state;
  for_each_program(expect_runs_as_long_as_they_can_be);
}

/* Whoever watches sees the same rows as if the steps came one after the other as they are listed: what a step
 * shows is not written between the step that made it and the one that shows it. The last to write each buffer
 * is known from the formulas. */
static void what_is_shown_is_what_was_made_last(void **state) {
  (void)state;
  static const struct {
    const char *shown;
    const char *maker;
  } expected[] = {{"embedding", "embed"},
                  {"per_layer_input", "per_layer_input"},
                  {"layer", "scale"},
                  {"final_norm", "norm_next"}};
  lap_plan *plan = plan_of_size("e4b", LAP_KV_CONFIG);
  lap_program *program = program_of(plan);
  const lap_program_step *writer[LAP_BUFFERS] = {NULL};
  int shows = 0;
  for (int number = 0; number < program->length; number++) {
    const lap_program_step *step = step_at(program, number);
    for (int i = 0; i < step->writes; i++) writer[step->write[i].buffer] = step;
    for (size_t i = 0; step->kind == LAP_STEP_SHOW && i < sizeof expected / sizeof *expected; i++) {
      if (strcmp(step->shown, expected[i].shown) != 0) continue;
      assert_string_equal(writer[step->read[0].buffer]->name, expected[i].maker);
      shows++;
    }
  }
  assert_int_equal(shows, 2 + 2 * plan->layers);
  lap_program_free(program);
  lap_plan_free(plan);
}

/* ---- buffers ---- */

/* Goes through a pass with one row, every byte marked with the buffer that was written last. */
static void expect_buffers_whole(const lap_program *program, const char *name, unsigned way) {
  unsigned char *owner = malloc((size_t)program->row_bytes);
  bool stored[LAP_MAX_LAYERS] = {false};
  assert_non_null(owner);
  memset(owner, 0xff, (size_t)program->row_bytes);
  for (int number = 0; number < program->length; number++) {
    const lap_program_call *call;
    const lap_program_step *step = lap_program_at(program, number, &call);
    if (!(step->ways & way)) continue;
    for (int i = 0; i < step->reads + step->writes; i++) {
      const bool reads = i < step->reads;
      const lap_operand *operand = reads ? &step->read[i] : &step->write[i - step->reads];
      const lap_place *place = &program->place[operand->buffer];
      if (operand->buffer == LAP_BUFFER_CACHE) {
        if (reads) assert_true(stored[call->cache]);
        stored[call->cache] = true;
      }
      if (operand->buffer >= LAP_BUFFERS_OF_ROWS) continue;
      const int64_t bytes = row_bytes(program, operand);
      assert_true(place->at >= 0 && bytes <= place->bytes && place->at + bytes <= program->row_bytes);
      for (int64_t b = place->at; reads && b < place->at + bytes; b++)
        if (owner[b] != operand->buffer)
          fail_msg("%s: '%s' of layer %d reads %s, but %s was written over it", name,
                   lap_step_kind_name(step->kind), call->layer, lap_buffer_name(operand->buffer),
                   owner[b] == 0xff ? "nothing" : lap_buffer_name((lap_buffer)owner[b]));
      if (!reads) memset(owner + place->at, operand->buffer, (size_t)bytes);
    }
  }
  free(owner);
}

static void expect_buffers_whole_both_ways(lap_program *program, const char *name) {
  expect_buffers_whole(program, name, LAP_WAY_ALL_STAY);
  expect_buffers_whole(program, name, LAP_WAY_ROWS_LEAVE);
}

static void what_is_read_was_written_and_is_still_there(void **state) {
  (void)state;
  for_each_program(expect_buffers_whole_both_ways);
}

/* Memory that does not go with the rows is the same for 16 rows and for 24; tiles are placed apart there. */
static void the_monolith_asks_for_the_same_bytes_a_row(void **state) {
  (void)state;
  for (int i = 0; i < SOURCES; i++) {
    lap_error error;
    lap_device *device;
    lap_bound *bound;
    lap_forward_forecast few = {0}, many = {0};
    lap_plan *plan = plan_of(&sources[i], LAP_KV_CONFIG);
    lap_program *program = program_of(plan);
    expect_ok(lap_model_choose_code(plan, &(lap_model_options){0}, &device, &bound, &error), &error);
    expect_ok(lap_forward_foresee(bound, 1, LAP_PATH_MONOLITH, 0, 16, &few, &error), &error);
    expect_ok(lap_forward_foresee(bound, 1, LAP_PATH_MONOLITH, 0, 24, &many, &error), &error);
    const int64_t tiles = LAP_ALIGNMENT - (int64_t)sizeof(lap_tile);
    assert_int_equal(many.scratch - few.scratch, 8 * (program->row_bytes - tiles));
    lap_model_release_code(device, bound);
    lap_program_free(program);
    lap_plan_free(plan);
  }
}

/* ---- what there must be ---- */

/* Attention makes the forms of its output where heads are whole blocks of 64, else a step of their own does.
 */
static void expect_forms_of_attention(lap_program *program, const char *name) {
  if (program->forms[LAP_INPUT_ATTENTION] == 0) return;
  for (int c = 1; c < program->calls - 1; c++) {
    const lap_program_part *part = &program->part[program->call[c].part];
    const lap_layer *layer = &program->plan->layer[program->call[c].layer];
    const lap_step_kind wanted = layer->head_dim % 64 ? LAP_STEP_QUANTIZE : LAP_STEP_ATTEND;
    int makers = 0;
    for (int i = 0; i < part->steps; i++) {
      const lap_program_step *step = &program->step[part->first + i];
      for (int w = 0; w < step->writes; w++) {
        if (step->write[w].buffer != LAP_BUFFER_QUERY_FORMS) continue;
        if (step->kind != wanted) fail_msg("%s: '%s' makes forms of heads", name, step->name);
        makers++;
      }
    }
    assert_int_equal(makers, 1);
  }
}

static void attention_quantizes_heads_of_whole_blocks(void **state) {
  (void)state;
  for_each_program(expect_forms_of_attention);
}

/* Every module of every layer has exactly one step; up goes with gate. */
static void expect_modules(lap_program *program, const char *name) {
  const lap_plan *plan = program->plan;
  int(*linears)[LAP_LAYER_LINEARS] = calloc((size_t)plan->layers, sizeof *linears);
  int(*vectors)[LAP_LAYER_VECTORS] = calloc((size_t)plan->layers, sizeof *vectors);
  assert_true(linears && vectors);
  for (int number = 0; number < program->length; number++) {
    const lap_program_call *call;
    const lap_program_step *step = lap_program_at(program, number, &call);
    if (!(step->ways & LAP_WAY_ALL_STAY)) continue;
    for (int i = 0; i < 3; i++)
      if (step->weight[i] >= 0 && step->weight[i] < LAP_LAYER_LINEARS)
        linears[call->layer][step->weight[i]]++;
    for (int i = 0; i < 2; i++)
      if (step->vector[i] == LAP_VECTOR_NEXT_NORM && call->layer + 1 < plan->layers)
        vectors[call->layer + 1][LAP_INPUT_NORM]++;
      else if (step->vector[i] >= 0 && step->vector[i] < LAP_LAYER_VECTORS)
        vectors[call->layer][step->vector[i]]++;
  }
  for (int layer = 0; layer < plan->layers; layer++) {
    for (int which = 0; which < LAP_LAYER_LINEARS; which++)
      if (which != LAP_EXPERT_UP && linears[layer][which] != plan->layer[layer].linear[which].present)
        fail_msg("%s: layer %d: %s has %d steps", name, layer, lap_program_weight_name(which),
                 linears[layer][which]);
    for (int which = 0; which < LAP_LAYER_VECTORS; which++)
      if (vectors[layer][which] != plan->layer[layer].vector[which].present)
        fail_msg("%s: layer %d: %s has %d steps", name, layer, lap_program_vector_name(which),
                 vectors[layer][which]);
  }
  free(linears);
  free(vectors);
}

static void every_module_of_the_plan_has_one_step(void **state) {
  (void)state;
  for_each_program(expect_modules);
}

/* Written down by hand, from the formulas of a layer: what waits for what. */
static void a_layer_of_e4b_waits_where_its_formulas_do(void **state) {
  (void)state;
  static const struct {
    lap_step_kind kind;
    bool waits;
  } expected[] = {{LAP_STEP_PRODUCT, true},        {LAP_STEP_PRODUCT, false},
                  {LAP_STEP_PRODUCT, false},       {LAP_STEP_PRODUCT, false},
                  {LAP_STEP_WRITE_KEYS, true},     {LAP_STEP_ROTATE_QUERIES, false},
                  {LAP_STEP_PER_LAYER_ROW, false}, {LAP_STEP_ATTEND, true},
                  {LAP_STEP_PRODUCT, true},        {LAP_STEP_ADD_NORM, true},
                  {LAP_STEP_NORM, false},          {LAP_STEP_PAIR, true},
                  {LAP_STEP_PRODUCT, true},        {LAP_STEP_ADD_NORM, true},
                  {LAP_STEP_QUANTIZE, false},      {LAP_STEP_PER_LAYER_GATE, true},
                  {LAP_STEP_SHOW, false},          {LAP_STEP_PRODUCT, true},
                  {LAP_STEP_ADD_NORM, true},       {LAP_STEP_SCALE, false},
                  {LAP_STEP_NORM, false}, /* of the next layer */
                  {LAP_STEP_SHOW, false}};
  lap_plan *plan = plan_of_size("e4b", LAP_KV_CONFIG);
  lap_program *program = program_of(plan);
  const lap_program_part *part = &program->part[program->call[2].part];
  assert_string_equal(part->name, "donor_sliding_g64b4_v_pli_scalar");
  assert_int_equal(part->steps, sizeof expected / sizeof *expected);
  for (int i = 0; i < part->steps; i++) {
    assert_int_equal(program->step[part->first + i].kind, expected[i].kind);
    assert_int_equal(program->step[part->first + i].barrier, expected[i].waits);
  }
  const lap_program_counts counts = lap_program_count(program, 2, 1);
  assert_int_equal(counts.steps, 20);
  assert_int_equal(counts.runs, 11);
  assert_int_equal(counts.barriers, 11);
  /* 42 layers; the embedding, and the head. */
  const lap_program_counts all = lap_program_count(program, 0, program->calls);
  assert_int_equal(all.runs, 42 * 11 + 2);
  assert_int_equal(all.barriers, 42 * 11 + 1);
  lap_program_free(program);
  lap_plan_free(plan);
}

/* The number of the first step of the kind in a layer. */
static int step_of(const lap_program *program, int layer, lap_step_kind kind) {
  const lap_program_call *call = &program->call[layer + 1];
  for (int i = 0; i < program->part[call->part].steps; i++)
    if (program->step[program->part[call->part].first + i].kind == kind) return call->first + i;
  fail_msg("layer %d has no '%s'", layer, lap_step_kind_name(kind));
  return -1;
}

/* In E4B layers 22 and 23 are the last donors, and layer 24 reads the cache of 22. */
static void steps_conflict_over_a_cache_and_over_shared_room(void **state) {
  (void)state;
  lap_plan *plan = plan_of_size("e4b", LAP_KV_CONFIG);
  lap_program *program = program_of(plan);
  const int keys = step_of(program, 22, LAP_STEP_WRITE_KEYS);
  assert_true(lap_steps_conflict(program, keys, step_of(program, 22, LAP_STEP_ATTEND)));
  assert_true(lap_steps_conflict(program, keys, step_of(program, 24, LAP_STEP_ATTEND)));
  assert_false(lap_steps_conflict(program, keys, step_of(program, 23, LAP_STEP_ATTEND)));
  /* Feed-forward writes where the queries' forms stand, by another name. */
  assert_true(lap_steps_conflict(program, step_of(program, 22, LAP_STEP_ATTEND),
                                 step_of(program, 22, LAP_STEP_PAIR)));
  lap_program_free(program);
  lap_plan_free(plan);
}

static void the_flat_list_is_that_of_the_calls(void **state) {
  (void)state;
  lap_plan *plan = plan_of_size("e2b", LAP_KV_CONFIG);
  lap_program *program = program_of(plan);
  int number = 0;
  assert_int_equal(program->calls, plan->layers + 2);
  for (int c = 0; c < program->calls; c++) {
    const lap_program_part *part = &program->part[program->call[c].part];
    for (int i = 0; i < part->steps; i++, number++) {
      const lap_program_call *call;
      assert_ptr_equal(lap_program_at(program, number, &call), &program->step[part->first + i]);
      assert_ptr_equal(call, &program->call[c]);
    }
  }
  assert_int_equal(number, program->length);
  lap_program_free(program);
  lap_plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_step_runs_beside_what_it_depends_on),
      cmocka_unit_test(without_any_of_the_barriers_something_would),
      cmocka_unit_test(no_barrier_falls_into_a_run),
      cmocka_unit_test(a_run_has_no_clash_and_is_as_long_as_it_can_be),
      cmocka_unit_test(what_is_shown_is_what_was_made_last),
      cmocka_unit_test(what_is_read_was_written_and_is_still_there),
      cmocka_unit_test(the_monolith_asks_for_the_same_bytes_a_row),
      cmocka_unit_test(attention_quantizes_heads_of_whole_blocks),
      cmocka_unit_test(every_module_of_the_plan_has_one_step),
      cmocka_unit_test(a_layer_of_e4b_waits_where_its_formulas_do),
      cmocka_unit_test(steps_conflict_over_a_cache_and_over_shared_room),
      cmocka_unit_test(the_flat_list_is_that_of_the_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
