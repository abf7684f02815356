/* prompt_store.c: see prompt_store.h. */
#include "engine/prompt_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "cache/snapshot.h"
#include "pass/pass.h"

#define PREFIX "lapidary-"
#define SUFFIX ".kv"

enum {
  HASH_BYTES = 16
};

typedef struct stored {
  char *name;
  uint64_t bytes;
  struct timespec used;
  lap_snapshot_head head; /* of files that cannot be used: no tokens */
} stored;

struct lap_prompt_store {
  const lap_model *model;
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
  lap_kv *kv; /* empty: what the caches are */
  char *directory;
  uint64_t limit;
  stored *file;
  int files;
  int capacity;
  lap_store_stats stats;
};

/* ---- the index ------------------------------------------------------------------------------- */

static char *path_of(const lap_prompt_store *store, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", store->directory, name) < 0 ? NULL : path;
}

/* Remembers why a file is not used. */
static void count_refusal(lap_prompt_store *store, lap_error *reason) {
  if (reason->status == LAP_ERROR_STATE)
    store->stats.foreign++;
  else if (reason->status == LAP_ERROR_FORMAT)
    store->stats.damaged++;
  else
    store->stats.failed++;
  store->stats.last = *reason;
}

/* Forgets the tokens: the file still counts for the bound. */
static void make_unusable(lap_prompt_store *store, stored *file) {
  if (file->head.tokens) store->stats.files--;
  lap_snapshot_head_free(&file->head);
}

static void forget(lap_prompt_store *store, int index) {
  stored *file = &store->file[index];
  make_unusable(store, file);
  store->stats.bytes -= file->bytes;
  free(file->name);
  store->files--;
  memmove(file, file + 1, (size_t)(store->files - index) * sizeof *file);
}

static void remove_file(lap_prompt_store *store, int index) {
  char *path = path_of(store, store->file[index].name);
  if (path) remove(path);
  free(path);
  forget(store, index);
}

/* Adds a file that stands in the directory. Memory permitting; what is not indexed is not found. */
static void add(lap_prompt_store *store, const char *name) {
  struct stat info;
  lap_error reason = {0};
  char *path = path_of(store, name);
  if (store->files == store->capacity) {
    int capacity = store->capacity ? 2 * store->capacity : 16;
    stored *grown = path ? realloc(store->file, (size_t)capacity * sizeof *grown) : NULL;
    if (!grown) {
      free(path);
      return;
    }
    store->file = grown;
    store->capacity = capacity;
  }
  stored *file = &store->file[store->files];
  *file = (stored){.name = strdup(name)};
  if (!path || !file->name || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
    free(file->name);
    free(path);
    return;
  }
  file->bytes = (uint64_t)info.st_size;
  file->used = info.st_mtim;
  store->files++;
  store->stats.bytes += file->bytes;
  if (lap_snapshot_peek(store->kv, store->fingerprint, path, &file->head, &reason) == LAP_OK)
    store->stats.files++;
  else
    count_refusal(store, &reason);
  free(path);
}

static int find_name(const lap_prompt_store *store, const char *name) {
  for (int i = 0; i < store->files; i++)
    if (strcmp(store->file[i].name, name) == 0) return i;
  return -1;
}

static bool is_older(struct timespec a, struct timespec b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static void shrink(lap_prompt_store *store, uint64_t limit) {
  while (store->files > 0 && store->stats.bytes > limit) {
    int oldest = 0;
    for (int i = 1; i < store->files; i++)
      if (is_older(store->file[i].used, store->file[oldest].used)) oldest = i;
    remove_file(store, oldest);
    store->stats.removed++;
  }
}

static lap_status list(lap_prompt_store *store, lap_error *error) {
  if (mkdir(store->directory, 0700) != 0 && errno != EEXIST)
    return lap_fail(error, LAP_ERROR_IO, "%s: cannot be made: %s", store->directory, strerror(errno));
  DIR *directory = opendir(store->directory);
  if (!directory)
    return lap_fail(error, LAP_ERROR_IO, "%s: cannot be listed: %s", store->directory, strerror(errno));
  const struct dirent *entry;
  while ((entry = readdir(directory)))
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0) add(store, entry->d_name);
  closedir(directory);
  shrink(store, store->limit);
  return LAP_OK;
}

