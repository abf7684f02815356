/* expression.c: constructors that keep depth and size, and drop what changes nothing.
 *
 * Invariant: a NULL from the arena never gets into an expression; `failed` is set and NOTHING stands there.
 */
#include "grammar/expression.h"

#include <stdlib.h>
#include <string.h>

enum {
  ARENA_BYTES = 64 << 20,
  MAX_SIZE = 1 << 30
};

static const lap_expression empty = {.kind = LAP_EMPTY};
static const lap_expression nothing = {.kind = LAP_NOTHING, .size = 1};

void lap_rules_init(lap_rules *rules) {
  *rules = (lap_rules){.arena.limit = ARENA_BYTES};
}

void lap_rules_free(lap_rules *rules) {
  lap_arena_free(&rules->arena);
  free(rules->rules);
  *rules = (lap_rules){0};
}

lap_status lap_rules_status(const lap_rules *rules, const char *name, lap_error *error) {
  if (!rules->failed && !rules->arena.failed) return LAP_OK;
  return lap_fail(error, LAP_ERROR_UNSUPPORTED, "%s: too large (more than %d rules, %d levels or %d MiB)",
                  name, LAP_MAX_RULES, LAP_MAX_EXPRESSION_DEPTH, ARENA_BYTES >> 20);
}

uint32_t lap_rules_add(lap_rules *rules, const void *origin) {
  if (rules->count == LAP_MAX_RULES ||
      !lap_reserve(&rules->rules, rules->count + 1, &rules->capacity, sizeof *rules->rules)) {
    rules->failed = true;
    return 0;
  }
  rules->rules[rules->count] = (lap_rule){.origin = origin};
  return (uint32_t)rules->count++;
}

void lap_rules_define(lap_rules *rules, uint32_t rule, const lap_expression *body) {
  if (rule < rules->count) rules->rules[rule].body = body;
}

void lap_parts_add(lap_rules *rules, lap_parts *parts, const lap_expression *part) {
  if (parts->count == parts->capacity) {
    uint32_t capacity = parts->capacity ? 2 * parts->capacity : 4;
    const lap_expression **larger = lap_arena_take(&rules->arena, capacity * sizeof *larger);
    if (!larger) return;
    for (uint32_t i = 0; i < parts->count; i++) larger[i] = parts->items[i];
    parts->items = larger;
    parts->capacity = capacity;
  }
  parts->items[parts->count++] = part;
}

/* A copy in the arena, or NOTHING. */
static const lap_expression *keep(lap_rules *rules, lap_expression made) {
  if (made.depth > LAP_MAX_EXPRESSION_DEPTH) rules->failed = true;
  lap_expression *kept = rules->failed ? NULL : lap_arena_take(&rules->arena, sizeof *kept);
  if (!kept) return &nothing;
  *kept = made;
  return kept;
}

static uint32_t bounded(uint64_t size) {
  return size < MAX_SIZE ? (uint32_t)size : MAX_SIZE;
}

const lap_expression *lap_expr_empty(void) {
  return &empty;
}

const lap_expression *lap_expr_nothing(void) {
  return &nothing;
}

const lap_expression *lap_expr_bytes(lap_rules *rules, const char *bytes, size_t length) {
  if (length == 0) return &empty;
  char *copy = lap_arena_take(&rules->arena, length);
  if (!copy) return &nothing;
  memcpy(copy, bytes, length);
  return keep(
      rules,
      (lap_expression){
          .kind = LAP_BYTES, .depth = 1, .size = bounded(length), .count = (uint32_t)length, .bytes = copy});
}

const lap_expression *lap_expr_text(lap_rules *rules, const char *text) {
  return lap_expr_bytes(rules, text, strlen(text));
}

/* Nodes for a set: one for each byte of each sequence, and one that forks before each but the last. */
static uint32_t character_size(const lap_characters *set) {
  uint64_t size = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    lap_utf8_sequence sequences[LAP_UTF8_MAX_SEQUENCES];
    int count = lap_utf8_sequences(set->ranges[i], sequences);
    for (int k = 0; k < count; k++) size += sequences[k].length + 1u;
  }
  return bounded(size);
}

const lap_expression *lap_expr_character(lap_rules *rules, const lap_characters *set) {
  uint32_t size = character_size(set);
  if (size == 0) return &nothing;
  lap_character_range *copy = lap_arena_take(&rules->arena, set->count * sizeof *copy);
  if (!copy) return &nothing;
  memcpy(copy, set->ranges, set->count * sizeof *copy);
  return keep(
      rules,
      (lap_expression){.kind = LAP_CHARACTER, .depth = 1, .size = size, .count = set->count, .ranges = copy});
}

