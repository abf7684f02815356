/* stacks.h: where in a network a text may stand: a set of positions, each with a stack of calls.
 *
 * A position is a state of the network, the rounds that its rule has counted so far, and the frame that says
 * where to go on when the rule ends. Frames are shared: equal stacks have equal numbers, so equal positions
 * are found and kept once. Sets of positions stand behind each other in one array; so do the frames that
 * were added for them: both are given back in the reverse order.
 *
 * Two numbers are no frames: behind BOTTOM stands the end of the text; BASE stands for whatever called, when
 * the way of a single rule is followed. And a frame may stand for several: where many positions differ in
 * their frames only, they become one, whose frame is the union. Without that, a grammar whose rules can be
 * told apart only by their ends would have twice as many stacks after each nesting.
 *
 * Invariant: a set is closed: for each position that calls a rule or may leave its own, what can be read
 * there is in the set too, as positions of their own. So only positions that read something are kept. */
#ifndef LAP_GRAMMAR_STACKS_H
#define LAP_GRAMMAR_STACKS_H

#include "grammar/network.h"

enum {
  LAP_BOTTOM = 0,
  LAP_BASE = 1,
  LAP_MAX_POSITIONS = 4096, /* in one set, before it is closed and after */
  LAP_MAX_FRAMES_DEEP = 1024
};

typedef struct lap_position {
  uint32_t state, count, frame;
} lap_position;

typedef struct lap_frame {
  uint32_t next;   /* state; LAP_NO_STATE: a union */
  uint32_t count;  /* rounds counted by the rule of `next`; of a union: its members */
  uint32_t parent; /* frame, a smaller number; of a union: where its members begin */
  uint32_t depth;
  uint32_t chain; /* another frame of the same hash, or 0 */
} lap_frame;

typedef struct lap_stacks {
  const lap_network *network;
  lap_position *positions; /* sets behind each other */
  size_t count, capacity;
  lap_frame *frames;
  size_t frame_count, frame_capacity;
  size_t tidy_count; /* frames after the last tidying up */
  uint32_t tidied;   /* how often that was: frames have other numbers since */
  uint32_t *members; /* of unions: frames that are none, ascending, smaller than the union's own number */
  size_t member_count, member_capacity;
  uint32_t *heads; /* [head_count]: the last frame of each hash, or 0 */
  size_t head_count;
  lap_position *visited; /* everything that the set being made has come by */
  size_t visited_count, visited_capacity;
  struct lap_stamp *stamps; /* finds a position among many visited ones; NULL until needed */
  uint32_t stamp;
  bool ended;   /* the end of the text is one of the ways on from the set being made */
  bool left;    /* so is BASE */
  bool failed;  /* out of memory, or too many positions */
  size_t steps; /* the work done, in about what it takes to read a byte; counted up for the caller */
} lap_stacks;

/* Errors: false, out of memory. To be freed in either case. */
bool lap_stacks_init(lap_stacks *stacks, const lap_network *network);
void lap_stacks_free(lap_stacks *stacks);
bool lap_stacks_copy(lap_stacks *to, const lap_stacks *from);

/* Begins a new set behind the others. */
void lap_stacks_begin(lap_stacks *stacks);

/* Adds to the set that was begun: a position with what it closes over, or what follows a frame. */
void lap_stacks_enter(lap_stacks *stacks, lap_position position);
void lap_stacks_leave(lap_stacks *stacks, uint32_t frame);

/* Begins a new set: where the positions [from, to) get to by a byte, or by a token. */
void lap_stacks_read_byte(lap_stacks *stacks, size_t from, size_t to, uint8_t byte);
void lap_stacks_read_token(lap_stacks *stacks, size_t from, size_t to, int32_t id);

/* Gives back what stands behind the first `count` positions and `frames` frames. */
void lap_stacks_truncate(lap_stacks *stacks, size_t count, size_t frames);

/* Makes the set [from, count) the only one, and now and then drops frames that nothing refers to. */
void lap_stacks_keep(lap_stacks *stacks, size_t from);

#endif
