/* snapshot.c: a sequence on disk.
 *
 * File, little endian: header (magic, version, counts, fingerprint of the weights, flags, version of the
 * numerics contract), one record for each cache (its kind, and the range of positions stored), the same for
 * each copy of the rings, the token ids, their origins if the header says that there are any, then for each
 * cache and plane the rows of that range in ascending position, the same for each copy, and last a SHA-256 of
 * all that precedes it.
 *
 * Nothing from a file is believed: version and checksum come first, then every field is compared with
 * what the session's plan says it must be, and the file's size with the sum of the parts. Only then is
 * anything replaced, and that part cannot fail half-way: content goes to new caches that are swapped
 * in at the end. */
#include "cache/snapshot.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum {
  HEADER_BYTES = 68,
  RECORD_BYTES = 48,
  ORIGIN_BYTES = LAP_CONTENT_HASH_BYTES + 16,
  STAGING_BYTES = 1 << 20 /* what is read from a cache at once */
};

/* Flags of the header. */
enum {
  FLAG_PLAIN_UNTIL_CONVERTED = 1,
  FLAG_ORIGINS = 2 /* they follow the ids */
};
static const char MAGIC[8] = {'L', 'A', 'P', 'K', 'V', '\r', '\n', 0x1a};

/* ---- writing ---- */

typedef struct sink {
  FILE *file;
  struct sha256_ctx hash;
  bool failed;
  unsigned char *staging; /* room for a position of any plane, STAGING_BYTES at least */
  size_t staging_bytes;
  lap_status device; /* of reading caches; then *error says why */
  lap_error *error;
} sink;

static void put(sink *to, const void *data, size_t bytes) {
  sha256_update(&to->hash, bytes, data);
  if (!to->failed && fwrite(data, 1, bytes, to->file) != bytes) to->failed = true;
}

