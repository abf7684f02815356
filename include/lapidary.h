/* lapidary.h: the public interface, the only header that a user of the library needs.
 *
 * A model is a checkpoint directory, mapped and planned; it is read-only after opening and may be
 * shared by threads. A session is one sequence of tokens with its KV caches; one thread uses it at
 * a time. Everything that can fail returns a lap_status and, where the caller passes a lap_error,
 * fills it with one line that names the file or argument and the field. The library never prints
 * and never exits.
 *
 * Invariant (docs/numerics.md): a token's logits depend on the tokens before it, the checkpoint and
 * the KV setting, and on nothing else; not on threads, chunks, decode or prefill, instruction set.
 */
#ifndef LAPIDARY_H
#define LAPIDARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---------------------------------------------------------------------------------- */

typedef enum lap_status {
  LAP_OK = 0,
  LAP_ERROR_IO,          /* a file cannot be opened, read, mapped or written */
  LAP_ERROR_FORMAT,      /* a file's content contradicts its format or another file */
  LAP_ERROR_UNSUPPORTED, /* well-formed, but not something that this version computes */
  LAP_ERROR_MEMORY,      /* an allocation failed */
  LAP_ERROR_ARGUMENT,    /* the caller passed something out of range */
  LAP_ERROR_STATE,       /* the call does not fit the session's state (a wrapped ring, no tokens) */
  LAP_ERROR_NUMERIC      /* the checkpoint's weights produced logits that are not finite */
} lap_status;

/* One line without a newline; always terminated. */
typedef struct lap_error {
  lap_status status;
  char message[512];
} lap_error;

/* ---- models ---------------------------------------------------------------------------------- */

/* Which KV cache each layer gets. Plain holds 16 bits a value; quantized 8 or 4, affine, in groups. */
typedef enum lap_kv_mode {
  LAP_KV_CONFIG, /* as the checkpoint's kv_config.json says; plain where it says nothing */
  LAP_KV_PLAIN,
  LAP_KV_8, /* every layer 8 bits, groups of 64 (32 where head_dim is no multiple of 64) */
  LAP_KV_4
} lap_kv_mode;

typedef struct lap_model lap_model;
typedef struct lap_tokenizer lap_tokenizer;

/* All zero, or NULL where a function takes them: the defaults. */
typedef struct lap_model_options {
  lap_kv_mode kv;
  const char *isa; /* the variant of the kernels: "portable", "avx2", "avx512", "neon"; NULL: the fastest that
                      this processor runs. Does not change results. */
} lap_model_options;

/* Opens a checkpoint directory: maps the weights (nothing is copied or read ahead), builds the plan.
 * `*out` is the caller's, to be closed after its sessions. Errors: IO, FORMAT, UNSUPPORTED, MEMORY,
 * ARGUMENT. */
lap_status lap_model_open(const char *directory, const lap_model_options *options, lap_model **out,
                          lap_error *error);
void lap_model_close(lap_model *model);

/* Begins to bring into memory, in a thread of its own, the weights that every token reads, until the first
 * evaluation or until all are there; returns at once. For a program that has something else to do before it
 * evaluates (load the tokenizer, wait for a prompt). Does nothing where they do not fit into memory, where
 * the process has one core, or if called again. Does not change results. */
void lap_model_warm(lap_model *model);

/* The model's tokenizer, loaded from the directory's tokenizer.json on first use; owned by the model.
 * Not to be called by two threads at once the first time. */
lap_status lap_model_tokenizer(lap_model *model, const lap_tokenizer **out, lap_error *error);

/* The cut of a model: a forward pass compiled for its structure and KV setting. Strings live as long as the
 * model. */
typedef struct lap_cut_info {
  const char *fingerprint; /* 16 hexadecimal digits, of the structure */
  bool available;
  const char *path; /* the shared object; NULL if it is built into the library, or not available */
  const char *why;  /* not available: the reason in one line; else "" */
} lap_cut_info;
lap_cut_info lap_model_cut(const lap_model *model);

int32_t lap_model_vocab_size(const lap_model *model);
int32_t lap_model_bos(const lap_model *model); /* -1 if there is none */
bool lap_model_is_eos(const lap_model *model, int32_t id);
/* max_position_embeddings: sessions refuse to grow beyond it. */
int32_t lap_model_context(const lap_model *model);

/* Encodes `text` [length bytes] for raw completion: control tokens spelled in it count as such, and
 * BOS stands at its head exactly once, however often the text begins with it. `*ids` is malloc'd and the
 * caller's. Errors: MEMORY, ARGUMENT, and those of loading the tokenizer. */
