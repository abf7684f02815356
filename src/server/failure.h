/* failure.h: why a request gets no answer, before an API puts it in its own words. */
#ifndef LAP_SERVER_FAILURE_H
#define LAP_SERVER_FAILURE_H

#include "base/error.h"

typedef enum lap_failure_kind {
  LAP_FAILURE_INVALID,        /* 400: the request is wrong */
  LAP_FAILURE_CONTEXT,        /* 400: it does not fit in the context */
  LAP_FAILURE_AUTHENTICATION, /* 401 */
  LAP_FAILURE_FORBIDDEN,      /* 403 */
  LAP_FAILURE_NOT_FOUND,      /* 404 */
  LAP_FAILURE_METHOD,         /* 405 */
  LAP_FAILURE_TOO_LARGE,      /* 413 */
  LAP_FAILURE_BUSY,           /* 429: the queue is full */
  LAP_FAILURE_GONE,           /* 499: the client has gone; nobody is told, but it is counted */
  LAP_FAILURE_INTERNAL,       /* 500 */
  LAP_FAILURE_UNAVAILABLE     /* 503: memory is short, or the server is shutting down */
} lap_failure_kind;

typedef struct lap_failure {
  lap_failure_kind kind;
  char field[128];   /* of the body, or "" */
  char message[512]; /* begins with the field, if there is one */
} lap_failure;

int lap_failure_status(lap_failure_kind kind);

void lap_failure_set(lap_failure *failure, lap_failure_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* From an error of reading, preparing or computing: `request: FIELD: what is wrong` names the field. Paths of
 * files are shortened to their last part. */
void lap_failure_from(lap_failure *failure, const lap_error *error);

#endif
