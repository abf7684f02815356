/* safetensors.c: headers are checked, then believed.
 *
 * A file is eight bytes of header length, a JSON header, and data that the tensors must tile exactly:
 * sorted by offset, each begins where the one before it ended, the first at 0, the last ends with the
 * file. That one rule excludes overlaps, gaps, trailing bytes and anything past the end.
 *
 * Invariant: a table entry is made only after its dtype, dims, and offsets agree with each other and
 * with the file's size, all in checked 64-bit arithmetic; no address is formed before. Names and file
 * names are copied, so that nothing refers to a parsed header afterwards. */
#include "checkpoint/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"

enum {
  PREFIX_BYTES = 8,
  MAX_HEADER_BYTES = 100000000,
  MAX_INDEX_BYTES = 100000000
};
enum {
  MAX_SHARDS = 4096,
  MAX_SHOWN_NAME = 120
};

typedef struct mapping {
  char *path;
  char *names; /* of its tensors, one after the other */
  const unsigned char *data;
  uint64_t bytes;
  bool mapped; /* else the caller's memory */
} mapping;

struct lap_tensors {
  mapping *file;
  int files;
  lap_tensor *tensor;
  int32_t count, capacity;
};

/* ---- dtypes ---- */

/* Every type of the format, so that files of other models (a vision tower in F64) can be opened. */
static const struct {
  const char *name;
  unsigned bits;
  lap_dtype dtype;
} dtypes[] = {
    {"F32", 32, LAP_F32},          {"F16", 16, LAP_F16},      {"BF16", 16, LAP_BF16},
    {"U32", 32, LAP_U32},          {"U8", 8, LAP_U8},         {"I32", 32, LAP_I32},
    {"I64", 64, LAP_I64},          {"F64", 64, LAP_OTHER},    {"U64", 64, LAP_OTHER},
    {"I16", 16, LAP_OTHER},        {"U16", 16, LAP_OTHER},    {"I8", 8, LAP_OTHER},
    {"BOOL", 8, LAP_OTHER},        {"C64", 64, LAP_OTHER},    {"F8_E4M3", 8, LAP_OTHER},
    {"F8_E5M2", 8, LAP_OTHER},     {"F8_E8M0", 8, LAP_OTHER}, {"F8_E4M3FNUZ", 8, LAP_OTHER},
    {"F8_E5M2FNUZ", 8, LAP_OTHER}, {"F6_E2M3", 6, LAP_OTHER}, {"F6_E3M2", 6, LAP_OTHER},
    {"F4", 4, LAP_OTHER},
};

enum {
  DTYPES = sizeof dtypes / sizeof dtypes[0]
};

const char *lap_dtype_name(lap_dtype dtype) {
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i].dtype == dtype && dtype != LAP_OTHER) return dtypes[i].name;
  return "other";
}

size_t lap_dtype_bytes(lap_dtype dtype) {
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i].dtype == dtype && dtype != LAP_OTHER) return dtypes[i].bits / 8;
  return 0;
}

/* ---- one entry of a header ---- */

static lap_status read_dtype(const lap_json_document *header, const lap_json *entry, lap_tensor *out,
                             unsigned *bits, lap_error *error) {
  const char *name = NULL;
  lap_status status = lap_json_get_string(header, entry, "dtype", &name, error);
  if (status != LAP_OK) return status;
  if (!name) return lap_json_fail(header, entry, error, "dtype is missing");
  for (int i = 0; i < DTYPES; i++) {
    if (strcmp(dtypes[i].name, name)) continue;
    out->dtype = dtypes[i].dtype;
    *bits = dtypes[i].bits;
    return LAP_OK;
  }
  return lap_json_fail(header, lap_json_get(header, entry, "dtype"), error, "unknown dtype '%.20s'", name);
}

static lap_status read_shape(const lap_json_document *header, const lap_json *entry, lap_tensor *out,
                             lap_error *error) {
  const lap_json *shape = lap_json_get(header, entry, "shape");
  if (!shape || shape->type != LAP_JSON_ARRAY)
    return lap_json_fail(header, shape ? shape : entry, error, "shape must be an array of sizes");
  if (shape->length > LAP_MAX_RANK)
    return lap_json_fail(header, shape, error, "%zu dimensions, more than %d", shape->length, LAP_MAX_RANK);
  for (const lap_json *dim = shape->child; dim; dim = dim->next) {
    if (dim->type != LAP_JSON_INTEGER || dim->integer < 0)
      return lap_json_fail(header, dim, error, "a size must be an integer of at least 0 (and below 2^63)");
    out->shape[out->rank++] = dim->integer;
  }
  return LAP_OK;
}

