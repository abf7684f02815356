/* characters.h: sets of code points, and how UTF-8 spells them.
 *
 * A set is a list of ranges in an arena. The functions that combine sets expect and give them normalized:
 * ascending, disjoint, not touching, within U+0000..U+10FFFF. Where the arena fails, sets are cut short; its
 * owner sees that in the end. */
#ifndef LAP_GRAMMAR_CHARACTERS_H
#define LAP_GRAMMAR_CHARACTERS_H

#include <stdint.h>

#include "grammar/memory.h"

enum {
  LAP_LAST_CHARACTER = 0x10ffff
};

typedef struct lap_character_range {
  uint32_t first, last;
} lap_character_range;

typedef struct lap_characters {
  lap_character_range *ranges;
  uint32_t count, capacity;
} lap_characters;

/* Appends a range; the set has to be normalized before it is used. */
void lap_characters_add(lap_arena *arena, lap_characters *set, uint32_t first, uint32_t last);
void lap_characters_normalize(lap_characters *set);

lap_characters lap_characters_inverse(lap_arena *arena, const lap_characters *set);
lap_characters lap_characters_common(lap_arena *arena, const lap_characters *a, const lap_characters *b);
bool lap_characters_hold(const lap_characters *set, uint32_t code);

/* One to four ranges of bytes; any choice of one byte from each is a character. */
typedef struct lap_utf8_sequence {
  uint8_t length;
  uint8_t low[4], high[4];
} lap_utf8_sequence;

enum {
  /* Of one range: one byte 1, two bytes 3, three bytes 5 on each side of the surrogates, four bytes 7. */
  LAP_UTF8_MAX_SEQUENCES = 21
};

/* Writes the sequences that spell exactly the characters of the range (surrogates have no spelling), and
 * returns their number. */
int lap_utf8_sequences(lap_character_range range, lap_utf8_sequence out[LAP_UTF8_MAX_SEQUENCES]);

/* Writes the bytes of a character (no surrogate) and returns their number. */
int lap_utf8_encode(uint32_t code, unsigned char bytes[4]);

#endif
