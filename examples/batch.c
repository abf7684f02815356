/* batch.c: several texts continued at once, in shared forward passes; all that it needs is lapidary.h.
 *
 *   cc batch.c $(pkg-config --cflags --libs lapidary) -o batch
 *   ./batch models/pebble "One day" "Once upon a time" "The little dog"
 */
#include <lapidary.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer {
  char text[4096];
  size_t length;
} answer;

static bool add(void *context, const char *text, size_t length) {
  answer *a = context;
  if (length >= sizeof a->text - a->length) return false;
  memcpy(a->text + a->length, text, length);
  a->length += length;
  return true;
}

static void ended(void *context, const lap_generate_result *result, const lap_error *error) {
  (void)context;
  (void)result;
  if (error->status != LAP_OK) fprintf(stderr, "batch: %s\n", error->message);
}

static lap_status submit(lap_batch *batch, lap_model *model, const char *prompt, answer *to,
                         lap_error *error) {
  int32_t *ids;
  size_t count;
  lap_status status = lap_model_encode(model, prompt, strlen(prompt), &ids, &count, error);
  if (status != LAP_OK) return status;
  lap_batch_request request = {
      .ids = ids, .count = (int64_t)count, .ended = ended, .sampling = lap_model_sampling(model)};
  request.sampling.temperature = 0;
  request.options = (lap_generate_options){.max_tokens = 100, .text = add, .context = to};
  status = lap_batch_generate(batch, &request, NULL, error);
  free(ids);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: batch DIRECTORY TEXT...\n");
    return 2;
  }
  int count = argc - 2;
  lap_error error;
  lap_model *model = NULL;
  lap_batch *batch = NULL;
  answer *answers = calloc((size_t)count, sizeof *answers);
  lap_status status = lap_model_open(argv[1], NULL, &model, &error);
  if (status == LAP_OK) status = lap_batch_create(model, NULL, &batch, &error);
  for (int i = 0; i < count && status == LAP_OK; i++)
    status = submit(batch, model, argv[i + 2], &answers[i], &error);
  while (status == LAP_OK && lap_batch_step(batch)) {
  }
  if (status != LAP_OK) fprintf(stderr, "batch: %s\n", error.message);
  for (int i = 0; i < count && status == LAP_OK; i++) puts(answers[i].text);
  lap_batch_destroy(batch);
  lap_model_close(model);
  free(answers);
  return status == LAP_OK ? 0 : 1;
}
