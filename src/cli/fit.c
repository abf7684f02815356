/* fit.c: `lapidary fit`: will it fit, and how fast can it be? Answered from the plan, before anything is
 * loaded.
 *
 * Invariant: every figure comes from the code that it foretells: bytes of KV and scratch from what allocates
 * them, bytes of a token from what `bench` counts, the read rate from what `bench` measures. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/json_write.h"
#include "base/memory.h"
#include "bench/cost.h"
#include "bench/machine.h"
#include "cli/opened.h"
#include "cli/support.h"
#include "engine/forecast.h"
#include "engine/session.h"
#include "model/model.h"

enum {
  READS = 5,
  DIGITS = 6, /* of a rate: more than it is good for */
  PROGRAM_BYTES = 16 << 20
};

static const double GIGA = 1e9;

typedef struct settings {
  lap_engine_settings engine;
  int64_t context;
  double memory;    /* GB; 0 = what the machine has */
  double bandwidth; /* GB/s; 0 = to be measured */
  bool json;
} settings;

typedef struct answer {
  const char *directory;
  const char *kv;
  int threads, chunk;
  int64_t context;   /* asked for */
  int64_t limit;     /* of the model */
  bool cut;          /* serves the passes */
  lap_forecast need; /* at that context */
  uint64_t mapped;   /* weights that the text part uses */
  uint64_t resident; /* of these, what decoding comes back to */
  uint64_t decode;   /* of these, what one token reads */
  uint64_t other;    /* the program and its tokenizer, estimated */
  uint64_t together;
  uint64_t available;
  int64_t longest;
  lap_bench_sample bandwidth; /* bytes a second; one value if it was given */
  double token_bytes[2];      /* weights and KV that a token reads: the first, and the last of the context */
} answer;

#define ENGINE offsetof(settings, engine)

static const lap_option options[] = {
    {.kind = LAP_OPTION_INTEGER,
     .name = "ctx",
     .argument = "N",
     .offset = offsetof(settings, context),
     .low = 1,
     .high = INT32_MAX,
     .help = "Tokens of prompt and answer together; default: the model's context."},
    LAP_KV_OPTION(ENGINE),
    {.kind = LAP_OPTION_NUMBER,
     .name = "memory",
     .argument = "GB",
     .offset = offsetof(settings, memory),
     .low = 0.001,
     .high = 1e6,
     .help =
         "Memory to fit into, in units of 10^9 bytes; default: what is available now, by the kernel and by "
         "the limits of control groups."},
    {.kind = LAP_OPTION_NUMBER,
     .name = "bandwidth",
     .argument = "GB/s",
     .offset = offsetof(settings, bandwidth),
     .low = 0.001,
     .high = 1e6,
     .help = "The read rate to reckon with; default: measured, as bench does, in less than a second."},
    LAP_THREADS_OPTION(ENGINE),
    {.kind = LAP_OPTION_INTEGER,
     .name = "chunk",
     .argument = "N",
     .offset = ENGINE + offsetof(lap_engine_settings, chunk),
     .low = 1,
     .high = LAP_MAX_CHUNK,
     .help = "Prompt tokens evaluated at once; default: 512."},
    {.kind = LAP_OPTION_FLAG,
     .name = "json",
     .offset = offsetof(settings, json),
     .help = "Print JSON instead of a table; all sizes in bytes."},
    {0}};

/* ---- reckoning ------------------------------------------------------------------------------- */

/* Of the file; its tables take about as much. */
static uint64_t tokenizer_bytes(const char *directory) {
  char path[4096];
  struct stat status;
  if (snprintf(path, sizeof path, "%s/tokenizer.json", directory) >= (int)sizeof path) return 0;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
}

static lap_status find_available(const settings *chosen, uint64_t *bytes, lap_error *error) {
  *bytes = chosen->memory > 0 ? (uint64_t)(chosen->memory * GIGA) : lap_available_memory("");
  return *bytes ? LAP_OK
                : lap_fail(error, LAP_ERROR_IO,
                           "/proc/meminfo does not say what is available: --memory is needed");
}

static lap_status measure_bandwidth(int threads, lap_bench_sample *rates, lap_error *error) {
  lap_bench_machine machine;
  lap_status status = lap_bench_machine_open(threads, &machine, error);
  if (status == LAP_OK) status = lap_bench_machine_observe_reads(&machine, threads, READS, rates, error);
  lap_bench_machine_close(&machine);
  return status;
}

