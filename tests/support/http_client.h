/* http_client.h: just enough HTTP for tests of the server: one request on one connection. */
#ifndef LAP_TESTS_HTTP_CLIENT_H
#define LAP_TESTS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct http_result {
  int status;    /* 0: the connection broke */
  char *headers; /* with their line ends, terminated */
  char *body;    /* [length], chunks joined, terminated */
  size_t length;
  bool whole; /* as many bytes as were announced, or the last chunk */
} http_result;

/* Connects to a port of this machine; fails the test if that is not possible. */
int http_connect(int port);

/* Sends a request that asks for the connection to be closed. `headers` are whole lines, or "". */
void http_send(int socket, const char *method, const char *path, const char *headers, const char *body);

/* Reads until the connection ends, and closes it. To be freed. */
http_result http_receive(int socket);
void http_free(http_result *result);

/* All of that. */
http_result http_ask(int port, const char *method, const char *path, const char *headers, const char *body);

/* Reads until `text` has come by; false if the connection ends before. */
bool http_wait_for(int socket, const char *text);

#endif
