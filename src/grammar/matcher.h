/* matcher.h: how far a text has come in a grammar, and which tokens may come next.
 *
 * One thread uses a matcher at a time; a copy is independent. Ids that end the text (those the vocabulary was
 * given) are allowed where the grammar may end, and also where nothing else is: then the text is as complete
 * as it can become. */
#ifndef LAP_GRAMMAR_MATCHER_H
#define LAP_GRAMMAR_MATCHER_H

#include "grammar/grammar.h"

typedef struct lap_matcher lap_matcher;

/* At the beginning of a text. Holds the grammar. Errors: UNSUPPORTED (too ambiguous), MEMORY. */
lap_status lap_matcher_create(lap_grammar *grammar, lap_matcher **out, lap_error *error);
lap_status lap_matcher_copy(const lap_matcher *matcher, lap_matcher **out, lap_error *error);
void lap_matcher_destroy(lap_matcher *matcher);

/* Writes the set of allowed ids: id i is bit i % 64 of bits[i / 64] [lap_vocabulary_words].
 * Errors: UNSUPPORTED (the grammar is too ambiguous at this point), MEMORY; the matcher is unchanged. */
lap_status lap_matcher_mask(lap_matcher *matcher, uint64_t *bits, lap_error *error);

/* Sets the logits [vocab_size] of ids that are not allowed to minus infinity; the model's vocabulary may be
 * larger than the tokenizer's. Errors: as above. */
lap_status lap_matcher_apply(lap_matcher *matcher, float *logits, int32_t vocab_size, lap_error *error);

/* Is this one allowed? Much cheaper than a mask. False also where the answer would be an error. */
bool lap_matcher_allows(lap_matcher *matcher, int32_t id);

/* Goes on by a token. Errors: ARGUMENT (it is not allowed; the matcher is unchanged), UNSUPPORTED, MEMORY. */
lap_status lap_matcher_accept(lap_matcher *matcher, int32_t id, lap_error *error);

/* May the text end here? */
bool lap_matcher_is_complete(const lap_matcher *matcher);

/* Has an end token been accepted? Then only end tokens are allowed. */
bool lap_matcher_is_finished(const lap_matcher *matcher);

#endif
