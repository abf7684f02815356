/* json.c: results for programs. Units are in the keys; a `spread` is [smallest, largest]. */
#include "base/json_write.h"
#include "bench/bench.h"
#include "engine/passes.h"

enum {
  DIGITS = 6 /* more than any measurement here is good for */
};

static void put_spread(lap_json_writer *json, const char *key, const lap_bench_sample *sample) {
  lap_write_array(json, key);
  lap_write_real(json, NULL, lap_bench_sample_min(sample), DIGITS);
  lap_write_real(json, NULL, lap_bench_sample_max(sample), DIGITS);
  lap_write_end_array(json);
}

/* `key` and `spread_key`: what all samples consist of. */
static void put_sample(lap_json_writer *json, const char *key, const char *spread_key,
                       const lap_bench_sample *sample) {
  lap_write_real(json, key, lap_bench_sample_median(sample), DIGITS);
  put_spread(json, spread_key, sample);
}

/* ---- machine and model ----------------------------------------------------------------------- */

static void put_ceilings(lap_json_writer *json, const lap_bench_machine *machine) {
  lap_write_array(json, "ceilings");
  for (int i = 0; i < machine->thread_counts; i++) {
    const lap_bench_sample *ceiling = machine->ceiling[i];
    lap_write_object(json, NULL);
    lap_write_integer(json, "threads", i + 1);
    put_sample(json, "read_bytes_per_second", "read_spread", &ceiling[LAP_BENCH_CEILING_READ]);
    put_sample(json, "f32_operations_per_second", "f32_spread", &ceiling[LAP_BENCH_CEILING_F32]);
    put_sample(json, "int16_operations_per_second", "int16_spread", &ceiling[LAP_BENCH_CEILING_INT16]);
    lap_write_end_object(json);
  }
  lap_write_end_array(json);
}

static void put_machine(lap_json_writer *json, const lap_bench_machine *machine) {
  lap_write_object(json, "machine");
  lap_write_string(json, "processor", machine->processor);
  lap_write_integer(json, "cores", machine->cores);
  lap_write_string(json, "isa", machine->peak->isa);
  lap_write_integer(json, "buffer_bytes", (int64_t)machine->buffer_bytes);
  put_ceilings(json, machine);
  lap_write_end_object(json);
}

