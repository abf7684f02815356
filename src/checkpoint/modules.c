/* modules.c: matches what the configuration says of a module with what its tensors are.
 *
 * The quantization map is the authority on bits and groups, the tensors on whether a module is
 * quantized at all (it has `.scales`), and shapes must bear out both: packed columns * 32 =
 * in_features * bits, and scale columns * group_size = in_features. A module that contradicts itself
 * is refused by name, with the shapes found and the shapes needed. */
#include "checkpoint/modules.h"

#include <stdio.h>
#include <string.h>

enum {
  MAX_NAME = 256,
  MAX_SHAPE_TEXT = 200
};

/* Conversions of the multimodal model, text-only ones, untouched Hugging Face names, bare names. */
static const char *const prefixes[] = {"language_model.model.", "model.language_model.", "model.",
                                       "language_model.", ""};
enum {
  PREFIXES = sizeof prefixes / sizeof prefixes[0]
};

lap_status lap_modules_open(const lap_config *config, const lap_tensors *tensors, lap_modules *modules,
                            lap_error *error) {
  *modules = (lap_modules){.config = config, .tensors = tensors};
  for (int i = 0; i < PREFIXES; i++) {
    modules->prefix = prefixes[i];
    if (lap_modules_find(modules, "embed_tokens", ".weight") >= 0) return LAP_OK;
  }
  return lap_fail(
      error, LAP_ERROR_FORMAT,
      "%s: embed_tokens.weight: not found under language_model.model., model.language_model., model., "
      "language_model. or without a prefix",
      lap_tensors_at(tensors, 0)->file);
}

int32_t lap_modules_find(const lap_modules *modules, const char *path, const char *suffix) {
  char name[MAX_NAME];
  int n = snprintf(name, sizeof name, "%s%s%s", modules->prefix, path, suffix);
  return n < MAX_NAME ? lap_tensors_find(modules->tensors, name) : -1;
}

int64_t lap_modules_rows(const lap_modules *modules, const char *path, const char *suffix) {
  int32_t at = lap_modules_find(modules, path, suffix);
  if (at < 0) return -1;
  const lap_tensor *tensor = lap_tensors_at(modules->tensors, at);
  return tensor->rank ? tensor->shape[0] : 1;
}

/* ---- shapes ---- */

typedef struct shape {
  int rank;
  int64_t dim[LAP_MAX_RANK];
} shape;

static const char *shape_text(const shape *s, char text[MAX_SHAPE_TEXT]) {
  int used = snprintf(text, MAX_SHAPE_TEXT, "[");
  for (int i = 0; i < s->rank; i++)
    used +=
        snprintf(text + used, (size_t)(MAX_SHAPE_TEXT - used), "%s%lld", i ? ", " : "", (long long)s->dim[i]);
  snprintf(text + used, (size_t)(MAX_SHAPE_TEXT - used), "]");
  return text;
}

static shape shape_of(const lap_tensor *tensor) {
  shape s = {.rank = tensor->rank};
  memcpy(s.dim, tensor->shape, sizeof s.dim);
  return s;
}

/* [rows, columns] or [experts, rows, columns]. */
static shape matrix(int32_t experts, int64_t rows, int64_t columns) {
  if (experts) return (shape){3, {experts, rows, columns}};
  return (shape){2, {rows, columns}};
}

static bool same_shape(const lap_tensor *tensor, const shape *s) {
  return tensor->rank == s->rank && !memcmp(tensor->shape, s->dim, (size_t)s->rank * sizeof *s->dim);
}

static bool is_float(lap_dtype dtype) {
  return dtype == LAP_F32 || dtype == LAP_F16 || dtype == LAP_BF16;
}

/* ---- the quantization map ---- */

/* Converters differ in the prefix of the keys; the tensors' own spelling is tried first. */
static const lap_json *find_override(const lap_config *config, const char *prefix, const char *path) {
  char name[MAX_NAME];
  for (int i = -1; i < PREFIXES; i++) {
    int n = snprintf(name, sizeof name, "%s%s", i < 0 ? prefix : prefixes[i], path);
    const lap_json *entry = n < MAX_NAME ? lap_json_get(config->document, config->quantization, name) : NULL;
    if (entry && entry->type != LAP_JSON_NULL) return entry;
  }
  return NULL;
}

static lap_status read_settings(const lap_config *config, const lap_json *object, lap_quantization *out,
                                lap_error *error) {
  out->entry = object;
  lap_status status =
      lap_json_get_integer(config->document, object, "bits", INT32_MIN, INT32_MAX, &out->bits, error);
  if (status == LAP_OK)
    status = lap_json_get_integer(config->document, object, "group_size", INT32_MIN, INT32_MAX,
                                  &out->group_size, error);
  if (status == LAP_OK) status = lap_json_get_string(config->document, object, "mode", &out->mode, error);
  return status;
}

