/* checkpoint_writer.h: tiny synthetic checkpoints, and safetensors files of any content.
 *
 * A spec says the structure; the writer makes a config.json and a safetensors file that agree with
 * each other. Weights are pseudo-random and depend on the tensor's name below the prefix only, so the
 * same model in two spellings holds the same numbers. */
#ifndef LAP_TESTS_CHECKPOINT_WRITER_H
#define LAP_TESTS_CHECKPOINT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a safetensors file in memory ---- */

typedef struct tensor_file tensor_file;

tensor_file *tensor_file_new(void);
void tensor_file_free(tensor_file *file);

/* Adds a tensor after those before it; `dtype` as the format spells it (F32, BF16, U32). `name` without
 * its first `skip` characters decides the content. */
void tensor_file_add(tensor_file *file, const char *name, size_t skip, const char *dtype, int rank,
                     const int64_t *shape);

/* The file's bytes, malloc'd. */
unsigned char *tensor_file_bytes(const tensor_file *file, size_t *length);

/* A file made of a header text and `data_bytes` zero bytes, malloc'd. */
unsigned char *raw_tensor_file(const char *header, size_t data_bytes, size_t *length);

/* ---- checkpoints ---- */

typedef struct checkpoint_spec {
  const char *prefix;     /* "language_model.model." ... */
  const char *key_prefix; /* of the quantization map's keys; NULL = prefix */
  bool nested;            /* text fields in text_config */
  int hidden, layers, period, intermediate, vocab;
  int heads, kv_heads, global_kv_heads; /* the last 0 = null */
  int head_dim, global_head_dim, window;
  int shared_layers, per_layer_width;
  bool k_eq_v, double_wide;
  bool unused_sharer_kv; /* sharers carry k_proj, v_proj, k_norm that nothing uses */
  bool no_layer_scalar;
  const char *head;              /* an untied head of this name ("lm_head"), or NULL */
  int experts, top_k, moe_width; /* experts 0 = dense */
  int bits, group;               /* the map's defaults; bits 0 = no map, everything dense */
  int mlp_bits;                  /* overrides for mlp.*; 0 = none */
  int router_bits;               /* override for router.proj; 0 = none */
  int projection_bits;           /* of per_layer_model_projection; 0 = dense, and `false` in the map */
  const char *dense;             /* a module below the prefix with a `false` entry, or NULL */
  const char *text_extra;        /* more members for the text fields, each with a comma after it, or NULL */
} checkpoint_spec;

/* The published structures in small: layers, sharing, patterns and flags as they are, widths tiny. */
extern const checkpoint_spec spec_e2b, spec_e4b, spec_12b, spec_26b, spec_31b;

typedef struct checkpoint {
  char *config; /* text, terminated */
  unsigned char *weights;
  size_t weight_bytes;
} checkpoint;

checkpoint checkpoint_make(const checkpoint_spec *spec);
void checkpoint_free(checkpoint *made);

/* Writes config.json and model.safetensors into `directory`, which must exist. */
void checkpoint_save(const checkpoint *made, const char *directory);

/* ---- files and texts ---- */

/* A new directory below /tmp, malloc'd; and its removal with the files and empty directories in it. */
char *make_directory(void);
void remove_directory(char *directory);

void write_file(const char *directory, const char *name, const void *data, size_t length);

/* `text` with the first `from` replaced by `to`, malloc'd; fails the test if `from` is not in it. */
char *replaced(const char *text, const char *from, const char *to);

#endif
