/* test_tokenizer.c: the tokenizer against recorded vectors, against BPE as it is defined, and against
 * files that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <yajl/yajl_parse.h>
#include <yajl/yajl_tree.h>

#include "text/tokenizer.h"

#define PEBBLE SOURCE_DIR "/models/pebble/tokenizer.json"
#define EXAM   SOURCE_DIR "/tests/data/exam.json"
#define MARK   "\xe2\x96\x81"
#define BROKEN "\xef\xbf\xbd"

/* ---- helpers --------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint32_t random_below(uint32_t bound) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((random_state >> 33) % bound);
}

typedef struct buffer {
  char *text;
  size_t length, capacity;
} buffer;

static void add_bytes(buffer *b, const char *text, size_t length) {
  if (b->length + length + 1 > b->capacity) {
    b->capacity = 2 * b->capacity + length + 64;
    b->text = realloc(b->text, b->capacity);
    assert_non_null(b->text);
  }
  memcpy(b->text + b->length, text, length);
  b->length += length;
  b->text[b->length] = '\0';
}

static void add(buffer *b, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  assert_in_range(length, 0, sizeof text - 1);
  add_bytes(b, text, (size_t)length);
}

static char *read_whole(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  buffer b = {0};
  char part[65536];
  add_bytes(&b, "", 0);
  for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;) add_bytes(&b, part, got);
  fclose(file);
  if (length) *length = b.length;
  return b.text;
}

static lap_tokenizer *open_path(const char *path) {
  lap_error error = {0};
  lap_tokenizer *tokenizer;
  if (lap_tokenizer_open(path, &tokenizer, &error) != LAP_OK) fail_msg("%s", error.message);
  return tokenizer;
}

static lap_tokenizer *open_text(const char *json) {
  lap_error error = {0};
  lap_tokenizer *tokenizer;
  if (lap_tokenizer_open_memory(json, strlen(json), "test.json", &tokenizer, &error) != LAP_OK)
    fail_msg("%s", error.message);
  return tokenizer;
}

typedef struct id_list {
  int32_t *ids;
  size_t count;
} id_list;

static id_list encode_bytes(const lap_tokenizer *tokenizer, const char *text, size_t length,
                            bool parse_special) {
  lap_error error = {0};
  id_list list;
  if (lap_tokenizer_encode(tokenizer, text, length, parse_special, &list.ids, &list.count, &error) != LAP_OK)
    fail_msg("%s", error.message);
  assert_non_null(list.ids);
  return list;
}

static id_list encode(const lap_tokenizer *tokenizer, const char *text, bool parse_special) {
  return encode_bytes(tokenizer, text, strlen(text), parse_special);
}

/* By merges alone. */
static id_list encode_merges(const lap_tokenizer *tokenizer, const char *text) {
  lap_error error = {0};
  id_list list;
  if (lap_tokenizer_encode_merges(tokenizer, text, strlen(text), &list.ids, &list.count, &error) != LAP_OK)
    fail_msg("%s", error.message);
  return list;
}

static id_list encode_marked(const lap_tokenizer *tokenizer, const char *text, const lap_range *trusted,
                             size_t count) {
  lap_error error = {0};
  id_list list;
  if (lap_tokenizer_encode_marked(tokenizer, text, strlen(text), trusted, count, &list.ids, &list.count,
                                  &error) != LAP_OK)
    fail_msg("%s", error.message);
  return list;
}

static buffer decode(const lap_tokenizer *tokenizer, const int32_t *ids, size_t count, bool show_special) {
  buffer b = {0};
  lap_detokenizer state = {0};
  for (size_t i = 0; i < count; i++)
    assert_int_equal(
        lap_detokenize(tokenizer, &state, ids[i], show_special, &b.text, &b.length, &b.capacity, NULL),
        LAP_OK);
  assert_int_equal(lap_detokenize_end(&state, &b.text, &b.length, &b.capacity, NULL), LAP_OK);
  assert_int_equal(b.text[b.length], 0);
  return b;
}

static void assert_ids(const char *what, id_list got, const int32_t *expected, size_t count) {
  bool same = got.count == count && memcmp(got.ids, expected, count * sizeof *expected) == 0;
  if (same) return;
  buffer b = {0};
  add(&b, "\"%.100s\" encodes to", what);
  for (size_t i = 0; i < got.count && i < 40; i++) add(&b, " %d", got.ids[i]);
  add(&b, ", not");
  for (size_t i = 0; i < count && i < 40; i++) add(&b, " %d", expected[i]);
  fail_msg("%s", b.text);
}

/* A space stands for itself and for the mark; no other difference is allowed. */
static void assert_round_trip(const lap_tokenizer *tokenizer, const char *text, size_t length,
                              bool parse_added) {
  id_list list = encode_bytes(tokenizer, text, length, parse_added);
  buffer back = decode(tokenizer, list.ids, list.count, true);
  assert_int_equal(back.length, length);
  assert_memory_equal(back.text, text, length);
  free(back.text);
  free(list.ids);
}

/* ---- JSON in the tests ----------------------------------------------------------------------- */

static yajl_val parse_json(const char *text) {
  char message[256];
  yajl_val root = yajl_tree_parse(text, message, sizeof message);
  if (!root) fail_msg("%s", message);
  return root;
}

static yajl_val member(yajl_val object, const char *key) {
  const char *path[] = {key, NULL};
  yajl_val value = yajl_tree_get(object, path, yajl_t_any);
  if (!value) fail_msg("no %s", key);
  return value;
}

static id_list id_array(yajl_val array) {
  id_list list = {.count = YAJL_GET_ARRAY(array)->len};
  list.ids = malloc((list.count + 1) * sizeof *list.ids);
  assert_non_null(list.ids);
  for (size_t i = 0; i < list.count; i++)
    list.ids[i] = (int32_t)YAJL_GET_INTEGER(YAJL_GET_ARRAY(array)->values[i]);
  return list;
}

#define NORMALIZER \
  "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}"
#define DECODER                                                                                            \
  "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK \
  "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}"
#define FILE_WITH(added, model) \
  "{\"added_tokens\":[" added "]," NORMALIZER "," DECODER ",\"model\":{" model "}}"
#define ADDED(id, content, special) \
  "{\"id\":" #id ",\"content\":\"" content "\",\"special\":" #special ",\"normalized\":false}"
#define MODEL(vocab, merges) \
  "\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0," vocab "},\"merges\":[" merges "]"

/* ---- BPE as it is defined -------------------------------------------------------------------- */

typedef struct naive_token {
  char *text;
  int32_t id;
} naive_token;

typedef struct naive_rule {
  int32_t left, right, rank, merged;
} naive_rule;

/* The vocabulary and the rules of a file, each sorted. */
typedef struct naive {
  naive_token *tokens;
  naive_rule *rules;
  size_t token_count, rule_count;
  int depth;
  enum {
    ELSEWHERE,
    IN_VOCAB,
    IN_MERGES
  } where;
  char **parts; /* left and right parts of the rules in turn */
  size_t part_count;
} naive;

static int by_text(const void *a, const void *b) {
  return strcmp(((const naive_token *)a)->text, ((const naive_token *)b)->text);
}

static int by_pair(const void *a, const void *b) {
  const naive_rule *x = a, *y = b;
  if (x->left != y->left) return x->left < y->left ? -1 : 1;
  return x->right < y->right ? -1 : x->right > y->right;
}

static int32_t naive_id(const naive *n, char *text) {
  naive_token key = {.text = text};
  const naive_token *found = bsearch(&key, n->tokens, n->token_count, sizeof key, by_text);
  return found ? found->id : -1;
}

/* A reader of its own (YAJL's tree appends to an object of 262,144 members in quadratic time): it
 * relies on the file being well formed and on merges being pairs. */
static int naive_key(void *context, const unsigned char *key, size_t length) {
  naive *n = context;
  char *text = strndup((const char *)key, length);
  assert_non_null(text);
  if (n->depth == 3 && n->where == IN_VOCAB) {
    if ((n->token_count & (n->token_count - 1)) == 0)
      n->tokens = realloc(n->tokens, (2 * n->token_count + 1) * sizeof *n->tokens);
    assert_non_null(n->tokens);
    n->tokens[n->token_count++].text = text;
    return 1;
  }
  n->where = n->depth != 2                 ? ELSEWHERE
             : strcmp(text, "vocab") == 0  ? IN_VOCAB
             : strcmp(text, "merges") == 0 ? IN_MERGES
                                           : ELSEWHERE;
  free(text);
  return 1;
}

static int naive_integer(void *context, long long value) {
  naive *n = context;
  if (n->depth == 3 && n->where == IN_VOCAB) n->tokens[n->token_count - 1].id = (int32_t)value;
  return 1;
}

