/* test_sampler.c: the sampler against a straightforward one in double precision, and its generator
 * against published numbers. The model is a plan with nothing but what the sampler reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "engine/sampler.h"
#include "model/model.h"

enum {
  MAX_VOCAB = 5000,
  DRAWS = 10000
};

static const lap_sampling neutral = {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last = 64};

/* ---- helpers --------------------------------------------------------------------------------- */

static lap_sampler *make_sampler(lap_plan *plan, const lap_sampling *sampling) {
  lap_model model = {.plan = plan};
  lap_error error = {0};
  lap_sampler *sampler;
  if (lap_sampler_create(&model, sampling, &sampler, &error) != LAP_OK) fail_msg("%s", error.message);
  return sampler;
}

static int32_t choose(lap_plan *plan, const lap_sampling *sampling, const float *logits,
                      const int32_t *recent, int64_t count) {
  lap_sampler *sampler = make_sampler(plan, sampling);
  int32_t id = lap_sampler_next(sampler, logits, recent, count);
  lap_sampler_destroy(sampler);
  return id;
}

/* Logits of roughly a bell shape with many equal values. */
static void fill_logits(float *logits, int count, uint64_t seed) {
  lap_random random;
  lap_random_seed(&random, seed);
  for (int i = 0; i < count; i++) {
    double sum = 0;
    for (int k = 0; k < 4; k++) sum += lap_random_unit(&random);
    logits[i] = (float)(floor((sum - 2) * 64) / 8);
  }
}

/* ---- the reference --------------------------------------------------------------------------- */

typedef struct choice {
  double logit, probability;
  int32_t id;
} choice;

static int by_rank(const void *left, const void *right) {
  const choice *a = left, *b = right;
  if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
  return a->id < b->id ? -1 : 1;
}

static bool contains(const int32_t *ids, int64_t count, int32_t id) {
  for (int64_t i = 0; i < count; i++)
    if (ids[i] == id) return true;
  return false;
}

static int normalise(choice *choices, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += choices[i].probability;
  for (int i = 0; i < count; i++) choices[i].probability /= sum;
  return count;
}

static double bias_of(const lap_sampling *s, int32_t id) {
  double bias = 0;
  for (int32_t i = 0; i < s->logit_bias_count; i++)
    if (s->logit_bias[i].id == id) bias += (double)s->logit_bias[i].bias;
  return bias;
}

/* The distribution as lapidary.h words it; returns the number of choices, the best first. */
static int reference(const lap_plan *plan, const lap_sampling *s, const float *logits, const int32_t *recent,
                     int64_t recent_count, choice *choices) {
  int count = 0;
  if (recent_count > s->repeat_last) {
    recent += recent_count - s->repeat_last;
    recent_count = s->repeat_last;
  }
  for (int32_t id = 0; id < plan->vocab_size; id++) {
    if (contains(plan->generation.suppress, plan->generation.suppress_count, id)) continue;
    float logit = logits[id];
    if (contains(recent, recent_count, id))
      logit = logit > 0 ? logit / s->repeat_penalty : logit * s->repeat_penalty;
    logit += (float)bias_of(s, id);
    choices[count++] = (choice){.logit = (double)logit, .id = id};
  }
  qsort(choices, (size_t)count, sizeof *choices, by_rank);
  double temperature = (double)s->temperature;
  for (int i = 0; i < count; i++)
    choices[i].probability = exp((choices[i].logit - choices[0].logit) / temperature);
  if (s->top_k && s->top_k < count) count = s->top_k;
  normalise(choices, count);
  if (s->top_p < 1) {
    double sum = 0;
    int kept = 0;
    while (kept < count && (kept == 0 || sum < (double)s->top_p)) sum += choices[kept++].probability;
    count = normalise(choices, kept);
  }
  int kept = 1;
  while (kept < count && choices[kept].probability >= (double)s->min_p * choices[0].probability) kept++;
  return normalise(choices, kept);
}

static int32_t reference_draw(const choice *choices, int count, double unit) {
  double sum = 0;
  for (int i = 0; i < count; i++) {
    sum += choices[i].probability;
    if (sum > unit) return choices[i].id;
  }
  return choices[count - 1].id;
}

