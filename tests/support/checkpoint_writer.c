/* checkpoint_writer.c: one walk over a spec writes the tensors, another the configuration. */
#include "support/checkpoint_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "support/check.h"

/* ---- a safetensors file in memory ---- */

struct tensor_file {
  FILE *header, *data; /* memory streams */
  char *header_text, *data_bytes;
  size_t header_length, data_length;
  uint64_t written;
};

tensor_file *tensor_file_new(void) {
  tensor_file *file = calloc(1, sizeof *file);
  assert_non_null(file);
  file->header = open_memstream(&file->header_text, &file->header_length);
  file->data = open_memstream(&file->data_bytes, &file->data_length);
  assert_true(file->header && file->data);
  return file;
}

void tensor_file_free(tensor_file *file) {
  fclose(file->header);
  fclose(file->data);
  free(file->header_text);
  free(file->data_bytes);
  free(file);
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

/* Values of a size that keeps activations of a tiny model near 1. */
static float value_for(const char *name, random_source *source) {
  if (ends_with(name, ".scales")) return random_float(source, 0.004f, 0.012f);
  if (ends_with(name, ".biases")) return random_float(source, -0.1f, -0.02f);
  if (ends_with(name, "norm.weight") || strstr(name, "layernorm") || ends_with(name, "scalar") ||
      ends_with(name, "scale"))
    return random_float(source, 0.6f, 1.4f);
  return random_float(source, -0.1f, 0.1f);
}

static random_source source_for(const char *name) {
  random_source source = {.state = 14695981039346656037u};
  for (; *name; name++) source.state = (source.state ^ (unsigned char)*name) * 1099511628211u;
  return source;
}

static void write_values(tensor_file *file, const char *name, const char *dtype, size_t count) {
  random_source source = source_for(name);
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    if (!strcmp(dtype, "U32"))
      bits = (uint32_t)random_bits(&source);
    else if (!strcmp(dtype, "F32"))
      bits = lap_f32_bits(value_for(name, &source));
    else if (!strcmp(dtype, "F16"))
      bits = lap_f32_to_f16(value_for(name, &source));
    else
      bits = lap_f32_to_bf16(value_for(name, &source));
    size_t size = ends_with(dtype, "16") ? 2 : 4;
    fwrite(&bits, size, 1, file->data);
    file->written += size;
  }
}