static int naive_string(void *context, const unsigned char *text, size_t length) {
  naive *n = context;
  if (n->depth != 4 || n->where != IN_MERGES) return 1;
  if ((n->part_count & (n->part_count - 1)) == 0)
    n->parts = realloc(n->parts, (2 * n->part_count + 1) * sizeof *n->parts);
  assert_non_null(n->parts);
  n->parts[n->part_count] = strndup((const char *)text, length);
  assert_non_null(n->parts[n->part_count++]);
  return 1;
}

static int naive_begin(void *context) {
  ((naive *)context)->depth++;
  return 1;
}

static int naive_end(void *context) {
  ((naive *)context)->depth--;
  return 1;
}

static naive naive_open(const char *json) {
  static const yajl_callbacks callbacks = {.yajl_integer = naive_integer,
                                           .yajl_string = naive_string,
                                           .yajl_start_map = naive_begin,
                                           .yajl_map_key = naive_key,
                                           .yajl_end_map = naive_end,
                                           .yajl_start_array = naive_begin,
                                           .yajl_end_array = naive_end};
  naive n = {0};
  yajl_handle parser = yajl_alloc(&callbacks, NULL, &n);
  assert_int_equal(yajl_parse(parser, (const unsigned char *)json, strlen(json)), yajl_status_ok);
  assert_int_equal(yajl_complete_parse(parser), yajl_status_ok);
  yajl_free(parser);
  qsort(n.tokens, n.token_count, sizeof *n.tokens, by_text);
  n.rule_count = n.part_count / 2;
  n.rules = malloc((n.rule_count + 1) * sizeof *n.rules);
  assert_non_null(n.rules);
  for (size_t i = 0; i < n.rule_count; i++) {
    char joined[512], *left = n.parts[2 * i], *right = n.parts[2 * i + 1];
    snprintf(joined, sizeof joined, "%s%s", left, right);
    n.rules[i] = (naive_rule){naive_id(&n, left), naive_id(&n, right), (int32_t)i, naive_id(&n, joined)};
    free(left);
    free(right);
  }
  free(n.parts);
  qsort(n.rules, n.rule_count, sizeof *n.rules, by_pair);
  return n;
}

static void naive_close(naive *n) {
  for (size_t i = 0; i < n->token_count; i++) free(n->tokens[i].text);
  free(n->tokens);
  free(n->rules);
}

/* The ids of the characters of valid UTF-8 without NUL; spaces are already marks. */
static id_list naive_characters(const naive *n, const char *text) {
  id_list list = {malloc((strlen(text) + 1) * sizeof(int32_t)), 0};
  assert_non_null(list.ids);
  while (*text) {
    char character[5] = {*text++, 0, 0, 0, 0}, byte[8];
    for (int i = 1; i < 4 && ((unsigned char)*text & 0xc0) == 0x80; i++) character[i] = *text++;
    int32_t id = naive_id(n, character);
    if (id >= 0) list.ids[list.count++] = id;
    for (int i = 0; id < 0 && character[i]; i++) {
      snprintf(byte, sizeof byte, "<0x%02X>", (unsigned char)character[i]);
      list.ids[list.count++] = naive_id(n, byte);
    }
  }
  return list;
}

/* While some adjacent pair has a rule: join the pair of the lowest rank, leftmost first. */
static id_list naive_encode(const naive *n, const char *text) {
  id_list list = naive_characters(n, text);
  for (;;) {
    const naive_rule *best = NULL;
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < list.count; i++) {
      naive_rule key = {.left = list.ids[i], .right = list.ids[i + 1]};
      const naive_rule *rule = bsearch(&key, n->rules, n->rule_count, sizeof key, by_pair);
      if (rule && (!best || rule->rank < best->rank)) {
        best = rule;
        best_at = i;
      }
    }
    if (!best) return list;
    list.ids[best_at] = best->merged;
    memmove(&list.ids[best_at + 1], &list.ids[best_at + 2], (list.count - best_at - 2) * sizeof *list.ids);
    list.count--;
  }
}

static void assert_same_as_naive(const lap_tokenizer *tokenizer, const naive *n, const char *text) {
  id_list expected = naive_encode(n, text), got = encode_merges(tokenizer, text);
  assert_ids(text, got, expected.ids, expected.count);
  free(got.ids);
  free(expected.ids);
}

/* ---- Pebble and the exam --------------------------------------------------------------------- */

static void pebble_vectors_encode_and_decode_exactly(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  char *json = read_whole(EXAM, NULL);
  yajl_val root = parse_json(json), vectors = member(root, "tokenizer");
  assert_true(YAJL_GET_ARRAY(vectors)->len > 0);
  for (size_t i = 0; i < YAJL_GET_ARRAY(vectors)->len; i++) {
    yajl_val vector = YAJL_GET_ARRAY(vectors)->values[i];
    const char *text = YAJL_GET_STRING(member(vector, "text"));
    id_list expected = id_array(member(vector, "ids")), got = encode(tokenizer, text, true);
    assert_ids(text, got, expected.ids, expected.count);
    buffer back = decode(tokenizer, got.ids, got.count, true);
    assert_string_equal(back.text, YAJL_GET_STRING(member(vector, "back")));
    free(back.text);
    free(got.ids);
    free(expected.ids);
  }
  yajl_tree_free(root);
  free(json);
  lap_tokenizer_close(tokenizer);
}

static size_t occurrences(const char *text, const char *what) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) count++;
  return count;
}

static size_t count_id(id_list list, int32_t id) {
  size_t count = 0;
  for (size_t i = 0; i < list.count; i++) count += list.ids[i] == id;
  return count;
}

static void check_exam_case(const lap_tokenizer *tokenizer, yajl_val exam_case) {
  static const char *const controls[] = {"<bos>", "<|turn>", "<turn|>", "<|think|>", "<|tool>", "<tool|>"};
  const char *prompt = YAJL_GET_STRING(member(exam_case, "prompt"));
  id_list ids = encode(tokenizer, prompt, true), plain = encode(tokenizer, prompt, false);
  for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
    int32_t id = lap_tokenizer_id(tokenizer, controls[i], strlen(controls[i]));
    assert_true(id >= 0 && lap_tokenizer_is_special(tokenizer, id));
    assert_int_equal(count_id(ids, id), occurrences(prompt, controls[i]));
    assert_int_equal(count_id(plain, id), 0);
  }
  free(ids.ids);
  free(plain.ids);
  assert_round_trip(tokenizer, prompt, strlen(prompt), true);
  assert_round_trip(tokenizer, prompt, strlen(prompt), false);

  id_list answer = id_array(member(exam_case, "ids"));
  buffer said = decode(tokenizer, answer.ids, answer.count, true),
         shown = decode(tokenizer, answer.ids, answer.count, false);
  const char *expected = YAJL_GET_STRING(member(exam_case, "said"));
  assert_int_equal(strncmp(said.text, expected, strlen(expected)), 0);
  const char *rest = said.text + strlen(expected);
  assert_true(*rest == '\0' ||
              lap_tokenizer_is_special(tokenizer, lap_tokenizer_id(tokenizer, rest, strlen(rest))));
  assert_null(strstr(shown.text, "<turn|>"));
  free(shown.text);
  free(said.text);
  free(answer.ids);
}

static void exam_prompts_and_answers_round_trip(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  char *json = read_whole(EXAM, NULL);
  yajl_val root = parse_json(json);
  static const char *const runs[] = {"kv_bf16", "kv_quantized"};
  for (int run = 0; run < 2; run++) {
    yajl_val cases = member(member(root, runs[run]), "cases");
    assert_true(YAJL_GET_ARRAY(cases)->len > 0);
    for (size_t i = 0; i < YAJL_GET_ARRAY(cases)->len; i++)
      check_exam_case(tokenizer, YAJL_GET_ARRAY(cases)->values[i]);
  }
  yajl_tree_free(root);
  free(json);
  lap_tokenizer_close(tokenizer);
}

static void pebble_equals_naive_bpe(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  char *json = read_whole(PEBBLE, NULL);
  naive n = naive_open(json);
  random_state = 7;
  static const char *const odd[] = {MARK, "\n", "\t", "é", "漢", "🙂", "<", "|", "Z"};
  for (int round = 0; round < 3000; round++) {
    buffer text = {0};
    add_bytes(&text, "", 0);
    for (uint32_t i = 0, parts = random_below(12); i < parts; i++) {
      const naive_token *token = &n.tokens[random_below((uint32_t)n.token_count)];
      const char *part = random_below(4) == 0 ? odd[random_below(sizeof odd / sizeof *odd)] : token->text;
      add_bytes(&text, part, strlen(part));
    }
    assert_same_as_naive(tokenizer, &n, text.text);
    free(text.text);
  }
  naive_close(&n);
  free(json);
  lap_tokenizer_close(tokenizer);
}

/* ---- made-up vocabularies -------------------------------------------------------------------- */

enum {
  RANDOM_TOKENS = 40,
  RANDOM_RULES = 60
};

/* A vocabulary over few characters whose rules stand in no helpful order: many boundaries where no
 * rule joins, many ways to the same token, rules that can only apply after later ones. */
