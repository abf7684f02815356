/* routes.c: the table of endpoints, and those that need no engine. */
#include "server/routes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/embedded.h"
#include "model/model.h"
#include "server/front.h"
#include "server/prepare.h"

/* The files of src/server/page, below that folder. */
extern const lap_embedded lap_page_files[];

typedef struct call {
  const lap_routes *routes;
  const lap_http_request *request;
  const char *endpoint;
  const lap_front *front; /* in whose words to refuse */
  lap_reply *reply;
} call;

typedef void handler(const call *c);

typedef struct route {
  const char *method;
  const char *path;
  handler *handle;
  const lap_front *front;
} route;

/* ---- replies --------------------------------------------------------------------------------- */

static void send(const call *c, int status, const char *type, const char *text, size_t length) {
  lap_metrics_request(c->routes->metrics, c->endpoint, status);
  lap_reply_send(c->reply, status, type, text, length);
}

static void refuse(const call *c, const lap_failure *failure) {
  lap_text text = {0};
  if (failure->kind == LAP_FAILURE_BUSY) lap_reply_header(c->reply, "Retry-After", "1");
  if (failure->kind == LAP_FAILURE_AUTHENTICATION) lap_reply_header(c->reply, "WWW-Authenticate", "Bearer");
  c->front->refuse(&text, failure);
  send(c, lap_failure_status(failure->kind), "application/json", lap_text_data(&text), text.length);
  lap_text_free(&text);
}

static void refuse_error(const call *c, const lap_error *error) {
  lap_failure failure;
  lap_failure_from(&failure, error);
  refuse(c, &failure);
}

static void send_json(const call *c, lap_json_writer *writer, lap_text *text) {
  lap_error error;
  lap_write_end(writer);
  if (text->failed) {
    lap_fail(&error, LAP_ERROR_MEMORY, "out of memory for the answer");
    refuse_error(c, &error);
  } else {
    send(c, 200, "application/json", text->data, text->length);
  }
  lap_text_free(text);
}

/* ---- generation ------------------------------------------------------------------------------ */

static void refuse_admission(const call *c, lap_admission admission, int choices) {
  lap_failure failure;
  if (admission == LAP_QUEUE_FULL)
    lap_failure_set(&failure, LAP_FAILURE_BUSY, "the queue is full");
  else if (admission == LAP_TOO_MANY)
    lap_failure_set(&failure, LAP_FAILURE_INVALID, "n: %d answers are more than this server queues", choices);
  else
    lap_failure_set(&failure, LAP_FAILURE_UNAVAILABLE, "the server is shutting down");
  refuse(c, &failure);
}

/* Reads and prepares; false: the request was refused. The request is to be freed in either case. */
static bool read_request(const call *c, lap_request *request) {
  lap_error error;
  lap_status status = lap_request_read(c->front, c->request->body, c->request->length,
                                       &c->routes->served->sampling, request, &error);
  if (status != LAP_OK) refuse_error(c, &error);
  return status == LAP_OK;
}

static bool prepare_request(const call *c, lap_request *request) {
  lap_error error;
  lap_failure failure;
  bool too_long;
  lap_status status = lap_request_prepare(c->routes->served, request, &too_long, &error);
  if (status == LAP_OK) return true;
  lap_failure_from(&failure, &error);
  if (too_long) failure.kind = LAP_FAILURE_CONTEXT;
  refuse(c, &failure);
  return false;
}

static void generate(const call *c) {
  lap_request request;
  lap_answer *answer = NULL;
  lap_error error;
  if (read_request(c, &request) && prepare_request(c, &request)) {
    if (lap_answer_create(c->routes->served, &request, c->reply, &answer, &error) != LAP_OK) {
      refuse_error(c, &error);
    } else {
      int choices = answer->choices;
      lap_admission admission = lap_service_submit(c->routes->service, answer);
      if (admission != LAP_ADMITTED) {
        refuse_admission(c, admission, choices);
        lap_answer_destroy(answer);
      }
    }
  }
  lap_request_free(&request);
}

/* ---- prompts --------------------------------------------------------------------------------- */

static bool render(const call *c, lap_chat_prompt *prompt) {
  lap_request request;
  lap_error error;
  bool add_prompt = true;
  *prompt = (lap_chat_prompt){0};
  if (!read_request(c, &request)) {
    lap_request_free(&request);
    return false;
  }
  lap_status status = lap_json_get_bool(request.body, lap_json_root(request.body), "add_generation_prompt",
                                        &add_prompt, &error);
  request.conversation.no_generation_prompt = !add_prompt;
  if (status == LAP_OK) status = lap_request_render(c->routes->served, &request, prompt, &error);
  if (status != LAP_OK) refuse_error(c, &error);
  lap_request_free(&request);
  return status == LAP_OK;
}

