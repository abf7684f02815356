/* main.c: finds the verb and lets it run. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/help.h"
#include "cli/support.h"

static int run_verb(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  if (!name) {
    fputs("lapidary: a verb is missing\nTry 'lapidary --help'.\n", stderr);
    return LAP_EXIT_USAGE;
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    lap_print_overview();
    return LAP_EXIT_OK;
  }
  if (strcmp(name, "--version") == 0) {
    puts("lapidary " LAPIDARY_VERSION);
    return LAP_EXIT_OK;
  }
  const lap_verb *verb = lap_verb_find(name);
  if (verb) return verb->run(verb, argc - 1, argv + 1);
  fprintf(stderr, "lapidary: '%s' is no %s\nTry 'lapidary --help'.\n", name,
          *name == '-' ? "option" : "verb");
  return LAP_EXIT_USAGE;
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write like any other */
  return lap_finish_output(run_verb(argc, argv));
}
