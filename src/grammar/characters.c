/* characters.c: a range of code points is split until each part is a product of byte ranges.
 *
 * UTF-8 of one length counts like a number whose last digits, the continuation bytes, run through all of
 * 0x80..0xBF before the one in front of them moves. So a range is a product of byte ranges if, from the first
 * byte on in which its ends differ, all later bytes run from 0x80 to 0xBF. Where they do not, the uneven part
 * is split off. */
#include "grammar/characters.h"

#include <stdlib.h>

void lap_characters_add(lap_arena *arena, lap_characters *set, uint32_t first, uint32_t last) {
  if (set->count == set->capacity) {
    uint32_t capacity = set->capacity ? 2 * set->capacity : 8;
    lap_character_range *larger = lap_arena_take(arena, capacity * sizeof *larger);
    if (!larger) return;
    for (uint32_t i = 0; i < set->count; i++) larger[i] = set->ranges[i];
    set->ranges = larger;
    set->capacity = capacity;
  }
  set->ranges[set->count++] = (lap_character_range){first, last};
}

static int by_first(const void *a, const void *b) {
  const lap_character_range *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

void lap_characters_normalize(lap_characters *set) {
  if (set->count == 0) return;
  qsort(set->ranges, set->count, sizeof *set->ranges, by_first);
  uint32_t kept = 0;
  for (uint32_t i = 1; i < set->count; i++) {
    lap_character_range *last = &set->ranges[kept], next = set->ranges[i];
    if (next.first > last->last + 1)
      set->ranges[++kept] = next;
    else if (next.last > last->last)
      last->last = next.last;
  }
  set->count = kept + 1;
}

lap_characters lap_characters_inverse(lap_arena *arena, const lap_characters *set) {
  lap_characters inverse = {0};
  uint32_t next = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    if (set->ranges[i].first > next) lap_characters_add(arena, &inverse, next, set->ranges[i].first - 1);
    next = set->ranges[i].last + 1;
  }
  if (next <= LAP_LAST_CHARACTER) lap_characters_add(arena, &inverse, next, LAP_LAST_CHARACTER);
  return inverse;
}

lap_characters lap_characters_common(lap_arena *arena, const lap_characters *a, const lap_characters *b) {
  lap_characters common = {0};
  for (uint32_t i = 0, k = 0; i < a->count && k < b->count;) {
    const lap_character_range *x = &a->ranges[i], *y = &b->ranges[k];
    uint32_t first = x->first > y->first ? x->first : y->first;
    uint32_t last = x->last < y->last ? x->last : y->last;
    if (first <= last) lap_characters_add(arena, &common, first, last);
    if (x->last < y->last)
      i++;
    else
      k++;
  }
  return common;
}

bool lap_characters_hold(const lap_characters *set, uint32_t code) {
  for (uint32_t i = 0; i < set->count; i++)
    if (code >= set->ranges[i].first && code <= set->ranges[i].last) return true;
  return false;
}

int lap_utf8_encode(uint32_t code, unsigned char bytes[4]) {
  if (code < 0x80) {
    bytes[0] = (unsigned char)code;
    return 1;
  }
  int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int i = length - 1; i > 0; i--, code >>= 6) bytes[i] = (unsigned char)(0x80 | (code & 0x3f));
  bytes[0] = (unsigned char)((0xf00u >> length & 0xf0u) | code);
  return length;
}

/* The last code point up to which a range that begins at `first` may go as one product of byte ranges. */
static uint32_t product_end(uint32_t first, uint32_t last) {
  static const uint32_t borders[] = {0x7f, 0x7ff, 0xd7ff, 0xffff};
  for (int i = 0; i < 4; i++)
    if (first <= borders[i] && last > borders[i]) last = borders[i];
  if (first < 0x80) return last;
  for (uint32_t rest = 0x3f; rest < last; rest = rest << 6 | 0x3f) {
    if ((first & ~rest) == (last & ~rest)) break; /* the bytes in front are the same */
    if (first & rest) return first | rest;
    if ((last & rest) != rest) last = (last & ~rest) - 1;
  }
  return last;
}

int lap_utf8_sequences(lap_character_range range, lap_utf8_sequence out[LAP_UTF8_MAX_SEQUENCES]) {
  int count = 0;
  for (uint32_t first = range.first; first <= range.last;) {
    if (first >= 0xd800 && first <= 0xdfff) { /* surrogates */
      first = 0xe000;
      continue;
    }
    uint32_t last = product_end(first, range.last);
    lap_utf8_sequence *sequence = &out[count++];
    sequence->length = (uint8_t)lap_utf8_encode(first, sequence->low);
    lap_utf8_encode(last, sequence->high);
    first = last + 1;
  }
  return count;
}