lap_status lap_model_encode(lap_model *model, const char *text, size_t length, int32_t **ids, size_t *count,
                            lap_error *error);

/* Bytes begin..end-1 of a text. */
typedef struct lap_range {
  size_t begin, end;
} lap_range;

/* The same, but control tokens count only within `trusted` [trusted_count ranges, as
 * lap_tokenizer_encode_marked has them]: a chat prompt, whose control tokens the template wrote and whose
 * messages must not bring their own. Errors: also ARGUMENT (ranges). */
lap_status lap_model_encode_marked(lap_model *model, const char *text, size_t length,
                                   const lap_range *trusted, size_t trusted_count, int32_t **ids,
                                   size_t *count, lap_error *error);

/* ---- sessions -------------------------------------------------------------------------------- */

typedef struct lap_session lap_session;

/* Which code computes. A cut is a forward pass compiled for the structure of one checkpoint; the monolith
 * interprets any. Their results are the same, bit for bit. */
typedef enum lap_path {
  LAP_PATH_AUTO, /* the checkpoint's cut where there is one, else the monolith */
  LAP_PATH_MONOLITH,
  LAP_PATH_CUT /* an error if there is none */
} lap_path;

typedef struct lap_session_options {
  int threads;          /* 0 = the cores available to the process */
  int chunk;            /* tokens evaluated at once in prefill; 0 = 512. Does not change results. */
  bool kv_start_prompt; /* the prompt over plain caches, converted before decoding; changes results. Plain
                           caches are not what a cut was made for: the prompt runs on the monolith. */
  lap_path path;
  const char *attention; /* how it is computed: "tiled", "plain" (slow, a check); NULL: as the code that runs
                            chooses. Does not change results. */
} lap_session_options;

/* One sequence of tokens. `options` may be NULL. The model must outlive it. Errors: MEMORY, ARGUMENT,
 * IO (threads), UNSUPPORTED (LAP_PATH_CUT, and there is no cut; the message says why). */
lap_status lap_session_create(lap_model *model, const lap_session_options *options, lap_session **out,
                              lap_error *error);
void lap_session_destroy(lap_session *session);

/* Called between chunks of a long evaluation; returning false ends it with LAP_ERROR_STATE, the
 * tokens evaluated so far stay. */
typedef bool lap_progress(void *context, int64_t done, int64_t total);
void lap_session_set_progress(lap_session *session, lap_progress *progress, void *context);

/* Appends `count` >= 1 tokens and evaluates them in chunks. The logits of the last `wanted` of them
 * (0 <= wanted <= count) are written to `logits` [wanted, vocab_size], f32. Errors: ARGUMENT (ids,
 * context exceeded), MEMORY, NUMERIC, STATE; a chunk is appended whole or not at all. */
lap_status lap_session_eval(lap_session *session, const int32_t *ids, int64_t count, int64_t wanted,
                            float *logits, lap_error *error);

/* Ends the prompt of a kv_start_prompt session: plain caches are converted to the configured kinds,
 * and tokens after this are quantized as they arrive. No effect on other sessions. Errors: MEMORY. */
lap_status lap_session_end_prompt(lap_session *session, lap_error *error);

/* The tokens so far; valid until the next call that changes the session. */
const int32_t *lap_session_tokens(const lap_session *session, int64_t *count);

/* Drops all tokens from position `length` on. Errors: STATE where a sliding layer's ring has
 * overwritten what position `length` would see (the session is unchanged; restore a snapshot or start
 * again), ARGUMENT. */
lap_status lap_session_trim(lap_session *session, int64_t length, lap_error *error);

/* Writes tokens and caches to a file, or replaces them from one: what is evaluated after a restore has
 * the bits that it would have had without. A file damaged, of other weights or of another KV setting is
 * refused and the session is unchanged. Errors: IO, FORMAT, STATE, MEMORY. */
lap_status lap_session_save(const lap_session *session, const char *path, lap_error *error);
lap_status lap_session_restore(lap_session *session, const char *path, lap_error *error);

typedef struct lap_stats {
  int64_t tokens;       /* in the session */
  size_t kv_bytes;      /* memory of the KV caches */
  size_t scratch_bytes; /* memory of activations */
  int threads;
  const char *isa;         /* "portable", "avx2", "avx512", "neon" */
  int64_t passes_monolith; /* forward passes by path */
  int64_t passes_cut;
} lap_stats;

lap_stats lap_session_stats(const lap_session *session);

/* ---- generation ------------------------------------------------------------------------------ */

