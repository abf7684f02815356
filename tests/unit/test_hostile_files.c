/* Files that lie: each is refused with a message that names the file and the field, under the
 * sanitizers, and leaves nothing allocated. */
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/snapshot.h"
#include "checkpoint/plan.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

static void expect_refused(lap_status status, const lap_error *error, const char *file, const char *field) {
  if (status == LAP_OK) fail_msg("accepted, expected a message about %s", field);
  assert_int_equal(status, error->status);
  if (!strstr(error->message, file)) fail_msg("'%s' does not name %s", error->message, file);
  if (!strstr(error->message, field)) fail_msg("'%s' does not say '%s'", error->message, field);
}

/* ---- safetensors ---- */

static void expect_bytes_refused(const unsigned char *bytes, size_t length, const char *field) {
  lap_error error = {0};
  lap_tensors *tensors;
  lap_status status = lap_tensors_open_memory(bytes, length, "bad.safetensors", &tensors, &error);
  expect_refused(status, &error, "bad.safetensors", field);
  assert_null(tensors);
}

static void expect_header_refused(const char *header, size_t data_bytes, const char *field) {
  size_t length;
  unsigned char *bytes = raw_tensor_file(header, data_bytes, &length);
  expect_bytes_refused(bytes, length, field);
  free(bytes);
}

static void header_lengths_that_cannot_be(void **state) {
  (void)state;
  static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, 1ull << 63, 0, 3, 100000001, 1ull << 32};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    unsigned char bytes[10] = {[8] = '{', [9] = '}'};
    memcpy(bytes, &lengths[i], 8);
    expect_bytes_refused(bytes, sizeof bytes, "header length");
  }
  unsigned char seven[7] = {0};
  expect_bytes_refused(seven, sizeof seven, "header length");
  expect_bytes_refused(seven, 0, "header length");
}

static void headers_that_are_not_a_json_object(void **state) {
  (void)state;
  expect_header_refused("not json", 0, "not valid JSON");
  expect_header_refused("[]", 0, "JSON object");
  expect_header_refused("{}", 0, "no tensors");
  expect_header_refused("{\"__metadata__\":{}}", 0, "no tensors");
  expect_header_refused("{\"t\":3}", 0, "t: must be an object");
  expect_header_refused("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} x", 4,
                        "not valid JSON");
  char *deep = malloc(100001);
  assert_non_null(deep);
  memset(deep, '[', 100000);
  deep[100000] = '\0';
  expect_header_refused(deep, 0, "nested too deep");
  free(deep);
}

#define ENTRY(name, dtype, shape, offsets) \
  "\"" name "\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void duplicate_names(void **state) {
  (void)state;
  expect_header_refused(
      "{" ENTRY("t", "\"F32\"", "[1]", "[0,4]") "," ENTRY("t", "\"F32\"", "[1]", "[4,8]") "}", 8,
      "t: this key occurs twice");
}

static void unknown_dtypes(void **state) {
  (void)state;
  expect_header_refused("{" ENTRY("t", "\"Q4\"", "[1]", "[0,4]") "}", 4, "t.dtype: unknown dtype 'Q4'");
  expect_header_refused("{" ENTRY("t", "\"f32\"", "[1]", "[0,4]") "}", 4, "t.dtype");
  expect_header_refused("{" ENTRY("t", "7", "[1]", "[0,4]") "}", 4, "t.dtype: must be a string");
  expect_header_refused("{" ENTRY("t", "null", "[1]", "[0,4]") "}", 4, "t: dtype is missing");
  expect_header_refused("{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "t: dtype is missing");
}

static void dims_that_are_no_sizes(void **state) {
  (void)state;
  static const char *const shapes[] = {"[-1]", "[1.5]", "[1e0]", "[\"1\"]", "[null]", "[9223372036854775808]",
                                       "[[1]]"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    char header[200];
    snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,4]}}",
             shapes[i]);
    expect_header_refused(header, 4, "t.shape[0]: a size must be");
  }
  expect_header_refused("{" ENTRY("t", "\"F32\"", "4", "[0,4]") "}", 4, "t.shape: shape must be an array");
  expect_header_refused("{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "t: shape must be an array");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4,
                        "t.shape: 9 dimensions");
}

static void products_that_overflow(void **state) {
  (void)state;
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[4294967296,4294967296]", "[0,0]") "}", 0,
                        "t.shape: the product");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[4611686018427387905]", "[0,4]") "}", 4,
                        "t.shape: the product");
  expect_header_refused("{" ENTRY("t", "\"U8\"", "[9223372036854775807,2]", "[0,4]") "}", 4,
                        "t.shape: the product");
  expect_header_refused("{" ENTRY("t", "\"F4\"", "[3]", "[0,1]") "}", 1, "t.shape: the product");
}

static void offsets_that_lie(void **state) {
  (void)state;
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[4,0]") "}", 4,
                        "t.data_offsets: [4, 0] are reversed");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[0,8]") "}", 4, "t.data_offsets: end 8 is beyond");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[0,9223372036854775807]") "}", 4, "is beyond");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[0,18446744073709551615]") "}", 4,
                        "t.data_offsets");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[-4,0]") "}", 4, "t.data_offsets");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[0,4.0]") "}", 4, "t.data_offsets");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[0]") "}", 4, "t.data_offsets");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[0,4,8]") "}", 4, "t.data_offsets");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "{}") "}", 4, "t.data_offsets");
  expect_header_refused("{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets must be");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[2]", "[0,4]") "}", 4, "t: data_offsets span 4 bytes");
  expect_header_refused("{" ENTRY("t", "\"F32\"", "[1]", "[0,8]") "}", 8, "t: data_offsets span 8 bytes");
}

