/* http.c: connections of libmicrohttpd, and replies that outlive or are outlived by them.
 *
 * A reply is shared: the connection holds it, and whoever answers does. Its lock orders the two. What the
 * answerer writes waits in `text` until the connection's thread takes it; when nothing waits, that thread
 * suspends the connection, and the next write resumes it. MHD does not look at a connection that is
 * suspended, so nobody there would notice that the client has gone: lap_reply_gone looks at the socket
 * itself.
 *
 * Invariant: `connection` is not NULL exactly while the connection serves this reply, and its socket is open
 * as long; a connection is resumed only if `suspended`, which only the holder of the lock changes. */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <nettle/memops.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text_buffer.h"

enum {
  THREADS = 4, /* a template or a grammar may take one of them for a while */
  MAX_CONNECTIONS = 512,
  HEADER_BYTES = 64 << 10,
  IDLE_SECONDS = 60,
  ARRIVAL_SECONDS = 120, /* for a whole request, however it trickles in */
  BLOCK_BYTES = 16 << 10,
  MAX_UNREAD_BYTES = 16 << 20,
  MAX_BODIES_BYTES = 256 << 20, /* of all requests that are arriving */
  MAX_HEADERS = 8,
  LISTEN_BACKLOG = 256
};

struct lap_http {
  const lap_http_options *options;
  struct MHD_Daemon *daemon;
  int listener; /* -1: handed to the daemon */
  char *url;
  atomic_int requests; /* begun and not completed */
  atomic_size_t arriving;
};

struct lap_reply {
  lap_http *http;
  pthread_mutex_t lock;
  int holders;
  struct MHD_Connection *connection;
  bool suspended;
  bool gone;

  /* the request */
  char *method, *path;
  char *origin; /* or NULL: to be allowed in the reply */
  lap_text body;
  double arrived;
  bool handled, refused;

  /* the reply */
  struct MHD_Response *headers; /* only their keeper */
  int status;                   /* 0: has not begun */
  char type[64];
  lap_text text; /* from `sent` on it waits */
  size_t sent;
  bool ended;
};

/* ---- replies --------------------------------------------------------------------------------- */

static void destroy_reply(lap_reply *reply) {
  pthread_mutex_destroy(&reply->lock);
  if (reply->headers) MHD_destroy_response(reply->headers);
  lap_text_free(&reply->body);
  lap_text_free(&reply->text);
  free(reply->method);
  free(reply->path);
  free(reply->origin);
  free(reply);
}

lap_reply *lap_reply_hold(lap_reply *reply) {
  pthread_mutex_lock(&reply->lock);
  reply->holders++;
  pthread_mutex_unlock(&reply->lock);
  return reply;
}

void lap_reply_release(lap_reply *reply) {
  if (!reply) return;
  pthread_mutex_lock(&reply->lock);
  bool last = --reply->holders == 0;
  pthread_mutex_unlock(&reply->lock);
  if (last) destroy_reply(reply);
}

/* Under the lock. */
static void wake(lap_reply *reply) {
  if (!reply->suspended) return;
  reply->suspended = false;
  MHD_resume_connection(reply->connection);
}

static void begin(lap_reply *reply, int status, const char *type) {
  reply->status = status;
  snprintf(reply->type, sizeof reply->type, "%s", type);
}

static void write_text(lap_reply *reply, const char *text, size_t length) {
  if (reply->gone || reply->ended) return;
  if (reply->sent > reply->text.length / 2) { /* what was sent is more than what is moved */
    reply->text.length -= reply->sent;
    memmove(reply->text.data, reply->text.data + reply->sent, reply->text.length);
    reply->sent = 0;
  }
  lap_text_append(&reply->text, text, length);
  if (reply->text.failed) reply->gone = true;
}

void lap_reply_header(lap_reply *reply, const char *name, const char *value) {
  pthread_mutex_lock(&reply->lock);
  if (!reply->headers) reply->headers = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
  if (reply->headers) MHD_add_response_header(reply->headers, name, value);
  pthread_mutex_unlock(&reply->lock);
}

void lap_reply_send(lap_reply *reply, int status, const char *type, const char *text, size_t length) {
  pthread_mutex_lock(&reply->lock);
  begin(reply, status, type);
  write_text(reply, text, length);
  reply->ended = true;
  wake(reply);
  pthread_mutex_unlock(&reply->lock);
}

void lap_reply_begin(lap_reply *reply, int status, const char *type) {
  pthread_mutex_lock(&reply->lock);
  begin(reply, status, type);
  wake(reply);
  pthread_mutex_unlock(&reply->lock);
}