static void store_u32(unsigned char *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static void store_u64(unsigned char *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t fetch_u64(const unsigned char *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static uint32_t fetch_u32(const unsigned char *p) {
  return (uint32_t)(p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

static uint32_t flags_of(const lap_kv *kv, lap_keys keys) {
  return (kv->plain_until_converted ? FLAG_PLAIN_UNTIL_CONVERTED : 0u) | (keys.origins ? FLAG_ORIGINS : 0u);
}

static void write_header(unsigned char out[HEADER_BYTES], const lap_kv *kv, int copies, lap_keys keys,
                         const unsigned char *fingerprint) {
  memset(out, 0, HEADER_BYTES);
  memcpy(out, MAGIC, sizeof MAGIC);
  store_u32(out + 8, LAP_SNAPSHOT_VERSION);
  store_u32(out + 12, (uint32_t)kv->caches);
  store_u64(out + 16, (uint64_t)lap_kv_length(kv));
  memcpy(out + 24, fingerprint, LAP_FINGERPRINT_BYTES);
  store_u32(out + 56, flags_of(kv, keys));
  store_u32(out + 60, (uint32_t)copies);
  store_u32(out + 64, LAP_KERNEL_CONTRACT);
}

static void write_record(unsigned char out[RECORD_BYTES], const lap_cache_shape *shape, int64_t oldest,
                         int64_t length) {
  memset(out, 0, RECORD_BYTES);
  store_u32(out, (uint32_t)shape->kv_heads);
  store_u32(out + 4, (uint32_t)shape->head_dim);
  store_u64(out + 8, (uint64_t)shape->window);
  store_u32(out + 16, (uint32_t)shape->bits);
  store_u32(out + 20, (uint32_t)shape->group_size);
  store_u64(out + 24, (uint64_t)oldest);
  store_u64(out + 32, (uint64_t)length);
  store_u64(out + 40, (uint64_t)lap_cache_position_bytes(shape));
}

/* What a file holds of a state of the caches: for the sequence's own, every cache from the first position
 * that is needed; for a copy of the rings nothing of the growing ones. */
typedef struct state {
  lap_cache *const *cache; /* [caches]; NULL where nothing is held */
  int64_t length;
} state;

static state own_state(const lap_kv *kv) {
  return (state){kv->cache, lap_kv_length(kv)};
}

static state state_of(const lap_rings *rings) {
  return (state){rings->cache, rings->reach.length};
}

static int64_t first_held(state held, int cache) {
  return held.cache[cache] ? lap_cache_first_needed(held.cache[cache], held.length) : held.length;
}

static void put_records(sink *to, const lap_kv *kv, state held) {
  unsigned char record[RECORD_BYTES];
  for (int i = 0; i < kv->caches; i++) {
    write_record(record, lap_cache_get_shape(kv->cache[i]), first_held(held, i), held.length);
    put(to, record, sizeof record);
  }
}

/* Positions [from, to) of a plane, as many at once as the staging buffer takes. */
static void put_plane(sink *to, const lap_cache *cache, int plane, int64_t from, int64_t end) {
  size_t bytes = lap_cache_plane_bytes(cache, plane);
  int64_t most = (int64_t)(to->staging_bytes / bytes);
  while (from < end) {
    int64_t count = end - from < most ? end - from : most;
    if (to->device == LAP_OK)
      to->device = lap_cache_read(cache, plane, from, from + count, to->staging, to->error);
    put(to, to->staging, (size_t)count * bytes);
    from += count;
  }
}

static void put_planes(sink *to, const lap_kv *kv, state held) {
  for (int i = 0; i < kv->caches; i++)
    for (int plane = 0; held.cache[i] && plane < lap_cache_planes(held.cache[i]); plane++)
      put_plane(to, held.cache[i], plane, first_held(held, i), held.length);
}

static void put_keys(sink *to, lap_keys keys, int64_t length) {
  for (int64_t i = 0; i < length; i++) {
    unsigned char id[4];
    store_u32(id, (uint32_t)keys.ids[i]);
    put(to, id, sizeof id);
  }
  for (int64_t i = 0; keys.origins && i < length; i++) {
    unsigned char origin[ORIGIN_BYTES];
    memcpy(origin, keys.origins[i].content, LAP_CONTENT_HASH_BYTES);
    store_u64(origin + LAP_CONTENT_HASH_BYTES, (uint64_t)keys.origins[i].index);
    store_u64(origin + LAP_CONTENT_HASH_BYTES + 8, keys.origins[i].adapters);
    put(to, origin, sizeof origin);
  }
}

static void write_content(sink *to, const lap_kv *kv, lap_rings *const *rings, int count,
                          const unsigned char *fingerprint, lap_keys keys) {
  unsigned char header[HEADER_BYTES], digest[SHA256_DIGEST_SIZE];
  write_header(header, kv, count, keys, fingerprint);
  put(to, header, sizeof header);
  put_records(to, kv, own_state(kv));
  for (int i = 0; i < count; i++) put_records(to, kv, state_of(rings[i]));
  put_keys(to, keys, lap_kv_length(kv));
  put_planes(to, kv, own_state(kv));
  for (int i = 0; i < count; i++) put_planes(to, kv, state_of(rings[i]));
  sha256_digest(&to->hash, sizeof digest, digest);
  if (!to->failed && fwrite(digest, 1, sizeof digest, to->file) != sizeof digest) to->failed = true;
}

static uint64_t state_bytes(const lap_kv *kv, state held) {
  uint64_t bytes = 0;
  for (int i = 0; i < kv->caches; i++)
    bytes += RECORD_BYTES + (uint64_t)(held.length - first_held(held, i)) *
                                lap_cache_position_bytes(lap_cache_get_shape(kv->cache[i]));
  return bytes;
}

uint64_t lap_snapshot_bytes(const lap_kv *kv, lap_rings *const *rings, int count, lap_keys keys) {
  int64_t length = lap_kv_length(kv);
  bool has_origins = lap_origins_unless_zero(keys.origins, length) != NULL;
  uint64_t bytes =
      HEADER_BYTES + SHA256_DIGEST_SIZE + (uint64_t)length * (has_origins ? 4 + ORIGIN_BYTES : 4);
  bytes += state_bytes(kv, own_state(kv));
  for (int i = 0; i < count; i++) bytes += state_bytes(kv, state_of(rings[i]));
  return bytes;
}

static size_t staging_bytes_for(const lap_kv *kv) {
  size_t widest = STAGING_BYTES;
  for (int i = 0; i < kv->caches; i++)
    for (int plane = 0; plane < lap_cache_planes(kv->cache[i]); plane++) {
      size_t bytes = lap_cache_plane_bytes(kv->cache[i], plane);
      if (bytes > widest) widest = bytes;
    }
  return widest;
}

lap_status lap_snapshot_save(const lap_kv *kv, lap_rings *const *rings, int count,
                             const unsigned char fingerprint[LAP_FINGERPRINT_BYTES], lap_keys keys,
                             const char *path, lap_error *error) {
  lap_status status = LAP_OK;
  size_t name_bytes = strlen(path) + sizeof ".XXXXXX";
  char *temporary = malloc(name_bytes);
  int descriptor = -1;
  sink to = {.staging_bytes = staging_bytes_for(kv), .error = error};
  to.staging = malloc(to.staging_bytes);
  keys.origins = lap_origins_unless_zero(keys.origins, lap_kv_length(kv));
  if (!temporary || !to.staging) {
    status = lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory to write a snapshot", path);
    goto cleanup;
  }
  snprintf(temporary, name_bytes, "%s.XXXXXX", path);
  descriptor = mkstemp(temporary);
  if (descriptor < 0 || !(to.file = fdopen(descriptor, "wb"))) {
    status = lap_fail(error, LAP_ERROR_IO, "%s: cannot create: %s", path, strerror(errno));
    if (descriptor >= 0) {
      close(descriptor);
      unlink(temporary);
    }
    goto cleanup;
  }
  sha256_init(&to.hash);
  write_content(&to, kv, rings, count, fingerprint, keys);
  if (to.failed || to.device != LAP_OK || fflush(to.file) != 0 || fsync(descriptor) != 0) to.failed = true;
  int write_error = errno;
  if (fclose(to.file) != 0) to.failed = true;
  if (to.failed || rename(temporary, path) != 0) {
    status = to.device != LAP_OK ? to.device
                                 : lap_fail(error, LAP_ERROR_IO, "%s: cannot write: %s", path,
                                            strerror(to.failed ? write_error : errno));
    unlink(temporary);
  }
cleanup:
  free(to.staging);
  free(temporary);
  return status;
}

lap_status lap_kv_save(const lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES],
                       const int32_t *tokens, const char *path, lap_error *error) {
  return lap_snapshot_save(kv, NULL, 0, fingerprint, (lap_keys){.ids = tokens}, path, error);
}

/* ---- reading ---- */

/* Where the parts of a file begin, as its header says. */
typedef struct layout {
  int64_t length;
  int copies;
  size_t tokens;  /* offsets */
  size_t origins; /* equal to the next where there are none */
  size_t rows;
} layout;

static lap_status check_magic(const unsigned char *data, size_t bytes, const char *path, lap_error *error) {
  if (bytes < HEADER_BYTES + SHA256_DIGEST_SIZE)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: header: %zu bytes are too few for a snapshot", path, bytes);
  if (memcmp(data, MAGIC, sizeof MAGIC) != 0)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: magic: not a snapshot of this program", path);
  if (fetch_u32(data + 8) != LAP_SNAPSHOT_VERSION)
    return lap_fail(error, LAP_ERROR_STATE, "%s: version: %u, this program reads %d", path,
                    fetch_u32(data + 8), LAP_SNAPSHOT_VERSION);
  return LAP_OK;
}

static lap_status check_sum(const unsigned char *data, size_t bytes, const char *path, lap_error *error) {
  struct sha256_ctx hash;
  unsigned char digest[SHA256_DIGEST_SIZE];
  sha256_init(&hash);
  sha256_update(&hash, bytes - sizeof digest, data);
  sha256_digest(&hash, sizeof digest, digest);
  if (memcmp(digest, data + bytes - sizeof digest, sizeof digest) != 0)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: checksum: the file is damaged or incomplete", path);
  return LAP_OK;
}

static bool is_plain_until_converted(const unsigned char *header) {
  return fetch_u32(header + 56) & FLAG_PLAIN_UNTIL_CONVERTED;
}

static lap_status check_header(const lap_kv *kv, const unsigned char *fingerprint, const unsigned char *data,
                               uint64_t bytes, const char *path, layout *out, lap_error *error) {
  out->length = (int64_t)fetch_u64(data + 16);
  uint32_t flags = fetch_u32(data + 56), copies = fetch_u32(data + 60);
  if (fetch_u32(data + 64) != LAP_KERNEL_CONTRACT)
    return lap_fail(error, LAP_ERROR_STATE,
                    "%s: contract: made by version %u of the arithmetic, this program's is %d", path,
                    fetch_u32(data + 64), LAP_KERNEL_CONTRACT);
  if (memcmp(data + 24, fingerprint, LAP_FINGERPRINT_BYTES) != 0)
    return lap_fail(error, LAP_ERROR_STATE, "%s: fingerprint: made with another checkpoint", path);
  if (flags & ~(uint32_t)(FLAG_PLAIN_UNTIL_CONVERTED | FLAG_ORIGINS))
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: header: flags %#x", path, flags);
  if (fetch_u32(data + 12) != (uint32_t)kv->caches ||
      is_plain_until_converted(data) != kv->plain_until_converted)
    return lap_fail(error, LAP_ERROR_STATE, "%s: header: made with another KV setting", path);
  if (copies > LAP_SNAPSHOT_RINGS)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: header: %u copies of the rings", path, copies);
  out->copies = (int)copies;
  out->tokens = HEADER_BYTES + (size_t)(1 + out->copies) * (size_t)kv->caches * RECORD_BYTES;
  size_t key_bytes = flags & FLAG_ORIGINS ? 4 + ORIGIN_BYTES : 4;
  if (out->length < 0 || (uint64_t)out->length > bytes / key_bytes ||
      out->tokens + key_bytes * (uint64_t)out->length + SHA256_DIGEST_SIZE > bytes)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: header: length %lld", path, (long long)out->length);
  out->origins = out->tokens + 4 * (size_t)out->length;
  out->rows = out->tokens + key_bytes * (size_t)out->length;
  return LAP_OK;
}

/* Checks record `index` against the cache that it is for, in a state of `length` that holds growing caches or
 * does not; adds its rows' bytes to *total. */
static lap_status check_record(const unsigned char *record, const lap_cache *cache, int64_t length,
                               bool growing, int index, const char *path, uint64_t *total, lap_error *error) {
  unsigned char expected[RECORD_BYTES];
  const lap_cache_shape *shape = lap_cache_get_shape(cache);
  int64_t oldest = (int64_t)fetch_u64(record + 24), window = shape->window;
  write_record(expected, shape, 0, 0);
  if (memcmp(record, expected, 24) != 0 || memcmp(record + 40, expected + 40, 8) != 0)
    return lap_fail(error, LAP_ERROR_STATE, "%s: cache %d: made with another KV setting", path, index);
  int64_t first_seen = window && length >= window ? length - window + 1 : 0;
  bool whole = window ? oldest >= 0 && oldest <= first_seen && length - oldest <= window
                      : oldest == (growing ? 0 : length);
  if ((int64_t)fetch_u64(record + 32) != length || !whole)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: cache %d: holds positions %lld to %lld of %lld", path,
                    index, (long long)oldest, (long long)fetch_u64(record + 32), (long long)length);
  *total += (uint64_t)(length - oldest) * lap_cache_position_bytes(shape);
  return LAP_OK;
}

/* The records of one state and what it serves. */
static lap_status check_state(const lap_kv *kv, const unsigned char *records, int64_t length, bool growing,
                              const char *path, uint64_t *total, lap_reach *reach, lap_error *error) {
  *reach = (lap_reach){.length = length};
  for (int i = 0; i < kv->caches; i++) {
    const unsigned char *record = records + (size_t)i * RECORD_BYTES;
    lap_status status = check_record(record, kv->cache[i], length, growing, i, path, total, error);
    if (status != LAP_OK) return status;
    int64_t window = lap_cache_get_shape(kv->cache[i])->window, oldest = (int64_t)fetch_u64(record + 24);
    if (window && oldest > 0 && oldest + window - 1 > reach->lowest) reach->lowest = oldest + window - 1;
  }
  return LAP_OK;
}

/* All records, in `data`; `bytes` is the size of the file. */
static lap_status check_records(const lap_kv *kv, const layout *at, const unsigned char *data, uint64_t bytes,
                                const char *path, lap_reach reach[1 + LAP_SNAPSHOT_RINGS], lap_error *error) {
  uint64_t total = at->rows + SHA256_DIGEST_SIZE;
  int64_t before = 0;
  for (int i = 0; i <= at->copies; i++) {
    const unsigned char *records = data + HEADER_BYTES + (size_t)i * (size_t)kv->caches * RECORD_BYTES;
    int64_t length = i ? (int64_t)fetch_u64(records + 32) : at->length;
    if (i && (length <= before || length > at->length))
      return lap_fail(error, LAP_ERROR_FORMAT, "%s: copy %d: of length %lld in a sequence of %lld", path, i,
                      (long long)length, (long long)at->length);
    lap_status status = check_state(kv, records, length, i == 0, path, &total, &reach[i], error);
    if (status != LAP_OK) return status;
    if (i) before = length;
  }
  if (total != bytes)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: size: %llu bytes, the header promises %llu", path,
                    (unsigned long long)bytes, (unsigned long long)total);
  return LAP_OK;
}

static lap_status load_tokens(const lap_kv *kv, const unsigned char *data, int64_t length, const char *path,
                              int32_t **tokens, lap_error *error) {
  *tokens = malloc((size_t)(length ? length : 1) * sizeof **tokens);
  if (!*tokens)
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for %lld tokens", path, (long long)length);
  for (int64_t i = 0; i < length; i++) {
    (*tokens)[i] = (int32_t)fetch_u32(data + 4 * i);
    if ((*tokens)[i] < 0 || (*tokens)[i] >= kv->bound->plan->vocab_size)
      return lap_fail(error, LAP_ERROR_FORMAT, "%s: token %lld: id %d is not in the vocabulary", path,
                      (long long)i, (*tokens)[i]);
  }
  return LAP_OK;
}

/* NULL where the file holds none. */
static lap_status load_origins(const unsigned char *data, const layout *at, const char *path,
                               lap_origin **origins, lap_error *error) {
  *origins = NULL;
  if (at->origins == at->rows) return LAP_OK;
  *origins = malloc((size_t)at->length * sizeof **origins);
  if (!*origins)
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for %lld origins", path,
                    (long long)at->length);
  data += at->origins;
  for (int64_t i = 0; i < at->length; i++, data += ORIGIN_BYTES) {
    lap_origin *origin = &(*origins)[i];
    memcpy(origin->content, data, LAP_CONTENT_HASH_BYTES);
    origin->index = (int64_t)fetch_u64(data + LAP_CONTENT_HASH_BYTES);
    origin->adapters = fetch_u64(data + LAP_CONTENT_HASH_BYTES + 8);
    if (!lap_origin_is_valid(origin))
      return lap_fail(error, LAP_ERROR_FORMAT, "%s: origin %lld: index %lld", path, (long long)i,
                      (long long)origin->index);
  }
  return LAP_OK;
}

lap_status lap_snapshot_peek(const lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES],
                             const char *path, lap_snapshot_head *head, lap_error *error) {
  char *data = NULL;
  size_t bytes;
  layout at;
  *head = (lap_snapshot_head){0};
  lap_status status =
      lap_file_read_head(path, HEADER_BYTES + SHA256_DIGEST_SIZE, &data, &bytes, &head->bytes, error);
  if (status == LAP_OK) status = check_magic((unsigned char *)data, bytes, path, error);
  if (status == LAP_OK)
    status = check_header(kv, fingerprint, (unsigned char *)data, head->bytes, path, &at, error);
  if (status == LAP_OK) {
    free(data);
    uint64_t total;
    status = lap_file_read_head(path, at.rows, &data, &bytes, &total, error);
    if (status == LAP_OK && (bytes != at.rows || total != head->bytes))
      status = lap_fail(error, LAP_ERROR_IO, "%s: changed while it was read", path);
  }
  if (status == LAP_OK)
    status = check_records(kv, &at, (unsigned char *)data, head->bytes, path, head->state, error);
  if (status == LAP_OK)
    status = load_tokens(kv, (unsigned char *)data + at.tokens, at.length, path, &head->tokens, error);
  if (status == LAP_OK) status = load_origins((unsigned char *)data, &at, path, &head->origins, error);
  free(data);
  if (status != LAP_OK) {
    lap_snapshot_head_free(head);
    return status;
  }
  head->length = at.length;
  head->states = 1 + at.copies;
  return LAP_OK;
}