lap_status lap_prompt_store_open(lap_model *model, const char *directory, uint64_t bytes,
                                 lap_prompt_store **out, lap_error *error) {
  *out = NULL;
  lap_prompt_store *store = calloc(1, sizeof *store);
  if (store) store->directory = strdup(directory);
  if (!store || !store->directory) {
    free(store);
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for its index", directory);
  }
  store->model = model;
  store->limit = bytes;
  lap_status status = lap_kv_create(model->bound, false, &store->kv, error);
  if (status == LAP_OK) status = lap_model_fingerprint(model, store->fingerprint, error);
  if (status == LAP_OK) status = list(store, error);
  if (status != LAP_OK) {
    lap_prompt_store_close(store);
    return status;
  }
  *out = store;
  return LAP_OK;
}

void lap_prompt_store_close(lap_prompt_store *store) {
  if (!store) return;
  while (store->files > 0) forget(store, store->files - 1);
  free(store->file);
  lap_kv_destroy(store->kv);
  free(store->directory);
  free(store);
}

lap_store_stats lap_prompt_store_stats(const lap_prompt_store *store) {
  return store->stats;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t reach_of(const lap_snapshot_head *head, int64_t wanted) {
  int64_t best = 0;
  for (int i = 0; i < head->states; i++) {
    int64_t length = lap_reach_back(head->state[i], wanted);
    if (length > best) best = length;
  }
  return best;
}

static lap_keys keys_of(const lap_snapshot_head *head) {
  return (lap_keys){head->tokens, head->origins};
}

static int64_t common_with(const lap_snapshot_head *head, lap_keys keys, int64_t count) {
  return lap_keys_common(keys_of(head), keys, count < head->length ? count : head->length);
}

int64_t lap_prompt_store_find(const lap_prompt_store *store, lap_keys keys, int64_t count, int *file,
                              int64_t *common) {
  int64_t best = 0;
  *common = 0;
  for (int i = 0; i < store->files; i++) {
    const lap_snapshot_head *head = &store->file[i].head;
    if (!head->tokens) continue;
    int64_t same = common_with(head, keys, count), length = reach_of(head, same);
    if (same > *common) *common = same;
    if (length <= best) continue;
    best = length;
    *file = i;
  }
  return best;
}

/* A file's time says when it was last of use. */
static void touch(lap_prompt_store *store, stored *file) {
  char *path = path_of(store, file->name);
  clock_gettime(CLOCK_REALTIME, &file->used);
  struct timespec times[2] = {file->used, file->used};
  if (path) utimensat(AT_FDCWD, path, times, 0);
  free(path);
}

static lap_status load(const lap_prompt_store *store, const stored *file, lap_sequence *sequence,
                       size_t *total, lap_error *error) {
  char *path = path_of(store, file->name);
  if (!path) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", file->name);
  lap_rings *rings[LAP_SNAPSHOT_RINGS];
  int count;
  lap_status status = lap_snapshot_load(sequence->kv, store->fingerprint, path, &sequence->tokens,
                                        &sequence->origins, &sequence->capacity, rings, &count, error);
  if (status == LAP_OK) {
    for (int i = 0; i < count; i++)
      lap_sequence_adopt(sequence, rings[i], total, NULL); /* if memory permits */
    if (sequence->capacity != file->head.length ||
        lap_sequence_common(sequence, keys_of(&file->head), file->head.length) < file->head.length)
      status = lap_fail(error, LAP_ERROR_FORMAT, "%s: tokens: not those that were in it before", path);
  }
  free(path);
  return status;
}

lap_sequence *lap_prompt_store_load(lap_prompt_store *store, int file, size_t *total) {
  stored *read = &store->file[file];
  lap_sequence *sequence;
  lap_error reason = {0};
  lap_status status = lap_sequence_create(store->model->bound, false, &sequence, &reason);
  if (status == LAP_OK) status = load(store, read, sequence, total, &reason);
  if (status != LAP_OK) {
    lap_sequence_destroy(sequence);
    count_refusal(store, &reason);
    make_unusable(store, read);
    return NULL;
  }
  touch(store, read);
  store->stats.loaded++;
  return sequence;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The name says what decides the content: versions, the checkpoint, the KV setting and the keys. */
static void name_of(const lap_prompt_store *store, const lap_sequence *sequence,
                    char out[sizeof PREFIX + BASE16_ENCODE_LENGTH(HASH_BYTES) + sizeof SUFFIX]) {
  struct sha256_ctx hash;
  uint8_t digest[SHA256_DIGEST_SIZE];
  const uint8_t versions[2] = {LAP_SNAPSHOT_VERSION, LAP_KERNEL_CONTRACT};
  int64_t length = lap_sequence_length(sequence);
  lap_keys keys = lap_sequence_keys(sequence);
  keys.origins = lap_origins_unless_zero(keys.origins, length);
  sha256_init(&hash);
  sha256_update(&hash, sizeof versions, versions);
  sha256_update(&hash, LAP_MODEL_FINGERPRINT_BYTES, store->fingerprint);
  for (int i = 0; i < store->kv->caches; i++) {
    const lap_cache_shape *shape = lap_cache_get_shape(store->kv->cache[i]);
    const uint8_t kind[2] = {(uint8_t)shape->bits, (uint8_t)shape->group_size};
    sha256_update(&hash, sizeof kind, kind);
  }
  sha256_update(&hash, sizeof length, (const uint8_t *)&length); /* where ids end and origins begin */
  sha256_update(&hash, (size_t)length * sizeof *keys.ids, (const uint8_t *)keys.ids);
  if (keys.origins)
    sha256_update(&hash, (size_t)length * sizeof *keys.origins, (const uint8_t *)keys.origins);
  sha256_digest(&hash, sizeof digest, digest);
  char *at = stpcpy(out, PREFIX);
  base16_encode_update(at, HASH_BYTES, digest);
  memcpy(at + BASE16_ENCODE_LENGTH(HASH_BYTES), SUFFIX, sizeof SUFFIX);
}

/* The copies of the rings that go into a file: the marks, and one at the newest noted position that the rings
 * still serve, since the file holds no more of them than the end needs. `*extra` is to be destroyed. */
static int list_rings(const lap_sequence *sequence, lap_rings *out[LAP_SNAPSHOT_RINGS], lap_rings **extra) {
  int count = 0;
  int64_t length = lap_sequence_length(sequence);
  lap_reach reach = lap_kv_reach(sequence->kv, 0);
  *extra = NULL;
  for (int i = 0; i < sequence->marks; i++) out[count++] = sequence->mark[i]->rings;
  for (int i = sequence->wanted_count - 1; i >= 0; i--) {
    int64_t position = sequence->wanted[i];
    if (position >= length || lap_reach_back(reach, position) != position) continue;
    if (count && out[count - 1]->reach.length >= position) break;
    if (lap_rings_create(sequence->kv, position, extra, NULL) == LAP_OK) out[count++] = *extra;
    break;
  }
  return count;
}

/* Files whose keys the new one begins with, and which it can go back to, are of no more use. */
static void remove_superseded(lap_prompt_store *store, const char *name) {
  int newest = find_name(store, name);
  for (int i = store->files - 1; newest >= 0 && i >= 0; i--) {
    const lap_snapshot_head *head = &store->file[i].head, *by = &store->file[newest].head;
    if (i == newest || !head->tokens || !by->tokens) continue;
    if (common_with(by, keys_of(head), head->length) < head->length ||
        reach_of(by, head->length) < head->length)
      continue;
    remove_file(store, i);
    if (i < newest) newest--;
  }
}

void lap_prompt_store_save(lap_prompt_store *store, const lap_sequence *sequence) {
  char name[sizeof PREFIX + BASE16_ENCODE_LENGTH(HASH_BYTES) + sizeof SUFFIX];
  lap_rings *rings[LAP_SNAPSHOT_RINGS], *extra;
  lap_error reason = {0};
  name_of(store, sequence, name);
  int known = find_name(store, name);
  if (known >= 0 && store->file[known].head.tokens) {
    touch(store, &store->file[known]);
    return;
  }
  if (known >= 0) remove_file(store, known); /* damaged */
  int count = list_rings(sequence, rings, &extra);
  uint64_t bytes = lap_snapshot_bytes(sequence->kv, rings, count, lap_sequence_keys(sequence));
  char *path = path_of(store, name);
  if (path && bytes <= store->limit) {
    shrink(store, store->limit - bytes);
    if (lap_snapshot_save(sequence->kv, rings, count, store->fingerprint, lap_sequence_keys(sequence), path,
                          &reason) == LAP_OK) {
      store->stats.saved++;
      add(store, name);
      remove_superseded(store, name);
    } else {
      count_refusal(store, &reason);
    }
  }
  free(path);
  lap_rings_destroy(extra);
}
