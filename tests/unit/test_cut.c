/* The cut: what the generator writes, which checkpoint a cut belongs to, what is loaded and what is refused,
 * what the gate finds, and which calls the cut serves. */
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "cut/generate.h"
#include "cutter/cutter.h"
#include "engine/session.h"
#include "forge/forge.h"
#include "program/fingerprint.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

#define PEBBLE  SOURCE_DIR "/models/pebble"
#define CONFIGS SOURCE_DIR "/models/configs"

enum {
  TOKENS = 12,
  VOCAB = 2048,
  HANG_SECONDS = 30
};

/* The plain form of Pebble is not built in: its cut is made once, and stored here. */
static struct {
  char *cache; /* XDG_CACHE_HOME */
  char directory[256], object[300];
  char structure[LAP_PLAN_FINGERPRINT_BYTES];
  unsigned char *data; /* of the good object */
  size_t bytes;
} stored;

static bool is_quick(void) {
  return getenv("LAPIDARY_TEST_QUICK") != NULL;
}

static void run_command(const char *command) {
  if (system(command) != 0) fail_msg("%s: failed", command);
}

static lap_model *open_model(const char *directory, lap_kv_mode kv) {
  lap_error error;
  lap_model *model;
  expect_ok(lap_model_open(directory, &(lap_model_options){.kv = kv}, &model, &error), &error);
  return model;
}

static lap_session *open_session(lap_model *model, const lap_session_options *options) {
  lap_error error;
  lap_session *session;
  expect_ok(lap_session_create(model, options, &session, &error), &error);
  return session;
}

static void draw_ids(int32_t *ids, int count) {
  random_source source = {21};
  for (int i = 0; i < count; i++) ids[i] = random_below(&source, VOCAB);
}

/* A prompt in one pass and two tokens in one pass each; all logits. */
static lap_stats evaluate(lap_model *model, lap_path path, float logits[TOKENS * VOCAB]) {
  enum {
    PROMPT = TOKENS - 2
  };
  lap_error error;
  int32_t ids[TOKENS];
  lap_session *session = open_session(model, &(lap_session_options){.threads = 2, .path = path});
  draw_ids(ids, TOKENS);
  expect_ok(lap_session_eval(session, ids, PROMPT, PROMPT, logits, &error), &error);
  for (int i = PROMPT; i < TOKENS; i++)
    expect_ok(lap_session_eval(session, ids + i, 1, 1, logits + i * VOCAB, &error), &error);
  lap_stats stats = lap_session_stats(session);
  lap_session_destroy(session);
  return stats;
}

/* ---- the text ---- */

static char *source_of(const char *name, lap_kv_mode kv, char structure[LAP_PLAN_FINGERPRINT_BYTES]) {
  lap_error error;
  lap_plan *plan;
  char *source;
  size_t length;
  const lap_forge_options options = {.config = path_of("%s/%s.json", CONFIGS, name),
                                     .kv_config = path_of("%s/%s.kv_config.json", CONFIGS, name)};
  expect_ok(lap_forge_plan(&options, kv, &plan, &error), &error);
  expect_ok(lap_cut_structure(plan, structure, &error), &error);
  expect_ok(lap_cut_generate(plan, name, &source, &length, &error), &error);
  assert_int_equal(strlen(source), length);
  lap_plan_free(plan);
  return source;
}

/* Lines that begin with `start`. */
static int count_lines(const char *text, const char *start) {
  int count = 0;
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    count += strncmp(line, start, strlen(start)) == 0;
  }
  return count;
}

static void e4b_has_eight_kinds_and_calls_them_in_order(void **state) {
  (void)state;
  static const char *const calls[] = {
      "  donor_sliding_g64b4_v_pli_scalar(&s, 0, 0);",
      "  donor_sliding_g64b8_v_pli_scalar(&s, 3, 3);",
      "  donor_full_g64b8_v_pli_scalar(&s, 11, 11);",
      "  donor_sliding_g64b4_v_pli_scalar_export(&s, 22, 22);",
      "  donor_full_g64b4_v_pli_scalar_export_last(&s, 23, 23);\n  if (p->rows == 0) return;\n",
      "  sharer_sliding_g64b4_pli_scalar(&s, 24, 22);",
      "  sharer_full_g64b4_pli_scalar(&s, 29, 23);"};
  char structure[LAP_PLAN_FINGERPRINT_BYTES];
  char *source = source_of("e4b", LAP_KV_CONFIG, structure);
  assert_int_equal(count_lines(source, "static void donor_") + count_lines(source, "static void sharer_"), 8);
  assert_int_equal(count_lines(source, "  donor_"), 24);
  assert_int_equal(count_lines(source, "  sharer_"), 42 - 24);
  const char *at = source;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    const char *found = strstr(at, calls[i]);
    if (!found) fail_msg("'%s' is not called, or not in order", calls[i]);
    at = found;
  }
  /* A sharer reads the cache of the last donor of its type. */
  for (int layer = 24; layer < 42; layer++) {
    const bool full = layer % 6 == 5;
    const char *call = path_of("  sharer_%s_g64b4_pli_scalar(&s, %d, %d);", full ? "full" : "sliding", layer,
                               full ? 23 : 22);
    if (!strstr(source, call)) fail_msg("'%s' is not called", call);
  }
  assert_non_null(strstr(source, path_of("lap_cut_%s", structure)));
  free(source);
}