void tensor_file_add(tensor_file *file, const char *name, size_t skip, const char *dtype, int rank,
                     const int64_t *shape) {
  uint64_t begin = file->written;
  size_t count = 1;
  fprintf(file->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", begin ? "," : "", name, dtype);
  for (int i = 0; i < rank; i++) {
    fprintf(file->header, "%s%lld", i ? "," : "", (long long)shape[i]);
    count *= (size_t)shape[i];
  }
  write_values(file, name + skip, dtype, count);
  fprintf(file->header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
          (unsigned long long)file->written);
}

static unsigned char *join(const char *open, const char *header, size_t header_length, const char *close,
                           const void *data, size_t data_length, size_t *length) {
  uint64_t total = strlen(open) + header_length + strlen(close);
  *length = 8 + total + data_length;
  unsigned char *bytes = malloc(*length);
  assert_non_null(bytes);
  memcpy(bytes, &total, 8);
  unsigned char *at = (unsigned char *)stpcpy((char *)bytes + 8, open);
  memcpy(at, header, header_length);
  at += header_length;
  memcpy(at, close, strlen(close));
  at += strlen(close);
  if (data)
    memcpy(at, data, data_length);
  else
    memset(at, 0, data_length);
  return bytes;
}

unsigned char *tensor_file_bytes(const tensor_file *file, size_t *length) {
  fflush(file->header);
  fflush(file->data);
  return join("{", file->header_text, file->header_length, "}", file->data_bytes, file->data_length, length);
}

unsigned char *raw_tensor_file(const char *header, size_t data_bytes, size_t *length) {
  return join("", header, strlen(header), "", NULL, data_bytes, length);
}

/* ---- the published structures in small ---- */

#define COMMON                                                                                           \
  .prefix = "language_model.model.", .nested = true, .vocab = 64, .head_dim = 32, .global_head_dim = 64, \
  .bits = 4, .group = 32

const checkpoint_spec spec_e2b = {COMMON,
                                  .hidden = 64,
                                  .layers = 35,
                                  .period = 5,
                                  .intermediate = 64,
                                  .heads = 4,
                                  .kv_heads = 1,
                                  .window = 16,
                                  .shared_layers = 20,
                                  .per_layer_width = 32,
                                  .double_wide = true,
                                  .projection_bits = 4};

const checkpoint_spec spec_e4b = {
    COMMON,        .hidden = 64, .layers = 42,        .period = 6,           .intermediate = 96,  .heads = 4,
    .kv_heads = 2, .window = 16, .shared_layers = 18, .per_layer_width = 32, .projection_bits = 8};

const checkpoint_spec spec_12b = {
    COMMON,        .hidden = 96,         .layers = 48, .period = 6,    .intermediate = 96, .heads = 4,
    .kv_heads = 2, .global_kv_heads = 1, .window = 32, .k_eq_v = true, .mlp_bits = 8};

const checkpoint_spec spec_26b = {
    COMMON,        .hidden = 64,  .layers = 30,         .period = 6,     .intermediate = 64,
    .heads = 4,    .kv_heads = 2, .global_kv_heads = 1, .window = 32,    .k_eq_v = true,
    .experts = 16, .top_k = 8,    .moe_width = 32,      .router_bits = 8};

const checkpoint_spec spec_31b = {
    COMMON,     .hidden = 64,  .layers = 60,         .period = 6,  .intermediate = 128,
    .heads = 8, .kv_heads = 4, .global_kv_heads = 2, .window = 32, .k_eq_v = true};

/* ---- tensors ---- */

typedef struct walk {
  const checkpoint_spec *spec;
  tensor_file *file;
  FILE *overrides; /* members of the quantization map, each with a comma before it */
} walk;

static void add_vector(walk *w, const char *path, int64_t length) {
  char name[256];
  snprintf(name, sizeof name, "%s%s", w->spec->prefix, path);
  tensor_file_add(w->file, name, strlen(w->spec->prefix), "BF16", 1, &length);
}

static void add_part(walk *w, const char *prefix, const char *path, const char *suffix, const char *dtype,
                     int64_t experts, int64_t rows, int64_t columns) {
  char name[256];
  int64_t shape[3] = {experts, rows, columns};
  snprintf(name, sizeof name, "%s%s%s", prefix, path, suffix);
  tensor_file_add(w->file, name, strlen(prefix), dtype, experts ? 3 : 2, experts ? shape : shape + 1);
}

/* bits 0 = dense. */
static void add_module(walk *w, const char *prefix, const char *path, int64_t experts, int64_t rows,
                       int64_t columns, int bits) {
  if (!bits) {
    add_part(w, prefix, path, ".weight", "BF16", experts, rows, columns);
    return;
  }
  add_part(w, prefix, path, ".weight", "U32", experts, rows, columns * bits / 32);
  add_part(w, prefix, path, ".scales", "BF16", experts, rows, columns / w->spec->group);
  add_part(w, prefix, path, ".biases", "BF16", experts, rows, columns / w->spec->group);
}

static void note_override(walk *w, const char *path, int bits) {
  const char *prefix = w->spec->key_prefix ? w->spec->key_prefix : w->spec->prefix;
  if (bits)
    fprintf(w->overrides, ",\"%s%s\":{\"group_size\":%d,\"bits\":%d}", prefix, path, w->spec->group, bits);
  else
    fprintf(w->overrides, ",\"%s%s\":false", prefix, path);
}

static void add_linear(walk *w, const char *path, int64_t experts, int64_t rows, int64_t columns) {
  const checkpoint_spec *spec = w->spec;
  int bits = spec->bits;
  bool overridden = true;
  if (!bits)
    overridden = false;
  else if (spec->dense && !strcmp(path, spec->dense))
    bits = 0;
  else if (!strcmp(path, "per_layer_model_projection"))
    bits = spec->projection_bits;
  else if (spec->mlp_bits && strstr(path, ".mlp."))
    bits = spec->mlp_bits;
  else if (spec->router_bits && strstr(path, "router.proj"))
    bits = spec->router_bits;
  else
    overridden = false;
  if (overridden) note_override(w, path, bits);
  add_module(w, spec->prefix, path, experts, rows, columns, bits);
}

static bool is_full(const checkpoint_spec *spec, int layer) {
  return layer % spec->period == spec->period - 1;
}

static const char *in_layer(int layer, const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "layers.%d.%s", layer, name);
  return path;
}

static void add_attention(walk *w, int i, bool sharer) {
  const checkpoint_spec *spec = w->spec;
  bool full = is_full(spec, i);
  int head_dim = full ? spec->global_head_dim : spec->head_dim;
  int kv_heads = full && spec->k_eq_v && spec->global_kv_heads ? spec->global_kv_heads : spec->kv_heads;
  add_linear(w, in_layer(i, "self_attn.q_proj"), 0, spec->heads * head_dim, spec->hidden);
  add_linear(w, in_layer(i, "self_attn.o_proj"), 0, spec->hidden, spec->heads * head_dim);
  add_vector(w, in_layer(i, "self_attn.q_norm.weight"), head_dim);
  if (sharer && !spec->unused_sharer_kv) return;
  add_linear(w, in_layer(i, "self_attn.k_proj"), 0, kv_heads * head_dim, spec->hidden);
  if (!(full && spec->k_eq_v))
    add_linear(w, in_layer(i, "self_attn.v_proj"), 0, kv_heads * head_dim, spec->hidden);
  add_vector(w, in_layer(i, "self_attn.k_norm.weight"), head_dim);
}