/* Chi-squared, of the choices expected at least eight times; the rest together is one more. */
static double chi_squared(const choice *choices, int count, const int *seen, int *freedom) {
  double chi = 0, rest = 0, rest_seen = 0;
  *freedom = -1;
  for (int i = 0; i < count; i++) {
    double expected = choices[i].probability * DRAWS;
    if (expected < 8) {
      rest += expected;
      rest_seen += seen[choices[i].id];
      continue;
    }
    chi += (seen[choices[i].id] - expected) * (seen[choices[i].id] - expected) / expected;
    ++*freedom;
  }
  if (rest >= 8) {
    chi += (rest_seen - rest) * (rest_seen - rest) / rest;
    ++*freedom;
  }
  return chi;
}

static void check_against_reference(lap_plan *plan, const lap_sampling *sampling, uint64_t logits_seed) {
  static float logits[MAX_VOCAB];
  static choice choices[MAX_VOCAB];
  static int seen[MAX_VOCAB];
  static const int32_t recent[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  fill_logits(logits, plan->vocab_size, logits_seed);
  memset(seen, 0, sizeof seen);
  int count = reference(plan, sampling, logits, recent, 10, choices);
  lap_sampler *sampler = make_sampler(plan, sampling);
  lap_random random;
  lap_random_seed(&random, sampling->seed);
  for (int i = 0; i < DRAWS; i++) {
    int32_t id = lap_sampler_next(sampler, logits, recent, 10);
    assert_int_equal(id, reference_draw(choices, count, lap_random_unit(&random)));
    seen[id]++;
  }
  lap_sampler_destroy(sampler);
  int freedom;
  double chi = chi_squared(choices, count, seen, &freedom);
  if (freedom > 0 && chi > freedom + 5 * sqrt(2.0 * freedom) + 5)
    fail_msg("chi-squared %g with %d degrees of freedom", chi, freedom);
}

/* ---- random numbers -------------------------------------------------------------------------- */

static void random_numbers_are_those_published(void **state) {
  (void)state;
  /* xoshiro256** from the state 1, 2, 3, 4. */
  static const uint64_t expected[] = {11520u,
                                      0u,
                                      1509978240u,
                                      1215971899390074240u,
                                      1216172134540287360u,
                                      607988272756665600u,
                                      16172922978634559625u,
                                      8476171486693032832u,
                                      10595114339597558777u,
                                      2904607092377533576u};
  lap_random random = {{1, 2, 3, 4}};
  for (int i = 0; i < 10; i++) assert_true(lap_random_next(&random) == expected[i]);
}

static void a_seed_becomes_a_state_by_splitmix64(void **state) {
  (void)state;
  static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                      4593380528125082431u};
  lap_random random;
  lap_random_seed(&random, 1234567);
  for (int i = 0; i < 4; i++) assert_true(random.state[i] == expected[i]);
}

static void a_drawn_token_follows_from_the_generator(void **state) {
  (void)state;
  /* Eight equal logits: the token is the upper three bits of each output for the seed 42. */
  static const int expected[] = {0, 3, 5, 7, 7, 6, 5, 6, 6, 4, 5, 2, 6, 2, 5, 7, 4, 6, 5, 5, 0, 1, 3, 4};
  lap_plan plan = {.vocab_size = 8};
  lap_sampling sampling = neutral;
  sampling.seed = 42;
  float logits[8] = {0};
  lap_sampler *sampler = make_sampler(&plan, &sampling);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    assert_int_equal(lap_sampler_next(sampler, logits, NULL, 0), expected[i]);
  lap_sampler_destroy(sampler);
}

static void uniform_numbers_stay_below_one(void **state) {
  (void)state;
  lap_random random = {{0}};
  random.state[1] = 0x471c71c71c71c71cu;
  for (int i = 0; i < 100000; i++) {
    double unit = lap_random_unit(&random);
    assert_true(unit >= 0 && unit < 1);
  }
}

/* ---- greedy, penalty, suppression ------------------------------------------------------------ */

static void greedy_takes_the_lowest_id_of_equal_logits(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 6};
  lap_sampling greedy = neutral;
  greedy.temperature = 0;
  const float logits[] = {-1, 2, 0, 2, -3, 2}, zeros[] = {-1, -0.0f, 0.0f, -2, 0.0f, -0.0f};
  assert_int_equal(choose(&plan, &greedy, logits, NULL, 0), 1);
  assert_int_equal(choose(&plan, &greedy, zeros, NULL, 0), 1);
}

