/* compiled.h: what a grammar consists of. Inside src/grammar only. */
#ifndef LAP_GRAMMAR_COMPILED_H
#define LAP_GRAMMAR_COMPILED_H

#include <stdatomic.h>

#include "grammar/grammar.h"
#include "grammar/mask_cache.h"
#include "grammar/network.h"

struct lap_grammar {
  const lap_vocabulary *vocabulary;
  lap_network network;
  lap_mask_cache *masks;
  atomic_int owners;
};

#endif
