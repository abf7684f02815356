/* forge.c: the order in which a checkpoint comes to be, and how it vanishes if it cannot.
 *
 * Everything that can be wrong with the input is found before the weights are drawn: the configuration
 * is written and read back, the weights file gets its header and its full length (so a full disk shows
 * at once, where the file system can tell), and the plan builder reads both. Then the data is streamed
 * in, and the finished files are renamed, config.json last: a directory without one is no checkpoint. */
#include "forge/forge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/plan.h"
#include "forge/configuration.h"
#include "forge/stream.h"
#include "forge/tensors.h"

/* In the order of their renaming. */
typedef enum file_kind {
  FILE_WEIGHTS,
  FILE_KV_CONFIG,
  FILE_TOKENIZER,
  FILE_CONFIG,
  FILES
} file_kind;

static const char *const file_names[FILES] = {
    [FILE_WEIGHTS] = "model.safetensors",
    [FILE_KV_CONFIG] = "kv_config.json",
    [FILE_TOKENIZER] = "tokenizer.json",
    [FILE_CONFIG] = "config.json",
};

/* Of an older checkpoint: these would change what the new files mean. */
static const char *const stale_names[] = {"model.safetensors.index.json", "generation_config.json"};

enum {
  COPY_BYTES = 1 << 16
};

typedef struct job {
  const char *directory;
  const lap_forge_options *options;
  lap_forge_configuration configuration;
  lap_forge_tensors tensors;
  char *kv_config; /* text, or NULL */
  size_t kv_config_length;
  char *final[FILES], *part[FILES]; /* paths */
  bool written[FILES];              /* the .part is there */
  bool renamed[FILES];
  bool made_directory;
  lap_error *error;
} job;

/* ---- files ---- */

static lap_status fail_io(const job *j, const char *path, const char *what, int cause) {
  return lap_fail(j->error, LAP_ERROR_IO, "%s: %s: %s", path, what, strerror(cause));
}

static lap_status make_paths(job *j) {
  for (int i = 0; i < FILES; i++) {
    if (asprintf(&j->final[i], "%s/%s", j->directory, file_names[i]) < 0) j->final[i] = NULL;
    if (asprintf(&j->part[i], "%s/%s.part", j->directory, file_names[i]) < 0) j->part[i] = NULL;
    if (!j->final[i] || !j->part[i])
      return lap_fail(j->error, LAP_ERROR_MEMORY, "%s: out of memory", j->directory);
  }
  return LAP_OK;
}

static lap_status check_empty(const job *j) {
  DIR *entries = opendir(j->directory);
  if (!entries) return fail_io(j, j->directory, "cannot be opened as a directory", errno);
  bool empty = true;
  for (struct dirent *entry; empty && (entry = readdir(entries));)
    empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
  closedir(entries);
  if (empty || j->options->force) return LAP_OK;
  return lap_fail(j->error, LAP_ERROR_ARGUMENT, "%s: is not empty; --force replaces the checkpoint in it",
                  j->directory);
}

static lap_status prepare_directory(job *j) {
  if (mkdir(j->directory, 0777) == 0) {
    j->made_directory = true;
    return LAP_OK;
  }
  if (errno != EEXIST) return fail_io(j, j->directory, "cannot be created", errno);
  return check_empty(j);
}

