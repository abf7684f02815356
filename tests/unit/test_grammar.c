/* test_grammar.c: what grammars allow, against readers that know nothing of them.
 *
 * Completeness: every token of a valid document is allowed, as the tokenizer cuts it and byte by byte.
 * Soundness: texts drawn at random from the masks parse as JSON; with the argument `samples` they are
 * printed, for tests/grammar/validate.py to judge by the schema. That a mask and the question about a single
 * token agree is checked along the way. */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include <yajl/yajl_gen.h>

#include "grammar/matcher.h"
#include "support/check.h"

#define PEBBLE_TOKENIZER SOURCE_DIR "/models/pebble/tokenizer.json"
#define SCHEMAS          SOURCE_DIR "/tests/data/grammar/schemas.json"
#define TOOLS            SOURCE_DIR "/tests/data/grammar/tools.json"

enum {
  EOS = 1,
  TURN_END = 6,
  SAMPLES = 8,       /* for each schema */
  LONG_ENOUGH = 120, /* tokens, before a sample looks for its end */
  TOO_LONG = 4000
};

static lap_tokenizer *tokenizer;
static lap_vocabulary *vocabulary;
static uint64_t *bits; /* a mask of the vocabulary */

/* ---- helpers ----------------------------------------------------------------------------------- */

static lap_vocabulary *vocabulary_of(const lap_tokenizer *t) {
  lap_error error;
  lap_vocabulary *v;
  const int32_t eos[] = {EOS, TURN_END};
  expect_ok(lap_vocabulary_create(t, eos, 2, &v, &error), &error);
  return v;
}

static void open_pebble(void) {
  lap_error error;
  if (vocabulary) return;
  expect_ok(lap_tokenizer_open(PEBBLE_TOKENIZER, &tokenizer, &error), &error);
  vocabulary = vocabulary_of(tokenizer);
  bits = calloc(lap_vocabulary_words(vocabulary), sizeof *bits);
  assert_non_null(bits);
}

static void close_pebble(void) {
  lap_vocabulary_destroy(vocabulary);
  lap_tokenizer_close(tokenizer);
  free(bits);
}

static lap_json_document *parse(const char *text, const char *name) {
  lap_error error;
  lap_json_document *document;
  expect_ok(lap_json_parse(text, strlen(text), name, &document, &error), &error);
  return document;
}

static lap_grammar *gbnf(const char *text) {
  lap_error error;
  lap_grammar *grammar;
  expect_ok(
      lap_grammar_from_gbnf(vocabulary, text, strlen(text), "grammar", LAP_THOUGHTS_NONE, &grammar, &error),
      &error);
  return grammar;
}

static lap_grammar *schema_of(const lap_json_document *document, const lap_json *schema, bool closed) {
  lap_error error;
  lap_grammar *grammar;
  expect_ok(
      lap_grammar_from_schema(vocabulary, document, schema, closed, LAP_THOUGHTS_NONE, &grammar, &error),
      &error);
  return grammar;
}

static lap_grammar *schema(const char *text) {
  lap_json_document *document = parse(text, "schema");
  lap_grammar *grammar = schema_of(document, lap_json_root(document), false);
  lap_json_free(document);
  return grammar;
}

static lap_matcher *matcher_of(lap_grammar *grammar) {
  lap_error error;
  lap_matcher *matcher;
  expect_ok(lap_matcher_create(grammar, &matcher, &error), &error);
  return matcher;
}

static bool in_mask(int32_t id) {
  return bits[id / 64] >> id % 64 & 1;
}

static void take_mask(lap_matcher *matcher) {
  lap_error error;
  expect_ok(lap_matcher_mask(matcher, bits, &error), &error);
}

/* Goes on by these tokens; false where one is refused, which by then the mask has said too. */
static bool accepts_ids(lap_matcher *matcher, const int32_t *ids, size_t count) {
  for (size_t i = 0; i < count; i++) {
    take_mask(matcher);
    bool allowed = in_mask(ids[i]);
    lap_status status = lap_matcher_accept(matcher, ids[i], NULL);
    assert_int_equal(status, allowed ? LAP_OK : LAP_ERROR_ARGUMENT);
    if (!allowed) return false;
  }
  return true;
}

static int32_t byte_token(unsigned char byte) {
  char name[8];
  snprintf(name, sizeof name, "<0x%02X>", byte);
  int32_t id = lap_tokenizer_id(tokenizer, name, 6);
  assert_true(id >= 0);
  return id;
}

static bool matches_tokens(lap_grammar *grammar, const char *text, size_t length) {
  lap_error error;
  int32_t *ids;
  size_t count;
  expect_ok(lap_tokenizer_encode(tokenizer, text, length, true, &ids, &count, &error), &error);
  lap_matcher *matcher = matcher_of(grammar);
  bool matched = accepts_ids(matcher, ids, count) && lap_matcher_is_complete(matcher);
  lap_matcher_destroy(matcher);
  free(ids);
  return matched;
}

static bool matches_bytes(lap_grammar *grammar, const char *text, size_t length) {
  lap_matcher *matcher = matcher_of(grammar);
  bool matched = true;
  for (size_t i = 0; i < length && matched; i++) {
    int32_t id = byte_token((unsigned char)text[i]);
    matched = accepts_ids(matcher, &id, 1);
  }
  matched = matched && lap_matcher_is_complete(matcher);
  lap_matcher_destroy(matcher);
  return matched;
}

/* Does the grammar match the text, as a whole? However it is cut into tokens. */
static bool matches(lap_grammar *grammar, const char *text) {
  bool matched = matches_bytes(grammar, text, strlen(text));
  assert_int_equal(matched, matches_tokens(grammar, text, strlen(text)));
  return matched;
}

