/* snapshot.c: a sequence on disk.
 *
 * File, little endian: header (magic, version, counts, fingerprint of the weights), one record for
 * each cache (its kind, and the range of positions stored), the token ids, then for each cache and
 * plane the rows of that range in ascending position, and last a SHA-256 of all that precedes it.
 *
 * Nothing from a file is believed: the checksum comes first, then every field is compared with what
 * the session's plan says it must be, and the file's size with the sum of the parts. Only then is
 * anything replaced, and that part cannot fail half-way: content goes to new caches that are swapped
 * in at the end. */
#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "cache/kv.h"

enum {
  SNAPSHOT_VERSION = 1,
  HEADER_BYTES = 64,
  RECORD_BYTES = 48
};
static const char MAGIC[8] = {'L', 'A', 'P', 'K', 'V', '\r', '\n', 0x1a};

/* ---- writing ---- */

typedef struct sink {
  FILE *file;
  struct sha256_ctx hash;
  bool failed;
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

static void write_header(unsigned char out[HEADER_BYTES], const lap_kv *kv,
                         const unsigned char *fingerprint) {
  memset(out, 0, HEADER_BYTES);
  memcpy(out, MAGIC, sizeof MAGIC);
  store_u32(out + 8, SNAPSHOT_VERSION);
  store_u32(out + 12, (uint32_t)kv->caches);
  store_u64(out + 16, (uint64_t)lap_kv_length(kv));
  memcpy(out + 24, fingerprint, LAP_FINGERPRINT_BYTES);
  store_u32(out + 56, kv->plain_until_converted);
}

static void write_record(unsigned char out[RECORD_BYTES], const lap_cache *cache, int64_t oldest) {
  const lap_cache_shape *shape = lap_cache_get_shape(cache);
  memset(out, 0, RECORD_BYTES);
  store_u32(out, (uint32_t)shape->kv_heads);
  store_u32(out + 4, (uint32_t)shape->head_dim);
  store_u64(out + 8, (uint64_t)shape->window);
  store_u32(out + 16, (uint32_t)shape->bits);
  store_u32(out + 20, (uint32_t)shape->group_size);
  store_u64(out + 24, (uint64_t)oldest);
  store_u64(out + 32, (uint64_t)lap_cache_length(cache));
  store_u64(out + 40, (uint64_t)lap_cache_position_bytes(shape));
}

/* The first position worth storing: what the next position sees, and one more, so that a sequence can
 * still be trimmed by its last token. */
static int64_t first_needed(const lap_cache *cache) {
  int64_t window = lap_cache_get_shape(cache)->window, length = lap_cache_length(cache);
  int64_t from = window && length > window ? length - window : 0;
  return from > lap_cache_oldest(cache) ? from : lap_cache_oldest(cache);
}

static void write_planes(sink *to, const lap_cache *cache, unsigned char *row) {
  for (int plane = 0; plane < lap_cache_planes(cache); plane++)
    for (int64_t position = first_needed(cache); position < lap_cache_length(cache); position++) {
      lap_cache_read(cache, plane, position, position + 1, row);
      put(to, row, lap_cache_plane_bytes(cache, plane));
    }
}

static void write_content(sink *to, const lap_kv *kv, const unsigned char *fingerprint, const int32_t *tokens,
                          unsigned char *row) {
  unsigned char header[HEADER_BYTES], record[RECORD_BYTES], digest[SHA256_DIGEST_SIZE];
  write_header(header, kv, fingerprint);
  put(to, header, sizeof header);
  for (int i = 0; i < kv->caches; i++) {
    write_record(record, kv->cache[i], first_needed(kv->cache[i]));
    put(to, record, sizeof record);
  }
  for (int64_t i = 0; i < lap_kv_length(kv); i++) {
    unsigned char id[4];
    store_u32(id, (uint32_t)tokens[i]);
    put(to, id, sizeof id);
  }
  for (int i = 0; i < kv->caches; i++) write_planes(to, kv->cache[i], row);
  sha256_digest(&to->hash, sizeof digest, digest);
  if (!to->failed && fwrite(digest, 1, sizeof digest, to->file) != sizeof digest) to->failed = true;
}

static size_t widest_plane(const lap_kv *kv) {
  size_t widest = 0;
  for (int i = 0; i < kv->caches; i++)
    for (int plane = 0; plane < lap_cache_planes(kv->cache[i]); plane++) {
      size_t bytes = lap_cache_plane_bytes(kv->cache[i], plane);
      if (bytes > widest) widest = bytes;
    }
  return widest;
}

lap_status lap_kv_save(const lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES],
                       const int32_t *tokens, const char *path, lap_error *error) {
  lap_status status = LAP_OK;
  size_t name_bytes = strlen(path) + sizeof ".XXXXXX";
  char *temporary = malloc(name_bytes);
  unsigned char *row = malloc(widest_plane(kv));
  int descriptor = -1;
  sink to = {0};
  if (!temporary || !row) {
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
  write_content(&to, kv, fingerprint, tokens, row);
  if (to.failed || fflush(to.file) != 0 || fsync(descriptor) != 0) to.failed = true;
  int write_error = errno;
  if (fclose(to.file) != 0) to.failed = true;
  if (to.failed || rename(temporary, path) != 0) {
    status = lap_fail(error, LAP_ERROR_IO, "%s: cannot write: %s", path,
                      strerror(to.failed ? write_error : errno));
    unlink(temporary);
  }
cleanup:
  free(row);
  free(temporary);
  return status;
}

/* ---- reading ---- */

static lap_status read_file(const char *path, unsigned char **data, size_t *bytes, lap_error *error) {
  char *content;
  lap_status status = lap_file_read(path, SIZE_MAX / 2, &content, bytes, error);
  if (status == LAP_OK && *bytes < HEADER_BYTES + SHA256_DIGEST_SIZE)
    status =
        lap_fail(error, LAP_ERROR_FORMAT, "%s: header: %zu bytes are too few for a snapshot", path, *bytes);
  *data = (unsigned char *)content;
  return status;
}

static lap_status check_envelope(const unsigned char *data, size_t bytes, const char *path,
                                 lap_error *error) {
  if (memcmp(data, MAGIC, sizeof MAGIC) != 0)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: magic: not a snapshot of this program", path);
  if (fetch_u32(data + 8) != SNAPSHOT_VERSION)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: version: %u, this program reads %d", path,
                    fetch_u32(data + 8), SNAPSHOT_VERSION);
  struct sha256_ctx hash;
  unsigned char digest[SHA256_DIGEST_SIZE];
  sha256_init(&hash);
  sha256_update(&hash, bytes - sizeof digest, data);
  sha256_digest(&hash, sizeof digest, digest);
  if (memcmp(digest, data + bytes - sizeof digest, sizeof digest) != 0)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: checksum: the file is damaged or incomplete", path);
  return LAP_OK;
}

