/* server.c: the parts put together, and taken apart in the right order.
 *
 * Ending: nothing new is let in, the engine finishes or cancels, so that every reply has ended; what was
 * written gets a moment to be sent; only then do the connections go. */
#include "server/server.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "server/routes.h"

enum {
  MAX_BODY_BYTES = 16 << 20
};

static const double sending_seconds = 2;

struct lap_server {
  lap_http_options http_options;
  lap_routes routes;
  lap_metrics *metrics;
  lap_served served;
  lap_service *service;
  lap_http *http;
};

static void look(void *context) {
  const lap_routes *routes = context;
  lap_service_look(routes->service);
}

static lap_status open_parts(lap_server *server, lap_model *model, const char *directory,
                             const lap_server_options *options, lap_error *error) {
  lap_status status = lap_metrics_create(&server->metrics, error);
  if (status == LAP_OK)
    status =
        lap_served_open(model, directory, options->name, options->service.batch.path, &server->served, error);
  if (status == LAP_OK)
    status = lap_service_open(model, &options->service, server->metrics, &server->service, error);
  if (status != LAP_OK) return status;
  server->served.context = lap_service_context(server->service);
  server->served.allow_special = options->allow_special;
  server->routes =
      (lap_routes){.served = &server->served, .service = server->service, .metrics = server->metrics};
  server->http_options = (lap_http_options){.host = options->host,
                                            .port = options->port,
                                            .api_key = options->api_key,
                                            .origins = options->origins,
                                            .origin_count = options->origin_count,
                                            .body_bytes = MAX_BODY_BYTES,
                                            .is_open = lap_routes_is_open,
                                            .handle = lap_routes_handle,
                                            .refuse = lap_routes_refuse,
                                            .gone = look,
                                            .context = &server->routes};
  return lap_http_open(&server->http_options, &server->http, error);
}

lap_status lap_server_open(lap_model *model, const char *directory, const lap_server_options *options,
                           lap_server **out, lap_error *error) {
  *out = NULL;
  lap_server *server = calloc(1, sizeof *server);
  if (!server) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the server");
  lap_status status = open_parts(server, model, directory, options, error);
  if (status == LAP_OK)
    *out = server;
  else
    lap_server_close(server, 0);
  return status;
}

const char *lap_server_url(const lap_server *server) {
  return lap_http_url(server->http);
}

const char *lap_server_without_chat(const lap_server *server) {
  return server->served.chat ? NULL : server->served.chat_error.message;
}

static void wait_for_sending(const lap_server *server) {
  const struct timespec moment = {.tv_nsec = 10000000};
  double until = lap_seconds() + sending_seconds;
  while (lap_http_connections(server->http) > 0 && lap_seconds() < until) nanosleep(&moment, NULL);
}

void lap_server_close(lap_server *server, double seconds) {
  if (!server) return;
  if (server->http) lap_http_quiesce(server->http);
  if (server->service) lap_service_stop(server->service, seconds);
  if (server->http) wait_for_sending(server);
  lap_http_close(server->http);
  lap_service_close(server->service);
  lap_served_close(&server->served);
  lap_metrics_destroy(server->metrics);
  free(server);
}