static void both_zeros_rank_as_equal_when_drawing(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 4};
  const float logits[] = {-1, -0.0f, 0.0f, -2};
  lap_sampling one = neutral;
  one.top_k = 1;
  assert_int_equal(choose(&plan, &one, logits, NULL, 0), 1);
  one.top_k = 0;
  one.top_p = 0.1f; /* by way of sorting */
  assert_int_equal(choose(&plan, &one, logits, NULL, 0), 1);
}

static void suppressed_ids_are_never_chosen(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 6, .generation = {.suppress_count = 4, .suppress = {3, 1, 3, 99}}};
  lap_sampling greedy = neutral;
  greedy.temperature = 0;
  const float logits[] = {0, 9, 1, 8, 0.5f, -1};
  assert_int_equal(choose(&plan, &greedy, logits, NULL, 0), 2);
  lap_sampler *sampler = make_sampler(&plan, &neutral);
  for (int i = 0; i < 1000; i++) {
    int32_t id = lap_sampler_next(sampler, logits, NULL, 0);
    assert_true(id != 1 && id != 3);
  }
  lap_sampler_destroy(sampler);
}

static void the_penalty_divides_positive_and_multiplies_negative_logits_once(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 4};
  lap_sampling greedy = neutral;
  greedy.temperature = 0;
  greedy.repeat_penalty = 2;
  /* 3 becomes 1.5, not 0.75, though id 0 occurs three times. */
  const float positive[] = {3, 1.4f, 1.6f, 1};
  static const int32_t recent[] = {0, 0, 0, 2};
  assert_int_equal(choose(&plan, &greedy, positive, recent, 4), 0);
  const float negative[] = {-1, -1.5f, -4, -5};
  assert_int_equal(choose(&plan, &greedy, negative, recent, 4), 1);
}

static void the_penalty_looks_back_only_repeat_last_tokens(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 3};
  lap_sampling greedy = neutral;
  greedy.temperature = 0;
  greedy.repeat_penalty = 4;
  greedy.repeat_last = 2;
  const float logits[] = {3, 2, 1};
  static const int32_t recent[] = {0, 1, 2};
  assert_int_equal(choose(&plan, &greedy, logits, recent, 3), 0);
  greedy.repeat_last = 3;
  assert_int_equal(choose(&plan, &greedy, logits, recent, 3), 0); /* 0.75, 0.5, 0.25 */
  greedy.repeat_last = 0;
  assert_int_equal(choose(&plan, &greedy, logits, recent, 3), 0);
  assert_int_equal(choose(&plan, &greedy, logits, recent, 1), 0);
  greedy.repeat_last = 1;
  assert_int_equal(choose(&plan, &greedy, logits, recent, 1), 1);
}

static void ids_outside_the_vocabulary_are_no_penalty(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 2};
  lap_sampling greedy = neutral;
  greedy.temperature = 0;
  greedy.repeat_penalty = 4;
  const float logits[] = {3, 2};
  static const int32_t recent[] = {-1, 2, 1 << 30};
  assert_int_equal(choose(&plan, &greedy, logits, recent, 3), 0);
}

static void the_callers_logits_are_not_changed(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 64, .generation = {.suppress_count = 1, .suppress = {7}}};
  lap_sampling sampling = neutral;
  sampling.repeat_penalty = 3;
  float logits[64], copy[64];
  static const int32_t recent[] = {1, 2, 3};
  fill_logits(logits, 64, 1);
  memcpy(copy, logits, sizeof copy);
  choose(&plan, &sampling, logits, recent, 3);
  assert_memory_equal(logits, copy, sizeof copy);
}

/* ---- presence, frequency, biases ------------------------------------------------------------- */

static void check_sequence(lap_sampling sampling, const float *logits, const int32_t *expected, int count) {
  lap_plan plan = {.vocab_size = 3};
  static const int32_t prompt[] = {0, 0, 0, 2};
  lap_sampler *sampler = make_sampler(&plan, &sampling);
  for (int i = 0; i < count; i++)
    assert_int_equal(lap_sampler_next(sampler, logits, prompt, 4),
                     expected[i]); /* the prompt does not count */
  lap_sampler_destroy(sampler);
}