static lap_status open_part(job *j, file_kind kind, int *fd) {
  *fd = open(j->part[kind], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (*fd < 0) return fail_io(j, j->part[kind], "cannot be created", errno);
  j->written[kind] = true;
  return LAP_OK;
}

static lap_status write_fully(const job *j, file_kind kind, int fd, const char *data, size_t count) {
  while (count) {
    ssize_t written = write(fd, data, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_io(j, j->part[kind], "cannot be written", errno);
    data += written;
    count -= (size_t)written;
  }
  return LAP_OK;
}

/* Some file systems report a failed write only here. */
static lap_status close_part(const job *j, file_kind kind, int fd, lap_status status) {
  if (close(fd) == 0 || status != LAP_OK) return status;
  return fail_io(j, j->part[kind], "cannot be written", errno);
}

static lap_status write_text(job *j, file_kind kind, const char *text, size_t length) {
  int fd;
  lap_status status = open_part(j, kind, &fd);
  if (status != LAP_OK) return status;
  return close_part(j, kind, fd, write_fully(j, kind, fd, text, length));
}

static lap_status copy_stream(job *j, const char *source, int in, int out) {
  char block[COPY_BYTES];
  for (;;) {
    ssize_t got = read(in, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_io(j, source, "cannot be read", errno);
    if (!got) return LAP_OK;
    lap_status status = write_fully(j, FILE_TOKENIZER, out, block, (size_t)got);
    if (status != LAP_OK) return status;
  }
}

static lap_status copy_tokenizer(job *j) {
  const char *source = j->options->tokenizer;
  int out, in = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (in < 0) return fail_io(j, source, "cannot be opened", errno);
  lap_status status = open_part(j, FILE_TOKENIZER, &out);
  if (status == LAP_OK) status = close_part(j, FILE_TOKENIZER, out, copy_stream(j, source, in, out));
  close(in);
  return status;
}

static lap_status write_companions(job *j) {
  lap_status status = write_text(j, FILE_CONFIG, j->configuration.text, j->configuration.length);
  if (status == LAP_OK && j->kv_config)
    status = write_text(j, FILE_KV_CONFIG, j->kv_config, j->kv_config_length);
  if (status == LAP_OK && j->options->tokenizer) status = copy_tokenizer(j);
  return status;
}

/* ---- weights ---- */

/* The whole length at once. Where the file system cannot reserve it, a hole must do. */
static int reserve(int fd, uint64_t bytes) {
  int failed;
  do failed = fallocate(fd, 0, 0, (off_t)bytes) ? errno : 0;
  while (failed == EINTR);
  if (failed != EOPNOTSUPP && failed != ENOSYS) return failed;
  return ftruncate(fd, (off_t)bytes) ? errno : 0;
}

/* Header and length are there, the data is not needed: the plan speaks of shapes only. */
static lap_status check_plan(const job *j) {
  lap_tensors *tensors = NULL;
  lap_plan *plan = NULL;
  lap_status status = lap_tensors_open_file(j->part[FILE_WEIGHTS], &tensors, j->error);
  if (status != LAP_OK) return status;
  status = lap_plan_build_memory(j->configuration.text, j->configuration.length, j->kv_config,
                                 j->kv_config_length, NULL, 0, tensors, LAP_KV_CONFIG, &plan, j->error);
  lap_plan_free(plan);
  lap_tensors_close(tensors);
  return status;
}

static lap_status fill_weights(job *j, int fd, lap_forge_result *result) {
  const char *path = j->part[FILE_WEIGHTS];
  char *header = NULL;
  size_t length = 0;
  lap_status status = lap_forge_header(&j->tensors, &header, &length, j->error);
  if (status == LAP_OK) status = write_fully(j, FILE_WEIGHTS, fd, header, length);
  free(header);
  if (status != LAP_OK) return status;
  int failed = reserve(fd, length + j->tensors.bytes);
  if (failed) return fail_io(j, path, "cannot be written", failed);
  status = check_plan(j);
  if (status == LAP_OK) status = lap_forge_stream(fd, path, length, &j->tensors, j->options, j->error);
  *result = (lap_forge_result){.bytes = length + j->tensors.bytes, .tensors = j->tensors.count};
  return status;
}

static lap_status write_weights(job *j, lap_forge_result *result) {
  int fd;
  lap_status status = open_part(j, FILE_WEIGHTS, &fd);
  if (status != LAP_OK) return status;
  return close_part(j, FILE_WEIGHTS, fd, fill_weights(j, fd, result));
}

/* ---- the end ---- */

static lap_status remove_stale(const job *j, const char *name) {
  char *path;
  if (asprintf(&path, "%s/%s", j->directory, name) < 0)
    return lap_fail(j->error, LAP_ERROR_MEMORY, "%s: out of memory", j->directory);
  lap_status status = LAP_OK;
  if (unlink(path) != 0 && errno != ENOENT) status = fail_io(j, path, "cannot be removed", errno);
  free(path);
  return status;
}

static lap_status publish(job *j) {
  lap_status status = LAP_OK;
  for (size_t i = 0; i < sizeof stale_names / sizeof *stale_names && status == LAP_OK; i++)
    status = remove_stale(j, stale_names[i]);
  for (int i = 0; i < FILES && status == LAP_OK; i++) {
    if (!j->written[i]) {
      status = remove_stale(j, file_names[i]);
    } else if (rename(j->part[i], j->final[i]) == 0) {
      j->renamed[i] = true;
    } else {
      status = fail_io(j, j->final[i], "cannot be replaced", errno);
    }
  }
  return status;
}

static void take_back(const job *j) {
  for (int i = 0; i < FILES; i++) {
    if (j->renamed[i])
      unlink(j->final[i]);
    else if (j->written[i])
      unlink(j->part[i]);
  }
  if (j->made_directory) rmdir(j->directory);
}

static void free_job(job *j) {
  for (int i = 0; i < FILES; i++) {
    free(j->final[i]);
    free(j->part[i]);
  }
  free(j->kv_config);
  lap_forge_tensors_free(&j->tensors);
  lap_forge_configuration_free(&j->configuration);
}

static lap_status configure(job *j) {
  const lap_forge_options *options = j->options;
  lap_status status = lap_forge_configure(options, &j->configuration, j->error);
  if (status == LAP_OK && options->kv_config)
    status =
        lap_forge_kv_config(options, &j->configuration.config, &j->kv_config, &j->kv_config_length, j->error);
  if (status == LAP_OK)
    status = lap_forge_list(&j->configuration.config, options->seed, &j->tensors, j->error);
  return status;
}

/* The plan speaks of shapes only, so the weights may be pages that are never touched. */
static lap_status plan_of_nothing(const job *j, lap_kv_mode kv_mode, lap_plan **plan) {
  char *header = NULL;
  size_t length = 0;
  lap_tensors *tensors = NULL;
  lap_status status = lap_forge_header(&j->tensors, &header, &length, j->error);
  if (status != LAP_OK) return status;
  size_t bytes = length + j->tensors.bytes;
  unsigned char *pages =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    free(header);
    return lap_fail(j->error, LAP_ERROR_MEMORY, "%s: out of address space for %zu bytes of weights",
                    j->options->config, bytes);
  }
  memcpy(pages, header, length);
  status = lap_tensors_open_memory(pages, bytes, j->options->config, &tensors, j->error);
  if (status == LAP_OK)
    status = lap_plan_build_memory(j->configuration.text, j->configuration.length, j->kv_config,
                                   j->kv_config_length, NULL, 0, tensors, kv_mode, plan, j->error);
  lap_tensors_close(tensors);
  munmap(pages, bytes);
  free(header);
  return status;
}

lap_status lap_forge_plan(const lap_forge_options *options, lap_kv_mode kv_mode, lap_plan **plan,
                          lap_error *error) {
  job j = {.options = options, .error = error};
  *plan = NULL;
  lap_status status = configure(&j);
  if (status == LAP_OK) status = plan_of_nothing(&j, kv_mode, plan);
  free_job(&j);
  return status;
}

lap_status lap_forge(const char *directory, const lap_forge_options *options, lap_forge_result *result,
                     lap_error *error) {
  job j = {.directory = directory, .options = options, .error = error};
  lap_status status = make_paths(&j);
  if (status == LAP_OK) status = configure(&j);
  if (status == LAP_OK) status = prepare_directory(&j);
  if (status == LAP_OK) status = write_companions(&j);
  if (status == LAP_OK) status = write_weights(&j, result);
  if (status == LAP_OK) status = publish(&j);
  if (status != LAP_OK) take_back(&j);
  free_job(&j);
  return status;
}
