/* batch.h: many requests, one model: sequences share forward passes. What is public of it stands in
 * lapidary.h; here requests bring whoever chooses their tokens.
 *
 * One thread drives a batch; there are no locks inside. lap_batch_step runs one forward pass: a row for every
 * sequence that is answering, and beside them pieces of the prompts that are still being read. Requests join
 * and leave between passes. By the numerics contract the tokens of a request depend on nothing of this: they
 * are those of the request alone, bit for bit, whatever runs beside it and whatever the prompt cache had.
 *
 * Who goes when. Up to `parallel` requests run, in the order of their submission; the others wait. Every pass
 * takes a row of each sequence that is answering, so that no prompt, however long, delays an answer by more
 * than the pass's budget for prompts: `chunk` rows where nobody is answering, `chunk_beside` where somebody
 * is. The budget is divided evenly among the prompts, what short ones leave goes to the others, and each gets
 * a row at least: a short prompt is read in a pass or two beside the longest one. A request whose prompt
 * begins as one that is being read waits for that beginning (once) and copies it.
 *
 * Memory. Starting a request reserves the most that its keys and values can take, prompt and answer up to
 * max_tokens or the context limit, against `kv_bytes`; the next one in the order waits until it fits, and
 * none overtakes it. What has ended is kept for later prompts within `cache_bytes` (prompt_cache.h), apart
 * from that.
 */
#ifndef LAP_ENGINE_BATCH_H
#define LAP_ENGINE_BATCH_H

#include "engine/passes.h"
#include "engine/prompt_cache.h"

enum {
  LAP_MAX_PARALLEL = 256
};

typedef enum lap_job_state {
  LAP_JOB_WAITING,
  LAP_JOB_PROMPT,
  LAP_JOB_ANSWER,
  LAP_JOB_ENDED
} lap_job_state;

/* How a request is getting on. Times are lap_seconds(); 0: not yet. */
typedef struct lap_job_record {
  lap_job_state state;
  lap_job_end end;
  lap_error error;
  int64_t prompt_tokens;
  int64_t cached_tokens;    /* of the prompt, that were not computed */
  int64_t evaluated_tokens; /* of the prompt, that were */
  int64_t generated_tokens;
  double submitted, started, first_token, ended;
} lap_job_record;

/* Decides the next token from `logits` [vocab_size], which it may overwrite; `tokens` [count] are the prompt
 * and the answer so far. Returns an id, or a negative number: the answer is complete. A token that is
 * returned is evaluated if another one is wanted after it. */
typedef int32_t lap_choose(void *context, float *logits, const int32_t *tokens, int64_t count);

/* Called once, when a request has ended in whatever way. The job is gone after it returns. */
typedef void lap_job_ended(void *context, const lap_job_record *record);

/* Neither function may call the batch. */
typedef struct lap_job_request {
  const int32_t *ids; /* [count] >= 1, copied */
  int64_t count;
  /* Of the prompt's positions: [count], copied, or NULL: all zero. The answer is written with the adapters of
   * the prompt's last position. */
  const lap_origin *origins;
  /* NULL: the batch finds or makes one, and keeps it afterwards. Else the prompt comes after what this one
   * holds. It has no other user meanwhile, and is the caller's again when the request has ended, in whatever
   * way: with all tokens but the one chosen last. A plain start (lap_kv_create) ends with the prompt. */
  lap_sequence *sequence;
  int64_t max_tokens; /* 0: as many as the context limit allows */
  lap_choose *choose;
  lap_job_ended *ended;
  void *context;
} lap_job_request;

/* `*out` is valid until its `ended` is called. Errors: ARGUMENT (no token; an id outside the vocabulary;
 * an origin that contradicts itself; a prompt over the context limit, or a request over kv_bytes, with both
 * numbers), MEMORY. `ended` is not called then. */
lap_status lap_batch_submit(lap_batch *batch, const lap_job_request *request, lap_job **out,
                            lap_error *error);

const lap_job_record *lap_job_get_record(const lap_job *job);

/* Tokens to be evaluated without choosing any. */
typedef struct lap_extension {
  const int32_t *ids; /* [count] >= 1 */
  int64_t count;
  int64_t wanted;         /* the last so many have logits, 0 .. count */
  float *logits;          /* [wanted, vocab_size]; may be NULL if none are wanted */
  lap_progress *progress; /* called between passes, or NULL */
  void *progress_context;
} lap_extension;

/* Evaluates tokens after what a sequence of the caller's holds, in passes of their own. Errors: as
 * lap_session_eval (lapidary.h); a pass is appended whole or not at all. */
lap_status lap_batch_extend(lap_batch *batch, lap_sequence *sequence, const lap_extension *extension,
                            lap_error *error);

/* Its model; and what runs its passes, valid as long as the batch. */
lap_model *lap_batch_model(const lap_batch *batch);
lap_passes *lap_batch_passes(lap_batch *batch);

#endif
