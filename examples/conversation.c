/* conversation.c: a conversation with the library, a turn for each text; all that it needs is lapidary.h.
 *
 *   cc conversation.c $(pkg-config --cflags --libs lapidary) -o conversation
 *   ./conversation models/pebble "What is 74 - 8?" "What is 30 + 12?"
 */
#include <lapidary.h>
#include <stdio.h>
#include <string.h>

static bool print(void *context, const lap_piece *piece) {
  (void)context;
  return piece->kind != LAP_PIECE_TEXT || fwrite(piece->text, 1, piece->length, stdout) == piece->length;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: conversation DIRECTORY TEXT...\n");
    return 2;
  }
  lap_error error;
  lap_model *model = NULL;
  lap_conversation *conversation = NULL;
  lap_status status = lap_model_open(argv[1], NULL, &model, &error);
  if (status == LAP_OK) {
    lap_conversation_options options = {.sampling = lap_model_sampling(model), .say = print};
    options.sampling.temperature = 0;
    status = lap_conversation_create(model, &options, &conversation, &error);
  }
  for (int i = 2; i < argc && status == LAP_OK; i++) {
    lap_turn turn;
    status = lap_conversation_say(conversation, argv[i], strlen(argv[i]), &turn, &error);
    putchar('\n');
  }
  if (status != LAP_OK) fprintf(stderr, "conversation: %s\n", error.message);
  lap_conversation_destroy(conversation);
  lap_model_close(model);
  return status == LAP_OK ? 0 : 1;
}
