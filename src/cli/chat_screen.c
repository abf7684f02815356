/* chat_screen.c: see chat_screen.h.
 *
 * Invariant: the terminal is dimmed only within a call of lap_screen_show, so whatever comes between two
 * pieces of a thought, a signal included, finds it as it was. */
#include "cli/chat_screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/support.h"

static const char dim[] = "\033[2m", plain[] = "\033[0m";

void lap_screen_open(lap_screen *screen, bool interactive) {
  const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
  *screen = (lap_screen){.terminal = isatty(STDOUT_FILENO)};
  bool wanted = interactive && !(no_colour && *no_colour);
  screen->colour = screen->terminal && wanted && kind && *kind && strcmp(kind, "dumb") != 0;
}

static void put(lap_screen *screen, const char *text, size_t length) {
  if (length == 0 || screen->lost) return;
  screen->lost = !lap_put(text, length);
  screen->line_open = text[length - 1] != '\n';
}

static void put_text(lap_screen *screen, const char *text) {
  put(screen, text, strlen(text));
}

/* Bytes at `text` that are a control character, 0 if none: C0 but for tab and line break, DEL, and C1, which
 * UTF-8 spells with two. */
static size_t control_bytes(const char *text, size_t length) {
  unsigned char first = (unsigned char)text[0];
  if (first < 0x20 || first == 0x7f) return first != '\n' && first != '\t';
  unsigned char second = length > 1 ? (unsigned char)text[1] : 0;
  return first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2 : 0;
}

/* As ^[ or \x9b. */
static void put_control(lap_screen *screen, const char *text, size_t bytes) {
  char spelled[8];
  unsigned char last = (unsigned char)text[bytes - 1];
  snprintf(spelled, sizeof spelled, bytes == 1 ? "^%c" : "\\x%02x", bytes == 1 ? last ^ 0x40 : last);
  put_text(screen, spelled);
}

static void put_safely(lap_screen *screen, const char *text, size_t length) {
  size_t from = 0;
  for (size_t at = 0; screen->terminal && at < length;) {
    size_t bytes = control_bytes(text + at, length - at);
    if (bytes == 0) {
      at++;
      continue;
    }
    put(screen, text + from, at - from);
    put_control(screen, text + at, bytes);
    from = at += bytes;
  }
  put(screen, text + from, length - from);
}

static void end_line(lap_screen *screen) {
  if (screen->line_open) put_text(screen, "\n");
}

static void show_thought(lap_screen *screen, const lap_piece *piece, bool begins) {
  if (!screen->terminal) return;
  if (begins) {
    end_line(screen);
    put_text(screen, "thinking: ");
  }
  if (screen->colour) put_text(screen, dim);
  put_safely(screen, piece->text, piece->length);
  bool open = piece->length > 0 && piece->text[piece->length - 1] != '\n';
  if (screen->colour) put_text(screen, plain);
  screen->line_open = open;
}

static void show_content(lap_screen *screen, const lap_piece *piece, bool begins) {
  if (begins && screen->began) {
    end_line(screen);
    if (screen->terminal && screen->kind == LAP_PIECE_THOUGHT) put_text(screen, "\n");
  }
  put_safely(screen, piece->text, piece->length);
}

static void show_call(lap_screen *screen, const lap_piece *piece) {
  end_line(screen);
  put_text(screen, "call ");
  put_safely(screen, piece->name, strlen(piece->name));
  put_text(screen, " ");
  put_safely(screen, piece->text, piece->length);
  put_text(screen, "\n");
}

void lap_screen_show(lap_screen *screen, const lap_piece *piece) {
  bool begins = !screen->began || screen->kind != piece->kind ||
                (piece->kind == LAP_PIECE_THOUGHT && screen->thought != piece->index);
  lap_hide_progress();
  if (piece->kind == LAP_PIECE_THOUGHT)
    show_thought(screen, piece, begins);
  else if (piece->kind == LAP_PIECE_CALL)
    show_call(screen, piece);
  else
    show_content(screen, piece, begins);
  screen->began = true;
  screen->kind = piece->kind;
  screen->thought = piece->index;
}

void lap_screen_end(lap_screen *screen, bool answered) {
  end_line(screen);
  if (answered && !screen->began && !screen->terminal) put_text(screen, "\n");
  screen->began = false;
}
