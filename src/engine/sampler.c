/* sampler.c: from logits to a token, the same on every machine.
 *
 * The candidates are ranked once, by logit descending and id ascending, after penalties, biases and
 * exclusions; an excluded id has the logit minus infinity and is no candidate.
 * Everything after that cuts this ranking short: top_k, top_p and min_p each keep a prefix of it. The
 * temperature does not change the ranking, so it enters where the weights are formed.
 *
 * Invariant: no step depends on the machine. The weights are exp((logit - largest) / temperature) by
 * the project's own exp, in float; they are added in double in the order of the ranking, and exactly
 * one random number is used for each token that is drawn (none when greedy). */
#include "engine/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/exponential.h"
#include "model/model.h"

enum {
  DEFAULT_REPEAT_LAST = 64,
  MOST_PENALTY = 2,
  MOST_BIAS = 100
};

/* Up to this many candidates are picked by a heap in one pass over the vocabulary; above it (and with
 * top_k off) all are sorted. The results are the same. */
enum {
  HEAP_LIMIT = 1024
};

enum {
  RADIX_BITS = 11,
  RADIX_SIZE = 1 << RADIX_BITS,
  RADIX_PASSES = 3
};

typedef struct candidate {
  float logit;
  int32_t id;
} candidate;

struct lap_sampler {
  lap_sampling sampling;
  lap_random random;
  int32_t vocab_size;
  lap_logit_bias *biases; /* [bias_count]; those that exclude are minus infinity and come last */
  size_t bias_count, excluding;
  int32_t *chosen;     /* [vocab_size]: how often; NULL if nothing depends on it */
  float *logits;       /* [vocab_size]: after penalties, biases and exclusion (-inf) */
  candidate *ranked;   /* [capacity], the best first */
  candidate *scratch;  /* [capacity], for sorting */
  double *accumulated; /* [capacity]: sums of weights up to and with a candidate */
};

/* ---- random numbers -------------------------------------------------------------------------- */