/* All but the read rate. */
static lap_status reckon(const lap_bound *bound, const settings *chosen, answer *a, lap_error *error) {
  const lap_plan *plan = bound->plan;
  const lap_forecast_session session = {.bound = bound, .threads = a->threads, .chunk = a->chunk};
  const lap_plan_sizes sizes = lap_plan_measure(plan);
  a->limit = plan->max_position_embeddings;
  a->context = chosen->context ? chosen->context : a->limit;
  a->mapped = sizes.weights;
  a->resident = sizes.weights - sizes.tables;
  a->decode = sizes.decode;
  a->other = PROGRAM_BYTES + tokenizer_bytes(a->directory);
  if (a->context > a->limit)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "--ctx: %lld tokens are more than the model's context of %lld",
                    (long long)a->context, (long long)a->limit);
  lap_status status = find_available(chosen, &a->available, error);
  if (status == LAP_OK) status = lap_forecast_tokens(&session, a->context, &a->need, error);
  if (status != LAP_OK) return status;
  uint64_t fixed = a->resident + a->other;
  a->together = fixed + a->need.kv_peak_bytes + a->need.scratch_bytes;
  a->token_bytes[0] = lap_bench_decode_cost(plan, 0, 1).bytes;
  a->token_bytes[1] = lap_bench_decode_cost(plan, a->context - 1, 1).bytes;
  if (a->available <= fixed) return LAP_OK;
  lap_forecast longest;
  status = lap_forecast_longest(&session, a->available - fixed, &longest, error);
  a->longest = longest.tokens;
  return status;
}

static lap_status answer_from_plan(const settings *chosen, answer *a, lap_error *error) {
  lap_tensors *tensors = NULL;
  lap_plan *plan = NULL;
  lap_device *device = NULL;
  lap_bound *bound = NULL;
  const lap_model_options how = lap_model_options_of(chosen->engine.kv);
  lap_status status = lap_tensors_open(a->directory, &tensors, error);
  if (status == LAP_OK)
    status = lap_plan_build(a->directory, tensors, (lap_kv_mode)chosen->engine.kv, &plan, error);
  if (status == LAP_OK) status = lap_model_choose_code(plan, &how, &device, &bound, error);
  if (status == LAP_OK) a->cut = device->driver->cut(bound).available;
  if (status == LAP_OK) status = reckon(bound, chosen, a, error);
  lap_model_release_code(device, bound);
  lap_plan_free(plan);
  lap_tensors_close(tensors);
  return status;
}

/* ---- showing --------------------------------------------------------------------------------- */

static bool fits(const answer *a) {
  return a->together <= a->available;
}

static double rate_at(const answer *a, int end) {
  return lap_bench_sample_median(&a->bandwidth) / a->token_bytes[end];
}

static void print_bytes(const char *what, uint64_t bytes, const char *note) {
  char text[LAP_BYTES_TEXT];
  printf("  %-17s%12s%s%s\n", what, lap_bytes_text(bytes, text), *note ? "  " : "", note);
}

static void print_memory(const answer *a) {
  char note[160], text[LAP_BYTES_TEXT];
  printf("Memory for %lld tokens: KV %s, chunks of %d, %d thread%s, %s\n", (long long)a->context, a->kv,
         a->chunk, a->threads, a->threads == 1 ? "" : "s", a->cut ? "cut" : "monolith");
  snprintf(note, sizeof note, "and %s mapped of which a token reads single rows",
           lap_bytes_text(a->mapped - a->resident, text));
  print_bytes("weights", a->resident, a->mapped > a->resident ? note : "");
  print_bytes("  read by a token", a->decode, "");
  print_bytes("KV caches", a->need.kv_bytes, "as allocated when so many tokens have been evaluated");
  print_bytes("  while growing", a->need.kv_peak_bytes - a->need.kv_bytes,
              "more: a cache that grows holds its old memory too");
  print_bytes("arena", a->need.scratch_bytes, "");
  print_bytes("program", a->other, "with its tokenizer, estimated");
  print_bytes("together", a->together, "");
  print_bytes("available", a->available, "");
  if (fits(a))
    printf("Fits, with %s to spare.", lap_bytes_text(a->available - a->together, text));
  else
    printf("Does not fit: %s are missing.", lap_bytes_text(a->together - a->available, text));
  if (a->longest)
    printf(" Longest context that fits: %lld tokens%s.\n", (long long)a->longest,
           a->longest == a->limit ? ", all that the model has" : "");
  else
    printf(" No context fits.\n");
}

static void print_rates(const answer *a) {
  const lap_bench_sample *rates = &a->bandwidth;
  printf("Decoding, at most: reading at %.1f GB/s", lap_bench_sample_median(rates) / GIGA);
  if (rates->count > 1)
    printf(" (%.1f to %.1f, measured)", lap_bench_sample_min(rates) / GIGA,
           lap_bench_sample_max(rates) / GIGA);
  printf("\n");
  for (int end = 0; end < 2; end++)
    printf("  depth %-10lld %8.2f tokens/s, of %.3f GB each\n", end ? (long long)(a->context - 1) : 0,
           rate_at(a, end), a->token_bytes[end] / GIGA);
}