lap_status lap_quantization_of(const lap_config *config, const char *prefix, const char *path,
                               lap_quantization *out, lap_error *error) {
  *out = (lap_quantization){.mode = "affine", .entry = config->quantization};
  if (!config->quantization) return LAP_OK;
  lap_status status = read_settings(config, config->quantization, out, error);
  if (status != LAP_OK) return status;
  const lap_json *override = find_override(config, prefix, path);
  if (!override) return LAP_OK;
  if (override->type == LAP_JSON_OBJECT) return read_settings(config, override, out, error);
  if (override->type != LAP_JSON_BOOL)
    return lap_json_fail(config->document, override, error, "must be an object, true or false");
  out->entry = override;
  out->dense = !override->boolean;
  return LAP_OK;
}

static lap_status check_settings(const lap_modules *modules, const char *path, const lap_quantization *s,
                                 int32_t in_features, lap_error *error) {
  const lap_json_document *document = modules->config->document;
  const char *prefix = modules->prefix;
  if (!s->entry)
    return lap_json_fail(document, NULL, error, "quantization: missing, but %s%s has scales", prefix, path);
  if (s->dense)
    return lap_json_fail(document, s->entry, error,
                         "says that %s%s is not quantized, but the tensors have scales", prefix, path);
  if (strcmp(s->mode, "affine"))
    return lap_config_unsupported(document, s->entry, error, "mode '%.20s' of %s%s; only affine is computed",
                                  s->mode, prefix, path);
  if (s->bits < 2 || s->bits > 8 || s->bits == 7)
    return lap_json_fail(document, s->entry, error, "bits: %lld for %s%s; must be 2, 3, 4, 5, 6 or 8",
                         (long long)s->bits, prefix, path);
  if (s->group_size != 32 && s->group_size != 64 && s->group_size != 128)
    return lap_json_fail(document, s->entry, error, "group_size: %lld for %s%s; must be 32, 64 or 128",
                         (long long)s->group_size, prefix, path);
  if (in_features % s->group_size)
    return lap_json_fail(document, s->entry, error, "group_size: %lld does not divide the %d inputs of %s%s",
                         (long long)s->group_size, in_features, prefix, path);
  return LAP_OK;
}

/* ---- linears ---- */

static lap_status match_dense(const lap_modules *modules, const char *path, const shape *needed,
                              lap_linear *out, lap_error *error) {
  const lap_tensor *weight = lap_tensors_at(modules->tensors, out->weight);
  char found_text[MAX_SHAPE_TEXT], needed_text[MAX_SHAPE_TEXT];
  if (!is_float(weight->dtype))
    return lap_fail(error, LAP_ERROR_FORMAT,
                    "%s: %s%s: weight is %s without scales; must be F32, F16 or BF16", weight->file,
                    modules->prefix, path, lap_dtype_name(weight->dtype));
  shape found = shape_of(weight);
  if (!same_shape(weight, needed))
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: %s%s: weight is %s, but the configuration needs %s",
                    weight->file, modules->prefix, path, shape_text(&found, found_text),
                    shape_text(needed, needed_text));
  out->dtype = weight->dtype;
  return LAP_OK;
}

static lap_status check_quantized_dtypes(const lap_modules *modules, const char *path,
                                         const lap_linear *linear, lap_error *error) {
  const lap_tensor *weight = lap_tensors_at(modules->tensors, linear->weight);
  const lap_tensor *scales = lap_tensors_at(modules->tensors, linear->scales);
  const lap_tensor *biases = lap_tensors_at(modules->tensors, linear->biases);
  if (weight->dtype != LAP_U32)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: %s%s: weight is %s, but packed weights are U32",
                    weight->file, modules->prefix, path, lap_dtype_name(weight->dtype));
  if (!is_float(scales->dtype) || biases->dtype != scales->dtype)
    return lap_fail(error, LAP_ERROR_FORMAT,
                    "%s: %s%s: scales are %s and biases %s; must both be F32, F16 or BF16", scales->file,
                    modules->prefix, path, lap_dtype_name(scales->dtype), lap_dtype_name(biases->dtype));
  return LAP_OK;
}