static void data_that_is_not_tiled(void **state) {
  (void)state;
  expect_header_refused(
      "{" ENTRY("a", "\"F32\"", "[2]", "[0,8]") "," ENTRY("b", "\"F32\"", "[2]", "[4,12]") "}", 12,
      "b: data_offsets overlap");
  expect_header_refused(
      "{" ENTRY("a", "\"F32\"", "[1]", "[0,4]") "," ENTRY("b", "\"F32\"", "[1]", "[0,4]") "}", 4,
      "data_offsets overlap");
  expect_header_refused(
      "{" ENTRY("a", "\"F32\"", "[1]", "[0,4]") "," ENTRY("b", "\"F32\"", "[1]", "[8,12]") "}", 12,
      "b: data_offsets leave a gap");
  expect_header_refused("{" ENTRY("a", "\"F32\"", "[1]", "[4,8]") "}", 8, "a: data_offsets leave a gap");
  expect_header_refused("{" ENTRY("a", "\"F32\"", "[1]", "[0,4]") "}", 5, "1 trailing bytes");
}

static void long_names_are_cut_in_messages(void **state) {
  (void)state;
  char header[6000], name[5001];
  memset(name, 'x', 5000);
  name[5000] = '\0';
  snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"Q4\",\"shape\":[1],\"data_offsets\":[0,4]}}", name);
  expect_header_refused(header, 4, "dtype: unknown dtype");
}

/* ---- directories ---- */

static void expect_directory_refused(const char *directory, const char *file, const char *field) {
  lap_error error = {0};
  lap_tensors *tensors;
  lap_status status = lap_tensors_open(directory, &tensors, &error);
  expect_refused(status, &error, file, field);
  assert_null(tensors);
}

static void write_text(const char *directory, const char *name, const char *text) {
  write_file(directory, name, text, strlen(text));
}

static void write_shard(const char *directory, const char *name, const char *tensor) {
  char header[200];
  size_t length;
  snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
           tensor);
  unsigned char *bytes = raw_tensor_file(header, 4, &length);
  write_file(directory, name, bytes, length);
  free(bytes);
}

static void an_index_that_lies(void **state) {
  (void)state;
  static const char index_name[] = "model.safetensors.index.json";
  static const struct {
    const char *index, *file, *field;
  } cases[] = {
      {"{\"weight_map\":{\"a\":\"one\",\"b\":\"gone\"}}", "gone", "cannot be opened"},
      {"{\"weight_map\":{\"a\":\"../one\"}}", index_name, "weight_map.a"},
      {"{\"weight_map\":{\"a\":\"..\"}}", index_name, "weight_map.a"},
      {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", index_name, "weight_map.a"},
      {"{\"weight_map\":{\"a\":\"sub/one\"}}", index_name, "weight_map.a"},
      {"{\"weight_map\":{\"a\":\"\"}}", index_name, "weight_map.a"},
      {"{\"weight_map\":{\"a\":\"one\\u0000\"}}", index_name, "weight_map.a"},
      {"{\"weight_map\":{\"a\":3}}", index_name, "weight_map.a"},
      {"{\"weight_map\":{\"a\":\"two\",\"b\":\"one\"}}", index_name,
       "weight_map.a: this tensor is not in two"},
      {"{\"weight_map\":{\"a\":\"one\",\"c\":\"one\"}}", index_name,
       "weight_map.c: this tensor is not in one"},
      {"{\"weight_map\":{\"a\":\"one\",\"b\":\"again\"}}", "again", "a: this tensor also stands in"},
      {"{\"weight_map\":{}}", index_name, "weight_map"},
      {"{\"weight_map\":[]}", index_name, "weight_map"},
      {"{\"metadata\":{}}", index_name, "weight_map: missing"},
      {"[]", index_name, "weight_map"},
      {"{", index_name, "not valid JSON"},
      {"", index_name, "empty"},
  };
  char *directory = make_directory();
  write_shard(directory, "one", "a");
  write_shard(directory, "two", "b");
  write_shard(directory, "again", "a");
  write_text(directory, index_name, "{\"weight_map\":{\"a\":\"one\",\"b\":\"two\"}}");
  lap_error error;
  lap_tensors *tensors;
  expect_ok(lap_tensors_open(directory, &tensors, &error), &error);
  lap_tensors_close(tensors);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_text(directory, index_name, cases[i].index);
    expect_directory_refused(directory, cases[i].file, cases[i].field);
  }
  remove_directory(directory);
}

static void things_that_are_not_files(void **state) {
  (void)state;
  char *directory = make_directory();
  expect_directory_refused(directory, "model.safetensors", "cannot be opened");
  write_text(directory, "model.safetensors", "");
  expect_directory_refused(directory, "model.safetensors", "header length");
  assert_int_equal(remove(path_of("%s/model.safetensors", directory)), 0);
  assert_int_equal(mkdir(path_of("%s/model.safetensors", directory), 0700), 0);
  expect_directory_refused(directory, "model.safetensors", "not a regular file");
  assert_int_equal(rmdir(path_of("%s/model.safetensors", directory)), 0);
  assert_int_equal(mkfifo(path_of("%s/model.safetensors", directory), 0600), 0);
  expect_directory_refused(directory, "model.safetensors", "not a regular file");
  remove_directory(directory);
  expect_directory_refused("/nonexistent/model", "/nonexistent/model", "cannot be opened");
}

static void a_directory_without_a_config(void **state) {
  (void)state;
  char *directory = make_directory();
  checkpoint made = checkpoint_make(&spec_31b);
  checkpoint_save(&made, directory);
  lap_error error = {0};
  lap_tensors *tensors;
  lap_plan *plan;
  expect_ok(lap_tensors_open(directory, &tensors, &error), &error);
  assert_int_equal(remove(path_of("%s/config.json", directory)), 0);
  lap_status status = lap_plan_build(directory, tensors, LAP_KV_PLAIN, &plan, &error);
  expect_refused(status, &error, "config.json", "cannot be opened");
  assert_null(plan);
  lap_tensors_close(tensors);
  checkpoint_free(&made);
  remove_directory(directory);
}

