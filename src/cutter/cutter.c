/* cutter.c: the steps of a cut, in a work directory that vanishes at the end.
 *
 * The work directory stands inside the directory of the fingerprint, so that the last step is a rename within
 * one file system. The object holds the code for one instruction set, the one that was proved. */
#include "cutter/cutter.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cpu/cpu.h"
#include "cut/generate.h"
#include "cutter/embedded.h"
#include "model/model.h"
#include "program/fingerprint.h"

enum {
  MAX_WORDS = 64,
  MAX_FLAGS = 8, /* of an instruction set */
  MAX_LOG = 1 << 20,
  MAX_OBJECT = 64 << 20,
  POLL_NANOSECONDS = 10000000
};

typedef struct cutting {
  lap_model *model;
  const lap_gate_options *gate;
  lap_cutter_result *result;
  char *home, *work; /* directories; NULL until they are there */
  char *source;
  size_t source_bytes;
  lap_error *error;
} cutting;

static lap_status no_memory(const cutting *c) {
  return lap_fail(c->error, LAP_ERROR_MEMORY, "out of memory for cutting");
}

static const char *fingerprint_of(const cutting *c) {
  return lap_model_cut(c->model).fingerprint;
}

static const lap_kernels *kernels_of(const cutting *c) {
  return lap_cpu_of(c->model->bound)->kernels;
}

static lap_status fail_io(const cutting *c, const char *path) {
  return lap_fail(c->error, LAP_ERROR_IO, "%s: %s", path, strerror(errno));
}

