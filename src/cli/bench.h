/* bench.h: what `lapidary bench` is asked for and what it finds.
 *
 * Invariant: every rate is kept round by round; median, smallest and largest are made where they are
 * shown, so nothing can be shown without its spread. */
#ifndef LAP_CLI_BENCH_H
#define LAP_CLI_BENCH_H

#include <stdio.h>

#include "cli/bench_cost.h"
#include "cli/bench_machine.h"

enum {
  LAP_BENCH_ITEMS = 16, /* of a list on the command line */
  LAP_BENCH_PATHS = 2,  /* compared at a time */
  LAP_BENCH_CHUNK = 512 /* the library's default, written down because the costs depend on it */
};

typedef struct lap_bench_list {
  int64_t item[LAP_BENCH_ITEMS];
  int count;
} lap_bench_list;

typedef struct lap_bench_request {
  const char *directory;
  int64_t prompt; /* tokens; 0 = not measured */
  int64_t decode;
  int rounds;
  lap_bench_list depth; /* ascending */
  lap_bench_list threads;
  lap_bench_list kv; /* lap_kv_mode */
  int paths;         /* 2 if compared, else 1 */
  lap_path path[LAP_BENCH_PATHS];
} lap_bench_request;

typedef enum lap_bench_kind {
  LAP_BENCH_PROMPT,
  LAP_BENCH_DECODE,
  LAP_BENCH_KINDS
} lap_bench_kind;

/* One kind of one path in one setting. */
typedef struct lap_bench_rate {
  int64_t tokens;        /* of a round; 0 = not measured */
  lap_cost cost;         /* of a round */
  lap_sample per_second; /* tokens */
  lap_sample percent;    /* of the ceiling that was measured right before, in the same round */
} lap_bench_rate;

/* Peak memory of one path in one setting. */
typedef struct lap_bench_memory {
  uint64_t weights; /* pages of the checkpoint's files that the process has touched */
  uint64_t kv;
  uint64_t scratch;
} lap_bench_memory;

/* One setting: KV, depth, threads. */
typedef struct lap_bench_cell {
  lap_kv_mode kv;
  int64_t depth;
  int threads;
  lap_bench_rate rate[LAP_BENCH_PATHS][LAP_BENCH_KINDS];
  lap_bench_memory memory[LAP_BENCH_PATHS];
  bool cut[LAP_BENCH_PATHS];         /* the path took the cut */
  lap_sample ratio[LAP_BENCH_KINDS]; /* the second path's rate over the first's, round by round */
} lap_bench_cell;

/* From the start of a process to its first token, for both paths. */
typedef struct lap_bench_startup {
  lap_kv_mode kv;
  int threads;
  lap_sample seconds[LAP_BENCH_PATHS]; /* none if nothing is compared */
  lap_sample ratio; /* the first path's time over the second's: above 1, the second is faster */
} lap_bench_startup;

typedef struct lap_bench_model {
  char type[32];
  int layers;
  int64_t context;
  lap_plan_sizes sizes;
  char isa[16]; /* of the kernels */
} lap_bench_model;

typedef struct lap_bench_results {
  const lap_bench_request *request;
  lap_machine machine;
  lap_bench_model model;
  lap_bench_list skipped; /* depths beyond the context */
  lap_bench_cell *cell;   /* [cells], KV first, then depth, then threads */
  int cells;
  lap_bench_startup startup;
} lap_bench_results;

extern const char *const lap_bench_kind_words[];

/* Measures all that is asked for. Release with lap_bench_free, also after an error. Errors: those of the
 * library; STATE when interrupted. */
lap_status lap_bench_measure(const lap_bench_request *request, lap_bench_results *results, lap_error *error);
void lap_bench_free(lap_bench_results *results);

/* Runs the program itself, alternating between the two paths. Errors: IO, STATE. */
lap_status lap_bench_start_processes(const lap_bench_request *request, lap_bench_startup *startup,
                                     lap_error *error);

/* What a rate is a percentage of. */
lap_ceiling lap_bench_ceiling_of(lap_bench_kind kind);
/* Bytes or operations of one token: what tokens/s are multiplied with for that ceiling. */
double lap_bench_work_of_token(const lap_bench_rate *rate, lap_bench_kind kind);

void lap_bench_text(FILE *out, const lap_bench_results *results, bool markdown);
/* False if out of memory. */
bool lap_bench_json(FILE *out, const lap_bench_results *results);
void lap_bench_svg(FILE *out, const lap_bench_results *results);

#endif
