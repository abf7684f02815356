/* opened.h: a model and a session as the command line wants them, and the options that choose them: what run,
 * logits and all others that compute share. */
#ifndef LAP_CLI_OPENED_H
#define LAP_CLI_OPENED_H

#include "base/error.h"
#include "base/pool.h"
#include "cli/options.h"
#include "engine/passes.h"

typedef struct lap_engine_settings {
  int64_t threads; /* 0 = all cores */
  int64_t chunk;   /* 0 = the library's */
  int kv;          /* lap_kv_mode */
  int kv_start;    /* index into lap_kv_start_words: 1 = prompt */
  int path;        /* lap_path */
  bool verbose;    /* says on stderr which path it is, and why */
} lap_engine_settings;

/* The rows of an option table for settings that hold lap_engine_settings at `offset`. */
#define LAP_THREADS_OPTION(at)                                                                  \
  {                                                                                             \
    .kind = LAP_OPTION_INTEGER, .name = "threads", .argument = "N",                             \
    .offset = (at) + offsetof(lap_engine_settings, threads), .low = 1, .high = LAP_MAX_THREADS, \
    .help = "Threads; default: the cores available. Does not change results."                   \
  }
#define LAP_KV_OPTION(at)                                                                                    \
  {                                                                                                          \
    .kind = LAP_OPTION_CHOICE, .name = "kv", .argument = "KIND",                                             \
    .offset = (at) + offsetof(lap_engine_settings, kv), .choices = lap_kv_words,                             \
    .help =                                                                                                  \
        "KV caches: config (as the checkpoint's kv_config.json says, the default), plain (16 bits), 8 or 4 " \
        "bits."                                                                                              \
  }
#define LAP_PATH_OPTION(at)                                                                        \
  {                                                                                                \
    .kind = LAP_OPTION_CHOICE, .name = "path", .argument = "PATH",                                 \
    .offset = (at) + offsetof(lap_engine_settings, path), .choices = lap_path_words,               \
    .help =                                                                                        \
        "The forward pass: auto (the checkpoint's cut where there is one, else the monolith; the " \
        "default), monolith, or cut. Does not change results."                                     \
  }
#define LAP_CHUNK_OPTION(at)                                                                \
  {                                                                                         \
    .kind = LAP_OPTION_INTEGER, .name = "chunk", .argument = "N",                           \
    .offset = (at) + offsetof(lap_engine_settings, chunk), .low = 1, .high = LAP_MAX_CHUNK, \
    .help = "Prompt tokens evaluated at once; default: 512. Does not change results."       \
  }
#define LAP_VERBOSE_OPTION(at)                                                                           \
  {                                                                                                      \
    .kind = LAP_OPTION_FLAG, .name = "verbose", .offset = (at) + offsetof(lap_engine_settings, verbose), \
    .help = "Say on standard error which forward pass runs, and why."                                    \
  }
#define LAP_ENGINE_OPTIONS(at)                                                         \
  LAP_KV_OPTION(at),                                                                   \
      {.kind = LAP_OPTION_CHOICE,                                                      \
       .name = "kv-start",                                                             \
       .argument = "WHEN",                                                             \
       .offset = (at) + offsetof(lap_engine_settings, kv_start),                       \
       .choices = lap_kv_start_words,                                                  \
       .help =                                                                         \
           "Quantize KV from the beginning (begin, the default), or convert it after " \
           "the prompt (prompt)."},                                                    \
      LAP_PATH_OPTION(at), LAP_THREADS_OPTION(at), LAP_CHUNK_OPTION(at), LAP_VERBOSE_OPTION(at)

/* What the environment says about a model: LAPIDARY_ISA, for `kv` caches (lap_kv_mode). */
lap_model_options lap_model_options_of(int kv);
/* LAPIDARY_ATTENTION, or NULL. */
const char *lap_attention_method_asked(void);

typedef struct lap_opened {
  char *directory;
  lap_model *model;
  lap_session *session;
} lap_opened;

/* Finds (see lap_find_model) and opens the checkpoint, and starts a session. Release with
 * lap_close_opened, also after an error. */
lap_status lap_open_engine(const char *directory, const lap_engine_settings *settings, lap_opened *opened,
                           lap_error *error);
/* The same without a session, for those that make their own. */
lap_status lap_open_model(const char *directory, const lap_engine_settings *settings, lap_opened *opened,
                          lap_error *error);
void lap_close_opened(lap_opened *opened);

#endif