static char *random_vocabulary(void) {
  static const char *const characters[] = {"a", "b", "c", "<0xC3>", "<0xA9>", MARK}; /* "é" in bytes */
  enum {
    CHARACTERS = sizeof characters / sizeof *characters
  };
  char tokens[RANDOM_TOKENS][64], rules[RANDOM_RULES][2][64];
  size_t token_count = CHARACTERS, rule_count = 0;
  for (size_t i = 0; i < CHARACTERS; i++) strcpy(tokens[i], characters[i]);
  for (int attempt = 0; attempt < 400 && rule_count < RANDOM_RULES; attempt++) {
    const char *left = tokens[random_below((uint32_t)token_count)],
               *right = tokens[random_below((uint32_t)token_count)];
    char joined[128];
    snprintf(joined, sizeof joined, "%s%s", left, right);
    bool known = false, repeated = false;
    for (size_t i = 0; i < token_count; i++) known = known || strcmp(tokens[i], joined) == 0;
    for (size_t i = 0; i < rule_count; i++)
      repeated = repeated || (strcmp(rules[i][0], left) == 0 && strcmp(rules[i][1], right) == 0);
    if (repeated || strlen(joined) > 20 || (!known && token_count == RANDOM_TOKENS)) continue;
    strcpy(rules[rule_count][0], left);
    strcpy(rules[rule_count++][1], right);
    if (!known) strcpy(tokens[token_count++], joined);
  }
  buffer b = {0};
  add(&b, "{%s,", NORMALIZER);
  add(&b, "%s,", DECODER);
  add(&b,
      "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0");
  for (size_t i = 0; i < token_count; i++) add(&b, ",\"%s\":%zu", tokens[i], i + 1);
  add(&b, "},\"merges\":[");
  for (size_t i = rule_count; i > 0; i--) { /* draw without replacement: any order of ranks */
    size_t drawn = random_below((uint32_t)i);
    add(&b, "%s[\"%s\",\"%s\"]", i == rule_count ? "" : ",", rules[drawn][0], rules[drawn][1]);
    memmove(rules[drawn], rules[i - 1], sizeof rules[drawn]);
  }
  add(&b, "]}}");
  return b.text;
}

static void random_vocabularies_equal_naive_bpe(void **unused) {
  (void)unused;
  random_state = 20;
  static const char *const characters[] = {"a", "b", "c", "é", MARK, "a", "b"};
  for (int round = 0; round < 100; round++) {
    char *json = random_vocabulary();
    lap_tokenizer *tokenizer = open_text(json);
    naive n = naive_open(json);
    for (int i = 0; i < 100; i++) {
      buffer text = {0};
      add_bytes(&text, "", 0);
      for (uint32_t k = 0, length = random_below(60); k < length; k++)
        add(&text, "%s", characters[random_below(7)]);
      assert_same_as_naive(tokenizer, &n, text.text);
      free(text.text);
    }
    naive_close(&n);
    free(json);
    lap_tokenizer_close(tokenizer);
  }
}

static void lowest_rank_wins_and_leftmost_among_equals(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer =
      open_text(FILE_WITH("", MODEL("\"a\":1,\"b\":2,\"c\":3,\"bc\":4,\"ab\":5,\"aa\":6",
                                    "[\"b\",\"c\"],[\"a\",\"b\"],[\"a\",\"a\"]")));
  id_list got = encode(tokenizer, "abc", false);
  assert_ids("abc", got, (const int32_t[]){1, 4}, 2);
  free(got.ids);
  got = encode(tokenizer, "aaa", false);
  assert_ids("aaa", got, (const int32_t[]){6, 1}, 2);
  free(got.ids);
  got = encode(tokenizer, "aab", false);
  assert_ids("aab", got, (const int32_t[]){1, 5}, 2);
  free(got.ids);
  lap_tokenizer_close(tokenizer);
}

static void of_two_equal_rules_the_later_one_counts(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_text(FILE_WITH(
      "", MODEL("\"a\":1,\"b\":2,\"c\":3,\"bc\":4,\"ab\":5", "[\"a\",\"b\"],[\"b\",\"c\"],[\"a\",\"b\"]")));
  id_list got = encode(tokenizer, "abc", false);
  assert_ids("abc", got, (const int32_t[]){1, 4}, 2);
  free(got.ids);
  lap_tokenizer_close(tokenizer);
}

static void merges_as_strings_and_before_the_vocabulary_load(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_text(
      "{\"model\":{\"merges\":[\"a "
      "b\",[\"ab\",\"c\"]],\"vocab\":{\"abc\":9,\"ab\":7,\"c\":3,\"b\":2,\"a\":1,\"?\":0},"
      "\"unk_token\":\"?\",\"type\":\"BPE\",\"new\":{\"x\":[1,{\"type\":null}]}}," DECODER
      ",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"MergedWithPrevious\",\"pattern\":{\"String\":\" "
      "\"}},"
      "\"normalizer\":{\"normalizers\":[{\"content\":\"" MARK
      "\",\"pattern\":{\"String\":\" \"},\"type\":\"Replace\"}],\"type\":\"Sequence\"}}");
  id_list got = encode(tokenizer, "abcab", false);
  assert_ids("abcab", got, (const int32_t[]){9, 7}, 2);
  free(got.ids);
  assert_int_equal(lap_tokenizer_size(tokenizer), 10);
  assert_null(lap_tokenizer_token(tokenizer, 8, NULL)); /* a hole */
  assert_null(lap_tokenizer_token(tokenizer, 10, NULL));
  assert_null(lap_tokenizer_token(tokenizer, -1, NULL));
  size_t length = 0;
  assert_string_equal(lap_tokenizer_token(tokenizer, 9, &length), "abc");
  assert_int_equal(length, 3);
  assert_int_equal(lap_tokenizer_id(tokenizer, "ab", 2), 7);
  assert_int_equal(lap_tokenizer_id(tokenizer, "abd", 3), -1);
  lap_error error = {0};
  lap_detokenizer state = {0};
  buffer b = {0};
  assert_int_equal(lap_detokenize(tokenizer, &state, 8, true, &b.text, &b.length, &b.capacity, &error),
                   LAP_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "8"));
  lap_tokenizer_close(tokenizer);
}

static void unknown_characters_become_unk_fused_if_asked(void **unused) {
  (void)unused;
  lap_tokenizer *apart = open_text(FILE_WITH("", MODEL("\"a\":1", "")));
  id_list got = encode_bytes(apart, "a\xff漢a", 6, false);
  assert_ids("unk", got, (const int32_t[]){1, 0, 0, 1}, 4);
  free(got.ids);
  lap_tokenizer_close(apart);
  lap_tokenizer *fused =
      open_text(FILE_WITH(ADDED(9, "<x>", true), "\"fuse_unk\":true," MODEL("\"a\":1", "")));
  got = encode_bytes(fused, "a\xff漢a\0", 7, false);
  assert_ids("fused unk", got, (const int32_t[]){1, 0, 1, 0}, 4);
  free(got.ids);
  got = encode(fused, "漢字<x>漢", true);
  assert_ids("unk on both sides", got, (const int32_t[]){0, 9, 0}, 3);
  free(got.ids);
  lap_tokenizer_close(fused);
}

