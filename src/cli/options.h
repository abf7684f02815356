/* options.h: the command line as tables.
 *
 * A verb is described once: its operands, what it does, its options with their ranges and where their
 * values go. Parsing, --help, and in help.c the man page and the shell completion are all made from that, so
 * they cannot disagree. */
#ifndef LAP_CLI_OPTIONS_H
#define LAP_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/plan.h"

enum {
  LAP_EXIT_OK = 0,
  LAP_EXIT_FAILURE = 1,
  LAP_EXIT_USAGE = 2,
  LAP_EXIT_INTERRUPTED = 130
};

/* What an option sets, at `offset` in the verb's settings. */
typedef enum lap_option_kind {
  LAP_OPTION_END = 0, /* closes a table */
  LAP_OPTION_FLAG,    /* bool */
  LAP_OPTION_TEXT,    /* const char * */
  LAP_OPTION_TEXTS,   /* lap_texts; may be given again */
  LAP_OPTION_INTEGER, /* int64_t in low..high */
  LAP_OPTION_SEED,    /* uint64_t */
  LAP_OPTION_NUMBER,  /* double in low..high */
  LAP_OPTION_CHOICE   /* int: the index of one of `choices` */
} lap_option_kind;

enum {
  LAP_MAX_TEXTS = 32
};

typedef struct lap_texts {
  const char *item[LAP_MAX_TEXTS]; /* pointers into argv */
  int count;
} lap_texts;

typedef struct lap_option {
  lap_option_kind kind;
  char letter;          /* 0 if there is no short form */
  const char *name;     /* long form, without dashes */
  const char *argument; /* its name in help: DIR and FILE complete as such; NULL for a flag */
  size_t offset;
  double low, high;
  const char *const *choices; /* ended by NULL */
  const char *help;
} lap_option;

typedef struct lap_verb lap_verb;
struct lap_verb {
  const char *name;
  const char *operands; /* as in a synopsis: "[PROMPT]" */
  int max_operands;     /* -1 = any number */
  const char *summary;
  const char *description; /* paragraphs divided by empty lines */
  const lap_option *options;
  int (*run)(const lap_verb *verb, int argc, char **argv); /* argv[0] is the verb; returns the exit code */
};

extern const lap_verb lap_verb_run;
extern const lap_verb lap_verb_chat;
extern const lap_verb lap_verb_tokenize;
extern const lap_verb lap_verb_inspect;
extern const lap_verb lap_verb_fit;
extern const lap_verb lap_verb_logits;
extern const lap_verb lap_verb_bench;
extern const lap_verb lap_verb_forge;
extern const lap_verb lap_verb_serve;
extern const lap_verb lap_verb_cut;
extern const lap_verb lap_verb_check;
extern const lap_verb lap_verb_help;

/* The words for --kv-start. */
extern const char *const lap_kv_start_words[];

/* The row of an option table for a `const char *` at `at`: which checkpoint (lap_find_model). */
#define LAP_MODEL_OPTION(at)                                                                    \
  {                                                                                             \
    .kind = LAP_OPTION_TEXT, .letter = 'm', .name = "model", .argument = "DIR", .offset = (at), \
    .help = "The checkpoint; default: $LAPIDARY_MODEL, else the bundled model."                 \
  }

/* Reads a verb's command line into `settings`, which hold the defaults. `operands` gets what is no
 * option ([argc] pointers at most). False: the command is over (help was shown, or the line is wrong
 * and the user was told) and `*code` is its exit code. */
bool lap_parse(const lap_verb *verb, int argc, char **argv, void *settings, const char **operands,
               int *operand_count, int *code);

/* Says on stderr what is wrong with the use of a verb, with a hint; returns LAP_EXIT_USAGE. */
int lap_usage_error(const lap_verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Digits only, up to `high`; false otherwise. */
bool lap_parse_unsigned(const char *text, uint64_t high, uint64_t *value);

/* What `lapidary VERB --help` prints. */
void lap_print_help(const lap_verb *verb);

/* The options that every verb has besides those of its table. */
extern const lap_option lap_common_options[];

#endif
