/* program.h: the forward pass of a plan as a list of steps.
 *
 * A step says what it does (kind), what it reads and writes, with which weights and constants, and how its
 * work may be divided. What an emitter turns into text, what `inspect --steps` shows and where threads must
 * wait for each other all come from this list: the order of a layer, names and places in the arena are
 * decided here and nowhere else, and what shares a parallel run is derived here.
 *
 * Layers that are computed by the same code, but for the bits of their weights, are one kind, and stand in
 * the program once, as a part; so do the beginning (embedding) and the end (norm and head). `call` lists the
 * parts in the order of the pass, each with the numbers of its layer. A part ends with the norm that the next
 * one begins with. lap_program_at is the same without parts: the pass as a flat list, step by step. */
#ifndef LAP_PROGRAM_PROGRAM_H
#define LAP_PROGRAM_PROGRAM_H

#include "program/inputs.h"

/* ---- what steps read and write ---- */

/* Buffers of rows, in the arena; and, from LAP_BUFFER_CACHE on, what stands elsewhere. Where quantized forms
 * of a buffer are kept, they are a buffer of their own. */
typedef enum lap_buffer {
  LAP_BUFFER_HIDDEN,   /* the residual stream */
  LAP_BUFFER_EMBEDDED, /* the scaled embedding, which every layer's per-layer input reads */
  LAP_BUFFER_EMBEDDED_FORMS,
  LAP_BUFFER_COSINE_SLIDING, /* a row's RoPE, by attention type: cosines and sines alternate */
  LAP_BUFFER_SINE_SLIDING,
  LAP_BUFFER_COSINE_FULL,
  LAP_BUFFER_SINE_FULL,
  LAP_BUFFER_NORMED, /* a norm's output, the input of products */
  LAP_BUFFER_NORMED_FORMS,
  LAP_BUFFER_PLI,    /* per-layer input */
  LAP_BUFFER_OUTPUT, /* what goes back to the stream; in the room of normed, but where experts read both */
  LAP_BUFFER_QUERY,  /* attention's output takes its place */
  LAP_BUFFER_KEY,
  LAP_BUFFER_VALUE,
  LAP_BUFFER_QUERY_FORMS,
  LAP_BUFFER_GATE, /* of feed-forward and per-layer inputs; in the room of queries, keys and values */
  LAP_BUFFER_GATE_FORMS,
  LAP_BUFFER_TILES,   /* how attention divides the rows */
  LAP_BUFFER_CACHE,   /* keys and values of the donor that the layer reads */
  LAP_BUFFER_EXPERTS, /* memory of the mixture of experts, a tile of rows at a time */
  LAP_BUFFER_GIVEN,   /* hidden rows of those who want them */
  LAP_BUFFER_LOGITS,
  LAP_BUFFERS,
  LAP_BUFFERS_OF_ROWS = LAP_BUFFER_CACHE
} lap_buffer;

/* Where a buffer stands, in bytes for each row of the pass: it begins at `at` times rows. */
typedef struct lap_place {
  int64_t at; /* -1: the model has no such thing, or it is not in the arena */
  int64_t bytes;
} lap_place;

/* The inputs of products: each has the forms that its readers want. */
typedef enum lap_product_input {
  LAP_INPUT_NONE, /* floats */
  LAP_INPUT_NORMED,
  LAP_INPUT_EMBEDDED,
  LAP_INPUT_ATTENTION,
  LAP_INPUT_MLP,
  LAP_INPUT_PER_LAYER,
  LAP_INPUT_ROUTER,
  LAP_INPUT_EXPERT,
  LAP_INPUT_EXPERT_WIDE,
  LAP_INPUTS
} lap_product_input;

typedef struct lap_operand {
  lap_buffer buffer;
  int32_t width;           /* elements of a row; 0 where that has no meaning */
  lap_product_input forms; /* whose forms a buffer of forms holds */
} lap_operand;

/* ---- steps ---- */