static void presence_counts_once_and_frequency_each_time(void **state) {
  (void)state;
  const float logits[] = {3, 2.5f, 0};
  lap_sampling s = neutral;
  s.temperature = 0;
  s.presence_penalty = 1; /* 3, 2.5 | 2, 2.5 | 2, 1.5 */
  check_sequence(s, logits, (const int32_t[]){0, 1, 0, 0, 0}, 5);
  s.presence_penalty = 0;
  s.frequency_penalty = 0.4f; /* 3, 2.5 | 2.6, 2.5 | 2.2, 2.5 | 2.2, 2.1 | 1.8, 2.1 | 1.8, 1.7 */
  check_sequence(s, logits, (const int32_t[]){0, 0, 1, 0, 1, 0}, 6);
  s.presence_penalty = 0.25f; /* 3, 2.5 | 2.35, 2.5 | 2.35, 1.85 | 1.95, 1.85 | 1.55, 1.85 */
  check_sequence(s, logits, (const int32_t[]){0, 1, 0, 0, 1}, 5);
  s.presence_penalty = -2; /* what was chosen is preferred: 5 - 0.4 n */
  check_sequence(s, logits, (const int32_t[]){0, 0, 0, 0, 0, 0, 0}, 7);
}

static int32_t choose_biased(const lap_plan *plan, const float *logits, const lap_logit_bias *biases,
                             int32_t count) {
  lap_plan copy = *plan;
  lap_sampling s = neutral;
  s.temperature = 0;
  s.logit_bias = biases;
  s.logit_bias_count = count;
  return choose(&copy, &s, logits, NULL, 0);
}

static void biases_are_added_and_ban_at_their_limit(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 5, .generation = {.suppress_count = 1, .suppress = {4}}};
  const float logits[] = {3, 2, 1, 0, 9};
  assert_int_equal(choose_biased(&plan, logits, (lap_logit_bias[]){{1, 0.5f}}, 1), 0);
  assert_int_equal(choose_biased(&plan, logits, (lap_logit_bias[]){{1, 1.5f}}, 1), 1);
  assert_int_equal(choose_biased(&plan, logits, (lap_logit_bias[]){{0, -1.5f}}, 1), 1);
  /* Of one id they add up. */
  assert_int_equal(choose_biased(&plan, logits, (lap_logit_bias[]){{2, 1.5f}, {2, 1}}, 2), 2);
  assert_int_equal(choose_biased(&plan, logits, (lap_logit_bias[]){{3, 100}}, 1), 3);
  /* What is suppressed stays so. */
  assert_int_equal(choose_biased(&plan, logits, (lap_logit_bias[]){{4, 100}}, 1), 0);
  /* A ban is one, whatever the logits, and nothing takes it back. */
  const float far[] = {1000, 2, 1, 0, 9};
  assert_int_equal(choose_biased(&plan, far, (lap_logit_bias[]){{0, -99}}, 1), 0);
  assert_int_equal(choose_biased(&plan, far, (lap_logit_bias[]){{0, -100}, {0, 100}}, 2), 1);
  lap_sampling hot = neutral;
  hot.temperature = 1000;
  hot.logit_bias = (lap_logit_bias[]){{1, -100}, {3, -100}};
  hot.logit_bias_count = 2;
  lap_sampler *sampler = make_sampler(&plan, &hot);
  for (int i = 0; i < 1000; i++) {
    int32_t id = lap_sampler_next(sampler, logits, NULL, 0);
    assert_true(id == 0 || id == 2);
  }
  lap_sampler_destroy(sampler);
}

static void what_the_caller_excludes_stays_excluded(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 4};
  const float logits[] = {-INFINITY, -INFINITY, -FLT_MAX, -INFINITY};
  lap_sampling s = neutral;
  s.repeat_penalty = 2;
  s.presence_penalty = -2;
  s.logit_bias = (lap_logit_bias[]){{1, 100}};
  s.logit_bias_count = 1;
  for (int greedy = 0; greedy < 2; greedy++) {
    s.temperature = greedy ? 0 : 1;
    lap_sampler *sampler = make_sampler(&plan, &s);
    for (int i = 0; i < 100; i++)
      assert_int_equal(lap_sampler_next(sampler, logits, (const int32_t[]){0, 3}, 2), 2);
    lap_sampler_destroy(sampler);
  }
}

