/* options.c: from argv to settings, by a verb's table; and the table as a help text.
 *
 * Every value is checked whole (no rest after a number, no number outside its range) before it is
 * stored, and a message names the option as the user spells it. */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/wrap.h"

enum {
  MAX_OPTIONS = 40,
  FIRST_LONG = 256,
  HELP = 'h'
};

const char *const lap_kv_start_words[] = {"begin", "prompt", NULL};

int lap_usage_error(const lap_verb *verb, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "lapidary %s: ", verb->name);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\nTry 'lapidary %s --help'.\n", verb->name);
  va_end(arguments);
  return LAP_EXIT_USAGE;
}

/* ---- help ------------------------------------------------------------------------------------ */

const lap_option lap_common_options[] = {
    {.kind = LAP_OPTION_FLAG, .letter = 'h', .name = "help", .help = "Show this help."}, {0}};

static void print_option(const lap_option *option) {
  char left[80];
  int length = option->letter ? snprintf(left, sizeof left, "-%c, ", option->letter)
                              : snprintf(left, sizeof left, "    ");
  snprintf(left + length, sizeof left - (size_t)length, "--%s%s%s", option->name, option->argument ? " " : "",
           option->argument ? option->argument : "");
  lap_print_entry(left, option->help);
}

static void print_options(const lap_option *options) {
  for (; options->kind != LAP_OPTION_END; options++) print_option(options);
}

void lap_print_help(const lap_verb *verb) {
  printf("Usage: lapidary %s [OPTION]...%s%s\n\n", verb->name, *verb->operands ? " " : "", verb->operands);
  lap_print_wrapped(verb->description, 0, 0);
  printf("\nOptions:\n");
  print_options(verb->options);
  print_options(lap_common_options);
}

/* ---- values ---------------------------------------------------------------------------------- */

bool lap_parse_unsigned(const char *text, uint64_t high, uint64_t *value) {
  if (!*text || text[strspn(text, "0123456789")]) return false;
  errno = 0;
  *value = strtoull(text, NULL, 10);
  return errno == 0 && *value <= high;
}

/* Decimal notation only: strtod would also take spaces, hexadecimal, infinities. */
static bool parse_number(const char *text, double *value) {
  if (!*text || text[strspn(text, "0123456789.eE+-")]) return false;
  char *end;
  *value = strtod(text, &end);
  return *end == '\0';
}

static bool set_integer(const lap_verb *verb, const lap_option *option, const char *text, int64_t *field) {
  uint64_t value;
  if (lap_parse_unsigned(text, (uint64_t)option->high, &value) && value >= (uint64_t)option->low) {
    *field = (int64_t)value;
    return true;
  }
  lap_usage_error(verb, "--%s: '%s' is not in %.0f..%.0f", option->name, text, option->low, option->high);
  return false;
}

static bool set_number(const lap_verb *verb, const lap_option *option, const char *text, double *field) {
  double value;
  if (parse_number(text, &value) && value >= option->low && value <= option->high) {
    *field = value;
    return true;
  }
  lap_usage_error(verb, "--%s: '%s' is not in %g..%g", option->name, text, option->low, option->high);
  return false;
}

static bool set_seed(const lap_verb *verb, const lap_option *option, const char *text, uint64_t *field) {
  if (lap_parse_unsigned(text, UINT64_MAX, field)) return true;
  lap_usage_error(verb, "--%s: '%s' is not in 0..%llu", option->name, text, (unsigned long long)UINT64_MAX);
  return false;
}

static bool set_choice(const lap_verb *verb, const lap_option *option, const char *text, int *field) {
  char words[128] = "";
  for (int i = 0; option->choices[i]; i++) {
    if (strcmp(option->choices[i], text) == 0) {
      *field = i;
      return true;
    }
    size_t length = strlen(words);
    snprintf(words + length, sizeof words - length, "%s%s", i ? ", " : "", option->choices[i]);
  }
  lap_usage_error(verb, "--%s: '%s' is none of %s", option->name, text, words);
  return false;
}