static void put_rates(lap_json_writer *json, const answer *a) {
  lap_write_real(json, "bandwidth_bytes_per_second", lap_bench_sample_median(&a->bandwidth), DIGITS);
  lap_write_boolean(json, "bandwidth_measured", a->bandwidth.count > 1);
  lap_write_array(json, "decode");
  for (int end = 0; end < 2; end++) {
    lap_write_object(json, NULL);
    lap_write_integer(json, "depth", end ? a->context - 1 : 0);
    lap_write_integer(json, "bytes_per_token", (int64_t)a->token_bytes[end]);
    lap_write_real(json, "tokens_per_second", rate_at(a, end), DIGITS);
    lap_write_end_object(json);
  }
  lap_write_end_array(json);
}

static bool print_json(const answer *a) {
  lap_text text = {0};
  lap_json_writer json;
  lap_write_begin_indented(&json, &text);
  lap_write_object(&json, NULL);
  lap_write_string(&json, "directory", a->directory);
  lap_write_string(&json, "kv", a->kv);
  lap_write_integer(&json, "context", a->context);
  lap_write_integer(&json, "threads", a->threads);
  lap_write_integer(&json, "chunk", a->chunk);
  lap_write_string(&json, "path", a->cut ? "cut" : "monolith");
  lap_write_object(&json, "bytes");
  lap_write_integer(&json, "weights_mapped", (int64_t)a->mapped);
  lap_write_integer(&json, "weights_resident", (int64_t)a->resident);
  lap_write_integer(&json, "weights_per_token", (int64_t)a->decode);
  lap_write_integer(&json, "kv_caches", (int64_t)a->need.kv_bytes);
  lap_write_integer(&json, "kv_caches_peak", (int64_t)a->need.kv_peak_bytes);
  lap_write_integer(&json, "arena", (int64_t)a->need.scratch_bytes);
  lap_write_integer(&json, "program", (int64_t)a->other);
  lap_write_integer(&json, "together", (int64_t)a->together);
  lap_write_integer(&json, "available", (int64_t)a->available);
  lap_write_end_object(&json);
  lap_write_boolean(&json, "fits", fits(a));
  lap_write_integer(&json, "longest_context", a->longest);
  put_rates(&json, a);
  lap_write_end_object(&json);
  lap_write_end(&json);
  return lap_text_print(&text, stdout);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static lap_status work(const char *operand, const settings *chosen, lap_error *error) {
  char *directory;
  lap_status status = lap_find_model(operand, &directory, error);
  if (status != LAP_OK) return status;
  answer a = {
      .directory = directory,
      .kv = lap_kv_words[chosen->engine.kv],
      .threads = chosen->engine.threads ? (int)chosen->engine.threads : lap_available_cores(),
      .chunk = chosen->engine.chunk ? (int)chosen->engine.chunk : LAP_DEFAULT_CHUNK,
  };
  status = answer_from_plan(chosen, &a, error);
  if (status == LAP_OK && chosen->bandwidth > 0)
    lap_bench_sample_add(&a.bandwidth, chosen->bandwidth * GIGA);
  else if (status == LAP_OK)
    status = measure_bandwidth(a.threads, &a.bandwidth, error);
  if (status == LAP_OK && chosen->json && !print_json(&a))
    status = lap_fail(error, LAP_ERROR_MEMORY, "out of memory for JSON");
  if (status == LAP_OK && !chosen->json) {
    print_memory(&a);
    print_rates(&a);
  }
  free(directory);
  return status;
}

static int fit(const lap_verb *verb, int argc, char **argv) {
  settings chosen = {0};
  const char *operand = NULL;
  lap_error error;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, &operand, &count, &code)) return code;
  return work(operand, &chosen, &error) == LAP_OK ? LAP_EXIT_OK : lap_report(&error);
}

const lap_verb lap_verb_fit = {
    .name = "fit",
    .operands = "[DIR]",
    .max_operands = 1,
    .summary = "Say whether a checkpoint fits into memory, before loading it.",
    .description =
        "Reads the configuration and the headers of the checkpoint in DIR (default: $LAPIDARY_MODEL, else "
        "the "
        "bundled model), touches no weights, and adds up what it will take: the weights that decoding comes "
        "back "
        "to, the KV caches as they will be allocated, the arena for activations. Says whether that fits, the "
        "longest context that does, and the decode rate that the machine's read rate permits, for the first "
        "token "
        "and for the last of the context.\n\nA table of which a token reads single rows (the per-layer "
        "embeddings "
        "of the E models) is mapped too, but not counted: without it in memory a token waits for some "
        "kilobytes, "
        "not for gigabytes. Not fitting is an answer, not a failure: the exit code is 0.",
    .options = options,
    .run = fit,
};
