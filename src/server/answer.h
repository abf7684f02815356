/* answer.h: the answer to a request, while the engine makes it.
 *
 * An answer has one or more choices, each a sequence of the batch. What the model says becomes parts in the
 * order in which it is said: text, thoughts, calls of tools. The API's front (front.h) prints them: of a
 * stream each piece as soon as it is certain, else all at the end.
 *
 * An answer is made on an HTTP thread, handed to the engine's thread (service.h), and from then on is that
 * thread's alone. */
#ifndef LAP_SERVER_ANSWER_H
#define LAP_SERVER_ANSWER_H

#include "engine/batch.h"
#include "server/failure.h"
#include "server/http.h"
#include "server/request.h"
#include "server/served.h"

enum {
  LAP_ID_BYTES = 40
};

typedef struct lap_part {
  lap_piece_kind kind;
  char id[LAP_ID_BYTES]; /* random digits, for the API to put a prefix to */
  int order;             /* among the parts of its kind, from 0 */
  lap_text text;         /* of a call: its arguments, a JSON object */
  char *name;            /* of a call */
  size_t first_note, notes;
} lap_part;

typedef struct lap_choice {
  int index;
  lap_part *part; /* [parts] */
  int parts;
  lap_note *note; /* [notes] */
  size_t notes, note_capacity;
  lap_finish finish;
  const char *stop_string; /* FINISH_STOP: which */
  int64_t tokens;          /* the end token included */
} lap_choice;

typedef struct lap_usage {
  int64_t prompt_tokens; /* of each prompt once */
  int64_t cached_tokens; /* of them, that were not computed */
  int64_t tokens;        /* of all choices */
  int64_t thought_tokens;
  /* Of the first choice; 0 as long as it has no token. */
  double first_token_seconds; /* since the request arrived */
  double prompt_seconds;      /* since it left the queue */
  double decode_seconds;
} lap_usage;

typedef struct lap_answer {
  const lap_served *served;
  lap_request request;
  char id[LAP_ID_BYTES];
  int64_t created;    /* seconds since 1970 */
  lap_choice *choice; /* [choices] */
  int choices;
  lap_usage usage;
  lap_text out; /* what the front prints, on its way to the reply */

  int64_t sequence; /* the front's own: events of a stream so far */

  /* the engine's */
  lap_reply *reply;
  struct lap_run *run; /* [choices] */
  int running;         /* choices not ended */
  bool streaming;      /* the reply has begun */
  bool begun;          /* the front has */
  bool failed;
  lap_failure failure; /* then */
  double arrived, written;
  struct lap_answer *next;
} lap_answer;

/* Takes over `*request`, prepared, which is empty afterwards; holds the reply. Errors: MEMORY. */
lap_status lap_answer_create(const lap_served *served, lap_request *request, lap_reply *reply,
                             lap_answer **out, lap_error *error);
void lap_answer_destroy(lap_answer *answer);

/* What the engine is to compute for a choice; and the job that it has made of it. */
lap_job_request lap_answer_job(lap_answer *answer, int choice);
void lap_answer_set_job(lap_answer *answer, int choice, lap_job *job);
/* The job of a choice, or NULL: not submitted, or ended. */
lap_job *lap_answer_get_job(const lap_answer *answer, int choice);

/* A choice that the engine did not take. */
void lap_answer_refuse(lap_answer *answer, int choice, const lap_error *error);
/* The reply to a stream begins. */
void lap_answer_open(lap_answer *answer);
/* Keeps a stream alive that has nothing to say. */
void lap_answer_ping(lap_answer *answer);
/* The answer will fail, for this reason, once its jobs have ended (unless it has a reason already). */
void lap_answer_fail(lap_answer *answer, const lap_failure *failure);

/* All choices have ended, and the reply too. */
bool lap_answer_is_over(const lap_answer *answer);

#endif
