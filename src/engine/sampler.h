/* sampler.h: what the public header does not say of samplers: whether one can be made, and, for tests, the
 * project's own random numbers.
 *
 * The generator is xoshiro256** 1.0 (Blackman and Vigna), its four words filled by splitmix64 from the
 * seed: the first four outputs of splitmix64 whose state starts at the seed. */
#ifndef LAP_ENGINE_SAMPLER_H
#define LAP_ENGINE_SAMPLER_H

#include "base/error.h"

/* Whether a sampler can be made of `sampling`. Errors: those of lap_sampler_create. */
lap_status lap_sampling_check(const lap_model *model, const lap_sampling *sampling, lap_error *error);

typedef struct lap_random {
  uint64_t state[4];
} lap_random;

void lap_random_seed(lap_random *random, uint64_t seed);
uint64_t lap_random_next(lap_random *random);

/* Uniform in [0, 1): the upper 53 bits, times 2^-53. */
double lap_random_unit(lap_random *random);

#endif