static bool add_text(const lap_verb *verb, const lap_option *option, const char *text, lap_texts *field) {
  if (!*text) {
    lap_usage_error(verb, "--%s: the text is empty", option->name);
    return false;
  }
  if (field->count == LAP_MAX_TEXTS) {
    lap_usage_error(verb, "--%s: given more than %d times", option->name, LAP_MAX_TEXTS);
    return false;
  }
  field->item[field->count++] = text;
  return true;
}

static bool set_value(const lap_verb *verb, const lap_option *option, const char *text, void *settings) {
  void *field = (char *)settings + option->offset;
  switch (option->kind) {
    case LAP_OPTION_FLAG:
      return *(bool *)field = true;
    case LAP_OPTION_TEXT:
      *(const char **)field = text;
      return true;
    case LAP_OPTION_TEXTS:
      return add_text(verb, option, text, field);
    case LAP_OPTION_INTEGER:
      return set_integer(verb, option, text, field);
    case LAP_OPTION_SEED:
      return set_seed(verb, option, text, field);
    case LAP_OPTION_NUMBER:
      return set_number(verb, option, text, field);
    case LAP_OPTION_CHOICE:
      return set_choice(verb, option, text, field);
    case LAP_OPTION_END:
      break;
  }
  return false;
}

/* ---- the line -------------------------------------------------------------------------------- */

typedef struct getopt_tables {
  struct option longs[MAX_OPTIONS + 2];
  char shorts[2 * MAX_OPTIONS + 4];
} getopt_tables;

/* Long options return FIRST_LONG + their index, short ones their letter. */
static void make_tables(const lap_option *options, getopt_tables *tables) {
  char *shorts = tables->shorts;
  *shorts++ = ':'; /* tell a missing argument from an unknown option */
  *shorts++ = HELP;
  int i = 0;
  for (; options[i].kind != LAP_OPTION_END && i < MAX_OPTIONS; i++) {
    int has = options[i].argument ? required_argument : no_argument;
    tables->longs[i] = (struct option){options[i].name, has, NULL, FIRST_LONG + i};
    if (!options[i].letter) continue;
    *shorts++ = options[i].letter;
    if (options[i].argument) *shorts++ = ':';
  }
  tables->longs[i] = (struct option){"help", no_argument, NULL, HELP};
  tables->longs[i + 1] = (struct option){0};
  *shorts = '\0';
}

static const lap_option *option_of(const lap_option *options, int code) {
  if (code >= FIRST_LONG) return &options[code - FIRST_LONG];
  for (; options->kind != LAP_OPTION_END; options++)
    if (options->letter == code) return options;
  return NULL;
}

static int wrong_option(const lap_verb *verb, int what, char *const *argv) {
  const lap_option *option = optopt ? option_of(verb->options, optopt) : NULL;
  if (what == ':' && option) return lap_usage_error(verb, "--%s: needs %s", option->name, option->argument);
  if (option || optopt == HELP)
    return lap_usage_error(verb, "--%s: takes no argument", option ? option->name : "help");
  if (optopt) return lap_usage_error(verb, "-%c: unknown option", optopt);
  return lap_usage_error(verb, "%s: unknown option", argv[optind - 1]);
}

bool lap_parse(const lap_verb *verb, int argc, char **argv, void *settings, const char **operands,
               int *operand_count, int *code) {
  getopt_tables tables;
  make_tables(verb->options, &tables);
  opterr = 0;
  *code = LAP_EXIT_USAGE;
  for (int got; (got = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1;) {
    if (got == HELP) {
      lap_print_help(verb);
      *code = LAP_EXIT_OK;
      return false;
    }
    if (got == '?' || got == ':') {
      *code = wrong_option(verb, got, argv);
      return false;
    }
    if (!set_value(verb, option_of(verb->options, got), optarg, settings)) return false;
  }
  *operand_count = argc - optind;
  if (verb->max_operands >= 0 && *operand_count > verb->max_operands) {
    *code = lap_usage_error(verb, "'%s' is one argument too many", argv[optind + verb->max_operands]);
    return false;
  }
  for (int i = 0; i < *operand_count; i++) operands[i] = argv[optind + i];
  return true;
}