static lap_status read_offsets(const lap_json_document *header, const lap_json *entry, uint64_t data_bytes,
                               uint64_t *begin, uint64_t *end, lap_error *error) {
  const lap_json *offsets = lap_json_get(header, entry, "data_offsets");
  if (!offsets || offsets->type != LAP_JSON_ARRAY || offsets->length != 2)
    return lap_json_fail(header, offsets ? offsets : entry, error,
                         "data_offsets must be an array [begin, end]");
  const lap_json *first = offsets->child, *second = first->next;
  if (first->type != LAP_JSON_INTEGER || second->type != LAP_JSON_INTEGER || first->integer < 0)
    return lap_json_fail(header, offsets, error, "must be integers of at least 0");
  if (second->integer < first->integer)
    return lap_json_fail(header, offsets, error, "[%lld, %lld] are reversed", (long long)first->integer,
                         (long long)second->integer);
  if ((uint64_t)second->integer > data_bytes)
    return lap_json_fail(header, offsets, error, "end %lld is beyond the %llu bytes of data in the file",
                         (long long)second->integer, (unsigned long long)data_bytes);
  *begin = (uint64_t)first->integer;
  *end = (uint64_t)second->integer;
  return LAP_OK;
}

/* Bytes that the shape needs, or false if they do not fit 64 bits or are no whole number. */
static bool shape_bytes(const lap_tensor *tensor, unsigned element_bits, uint64_t *out) {
  uint64_t bits = element_bits;
  for (int i = 0; i < tensor->rank; i++)
    if (__builtin_mul_overflow(bits, (uint64_t)tensor->shape[i], &bits)) return false;
  *out = bits / 8;
  return bits % 8 == 0;
}

static lap_status read_entry(const lap_json_document *header, const lap_json *entry,
                             const unsigned char *data, uint64_t data_bytes, lap_tensor *out,
                             lap_error *error) {
  unsigned bits = 0;
  uint64_t begin = 0, end = 0, needed;
  if (entry->type != LAP_JSON_OBJECT) return lap_json_fail(header, entry, error, "must be an object");
  lap_status status = read_dtype(header, entry, out, &bits, error);
  if (status == LAP_OK) status = read_shape(header, entry, out, error);
  if (status == LAP_OK) status = read_offsets(header, entry, data_bytes, &begin, &end, error);
  if (status != LAP_OK) return status;
  if (!shape_bytes(out, bits, &needed))
    return lap_json_fail(header, lap_json_get(header, entry, "shape"), error,
                         "the product of the sizes is no number of bytes below 2^61");
  if (end - begin != needed)
    return lap_json_fail(header, entry, error, "data_offsets span %llu bytes, but shape and dtype need %llu",
                         (unsigned long long)(end - begin), (unsigned long long)needed);
  out->data = data + begin;
  out->bytes = needed;
  return LAP_OK;
}

/* ---- one file ---- */

static int by_data(const void *a, const void *b) {
  const lap_tensor *x = *(const lap_tensor *const *)a, *y = *(const lap_tensor *const *)b;
  if (x->data != y->data) return x->data < y->data ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors must tile the data; `order` is scratch. */
static lap_status check_tiling(const char *path, const lap_tensor *tensor, const lap_tensor **order,
                               size_t count, const unsigned char *data, uint64_t data_bytes,
                               lap_error *error) {
  for (size_t i = 0; i < count; i++) order[i] = &tensor[i];
  qsort(order, count, sizeof(const lap_tensor *), by_data);
  const unsigned char *expected = data;
  for (size_t i = 0; i < count; i++) {
    if (order[i]->data != expected)
      return lap_fail(error, LAP_ERROR_FORMAT, "%s: %.*s: data_offsets %s the tensor before it%s", path,
                      MAX_SHOWN_NAME, order[i]->name,
                      order[i]->data < expected ? "overlap" : "leave a gap after",
                      i ? "" : " (the data must begin at 0)");
    expected += order[i]->bytes;
  }
  uint64_t used = (uint64_t)(expected - data);
  if (used != data_bytes)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: %llu trailing bytes that belong to no tensor", path,
                    (unsigned long long)(data_bytes - used));
  return LAP_OK;
}