/* Checks record `index` against the cache that it is for; adds its rows' bytes to *total. */
static lap_status check_record(const unsigned char *record, const lap_cache *cache, int64_t length, int index,
                               const char *path, uint64_t *total, lap_error *error) {
  unsigned char expected[RECORD_BYTES];
  int64_t oldest = (int64_t)fetch_u64(record + 24);
  write_record(expected, cache, 0);
  if (memcmp(record, expected, 24) != 0 || memcmp(record + 40, expected + 40, 8) != 0)
    return lap_fail(error, LAP_ERROR_STATE, "%s: cache %d: made with another KV setting", path, index);
  int64_t window = lap_cache_get_shape(cache)->window;
  int64_t first_seen = window && length >= window ? length - window + 1 : 0;
  if ((int64_t)fetch_u64(record + 32) != length || oldest < 0 || oldest > first_seen ||
      (!window && oldest != 0) || (window && length - oldest > window))
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: cache %d: holds positions %lld to %lld of %lld", path,
                    index, (long long)oldest, (long long)fetch_u64(record + 32), (long long)length);
  *total += (uint64_t)(length - oldest) * lap_cache_position_bytes(lap_cache_get_shape(cache));
  return LAP_OK;
}

static lap_status check_content(const lap_kv *kv, const unsigned char *fingerprint, const unsigned char *data,
                                size_t bytes, const char *path, lap_error *error) {
  int64_t length = (int64_t)fetch_u64(data + 16);
  if (memcmp(data + 24, fingerprint, LAP_FINGERPRINT_BYTES) != 0)
    return lap_fail(error, LAP_ERROR_STATE, "%s: fingerprint: made with another checkpoint", path);
  if (fetch_u32(data + 12) != (uint32_t)kv->caches || fetch_u32(data + 56) > 1)
    return lap_fail(error, LAP_ERROR_STATE, "%s: header: made with another KV setting", path);
  uint64_t total = HEADER_BYTES + (uint64_t)kv->caches * RECORD_BYTES + SHA256_DIGEST_SIZE;
  if (length < 0 || (uint64_t)length > bytes / 4 || total > bytes)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: header: length %lld", path, (long long)length);
  total += 4 * (uint64_t)length;
  for (int i = 0; i < kv->caches; i++) {
    lap_status status = check_record(data + HEADER_BYTES + (size_t)i * RECORD_BYTES, kv->cache[i], length, i,
                                     path, &total, error);
    if (status != LAP_OK) return status;
  }
  if (total != bytes)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: size: %zu bytes, the header promises %llu", path, bytes,
                    (unsigned long long)total);
  return LAP_OK;
}

