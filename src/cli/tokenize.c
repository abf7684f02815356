/* tokenize.c: `lapidary tokenize`: text to ids and back.
 *
 * Only tokenizer.json is read, unless the model's BOS is wanted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/support.h"
#include "text/tokenizer.h"

typedef struct settings {
  const char *model;
  bool decode;
  bool bos;
  bool plain;
  bool show;
} settings;

static const lap_option options[] = {
    LAP_MODEL_OPTION(offsetof(settings, model)),
    {.kind = LAP_OPTION_FLAG,
     .letter = 'd',
     .name = "decode",
     .offset = offsetof(settings, decode),
     .help = "Turn ids (divided by commas or white space) into text. Control tokens are shown."},
    {.kind = LAP_OPTION_FLAG,
     .name = "bos",
     .offset = offsetof(settings, bos),
     .help = "Put the model's BOS first, unless it is there."},
    {.kind = LAP_OPTION_FLAG,
     .name = "plain",
     .offset = offsetof(settings, plain),
     .help = "Control tokens spelled in the text stay text."},
    {.kind = LAP_OPTION_FLAG,
     .name = "show",
     .offset = offsetof(settings, show),
     .help = "Print one token on a line: its id and its spelling."},
    {0}};

typedef struct job {
  const settings *chosen;
  char *directory;
  const lap_tokenizer *tokenizer;
  lap_tokenizer *own; /* read from tokenizer.json alone */
  lap_model *model;   /* or with a model */
  char *input;
  size_t input_length;
  int32_t *ids;
  size_t count;
} job;

static lap_status open_tokenizer(job *j, lap_error *error) {
  lap_status status = lap_find_model(j->chosen->model, &j->directory, error);
  if (status != LAP_OK) return status;
  if (j->chosen->bos) {
    status = lap_model_open(j->directory, NULL, &j->model, error);
    return status == LAP_OK ? lap_model_tokenizer(j->model, &j->tokenizer, error) : status;
  }
  size_t bytes = strlen(j->directory) + sizeof "/tokenizer.json";
  char *path = malloc(bytes);
  if (!path) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", j->directory);
  snprintf(path, bytes, "%s/tokenizer.json", j->directory);
  status = lap_tokenizer_open(path, &j->own, error);
  j->tokenizer = j->own;
  free(path);
  return status;
}

/* The operands joined by spaces, or standard input. */
static lap_status read_input(job *j, const char *const *operands, int count, lap_error *error) {
  if (count == 0 || (count == 1 && strcmp(operands[0], "-") == 0))
    return lap_read_whole("-", &j->input, &j->input_length, error);
  size_t capacity = 1;
  for (int i = 0; i < count; i++) capacity += strlen(operands[i]) + 1;
  j->input = malloc(capacity);
  if (!j->input) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the text");
  for (int i = 0; i < count; i++)
    j->input_length += (size_t)snprintf(j->input + j->input_length, capacity - j->input_length, "%s%s",
                                        i ? " " : "", operands[i]);
  return LAP_OK;
}

static lap_status add_bos(job *j, lap_error *error) {
  int32_t bos = lap_model_bos(j->model);
  if (bos < 0 || (j->count && j->ids[0] == bos)) return LAP_OK;
  int32_t *grown = realloc(j->ids, (j->count + 1) * sizeof *grown);
  if (!grown) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %zu tokens", j->count + 1);
  memmove(grown + 1, grown, j->count * sizeof *grown);
  grown[0] = bos;
  j->ids = grown;
  j->count++;
  return LAP_OK;
}

static lap_status make_ids(job *j, lap_error *error) {
  if (j->chosen->decode) return lap_parse_ids(j->input, j->input_length, "ids", &j->ids, &j->count, error);
  lap_status status = lap_tokenizer_encode(j->tokenizer, j->input, j->input_length, !j->chosen->plain,
                                           &j->ids, &j->count, error);
  if (status == LAP_OK && j->chosen->bos) status = add_bos(j, error);
  return status;
}

/* Control characters and the backslash are escaped, so that a token is one line. */
static void print_escaped(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '\n')
      fputs("\\n", stdout);
    else if (c == '\t')
      fputs("\\t", stdout);
    else if (c == '\\')
      fputs("\\\\", stdout);
    else if (c < 0x20 || c == 0x7f)
      printf("\\x%02x", c);
    else
      putchar(c);
  }
}

static lap_status print_shown(const job *j, lap_error *error) {
  for (size_t i = 0; i < j->count; i++) {
    size_t length;
    const char *token = lap_tokenizer_token(j->tokenizer, j->ids[i], &length);
    if (!token)
      return lap_fail(error, LAP_ERROR_ARGUMENT, "id %d: the tokenizer has no such token", j->ids[i]);
    printf("%d\t", j->ids[i]);
    print_escaped(token, length);
    putchar('\n');
  }
  return LAP_OK;
}

static lap_status print_text(const job *j, lap_error *error) {
  lap_detokenizer state = {0};
  char *text = NULL;
  size_t length = 0, capacity = 0;
  lap_status status = LAP_OK;
  for (size_t i = 0; i < j->count && status == LAP_OK; i++)
    status = lap_detokenize(j->tokenizer, &state, j->ids[i], true, &text, &length, &capacity, error);
  if (status == LAP_OK) status = lap_detokenize_end(&state, &text, &length, &capacity, error);
  if (status == LAP_OK && length) lap_put(text, length);
  /* Files and pipes get the text to the byte. */
  if (status == LAP_OK && isatty(STDOUT_FILENO)) lap_put("\n", 1);
  free(text);
  return status;
}

static lap_status print_result(const job *j, lap_error *error) {
  if (j->chosen->show) return print_shown(j, error);
  if (j->chosen->decode) return print_text(j, error);
  for (size_t i = 0; i < j->count; i++) printf("%s%d", i ? " " : "", j->ids[i]);
  putchar('\n');
  return LAP_OK;
}

static int tokenize(const lap_verb *verb, int argc, char **argv) {
  settings chosen = {0};
  lap_error error;
  int count, code;
  const char **operands = malloc((size_t)argc * sizeof *operands);
  if (!operands) return lap_complain("out of memory");
  if (!lap_parse(verb, argc, argv, &chosen, operands, &count, &code)) {
    free(operands);
    return code;
  }
  if (chosen.decode && (chosen.bos || chosen.plain)) {
    free(operands);
    return lap_usage_error(verb, "--%s: does not go with --decode", chosen.bos ? "bos" : "plain");
  }
  job j = {.chosen = &chosen};
  lap_status status = open_tokenizer(&j, &error);
  if (status == LAP_OK) status = read_input(&j, operands, count, &error);
  if (status == LAP_OK) status = make_ids(&j, &error);
  if (status == LAP_OK) status = print_result(&j, &error);
  free(operands);
  free(j.ids);
  free(j.input);
  free(j.directory);
  lap_tokenizer_close(j.own);
  lap_model_close(j.model);
  return status == LAP_OK ? LAP_EXIT_OK : lap_report(&error);
}

const lap_verb lap_verb_tokenize = {
    .name = "tokenize",
    .operands = "[TEXT|-]",
    .max_operands = -1,
    .summary = "Turn text into token ids, or ids into text.",
    .description =
        "Prints the ids of TEXT, divided by spaces; several arguments are joined by spaces. Without TEXT, or "
        "with -, standard input is read, to the byte. Control tokens spelled in the text count as such.\n\n"
        "With --decode the argument is a list of ids and the text is printed, to the byte where standard "
        "output is no terminal.",
    .options = options,
    .run = tokenize,
};
