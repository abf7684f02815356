/* barriers.c: where threads must wait for each other.
 *
 * A run needs a barrier before it if one of its steps conflicts with one that ran since the last barrier on
 * some way to it: one of the two writes what the other touches, and what they touch is not, row by row, the
 * same thread's own. That is asked of the places in the arena, not of names, so that buffers which share room
 * are seen. */
#include "program/build.h"

/* The mixture of experts divides itself: norm and gather by rows, and three batches of products; between
 * these, and before the sum, it waits. */
enum {
  RUNS_OF_EXPERTS = 5,
  BARRIERS_OF_EXPERTS = 6
};

typedef struct instance {
  const lap_program_step *step;
  int32_t cache;
} instance;

static instance instance_at(const lap_program *program, int number) {
  const lap_program_call *call;
  const lap_program_step *step = lap_program_at(program, number, &call);
  return (instance){step, call->cache};
}

static bool overlaps(const lap_program *program, const lap_operand *a, int32_t cache_of_a,
                     const lap_operand *b, int32_t cache_of_b) {
  if (a->buffer >= LAP_BUFFERS_OF_ROWS || b->buffer >= LAP_BUFFERS_OF_ROWS)
    return a->buffer == b->buffer && (a->buffer != LAP_BUFFER_CACHE || cache_of_a == cache_of_b);
  const lap_place *x = &program->place[a->buffer], *y = &program->place[b->buffer];
  return x->at < y->at + y->bytes && y->at < x->at + x->bytes;
}

/* A row of the one is the same memory as the same row of the other. */
static bool same_rows(const lap_program *program, const lap_operand *a, const lap_operand *b) {
  return program->place[a->buffer].at == program->place[b->buffer].at && a->width == b->width &&
         a->forms == b->forms;
}

static bool conflict(const lap_program *program, const instance *a, const instance *b) {
  const bool by_rows = a->step->division == LAP_BY_ROWS && b->step->division == LAP_BY_ROWS;
  for (int i = 0; i < a->step->reads + a->step->writes; i++)
    for (int j = 0; j < b->step->reads + b->step->writes; j++) {
      const bool a_reads = i < a->step->reads, b_reads = j < b->step->reads;
      const lap_operand *x = a_reads ? &a->step->read[i] : &a->step->write[i - a->step->reads];
      const lap_operand *y = b_reads ? &b->step->read[j] : &b->step->write[j - b->step->reads];
      if ((a_reads && b_reads) || !overlaps(program, x, a->cache, y, b->cache)) continue;
      if (!by_rows || !same_rows(program, x, y)) return true;
    }
  return false;
}

bool lap_program_conflict(const lap_program *program, const lap_program_step *a, const lap_program_step *b) {
  return conflict(program, &(instance){.step = a}, &(instance){.step = b});
}

bool lap_steps_conflict(const lap_program *program, int earlier, int later) {
  const instance a = instance_at(program, earlier), b = instance_at(program, later);
  if (a.step->kind == LAP_STEP_SHOW || b.step->kind == LAP_STEP_SHOW) return false;
  return (a.step->ways & b.step->ways) != 0 && conflict(program, &a, &b);
}

/* Looks back from the run that begins with step `first`, on every way that leads to its step `number`, on
 * each as far as the last barrier. */
static bool needs_barrier(const lap_program *program, int first, int number) {
  unsigned open = instance_at(program, number).step->ways;
  for (int i = first - 1; i >= 0 && open; i--) {
    const lap_program_step *before = instance_at(program, i).step;
    if (!(before->ways & open)) continue;
    if (lap_steps_conflict(program, i, number)) return true;
    if (before->barrier) open &= ~before->ways;
  }
  return false;
}

/* A kind's runs are asked in every layer that is of it: what stands before the first ones differs. A barrier
 * that is found late only makes the looks back before it longer than they had to be. */
void lap_program_derive_barriers(lap_program *program) {
  for (int c = 0; c < program->calls; c++) {
    const lap_program_part *part = &program->part[program->call[c].part];
    for (int r = part->first_run; r < part->first_run + part->runs; r++) {
      const lap_program_run *run = &program->run[r];
      const int first = program->call[c].first + run->first - part->first;
      for (int i = 0; i < run->steps && !program->step[run->first].barrier; i++)
        program->step[run->first].barrier = needs_barrier(program, first, first + i);
    }
  }
}

static void count_run(const lap_program *program, const lap_program_run *run, lap_program_counts *counts) {
  const lap_program_step *step = &program->step[run->first];
  if (step->kind == LAP_STEP_SHOW || !(step->ways & LAP_WAY_ALL_STAY)) return;
  const bool stages = step->division == LAP_BY_STAGES;
  counts->steps += run->steps;
  counts->runs += stages ? RUNS_OF_EXPERTS : step->division != LAP_BY_ONE;
  counts->barriers += stages ? BARRIERS_OF_EXPERTS : 0;
  for (int i = 0; i < run->steps; i++) counts->barriers += step[i].barrier;
}

lap_program_counts lap_program_count(const lap_program *program, int first, int count) {
  lap_program_counts counts = {0};
  for (int c = first; c < first + count; c++) {
    const lap_program_part *part = &program->part[program->call[c].part];
    for (int r = 0; r < part->runs; r++) count_run(program, &program->run[part->first_run + r], &counts);
  }
  return counts;
}