static void without_byte_fallback_bytes_become_unk(void **unused) {
  (void)unused;
  lap_tokenizer *off = open_text(FILE_WITH("", MODEL("\"a\":1,\"<0xFF>\":2", "")));
  id_list got = encode_bytes(off, "\xff", 1, false);
  assert_ids("off", got, (const int32_t[]){0}, 1);
  free(got.ids);
  lap_tokenizer_close(off);
  lap_tokenizer *on = open_text(FILE_WITH("", "\"byte_fallback\":true," MODEL("\"a\":1,\"<0xFF>\":2", "")));
  got = encode_bytes(on, "\xff", 1, false);
  assert_ids("on", got, (const int32_t[]){2}, 1);
  free(got.ids);
  lap_tokenizer_close(on);
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static void added_tokens_match_longest_leftmost_and_only_if_asked(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_text(FILE_WITH(
      ADDED(10, "<a", false) "," ADDED(11, "<ab>", true) "," ADDED(12, "b>", false) "," ADDED(13, "x", false),
      MODEL("\"<\":1,\"a\":2,\"b\":3,\">\":4", "")));
  id_list got = encode(tokenizer, "a<ab><aba<ab<<ab>", true);
  assert_ids("added", got, (const int32_t[]){2, 11, 10, 3, 2, 10, 3, 1, 11}, 9);
  free(got.ids);
  got = encode(tokenizer, "<ab>b>", true);
  assert_ids("added", got, (const int32_t[]){11, 12}, 2);
  free(got.ids);
  got = encode(tokenizer, "<ab>x", false); /* as if there were no special "<ab>" */
  assert_ids("no special ones", got, (const int32_t[]){10, 12, 13}, 3);
  free(got.ids);
  got = encode_merges(tokenizer, "<ab>x"); /* "x" is no token of the vocabulary */
  assert_ids("merges", got, (const int32_t[]){1, 2, 3, 4, 0}, 5);
  free(got.ids);
  assert_true(lap_tokenizer_is_special(tokenizer, 11));
  assert_false(lap_tokenizer_is_special(tokenizer, 10));
  assert_false(lap_tokenizer_is_special(tokenizer, 5));
  buffer hidden = decode(tokenizer, (const int32_t[]){10, 11, 2}, 3, false);
  assert_string_equal(hidden.text, "<aa");
  free(hidden.text);
  lap_tokenizer_close(tokenizer);
}

static void normalized_added_tokens_come_second(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer =
      open_text(FILE_WITH("{\"id\":10,\"content\":\"ab\",\"normalized\":true}," ADDED(11, "bc", false),
                          MODEL("\"a\":1,\"b\":2,\"c\":3", "")));
  id_list got = encode(tokenizer, "abcab", true);
  assert_ids("abcab", got, (const int32_t[]){1, 11, 10}, 3);
  free(got.ids);
  lap_tokenizer_close(tokenizer);
}

/* ---- text of mixed origin -------------------------------------------------------------------- */

/* Added tokens that overlap in many ways, in both passes, special and ordinary. */
#define MIXED_ADDED \
  ADDED(10, "<a", false) "," ADDED(11, "<ab>", true) "," ADDED(12, "b>", false) ","          \
  ADDED(13, "a<", true) ",{\"id\":14,\"content\":\"bc\",\"special\":true,\"normalized\":true}," \
  "{\"id\":15,\"content\":\"cc\",\"normalized\":true}"
static const struct {
  const char *text;
  int32_t id;
  bool special;
  int pass;
} mixed_added[] = {{"<a", 10, false, 0}, {"<ab>", 11, true, 0}, {"b>", 12, false, 0},
                   {"a<", 13, true, 0},  {"bc", 14, true, 1},   {"cc", 15, false, 1}};

typedef struct mixed_text {
  char text[40];
  bool trusted[40];
} mixed_text;

static bool all_trusted(const bool *trusted, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!trusted[i]) return false;
  return true;
}

/* The definition: at each position the longest added token of the pass that may count there. */
static void naive_marked(const lap_tokenizer *tokenizer, const mixed_text *m, size_t begin, size_t end,
                         int pass, id_list *out) {
  if (pass == 2) {
    char piece[40] = "";
    memcpy(piece, m->text + begin, end - begin);
    id_list merged = encode_merges(tokenizer, piece);
    memcpy(out->ids + out->count, merged.ids, merged.count * sizeof *merged.ids);
    out->count += merged.count;
    free(merged.ids);
    return;
  }
  for (size_t at = begin; at < end; at++) {
    int best = -1;
    size_t best_bytes = 0;
    for (int i = 0; i < (int)(sizeof mixed_added / sizeof *mixed_added); i++) {
      size_t bytes = strlen(mixed_added[i].text);
      if (mixed_added[i].pass != pass || bytes <= best_bytes || at + bytes > end ||
          memcmp(m->text + at, mixed_added[i].text, bytes) != 0 ||
          (mixed_added[i].special && !all_trusted(m->trusted + at, bytes)))
        continue;
      best = i;
      best_bytes = bytes;
    }
    if (best < 0) continue;
    naive_marked(tokenizer, m, begin, at, pass + 1, out);
    out->ids[out->count++] = mixed_added[best].id;
    begin = at + best_bytes;
    at = begin - 1;
  }
  naive_marked(tokenizer, m, begin, end, pass + 1, out);
}

/* Ranges over a text, some of them empty or touching; `trusted` by byte. */
static size_t random_ranges(mixed_text *m, lap_range *ranges) {
  size_t length = strlen(m->text), count = 0;
  memset(m->trusted, 0, sizeof m->trusted);
  for (size_t at = random_below(4); at <= length && count < 40;) {
    size_t end = at + random_below(9);
    if (end > length) end = length;
    ranges[count++] = (lap_range){at, end};
    memset(m->trusted + at, 1, end - at);
    at = end + (random_below(2) ? 0 : random_below(5));
    if (at == length) break;
  }
  return count;
}

static void marked_text_is_encoded_as_defined(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_text(
      FILE_WITH(MIXED_ADDED, MODEL("\"<\":1,\"a\":2,\"b\":3,\">\":4,\"c\":5,\"ab\":6,\"ba\":7,\"abba\":8",
                                   "\"a b\",\"b a\",\"ab ba\"")));
  random_state = 31;
  size_t special_ids = 0;
  for (int round = 0; round < 20000; round++) {
    mixed_text m = {0};
    for (size_t i = 0, length = random_below(36); i < length; i++) m.text[i] = "<ab>cab<"[random_below(8)];
    lap_range ranges[40];
    size_t count = random_ranges(&m, ranges);
    int32_t ids[40];
    id_list expected = {ids, 0}, got = encode_marked(tokenizer, m.text, ranges, count);
    naive_marked(tokenizer, &m, 0, strlen(m.text), 0, &expected);
    assert_ids(m.text, got, expected.ids, expected.count);
    special_ids += count_id(got, 11) + count_id(got, 13) + count_id(got, 14);
    free(got.ids);
  }
  assert_true(special_ids > 1000);
  lap_tokenizer_close(tokenizer);
}

/* Pebble's file without its added tokens: its reading of a text is what that of untrusted text must be. */
static lap_tokenizer *open_pebble_without_added(void) {
  char *json = read_whole(PEBBLE, NULL);
  char *begin = strstr(json, "\"added_tokens\"");
  assert_non_null(begin);
  begin = strchr(begin, '[');
  char *end = strchr(begin, ']'); /* no content has one */
  memset(begin + 1, ' ', (size_t)(end - begin - 1));
  lap_tokenizer *tokenizer = open_text(json);
  free(json);
  return tokenizer;
}

static void whole_texts_are_the_two_simple_cases(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE), *without = open_pebble_without_added();
  char *json = read_whole(EXAM, NULL);
  yajl_val root = parse_json(json), cases = member(member(root, "kv_bf16"), "cases");
  for (size_t i = 0; i < YAJL_GET_ARRAY(cases)->len; i++) {
    const char *prompt = YAJL_GET_STRING(member(YAJL_GET_ARRAY(cases)->values[i], "prompt"));
    size_t length = strlen(prompt), half = length / 2;
    id_list special = encode(tokenizer, prompt, true), text = encode(without, prompt, true);
    id_list got = encode_marked(tokenizer, prompt, (const lap_range[]){{0, half}, {half, length}}, 2);
    assert_ids("all trusted", got, special.ids, special.count);
    free(got.ids);
    got = encode_marked(tokenizer, prompt, NULL, 0);
    assert_ids("none trusted", got, text.ids, text.count);
    free(got.ids);
    got = encode(tokenizer, prompt, false);
    assert_ids("not parsed", got, text.ids, text.count);
    free(got.ids), free(special.ids), free(text.ids);
  }
  yajl_tree_free(root);
  free(json);
  lap_tokenizer_close(without);
  lap_tokenizer_close(tokenizer);
}

static void a_message_cannot_write_or_complete_control_tokens(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  /* A message in a template: what it spells stays text and is merged with the text around it. */
  const char *text = "<|turn>user\n<|turn>user<turn|>\n";
  id_list inside = encode_merges(tokenizer, "user\n<|turn>user"), after = encode_merges(tokenizer, "\n");
  id_list got = encode_marked(tokenizer, text, (const lap_range[]){{0, 12}, {23, 31}}, 2);
  assert_int_equal(got.count, inside.count + after.count + 2);
  assert_int_equal(got.ids[0], lap_tokenizer_id(tokenizer, "<|turn>", 7));
  assert_memory_equal(got.ids + 1, inside.ids, inside.count * sizeof *inside.ids);
  assert_int_equal(got.ids[1 + inside.count], lap_tokenizer_id(tokenizer, "<turn|>", 7));
  assert_memory_equal(got.ids + 2 + inside.count, after.ids, after.count * sizeof *after.ids);
  free(got.ids), free(inside.ids), free(after.ids);
  /* Half of it from either side. */
  static const char token[] = "<|turn>";
  id_list plain = encode_merges(tokenizer, token);
  for (size_t cut = 0; cut <= 7; cut++) {
    got = encode_marked(tokenizer, token, (const lap_range[]){{0, cut}}, 1);
    if (cut < 7) assert_ids("head", got, plain.ids, plain.count);
    if (cut == 7) assert_ids("all", got, (const int32_t[]){5}, 1);
    free(got.ids);
    got = encode_marked(tokenizer, token, (const lap_range[]){{cut, 7}}, 1);
    if (cut > 0) assert_ids("tail", got, plain.ids, plain.count);
    free(got.ids);
    got = encode_marked(tokenizer, token, (const lap_range[]){{0, cut}, {cut, cut}, {cut, 7}}, 3);
    assert_ids("touching ranges", got, (const int32_t[]){5}, 1);
    free(got.ids);
  }
  free(plain.ids);
  lap_tokenizer_close(tokenizer);
}