static void what_is_generated_twice_is_equal_and_plain_caches_are_another_cut(void **state) {
  (void)state;
  char first[LAP_PLAN_FINGERPRINT_BYTES], second[LAP_PLAN_FINGERPRINT_BYTES];
  static const char *const names[] = {"e2b", "e4b", "12b", "26b-a4b", "31b"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *source = source_of(names[i], LAP_KV_CONFIG, first);
    char *again = source_of(names[i], LAP_KV_CONFIG, second);
    assert_string_equal(source, again);
    assert_string_equal(first, second);
    char *plain = source_of(names[i], LAP_KV_PLAIN, second);
    assert_string_not_equal(first, second);
    assert_non_null(strstr(source, "_g64b"));
    assert_null(strstr(plain, "_g64b"));
    free(source), free(again), free(plain);
  }
}

/* ---- which checkpoint a cut belongs to ---- */

typedef struct change {
  const char *what;
  const char *file, *from, *to;
} change;

static const change changes[] = {
    {"nothing", "config.json", "", ""},
    {"one layer's KV bits", "kv_config.json", "\"layer_idx\": 3,\n  \"bits\": 4",
     "\"layer_idx\": 3,\n  \"bits\": 8"},
    {"one module's weight bits", "config.json",
     "layers.3.self_attn.v_proj\": {\n   \"group_size\": 64,\n   \"bits\": 8",
     "layers.3.self_attn.v_proj\": {\n   \"group_size\": 64,\n   \"bits\": 4"},
    {"the window", "config.json", "\"sliding_window\": 128", "\"sliding_window\": 127"},
    {"one layer's type", "config.json",
     "\"layer_types\": [\n   \"sliding_attention\",\n   \"sliding_attention\"",
     "\"layer_types\": [\n   \"sliding_attention\",\n   \"full_attention\""},
};

/* A checkpoint of random weights with Pebble's structure but for one change. */
static char *forge_changed(const change *c) {
  static const char *const files[] = {"config.json", "kv_config.json"};
  lap_error error;
  lap_forge_result result;
  char *source = make_directory(), *directory = make_directory();
  for (int i = 0; i < 2; i++) {
    size_t bytes;
    char *text = (char *)read_all(path_of(PEBBLE "/%s", files[i]), &bytes);
    text = realloc(text, bytes + 1);
    assert_non_null(text);
    text[bytes] = '\0';
    char *changed = strcmp(files[i], c->file) == 0 ? replaced(text, c->from, c->to) : strdup(text);
    write_file(source, files[i], changed, strlen(changed));
    free(changed), free(text);
  }
  const lap_forge_options options = {.config = path_of("%s/config.json", source),
                                     .kv_config = path_of("%s/kv_config.json", source),
                                     .force = true};
  expect_ok(lap_forge(directory, &options, &result, &error), &error);
  remove_directory(source);
  return directory;
}

/* Pebble's own cut is built in. What differs from Pebble in one bit of structure must not run on it; what
 * differs only in the numbers of its weights must. */
static void one_change_of_structure_is_another_cut_and_the_monolith_serves(void **state) {
  (void)state;
  float *logits[2] = {malloc(sizeof(float[TOKENS * VOCAB])), malloc(sizeof(float[TOKENS * VOCAB]))};
  char *empty = make_directory();
  setenv("XDG_CACHE_HOME", empty, 1);
  lap_model *pebble = open_model(PEBBLE, LAP_KV_CONFIG);
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    char *directory = forge_changed(&changes[i]);
    lap_model *model = open_model(directory, LAP_KV_CONFIG);
    const lap_cut_info cut = lap_model_cut(model), own = lap_model_cut(pebble);
    const lap_stats stats = evaluate(model, LAP_PATH_AUTO, logits[0]);
    const bool same = i == 0;
    assert_true(own.available);
    assert_null(own.path);
    if ((strcmp(cut.fingerprint, own.fingerprint) == 0) != same || cut.available != same ||
        stats.passes_cut != (same ? 3 : 0) || stats.passes_monolith != (same ? 0 : 3))
      fail_msg("%s has changed: fingerprint %s (%s), %d passes on the cut", changes[i].what, cut.fingerprint,
               own.fingerprint, (int)stats.passes_cut);
    if (!same) assert_non_null(strstr(cut.why, cut.fingerprint));
    evaluate(model, LAP_PATH_MONOLITH, logits[1]);
    assert_memory_equal(logits[0], logits[1], sizeof(float[TOKENS * VOCAB]));
    lap_model_close(model);
    remove_directory(directory);
  }
  lap_model_close(pebble);
  remove_directory(empty);
  free(logits[0]), free(logits[1]);
}

/* ---- stored objects ---- */

