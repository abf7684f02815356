/* runs.c: which steps share a parallel run, by one rule.
 *
 * A step joins the run before it if both divide their work alike, rows or rows of weights; if they lie on the
 * same ways; and if it conflicts with none of the run's steps. Where they are divided by rows a thread goes
 * through all steps for a row, and may read what it wrote; else all tasks run beside each other. What only
 * shows rows to somebody who watches ends no run: it moves behind those that join, which must not write what
 * it shows. */
#include <stdlib.h>

#include "program/build.h"

/* The products of a run are all of one kind: pairs are divided otherwise. */
static bool divides_alike(const lap_program_step *a, const lap_program_step *b) {
  if (a->division != b->division) return false;
  return a->division == LAP_BY_ROWS || (a->division == LAP_BY_OUTPUTS && a->kind == b->kind);
}

/* Whether `step` joins the run of steps first .. step - 1, the last of which may show rows. */
static bool joins(const lap_program *program, const lap_program_step *first, const lap_program_step *step) {
  if (!divides_alike(first, step) || first->ways != step->ways) return false;
  for (const lap_program_step *before = first; before < step; before++)
    if (lap_program_conflict(program, before, step)) return false;
  return true;
}

/* Moves `step` to `to`, and what is between them one place back. */
static void move_forward(lap_program_step *to, lap_program_step *step) {
  const lap_program_step moved = *step;
  for (; step > to; step--) *step = step[-1];
  *to = moved;
}

static void add_run(lap_program *program, lap_program_part *part, int first, int steps) {
  program->run[program->runs++] = (lap_program_run){first, steps};
  part->runs++;
}

/* The runs of a part, from the step at which one begins to that at which the next one does. */
static void derive_part(lap_program *program, lap_program_part *part) {
  const int end = part->first + part->steps;
  part->first_run = program->runs;
  for (int first = part->first, next; first < end; first = next) {
    int steps = 1;
    for (next = first + 1; next < end; next++) {
      lap_program_step *step = &program->step[next];
      if (joins(program, &program->step[first], step))
        move_forward(&program->step[first + steps++], step);
      else if (step->kind != LAP_STEP_SHOW)
        break;
    }
    add_run(program, part, first, steps);
    for (int i = first + steps; i < next; i++) add_run(program, part, i, 1);
  }
}

lap_status lap_program_derive_runs(lap_program *program, lap_error *error) {
  program->run = calloc((size_t)program->steps, sizeof *program->run); /* there are at most as many */
  if (!program->run) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the list of steps");
  for (int p = 0; p < program->parts; p++) derive_part(program, &program->part[p]);
  return LAP_OK;
}
