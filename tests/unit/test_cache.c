/* The four caches: what is attended, what memory grows, what can be trimmed, what a snapshot holds. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/snapshot.h"
#include "cpu/cpu.h"
#include "engine/session.h"
#include "kernels/quantize_row.h"
#include "support/check.h"

enum {
  HEAD_DIM = 64,
  KV_HEADS = 2
};

static lap_cache_shape shape_of(int64_t window, int bits) {
  return (lap_cache_shape){KV_HEADS, HEAD_DIM, window, bits, 64};
}

static lap_device *device;

static int open_device(void **state) {
  (void)state;
  lap_error error;
  return lap_device_open("cpu", NULL, &device, &error) == LAP_OK ? 0 : -1;
}

static int close_device(void **state) {
  (void)state;
  device->driver->close(device);
  return 0;
}

/* As a pass writes K and V [HEAD_DIM] of one KV head, by plain C. */
static void write_head(lap_cache *cache, int64_t position, int head, const float *k, const float *v) {
  const lap_cache_place place = lap_cache_get_place(cache);
  const lap_kv_planes planes = lap_cpu_planes(&place);
  lap_kernels_portable.kv_write(place.shape.bits, place.shape.group_size, place.shape.head_dim,
                                place.shape.kv_heads, &planes, position, head, k, v);
}

static lap_kv_view view_of(const lap_cache *cache, int head) {
  const lap_cache_place place = lap_cache_get_place(cache);
  const lap_kv_planes planes = lap_cpu_planes(&place);
  return lap_kv_planes_view(place.shape.bits, place.shape.group_size, place.shape.head_dim,
                            place.shape.kv_heads, &planes, head);
}

/* K and V of a position are constant rows, +position and -position: they survive any quantizer nearly
 * unchanged, so a row says which position it holds. */
static void append(lap_cache *cache, int64_t count) {
  lap_error error;
  float k[HEAD_DIM], v[HEAD_DIM];
  int64_t length = lap_cache_length(cache);
  expect_ok(lap_cache_reserve(cache, count, &error), &error);
  for (int64_t position = length; position < length + count; position++)
    for (int head = 0; head < KV_HEADS; head++) {
      for (int d = 0; d < HEAD_DIM; d++) {
        k[d] = (float)(position + 1 + 1000 * head);
        v[d] = -k[d];
      }
      write_head(cache, position, head, k, v);
    }
  lap_cache_commit(cache, count);
}

static float element(const lap_kv_view *view, const unsigned char *codes, const unsigned char *scales,
                     const unsigned char *biases, int64_t slot, int d) {
  float scale = lap_load_f32(scales + (size_t)slot * view->scale_bytes + 4 * (d / view->group_size));
  float bias = view->bits == 16
                   ? 0
                   : lap_load_f32(biases + (size_t)slot * view->scale_bytes + 4 * (d / view->group_size));
  return scale * lap_code_at(view->bits, codes + (size_t)slot * view->row_bytes, d) + bias;
}

/* True if `position` is stored in its place for both heads. */
static bool holds(const lap_cache *cache, int64_t position) {
  for (int head = 0; head < KV_HEADS; head++) {
    lap_kv_view view = view_of(cache, head);
    int64_t slot = position % view.capacity;
    float expected = (float)(position + 1 + 1000 * head);
    for (int d = 0; d < HEAD_DIM; d += 21) {
      float k = element(&view, view.k, view.k_scales, view.k_biases, slot, d);
      float v = element(&view, view.v, view.v_scales, view.v_biases, slot, d);
      if (k < expected - 0.3f || k > expected + 0.3f || v > -expected + 0.3f || v < -expected - 0.3f)
        return false;
    }
  }
  return true;
}

/* goldens/ops/cache.json: for each of MLX's four caches and several chunk patterns the positions that
 * each query attends. Ours must hold exactly those when the chunk's attention runs. */