static void add_experts(walk *w, int i) {
  const checkpoint_spec *spec = w->spec;
  add_linear(w, in_layer(i, "router.proj"), 0, spec->experts, spec->hidden);
  add_vector(w, in_layer(i, "router.scale"), spec->hidden);
  add_vector(w, in_layer(i, "router.per_expert_scale"), spec->experts);
  add_linear(w, in_layer(i, "experts.switch_glu.gate_proj"), spec->experts, spec->moe_width, spec->hidden);
  add_linear(w, in_layer(i, "experts.switch_glu.up_proj"), spec->experts, spec->moe_width, spec->hidden);
  add_linear(w, in_layer(i, "experts.switch_glu.down_proj"), spec->experts, spec->hidden, spec->moe_width);
  add_vector(w, in_layer(i, "pre_feedforward_layernorm_2.weight"), spec->hidden);
  add_vector(w, in_layer(i, "post_feedforward_layernorm_1.weight"), spec->hidden);
  add_vector(w, in_layer(i, "post_feedforward_layernorm_2.weight"), spec->hidden);
}

static void add_layer(walk *w, int i) {
  const checkpoint_spec *spec = w->spec;
  bool sharer = i >= spec->layers - spec->shared_layers;
  int width = spec->intermediate * (sharer && spec->double_wide ? 2 : 1);
  add_attention(w, i, sharer);
  add_linear(w, in_layer(i, "mlp.gate_proj"), 0, width, spec->hidden);
  add_linear(w, in_layer(i, "mlp.up_proj"), 0, width, spec->hidden);
  add_linear(w, in_layer(i, "mlp.down_proj"), 0, spec->hidden, width);
  add_vector(w, in_layer(i, "input_layernorm.weight"), spec->hidden);
  add_vector(w, in_layer(i, "post_attention_layernorm.weight"), spec->hidden);
  add_vector(w, in_layer(i, "pre_feedforward_layernorm.weight"), spec->hidden);
  add_vector(w, in_layer(i, "post_feedforward_layernorm.weight"), spec->hidden);
  if (!spec->no_layer_scalar) add_vector(w, in_layer(i, "layer_scalar"), 1);
  if (spec->experts) add_experts(w, i);
  if (!spec->per_layer_width) return;
  add_linear(w, in_layer(i, "per_layer_input_gate"), 0, spec->per_layer_width, spec->hidden);
  add_linear(w, in_layer(i, "per_layer_projection"), 0, spec->hidden, spec->per_layer_width);
  add_vector(w, in_layer(i, "post_per_layer_input_norm.weight"), spec->hidden);
}

static void add_tensors(walk *w) {
  const checkpoint_spec *spec = w->spec;
  int all = spec->layers * spec->per_layer_width;
  add_linear(w, "embed_tokens", 0, spec->vocab, spec->hidden);
  add_vector(w, "norm.weight", spec->hidden);
  if (spec->head) add_module(w, "", spec->head, 0, spec->vocab, spec->hidden, spec->bits);
  if (all) {
    add_linear(w, "embed_tokens_per_layer", 0, spec->vocab, all);
    add_linear(w, "per_layer_model_projection", 0, all, spec->hidden);
    add_vector(w, "per_layer_projection_norm.weight", spec->per_layer_width);
  }
  for (int i = 0; i < spec->layers; i++) add_layer(w, i);
}

/* ---- configuration ---- */

static const char *boolean(bool value) {
  return value ? "true" : "false";
}

static void put_or_null(FILE *out, const char *key, int value) {
  if (value)
    fprintf(out, "\"%s\": %d, ", key, value);
  else
    fprintf(out, "\"%s\": null, ", key);
}