static bool stop_at_once(void *context, const char *part) {
  (void)context;
  (void)part;
  return false;
}

/* Puts `data` where the cut is looked for: a new file, as a cut comes there. */
static void store(const void *data, size_t bytes) {
  const char *fresh = path_of("%s/fresh", stored.directory);
  write_file(stored.directory, "fresh", data, bytes);
  assert_int_equal(chmod(fresh, 0644), 0);
  if (rename(fresh, stored.object) != 0) { /* onto a directory */
    run_command(path_of("rm -rf '%s'", stored.object));
    assert_int_equal(rename(fresh, stored.object), 0);
  }
}

static void store_good(void) {
  store(stored.data, stored.bytes);
}

static float *expected_logits; /* of the monolith */

static int make_stored(void **state) {
  (void)state;
  lap_error error;
  lap_cutter_result result;
  const char *compiler = getenv("CC");
  setenv("CC", path_of("%s -O1", compiler && *compiler ? compiler : "cc"), 1);
  stored.cache = make_directory();
  setenv("XDG_CACHE_HOME", stored.cache, 1);
  expect_ok(lap_cutter_run(PEBBLE, &(lap_model_options){.kv = LAP_KV_PLAIN},
                           &(lap_gate_options){.threads = 2}, &result, &error),
            &error);
  snprintf(stored.object, sizeof stored.object, "%s", result.path);
  snprintf(stored.directory, sizeof stored.directory, "%.*s", (int)(strrchr(result.path, '/') - result.path),
           result.path);
  stored.data = read_all(stored.object, &stored.bytes);
  assert_int_equal(stored.bytes, result.object_bytes);
  assert_true(result.gate.logits > VOCAB && result.gate.passes > 0);
  free(result.path);
  expected_logits = malloc(sizeof(float[TOKENS * VOCAB]));
  lap_model *model = open_model(PEBBLE, LAP_KV_PLAIN);
  memcpy(stored.structure, lap_cpu_of(model->bound)->cut.structure, sizeof stored.structure);
  evaluate(model, LAP_PATH_MONOLITH, expected_logits);
  lap_model_close(model);
  return 0;
}

static int remove_stored(void **state) {
  (void)state;
  run_command(path_of("rm -rf '%s'", stored.cache));
  free(stored.cache);
  free(stored.data);
  free(expected_logits);
  return 0;
}

static void a_good_object_is_loaded_and_serves_every_pass(void **state) {
  (void)state;
  struct stat status;
  float *logits = malloc(sizeof(float[TOKENS * VOCAB]));
  setenv("XDG_CACHE_HOME", stored.cache, 1);
  lap_model *model = open_model(PEBBLE, LAP_KV_PLAIN);
  const lap_cut_info cut = lap_model_cut(model);
  if (!cut.available) fail_msg("it is not loaded: %s", cut.why);
  assert_string_equal(cut.path, stored.object);
  assert_string_equal(cut.why, "");
  for (int path = LAP_PATH_AUTO; path <= LAP_PATH_CUT; path++) {
    const lap_stats stats = evaluate(model, (lap_path)path, logits);
    assert_int_equal(stats.passes_cut, path == LAP_PATH_MONOLITH ? 0 : 3);
    assert_int_equal(stats.passes_monolith, path == LAP_PATH_MONOLITH ? 3 : 0);
    assert_memory_equal(logits, expected_logits, sizeof(float[TOKENS * VOCAB]));
  }
  lap_model_close(model);
  /* What the cutter leaves: the object and its source, nothing that others may write to. */
  assert_int_equal(stat(stored.object, &status), 0);
  assert_int_equal(status.st_mode & (S_IWGRP | S_IWOTH), 0);
  run_command(path_of("test \"$(ls -A '%s' | tr '\\n' ' ')\" = 'cut.c %s '", stored.directory,
                      strrchr(stored.object, '/') + 1));
  free(logits);
}

/* The model opens, says where and why, and computes on the monolith. */
static void expect_refused(const char *what, const char *where, const char *reason) {
  lap_error error;
  lap_session *session;
  float *logits = malloc(sizeof(float[TOKENS * VOCAB]));
  setenv("XDG_CACHE_HOME", stored.cache, 1);
  alarm(HANG_SECONDS);
  lap_model *model = open_model(PEBBLE, LAP_KV_PLAIN);
  alarm(0);
  const lap_cut_info cut = lap_model_cut(model);
  if (cut.available || cut.path) fail_msg("%s: it is loaded", what);
  if (!strstr(cut.why, where)) fail_msg("%s: '%s' does not name %s", what, cut.why, where);
  if (!strstr(cut.why, reason)) fail_msg("%s: '%s' does not say '%s'", what, cut.why, reason);
  assert_null(strchr(cut.why, '\n'));
  const lap_session_options options = {.path = LAP_PATH_CUT};
  assert_int_equal(lap_session_create(model, &options, &session, &error), LAP_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, cut.why));
  const lap_stats stats = evaluate(model, LAP_PATH_AUTO, logits);
  assert_int_equal(stats.passes_cut, 0);
  assert_int_equal(stats.passes_monolith, 3);
  if (memcmp(logits, expected_logits, sizeof(float[TOKENS * VOCAB])) != 0)
    fail_msg("%s: other logits than the monolith's", what);
  lap_model_close(model);
  free(logits);
}

