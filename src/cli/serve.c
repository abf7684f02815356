/* serve.c: `lapidary serve`: a model behind HTTP, until a signal ends it.
 *
 * SIGINT and SIGTERM are blocked before any thread starts, so that all threads inherit that, and this one
 * waits for them: a signal is read like any other event, never handled in the middle of something. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/opened.h"
#include "cli/options.h"
#include "cli/support.h"
#include "server/server.h"

enum {
  DEFAULT_PORT = 8080,
  DEFAULT_PARALLEL = 4,
  DEFAULT_QUEUE = 64,
  FINISH_SECONDS = 10
};

typedef struct settings {
  lap_engine_settings engine;
  const char *model;
  const char *host;
  int64_t port;
  const char *api_key;
  lap_texts origins;
  int64_t max_queue;
  int64_t parallel;
  int64_t context; /* 0: the model's */
  double kv_bytes; /* 0: no limit */
  double cache_bytes;
  const char *cache_directory;
  const char *alias;
  bool allow_special;
} settings;

static const settings defaults = {
    .host = "127.0.0.1",
    .port = DEFAULT_PORT,
    .max_queue = DEFAULT_QUEUE,
    .parallel = DEFAULT_PARALLEL,
    .cache_bytes = 1 << 30,
};

static const lap_option options[] = {
    LAP_MODEL_OPTION(offsetof(settings, model)),
    {.kind = LAP_OPTION_TEXT,
     .name = "host",
     .argument = "HOST",
     .offset = offsetof(settings, host),
     .help =
         "The address to listen at; default: 127.0.0.1, which only this machine reaches. 0.0.0.0 is all."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "port",
     .argument = "PORT",
     .offset = offsetof(settings, port),
     .low = 0,
     .high = 65535,
     .help = "The port; default: 8080. 0 takes one that is free, and says which."},
    {.kind = LAP_OPTION_TEXT,
     .name = "api-key",
     .argument = "KEY",
     .offset = offsetof(settings, api_key),
     .help = "Asked of every client (Authorization: Bearer KEY, or x-api-key); default: $LAPIDARY_API_KEY, "
             "else none. The environment keeps it out of the list of processes."},
    {.kind = LAP_OPTION_TEXTS,
     .name = "cors",
     .argument = "ORIGIN",
     .offset = offsetof(settings, origins),
     .help = "Let web pages of this origin use the server (https://example.org, or * for all); may be given "
             "again. Without it only its own page may."},
    {.kind = LAP_OPTION_TEXT,
     .name = "alias",
     .argument = "NAME",
     .offset = offsetof(settings, alias),
     .help = "The model's name to clients; default: that of its directory."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "parallel",
     .argument = "N",
     .offset = offsetof(settings, parallel),
     .low = 1,
     .high = LAP_MAX_PARALLEL,
     .help =
         "Requests that are answered at once, sharing forward passes; default: 4. Does not change results."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "max-queue",
     .argument = "N",
     .offset = offsetof(settings, max_queue),
     .low = 0,
     .high = 100000,
     .help = "Requests that may wait beyond those; more get status 429. Default: 64."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "ctx",
     .argument = "N",
     .offset = offsetof(settings, context),
     .low = 2,
     .high = INT32_MAX,
     .help = "Tokens of a request, prompt and answer; default: as many as the model can."},
    {.kind = LAP_OPTION_NUMBER,
     .name = "kv-bytes",
     .argument = "BYTES",
     .offset = offsetof(settings, kv_bytes),
     .low = 1,
     .high = 1e15,
     .help = "Memory for the KV caches of requests that are being answered; others wait. Default: no limit."},
    {.kind = LAP_OPTION_NUMBER,
     .name = "cache-bytes",
     .argument = "BYTES",
     .offset = offsetof(settings, cache_bytes),
     .low = 0,
     .high = 1e15,
     .help = "Memory for KV caches that are kept for later requests; 0 keeps none. Default: 1 GiB."},
    {.kind = LAP_OPTION_TEXT,
     .name = "cache-dir",
     .argument = "DIR",
     .offset = offsetof(settings, cache_directory),
     .help = "Keep them in this directory too, so that they survive a restart."},
    {.kind = LAP_OPTION_FLAG,
     .name = "allow-special",
     .offset = offsetof(settings, allow_special),
     .help = "Control tokens spelled in messages count as such. Without it they stay text."},
    LAP_KV_OPTION(offsetof(settings, engine)),
    LAP_PATH_OPTION(offsetof(settings, engine)),
    LAP_THREADS_OPTION(offsetof(settings, engine)),
    LAP_CHUNK_OPTION(offsetof(settings, engine)),
    LAP_VERBOSE_OPTION(offsetof(settings, engine)),
    {0}};