void lap_reply_write(lap_reply *reply, const char *text, size_t length) {
  pthread_mutex_lock(&reply->lock);
  write_text(reply, text, length);
  if (reply->text.length - reply->sent > MAX_UNREAD_BYTES) reply->gone = true;
  wake(reply);
  pthread_mutex_unlock(&reply->lock);
}

void lap_reply_end(lap_reply *reply) {
  pthread_mutex_lock(&reply->lock);
  reply->ended = true;
  wake(reply);
  pthread_mutex_unlock(&reply->lock);
}

/* A client that closes its side for writing has gone too: none that waits for an answer does so. */
static bool has_hung_up(const lap_reply *reply) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(reply->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (!info) return true;
  struct pollfd socket = {.fd = info->connect_fd, .events = POLLRDHUP};
  return poll(&socket, 1, 0) == 1 && socket.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

bool lap_reply_gone(lap_reply *reply) {
  pthread_mutex_lock(&reply->lock);
  if (!reply->gone && !reply->ended) reply->gone = !reply->connection || has_hung_up(reply);
  bool gone = reply->gone;
  pthread_mutex_unlock(&reply->lock);
  return gone;
}

/* ---- from the reply to the connection -------------------------------------------------------- */

static ssize_t take_text(void *context, uint64_t position, char *buffer, size_t room) {
  lap_reply *reply = context;
  (void)position;
  pthread_mutex_lock(&reply->lock);
  size_t waiting = reply->text.length - reply->sent;
  ssize_t taken = (ssize_t)(waiting < room ? waiting : room);
  if (reply->gone) {
    taken = MHD_CONTENT_READER_END_WITH_ERROR;
  } else if (waiting) {
    memcpy(buffer, reply->text.data + reply->sent, (size_t)taken);
    reply->sent += (size_t)taken;
  } else if (reply->ended) {
    taken = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    reply->suspended = true;
    MHD_suspend_connection(reply->connection);
  }
  pthread_mutex_unlock(&reply->lock);
  return taken;
}

static void give_up_text(void *context) {
  lap_reply_release(context);
}

static enum MHD_Result copy_header(void *response, enum MHD_ValueKind kind, const char *name,
                                   const char *value) {
  (void)kind;
  MHD_add_response_header(response, name, value);
  return MHD_YES;
}

static void add_headers(const lap_reply *reply, struct MHD_Response *response) {
  if (*reply->type) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  if (reply->headers) MHD_get_response_headers(reply->headers, copy_header, response);
  if (!reply->origin) return;
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, reply->origin);
  MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Origin");
}

/* A reply that is whole, of `size` bytes, or one that comes in chunks. */
static enum MHD_Result queue(lap_reply *reply, struct MHD_Connection *connection, int status, uint64_t size) {
  struct MHD_Response *response =
      MHD_create_response_from_callback(size, BLOCK_BYTES, take_text, lap_reply_hold(reply), give_up_text);
  if (!response) {
    lap_reply_release(reply);
    return MHD_NO;
  }
  add_headers(reply, response);
  enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
  MHD_destroy_response(response);
  return result;
}

/* Sends what there is of a reply, or rests until there is something. */
static enum MHD_Result answer(lap_reply *reply, struct MHD_Connection *connection) {
  pthread_mutex_lock(&reply->lock);
  int status = reply->status;
  uint64_t size = reply->ended ? reply->text.length : MHD_SIZE_UNKNOWN;
  if (!status) {
    reply->suspended = true;
    MHD_suspend_connection(connection);
  }
  pthread_mutex_unlock(&reply->lock);
  return status ? queue(reply, connection, status, size) : MHD_YES;
}

/* ---- who may ask ----------------------------------------------------------------------------- */

static bool is_key(const lap_http *http, const char *given) {
  const char *key = http->options->api_key;
  size_t length = strlen(key);
  return given && strlen(given) == length && memeql_sec(given, key, length);
}

static bool is_authorized(const lap_http *http, struct MHD_Connection *connection, const char *path) {
  if (!http->options->api_key) return true;
  if (http->options->is_open(path)) return true;
  const char *bearer =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
  if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0 && is_key(http, bearer + 7)) return true;
  return is_key(http, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "x-api-key"));
}

/* Names under which this server is itself: addresses, and those that the user or the machine gave it. Any
 * other name could be made to mean this machine by whoever owns it. */
static bool is_own_host(const lap_http *http, const char *host) {
  char name[256], machine[256];
  unsigned char address[sizeof(struct in6_addr)];
  snprintf(name, sizeof name, "%s", *host == '[' ? host + 1 : host);
  name[*host == '[' ? strcspn(name, "]") : strcspn(name, ":")] = '\0';
  if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1) return true;
  if (strcasecmp(name, "localhost") == 0 || strcasecmp(name, http->options->host) == 0) return true;
  return gethostname(machine, sizeof machine) == 0 && strncasecmp(name, machine, sizeof name) == 0;
}