static void untrusted_text_does_not_merge_into_a_special_token(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer =
      open_text(FILE_WITH(ADDED(3, "ab", true) "," ADDED(4, "c", true),
                          MODEL("\"a\":1,\"b\":2,\"ab\":3,\"c\":4,\"abb\":5", "\"a b\",\"ab b\"")));
  id_list got = encode(tokenizer, "abbc", true);
  assert_ids("trusted", got, (const int32_t[]){3, 2, 4}, 3);
  free(got.ids);
  got = encode(tokenizer, "abbc", false);
  assert_ids("not trusted", got, (const int32_t[]){1, 2, 2, 0}, 4);
  free(got.ids);
  lap_tokenizer_close(tokenizer);
}

static void ranges_out_of_order_are_refused(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  static const lap_range wrong[][2] = {
      {{0, 1}, {2, 5}}, {{3, 2}, {3, 4}}, {{0, 3}, {2, 4}}, {{2, 3}, {0, 1}}, {{SIZE_MAX, 4}, {4, 4}}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    lap_error error = {0};
    id_list list;
    assert_int_equal(
        lap_tokenizer_encode_marked(tokenizer, "abcd", 4, wrong[i], 2, &list.ids, &list.count, &error),
        LAP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "trusted["));
    assert_null(list.ids);
  }
  lap_tokenizer_close(tokenizer);
}

/* ---- text that is hard to cut ---------------------------------------------------------------- */

static void runs_of_white_space_round_trip(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  static const char *const units[] = {"\n", "\t", " ", "\r\n", " \n"};
  for (size_t unit = 0; unit < sizeof units / sizeof *units; unit++) {
    buffer text = {0};
    for (int run = 1; run <= 40; run++) {
      add(&text, "%s", units[unit]);
      assert_round_trip(tokenizer, text.text, text.length, true);
      assert_round_trip(tokenizer, text.text, text.length, false);
    }
    free(text.text);
  }
  lap_tokenizer_close(tokenizer);
}

static void bytes_that_are_no_characters_become_byte_tokens(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  static const char bytes[] = "\x80\xff\xe6\xbc\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xf0\x9f\x99";
  size_t count = sizeof bytes - 1;
  id_list got = encode_bytes(tokenizer, bytes, count, true);
  assert_int_equal(got.count, count);
  for (size_t i = 0; i < count; i++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned char)bytes[i]);
    assert_string_equal(lap_tokenizer_token(tokenizer, got.ids[i], NULL), name);
  }
  free(got.ids);
  got = encode_bytes(tokenizer, "\0", 1, true);
  assert_ids("NUL", got, (const int32_t[]){lap_tokenizer_id(tokenizer, "<0x00>", 6)}, 1);
  free(got.ids);
  assert_round_trip(tokenizer, "a\0b\0\0", 5, true);
  got = encode_bytes(tokenizer, "", 0, true);
  assert_int_equal(got.count, 0);
  free(got.ids);
  lap_tokenizer_close(tokenizer);
}

static void random_bytes_neither_fail_nor_lose_characters(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  random_state = 3;
  for (int round = 0; round < 2000; round++) {
    char text[64];
    size_t length = random_below(sizeof text);
    for (size_t i = 0; i < length; i++) text[i] = (char)random_below(round % 2 ? 256 : 128);
    if (round % 2 == 0) assert_round_trip(tokenizer, text, length, false);
    id_list got = encode_bytes(tokenizer, text, length, true);
    buffer back = decode(tokenizer, got.ids, got.count, true);
    free(back.text);
    free(got.ids);
  }
  lap_tokenizer_close(tokenizer);
}

/* Nothing is timed: a quadratic merge loop would not come back from this, a recursive one not alive. */
static void two_million_letters_without_a_boundary_are_merged(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer =
      open_text(FILE_WITH("", MODEL("\"a\":1,\"aa\":2,\"aaaa\":3", "[\"a\",\"a\"],[\"aa\",\"aa\"]")));
  enum {
    LETTERS = 2000000
  };
  char *text = malloc(LETTERS);
  assert_non_null(text);
  memset(text, 'a', LETTERS);
  id_list got = encode_bytes(tokenizer, text, LETTERS, true);
  assert_int_equal(got.count, LETTERS / 4);
  assert_int_equal(count_id(got, 3), LETTERS / 4);
  free(got.ids);
  free(text);
  lap_tokenizer_close(tokenizer);
}

/* ---- the detokenizer ------------------------------------------------------------------------- */

static bool ends_with_whole_character(const buffer *b) {
  size_t at = b->length, trailing = 0;
  while (at > 0 && ((unsigned char)b->text[at - 1] & 0xc0) == 0x80) at--, trailing++;
  unsigned char lead = at > 0 ? (unsigned char)b->text[at - 1] : 0;
  return trailing == (lead >= 0xf0 ? 3u : lead >= 0xe0 ? 2u : lead >= 0xc0 ? 1u : 0u);
}

static void detokenizer_never_emits_half_a_character(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  const char *text = "Ünïcode 漢字 🙂 é\xcc\x81 end";
  id_list ids = encode(tokenizer, text, true);
  buffer b = {0};
  lap_detokenizer state = {0};
  for (size_t i = 0; i < ids.count; i++) {
    assert_int_equal(
        lap_detokenize(tokenizer, &state, ids.ids[i], true, &b.text, &b.length, &b.capacity, NULL), LAP_OK);
    assert_true(ends_with_whole_character(&b));
    assert_int_equal(b.length, strlen(b.text));
    assert_memory_equal(b.text, text, b.length);
  }
  assert_string_equal(b.text, text);
  free(b.text);
  free(ids.ids);
  lap_tokenizer_close(tokenizer);
}