static void check_texts(lap_grammar *grammar, const char *what, const char *const *texts, bool expected) {
  for (; *texts; texts++)
    if (matches(grammar, *texts) != expected)
      fail_msg("%s should%s match: %s", what, expected ? "" : " not", *texts);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_gbnf(const char *text, const char *const *accepted, const char *const *refused) {
  lap_grammar *grammar = gbnf(text);
  check_texts(grammar, text, accepted, true);
  check_texts(grammar, text, refused, false);
  lap_grammar_release(grammar);
}

/* ---- texts drawn at random --------------------------------------------------------------------- */

typedef struct sample {
  int32_t ids[TOO_LONG];
  size_t count;
} sample;

static int32_t allowed_of(const char *const *contents) {
  for (; *contents; contents++) {
    int32_t id = lap_tokenizer_id(tokenizer, *contents, strlen(*contents));
    if (id >= 0 && in_mask(id)) return id;
  }
  return -1;
}

/* Any allowed token; from some length on, or now and then, one that closes. Where none does, the next byte of
 * a text that is known to lead to an end. */
static int32_t choose(random_source *random, size_t count, const char *ending) {
  bool late = count > LONG_ENOUGH;
  int32_t id = -1;
  if (late || random_below(random, 6) == 0) {
    id = allowed_of(TEXTS("<eos>", "<tool_call|>", "<|\"|>", "\""));
    if (id < 0 && late && *ending) id = byte_token((unsigned char)ending[count % strlen(ending)]);
    if (id < 0 || !in_mask(id)) id = allowed_of(TEXTS("}", "]", ":", "0"));
  }
  if (id >= 0) return id;
  int allowed = 0;
  for (int32_t i = 0; i < vocabulary->size; i++) allowed += in_mask(i);
  assert_true(allowed > 0);
  for (int pick = random_below(random, allowed), i = 0;; i++)
    if (in_mask(i) && pick-- == 0) return i;
}

/* The text of a sample, special tokens as they are spelled; to be freed. */
static char *text_of(const sample *s, size_t *length) {
  char *text = NULL;
  size_t capacity = 0;
  lap_error error;
  lap_detokenizer state = {0};
  *length = 0;
  for (size_t i = 0; i < s->count; i++)
    expect_ok(lap_detokenize(tokenizer, &state, s->ids[i], true, &text, length, &capacity, &error), &error);
  expect_ok(lap_detokenize_end(&state, &text, length, &capacity, &error), &error);
  return text;
}

/* The mask is what single questions say. */
static void check_mask(lap_matcher *matcher, random_source *random) {
  for (int i = 0; i < 20; i++) {
    int32_t id = random_below(random, vocabulary->size);
    assert_int_equal(in_mask(id), lap_matcher_allows(matcher, id));
  }
}

static void draw(lap_grammar *grammar, const char *ending, random_source *random, sample *s) {
  lap_error error;
  lap_matcher *matcher = matcher_of(grammar);
  for (s->count = 0;;) {
    take_mask(matcher);
    check_mask(matcher, random);
    int32_t id = choose(random, s->count, ending);
    expect_ok(lap_matcher_accept(matcher, id, &error), &error);
    if (lap_matcher_is_finished(matcher)) break;
    if (s->count == TOO_LONG) fail_msg("a text comes to no end: %.200s", text_of(s, &(size_t){0}));
    s->ids[s->count++] = id;
  }
  assert_true(lap_matcher_is_complete(matcher));
  lap_matcher_destroy(matcher);
}

/* ---- schemas ----------------------------------------------------------------------------------- */

typedef void for_schema(const lap_json_document *document, const lap_json *entry, lap_grammar *grammar,
                        int index);

static void each_schema(for_schema *function) {
  lap_error error;
  lap_json_document *document;
  expect_ok(lap_json_read(SCHEMAS, 1 << 22, &document, &error), &error);
  int index = 0;
  for (const lap_json *entry = lap_json_root(document)->child; entry; entry = entry->next, index++) {
    lap_grammar *grammar = schema_of(document, lap_json_get(document, entry, "schema"),
                                     lap_json_get(document, entry, "closed")->boolean);
    function(document, entry, grammar, index);
    lap_grammar_release(grammar);
  }
  assert_true(index > 50);
  lap_json_free(document);
}

static void check_documents(const lap_json_document *document, const lap_json *entry, lap_grammar *grammar,
                            int index) {
  (void)index;
  for (int valid = 0; valid < 2; valid++) {
    const lap_json *list = lap_json_get(document, entry, valid ? "valid" : "invalid");
    for (const lap_json *text = list->child; text; text = text->next)
      if (matches(grammar, text->string) != valid)
        fail_msg("%s: should%s be allowed: %.200s", lap_json_get(document, entry, "name")->string,
                 valid ? "" : " not", text->string);
  }
}

static void valid_documents_are_allowed_and_invalid_ones_refused(void **state) {
  (void)state;
  each_schema(check_documents);
}

static void draw_json(const lap_json_document *document, const lap_json *entry, lap_grammar *grammar,
                      int index) {
  random_source random = {.state = (uint64_t)index};
  static sample s;
  for (int i = 0; i < SAMPLES; i++) {
    lap_error error;
    size_t length;
    lap_json_document *drawn = NULL;
    draw(grammar, lap_json_get(document, entry, "ending")->string, &random, &s);
    char *text = text_of(&s, &length);
    lap_status status = lap_json_parse(text, length, "drawn", &drawn, &error);
    /* Free keys may repeat, and nothing but that. */
    if (status != LAP_OK && !strstr(error.message, "occurs twice"))
      fail_msg("%s: %s in %s", lap_json_get(document, entry, "name")->string, error.message, text);
    lap_json_free(drawn);
    free(text);
  }
}

static void what_masks_allow_is_json(void **state) {
  (void)state;
  each_schema(draw_json);
}

static void properties_keep_their_order(void **state) {
  (void)state;
  lap_grammar *grammar = schema(
      "{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"null\"},\"a\":{\"type\":\"null\"}},"
      "\"additionalProperties\":false}");
  assert_true(matches(grammar, "{\"b\":null,\"a\":null}"));
  assert_false(matches(grammar, "{\"a\":null,\"b\":null}"));
  assert_false(matches(grammar, "{\"b\":null,\"b\":null}"));
  lap_grammar_release(grammar);
}

static void closed_objects_have_no_other_members(void **state) {
  (void)state;
  const char *text = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}}}";
  lap_json_document *document = parse(text, "schema");
  lap_grammar *open = schema_of(document, lap_json_root(document), false);
  lap_grammar *closed = schema_of(document, lap_json_root(document), true);
  assert_true(matches(open, "{\"b\":1}"));
  assert_false(matches(closed, "{\"b\":1}"));
  assert_true(matches(closed, "{\"a\":null}"));
  lap_grammar_release(open);
  lap_grammar_release(closed);
  lap_json_free(document);
}

static void white_space_is_bounded(void **state) {
  (void)state;
  lap_grammar *grammar = schema("{\"type\":\"array\"}");
  char text[128];
  for (int blanks = 0; blanks < 64; blanks++) {
    snprintf(text, sizeof text, "[\n%*s1]", blanks, "");
    assert_int_equal(matches(grammar, text), blanks <= 32);
  }
  assert_false(matches(grammar, " []"));
  assert_false(matches(grammar, "[] "));
  assert_false(matches(grammar, "[1 ,2]"));
  assert_false(matches(grammar, "[\n\n1]"));
  lap_grammar_release(grammar);
}