static void truncated_and_lengthened_objects_are_refused(void **state) {
  (void)state;
  const size_t whole = stored.bytes, bare = whole - LAP_CUT_SEAL_BYTES;
  const size_t lengths[] = {0, 10, LAP_CUT_SEAL_BYTES - 1, LAP_CUT_SEAL_BYTES, whole / 2, bare, whole - 1};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    store(stored.data, lengths[i]);
    expect_refused(path_of("the first %zu bytes", lengths[i]), stored.object,
                   lengths[i] < LAP_CUT_SEAL_BYTES ? "is too short" : "is damaged or no cut");
  }
  unsigned char *other = malloc(whole + 1);
  memcpy(other, stored.data, whole);
  other[whole] = 0;
  store(other, whole + 1);
  expect_refused("a byte too many", stored.object, "is damaged or no cut");
  memmove(other + whole / 2, stored.data + bare, LAP_CUT_SEAL_BYTES); /* the seal of the whole on a half */
  store(other, whole / 2 + LAP_CUT_SEAL_BYTES);
  expect_refused("half, sealed", stored.object, "its checksum is wrong");
  free(other);
  store_good();
}

static void one_flipped_bit_anywhere_is_refused(void **state) {
  (void)state;
  const size_t bare = stored.bytes - LAP_CUT_SEAL_BYTES;
  const size_t inside[] = {0, 1, 64, bare / 3, bare / 2, bare - 1};
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
    stored.data[inside[i]] ^= 4;
    store_good();
    stored.data[inside[i]] ^= 4;
    expect_refused(path_of("byte %zu", inside[i]), stored.object, "its checksum is wrong");
  }
  for (size_t at = 0; at < LAP_CUT_SEAL_BYTES; at += is_quick() ? 5 : 1) {
    const char *reason = at < 8    ? "is damaged or no cut"
                         : at < 24 ? "is the cut of"
                                   : "its checksum is wrong";
    stored.data[bare + at] ^= 1;
    store_good();
    stored.data[bare + at] ^= 1;
    expect_refused(path_of("byte %zu of the seal", at), stored.object, reason);
  }
  store_good();
}

/* The seal of registry.c: magic 8, fingerprint 16, length 8, SHA-256 32. */
static void seal_again(unsigned char *data, size_t bytes) {
  struct sha256_ctx hash;
  sha256_init(&hash);
  sha256_update(&hash, bytes - 32, data);
  sha256_digest(&hash, 32, data + bytes - 32);
}

static void sealed_objects_that_are_no_cut_of_this_checkpoint_are_refused(void **state) {
  (void)state;
  const size_t bytes = stored.bytes, bare = bytes - LAP_CUT_SEAL_BYTES;
  const char *fingerprint = strrchr(stored.directory, '/') + 1;
  char symbol[64];
  unsigned char *data = malloc(bytes), *seal = data + bare;
  memcpy(data, stored.data, bytes);
  seal_again(data, bytes);
  assert_memory_equal(data, stored.data, bytes); /* this test seals as the cutter does */

  seal[24]++;
  seal_again(data, bytes);
  store(data, bytes);
  expect_refused("another length", stored.object, "its checksum is wrong");
  seal[24]--;
  memcpy(seal + 8, "0123456789abcdef", 16);
  seal_again(data, bytes);
  store(data, bytes);
  expect_refused("the seal of another", stored.object, "is the cut of 0123456789abcdef");

  lap_registry_seal(fingerprint, data, bare, seal);
  assert_memory_equal(data, stored.data, bytes);
  /* One that says itself that it was made of other sources, whatever its seal says. */
  unsigned char *made_of = memmem(data, bare, lap_cut_sources, strlen(lap_cut_sources));
  assert_non_null(made_of);
  memcpy(made_of, "0123456789abcdef", 16);
  lap_registry_seal(fingerprint, data, bare, seal);
  store(data, bytes);
  expect_refused("other sources", stored.object, "holds no code for");
  memcpy(made_of, lap_cut_sources, 16);

  snprintf(symbol, sizeof symbol, "lap_cut_%s_", stored.structure);
  unsigned char *name = memmem(data, bare, symbol, strlen(symbol));
  assert_non_null(name);
  for (; name; name = memmem(name, (size_t)(seal - name), symbol, strlen(symbol))) name[0] = 'L';
  lap_registry_seal(fingerprint, data, bare, seal);
  store(data, bytes);
  expect_refused("a sealed object without the symbol", stored.object, "holds no code for");

  static const char text[] = "This is no object.\n";
  memcpy(data, text, sizeof text);
  lap_registry_seal(fingerprint, data, sizeof text, data + sizeof text);
  store(data, sizeof text + LAP_CUT_SEAL_BYTES);
  expect_refused("a sealed text", stored.object, "cannot be loaded");
  memset(data, '\n', 200);
  store(data, 200);
  expect_refused("a text", stored.object, "is damaged or no cut");
  free(data);
  store_good();
}

