/* bench_json.c: results for programs. Units are in the keys; a `spread` is [smallest, largest]. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/json_put.h"
#include "cli/options.h"

/* Six digits: more than any measurement here is good for. */
static void put_number(yajl_gen g, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.6g", value);
  yajl_gen_number(g, text, strlen(text));
}

static void put_null(yajl_gen g, const char *key) {
  lap_json_put_string(g, key);
  yajl_gen_null(g);
}

static void put_spread(yajl_gen g, const char *key, const lap_sample *sample) {
  lap_json_put_string(g, key);
  yajl_gen_array_open(g);
  put_number(g, lap_sample_min(sample));
  put_number(g, lap_sample_max(sample));
  yajl_gen_array_close(g);
}

/* `key` and `spread_key`: what all samples consist of. */
static void put_sample(yajl_gen g, const char *key, const char *spread_key, const lap_sample *sample) {
  lap_json_put_measured(g, key, lap_sample_median(sample));
  put_spread(g, spread_key, sample);
}

/* ---- machine and model ----------------------------------------------------------------------- */

static void put_ceilings(yajl_gen g, const lap_machine *machine) {
  lap_json_put_string(g, "ceilings");
  yajl_gen_array_open(g);
  for (int i = 0; i < machine->thread_counts; i++) {
    const lap_sample *ceiling = machine->ceiling[i];
    yajl_gen_map_open(g);
    lap_json_put_integer(g, "threads", i + 1);
    put_sample(g, "read_bytes_per_second", "read_spread", &ceiling[LAP_CEILING_READ]);
    put_sample(g, "f32_operations_per_second", "f32_spread", &ceiling[LAP_CEILING_F32]);
    put_sample(g, "int16_operations_per_second", "int16_spread", &ceiling[LAP_CEILING_INT16]);
    yajl_gen_map_close(g);
  }
  yajl_gen_array_close(g);
}

static void put_machine(yajl_gen g, const lap_machine *machine) {
  lap_json_open(g, "machine");
  lap_json_put_text(g, "processor", machine->processor);
  lap_json_put_integer(g, "cores", machine->cores);
  lap_json_put_text(g, "isa", machine->peak->isa);
  lap_json_put_integer(g, "buffer_bytes", (int64_t)machine->buffer_bytes);
  put_ceilings(g, machine);
  yajl_gen_map_close(g);
}

