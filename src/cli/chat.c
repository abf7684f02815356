/* chat.c: `lapidary chat`: a conversation in the terminal, or from a script.
 *
 * A text is a turn, or a command if it begins with a slash. Standard output gets what the model says;
 * prompts, notices and progress go to standard error, and only notices of what went wrong if nobody sits at
 * the terminal.
 *
 * Invariant: whatever fails, a turn, a command, a file, is said in one line, and the conversation is one that
 * can go on (lapidary.h). */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/chat_input.h"
#include "cli/chat_screen.h"
#include "cli/opened.h"
#include "cli/options.h"
#include "cli/sampling.h"
#include "cli/support.h"
#include "model/model.h"

enum {
  /* Ctrl-C waits for the pass that runs: on two cores and 4 billion weights about three seconds. */
  DEFAULT_CHUNK = 128
};

/* In the order of lap_thinking. */
static const char *const thinking_words[] = {"auto", "off", "on", NULL};

typedef struct settings {
  lap_engine_settings engine;
  const char *model;
  const char *system;
  const char *tools;
  int thinking; /* lap_thinking */
  int64_t max_tokens;
  lap_sampling_settings sampling;
  int64_t context;
  bool allow_special;
  bool no_history;
} settings;

static const settings defaults = {.sampling = LAP_SAMPLING_DEFAULTS, .engine = {.chunk = DEFAULT_CHUNK}};

static const lap_option options[] = {
    LAP_MODEL_OPTION(offsetof(settings, model)),
    {.kind = LAP_OPTION_TEXT,
     .name = "system",
     .argument = "TEXT",
     .offset = offsetof(settings, system),
     .help = "The system message."},
    {.kind = LAP_OPTION_TEXT,
     .name = "tools",
     .argument = "FILE",
     .offset = offsetof(settings, tools),
     .help = "Tools that the model may call: a JSON list of tools in OpenAI's form, or of functions with "
             "name, description, parameters. Calls are shown, and you are asked for their results."},
    {.kind = LAP_OPTION_CHOICE,
     .name = "think",
     .argument = "HOW",
     .offset = offsetof(settings, thinking),
     .choices = thinking_words,
     .help = "Thoughts before answers: on, off, or auto (as the checkpoint's template has it, the default)."},
    {.kind = LAP_OPTION_INTEGER,
     .letter = 'n',
     .name = "max-tokens",
     .argument = "N",
     .offset = offsetof(settings, max_tokens),
     .low = 1,
     .high = INT32_MAX,
     .help = "At most N tokens in an answer. Default: until the model ends it or the context is full."},
    LAP_SAMPLING_OPTIONS(offsetof(settings, sampling)),
    {.kind = LAP_OPTION_INTEGER,
     .name = "ctx",
     .argument = "N",
     .offset = offsetof(settings, context),
     .low = 2,
     .high = INT32_MAX,
     .help = "Tokens of the conversation; default: as many as the model can."},
    {.kind = LAP_OPTION_FLAG,
     .name = "allow-special",
     .offset = offsetof(settings, allow_special),
     .help = "Control tokens spelled in what you type count as such. Without it they stay text."},
    {.kind = LAP_OPTION_FLAG,
     .name = "no-history",
     .offset = offsetof(settings, no_history),
     .help = "Keep no file of what was typed."},
    LAP_KV_OPTION(offsetof(settings, engine)),
    LAP_PATH_OPTION(offsetof(settings, engine)),
    LAP_THREADS_OPTION(offsetof(settings, engine)),
    {.kind = LAP_OPTION_INTEGER,
     .name = "chunk",
     .argument = "N",
     .offset = offsetof(settings, engine) + offsetof(lap_engine_settings, chunk),
     .low = 1,
     .high = LAP_MAX_CHUNK,
     .help =
         "Prompt tokens evaluated at once, which Ctrl-C waits for; default: 128. Does not change results."},
    LAP_VERBOSE_OPTION(offsetof(settings, engine)),
    {0}};

typedef struct chat {
  const settings *chosen;
  lap_opened opened;
  lap_input *input;
  lap_screen screen;
  lap_conversation *conversation;
  lap_thinking thinking;
  lap_turn turn; /* the last one; prompt_tokens 0: none yet */
  bool interactive;
  bool failed; /* something went wrong, and was said */
  bool over;
} chat;

