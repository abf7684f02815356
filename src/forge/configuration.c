/* configuration.c: options meet the configuration; the result is written as text and read back.
 *
 * The numbers are resolved first (from the typed configuration, where nothing may stay open: no
 * tensors are there to decide), then laid over the document's tree as a list of edits, then written.
 * Reading the text back makes the written file, not the intention, the authority for the shapes. */
#include "forge/configuration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_JSON_BYTES = 64 << 20,
  WIDTH_STEP = 128, /* every group size divides it */
  DEFAULT_GROUP = 64,
  DEFAULT_SHARED_LAYERS = 20, /* of models with per-layer inputs and more layers, where nothing is said */
  MAX_EDITS = 16
};

/* ---- what the numbers will be ---- */

typedef struct resolved {
  int32_t layers, shared, hidden, intermediate, moe_width, vocab, per_layer_width, vocab_per_layer;
  bool double_wide, moe;
} resolved;

/* Whether the layers before `first` hold one of each attention type that those from `first` on have. */
static bool donors_suffice(const lap_config *config, int32_t first, int32_t layers) {
  bool has[2] = {false, false};
  for (int32_t i = 0; i < first; i++) has[config->layer_type[i]] = true;
  for (int32_t i = first; i < layers; i++)
    if (!has[config->layer_type[i]]) return false;
  return true;
}

static int32_t shared_layers(const lap_config *config, int32_t layers) {
  int32_t shared = config->shared_layers;
  if (shared == LAP_ABSENT)
    shared =
        config->per_layer_width > 0 && config->layers > DEFAULT_SHARED_LAYERS ? DEFAULT_SHARED_LAYERS : 0;
  if (layers == config->layers) return shared;
  int32_t kept = (int32_t)((int64_t)shared * layers / config->layers);
  while (kept > 0 && !donors_suffice(config, layers - kept, layers)) kept--;
  return kept;
}

static int32_t scaled(int32_t width, int32_t scale) {
  if (scale <= 1 || width < 1) return width;
  int32_t smaller = (width + scale - 1) / scale;
  return (smaller + WIDTH_STEP - 1) / WIDTH_STEP * WIDTH_STEP;
}

static lap_status resolve(const lap_forge_options *options, const lap_config *config, resolved *out,
                          lap_error *error) {
  if (options->layers > config->layers)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "--layers: %d is more than the %d of %s", options->layers,
                    config->layers, options->config);
  int32_t vocab = options->vocab ? options->vocab : config->vocab_size;
  if (vocab == LAP_ABSENT) return lap_json_fail(config->document, config->text, error, "vocab_size: missing");
  int32_t layers = options->layers ? options->layers : config->layers;
  bool keeps_table = !options->vocab && config->vocab_size_per_layer != LAP_ABSENT;
  *out = (resolved){
      .layers = layers,
      .shared = shared_layers(config, layers),
      .hidden = scaled(config->hidden_size, options->scale),
      .intermediate = scaled(config->intermediate_size, options->scale),
      .moe_width = scaled(config->moe_width, options->scale),
      .vocab = vocab,
      .per_layer_width = config->per_layer_width == LAP_ABSENT ? 0 : config->per_layer_width,
      .vocab_per_layer = keeps_table ? config->vocab_size_per_layer : vocab,
      .double_wide = config->double_wide_mlp == 1,
      .moe = config->moe == LAP_ABSENT ? config->num_experts > 0 : config->moe == 1,
  };
  return LAP_OK;
}

/* A smaller vocabulary must still hold the tokens that the configuration names. */
static lap_status check_tokens(const lap_forge_options *options, const lap_config *config, lap_error *error) {
  static const char *const keys[] = {"bos_token_id", "pad_token_id", "eos_token_id"};
  const lap_json *objects[] = {config->root, config->text};
  for (int i = 0; options->vocab && i < 6; i++) {
    const char *key = keys[i / 2];
    const lap_json *value = lap_json_get(config->document, objects[i % 2], key);
    bool list = value && value->type == LAP_JSON_ARRAY;
    for (const lap_json *id = list ? value->child : value; id; id = list ? id->next : NULL)
      if (id->type == LAP_JSON_INTEGER && id->integer >= options->vocab)
        return lap_fail(error, LAP_ERROR_ARGUMENT, "--vocab: %d leaves out token %lld, the %s of %s",
                        options->vocab, (long long)id->integer, key, options->config);
  }
  return LAP_OK;
}

/* ---- edits ---- */

typedef enum edit_kind {
  EDIT_INTEGER,
  EDIT_BOOL,
  EDIT_LAYER_TYPES,
  EDIT_QUANTIZATION,
  EDIT_REMOVE
} edit_kind;

/* A member of `object` that is replaced, added or removed. */
typedef struct edit {
  const lap_json *object;
  const char *key;
  edit_kind kind;
  int64_t value;
} edit;

typedef struct edits {
  const lap_config *config; /* the given one */
  int32_t layers, bits, group;
  edit list[MAX_EDITS];
  int count;
} edits;

static void add_edit(edits *e, const lap_json *object, const char *key, edit_kind kind, int64_t value) {
  e->list[e->count++] = (edit){object, key, kind, value};
}

