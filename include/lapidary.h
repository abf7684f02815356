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
#ifdef __GNUC__
#pragma GCC visibility push(default) /* what is declared here is exported, and nothing else */
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

/* ---- choosing tokens ------------------------------------------------------------------------- */

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

/* ---- structured output ----------------------------------------------------------------------- */

/* What a model may say, for one model's vocabulary; read-only, to be shared by threads, and by any number of
 * generations at a time. What is accepted, ignored and refused of a source stands in docs/grammar.md. */
typedef struct lap_grammar lap_grammar;

/* What stands in front of the text that a grammar describes. */
typedef enum lap_grammar_thoughts {
  LAP_THOUGHTS_NONE,
  LAP_THOUGHTS_FIRST, /* a thought, `<|channel>...<channel|>`, may come first: the model may think (chat) */
  LAP_THOUGHTS_OPEN   /* the prompt ended inside of one: the rest of it comes first */
} lap_grammar_thoughts;

/* A JSON text that is valid under a JSON schema [length bytes]. Objects that list properties and say nothing
 * about others have no others. The model must outlive `*out`, which is the caller's. Errors: FORMAT,
 * UNSUPPORTED (naming the path in the schema, as `schema: PATH: ...`), MEMORY. Also those of loading the
 * tokenizer, whose remark on threads holds here too. */
lap_status lap_grammar_read_schema(lap_model *model, const char *schema, size_t length,
                                   lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error);

/* A text of the rule `root` of a grammar in GBNF, as llama.cpp has it. Errors: as above (naming line and
 * column). */
lap_status lap_grammar_read_gbnf(lap_model *model, const char *gbnf, size_t length,
                                 lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error);

/* One or more calls of tools, for a conversation that has them: a JSON list of tools in OpenAI's form, or of
 * functions with name and parameters. Errors: as above (`tools: PATH: ...`). */
lap_status lap_grammar_read_tools(lap_model *model, const char *tools, size_t length,
                                  lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error);

/* One owner less: a grammar lives as long as the last generation that uses it. NULL is nothing. */
void lap_grammar_release(lap_grammar *grammar);

/* ---- generation ------------------------------------------------------------------------------ */

typedef enum lap_finish {
  LAP_FINISH_NONE,   /* not yet, or not by itself: an error */
  LAP_FINISH_EOS,    /* the model ended it */
  LAP_FINISH_STOP,   /* a stop string appeared */
  LAP_FINISH_LENGTH, /* max_tokens or the context limit was reached */
  LAP_FINISH_CALLS,  /* tools are to be called */
  LAP_FINISH_CALLER  /* the caller said so */
} lap_finish;

typedef struct lap_generate_options {
  int64_t max_tokens;      /* 0 = until the model ends or the context is full */
  const char *const *stop; /* [stop_count] non-empty strings; text from one on is not shown */
  int stop_count;
  lap_grammar *grammar; /* what may be said, or NULL: anything */
  bool ignore_eos;      /* go on where the model would end; where a grammar ends, it ends all the same */
  bool show_special;    /* control tokens appear as text */
  /* Called with each piece of text (valid UTF-8, terminated, `length` bytes) as soon as it can no
   * longer become part of a stop string or of an unfinished character; with an empty piece where a token
   * adds no text. Returning false ends. */
  bool (*text)(void *context, const char *text, size_t length);
  void *context;
} lap_generate_options;

typedef struct lap_generate_result {
  lap_finish finish;
  int64_t prompt_tokens;
  int64_t cached_tokens;    /* of the prompt, that were not computed: a batch's prompt cache had them */
  int64_t generated_tokens; /* the end token included */
  int32_t last_token;       /* the last one, which the session does not hold; -1 if there is none */
  double prompt_seconds;
  double decode_seconds;
} lap_generate_result;

/* Evaluates `ids` [count >= 1] after what the session holds, and generates. The session afterwards
 * holds every token but the last one generated. `options` may be NULL. Errors: those of evaluation, ARGUMENT
 * (max_tokens, stop), UNSUPPORTED (a grammar that is too ambiguous at some point). */
lap_status lap_generate(lap_session *session, lap_sampler *sampler, const int32_t *ids, int64_t count,
                        const lap_generate_options *options, lap_generate_result *result, lap_error *error);

/* ---- batches --------------------------------------------------------------------------------- */

/* Many requests over one model: they share forward passes, join and leave between them, and what one has
 * computed of a prompt serves others that begin as it does. The text of a request depends on nothing of this:
 * it is that of the request alone. One thread drives a batch at a time. */
typedef struct lap_batch lap_batch;

/* A request that is waiting or running. */
typedef struct lap_job lap_job;

/* 0 and NULL mean the defaults. */
typedef struct lap_batch_options {
  int threads;           /* the cores available */
  int parallel;          /* sequences that run at once: 4 */
  int chunk;             /* 512 */
  int chunk_beside;      /* 64, at most chunk */
  int64_t context;       /* tokens of a request, prompt and answer: the model's limit, and at most that */
  lap_path path;         /* as for a session */
  const char *attention; /* the same */
  size_t kv_bytes;       /* no limit */
  size_t cache_bytes;    /* nothing is kept */
  const char *cache_directory; /* none; its files serve what cache_bytes keeps */
  uint64_t directory_bytes;    /* 8 GiB */
} lap_batch_options;

