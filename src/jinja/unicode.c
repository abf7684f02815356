/* unicode.c: libunistring's tables and mappings, asked in Python's terms. ASCII is answered here: it is
 * nearly all that there is. */
#include "jinja/unicode.h"

#include <string.h>
#include <unicase.h>
#include <unictype.h>
#include <uniname.h>
#include <unistr.h>

static const uint8_t *units(const char *text) {
  return (const uint8_t *)text;
}

size_t lap_jinja_decode(const char *text, size_t length, uint32_t *code) {
  ucs4_t decoded = (unsigned char)text[0];
  size_t bytes = 1;
  if (decoded >= 0x80) {
    int taken = u8_mbtoucr(&decoded, units(text), length);
    if (taken > 0)
      bytes = (size_t)taken;
    else
      decoded = 0xfffd;
  }
  *code = decoded;
  return bytes;
}

size_t lap_jinja_encode(uint32_t code, char *out) {
  int bytes = u8_uctomb((uint8_t *)out, code, 4);
  return bytes > 0 ? (size_t)bytes : 0;
}

size_t lap_jinja_last_character(const char *text, size_t length) {
  size_t limit = length < 4 ? length : 4;
  for (size_t back = 2; back <= limit; back++) {
    uint32_t code;
    if (lap_jinja_decode(text + length - back, back, &code) == back) return length - back;
  }
  return length - 1;
}

size_t lap_jinja_count_characters(const char *text, size_t length) {
  size_t count = 0;
  uint32_t code;
  for (size_t at = 0; at < length; count++) at += lap_jinja_decode(text + at, length - at, &code);
  return count;
}

size_t lap_jinja_byte_offset(const char *text, size_t length, size_t index) {
  size_t at = 0;
  uint32_t code;
  for (; index && at < length; index--) at += lap_jinja_decode(text + at, length - at, &code);
  return at;
}

size_t lap_jinja_find_malformed(const char *text, size_t length) {
  const uint8_t *found = length ? u8_check(units(text), length) : NULL;
  return found ? (size_t)(found - units(text)) : length;
}

bool lap_jinja_is_space(uint32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1c && code <= 0x1f);
  int class = uc_bidi_class(code);
  return class == UC_BIDI_WS || class == UC_BIDI_B || class == UC_BIDI_S ||
         uc_is_general_category_withtable(code, UC_CATEGORY_MASK_Zs);
}

bool lap_jinja_is_line_end(uint32_t code) {
  return (code >= '\n' && code <= '\r') || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

bool lap_jinja_is_printable(uint32_t code) {
  if (code < 0x80) return code >= ' ' && code < 0x7f;
  return !uc_is_general_category_withtable(
      code, UC_CATEGORY_MASK_Cc | UC_CATEGORY_MASK_Cf | UC_CATEGORY_MASK_Cs | UC_CATEGORY_MASK_Co |
                UC_CATEGORY_MASK_Cn | UC_CATEGORY_MASK_Zl | UC_CATEGORY_MASK_Zp | UC_CATEGORY_MASK_Zs);
}

bool lap_jinja_is_alphabetic(uint32_t code) {
  if (code < 0x80) return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
  return uc_is_general_category_withtable(code, UC_CATEGORY_MASK_Lu | UC_CATEGORY_MASK_Ll |
                                                    UC_CATEGORY_MASK_Lt | UC_CATEGORY_MASK_Lm |
                                                    UC_CATEGORY_MASK_Lo);
}

int lap_jinja_decimal_value(uint32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9' ? (int)code - '0' : -1;
  return uc_decimal_value(code);
}

bool lap_jinja_is_decimal(uint32_t code) {
  return lap_jinja_decimal_value(code) >= 0;
}

bool lap_jinja_is_digit(uint32_t code) {
  return code < 0x80 ? lap_jinja_is_decimal(code) : uc_digit_value(code) >= 0;
}

bool lap_jinja_is_numeric(uint32_t code) {
  return code < 0x80 ? lap_jinja_is_decimal(code) : uc_numeric_value(code).denominator != 0;
}

bool lap_jinja_is_upper(uint32_t code) {
  return code < 0x80 ? code >= 'A' && code <= 'Z' : uc_is_property_uppercase(code);
}

bool lap_jinja_is_lower(uint32_t code) {
  return code < 0x80 ? code >= 'a' && code <= 'z' : uc_is_property_lowercase(code);
}

bool lap_jinja_is_title(uint32_t code) {
  return code >= 0x80 && uc_is_general_category_withtable(code, UC_CATEGORY_MASK_Lt);
}

bool lap_jinja_is_cased(uint32_t code) {
  return lap_jinja_is_upper(code) || lap_jinja_is_lower(code) || lap_jinja_is_title(code);
}

bool lap_jinja_is_case_ignorable(uint32_t code) {
  return uc_is_property_case_ignorable(code);
}

bool lap_jinja_may_begin_name(uint32_t code) {
  return code == '_' || (code < 0x80 ? lap_jinja_is_alphabetic(code) : uc_is_property_xid_start(code));
}

bool lap_jinja_may_continue_name(uint32_t code) {
  return code == '_' || (code < 0x80 ? lap_jinja_is_alphabetic(code) || lap_jinja_is_decimal(code)
                                     : uc_is_property_xid_continue(code));
}

bool lap_jinja_named_character(const char *name, uint32_t *code) {
  ucs4_t found = unicode_name_character(name);
  *code = found;
  return found != UNINAME_INVALID;
}

size_t lap_jinja_map_case(uint32_t code, lap_jinja_case to, char *out) {
  if (code < 0x80) {
    bool changes =
        to == LAP_JINJA_UPPER || to == LAP_JINJA_TITLE ? lap_jinja_is_lower(code) : lap_jinja_is_upper(code);
    out[0] = (char)(changes ? code ^ 0x20 : code);
    return 1;
  }
  uint8_t character[4], mapped[LAP_JINJA_MAX_CASE_BYTES];
  size_t bytes = (size_t)u8_uctomb(character, code, sizeof character), length = sizeof mapped;
  uint8_t *result = to == LAP_JINJA_UPPER   ? u8_toupper(character, bytes, NULL, NULL, mapped, &length)
                    : to == LAP_JINJA_LOWER ? u8_tolower(character, bytes, NULL, NULL, mapped, &length)
                    : to == LAP_JINJA_TITLE ? u8_totitle(character, bytes, NULL, NULL, mapped, &length)
                                            : u8_casefold(character, bytes, NULL, NULL, mapped, &length);
  /* No mapping is longer than three characters, so the result fits and is never allocated; and a capital
   * sigma that stands alone is not at the end of a word. */
  if (result != mapped) return lap_jinja_encode(code, out);
  memcpy(out, mapped, length);
  return length;
}
