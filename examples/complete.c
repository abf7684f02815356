/* complete.c: a text continued with the library; all that it needs is lapidary.h.
 *
 *   cc complete.c $(pkg-config --cflags --libs lapidary) -o complete
 *   ./complete models/pebble "One day"
 */
#include <lapidary.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool print(void *context, const char *text, size_t length) {
  (void)context;
  return fwrite(text, 1, length, stdout) == length;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: complete DIRECTORY TEXT\n");
    return 2;
  }
  lap_error error;
  lap_model *model = NULL;
  lap_session *session = NULL;
  lap_sampler *sampler = NULL;
  int32_t *ids = NULL;
  size_t count;
  lap_status status = lap_model_open(argv[1], NULL, &model, &error);
  if (status == LAP_OK) status = lap_session_create(model, NULL, &session, &error);
  if (status == LAP_OK) status = lap_model_encode(model, argv[2], strlen(argv[2]), &ids, &count, &error);
  if (status == LAP_OK) {
    lap_sampling greedy = lap_model_sampling(model);
    greedy.temperature = 0;
    status = lap_sampler_create(model, &greedy, &sampler, &error);
  }
  if (status == LAP_OK) {
    lap_generate_options options = {.max_tokens = 100, .text = print};
    lap_generate_result result;
    status = lap_generate(session, sampler, ids, (int64_t)count, &options, &result, &error);
    putchar('\n');
  }
  if (status != LAP_OK) fprintf(stderr, "complete: %s\n", error.message);
  free(ids);
  lap_sampler_destroy(sampler);
  lap_session_destroy(session);
  if (model) lap_model_close(model);
  return status == LAP_OK ? 0 : 1;
}