static void apply_template(const call *c) {
  lap_chat_prompt prompt;
  if (!render(c, &prompt)) return;
  lap_text text = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &text);
  lap_write_object(&writer, NULL);
  lap_write_bytes(&writer, "prompt", prompt.text, prompt.length);
  lap_write_array(&writer, "tokens");
  for (size_t i = 0; i < prompt.count; i++) lap_write_integer(&writer, NULL, prompt.ids[i]);
  lap_write_end_array(&writer);
  lap_write_end_object(&writer);
  send_json(c, &writer, &text);
  lap_chat_prompt_free(&prompt);
}

static void count_tokens(const call *c) {
  lap_chat_prompt prompt;
  if (!render(c, &prompt)) return;
  lap_text text = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &text);
  lap_write_object(&writer, NULL);
  lap_write_integer(&writer, "input_tokens", (int64_t)prompt.count);
  lap_write_end_object(&writer);
  send_json(c, &writer, &text);
  lap_chat_prompt_free(&prompt);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static lap_status read_body(const call *c, lap_json_document **body, lap_error *error) {
  *body = NULL;
  if (c->request->length == 0) return lap_fail(error, LAP_ERROR_FORMAT, "request: the body is empty");
  lap_status status = lap_json_parse(c->request->body, c->request->length, "request", body, error);
  if (status == LAP_OK && lap_json_root(*body)->type != LAP_JSON_OBJECT)
    status = lap_fail(error, LAP_ERROR_FORMAT, "request: the body must be a JSON object");
  return status;
}

static lap_status encode(const call *c, const lap_json_document *body, int32_t **ids, size_t *count,
                         lap_error *error) {
  const lap_json *root = lap_json_root(body), *content = lap_json_get(body, root, "content");
  bool add_special = false, parse_special = true;
  lap_status status = lap_json_get_bool(body, root, "add_special", &add_special, error);
  if (status == LAP_OK) status = lap_json_get_bool(body, root, "parse_special", &parse_special, error);
  if (status != LAP_OK) return status;
  if (!content || content->type != LAP_JSON_STRING)
    return content ? lap_json_fail(body, content, error, "must be a string")
                   : lap_fail(error, LAP_ERROR_FORMAT, "request: content: is missing");
  const lap_range whole = {0, content->length};
  if (add_special)
    return lap_model_encode_marked(c->routes->served->model, content->string, content->length, &whole,
                                   parse_special, ids, count, error);
  return lap_tokenizer_encode(c->routes->served->tokenizer, content->string, content->length, parse_special,
                              ids, count, error);
}

static void tokenize(const call *c) {
  lap_json_document *body;
  lap_error error;
  int32_t *ids = NULL;
  size_t count;
  lap_status status = read_body(c, &body, &error);
  if (status == LAP_OK) status = encode(c, body, &ids, &count, &error);
  if (status == LAP_OK) {
    lap_text text = {0};
    lap_json_writer writer;
    lap_write_begin(&writer, &text);
    lap_write_object(&writer, NULL);
    lap_write_array(&writer, "tokens");
    for (size_t i = 0; i < count; i++) lap_write_integer(&writer, NULL, ids[i]);
    lap_write_end_array(&writer);
    lap_write_end_object(&writer);
    send_json(c, &writer, &text);
  } else {
    refuse_error(c, &error);
  }
  lap_json_free(body);
  free(ids);
}

typedef struct decoded {
  char *text;
  size_t length, capacity;
} decoded;

static lap_status decode(const call *c, const lap_json_document *body, decoded *out, lap_error *error) {
  const lap_json *tokens = lap_json_get(body, lap_json_root(body), "tokens");
  lap_detokenizer state = {0};
  lap_status status = LAP_OK;
  if (!tokens || tokens->type != LAP_JSON_ARRAY)
    return tokens ? lap_json_fail(body, tokens, error, "must be a list of token ids")
                  : lap_fail(error, LAP_ERROR_FORMAT, "request: tokens: is missing");
  for (const lap_json *one = tokens->child; one && status == LAP_OK; one = one->next) {
    if (one->type != LAP_JSON_INTEGER || one->integer < 0 || one->integer > INT32_MAX ||
        !lap_tokenizer_token(c->routes->served->tokenizer, (int32_t)one->integer, &(size_t){0}))
      return lap_json_fail(body, one, error, "is no token id");
    status = lap_detokenize(c->routes->served->tokenizer, &state, (int32_t)one->integer, true, &out->text,
                            &out->length, &out->capacity, error);
  }
  return status == LAP_OK ? lap_detokenize_end(&state, &out->text, &out->length, &out->capacity, error)
                          : status;
}