static void broken_bytes_become_one_replacement_for_each_maximal_part(void **unused) {
  (void)unused;
  static const struct {
    const char *bytes, *text;
  } cases[] = {
      {"\x80", BROKEN},
      {"\xff", BROKEN},
      {"\xe6\xbc", BROKEN},
      {"\xe6\xbc\x41", BROKEN "A"},
      {"\xf0\x9f\x99\xf0\x9f\x99\x82", BROKEN "🙂"},
      {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", BROKEN BROKEN BROKEN BROKEN BROKEN BROKEN BROKEN BROKEN "A"},
      {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", BROKEN BROKEN BROKEN BROKEN BROKEN BROKEN BROKEN BROKEN "A"},
      {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", BROKEN BROKEN BROKEN BROKEN BROKEN "A" BROKEN BROKEN "B"},
      {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", BROKEN BROKEN BROKEN BROKEN "A"},
  };
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  int32_t zero = lap_tokenizer_id(tokenizer, "<0x00>", 6);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t ids[16];
    size_t count = strlen(cases[i].bytes);
    for (size_t k = 0; k < count; k++) ids[k] = zero + (unsigned char)cases[i].bytes[k];
    buffer b = decode(tokenizer, ids, count, true);
    assert_string_equal(b.text, cases[i].text);
    free(b.text);
  }
  lap_tokenizer_close(tokenizer);
}

static void text_breaks_a_held_character_but_a_hidden_token_does_not(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(PEBBLE);
  int32_t zero = lap_tokenizer_id(tokenizer, "<0x00>", 6), bos = lap_tokenizer_id(tokenizer, "<bos>", 5);
  int32_t the = lap_tokenizer_id(tokenizer, "he", 2);
  buffer b = decode(tokenizer, (const int32_t[]){zero + 0xc3, the, zero + 0xa9}, 3, true);
  assert_string_equal(b.text, BROKEN "he" BROKEN);
  free(b.text);
  b = decode(tokenizer, (const int32_t[]){zero + 0xc3, bos, zero + 0xa9}, 3, false);
  assert_string_equal(b.text, "é");
  free(b.text);
  b = decode(tokenizer, (const int32_t[]){zero + 0xc3, bos}, 2, true);
  assert_string_equal(b.text, BROKEN "<bos>");
  free(b.text);
  lap_tokenizer_close(tokenizer);
}

/* ---- files that lie -------------------------------------------------------------------------- */

typedef struct hostile {
  const char *json;
  lap_status status;
  const char *message; /* must occur */
} hostile;

#define WITH(normalizer, decoder) \
  "{\"normalizer\":" normalizer ",\"decoder\":" decoder ",\"model\":{" MODEL("\"a\":1", "") "}}"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}"
#define RESTORE "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":\" \"}"

static const hostile hostile_files[] = {
    {"", LAP_ERROR_FORMAT, "byte 0: "},
    {"{\"model\":{\"type\":\"BPE\",}}", LAP_ERROR_FORMAT, "byte 2"},
    {"{\"model\"", LAP_ERROR_FORMAT, "premature EOF"},
    {"[]", LAP_ERROR_FORMAT, "top level: must be an object"},
    {"7", LAP_ERROR_FORMAT, "top level: must be an object"},
    {"{}", LAP_ERROR_FORMAT, "model: missing"},
    {"{} {}", LAP_ERROR_FORMAT, "test.json: "},
    {"{\"model\":null}", LAP_ERROR_FORMAT, "model: must be an object"},
    {"{\"model\":{}}", LAP_ERROR_FORMAT, "model.type: missing"},
    {"{\"model\":{\"type\":\"Unigram\"}}", LAP_ERROR_UNSUPPORTED, "model.type: \"Unigram\""},
    {"{\"model\":{\"type\":3}}", LAP_ERROR_FORMAT, "model.type: must be a string"},
    {"{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", LAP_ERROR_FORMAT, "model.vocab: missing"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", LAP_ERROR_FORMAT, "model.merges: missing"},
    {"{\"model\":{\"vocab\":[]}}", LAP_ERROR_FORMAT, "model.vocab: must be an object"},
    {"{\"model\":{\"merges\":{}}}", LAP_ERROR_FORMAT, "model.merges: must be an array"},
    {"{\"model\":{\"vocab\":{},\"vocab\":{}}}", LAP_ERROR_FORMAT, "model.vocab: appears twice"},
    {"{\"model\":{\"vocab\":{\"a\":1,\"a\":2}}}", LAP_ERROR_FORMAT, "model.vocab.a: appears twice"},
    {"{\"model\":{\"vocab\":{\"a\":\"1\"}}}", LAP_ERROR_FORMAT, "model.vocab.a: must be a number"},
    {"{\"model\":{\"vocab\":{\"a\":1.5}}}", LAP_ERROR_FORMAT, "model.vocab.a: must be an integer"},
    {"{\"model\":{\"vocab\":{\"a\":1e3}}}", LAP_ERROR_FORMAT, "model.vocab.a: must be an integer"},
    {"{\"model\":{\"vocab\":{\"a\":-1}}}", LAP_ERROR_FORMAT, "model.vocab.a: id -1 is not within"},
    {"{\"model\":{\"vocab\":{\"a\":4194304}}}", LAP_ERROR_FORMAT, "model.vocab.a: id 4194304 is not within"},
    {"{\"model\":{\"vocab\":{\"a\":99999999999999999999999}}}", LAP_ERROR_FORMAT, "model.vocab.a: id 999"},
    {"{\"model\":{\"vocab\":{\"\xed\xa0\x80\":1}}}", LAP_ERROR_FORMAT, "not valid UTF-8"},
    {"{\"model\":{\"vocab\":{\"\xff\":1}}}", LAP_ERROR_FORMAT, "UTF8"},
    {"{\"model\":{\"dropout\":0.1}}", LAP_ERROR_UNSUPPORTED, "model.dropout"},
    {"{\"model\":{\"ignore_merges\":true}}", LAP_ERROR_UNSUPPORTED, "model.ignore_merges"},
    {"{\"model\":{\"byte_fallback\":1}}", LAP_ERROR_FORMAT, "model.byte_fallback: must be true or false"},
    {"{\"model\":{\"end_of_word_suffix\":\"</w>\"}}", LAP_ERROR_UNSUPPORTED, "model.end_of_word_suffix"},
    {"{\"model\":{\"continuing_subword_prefix\":\"##\"}}", LAP_ERROR_UNSUPPORTED,
     "model.continuing_subword_prefix"},
    {"{\"model\":{\"merges\":[[\"a\",\"b\"],[\"a\"]]}}", LAP_ERROR_FORMAT, "model.merges[1]: must be"},
    {"{\"model\":{\"merges\":[[\"a\",\"b\",\"c\"]]}}", LAP_ERROR_FORMAT, "model.merges[0]: must be"},
    {"{\"model\":{\"merges\":[[]]}}", LAP_ERROR_FORMAT, "model.merges[0]: must be"},
    {"{\"model\":{\"merges\":[[\"a\",1]]}}", LAP_ERROR_FORMAT, "model.merges[0][1]: must be a string"},
    {"{\"model\":{\"merges\":[[\"a\",[]]]}}", LAP_ERROR_FORMAT, "model.merges[0][1]: must be a string"},
    {"{\"model\":{\"merges\":[3]}}", LAP_ERROR_FORMAT, "model.merges[0]: must be a string or"},
    {"{\"model\":{\"merges\":[\"ab\"]}}", LAP_ERROR_FORMAT, "model.merges[0]: must be two tokens"},
    {"{\"model\":{\"merges\":[\"a b\",\"a b c\"]}}", LAP_ERROR_FORMAT, "model.merges[1]: must be two tokens"},
    {FILE_WITH("", "\"type\":\"BPE\",\"vocab\":{},\"merges\":[]"), LAP_ERROR_FORMAT, "model.vocab: empty"},
    {FILE_WITH("", MODEL("\"a\":5,\"b\":5", "")), LAP_ERROR_FORMAT,
     "model.vocab: \"a\" and \"b\" both have id 5"},
    {FILE_WITH("", MODEL("\"a\":1,\"b\":2,\"ab\":3", "\"a b\",\"a x\"")), LAP_ERROR_FORMAT,
     "model.merges[1]: \"x\" is not in model.vocab"},
    {FILE_WITH("", MODEL("\"a\":1,\"b\":2", "\"a b\"")), LAP_ERROR_FORMAT,
     "model.merges[0]: \"ab\" is not in model.vocab"},
    {FILE_WITH(ADDED(9, "b", false), MODEL("\"a\":1,\"ab\":2", "\"a b\"")), LAP_ERROR_FORMAT,
     "model.merges[0]: \"b\" is not in model.vocab"},
    {FILE_WITH("", "\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[]"), LAP_ERROR_FORMAT,
     "model.unk_token: missing"},
    {FILE_WITH("", "\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"a\":1},\"merges\":[]"),
     LAP_ERROR_FORMAT, "model.unk_token: \"?\" is not in model.vocab"},
    {FILE_WITH(ADDED(1, "x", false), MODEL("\"a\":1", "")), LAP_ERROR_FORMAT,
     "added_tokens[0].id: \"a\" and \"x\" both have id 1"},
    {FILE_WITH(ADDED(5, "x", false) "," ADDED(5, "y", false), MODEL("\"a\":1", "")), LAP_ERROR_FORMAT,
     "added_tokens[1].id: \"x\" and \"y\" both have id 5"},
    {FILE_WITH(ADDED(2, "a", false), MODEL("\"a\":1", "")), LAP_ERROR_FORMAT,
     "added_tokens[0].id: \"a\" has id 2 here and 1 elsewhere"},
    {FILE_WITH(ADDED(-2, "a", false), MODEL("\"a\":1", "")), LAP_ERROR_FORMAT, "added_tokens[0].id: id -2"},
    {FILE_WITH("3", MODEL("\"a\":1", "")), LAP_ERROR_FORMAT, "added_tokens[0]: must be an object"},
    {FILE_WITH("{\"id\":3}", MODEL("\"a\":1", "")), LAP_ERROR_FORMAT, "added_tokens[0].content: missing"},
    {FILE_WITH("{\"content\":\"x\"}", MODEL("\"a\":1", "")), LAP_ERROR_FORMAT, "added_tokens[0].id: missing"},
    {FILE_WITH("{\"content\":[\"x\"]}", MODEL("\"a\":1", "")), LAP_ERROR_FORMAT,
     "added_tokens[0].content: must be a string"},
    {FILE_WITH("{\"lstrip\":true}", MODEL("\"a\":1", "")), LAP_ERROR_UNSUPPORTED, "added_tokens[0].lstrip"},
    {FILE_WITH("{\"rstrip\":true}", MODEL("\"a\":1", "")), LAP_ERROR_UNSUPPORTED, "added_tokens[0].rstrip"},
    {FILE_WITH("{\"single_word\":true}", MODEL("\"a\":1", "")), LAP_ERROR_UNSUPPORTED,
     "added_tokens[0].single_word"},
    {FILE_WITH("{\"id\":4,\"content\":\"x y\",\"normalized\":true}", MODEL("\"a\":1", "")),
     LAP_ERROR_UNSUPPORTED, "added_tokens[0].normalized"},
    {WITH("null", RESTORE), LAP_ERROR_UNSUPPORTED, "normalizer: must replace"},
    {WITH("\"NFC\"", RESTORE), LAP_ERROR_FORMAT, "normalizer: must be an object"},
    {WITH("{\"type\":\"NFC\"}", RESTORE), LAP_ERROR_UNSUPPORTED, "normalizer.type: \"NFC\""},
    {WITH("{}", RESTORE), LAP_ERROR_FORMAT, "normalizer.type: missing"},
    {WITH("{\"type\":\"Sequence\",\"normalizers\":[" REPLACE ",{\"type\":\"Prepend\"}]}", RESTORE),
     LAP_ERROR_UNSUPPORTED, "normalizer.normalizers[1].type: \"Prepend\""},
    {WITH("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" \"},\"content\":\"" MARK "\"}", RESTORE),
     LAP_ERROR_UNSUPPORTED, "normalizer.type: \"Replace\""},
    {WITH("{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}", RESTORE),
     LAP_ERROR_UNSUPPORTED, "normalizer.type: \"Replace\""},
    {WITH(REPLACE, "null"), LAP_ERROR_UNSUPPORTED, "decoder: must replace"},
    {WITH(REPLACE, "{\"type\":\"Sequence\",\"decoders\":[" RESTORE ",{\"type\":\"Strip\"}]}"),
     LAP_ERROR_UNSUPPORTED, "decoder.decoders[1].type: \"Strip\""},
    {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}", LAP_ERROR_UNSUPPORTED,
     "pre_tokenizer.type: \"ByteLevel\""},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"invert\":true}}",
     LAP_ERROR_UNSUPPORTED, "pre_tokenizer.invert"},
};

static void expect_refusal(const char *json, size_t length, lap_status status, const char *message) {
  lap_error error = {0};
  char sentinel;
  lap_tokenizer *tokenizer = (void *)&sentinel;
  lap_status got = lap_tokenizer_open_memory(json, length, "test.json", &tokenizer, &error);
  if (got != status || !strstr(error.message, message) || strncmp(error.message, "test.json: ", 11) != 0)
    fail_msg("%.200s: status %d, \"%s\", expected status %d, \"%s\"", json, got, error.message, status,
             message);
  assert_int_equal(error.status, status);
  assert_null(tokenizer);
}

static void hostile_files_are_refused_by_field(void **unused) {
  (void)unused;
  for (size_t i = 0; i < sizeof hostile_files / sizeof *hostile_files; i++)
    expect_refusal(hostile_files[i].json, strlen(hostile_files[i].json), hostile_files[i].status,
                   hostile_files[i].message);
}

/* The message of opening `json` behind `padding` spaces; a byte's position in it is made one of `json`. */
static lap_status refusal_behind(const char *json, size_t padding, char message[512]) {
  lap_error error = {0};
  lap_tokenizer *tokenizer;
  size_t length = strlen(json), byte;
  char *text = malloc(padding + length + 1);
  memset(text, ' ', padding);
  memcpy(text + padding, json, length + 1);
  lap_status status = lap_tokenizer_open_memory(text, padding + length, "test.json", &tokenizer, &error);
  const char *at = strstr(error.message, "byte ");
  if (at && sscanf(at, "byte %zu", &byte) == 1) // NOLINT(cert-err34-c)
    snprintf(message, 512, "%.*sbyte %zu%s", (int)(at - error.message), error.message, byte - padding,
             strchr(at, ':'));
  else
    snprintf(message, 512, "%s", error.message);
  if (status == LAP_OK) lap_tokenizer_close(tokenizer);
  free(text);
  return status;
}

/* Files are read and parsed in pieces. */
static void where_a_piece_ends_makes_no_difference(void **unused) {
  (void)unused;
  enum {
    PIECE = 1 << 16
  };
  static const char good[] = FILE_WITH(ADDED(3, "<\\u2581\\\"\\\\>", true),
                                       MODEL("\"a\": 1, \"\xe2\x96\x81\" : 2, \"\\ud83d\\ude00\":45", ""));
  size_t step = getenv("LAPIDARY_TEST_QUICK") ? 7 : 1;
  char expected[512], got[512];
  for (size_t i = 0; i < sizeof hostile_files / sizeof *hostile_files; i++) {
    const char *json = hostile_files[i].json;
    lap_status status = refusal_behind(json, 0, expected);
    for (size_t before = 0; before <= strlen(json); before += step) {
      assert_int_equal(refusal_behind(json, PIECE - before, got), status);
      assert_string_equal(got, expected);
    }
  }
  for (size_t before = 0; before <= strlen(good); before++)
    if (refusal_behind(good, PIECE - before, got) != LAP_OK) fail_msg("%zu before: %s", before, got);
}

/* As from memory; the position of an error too. */
static void a_file_is_read_as_its_text_is(void **unused) {
  (void)unused;
  char path[] = "/tmp/lapidary-tokenizer-XXXXXX", expected[512], shown[600];
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  for (size_t i = 0; i < sizeof hostile_files / sizeof *hostile_files; i++) {
    lap_error error = {0};
    lap_tokenizer *tokenizer;
    const char *json = hostile_files[i].json;
    assert_int_equal(ftruncate(descriptor, 0), 0);
    assert_int_equal(pwrite(descriptor, json, strlen(json), 0), strlen(json));
    lap_status status = refusal_behind(json, 0, expected);
    assert_int_equal(lap_tokenizer_open(path, &tokenizer, &error), status);
    snprintf(shown, sizeof shown, "%s%s", path, expected + strlen("test.json"));
    assert_string_equal(error.message, shown);
  }
  close(descriptor);
  remove(path);
}

static void deep_nesting_is_refused(void **unused) {
  (void)unused;
  buffer b = {0};
  add(&b, "{\"x\":");
  for (int i = 0; i < 100000; i++) add(&b, i % 2 ? "{\"k\":" : "[");
  expect_refusal(b.text, b.length, LAP_ERROR_FORMAT, "nested deeper than 64");
  free(b.text);
}

static void oversized_tokens_are_refused(void **unused) {
  (void)unused;
  buffer b = {0};
  add(&b, "{\"model\":{\"merges\":[[\"");
  for (int i = 0; i < 1025; i++) add(&b, "x");
  expect_refusal(b.text, b.length, LAP_ERROR_FORMAT, "byte "); /* the string has no end */
  add(&b, "\"");
  expect_refusal(b.text, b.length, LAP_ERROR_UNSUPPORTED, "model.merges[0][0]: token of 1025 bytes");
  free(b.text);
}

/* Every beginning of a valid file is refused, and so is the file after most changes of one byte; none
 * of them may crash. */
static void cut_and_damaged_files_are_refused_cleanly(void **unused) {
  (void)unused;
  const char *whole =
      FILE_WITH(ADDED(5, "<x>", true),
                "\"byte_fallback\":true," MODEL("\"a\":1,\"b\":2,\"ab\":3", "[\"a\",\"b\"],\"a b\""));
  size_t length = strlen(whole);
  for (size_t cut = 0; cut < length; cut++) {
    lap_tokenizer *tokenizer;
    lap_error error = {0};
    assert_int_not_equal(lap_tokenizer_open_memory(whole, cut, "cut", &tokenizer, &error), LAP_OK);
    assert_int_equal(strncmp(error.message, "cut: ", 5), 0);
  }
  random_state = 11;
  for (int round = 0; round < 5000; round++) {
    char *damaged = strdup(whole);
    assert_non_null(damaged);
    damaged[random_below((uint32_t)length)] =
        (char)(round % 2 ? random_below(256) : (uint32_t) "\"[]{},:0"[random_below(8)]);
    lap_tokenizer *tokenizer;
    if (lap_tokenizer_open_memory(damaged, length, "damaged", &tokenizer, NULL) == LAP_OK) {
      id_list got = encode(tokenizer, "ab<x>é b", true);
      free(got.ids);
    } else {
      assert_null(tokenizer);
    }
    lap_tokenizer_close(tokenizer);
    free(damaged);
  }
}

static void files_that_cannot_be_read_are_io_errors(void **unused) {
  (void)unused;
  lap_error error = {0};
  lap_tokenizer *tokenizer;
  assert_int_equal(lap_tokenizer_open("/nonexistent/tokenizer.json", &tokenizer, &error), LAP_ERROR_IO);
  assert_non_null(strstr(error.message, "/nonexistent/tokenizer.json: "));
  assert_int_equal(lap_tokenizer_open(SOURCE_DIR, &tokenizer, &error), LAP_ERROR_IO);
  assert_null(tokenizer);
}

/* ---- the large vocabulary -------------------------------------------------------------------- */

/* The path of a Gemma 3 tokenizer.json, which is not part of the repository, or skips the test. */
static const char *large_vocabulary(void) {
  const char *path = getenv("LAPIDARY_GEMMA3_TOKENIZER");
  if (!path) path = BINARY_DIR "/deps/tokenizer-gemma3/tokenizer.json";
  FILE *file = fopen(path, "rb");
  if (!file) {
    print_message("%s is missing (LAPIDARY_GEMMA3_TOKENIZER names another place): skipped\n", path);
    skip();
  }
  fclose(file);
  return path;
}

static void gemma3_encodes_known_texts(void **unused) {
  (void)unused;
  static const struct {
    const char *text;
    size_t count;
    int32_t ids[8];
  } cases[] = {
      {"Hello, world!", 4, {9259, 236764, 1902, 236888}},
      {"Hello world", 2, {9259, 1902}},
      {" Hello", 1, {26352}},
      {"!!!!!!", 1, {123947}},
      {" ", 1, {236743}},
      {"  ", 1, {138}},
      {"   ", 1, {139}},
      {"    ", 1, {140}},
      {"\n", 1, {107}},
      {"\n\n", 1, {108}},
      {"\n\n\n", 1, {109}},
      {"\t", 1, {255968}},
      {"  leading and trailing spaces  ", 6, {138, 26016, 532, 45330, 9952, 138}},
      {"333", 3, {236800, 236800, 236800}},
      {"user", 1, {2364}},
      {"model", 1, {4368}},
      {"What is 2+2?", 7, {3689, 563, 236743, 236778, 236862, 236778, 236881}},
  };
  lap_tokenizer *tokenizer = open_path(large_vocabulary());
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int parse_added = 0; parse_added < 2; parse_added++) {
      id_list got = encode(tokenizer, cases[i].text, parse_added);
      assert_ids(cases[i].text, got, cases[i].ids, cases[i].count);
      free(got.ids);
    }
  }
  lap_tokenizer_close(tokenizer);
}

