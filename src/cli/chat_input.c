/* chat_input.c: lines of an editor or of a file become texts.
 *
 * libedit asks for one character at a time, and get_character waits for it and for signals at once: so a
 * resized window, a program that comes back from the background, and Ctrl-C reach the editor between two
 * characters.
 *
 * Invariant: the terminal is in the editor's mode only within el_gets. */
#include "cli/chat_input.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unistr.h>

#include "base/file.h"
#include "cli/support.h"

enum {
  MAX_LINE_BYTES = 16 << 20, /* of input that is no terminal; a longer line is no text */
  MAX_PASTE = 1 << 20,       /* characters */
  HISTORY_ENTRIES = 1000,
  MAX_ENTRY_BYTES = 1 << 16 /* a longer text is not remembered */
};

static const char block_line[] = "\"\"\"";

struct lap_input {
  bool interactive;
  EditLine *editor;
  History *history;
  char *history_path; /* NULL: not kept */
  const char *prompt; /* of the line that is being edited */
  FILE *terminal;     /* what the editor draws on */
  bool pastes;        /* the terminal is asked to mark pasted text */
  int signals;        /* a descriptor */
  bool interrupted;   /* Ctrl-C */
  int leave;          /* the signal to leave, or 0 */
  int64_t line_number;
  lap_text line;
  lap_text text;
};

/* ---- signals --------------------------------------------------------------------------------- */

static lap_status open_signals(lap_input *input, lap_error *error) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaddset(&set, numbers[i]);
  input->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (input->signals < 0) return lap_fail(error, LAP_ERROR_IO, "signals: %s", strerror(errno));
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  return LAP_OK;
}

/* A window of another size, or a terminal that somebody else has used meanwhile. */
static void redraw(lap_input *input, int number) {
  if (!input->prompt) return; /* nothing is being edited */
  if (number == SIGCONT) {
    el_wset(input->editor, EL_PREP_TERM, 0); /* the editor believes that it has the terminal still */
    el_wset(input->editor, EL_PREP_TERM, 1);
  }
  if (number == SIGWINCH) el_resize(input->editor);
  el_wset(input->editor, EL_REFRESH);
}

static void take_signals(lap_input *input) {
  struct signalfd_siginfo got;
  while (read(input->signals, &got, sizeof got) == sizeof got) {
    int number = (int)got.ssi_signo;
    if (number == SIGINT)
      input->interrupted = true;
    else if (number == SIGWINCH || number == SIGCONT)
      redraw(input, number);
    else
      input->leave = number;
  }
}

bool lap_input_interrupted(lap_input *input) {
  if (!input->interactive) return lap_interrupted();
  take_signals(input);
  bool interrupted = input->interrupted || input->leave;
  input->interrupted = false;
  return interrupted;
}

int lap_input_signal(const lap_input *input) {
  return input->leave;
}

/* ---- the editor ------------------------------------------------------------------------------ */

static lap_input *input_of(EditLine *editor) {
  void *input = NULL;
  el_get(editor, EL_CLIENTDATA, &input);
  return input;
}

static char *prompt_of(EditLine *editor) {
  static char none[] = "";
  const lap_input *input = input_of(editor);
  char *prompt;
  memcpy(&prompt, &input->prompt, sizeof prompt); /* libedit only reads it */
  return input->prompt ? prompt : none;
}

/* False: the line is given up. */
static bool wait_for_input(lap_input *input) {
  struct pollfd wanted[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = input->signals, .events = POLLIN}};
  for (;;) {
    take_signals(input);
    if (input->interrupted || input->leave) {
      errno = EINTR;
      return false;
    }
    if (poll(wanted, 2, -1) < 0 && errno != EINTR) return false;
    if (wanted[0].revents) return true;
  }
}

/* An el_rfunc_t. Bytes that are no character are dropped. */
static int get_character(EditLine *editor, wchar_t *character) {
  lap_input *input = input_of(editor);
  mbstate_t state = {0};
  for (;;) {
    char byte;
    if (!wait_for_input(input)) return -1;
    ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return (int)got;
    bool begun = !mbsinit(&state);
    size_t used = mbrtowc(character, &byte, 1, &state);
    if (used == (size_t)-1) {
      state = (mbstate_t){0};
      if (begun) used = mbrtowc(character, &byte, 1, &state); /* it may begin another one */
      if (used == (size_t)-1) state = (mbstate_t){0};
    }
    if (used != (size_t)-1 && used != (size_t)-2) return 1;
  }
}