static void queries_find_the_positions_that_mlx_attends(void **state) {
  (void)state;
  lap_error error;
  lap_json_document *document;
  expect_ok(lap_json_read(GOLDENS "/ops/cache.json", 1 << 20, &document, &error), &error);
  int queries = 0;
  for (const lap_json *one = lap_json_root(document)->child; one; one = one->next) {
    const char *kind = lap_json_get(document, one, "kind")->string;
    int64_t window = strncmp(kind, "rotating", 8) == 0 ? lap_json_get(document, one, "window")->integer : 0;
    lap_cache_shape shape = shape_of(window, strstr(kind, "quantized") ? 4 : 16);
    lap_cache *cache;
    expect_ok(lap_cache_create(device, &shape, &cache, &error), &error);
    for (const lap_json *step = lap_json_get(document, one, "steps")->child; step; step = step->next) {
      int64_t n = lap_json_get(document, step, "n")->integer, before = lap_cache_length(cache);
      assert_int_equal(before, lap_json_get(document, step, "offset_before")->integer);
      append(cache, n);
      const lap_json *query = lap_json_get(document, step, "attended_positions_per_query")->child;
      for (int64_t position = before; position < before + n; position++, query = query->next, queries++) {
        int64_t low = window && position + 1 > window ? position + 1 - window : 0;
        assert_int_equal(query->length, position + 1 - low);
        for (const lap_json *attended = query->child; attended; attended = attended->next) {
          assert_in_range(attended->integer, low, position);
          assert_true(attended->integer >= lap_cache_oldest(cache));
          assert_true(holds(cache, attended->integer));
        }
      }
    }
    lap_cache_destroy(cache);
  }
  assert_true(queries > 500);
  lap_json_free(document);
}

static void a_ring_never_exceeds_its_window_plus_one_chunk(void **state) {
  (void)state;
  for (int bits = 4; bits <= 16; bits *= 2) {
    lap_error error;
    lap_cache *cache;
    lap_cache_shape shape = shape_of(100, bits);
    expect_ok(lap_cache_create(device, &shape, &cache, &error), &error);
    int64_t largest = 0;
    random_source source = {9};
    for (int step = 0; step < 200; step++) {
      int64_t n = 1 + random_below(&source, step < 100 ? 5 : 50);
      if (n > largest) largest = n;
      append(cache, n);
      assert_true(lap_cache_capacity(cache) <= 100 + largest);
      assert_int_equal(lap_cache_bytes(cache),
                       (size_t)lap_cache_capacity(cache) * lap_cache_position_bytes(&shape));
      for (int64_t position = lap_cache_oldest(cache); position < lap_cache_length(cache); position += 17)
        assert_true(holds(cache, position));
    }
    lap_cache_destroy(cache);
  }
}

static void memory_grows_with_use_in_steps(void **state) {
  (void)state;
  lap_error error;
  lap_cache *cache;
  lap_cache_shape shape = shape_of(0, 4);
  expect_ok(lap_cache_create(device, &shape, &cache, &error), &error);
  assert_int_equal(lap_cache_bytes(cache), 0);
  int64_t capacity = 0, steps = 0;
  for (int i = 0; i < 5000; i++) {
    append(cache, 1);
    assert_true(lap_cache_capacity(cache) <= lap_cache_length(cache) + 64 + lap_cache_length(cache) / 8 + 64);
    steps += lap_cache_capacity(cache) != capacity;
    capacity = lap_cache_capacity(cache);
  }
  assert_true(steps < 60);
  for (int64_t position = 0; position < 5000; position += 7) assert_true(holds(cache, position));
  lap_cache_destroy(cache);
}

static void no_history_takes_more_than_the_bound(void **state) {
  (void)state;
  lap_error error;
  random_source source = {21};
  for (int trial = 0; trial < 40; trial++) {
    lap_cache *cache;
    lap_cache_shape shape = shape_of(trial % 2 ? 30 : 0, 4);
    int64_t most = 1 + random_below(&source, 60);
    expect_ok(lap_cache_create(device, &shape, &cache, &error), &error);
    for (int step = 0; step < 100; step++) {
      int64_t n = 1 + random_below(&source, (int)most);
      append(cache, n);
      assert_true(lap_cache_bytes(cache) <= lap_cache_most_bytes(&shape, lap_cache_length(cache), most));
    }
    assert_true(lap_cache_most_bytes(&shape, 1000, most) < 3 * 1000 * lap_cache_position_bytes(&shape));
    lap_cache_destroy(cache);
  }
}