static void json_objects_are_objects(void **state) {
  (void)state;
  lap_error error;
  lap_grammar *grammar;
  expect_ok(lap_grammar_json_object(vocabulary, LAP_THOUGHTS_NONE, &grammar, &error), &error);
  check_texts(grammar, "json_object", TEXTS("{}", "{\"a\": [1, {\"b\": [[], \"\\u00e9\"]}], \"c\": -0.5e-3}"),
              true);
  check_texts(grammar, "json_object",
              TEXTS("[]", "1", "\"a\"", "{\"a\":\"\\ud83d\"}", "{", "{\"a\"}", "{\"a\":1,}", "{}{}"), false);
  lap_grammar_release(grammar);
}

/* The path is that in the whole document, as a client sent it. */
static void unsupported_schemas_are_refused_by_path(void **state) {
  (void)state;
  static const struct {
    const char *schema, *message;
  } cases[] = {
      {"{\"properties\":{\"x\":{\"pattern\":\"a(?=b)\"}}}",
       "request: f.schema.properties.x.pattern: character 4: look-around is not supported"},
      {"{\"pattern\":\"\\\\bword\"}",
       "request: f.schema.pattern: character 2: an escape that is not supported"},
      {"{\"pattern\":\"a(b\"}", "request: f.schema.pattern: character 4: the group has no end"},
      {"{\"pattern\":\"x$y\"}",
       "request: f.schema.pattern: character 2: an anchor that is not at an end of the pattern"},
      {"{\"items\":{\"not\":{}}}", "request: f.schema.items.not: this keyword is not supported"},
      {"{\"uniqueItems\":true}", "request: f.schema.uniqueItems: this keyword is not supported"},
      {"{\"type\":\"text\"}", "request: f.schema.type: the name of a type is expected"},
      {"{\"type\":[\"string\",5]}", "request: f.schema.type[1]: the name of a type is expected"},
      {"{\"anyOf\":{}}", "request: f.schema.anyOf: a list of schemas is expected"},
      {"{\"properties\":{\"a\":5}}", "request: f.schema.properties.a: a schema (an object) is expected"},
      {"{\"properties\":[]}", "request: f.schema.properties: an object is expected"},
      {"{\"required\":[1]}", "request: f.schema.required[0]: a name is expected"},
      {"{\"minLength\":-1}", "request: f.schema.minLength: a count is expected"},
      {"{\"maxItems\":1.5}", "request: f.schema.maxItems: a count is expected"},
      {"{\"minItems\":99999999}", "request: f.schema.minItems: more than 16777216 is not supported"},
      {"{\"minimum\":\"1\"}", "request: f.schema.minimum: a number is expected"},
      {"{\"multipleOf\":0.01}", "request: f.schema.multipleOf: only 1 is supported"},
      {"{\"$ref\":\"http://x\"}",
       "request: f.schema.$ref: only references into the schema itself are supported (#/...)"},
      {"{\"$ref\":\"#/$defs/a\"}", "request: f.schema.$ref: this reference leads nowhere"},
      {"{\"$ref\":\"#\"}", "request: f.schema: its references lead back to itself"},
      {"{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#\"}]}",
       "request: f.schema: begins with itself, and left recursion is not supported"},
      {"{\"type\":\"string\",\"pattern\":\"^a(bc)*$\",\"maxLength\":3}",
       "request: f.schema.pattern: minLength or maxLength beside it is only supported for one repeated "
       "character"},
      {"{\"pattern\":\"a\",\"format\":\"date\"}",
       "request: f.schema.format: a second pattern or format for one string is not supported"},
      {"{\"enum\":[\"a\"],\"pattern\":\"b\"}",
       "request: f.schema.pattern: this keyword is not supported beside given values"},
      {"{\"enum\":[]}", "request: f.schema: there is no value that it allows"},
      {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}",
       "request: f.schema: there is no value that it allows"},
      {"false", "request: f.schema: there is no value that it allows"},
      {"7", "request: f.schema: a schema (an object) is expected"},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
       "schema: there is no text that it allows"},
      {"{\"minProperties\":2,\"required\":[\"a\"]}",
       "request: f.schema.minProperties: more than the number of required properties is not supported"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    lap_error error = {0};
    lap_grammar *grammar;
    snprintf(text, sizeof text, "{\"f\":{\"schema\":%s}}", cases[i].schema);
    lap_json_document *document = parse(text, "request");
    const lap_json *place =
        lap_json_get(document, lap_json_get(document, lap_json_root(document), "f"), "schema");
    assert_int_not_equal(
        lap_grammar_from_schema(vocabulary, document, place, false, LAP_THOUGHTS_NONE, &grammar, &error),
        LAP_OK);
    assert_null(grammar);
    assert_string_equal(error.message, cases[i].message);
    lap_json_free(document);
  }
}

static void remarks_in_schemas_are_ignored(void **state) {
  (void)state;
  lap_grammar *grammar = schema(
      "{\"$schema\":\"x\",\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],"
      "\"x-vendor\":{\"not\":1},\"deprecated\":true,\"readOnly\":true,\"type\":\"integer\","
      "\"uniqueItems\":false,\"patternProperties\":{},\"format\":\"int64\"}");
  assert_true(matches(grammar, "7"));
  assert_false(matches(grammar, "\"7\""));
  lap_grammar_release(grammar);
}

/* ---- GBNF -------------------------------------------------------------------------------------- */

static void gbnf_texts_and_escapes(void **state) {
  (void)state;
  check_gbnf("root ::= \"a\\n\\t\\\\\\\"\\x41\\u00e9\\U0001F600[\\]\"",
             TEXTS("a\n\t\\\"A\xc3\xa9\xf0\x9f\x98\x80[]"),
             TEXTS("", "a", "a\n\t\\\"A\xc3\xa9", "A\n\t\\\"A\xc3\xa9\xf0\x9f\x98\x80[]"));
  check_gbnf("root ::= \"\"", TEXTS(""), TEXTS("a"));
}

static void gbnf_classes(void **state) {
  (void)state;
  check_gbnf("root ::= [a-cx\\-\\]]+", TEXTS("abc", "x", "-", "a]b"), TEXTS("", "d", "\\", "aB"));
  check_gbnf("root ::= [^a-c\\n]", TEXTS("d", " ", "\xc3\xa9", "\xf0\x9f\x98\x80", "\xe2\x82\xac"),
             TEXTS("a", "\n", "", "dd", "\xc3", "\xff", "\xed\xa0\x80", "\xc0\xaf"));
  check_gbnf("root ::= [\xc3\xa0-\xc3\xa9\xe2\x82\xac]*", TEXTS("", "\xc3\xa9\xe2\x82\xac", "\xc3\xa0"),
             TEXTS("\xc3\xaa", "\xe2\x82\xad", "e"));
  check_gbnf("root ::= . .", TEXTS("ab", "\xc3\xa9\n", "\xf4\x8f\xbf\xbf\x7f"),
             TEXTS("a", "abc", "\xc3\xa9"));
  check_gbnf("root ::= [a-]", TEXTS("a", "-"), TEXTS("b"));
}

