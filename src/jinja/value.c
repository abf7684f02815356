/* value.c: the arena, strings, lists and dicts.
 *
 * A dict is an array of entries in order of insertion; from nine entries on a table of their numbers by
 * SipHash finds them, because keys come from requests. Invariant: a table, where there is one, is at most
 * half full and holds exactly the entries. */
#include "jinja/value.h"

#include <math.h>
#include <stdlib.h>

#include "base/siphash.h"
#include "jinja/object.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKED_ARENA 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define CHECKED_ARENA 1
#endif

/* With ASan the unused bytes of a chunk are poisoned, and allocations stand apart. */
#ifdef CHECKED_ARENA
#include <sanitizer/asan_interface.h>
enum {
  GAP_BYTES = 16
};
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)   ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
enum {
  GAP_BYTES = 0
};
#endif

enum {
  ALIGNMENT = 16,
  MIN_CHUNK_BYTES = 4 << 10,
  MAX_CHUNK_BYTES = 1 << 20,
  SMALL_DICT = 8,
  MAX_KEY_DEPTH = 32,
  MAX_ENTRIES = 1 << 30
};

struct lap_jinja_chunk {
  lap_jinja_chunk *next;
  size_t used, capacity;
  _Alignas(ALIGNMENT) unsigned char data[];
};

/* ---- the arena ---- */

void lap_jinja_arena_init(arena *a, size_t max_bytes) {
  *a = (arena){.max_bytes = max_bytes};
  lap_siphash_key(a->hash_key, a);
}

void lap_jinja_arena_clear(arena *a) {
  while (a->chunk) {
    lap_jinja_chunk *next = a->chunk->next;
    ASAN_UNPOISON_MEMORY_REGION(a->chunk->data, a->chunk->capacity);
    free(a->chunk);
    a->chunk = next;
  }
}

static void *exhausted(arena *a, bool refused) {
  a->failed = true;
  if (a->exhausted) a->exhausted(a->exhausted_context, refused);
  return NULL;
}

static lap_jinja_chunk *add_chunk(arena *a, size_t bytes) {
  size_t capacity = a->bytes < MIN_CHUNK_BYTES   ? MIN_CHUNK_BYTES
                    : a->bytes > MAX_CHUNK_BYTES ? MAX_CHUNK_BYTES
                                                 : a->bytes;
  if (capacity < bytes) capacity = bytes;
  if (capacity > a->max_bytes - a->bytes)
    capacity = bytes; /* close to the limit: no more than is asked for */
  if (capacity > a->max_bytes - a->bytes) return exhausted(a, true);
  lap_jinja_chunk *chunk = malloc(sizeof *chunk + capacity);
  if (!chunk) return exhausted(a, false);
  *chunk = (lap_jinja_chunk){.next = a->chunk, .capacity = capacity};
  ASAN_POISON_MEMORY_REGION(chunk->data, capacity);
  a->chunk = chunk;
  a->bytes += capacity;
  return chunk;
}