static void put_model(lap_json_writer *json, const lap_bench_results *results) {
  const lap_bench_model *model = &results->model;
  lap_write_object(json, "model");
  lap_write_string(json, "directory", results->request->directory);
  lap_write_string(json, "model_type", model->type);
  lap_write_integer(json, "layers", model->layers);
  lap_write_integer(json, "context", model->context);
  lap_write_integer(json, "weights_bytes", (int64_t)model->sizes.weights);
  lap_write_integer(json, "decode_bytes", (int64_t)model->sizes.decode);
  lap_write_string(json, "isa", model->isa);
  lap_write_end_object(json);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A key's value for a side; in a ratio of what that key stands for, "second/first". */
static void put_words(lap_json_writer *json, const char *key, const char *word, const char *over) {
  char both[64];
  snprintf(both, sizeof both, over ? "%s/%s" : "%s", word, over);
  lap_write_string(json, key, both);
}

/* `ratio`: of the side to the first. */
static void put_setting(lap_json_writer *json, const lap_bench_request *request, const lap_bench_cell *cell,
                        int side, bool ratio) {
  const lap_bench_side *it = &request->side[cell->group][side], *first = &request->side[cell->group][0];
  bool of_paths = ratio && request->compared == LAP_BENCH_PATHS;
  put_words(json, "kv", lap_kv_words[it->kv], ratio && !of_paths ? lap_kv_words[first->kv] : NULL);
  lap_write_integer(json, "depth", cell->depth);
  lap_write_integer(json, "threads", cell->threads);
  if (request->compared == LAP_BENCH_PATHS)
    put_words(json, "path", lap_path_words[it->path], of_paths ? lap_path_words[first->path] : NULL);
}

static void put_memory(lap_json_writer *json, const lap_bench_memory *memory) {
  lap_write_integer(json, "weights_touched_bytes", (int64_t)memory->weights);
  lap_write_integer(json, "kv_bytes", (int64_t)memory->kv);
  lap_write_integer(json, "scratch_bytes", (int64_t)memory->scratch);
}

static void put_rate(lap_json_writer *json, const lap_bench_results *results, const lap_bench_cell *cell,
                     int side, lap_bench_kind kind) {
  const lap_bench_rate *rate = &cell->rate[side][kind];
  double median = lap_bench_sample_median(&rate->per_second), tokens = (double)rate->tokens;
  if (!rate->tokens) return;
  lap_write_object(json, NULL);
  lap_write_string(json, "kind", lap_bench_kind_words[kind]);
  put_setting(json, results->request, cell, side, false);
  if (results->request->compared == LAP_BENCH_PATHS)
    lap_write_string(json, "path_taken", cell->cut[side] ? "cut" : "monolith");
  lap_write_integer(json, "tokens", rate->tokens);
  lap_write_integer(json, "rounds", rate->per_second.count);
  put_sample(json, "tokens_per_second", "spread", &rate->per_second);
  lap_write_real(json, "operations_per_second", median * rate->cost.operations / tokens, DIGITS);
  lap_write_real(json, "bytes_per_second", median * rate->cost.bytes / tokens, DIGITS);
  lap_write_string(json, "ceiling",
                   kind == LAP_BENCH_PROMPT ? "int16_operations_per_second" : "read_bytes_per_second");
  put_sample(json, "percent_of_ceiling", "percent_spread", &rate->percent);
  if (kind == LAP_BENCH_PROMPT) lap_write_real(json, "first_token_seconds", tokens / median, DIGITS);
  put_memory(json, &cell->memory[side]);
  lap_write_end_object(json);
}

/* A ratio is no rate, but has the keys of one, so that a reader may look for them in every row. */
static void put_ratio(lap_json_writer *json, const lap_bench_results *results, const lap_bench_cell *cell,
                      int side, lap_bench_kind kind) {
  const lap_bench_sample *ratio = &cell->ratio[side][kind];
  if (!ratio->count) return;
  lap_write_object(json, NULL);
  lap_write_string(json, "kind", "ratio");
  lap_write_string(json, "of", lap_bench_kind_words[kind]);
  put_setting(json, results->request, cell, side, true);
  lap_write_integer(json, "rounds", ratio->count);
  lap_write_null(json, "tokens_per_second");
  lap_write_null(json, "percent_of_ceiling");
  put_sample(json, "ratio", "spread", ratio);
  lap_write_end_object(json);
}

static void put_rows(lap_json_writer *json, const lap_bench_results *results) {
  lap_write_array(json, "rows");
  for (int i = 0; i < results->cells; i++)
    for (int kind = 0; kind < LAP_BENCH_KINDS; kind++) {
      for (int side = 0; side < results->request->sides; side++)
        put_rate(json, results, &results->cell[i], side, (lap_bench_kind)kind);
      for (int side = 1; side < results->request->sides; side++)
        put_ratio(json, results, &results->cell[i], side, (lap_bench_kind)kind);
    }
  lap_write_end_array(json);
}

static void put_skipped(lap_json_writer *json, const lap_bench_list *skipped) {
  lap_write_array(json, "skipped_depths");
  for (int i = 0; i < skipped->count; i++) lap_write_integer(json, NULL, skipped->item[i]);
  lap_write_end_array(json);
}

static void put_startup(lap_json_writer *json, const lap_bench_results *results) {
  const lap_bench_startup *startup = &results->startup;
  if (results->request->compared != LAP_BENCH_PATHS) return;
  lap_write_object(json, "startup");
  lap_write_string(json, "kv", lap_kv_words[startup->kv]);
  lap_write_integer(json, "threads", startup->threads);
  put_sample(json, "ratio", "spread", &startup->ratio);
  lap_write_array(json, "paths");
  for (int side = 0; side < results->request->sides; side++) {
    lap_write_object(json, NULL);
    lap_write_string(json, "path", lap_path_words[results->request->side[0][side].path]);
    put_sample(json, "seconds", "spread", &startup->seconds[side]);
    lap_write_end_object(json);
  }
  lap_write_end_array(json);
  lap_write_end_object(json);
}

bool lap_bench_json(FILE *out, const lap_bench_results *results) {
  lap_text text = {0};
  lap_json_writer json;
  lap_write_begin_indented(&json, &text);
  lap_write_object(&json, NULL);
  put_machine(&json, &results->machine);
  put_model(&json, results);
  put_rows(&json, results);
  put_skipped(&json, &results->skipped);
  put_startup(&json, results);
  lap_write_end_object(&json);
  lap_write_end(&json);
  return lap_text_print(&text, out);
}
