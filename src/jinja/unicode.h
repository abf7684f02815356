/* unicode.h: characters of UTF-8, and what Python's str says of them. The tables are libunistring's. */
#ifndef LAP_JINJA_UNICODE_H
#define LAP_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at `text` [length > 0]; a byte that begins none is one, and its code U+FFFD. */
size_t lap_jinja_decode(const char *text, size_t length, uint32_t *code);
/* Bytes written to `out` [4]. */
size_t lap_jinja_encode(uint32_t code, char *out);
/* The first byte of the last character of `text` [length > 0]. */
size_t lap_jinja_last_character(const char *text, size_t length);

size_t lap_jinja_count_characters(const char *text, size_t length);
/* The byte where character number `index` begins; `length` if there are fewer. */
size_t lap_jinja_byte_offset(const char *text, size_t length, size_t index);
/* The first byte that is not part of well-formed UTF-8; `length` if all is. */
size_t lap_jinja_find_malformed(const char *text, size_t length);

bool lap_jinja_is_space(uint32_t code);     /* str.isspace */
bool lap_jinja_is_line_end(uint32_t code);  /* str.splitlines */
bool lap_jinja_is_printable(uint32_t code); /* str.isprintable: repr shows it as it is */
bool lap_jinja_is_alphabetic(uint32_t code);
bool lap_jinja_is_decimal(uint32_t code);
bool lap_jinja_is_digit(uint32_t code);
bool lap_jinja_is_numeric(uint32_t code);
bool lap_jinja_is_upper(uint32_t code);
bool lap_jinja_is_lower(uint32_t code);
bool lap_jinja_is_title(uint32_t code);
bool lap_jinja_is_cased(uint32_t code);
bool lap_jinja_is_case_ignorable(uint32_t code);
bool lap_jinja_may_begin_name(uint32_t code);
bool lap_jinja_may_continue_name(uint32_t code);
/* The value of a decimal digit of any script, or -1. */
int lap_jinja_decimal_value(uint32_t code);
/* The character of a Unicode name; false if there is none. */
bool lap_jinja_named_character(const char *name, uint32_t *code);

typedef enum lap_jinja_case {
  LAP_JINJA_UPPER,
  LAP_JINJA_LOWER,
  LAP_JINJA_TITLE,
  LAP_JINJA_FOLD
} lap_jinja_case;

enum {
  LAP_JINJA_MAX_CASE_BYTES = 32
};

/* The mapping of one character, which may be several; bytes written to `out` [LAP_JINJA_MAX_CASE_BYTES].
 * Without context: a capital sigma becomes the ordinary small one. */
size_t lap_jinja_map_case(uint32_t code, lap_jinja_case to, char *out);

#endif