/* What terminals send before and after a pasted text. */
static const wchar_t paste_begins[] = L"\033[200~", paste_ends[] = L"\033[201~";

typedef struct pasted {
  wchar_t *text; /* [length], room for MAX_PASTE and a terminator */
  size_t length;
  size_t ending; /* characters of `paste_ends` that came last */
  bool too_long;
} pasted;

static void add_pasted(pasted *p, wchar_t character) {
  if (p->length < MAX_PASTE)
    p->text[p->length++] = character == L'\r' ? L'\n' : character;
  else
    p->too_long = true;
}

/* False: the text is over. */
static bool take_pasted(pasted *p, wchar_t character) {
  if (character != paste_ends[p->ending]) {
    for (size_t i = 0; i < p->ending; i++) add_pasted(p, paste_ends[i]);
    p->ending = 0;
  }
  if (character == paste_ends[p->ending])
    p->ending++;
  else
    add_pasted(p, character);
  return paste_ends[p->ending] != L'\0';
}

/* A command of the editor: inserts a pasted text. Line breaks at its end would hide the rest of the line. */
static unsigned char paste(EditLine *editor, int character) {
  (void)character;
  pasted p = {.text = malloc((MAX_PASTE + 1) * sizeof *p.text)};
  wchar_t next;
  if (!p.text) return CC_ERROR;
  while (el_wgetc(editor, &next) == 1 && take_pasted(&p, next)) continue;
  while (p.length > 0 && p.text[p.length - 1] == L'\n') p.length--;
  p.text[p.length] = L'\0';
  bool inserted = !p.too_long && el_winsertstr(editor, p.text) == 0;
  free(p.text);
  if (inserted) return CC_REFRESH;
  fprintf(input_of(editor)->terminal, "\n(what was pasted is too long: put it into a file)\n");
  return CC_REDISPLAY;
}

