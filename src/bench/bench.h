/* bench.h: what a measurement is asked for and what it finds: all that stands between `lapidary bench`, which
 * reads options and shows progress, and this room, which measures and prints.
 *
 * One thing measured is a side: a forward pass with KV caches in one format. Sides of a group take turns
 * within each round, because on a machine whose speed drifts only neighbours in time can be compared. Groups
 * come one after the other. Invariant: every rate is kept round by round; median, smallest and largest are
 * made where they are shown, so nothing can be shown without its spread. */
#ifndef LAP_BENCH_BENCH_H
#define LAP_BENCH_BENCH_H

#include <limits.h>
#include <stdio.h>

#include "bench/cost.h"
#include "bench/machine.h"
#include "forge/forge.h"

enum {
  LAP_BENCH_ITEMS = 16, /* of a list */
  LAP_BENCH_GROUPS = 4, /* as many as there are KV settings */
  LAP_BENCH_SIDES = 4   /* the same */
};

typedef struct lap_bench_list {
  int64_t item[LAP_BENCH_ITEMS];
  int count;
} lap_bench_list;

/* In what the sides of a group differ. */
typedef enum lap_bench_comparison {
  LAP_BENCH_ALONE, /* there is one side */
  LAP_BENCH_PATHS, /* there are two */
  LAP_BENCH_KV
} lap_bench_comparison;

typedef struct lap_bench_side {
  lap_kv_mode kv;
  lap_path path;
} lap_bench_side;

/* Who waits for the results; every function is needed. */
typedef struct lap_bench_watcher {
  lap_progress *progress;    /* called between samples and chunks with tokens; false ends with STATE */
  void *context;             /* of `progress` */
  bool (*interrupted)(void); /* asked between the tokens of a sample: true ends with STATE */
  void (*note)(const char *message); /* what to know before the results are there, without a newline */
} lap_bench_watcher;

typedef struct lap_bench_request {
  const char *directory;
  const char *isa, *attention; /* as in lap_model_options and lap_session_options */
  int64_t prompt;              /* tokens; 0 = not measured */
  int64_t decode;              /* the same; one of both is measured */
  int rounds;                  /* 1..LAP_BENCH_MAX_ROUNDS */
  lap_bench_list depth;        /* ascending */
  lap_bench_list threads;      /* ascending */
  lap_bench_comparison compared;
  int groups;
  int sides; /* of each group */
  lap_bench_side side[LAP_BENCH_GROUPS][LAP_BENCH_SIDES];
  lap_bench_watcher watcher;
} lap_bench_request;

typedef enum lap_bench_kind {
  LAP_BENCH_PROMPT,
  LAP_BENCH_DECODE,
  LAP_BENCH_KINDS
} lap_bench_kind;

extern const char *const lap_bench_kind_words[];

/* One kind of one side. */
typedef struct lap_bench_rate {
  int64_t tokens;              /* of a round; 0 = not measured */
  lap_bench_cost cost;         /* of a round */
  lap_bench_sample per_second; /* tokens */
  lap_bench_sample percent;    /* of the ceiling that was measured right before, in the same round */
} lap_bench_rate;

/* Peak memory of one side. */
typedef struct lap_bench_memory {
  uint64_t weights; /* pages of the checkpoint's files that were touched */
  uint64_t kv;
  uint64_t scratch;
} lap_bench_memory;

/* One setting: a group at a depth with a number of threads. */
typedef struct lap_bench_cell {
  int group;
  int64_t depth;
  int threads;
  lap_bench_rate rate[LAP_BENCH_SIDES][LAP_BENCH_KINDS];
  lap_bench_memory memory[LAP_BENCH_SIDES];
  bool cut[LAP_BENCH_SIDES]; /* the side's passes took the cut */
  /* The side's rate over that of the group's first, round by round; none for the first. */
  lap_bench_sample ratio[LAP_BENCH_SIDES][LAP_BENCH_KINDS];
} lap_bench_cell;

/* From the start of a process to its first token, for both paths. */
typedef struct lap_bench_startup {
  lap_kv_mode kv;
  int threads;
  lap_bench_sample seconds[LAP_BENCH_SIDES]; /* none unless paths are compared */
  lap_bench_sample ratio; /* the first path's time over the second's: above 1, the second is faster */
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
  lap_bench_machine machine;
  lap_bench_model model;
  lap_bench_list skipped; /* depths beyond the context */
  lap_bench_cell *cell;   /* [cells], groups first, then depth, then threads */
  int cells;
  lap_bench_startup startup;
} lap_bench_results;

/* ---- measuring ---- */

/* Measures all that is asked for, but starts. Release with lap_bench_free, also after an error. Errors: those
 * of the library; ARGUMENT (no depth fits), IO (the temporary files), STATE when interrupted. */
lap_status lap_bench_measure(const lap_bench_request *request, lap_bench_results *results, lap_error *error);
void lap_bench_free(lap_bench_results *results);

/* Runs the program that calls this with `command[side]`, which ends with NULL, for each side of the first
 * group by turns, and fills in `seconds` and `ratio`. A command prepares, evaluates one token and ends with
 * 0. Errors: IO, STATE (interrupted, or a command failed). */
lap_status lap_bench_start_processes(const lap_bench_request *request,
                                     char *const *const command[LAP_BENCH_SIDES], lap_bench_startup *startup,
                                     lap_error *error);

/* A checkpoint of random weights that lives as long as a measurement. Empty names: nothing is there. */
typedef struct lap_bench_shape {
  char parent[PATH_MAX];     /* a new directory, and */
  char checkpoint[PATH_MAX]; /* the one in it that holds the checkpoint; named after the shape */
} lap_bench_shape;

/* Forges what `options` say below the directory `place` (NULL: $TMPDIR, else /tmp), if the disk has room for
 * it; `name` is the shape's, or the path of its config.json. To be removed with lap_bench_shape_remove, also
 * after an error. Errors: those of lap_forge; IO (no room, no directory), ARGUMENT (too long a path). */
lap_status lap_bench_shape_make(const char *name, const lap_forge_options *options, const char *place,
                                lap_bench_shape *out, lap_error *error);
void lap_bench_shape_remove(const lap_bench_shape *shape);

/* ---- showing ---- */

/* What a rate is a percentage of. */
lap_bench_ceiling lap_bench_ceiling_of(lap_bench_kind kind);
/* Bytes or operations of one token: what tokens/s are multiplied with for that ceiling. */
double lap_bench_work_of_token(const lap_bench_rate *rate, lap_bench_kind kind);

void lap_bench_text(FILE *out, const lap_bench_results *results, bool markdown);
/* False if out of memory: then nothing is printed. */
bool lap_bench_json(FILE *out, const lap_bench_results *results);
void lap_bench_svg(FILE *out, const lap_bench_results *results);

#endif