static size_t rounded(size_t bytes) {
  return (bytes + GAP_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void *lap_jinja_take(arena *a, size_t bytes) {
  if (a->failed || bytes > SIZE_MAX / 4) return exhausted(a, true);
  size_t needed = rounded(bytes);
  if ((!a->chunk || a->chunk->capacity - a->chunk->used < needed) && !add_chunk(a, needed)) return NULL;
  void *taken = a->chunk->data + a->chunk->used;
  a->chunk->used += needed;
  ASAN_UNPOISON_MEMORY_REGION(taken, bytes);
  return taken;
}

void *lap_jinja_take_array(arena *a, size_t count, size_t size) {
  return lap_jinja_take(a, count > SIZE_MAX / 4 / size ? SIZE_MAX : count * size);
}

void *lap_jinja_grow(arena *a, void *old, size_t old_bytes, size_t bytes) {
  lap_jinja_chunk *chunk = a->chunk;
  if (old && !a->failed && bytes <= SIZE_MAX / 4) {
    size_t begin = (size_t)((uintptr_t)old - (uintptr_t)chunk->data), used = rounded(old_bytes);
    bool last = (uintptr_t)old >= (uintptr_t)chunk->data && begin + used == chunk->used;
    if (last && rounded(bytes) <= chunk->capacity - begin) {
      chunk->used = begin + rounded(bytes);
      ASAN_UNPOISON_MEMORY_REGION(old, bytes);
      return old;
    }
  }
  void *grown = lap_jinja_take(a, bytes);
  if (grown && old_bytes) memcpy(grown, old, old_bytes);
  return grown;
}

lap_status lap_jinja_arena_create(size_t max_bytes, lap_jinja_arena **out, lap_error *error) {
  *out = malloc(sizeof **out);
  if (!*out) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a template's context");
  lap_jinja_arena_init(*out, max_bytes);
  return LAP_OK;
}

void lap_jinja_arena_destroy(lap_jinja_arena *a) {
  if (!a) return;
  lap_jinja_arena_clear(a);
  free(a);
}

bool lap_jinja_arena_failed(const lap_jinja_arena *a) {
  return a->failed;
}

/* ---- scalars and strings ---- */

value lap_jinja_undefined(void) {
  return (value){.type = LAP_JINJA_UNDEFINED};
}

value lap_jinja_none(void) {
  return (value){.type = LAP_JINJA_NONE};
}

value lap_jinja_boolean(bool boolean) {
  return (value){.type = LAP_JINJA_BOOLEAN, .boolean = boolean};
}

value lap_jinja_integer(int64_t integer) {
  return (value){.type = LAP_JINJA_INTEGER, .integer = integer};
}

value lap_jinja_real(double real) {
  return (value){.type = LAP_JINJA_REAL, .real = real};
}

static value new_string(arena *a, string fields) {
  string *s = lap_jinja_take(a, sizeof *s);
  if (!s) return lap_jinja_undefined();
  *s = fields;
  if (!s->text) s->text = "";
  return lap_jinja_string_value(s);
}

value lap_jinja_over(arena *a, const char *text, size_t length, bool from_template) {
  return new_string(a, (string){.text = text, .length = length, .from_template = from_template});
}

value lap_jinja_literal(arena *a, const char *text, bool from_template) {
  return lap_jinja_over(a, text, strlen(text), from_template);
}

value lap_jinja_text(lap_jinja_arena *a, const char *text, size_t length, bool trusted) {
  char *copy = lap_jinja_take(a, length);
  if (!copy) return lap_jinja_undefined();
  if (length) memcpy(copy, text, length);
  return lap_jinja_over(a, copy, length, trusted);
}

value lap_jinja_slice(arena *a, const string *s, size_t begin, size_t length) {
  return new_string(a, (string){.text = s->text + begin,
                                .length = length,
                                .marks = s->marks ? s->marks + begin : NULL,
                                .from_template = s->from_template});
}

/* ---- lists ---- */

list *lap_jinja_list_create(arena *a, size_t capacity) {
  list *l = lap_jinja_take(a, sizeof *l);
  if (!l) return NULL;
  *l = (list){.capacity = capacity};
  if (capacity && !(l->items = lap_jinja_take_array(a, capacity, sizeof *l->items))) return NULL;
  return l;
}

void lap_jinja_list_push(arena *a, list *l, value item) {
  if (l->count == l->capacity) {
    size_t capacity = l->capacity ? l->capacity * 2 : 4;
    value *grown = lap_jinja_grow(a, l->items, l->count * sizeof *grown, capacity * sizeof *grown);
    if (!grown) return;
    l->items = grown;
    l->capacity = capacity;
  }
  l->items[l->count++] = item;
}

void lap_jinja_list_reverse(list *l) {
  for (size_t i = 0; i < l->count / 2; i++) {
    value swapped = l->items[i];
    l->items[i] = l->items[l->count - 1 - i];
    l->items[l->count - 1 - i] = swapped;
  }
}

value lap_jinja_list_value(list *l) {
  return l ? (value){.type = LAP_JINJA_LIST, .list = l} : lap_jinja_undefined();
}

value lap_jinja_tuple_value(list *l) {
  return l ? (value){.type = LAP_JINJA_TUPLE, .list = l} : lap_jinja_undefined();
}

value lap_jinja_pair(arena *a, value first, value second) {
  list *l = lap_jinja_list_create(a, 2);
  if (l) {
    lap_jinja_list_push(a, l, first);
    lap_jinja_list_push(a, l, second);
  }
  return lap_jinja_tuple_value(l);
}

value lap_jinja_new_list(lap_jinja_arena *a) {
  return lap_jinja_list_value(lap_jinja_list_create(a, 0));
}

void lap_jinja_append(lap_jinja_arena *a, value container, value item) {
  if (container.type == LAP_JINJA_LIST) lap_jinja_list_push(a, container.list, item);
}

/* ---- numbers ---- */

static int sign_of_difference(double a, double b) {
  return isnan(a) || isnan(b) ? 2 : (a > b) - (a < b);
}

/* An integer against a double, without rounding the integer. */
static int compare_mixed(int64_t a, double b) {
  if (isnan(b)) return 2;
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  int64_t whole = (int64_t)b;
  if (a != whole) return a < whole ? -1 : 1;
  return sign_of_difference(0, b - (double)whole);
}

int lap_jinja_compare_numbers(value a, value b) {
  bool real_a = a.type == LAP_JINJA_REAL, real_b = b.type == LAP_JINJA_REAL;
  if (real_a && real_b) return sign_of_difference(a.real, b.real);
  if (real_b) return compare_mixed(lap_jinja_integer_of(a), b.real);
  if (real_a) {
    int inverse = compare_mixed(lap_jinja_integer_of(b), a.real);
    return inverse == 2 ? 2 : -inverse;
  }
  int64_t left = lap_jinja_integer_of(a), right = lap_jinja_integer_of(b);
  return (left > right) - (left < right);
}

/* ---- dicts ---- */

static bool hashable_to(value key, int depth) {
  switch (key.type) {
    case LAP_JINJA_LIST:
    case LAP_JINJA_DICT:
    case LAP_JINJA_VIEW:
      return false;
    case LAP_JINJA_TUPLE:
      if (!depth) return false;
      for (size_t i = 0; i < key.list->count; i++)
        if (!hashable_to(key.list->items[i], depth - 1)) return false;
      return true;
    default:
      return true;
  }
}

bool lap_jinja_hashable(value key) {
  return hashable_to(key, MAX_KEY_DEPTH);
}

/* Equal keys have equal hashes: 1, 1.0 and True are one key. */
static uint64_t hash_of(const uint64_t hash_key[2], value key) {
  switch (key.type) {
    case LAP_JINJA_STRING:
      return lap_siphash(hash_key, LAP_JINJA_STRING, key.string->text, key.string->length);
    case LAP_JINJA_TUPLE: {
      uint64_t hash = key.list->count;
      for (size_t i = 0; i < key.list->count; i++) {
        uint64_t item = hash_of(hash_key, key.list->items[i]);
        hash = lap_siphash(hash_key, hash, (const char *)&item, sizeof item);
      }
      return hash;
    }
    case LAP_JINJA_REAL:
      if (key.real >= -0x1p63 && key.real < 0x1p63 && key.real == floor(key.real))
        key = lap_jinja_integer((int64_t)key.real);
      return lap_siphash(hash_key, LAP_JINJA_INTEGER, (const char *)&key.integer, sizeof key.integer);
    case LAP_JINJA_BOOLEAN:
      key = lap_jinja_integer(key.boolean);
      return lap_siphash(hash_key, LAP_JINJA_INTEGER, (const char *)&key.integer, sizeof key.integer);
    case LAP_JINJA_INTEGER:
      return lap_siphash(hash_key, LAP_JINJA_INTEGER, (const char *)&key.integer, sizeof key.integer);
    case LAP_JINJA_UNDEFINED:
    case LAP_JINJA_NONE:
      return lap_siphash(hash_key, key.type, "", 0);
    default:
      return lap_siphash(hash_key, key.type, (const char *)&key.object, sizeof key.object);
  }
}

static bool same_key(value a, value b) {
  if (lap_jinja_is_number(a) && lap_jinja_is_number(b)) return lap_jinja_compare_numbers(a, b) == 0;
  if (a.type != b.type) return false;
  switch (a.type) {
    case LAP_JINJA_UNDEFINED:
    case LAP_JINJA_NONE:
      return true;
    case LAP_JINJA_STRING:
      return lap_jinja_same_text(a.string, b.string);
    case LAP_JINJA_TUPLE:
      if (a.list->count != b.list->count) return false;
      for (size_t i = 0; i < a.list->count; i++)
        if (!same_key(a.list->items[i], b.list->items[i])) return false;
      return true;
    default:
      return a.object == b.object;
  }
}

/* The table's slot for a key, or the free one where it belongs. */
static size_t slot_of(const dict *d, value key, uint64_t hash) {
  size_t mask = d->slots - 1, at = (size_t)hash & mask;
  for (; d->slot[at]; at = (at + 1) & mask) {
    const lap_jinja_entry *entry = &d->entries[d->slot[at] - 1];
    if (entry->hash == hash && same_key(entry->key, key)) break;
  }
  return at;
}

static void fill_table(dict *d) {
  memset(d->slot, 0, d->slots * sizeof *d->slot);
  for (size_t i = 0; i < d->count; i++)
    d->slot[slot_of(d, d->entries[i].key, d->entries[i].hash)] = (uint32_t)i + 1;
}

/* Makes room for one entry more, in the array and, from a certain size on, in a table. */
static bool make_room(arena *a, dict *d) {
  if (d->count == d->capacity) {
    size_t capacity = d->capacity ? d->capacity * 2 : 4;
    lap_jinja_entry *grown = capacity > MAX_ENTRIES ? lap_jinja_take(a, SIZE_MAX)
                                                    : lap_jinja_grow(a, d->entries, d->count * sizeof *grown,
                                                                     capacity * sizeof *grown);
    if (!grown) return false;
    d->entries = grown;
    d->capacity = capacity;
  }
  if (d->count < SMALL_DICT || (d->slot && d->count < d->slots / 2)) return true;
  size_t slots = d->slot ? d->slots * 2 : 4 * SMALL_DICT;
  uint32_t *slot = lap_jinja_take_array(a, slots, sizeof *slot);
  if (!slot) return false;
  if (!d->slot)
    for (size_t i = 0; i < d->count; i++) d->entries[i].hash = hash_of(d->hash_key, d->entries[i].key);
  d->slot = slot;
  d->slots = slots;
  fill_table(d);
  return true;
}

dict *lap_jinja_dict_create(arena *a) {
  dict *d = lap_jinja_take(a, sizeof *d);
  if (d) *d = (dict){.hash_key = a->hash_key};
  return d;
}

value *lap_jinja_dict_find(const dict *d, value key) {
  if (d->slot) {
    uint32_t entry = d->slot[slot_of(d, key, hash_of(d->hash_key, key))];
    return entry ? &d->entries[entry - 1].value : NULL;
  }
  for (size_t i = 0; i < d->count; i++)
    if (same_key(d->entries[i].key, key)) return &d->entries[i].value;
  return NULL;
}

void lap_jinja_dict_put(arena *a, dict *d, value key, value item) {
  value *old = lap_jinja_dict_find(d, key);
  if (old) {
    *old = item;
    return;
  }
  if (!make_room(a, d)) return;
  lap_jinja_entry *entry = &d->entries[d->count];
  *entry = (lap_jinja_entry){.key = key, .value = item};
  if (d->slot) {
    entry->hash = hash_of(d->hash_key, key);
    d->slot[slot_of(d, key, entry->hash)] = (uint32_t)d->count + 1;
  }
  d->count++;
}

bool lap_jinja_dict_remove(dict *d, value key, value *out) {
  value *found = lap_jinja_dict_find(d, key);
  if (!found) return false;
  *out = *found;
  size_t at = (size_t)((const lap_jinja_entry *)((const char *)found - offsetof(lap_jinja_entry, value)) -
                       d->entries);
  memmove(&d->entries[at], &d->entries[at + 1], (d->count - at - 1) * sizeof *d->entries);
  d->count--;
  if (d->slot) fill_table(d);
  return true;
}

void lap_jinja_dict_clear(dict *d) {
  d->count = 0;
  if (d->slot) fill_table(d);
}

value lap_jinja_new_dict(lap_jinja_arena *a) {
  dict *d = lap_jinja_dict_create(a);
  return d ? (value){.type = LAP_JINJA_DICT, .dict = d} : lap_jinja_undefined();
}

void lap_jinja_set(lap_jinja_arena *a, value container, const char *key, value item) {
  if (container.type != LAP_JINJA_DICT) return;
  value name = lap_jinja_text(a, key, strlen(key), false);
  if (name.type == LAP_JINJA_STRING) lap_jinja_dict_put(a, container.dict, name, item);
}

value lap_jinja_get(value container, const char *key) {
  string name = {.text = key, .length = strlen(key)};
  value wanted = lap_jinja_string_value(&name);
  value *found = container.type == LAP_JINJA_DICT ? lap_jinja_dict_find(container.dict, wanted) : NULL;
  return found ? *found : lap_jinja_undefined();
}

/* ---- from JSON ---- */

/* The parser limits the depth. */
value lap_jinja_from_json(lap_jinja_arena *a, const lap_json *json) {
  switch (json->type) {
    case LAP_JSON_NULL:
      return lap_jinja_none();
    case LAP_JSON_BOOL:
      return lap_jinja_boolean(json->boolean);
    case LAP_JSON_INTEGER:
      return lap_jinja_integer(json->integer);
    case LAP_JSON_REAL:
      return lap_jinja_real(json->real);
    case LAP_JSON_STRING:
      return lap_jinja_text(a, json->string, json->length, false);
    case LAP_JSON_ARRAY: {
      value items = lap_jinja_new_list(a);
      for (const lap_json *child = json->child; child; child = child->next)
        lap_jinja_append(a, items, lap_jinja_from_json(a, child));
      return items;
    }
    case LAP_JSON_OBJECT: {
      value members = lap_jinja_new_dict(a);
      for (const lap_json *child = json->child; child; child = child->next)
        lap_jinja_set(a, members, child->key, lap_jinja_from_json(a, child));
      return members;
    }
  }
  return lap_jinja_undefined();
}