const lap_expression *lap_expr_token(lap_rules *rules, int32_t id) {
  return keep(rules, (lap_expression){.kind = LAP_TOKEN, .depth = 1, .size = 1, .token = id});
}

const lap_expression *lap_expr_call(lap_rules *rules, uint32_t rule) {
  return keep(rules, (lap_expression){.kind = LAP_CALL, .depth = 1, .size = 1, .rule = rule});
}

/* Several parts as one expression. */
static const lap_expression *combine(lap_rules *rules, lap_expression made, const lap_parts *parts) {
  uint64_t size = made.size;
  for (uint32_t i = 0; i < parts->count; i++) {
    const lap_expression *part = parts->items[i];
    size += part->size + 1u;
    if (part->depth >= made.depth) made.depth = part->depth + 1;
  }
  made.size = bounded(size);
  made.count = parts->count;
  made.parts = parts->items;
  return keep(rules, made);
}

const lap_expression *lap_expr_sequence(lap_rules *rules, const lap_parts *parts) {
  lap_parts kept = {0};
  for (uint32_t i = 0; i < parts->count; i++) {
    if (parts->items[i]->kind == LAP_NOTHING) return &nothing;
    if (parts->items[i]->kind != LAP_EMPTY) lap_parts_add(rules, &kept, parts->items[i]);
  }
  if (kept.count == 0) return &empty;
  if (kept.count == 1) return kept.items[0];
  return combine(rules, (lap_expression){.kind = LAP_SEQUENCE}, &kept);
}

const lap_expression *lap_expr_choice(lap_rules *rules, const lap_parts *parts) {
  lap_parts kept = {0};
  for (uint32_t i = 0; i < parts->count; i++)
    if (parts->items[i]->kind != LAP_NOTHING) lap_parts_add(rules, &kept, parts->items[i]);
  if (kept.count == 0) return &nothing;
  if (kept.count == 1) return kept.items[0];
  return combine(rules, (lap_expression){.kind = LAP_CHOICE}, &kept);
}

const lap_expression *lap_expr_repetition(lap_rules *rules, const lap_expression *part, uint32_t min,
                                          uint32_t max) {
  if (min > max || (part->kind == LAP_NOTHING && min > 0)) return &nothing;
  if (max == 0 || part->kind == LAP_EMPTY || part->kind == LAP_NOTHING) return &empty;
  if (min == 1 && max == 1) return part;
  uint64_t times = max == LAP_ENDLESS ? min + UINT64_C(1) : max;
  return keep(rules, (lap_expression){.kind = LAP_REPETITION,
                                      .depth = part->depth + 1,
                                      .size = bounded(times * (part->size + 1)),
                                      .part = part,
                                      .min = min,
                                      .max = max});
}

const lap_expression *lap_expr_list(lap_rules *rules, const lap_expression *separator, const lap_parts *parts,
                                    const bool *optional) {
  if (parts->count == 0) return &empty;
  bool *marks = lap_arena_take(&rules->arena, parts->count * sizeof *marks);
  if (!marks) return &nothing;
  memcpy(marks, optional, parts->count * sizeof *marks);
  lap_expression made = {.kind = LAP_LIST, .separator = separator, .optional = marks};
  made.size = bounded((uint64_t)parts->count * (separator->size + 2));
  made.depth = separator->depth + 1;
  for (uint32_t i = 0; i < parts->count; i++)
    made.size = bounded((uint64_t)made.size + parts->items[i]->size);
  return combine(rules, made, parts);
}

const lap_expression *lap_expr_optional(lap_rules *rules, const lap_expression *part) {
  return lap_expr_repetition(rules, part, 0, 1);
}

static const lap_expression *two(lap_rules *rules, const lap_expression *first, const lap_expression *second,
                                 const lap_expression *(*join)(lap_rules *, const lap_parts *)) {
  lap_parts parts = {0};
  lap_parts_add(rules, &parts, first);
  lap_parts_add(rules, &parts, second);
  return join(rules, &parts);
}

const lap_expression *lap_expr_then(lap_rules *rules, const lap_expression *first,
                                    const lap_expression *second) {
  return two(rules, first, second, lap_expr_sequence);
}

const lap_expression *lap_expr_or(lap_rules *rules, const lap_expression *first,
                                  const lap_expression *second) {
  return two(rules, first, second, lap_expr_choice);
}