static void write_text_fields(FILE *out, const checkpoint_spec *spec) {
  fprintf(out, "\"hidden_size\": %d, \"num_hidden_layers\": %d, \"intermediate_size\": %d, ", spec->hidden,
          spec->layers, spec->intermediate);
  fprintf(out, "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, ", spec->heads, spec->kv_heads);
  put_or_null(out, "num_global_key_value_heads", spec->global_kv_heads);
  fprintf(out, "\"head_dim\": %d, \"global_head_dim\": %d, \"sliding_window\": %d, ", spec->head_dim,
          spec->global_head_dim, spec->window);
  fprintf(out, "\"num_kv_shared_layers\": %d, \"hidden_size_per_layer_input\": %d, ", spec->shared_layers,
          spec->per_layer_width);
  fprintf(out, "\"vocab_size\": %d, \"vocab_size_per_layer_input\": %d, ", spec->vocab, spec->vocab);
  fprintf(out, "\"attention_k_eq_v\": %s, \"use_double_wide_mlp\": %s, ", boolean(spec->k_eq_v),
          boolean(spec->double_wide));
  fprintf(out, "\"enable_moe_block\": %s, ", boolean(spec->experts > 0));
  put_or_null(out, "num_experts", spec->experts);
  put_or_null(out, "top_k_experts", spec->top_k);
  put_or_null(out, "moe_intermediate_size", spec->moe_width);
  fprintf(out,
          "\"rms_norm_eps\": 1e-06, \"final_logit_softcapping\": 30.0, \"max_position_embeddings\": 4096, ");
  fprintf(out, "\"hidden_activation\": \"gelu_pytorch_tanh\", \"attention_bias\": false, ");
  fprintf(out,
          "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", \"rope_theta\": "
          "1000000.0, "
          "\"partial_rotary_factor\": 0.25}, \"sliding_attention\": {\"rope_type\": \"default\", "
          "\"rope_theta\": 10000.0}}, ");
  fprintf(out, "\"tie_word_embeddings\": %s, \"bos_token_id\": 2, \"pad_token_id\": 0, ",
          boolean(!spec->head));
  if (spec->text_extra) fputs(spec->text_extra, out);
  fprintf(out, "\"layer_types\": [");
  for (int i = 0; i < spec->layers; i++)
    fprintf(out, "%s\"%s_attention\"", i ? ", " : "", is_full(spec, i) ? "full" : "sliding");
  fprintf(out, "]");
}

static char *write_config(const checkpoint_spec *spec, const char *overrides) {
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  if (spec->nested) {
    fprintf(out, "{\"model_type\": \"gemma4\", \"text_config\": {\"model_type\": \"gemma4_text\", ");
    write_text_fields(out, spec);
    fprintf(out, "}, \"eos_token_id\": [1, 10]");
  } else {
    fprintf(out, "{\"model_type\": \"gemma4_text\", ");
    write_text_fields(out, spec);
    fprintf(out, ", \"eos_token_id\": [1, 10]");
  }
  if (spec->bits)
    fprintf(out, ", \"quantization\": {\"group_size\": %d, \"bits\": %d, \"mode\": \"affine\"%s}",
            spec->group, spec->bits, overrides);
  fprintf(out, "}\n");
  fclose(out);
  return text;
}

checkpoint checkpoint_make(const checkpoint_spec *spec) {
  char *overrides = NULL;
  size_t overrides_length;
  walk w = {
      .spec = spec, .file = tensor_file_new(), .overrides = open_memstream(&overrides, &overrides_length)};
  assert_non_null(w.overrides);
  add_tensors(&w);
  fclose(w.overrides);
  checkpoint made = {.config = write_config(spec, overrides)};
  made.weights = tensor_file_bytes(w.file, &made.weight_bytes);
  tensor_file_free(w.file);
  free(overrides);
  return made;
}

void checkpoint_free(checkpoint *made) {
  free(made->config);
  free(made->weights);
  *made = (checkpoint){0};
}

void checkpoint_save(const checkpoint *made, const char *directory) {
  write_file(directory, "config.json", made->config, strlen(made->config));
  write_file(directory, "model.safetensors", made->weights, made->weight_bytes);
}

/* ---- files and texts ---- */

char *make_directory(void) {
  char *path = strdup("/tmp/lapidary-test-XXXXXX");
  assert_non_null(path);
  assert_non_null(mkdtemp(path));
  return path;
}

void remove_directory(char *directory) {
  DIR *entries = opendir(directory);
  assert_non_null(entries);
  for (struct dirent *entry; (entry = readdir(entries));) {
    if (entry->d_name[0] == '.') continue;
    unlinkat(dirfd(entries), entry->d_name, entry->d_type == DT_DIR ? AT_REMOVEDIR : 0);
  }
  closedir(entries);
  assert_int_equal(rmdir(directory), 0);
  free(directory);
}

void write_file(const char *directory, const char *name, const void *data, size_t length) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  if (length) assert_int_equal(fwrite(data, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

char *replaced(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  if (!at) fail_msg("the text holds no '%s'", from);
  char *out = malloc(strlen(text) + strlen(to) + 1);
  assert_non_null(out);
  size_t before = (size_t)(at - text);
  memcpy(out, text, before);
  strcpy(stpcpy(out + before, to), at + strlen(from));
  return out;
}