static void quantized_positions_take_what_the_plan_computes(void **state) {
  (void)state;
  lap_error error;
  static const lap_kv_mode modes[] = {LAP_KV_CONFIG, LAP_KV_PLAIN, LAP_KV_8, LAP_KV_4};
  for (int m = 0; m < 4; m++) {
    lap_model *model;
    lap_kv *kv;
    expect_ok(
        lap_model_open(SOURCE_DIR "/models/pebble", &(lap_model_options){.kv = modes[m]}, &model, &error),
        &error);
    expect_ok(lap_kv_create(model->bound, false, &kv, &error), &error);
    for (int i = 0; i < model->plan->layers; i++) {
      const lap_layer *layer = &model->plan->layer[i];
      if (layer->sharer) continue;
      const lap_cache_shape *shape = lap_cache_get_shape(kv->cache[layer->cache]);
      assert_int_equal(lap_cache_position_bytes(shape), lap_layer_kv_bytes(layer));
    }
    lap_kv_destroy(kv);
    lap_model_close(model);
  }
}

static void a_wrapped_ring_refuses_to_trim_beyond_what_it_holds(void **state) {
  (void)state;
  lap_error error;
  lap_cache *cache;
  lap_cache_shape shape = shape_of(8, 4);
  expect_ok(lap_cache_create(device, &shape, &cache, &error), &error);
  append(cache, 5);
  expect_ok(lap_cache_trim(cache, 2, &error), &error); /* not wrapped: anything goes */
  for (int i = 0; i < 18; i++) append(cache, 1);       /* length 20, capacity 12: positions 8..19 */
  assert_int_equal(lap_cache_length(cache), 20);
  int64_t oldest = lap_cache_oldest(cache);
  assert_true(oldest > 0);
  int64_t last_possible = oldest + 7; /* sees positions from oldest on */
  assert_true(lap_cache_can_trim(cache, last_possible));
  assert_false(lap_cache_can_trim(cache, last_possible - 1));
  assert_int_equal(lap_cache_trim(cache, last_possible - 1, &error), LAP_ERROR_STATE);
  assert_non_null(strstr(error.message, "cannot trim"));
  assert_int_equal(lap_cache_length(cache), 20);
  expect_ok(lap_cache_trim(cache, last_possible, &error), &error);
  append(cache, 3);
  for (int64_t position = last_possible + 3 - 8; position < last_possible + 3; position++)
    assert_true(holds(cache, position));
  lap_cache_destroy(cache);
}

static void conversion_stores_what_direct_writing_would_have_stored(void **state) {
  (void)state;
  for (int64_t window = 0; window <= 24; window += 24)
    for (int bits = 4; bits <= 8; bits += 4) {
      lap_error error;
      lap_cache *plain, *direct;
      lap_cache_shape p = shape_of(window, 16), q = shape_of(window, bits);
      expect_ok(lap_cache_create(device, &p, &plain, &error), &error);
      expect_ok(lap_cache_create(device, &q, &direct, &error), &error);
      random_source source = {11};
      for (int position = 0; position < 70; position++) {
        expect_ok(lap_cache_reserve(plain, 1, &error), &error);
        expect_ok(lap_cache_reserve(direct, 1, &error), &error);
        for (int head = 0; head < KV_HEADS; head++) {
          /* values that int16 blocks hold exactly: multiples of amax / 32767 */
          float k[HEAD_DIM], v[HEAD_DIM];
          for (int d = 0; d < HEAD_DIM; d++) {
            k[d] = (float)(random_below(&source, 65535) - 32767);
            v[d] = (float)(random_below(&source, 65535) - 32767);
          }
          k[3] = v[5] = 32767.0f;
          write_head(plain, position, head, k, v);
          write_head(direct, position, head, k, v);
        }
        lap_cache_commit(plain, 1);
        lap_cache_commit(direct, 1);
      }
      expect_ok(lap_cache_convert(plain, bits, 64, &error), &error);
      assert_int_equal(lap_cache_length(plain), lap_cache_length(direct));
      for (int plane = 0; plane < lap_cache_planes(direct); plane++) {
        unsigned char a[4096], b[4096];
        for (int64_t position = lap_cache_oldest(plain); position < 70; position++) {
          expect_ok(lap_cache_read(plain, plane, position, position + 1, a, &error), &error);
          expect_ok(lap_cache_read(direct, plane, position, position + 1, b, &error), &error);
          assert_memory_equal(a, b, lap_cache_plane_bytes(direct, plane));
        }
      }
      assert_int_equal(lap_cache_convert(plain, 4, 64, &error), LAP_ERROR_STATE);
      lap_cache_destroy(plain);
      lap_cache_destroy(direct);
    }
}

