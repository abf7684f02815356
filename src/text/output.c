/* output.c: tokens and text become characters and markers, and those drive a machine of few states.
 *
 * Three stages, each of which holds back only what the next part of the input may still change. The
 * detokenizer makes whole, valid characters of tokens or bytes. Then text that may be the beginning of a
 * marker waits; all markers begin with '<' and have no other one, so a mismatch leaves nothing to search
 * again. The machine itself holds white space before a possible marker, a thought's name and last line
 * break, and a call's body. It takes a byte or a marker at a time and knows nothing of how they came, which
 * is why the result does not depend on that.
 *
 * Invariant: `pending` holds text that is certain and of one kind, to be reported before the input returns;
 * all that was taken in and not reported stands in `pending`, `space`, `call`, or is implied by `state`. */
#include "text/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_buffer.h"
#include "text/tokenizer.h"
#include "text/tool_call.h"

typedef enum marker {
  CHANNEL_OPEN,
  CHANNEL_CLOSE,
  CALL_OPEN,
  CALL_CLOSE,
  QUOTE,
  TURN_OPEN,
  TURN_CLOSE,
  RESPONSE_OPEN,
  MARKERS
} marker;

static const char *const spellings[MARKERS] = {
    "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>",
    "<|\"|>",     "<|turn>",    "<turn|>",      "<|tool_response>",
};

enum {
  ALL_MARKERS = (1 << MARKERS) - 1,
  MOST_SPELLED = 16, /* bytes of the longest marker */
  /* A longer run of white space is content even next to a marker. */
  MOST_SPACE = 256
};

/* What a thought begins with, before the line break. */
static const char thought_name[] = "thought";

typedef enum state {
  CONTENT,
  THOUGHT_NAME, /* `named` bytes of "thought\n" have come */
  THOUGHT,
  CALL,
  LONG_CALL, /* one that is content, but whose end tag belongs to it */
  ENDED
} state;

struct lap_output {
  lap_output_options options;
  int32_t ids[MARKERS]; /* -1: the tokenizer has no such token */
  unsigned unnamed;     /* bits of the markers that are recognised by spelling among tokens */
  bool muted;           /* in the prompt */
  bool failed; /* out of memory; the input is not over for the machine, but nothing is reported any more */

  lap_detokenizer detokenizer;
  char *characters; /* scratch of stage 1 */
  size_t character_count, character_capacity;
  char spelled[MOST_SPELLED + 1]; /* the beginning of a marker, or of nothing */
  size_t spelled_count;

  state state;
  size_t named;
  bool line_held;    /* THOUGHT: a line break that <channel|> may follow */
  bool after_marker; /* CONTENT: a marker came last, but for `space` */
  int thoughts, calls;
  bool said; /* something of the open thought was reported */
  lap_text space;
  lap_text call; /* the body, quotes as LAP_TOOL_CALL_QUOTE */
  lap_text pending;
  lap_piece_kind pending_kind;
};

/* ---- reporting ------------------------------------------------------------------------------- */

static void report(const lap_output *o, lap_piece event) {
  if (!o->muted && !o->failed) o->options.sink(o->options.context, &event);
}

static void report_pending(lap_output *o) {
  if (o->pending.length == 0) return;
  report(o, (lap_piece){.kind = o->pending_kind,
                        .index = o->pending_kind == LAP_PIECE_THOUGHT ? o->thoughts : 0,
                        .text = o->pending.data,
                        .length = o->pending.length});
  o->pending.length = 0;
}

static void say(lap_output *o, lap_piece_kind kind, const char *text, size_t length) {
  if (o->pending_kind != kind) report_pending(o);
  o->pending_kind = kind;
  lap_text_append(&o->pending, text, length);
}

/* ---- content --------------------------------------------------------------------------------- */

static bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void say_space(lap_output *o) {
  say(o, LAP_PIECE_TEXT, o->space.data, o->space.length);
  o->space.length = 0;
}

static void content_byte(lap_output *o, char byte) {
  if (is_space(byte)) {
    lap_text_append(&o->space, &byte, 1);
    if (o->space.length < MOST_SPACE) return;
    o->after_marker = false;
    say_space(o);
    return;
  }
  if (o->after_marker) o->space.length = 0;
  if (o->space.length) say_space(o);
  o->after_marker = false;
  say(o, LAP_PIECE_TEXT, &byte, 1);
}