/* Uniform bits and groups replace the whole map, exceptions included. */
static lap_status edit_quantization(edits *e, const lap_forge_options *options, lap_error *error) {
  const lap_config *config = e->config;
  int64_t bits = 0, group = DEFAULT_GROUP;
  if (!options->bits && !options->group) return LAP_OK;
  lap_status status =
      lap_json_get_integer(config->document, config->quantization, "bits", 1, 32, &bits, error);
  if (status == LAP_OK)
    status =
        lap_json_get_integer(config->document, config->quantization, "group_size", 1, 1024, &group, error);
  if (status != LAP_OK) return status;
  if (options->bits) bits = options->bits;
  if (options->group) group = options->group;
  if (!bits)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "--group: %s is not quantized; --bits is needed too",
                    options->config);
  e->bits = (int32_t)bits;
  e->group = (int32_t)group;
  bool dense = bits == LAP_FORGE_DENSE;
  add_edit(e, config->root, "quantization", dense ? EDIT_REMOVE : EDIT_QUANTIZATION, 0);
  add_edit(e, config->root, "quantization_config", EDIT_REMOVE, 0);
  return LAP_OK;
}

static lap_status make_edits(const lap_forge_options *options, const resolved *r, edits *e,
                             lap_error *error) {
  const lap_json *text = e->config->text;
  e->layers = r->layers;
  add_edit(e, text, "num_hidden_layers", EDIT_INTEGER, r->layers);
  add_edit(e, text, "layer_types", EDIT_LAYER_TYPES, 0);
  add_edit(e, text, "num_kv_shared_layers", EDIT_INTEGER, r->shared);
  add_edit(e, text, "hidden_size", EDIT_INTEGER, r->hidden);
  add_edit(e, text, "intermediate_size", EDIT_INTEGER, r->intermediate);
  add_edit(e, text, "vocab_size", EDIT_INTEGER, r->vocab);
  add_edit(e, text, "vocab_size_per_layer_input", EDIT_INTEGER, r->vocab_per_layer);
  add_edit(e, text, "hidden_size_per_layer_input", EDIT_INTEGER, r->per_layer_width);
  add_edit(e, text, "use_double_wide_mlp", EDIT_BOOL, r->double_wide);
  add_edit(e, text, "enable_moe_block", EDIT_BOOL, r->moe);
  if (r->moe_width > 0) add_edit(e, text, "moe_intermediate_size", EDIT_INTEGER, r->moe_width);
  return edit_quantization(e, options, error);
}

/* ---- writing JSON ---- */

static void put_string(FILE *out, const char *text, size_t length) {
  fputc('"', out);
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20)
      fprintf(out, "\\u%04x", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}