static lap_status check_quantized_shapes(const lap_modules *modules, const char *path, int32_t experts,
                                         const lap_linear *linear, lap_error *error) {
  const lap_tensor *weight = lap_tensors_at(modules->tensors, linear->weight);
  const lap_tensor *scales = lap_tensors_at(modules->tensors, linear->scales);
  const lap_tensor *biases = lap_tensors_at(modules->tensors, linear->biases);
  shape need_weight = matrix(experts, linear->out_features, (int64_t)linear->in_features * linear->bits / 32);
  shape need_scales = matrix(experts, linear->out_features, linear->in_features / linear->group_size);
  if (same_shape(weight, &need_weight) && same_shape(scales, &need_scales) &&
      same_shape(biases, &need_scales))
    return LAP_OK;
  /* Biases that differ are shown in place of scales that do not. */
  const char *what =
      same_shape(scales, &need_scales) && !same_shape(biases, &need_scales) ? "biases" : "scales";
  shape found_weight = shape_of(weight), found_scales = shape_of(*what == 'b' ? biases : scales);
  char text[4][MAX_SHAPE_TEXT];
  return lap_fail(
      error, LAP_ERROR_FORMAT,
      "%s: %s%s: weight is %s and %s are %s, but %d inputs at %d bits in groups of %d need %s and %s",
      weight->file, modules->prefix, path, shape_text(&found_weight, text[0]), what,
      shape_text(&found_scales, text[1]), linear->in_features, linear->bits, linear->group_size,
      shape_text(&need_weight, text[2]), shape_text(&need_scales, text[3]));
}

static lap_status match_quantized(const lap_modules *modules, const char *path, int32_t experts,
                                  lap_linear *out, lap_error *error) {
  lap_quantization s;
  lap_status status = lap_quantization_of(modules->config, modules->prefix, path, &s, error);
  if (status == LAP_OK) status = check_settings(modules, path, &s, out->in_features, error);
  if (status != LAP_OK) return status;
  out->bits = (int32_t)s.bits;
  out->group_size = (int32_t)s.group_size;
  out->biases = lap_modules_find(modules, path, ".biases");
  if (out->biases < 0)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: %s%s.biases: missing",
                    lap_tensors_at(modules->tensors, out->scales)->file, modules->prefix, path);
  status = check_quantized_dtypes(modules, path, out, error);
  out->dtype = lap_tensors_at(modules->tensors, out->scales)->dtype;
  return status == LAP_OK ? check_quantized_shapes(modules, path, experts, out, error) : status;
}

static lap_status fail_missing(const lap_modules *modules, const char *path, const char *suffix,
                               lap_error *error) {
  return lap_json_fail(modules->config->document, NULL, error,
                       "%s%s%s: the configuration needs this tensor, but the checkpoint does not hold it",
                       modules->prefix, path, suffix);
}

lap_status lap_modules_linear(const lap_modules *modules, const char *path, int32_t experts,
                              int32_t out_features, int32_t in_features, lap_linear *out, lap_error *error) {
  *out = (lap_linear){
      .present = true,
      .out_features = out_features,
      .in_features = in_features,
      .experts = experts ? experts : 1,
      .weight = lap_modules_find(modules, path, ".weight"),
      .scales = lap_modules_find(modules, path, ".scales"),
      .biases = -1,
  };
  if (out->weight < 0) return fail_missing(modules, path, ".weight", error);
  if (out->scales >= 0) return match_quantized(modules, path, experts, out, error);
  shape needed = matrix(experts, out_features, in_features);
  return match_dense(modules, path, &needed, out, error);
}

lap_status lap_modules_vector(const lap_modules *modules, const char *path, int32_t length, lap_vector *out,
                              lap_error *error) {
  int32_t at = lap_modules_find(modules, path, "");
  if (at < 0) return fail_missing(modules, path, "", error);
  const lap_tensor *tensor = lap_tensors_at(modules->tensors, at);
  /* A scalar may have rank 0. */
  bool fits = (tensor->rank == 1 && tensor->shape[0] == length) || (tensor->rank == 0 && length == 1);
  if (!fits || !is_float(tensor->dtype)) {
    char text[MAX_SHAPE_TEXT];
    shape found = shape_of(tensor);
    return lap_fail(error, LAP_ERROR_FORMAT,
                    "%s: %s%s: is %s %s, but the configuration needs [%d] of F32, F16 or BF16", tensor->file,
                    modules->prefix, path, lap_dtype_name(tensor->dtype), shape_text(&found, text), length);
  }
  *out = (lap_vector){.present = true, .length = length, .dtype = tensor->dtype, .tensor = at};
  return LAP_OK;
}

lap_status lap_modules_head(const lap_modules *modules, int32_t out_features, int32_t in_features,
                            lap_linear *out, lap_error *error) {
  lap_modules other = *modules;
  for (int i = 0; i < PREFIXES; i++) {
    other.prefix = prefixes[i];
    if (lap_modules_find(&other, "lm_head", ".weight") >= 0)
      return lap_modules_linear(&other, "lm_head", 0, out_features, in_features, out, error);
  }
  return LAP_OK;
}
