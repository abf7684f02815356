/* routes.h: which path is answered how. */
#ifndef LAP_SERVER_ROUTES_H
#define LAP_SERVER_ROUTES_H

#include "server/http.h"
#include "server/service.h"

typedef struct lap_routes {
  lap_served *served;
  lap_service *service;
  lap_metrics *metrics;
} lap_routes;

/* For lap_http_options; `context` is a lap_routes. */
lap_http_handle lap_routes_handle;
lap_http_refuse lap_routes_refuse;
bool lap_routes_is_open(const char *path); /* without a key: the page and /health */

#endif