/* ---- logarithms of probabilities ------------------------------------------------------------- */

static lap_sampler *logprob_sampler(lap_plan *plan) {
  /* None of these but the ban may show in a logprob. */
  static const lap_logit_bias biases[] = {{1, 50}, {2, -100}};
  lap_sampling s = neutral;
  s.temperature = 0.1f;
  s.top_k = 1;
  s.repeat_penalty = 3;
  s.presence_penalty = 2;
  s.logit_bias = biases;
  s.logit_bias_count = 2;
  return make_sampler(plan, &s);
}

static void logprobs_are_those_of_the_models_own_distribution(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 6, .generation = {.suppress_count = 1, .suppress = {4}}};
  lap_sampler *sampler = logprob_sampler(&plan);
  /* Weights 1, 2, (banned), 4, (suppressed), 1: an eighth, a quarter, a half, an eighth. */
  const float logits[] = {0, 0.69314718f, 7, 1.38629436f, 8, 0};
  static const double expected[] = {-2.0794415, -1.3862944, -INFINITY, -0.6931472, -INFINITY, -2.0794415};
  lap_logprob top[LAP_MAX_TOP_LOGPROBS];
  lap_error error;
  int32_t found;
  for (int32_t id = 0; id < 6; id++) {
    float logprob = 1;
    lap_sampler_next(sampler, logits, (const int32_t[]){3}, 1);
    assert_int_equal(lap_sampler_logprobs(sampler, logits, id, &logprob, top, id, &found, &error), LAP_OK);
    if (isinf(expected[id]))
      assert_true(isinf(logprob) && logprob < 0);
    else
      assert_true(fabs((double)logprob - expected[id]) < 1e-6);
    assert_int_equal(found, id < 4 ? id : 4); /* two are excluded */
  }
  static const int32_t order[] = {3, 1, 0, 5};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(top[i].id, order[i]);
    assert_true(fabs((double)top[i].logprob - expected[order[i]]) < 1e-6);
  }
  lap_sampler_destroy(sampler);
}

static void logprobs_of_a_large_vocabulary_equal_the_reference(void **state) {
  (void)state;
  static float logits[MAX_VOCAB];
  static choice choices[MAX_VOCAB];
  lap_plan plan = {.vocab_size = MAX_VOCAB, .generation = {.suppress_count = 2, .suppress = {7, 4999}}};
  lap_sampler *sampler = make_sampler(&plan, &neutral);
  lap_logprob top[LAP_MAX_TOP_LOGPROBS];
  lap_error error;
  int32_t found;
  double sum = 0;
  fill_logits(logits, MAX_VOCAB, 12);
  int count = reference(&plan, &neutral, logits, NULL, 0, choices);
  for (int i = 0; i < count; i += 97) {
    float logprob;
    assert_int_equal(lap_sampler_logprobs(sampler, logits, choices[i].id, &logprob, top, 20, &found, &error),
                     LAP_OK);
    assert_true(fabs((double)logprob - log(choices[i].probability)) < 4e-6);
  }
  assert_int_equal(found, 20);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(top[i].id, choices[i].id);
    assert_true(fabs((double)top[i].logprob - log(choices[i].probability)) < 4e-6);
  }
  for (int32_t id = 0; id < MAX_VOCAB; id++) {
    float logprob;
    lap_sampler_logprobs(sampler, logits, id, &logprob, NULL, 0, &found, &error);
    sum += exp((double)logprob);
  }
  assert_true(fabs(sum - 1) < 1e-5);
  lap_sampler_destroy(sampler);
}

