/* text.c: results for people, as tables in plain text or Markdown. */
#include "bench/bench.h"
#include "bench/table.h"
#include "engine/passes.h"

const char *const lap_bench_kind_words[] = {"prompt", "decode", NULL};

static const double GIGA = 1e-9;

/* "median (min to max)" */
static void add_sample(lap_bench_table *table, const lap_bench_sample *sample, int digits, double factor) {
  lap_bench_table_add(table, "%.*f (%.*f to %.*f)", digits, lap_bench_sample_median(sample) * factor, digits,
                      lap_bench_sample_min(sample) * factor, digits, lap_bench_sample_max(sample) * factor);
}

static int digits_for(const lap_bench_sample *sample) {
  double median = lap_bench_sample_median(sample);
  return median >= 1000 ? 0 : median >= 100 ? 1 : 2;
}

static void print_title(FILE *out, bool markdown, const char *title) {
  fprintf(out, markdown ? "\n### %s\n\n" : "\n%s\n", title);
}

static void print_machine(FILE *out, const lap_bench_results *results, bool markdown) {
  const lap_bench_machine *machine = &results->machine;
  lap_bench_table table;
  fprintf(out, markdown ? "### Machine\n\n" : "Machine\n");
  fprintf(out, "%s%s, %d cores available; ceilings measured with %s, reads over %zu MiB\n",
          markdown ? "" : "  ", machine->processor, machine->cores, machine->peak->isa,
          machine->buffer_bytes >> 20);
  if (markdown) fputc('\n', out);
  lap_bench_table_begin(&table, "threads|read, GB/s|f32 FMA, Gop/s|int16, Gop/s");
  for (int i = 0; i < machine->thread_counts; i++) {
    lap_bench_table_add(&table, "%d", i + 1);
    for (int which = 0; which < LAP_BENCH_CEILINGS; which++)
      add_sample(&table, &machine->ceiling[i][which], 1, GIGA);
  }
  lap_bench_table_end(&table, out, markdown);
}

static void print_model(FILE *out, const lap_bench_results *results, bool markdown) {
  const lap_bench_model *model = &results->model;
  const double mega = 1.0 / (1 << 20);
  print_title(out, markdown, "Model");
  fprintf(out, "%s%s: %s, %d layers, context %lld, kernels %s\n", markdown ? "" : "  ",
          results->request->directory, model->type, model->layers, (long long)model->context, model->isa);
  fprintf(out, "%sweights %.1f MiB, of which a token reads %.1f MiB\n", markdown ? "" : "  ",
          (double)model->sizes.weights * mega, (double)model->sizes.decode * mega);
}

/* ---- rates ----------------------------------------------------------------------------------- */

static const lap_bench_side *side_of(const lap_bench_results *results, const lap_bench_cell *cell, int side) {
  return &results->request->side[cell->group][side];
}

static void add_setting(lap_bench_table *table, const lap_bench_results *results, const lap_bench_cell *cell,
                        int side) {
  lap_bench_table_add(table, "%s", lap_kv_words[side_of(results, cell, side)->kv]);
  lap_bench_table_add(table, "%lld", (long long)cell->depth);
  lap_bench_table_add(table, "%d", cell->threads);
}

/* Where paths are compared: "cut"; "auto: monolith" */
static void add_path(lap_bench_table *table, const lap_bench_results *results, const lap_bench_cell *cell,
                     int side) {
  lap_path asked = side_of(results, cell, side)->path;
  if (results->request->compared != LAP_BENCH_PATHS) return;
  lap_bench_table_add(table, asked == LAP_PATH_AUTO ? "%s: %s" : "%s", lap_path_words[asked],
                      cell->cut[side] ? "cut" : "monolith");
}

static void add_rate(lap_bench_table *table, const lap_bench_rate *rate, lap_bench_kind kind) {
  const double median = lap_bench_sample_median(&rate->per_second);
  add_sample(table, &rate->per_second, digits_for(&rate->per_second), 1);
  lap_bench_table_add(table, "%.1f %s", median * lap_bench_work_of_token(rate, kind) * GIGA,
                      kind == LAP_BENCH_PROMPT ? "Gop/s" : "GB/s");
  add_sample(table, &rate->percent, 1, 1);
}

static void print_rates(FILE *out, const lap_bench_results *results, bool markdown) {
  const lap_bench_request *request = results->request;
  char title[96];
  lap_bench_table table;
  snprintf(title, sizeof title, "Rates, median (min to max) of %d rounds", request->rounds);
  print_title(out, markdown, title);
  lap_bench_table_begin(&table, request->compared == LAP_BENCH_PATHS
                                    ? "<kind|<kv|depth|threads|<path|tokens/s|work|% of ceiling"
                                    : "<kind|<kv|depth|threads|tokens/s|work|% of ceiling");
  for (int i = 0; i < results->cells; i++)
    for (int kind = 0; kind < LAP_BENCH_KINDS; kind++)
      for (int side = 0; side < request->sides; side++) {
        const lap_bench_cell *cell = &results->cell[i];
        if (!cell->rate[side][kind].tokens) continue;
        lap_bench_table_add(&table, "%s", lap_bench_kind_words[kind]);
        add_setting(&table, results, cell, side);
        add_path(&table, results, cell, side);
        add_rate(&table, &cell->rate[side][kind], (lap_bench_kind)kind);
      }
  lap_bench_table_end(&table, out, markdown);
}