void lap_snapshot_head_free(lap_snapshot_head *head) {
  free(head->tokens);
  free(head->origins);
  *head = (lap_snapshot_head){0};
}

/* Fills the caches of a state (NULL: nothing is held) from `*rows`, which moves on. */
static lap_status load_state(lap_cache *const *cache, int caches, const unsigned char *records,
                             int64_t length, const unsigned char **rows, lap_error *error) {
  for (int i = 0; i < caches; i++) {
    int64_t oldest = (int64_t)fetch_u64(records + (size_t)i * RECORD_BYTES + 24);
    if (!cache[i]) continue;
    lap_status status = lap_cache_load_begin(cache[i], oldest, length, error);
    if (status != LAP_OK) return status;
    for (int plane = 0; status == LAP_OK && plane < lap_cache_planes(cache[i]); plane++) {
      if (length > oldest) status = lap_cache_load(cache[i], plane, *rows, error);
      *rows += (size_t)(length - oldest) * lap_cache_plane_bytes(cache[i], plane);
    }
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

static void swap(lap_kv *a, lap_kv *b) {
  lap_kv kept = *a;
  *a = *b;
  *b = kept;
}

/* All states, checked before. */
static lap_status load_states(lap_kv *kv, const layout *at, const unsigned char *data, const lap_reach *reach,
                              lap_rings **rings, lap_error *error) {
  const unsigned char *rows = data + at->rows;
  lap_status status = load_state(kv->cache, kv->caches, data + HEADER_BYTES, at->length, &rows, error);
  for (int i = 0; status == LAP_OK && i < at->copies; i++) {
    const unsigned char *records = data + HEADER_BYTES + (size_t)(i + 1) * (size_t)kv->caches * RECORD_BYTES;
    status = lap_rings_create_empty(kv, reach[i + 1], &rings[i], error);
    if (status == LAP_OK)
      status = load_state(rings[i]->cache, kv->caches, records, reach[i + 1].length, &rows, error);
  }
  return status;
}

lap_status lap_snapshot_load(lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES],
                             const char *path, int32_t **tokens, lap_origin **origins, int64_t *length,
                             lap_rings **rings, int *count, lap_error *error) {
  char *content;
  size_t bytes;
  lap_kv *fresh = NULL;
  layout at = {0};
  lap_reach reach[1 + LAP_SNAPSHOT_RINGS];
  *tokens = NULL;
  *origins = NULL;
  *length = 0;
  *count = 0;
  memset(rings, 0, LAP_SNAPSHOT_RINGS * sizeof *rings);
  lap_status status = lap_file_read(path, SIZE_MAX / 2, &content, &bytes, error);
  const unsigned char *data = (const unsigned char *)content;
  if (status == LAP_OK) status = check_magic(data, bytes, path, error);
  if (status == LAP_OK) status = check_sum(data, bytes, path, error);
  if (status == LAP_OK) status = lap_kv_create(kv->bound, is_plain_until_converted(data), &fresh, error);
  if (status == LAP_OK) status = check_header(fresh, fingerprint, data, bytes, path, &at, error);
  if (status == LAP_OK) status = check_records(fresh, &at, data, bytes, path, reach, error);
  if (status == LAP_OK) status = load_tokens(fresh, data + at.tokens, at.length, path, tokens, error);
  if (status == LAP_OK) status = load_origins(data, &at, path, origins, error);
  if (status == LAP_OK) status = load_states(fresh, &at, data, reach, rings, error);
  if (status == LAP_OK) {
    swap(kv, fresh);
    *length = at.length;
    *count = at.copies;
  } else {
    for (int i = 0; i < LAP_SNAPSHOT_RINGS; i++) lap_rings_destroy(rings[i]);
    free(*tokens);
    free(*origins);
    *tokens = NULL;
    *origins = NULL;
  }
  lap_kv_destroy(fresh);
  free(content);
  return status;
}

lap_status lap_kv_load(lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES], const char *path,
                       int32_t **tokens, int64_t *count, lap_error *error) {
  lap_rings *rings[LAP_SNAPSHOT_RINGS];
  lap_origin *origins;
  int copies;
  lap_kv *loaded;
  lap_status status = lap_kv_create(kv->bound, false, &loaded, error);
  if (status != LAP_OK) return status;
  status = lap_snapshot_load(loaded, fingerprint, path, tokens, &origins, count, rings, &copies, error);
  for (int i = 0; status == LAP_OK && i < copies; i++) lap_rings_destroy(rings[i]);
  if (status == LAP_OK && origins) {
    status = lap_fail(error, LAP_ERROR_UNSUPPORTED, "%s: origins: it holds more than tokens", path);
    free(*tokens);
    free(origins);
    *tokens = NULL;
  }
  if (status == LAP_OK) swap(kv, loaded);
  lap_kv_destroy(loaded);
  return status;
}
