/* A tensor that exists can be read whole; sets of shards are one table. Hostile files stand in
 * test_hostile_files.c. */
#include "base/bytes.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

#define CHECKPOINTS GOLDENS "/checkpoints"

static void a_file_lists_its_tensors_by_name(void **state) {
  (void)state;
  lap_error error;
  lap_tensors *tensors;
  static const int64_t scalar[] = {1}, matrix[] = {2, 3, 4};
  tensor_file *file = tensor_file_new();
  tensor_file_add(file, "zeta", 0, "F32", 3, matrix);
  tensor_file_add(file, "alpha", 0, "BF16", 1, scalar);
  tensor_file_add(file, "none", 0, "F16", 0, NULL);
  size_t length;
  unsigned char *bytes = tensor_file_bytes(file, &length);
  tensor_file_free(file);
  expect_ok(lap_tensors_open_memory(bytes, length, "memory", &tensors, &error), &error);
  assert_int_equal(lap_tensors_count(tensors), 3);
  assert_int_equal(lap_tensors_file_bytes(tensors), length);
  static const char *const names[] = {"alpha", "none", "zeta"};
  for (int i = 0; i < 3; i++) {
    assert_string_equal(lap_tensors_at(tensors, i)->name, names[i]);
    assert_int_equal(lap_tensors_find(tensors, names[i]), i);
  }
  assert_int_equal(lap_tensors_find(tensors, "beta"), -1);
  const lap_tensor *zeta = lap_tensors_at(tensors, 2);
  assert_int_equal(zeta->dtype, LAP_F32);
  assert_int_equal(zeta->rank, 3);
  assert_memory_equal(zeta->shape, matrix, sizeof matrix);
  assert_int_equal(zeta->bytes, 96);
  assert_string_equal(zeta->file, "memory");
  assert_ptr_equal(lap_tensors_at(tensors, 0)->data, zeta->data + 96);
  assert_int_equal(lap_tensors_at(tensors, 1)->rank, 0);
  lap_tensors_close(tensors);
  free(bytes);
}

static void every_dtype_of_the_format_opens(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int bytes_of_eight;
    lap_dtype dtype;
  } cases[] = {{"F32", 32, LAP_F32},     {"F16", 16, LAP_F16},      {"BF16", 16, LAP_BF16},
               {"U32", 32, LAP_U32},     {"U8", 8, LAP_U8},         {"I32", 32, LAP_I32},
               {"I64", 64, LAP_I64},     {"F64", 64, LAP_OTHER},    {"BOOL", 8, LAP_OTHER},
               {"I8", 8, LAP_OTHER},     {"F8_E4M3", 8, LAP_OTHER}, {"F4", 4, LAP_OTHER},
               {"F6_E2M3", 6, LAP_OTHER}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char header[256];
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"format\":\"mlx\"},\"t\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":["
             "0,%d]}}  ",
             cases[i].name, cases[i].bytes_of_eight);
    size_t length;
    unsigned char *bytes = raw_tensor_file(header, (size_t)cases[i].bytes_of_eight, &length);
    lap_error error;
    lap_tensors *tensors;
    expect_ok(lap_tensors_open_memory(bytes, length, "memory", &tensors, &error), &error);
    assert_int_equal(lap_tensors_at(tensors, 0)->dtype, cases[i].dtype);
    if (cases[i].dtype != LAP_OTHER) {
      assert_string_equal(lap_dtype_name(cases[i].dtype), cases[i].name);
      assert_int_equal(lap_dtype_bytes(cases[i].dtype) * 8, cases[i].bytes_of_eight);
    }
    lap_tensors_close(tensors);
    free(bytes);
  }
  assert_int_equal(lap_dtype_bytes(LAP_OTHER), 0);
}

static void empty_tensors_need_no_bytes(void **state) {
  (void)state;
  size_t length;
  unsigned char *bytes = raw_tensor_file(
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[0,0]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}",
      4, &length);
  lap_error error;
  lap_tensors *tensors;
  expect_ok(lap_tensors_open_memory(bytes, length, "memory", &tensors, &error), &error);
  assert_int_equal(lap_tensors_count(tensors), 3);
  lap_tensors_close(tensors);
  free(bytes);
}

static void shards_of_an_index_are_one_table(void **state) {
  (void)state;
  lap_error error;
  lap_tensors *tensors;
  expect_ok(lap_tensors_open(CHECKPOINTS "/dense-tiny", &tensors, &error), &error);
  lap_json_document *index;
  expect_ok(lap_json_read(CHECKPOINTS "/dense-tiny/model.safetensors.index.json", 1 << 20, &index, &error),
            &error);
  const lap_json *map = lap_json_get(index, lap_json_root(index), "weight_map");
  assert_int_equal((size_t)lap_tensors_count(tensors), map->length);
  for (const lap_json *entry = map->child; entry; entry = entry->next) {
    int32_t at = lap_tensors_find(tensors, entry->key);
    assert_true(at >= 0);
    assert_non_null(strstr(lap_tensors_at(tensors, at)->file, entry->string));
  }
  assert_int_equal(lap_tensors_file_bytes(tensors), 2094574 + 1681157);
  lap_json_free(index);
  lap_tensors_close(tensors);
}

/* Sums what the table says: with no gap and no overlap it is the file less its header. */
static void the_tables_of_the_goldens_cover_their_files(void **state) {
  (void)state;
  static const struct {
    const char *path;
    uint64_t data_bytes;
  } cases[] = {{SOURCE_DIR "/models/pebble", 8140688 - 8 - 49136},
               {CHECKPOINTS "/e2-tiny", 2903303 - 8 - 50145},
               {CHECKPOINTS "/moe-tiny", 2329567 - 8 - 33259}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lap_error error;
    lap_tensors *tensors;
    expect_ok(lap_tensors_open(cases[i].path, &tensors, &error), &error);
    uint64_t bytes = 0;
    for (int32_t t = 0; t < lap_tensors_count(tensors); t++) bytes += lap_tensors_at(tensors, t)->bytes;
    assert_int_equal(bytes, cases[i].data_bytes);
    lap_tensors_close(tensors);
  }
}

static void values_are_read_from_the_file(void **state) {
  (void)state;
  lap_error error;
  lap_tensors *tensors;
  expect_ok(lap_tensors_open(CHECKPOINTS "/e-tiny", &tensors, &error), &error);
  /* The goldens' README: the k_norm of sharer 9 is 3.0 throughout. */
  int32_t at = lap_tensors_find(tensors, "language_model.model.layers.9.self_attn.k_norm.weight");
  assert_true(at >= 0);
  const lap_tensor *norm = lap_tensors_at(tensors, at);
  assert_int_equal(norm->dtype, LAP_BF16);
  for (int64_t i = 0; i < norm->shape[0]; i++)
    assert_true(lap_bf16_to_f32(lap_load_u16(norm->data + 2 * i)) == 3.0f);
  lap_tensors_close(tensors);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_lists_its_tensors_by_name),
      cmocka_unit_test(every_dtype_of_the_format_opens),
      cmocka_unit_test(empty_tensors_need_no_bytes),
      cmocka_unit_test(shards_of_an_index_are_one_table),
      cmocka_unit_test(the_tables_of_the_goldens_cover_their_files),
      cmocka_unit_test(values_are_read_from_the_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
