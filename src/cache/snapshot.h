/* snapshot.h: a sequence on disk, with copies of its rings, and its keys without the rest.
 *
 * A file says what made it: the checkpoint (its fingerprint), the KV setting and the version of the numerics
 * contract. Where one of them is another, or the file's format is, it is foreign (STATE): well made perhaps,
 * and of no use here. What contradicts itself is damaged (FORMAT).
 *
 * lap_kv_save and lap_kv_load (kv.h) write and read the same files; what they write has no copies, and of
 * copies that they meet they take no notice. */
#ifndef LAP_CACHE_SNAPSHOT_H
#define LAP_CACHE_SNAPSHOT_H

#include "cache/key.h"
#include "cache/rings.h"

enum {
  LAP_SNAPSHOT_VERSION = 2, /* of the format */
  LAP_SNAPSHOT_RINGS = 16   /* copies that a file holds at most */
};

/* lap_kv_save with the sequence's `keys`, and `count` copies of its rings, in ascending length. */
lap_status lap_snapshot_save(const lap_kv *kv, lap_rings *const *rings, int count,
                             const unsigned char fingerprint[LAP_FINGERPRINT_BYTES], lap_keys keys,
                             const char *path, lap_error *error);

/* Bytes of the file that lap_snapshot_save would write. */
uint64_t lap_snapshot_bytes(const lap_kv *kv, lap_rings *const *rings, int count, lap_keys keys);

/* A snapshot's content but for the keys and values. */
typedef struct lap_snapshot_head {
  int32_t *tokens;     /* [length] */
  lap_origin *origins; /* [length], or NULL: all zero */
  int64_t length;
  uint64_t bytes; /* of the file */
  int states;     /* of the rings: the sequence's own, then the copies */
  lap_reach state[1 + LAP_SNAPSHOT_RINGS];
} lap_snapshot_head;

/* Reads the head of a file and nothing else of it, so that damage further on is not seen. `kv` says what the
 * caches must be. Errors: as lap_kv_load. */
lap_status lap_snapshot_peek(const lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES],
                             const char *path, lap_snapshot_head *head, lap_error *error);
void lap_snapshot_head_free(lap_snapshot_head *head);

/* lap_kv_load with the origins ([*length], or NULL), and with the copies: `rings` [LAP_SNAPSHOT_RINGS] gets
 * `*count` of them. All are the caller's. */
lap_status lap_snapshot_load(lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES],
                             const char *path, int32_t **tokens, lap_origin **origins, int64_t *length,
                             lap_rings **rings, int *count, lap_error *error);

#endif