static char *path_in(const char *directory, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

/* ---- directories and files ---- */

/* All directories of `path` that are not there yet; they are for the user alone. */
static lap_status make_directories(const cutting *c, char *path) {
  return lap_make_parents(path) && (mkdir(path, 0700) == 0 || errno == EEXIST) ? LAP_OK : fail_io(c, path);
}

static lap_status make_work(cutting *c) {
  c->home = lap_registry_directory(fingerprint_of(c));
  if (!c->home)
    return lap_fail(c->error, LAP_ERROR_IO,
                    "there is no place for a cut: neither XDG_CACHE_HOME nor HOME is set");
  lap_status status = make_directories(c, c->home);
  if (status != LAP_OK) return status;
  char *work = path_in(c->home, ".work-XXXXXX");
  lap_found_cut found;
  if (!work) return no_memory(c);
  if (!lap_registry_trusts(work, &found))
    status = lap_fail(c->error, LAP_ERROR_IO, "%s", found.why);
  else if (!mkdtemp(work))
    status = fail_io(c, c->home);
  if (status != LAP_OK) {
    free(work);
    return status;
  }
  c->work = work;
  return LAP_OK;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place) {
  (void)info, (void)type, (void)place;
  remove(path);
  return 0;
}

static void remove_work(const cutting *c) {
  if (c->work) nftw(c->work, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static lap_status write_fully(const cutting *c, const char *path, int flags, const void *data, size_t bytes) {
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) return fail_io(c, path);
  const unsigned char *at = data;
  lap_status status = LAP_OK;
  while (status == LAP_OK && bytes) {
    ssize_t written = write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status = fail_io(c, path);
    } else {
      at += written;
      bytes -= (size_t)written;
    }
  }
  /* Whatever the umask: objects that others may write to are not loaded. */
  if (status == LAP_OK && (fchmod(fd, 0644) != 0 || fsync(fd) != 0)) status = fail_io(c, path);
  if (close(fd) != 0 && status == LAP_OK) status = fail_io(c, path);
  return status;
}

/* Names are of the form file or folder/file. */
static lap_status write_in(const cutting *c, const char *name, const void *data, size_t bytes) {
  char *path = path_in(c->work, name);
  if (!path) return no_memory(c);
  size_t folder = strlen(path) - strlen(name) + strcspn(name, "/");
  lap_status status = LAP_OK;
  if (path[folder] == '/') {
    path[folder] = '\0';
    if (mkdir(path, 0700) != 0 && errno != EEXIST) status = fail_io(c, path);
    path[folder] = '/';
  }
  if (status == LAP_OK) status = write_fully(c, path, O_EXCL, data, bytes);
  free(path);
  return status;
}

static lap_status write_sources(const cutting *c) {
  char sources[64];
  int length = snprintf(sources, sizeof sources, "#define LAP_CUT_SOURCES \"%s\"\n", lap_cut_sources);
  lap_status status = write_in(c, "cut.c", c->source, c->source_bytes);
  if (status == LAP_OK) status = write_in(c, "cut_sources.h", sources, (size_t)length);
  for (const lap_embedded *file = lap_embedded_files; status == LAP_OK && file->path; file++)
    status = write_in(c, file->path, file->data, file->bytes);
  return status;
}

/* ---- the compiler ---- */

static lap_status begin(const cutting *c, const char *what) {
  if (!c->gate->progress || c->gate->progress(c->gate->context, what)) return LAP_OK;
  return lap_fail(c->error, LAP_ERROR_STATE, "cutting was ended");
}

/* The first line of the compiler's that speaks of an error, else the first one. */
static lap_status fail_compiler(const cutting *c, const char *compiler, const char *log) {
  char *read = NULL, *text = NULL;
  size_t bytes;
  lap_error ignored;
  if (lap_file_read(log, MAX_LOG, &read, &bytes, &ignored) == LAP_OK) text = strndup(read, bytes);
  free(read);
  const char *line = text ? strstr(text, "error") : NULL;
  while (line && line > text && line[-1] != '\n') line--;
  if (!line) line = text && *text ? text : "it says nothing";
  lap_fail(c->error, LAP_ERROR_IO, "the compiler (%s) failed: %.*s", compiler, (int)strcspn(line, "\n"),
           line);
  free(text);
  return LAP_ERROR_IO;
}

static lap_status wait_for(const cutting *c, pid_t child, int *code) {
  const struct timespec pause = {0, POLL_NANOSECONDS};
  pid_t done;
  while ((done = waitpid(child, code, WNOHANG)) == 0 || (done < 0 && errno == EINTR)) {
    if (c->gate->progress && !c->gate->progress(c->gate->context, NULL)) {
      kill(-child, SIGTERM);
      waitpid(child, code, 0);
      return lap_fail(c->error, LAP_ERROR_STATE, "cutting was ended");
    }
    nanosleep(&pause, NULL);
  }
  return LAP_OK;
}

/* In a process group of its own, so that the compiler's children end with it. */
static lap_status spawn(const cutting *c, char *const words[], const char *log) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  pid_t child;
  int code = 0;
  if (posix_spawnattr_init(&attributes) != 0) return no_memory(c);
  if (posix_spawn_file_actions_init(&actions) != 0) {
    posix_spawnattr_destroy(&attributes);
    return no_memory(c);
  }
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  int failed = posix_spawnp(&child, words[0], &actions, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed == ENOENT)
    return lap_fail(c->error, LAP_ERROR_IO,
                    "there is no C compiler: '%s' was not found; install gcc or clang, or name one in CC",
                    words[0]);
  if (failed)
    return lap_fail(c->error, LAP_ERROR_IO, "the compiler (%s) cannot be started: %s", words[0],
                    strerror(failed));
  lap_status status = wait_for(c, child, &code);
  if (status != LAP_OK) return status;
  return WIFEXITED(code) && WEXITSTATUS(code) == 0 ? LAP_OK : fail_compiler(c, words[0], log);
}

/* Words divided by blanks. `storage` is cut up. */
static int compiler_words(char *storage, char *words[], int most) {
  int count = 0;
  char *rest = storage;
  for (char *word; count < most && (word = strtok_r(rest, " \t\n", &rest));) words[count++] = word;
  return count;
}

/* $CC may hold several words. Those from the first option on come last, after ours: they win. */
static lap_status run_compiler(const cutting *c, char *source, char *object, char *include, char *log) {
  static char standard[] = "-std=c17", optimize[] = "-O3", pic[] = "-fPIC", shared[] = "-shared",
              contract[] = "-ffp-contract=off", math[] = "-fno-math-errno", hidden[] = "-fvisibility=hidden",
              quiet[] = "-w", output[] = "-o", library[] = "-lm", usual[] = "cc";
  const char *given = getenv("CC");
  char *storage = strdup(given ? given : usual), *flags = strdup(kernels_of(c)->flags);
  char *own[MAX_WORDS / 2], *words[MAX_WORDS];
  if (!storage || !flags) {
    free(storage), free(flags);
    return no_memory(c);
  }
  int count = 0, used = 0, given_words = compiler_words(storage, own, MAX_WORDS / 2);
  if (given_words == 0) own[given_words++] = usual;
  do words[count++] = own[used++];
  while (used < given_words && own[used][0] != '-');
  char *const fixed[] = {standard, optimize, pic,    shared, contract, math,   hidden,
                         quiet,    include,  output, object, source,   library};
  count += compiler_words(flags, words + count, MAX_FLAGS);
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) words[count++] = fixed[i];
  while (used < given_words) words[count++] = own[used++];
  words[count] = NULL;
  lap_status status = spawn(c, words, log);
  free(storage), free(flags);
  return status;
}