static void put_model(yajl_gen g, const lap_bench_results *results) {
  const lap_bench_model *model = &results->model;
  lap_json_open(g, "model");
  lap_json_put_text(g, "directory", results->request->directory);
  lap_json_put_text(g, "model_type", model->type);
  lap_json_put_integer(g, "layers", model->layers);
  lap_json_put_integer(g, "context", model->context);
  lap_json_put_integer(g, "weights_bytes", (int64_t)model->sizes.weights);
  lap_json_put_integer(g, "decode_bytes", (int64_t)model->sizes.decode);
  lap_json_put_text(g, "isa", model->isa);
  yajl_gen_map_close(g);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_setting(yajl_gen g, const lap_bench_cell *cell) {
  lap_json_put_text(g, "kv", lap_kv_words[cell->kv]);
  lap_json_put_integer(g, "depth", cell->depth);
  lap_json_put_integer(g, "threads", cell->threads);
}

static void put_memory(yajl_gen g, const lap_bench_memory *memory) {
  lap_json_put_integer(g, "weights_touched_bytes", (int64_t)memory->weights);
  lap_json_put_integer(g, "kv_bytes", (int64_t)memory->kv);
  lap_json_put_integer(g, "scratch_bytes", (int64_t)memory->scratch);
}

static void put_path(yajl_gen g, const lap_bench_results *results, const lap_bench_cell *cell, int path) {
  if (results->request->paths < 2) return;
  lap_json_put_text(g, "path", lap_path_words[results->request->path[path]]);
  lap_json_put_text(g, "path_taken", cell->cut[path] ? "cut" : "monolith");
}

static void put_rate(yajl_gen g, const lap_bench_results *results, const lap_bench_cell *cell, int path,
                     lap_bench_kind kind) {
  const lap_bench_rate *rate = &cell->rate[path][kind];
  double median = lap_sample_median(&rate->per_second), tokens = (double)rate->tokens;
  if (!rate->tokens) return;
  yajl_gen_map_open(g);
  lap_json_put_text(g, "kind", lap_bench_kind_words[kind]);
  put_setting(g, cell);
  put_path(g, results, cell, path);
  lap_json_put_integer(g, "tokens", rate->tokens);
  lap_json_put_integer(g, "rounds", rate->per_second.count);
  put_sample(g, "tokens_per_second", "spread", &rate->per_second);
  lap_json_put_measured(g, "operations_per_second", median * rate->cost.operations / tokens);
  lap_json_put_measured(g, "bytes_per_second", median * rate->cost.bytes / tokens);
  lap_json_put_text(g, "ceiling",
                    kind == LAP_BENCH_PROMPT ? "int16_operations_per_second" : "read_bytes_per_second");
  put_sample(g, "percent_of_ceiling", "percent_spread", &rate->percent);
  if (kind == LAP_BENCH_PROMPT) lap_json_put_measured(g, "first_token_seconds", tokens / median);
  put_memory(g, &cell->memory[path]);
  yajl_gen_map_close(g);
}

/* A ratio is no rate, but has the keys of one, so that a reader may look for them in every row. */
static void put_ratio(yajl_gen g, const lap_bench_results *results, const lap_bench_cell *cell,
                      lap_bench_kind kind) {
  char paths[32];
  if (results->request->paths < 2 || !cell->rate[0][kind].tokens) return;
  snprintf(paths, sizeof paths, "%s/%s", lap_path_words[results->request->path[1]],
           lap_path_words[results->request->path[0]]);
  yajl_gen_map_open(g);
  lap_json_put_text(g, "kind", "ratio");
  lap_json_put_text(g, "of", lap_bench_kind_words[kind]);
  put_setting(g, cell);
  lap_json_put_text(g, "path", paths);
  lap_json_put_integer(g, "rounds", cell->ratio[kind].count);
  put_null(g, "tokens_per_second");
  put_null(g, "percent_of_ceiling");
  put_sample(g, "ratio", "spread", &cell->ratio[kind]);
  yajl_gen_map_close(g);
}

static void put_rows(yajl_gen g, const lap_bench_results *results) {
  lap_json_put_string(g, "rows");
  yajl_gen_array_open(g);
  for (int i = 0; i < results->cells; i++)
    for (int kind = 0; kind < LAP_BENCH_KINDS; kind++) {
      for (int path = 0; path < results->request->paths; path++)
        put_rate(g, results, &results->cell[i], path, (lap_bench_kind)kind);
      put_ratio(g, results, &results->cell[i], (lap_bench_kind)kind);
    }
  yajl_gen_array_close(g);
}

static void put_skipped(yajl_gen g, const lap_bench_list *skipped) {
  lap_json_put_string(g, "skipped_depths");
  yajl_gen_array_open(g);
  for (int i = 0; i < skipped->count; i++) yajl_gen_integer(g, skipped->item[i]);
  yajl_gen_array_close(g);
}

static void put_startup(yajl_gen g, const lap_bench_results *results) {
  const lap_bench_startup *startup = &results->startup;
  if (results->request->paths < 2) return;
  lap_json_open(g, "startup");
  lap_json_put_text(g, "kv", lap_kv_words[startup->kv]);
  lap_json_put_integer(g, "threads", startup->threads);
  put_sample(g, "ratio", "spread", &startup->ratio);
  lap_json_put_string(g, "paths");
  yajl_gen_array_open(g);
  for (int path = 0; path < results->request->paths; path++) {
    yajl_gen_map_open(g);
    lap_json_put_text(g, "path", lap_path_words[results->request->path[path]]);
    put_sample(g, "seconds", "spread", &startup->seconds[path]);
    yajl_gen_map_close(g);
  }
  yajl_gen_array_close(g);
  yajl_gen_map_close(g);
}

bool lap_bench_json(FILE *out, const lap_bench_results *results) {
  yajl_gen g = lap_json_begin(out);
  if (!g) return false;
  put_machine(g, &results->machine);
  put_model(g, results);
  put_rows(g, results);
  put_skipped(g, &results->skipped);
  put_startup(g, results);
  lap_json_end(g);
  return true;
}