static void logprobs_are_never_nan(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 4, .generation = {.suppress_count = 1, .suppress = {0}}};
  const float cases[][4] = {{FLT_MAX, FLT_MAX, -FLT_MAX, 0},
                            {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
                            {0, -INFINITY, 5, -INFINITY},
                            {0, -1000, 1000, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int32_t id = 0; id < 4; id++) {
      float logprob;
      lap_logprob top[4];
      lap_error error;
      int32_t found;
      lap_sampler *sampler = make_sampler(&plan, &neutral);
      assert_int_equal(lap_sampler_logprobs(sampler, cases[i], id, &logprob, top, 4, &found, &error), LAP_OK);
      assert_true(logprob <= 0); /* false for NaN */
      for (int k = 0; k < found; k++) assert_true(top[k].logprob <= 0 && top[k].id != 0);
      lap_sampler_destroy(sampler);
    }
}

static void logprobs_draw_nothing_and_name_what_is_wrong(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 8};
  lap_sampling sampling = neutral;
  sampling.seed = 42;
  const float logits[8] = {0};
  float logprob;
  lap_logprob top[LAP_MAX_TOP_LOGPROBS];
  lap_error error;
  int32_t found;
  lap_sampler *sampler = make_sampler(&plan, &sampling), *other = make_sampler(&plan, &sampling);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(lap_sampler_logprobs(sampler, logits, 3, &logprob, top, 5, &found, &error), LAP_OK);
    assert_int_equal(lap_sampler_next(sampler, logits, NULL, 0), lap_sampler_next(other, logits, NULL, 0));
  }
  static const struct {
    int32_t id, top_count;
    const char *field;
  } wrong[] = {{-1, 0, "logprobs"}, {8, 0, "logprobs"}, {0, -1, "top_logprobs"}, {0, 21, "top_logprobs"}};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(
        lap_sampler_logprobs(sampler, logits, wrong[i].id, &logprob, top, wrong[i].top_count, &found, &error),
        LAP_ERROR_ARGUMENT);
    assert_int_equal(strncmp(error.message, wrong[i].field, strlen(wrong[i].field)), 0);
  }
  lap_sampler_destroy(sampler);
  lap_sampler_destroy(other);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void top_k_keeps_the_lower_ids_of_equal_logits(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 100};
  lap_sampling sampling = neutral;
  sampling.top_k = 3;
  float logits[100];
  for (int i = 0; i < 100; i++) logits[i] = 1;
  logits[50] = 2;
  logits[60] = 0;
  bool seen[100] = {0};
  lap_sampler *sampler = make_sampler(&plan, &sampling);
  for (int i = 0; i < 1000; i++) seen[lap_sampler_next(sampler, logits, NULL, 0)] = true;
  lap_sampler_destroy(sampler);
  for (int i = 0; i < 100; i++) assert_int_equal(seen[i], i == 0 || i == 1 || i == 50);
}

static void top_p_keeps_the_fewest_that_reach_it(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 4};
  /* Equal weights: half is reached by two of four, a little more than half needs three. */
  const float logits[4] = {0};
  for (int wanted = 2; wanted <= 3; wanted++) {
    lap_sampling sampling = neutral;
    sampling.top_p = wanted == 2 ? 0.5f : 0.51f;
    int32_t highest = 0;
    lap_sampler *sampler = make_sampler(&plan, &sampling);
    for (int i = 0; i < 200; i++) {
      int32_t id = lap_sampler_next(sampler, logits, NULL, 0);
      if (id > highest) highest = id;
    }
    lap_sampler_destroy(sampler);
    assert_int_equal(highest, wanted - 1);
  }
}

