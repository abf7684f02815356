/* emit_c.h: steps as C: one template for each kind of step.
 *
 * What a template calls (products, row functions, attention) it asks of the writer, above whose functions its
 * own text stands. The bodies are calls of the templates of src/pass with constants: nothing is computed here
 * that the monolith does not compute with the same bodies, and nothing is decided: which steps there are, in
 * which order, what shares a run and where buffers stand is the program's. */
#ifndef LAP_CUT_EMIT_C_H
#define LAP_CUT_EMIT_C_H

#include "cut/writer.h"
#include "program/program.h"

typedef struct lap_emitter {
  const lap_program *program;
  const lap_program_part *part;
  lap_writer writer;
  const char *self;  /* the expression for the lap_step: "s" or "&s" */
  const char *layer; /* the expression for the layer's number */
  const char *indent;
  lap_operand wide; /* what the variable of this name holds at this point of the text */
} lap_emitter;

/* Adds the statements of a part's runs. `self` and `layer` are expressions. */
void lap_emit_part(lap_emitter *e, int part, const char *self, const char *layer, lap_text *out);

/* Defines the head's product: whoever reads a cut finds it first. */
void lap_emit_head(lap_emitter *e);

/* Points the inputs that all layers use to their places. */
void lap_emit_place_inputs(lap_emitter *e);

/* The products that differ between the layers of one kind are fields of a structure that the calls carry. */
bool lap_emit_varies(const lap_program_part *kind);
void lap_emit_formats_type(const lap_program *program, lap_text *out);
void lap_emit_formats(lap_emitter *e, const lap_program_call *call, lap_text *out);

/* Returns the name of the function that gives the shape of a step's attention. */
const char *lap_emit_shape(lap_emitter *e, const lap_program_step *step);

/* The part's first step of that kind, or NULL. */
const lap_program_step *lap_find_step(const lap_program *program, const lap_program_part *part,
                                      lap_step_kind kind);

/* ---- words ---- */

typedef struct lap_word {
  char text[128];
} lap_word;

/* "4g64" for 4 bits in groups of 64; the number format only where it is not the usual one. */
lap_word lap_weight_word(const lap_linear *linear);
lap_word lap_capitals(const char *name);

#endif