/* Before the compiler is started. */
static void expect_no_cutting_into(const char *directory) {
  lap_error error;
  lap_cutter_result result;
  const lap_gate_options never = {.progress = stop_at_once};
  assert_int_equal(lap_cutter_run(PEBBLE, &(lap_model_options){.kv = LAP_KV_PLAIN}, &never, &result, &error),
                   LAP_ERROR_IO);
  assert_non_null(strstr(error.message, path_of("%s:", directory)));
  assert_null(result.path);
}

static void what_others_can_have_written_is_refused(void **state) {
  (void)state;
  char above[256];
  static const mode_t modes[] = {0666, 0646, 0664, 0622};
  snprintf(above, sizeof above, "%.*s", (int)(strrchr(stored.directory, '/') - stored.directory),
           stored.directory);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    assert_int_equal(chmod(stored.object, modes[i]), 0);
    expect_refused(path_of("mode %o", (unsigned)modes[i]), stored.object, "others may write to it");
  }
  store_good();
  const char *const directories[] = {stored.directory, above};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(chmod(directories[i], 0777), 0);
    expect_refused("a world-writable directory", path_of("%s:", directories[i]), "others may write to it");
    expect_no_cutting_into(directories[i]);
    assert_int_equal(chmod(directories[i], 0770), 0);
    expect_refused("a group's directory", path_of("%s:", directories[i]), "others may write to it");
    assert_int_equal(chmod(directories[i], 0700), 0);
  }
  if (geteuid() != 0) return;
  assert_int_equal(chown(stored.object, 12345, (gid_t)-1), 0);
  expect_refused("somebody else's file", stored.object, "belongs to somebody else");
  store_good();
  assert_int_equal(chown(stored.directory, 12345, (gid_t)-1), 0);
  expect_refused("somebody else's directory", path_of("%s:", stored.directory), "belongs to somebody else");
  assert_int_equal(chown(stored.directory, 0, (gid_t)-1), 0);
}

static void what_is_no_regular_file_is_refused(void **state) {
  (void)state;
  assert_int_equal(unlink(stored.object), 0);
  expect_refused("nothing", strrchr(stored.directory, '/') + 1, "there is no cut of this checkpoint");
  write_file(stored.directory, "elsewhere", stored.data, stored.bytes);
  assert_int_equal(symlink("elsewhere", stored.object), 0);
  expect_refused("a symbolic link to a good one", stored.object, "symbolic links");
  assert_int_equal(unlink(stored.object), 0);
  assert_int_equal(unlink(path_of("%s/elsewhere", stored.directory)), 0);
  assert_int_equal(mkdir(stored.object, 0700), 0);
  expect_refused("a directory", stored.object, "is not a regular file");
  assert_int_equal(rmdir(stored.object), 0);
  assert_int_equal(mkfifo(stored.object, 0600), 0);
  expect_refused("a FIFO", stored.object, "is not a regular file");
  store_good();
  const char *moved = path_of("%s.moved", stored.directory);
  assert_int_equal(rename(stored.directory, moved), 0);
  assert_int_equal(symlink(moved, stored.directory), 0);
  expect_refused("a symbolic link to its directory", path_of("%s:", stored.directory), "is not a directory");
  assert_int_equal(unlink(stored.directory), 0);
  assert_int_equal(rename(moved, stored.directory), 0);
}

/* ---- the gate ---- */

/* One object with all the faults; `fault` below says which one it has. */
static const change faults[] = {
    {"none", "", "#include \"pass/head.h\"\n",
     "#include <stdlib.h>\nstatic int fault;\n#include \"pass/head.h\"\n"},
    {"", "", "static void forward(lap_pass *p) {\n",
     "static void forward(lap_pass *p) {\n  fault = atoi(getenv(\"LAPIDARY_TEST_FAULT\"));\n"},
    {"", "", "(&s, 9, 7)", "(&s, 9, fault == 1 ? 6 : 7)"},
    {"", "", "  lap_row_scale(", "  if (fault != 2 || s->layer != 4) lap_row_scale("},
    {"", "", "token, 0x1p+4f, h)", "token, fault == 3 ? 8.0f : 0x1p+4f, h)"},
    {"", "", "multiply_8g64_256, 0x1.ep+4f,", "multiply_8g64_256, fault == 4 ? 29.0f : 0x1.ep+4f,"},
    {"", "", ".window = 128,", ".window = fault == 5 ? 127 : 128,"},
    {"", "", "lap_drop_unwanted_rows(s->pass, kept, 6)",
     "lap_drop_unwanted_rows(s->pass, kept, fault == 6 ? 5 : 6)"},
};

/* What the gate says of fault 1, 2, ...: the part, and the place. */
static const struct {
  const char *part, *place;
} findings[] = {
    {"a short prompt", "first in layer 9 "},
    {"a short prompt", "first in layer 4 "},
    {"a short prompt", "at the embedding"},
    {"a short prompt", "in the head"},
    {"a prompt longer than the window in odd chunks", "first in layer 0 "},
    {"a prompt longer than the window in one chunk", "where rows leave early"},
};