static void gbnf_repetitions(void **state) {
  (void)state;
  check_gbnf("root ::= \"a\"* \"b\"+ \"c\"?", TEXTS("b", "aabbc", "bc"), TEXTS("", "a", "bcc", "ac"));
  check_gbnf("root ::= \"a\"{3}", TEXTS("aaa"), TEXTS("aa", "aaaa", ""));
  check_gbnf("root ::= \"a\"{2,}", TEXTS("aa", "aaaaaa"), TEXTS("a", ""));
  check_gbnf("root ::= \"a\"{1,3} \"b\"{0,2}", TEXTS("a", "aaabb", "ab"), TEXTS("", "aaaa", "abbb", "b"));
  check_gbnf("root ::= \"a\"{ 0 , 1 } [b]{0}", TEXTS("", "a"), TEXTS("b", "aa"));
  check_gbnf("root ::= (\"ab\"? \"c\"?){2,3}", TEXTS("", "ab", "cab", "abcabcabc", "abab"),
             TEXTS("abcabcabcc", "b"));
}

/* Larger than what is written out: these count. The body may match nothing, and may itself be counted. */
static void gbnf_counted_repetitions(void **state) {
  (void)state;
  static char text[2200];
  lap_grammar *exact = gbnf("root ::= word{300,700}\nword ::= [a-z]{2} \" \"");
  lap_grammar *nullable = gbnf("root ::= (\"ab\"? \"c\"?){150,300} \"!\"");
  lap_grammar *endless = gbnf("root ::= \"<\" (\"a\" | \"bb\"){200,} \">\"");
  for (int i = 0; i <= 700; i++) {
    snprintf(text + 3 * (size_t)i, 4, "ab ");
    if (i == 298 || i == 299 || i == 300 || i == 500 || i == 699 || i == 700) {
      assert_int_equal(matches_tokens(exact, text, strlen(text)), i + 1 >= 300 && i + 1 <= 700);
    }
  }
  for (int i = 0; i <= 700; i += 50) {
    size_t length = 0;
    for (int k = 0; k < i; k++) length += (size_t)snprintf(text + length, 4, "%s", k % 3 ? "abc" : "ab");
    snprintf(text + length, 2, "!");
    assert_int_equal(matches_tokens(nullable, text, length + 1), i <= 300);
  }
  for (int i = 190; i <= 420; i += 10) {
    text[0] = '<';
    memset(text + 1, i % 20 ? 'b' : 'a', (size_t)i);
    text[i + 1] = '>';
    int rounds = i % 20 ? i / 2 : i;
    assert_int_equal(matches_tokens(endless, text, (size_t)i + 2), rounds >= 200);
  }
  lap_grammar_release(exact);
  lap_grammar_release(nullable);
  lap_grammar_release(endless);
}

static void gbnf_rules_and_layout(void **state) {
  (void)state;
  check_gbnf(
      "# a comment\n\nroot ::= greeting \" \" # behind a rule\n  | other-1\nother-1 ::=\n  \"x\" (\n  \"y\" "
      "# in a "
      "parenthesis\n  | \"z\" )*\r\ngreeting ::= \"hi\" | \"ho\"",
      TEXTS("hi ", "ho ", "x", "xyzzy"), TEXTS("hi", "", "xq", "y"));
  check_gbnf("root ::= a a\na ::= | \"x\"", TEXTS("", "x", "xx"), TEXTS("xxx"));
  check_gbnf("root ::= e\ne ::= \"(\" e \")\" | \"\"", TEXTS("", "()", "((()))"), TEXTS("(", "())", ")("));
  check_gbnf("root ::= list\nlist ::= \"a\" list | \"a\"", TEXTS("a", "aaaaaaaaaa"), TEXTS("", "ab"));
  check_gbnf("root ::= \"a\" root \"b\" | \"a\" root | \"a\"", TEXTS("a", "aab", "aaabb", "aaaabb"),
             TEXTS("ab", "abb", "b", "aabb"));
}

static void gbnf_palindromes_need_guessing(void **state) {
  (void)state;
  check_gbnf("root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\" | \"\"",
             TEXTS("", "a", "abba", "abababa", "bbabb"), TEXTS("ab", "abb", "aab"));
}

static void gbnf_special_tokens(void **state) {
  (void)state;
  lap_grammar *grammar = gbnf("root ::= \"a\" <|think|> <[8]> [^x]*");
  assert_true(matches_tokens(grammar, "a<|think|><|channel>b", 21));
  assert_false(matches_bytes(grammar, "a<|think|><|channel>b", 21)); /* bytes are no special token */
  assert_false(matches_tokens(grammar, "a<|think|>b", 11));
  assert_false(matches_tokens(grammar, "a<|think|><|channel>b<|think|>", 30)); /* nor a token the bytes */
  lap_grammar_release(grammar);
}

static void gbnf_errors_name_line_and_column(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "grammar: line 1, column 1: there is no rule \"root\""},
      {"rot ::= \"a\"", "grammar: line 1, column 12: there is no rule \"root\""},
      {"root ::= \"a\"\n  b ::= c", "grammar: line 2, column 9: rule \"c\" is not defined"},
      {"root ::= \"a", "grammar: line 1, column 10: the text has no end (\")"},
      {"root ::= [a", "grammar: line 1, column 10: the class of characters has no end (])"},
      {"root ::= (\"a\"", "grammar: line 1, column 10: the parenthesis has no end"},
      {"root ::= \"a\")", "grammar: line 1, column 13: this cannot stand here"},
      {"root ::= [z-a]", "grammar: line 1, column 11: the range of characters goes backwards"},
      {"root ::= \"\\q\"", "grammar: line 1, column 11: unknown escape"},
      {"root ::= \"\\x4\"", "grammar: line 1, column 13: hexadecimal digits are missing in an escape"},
      {"root ::= \"\\uD800\"", "grammar: line 1, column 13: no such character"},
      {"root ::= \"\xff\"", "grammar: line 1, column 11: invalid UTF-8"},
      {"root : \"a\"", "grammar: line 1, column 6: \"::=\" is expected"},
      {"root ::= \"a\"{2,1}",
       "grammar: line 1, column 14: the least number of repetitions is above the largest"},
      {"root ::= \"a\"{x}", "grammar: line 1, column 14: a number is expected"},
      {"root ::= \"a\"{99999999}", "grammar: line 1, column 14: a number above 16777216"},
      {"root ::= a\na ::= \"x\"\na ::= \"y\"", "grammar: line 3, column 1: rule \"a\" is defined twice"},
      {"root ::= root \"a\" | \"b\"",
       "grammar: line 1, column 1: rule \"root\" begins with itself, and left recursion is not supported"},
      {"root ::= \"x\" a\na ::= b? c\nb ::= \"y\"\nc ::= \"\" a \"z\" | \"w\"",
       "grammar: line 2, column 1: rule \"a\" begins with itself, and left recursion is not supported"},
      {"root ::= \"a\" root", "grammar: there is no text that it allows"},
      {"root ::= <nothing>", "grammar: line 1, column 10: not a special token of this model"},
      {"root ::= <[500]>", "grammar: line 1, column 10: not a special token of this model"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lap_error error = {0};
    lap_grammar *grammar;
    assert_int_not_equal(lap_grammar_from_gbnf(vocabulary, cases[i].text, strlen(cases[i].text), "grammar",
                                               LAP_THOUGHTS_NONE, &grammar, &error),
                         LAP_OK);
    assert_null(grammar);
    if (strncmp(cases[i].message, "grammar: line 2, column 1: rule \"a\" begins", 42) == 0) {
      /* Of the rules in the circle any may be named. */
      assert_non_null(strstr(error.message, "begins with itself"));
      continue;
    }
    assert_string_equal(error.message, cases[i].message);
  }
}

