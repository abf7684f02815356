/* http_client.c: sockets, and the two ways in which a body is delimited. */
#include "support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text_buffer.h"
#include "support/check.h"

int http_connect(int port) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_true(s >= 0);
  assert_int_equal(connect(s, (const struct sockaddr *)&address, sizeof address), 0);
  return s;
}

void http_send(int socket, const char *method, const char *path, const char *headers, const char *body) {
  lap_text text = {0};
  lap_text_add(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path, headers);
  if (body) lap_text_add(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
  lap_text_add(&text, "\r\n%s", body ? body : "");
  assert_false(text.failed);
  for (size_t sent = 0; sent < text.length;) {
    ssize_t n = send(socket, text.data + sent, text.length - sent, MSG_NOSIGNAL);
    if (n <= 0) break; /* refused before all was read */
    sent += (size_t)n;
  }
  lap_text_free(&text);
}

/* Joins chunks in place; true if the last one is there. */
static bool join_chunks(http_result *result) {
  char *from = result->body, *to = result->body, *end = result->body + result->length;
  bool last = false;
  while (from < end && !last) {
    char *line = NULL;
    size_t bytes = strtoul(from, &line, 16);
    if (line == from || line + 2 > end) break;
    from = line + 2;
    last = bytes == 0;
    if (bytes > (size_t)(end - from)) bytes = (size_t)(end - from);
    memmove(to, from, bytes);
    to += bytes;
    from += bytes + 2;
  }
  result->length = (size_t)(to - result->body);
  *to = '\0';
  return last;
}

static http_result divide(char *data, size_t length) {
  http_result result = {0};
  char *gap = length ? strstr(data, "\r\n\r\n") : NULL;
  result.headers = data;
  if (!gap || sscanf(data, "HTTP/1.1 %d", &result.status) != 1) return result;
  gap[2] = '\0';
  result.length = length - (size_t)(gap + 4 - data);
  result.body = malloc(result.length + 1);
  assert_non_null(result.body);
  memcpy(result.body, gap + 4, result.length);
  result.body[result.length] = '\0';
  const char *announced = strcasestr(data, "Content-Length: ");
  if (announced)
    result.whole = strtoul(announced + 16, NULL, 10) == result.length;
  else
    result.whole = strcasestr(data, "Transfer-Encoding: chunked") && join_chunks(&result);
  return result;
}

http_result http_receive(int socket) {
  lap_text text = {0};
  char block[4096];
  for (ssize_t n; (n = recv(socket, block, sizeof block, 0)) > 0;) lap_text_append(&text, block, (size_t)n);
  close(socket);
  assert_false(text.failed);
  size_t length = text.length;
  return divide(text.data ? text.data : calloc(1, 1), length);
}

void http_free(http_result *result) {
  free(result->headers);
  free(result->body);
  *result = (http_result){0};
}

http_result http_ask(int port, const char *method, const char *path, const char *headers, const char *body) {
  int s = http_connect(port);
  http_send(s, method, path, headers, body);
  return http_receive(s);
}

bool http_wait_for(int socket, const char *text) {
  lap_text seen = {0};
  char block[1024];
  bool found = false;
  for (ssize_t n; !found && (n = recv(socket, block, sizeof block, 0)) > 0;) {
    lap_text_append(&seen, block, (size_t)n);
    found = memmem(seen.data, seen.length, text, strlen(text));
  }
  lap_text_free(&seen);
  return found;
}