static lap_status open_editor(lap_input *input, lap_error *error) {
  const char *kind = getenv("TERM");
  setlocale(LC_CTYPE, "");
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
  input->terminal = isatty(STDERR_FILENO) ? stderr : stdout;
  input->pastes = kind && *kind && strcmp(kind, "dumb") != 0;
  input->editor = el_init("lapidary", stdin, input->terminal, stderr);
  input->history = history_init();
  if (!input->editor || !input->history)
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the line editor");
  HistEvent event;
  history(input->history, &event, H_SETSIZE, HISTORY_ENTRIES);
  history(input->history, &event, H_SETUNIQUE, 1);
  el_set(input->editor, EL_CLIENTDATA, input);
  el_set(input->editor, EL_EDITOR, "emacs");
  el_set(input->editor, EL_HIST, history, input->history);
  el_set(input->editor, EL_PROMPT, prompt_of);
  el_wset(input->editor, EL_GETCFN, get_character);
  el_wset(input->editor, EL_ADDFN, L"lapidary-paste", L"Insert a pasted text", paste);
  el_wset(input->editor, EL_BIND, paste_begins, L"lapidary-paste", NULL);
  el_set(input->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_source(input->editor, NULL); /* the user's ~/.editrc */
  return LAP_OK;
}

static void ask_for_paste_marks(const lap_input *input, bool on) {
  if (!input->pastes) return;
  fputs(on ? "\033[?2004h" : "\033[?2004l", input->terminal);
  fflush(input->terminal);
}

/* ---- history --------------------------------------------------------------------------------- */

/* malloc'd; NULL where there is no place for it. */
static char *find_history(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char *path = NULL;
  int length = -1;
  if (state && *state == '/')
    length = asprintf(&path, "%s/lapidary/chat_history", state);
  else if (home && *home == '/')
    length = asprintf(&path, "%s/.local/state/lapidary/chat_history", home);
  if (length < 0) return NULL;
  if (lap_make_parents(path)) return path;
  path[strlen(path)] = '/'; /* the file is named, not the directory */
  lap_complain("%s: %s; the history is not kept", path, strerror(errno));
  free(path);
  return NULL;
}

/* A file that is there and no history is left alone. */
static void load_history(lap_input *input) {
  HistEvent event;
  lap_error error;
  uint64_t bytes = 0;
  int descriptor;
  input->history_path = find_history();
  if (!input->history_path || access(input->history_path, F_OK) != 0) return;
  lap_status status = lap_file_open(input->history_path, &descriptor, &bytes, &error);
  if (status == LAP_OK) close(descriptor);
  if (status == LAP_OK && bytes > 0 && history(input->history, &event, H_LOAD, input->history_path) < 0)
    status = lap_fail(&error, LAP_ERROR_FORMAT, "%s: not a history", input->history_path);
  if (status == LAP_OK) return;
  lap_complain("%s; the history is not kept", error.message);
  free(input->history_path);
  input->history_path = NULL;
}

static void save_history(const lap_input *input) {
  HistEvent event;
  char *temporary;
  if (!input->history_path || asprintf(&temporary, "%s.XXXXXX", input->history_path) < 0) return;
  int descriptor = mkostemp(temporary, O_CLOEXEC); /* for its owner only */
  bool saved = descriptor >= 0 && history(input->history, &event, H_SAVE, temporary) >= 0 &&
               rename(temporary, input->history_path) == 0;
  if (!saved) {
    lap_complain("%s: cannot be written", input->history_path);
    if (descriptor >= 0) unlink(temporary);
  }
  if (descriptor >= 0) close(descriptor);
  free(temporary);
}

static void remember_text(const lap_input *input) {
  HistEvent event;
  if (input->text.length && input->text.length <= MAX_ENTRY_BYTES)
    history(input->history, &event, H_ENTER, input->text.data);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static lap_input_kind wrong(const lap_input *input, const char *what) {
  lap_complain("standard input: line %lld: %s", (long long)input->line_number, what);
  return LAP_INPUT_WRONG;
}

static lap_input_kind edit_line(lap_input *input, const char *prompt) {
  int count = 0;
  input->prompt = prompt;
  ask_for_paste_marks(input, true);
  el_wset(input->editor, EL_PREP_TERM,
          1); /* before the prompt, so that nothing typed then is taken otherwise */
  const char *line = el_gets(input->editor, &count);
  ask_for_paste_marks(input, false);
  input->prompt = NULL;
  if (!line || count <= 0) {
    fputs("\n", input->terminal);
    bool cancelled = input->interrupted && !input->leave;
    input->interrupted = false;
    return cancelled ? LAP_INPUT_CANCELLED : LAP_INPUT_OVER;
  }
  lap_text_append(&input->line, line, strlen(line));
  return LAP_INPUT_TEXT;
}

static lap_input_kind check_line(const lap_input *input) {
  const char *text = lap_text_data(&input->line);
  size_t length = input->line.length;
  if (length == 0) return LAP_INPUT_TEXT;
  if (memchr(text, '\0', length)) return wrong(input, "holds a NUL byte: this is not a text");
  if (u8_check((const uint8_t *)text, length)) return wrong(input, "not UTF-8");
  return LAP_INPUT_TEXT;
}

static lap_input_kind scan_line(lap_input *input) {
  char piece[4096];
  size_t used = 0;
  int byte;
  input->line_number++;
  while ((byte = getc(stdin)) != EOF) {
    piece[used++] = (char)byte;
    if (used < sizeof piece && byte != '\n') continue;
    lap_text_append(&input->line, piece, used);
    used = 0;
    if (byte == '\n') return check_line(input);
    if (input->line.length > MAX_LINE_BYTES) return wrong(input, "longer than 16 MiB");
  }
  lap_text_append(&input->line, piece, used);
  if (lap_interrupted()) return LAP_INPUT_OVER;
  if (ferror(stdin)) return wrong(input, "cannot be read");
  return input->line.length ? check_line(input) : LAP_INPUT_OVER;
}

/* A line into `line`, without its line break. */
static lap_input_kind read_line(lap_input *input, const char *prompt) {
  input->line.length = 0;
  lap_input_kind kind = input->interactive ? edit_line(input, prompt) : scan_line(input);
  if (kind != LAP_INPUT_TEXT) return kind;
  if (input->line.failed) return wrong(input, "out of memory");
  lap_text *line = &input->line;
  if (line->length && line->data[line->length - 1] == '\n') line->length--;
  if (line->length && line->data[line->length - 1] == '\r') line->length--;
  return LAP_INPUT_TEXT;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool is_block_line(const lap_text *line) {
  size_t length = line->length, blank = 0;
  while (length > 0 && line->data[length - 1] == ' ') length--;
  while (blank < length && line->data[blank] == ' ') blank++;
  return length - blank == sizeof block_line - 1 &&
         memcmp(line->data + blank, block_line, length - blank) == 0;
}

static void add_line(lap_input *input, bool first) {
  if (!first) lap_text_append(&input->text, "\n", 1);
  lap_text_append(&input->text, lap_text_data(&input->line), input->line.length);
}

/* A text that goes on must: an end of the input is an end in the middle. */
static lap_input_kind read_more(lap_input *input, const char *missing) {
  lap_input_kind kind = read_line(input, ". ");
  if (kind != LAP_INPUT_OVER || input->leave || lap_interrupted()) return kind;
  if (input->interactive) return LAP_INPUT_CANCELLED;
  return wrong(input, missing);
}

static lap_input_kind read_block(lap_input *input) {
  for (bool first = true;; first = false) {
    lap_input_kind kind = read_more(input, "ends within a block: a line of \"\"\" is missing");
    if (kind != LAP_INPUT_TEXT) return kind;
    if (is_block_line(&input->line)) return LAP_INPUT_BLOCK;
    add_line(input, first);
  }
}

static lap_input_kind read_lines(lap_input *input, const char *prompt) {
  lap_input_kind kind = read_line(input, prompt);
  if (kind == LAP_INPUT_TEXT && is_block_line(&input->line)) return read_block(input);
  for (bool first = true; kind == LAP_INPUT_TEXT; first = false) {
    bool goes_on = input->line.length && input->line.data[input->line.length - 1] == '\\';
    if (goes_on) input->line.length--;
    add_line(input, first);
    if (!goes_on) break;
    kind = read_more(input, "ends after a backslash: a line is missing");
  }
  return kind;
}

lap_input_kind lap_input_read(lap_input *input, const char *prompt, bool remember, const char **text,
                              size_t *length) {
  input->text.length = 0;
  lap_text_append(&input->text, "", 0);
  lap_input_kind kind = read_lines(input, prompt);
  if (input->text.failed) kind = wrong(input, "out of memory");
  *text = lap_text_data(&input->text);
  *length = input->text.length;
  if (input->text.data) input->text.data[input->text.length] = '\0';
  if (remember && input->interactive && kind <= LAP_INPUT_BLOCK) remember_text(input);
  return kind;
}

/* ---- ends ------------------------------------------------------------------------------------ */

bool lap_input_is_interactive(const lap_input *input) {
  return input->interactive;
}

lap_status lap_input_open(const lap_input_options *options, lap_input **out, lap_error *error) {
  *out = NULL;
  lap_input *input = calloc(1, sizeof *input);
  if (!input) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the input");
  input->signals = -1;
  input->interactive = isatty(STDIN_FILENO) && (isatty(STDERR_FILENO) || isatty(STDOUT_FILENO));
  lap_status status = LAP_OK;
  if (!input->interactive) {
    lap_catch_interrupts();
  } else {
    status = open_signals(input, error);
    if (status == LAP_OK) status = open_editor(input, error);
    if (status == LAP_OK && options->history) load_history(input);
  }
  if (status == LAP_OK)
    *out = input;
  else
    lap_input_close(input);
  return status;
}

void lap_input_close(lap_input *input) {
  if (!input) return;
  if (input->interactive && input->history) save_history(input);
  if (input->editor) el_end(input->editor);
  if (input->history) history_end(input->history);
  if (input->signals >= 0) close(input->signals);
  lap_text_free(&input->line);
  lap_text_free(&input->text);
  free(input->history_path);
  free(input);
}
