/* bench_startup.c: from the start of a process to its first token, by starting the program itself.
 *
 * `lapidary logits` is what is run: it evaluates one token with the path it is told and writes the logits
 * to /dev/null, so beside the pass there is what a start consists of: the loader, the configuration, the
 * mapping of the weights, the threads. The tokenizer is not loaded. The first start of each path is not
 * counted: it may read the files from the disk. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "cli/options.h"
#include "cli/support.h"

static lap_status wait_for(pid_t child, int *code, lap_error *error) {
  int state;
  while (waitpid(child, &state, 0) < 0)
    if (errno != EINTR) return lap_fail(error, LAP_ERROR_IO, "waiting for a process: %s", strerror(errno));
  *code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  return LAP_OK;
}

/* The seconds from fork to the end of `arguments`. */
static lap_status time_process(char *const *arguments, double *seconds, lap_error *error) {
  int code = 0;
  double start = lap_seconds();
  pid_t child = fork();
  if (child < 0) return lap_fail(error, LAP_ERROR_IO, "starting a process: %s", strerror(errno));
  if (child == 0) {
    execv("/proc/self/exe", arguments);
    _exit(127);
  }
  lap_status status = wait_for(child, &code, error);
  *seconds = lap_seconds() - start;
  if (status != LAP_OK) return status;
  if (lap_interrupted()) return lap_fail(error, LAP_ERROR_STATE, "interrupted");
  if (code != 0) return lap_fail(error, LAP_ERROR_STATE, "the program, started again, ended with %d", code);
  return LAP_OK;
}

static lap_status time_path(const lap_bench_request *request, const lap_bench_startup *startup, int path,
                            double *seconds, lap_error *error) {
  char threads[16], kv[16], word[16], directory[4096];
  snprintf(threads, sizeof threads, "%d", startup->threads);
  snprintf(kv, sizeof kv, "%s", lap_kv_words[startup->kv]);
  snprintf(word, sizeof word, "%s", lap_path_words[request->path[path]]);
  if (snprintf(directory, sizeof directory, "%s", request->directory) >= (int)sizeof directory)
    return lap_fail(error, LAP_ERROR_IO, "the model's directory has too long a name");
  char *const arguments[] = {(char[]){"lapidary"},
                             (char[]){"logits"},
                             (char[]){"--ids"},
                             (char[]){"2"},
                             (char[]){"--out"},
                             (char[]){"/dev/null"},
                             (char[]){"--path"},
                             word,
                             (char[]){"--kv"},
                             kv,
                             (char[]){"--threads"},
                             threads,
                             (char[]){"--"},
                             directory,
                             NULL};
  return time_process(arguments, seconds, error);
}

lap_status lap_bench_start_processes(const lap_bench_request *request, lap_bench_startup *startup,
                                     lap_error *error) {
  lap_status status = LAP_OK;
  startup->kv = (lap_kv_mode)request->kv.item[0];
  startup->threads = (int)request->threads.item[request->threads.count - 1];
  for (int round = 0; round <= request->rounds; round++) {
    double seconds[LAP_BENCH_PATHS] = {0};
    for (int i = 0; i < request->paths && status == LAP_OK; i++) {
      int path = (i + round) % request->paths;
      status = time_path(request, startup, path, &seconds[path], error);
    }
    if (status != LAP_OK) return status;
    if (round == 0) continue;
    for (int path = 0; path < request->paths; path++) lap_sample_add(&startup->seconds[path], seconds[path]);
    lap_sample_add(&startup->ratio, seconds[0] / seconds[1]);
  }
  return LAP_OK;
}