/* Added to the logit of a token, in -100..100; -100 excludes the token altogether. */
typedef struct lap_logit_bias {
  int32_t id;
  float bias;
} lap_logit_bias;

/* How the next token is chosen. The steps run in this order: the repetition penalty is applied (to ids
 * among the last `repeat_last` tokens); an id that this sampler has chosen n > 0 times loses
 * presence_penalty + n * frequency_penalty; biases are added; ids that the checkpoint suppresses or a bias
 * of -100 bans are excluded; then either the largest logit is taken (greedy: temperature 0), or temperature,
 * top_k, top_p, min_p restrict and a number from the project's own generator draws. Equal logits rank by
 * lower id. Same seed, same text, on every machine. */
typedef struct lap_sampling {
  float temperature;    /* 0 = greedy */
  int32_t top_k;        /* 0 = off */
  float top_p;          /* 1 = off */
  float min_p;          /* 0 = off */
  float repeat_penalty; /* 1 = off; positive logits are divided by it, negative ones multiplied */
  int32_t repeat_last;  /* tokens that the penalty looks back on; default 64 */
  uint64_t seed;
  float presence_penalty;           /* -2..2; 0 = off */
  float frequency_penalty;          /* -2..2; 0 = off */
  const lap_logit_bias *logit_bias; /* [logit_bias_count], of ids in the vocabulary; those of one id add up */
  int32_t logit_bias_count;
} lap_sampling;

/* The checkpoint's defaults (generation_config.json), seed 0. */
lap_sampling lap_model_sampling(const lap_model *model);

typedef struct lap_sampler lap_sampler;

/* `sampling` is copied, with its biases. Errors: ARGUMENT (a value out of range, naming it; every token
 * excluded), MEMORY. */
lap_status lap_sampler_create(const lap_model *model, const lap_sampling *sampling, lap_sampler **out,
                              lap_error *error);
void lap_sampler_destroy(lap_sampler *sampler);

/* Chooses from `logits` [vocab_size] (not changed); `recent` [count] are the tokens so far. An id whose logit
 * is minus infinity is excluded too; one must be left. */
int32_t lap_sampler_next(lap_sampler *sampler, const float *logits, const int32_t *recent, int64_t count);

enum {
  LAP_MAX_TOP_LOGPROBS = 20
};

typedef struct lap_logprob {
  int32_t id;
  float logprob;
} lap_logprob;

/* The natural logarithms of the model's own probabilities: of `id`, and of the `top_count` most probable
 * tokens (0..LAP_MAX_TOP_LOGPROBS; the best first, equal ones by lower id) in `top` [top_count]. They are the
 * softmax of `logits` [vocab_size] as they came, before penalties, finite biases and temperature, over the
 * ids that are not excluded; that of an excluded id is minus infinity, never NaN. Weights are exp(logit -
 * largest) by the project's own exp, in float, added in double in ascending order of ids. `*found` is how
 * many of `top` were filled: fewer if fewer are not excluded. Chooses nothing and draws nothing. Errors:
 * ARGUMENT (id, top_logprobs). */
lap_status lap_sampler_logprobs(lap_sampler *sampler, const float *logits, int32_t id, float *logprob,
                                lap_logprob *top, int32_t top_count, int32_t *found, lap_error *error);

typedef enum lap_finish {
  LAP_FINISH_NONE,   /* not yet, or not by itself: an error */
  LAP_FINISH_EOS,    /* the model ended it */
  LAP_FINISH_STOP,   /* a stop string appeared */
  LAP_FINISH_LENGTH, /* max_tokens or the context limit was reached */
  LAP_FINISH_CALLS,  /* tools are to be called */
  LAP_FINISH_CALLER  /* the caller said so */
} lap_finish;

/* A token of the text with its log probabilities, as lap_sampler_logprobs has them. */
typedef struct lap_note {
  int32_t id;
  float logprob;
  int32_t top_count;
  lap_logprob top[LAP_MAX_TOP_LOGPROBS];
} lap_note;

typedef enum lap_piece_kind {
  LAP_PIECE_TEXT,
  LAP_PIECE_THOUGHT,
  LAP_PIECE_CALL /* of a tool, whole */
} lap_piece_kind;

/* What the model says, piece by piece. */
typedef struct lap_piece {
  lap_piece_kind kind;
  int index;            /* THOUGHT, CALL: 0 for the first of its kind, 1 for the second */
  const char *name;     /* CALL */
  const char *text;     /* valid UTF-8, terminated; of a CALL the arguments, a JSON object */
  size_t length;        /* of `text` */
  const lap_note *note; /* TEXT [notes]: its tokens, where log probabilities were asked for */
  size_t notes;
} lap_piece;

