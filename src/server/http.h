/* http.h: HTTP as the rest of the server sees it: whole requests in, replies that may come later.
 *
 * libmicrohttpd does the protocol. A handler gets each request once its body is complete, on one of a few
 * HTTP threads, and answers through a reply: at once, or later and piece by piece from any thread. While
 * nothing is to be sent, the connection rests (suspended) and costs nothing.
 *
 * Limits: body and header sizes, connections, how long a request may take to arrive. What is refused here
 * (too large, not authorised, a page of another origin) never reaches the handler; the bodies of such
 * refusals are the handler's `refuse`. */
#ifndef LAP_SERVER_HTTP_H
#define LAP_SERVER_HTTP_H

#include "base/error.h"

typedef struct lap_http lap_http;
typedef struct lap_reply lap_reply;

typedef struct lap_http_request {
  const char *method;
  const char *path; /* without the query */
  const char *body; /* [length], then a terminator */
  size_t length;
} lap_http_request;

/* Why a request is not handled. */
typedef enum lap_refusal {
  LAP_REFUSAL_UNAUTHORIZED, /* 401 */
  LAP_REFUSAL_FORBIDDEN,    /* 403: a page of another origin */
  LAP_REFUSAL_TOO_LARGE,    /* 413 */
  LAP_REFUSAL_MEMORY        /* 503 */
} lap_refusal;

/* Answers a request: now, or later through the reply, which it must hold for that. */
typedef void lap_http_handle(void *context, const lap_http_request *request, lap_reply *reply);
/* Answers a request that is not handled: at once. Of `request` only method and path are set. */
typedef void lap_http_refuse(void *context, const lap_http_request *request, lap_refusal why,
                             lap_reply *reply);
/* A client has gone before its reply ended: somebody may want to look (lap_reply_gone). */
typedef void lap_http_gone(void *context);

typedef struct lap_http_options {
  const char *host;
  int port;                   /* 0: any that is free */
  const char *api_key;        /* NULL: none is asked for */
  const char *const *origins; /* [origin_count] whose pages may ask; "*": all */
  int origin_count;
  size_t body_bytes;                 /* the largest body */
  bool (*is_open)(const char *path); /* no key is asked for it */
  lap_http_handle *handle;
  lap_http_refuse *refuse;
  lap_http_gone *gone;
  void *context;
} lap_http_options;

/* Listens. `options` must outlive the server. Errors: ARGUMENT (host), IO (the address is taken), MEMORY. */
lap_status lap_http_open(const lap_http_options *options, lap_http **out, lap_error *error);
/* `http://HOST:PORT`, as it came out. */
const char *lap_http_url(const lap_http *http);
/* Takes no new connections; those that there are go on. */
void lap_http_quiesce(lap_http *http);
/* Requests whose replies are not sent yet. */
int lap_http_connections(const lap_http *http);
/* All replies must have ended; what was written and not yet sent is lost. */
void lap_http_close(lap_http *http);

/* ---- replies: may be used by any thread ---- */

lap_reply *lap_reply_hold(lap_reply *reply);
void lap_reply_release(lap_reply *reply);

/* Adds a header. Before the reply begins; the value is copied. */
void lap_reply_header(lap_reply *reply, const char *name, const char *value);

/* The whole reply. */
void lap_reply_send(lap_reply *reply, int status, const char *type, const char *text, size_t length);

/* A reply in pieces: it begins, is written to, ends. */
void lap_reply_begin(lap_reply *reply, int status, const char *type);
void lap_reply_write(lap_reply *reply, const char *text, size_t length);
void lap_reply_end(lap_reply *reply);

/* True if nobody reads any more: the client has closed the connection, or left too much unread. */
bool lap_reply_gone(lap_reply *reply);

#endif