/* ---- snapshots: damaged and foreign files ---- */

typedef struct pebble {
  lap_model *model;
  lap_session *session;
} pebble;

static pebble open_pebble(lap_kv_mode kv) {
  pebble p;
  lap_error error;
  expect_ok(lap_model_open(SOURCE_DIR "/models/pebble", &(lap_model_options){.kv = kv}, &p.model, &error),
            &error);
  expect_ok(lap_session_create(p.model, NULL, &p.session, &error), &error);
  return p;
}

static void close_pebble(pebble *p) {
  lap_session_destroy(p->session);
  lap_model_close(p->model);
}

static const int32_t story[] = {2, 315, 439, 394, 287, 376, 354, 357, 351, 343, 276};
enum {
  STORY = sizeof story / sizeof story[0]
};

static const char *snapshot_path(void) {
  return path_of(BINARY_DIR "/test_cache.%d.snapshot", (int)getpid());
}

static void write_all(const char *path, const unsigned char *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  fclose(file);
}

/* Restoring must fail, name the file, and leave the session as it was. */
static void expect_refused(pebble *p, const char *path, lap_status status, const char *word) {
  lap_error error = {0};
  int64_t count;
  assert_int_equal(lap_session_restore(p->session, path, &error), status);
  if (!strstr(error.message, word)) fail_msg("'%s' does not say '%s'", error.message, word);
  assert_non_null(strstr(error.message, path));
  lap_session_tokens(p->session, &count);
  assert_int_equal(count, 3);
}

static void damaged_snapshots_are_refused_and_change_nothing(void **state) {
  (void)state;
  lap_error error;
  const char *path = snapshot_path();
  pebble writer = open_pebble(LAP_KV_CONFIG), reader = open_pebble(LAP_KV_CONFIG);
  expect_ok(lap_session_eval(writer.session, story, STORY, 0, NULL, &error), &error);
  expect_ok(lap_session_eval(reader.session, story, 3, 0, NULL, &error), &error);
  expect_ok(lap_session_save(writer.session, path, &error), &error);
  size_t bytes;
  unsigned char *data = read_all(path, &bytes);
  random_source source = {13};
  for (int trial = 0; trial < 60; trial++) { /* one flipped bit anywhere */
    size_t at = trial < 20 ? (size_t)trial * 3 : (size_t)(random_bits(&source) % bytes);
    data[at] ^= (unsigned char)(1 << random_below(&source, 8));
    write_all(path, data, bytes);
    lap_error refused = {0};
    lap_status status = lap_session_restore(reader.session, path, &refused);
    bool in_version = at >= 8 && at < 12;
    assert_int_equal(status, in_version ? LAP_ERROR_STATE : LAP_ERROR_FORMAT);
    assert_non_null(strstr(refused.message, path));
    write_all(path, data, bytes);
    free(data);
    expect_ok(lap_session_save(writer.session, path, &error), &error);
    data = read_all(path, &bytes);
  }
  for (size_t cut = 0; cut < bytes; cut += bytes / 13) { /* truncated */
    write_all(path, data, cut);
    expect_refused(&reader, path, LAP_ERROR_FORMAT, cut < 100 ? "too few" : "checksum");
  }
  write_all(path, data, bytes);
  expect_ok(lap_session_restore(reader.session, path, &error), &error); /* whole again */
  unlink(path);
  free(data);
  close_pebble(&writer);
  close_pebble(&reader);
}