static void detokenize(const call *c) {
  lap_json_document *body;
  lap_error error;
  decoded out = {0};
  lap_status status = read_body(c, &body, &error);
  if (status == LAP_OK) status = decode(c, body, &out, &error);
  if (status == LAP_OK) {
    lap_text text = {0};
    lap_json_writer writer;
    lap_write_begin(&writer, &text);
    lap_write_object(&writer, NULL);
    lap_write_bytes(&writer, "content", out.text ? out.text : "", out.length);
    lap_write_end_object(&writer);
    send_json(c, &writer, &text);
  } else {
    refuse_error(c, &error);
  }
  lap_json_free(body);
  free(out.text);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* What clients of either API look for. */
static void write_model(lap_json_writer *writer, const lap_served *served) {
  char date[32];
  time_t created = (time_t)served->created;
  struct tm utc;
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&created, &utc));
  lap_write_object(writer, NULL);
  lap_write_string(writer, "id", served->name);
  lap_write_string(writer, "object", "model");
  lap_write_integer(writer, "created", served->created);
  lap_write_string(writer, "owned_by", "lapidary");
  lap_write_string(writer, "type", "model");
  lap_write_string(writer, "display_name", served->name);
  lap_write_string(writer, "created_at", date);
  lap_write_integer(writer, "max_model_len", served->context);
  lap_write_end_object(writer);
}

static void models(const call *c) {
  const lap_served *served = c->routes->served;
  lap_text text = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &text);
  lap_write_object(&writer, NULL);
  lap_write_string(&writer, "object", "list");
  lap_write_array(&writer, "data");
  write_model(&writer, served);
  lap_write_end_array(&writer);
  lap_write_boolean(&writer, "has_more", false);
  lap_write_string(&writer, "first_id", served->name);
  lap_write_string(&writer, "last_id", served->name);
  lap_write_end_object(&writer);
  send_json(c, &writer, &text);
}

static void model(const call *c) {
  const lap_served *served = c->routes->served;
  const char *asked = c->request->path + strlen("/v1/models/");
  if (strcmp(asked, served->name) != 0) {
    lap_failure failure;
    lap_failure_set(&failure, LAP_FAILURE_NOT_FOUND, "model: %.200s is not served here", asked);
    refuse(c, &failure);
    return;
  }
  lap_text text = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &text);
  write_model(&writer, served);
  send_json(c, &writer, &text);
}

/* ---- state ----------------------------------------------------------------------------------- */

static void health(const call *c) {
  const lap_served *served = c->routes->served;
  const lap_service_stats stats = lap_service_get_stats(c->routes->service);
  lap_text text = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &text);
  lap_write_object(&writer, NULL);
  lap_write_string(&writer, "status", "ok");
  lap_write_string(&writer, "model", served->name);
  lap_write_string(&writer, "path", served->path);
  lap_write_string(&writer, "kv", served->kv);
  lap_write_string(&writer, "isa", served->model->device->driver->variant(served->model->device));
  lap_write_integer(&writer, "threads", stats.batch.threads);
  lap_write_integer(&writer, "context", served->context);
  lap_write_integer(&writer, "kv_bytes", (int64_t)stats.batch.kv_bytes);
  lap_write_integer(&writer, "cache_bytes", (int64_t)stats.batch.cache.bytes);
  lap_write_integer(&writer, "running", stats.batch.running);
  lap_write_integer(&writer, "waiting", stats.queued);
  lap_write_boolean(&writer, "chat", served->chat != NULL);
  lap_write_end_object(&writer);
  send_json(c, &writer, &text);
}

static void metrics(const call *c) {
  const lap_service_stats stats = lap_service_get_stats(c->routes->service);
  lap_text text = {0};
  lap_metrics_print(c->routes->metrics, &stats.batch, stats.queued, &text);
  if (text.failed) {
    lap_error error;
    lap_fail(&error, LAP_ERROR_MEMORY, "out of memory for the answer");
    refuse_error(c, &error);
  } else {
    send(c, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.length);
  }
  lap_text_free(&text);
}

/* ---- the page -------------------------------------------------------------------------------- */

static const lap_embedded *page_file(const char *path) {
  const char *name = strcmp(path, "/") == 0 ? "index.html" : path + 1;
  for (const lap_embedded *file = lap_page_files; file->path; file++)
    if (strcmp(file->path, name) == 0) return file;
  return NULL;
}

static const char *type_of_file(const char *path) {
  static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                         {".css", "text/css; charset=utf-8"},
                                         {".js", "text/javascript; charset=utf-8"},
                                         {".svg", "image/svg+xml"},
                                         {".png", "image/png"},
                                         {".ico", "image/x-icon"}};
  const char *ending = strrchr(path, '.');
  for (size_t i = 0; ending && i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i][0], ending) == 0) return types[i][1];
  return "application/octet-stream";
}