static void compile_faulty(const char *flags) {
  lap_error error;
  char *source;
  size_t length, bytes;
  char *work = make_directory();
  expect_ok(lap_cutter_source(PEBBLE, &(lap_model_options){.kv = LAP_KV_PLAIN}, &source, &length, &error),
            &error);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    char *changed = replaced(source, faults[i].from, faults[i].to);
    free(source);
    source = changed;
  }
  write_file(work, "cut.c", source, strlen(source));
  run_command(path_of(
      "$CC %s -std=c17 -fPIC -shared -ffp-contract=off -fno-math-errno "
      "-fvisibility=hidden -w -I" SOURCE_DIR "/src -I" BINARY_DIR "/include -o %s/cut.so %s/cut.c -lm",
      flags, work, work));
  unsigned char *object = read_all(path_of("%s/cut.so", work), &bytes);
  object = realloc(object, bytes + LAP_CUT_SEAL_BYTES);
  assert_non_null(object);
  lap_registry_seal(strrchr(stored.directory, '/') + 1, object, bytes, object + bytes);
  store(object, bytes + LAP_CUT_SEAL_BYTES);
  free(object), free(source);
  remove_directory(work);
}

/* A model on the right object stays open meanwhile: each must run on its own code. */
static void the_gate_finds_a_wrong_cut_and_names_the_layer(void **state) {
  (void)state;
  lap_error error;
  lap_gate_result result;
  const lap_gate_options options = {.threads = 2};
  setenv("XDG_CACHE_HOME", stored.cache, 1);
  setenv("LAPIDARY_TEST_FAULT", "0", 1);
  lap_model *right = open_model(PEBBLE, LAP_KV_PLAIN);
  compile_faulty(lap_cpu_of(right->bound)->kernels->flags);
  lap_model *model = open_model(PEBBLE, LAP_KV_PLAIN);
  assert_true(lap_model_cut(model).available);
  assert_ptr_not_equal(lap_cpu_of(model->bound)->cut.code, lap_cpu_of(right->bound)->cut.code);
  for (size_t i = 0; i < sizeof findings / sizeof *findings; i++) {
    setenv("LAPIDARY_TEST_FAULT", path_of("%zu", i + 1), 1);
    const lap_status status = lap_gate_run(model, &options, &result, &error);
    if (status != LAP_ERROR_NUMERIC) fail_msg("fault %zu is not found", i + 1);
    if (!strstr(error.message, findings[i].part) || !strstr(error.message, findings[i].place))
      fail_msg("fault %zu: '%s' does not say '%s', '%s'", i + 1, error.message, findings[i].part,
               findings[i].place);
  }
  setenv("LAPIDARY_TEST_FAULT", "0", 1);
  expect_ok(lap_gate_run(model, &options, &result, &error), &error);
  unsetenv("LAPIDARY_TEST_FAULT");
  lap_model_close(model);
  expect_ok(lap_gate_run(right, &options, &result, &error), &error);
  lap_model_close(right);
  store_good();
}

static void the_gate_proves_the_built_in_cut_and_needs_one(void **state) {
  (void)state;
  lap_error error;
  lap_gate_result result;
  const lap_gate_options options = {.threads = 1};
  lap_model *model = open_model(PEBBLE, LAP_KV_CONFIG), *without = open_model(PEBBLE, LAP_KV_8);
  expect_ok(lap_gate_run(model, &options, &result, &error), &error);
  assert_true(result.logits >= 200 * VOCAB);
  assert_true(result.passes >= 60);
  assert_int_equal(lap_gate_run(without, &options, &result, &error), LAP_ERROR_UNSUPPORTED);
  lap_model_close(model);
  lap_model_close(without);
}

/* ---- the guard ---- */

static void other_caches_run_on_the_monolith_call_by_call(void **state) {
  (void)state;
  enum {
    PROMPT = 20,
    DECODED = 4
  };
  lap_error error;
  int32_t ids[PROMPT + DECODED];
  float *logits[2];
  lap_model *model = open_model(PEBBLE, LAP_KV_CONFIG);
  draw_ids(ids, PROMPT + DECODED);
  static const lap_path paths[] = {LAP_PATH_MONOLITH, LAP_PATH_AUTO, LAP_PATH_CUT};
  for (int i = 0; i < 3; i++) {
    const bool cut = paths[i] != LAP_PATH_MONOLITH;
    float *out = logits[i > 0] = malloc(sizeof(float[(PROMPT + DECODED) * VOCAB]));
    const lap_session_options options = {.threads = 2, .chunk = 8, .kv_start_prompt = true, .path = paths[i]};
    lap_session *session = open_session(model, &options);
    expect_ok(lap_session_eval(session, ids, PROMPT, PROMPT, out, &error), &error);
    lap_stats stats = lap_session_stats(session);
    assert_int_equal(stats.passes_monolith, 3);
    assert_int_equal(stats.passes_cut, 0);
    expect_ok(lap_session_end_prompt(session, &error), &error);
    for (int t = PROMPT; t < PROMPT + DECODED; t++)
      expect_ok(lap_session_eval(session, ids + t, 1, 1, out + t * VOCAB, &error), &error);
    stats = lap_session_stats(session);
    assert_int_equal(stats.passes_monolith, cut ? 3 : 3 + DECODED);
    assert_int_equal(stats.passes_cut, cut ? DECODED : 0);
    lap_session_destroy(session);
    if (i == 0) continue;
    assert_memory_equal(logits[0], out, sizeof(float[(PROMPT + DECODED) * VOCAB]));
    free(out);
  }
  free(logits[0]);
  lap_model_close(model);
}