/* ---- hostile sources ---------------------------------------------------------------------------- */

static char *repeated(const char *head, const char *unit, int times, const char *tail) {
  size_t length = strlen(unit);
  char *text = malloc(strlen(head) + length * (size_t)times + strlen(tail) + 1);
  assert_non_null(text);
  char *at = stpcpy(text, head);
  for (int i = 0; i < times; i++) at = stpcpy(at, unit);
  strcpy(at, tail);
  return text;
}

static void expect_refused(char *text, const char *message) {
  lap_error error = {0};
  lap_grammar *grammar;
  lap_status status =
      lap_grammar_from_gbnf(vocabulary, text, strlen(text), "grammar", LAP_THOUGHTS_NONE, &grammar, &error);
  assert_int_not_equal(status, LAP_OK);
  assert_non_null(strstr(error.message, message));
  free(text);
}

static void sources_that_ask_for_too_much_are_refused(void **state) {
  (void)state;
  expect_refused(repeated("root ::= ", "(", 100000, ""), "more than 64 parentheses");
  expect_refused(repeated("root ::= ", "[ab]*", 1, "\"a\"[ab]{60}"), "too complex");
  expect_refused(repeated("root ::= \"", "ab", 600000, "\""), "more than 1 MiB");
  expect_refused(repeated("root ::= \"a\"", "*", 5000, ""), "too large");
  char *many = malloc(40000 * 16), *at = many;
  assert_non_null(many);
  at += sprintf(at, "root ::= r1\n");
  for (int i = 1; i < 40000; i++) at += sprintf(at, "r%d ::= \"a\"\n", i);
  expect_refused(many, "too many rules");
}