static void gemma3_equals_naive_bpe(void **unused) {
  (void)unused;
  const char *path = large_vocabulary();
  lap_tokenizer *tokenizer = open_path(path);
  char *json = read_whole(path, NULL);
  naive n = naive_open(json);
  free(json);
  random_state = 5;
  static const char *const odd[] = {
      MARK, "\n", "\t", "é", "e\xcc\x81", "漢", "🙂", "\xf0\x90\x8e\xa0", "<", ">" MARK "</", "q"};
  for (int round = 0; round < 20000; round++) {
    buffer text = {0};
    add_bytes(&text, "", 0);
    for (uint32_t i = 0, parts = random_below(8); i < parts; i++) {
      const naive_token *token = &n.tokens[random_below((uint32_t)n.token_count)];
      const char *part = random_below(3) == 0 ? odd[random_below(sizeof odd / sizeof *odd)] : token->text;
      add_bytes(&text, part, strlen(part));
    }
    assert_same_as_naive(tokenizer, &n, text.text);
    free(text.text);
  }
  for (int run = 1; run <= 80; run++) {
    static const char *const units[] = {"\n", "\t", MARK, "a"};
    for (int unit = 0; unit < 4; unit++) {
      buffer text = {0};
      for (int i = 0; i < run; i++) add(&text, "%s", units[unit]);
      assert_same_as_naive(tokenizer, &n, text.text);
      free(text.text);
    }
  }
  naive_close(&n);
  lap_tokenizer_close(tokenizer);
}