static void snapshots_of_other_settings_and_files_are_refused(void **state) {
  (void)state;
  lap_error error;
  const char *path = snapshot_path();
  pebble writer = open_pebble(LAP_KV_CONFIG), reader = open_pebble(LAP_KV_8);
  expect_ok(lap_session_eval(writer.session, story, STORY, 0, NULL, &error), &error);
  expect_ok(lap_session_eval(reader.session, story, 3, 0, NULL, &error), &error);
  expect_ok(lap_session_save(writer.session, path, &error), &error);
  expect_refused(&reader, path, LAP_ERROR_STATE, "another");
  write_all(path, (const unsigned char *)"not a snapshot, but long enough to hold a header and a checksum of one: "
                                         "is it refused by its first bytes? It is.",
            112);
  expect_refused(&reader, path, LAP_ERROR_FORMAT, "magic");
  unlink(path);
  expect_refused(&reader, path, LAP_ERROR_IO, "cannot be opened");
  expect_refused(&reader, BINARY_DIR, LAP_ERROR_IO, "regular");
  close_pebble(&writer);
  close_pebble(&reader);
}

static void a_failed_save_leaves_the_old_file_whole(void **state) {
  (void)state;
  lap_error error;
  const char *path = snapshot_path();
  pebble p = open_pebble(LAP_KV_CONFIG);
  expect_ok(lap_session_eval(p.session, story, STORY, 0, NULL, &error), &error);
  lap_error refused;
  assert_int_equal(lap_session_save(p.session, path_of("%s/no/such/directory", BINARY_DIR), &refused),
                   LAP_ERROR_IO);
  assert_non_null(strstr(refused.message, "no/such/directory"));
  /* a directory in the file's place: the rename fails, nothing is left behind */
  assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
  assert_int_equal(lap_session_save(p.session, path, &refused), LAP_ERROR_IO);
  assert_int_equal(rmdir(path), 0);
  close_pebble(&p);
}

/* ---- copies of rings ---- */

/* The bits that come after `ids` in a session. */
static void logits_after(pebble *p, const int32_t *ids, int count, float *logits) {
  lap_error error;
  expect_ok(lap_session_eval(p->session, ids, count, 1, logits, &error), &error);
}

enum {
  LONG = 400, /* Pebble's window is 128 */
  VOCAB = 2048
};

static void long_story(int32_t ids[LONG]) {
  random_source source = {5};
  for (int i = 0; i < LONG; i++) ids[i] = random_below(&source, VOCAB);
}

static void a_sequence_goes_back_by_copies_of_its_rings(void **state) {
  (void)state;
  lap_error error;
  int32_t ids[LONG];
  float expected[VOCAB], logits[VOCAB];
  long_story(ids);
  const int at[] = {50, 127, 128, 129, 200, 260};
  for (int i = 0; i < 6; i++) {
    pebble cold = open_pebble(LAP_KV_CONFIG), p = open_pebble(LAP_KV_CONFIG);
    lap_rings *rings;
    lap_kv *copy;
    logits_after(&cold, ids, at[i], expected);
    logits_after(&cold, ids + LONG - 3, 3, expected);
    for (int t = 0; t < at[i]; t += 10) logits_after(&p, ids + t, at[i] - t < 10 ? at[i] - t : 10, logits);
    expect_ok(lap_rings_create(p.session->sequence->kv, at[i], &rings, &error), &error);
    assert_int_equal(rings->reach.length, at[i]);
    assert_int_equal(rings->reach.lowest, at[i] > 128 ? at[i] - 1 : 0);
    for (int t = 0; t < 130; t += 10) logits_after(&p, ids + at[i] + t, 10, logits);
    assert_false(lap_kv_can_trim(p.session->sequence->kv, at[i]));
    assert_int_equal(lap_kv_copy(p.session->sequence->kv, NULL, at[i], &copy, &error), LAP_ERROR_STATE);
    assert_int_equal(lap_kv_rewind(p.session->sequence->kv, rings, at[i] + 1, &error), LAP_ERROR_STATE);
    if (at[i] > 129)
      assert_int_equal(lap_kv_rewind(p.session->sequence->kv, rings, at[i] - 2, &error), LAP_ERROR_STATE);
    assert_int_equal(lap_kv_length(p.session->sequence->kv), at[i] + 130);
    assert_true(lap_rings_bytes(rings) <= lap_kv_rings_bytes(p.session->sequence->kv) + 64 * 1024);
    /* a copy, and then the sequence itself */
    expect_ok(lap_kv_copy(p.session->sequence->kv, rings, at[i], &copy, &error), &error);
    const lap_segment segment = {
        .kv = copy, .ids = ids + LONG - 3, .count = 3, .logits_from = 2, .logits = logits};
    expect_ok(lap_passes_run(lap_batch_passes(p.session->batch), &segment, 1, &error), &error);
    assert_memory_equal(logits, expected, sizeof logits);
    expect_ok(lap_kv_rewind(p.session->sequence->kv, rings, at[i], &error), &error);
    lap_rings_destroy(rings);
    logits_after(&p, ids + LONG - 3, 3, logits);
    assert_memory_equal(logits, expected, sizeof logits);
    lap_kv_destroy(copy);
    close_pebble(&cold);
    close_pebble(&p);
  }
}