/* Gets the pieces in order. What they point to is valid during the call. False: enough, nothing more is said.
 */
typedef bool lap_say(void *context, const lap_piece *piece);

typedef struct lap_generate_options {
  int64_t max_tokens;      /* 0 = until the model ends or the context is full */
  const char *const *stop; /* [stop_count] non-empty strings; text from one on is not shown */
  int stop_count;
  bool ignore_eos;
  bool show_special; /* control tokens appear as text */
  /* Called with each piece of text (valid UTF-8, terminated, `length` bytes) as soon as it can no
   * longer become part of a stop string or of an unfinished character; with an empty piece where a token
   * adds no text. Returning false ends. */
  bool (*text)(void *context, const char *text, size_t length);
  void *context;
} lap_generate_options;

typedef struct lap_generate_result {
  lap_finish finish;
  int64_t prompt_tokens;
  int64_t generated_tokens; /* the end token included */
  int32_t last_token;       /* the last one, which the session does not hold; -1 if there is none */
  double prompt_seconds;
  double decode_seconds;
} lap_generate_result;

/* Evaluates `ids` [count >= 1] after what the session holds, and generates. The session afterwards
 * holds every token but the last one generated. Errors: those of evaluation. */
lap_status lap_generate(lap_session *session, lap_sampler *sampler, const int32_t *ids, int64_t count,
                        const lap_generate_options *options, lap_generate_result *result, lap_error *error);

/* ---- tokenizer ------------------------------------------------------------------------------- */

/* Number of ids: one more than the highest id. */
int32_t lap_tokenizer_size(const lap_tokenizer *tokenizer);

/* The id whose content is exactly `text`, or -1. */
int32_t lap_tokenizer_id(const lap_tokenizer *tokenizer, const char *text, size_t length);

/* The content of a token as tokenizer.json spells it (terminated; NULL if no token has the id). */
const char *lap_tokenizer_token(const lap_tokenizer *tokenizer, int32_t id, size_t *length);

/* True for added tokens marked special: they are not shown as text by default. */
bool lap_tokenizer_is_special(const lap_tokenizer *tokenizer, int32_t id);

/* Encodes `text` [length bytes; any bytes, NUL and invalid UTF-8 included: each byte that is no part
 * of a valid character counts as a character of its own and becomes its byte token]. With
 * `parse_special` special tokens spelled in the text become their ids, else they stay text; other added
 * tokens count in either case. Adds no BOS. `*ids` is allocated with malloc and owned by the caller;
 * `*count` ids. Errors: MEMORY, ARGUMENT (text longer than 1 GiB). */
lap_status lap_tokenizer_encode(const lap_tokenizer *tokenizer, const char *text, size_t length,
                                bool parse_special, int32_t **ids, size_t *count, lap_error *error);

/* The same for a text of mixed origin: a special token counts only where all its bytes lie in `trusted`
 * [trusted_count; ascending, not overlapping, within the text; ranges that touch count as one]. Everywhere
 * else the text is encoded as if the tokenizer had no special tokens. In all other respects it is one text:
 * merges and other added tokens cross the borders of ranges. What is not trusted yields no special id (but
 * for unk, and byte tokens if a file calls them special). Errors: MEMORY, ARGUMENT (text too long; ranges).
 */
lap_status lap_tokenizer_encode_marked(const lap_tokenizer *tokenizer, const char *text, size_t length,
                                       const lap_range *trusted, size_t trusted_count, int32_t **ids,
                                       size_t *count, lap_error *error);

/* A stream of tokens to text: bytes of a character that is not complete are held back until the
 * next token completes or breaks it. Zero-initialise. */
typedef struct lap_detokenizer {
  unsigned char held[4];
  uint8_t held_bytes;
} lap_detokenizer;

/* Appends the text of `id` to `*text` (malloc'd or NULL, `*length` bytes, `*capacity`; kept
 * terminated). Special tokens are written only if `show_special`; else they count as absent, and
 * bytes held back stay so. Bytes that can no longer become a character are written as U+FFFD, one
 * for each maximal broken part.
 * Errors: ARGUMENT (id without a token), MEMORY. */
lap_status lap_detokenize(const lap_tokenizer *tokenizer, lap_detokenizer *state, int32_t id,
                          bool show_special, char **text, size_t *length, size_t *capacity, lap_error *error);

/* Writes out what is still held back (as U+FFFD). */
lap_status lap_detokenize_end(lap_detokenizer *state, char **text, size_t *length, size_t *capacity,
                              lap_error *error);

#ifdef __cplusplus
}
#endif
#endif
