/* stop.c: each string is sought by the algorithm of Knuth, Morris and Pratt.
 *
 * Its state is how much of the string the text now ends with, the most of it. The longest of these ends is
 * what has to wait, and a state that reaches the string's length has found it.
 *
 * Invariant: `text` holds the piece that was let through last (`passed` bytes) and behind it the longest end
 * of the text so far that begins a stop string. So one that appears stands wholly in it. */
#include "text/stop.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_buffer.h"

typedef struct seeker {
  char *string;
  size_t length;
  size_t *shorter; /* [length]: of the first i + 1 bytes, the longest proper end that is also a beginning */
  size_t matched;
} seeker;

struct lap_stop {
  seeker *seekers;
  int count;
  int which; /* the string that was found; -1: none yet */
  lap_text text;
  size_t passed;
  char behind; /* the byte that stands where the piece has its terminator */
};

/* ---- creation -------------------------------------------------------------------------------- */

/* How much of the string is matched when `byte` follows. */
static size_t advance(const seeker *s, size_t matched, char byte) {
  while (matched > 0 && s->string[matched] != byte) matched = s->shorter[matched - 1];
  return s->string[matched] == byte ? matched + 1 : 0;
}

static bool prepare(seeker *s, const char *string) {
  s->length = strlen(string);
  s->string = strdup(string);
  s->shorter = calloc(s->length, sizeof *s->shorter);
  if (!s->string || !s->shorter) return false;
  for (size_t i = 1; i < s->length; i++) s->shorter[i] = advance(s, s->shorter[i - 1], string[i]);
  return true;
}

static lap_status check_strings(const char *const *strings, int count, lap_error *error) {
  if (count < 0 || (count && !strings))
    return lap_fail(error, LAP_ERROR_ARGUMENT, "stop: a list of %d strings", count);
  for (int i = 0; i < count; i++)
    if (!strings[i] || !*strings[i])
      return lap_fail(error, LAP_ERROR_ARGUMENT, "stop: string %d is empty", i);
  return LAP_OK;
}

lap_status lap_stop_create(const char *const *strings, int count, lap_stop **out, lap_error *error) {
  *out = NULL;
  lap_status status = check_strings(strings, count, error);
  if (status != LAP_OK) return status;
  lap_stop *stop = calloc(1, sizeof *stop);
  bool made = stop && (stop->seekers = calloc((size_t)count + 1, sizeof *stop->seekers));
  if (stop) stop->which = -1;
  for (int i = 0; i < count && made; i++) {
    stop->count++;
    made = prepare(&stop->seekers[i], strings[i]);
  }
  if (!made) {
    lap_stop_destroy(stop);
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %d stop strings", count);
  }
  *out = stop;
  return LAP_OK;
}

void lap_stop_destroy(lap_stop *stop) {
  if (!stop) return;
  for (int i = 0; i < stop->count; i++) {
    free(stop->seekers[i].string);
    free(stop->seekers[i].shorter);
  }
  free(stop->seekers);
  lap_text_free(&stop->text);
  free(stop);
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Drops the piece that the caller has had. */
static void drop_passed(lap_stop *stop) {
  if (stop->passed == 0) return;
  stop->text.data[stop->passed] = stop->behind;
  stop->text.length -= stop->passed;
  memmove(stop->text.data, stop->text.data + stop->passed, stop->text.length + 1);
  stop->passed = 0;
}

/* Lets the first `length` bytes through, or fewer: a piece does not end inside a character. */
static lap_stop_piece pass(lap_stop *stop, size_t length) {
  if (length < stop->text.length)
    while (length > 0 && ((unsigned char)stop->text.data[length] & 0xc0) == 0x80) length--;
  if (length == 0) return (lap_stop_piece){"", 0};
  stop->passed = length;
  stop->behind = stop->text.data[length];
  stop->text.data[length] = '\0';
  return (lap_stop_piece){stop->text.data, length};
}

/* Takes a byte; returns the length of the longest string that it completes, which is found then, or 0. */
static size_t take_byte(lap_stop *stop, char byte) {
  size_t completed = 0;
  for (int i = 0; i < stop->count; i++) {
    seeker *s = &stop->seekers[i];
    s->matched = advance(s, s->matched, byte);
    if (s->matched < s->length || s->length <= completed) continue;
    completed = s->length;
    stop->which = i;
  }
  return completed;
}

static size_t waiting(const lap_stop *stop) {
  size_t most = 0;
  for (int i = 0; i < stop->count; i++)
    if (stop->seekers[i].matched > most) most = stop->seekers[i].matched;
  return most;
}

lap_status lap_stop_text(lap_stop *stop, const char *text, size_t length, lap_stop_piece *piece,
                         lap_error *error) {
  *piece = (lap_stop_piece){"", 0};
  drop_passed(stop);
  if (lap_stop_found(stop)) return LAP_OK;
  size_t held = stop->text.length, completed = 0, taken = 0;
  while (taken < length && !completed) completed = take_byte(stop, text[taken++]);
  lap_text_append(&stop->text, text, length);
  if (stop->text.failed) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for text");
  *piece = pass(stop, completed ? held + taken - completed : stop->text.length - waiting(stop));
  return LAP_OK;
}

void lap_stop_finish(lap_stop *stop, lap_stop_piece *piece) {
  drop_passed(stop);
  *piece = lap_stop_found(stop) ? (lap_stop_piece){"", 0} : pass(stop, stop->text.length);
}

bool lap_stop_found(const lap_stop *stop) {
  return stop->which >= 0;
}

int lap_stop_which(const lap_stop *stop) {
  return stop->which;
}