static void extreme_values_leave_the_best_token(void **state) {
  (void)state;
  static float logits[300];
  lap_plan plan = {.vocab_size = 300};
  fill_logits(logits, 300, 5);
  logits[123] = 40;
  logits[200] = 40;
  const lap_sampling cases[] = {
      {.temperature = 1, .top_p = 0, .repeat_penalty = 1},
      {.temperature = 1, .top_p = 1, .top_k = 1, .repeat_penalty = 1},
      {.temperature = 0, .top_p = 1, .top_k = 50, .repeat_penalty = 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(choose(&plan, &cases[i], logits, NULL, 0), 123);
  logits[200] = 39.99f;
  const lap_sampling cold = {.temperature = 1e-45f, .top_p = 1, .repeat_penalty = 1};
  assert_int_equal(choose(&plan, &cold, logits, NULL, 0), 123);
  const lap_sampling strict = {.temperature = 1, .top_p = 1, .min_p = 1, .repeat_penalty = 1};
  assert_int_equal(choose(&plan, &strict, logits, NULL, 0), 123);
}

static void draws_equal_the_reference(void **state) {
  (void)state;
  static const lap_logit_bias biases[] = {{3, 1.25f}, {17, -2}, {30, 2}, {30, 0.5f}};
  static const lap_sampling cases[] = {
      {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last = 64, .seed = 1},
      {.temperature = 1, .top_p = 0.95f, .top_k = 64, .repeat_penalty = 1, .repeat_last = 64, .seed = 2},
      {.temperature = 0.7f, .top_p = 0.9f, .repeat_penalty = 1.3f, .repeat_last = 4, .seed = 3},
      {.temperature = 1.5f,
       .top_p = 1,
       .top_k = 7,
       .min_p = 0.3f,
       .repeat_penalty = 1,
       .repeat_last = 64,
       .seed = 4},
      {.temperature = 3, .top_p = 0.8f, .min_p = 0.05f, .repeat_penalty = 0.5f, .repeat_last = 64, .seed = 5},
      {.temperature = 2, .top_p = 0.99f, .top_k = 1500, .repeat_penalty = 1, .repeat_last = 0, .seed = 6},
      {.temperature = 2, .top_p = 0.99f, .top_k = 1024, .repeat_penalty = 1.1f, .repeat_last = 9, .seed = 7},
      {.temperature = 1.5f,
       .top_p = 0.95f,
       .repeat_penalty = 1.2f,
       .repeat_last = 64,
       .seed = 9,
       .logit_bias = biases,
       .logit_bias_count = 4},
      {.temperature = 50,
       .top_p = 1,
       .top_k = 0,
       .min_p = 0,
       .repeat_penalty = 1,
       .repeat_last = 64,
       .seed = 8},
  };
  lap_plan small = {.vocab_size = 40, .generation = {.suppress_count = 2, .suppress = {0, 11}}};
  lap_plan large = {.vocab_size = 3000, .generation = {.suppress_count = 1, .suppress = {2999}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_against_reference(&small, &cases[i], 100 + i);
    if (i == 1 || i == 5 || i == 6) check_against_reference(&large, &cases[i], 200 + i);
  }
}

static void one_number_is_used_for_each_token(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 8};
  lap_sampling sampling = neutral;
  sampling.seed = 77;
  const float certain[8] = {1000}, open[8] = {0};
  lap_random random;
  lap_random_seed(&random, 77);
  lap_sampler *sampler = make_sampler(&plan, &sampling);
  for (int i = 0; i < 50; i++) {
    assert_int_equal(lap_sampler_next(sampler, certain, NULL, 0), 0);
    lap_random_next(&random);
    assert_int_equal(lap_sampler_next(sampler, open, NULL, 0), (int)(lap_random_next(&random) >> 61));
  }
  lap_sampler_destroy(sampler);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void check_refused(lap_sampling sampling, const char *field) {
  lap_plan plan = {.vocab_size = 8};
  lap_model model = {.plan = &plan};
  lap_error error = {0};
  lap_sampler *sampler;
  assert_int_equal(lap_sampler_create(&model, &sampling, &sampler, &error), LAP_ERROR_ARGUMENT);
  assert_null(sampler);
  if (strncmp(error.message, field, strlen(field)) != 0)
    fail_msg("'%s' does not name %s", error.message, field);
}

static void values_out_of_range_are_refused_by_name(void **state) {
  (void)state;
  static const float wrong[] = {-0.5f, NAN, INFINITY};
  lap_sampling s;
  for (int i = 0; i < 3; i++) {
    s = neutral;
    s.temperature = wrong[i];
    check_refused(s, "temperature");
    s = neutral;
    s.top_p = wrong[i];
    check_refused(s, "top_p");
    s = neutral;
    s.min_p = wrong[i];
    check_refused(s, "min_p");
    s = neutral;
    s.repeat_penalty = wrong[i];
    check_refused(s, "repeat_penalty");
  }
  s = neutral;
  s.repeat_penalty = 0;
  check_refused(s, "repeat_penalty");
  s = neutral;
  s.top_p = 1.5f;
  check_refused(s, "top_p");
  s = neutral;
  s.top_k = -1;
  check_refused(s, "top_k");
  s = neutral;
  s.repeat_last = -1;
  check_refused(s, "repeat_last");
  static const float penalties[] = {-2.1f, 2.1f, NAN, INFINITY};
  for (int i = 0; i < 4; i++) {
    s = neutral;
    s.presence_penalty = penalties[i];
    check_refused(s, "presence_penalty");
    s = neutral;
    s.frequency_penalty = penalties[i];
    check_refused(s, "frequency_penalty");
  }
}

static void biases_out_of_range_are_refused_by_name(void **state) {
  (void)state;
  static const lap_logit_bias wrong[] = {{-1, 0},      {8, 0},   {0, 100.5f},
                                         {0, -100.5f}, {0, NAN}, {0, -INFINITY}};
  lap_sampling s = neutral;
  for (int i = 0; i < 6; i++) {
    s.logit_bias = (lap_logit_bias[]){{1, 1}, wrong[i]};
    s.logit_bias_count = 2;
    check_refused(s, "logit_bias");
  }
  s.logit_bias = NULL;
  check_refused(s, "logit_bias");
  s.logit_bias_count = -1;
  check_refused(s, "logit_bias");
  lap_logit_bias all[8];
  for (int32_t id = 0; id < 8; id++) all[id] = (lap_logit_bias){id, -100};
  s.logit_bias = all;
  s.logit_bias_count = 8;
  check_refused(s, "logit_bias");
  s.logit_bias_count = 7;
  lap_plan plan = {.vocab_size = 8};
  const float logits[8] = {0};
  assert_int_equal(choose(&plan, &s, logits, NULL, 0), 7);
}

static void a_plan_that_suppresses_everything_is_refused(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 2, .generation = {.suppress_count = 2, .suppress = {1, 0}}};
  lap_model model = {.plan = &plan};
  lap_error error = {0};
  lap_sampler *sampler;
  assert_int_equal(lap_sampler_create(&model, &neutral, &sampler, &error), LAP_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "suppress_tokens"));
}

static void defaults_are_those_of_the_checkpoint(void **state) {
  (void)state;
  lap_plan plan = {.vocab_size = 8,
                   .generation = {.do_sample = true,
                                  .temperature = 0.5f,
                                  .top_k = 9,
                                  .top_p = 0.25f,
                                  .min_p = 0.125f,
                                  .repetition_penalty = 1.5f}};
  lap_model model = {.plan = &plan};
  lap_sampling s = lap_model_sampling(&model);
  assert_true(s.temperature == 0.5f && s.top_k == 9 && s.top_p == 0.25f && s.min_p == 0.125f);
  assert_true(s.repeat_penalty == 1.5f && s.repeat_last == 64 && s.seed == 0);
  plan.generation.do_sample = false;
  assert_true(lap_model_sampling(&model).temperature == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_numbers_are_those_published),
      cmocka_unit_test(a_seed_becomes_a_state_by_splitmix64),
      cmocka_unit_test(a_drawn_token_follows_from_the_generator),
      cmocka_unit_test(uniform_numbers_stay_below_one),
      cmocka_unit_test(greedy_takes_the_lowest_id_of_equal_logits),
      cmocka_unit_test(both_zeros_rank_as_equal_when_drawing),
      cmocka_unit_test(suppressed_ids_are_never_chosen),
      cmocka_unit_test(the_penalty_divides_positive_and_multiplies_negative_logits_once),
      cmocka_unit_test(the_penalty_looks_back_only_repeat_last_tokens),
      cmocka_unit_test(ids_outside_the_vocabulary_are_no_penalty),
      cmocka_unit_test(the_callers_logits_are_not_changed),
      cmocka_unit_test(presence_counts_once_and_frequency_each_time),
      cmocka_unit_test(biases_are_added_and_ban_at_their_limit),
      cmocka_unit_test(what_the_caller_excludes_stays_excluded),
      cmocka_unit_test(logprobs_are_those_of_the_models_own_distribution),
      cmocka_unit_test(logprobs_of_a_large_vocabulary_equal_the_reference),
      cmocka_unit_test(logprobs_are_never_nan),
      cmocka_unit_test(logprobs_draw_nothing_and_name_what_is_wrong),
      cmocka_unit_test(top_k_keeps_the_lower_ids_of_equal_logits),
      cmocka_unit_test(top_p_keeps_the_fewest_that_reach_it),
      cmocka_unit_test(extreme_values_leave_the_best_token),
      cmocka_unit_test(draws_equal_the_reference),
      cmocka_unit_test(one_number_is_used_for_each_token),
      cmocka_unit_test(values_out_of_range_are_refused_by_name),
      cmocka_unit_test(biases_out_of_range_are_refused_by_name),
      cmocka_unit_test(a_plan_that_suppresses_everything_is_refused),
      cmocka_unit_test(defaults_are_those_of_the_checkpoint),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