typedef enum lap_step_kind {
  LAP_STEP_EMBED,      /* hidden = scale * embed[id], or what the row brings; its RoPE; embedded = hidden */
  LAP_STEP_NORM,       /* normed = rms_norm(hidden; vector), in its forms */
  LAP_STEP_PRODUCT,    /* y = x W^T */
  LAP_STEP_WRITE_KEYS, /* k = rope(norm(k)), v = norm(v), into the cache */
  LAP_STEP_DROP_ROWS,  /* rows of which nothing is wanted leave; if none is left, the pass ends */
  LAP_STEP_ROTATE_QUERIES, /* q = rope(norm(q)) */
  LAP_STEP_ATTEND,         /* q = attention of q over the cache; in its forms where a head is whole blocks */
  LAP_STEP_QUANTIZE,       /* the forms of floats */
  LAP_STEP_ADD_NORM,       /* hidden = hidden + rms_norm(output; vector) */
  LAP_STEP_PAIR,           /* gate = gelu(x W_gate^T) * (x W_up^T), in its forms */
  LAP_STEP_EXPERTS,        /* normed = the experts' sum over normed, routed by hidden */
  LAP_STEP_JOIN_EXPERTS,   /* output = rms_norm(output; vector) + rms_norm(normed; second vector) */
  LAP_STEP_PER_LAYER_ROW,  /* pli = (scale * table[id] + norm(second scale * pli)) * 2^-0.5 */
  LAP_STEP_PER_LAYER_GATE, /* gate = gelu(x W^T) * pli, in its forms */
  LAP_STEP_SCALE,          /* hidden = layer scalar * hidden */
  LAP_STEP_GIVE_HIDDEN,    /* normed rows for those who want them */
  LAP_STEP_HEAD,           /* logits = cap * tanh(x W^T / cap) */
  LAP_STEP_SHOW,           /* rows for those who watch the pass: only then is it a step */
  LAP_STEP_KINDS
} lap_step_kind;

/* How the work of a step may be divided. */
typedef enum lap_division {
  LAP_BY_ROWS,    /* each row of activations by itself: no other row's part is touched */
  LAP_BY_OUTPUTS, /* over rows of the weight, that is columns of what is written, for all rows */
  LAP_BY_TILES,   /* attention: over queries and spans of positions */
  LAP_BY_STAGES,  /* experts: several runs of their own, one after the other */
  LAP_BY_ONE      /* by one thread */
} lap_division;

/* At the last donor layer rows of which nothing is wanted leave the pass. Where there are some, the pass
 * goes another way there; a step says on which of the two ways it lies. */
enum {
  LAP_WAY_ALL_STAY = 1,
  LAP_WAY_ROWS_LEAVE = 2,
  LAP_WAYS = LAP_WAY_ALL_STAY | LAP_WAY_ROWS_LEAVE
};

/* Matrices by lap_layer_linear, and these: */
enum {
  LAP_NO_WEIGHT = -1,
  LAP_WEIGHT_EMBED = LAP_LAYER_LINEARS,
  LAP_WEIGHT_EMBED_PER_LAYER,
  LAP_WEIGHT_PER_LAYER_ROWS, /* the layer's rows of per_layer_model_projection */
  LAP_WEIGHT_HEAD
};

/* Vectors by lap_layer_vector, and these: */
enum {
  LAP_NO_VECTOR = -1,
  LAP_VECTOR_NEXT_NORM =
      LAP_LAYER_VECTORS, /* the next layer's LAP_INPUT_NORM; after the last, the final norm */
  LAP_VECTOR_PER_LAYER_NORM
};

/* Of attention, and of what prepares it. */
typedef struct lap_heads {
  lap_attention attention;
  int32_t heads, kv_heads, head_dim, pairs;
  int32_t window; /* 0 = all */
  bool k_eq_v;
  int32_t bits, group_size; /* of the cache; 16 bits = plain */
} lap_heads;

enum {
  LAP_STEP_OPERANDS = 8
};

typedef struct lap_program_step {
  char name[48];
  const char *formula; /* what begins here, in mathematics; NULL where it goes on with what was begun */
  lap_step_kind kind;
  lap_division division;
  unsigned ways;
  bool barrier; /* derived: its run must wait until every thread has done what stands before it */
  int reads, writes;
  lap_operand read[LAP_STEP_OPERANDS], write[LAP_STEP_OPERANDS];
  int weight[3];     /* a pair: gate and up; experts: router, gate (with up), down */
  lap_operand input; /* of products: the floats, and whose forms they have; dense weights read the former */
  int vector[2];
  lap_heads heads;                      /* WRITE_KEYS, ROTATE_QUERIES, ATTEND */
  float eps;                            /* of the norm that it contains */
  float scale[2];                       /* EMBED, PER_LAYER_ROW; HEAD: the cap, 0 = none */
  int32_t experts, top_k, expert_width; /* EXPERTS */
  const char *shown;                    /* SHOW: under this name */
} lap_program_step;