/* A browser says whose page asks. The server's own may, and those that the user named: or any page on the
 * web could use a server on this machine. */
static bool is_allowed_origin(const lap_http *http, struct MHD_Connection *connection, const char *origin,
                              bool *own) {
  const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
  const char *scheme = strstr(origin, "://");
  *own = host && scheme && strcasecmp(scheme + 3, host) == 0 && is_own_host(http, host);
  if (*own) return true;
  for (int i = 0; i < http->options->origin_count; i++) {
    const char *allowed = http->options->origins[i];
    if (strcmp(allowed, "*") == 0 || strcasecmp(allowed, origin) == 0) return true;
  }
  return false;
}

static void answer_preflight(lap_reply *reply) {
  lap_reply_header(reply, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS");
  lap_reply_header(reply, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                   "Authorization, Content-Type, x-api-key, anthropic-version, anthropic-beta, "
                   "anthropic-dangerous-direct-browser-access, openai-organization, openai-project, "
                   "x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, "
                   "x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, "
                   "x-stainless-timeout, x-stainless-helper-method, x-stainless-helper, "
                   "x-stainless-poll-helper, x-stainless-custom-poll-interval");
  lap_reply_header(reply, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "3600");
  lap_reply_send(reply, MHD_HTTP_NO_CONTENT, "", "", 0);
}

/* ---- requests -------------------------------------------------------------------------------- */

static lap_reply *create_reply(lap_http *http, struct MHD_Connection *connection, const char *method,
                               const char *path) {
  lap_reply *reply = calloc(1, sizeof *reply);
  if (!reply) return NULL;
  *reply = (lap_reply){.http = http,
                       .holders = 1,
                       .connection = connection,
                       .method = strdup(method),
                       .path = strdup(path),
                       .arrived = lap_seconds()};
  pthread_mutex_init(&reply->lock, NULL);
  if (reply->method && reply->path) return reply;
  destroy_reply(reply);
  return NULL;
}

static void refuse(lap_reply *reply, lap_refusal why) {
  const lap_http_request request = {.method = reply->method, .path = reply->path};
  reply->refused = true;
  reply->http->options->refuse(reply->http->options->context, &request, why, reply);
}

/* The headers are here, the body is not: what can be refused is refused now. */
static void look_at_headers(lap_reply *reply, struct MHD_Connection *connection) {
  lap_http *http = reply->http;
  const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
  const char *length =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
  bool own = false;
  if (origin && !is_allowed_origin(http, connection, origin, &own)) {
    refuse(reply, LAP_REFUSAL_FORBIDDEN);
    return;
  }
  if (origin && !own) reply->origin = strdup(origin);
  if (strcmp(reply->method, MHD_HTTP_METHOD_OPTIONS) == 0) {
    reply->refused = true;
    answer_preflight(reply);
  } else if (!is_authorized(http, connection, reply->path)) {
    refuse(reply, LAP_REFUSAL_UNAUTHORIZED);
  } else if (length && strtoull(length, NULL, 10) > http->options->body_bytes) {
    refuse(reply, LAP_REFUSAL_TOO_LARGE);
  }
}

static void take_body(lap_reply *reply, const char *data, size_t bytes) {
  lap_http *http = reply->http;
  if (reply->refused) return;
  if (reply->body.length + bytes > http->options->body_bytes) {
    refuse(reply, LAP_REFUSAL_TOO_LARGE);
    return;
  }
  size_t arriving = atomic_fetch_add(&http->arriving, bytes) + bytes;
  lap_text_append(&reply->body, data, bytes);
  if (reply->body.failed || arriving > MAX_BODIES_BYTES) refuse(reply, LAP_REFUSAL_MEMORY);
}

static void drop_body(lap_reply *reply) {
  atomic_fetch_sub(&reply->http->arriving, reply->body.length);
  lap_text_free(&reply->body);
}

static void handle(lap_reply *reply) {
  const lap_http_options *options = reply->http->options;
  const lap_http_request request = {.method = reply->method,
                                    .path = reply->path,
                                    .body = lap_text_data(&reply->body),
                                    .length = reply->body.length};
  reply->handled = true;
  options->handle(options->context, &request, reply);
  drop_body(reply);
}

/* MHD calls this when a request's headers are here, for each piece of its body, once more at the end of the
 * body, and after each suspension until a response is queued. A request that is refused is read to its end
 * all the same, and dropped: a client that is still sending would not see a reply. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data, size_t *bytes,
                                  void **per_request) {
  lap_http *http = context;
  lap_reply *reply = *per_request;
  (void)version;
  if (!reply) {
    reply = create_reply(http, connection, method, path);
    if (!reply) return MHD_NO;
    *per_request = reply;
    atomic_fetch_add(&http->requests, 1);
    look_at_headers(reply, connection);
    return MHD_YES;
  }
  if (*bytes) {
    if (lap_seconds() - reply->arrived > ARRIVAL_SECONDS) return MHD_NO;
    take_body(reply, data, *bytes);
    *bytes = 0;
    return MHD_YES;
  }
  if (!reply->handled && !reply->refused) handle(reply);
  return answer(reply, connection);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **per_request,
                         enum MHD_RequestTerminationCode code) {
  lap_http *http = context;
  lap_reply *reply = *per_request;
  (void)connection;
  (void)code;
  if (!reply) return;
  atomic_fetch_sub(&http->requests, 1);
  drop_body(reply);
  pthread_mutex_lock(&reply->lock);
  reply->connection = NULL;
  bool early = !reply->ended;
  if (early) reply->gone = true;
  pthread_mutex_unlock(&reply->lock);
  if (early) http->options->gone(http->options->context);
  lap_reply_release(reply);
  *per_request = NULL;
}

/* ---- listening ------------------------------------------------------------------------------- */

static int listen_at(const struct addrinfo *address) {
  int listener = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return -1;
  int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, address->ai_addr, address->ai_addrlen) == 0 && listen(listener, LISTEN_BACKLOG) == 0)
    return listener;
  int cause = errno;
  close(listener);
  errno = cause;
  return -1;
}