static void gemma3_messages_keep_their_ordinary_added_tokens(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(large_vocabulary());
  const char *text = "<start_of_turn>user\n<table>\n\n\n<end_of_turn><end_of_turn>\n";
  int32_t table = lap_tokenizer_id(tokenizer, "<table>", 7);
  id_list spelled = encode_merges(tokenizer, "<end_of_turn>");
  assert_true(spelled.count > 1);
  id_list got = encode_marked(tokenizer, text, (const lap_range[]){{0, 20}, {43, 57}}, 2);
  assert_int_equal(got.count, 5 + spelled.count + 2);
  assert_memory_equal(got.ids, ((const int32_t[]){105, 2364, 107, table, 109}), 5 * sizeof(int32_t));
  assert_memory_equal(got.ids + 5, spelled.ids, spelled.count * sizeof(int32_t));
  assert_memory_equal(got.ids + 5 + spelled.count, ((const int32_t[]){106, 107}), 2 * sizeof(int32_t));
  free(got.ids), free(spelled.ids);
  /* Without special spellings trust makes no difference. */
  random_state = 17;
  static const char *const parts[] = {"\n",   "\n\n",  "\t",   "  ",        " ",
                                      "<td>", "</td>", "word", "<unused7>", "é"};
  for (int round = 0; round < 2000; round++) {
    buffer b = {0};
    add_bytes(&b, "", 0);
    for (uint32_t i = 0, count = random_below(20); i < count; i++) add(&b, "%s", parts[random_below(10)]);
    id_list trusted = encode(tokenizer, b.text, true);
    got = encode(tokenizer, b.text, false);
    assert_ids(b.text, got, trusted.ids, trusted.count);
    free(got.ids), free(trusted.ids), free(b.text);
  }
  lap_tokenizer_close(tokenizer);
}

static void gemma3_added_tokens_are_found(void **unused) {
  (void)unused;
  lap_tokenizer *tokenizer = open_path(large_vocabulary());
  id_list got = encode(tokenizer, "<start_of_turn>user\n<unused12><unused1><image_soft_token>", true);
  assert_ids("added", got, (const int32_t[]){105, 2364, 107, 18, 7, 262144}, 6);
  free(got.ids);
  assert_int_equal(lap_tokenizer_size(tokenizer), 262145);
  for (int32_t id = 0; id < lap_tokenizer_size(tokenizer); id++) {
    size_t length;
    const char *content = lap_tokenizer_token(tokenizer, id, &length);
    if (content) assert_int_equal(lap_tokenizer_id(tokenizer, content, length), id);
  }
  lap_tokenizer_close(tokenizer);
}

static void bytes_of_tokens_in_a_row_are_the_text(void **unused) {
  (void)unused;
  static const char *const texts[] = {"two  words\n", "\xc3\xa9\xf0\x9f\x98\x80 \xff\xc3", MARK "x",
                                      "<0x41>"};
  lap_tokenizer *t = open_path(PEBBLE);
  char bytes[LAP_TOKEN_MAX_BYTES];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    id_list list = encode(t, texts[i], false);
    buffer b = {0};
    for (size_t k = 0; k < list.count; k++)
      add_bytes(&b, bytes, lap_tokenizer_token_bytes(t, list.ids[k], bytes));
    /* Encoding takes U+2581 for a space; that is the tokenizer's, decoding gives the space. */
    assert_string_equal(b.text, i == 2 ? " x" : texts[i]);
    free(b.text);
    free(list.ids);
  }
  assert_int_equal(lap_tokenizer_token_bytes(t, -1, bytes), 0);
  assert_int_equal(lap_tokenizer_token_bytes(t, lap_tokenizer_size(t), bytes), 0);
  lap_tokenizer_close(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pebble_vectors_encode_and_decode_exactly),
      cmocka_unit_test(exam_prompts_and_answers_round_trip),
      cmocka_unit_test(bytes_of_tokens_in_a_row_are_the_text),
      cmocka_unit_test(pebble_equals_naive_bpe),
      cmocka_unit_test(random_vocabularies_equal_naive_bpe),
      cmocka_unit_test(lowest_rank_wins_and_leftmost_among_equals),
      cmocka_unit_test(of_two_equal_rules_the_later_one_counts),
      cmocka_unit_test(merges_as_strings_and_before_the_vocabulary_load),
      cmocka_unit_test(unknown_characters_become_unk_fused_if_asked),
      cmocka_unit_test(without_byte_fallback_bytes_become_unk),
      cmocka_unit_test(added_tokens_match_longest_leftmost_and_only_if_asked),
      cmocka_unit_test(normalized_added_tokens_come_second),
      cmocka_unit_test(marked_text_is_encoded_as_defined),
      cmocka_unit_test(whole_texts_are_the_two_simple_cases),
      cmocka_unit_test(a_message_cannot_write_or_complete_control_tokens),
      cmocka_unit_test(untrusted_text_does_not_merge_into_a_special_token),
      cmocka_unit_test(ranges_out_of_order_are_refused),
      cmocka_unit_test(runs_of_white_space_round_trip),
      cmocka_unit_test(bytes_that_are_no_characters_become_byte_tokens),
      cmocka_unit_test(random_bytes_neither_fail_nor_lose_characters),
      cmocka_unit_test(two_million_letters_without_a_boundary_are_merged),
      cmocka_unit_test(detokenizer_never_emits_half_a_character),
      cmocka_unit_test(broken_bytes_become_one_replacement_for_each_maximal_part),
      cmocka_unit_test(text_breaks_a_held_character_but_a_hidden_token_does_not),
      cmocka_unit_test(hostile_files_are_refused_by_field),
      cmocka_unit_test(where_a_piece_ends_makes_no_difference),
      cmocka_unit_test(a_file_is_read_as_its_text_is),
      cmocka_unit_test(deep_nesting_is_refused),
      cmocka_unit_test(oversized_tokens_are_refused),
      cmocka_unit_test(cut_and_damaged_files_are_refused_cleanly),
      cmocka_unit_test(files_that_cannot_be_read_are_io_errors),
      cmocka_unit_test(gemma3_encodes_known_texts),
      cmocka_unit_test(gemma3_equals_naive_bpe),
      cmocka_unit_test(gemma3_messages_keep_their_ordinary_added_tokens),
      cmocka_unit_test(gemma3_added_tokens_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