static lap_server_options server_options(const settings *chosen) {
  const char *key = chosen->api_key ? chosen->api_key : getenv("LAPIDARY_API_KEY");
  return (lap_server_options){
      .host = chosen->host,
      .port = (int)chosen->port,
      .api_key = key && *key ? key : NULL,
      .origins = chosen->origins.item,
      .origin_count = chosen->origins.count,
      .name = chosen->alias,
      .allow_special = chosen->allow_special,
      .service = {.batch = {.threads = (int)chosen->engine.threads,
                            .parallel = (int)chosen->parallel,
                            .chunk = (int)chosen->engine.chunk,
                            .context = chosen->context,
                            .path = (lap_path)chosen->engine.path,
                            .attention = lap_attention_method_asked(),
                            .kv_bytes = (size_t)chosen->kv_bytes,
                            .cache_bytes = (size_t)chosen->cache_bytes,
                            .cache_directory = chosen->cache_directory},
                  .max_queue = (int)chosen->max_queue},
  };
}

static bool is_loopback(const char *host) {
  return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
}

static void wait_for_signal(const sigset_t *signals) {
  int number;
  while (sigwait(signals, &number) != 0) continue;
}

static lap_status work(const settings *chosen, lap_opened *opened, const sigset_t *signals,
                       lap_error *error) {
  const lap_server_options how = server_options(chosen);
  lap_server *server;
  lap_status status = lap_open_model(chosen->model, &chosen->engine, opened, error);
  if (status == LAP_OK) status = lap_server_open(opened->model, opened->directory, &how, &server, error);
  if (status != LAP_OK) return status;
  char line[512];
  int length = snprintf(line, sizeof line, "listening on %s\n", lap_server_url(server));
  if (!how.api_key && !is_loopback(how.host))
    lap_complain("--host %s without --api-key: whoever reaches this address may use the model", how.host);
  if (lap_server_without_chat(server)) lap_complain("no chat: %s", lap_server_without_chat(server));
  lap_put(line, (size_t)length);
  fflush(stdout);
  wait_for_signal(signals);
  sigset_t none; /* the next signal kills */
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  lap_server_close(server, FINISH_SECONDS);
  return LAP_OK;
}

static int serve(const lap_verb *verb, int argc, char **argv) {
  settings chosen = defaults;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, NULL, &count, &code)) return code;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  lap_opened opened = {0};
  lap_error error;
  lap_status status = work(&chosen, &opened, &signals, &error);
  lap_close_opened(&opened);
  return status == LAP_OK ? LAP_EXIT_OK : lap_report(&error);
}

const lap_verb lap_verb_serve = {
    .name = "serve",
    .operands = "",
    .max_operands = 0,
    .summary = "Answer OpenAI- and Anthropic-style requests over HTTP.",
    .description =
        "Serves a checkpoint: POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages (and "
        "/v1/messages/count_tokens), /tokenize, /detokenize, /apply-template; GET /v1/models, /health, "
        "/metrics, and a page for chatting at /. docs/server.md has the fields.\n\nRequests that run at the "
        "same time share forward passes, and each gets the text that it would get alone.\n\nThe first line "
        "of standard output is the address. SIGTERM or Ctrl-C: no more requests are taken, those that there "
        "are get ten seconds; a second signal ends the program at once.",
    .options = options,
    .run = serve,
};