static lap_status open_listener(lap_http *http, lap_error *error) {
  const lap_http_options *options = http->options;
  char port[16];
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct addrinfo *addresses;
  snprintf(port, sizeof port, "%d", options->port);
  int code = getaddrinfo(options->host, port, &hints, &addresses);
  if (code) return lap_fail(error, LAP_ERROR_ARGUMENT, "host %s: %s", options->host, gai_strerror(code));
  for (const struct addrinfo *at = addresses; at && http->listener < 0; at = at->ai_next)
    http->listener = listen_at(at);
  int cause = errno;
  freeaddrinfo(addresses);
  if (http->listener >= 0) return LAP_OK;
  return lap_fail(error, LAP_ERROR_IO, "%s port %d: %s", options->host, options->port, strerror(cause));
}

static lap_status name_url(lap_http *http, lap_error *error) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  char port[NI_MAXSERV];
  const char *host = http->options->host;
  if (getsockname(http->listener, (struct sockaddr *)&address, &length) ||
      getnameinfo((struct sockaddr *)&address, length, NULL, 0, port, sizeof port, NI_NUMERICSERV))
    return lap_fail(error, LAP_ERROR_IO, "%s: the port is not known: %s", host, strerror(errno));
  bool brackets = strchr(host, ':');
  if (asprintf(&http->url, "http://%s%s%s:%s", brackets ? "[" : "", host, brackets ? "]" : "", port) < 0) {
    http->url = NULL;
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the server");
  }
  return LAP_OK;
}

static void log_nothing(void *context, const char *format, va_list arguments) {
  (void)context;
  (void)format;
  (void)arguments;
}

static lap_status start_daemon(lap_http *http, lap_error *error) {
  http->daemon = MHD_start_daemon(
      MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request,
      http, MHD_OPTION_EXTERNAL_LOGGER, log_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, http->listener,
      MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      (size_t)HEADER_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_END);
  if (!http->daemon)
    return lap_fail(error, LAP_ERROR_IO, "the HTTP server cannot be started: %s", strerror(errno));
  return LAP_OK;
}

lap_status lap_http_open(const lap_http_options *options, lap_http **out, lap_error *error) {
  *out = NULL;
  lap_http *http = calloc(1, sizeof *http);
  if (!http) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the server");
  http->options = options;
  http->listener = -1;
  lap_status status = open_listener(http, error);
  if (status == LAP_OK) status = name_url(http, error);
  if (status == LAP_OK) status = start_daemon(http, error);
  if (status == LAP_OK)
    *out = http;
  else
    lap_http_close(http);
  return status;
}

const char *lap_http_url(const lap_http *http) {
  return http->url;
}

void lap_http_quiesce(lap_http *http) {
  if (http->listener < 0) return;
  MHD_quiesce_daemon(http->daemon);
  close(http->listener);
  http->listener = -1;
}

int lap_http_connections(const lap_http *http) {
  return atomic_load(&http->requests);
}

void lap_http_close(lap_http *http) {
  if (!http) return;
  if (http->daemon) {
    if (http->listener >= 0) lap_http_quiesce(http);
    MHD_stop_daemon(http->daemon);
  }
  if (http->listener >= 0) close(http->listener);
  free(http->url);
  free(http);
}
