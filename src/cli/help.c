/* help.c: all verbs together: the list of them, and their tables as the overview, as a man page and as a
 * shell completion.
 *
 * The texts that belong to no verb (exit codes, environment, files, examples) stand here, once, and
 * appear in the overview and in the man page alike. */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/wrap.h"

typedef struct term {
  const char *name;
  const char *text;
} term;

static const char about[] =
    "Lapidary runs Gemma 4 checkpoints in MLX format on the CPU. A token's logits depend on the tokens "
    "before it, "
    "the checkpoint and the KV setting, and on nothing else: not on the number of threads, the chunks of the "
    "prompt "
    "or the processor. So the same seed and options give the same bytes, always.\n\n"
    "Results go to standard output, everything else to standard error; progress is shown only on a terminal.";

static const term exit_codes[] = {{"0", "success"},
                                  {"1", "failure: a file, a checkpoint, memory, a closed pipe"},
                                  {"2", "the command line is wrong"},
                                  {"130", "ended by Ctrl-C"},
                                  {NULL, NULL}};

static const term environment[] = {
    {"LAPIDARY_MODEL",
     "The checkpoint directory where none is named. If it is not set, the bundled model is used."},
    {"LAPIDARY_API_KEY", "The key that lapidary serve asks for, where --api-key names none."},
    {"XDG_STATE_HOME", "Where lapidary chat keeps what was typed; default: ~/.local/state."},
    {"NO_COLOR", "If it is set, nothing is dimmed."},
    {"LAPIDARY_ISA",
     "Forces a variant of the kernels: portable, avx2, avx512 or neon. Results do not change."},
    {"LAPIDARY_ATTENTION",
     "Forces the way in which attention is computed: tiled or plain (slow, a check). Results do not change."},
    {NULL, NULL}};

static const term files[] = {
    {"config.json, *.safetensors", "The structure and the weights of a checkpoint, in its directory."},
    {"tokenizer.json", "Its tokenizer."},
    {"generation_config.json", "Defaults for sampling, and the tokens that end a text."},
    {"kv_config.json", "The bits of each layer's KV cache."},
    {"$XDG_STATE_HOME/lapidary/chat_history", "What was typed in lapidary chat, readable by its owner only."},
    {"../share/lapidary/pebble, ../models/pebble",
     "The bundled model, seen from the directory of the program."},
    {NULL, NULL}};

static const term examples[] = {
    {"lapidary run 'Once there was'", "Continue a text with the bundled model."},
    {"lapidary run -m DIR --greedy -n 100 --stats - < prompt.txt",
     "Another checkpoint, a prompt from a file."},
    {"lapidary run -n 0 --save long.snapshot - < long.txt", "Evaluate a prompt once and keep the result."},
    {"lapidary run --restore long.snapshot 'In short,'", "Continue from there."},
    {"lapidary logits DIR --ids 2,315,439 --all --out logits.npy", "All logits as a NumPy array [3, vocab]."},
    {"lapidary fit DIR --ctx 32768", "Whether it fits into memory, and how fast it can be at most."},
    {"lapidary chat -m DIR --system 'Be brief.'", "Talk to it in the terminal."},
    {"lapidary serve -m DIR", "An OpenAI- and Anthropic-style API, and a page, at http://127.0.0.1:8080."},
    {"lapidary bench -m DIR --depth 0,4096 --svg rates.svg", "How fast, against what the machine can do."},
    {NULL, NULL}};

const lap_verb *const lap_verbs[] = {&lap_verb_run,
                                     &lap_verb_chat,
                                     &lap_verb_serve,
                                     &lap_verb_tokenize,
                                     &lap_verb_inspect,
                                     &lap_verb_fit,
                                     &lap_verb_logits,
                                     &lap_verb_cut,
                                     &lap_verb_check,
                                     &lap_verb_bench,
                                     &lap_verb_forge,
                                     &lap_verb_help,
                                     NULL};

const lap_verb *lap_verb_find(const char *name) {
  for (const lap_verb *const *verb = lap_verbs; *verb; verb++)
    if (strcmp((*verb)->name, name) == 0) return *verb;
  return NULL;
}

/* ---- plain text ------------------------------------------------------------------------------ */

static void print_terms(const char *title, const term *terms) {
  printf("\n%s:\n", title);
  for (; terms->name; terms++) lap_print_entry(terms->name, terms->text);
}

