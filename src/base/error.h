/* error.h: how functions of this project report failure.
 *
 * A function that can fail returns lap_status and takes a `lap_error *error` that may be NULL. The
 * message is one line: `path/of/file: field.path: what is wrong`. Whoever detects the fault writes
 * the message; callers pass it through unchanged. */
#ifndef LAP_BASE_ERROR_H
#define LAP_BASE_ERROR_H

#include "lapidary.h"

/* Fills `error` (if not NULL), truncating and replacing control characters (names in messages come
 * from files), and returns `status`, so that callers write `return lap_fail(error, ...)`. */
lap_status lap_fail(lap_error *error, lap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