/* A snapshot with copies in it: read whole, read in part, read by a session, and damaged. */
static void snapshots_hold_copies_of_rings(void **state) {
  (void)state;
  lap_error error;
  int32_t ids[LONG], *tokens;
  lap_origin *origins;
  const lap_keys keys = {.ids = ids};
  float expected[VOCAB], logits[VOCAB];
  int64_t length;
  int count;
  lap_rings *rings[2], *read[LAP_SNAPSHOT_RINGS];
  lap_snapshot_head head;
  const char *path = snapshot_path();
  long_story(ids);
  pebble cold = open_pebble(LAP_KV_CONFIG), writer = open_pebble(LAP_KV_CONFIG),
         reader = open_pebble(LAP_KV_CONFIG), other = open_pebble(LAP_KV_4);
  logits_after(&writer, ids, 150, logits);
  expect_ok(lap_rings_create(writer.session->sequence->kv, 150, &rings[0], &error), &error);
  logits_after(&writer, ids + 150, 130, logits);
  expect_ok(lap_rings_create(writer.session->sequence->kv, 279, &rings[1], &error), &error);
  logits_after(&writer, ids + 280, 100, logits);
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
  expect_ok(lap_model_fingerprint(writer.model, fingerprint, &error), &error);
  expect_ok(lap_snapshot_save(writer.session->sequence->kv, rings, 2, fingerprint, keys, path, &error),
            &error);

  expect_ok(lap_snapshot_peek(reader.session->sequence->kv, fingerprint, path, &head, &error), &error);
  assert_int_equal(head.length, 380);
  assert_memory_equal(head.tokens, ids, 380 * sizeof *ids);
  assert_int_equal(head.bytes, lap_snapshot_bytes(writer.session->sequence->kv, rings, 2, keys));
  assert_int_equal(head.states, 3);
  const int64_t lengths[] = {380, 150, 279};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(head.state[i].length, lengths[i]);
    assert_int_equal(head.state[i].lowest, lengths[i] - 1);
  }
  lap_snapshot_head_free(&head);
  assert_int_equal(lap_snapshot_peek(other.session->sequence->kv, fingerprint, path, &head, &error),
                   LAP_ERROR_STATE);

  expect_ok(lap_snapshot_load(reader.session->sequence->kv, fingerprint, path, &tokens, &origins, &length,
                              read, &count, &error),
            &error);
  assert_int_equal(count, 2);
  free(tokens);
  expect_ok(lap_kv_rewind(reader.session->sequence->kv, read[0], 150, &error), &error);
  const lap_segment segment = {.kv = reader.session->sequence->kv,
                               .ids = ids + LONG - 3,
                               .count = 3,
                               .logits_from = 2,
                               .logits = logits};
  expect_ok(lap_passes_run(lap_batch_passes(reader.session->batch), &segment, 1, &error), &error);
  logits_after(&cold, ids, 150, expected);
  logits_after(&cold, ids + LONG - 3, 3, expected);
  assert_memory_equal(logits, expected, sizeof logits);
  for (int i = 0; i < 2; i++) lap_rings_destroy(read[i]);
  expect_ok(lap_session_restore(cold.session, path, &error), &error); /* the copies do not disturb it */
  assert_memory_equal(lap_session_tokens(cold.session, &length), ids, 380 * sizeof *ids);

  size_t bytes;
  unsigned char *data = read_all(path, &bytes);
  random_source source = {31};
  size_t head_bytes = 68 + 3 * (size_t)reader.session->sequence->kv->caches * 48;
  for (int trial = 0; trial < 300; trial++) { /* heads with any field changed: refused, or read as they say */
    size_t at = 8 + (size_t)random_below(&source, (int)head_bytes - 8);
    unsigned char kept = data[at];
    data[at] = (unsigned char)random_bits(&source);
    write_all(path, data, bytes);
    if (lap_snapshot_peek(reader.session->sequence->kv, fingerprint, path, &head, &error) == LAP_OK) {
      assert_int_equal(head.length, 380);
      lap_snapshot_head_free(&head);
    } else {
      assert_non_null(strstr(error.message, path));
    }
    if (data[at] != kept)
      assert_int_not_equal(lap_snapshot_load(reader.session->sequence->kv, fingerprint, path, &tokens,
                                             &origins, &length, read, &count, &error),
                           LAP_OK);
    data[at] = kept;
  }
  unlink(path);
  free(data);
  for (int i = 0; i < 2; i++) lap_rings_destroy(rings[i]);
  close_pebble(&cold);
  close_pebble(&writer);
  close_pebble(&reader);
  close_pebble(&other);
}

