/* tokenizer_utf8.h: well-formed UTF-8, strictly (no overlong forms, no surrogates, at most U+10FFFF).
 *
 * Unicode's table of well-formed sequences constrains the lead byte and, for four leads, the second
 * byte; all other trailing bytes are 0x80..0xBF. Everything here follows from those two rules. */
#ifndef LAP_TEXT_TOKENIZER_UTF8_H
#define LAP_TEXT_TOKENIZER_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a character that begins with `lead`; 0 if none does. */
static inline size_t utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

/* Can `byte` stand at `position` (1..3) of a character that begins with `lead`? */
static inline bool utf8_may_follow(unsigned char lead, size_t position, unsigned char byte) {
  unsigned char low = 0x80, high = 0xbf;
  if (position == 1) {
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  }
  return byte >= low && byte <= high;
}

/* Length of the well-formed character at `text` [length > 0 bytes] and its code point, or 0 if none
 * begins there. */
static inline size_t utf8_decode(const char *text, size_t length, uint32_t *code) {
  unsigned char lead = (unsigned char)text[0];
  size_t bytes = utf8_length(lead);
  if (bytes == 0 || bytes > length) return 0;
  uint32_t value = bytes == 1 ? lead : lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (!utf8_may_follow(lead, i, byte)) return 0;
    value = value << 6 | (byte & 0x3fu);
  }
  *code = value;
  return bytes;
}

#endif