static lap_status load_tokens(const lap_kv *kv, const unsigned char *data, int64_t length, const char *path,
                              int32_t **tokens, lap_error *error) {
  *tokens = malloc((size_t)(length ? length : 1) * sizeof **tokens);
  if (!*tokens)
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for %lld tokens", path, (long long)length);
  for (int64_t i = 0; i < length; i++) {
    (*tokens)[i] = (int32_t)fetch_u32(data + 4 * i);
    if ((*tokens)[i] < 0 || (*tokens)[i] >= kv->plan->vocab_size)
      return lap_fail(error, LAP_ERROR_FORMAT, "%s: token %lld: id %d is not in the vocabulary", path,
                      (long long)i, (*tokens)[i]);
  }
  return LAP_OK;
}

static lap_status load_caches(lap_kv *kv, const unsigned char *records, const unsigned char *rows,
                              int64_t length, lap_error *error) {
  for (int i = 0; i < kv->caches; i++) {
    lap_cache *cache = kv->cache[i];
    int64_t oldest = (int64_t)fetch_u64(records + (size_t)i * RECORD_BYTES + 24);
    lap_status status = lap_cache_load_begin(cache, oldest, length, error);
    if (status != LAP_OK) return status;
    for (int plane = 0; plane < lap_cache_planes(cache); plane++) {
      if (length > oldest) lap_cache_load(cache, plane, rows);
      rows += (size_t)(length - oldest) * lap_cache_plane_bytes(cache, plane);
    }
  }
  return LAP_OK;
}

static void swap(lap_kv *a, lap_kv *b) {
  lap_kv kept = *a;
  *a = *b;
  *b = kept;
}

lap_status lap_kv_load(lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES], const char *path,
                       int32_t **tokens, int64_t *count, lap_error *error) {
  unsigned char *data = NULL;
  size_t bytes;
  lap_kv *fresh = NULL;
  *tokens = NULL;
  *count = 0;
  lap_status status = read_file(path, &data, &bytes, error);
  if (status == LAP_OK) status = check_envelope(data, bytes, path, error);
  if (status == LAP_OK) status = lap_kv_create(kv->plan, fetch_u32(data + 56) == 1, &fresh, error);
  if (status == LAP_OK) status = check_content(fresh, fingerprint, data, bytes, path, error);
  if (status == LAP_OK) {
    const unsigned char *records = data + HEADER_BYTES;
    const unsigned char *ids = records + (size_t)fresh->caches * RECORD_BYTES;
    *count = (int64_t)fetch_u64(data + 16);
    status = load_tokens(fresh, ids, *count, path, tokens, error);
    if (status == LAP_OK) status = load_caches(fresh, records, ids + 4 * *count, *count, error);
  }
  if (status == LAP_OK) {
    swap(kv, fresh);
  } else {
    free(*tokens);
    *tokens = NULL;
    *count = 0;
  }
  lap_kv_destroy(fresh);
  free(data);
  return status;
}
