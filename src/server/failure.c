/* failure.c: from one-line messages to kinds and fields. */
#include "server/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int lap_failure_status(lap_failure_kind kind) {
  static const int status[] = {
      [LAP_FAILURE_INVALID] = 400,   [LAP_FAILURE_CONTEXT] = 400,     [LAP_FAILURE_AUTHENTICATION] = 401,
      [LAP_FAILURE_FORBIDDEN] = 403, [LAP_FAILURE_NOT_FOUND] = 404,   [LAP_FAILURE_METHOD] = 405,
      [LAP_FAILURE_TOO_LARGE] = 413, [LAP_FAILURE_BUSY] = 429,        [LAP_FAILURE_GONE] = 499,
      [LAP_FAILURE_INTERNAL] = 500,  [LAP_FAILURE_UNAVAILABLE] = 503,
  };
  return status[kind];
}

void lap_failure_set(lap_failure *failure, lap_failure_kind kind, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  *failure = (lap_failure){.kind = kind};
  vsnprintf(failure->message, sizeof failure->message, format, arguments);
  va_end(arguments);
}

static lap_failure_kind kind_of(lap_status status) {
  switch (status) {
    case LAP_ERROR_FORMAT:
    case LAP_ERROR_ARGUMENT:
    case LAP_ERROR_UNSUPPORTED:
      return LAP_FAILURE_INVALID;
    case LAP_ERROR_MEMORY:
      return LAP_FAILURE_UNAVAILABLE;
    default:
      return LAP_FAILURE_INTERNAL;
  }
}

/* `/models/x/chat_template.jinja:3:1: no` says `chat_template.jinja:3:1: no`. */
static const char *without_directories(const char *message) {
  if (*message != '/') return message;
  const char *begin = message + 1;
  for (const char *at = begin; *at && *at != ':'; at++)
    if (*at == '/') begin = at + 1;
  return begin;
}

void lap_failure_from(lap_failure *failure, const lap_error *error) {
  static const char prefix[] = "request: ";
  const char *message = error->message;
  bool named = strncmp(message, prefix, sizeof prefix - 1) == 0;
  if (named) message += sizeof prefix - 1;
  lap_failure_set(failure, kind_of(error->status), "%s", without_directories(message));
  const char *end = named ? strstr(failure->message, ": ") : NULL;
  bool words = end && memchr(failure->message, ' ', (size_t)(end - failure->message));
  if (end && !words && (size_t)(end - failure->message) < sizeof failure->field)
    memcpy(failure->field, failure->message, (size_t)(end - failure->message));
}