/* ---- config.json ---- */

typedef struct texts {
  const char *config, *kv_config, *generation;
} texts;

static lap_status build(const checkpoint *made, const texts *t, lap_error *error) {
  lap_tensors *tensors;
  lap_plan *plan;
  expect_ok(lap_tensors_open_memory(made->weights, made->weight_bytes, "model.safetensors", &tensors, error),
            error);
  lap_status status = lap_plan_build_memory(
      t->config, strlen(t->config), t->kv_config, t->kv_config ? strlen(t->kv_config) : 0, t->generation,
      t->generation ? strlen(t->generation) : 0, tensors, LAP_KV_CONFIG, &plan, error);
  lap_plan_free(plan);
  lap_tensors_close(tensors);
  return status;
}

typedef struct change {
  const char *from, *to, *field;
} change;

static void expect_changes_refused(const checkpoint_spec *spec, const change *changes, size_t count,
                                   lap_status expected, const char *file) {
  checkpoint made = checkpoint_make(spec);
  for (size_t i = 0; i < count; i++) {
    char *config = replaced(made.config, changes[i].from, changes[i].to);
    lap_error error = {0};
    lap_status status = build(&made, &(texts){.config = config}, &error);
    expect_refused(status, &error, file, changes[i].field);
    assert_int_equal(status, expected);
    free(config);
  }
  checkpoint_free(&made);
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void numbers_out_of_range(void **state) {
  (void)state;
  static const change changes[] = {
      {"\"num_hidden_layers\": 42", "\"num_hidden_layers\": 0", "text_config.num_hidden_layers"},
      {"\"num_hidden_layers\": 42", "\"num_hidden_layers\": -1", "text_config.num_hidden_layers"},
      {"\"num_hidden_layers\": 42", "\"num_hidden_layers\": 1000000000", "text_config.num_hidden_layers"},
      {"\"num_hidden_layers\": 42", "\"num_hidden_layers\": 42.5", "text_config.num_hidden_layers"},
      {"\"num_hidden_layers\": 42", "\"num_hidden_layers\": \"42\"", "text_config.num_hidden_layers"},
      {"\"num_hidden_layers\": 42", "\"num_hidden_layers\": null", "num_hidden_layers: missing"},
      {"\"num_hidden_layers\": 42", "\"num_hidden_layers\": 41", "text_config.layer_types: has 42"},
      {"\"hidden_size\": 64", "\"hidden_size\": 0", "text_config.hidden_size"},
      {"\"hidden_size\": 64", "\"hidden_size\": 65537", "text_config.hidden_size"},
      {"\"hidden_size\": 64", "\"hidden_size\": 99999999999999999999", "text_config.hidden_size"},
      {"\"hidden_size\": 64, ", "", "text_config: hidden_size: missing"},
      {"\"intermediate_size\": 96", "\"intermediate_size\": 0", "text_config.intermediate_size"},
      {"\"vocab_size\": 64", "\"vocab_size\": 0", "text_config.vocab_size"},
      {"\"vocab_size\": 64", "\"vocab_size\": 4194305", "text_config.vocab_size"},
      {"\"num_attention_heads\": 4", "\"num_attention_heads\": 0", "text_config.num_attention_heads"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 0", "text_config.num_key_value_heads"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "num_key_value_heads: 3 does not divide"},
      {"\"num_global_key_value_heads\": null", "\"num_global_key_value_heads\": 3",
       "num_global_key_value_heads: 3 does not divide"},
      {"\"head_dim\": 32", "\"head_dim\": 33", "head_dim: 33 is not a multiple"},
      {"\"head_dim\": 32", "\"head_dim\": 0", "text_config.head_dim"},
      {"\"global_head_dim\": 64", "\"global_head_dim\": 2048", "text_config.global_head_dim"},
      {"\"global_head_dim\": 64", "\"global_head_dim\": 63", "global_head_dim: 63 is not a multiple"},
      {"\"sliding_window\": 16", "\"sliding_window\": 0", "text_config.sliding_window"},
      {"\"num_kv_shared_layers\": 18", "\"num_kv_shared_layers\": 42", "num_kv_shared_layers: 42"},
      {"\"num_kv_shared_layers\": 18", "\"num_kv_shared_layers\": 1000000", "num_kv_shared_layers"},
      {"\"num_kv_shared_layers\": 18", "\"num_kv_shared_layers\": -1", "text_config.num_kv_shared_layers"},
      {"\"num_kv_shared_layers\": 18", "\"num_kv_shared_layers\": 39",
       "num_kv_shared_layers: layer 5 shares"},
      /* a token beyond the per-layer table would read past its end */
      {"\"vocab_size_per_layer_input\": ", "\"vocab_size_per_layer_input\": 1, \"other\": ",
       "vocab_size_per_layer_input: 1 is smaller"},
      {"\"hidden_size_per_layer_input\": 32", "\"hidden_size_per_layer_input\": -32",
       "hidden_size_per_layer_input"},
      {"\"hidden_size_per_layer_input\": 32", "\"hidden_size_per_layer_input\": 4096",
       "hidden_size_per_layer_input"},
      {"\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 0", "text_config.rms_norm_eps"},
      {"\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": \"x\"", "text_config.rms_norm_eps"},
      {"\"final_logit_softcapping\": 30.0", "\"final_logit_softcapping\": -1", "final_logit_softcapping"},
      {"\"max_position_embeddings\": 4096", "\"max_position_embeddings\": 0", "max_position_embeddings"},
      {"\"rope_theta\": 10000.0", "\"rope_theta\": 0", "rope_parameters.sliding_attention.rope_theta"},
      {"\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 1.5",
       "full_attention.partial_rotary_factor"},
      {"\"rope_theta\": 1000000.0", "\"factor\": 0", "full_attention.factor"},
      {"\"bos_token_id\": 2", "\"bos_token_id\": 64", "text_config.bos_token_id"},
      {"\"pad_token_id\": 0", "\"pad_token_id\": -1", "text_config.pad_token_id"},
      {"\"eos_token_id\": [1, 10]", "\"eos_token_id\": []", "eos_token_id: the list is empty"},
      {"\"eos_token_id\": [1, 10]", "\"eos_token_id\": [1, 64]", "eos_token_id[1]: token id 64"},
      {"\"eos_token_id\": [1, 10]", "\"eos_token_id\": -1", "eos_token_id: token id -1"},
      {"\"eos_token_id\": [1, 10]", "\"eos_token_id\": [\"1\"]", "eos_token_id[0]: must be a token id"},
      {"\"eos_token_id\": [1, 10]", "\"eos_token_id\": {}", "eos_token_id: must be a token id"},
      {"\"eos_token_id\": [1, 10]",
       "\"eos_token_id\": "
       "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32]",
       "eos_token_id[32]: more than 32"},
  };
  expect_changes_refused(&spec_e4b, changes, COUNT(changes), LAP_ERROR_FORMAT, "config.json");
}

static void structures_of_another_type(void **state) {
  (void)state;
  static const change changes[] = {
      {"\"text_config\": {", "\"text_config\": 3, \"other\": {", "text_config: must be an object"},
      {"\"layer_types\": [", "\"layer_types\": 3, \"other\": [", "text_config.layer_types: must be an array"},
      {"\"layer_types\": [\"sliding_attention\"", "\"layer_types\": [3", "text_config.layer_types[0]"},
      {"\"layer_types\": [", "\"layer_types\": [], \"other\": [", "text_config.layer_types: has 0"},
      {"\"rope_parameters\": {", "\"rope_parameters\": [], \"other\": {", "text_config.rope_parameters"},
      {"\"full_attention\": {", "\"full_attention\": 3, \"other\": {", "rope_parameters.full_attention"},
      {"\"attention_k_eq_v\": false", "\"attention_k_eq_v\": 0", "text_config.attention_k_eq_v"},
      {"\"use_double_wide_mlp\": false", "\"use_double_wide_mlp\": \"no\"",
       "text_config.use_double_wide_mlp"},
      {"\"model_type\": \"gemma4\", ", "", "model_type: missing"},
      {"\"model_type\": \"gemma4\"", "\"model_type\": 4", "model_type: must be a string"},
      {"\"quantization\": {", "\"quantization\": 4, \"other\": {", "quantization: must be an object"},
      {"\"hidden_size\": 64, ", "\"hidden_size\": 64, \"hidden_size\": 64, ",
       "text_config.hidden_size: this key"},
  };
  expect_changes_refused(&spec_e4b, changes, COUNT(changes), LAP_ERROR_FORMAT, "config.json");
  checkpoint made = checkpoint_make(&spec_31b);
  static const char *const roots[] = {"[]", "3", "{", "", "null"};
  for (size_t i = 0; i < COUNT(roots); i++) {
    lap_error error = {0};
    lap_status status = build(&made, &(texts){.config = roots[i]}, &error);
    expect_refused(status, &error, "config.json", "JSON");
  }
  checkpoint_free(&made);
}

static void mathematics_that_is_not_computed(void **state) {
  (void)state;
  static const change changes[] = {
      {"\"model_type\": \"gemma4\"", "\"model_type\": \"gemma3\"", "model_type: 'gemma3'"},
      {"\"gemma4_text\"", "\"gemma3_text\"", "text_config.model_type: 'gemma3_text'"},
      {"\"gelu_pytorch_tanh\"", "\"silu\"", "text_config.hidden_activation: 'silu'"},
      {"\"attention_bias\": false", "\"attention_bias\": true", "text_config.attention_bias"},
      {"\"attention_bias\": false", "\"use_bidirectional_attention\": \"all\"",
       "use_bidirectional_attention"},
      {"\"sliding_attention\", \"full", "\"linear_attention\", \"full",
       "layer_types[4]: unknown attention type"},
      {"\"rope_type\": \"proportional\"", "\"rope_type\": \"yarn\"", "full_attention.rope_type: 'yarn'"},
      {"\"rope_type\": \"default\"", "\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5",
       "sliding_attention.partial_rotary_factor"},
      {"\"hidden_size_per_layer_input\": 32", "\"hidden_size_per_layer_input\": 48",
       "hidden_size_per_layer_input"},
      {"\"mode\": \"affine\"", "\"mode\": \"mxfp4\"", "mode 'mxfp4' of language_model.model.embed_tokens"},
      {"\"group_size\":32,\"bits\":8", "\"group_size\":32,\"bits\":8,\"mode\":\"nvfp4\"",
       "mode 'nvfp4' of language_model.model.per_layer_model_projection"},
  };
  expect_changes_refused(&spec_e4b, changes, COUNT(changes), LAP_ERROR_UNSUPPORTED, "config.json");
}

static void quantization_settings_that_cannot_be(void **state) {
  (void)state;
  static const change changes[] = {
      {"\"group_size\": 32, \"bits\": 4", "\"group_size\": 0, \"bits\": 4", "quantization: group_size: 0"},
      {"\"group_size\": 32, \"bits\": 4", "\"group_size\": 16, \"bits\": 4", "quantization: group_size: 16"},
      {"\"group_size\": 32, \"bits\": 4", "\"group_size\": 128, \"bits\": 4",
       "group_size: 128 does not divide the 64"},
      {"\"group_size\": 32, \"bits\": 4", "\"group_size\": 32, \"bits\": 7", "quantization: bits: 7"},
      {"\"group_size\": 32, \"bits\": 4", "\"group_size\": 32, \"bits\": -4", "quantization: bits: -4"},
      {"\"group_size\": 32, \"bits\": 4", "\"group_size\": 32, \"bits\": 1", "quantization: bits: 1"},
      {"\"group_size\": 32, \"bits\": 4", "\"group_size\": 32, \"bits\": 4.5", "quantization.bits"},
      {"\"group_size\": 32, \"bits\": 4, ", "", "quantization: bits: 0"},
      {"\"group_size\":32,\"bits\":8", "\"group_size\":32,\"bits\":7",
       "quantization.language_model.model.per_layer_model_projection: bits: 7"},
      {"\"quantization\"", "\"other\"",
       "quantization: missing, but language_model.model.embed_tokens has scales"},
      {"{\"group_size\":32,\"bits\":8}", "false",
       "quantization.language_model.model.per_layer_model_projection: says that"},
      {"{\"group_size\":32,\"bits\":8}", "3", "quantization.language_model.model.per_layer_model_projection"},
  };
  expect_changes_refused(&spec_e4b, changes, COUNT(changes), LAP_ERROR_FORMAT, "config.json");
}

/* The message names the module and shows the shapes found and the shapes needed. */
static void a_module_whose_shapes_contradict_its_override(void **state) {
  (void)state;
  static const change changes[] = {
      {"per_layer_model_projection\":{\"group_size\":32,\"bits\":8}",
       "per_layer_model_projection\":{\"group_size\":32,\"bits\":4}",
       "language_model.model.per_layer_model_projection: weight is [1344, 16] and scales are [1344, 2], but "
       "64 inputs "
       "at 4 bits in groups of 32 need [1344, 8] and [1344, 2]"},
      {"per_layer_model_projection\":{\"group_size\":32,\"bits\":8}",
       "per_layer_model_projection\":{\"group_size\":64,\"bits\":8}",
       "groups of 64 need [1344, 16] and [1344, 1]"},
      {"per_layer_model_projection\":{\"group_size\":32,\"bits\":8}",
       "layers.0.self_attn.q_proj\":{\"group_size\":32,\"bits\":8}",
       "language_model.model.per_layer_model_projection: weight is [1344, 16]"},
      {"\"intermediate_size\": 96", "\"intermediate_size\": 128",
       "layers.0.mlp.gate_proj: weight is [96, 8]"},
      {"\"use_double_wide_mlp\": false", "\"use_double_wide_mlp\": true",
       "layers.24.mlp.gate_proj: weight is [96, 8]"},
      {"\"vocab_size\": 64", "\"vocab_size\": 128", "embed_tokens: weight is [64, 8]"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1",
       "layers.0.self_attn.k_proj: weight is [64, 8]"},
      {"\"sliding_attention\", \"full_attention\"", "\"full_attention\", \"sliding_attention\"",
       "layers.4.self_attn.q_proj: weight is [128, 8]"},
  };
  expect_changes_refused(&spec_e4b, changes, COUNT(changes), LAP_ERROR_FORMAT, "model.safetensors");
}

static void experts_that_do_not_add_up(void **state) {
  (void)state;
  static const change numbers[] = {
      {"\"num_experts\": 16", "\"num_experts\": null", "num_experts: missing"},
      {"\"num_experts\": 16", "\"num_experts\": 4", "top_k_experts: 8 of only 4"},
      {"\"num_experts\": 16", "\"num_experts\": 100000", "text_config.num_experts"},
      {"\"top_k_experts\": 8", "\"top_k_experts\": 0", "top_k_experts: missing"},
      {"\"top_k_experts\": 8", "\"top_k_experts\": 65", "text_config.top_k_experts"},
      {"\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": null", "moe_intermediate_size: missing"},
  };
  static const change shapes[] = {
      {"\"num_experts\": 16", "\"num_experts\": 32", "layers.0.router.proj: weight is [16, 16]"},
      {"\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 64",
       "layers.0.experts.switch_glu.gate_proj: weight is [16, 32, 8]"},
  };
  expect_changes_refused(&spec_26b, numbers, COUNT(numbers), LAP_ERROR_FORMAT, "config.json");
  expect_changes_refused(&spec_26b, shapes, COUNT(shapes), LAP_ERROR_FORMAT, "model.safetensors");
}

/* ---- tensors that are missing or of another type ---- */

/* Breaks a tensor's name in the header (the length stays, so the file stays well-formed). */
static void expect_rename_refused(const checkpoint_spec *spec, const char *from, const char *to,
                                  const char *file, const char *field) {
  checkpoint made = checkpoint_make(spec);
  assert_int_equal(strlen(from), strlen(to));
  unsigned char *at = memmem(made.weights, made.weight_bytes, from, strlen(from));
  assert_non_null(at);
  memcpy(at, to, strlen(to));
  lap_error error = {0};
  lap_status status = build(&made, &(texts){.config = made.config}, &error);
  expect_refused(status, &error, file, field);
  checkpoint_free(&made);
}

static void tensors_that_are_missing(void **state) {
  (void)state;
  expect_rename_refused(&spec_31b, ".embed_tokens.weight", ".embed_tokenz.weight", "model.safetensors",
                        "embed_tokens.weight: not found");
  expect_rename_refused(&spec_31b, "layers.7.mlp.up_proj.weight", "layers.7.mlp.up_prox.weight",
                        "config.json",
                        "language_model.model.layers.7.mlp.up_proj.weight: the configuration needs");
  expect_rename_refused(&spec_31b, "layers.7.mlp.up_proj.biases", "layers.7.mlp.up_proj.biasez",
                        "model.safetensors", "layers.7.mlp.up_proj.biases: missing");
  expect_rename_refused(&spec_31b, "layers.7.mlp.up_proj.scales", "layers.7.mlp.up_proj.scalez",
                        "model.safetensors", "layers.7.mlp.up_proj: weight is U32 without scales");
  expect_rename_refused(&spec_31b, "layers.9.self_attn.k_norm", "layers.9.self_attn.k_nxrm", "config.json",
                        "layers.9.self_attn.k_norm.weight");
  expect_rename_refused(&spec_31b, "layers.6.self_attn.v_proj.weight", "layers.6.self_attn.v_prox.weight",
                        "config.json", "layers.6.self_attn.v_proj.weight");
  expect_rename_refused(&spec_31b, "model.norm.weight", "model.nxrm.weight", "config.json",
                        "model.norm.weight");
  expect_rename_refused(&spec_e4b, "post_per_layer_input_norm", "post_per_layer_input_nxrm", "config.json",
                        "post_per_layer_input_norm.weight");
  expect_rename_refused(&spec_26b, "per_expert_scale", "per_expert_xcale", "config.json",
                        "router.per_expert_scale");
}

static void tensors_of_another_type(void **state) {
  (void)state;
  expect_rename_refused(&spec_31b, "embed_tokens.weight\":{\"dtype\":\"U32\"",
                        "embed_tokens.weight\":{\"dtype\":\"I32\"", "model.safetensors",
                        "embed_tokens: weight is I32");
  expect_rename_refused(&spec_31b, "embed_tokens.biases\":{\"dtype\":\"BF16\"",
                        "embed_tokens.biases\":{\"dtype\":\"F16\" ", "model.safetensors",
                        "embed_tokens: scales are BF16 and biases F16");
  expect_rename_refused(&spec_31b, "model.norm.weight\":{\"dtype\":\"BF16\"",
                        "model.norm.weight\":{\"dtype\":\"I16\" ", "model.safetensors",
                        "model.norm.weight: is other [64]");
}

static void vectors_of_another_length(void **state) {
  (void)state;
  checkpoint_spec spec = spec_31b;
  spec.bits = 0;
  static const change changes[] = {
      {"\"head_dim\": 32", "\"head_dim\": 64", "layers.0.self_attn.q_proj: weight is [256, 64]"},
      {"\"hidden_size\": 64", "\"hidden_size\": 128",
       "embed_tokens: weight is [64, 64], but the configuration needs"},
  };
  expect_changes_refused(&spec, changes, COUNT(changes), LAP_ERROR_FORMAT, "model.safetensors");
}

/* ---- kv_config.json and generation_config.json ---- */

static void kv_configs_that_lie(void **state) {
  (void)state;
  static const struct {
    const char *text, *field;
  } cases[] = {
      {"{}", "must be a JSON array"},
      {"{\"layer_idx\": 0, \"bits\": 4, \"group_size\": 32}", "must be a JSON array"},
      {"[3]", "[0]: must be an object"},
      {"[{\"layer_idx\": 42, \"bits\": 4, \"group_size\": 32}]",
       "[0]: layer_idx: 42 is outside the 42 layers"},
      {"[{\"layer_idx\": -1, \"bits\": 4, \"group_size\": 32}]", "[0]: layer_idx: -1"},
      {"[{\"layer_idx\": 0.5, \"bits\": 4, \"group_size\": 32}]", "[0].layer_idx"},
      {"[{\"layer_idx\": 30, \"bits\": 4, \"group_size\": 32}]",
       "[0]: layer_idx: layer 30 has no cache of its own"},
      {"[{\"layer_idx\": 0, \"bits\": 3, \"group_size\": 32}]", "[0]: bits: 3"},
      {"[{\"layer_idx\": 0, \"bits\": 2, \"group_size\": 32}]", "[0]: bits: 2"},
      {"[{\"layer_idx\": 0, \"bits\": 16, \"group_size\": 32}]", "[0]: bits: 16"},
      {"[{\"layer_idx\": 0, \"bits\": \"4\", \"group_size\": 32}]", "[0].bits: must be an integer"},
      {"[{\"layer_idx\": 0, \"bits\": 4, \"group_size\": 64}]", "[0]: group_size: 64"},
      {"[{\"layer_idx\": 0, \"bits\": 4, \"group_size\": 0}]", "[0]: group_size: 0"},
      {"[{\"layer_idx\": 0, \"bits\": 4, \"group_size\": 16}]", "[0]: group_size: 16"},
      {"[{\"layer_idx\": 0, \"bits\": 4, \"group_size\": -32}]", "[0]: group_size: -32"},
      {"[{\"bits\": 4, \"group_size\": 32}]", "[0]: layer_idx: missing"},
      {"[{\"layer_idx\": 0, \"group_size\": 32}]", "[0]: bits: missing"},
      {"[{\"layer_idx\": 1, \"bits\": 4, \"group_size\": 32}, {\"layer_idx\": 1, \"bits\": 8, "
       "\"group_size\": 32}]",
       "[1]: layer_idx: layer 1 has an entry already"},
      {"[", "not valid JSON"},
      {"", "not valid JSON"},
      {"[{\"layer_idx\": 0, \"layer_idx\": 1, \"bits\": 4}]", "[0].layer_idx: this key occurs twice"},
  };
  checkpoint made = checkpoint_make(&spec_e4b);
  for (size_t i = 0; i < COUNT(cases); i++) {
    lap_error error = {0};
    lap_status status = build(&made, &(texts){.config = made.config, .kv_config = cases[i].text}, &error);
    expect_refused(status, &error, "kv_config.json", cases[i].field);
    assert_int_equal(status, LAP_ERROR_FORMAT);
  }
  checkpoint_free(&made);
}

static void generation_configs_that_lie(void **state) {
  (void)state;
  static const struct {
    const char *text, *field;
  } cases[] = {
      {"[]", "JSON object"},
      {"{\"temperature\": -1}", "temperature"},
      {"{\"temperature\": \"hot\"}", "temperature"},
      {"{\"top_k\": -1}", "top_k"},
      {"{\"top_k\": 1.5}", "top_k"},
      {"{\"top_p\": 1.5}", "top_p"},
      {"{\"min_p\": 2}", "min_p"},
      {"{\"repetition_penalty\": 0}", "repetition_penalty"},
      {"{\"do_sample\": 1}", "do_sample"},
      {"{\"eos_token_id\": []}", "eos_token_id: the list is empty"},
      {"{\"eos_token_id\": 64}", "eos_token_id: token id 64"},
      {"{\"suppress_tokens\": [64]}", "suppress_tokens[0]: token id 64"},
      {"{\"suppress_tokens\": 3}", "suppress_tokens: must be an array"},
      {"{\"suppress_tokens\": [[1]]}", "suppress_tokens[0]: must be a token id"},
  };
  checkpoint made = checkpoint_make(&spec_e4b);
  for (size_t i = 0; i < COUNT(cases); i++) {
    lap_error error = {0};
    lap_status status = build(&made, &(texts){.config = made.config, .generation = cases[i].text}, &error);
    expect_refused(status, &error, "generation_config.json", cases[i].field);
  }
  checkpoint_free(&made);
}

/* ---- snapshots ---- */

enum {
  SNAPSHOT_TOKENS = 12,
  SNAPSHOT_HEADER = 68,
  SNAPSHOT_IDS = SNAPSHOT_HEADER + 2 * 48, /* after a record for each of two caches */
  SNAPSHOT_ORIGINS = SNAPSHOT_IDS + 4 * SNAPSHOT_TOKENS,
  SNAPSHOT_ROWS = SNAPSHOT_ORIGINS + 32 * SNAPSHOT_TOKENS
};

static const unsigned char snapshot_fingerprint[LAP_FINGERPRINT_BYTES] = {3};

/* A growing cache and a ring of a model of two layers, with zeros in them; `bound` gets what they stand on.
 */
static lap_kv *filled_caches(lap_bound *bound) {
  static lap_layer layers[2] = {{.kv_heads = 1, .head_dim = 64, .cache = 0},
                                {.kv_heads = 1, .head_dim = 64, .cache = 1, .window = 16}};
  static const lap_plan plan = {.layers = 2, .caches = 2, .layer = layers, .vocab_size = 64};
  static const unsigned char zeros[SNAPSHOT_TOKENS * 128];
  lap_error error;
  lap_kv *kv;
  bound->plan = &plan;
  expect_ok(lap_device_open("cpu", NULL, &bound->device, &error), &error);
  expect_ok(lap_kv_create(bound, false, &kv, &error), &error);
  for (int i = 0; i < kv->caches; i++) {
    expect_ok(lap_cache_load_begin(kv->cache[i], 0, SNAPSHOT_TOKENS, &error), &error);
    for (int plane = 0; plane < lap_cache_planes(kv->cache[i]); plane++)
      expect_ok(lap_cache_load(kv->cache[i], plane, zeros, &error), &error);
  }
  return kv;
}

/* Puts the checksum of what precedes it at the end, so that nothing but the lie itself is wrong. */
static void sign(unsigned char *data, size_t bytes) {
  struct sha256_ctx hash;
  sha256_init(&hash);
  sha256_update(&hash, bytes - SHA256_DIGEST_SIZE, data);
  sha256_digest(&hash, SHA256_DIGEST_SIZE, data + bytes - SHA256_DIGEST_SIZE);
}

static lap_status load_snapshot(lap_kv *kv, const char *path, lap_error *error) {
  int32_t *tokens;
  lap_origin *origins;
  lap_rings *rings[LAP_SNAPSHOT_RINGS];
  int64_t length;
  int count;
  lap_status status =
      lap_snapshot_load(kv, snapshot_fingerprint, path, &tokens, &origins, &length, rings, &count, error);
  for (int i = 0; status == LAP_OK && i < count; i++) lap_rings_destroy(rings[i]);
  free(tokens);
  free(origins);
  return status;
}

static lap_status peek_snapshot(const lap_kv *kv, const char *path, lap_error *error) {
  lap_snapshot_head head;
  lap_status status = lap_snapshot_peek(kv, snapshot_fingerprint, path, &head, error);
  lap_snapshot_head_free(&head);
  return status;
}

/* The whole reader and the one of heads say the same. */
static void expect_snapshot_refused(lap_kv *kv, const char *directory, const unsigned char *data,
                                    size_t bytes, lap_status expected, const char *field) {
  write_file(directory, "a.snapshot", data, bytes);
  const char *path = path_of("%s/a.snapshot", directory);
  lap_error error = {0};
  lap_status status = load_snapshot(kv, path, &error);
  expect_refused(status, &error, path, field);
  assert_int_equal(status, expected);
  assert_int_equal(lap_kv_length(kv), SNAPSHOT_TOKENS);
  error = (lap_error){0};
  status = peek_snapshot(kv, path, &error);
  expect_refused(status, &error, path, field);
  assert_int_equal(status, expected);
}

/* A snapshot of `kv`, whose rows 3 to 6 are a picture's, read back. */
static unsigned char *good_snapshot(const lap_kv *kv, const char *directory, bool with_origins,
                                    size_t *bytes) {
  lap_error error;
  const int32_t ids[SNAPSHOT_TOKENS] = {2, 5, 7};
  lap_origin origins[SNAPSHOT_TOKENS] = {0};
  for (int i = 3; i < 7; i++) origins[i] = (lap_origin){{9, 9}, i - 3, 0};
  const lap_keys keys = {ids, with_origins ? origins : NULL};
  const char *path = path_of("%s/good.snapshot", directory);
  expect_ok(lap_snapshot_save(kv, NULL, 0, snapshot_fingerprint, keys, path, &error), &error);
  return read_all(path, bytes);
}

static void snapshots_that_lie(void **state) {
  (void)state;
  static const struct {
    size_t at;
    int bytes; /* of the field */
    uint64_t value;
    lap_status status;
    const char *field;
  } cases[] = {
      {8, 4, 1, LAP_ERROR_STATE, "version: 1, this program reads 2"},
      {8, 4, 3, LAP_ERROR_STATE, "version: 3"},
      {12, 4, 3, LAP_ERROR_STATE, "header: made with another KV setting"},
      {16, 8, 13, LAP_ERROR_FORMAT, "cache 0: holds positions"},
      {16, 8, 1000, LAP_ERROR_FORMAT, "header: length 1000"},
      {16, 8, UINT64_MAX, LAP_ERROR_FORMAT, "header: length -1"},
      {16, 8, UINT64_MAX / 36 + 1, LAP_ERROR_FORMAT, "header: length"}, /* times 36: a small number */
      {24, 1, 4, LAP_ERROR_STATE, "fingerprint"},
      {56, 4, 0, LAP_ERROR_FORMAT, "size: "}, /* origins that nobody announces */
      {56, 4, 6, LAP_ERROR_FORMAT, "header: flags 0x6"},
      {56, 4, 0x80000002, LAP_ERROR_FORMAT, "header: flags 0x80000002"},
      {60, 4, 17, LAP_ERROR_FORMAT, "header: 17 copies"},
      {64, 4, 2, LAP_ERROR_STATE, "contract: made by version 2 of the arithmetic, this program's is 1"},
      {64, 4, 0, LAP_ERROR_STATE, "contract: "},
      {SNAPSHOT_IDS, 4, 64, LAP_ERROR_FORMAT, "token 0: id 64"},
      {SNAPSHOT_ORIGINS + 4 * 32 + 16, 8, UINT64_MAX, LAP_ERROR_FORMAT, "origin 4: index -1"},
      {SNAPSHOT_ORIGINS + 8 * 32 + 16, 8, 1, LAP_ERROR_FORMAT, "origin 8: index 1"}, /* of no content */
      {SNAPSHOT_ORIGINS + 6 * 32, 2, 0, LAP_ERROR_FORMAT, "origin 6: index 3"},      /* neither */
  };
  char *directory = make_directory();
  lap_bound bound;
  lap_kv *kv = filled_caches(&bound);
  lap_error error;
  size_t bytes, plain_bytes;
  unsigned char *good = good_snapshot(kv, directory, true, &bytes),
                *plain = good_snapshot(kv, directory, false, &plain_bytes), *data = malloc(bytes);
  for (size_t i = 0; i < COUNT(cases); i++) {
    memcpy(data, good, bytes);
    for (int b = 0; b < cases[i].bytes; b++)
      data[cases[i].at + (size_t)b] = (unsigned char)(cases[i].value >> (8 * b));
    sign(data, bytes);
    expect_snapshot_refused(kv, directory, data, bytes, cases[i].status, cases[i].field);
  }
  memcpy(data, good, bytes); /* the version comes before the checksum, the magic before the version */
  data[8] = 1;
  expect_snapshot_refused(kv, directory, data, bytes, LAP_ERROR_STATE, "version: 1");
  data[0] = 'l';
  expect_snapshot_refused(kv, directory, data, bytes, LAP_ERROR_FORMAT, "magic");
  memcpy(data, good, bytes); /* an origin too few */
  memmove(data + SNAPSHOT_ORIGINS, data + SNAPSHOT_ORIGINS + 32, bytes - SNAPSHOT_ORIGINS - 32);
  sign(data, bytes - 32);
  expect_snapshot_refused(kv, directory, data, bytes - 32, LAP_ERROR_FORMAT, "size: ");
  plain[56] = 2; /* origins announced that are not there */
  sign(plain, plain_bytes);
  expect_snapshot_refused(kv, directory, plain, plain_bytes, LAP_ERROR_FORMAT, "size: ");

  random_source source = {17};
  int accepted = 0;
  const char *path = path_of("%s/a.snapshot", directory);
  for (int trial = 0; trial < 1000; trial++) { /* any byte of the head: refused by name, or of no harm */
    memcpy(data, good, bytes);
    data[8 + random_below(&source, SNAPSHOT_ROWS - 8)] = (unsigned char)random_bits(&source);
    sign(data, bytes);
    write_file(directory, "a.snapshot", data, bytes);
    error = (lap_error){0};
    if (load_snapshot(kv, path, &error) == LAP_OK)
      accepted++;
    else
      assert_non_null(strstr(error.message, path));
    if (peek_snapshot(kv, path, &error) != LAP_OK) assert_non_null(strstr(error.message, path));
  }
  assert_in_range(accepted, 1, 999); /* another id or hash is no lie that a reader could see */
  free(good), free(plain), free(data);
  lap_kv_destroy(kv);
  bound.device->driver->close(bound.device);
  remove_directory(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(header_lengths_that_cannot_be),
      cmocka_unit_test(headers_that_are_not_a_json_object),
      cmocka_unit_test(duplicate_names),
      cmocka_unit_test(unknown_dtypes),
      cmocka_unit_test(dims_that_are_no_sizes),
      cmocka_unit_test(products_that_overflow),
      cmocka_unit_test(offsets_that_lie),
      cmocka_unit_test(data_that_is_not_tiled),
      cmocka_unit_test(long_names_are_cut_in_messages),
      cmocka_unit_test(an_index_that_lies),
      cmocka_unit_test(things_that_are_not_files),
      cmocka_unit_test(a_directory_without_a_config),
      cmocka_unit_test(numbers_out_of_range),
      cmocka_unit_test(structures_of_another_type),
      cmocka_unit_test(mathematics_that_is_not_computed),
      cmocka_unit_test(quantization_settings_that_cannot_be),
      cmocka_unit_test(a_module_whose_shapes_contradict_its_override),
      cmocka_unit_test(experts_that_do_not_add_up),
      cmocka_unit_test(tensors_that_are_missing),
      cmocka_unit_test(tensors_of_another_type),
      cmocka_unit_test(vectors_of_another_length),
      cmocka_unit_test(kv_configs_that_lie),
      cmocka_unit_test(generation_configs_that_lie),
      cmocka_unit_test(snapshots_that_lie),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