/* White space that a marker follows. */
static void drop_space(lap_output *o) {
  o->space.length = 0;
  o->after_marker = true;
}

/* White space that only the end follows is content, unless it came after a marker. */
static void end_content(lap_output *o) {
  if (o->space.length && !o->after_marker) say_space(o);
  o->space.length = 0;
}

/* A part of a call as content: as it was, markers spelled out. */
static void say_raw(lap_output *o, const char *text, size_t length) {
  while (length > 0) {
    const char *quote = memchr(text, LAP_TOOL_CALL_QUOTE, length);
    size_t before = quote ? (size_t)(quote - text) : length;
    say(o, LAP_PIECE_TEXT, text, before);
    if (quote) say(o, LAP_PIECE_TEXT, spellings[QUOTE], strlen(spellings[QUOTE]));
    text += before + (quote != NULL);
    length -= before + (quote != NULL);
  }
}

static void say_marker(lap_output *o, marker which) {
  say(o, LAP_PIECE_TEXT, spellings[which], strlen(spellings[which]));
}

/* ---- thoughts -------------------------------------------------------------------------------- */

static void think(lap_output *o, const char *text, size_t length) {
  if (length == 0) return;
  o->said = true;
  say(o, LAP_PIECE_THOUGHT, text, length);
}

static void open_thought(lap_output *o) {
  o->state = THOUGHT_NAME;
  o->named = 0;
  o->line_held = false;
  o->said = false;
}

/* Where a thought ends its name may stand without a line break; anything else that was taken for the
 * beginning of the name is the thought itself. */
static void close_thought(lap_output *o) {
  if (o->state == THOUGHT_NAME && o->named < sizeof thought_name - 1) think(o, thought_name, o->named);
  report_pending(o); /* it bears this thought's number */
  if (o->said) o->thoughts++;
}

static void thought_byte(lap_output *o, char byte) {
  if (o->line_held) think(o, "\n", 1);
  o->line_held = byte == '\n';
  if (!o->line_held) think(o, &byte, 1);
}

