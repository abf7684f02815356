/* server.h: a model behind HTTP: what `lapidary serve` runs. */
#ifndef LAP_SERVER_SERVER_H
#define LAP_SERVER_SERVER_H

#include "server/service.h"

typedef struct lap_server lap_server;

typedef struct lap_server_options {
  const char *host;
  int port;                   /* 0: any that is free */
  const char *api_key;        /* NULL: none is asked for */
  const char *const *origins; /* [origin_count], whose pages may ask */
  int origin_count;
  const char *name; /* the model's, to clients; NULL: the directory's */
  bool allow_special;
  lap_service_options service;
} lap_server_options;

/* Serves `model`, opened from `directory`, from now on. Strings of `options` must live as long as the server,
 * and so must the model. Errors: those of the parts: ARGUMENT, IO, FORMAT, UNSUPPORTED, MEMORY. */
lap_status lap_server_open(lap_model *model, const char *directory, const lap_server_options *options,
                           lap_server **out, lap_error *error);

/* `http://HOST:PORT` */
const char *lap_server_url(const lap_server *server);
/* Why there is no chat, where the checkpoint has no template; else NULL. */
const char *lap_server_without_chat(const lap_server *server);

/* Takes no more requests, finishes those that there are within `seconds` or cancels them, ends. */
void lap_server_close(lap_server *server, double seconds);

#endif