/* Each schema refers eight times to the next: eight to the fourteenth ways. */
static void schemas_that_ask_for_too_much_are_refused(void **state) {
  (void)state;
  char text[8192], *at = text;
  at += sprintf(at, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{\"d14\":{\"type\":\"null\"}");
  for (int i = 0; i < 14; i++) {
    at += sprintf(at, ",\"d%d\":{\"allOf\":[", i);
    for (int k = 0; k < 8; k++) at += sprintf(at, "%s{\"$ref\":\"#/$defs/d%d\"}", k ? "," : "", i + 1);
    at += sprintf(at, "]}");
  }
  strcpy(at, "}}");
  lap_error error = {0};
  lap_grammar *grammar;
  lap_json_document *document = parse(text, "schema");
  assert_int_not_equal(lap_grammar_from_schema(vocabulary, document, lap_json_root(document), false,
                                               LAP_THOUGHTS_NONE, &grammar, &error),
                       LAP_OK);
  assert_non_null(strstr(error.message, "in too many ways"));
  lap_json_free(document);
  /* Ten alternatives in each of six parts of one schema: a million objects. */
  at = text + sprintf(text, "{\"type\":\"object\",\"allOf\":[");
  for (int i = 0; i < 6; i++) {
    at += sprintf(at, "%s{\"anyOf\":[", i ? "," : "");
    for (int k = 0; k < 10; k++) at += sprintf(at, "%s{\"required\":[\"p%d\"]}", k ? "," : "", 10 * i + k);
    at += sprintf(at, "]}");
  }
  strcpy(at, "]}");
  document = parse(text, "schema");
  assert_int_not_equal(lap_grammar_from_schema(vocabulary, document, lap_json_root(document), false,
                                               LAP_THOUGHTS_NONE, &grammar, &error),
                       LAP_OK);
  assert_non_null(strstr(error.message, "too large"));
  lap_json_free(document);
}

/* Nested counts can be read in more ways than are kept: that ends with an error, and the matcher stays
 * usable. */
static void ambiguity_ends_with_an_error(void **state) {
  (void)state;
  lap_error error = {0};
  lap_grammar *grammar = gbnf("root ::= (([a-z]{1,300} \".\"?){1,300} \",\"?){1,300} \"!\"");
  lap_matcher *matcher = matcher_of(grammar);
  int32_t a = byte_token('a'), end = byte_token('!');
  int accepted = 0;
  while (accepted < 1000 && lap_matcher_accept(matcher, a, &error) == LAP_OK) accepted++;
  assert_in_range(accepted, 10, 300);
  assert_int_equal(error.status, LAP_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "grammar: too ambiguous: the text so far can be read in too many ways");
  expect_ok(lap_matcher_accept(matcher, end, &error), &error);
  assert_true(lap_matcher_is_complete(matcher));
  lap_matcher_destroy(matcher);
  lap_grammar_release(grammar);
}

/* Which rule it was shows only at its end: 3 to the n stacks after n letters, were they not united. */
static void stacks_that_differ_only_in_what_follows_are_united(void **state) {
  (void)state;
  lap_grammar *grammar = gbnf(
      "root ::= x | y | z | \"e\"\nx ::= \"a\" root \"b\"\ny ::= \"a\" root \"c\"\n"
      "z ::= \"a\" root \"d\"");
  random_source random = {.state = 5};
  char text[402];
  for (int n = 1; n < 200; n += 33) {
    memset(text, 'a', (size_t)n);
    text[n] = 'e';
    for (int i = 0; i < n; i++) text[n + 1 + i] = "bcd"[random_below(&random, 3)];
    text[2 * n + 1] = '\0';
    assert_true(matches(grammar, text));
    text[n + 1 + n / 2] = 'e';
    assert_false(matches(grammar, text));
    text[2 * n] = '\0';
    assert_false(matches(grammar, text));
  }
  lap_grammar_release(grammar);
}

/* A model that opens brackets for ever is stopped, not the program. */
static void nesting_is_bounded(void **state) {
  (void)state;
  lap_error error = {0};
  lap_grammar *grammar;
  expect_ok(lap_grammar_json_object(vocabulary, LAP_THOUGHTS_NONE, &grammar, &error), &error);
  lap_matcher *matcher = matcher_of(grammar);
  for (const char *c = "{\"a\":"; *c; c++)
    expect_ok(lap_matcher_accept(matcher, byte_token((unsigned char)*c), &error), &error);
  int depth = 0;
  int32_t open = byte_token('['), close = byte_token(']'), end = byte_token('}');
  while (depth < 100000 && lap_matcher_accept(matcher, open, NULL) == LAP_OK) depth++;
  assert_in_range(depth, 500, 5000);
  while (depth-- > 0) expect_ok(lap_matcher_accept(matcher, close, &error), &error);
  expect_ok(lap_matcher_accept(matcher, end, &error), &error);
  assert_true(lap_matcher_is_complete(matcher));
  lap_matcher_destroy(matcher);
  lap_grammar_release(grammar);
}

/* ---- matchers ---------------------------------------------------------------------------------- */

static void the_end_is_allowed_only_where_the_text_may_end(void **state) {
  (void)state;
  lap_error error;
  lap_grammar *grammar = gbnf("root ::= \"a\" \"b\"?");
  lap_matcher *matcher = matcher_of(grammar);
  int32_t a = byte_token('a'), b = byte_token('b');
  take_mask(matcher);
  assert_false(in_mask(EOS));
  assert_int_equal(lap_matcher_accept(matcher, EOS, NULL), LAP_ERROR_ARGUMENT);
  assert_true(accepts_ids(matcher, &a, 1));
  take_mask(matcher);
  assert_true(in_mask(EOS) && in_mask(TURN_END) && in_mask(b) && !in_mask(a));
  lap_matcher *other;
  expect_ok(lap_matcher_copy(matcher, &other, &error), &error);
  expect_ok(lap_matcher_accept(matcher, TURN_END, &error), &error);
  assert_true(lap_matcher_is_finished(matcher));
  take_mask(matcher);
  assert_true(in_mask(EOS) && !in_mask(b));
  assert_false(lap_matcher_is_finished(other)); /* a copy goes its own way */
  assert_true(accepts_ids(other, &b, 1));
  take_mask(other);
  for (int32_t id = 0; id < vocabulary->size; id++)
    assert_int_equal(in_mask(id), id == EOS || id == TURN_END);
  lap_matcher_destroy(matcher);
  lap_matcher_destroy(other);
  lap_grammar_release(grammar);
}

static void logits_of_forbidden_tokens_become_minus_infinity(void **state) {
  (void)state;
  lap_error error;
  lap_grammar *grammar = gbnf("root ::= \"a\"");
  lap_matcher *matcher = matcher_of(grammar);
  int32_t size = vocabulary->size + 7; /* a model may have more rows than its tokenizer has tokens */
  float *logits = malloc((size_t)size * sizeof *logits);
  assert_non_null(logits);
  for (int32_t i = 0; i < size; i++) logits[i] = (float)i;
  expect_ok(lap_matcher_apply(matcher, logits, size, &error), &error);
  for (int32_t i = 0; i < size; i++) {
    size_t length;
    const char *content = lap_tokenizer_token(tokenizer, i, &length);
    bool is_a = content && (strcmp(content, "a") == 0 || strcmp(content, "<0x61>") == 0);
    assert_true(is_a ? logits[i] == (float)i : isinf(logits[i]) && logits[i] < 0);
  }
  free(logits);
  lap_matcher_destroy(matcher);
  lap_grammar_release(grammar);
}

/* Tokens that cut characters: after the first byte of one only bytes that go on are allowed. */
static void characters_are_matched_across_tokens(void **state) {
  (void)state;
  lap_grammar *grammar = gbnf("root ::= [\xe2\x82\xac\xe2\x83\x80]"); /* E2 82 AC and E2 83 80 */
  lap_matcher *matcher = matcher_of(grammar);
  int32_t bytes[] = {byte_token(0xe2), byte_token(0x82), byte_token(0xac)};
  assert_true(accepts_ids(matcher, bytes, 1));
  take_mask(matcher);
  for (int32_t id = 0; id < vocabulary->size; id++)
    assert_int_equal(in_mask(id), id == byte_token(0x82) || id == byte_token(0x83));
  assert_true(accepts_ids(matcher, bytes + 1, 1));
  take_mask(matcher);
  assert_true(in_mask(bytes[2]));
  assert_false(in_mask(byte_token(0x80)));
  lap_matcher_destroy(matcher);
  lap_grammar_release(grammar);
}

static void every_bit_of_a_mask_is_right(void **state) {
  (void)state;
  const char *text = "{\"name\":\"a \\\"b\\\" \xc3\xa9\",\"list\":[1,-20.5e3,true],\"short\":\"abc\"}";
  lap_grammar *grammar = schema(
      "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"list\":{\"type\":\"array\"},"
      "\"short\":{\"type\":\"string\",\"maxLength\":4}},\"required\":[\"name\",\"list\",\"short\"]}");
  lap_matcher *matcher = matcher_of(grammar);
  for (const char *c = text; *c; c++) {
    take_mask(matcher);
    for (int32_t id = 0; id < vocabulary->size; id++) {
      if (in_mask(id) != lap_matcher_allows(matcher, id))
        fail_msg("token %d at \"%s\": mask %d", id, c, in_mask(id));
    }
    int32_t byte = byte_token((unsigned char)*c);
    assert_true(accepts_ids(matcher, &byte, 1));
  }
  assert_true(lap_matcher_is_complete(matcher));
  lap_matcher_destroy(matcher);
  lap_grammar_release(grammar);
}

static void thoughts_may_come_first(void **state) {
  (void)state;
  lap_error error;
  lap_grammar *first, *open;
  const char *text = "root ::= \"yes\"";
  expect_ok(
      lap_grammar_from_gbnf(vocabulary, text, strlen(text), "grammar", LAP_THOUGHTS_FIRST, &first, &error),
      &error);
  expect_ok(
      lap_grammar_from_gbnf(vocabulary, text, strlen(text), "grammar", LAP_THOUGHTS_OPEN, &open, &error),
      &error);
  const char *thought = "<|channel>thought\nno { \"<channel|>yes", *rest = "no <channel|>yes";
  assert_true(matches_tokens(first, thought, strlen(thought)));
  assert_true(matches_tokens(first, "yes", 3));
  assert_false(matches_tokens(first, rest, strlen(rest)));
  assert_true(matches_tokens(open, rest, strlen(rest)));
  assert_false(matches_tokens(open, "yes", 3));
  lap_grammar_release(first);
  lap_grammar_release(open);
}

/* ---- threads ----------------------------------------------------------------------------------- */

enum {
  THREADS = 4
};

typedef struct follower {
  lap_matcher *matcher;
  const int32_t *ids;
  size_t count;
  uint64_t folded; /* the masks it saw; 0: an error */
} follower;

static void *follow(void *context) {
  follower *f = context;
  uint64_t own[64];
  for (size_t i = 0; i < f->count; i++) {
    if (lap_matcher_mask(f->matcher, own, NULL) != LAP_OK) return NULL;
    for (size_t w = 0; w < lap_vocabulary_words(vocabulary); w++)
      f->folded = (f->folded ^ own[w]) * 0x9e3779b97f4a7c15u;
    if (lap_matcher_accept(f->matcher, f->ids[i], NULL) != LAP_OK) f->folded = 0;
  }
  return NULL;
}

static void threads_share_a_grammar(void **state) {
  (void)state;
  const char *text =
      "{\"a\": [1, -2.5e3, \"b\\n \xc3\xa9\", {\"cde\": true}], \"f\": {}, \"g\": \"words of a text\"}";
  lap_error error;
  lap_grammar *shared, *alone;
  pthread_t threads[THREADS];
  follower followers[THREADS + 1] = {0};
  int32_t *ids;
  size_t count;
  assert_true(lap_vocabulary_words(vocabulary) <= 64);
  expect_ok(lap_tokenizer_encode(tokenizer, text, strlen(text), false, &ids, &count, &error), &error);
  expect_ok(lap_grammar_json_object(vocabulary, LAP_THOUGHTS_NONE, &shared, &error), &error);
  expect_ok(lap_grammar_json_object(vocabulary, LAP_THOUGHTS_NONE, &alone, &error), &error);
  for (int i = 0; i <= THREADS; i++)
    followers[i] = (follower){matcher_of(i < THREADS ? shared : alone), ids, count, 1};
  lap_grammar_release(shared); /* the matchers hold it */
  lap_grammar_release(alone);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, follow, &followers[i]), 0);
  follow(&followers[THREADS]);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(followers[i].folded == followers[THREADS].folded);
  }
  assert_true(followers[THREADS].folded != 0);
  for (int i = 0; i <= THREADS; i++) lap_matcher_destroy(followers[i].matcher);
  free(ids);
}

