/* startup.c: from the start of a process to its first token, by starting the program itself.
 *
 * Beside one pass there is then what a start consists of: the loader, the configuration, the mapping of the
 * weights, the threads. The first start of each side is not counted: it may read the files from the disk. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/bench.h"

static lap_status wait_for(pid_t child, int *code, lap_error *error) {
  int state;
  while (waitpid(child, &state, 0) < 0)
    if (errno != EINTR) return lap_fail(error, LAP_ERROR_IO, "waiting for a process: %s", strerror(errno));
  *code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  return LAP_OK;
}

/* The seconds from fork to the end of `arguments`. */
static lap_status time_process(char *const *arguments, bool (*interrupted)(void), double *seconds,
                               lap_error *error) {
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
  if (interrupted()) return lap_fail(error, LAP_ERROR_STATE, "interrupted");
  if (code != 0) return lap_fail(error, LAP_ERROR_STATE, "the program, started again, ended with %d", code);
  return LAP_OK;
}

lap_status lap_bench_start_processes(const lap_bench_request *request,
                                     char *const *const command[LAP_BENCH_SIDES], lap_bench_startup *startup,
                                     lap_error *error) {
  lap_status status = LAP_OK;
  for (int round = 0; round <= request->rounds; round++) {
    double seconds[LAP_BENCH_SIDES] = {0};
    for (int i = 0; i < request->sides && status == LAP_OK; i++) {
      int side = (i + round) % request->sides;
      status = time_process(command[side], request->watcher.interrupted, &seconds[side], error);
    }
    if (status != LAP_OK) return status;
    if (round == 0) continue;
    for (int side = 0; side < request->sides; side++)
      lap_bench_sample_add(&startup->seconds[side], seconds[side]);
    lap_bench_sample_add(&startup->ratio, seconds[0] / seconds[1]);
  }
  return LAP_OK;
}
