/* support.c: the parts of the command line that know the operating system.
 *
 * Invariant: stdout carries results only, everything else goes to stderr, and a result that could not
 * be written makes the exit code 1. */
#include "cli/support.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options.h"

int lap_complain(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  lap_hide_progress();
  fputs("lapidary: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  return LAP_EXIT_FAILURE;
}

/* What the library calls by an option's name stands in the environment by another. */
int lap_report(const lap_error *error) {
  static const char *const variables[][2] = {{"isa: ", "LAPIDARY_ISA"},
                                             {"attention: ", "LAPIDARY_ATTENTION"}};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const size_t length = strlen(variables[i][0]);
    if (strncmp(error->message, variables[i][0], length) == 0)
      return lap_complain("%s: %s", variables[i][1], error->message + length);
  }
  return lap_complain("%s", error->message);
}

/* ---- standard output ------------------------------------------------------------------------- */

static bool stdout_is_file(void) {
  static int known = -1;
  struct stat status;
  if (known < 0) known = fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode);
  return known;
}

static int put_errno; /* of the first failure, after which stdio has dropped what it could not write */

bool lap_put(const char *text, size_t length) {
  if (fwrite(text, 1, length, stdout) == length && (stdout_is_file() || fflush(stdout) == 0)) return true;
  if (put_errno == 0) put_errno = errno;
  return false;
}

/* True for a pipe or socket that nobody reads. */
static bool reader_has_gone(void) {
  struct pollfd poll_stdout = {.fd = STDOUT_FILENO};
  return poll(&poll_stdout, 1, 0) == 1 && poll_stdout.revents & (POLLERR | POLLHUP);
}

int lap_finish_output(int code) {
  errno = 0;
  bool lost = fflush(stdout) != 0;
  int cause = put_errno ? put_errno : errno;
  if (!lost && !ferror(stdout)) return code;
  if (cause != EPIPE && !reader_has_gone())
    lap_complain("standard output: %s", cause ? strerror(cause) : "cannot be written");
  return LAP_EXIT_FAILURE;
}

/* ---- interruption and progress --------------------------------------------------------------- */

static volatile sig_atomic_t interrupt_flag;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupt_flag = 1;
}

void lap_catch_interrupts(void) {
  struct sigaction before;
  /* A shell that starts the program in the background has it ignore Ctrl-C. */
  if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
  /* Without SA_RESTART, so that waiting for input ends too. */
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
}

bool lap_interrupted(void) {
  return interrupt_flag;
}

static bool progress_shown;

bool lap_show_progress(void *label, int64_t done, int64_t total) {
  if (isatty(STDERR_FILENO)) {
    fprintf(stderr, "\r%s: %lld of %lld tokens", (const char *)label, (long long)done, (long long)total);
    progress_shown = true;
  }
  return !interrupt_flag;
}

bool lap_show_part(void *context, const char *part) {
  (void)context;
  if (part && isatty(STDERR_FILENO)) {
    fprintf(stderr, "\r%s ...\033[K", part);
    progress_shown = true;
  }
  return !interrupt_flag;
}

void lap_hide_progress(void) {
  if (progress_shown) fputs("\r\033[K", stderr);
  progress_shown = false;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Seen from the directory of the program: in the build tree, and installed. */
static const char *const bundled[] = {"../models/pebble", "../share/lapidary/pebble"};

static bool is_checkpoint(const char *directory) {
  char path[PATH_MAX + 16];
  struct stat status;
  snprintf(path, sizeof path, "%s/config.json", directory);
  return stat(path, &status) == 0;
}

static bool find_bundled(char path[PATH_MAX]) {
  char program[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return false;
  program[length] = '\0';
  *strrchr(program, '/') = '\0';
  for (size_t i = 0; i < sizeof bundled / sizeof *bundled; i++) {
    if (snprintf(path, PATH_MAX, "%s/%s", program, bundled[i]) >= PATH_MAX) continue;
    if (is_checkpoint(path)) return true;
  }
  return false;
}

lap_status lap_find_model(const char *given, char **out, lap_error *error) {
  char path[PATH_MAX];
  const char *named = given ? given : getenv("LAPIDARY_MODEL");
  if (!named || !*named) {
    if (given) return lap_fail(error, LAP_ERROR_IO, "the model's directory has an empty name");
    if (!find_bundled(path))
      return lap_fail(
          error, LAP_ERROR_IO,
          "the bundled model is not beside the program (%s, %s): name a directory or set LAPIDARY_MODEL",
          bundled[0], bundled[1]);
    named = path;
  }
  *out = strdup(named);
  return *out ? LAP_OK : lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", named);
}

/* ---- input ----------------------------------------------------------------------------------- */

static lap_status read_stream(FILE *file, const char *name, char **text, size_t *length, lap_error *error) {
  size_t capacity = 0;
  *text = NULL;
  *length = 0;
  do {
    if (capacity - *length < 2) {
      capacity = 2 * capacity + 65536;
      char *grown = realloc(*text, capacity);
      if (!grown) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
      *text = grown;
    }
    *length += fread(*text + *length, 1, capacity - *length - 1, file);
    if (ferror(file)) return lap_fail(error, LAP_ERROR_IO, "%s: %s", name, strerror(errno));
  } while (!feof(file));
  (*text)[*length] = '\0';
  return LAP_OK;
}

lap_status lap_read_whole(const char *path, char **text, size_t *length, lap_error *error) {
  bool from_stdin = strcmp(path, "-") == 0;
  *text = NULL;
  FILE *file = from_stdin ? stdin : fopen(path, "rb");
  if (!file) return lap_fail(error, LAP_ERROR_IO, "%s: %s", path, strerror(errno));
  lap_status status = read_stream(file, from_stdin ? "standard input" : path, text, length, error);
  if (!from_stdin) fclose(file);
  if (status == LAP_OK) return LAP_OK;
  free(*text);
  *text = NULL;
  return status;
}

static size_t skip_space(const char *text, size_t length, size_t at) {
  while (at < length && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r'))) at++;
  return at;
}

/* One id at `*at`, moved behind it; false if there is none, or one beyond int32_t. */
static bool parse_id(const char *text, size_t length, size_t *at, int32_t *id) {
  int64_t value = 0;
  size_t first = *at;
  for (; *at < length && text[*at] >= '0' && text[*at] <= '9'; (*at)++) {
    value = 10 * value + (text[*at] - '0');
    if (value > INT32_MAX) return false;
  }
  *id = (int32_t)value;
  return *at > first;
}

lap_status lap_parse_ids(const char *text, size_t length, const char *name, int32_t **ids, size_t *count,
                         lap_error *error) {
  *count = 0;
  *ids = malloc((length / 2 + 1) * sizeof **ids);
  if (!*ids) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
  bool comma = false;
  for (size_t at = skip_space(text, length, 0); at < length || comma;) {
    size_t start = at;
    bool good = parse_id(text, length, &at, &(*ids)[*count]);
    size_t after = skip_space(text, length, at);
    comma = after < length && text[after] == ',';
    good = good && (comma || after > at || after == length);
    if (!good) {
      int shown = length - start < 20 ? (int)(length - start) : 20;
      free(*ids);
      *ids = NULL;
      return lap_fail(error, LAP_ERROR_FORMAT, "%s: at byte %zu: '%.*s' does not begin with a token id", name,
                      start, shown, text + start);
    }
    (*count)++;
    at = comma ? skip_space(text, length, after + 1) : after;
  }
  return LAP_OK;
}