/* The model must outlive it. Errors: ARGUMENT (naming the option), UNSUPPORTED (path), MEMORY, IO. */
lap_status lap_batch_create(lap_model *model, const lap_batch_options *options, lap_batch **out,
                            lap_error *error);
/* Ends all requests as cancelled, and writes what is worth it to the cache directory. */
void lap_batch_destroy(lap_batch *batch);

/* The context limit in force. */
int64_t lap_batch_context(const lap_batch *batch);

typedef struct lap_batch_request {
  const int32_t *ids; /* [count >= 1], copied */
  int64_t count;
  lap_sampling sampling; /* lap_model_sampling has the checkpoint's */
  lap_generate_options options;
  /* Called once, with options.context, when the request has ended in whatever way: what came of it, and what
   * went wrong (LAP_OK: nothing). A request that was cancelled has finish CALLER. The job is gone afterwards.
   * Neither this nor options.text may call the batch. May be NULL. */
  void (*ended)(void *context, const lap_generate_result *result, const lap_error *error);
} lap_batch_request;

/* Takes in a request; what it points to, but for `ids`, must live until it has ended. `*job` (may be NULL) is
 * valid until then. Errors: ARGUMENT (ids, max_tokens, stop, sampling; a prompt over the context limit, or a
 * request over kv_bytes, with both numbers), UNSUPPORTED (grammar), MEMORY; `ended` is not called then. */
lap_status lap_batch_generate(lap_batch *batch, const lap_batch_request *request, lap_job **job,
                              lap_error *error);

/* Ends a request at once: its slot is free, `ended` has been called. What was computed stays in the cache. */
void lap_batch_cancel(lap_batch *batch, lap_job *job);

/* One pass; where no request is left, one sequence is written to the cache directory. What goes wrong ends
 * the requests that it concerns. False: there was nothing to do. */
bool lap_batch_step(lap_batch *batch);

/* How requests end. */
typedef enum lap_job_end {
  LAP_JOB_CHOSEN, /* the text came to its end */
  LAP_JOB_LENGTH, /* max_tokens or the context limit was reached */
  LAP_JOB_CANCELLED,
  LAP_JOB_FAILED
} lap_job_end;

/* Of a cache directory. */
typedef struct lap_store_stats {
  int64_t files;  /* that can be used */
  uint64_t bytes; /* of all files named as ours are */
  int64_t saved;
  int64_t loaded;
  int64_t removed; /* for the bound */
  int64_t foreign; /* files met that another checkpoint, KV setting or version of the program made */
  int64_t damaged; /* that are not whole, or no snapshots */
  int64_t failed;  /* reading or writing failed */
  lap_error last;  /* the last reason of these; LAP_OK: none yet */
} lap_store_stats;

/* What became of the beginnings of prompts. */
typedef struct lap_prompt_cache_stats {
  int64_t requests; /* that looked */
  int64_t hits;     /* that found something */
  int64_t hit_tokens;
  int64_t moved; /* hits by how they were served */
  int64_t copied;
  int64_t loaded;
  int64_t entries; /* kept in memory */
  size_t bytes;    /* of entries and marks */
  int64_t evicted;
  lap_store_stats store; /* zero without a directory */
} lap_prompt_cache_stats;

typedef struct lap_batch_stats {
  int running, waiting;
  int64_t ended[LAP_JOB_FAILED + 1]; /* requests, by lap_job_end */
  int64_t prompt_tokens;             /* computed */
  int64_t generated_tokens;
  int64_t passes_monolith, passes_cut;
  int last_rows; /* of the last pass */
  int threads;
  size_t kv_bytes;      /* held by running requests */
  size_t kv_reserved;   /* by them */
  size_t scratch_bytes; /* activations and logits */
  lap_prompt_cache_stats cache;
} lap_batch_stats;

lap_batch_stats lap_batch_get_stats(const lap_batch *batch);

/* ---- conversations --------------------------------------------------------------------------- */

/* A conversation that goes on: a turn becomes a prompt by the checkpoint's own chat template, the prompt an
 * answer, the answer a part of the next prompt. What was said before is not computed again.
 *
 * Between calls it ends with an answer, however short, or with calls of tools that wait for their results. A
 * turn that did not get there is not in it. */
typedef struct lap_conversation lap_conversation;

typedef enum lap_thinking {
  LAP_THINKING_UNSTATED, /* the template decides */
  LAP_THINKING_OFF,
  LAP_THINKING_ON
} lap_thinking;

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

/* Asked before each forward pass: `done` of the prompt's `total` tokens are in the caches, all of them once
 * the model answers. False stops the answer. */
typedef bool lap_go_on(void *context, int64_t done, int64_t total);

