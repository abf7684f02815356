/* error.c: one place that turns a format string into a one-line message.
 *
 * Messages quote names taken from files, so control characters are replaced: a message is always
 * one printable line, whatever the file holds. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

lap_status lap_fail(lap_error *error, lap_status status, const char *format, ...) {
  if (!error) return status;
  error->status = status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  for (char *c = error->message; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
  return status;
}