static bool grow_table(lap_tensors *tensors, size_t more) {
  if (more > (size_t)(INT32_MAX - tensors->count)) return false;
  int32_t needed = tensors->count + (int32_t)more;
  if (needed <= tensors->capacity) return true;
  lap_tensor *larger = realloc(tensors->tensor, (size_t)needed * sizeof *larger);
  if (!larger) return false;
  tensors->tensor = larger;
  tensors->capacity = needed;
  return true;
}

static bool is_metadata(const lap_json *entry) {
  return !strcmp(entry->key, "__metadata__");
}

static size_t names_bytes(const lap_json *root) {
  size_t bytes = 1;
  for (const lap_json *entry = root->child; entry; entry = entry->next) bytes += strlen(entry->key) + 1;
  return bytes;
}

static lap_status add_entries(lap_tensors *tensors, mapping *file, const lap_json_document *header,
                              const unsigned char *data, uint64_t data_bytes, lap_error *error) {
  const lap_json *root = lap_json_root(header);
  if (root->type != LAP_JSON_OBJECT)
    return lap_json_fail(header, NULL, error, "the header must be a JSON object");
  if (!root->length) return lap_json_fail(header, NULL, error, "no tensors in the file");
  const lap_tensor **order = malloc(root->length * sizeof(const lap_tensor *));
  file->names = malloc(names_bytes(root));
  lap_status status = LAP_OK;
  if (!order || !file->names || !grow_table(tensors, root->length)) {
    status = lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", file->path);
    goto cleanup;
  }
  char *name = file->names;
  int32_t first = tensors->count;
  for (const lap_json *entry = root->child; entry; entry = entry->next) {
    if (is_metadata(entry)) continue;
    lap_tensor tensor = {.name = name, .file = file->path};
    status = read_entry(header, entry, data, data_bytes, &tensor, error);
    if (status != LAP_OK) goto cleanup;
    name = stpcpy(name, entry->key) + 1;
    tensors->tensor[tensors->count++] = tensor;
  }
  status = check_tiling(file->path, tensors->tensor + first, order, (size_t)(tensors->count - first), data,
                        data_bytes, error);
cleanup:
  free(order);
  return status;
}

static lap_status read_header(lap_tensors *tensors, mapping *file, lap_error *error) {
  if (file->bytes < PREFIX_BYTES)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: header length: the file has only %llu bytes", file->path,
                    (unsigned long long)file->bytes);
  uint64_t header_bytes = lap_load_u64(file->data), rest = file->bytes - PREFIX_BYTES;
  if (header_bytes == 0 || header_bytes > rest || header_bytes > MAX_HEADER_BYTES)
    return lap_fail(error, LAP_ERROR_FORMAT,
                    "%s: header length: %llu is not in 1..%llu (the rest of the file, at most 100 MB)",
                    file->path, (unsigned long long)header_bytes,
                    (unsigned long long)(rest < MAX_HEADER_BYTES ? rest : MAX_HEADER_BYTES));
  lap_json_document *header = NULL;
  lap_status status = lap_json_parse((const char *)file->data + PREFIX_BYTES, (size_t)header_bytes,
                                     file->path, &header, error);
  if (status != LAP_OK) return status;
  status = add_entries(tensors, file, header, file->data + PREFIX_BYTES + header_bytes, rest - header_bytes,
                       error);
  lap_json_free(header);
  return status;
}