typedef struct lap_conversation_options {
  int threads; /* 0: the cores available */
  int chunk;   /* tokens of a prompt between two calls of go_on; 0: the library's */
  lap_path path;
  const char *attention; /* as in lap_session_options */
  int64_t context;       /* tokens, prompt and answer; 0: the model's limit */
  int64_t max_tokens;    /* of an answer; 0: until the model ends or the context is full */
  /* Answer number n of a conversation (of its messages) draws with seed + n: it depends on what was said, not
   * on how often something was tried before. */
  lap_sampling sampling;
  lap_thinking thinking;
  lap_grammar
      *grammar;     /* what answers may be, or NULL: anything. Where there are tools, they may be calls too */
  bool logprobs;    /* pieces of text have notes, each with */
  int top_logprobs; /* so many of the most probable tokens, at most LAP_MAX_TOP_LOGPROBS */
  bool allow_special; /* control tokens spelled in messages count as such */
  lap_say *say;       /* gets what the model says, as it comes; returning false stops the answer. Or NULL */
  lap_go_on *go_on;   /* or NULL */
  void *receiver;     /* the context of these two */
} lap_conversation_options;

typedef enum lap_turn_end {
  LAP_TURN_ANSWERED,
  LAP_TURN_CALLS,   /* lap_conversation_call; go on with results */
  LAP_TURN_LENGTH,  /* max_tokens */
  LAP_TURN_CONTEXT, /* the context is full */
  LAP_TURN_STOPPED  /* go_on or say said so */
} lap_turn_end;

/* How an answer came about. */
typedef struct lap_turn {
  lap_turn_end end;
  bool taken_back; /* nothing was said: the conversation is as before the turn */
  int64_t prompt_tokens;
  int64_t cached_tokens;    /* of them, that were not computed */
  int64_t evaluated_tokens; /* that were */
  int64_t generated_tokens; /* without the end token */
  double prompt_seconds;
  double decode_seconds;
} lap_turn;

/* The model must outlive it. Errors: UNSUPPORTED (the checkpoint has no chat template), FORMAT (its
 * template), ARGUMENT (sampling), those of lap_batch_create. */
lap_status lap_conversation_create(lap_model *model, const lap_conversation_options *options,
                                   lap_conversation **out, lap_error *error);
void lap_conversation_destroy(lap_conversation *conversation);

/* Says something to the model and has it answer. Calls that wait are given up first. Errors: FORMAT (the text
 * is not UTF-8), those of the template and of evaluation; the turn is taken back then. */
lap_status lap_conversation_say(lap_conversation *conversation, const char *text, size_t length,
                                lap_turn *turn, lap_error *error);

/* A call of a tool, the conversation's. */
typedef struct lap_call {
  char *id;
  char *name;
  char *arguments; /* a JSON object */
} lap_call;

/* The next call that waits for a result; NULL if there is none. Valid until the conversation goes on. */
const lap_call *lap_conversation_call(const lap_conversation *conversation);
/* Gives it its result: text, or JSON. Errors: FORMAT (the text is not UTF-8), MEMORY. */
lap_status lap_conversation_result(lap_conversation *conversation, const char *text, size_t length,
                                   lap_error *error);
/* After all results: the model goes on. Errors: as lap_conversation_say. */
lap_status lap_conversation_go_on(lap_conversation *conversation, lap_turn *turn, lap_error *error);
/* Gives up the calls that wait: the turn is taken back, unless something was said beside them. True if it is
 * taken back. */
bool lap_conversation_give_up(lap_conversation *conversation);

/* Everything that follows gives up calls that wait. */

/* Begins anew, with the same system message and tools. */
void lap_conversation_reset(lap_conversation *conversation);
/* NULL: none. Errors: FORMAT (not UTF-8), MEMORY. */
lap_status lap_conversation_set_system(lap_conversation *conversation, const char *text, size_t length,
                                       lap_error *error);
void lap_conversation_set_thinking(lap_conversation *conversation, lap_thinking thinking);
/* For the answers from now on; NULL: none. */
void lap_conversation_set_grammar(lap_conversation *conversation, lap_grammar *grammar);
/* A JSON list of tools in OpenAI's form, or of functions [length bytes]; or the same from a file. Errors: IO,
 * FORMAT (naming the file, or `tools`, and the field), those of the template. */
lap_status lap_conversation_set_tools(lap_conversation *conversation, const char *json, size_t length,
                                      lap_error *error);
lap_status lap_conversation_read_tools(lap_conversation *conversation, const char *path, lap_error *error);

/* Writes the conversation as JSON, the `messages` and `tools` of a request to a chat API, or replaces it by
 * one. A file's tools, if it has any,
 * replace the present ones. Errors: IO, FORMAT (naming the file and the field), those of the template; file
 * or conversation have not changed then. */
lap_status lap_conversation_save(lap_conversation *conversation, const char *path, lap_error *error);
lap_status lap_conversation_load(lap_conversation *conversation, const char *path, lap_error *error);

/* How many messages there are, the system's included. */
int lap_conversation_messages(const lap_conversation *conversation);
lap_batch_stats lap_conversation_stats(const lap_conversation *conversation);
/* The context limit in force. */
int64_t lap_conversation_context(const lap_conversation *conversation);

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

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