void lap_print_overview(void) {
  printf("Usage: lapidary VERB [OPTION]... [ARGUMENT]...\n       lapidary --help | --version\n\n");
  lap_print_wrapped(about, 0, 0);
  printf("\nVerbs:\n");
  for (const lap_verb *const *verb = lap_verbs; *verb; verb++)
    lap_print_entry((*verb)->name, (*verb)->summary);
  print_terms("Exit codes", exit_codes);
  print_terms("Environment", environment);
  print_terms("Examples", examples);
  printf("\n'lapidary VERB --help' describes a verb.\n");
}

/* ---- the man page ---------------------------------------------------------------------------- */

/* Text for troff: no request at the start of a line, every dash and quote as typed. */
static void print_roff(const char *text) {
  bool line_start = true;
  for (; *text; text++) {
    if (line_start && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
    line_start = false;
    if (*text == '\\') {
      fputs("\\e", stdout);
    } else if (*text == '-') {
      fputs("\\-", stdout);
    } else if (*text == '\'') {
      fputs("\\(aq", stdout);
    } else if (*text == '\n') {
      fputs("\n.PP\n", stdout);
      text += strspn(text, "\n") - 1;
      line_start = true;
    } else {
      putchar(*text);
    }
  }
  putchar('\n');
}

static void print_roff_term(const char *name, const char *text) {
  printf(".TP\n.B ");
  print_roff(name);
  print_roff(text);
}

static void print_roff_terms(const char *title, const term *terms) {
  printf(".SH %s\n", title);
  for (; terms->name; terms++) print_roff_term(terms->name, terms->text);
}

static void print_roff_options(const lap_option *options) {
  for (; options->kind != LAP_OPTION_END; options++) {
    printf(".TP\n");
    if (options->letter) printf("\\fB\\-%c\\fR, ", options->letter);
    printf("\\fB");
    char name[64];
    snprintf(name, sizeof name, "--%s", options->name);
    for (const char *c = name; *c; c++) fputs(*c == '-' ? "\\-" : (char[]){*c, '\0'}, stdout);
    printf("\\fR%s%s%s\n", options->argument ? " \\fI" : "", options->argument ? options->argument : "",
           options->argument ? "\\fR" : "");
    print_roff(options->help);
  }
}

static void print_roff_verb(const lap_verb *verb) {
  printf(".SS \"lapidary %s [OPTION]...%s%s\"\n", verb->name, *verb->operands ? " " : "", verb->operands);
  print_roff(verb->description);
  print_roff_options(verb->options);
}

static void print_man(void) {
  printf(".TH LAPIDARY 1 \"\" \"lapidary %s\" \"User Commands\"\n", LAPIDARY_VERSION);
  printf(".SH NAME\nlapidary \\- run Gemma 4 checkpoints, the same bits everywhere\n.SH SYNOPSIS\n");
  for (const lap_verb *const *verb = lap_verbs; *verb; verb++)
    printf("%s.B lapidary %s\n[\\fIOPTION\\fR]...%s%s\n", verb == lap_verbs ? "" : ".br\n", (*verb)->name,
           *(*verb)->operands ? " " : "", (*verb)->operands);
  printf(".br\n.B lapidary \\-\\-help\n|\n.B \\-\\-version\n.SH DESCRIPTION\n");
  print_roff(about);
  printf(".SH VERBS\n");
  for (const lap_verb *const *verb = lap_verbs; *verb; verb++) print_roff_verb(*verb);
  printf(".SH OPTIONS\nEvery verb has its options above, and:\n");
  print_roff_options(lap_common_options);
  print_roff_term("--version", "Show the version (without a verb).");
  print_roff_terms("EXIT STATUS", exit_codes);
  print_roff_terms("ENVIRONMENT", environment);
  print_roff_terms("FILES", files);
  print_roff_terms("EXAMPLES", examples);
}

/* ---- shell completion ------------------------------------------------------------------------ */

static void print_verb_names(void) {
  for (const lap_verb *const *verb = lap_verbs; *verb; verb++)
    printf("%s%s", verb == lap_verbs ? "" : " ", (*verb)->name);
}

static void print_compgen(const char *arguments) {
  printf("mapfile -t COMPREPLY < <(compgen %s -- \"$word\")\n", arguments);
}

/* What follows an option that takes an argument. */
static void print_completion_of_argument(const lap_verb *verb, const lap_option *option) {
  printf("    '%s --%s'", verb->name, option->name);
  if (option->letter) printf(" | '%s -%c'", verb->name, option->letter);
  printf(")\n      ");
  if (option->choices) {
    printf("mapfile -t COMPREPLY < <(compgen -W '");
    for (int i = 0; option->choices[i]; i++) printf("%s%s", i ? " " : "", option->choices[i]);
    printf("' -- \"$word\")\n");
  } else if (strcmp(option->argument, "DIR") == 0) {
    print_compgen("-d");
  } else if (strncmp(option->argument, "FILE", 4) == 0) {
    print_compgen("-f");
  } else {
    printf("COMPREPLY=()\n");
  }
  printf("      return\n      ;;\n");
}

static void print_completion_of_verb(const lap_verb *verb) {
  printf("    %s)\n      options='", verb->name);
  for (const lap_option *option = verb->options; option->kind != LAP_OPTION_END; option++)
    printf("--%s ", option->name);
  printf("--help'\n      ");
  if (strstr(verb->operands, "DIR")) {
    printf("operands=(-d)\n");
  } else if (strstr(verb->operands, "VERB")) {
    printf("operands=(-W '");
    print_verb_names();
    printf("')\n");
  } else {
    printf("operands=()\n");
  }
  printf("      ;;\n");
}

static void print_completion(void) {
  printf("# bash completion for lapidary %s\n\n_lapidary() {\n", LAPIDARY_VERSION);
  printf(
      "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} "
      "verb=${COMP_WORDS[1]}\n");
  printf("  local options='' operands=()\n  COMPREPLY=()\n");
  printf("  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    mapfile -t COMPREPLY < <(compgen -W '");
  print_verb_names();
  printf(" --help --version' -- \"$word\")\n    return\n  fi\n");
  printf("  case \"$verb $previous\" in\n");
  for (const lap_verb *const *verb = lap_verbs; *verb; verb++)
    for (const lap_option *option = (*verb)->options; option->kind != LAP_OPTION_END; option++)
      if (option->argument) print_completion_of_argument(*verb, option);
  printf("  esac\n  case \"$verb\" in\n");
  for (const lap_verb *const *verb = lap_verbs; *verb; verb++) print_completion_of_verb(*verb);
  printf("    *) return ;;\n  esac\n");
  printf(
      "  if [[ $word == -* ]]; then\n    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n");
  printf("  elif [ \"${#operands[@]}\" -gt 0 ]; then\n");
  printf("    mapfile -t COMPREPLY < <(compgen \"${operands[@]}\" -- \"$word\")\n  fi\n}\n");
  printf("complete -o filenames -F _lapidary lapidary\n");
}

/* ---- the verb -------------------------------------------------------------------------------- */

typedef struct settings {
  bool man;
  bool bash_completion;
} settings;

static const lap_option options[] = {{.kind = LAP_OPTION_FLAG,
                                      .name = "man",
                                      .offset = offsetof(settings, man),
                                      .help = "Print the man page, for man -l or a file lapidary.1."},
                                     {.kind = LAP_OPTION_FLAG,
                                      .name = "bash-completion",
                                      .offset = offsetof(settings, bash_completion),
                                      .help = "Print a completion for bash, to be sourced."},
                                     {0}};

static int help(const lap_verb *verb, int argc, char **argv) {
  settings chosen = {0};
  const char *operand = NULL;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, &operand, &count, &code)) return code;
  if (chosen.man + chosen.bash_completion + count > 1)
    return lap_usage_error(verb, "one of --man, --bash-completion and VERB at a time");
  const lap_verb *described = count ? lap_verb_find(operand) : NULL;
  if (count && !described) return lap_usage_error(verb, "'%s' is no verb", operand);
  if (chosen.man)
    print_man();
  else if (chosen.bash_completion)
    print_completion();
  else if (described)
    lap_print_help(described);
  else
    lap_print_overview();
  return LAP_EXIT_OK;
}

const lap_verb lap_verb_help = {
    .name = "help",
    .operands = "[VERB]",
    .max_operands = 1,
    .summary = "Describe the program or a verb; print the man page or a shell completion.",
    .description = "Shows what lapidary or one of its verbs does.",
    .options = options,
    .run = help,
};