/* Steps that are computed in one parallel run, derived from what they read and write (runs.c): where they are
 * BY_ROWS one after the other for each row, else beside each other. No step of a run but the first needs a
 * barrier. */
typedef struct lap_program_run {
  int first, steps;
} lap_program_run;

/* ---- the program ---- */

typedef struct lap_program_part {
  char name[96];                  /* of a kind, for instance donor_sliding_g64b4_v_pli_scalar_export */
  int first_run, runs;            /* in lap_program.run */
  int first, steps;               /* in lap_program.step */
  int32_t layer;                  /* the first layer of the kind; -1 if it is none */
  bool varies[LAP_LAYER_LINEARS]; /* bits, group or number format differ among the kind's layers */
} lap_program_part;

typedef struct lap_program_call {
  int part;
  int32_t layer; /* -1 before the layers, the number of layers after them */
  int32_t cache; /* -1 if it is no layer */
  int first;     /* number of its first step in the whole pass */
} lap_program_call;

typedef struct lap_program {
  const lap_plan *plan;
  lap_place place[LAP_BUFFERS];
  int64_t row_bytes;     /* of the arena, for each row: all places */
  int forms[LAP_INPUTS]; /* kernels/forms.h */
  bool mlp_floats, expert_floats;
  lap_program_step *step;
  lap_program_run *run;
  lap_program_part *part; /* [parts]: the beginning, the kinds of layer, the end */
  lap_program_call *call; /* [calls]: the beginning, the layers, the end */
  int steps, runs, parts, calls;
  int length;         /* steps of the whole pass */
  int32_t last_donor; /* the layer at which rows leave */
} lap_program;

/* `*out` is the caller's, to be released with lap_program_free; `plan` must outlive it. Errors: MEMORY. */
lap_status lap_program_build(const lap_plan *plan, lap_program **out, lap_error *error);
void lap_program_free(lap_program *program);

/* Step `number` of the pass, 0 .. length - 1, and the call that it belongs to. */
const lap_program_step *lap_program_at(const lap_program *program, int number, const lap_program_call **call);

/* A step's weight as it is in layer `layer`; of several experts, one. */
const lap_linear *lap_program_linear(const lap_program *program, int32_t layer, int weight);

/* ---- barriers ---- */

/* True if the two steps of a pass, on the same way, may not run side by side: one writes what the other reads
 * or writes, and not each thread its own rows alone. */
bool lap_steps_conflict(const lap_program *program, int earlier, int later);

/* What a pass of few rows that all stay does, somebody who watches aside. Steps that divide themselves count
 * as often as they do. */
typedef struct lap_program_counts {
  int steps, runs, barriers;
} lap_program_counts;

/* Of the calls first .. first + count - 1. */
lap_program_counts lap_program_count(const lap_program *program, int first, int count);

/* ---- words ---- */

enum {
  LAP_CACHE_WORD_BYTES = 32
};

const char *lap_step_kind_name(lap_step_kind kind);  /* "write keys" */
const char *lap_buffer_name(lap_buffer buffer);      /* "query_forms" */
const char *lap_input_name(lap_product_input input); /* "attention" */
const char *lap_program_weight_name(int weight);     /* "self_attn.q_proj", "lm_head" */
const char *lap_program_vector_name(int vector);     /* "input_layernorm.weight", "norm.weight" */
void lap_cache_word(const lap_heads *heads, char out[LAP_CACHE_WORD_BYTES]); /* "plain", "g64b4" */

/* Bits and group size of a layer's cache as the kernels count them: plain ones have 16 bits. */
int32_t lap_layer_cache_bits(const lap_layer *layer);
int32_t lap_layer_cache_group(const lap_layer *layer);

#endif