static void page(const call *c, const lap_embedded *file) {
  lap_reply_header(c->reply, "Cache-Control", "no-cache");
  lap_reply_header(c->reply, "Content-Security-Policy",
                   "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
                   "frame-ancestors 'none'");
  send(c, 200, type_of_file(file->path), (const char *)file->data, file->bytes);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const route routes[] = {
    {"POST", "/v1/chat/completions", generate, &lap_front_chat},
    {"POST", "/chat/completions", generate, &lap_front_chat},
    {"POST", "/v1/completions", generate, &lap_front_completions},
    {"POST", "/completions", generate, &lap_front_completions},
    {"POST", "/v1/responses", generate, &lap_front_responses},
    {"POST", "/v1/messages", generate, &lap_front_messages},
    {"POST", "/v1/messages/count_tokens", count_tokens, &lap_front_messages},
    {"POST", "/apply-template", apply_template, &lap_front_chat},
    {"POST", "/tokenize", tokenize, &lap_front_chat},
    {"POST", "/detokenize", detokenize, &lap_front_chat},
    {"GET", "/v1/models", models, &lap_front_chat},
    {"GET", "/models", models, &lap_front_chat},
    {"GET", "/health", health, &lap_front_chat},
    {"GET", "/metrics", metrics, &lap_front_chat},
};

static bool is_method(const char *given, const char *wanted) {
  return strcmp(given, wanted) == 0 || (strcmp(wanted, "GET") == 0 && strcmp(given, "HEAD") == 0);
}

static const lap_front *words_for(const char *path) {
  return strncmp(path, "/v1/messages", 12) == 0 ? &lap_front_messages : &lap_front_chat;
}

static void refuse_method(const call *c, const char *allowed) {
  lap_failure failure;
  lap_reply_header(c->reply, "Allow", allowed);
  lap_failure_set(&failure, LAP_FAILURE_METHOD, "%s takes %s only", c->request->path, allowed);
  refuse(c, &failure);
}

static void handle_fixed(call *c, const route *at) {
  c->endpoint = at->path;
  c->front = at->front;
  if (is_method(c->request->method, at->method))
    at->handle(c);
  else
    refuse_method(c, at->method);
}

static void handle_other(call *c) {
  static const char models_prefix[] = "/v1/models/";
  const lap_embedded *file = page_file(c->request->path);
  bool get = is_method(c->request->method, "GET");
  if (strncmp(c->request->path, models_prefix, sizeof models_prefix - 1) == 0 && get) {
    c->endpoint = "/v1/models";
    model(c);
  } else if (file && get) {
    c->endpoint = "/";
    page(c, file);
  } else if (file) {
    c->endpoint = "/";
    refuse_method(c, "GET");
  } else {
    lap_failure failure;
    lap_failure_set(&failure, LAP_FAILURE_NOT_FOUND, "there is no %.200s here", c->request->path);
    refuse(c, &failure);
  }
}

void lap_routes_handle(void *context, const lap_http_request *request, lap_reply *reply) {
  call c = {.routes = context,
            .request = request,
            .endpoint = "other",
            .front = words_for(request->path),
            .reply = reply};
  for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
    if (strcmp(routes[i].path, request->path) == 0) {
      handle_fixed(&c, &routes[i]);
      return;
    }
  handle_other(&c);
}

void lap_routes_refuse(void *context, const lap_http_request *request, lap_refusal why, lap_reply *reply) {
  static const struct {
    lap_failure_kind kind;
    const char *message;
  } reasons[] = {
      [LAP_REFUSAL_UNAUTHORIZED] =
          {LAP_FAILURE_AUTHENTICATION,
           "the API key is missing or wrong (Authorization: Bearer KEY, or x-api-key)"},
      [LAP_REFUSAL_FORBIDDEN] = {LAP_FAILURE_FORBIDDEN,
                                 "pages of this origin may not ask; lapidary serve --cors ORIGIN lets them"},
      [LAP_REFUSAL_TOO_LARGE] = {LAP_FAILURE_TOO_LARGE, "the body is too large"},
      [LAP_REFUSAL_MEMORY] = {LAP_FAILURE_UNAVAILABLE, "out of memory for the body"},
  };
  const call c = {.routes = context,
                  .request = request,
                  .endpoint = "refused",
                  .front = words_for(request->path),
                  .reply = reply};
  lap_failure failure;
  lap_failure_set(&failure, reasons[why].kind, "%s", reasons[why].message);
  refuse(&c, &failure);
}

bool lap_routes_is_open(const char *path) {
  return strcmp(path, "/health") == 0 || page_file(path);
}