/* ---- notices --------------------------------------------------------------------------------- */

/* A line for whoever sits at the terminal. */
static void note(const chat *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const chat *c, const char *format, ...) {
  if (!c->interactive) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

/* A line in any case. Where a script is read, the exit code will say it too. */
static void fail(chat *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(chat *c, const char *format, ...) {
  char line[640];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  lap_complain("%s", line);
  c->failed = true;
}

static bool succeeds(chat *c, lap_status status, const lap_error *error) {
  if (status != LAP_OK) fail(c, "%s", error->message);
  return status == LAP_OK;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* A lap_go_on. */
static bool go_on(void *context, int64_t done, int64_t total) {
  static char label[] = "prompt";
  chat *c = context;
  if (c->interactive && done > 0 && total - done > c->chosen->engine.chunk)
    lap_show_progress(label, done, total);
  return !c->screen.lost && !lap_input_interrupted(c->input);
}

/* A lap_say. */
static bool show(void *context, const lap_piece *piece) {
  chat *c = context;
  lap_screen_show(&c->screen, piece);
  return !c->screen.lost;
}

static void say_full(chat *c, const lap_turn *turn) {
  long long context = (long long)lap_conversation_context(c->conversation);
  const char *how = c->interactive ? "; /reset begins anew" : "";
  if (turn->taken_back)
    fail(c, "the context is full: %lld tokens do not fit in %lld; the turn is taken back%s",
         (long long)turn->prompt_tokens, context, how);
  else
    fail(c, "the context of %lld tokens is full: the answer ends here%s", context, how);
}

/* What the user has to know of how a turn has ended. */
static void say_end(chat *c, const lap_turn *turn) {
  if (turn->end == LAP_TURN_CONTEXT) {
    say_full(c, turn);
  } else if (turn->end == LAP_TURN_STOPPED) {
    note(c, turn->taken_back ? "(stopped: nothing was said, the turn is taken back)" : "(stopped)");
  } else if (turn->end == LAP_TURN_LENGTH) {
    note(c, "(--max-tokens %lld)%s", (long long)c->chosen->max_tokens,
         turn->taken_back ? " nothing was said, the turn is taken back" : "");
  }
}

/* False: the turn has no further part. */
static bool end_answer(chat *c, lap_status status, const lap_turn *turn, const lap_error *error) {
  lap_hide_progress();
  lap_screen_end(&c->screen, status == LAP_OK && !turn->taken_back);
  if (turn->prompt_tokens) c->turn = *turn;
  if (c->screen.lost || (!c->interactive && lap_input_interrupted(c->input)) || lap_input_signal(c->input))
    c->over = true;
  else if (succeeds(c, status, error))
    say_end(c, turn);
  return !c->over && status == LAP_OK && turn->end == LAP_TURN_CALLS;
}

/* The user gives no result. */
static void give_up(chat *c, lap_input_kind kind) {
  bool gone = lap_conversation_give_up(c->conversation);
  bool stopped = lap_input_signal(c->input) || (!c->interactive && lap_interrupted());
  if (kind == LAP_INPUT_WRONG || stopped)
    c->failed = c->over = true; /* said already, or nobody to tell */
  else if (!c->interactive)
    fail(c, "standard input: ends where the result of a call is wanted");
  else
    note(c, gone ? "(no result: the turn is taken back)" : "(no result: the call is taken back)");
}

/* Asks for the result of each call that waits; false: there are none. */
static bool get_results(chat *c) {
  char prompt[96];
  lap_error error;
  for (const lap_call *call; (call = lap_conversation_call(c->conversation));) {
    const char *text;
    size_t length;
    snprintf(prompt, sizeof prompt, "result of %.60s> ", call->name);
    lap_input_kind kind = lap_input_read(c->input, prompt, false, &text, &length);
    if (kind > LAP_INPUT_BLOCK) {
      give_up(c, kind);
      return false;
    }
    /* What is wrong with a text can be mended: the call is asked for again. */
    succeeds(c, lap_conversation_result(c->conversation, text, length, &error), &error);
  }
  return true;
}

static void take_turn(chat *c, const char *text, size_t length) {
  lap_turn turn;
  lap_error error;
  lap_status status = lap_conversation_say(c->conversation, text, length, &turn, &error);
  while (end_answer(c, status, &turn, &error) && get_results(c))
    status = lap_conversation_go_on(c->conversation, &turn, &error);
}

/* ---- commands -------------------------------------------------------------------------------- */

typedef struct command {
  const char *name;
  const char *argument; /* NULL: none */
  const char *help;
  void (*run)(chat *c, const char *argument);
} command;

static void do_system(chat *c, const char *text) {
  lap_error error;
  lap_status status = lap_conversation_set_system(c->conversation, *text ? text : NULL, strlen(text), &error);
  if (succeeds(c, status, &error)) note(c, *text ? "(system message set)" : "(no system message)");
}

static void do_think(chat *c, const char *how) {
  for (int i = 0; thinking_words[i]; i++) {
    if (strcmp(how, thinking_words[i]) != 0) continue;
    c->thinking = (lap_thinking)i;
    lap_conversation_set_thinking(c->conversation, c->thinking);
    note(c, "(thinking: %s)", how);
    return;
  }
  fail(c, "/think: on, off or auto is wanted; it is %s", thinking_words[c->thinking]);
}

static void do_reset(chat *c, const char *unused) {
  (void)unused;
  lap_conversation_reset(c->conversation);
  c->turn = (lap_turn){0};
  note(c, "(the conversation begins anew)");
}

static int messages_of(const chat *c) {
  return lap_conversation_messages(c->conversation);
}

static void do_save(chat *c, const char *path) {
  lap_error error;
  if (!*path)
    fail(c, "/save: needs FILE");
  else if (succeeds(c, lap_conversation_save(c->conversation, path, &error), &error))
    note(c, "(%d messages in %s)", messages_of(c), path);
}

static void do_load(chat *c, const char *path) {
  lap_error error;
  if (!*path) {
    fail(c, "/load: needs FILE");
  } else if (succeeds(c, lap_conversation_load(c->conversation, path, &error), &error)) {
    c->turn = (lap_turn){0};
    note(c, "(%d messages from %s)", messages_of(c), path);
  }
}

static double per_second(int64_t tokens, double seconds) {
  return seconds > 0 ? (double)tokens / seconds : 0;
}

static void print_turn(const lap_turn *turn) {
  if (turn->prompt_tokens == 0) return;
  fprintf(stderr, "%-10s %lld tokens, %lld of them cached, %lld in %.3f s, %.1f tokens/s\n", "prompt",
          (long long)turn->prompt_tokens, (long long)turn->cached_tokens, (long long)turn->evaluated_tokens,
          turn->prompt_seconds, per_second(turn->evaluated_tokens, turn->prompt_seconds));
  fprintf(stderr, "%-10s %lld tokens, %.3f s, %.1f tokens/s\n", "answer", (long long)turn->generated_tokens,
          turn->decode_seconds, per_second(turn->generated_tokens, turn->decode_seconds));
}

static void do_stats(chat *c, const char *unused) {
  (void)unused;
  char kv[LAP_BYTES_TEXT], scratch[LAP_BYTES_TEXT];
  const lap_batch_stats stats = lap_conversation_stats(c->conversation);
  int64_t used = c->turn.prompt_tokens + c->turn.generated_tokens;
  print_turn(&c->turn);
  fprintf(stderr, "%-10s %d messages, %lld of %lld tokens after the last answer\n", "context", messages_of(c),
          (long long)used, (long long)lap_conversation_context(c->conversation));
  fprintf(stderr, "%-10s %s, scratch %s\n", "kv", lap_bytes_text(stats.kv_bytes + stats.cache.bytes, kv),
          lap_bytes_text(stats.scratch_bytes, scratch));
  fprintf(stderr, "%-10s %d, %s\n", "threads", stats.threads,
          c->opened.model->device->driver->variant(c->opened.model->device));
  fprintf(stderr, "%-10s %lld monolith, %lld cut\n", "passes", (long long)stats.passes_monolith,
          (long long)stats.passes_cut);
}

static void do_help(chat *c, const char *unused);

static void do_exit(chat *c, const char *unused) {
  (void)unused;
  c->over = true;
}

static const command commands[] = {
    {"system", "[TEXT]", "the system message; without TEXT there is none", do_system},
    {"think", "on|off|auto", "thoughts before answers", do_think},
    {"reset", NULL, "begin anew, with the same system message and tools", do_reset},
    {"save", "FILE", "write the conversation as JSON", do_save},
    {"load", "FILE", "go on with a conversation that was written", do_load},
    {"stats", NULL, "tokens, speed and memory", do_stats},
    {"help", NULL, "this list", do_help},
    {"exit", NULL, "leave, as Ctrl-D does", do_exit},
};

enum {
  COMMANDS = sizeof commands / sizeof *commands
};

static void do_help(chat *c, const char *unused) {
  (void)c;
  (void)unused;
  for (int i = 0; i < COMMANDS; i++) {
    char left[32];
    const char *argument = commands[i].argument;
    snprintf(left, sizeof left, "/%s%s%s", commands[i].name, argument ? " " : "", argument ? argument : "");
    fprintf(stderr, "%-20s %s\n", left, commands[i].help);
  }
  fputs(
      "A line that ends with \\ goes on in the next one; lines between two lines of \"\"\" are one text.\n"
      "Ctrl-C stops an answer; what was said of it stays.\n",
      stderr);
}

static void run_command(chat *c, const char *text) {
  size_t length = strcspn(text, " \t\n");
  const char *argument = text + length + strspn(text + length, " \t\n");
  for (int i = 0; i < COMMANDS; i++) {
    if (strlen(commands[i].name) != length || strncmp(commands[i].name, text, length) != 0) continue;
    if (*argument && !commands[i].argument)
      fail(c, "/%s: takes no argument", commands[i].name);
    else
      commands[i].run(c, argument);
    return;
  }
  lap_error error;
  lap_fail(&error, LAP_ERROR_ARGUMENT,
           "/%.*s: no such command (/help lists them); as a text, put it between lines of \"\"\"",
           length < 40 ? (int)length : 40, text);
  fail(c, "%s", error.message);
}

/* ---- the conversation ------------------------------------------------------------------------ */

/* Takes the blanks at the end away, which a completed file name leaves. */
static char *copy_trimmed(const char *text, size_t length) {
  while (length > 0 && strchr(" \t\n", text[length - 1])) length--;
  return strndup(text, length);
}

static void take_text(chat *c, lap_input_kind kind, const char *text, size_t length) {
  size_t blank = 0;
  while (blank < length && strchr(" \t\n", text[blank])) blank++;
  if (blank == length) return;
  if (kind == LAP_INPUT_BLOCK || text[0] != '/') {
    take_turn(c, text, length);
    return;
  }
  char *line = copy_trimmed(text + 1, length - 1);
  if (line)
    run_command(c, line);
  else
    fail(c, "out of memory");
  free(line);
}

static void converse(chat *c) {
  bool hinted = false;
  while (!c->over) {
    const char *text;
    size_t length;
    lap_input_interrupted(c->input); /* a Ctrl-C that came too late for the answer */
    lap_input_kind kind = lap_input_read(c->input, "> ", true, &text, &length);
    if (kind == LAP_INPUT_OVER) return;
    if (kind == LAP_INPUT_WRONG) c->failed = c->over = true;
    if (kind == LAP_INPUT_CANCELLED && !hinted) note(c, "(Ctrl-D or /exit leaves)");
    hinted = kind == LAP_INPUT_CANCELLED;
    if (kind <= LAP_INPUT_BLOCK) take_text(c, kind, text, length);
  }
}

static void greet(const chat *c) {
  const lap_model *model = c->opened.model;
  const lap_cut_info cut = lap_model_cut(model);
  bool uses_cut = cut.available && c->chosen->engine.path != LAP_PATH_MONOLITH;
  char *directory = realpath(c->opened.directory, NULL);
  const char *name = directory ? strrchr(directory, '/') + 1 : c->opened.directory;
  note(c, "%s: context %lld tokens, kv %s, %s%s", *name ? name : "/",
       (long long)lap_conversation_context(c->conversation), lap_kv_words[model->plan->kv_mode],
       uses_cut ? "cut " : "monolith", uses_cut ? cut.fingerprint : "");
  note(c, "/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves.");
  free(directory);
}

static lap_status use_system(const chat *c, lap_error *error) {
  const char *text = c->chosen->system;
  lap_error wrong;
  if (!text || !*text) return LAP_OK;
  lap_status status = lap_conversation_set_system(c->conversation, text, strlen(text), &wrong);
  return status == LAP_OK ? LAP_OK : lap_fail(error, status, "--system: %s", wrong.message);
}

static lap_status prepare(chat *c, lap_error *error) {
  const settings *chosen = c->chosen;
  const lap_input_options how = {.history = !chosen->no_history};
  lap_status status = lap_input_open(&how, &c->input, error);
  if (status != LAP_OK) return status;
  c->interactive = lap_input_is_interactive(c->input);
  lap_screen_open(&c->screen, c->interactive);
  status = lap_open_model(chosen->model, &chosen->engine, &c->opened, error);
  if (status != LAP_OK) return status;
  if (chosen->engine.threads != 1) lap_model_warm(c->opened.model);
  const lap_conversation_options wanted = {
      .attention = lap_attention_method_asked(),
      .threads = (int)chosen->engine.threads,
      .chunk = (int)chosen->engine.chunk,
      .path = (lap_path)chosen->engine.path,
      .context = chosen->context,
      .max_tokens = chosen->max_tokens,
      .sampling = lap_sampling_of(&chosen->sampling, c->opened.model),
      .thinking = c->thinking,
      .allow_special = chosen->allow_special,
      .say = show,
      .go_on = go_on,
      .receiver = c,
  };
  status = lap_conversation_create(c->opened.model, &wanted, &c->conversation, error);
  if (status == LAP_OK && chosen->tools)
    status = lap_conversation_read_tools(c->conversation, chosen->tools, error);
  return status == LAP_OK ? use_system(c, error) : status;
}

/* Ends as the signal would have, now that everything is tidy. */
static void die_of(int number) {
  sigset_t set;
  fflush(stdout);
  signal(number, SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, number);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int run(const lap_verb *verb, int argc, char **argv) {
  settings chosen = defaults;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, NULL, &count, &code)) return code;
  if (!lap_check_sampling(verb, &chosen.sampling)) return LAP_EXIT_USAGE;
  chat c = {.chosen = &chosen, .thinking = (lap_thinking)chosen.thinking};
  lap_error error;
  lap_status status = prepare(&c, &error);
  if (status == LAP_OK) {
    greet(&c);
    converse(&c);
  }
  bool interrupted = !c.interactive && lap_interrupted();
  int number = c.input ? lap_input_signal(c.input) : 0;
  lap_conversation_destroy(c.conversation);
  lap_close_opened(&c.opened);
  lap_input_close(c.input);
  if (number) die_of(number);
  if (interrupted) return LAP_EXIT_INTERRUPTED;
  if (status != LAP_OK) return lap_report(&error);
  return c.failed && !c.interactive ? LAP_EXIT_FAILURE : LAP_EXIT_OK;
}

const lap_verb lap_verb_chat = {
    .name = "chat",
    .operands = "",
    .max_operands = 0,
    .summary = "Talk to a model in the terminal, or by a script.",
    .description =
        "Asks for a text and answers it, until Ctrl-D. The prompt is the whole conversation by the "
        "checkpoint's own chat template; what was said before stays in the KV caches and is not computed "
        "again. Thoughts are shown dimmed (not if NO_COLOR is set), calls of tools with their arguments.\n\n"
        "A line that ends with a backslash goes on in the next one; lines between two lines of \"\"\" are "
        "one text; a pasted text is one. Ctrl-C stops an answer, and what was said of it stays in the "
        "conversation.\n\nCommands: /system [TEXT], /think on|off|auto, /reset, /save FILE, /load FILE, "
        "/stats, /help, /exit. /save writes what POST /v1/chat/completions takes: messages, with calls and "
        "thoughts, and tools.\n\nIf standard input is no terminal, texts and commands are read from it line "
        "by line, standard output gets the answers, a line at least for each, and calls, and nothing else; "
        "the next line is then a call's result. What goes wrong is said on standard error, and makes the "
        "exit code 1 at the end.\n\nAnswer number n of a conversation draws with the seed plus n, so a "
        "conversation is the same each time.",
    .options = options,
    .run = run,
};