/* The shortest of two spellings that reads back as the same double, and as no integer. */
static void put_real(FILE *out, double value) {
  char text[40];
  snprintf(text, sizeof text, "%.15g", value);
  if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
  fprintf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void put_line(FILE *out, int depth) {
  fprintf(out, "\n%*s", depth, "");
}

static void put_layer_types(FILE *out, const edits *e, int depth) {
  fputc('[', out);
  for (int32_t i = 0; i < e->layers; i++) {
    if (i) fputc(',', out);
    put_line(out, depth + 1);
    fputs(e->config->layer_type[i] == LAP_FULL ? "\"full_attention\"" : "\"sliding_attention\"", out);
  }
  put_line(out, depth);
  fputc(']', out);
}

static void put_edit(FILE *out, const edits *e, const edit *change, int depth) {
  if (change->kind == EDIT_INTEGER)
    fprintf(out, "%lld", (long long)change->value);
  else if (change->kind == EDIT_BOOL)
    fputs(change->value ? "true" : "false", out);
  else if (change->kind == EDIT_LAYER_TYPES)
    put_layer_types(out, e, depth);
  else
    fprintf(out, "{\"group_size\": %d, \"bits\": %d, \"mode\": \"affine\"}", e->group, e->bits);
}

static const edit *find_edit(const edits *e, const lap_json *object, const char *key) {
  for (int i = 0; e && i < e->count; i++)
    if (e->list[i].object == object && !strcmp(e->list[i].key, key)) return &e->list[i];
  return NULL;
}

static void put_value(FILE *out, const lap_json *value, const edits *e, int depth);

static void put_key(FILE *out, const char *key, bool first, int depth) {
  if (!first) fputc(',', out);
  put_line(out, depth + 1);
  put_string(out, key, strlen(key));
  fputs(": ", out);
}

static bool has_member(const lap_json *object, const char *key) {
  for (const lap_json *member = object->child; member; member = member->next)
    if (!strcmp(member->key, key)) return true;
  return false;
}

static void put_object(FILE *out, const lap_json *object, const edits *e, int depth) {
  bool first = true;
  fputc('{', out);
  for (const lap_json *member = object->child; member; member = member->next) {
    const edit *change = find_edit(e, object, member->key);
    if (change && change->kind == EDIT_REMOVE) continue;
    put_key(out, member->key, first, depth);
    first = false;
    if (change)
      put_edit(out, e, change, depth + 1);
    else
      put_value(out, member, e, depth + 1);
  }
  for (int i = 0; e && i < e->count; i++) {
    const edit *change = &e->list[i];
    if (change->object != object || change->kind == EDIT_REMOVE || has_member(object, change->key)) continue;
    put_key(out, change->key, first, depth);
    first = false;
    put_edit(out, e, change, depth + 1);
  }
  put_line(out, depth);
  fputc('}', out);
}

static void put_array(FILE *out, const lap_json *array, const edits *e, int depth) {
  fputc('[', out);
  for (const lap_json *item = array->child; item; item = item->next) {
    if (item != array->child) fputc(',', out);
    put_line(out, depth + 1);
    put_value(out, item, e, depth + 1);
  }
  put_line(out, depth);
  fputc(']', out);
}

/* The parser bounds the depth (LAP_JSON_MAX_DEPTH), so recursion is bounded too. */
static void put_value(FILE *out, const lap_json *value, const edits *e, int depth) {
  switch (value->type) {
    case LAP_JSON_NULL:
      fputs("null", out);
      break;
    case LAP_JSON_BOOL:
      fputs(value->boolean ? "true" : "false", out);
      break;
    case LAP_JSON_INTEGER:
      fprintf(out, "%lld", (long long)value->integer);
      break;
    case LAP_JSON_REAL:
      put_real(out, value->real);
      break;
    case LAP_JSON_STRING:
      put_string(out, value->string, value->length);
      break;
    case LAP_JSON_ARRAY:
      put_array(out, value, e, depth);
      break;
    case LAP_JSON_OBJECT:
      put_object(out, value, e, depth);
      break;
  }
}

/* ---- the two files ---- */

static lap_status close_text(FILE *out, const char *name, lap_error *error) {
  bool failed = ferror(out) != 0;
  if (fclose(out) != 0 || failed) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
  return LAP_OK;
}

static lap_status write_text(const lap_json *root, const edits *e, const char *name,
                             lap_forge_configuration *out, lap_error *error) {
  FILE *stream = open_memstream(&out->text, &out->length);
  if (!stream) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
  put_value(stream, root, e, 0);
  fputc('\n', stream);
  return close_text(stream, name, error);
}

lap_status lap_forge_configure(const lap_forge_options *options, lap_forge_configuration *out,
                               lap_error *error) {
  lap_json_document *given = NULL;
  edits e = {.config = &out->config}; /* the given one, until the written one is read over it */
  resolved numbers = {0};
  *out = (lap_forge_configuration){0};
  lap_status status = lap_json_read(options->config, MAX_JSON_BYTES, &given, error);
  if (status == LAP_OK) status = lap_config_read(given, &out->config, error);
  if (status == LAP_OK) status = resolve(options, &out->config, &numbers, error);
  if (status == LAP_OK) status = check_tokens(options, &out->config, error);
  if (status == LAP_OK) status = make_edits(options, &numbers, &e, error);
  if (status == LAP_OK) status = write_text(lap_json_root(given), &e, options->config, out, error);
  if (status == LAP_OK)
    status = lap_json_parse(out->text, out->length, options->config, &out->document, error);
  if (status == LAP_OK) status = lap_config_read(out->document, &out->config, error);
  lap_json_free(given);
  return status;
}

void lap_forge_configuration_free(lap_forge_configuration *configuration) {
  lap_json_free(configuration->document);
  free(configuration->text);
  *configuration = (lap_forge_configuration){0};
}

/* An entry for a layer that is gone, or that has no cache of its own any more. */
static bool is_stale(const lap_json_document *document, const lap_json *entry, int32_t donors) {
  const lap_json *index = lap_json_get(document, entry, "layer_idx");
  return index && index->type == LAP_JSON_INTEGER && index->integer >= donors;
}

static void put_entries(FILE *out, const lap_json_document *document, int32_t donors) {
  bool first = true;
  fputc('[', out);
  for (const lap_json *entry = lap_json_root(document)->child; entry; entry = entry->next) {
    if (is_stale(document, entry, donors)) continue;
    fputs(first ? "\n " : ",\n ", out);
    put_value(out, entry, NULL, 1);
    first = false;
  }
  fputs("\n]\n", out);
}

lap_status lap_forge_kv_config(const lap_forge_options *options, const lap_config *config, char **text,
                               size_t *length, lap_error *error) {
  lap_json_document *document = NULL;
  int32_t donors = options->layers ? config->layers - config->shared_layers : INT32_MAX;
  FILE *out = NULL;
  *text = NULL;
  lap_status status = lap_json_read(options->kv_config, MAX_JSON_BYTES, &document, error);
  if (status != LAP_OK) return status;
  if (lap_json_root(document)->type != LAP_JSON_ARRAY) {
    status = lap_json_fail(document, NULL, error, "must be a JSON array of {layer_idx, bits, group_size}");
  } else if (!(out = open_memstream(text, length))) {
    status = lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", options->kv_config);
  } else {
    put_entries(out, document, donors);
    status = close_text(out, options->kv_config, error);
  }
  lap_json_free(document);
  return status;
}