/* In one pass with a session whose caches fit, one whose caches do not takes both to the monolith. */
static void one_segment_with_other_caches_keeps_the_pass_off_the_cut(void **state) {
  (void)state;
  lap_error error;
  int32_t ids[2 * TOKENS];
  lap_model *model = open_model(PEBBLE, LAP_KV_CONFIG);
  float *logits = malloc(sizeof(float[2 * VOCAB]));
  draw_ids(ids, 2 * TOKENS);
  for (int other = 0; other < 2; other++) {
    lap_session *one = open_session(model, NULL);
    lap_session *two = open_session(model, &(lap_session_options){.kv_start_prompt = other});
    const lap_segment segments[] = {
        {.kv = one->sequence->kv, .ids = ids, .count = TOKENS, .logits_from = TOKENS - 1, .logits = logits},
        {.kv = two->sequence->kv,
         .ids = ids + TOKENS,
         .count = TOKENS,
         .logits_from = TOKENS - 1,
         .logits = logits + VOCAB}};
    expect_ok(lap_forward_run(lap_batch_passes(one->batch)->forward, segments, 2, &error), &error);
    assert_int_equal(lap_forward_served(lap_batch_passes(one->batch)->forward),
                     other ? LAP_PATH_MONOLITH : LAP_PATH_CUT);
    lap_session_destroy(one);
    lap_session_destroy(two);
  }
  free(logits);
  lap_model_close(model);
}

static void the_cut_is_an_error_where_there_is_none(void **state) {
  (void)state;
  lap_error error;
  lap_session *session;
  lap_model *model = open_model(PEBBLE, LAP_KV_8);
  const lap_session_options options = {.path = LAP_PATH_CUT};
  assert_int_equal(lap_session_create(model, &options, &session, &error), LAP_ERROR_UNSUPPORTED);
  assert_null(session);
  assert_non_null(strstr(error.message, "there is no cut"));
  lap_model_close(model);
}

/* Pebble's is built in for every instruction set, the public sizes' for AVX2 and NEON. */
static void a_cut_for_another_instruction_set_does_not_serve_and_it_is_said(void **state) {
  (void)state;
  lap_model *model = open_model(PEBBLE, LAP_KV_CONFIG);
  lap_found_cut pebble = {0}, e4b = {0}, kept = {0};
  setenv("XDG_CACHE_HOME", stored.cache, 1);
  memcpy(pebble.fingerprint, lap_cpu_of(model->bound)->cut.fingerprint, sizeof pebble.fingerprint);
  memcpy(pebble.structure, lap_cpu_of(model->bound)->cut.structure, sizeof pebble.structure);
  for (int i = 0; lap_kernels_built[i]; i++) {
    pebble.code = NULL;
    lap_registry_find(lap_kernels_built[i]->name, &pebble);
    assert_non_null(pebble.code);
    assert_string_equal(pebble.code->isa, lap_kernels_built[i]->name);
  }
  pebble.code = NULL;
  lap_registry_find("another", &pebble);
  assert_null(pebble.code);
  assert_string_equal(pebble.why,
                      path_of("there is no cut of this checkpoint (%s) for another, only for others; "
                              "`lapidary cut` makes one",
                              pebble.fingerprint));
  free(source_of("e4b", LAP_KV_CONFIG, e4b.structure));
  lap_registry_find("portable", &e4b);
  const bool public_sizes_are_built_in = strstr(e4b.why, "for portable, only for others") != NULL;
  for (int i = 0; lap_kernels_built[i] != &lap_kernels_portable; i++) {
    const char *isa = lap_kernels_built[i]->name;
    assert_null(e4b.code);
    lap_registry_find(isa, &e4b);
    assert_int_equal(e4b.code != NULL, public_sizes_are_built_in && strcmp(isa, "avx512") != 0);
    e4b.code = NULL;
  }
  /* A stored one for this instruction set, found where another's should be: it is not run. */
  snprintf(kept.fingerprint, sizeof kept.fingerprint, "%s", strrchr(stored.directory, '/') + 1);
  snprintf(kept.structure, sizeof kept.structure, "%s", stored.structure);
  for (int i = 0; lap_kernels_built[i]; i++) {
    const char *isa = lap_kernels_built[i]->name;
    if (lap_kernels_built[i] == lap_cpu_of(model->bound)->kernels) continue;
    assert_false(lap_registry_load(stored.object, isa, &kept));
    assert_string_equal(kept.why, path_of("%s: holds no code for %s", stored.object, isa));
  }
  lap_model_close(model);
}