static uint64_t rotate_left(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static uint64_t splitmix64(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

void lap_random_seed(lap_random *random, uint64_t seed) {
  for (int i = 0; i < 4; i++) random->state[i] = splitmix64(&seed);
}

uint64_t lap_random_next(lap_random *random) {
  uint64_t *s = random->state;
  uint64_t result = rotate_left(s[1] * 5, 7) * 9;
  uint64_t shifted = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= shifted;
  s[3] = rotate_left(s[3], 45);
  return result;
}

double lap_random_unit(lap_random *random) {
  return (double)(lap_random_next(random) >> 11) * 0x1p-53;
}

/* ---- creation -------------------------------------------------------------------------------- */

lap_sampling lap_model_sampling(const lap_model *model) {
  const lap_generation *defaults = &model->plan->generation;
  return (lap_sampling){
      .temperature = defaults->do_sample ? defaults->temperature : 0,
      .top_k = defaults->top_k,
      .top_p = defaults->top_p,
      .min_p = defaults->min_p,
      .repeat_penalty = defaults->repetition_penalty,
      .repeat_last = DEFAULT_REPEAT_LAST,
      .seed = 0,
  };
}

static bool in_unit_range(float value) {
  return value >= 0 && value <= 1; /* false for NaN */
}

static lap_status check_sampling(const lap_sampling *s, lap_error *error) {
  const lap_status bad = LAP_ERROR_ARGUMENT;
  if (!(s->temperature >= 0) || isinf(s->temperature))
    return lap_fail(error, bad, "temperature: %g is not a finite number from 0 on", (double)s->temperature);
  if (s->top_k < 0) return lap_fail(error, bad, "top_k: %d is negative", s->top_k);
  if (!in_unit_range(s->top_p)) return lap_fail(error, bad, "top_p: %g is not in 0..1", (double)s->top_p);
  if (!in_unit_range(s->min_p)) return lap_fail(error, bad, "min_p: %g is not in 0..1", (double)s->min_p);
  if (!(s->repeat_penalty > 0) || isinf(s->repeat_penalty))
    return lap_fail(error, bad, "repeat_penalty: %g is not a finite number above 0",
                    (double)s->repeat_penalty);
  if (s->repeat_last < 0) return lap_fail(error, bad, "repeat_last: %d is negative", s->repeat_last);
  if (!(fabsf(s->presence_penalty) <= MOST_PENALTY))
    return lap_fail(error, bad, "presence_penalty: %g is not in -2..2", (double)s->presence_penalty);
  if (!(fabsf(s->frequency_penalty) <= MOST_PENALTY))
    return lap_fail(error, bad, "frequency_penalty: %g is not in -2..2", (double)s->frequency_penalty);
  return LAP_OK;
}

static lap_status check_biases(const lap_sampling *s, int32_t vocab_size, lap_error *error) {
  const lap_status bad = LAP_ERROR_ARGUMENT;
  if (s->logit_bias_count < 0 || (s->logit_bias_count && !s->logit_bias))
    return lap_fail(error, bad, "logit_bias: a list of %d entries", s->logit_bias_count);
  for (int32_t i = 0; i < s->logit_bias_count; i++) {
    lap_logit_bias one = s->logit_bias[i];
    if (one.id < 0 || one.id >= vocab_size)
      return lap_fail(error, bad, "logit_bias: token id %d is outside the vocabulary of %d", one.id,
                      vocab_size);
    if (!(fabsf(one.bias) <= MOST_BIAS))
      return lap_fail(error, bad, "logit_bias: %g for token id %d is not in -100..100", (double)one.bias,
                      one.id);
  }
  return LAP_OK;
}

/* The caller's biases, then what excludes: those of -100, and the checkpoint's suppressed ids. */
static lap_status make_biases(lap_sampler *sampler, const lap_generation *defaults, lap_error *error) {
  const lap_sampling *s = &sampler->sampling;
  size_t most = (size_t)s->logit_bias_count + (size_t)defaults->suppress_count + 1;
  sampler->biases = calloc(most, sizeof *sampler->biases);
  if (!sampler->biases) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %zu biases", most);
  for (int32_t i = 0; i < s->logit_bias_count; i++)
    if (s->logit_bias[i].bias > -MOST_BIAS) sampler->biases[sampler->bias_count++] = s->logit_bias[i];
  size_t finite = sampler->bias_count;
  for (int32_t i = 0; i < s->logit_bias_count; i++)
    if (s->logit_bias[i].bias <= -MOST_BIAS)
      sampler->biases[sampler->bias_count++] = (lap_logit_bias){s->logit_bias[i].id, -INFINITY};
  for (int32_t i = 0; i < defaults->suppress_count; i++)
    if (defaults->suppress[i] >= 0 && defaults->suppress[i] < sampler->vocab_size)
      sampler->biases[sampler->bias_count++] = (lap_logit_bias){defaults->suppress[i], -INFINITY};
  sampler->excluding = sampler->bias_count - finite;
  return LAP_OK;
}

static lap_status allocate(lap_sampler *sampler, lap_error *error) {
  int32_t top_k = sampler->sampling.top_k;
  size_t vocab = (size_t)sampler->vocab_size;
  size_t capacity = top_k > 0 && top_k <= HEAP_LIMIT && (size_t)top_k < vocab ? (size_t)top_k : vocab;
  sampler->logits = malloc(vocab * sizeof *sampler->logits);
  sampler->ranked = malloc(capacity * sizeof *sampler->ranked);
  sampler->scratch = malloc(capacity * sizeof *sampler->scratch);
  sampler->accumulated = malloc(capacity * sizeof *sampler->accumulated);
  bool counts = sampler->sampling.presence_penalty != 0 || sampler->sampling.frequency_penalty != 0;
  if (counts) sampler->chosen = calloc(vocab, sizeof *sampler->chosen);
  if (sampler->logits && sampler->ranked && sampler->scratch && sampler->accumulated &&
      (sampler->chosen || !counts))
    return LAP_OK;
  return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for sampling from %zu tokens", vocab);
}

static void exclude(lap_sampler *sampler) {
  for (size_t i = sampler->bias_count - sampler->excluding; i < sampler->bias_count; i++)
    sampler->logits[sampler->biases[i].id] = -INFINITY;
}

static lap_status check_some_left(lap_sampler *sampler, lap_error *error) {
  for (int32_t id = 0; id < sampler->vocab_size; id++) sampler->logits[id] = 0;
  exclude(sampler);
  for (int32_t id = 0; id < sampler->vocab_size; id++)
    if (sampler->logits[id] == 0) return LAP_OK;
  return lap_fail(error, LAP_ERROR_ARGUMENT, "%s: every token of the vocabulary is suppressed",
                  sampler->sampling.logit_bias_count ? "logit_bias" : "suppress_tokens");
}

lap_status lap_sampler_create(const lap_model *model, const lap_sampling *sampling, lap_sampler **out,
                              lap_error *error) {
  *out = NULL;
  lap_status status = check_sampling(sampling, error);
  if (status == LAP_OK) status = check_biases(sampling, model->plan->vocab_size, error);
  if (status != LAP_OK) return status;
  lap_sampler *sampler = calloc(1, sizeof *sampler);
  if (!sampler) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a sampler");
  sampler->sampling = *sampling;
  sampler->vocab_size = model->plan->vocab_size;
  lap_random_seed(&sampler->random, sampling->seed);
  status = make_biases(sampler, &model->plan->generation, error);
  sampler->sampling.logit_bias = NULL; /* the caller's */
  if (status == LAP_OK) status = allocate(sampler, error);
  if (status == LAP_OK) status = check_some_left(sampler, error);
  if (status != LAP_OK) {
    lap_sampler_destroy(sampler);
    return status;
  }
  *out = sampler;
  return LAP_OK;
}

void lap_sampler_destroy(lap_sampler *sampler) {
  if (!sampler) return;
  free(sampler->biases);
  free(sampler->chosen);
  free(sampler->logits);
  free(sampler->ranked);
  free(sampler->scratch);
  free(sampler->accumulated);
  free(sampler);
}

lap_status lap_sampling_check(const lap_model *model, const lap_sampling *sampling, lap_error *error) {
  lap_sampler *sampler;
  lap_status status = lap_sampler_create(model, sampling, &sampler, error);
  if (status == LAP_OK) lap_sampler_destroy(sampler);
  return status;
}

/* ---- penalties and biases -------------------------------------------------------------------- */

/* Only exclusion may reach infinity. */
static float keep_finite(float logit) {
  return fminf(fmaxf(logit, -FLT_MAX), FLT_MAX);
}

/* Always computed from the logit as it came, so an id that occurs twice is penalized once. */
static void penalize(lap_sampler *sampler, const float *logits, const int32_t *recent, int64_t count) {
  float penalty = sampler->sampling.repeat_penalty;
  if (penalty == 1) return;
  int64_t first = count > sampler->sampling.repeat_last ? count - sampler->sampling.repeat_last : 0;
  for (int64_t i = first; i < count; i++) {
    int32_t id = recent[i];
    if (id < 0 || id >= sampler->vocab_size || logits[id] == -INFINITY) continue;
    sampler->logits[id] = keep_finite(logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty);
  }
}

static void penalize_chosen(lap_sampler *sampler) {
  const lap_sampling *s = &sampler->sampling;
  if (!sampler->chosen) return;
  for (int32_t id = 0; id < sampler->vocab_size; id++) {
    if (sampler->chosen[id] == 0 || sampler->logits[id] == -INFINITY) continue;
    float penalty = s->presence_penalty + (float)sampler->chosen[id] * s->frequency_penalty;
    sampler->logits[id] = keep_finite(sampler->logits[id] - penalty);
  }
}

static void add_biases(lap_sampler *sampler) {
  for (size_t i = 0; i < sampler->bias_count - sampler->excluding; i++) {
    float *logit = &sampler->logits[sampler->biases[i].id];
    if (*logit > -INFINITY) *logit = keep_finite(*logit + sampler->biases[i].bias);
  }
}

static void prepare(lap_sampler *sampler, const float *logits, const int32_t *recent, int64_t count) {
  memcpy(sampler->logits, logits, (size_t)sampler->vocab_size * sizeof *logits);
  penalize(sampler, logits, recent, count);
  penalize_chosen(sampler);
  add_biases(sampler);
  exclude(sampler);
}

static int32_t largest(const float *logits, int32_t count) {
  int32_t best = 0;
  for (int32_t id = 1; id < count; id++)
    if (logits[id] > logits[best]) best = id;
  return best;
}

/* ---- ranking --------------------------------------------------------------------------------- */

static bool ranks_before(candidate a, candidate b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Restores the heap, whose root is the candidate that ranks last, after `heap[at]` has changed. */
static void sift_down(candidate *heap, int32_t count, int32_t at) {
  candidate moving = heap[at];
  for (int32_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && ranks_before(heap[child], heap[child + 1])) child++;
    if (!ranks_before(moving, heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = moving;
}

/* The best `top_k` in one pass: ids come in ascending order, so an equal logit never displaces. */
static int32_t rank_by_heap(const lap_sampler *sampler, candidate *heap, int32_t top_k) {
  int32_t count = 0, id = 0;
  for (; id < sampler->vocab_size && count < top_k; id++)
    if (sampler->logits[id] > -INFINITY) heap[count++] = (candidate){sampler->logits[id], id};
  for (int32_t i = count / 2; i-- > 0;) sift_down(heap, count, i);
  for (; id < sampler->vocab_size; id++) {
    if (!(sampler->logits[id] > heap[0].logit)) continue;
    heap[0] = (candidate){sampler->logits[id], id};
    sift_down(heap, count, 0);
  }
  for (int32_t left = count - 1; left > 0; left--) {
    candidate last = heap[0];
    heap[0] = heap[left];
    heap[left] = last;
    sift_down(heap, left, 0);
  }
  return count;
}

/* A key whose ascending order is the descending order of floats, both zeros alike. */
static uint32_t descending_key(float logit) {
  uint32_t bits = lap_f32_bits(logit + 0.0f);
  return bits >> 31 ? bits : ~bits & 0x7fffffffu;
}

static void radix_pass(const candidate *from, candidate *to, int32_t count, int shift) {
  uint32_t start[RADIX_SIZE] = {0}, sum = 0;
  for (int32_t i = 0; i < count; i++) start[descending_key(from[i].logit) >> shift & (RADIX_SIZE - 1)]++;
  for (int digit = 0; digit < RADIX_SIZE; digit++) {
    uint32_t size = start[digit];
    start[digit] = sum;
    sum += size;
  }
  for (int32_t i = 0; i < count; i++)
    to[start[descending_key(from[i].logit) >> shift & (RADIX_SIZE - 1)]++] = from[i];
}

/* All candidates: a stable sort of a list that is in ascending order of ids. */
static int32_t rank_by_sorting(lap_sampler *sampler) {
  candidate *from = sampler->scratch, *to = sampler->ranked;
  int32_t count = 0;
  for (int32_t id = 0; id < sampler->vocab_size; id++)
    if (sampler->logits[id] > -INFINITY) from[count++] = (candidate){sampler->logits[id], id};
  for (int pass = 0; pass < RADIX_PASSES; pass++) {
    radix_pass(from, to, count, pass * RADIX_BITS);
    candidate *swapped = from;
    from = to;
    to = swapped;
  }
  return count; /* an odd number of passes: the result lies in `ranked` */
}

static int32_t rank_candidates(lap_sampler *sampler) {
  int32_t top_k = sampler->sampling.top_k;
  if (top_k > 0 && top_k <= HEAP_LIMIT) return rank_by_heap(sampler, sampler->ranked, top_k);
  int32_t count = rank_by_sorting(sampler);
  return top_k > 0 && top_k < count ? top_k : count;
}

/* ---- probabilities --------------------------------------------------------------------------- */

static float weight_of(const lap_sampler *sampler, int32_t rank) {
  return lap_exp_portable((sampler->ranked[rank].logit - sampler->ranked[0].logit) /
                          sampler->sampling.temperature);
}

static void accumulate(lap_sampler *sampler, int32_t count) {
  double sum = 0;
  for (int32_t rank = 0; rank < count; rank++)
    sampler->accumulated[rank] = sum += (double)weight_of(sampler, rank);
}

/* The length of the shortest prefix that holds a share of `top_p`. */
static int32_t cut_top_p(const lap_sampler *sampler, int32_t count) {
  if (sampler->sampling.top_p >= 1) return count;
  double wanted = (double)sampler->sampling.top_p * sampler->accumulated[count - 1];
  int32_t kept = 1;
  while (kept < count && sampler->accumulated[kept - 1] < wanted) kept++;
  return kept;
}

/* The largest weight is 1, so min_p bounds the weights themselves. */
static int32_t cut_min_p(const lap_sampler *sampler, int32_t count) {
  if (sampler->sampling.min_p == 0) return count;
  int32_t kept = 1;
  while (kept < count && weight_of(sampler, kept) >= sampler->sampling.min_p) kept++;
  return kept;
}

/* The first rank whose accumulated weight lies above a uniform share of the sum. */
static int32_t draw(lap_sampler *sampler, int32_t count) {
  double share = lap_random_unit(&sampler->random) * sampler->accumulated[count - 1];
  int32_t low = 0, high = count - 1;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (sampler->accumulated[middle] > share)
      high = middle;
    else
      low = middle + 1;
  }
  return sampler->ranked[low].id;
}

static int32_t choose(lap_sampler *sampler) {
  if (sampler->sampling.temperature == 0) return largest(sampler->logits, sampler->vocab_size);
  int32_t candidates = rank_candidates(sampler);
  if (candidates == 0) return largest(sampler->logits, sampler->vocab_size);
  accumulate(sampler, candidates);
  candidates = cut_top_p(sampler, candidates);
  candidates = cut_min_p(sampler, candidates);
  return draw(sampler, candidates);
}

int32_t lap_sampler_next(lap_sampler *sampler, const float *logits, const int32_t *recent, int64_t count) {
  prepare(sampler, logits, recent, count);
  int32_t id = choose(sampler);
  if (sampler->chosen && sampler->chosen[id] < INT32_MAX) sampler->chosen[id]++;
  return id;
}

/* ---- logarithms of probabilities ------------------------------------------------------------- */

/* The logarithm of the sum of all weights, of which the largest is 1. */
static double log_of_sum(const lap_sampler *sampler, float most) {
  double sum = 0;
  for (int32_t id = 0; id < sampler->vocab_size; id++)
    if (sampler->logits[id] > -INFINITY) sum += (double)lap_exp_portable(sampler->logits[id] - most);
  return log(sum);
}

static float logprob_of(float logit, float most, double log_sum) {
  return logit > -INFINITY ? (float)((double)logit - (double)most - log_sum) : -INFINITY;
}

lap_status lap_sampler_logprobs(lap_sampler *sampler, const float *logits, int32_t id, float *logprob,
                                lap_logprob *top, int32_t top_count, int32_t *found, lap_error *error) {
  *found = 0;
  if (id < 0 || id >= sampler->vocab_size)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "logprobs: token id %d is outside the vocabulary of %d", id,
                    sampler->vocab_size);
  if (top_count < 0 || top_count > LAP_MAX_TOP_LOGPROBS)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "top_logprobs: %d is not in 0..%d", top_count,
                    LAP_MAX_TOP_LOGPROBS);
  memcpy(sampler->logits, logits, (size_t)sampler->vocab_size * sizeof *logits);
  exclude(sampler);
  float most = sampler->logits[largest(sampler->logits, sampler->vocab_size)];
  double log_sum = log_of_sum(sampler, most);
  *logprob = logprob_of(sampler->logits[id], most, log_sum);
  candidate best[LAP_MAX_TOP_LOGPROBS];
  if (top_count) *found = rank_by_heap(sampler, best, top_count);
  for (int32_t i = 0; i < *found; i++)
    top[i] = (lap_logprob){best[i].id, logprob_of(best[i].logit, most, log_sum)};
  return LAP_OK;
}