/* What stands beside the ids comes back; a session, which keeps ids alone, does not take it for ids. */
static void snapshots_hold_origins(void **state) {
  (void)state;
  lap_error error;
  const char *path = snapshot_path();
  pebble writer = open_pebble(LAP_KV_CONFIG), reader = open_pebble(LAP_KV_CONFIG);
  lap_origin given[STORY] = {[3] = {{1, 2, 3}, 0, 0}, [4] = {{1, 2, 3}, 1, 0xfedcba9876543210u}}, *origins;
  const lap_origin zero[STORY] = {0};
  const lap_keys keys = {story, given}, ids_alone = {story, zero};
  for (int i = 5; i < STORY; i++) given[i].adapters = 5;
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
  expect_ok(lap_model_fingerprint(writer.model, fingerprint, &error), &error);
  expect_ok(lap_session_eval(writer.session, story, STORY, 0, NULL, &error), &error);
  expect_ok(lap_session_eval(reader.session, story, 3, 0, NULL, &error), &error);
  const lap_kv *kv = writer.session->sequence->kv;
  expect_ok(lap_snapshot_save(kv, NULL, 0, fingerprint, keys, path, &error), &error);

  lap_snapshot_head head;
  expect_ok(lap_snapshot_peek(reader.session->sequence->kv, fingerprint, path, &head, &error), &error);
  assert_int_equal(head.bytes, lap_snapshot_bytes(kv, NULL, 0, keys));
  assert_int_equal(head.length, STORY);
  assert_memory_equal(head.tokens, story, sizeof story);
  assert_memory_equal(head.origins, given, sizeof given);
  lap_snapshot_head_free(&head);
  expect_refused(&reader, path, LAP_ERROR_UNSUPPORTED, "origins");

  int32_t *tokens;
  int64_t length;
  int count;
  lap_rings *rings[LAP_SNAPSHOT_RINGS];
  expect_ok(lap_snapshot_load(reader.session->sequence->kv, fingerprint, path, &tokens, &origins, &length,
                              rings, &count, &error),
            &error);
  assert_int_equal(length, STORY);
  assert_memory_equal(tokens, story, sizeof story);
  assert_memory_equal(origins, given, sizeof given);
  free(tokens);
  free(origins);

  /* zeros take no room */
  assert_int_equal(lap_snapshot_bytes(kv, NULL, 0, keys) - lap_snapshot_bytes(kv, NULL, 0, ids_alone),
                   32 * STORY);
  expect_ok(lap_snapshot_save(kv, NULL, 0, fingerprint, ids_alone, path, &error), &error);
  expect_ok(lap_snapshot_peek(kv, fingerprint, path, &head, &error), &error);
  assert_int_equal(head.bytes, lap_snapshot_bytes(kv, NULL, 0, ids_alone));
  assert_null(head.origins);
  lap_snapshot_head_free(&head);
  expect_ok(lap_session_restore(reader.session, path, &error), &error);
  unlink(path);
  close_pebble(&writer);
  close_pebble(&reader);
}

enum {
  MANY = 5000,
  RING = 3000
};

/* Any bytes, which for every plane, position and place in the row are others. */
static void fill_row(unsigned char *row, size_t bytes, int plane, int64_t position) {
  random_source source = {(uint64_t)(position * 8 + plane)};
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t bits = random_bits(&source);
    memcpy(row + i, &bits, 8);
  }
}