static lap_status compile(const cutting *c) {
  char *source = path_in(c->work, "cut.c"), *object = path_in(c->work, "cut.so"),
       *log = path_in(c->work, "log"), *include = NULL;
  lap_status status = LAP_OK;
  if (asprintf(&include, "-I%s", c->work) < 0) include = NULL;
  if (!source || !object || !log || !include) status = no_memory(c);
  if (status == LAP_OK) status = run_compiler(c, source, object, include, log);
  free(source), free(object), free(log), free(include);
  return status;
}

/* ---- sealing, proving, storing ---- */

static lap_status seal(const cutting *c, const char *object) {
  unsigned char mark[LAP_CUT_SEAL_BYTES];
  char *data;
  size_t bytes;
  lap_status status = lap_file_read(object, MAX_OBJECT, &data, &bytes, c->error);
  if (status != LAP_OK) return status;
  lap_registry_seal(fingerprint_of(c), (const unsigned char *)data, bytes, mark);
  free(data);
  c->result->object_bytes = bytes + sizeof mark;
  return write_fully(c, object, O_APPEND, mark, sizeof mark);
}

/* The model runs on the new object from here on. */
static lap_status prove(const cutting *c, const char *object) {
  lap_status status = c->model->device->driver->load_cut(c->model->bound, object, c->error);
  if (status != LAP_OK) return status;
  double start = lap_seconds();
  status = lap_gate_run(c->model, c->gate, &c->result->gate, c->error);
  c->result->gate_seconds = lap_seconds() - start;
  return status;
}

static lap_status publish(const cutting *c, const char *object) {
  char *source = path_in(c->work, "cut.c"), *kept = path_in(c->home, "cut.c");
  c->result->path = lap_registry_object(fingerprint_of(c), kernels_of(c)->name);
  lap_status status = source && kept && c->result->path ? LAP_OK : no_memory(c);
  if (status == LAP_OK && rename(source, kept) != 0) status = fail_io(c, kept);
  if (status == LAP_OK && rename(object, c->result->path) != 0) status = fail_io(c, c->result->path);
  free(source);
  free(kept);
  return status;
}

static lap_status generate(cutting *c, const char *directory) {
  return lap_cut_generate(c->model->plan, directory, &c->source, &c->source_bytes, c->error);
}

static lap_status cut(cutting *c, const char *directory) {
  double start = lap_seconds();
  lap_status status = generate(c, directory);
  c->result->source_bytes = c->source_bytes;
  if (status == LAP_OK) status = make_work(c);
  if (status == LAP_OK) status = write_sources(c);
  if (status == LAP_OK) status = begin(c, "compiling");
  if (status == LAP_OK) status = compile(c);
  c->result->compile_seconds = lap_seconds() - start;
  char *object = c->work ? path_in(c->work, "cut.so") : NULL;
  if (status == LAP_OK && !object) status = no_memory(c);
  if (status == LAP_OK) status = seal(c, object);
  if (status == LAP_OK) status = prove(c, object);
  if (status == LAP_OK) status = publish(c, object);
  free(object);
  return status;
}

lap_status lap_cutter_run(const char *directory, const lap_model_options *options,
                          const lap_gate_options *gate, lap_cutter_result *result, lap_error *error) {
  cutting c = {.gate = gate, .result = result, .error = error};
  *result = (lap_cutter_result){0};
  lap_status status = lap_model_open(directory, options, &c.model, error);
  if (status == LAP_OK) status = cut(&c, directory);
  lap_model_close(c.model);
  remove_work(&c);
  if (status != LAP_OK && c.home) rmdir(c.home); /* if nothing else is in it */
  free(c.home);
  free(c.work);
  free(c.source);
  if (status == LAP_OK) return LAP_OK;
  free(result->path);
  result->path = NULL;
  return status;
}

lap_status lap_cutter_source(const char *directory, const lap_model_options *options, char **source,
                             size_t *length, lap_error *error) {
  cutting c = {.error = error};
  *source = NULL;
  lap_status status = lap_model_open(directory, options, &c.model, error);
  if (status == LAP_OK) status = generate(&c, directory);
  lap_model_close(c.model);
  *source = c.source;
  *length = c.source_bytes;
  return status;
}
