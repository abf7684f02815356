/* structured.c: an answer that is JSON valid under a schema; all that it needs is lapidary.h.
 *
 *   cc structured.c $(pkg-config --cflags --libs lapidary) -o structured
 *   ./structured models/pebble '{"type": "object", "properties": {"sum": {"type": "integer"}},
 *       "required": ["sum"]}' "What is 30 + 12?"
 */
#include <lapidary.h>
#include <stdio.h>
#include <string.h>

static bool print(void *context, const lap_piece *piece) {
  (void)context;
  return fwrite(piece->text, 1, piece->length, stdout) == piece->length;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: structured DIRECTORY SCHEMA TEXT\n");
    return 2;
  }
  const char *schema = argv[2], *text = argv[3];
  lap_error error;
  lap_model *model = NULL;
  lap_grammar *grammar = NULL;
  lap_conversation *conversation = NULL;
  lap_turn turn = {.end = LAP_TURN_STOPPED};
  lap_status status = lap_model_open(argv[1], NULL, &model, &error);
  if (status == LAP_OK)
    status = lap_grammar_read_schema(model, schema, strlen(schema), LAP_THOUGHTS_NONE, &grammar, &error);
  if (status == LAP_OK) {
    const lap_conversation_options options = {.sampling = lap_model_sampling(model),
                                              .thinking = LAP_THINKING_OFF,
                                              .grammar = grammar,
                                              .say = print};
    status = lap_conversation_create(model, &options, &conversation, &error);
  }
  if (status == LAP_OK) status = lap_conversation_say(conversation, text, strlen(text), &turn, &error);
  if (status == LAP_OK) putchar('\n');
  if (status != LAP_OK) fprintf(stderr, "structured: %s\n", error.message);
  lap_conversation_destroy(conversation);
  lap_grammar_release(grammar);
  lap_model_close(model);
  return status == LAP_OK && turn.end == LAP_TURN_ANSWERED ? 0 : 1; /* not cut short: the JSON is whole */
}