static void thought_name_byte(lap_output *o, char byte) {
  bool complete = o->named == sizeof thought_name - 1;
  if (!complete && byte == thought_name[o->named]) {
    o->named++;
    return;
  }
  o->state = THOUGHT;
  if (complete && byte == '\n') return;
  think(o, thought_name, o->named);
  thought_byte(o, byte);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const char *last_part(const char *name) {
  const char *colon = strrchr(name, ':'), *dot = strrchr(name, '.');
  if (!colon || (dot && dot > colon)) colon = dot;
  return colon ? colon + 1 : name;
}

/* The tool that is meant: the one of this name, else the one named at its end, else this name. */
static const char *resolve_name(const lap_output *o, const char *name) {
  const char *const *tools = o->options.tools;
  for (int i = 0; i < o->options.tool_count; i++)
    if (strcmp(tools[i], name) == 0) return name;
  for (int i = 0; i < o->options.tool_count; i++)
    if (strcmp(tools[i], last_part(name)) == 0) return tools[i];
  return name;
}

static void open_call(lap_output *o) {
  o->state = CALL;
  o->call.length = 0;
}

/* The body as content after all, and the white space before it, which no marker follows now. */
static void say_call(lap_output *o) {
  end_content(o);
  o->after_marker = false;
  say_marker(o, CALL_OPEN);
  say_raw(o, o->call.data, o->call.length);
}

static void report_call(lap_output *o, const lap_tool_call *call) {
  drop_space(o);
  report_pending(o);
  report(o, (lap_piece){.kind = LAP_PIECE_CALL,
                        .index = o->calls++,
                        .name = resolve_name(o, call->name),
                        .text = call->arguments,
                        .length = call->length});
  for (size_t i = call->used; i < o->call.length; i++) {
    char byte = o->call.data[i];
    if ((unsigned char)byte != LAP_TOOL_CALL_QUOTE) {
      content_byte(o, byte);
      continue;
    }
    for (const char *c = spellings[QUOTE]; *c; c++) content_byte(o, *c);
  }
}

static void close_call(lap_output *o, bool end_tag) {
  lap_tool_call call = {0};
  o->state = CONTENT;
  if (o->call.length && lap_tool_call_read(o->call.data, o->call.length, &call, NULL) != LAP_OK) {
    o->failed = true;
    return;
  }
  if (call.name) {
    report_call(o, &call);
  } else {
    say_call(o);
    if (end_tag) say_marker(o, CALL_CLOSE);
  }
  lap_tool_call_free(&call);
}

static void call_bytes(lap_output *o, const char *bytes, size_t count) {
  lap_text_append(&o->call, bytes, count);
  if (o->call.length <= LAP_OUTPUT_MAX_CALL) return;
  say_call(o);
  o->call.length = 0;
  o->state = LONG_CALL;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void take_byte(lap_output *o, char byte) {
  switch (o->state) {
    case CONTENT:
      content_byte(o, byte);
      break;
    case THOUGHT_NAME:
      thought_name_byte(o, byte);
      break;
    case THOUGHT:
      thought_byte(o, byte);
      break;
    case CALL:
      call_bytes(o, &byte, 1);
      break;
    case LONG_CALL:
      say(o, LAP_PIECE_TEXT, &byte, 1);
      break;
    case ENDED:
      break;
  }
}

/* Ends what is open; `end_tag`: by the tag of a call. Content is then what goes on. */
static void close_open(lap_output *o, bool end_tag) {
  switch (o->state) {
    case THOUGHT_NAME:
    case THOUGHT:
      close_thought(o);
      o->after_marker = true;
      break;
    case CALL:
      close_call(o, end_tag);
      return;
    case LONG_CALL:
      if (end_tag) say_marker(o, CALL_CLOSE);
      break;
    default:
      return;
  }
  o->state = CONTENT;
}

static void take_quote(lap_output *o) {
  static const char quote = (char)LAP_TOOL_CALL_QUOTE;
  if (o->state == CALL) call_bytes(o, &quote, 1);
  if (o->state == LONG_CALL) say_marker(o, QUOTE);
}

/* A prompt goes on behind it, with another turn or a tool's answer. */
static void end_turn(lap_output *o) {
  close_open(o, false);
  end_content(o);
  o->state = o->muted ? CONTENT : ENDED;
}

static void take_marker(lap_output *o, marker which) {
  if (o->state == ENDED) return;
  switch (which) {
    case CHANNEL_OPEN:
      close_open(o, false);
      drop_space(o);
      open_thought(o);
      break;
    case CHANNEL_CLOSE:
      close_open(o, false);
      break;
    case CALL_OPEN:
      close_open(o, false);
      open_call(o);
      break;
    case CALL_CLOSE:
      if (o->state == CALL || o->state == LONG_CALL) close_open(o, true);
      break;
    case QUOTE:
      take_quote(o);
      break;
    case TURN_OPEN:
    case TURN_CLOSE:
    case RESPONSE_OPEN:
      end_turn(o);
      break;
    case MARKERS:
      break;
  }
}

/* ---- spelled markers ------------------------------------------------------------------------- */

/* The first of the markers that begins as `spelled`, or MARKERS. */
static marker spelled_marker(const lap_output *o, unsigned enabled) {
  for (int i = 0; i < MARKERS; i++)
    if (enabled >> i & 1 && strncmp(spellings[i], o->spelled, o->spelled_count) == 0) return (marker)i;
  return MARKERS;
}

/* What was spelled is no marker. */
static void release_spelled(lap_output *o) {
  size_t count = o->spelled_count;
  o->spelled_count = 0;
  for (size_t i = 0; i < count; i++) take_byte(o, o->spelled[i]);
}

/* A byte of text in which the `enabled` markers count. */
static void spell_byte(lap_output *o, char byte, unsigned enabled) {
  if (o->spelled_count == 0 && (byte != '<' || !enabled)) {
    take_byte(o, byte);
    return;
  }
  o->spelled[o->spelled_count++] = byte;
  marker which = spelled_marker(o, enabled);
  if (which == MARKERS) {
    o->spelled_count--;
    release_spelled(o);
    if (byte == '<')
      o->spelled[o->spelled_count++] = byte;
    else
      take_byte(o, byte);
  } else if (spellings[which][o->spelled_count] == '\0') {
    o->spelled_count = 0;
    take_marker(o, which);
  }
}

/* ---- input ----------------------------------------------------------------------------------- */

static void take_characters(lap_output *o, unsigned enabled) {
  for (size_t i = 0; i < o->character_count; i++) spell_byte(o, o->characters[i], enabled);
  o->character_count = 0;
}

/* Text before a control token cannot go on behind it. */
static lap_status end_characters(lap_output *o, unsigned enabled, lap_error *error) {
  lap_status status =
      lap_detokenize_end(&o->detokenizer, &o->characters, &o->character_count, &o->character_capacity, error);
  if (status != LAP_OK) return status;
  take_characters(o, enabled);
  release_spelled(o);
  return LAP_OK;
}

/* Reports what is certain. */
static lap_status pass_on(lap_output *o, lap_error *error) {
  report_pending(o);
  if (o->failed || o->pending.failed || o->space.failed || o->call.failed) {
    o->failed = true;
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for what the model says");
  }
  return LAP_OK;
}

static lap_status feed_token(lap_output *o, int32_t id, lap_error *error) {
  for (int i = 0; i < MARKERS; i++) {
    if (o->ids[i] != id) continue;
    lap_status status = end_characters(o, o->unnamed, error);
    if (status == LAP_OK) take_marker(o, (marker)i);
    return status;
  }
  if (!lap_tokenizer_token(o->options.tokenizer, id, NULL)) return LAP_OK;
  lap_status status = lap_detokenize(o->options.tokenizer, &o->detokenizer, id, false, &o->characters,
                                     &o->character_count, &o->character_capacity, error);
  if (status == LAP_OK) take_characters(o, o->unnamed);
  return status;
}

static lap_status feed_text(lap_output *o, const char *text, size_t length, lap_error *error) {
  lap_status status = lap_detokenize_text(&o->detokenizer, text, length, &o->characters, &o->character_count,
                                          &o->character_capacity, error);
  if (status == LAP_OK) take_characters(o, ALL_MARKERS);
  return status;
}

lap_status lap_output_token(lap_output *output, int32_t id, lap_error *error) {
  lap_status status = feed_token(output, id, error);
  return status == LAP_OK ? pass_on(output, error) : status;
}

lap_status lap_output_text(lap_output *output, const char *text, size_t length, lap_error *error) {
  lap_status status = feed_text(output, text, length, error);
  return status == LAP_OK ? pass_on(output, error) : status;
}

lap_status lap_output_finish(lap_output *output, lap_error *error) {
  lap_status status = end_characters(output, output->unnamed, error);
  if (status != LAP_OK) return status;
  end_turn(output);
  return pass_on(output, error);
}

bool lap_output_ended(const lap_output *output) {
  return output->state == ENDED;
}

/* ---- the prompt ------------------------------------------------------------------------------ */

/* The prompt left the machine where the answer begins: what is open stays open, what was held back is
 * dropped, and counting starts anew. */
static lap_status begin_answer(lap_output *o, lap_error *error) {
  lap_status status = end_characters(o, o->unnamed, error);
  if (status == LAP_OK) status = pass_on(o, error);
  o->muted = false;
  o->line_held = false;
  o->space.length = 0;
  o->said = false;
  o->thoughts = o->calls = 0;
  return status;
}

/* Only the last turn can have left anything open. */
static size_t last_turn(const lap_output *o, const int32_t *ids, size_t count) {
  while (count > 0 && (o->ids[TURN_OPEN] < 0 || ids[count - 1] != o->ids[TURN_OPEN])) count--;
  return count;
}

lap_status lap_output_prompt(lap_output *output, const int32_t *ids, size_t count, lap_error *error) {
  lap_status status = LAP_OK;
  output->muted = true;
  for (size_t i = last_turn(output, ids, count); i < count && status == LAP_OK; i++)
    status = feed_token(output, ids[i], error);
  return status == LAP_OK ? begin_answer(output, error) : status;
}

lap_status lap_output_prompt_text(lap_output *output, const char *text, size_t length, lap_error *error) {
  output->muted = true;
  lap_status status = feed_text(output, text, length, error);
  return status == LAP_OK ? begin_answer(output, error) : status;
}

/* ---- creation -------------------------------------------------------------------------------- */

lap_status lap_output_create(const lap_output_options *options, lap_output **out, lap_error *error) {
  *out = calloc(1, sizeof **out);
  if (!*out) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for what the model says");
  lap_output *o = *out;
  o->options = *options;
  for (int i = 0; i < MARKERS; i++) {
    o->ids[i] =
        options->tokenizer ? lap_tokenizer_id(options->tokenizer, spellings[i], strlen(spellings[i])) : -1;
    if (o->ids[i] < 0) o->unnamed |= 1u << i;
  }
  return LAP_OK;
}

void lap_output_destroy(lap_output *output) {
  if (!output) return;
  free(output->characters);
  lap_text_free(&output->space);
  lap_text_free(&output->call);
  lap_text_free(&output->pending);
  free(output);
}