static void print_notes(FILE *out, const lap_bench_results *results, bool markdown) {
  const char *indent = markdown ? "" : "  ";
  if (markdown) fputc('\n', out);
  fprintf(out,
          "%sPrompts of %lld tokens: operations are multiplications with their addition; ceiling int16.\n",
          indent, (long long)results->request->prompt);
  fprintf(out, "%sDecodes of %lld tokens, one by one: weights and KV read; ceiling the read rate.\n", indent,
          (long long)results->request->decode);
  fprintf(out, "%sA percentage is of the ceiling measured right before, in the same round.\n", indent);
  fprintf(out, "%sThe ceilings above are those of the whole run.\n", indent);
}

/* ---- ratios, start, memory ------------------------------------------------------------------- */

static void add_ratio(lap_bench_table *table, const lap_bench_sample *ratio) {
  add_sample(table, ratio, 3, 1);
}

static void print_ratios(FILE *out, const lap_bench_results *results, bool markdown) {
  const lap_bench_request *request = results->request;
  const lap_bench_side *side = request->side[0];
  char title[96];
  lap_bench_table table;
  if (request->compared == LAP_BENCH_PATHS)
    snprintf(title, sizeof title, "Ratio of rates, %s to %s, in alternating rounds",
             lap_path_words[side[1].path], lap_path_words[side[0].path]);
  else
    snprintf(title, sizeof title, "Ratio of rates to that of KV %s, in alternating rounds",
             lap_kv_words[side[0].kv]);
  print_title(out, markdown, title);
  lap_bench_table_begin(&table, "<kind|<kv|depth|threads|ratio");
  for (int i = 0; i < results->cells; i++)
    for (int kind = 0; kind < LAP_BENCH_KINDS; kind++)
      for (int at = 1; at < request->sides; at++) {
        const lap_bench_cell *cell = &results->cell[i];
        if (!cell->ratio[at][kind].count) continue;
        lap_bench_table_add(&table, "%s", lap_bench_kind_words[kind]);
        add_setting(&table, results, cell, at);
        add_ratio(&table, &cell->ratio[at][kind]);
      }
  lap_bench_table_end(&table, out, markdown);
}

static void print_startup(FILE *out, const lap_bench_results *results, bool markdown) {
  const lap_bench_request *request = results->request;
  const lap_bench_startup *startup = &results->startup;
  lap_bench_table table;
  print_title(out, markdown, "From the start of a process to its first token (a prompt of one)");
  lap_bench_table_begin(&table, "<path|<kv|threads|ms|time of the first to it");
  for (int side = 0; side < request->sides; side++) {
    lap_bench_table_add(&table, "%s", lap_path_words[request->side[0][side].path]);
    lap_bench_table_add(&table, "%s", lap_kv_words[startup->kv]);
    lap_bench_table_add(&table, "%d", startup->threads);
    add_sample(&table, &startup->seconds[side], 1, 1000);
    if (side == 0)
      lap_bench_table_add(&table, "-");
    else
      add_ratio(&table, &startup->ratio);
  }
  lap_bench_table_end(&table, out, markdown);
}

/* A prompt's time is the rate turned over; without prompts there is none. */
static void add_first_token(lap_bench_table *table, const lap_bench_rate *rate) {
  lap_bench_sample seconds = {0};
  for (int i = 0; i < rate->per_second.count; i++)
    lap_bench_sample_add(&seconds, (double)rate->tokens / rate->per_second.value[i]);
  if (rate->tokens)
    add_sample(table, &seconds, 1, 1000);
  else
    lap_bench_table_add(table, "-");
}

static void print_memory(FILE *out, const lap_bench_results *results, bool markdown) {
  const double mega = 1.0 / (1 << 20);
  lap_bench_table table;
  print_title(out, markdown,
              "Peak memory in MiB (of the weights, pages touched), and a prompt's time to the first token");
  lap_bench_table_begin(&table, results->request->compared == LAP_BENCH_PATHS
                                    ? "<kv|depth|threads|<path|weights|KV|scratch|first token, ms"
                                    : "<kv|depth|threads|weights|KV|scratch|first token, ms");
  for (int i = 0; i < results->cells; i++)
    for (int side = 0; side < results->request->sides; side++) {
      const lap_bench_cell *cell = &results->cell[i];
      const lap_bench_memory *memory = &cell->memory[side];
      add_setting(&table, results, cell, side);
      add_path(&table, results, cell, side);
      lap_bench_table_add(&table, "%.1f", (double)memory->weights * mega);
      lap_bench_table_add(&table, "%.1f", (double)memory->kv * mega);
      lap_bench_table_add(&table, "%.1f", (double)memory->scratch * mega);
      add_first_token(&table, &cell->rate[side][LAP_BENCH_PROMPT]);
    }
  lap_bench_table_end(&table, out, markdown);
}

void lap_bench_text(FILE *out, const lap_bench_results *results, bool markdown) {
  print_machine(out, results, markdown);
  print_model(out, results, markdown);
  print_rates(out, results, markdown);
  print_notes(out, results, markdown);
  if (results->request->compared != LAP_BENCH_ALONE) print_ratios(out, results, markdown);
  if (results->request->compared == LAP_BENCH_PATHS) print_startup(out, results, markdown);
  print_memory(out, results, markdown);
}