/* ---- tool calls -------------------------------------------------------------------------------- */

static lap_grammar *tool_grammar(const lap_json_document *document, bool several) {
  lap_grammar_tool tools[16];
  size_t count = 0;
  lap_error error;
  lap_grammar *grammar;
  for (const lap_json *tool = lap_json_root(document)->child; tool; tool = tool->next)
    tools[count++] =
        (lap_grammar_tool){lap_json_get(document, tool, "name"), lap_json_get(document, tool, "parameters")};
  expect_ok(lap_grammar_tool_calls(vocabulary, document, tools, count, several, LAP_THOUGHTS_NONE, &grammar,
                                   &error),
            &error);
  return grammar;
}

static void tool_calls_follow_the_parameters(void **state) {
  (void)state;
  lap_error error;
  lap_json_document *document;
  expect_ok(lap_json_read(TOOLS, 1 << 20, &document, &error), &error);
  lap_grammar *one = tool_grammar(document, false), *several = tool_grammar(document, true);
#define CALL(body) "<|tool_call>call:" body "<tool_call|>"
#define Q          "<|\"|>"
  static const char *const good[] = {
      CALL("ping{}"),
      CALL("note-add{body:" Q "say \"hi\" {x} }\n\tend" Q ",flags:[true,null],n:-1.5e3}"),
      CALL("note-add{body:" Q Q ",n:0}"),
      CALL("weather{city:" Q "Oslo" Q ",days:3,Unit:" Q "C" Q "}"),
      CALL("free{}"),
      CALL("free{a:{b:[1," Q "x" Q ",{}]},c-d:null}"),
  };
  static const char *const bad[] = {
      "ping{}",
      "call:ping{}",
      CALL("pong{}"),
      CALL("ping{a:1}"),
      CALL("note-add{n:0}"),
      CALL("note-add{body:\"x\",n:0}"),
      CALL("note-add{n:0,body:" Q Q "}"), /* keys are sorted */
      CALL("note-add{ body:" Q Q ",n:0}"),
      CALL("weather{city:" Q "Rome" Q ",days:3,Unit:" Q "C" Q "}"),
      CALL("weather{city:" Q "Oslo" Q ",days:11,Unit:" Q "C" Q "}"),
      CALL("weather{city:" Q "Oslo" Q ",Unit:" Q "C" Q ",days:3}"),
      "<|tool_call>call:ping{}",
      "<|tool_call>call:ping{}<tool_call|>.",
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (!matches_tokens(one, good[i], strlen(good[i]))) fail_msg("refused: %s", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (matches_tokens(several, bad[i], strlen(bad[i]))) fail_msg("allowed: %s", bad[i]);
  const char *two = CALL("ping{}") CALL("free{}");
  assert_true(matches_tokens(several, two, strlen(two)));
  assert_false(matches_tokens(one, two, strlen(two)));
  lap_grammar_release(one);
  lap_grammar_release(several);
  lap_json_free(document);
}

static void tools_that_cannot_be_called_are_refused(void **state) {
  (void)state;
  lap_error error = {0};
  lap_grammar *grammar;
  lap_json_document *document = parse(
      "{\"tools\":[{\"name\":\"a "
      "b\"},{\"name\":\"c\",\"parameters\":{\"properties\":{\"x:y\":{}}}},{\"name\":\"d\","
      "\"parameters\":{\"type\":\"string\"}}]}",
      "request");
  static const char *const messages[] = {
      "request: tools[0].name: this is no name that a tool call can be written with",
      "request: tools[1].parameters.properties.x:y: this name cannot be written in a tool call",
      "request: tools[2].parameters: there is no value that it allows"};
  const lap_json *tool = lap_json_get(document, lap_json_root(document), "tools")->child;
  for (int i = 0; i < 3; i++, tool = tool->next) {
    lap_grammar_tool one = {lap_json_get(document, tool, "name"), lap_json_get(document, tool, "parameters")};
    assert_int_not_equal(
        lap_grammar_tool_calls(vocabulary, document, &one, 1, true, LAP_THOUGHTS_NONE, &grammar, &error),
        LAP_OK);
    assert_string_equal(error.message, messages[i]);
  }
  lap_json_free(document);
}

/* ---- a large vocabulary ------------------------------------------------------------------------ */

static void a_large_vocabulary_gives_the_same_answers(void **state) {
  (void)state;
  const char *path = getenv("LAPIDARY_GEMMA3_TOKENIZER");
  if (!path || access(path, R_OK) != 0) skip();
  lap_error error;
  lap_tokenizer *large;
  expect_ok(lap_tokenizer_open(path, &large, &error), &error);
  lap_vocabulary *v = vocabulary_of(large);
  lap_grammar *grammar;
  lap_json_document *document = parse(
      "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},\"code\":{\"type\":\"string\","
      "\"maxLength\":12},"
      "\"n\":{\"type\":\"integer\",\"maximum\":2000}},\"required\":[\"text\",\"code\",\"n\"]}",
      "schema");
  expect_ok(lap_grammar_from_schema(v, document, lap_json_root(document), false, LAP_THOUGHTS_NONE, &grammar,
                                    &error),
            &error);
  const char *text =
      "{\"text\": \"Stra\xc3\x9f"
      "e, \xe6\x9d\xb1\xe4\xba\xac and \\n 12\", \"code\": \"a b\", \"n\": 1999, \"more\": [\"x\"]}";
  int32_t *ids;
  size_t count;
  uint64_t *mask = malloc(lap_vocabulary_words(v) * sizeof *mask);
  assert_non_null(mask);
  expect_ok(lap_tokenizer_encode(large, text, strlen(text), false, &ids, &count, &error), &error);
  lap_matcher *matcher = matcher_of(grammar);
  for (size_t i = 0; i < count; i++) {
    expect_ok(lap_matcher_mask(matcher, mask, &error), &error);
    for (int32_t id = (int32_t)i; id < v->size; id += i % 8 == 3 ? 1 : 101)
      if ((mask[id / 64] >> id % 64 & 1) != lap_matcher_allows(matcher, id))
        fail_msg("token %d at %zu", id, i);
    expect_ok(lap_matcher_accept(matcher, ids[i], &error), &error);
  }
  assert_true(lap_matcher_is_complete(matcher));
  lap_matcher_destroy(matcher);
  lap_grammar_release(grammar);
  lap_json_free(document);
  free(ids);
  free(mask);
  lap_vocabulary_destroy(v);
  lap_tokenizer_close(large);
}

/* ---- for validate.py --------------------------------------------------------------------------- */

/* One line: the source, its number, and the pieces of the text: strings, and [content] of special tokens. */
static void print_sample(const char *source, int index, const sample *s) {
  yajl_gen json = yajl_gen_alloc(NULL);
  char bytes[LAP_TOKEN_MAX_BYTES], text[8 * LAP_TOKEN_MAX_BYTES];
  size_t length = 0;
  yajl_gen_array_open(json);
  yajl_gen_string(json, (const unsigned char *)source, strlen(source));
  yajl_gen_integer(json, index);
  for (size_t i = 0; i <= s->count; i++) {
    bool special = i < s->count && lap_tokenizer_is_special(tokenizer, s->ids[i]);
    bool full = length + LAP_TOKEN_MAX_BYTES > sizeof text &&
                (length == 0 || !((unsigned char)text[length - 1] & 0x80));
    if (i == s->count || special || full) {
      yajl_gen_string(json, (const unsigned char *)text, length);
      length = 0;
    }
    if (i == s->count) break;
    size_t added = lap_tokenizer_token_bytes(tokenizer, s->ids[i], bytes);
    if (special) {
      yajl_gen_array_open(json);
      yajl_gen_string(json, (const unsigned char *)bytes, added);
      yajl_gen_array_close(json);
      continue;
    }
    assert_true(length + added <= sizeof text);
    memcpy(text + length, bytes, added);
    length += added;
  }
  yajl_gen_array_close(json);
  const unsigned char *line;
  assert_int_equal(yajl_gen_get_buf(json, &line, &length), yajl_gen_status_ok);
  printf("%s\n", (const char *)line);
  yajl_gen_free(json);
}

static void print_schema_samples(const lap_json_document *document, const lap_json *entry,
                                 lap_grammar *grammar, int index) {
  static sample s;
  random_source random = {.state = 1000 + (uint64_t)index};
  for (int i = 0; i < 3 * SAMPLES; i++) {
    draw(grammar, lap_json_get(document, entry, "ending")->string, &random, &s);
    print_sample("schema", index, &s);
  }
}

static void print_tool_samples(void) {
  lap_error error;
  lap_json_document *document;
  static sample s;
  random_source random = {.state = 1};
  expect_ok(lap_json_read(TOOLS, 1 << 20, &document, &error), &error);
  lap_grammar *grammar = tool_grammar(document, true);
  for (int i = 0; i < 20 * SAMPLES; i++) {
    draw(grammar, "", &random, &s);
    print_sample("tools", 0, &s);
  }
  lap_grammar_release(grammar);
  lap_json_free(document);
}

int main(int argc, char **argv) {
  open_pebble();
  int result = 0;
  if (argc > 1 && strcmp(argv[1], "samples") == 0) {
    each_schema(print_schema_samples);
    print_tool_samples();
  } else {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_documents_are_allowed_and_invalid_ones_refused),
        cmocka_unit_test(what_masks_allow_is_json),
        cmocka_unit_test(properties_keep_their_order),
        cmocka_unit_test(closed_objects_have_no_other_members),
        cmocka_unit_test(white_space_is_bounded),
        cmocka_unit_test(json_objects_are_objects),
        cmocka_unit_test(unsupported_schemas_are_refused_by_path),
        cmocka_unit_test(remarks_in_schemas_are_ignored),
        cmocka_unit_test(gbnf_texts_and_escapes),
        cmocka_unit_test(gbnf_classes),
        cmocka_unit_test(gbnf_repetitions),
        cmocka_unit_test(gbnf_counted_repetitions),
        cmocka_unit_test(gbnf_rules_and_layout),
        cmocka_unit_test(gbnf_palindromes_need_guessing),
        cmocka_unit_test(gbnf_special_tokens),
        cmocka_unit_test(gbnf_errors_name_line_and_column),
        cmocka_unit_test(sources_that_ask_for_too_much_are_refused),
        cmocka_unit_test(schemas_that_ask_for_too_much_are_refused),
        cmocka_unit_test(ambiguity_ends_with_an_error),
        cmocka_unit_test(stacks_that_differ_only_in_what_follows_are_united),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(the_end_is_allowed_only_where_the_text_may_end),
        cmocka_unit_test(logits_of_forbidden_tokens_become_minus_infinity),
        cmocka_unit_test(characters_are_matched_across_tokens),
        cmocka_unit_test(every_bit_of_a_mask_is_right),
        cmocka_unit_test(thoughts_may_come_first),
        cmocka_unit_test(threads_share_a_grammar),
        cmocka_unit_test(tool_calls_follow_the_parameters),
        cmocka_unit_test(tools_that_cannot_be_called_are_refused),
        cmocka_unit_test(a_large_vocabulary_gives_the_same_answers),
    };
    result = cmocka_run_group_tests(tests, NULL, NULL);
  }
  close_pebble();
  return result;
}