static lap_status map_file(mapping *file, lap_error *error) {
  int descriptor;
  lap_status status = lap_file_open(file->path, &descriptor, &file->bytes, error);
  if (status != LAP_OK) return status;
  if (file->bytes < PREFIX_BYTES) {
    status = lap_fail(error, LAP_ERROR_FORMAT, "%s: header length: the file has only %llu bytes", file->path,
                      (unsigned long long)file->bytes);
  } else {
    void *data = mmap(NULL, (size_t)file->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    file->mapped = data != MAP_FAILED;
    if (file->mapped)
      file->data = data;
    else
      status = lap_fail(error, LAP_ERROR_IO, "%s: cannot be mapped: %s", file->path, strerror(errno));
  }
  close(descriptor);
  return status;
}

/* Takes its place in the set before it is read, so that closing the set releases it. */
static mapping *new_file(lap_tensors *tensors, const char *path) {
  mapping *file = &tensors->file[tensors->files];
  *file = (mapping){.path = strdup(path)};
  if (!file->path) return NULL;
  tensors->files++;
  return file;
}

static lap_status add_file(lap_tensors *tensors, const char *path, lap_error *error) {
  mapping *file = new_file(tensors, path);
  if (!file) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", path);
  lap_status status = map_file(file, error);
  return status == LAP_OK ? read_header(tensors, file, error) : status;
}

/* ---- sets ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const lap_tensor *)a)->name, ((const lap_tensor *)b)->name);
}

/* Within a file the JSON layer has refused duplicates; between shards this does. */
static lap_status sort_table(lap_tensors *tensors, lap_error *error) {
  if (tensors->count == 0)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: no tensors in the file", tensors->file[0].path);
  qsort(tensors->tensor, (size_t)tensors->count, sizeof *tensors->tensor, by_name);
  for (int32_t i = 1; i < tensors->count; i++) {
    const lap_tensor *a = &tensors->tensor[i - 1], *b = &tensors->tensor[i];
    if (!strcmp(a->name, b->name))
      return lap_fail(error, LAP_ERROR_FORMAT, "%s: %.*s: this tensor also stands in %s", b->file,
                      MAX_SHOWN_NAME, b->name, a->file);
  }
  return LAP_OK;
}

static lap_tensors *new_set(int files) {
  lap_tensors *tensors = calloc(1, sizeof *tensors);
  if (!tensors) return NULL;
  tensors->file = calloc((size_t)files, sizeof *tensors->file);
  if (tensors->file) return tensors;
  free(tensors);
  return NULL;
}

/* Hands the set over, or releases it if something failed. */
static lap_status finish(lap_tensors *tensors, lap_status status, lap_tensors **out, lap_error *error) {
  if (status == LAP_OK) status = sort_table(tensors, error);
  if (status != LAP_OK) {
    lap_tensors_close(tensors);
    return status;
  }
  *out = tensors;
  return LAP_OK;
}

lap_status lap_tensors_open_file(const char *path, lap_tensors **out, lap_error *error) {
  *out = NULL;
  lap_tensors *tensors = new_set(1);
  if (!tensors) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", path);
  return finish(tensors, add_file(tensors, path, error), out, error);
}

lap_status lap_tensors_open_memory(const unsigned char *data, uint64_t file_bytes, const char *name,
                                   lap_tensors **out, lap_error *error) {
  *out = NULL;
  lap_tensors *tensors = new_set(1);
  mapping *file = tensors ? new_file(tensors, name) : NULL;
  if (!file) {
    lap_tensors_close(tensors);
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
  }
  file->data = data;
  file->bytes = file_bytes;
  return finish(tensors, read_header(tensors, file, error), out, error);
}

/* ---- shards ---- */

static char *join(const char *directory, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static int by_string(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static lap_status check_shard_name(const lap_json_document *index, const lap_json *entry, lap_error *error) {
  if (entry->type != LAP_JSON_STRING || strlen(entry->string) != entry->length)
    return lap_json_fail(index, entry, error, "must be the name of a file");
  const char *name = entry->string;
  if (!*name || *name == '.' || strchr(name, '/'))
    return lap_json_fail(index, entry, error, "'%.80s' must be a plain file name in the same directory",
                         name);
  return LAP_OK;
}

/* The distinct file names of the map, sorted: `names` has room for all entries. */
static lap_status list_shards(const lap_json_document *index, const lap_json *map, const char **names,
                              size_t *count, lap_error *error) {
  size_t all = 0, distinct = 0;
  for (const lap_json *entry = map->child; entry; entry = entry->next) {
    lap_status status = check_shard_name(index, entry, error);
    if (status != LAP_OK) return status;
    names[all++] = entry->string;
  }
  qsort(names, all, sizeof *names, by_string);
  for (size_t i = 0; i < all; i++)
    if (!distinct || strcmp(names[distinct - 1], names[i])) names[distinct++] = names[i];
  *count = distinct;
  if (distinct > MAX_SHARDS)
    return lap_json_fail(index, map, error, "names %zu files, more than %d", distinct, (int)MAX_SHARDS);
  return LAP_OK;
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Tensors that the map does not list stay in the set: readers that ignore the map see them too. */
static lap_status check_map(const lap_tensors *tensors, const lap_json_document *index, const lap_json *map,
                            lap_error *error) {
  for (const lap_json *entry = map->child; entry; entry = entry->next) {
    int32_t at = lap_tensors_find(tensors, entry->key);
    if (at < 0 || strcmp(file_name(tensors->tensor[at].file), entry->string))
      return lap_json_fail(index, entry, error, "this tensor is not in %.80s", entry->string);
  }
  return LAP_OK;
}

static lap_status open_shards(const char *directory, const lap_json_document *index, lap_tensors **out,
                              lap_error *error) {
  const lap_json *map = lap_json_get(index, lap_json_root(index), "weight_map");
  if (!map || map->type != LAP_JSON_OBJECT || !map->child)
    return lap_json_fail(index, map, error, "%s",
                         map ? "must be an object that is not empty" : "weight_map: missing");
  size_t count = 0;
  lap_tensors *tensors = NULL, *opened = NULL;
  const char **names = malloc(map->length * sizeof *names);
  lap_status status = names ? list_shards(index, map, names, &count, error)
                            : lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", directory);
  if (status != LAP_OK) goto cleanup;
  tensors = new_set((int)count);
  if (!tensors) {
    status = lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", directory);
    goto cleanup;
  }
  for (size_t i = 0; i < count && status == LAP_OK; i++) {
    char *path = join(directory, names[i]);
    status = path ? add_file(tensors, path, error)
                  : lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", directory);
    free(path);
  }
  status = finish(tensors, status, &opened, error);
  if (status == LAP_OK) status = check_map(opened, index, map, error);
  if (status == LAP_OK)
    *out = opened;
  else
    lap_tensors_close(opened);
cleanup:
  free(names);
  return status;
}

static lap_status open_index(const char *directory, const char *path, lap_tensors **out, lap_error *error) {
  lap_json_document *index = NULL;
  lap_status status = lap_json_read(path, MAX_INDEX_BYTES, &index, error);
  if (status == LAP_OK) status = open_shards(directory, index, out, error);
  lap_json_free(index);
  return status;
}

lap_status lap_tensors_open(const char *directory, lap_tensors **out, lap_error *error) {
  *out = NULL;
  lap_status status;
  char *index = join(directory, "model.safetensors.index.json"),
       *single = join(directory, "model.safetensors");
  if (!index || !single)
    status = lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", directory);
  else if (access(index, F_OK) == 0)
    status = open_index(directory, index, out, error);
  else
    status = lap_tensors_open_file(single, out, error);
  free(index);
  free(single);
  return status;
}

void lap_tensors_close(lap_tensors *tensors) {
  if (!tensors) return;
  for (int i = 0; i < tensors->files; i++) {
    mapping *file = &tensors->file[i];
    /* munmap takes a pointer to memory that may be written, which this never was. */
    if (file->mapped) munmap((void *)(uintptr_t)file->data, (size_t)file->bytes);
    free(file->names);
    free(file->path);
  }
  free(tensors->file);
  free(tensors->tensor);
  free(tensors);
}

int32_t lap_tensors_count(const lap_tensors *tensors) {
  return tensors->count;
}

const lap_tensor *lap_tensors_at(const lap_tensors *tensors, int32_t index) {
  return &tensors->tensor[index];
}

int32_t lap_tensors_find(const lap_tensors *tensors, const char *name) {
  int32_t low = 0, high = tensors->count;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    int order = strcmp(tensors->tensor[middle].name, name);
    if (order == 0) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

uint64_t lap_tensors_file_bytes(const lap_tensors *tensors) {
  uint64_t bytes = 0;
  for (int i = 0; i < tensors->files; i++) bytes += tensors->file[i].bytes;
  return bytes;
}