/* ---- forms of attention ---- */

enum {
  LONG = 700, /* more than a span of 512 */
  ROWS = 6    /* of logits: the last ones, all but two of them by decoding */
};

static void evaluate_long(lap_model *model, lap_path path, int threads, const char *method, float *logits) {
  lap_error error;
  int32_t ids[LONG];
  draw_ids(ids, LONG);
  lap_session *session =
      open_session(model, &(lap_session_options){.threads = threads, .path = path, .attention = method});
  expect_ok(lap_session_eval(session, ids, LONG - ROWS + 2, 2, logits, &error), &error);
  for (int i = 2; i < ROWS; i++)
    expect_ok(lap_session_eval(session, ids + LONG - ROWS + i, 1, 1, logits + i * VOCAB, &error), &error);
  const lap_stats stats = lap_session_stats(session);
  assert_int_equal(path == LAP_PATH_CUT ? stats.passes_monolith : stats.passes_cut, 0);
  lap_session_destroy(session);
}

static void both_methods_of_attention_give_the_same_bits(void **state) {
  (void)state;
  static const struct {
    lap_kv_mode kv;
    const char *name;
    bool cut;
  } modes[] = {{LAP_KV_CONFIG, "config", true},
               {LAP_KV_PLAIN, "plain", true},
               {LAP_KV_8, "8", false},
               {LAP_KV_4, "4", false}};
  static const char *const methods[] = {NULL, "plain", "tiled"};
  const size_t bytes = sizeof(float[ROWS * VOCAB]);
  float *expected = malloc(bytes), *logits = malloc(bytes);
  setenv("XDG_CACHE_HOME", stored.cache, 1);
  for (int m = 0; m < (is_quick() ? 1 : 4); m++) {
    lap_model *model = open_model(PEBBLE, modes[m].kv);
    evaluate_long(model, LAP_PATH_MONOLITH, 1, NULL, expected);
    for (int way = 0; way < 12; way++) {
      const lap_path path = way >= 6 ? LAP_PATH_CUT : LAP_PATH_MONOLITH;
      const char *method = methods[way % 6 / 2];
      const int threads = way % 2 ? 3 : 1;
      if (way == 0 || (path == LAP_PATH_CUT && !modes[m].cut) || (is_quick() && threads == 1)) continue;
      evaluate_long(model, path, threads, method, logits);
      if (memcmp(expected, logits, bytes) != 0)
        fail_msg("kv %s, %s, attention %s, %d threads: other bits", modes[m].name,
                 path == LAP_PATH_CUT ? "cut" : "monolith", method ? method : "by default", threads);
    }
    lap_model_close(model);
  }
  free(expected), free(logits);
}

static void a_method_of_attention_that_does_not_exist_is_an_error(void **state) {
  (void)state;
  static const char *const words[] = {"flash", "tiled ", "PLAIN", "1"};
  lap_error error;
  lap_session *session;
  lap_model *model = open_model(PEBBLE, LAP_KV_CONFIG);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const lap_session_options options = {.attention = words[i]};
    assert_int_equal(lap_session_create(model, &options, &session, &error), LAP_ERROR_ARGUMENT);
    assert_null(session);
    assert_non_null(strstr(error.message, path_of("attention: '%s'", words[i])));
  }
  lap_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(e4b_has_eight_kinds_and_calls_them_in_order),
      cmocka_unit_test(what_is_generated_twice_is_equal_and_plain_caches_are_another_cut),
      cmocka_unit_test(one_change_of_structure_is_another_cut_and_the_monolith_serves),
      cmocka_unit_test(a_good_object_is_loaded_and_serves_every_pass),
      cmocka_unit_test(truncated_and_lengthened_objects_are_refused),
      cmocka_unit_test(one_flipped_bit_anywhere_is_refused),
      cmocka_unit_test(sealed_objects_that_are_no_cut_of_this_checkpoint_are_refused),
      cmocka_unit_test(what_others_can_have_written_is_refused),
      cmocka_unit_test(what_is_no_regular_file_is_refused),
      cmocka_unit_test(the_gate_finds_a_wrong_cut_and_names_the_layer),
      cmocka_unit_test(the_gate_proves_the_built_in_cut_and_needs_one),
      cmocka_unit_test(other_caches_run_on_the_monolith_call_by_call),
      cmocka_unit_test(one_segment_with_other_caches_keeps_the_pass_off_the_cut),
      cmocka_unit_test(the_cut_is_an_error_where_there_is_none),
      cmocka_unit_test(a_cut_for_another_instruction_set_does_not_serve_and_it_is_said),
      cmocka_unit_test(both_methods_of_attention_give_the_same_bits),
      cmocka_unit_test(a_method_of_attention_that_does_not_exist_is_an_error),
  };
  return cmocka_run_group_tests(tests, make_stored, remove_stored);
}