static void fill_cache(lap_cache *cache, int64_t oldest) {
  lap_error error;
  expect_ok(lap_cache_load_begin(cache, oldest, MANY, &error), &error);
  for (int plane = 0; plane < lap_cache_planes(cache); plane++) {
    size_t bytes = lap_cache_plane_bytes(cache, plane);
    unsigned char *rows = malloc((MANY - (size_t)oldest) * bytes);
    for (int64_t p = oldest; p < MANY; p++) fill_row(rows + (size_t)(p - oldest) * bytes, bytes, plane, p);
    expect_ok(lap_cache_load(cache, plane, rows, &error), &error);
    free(rows);
  }
}

static void expect_filled(const lap_cache *cache, int64_t oldest) {
  lap_error error;
  unsigned char row[1024], expected[1024];
  assert_int_equal(lap_cache_oldest(cache), oldest);
  for (int plane = 0; plane < lap_cache_planes(cache); plane++) {
    size_t bytes = lap_cache_plane_bytes(cache, plane);
    assert_true(bytes % 8 == 0 && bytes <= sizeof row);
    for (int64_t p = oldest; p < MANY; p++) {
      fill_row(expected, bytes, plane, p);
      expect_ok(lap_cache_read(cache, plane, p, p + 1, row, &error), &error);
      assert_memory_equal(row, expected, bytes);
    }
  }
}

/* Planes of several mebibytes, in rings that have wrapped and in caches that grow: what is moved in runs
 * stands where it stood. */
static void snapshots_of_long_sequences_hold_every_position(void **state) {
  (void)state;
  lap_error error;
  const char *path = snapshot_path();
  const unsigned char fingerprint[LAP_FINGERPRINT_BYTES] = {1};
  int32_t *ids = calloc(MANY, sizeof *ids), *tokens;
  int64_t length;
  for (int bits = 8; bits <= 16; bits *= 2) {
    lap_layer layers[2] = {{.cache = 0}, {.cache = 1, .window = RING}};
    for (int i = 0; i < 2; i++) {
      layers[i].kv_heads = KV_HEADS;
      layers[i].head_dim = 4 * HEAD_DIM;
      layers[i].kv_bits = bits == 16 ? 0 : bits;
      layers[i].kv_group_size = 64;
    }
    const lap_plan plan = {.layers = 2, .caches = 2, .layer = layers, .vocab_size = 8};
    const lap_bound bound = {device, &plan};
    lap_kv *kv;
    expect_ok(lap_kv_create(&bound, false, &kv, &error), &error);
    fill_cache(kv->cache[0], 0);
    fill_cache(kv->cache[1], MANY - RING);
    expect_ok(lap_kv_save(kv, fingerprint, ids, path, &error), &error);
    lap_kv_destroy(kv);
    expect_ok(lap_kv_create(&bound, false, &kv, &error), &error);
    expect_ok(lap_kv_load(kv, fingerprint, path, &tokens, &length, &error), &error);
    assert_int_equal(length, MANY);
    expect_filled(kv->cache[0], 0);
    expect_filled(kv->cache[1], MANY - RING);
    lap_kv_destroy(kv);
    free(tokens);
  }
  free(ids);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(queries_find_the_positions_that_mlx_attends),
      cmocka_unit_test(a_ring_never_exceeds_its_window_plus_one_chunk),
      cmocka_unit_test(memory_grows_with_use_in_steps),
      cmocka_unit_test(no_history_takes_more_than_the_bound),
      cmocka_unit_test(quantized_positions_take_what_the_plan_computes),
      cmocka_unit_test(a_wrapped_ring_refuses_to_trim_beyond_what_it_holds),
      cmocka_unit_test(conversion_stores_what_direct_writing_would_have_stored),
      cmocka_unit_test(damaged_snapshots_are_refused_and_change_nothing),
      cmocka_unit_test(snapshots_of_other_settings_and_files_are_refused),
      cmocka_unit_test(a_failed_save_leaves_the_old_file_whole),
      cmocka_unit_test(a_sequence_goes_back_by_copies_of_its_rings),
      cmocka_unit_test(snapshots_hold_copies_of_rings),
      cmocka_unit_test(snapshots_hold_origins),
      cmocka_unit_test(snapshots_of_long_sequences_hold_every_position),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
