/* siphash.h: SipHash-1-3, for tables whose keys come from outside: with a random key nobody can choose
 * collisions. */
#ifndef LAP_BASE_SIPHASH_H
#define LAP_BASE_SIPHASH_H

#include <stddef.h>
#include <sys/random.h>

#include "base/bytes.h"

/* Fills `key`. Without entropy a table still works; only its defence against chosen keys is weaker: then
 * `fallback`, an address, must do. */
static inline void lap_siphash_key(uint64_t key[2], const void *fallback) {
  if (getrandom(key, 2 * sizeof *key, GRND_NONBLOCK) < 0) key[0] = key[1] = (uint64_t)(uintptr_t)fallback;
}

static inline uint64_t lap_siphash_rotate(uint64_t v, int by) {
  return v << by | v >> (64 - by);
}

static inline void lap_siphash_round(uint64_t v[4]) {
  v[0] += v[1], v[1] = lap_siphash_rotate(v[1], 13) ^ v[0], v[0] = lap_siphash_rotate(v[0], 32);
  v[2] += v[3], v[3] = lap_siphash_rotate(v[3], 16) ^ v[2];
  v[0] += v[3], v[3] = lap_siphash_rotate(v[3], 21) ^ v[0];
  v[2] += v[1], v[1] = lap_siphash_rotate(v[1], 17) ^ v[2], v[2] = lap_siphash_rotate(v[2], 32);
}

static inline void lap_siphash_word(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  lap_siphash_round(v);
  v[0] ^= word;
}

/* The hash of `prefix`, one word (0 where there is none to tell apart), followed by `text` [length bytes]. */
static inline uint64_t lap_siphash(const uint64_t key[2], uint64_t prefix, const char *text, size_t length) {
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                   key[1] ^ 0x7465646279746573};
  lap_siphash_word(v, prefix);
  size_t i = 0;
  for (; i + 8 <= length; i += 8) lap_siphash_word(v, lap_load_u64(text + i));
  uint64_t last = (uint64_t)length << 56;
  if (length > i) memcpy(&last, text + i, length - i); /* at most 7 bytes: the length's own byte stays */
  lap_siphash_word(v, last);
  v[2] ^= 0xff;
  for (int round = 0; round < 3; round++) lap_siphash_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
