/* test_requests.c: bodies of the four APIs read, and what is wrong with them named.
 *
 * What a field means, and the name that an error must give, is from the APIs' published references. */
#include "server/front.h"
#include "support/check.h"

static const lap_sampling defaults = {
    .temperature = 1, .top_k = 64, .top_p = 0.95F, .repeat_penalty = 1, .repeat_last = 64};

static lap_request read_ok(const lap_front *front, const char *body) {
  lap_request request;
  lap_error error;
  expect_ok(lap_request_read(front, body, strlen(body), &defaults, &request, &error), &error);
  return request;
}

/* What a client is told: the kind and the field. */
static lap_failure read_wrong(const lap_front *front, const char *body) {
  lap_request request;
  lap_error error;
  lap_failure failure;
  lap_status status = lap_request_read(front, body, strlen(body), &defaults, &request, &error);
  if (status == LAP_OK) fail_msg("accepted: %s", body);
  lap_failure_from(&failure, &error);
  lap_request_free(&request);
  return failure;
}

static void expect_json(const lap_json *value, const char *expected) {
  lap_text text = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &text);
  lap_write_value(&writer, NULL, value);
  lap_write_end(&writer);
  assert_string_equal(lap_text_data(&text), expected);
  lap_text_free(&text);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static void chat_fields_are_read(void **state) {
  (void)state;
  lap_request r = read_ok(
      &lap_front_chat,
      "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true,\"stream_options\":{\"include_"
      "usage\":"
      "true},\"n\":3,\"max_completion_tokens\":7,\"max_tokens\":9,\"stop\":[\"a\",\"bc\"],\"temperature\":0."
      "5,\"top_p\":"
      "0.25,\"top_k\":5,\"min_p\":0.125,\"seed\":-2,\"repetition_penalty\":1.5,\"presence_penalty\":-2,"
      "\"frequency_penalty\":2,\"logit_bias\":{\"17\":-100,\"3\":1.5},\"top_logprobs\":4,\"reasoning_"
      "effort\":\"none\","
      "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":{\"type\":"
      "\"function\","
      "\"function\":{\"name\":\"f\"}},\"parallel_tool_calls\":false,\"nobody_knows_this\":{\"x\":[1]}}");
  assert_true(r.chat && r.stream && r.include_usage && r.logprobs && r.single_call);
  assert_int_equal(r.n, 3);
  assert_int_equal(r.max_tokens, 7);
  assert_int_equal(r.stop_count, 2);
  assert_string_equal(r.stop[1], "bc");
  assert_true(r.sampling.temperature == 0.5F && r.sampling.top_p == 0.25F && r.sampling.min_p == 0.125F);
  assert_int_equal(r.sampling.top_k, 5);
  assert_true(r.sampling.seed == (uint64_t)-2);
  assert_true(r.sampling.repeat_penalty == 1.5F);
  assert_true(r.sampling.presence_penalty == -2 && r.sampling.frequency_penalty == 2);
  assert_int_equal(r.sampling.logit_bias_count, 2);
  assert_int_equal(r.sampling.logit_bias[0].id, 17);
  assert_true(r.sampling.logit_bias[1].bias == 1.5F);
  assert_int_equal(r.top_logprobs, 4);
  assert_int_equal(r.conversation.thinking, LAP_THINKING_OFF);
  assert_int_equal(r.tool_choice, LAP_TOOLS_NAMED);
  assert_string_equal(r.named_tool->string, "f");
  lap_request_free(&r);
}

static void what_is_not_said_is_the_models(void **state) {
  (void)state;
  lap_request r =
      read_ok(&lap_front_chat, "{\"messages\":[{}],\"temperature\":null,\"top_k\":-1,\"max_tokens\":-1}");
  assert_true(r.sampling.temperature == 1 && r.sampling.top_p == 0.95F);
  assert_int_equal(r.sampling.top_k, 0); /* off */
  assert_int_equal(r.max_tokens, 0);
  assert_int_equal(r.n, 1);
  assert_false(r.seeded || r.stream || r.logprobs);
  assert_int_equal(r.conversation.thinking, LAP_THINKING_UNSTATED);
  lap_request other = read_ok(&lap_front_chat, "{\"messages\":[{}]}");
  assert_true(r.sampling.seed != other.sampling.seed);
  lap_request_free(&r);
  lap_request_free(&other);
}

static void thinking_is_said_in_many_ways(void **state) {
  (void)state;
  static const struct {
    const lap_front *front;
    const char *body;
    lap_thinking thinking;
  } cases[] = {
      {&lap_front_chat, "{\"messages\":[{}],\"reasoning_effort\":\"low\"}", LAP_THINKING_ON},
      {&lap_front_chat, "{\"messages\":[{}],\"reasoning_effort\":\"high\",\"enable_thinking\":false}",
       LAP_THINKING_OFF},
      {&lap_front_chat,
       "{\"messages\":[{}],\"enable_thinking\":false,\"chat_template_kwargs\":{\"enable_thinking\":true}}",
       LAP_THINKING_ON},
      {&lap_front_responses, "{\"input\":\"x\",\"reasoning\":{\"effort\":\"medium\"}}", LAP_THINKING_ON},
      {&lap_front_responses, "{\"input\":\"x\",\"reasoning\":{\"effort\":\"minimal\"}}", LAP_THINKING_OFF},
      {&lap_front_messages,
       "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"thinking\":{\"type\":\"enabled\",\"budget_"
       "tokens\":1024}}",
       LAP_THINKING_ON},
      {&lap_front_messages,
       "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"thinking\":{\"type\":\"disabled\"}}",
       LAP_THINKING_OFF},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lap_request r = read_ok(cases[i].front, cases[i].body);
    assert_int_equal(r.conversation.thinking, cases[i].thinking);
    lap_request_free(&r);
  }
}

static void forms_are_read(void **state) {
  (void)state;
  lap_request r =
      read_ok(&lap_front_chat,
              "{\"messages\":[{}],\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":"
              "\"n\",\"schema\":{\"type\":\"object\"}}}}");
  assert_int_equal(r.form, LAP_FORM_SCHEMA);
  expect_json(r.form_source, "{\"type\":\"object\"}");
  lap_request_free(&r);
  r = read_ok(
      &lap_front_responses,
      "{\"input\":\"x\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\"type\":"
      "\"array\"}}}}");
  assert_int_equal(r.form, LAP_FORM_SCHEMA);
  expect_json(r.form_source, "{\"type\":\"array\"}");
  lap_request_free(&r);
  r = read_ok(&lap_front_messages,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"output_config\":{\"format\":{\"type\":"
              "\"json_schema\",\"schema\":{\"type\":\"object\"}}}}");
  assert_int_equal(r.form, LAP_FORM_SCHEMA);
  lap_request_free(&r);
  r = read_ok(&lap_front_completions, "{\"prompt\":\"x\",\"grammar\":\"root ::= \\\"a\\\"\"}");
  assert_int_equal(r.form, LAP_FORM_GRAMMAR);
  lap_request_free(&r);
}

/* ---- conversations --------------------------------------------------------------------------- */

static void anthropic_conversations_become_chat(void **state) {
  (void)state;
  lap_request r = read_ok(&lap_front_messages,
                          "{\"max_tokens\":5,\"system\":[{\"type\":\"text\",\"text\":\"Be\",\"cache_"
                          "control\":{}},{\"type\":\"text\",\"text\":"
                          "\"kind.\"}],\"messages\":[{\"role\":\"user\",\"content\":\"weather?\"},{\"role\":"
                          "\"assistant\",\"content\":[{"
                          "\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"},{\"type\":\"text\","
                          "\"text\":\"Let me look.\"},{"
                          "\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"get\",\"input\":{\"c\":\"R\"}},{"
                          "\"type\":\"tool_use\",\"id\":\"t2\","
                          "\"name\":\"get\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_"
                          "result\",\"tool_use_id\":\"t1\","
                          "\"content\":\"rain\"},{\"type\":\"tool_result\",\"tool_use_id\":\"t2\","
                          "\"content\":[{\"type\":\"text\",\"text\":"
                          "\"sun\"}]},{\"type\":\"text\",\"text\":\"And?\"}]}],\"tools\":[{\"name\":\"get\","
                          "\"description\":\"d\","
                          "\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"any\","
                          "\"disable_parallel_tool_use\":true}}");
  expect_json(r.conversation.messages,
              "[{\"role\":\"system\",\"content\":\"Be\\nkind.\"},{\"role\":\"user\",\"content\":\"weather?\"}"
              ",{\"role\":"
              "\"assistant\",\"content\":\"Let me "
              "look.\",\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"t1\","
              "\"type\":\"function\",\"function\":{\"name\":\"get\",\"arguments\":{\"c\":\"R\"}}},{\"id\":"
              "\"t2\",\"type\":"
              "\"function\",\"function\":{\"name\":\"get\",\"arguments\":{}}}]},{\"role\":\"tool\",\"tool_"
              "call_id\":\"t1\","
              "\"content\":\"rain\"},{\"role\":\"tool\",\"tool_call_id\":\"t2\",\"content\":\"sun\"},{"
              "\"role\":\"user\","
              "\"content\":\"And?\"}]");
  expect_json(
      r.conversation.tools,
      "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"description\":\"d\",\"parameters\":{\"type\":"
      "\"object\"}}}]");
  assert_int_equal(r.tool_choice, LAP_TOOLS_REQUIRED);
  assert_true(r.single_call);
  assert_int_equal(r.max_tokens, 5);
  lap_request_free(&r);
}

static void responses_conversations_become_chat(void **state) {
  (void)state;
  lap_request r =
      read_ok(&lap_front_responses,
              "{\"instructions\":\"Be "
              "kind.\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"
              "\"weather\"},{\"type\":\"input_text\",\"text\":\"?\"}]},{\"type\":\"reasoning\",\"id\":\"rs\","
              "\"summary\":[],"
              "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},{\"type\":\"message\",\"role\":"
              "\"assistant\","
              "\"content\":[{\"type\":\"output_text\",\"text\":\"Let me "
              "look.\",\"annotations\":[]}]},{\"type\":\"function_call\","
              "\"id\":\"fc\",\"call_id\":\"c1\",\"name\":\"get\",\"arguments\":\"{\\\"c\\\":1}\"},{\"type\":"
              "\"function_call_output\",\"call_id\":\"c1\",\"output\":\"rain\"}],\"tools\":[{\"type\":"
              "\"function\",\"name\":"
              "\"get\",\"parameters\":{\"type\":\"object\"},\"strict\":true}],\"tool_choice\":\"required\","
              "\"metadata\":{\"a\":"
              "\"b\"}}");
  expect_json(r.conversation.messages,
              "[{\"role\":\"system\",\"content\":\"Be "
              "kind.\"},{\"role\":\"user\",\"content\":\"weather?\"},{\"role\":"
              "\"assistant\",\"content\":\"Let me "
              "look.\",\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"c1\","
              "\"type\":\"function\",\"function\":{\"name\":\"get\",\"arguments\":\"{\\\"c\\\":1}\"}}]},{"
              "\"role\":\"tool\","
              "\"tool_call_id\":\"c1\",\"content\":\"rain\"}]");
  assert_int_equal(r.tool_choice, LAP_TOOLS_REQUIRED);
  const lap_json *metadata = lap_json_get(r.repeated, lap_json_root(r.repeated), "metadata");
  expect_json(metadata, "{\"a\":\"b\"}");
  lap_request_free(&r);
}

/* ---- faults ---------------------------------------------------------------------------------- */

#define CHAT(fields) "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]," fields "}"

static void wrong_types_name_the_field(void **state) {
  (void)state;
  static const struct {
    const lap_front *front;
    const char *body;
    const char *field;
  } cases[] = {
      {&lap_front_chat, "{}", "messages"},
      {&lap_front_chat, "{\"messages\":5}", "messages"},
      {&lap_front_chat, CHAT("\"temperature\":\"hot\""), "temperature"},
      {&lap_front_chat, CHAT("\"temperature\":-1"), "temperature"},
      {&lap_front_chat, CHAT("\"top_p\":2"), "top_p"},
      {&lap_front_chat, CHAT("\"top_k\":1.5"), "top_k"},
      {&lap_front_chat, CHAT("\"min_p\":true"), "min_p"},
      {&lap_front_chat, CHAT("\"seed\":\"x\""), "seed"},
      {&lap_front_chat, CHAT("\"n\":0"), "n"},
      {&lap_front_chat, CHAT("\"n\":1000"), "n"},
      {&lap_front_chat, CHAT("\"stream\":1"), "stream"},
      {&lap_front_chat, CHAT("\"stream_options\":[]"), "stream_options"},
      {&lap_front_chat, CHAT("\"stream_options\":{\"include_usage\":\"yes\"}"),
       "stream_options.include_usage"},
      {&lap_front_chat, CHAT("\"max_tokens\":\"5\""), "max_tokens"},
      {&lap_front_chat, CHAT("\"max_tokens\":0"), "max_tokens"},
      {&lap_front_chat, CHAT("\"stop\":5"), "stop"},
      {&lap_front_chat, CHAT("\"stop\":[\"a\",5]"), "stop[1]"},
      {&lap_front_chat, CHAT("\"stop\":\"\""), "stop"},
      {&lap_front_chat, CHAT("\"repetition_penalty\":0"), "repetition_penalty"},
      {&lap_front_chat, CHAT("\"presence_penalty\":3"), "presence_penalty"},
      {&lap_front_chat, CHAT("\"frequency_penalty\":\"a\""), "frequency_penalty"},
      {&lap_front_chat, CHAT("\"logit_bias\":[]"), "logit_bias"},
      {&lap_front_chat, CHAT("\"logit_bias\":{\"x\":1}"), "logit_bias.x"},
      {&lap_front_chat, CHAT("\"logit_bias\":{\"5\":\"1\"}"), "logit_bias.5"},
      {&lap_front_chat, CHAT("\"logprobs\":5"), "logprobs"},
      {&lap_front_chat, CHAT("\"top_logprobs\":21"), "top_logprobs"},
      {&lap_front_chat, CHAT("\"tools\":{}"), "tools"},
      {&lap_front_chat, CHAT("\"tools\":[5]"), "tools[0]"},
      {&lap_front_chat, CHAT("\"tools\":[{\"type\":\"web_search\"}]"), "tools[0].type"},
      {&lap_front_chat, CHAT("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":1}}]"),
       "tools[0].function.name"},
      {&lap_front_chat, CHAT("\"tool_choice\":\"maybe\""), "tool_choice"},
      {&lap_front_chat, CHAT("\"tool_choice\":\"required\""), "tool_choice"},
      {&lap_front_chat,
       CHAT("\"tools\":[{\"function\":{\"name\":\"f\"}}],\"tool_choice\":{\"function\":{\"name\":\"g\"}}"),
       "tool_choice.function.name"},
      {&lap_front_chat, CHAT("\"response_format\":\"json\""), "response_format"},
      {&lap_front_chat, CHAT("\"response_format\":{\"type\":\"yaml\"}"), "response_format.type"},
      {&lap_front_chat, CHAT("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}"),
       "response_format.json_schema"},
      {&lap_front_chat, CHAT("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":5}}"),
       "response_format.json_schema.schema"},
      {&lap_front_chat, CHAT("\"grammar\":5"), "grammar"},
      {&lap_front_chat, CHAT("\"reasoning_effort\":5"), "reasoning_effort"},
      {&lap_front_chat, CHAT("\"chat_template_kwargs\":5"), "chat_template_kwargs"},
      {&lap_front_chat, CHAT("\"parallel_tool_calls\":\"no\""), "parallel_tool_calls"},
      {&lap_front_completions, "{}", "prompt"},
      {&lap_front_completions, "{\"prompt\":5}", "prompt"},
      {&lap_front_completions, "{\"prompt\":\"x\",\"echo\":1}", "echo"},
      {&lap_front_completions, "{\"prompt\":\"x\",\"suffix\":\"y\"}", "suffix"},
      {&lap_front_completions, "{\"prompt\":\"x\",\"logprobs\":99}", "logprobs"},
      {&lap_front_responses, "{}", "input"},
      {&lap_front_responses, "{\"input\":5}", "input"},
      {&lap_front_responses, "{\"input\":[{\"type\":\"computer_call\"}]}", "input[0].type"},
      {&lap_front_responses, "{\"input\":[{\"role\":\"king\",\"content\":\"x\"}]}", "input[0].role"},
      {&lap_front_responses, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
       "input[0].content[0].type"},
      {&lap_front_responses, "{\"input\":\"x\",\"instructions\":5}", "instructions"},
      {&lap_front_responses, "{\"input\":\"x\",\"max_output_tokens\":\"5\"}", "max_output_tokens"},
      {&lap_front_responses, "{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}", "previous_response_id"},
      {&lap_front_responses, "{\"input\":\"x\",\"tools\":[{\"type\":\"web_search\"}]}", "tools[0].type"},
      {&lap_front_responses, "{\"input\":\"x\",\"reasoning\":5}", "reasoning"},
      {&lap_front_responses, "{\"input\":\"x\",\"reasoning\":{\"effort\":5}}", "reasoning.effort"},
      {&lap_front_responses, "{\"input\":\"x\",\"text\":{\"format\":5}}", "text.format"},
      {&lap_front_responses, "{\"input\":\"x\",\"temperature\":[]}", "temperature"},
      {&lap_front_messages, "{}", "messages"},
      {&lap_front_messages, "{\"messages\":[]}", "messages"},
      {&lap_front_messages, CHAT("\"max_tokens\":\"many\""), "max_tokens"},
      {&lap_front_messages, "{\"messages\":[{\"role\":\"king\",\"content\":\"x\"}]}", "messages[0].role"},
      {&lap_front_messages, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content"},
      {&lap_front_messages, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
       "messages[0].content[0].type"},
      {&lap_front_messages, CHAT("\"system\":5"), "system"},
      {&lap_front_messages, CHAT("\"stop_sequences\":[5]"), "stop_sequences[0]"},
      {&lap_front_messages, CHAT("\"tools\":[{\"name\":5}]"), "tools[0].name"},
      {&lap_front_messages, CHAT("\"tools\":[{\"type\":\"bash_20250124\",\"name\":\"bash\"}]"),
       "tools[0].type"},
      {&lap_front_messages, CHAT("\"tools\":[{\"name\":\"f\",\"input_schema\":5}]"), "tools[0].input_schema"},
      {&lap_front_messages, CHAT("\"tool_choice\":{\"type\":\"some\"}"), "tool_choice.type"},
      {&lap_front_messages, CHAT("\"thinking\":{\"type\":\"deep\"}"), "thinking.type"},
      {&lap_front_messages, CHAT("\"temperature\":{}"), "temperature"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lap_failure failure = read_wrong(cases[i].front, cases[i].body);
    if (strcmp(failure.field, cases[i].field) != 0 || failure.kind != LAP_FAILURE_INVALID)
      fail_msg("%s: field '%s', message '%s'", cases[i].body, failure.field, failure.message);
  }
}

static void bodies_that_are_no_objects_are_refused(void **state) {
  (void)state;
  static const char *const bodies[] = {"", "[]", "5", "{", "{\"messages\":[],\"messages\":[]}", "\xff"};
  const lap_front *fronts[] = {&lap_front_chat, &lap_front_completions, &lap_front_responses,
                               &lap_front_messages};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
    for (size_t k = 0; k < sizeof fronts / sizeof *fronts; k++)
      assert_int_equal(read_wrong(fronts[k], bodies[i]).kind, LAP_FAILURE_INVALID);
}

static void refusals_have_the_form_of_each_api(void **state) {
  (void)state;
  lap_failure failure = read_wrong(&lap_front_chat, CHAT("\"top_p\":2"));
  lap_text text = {0};
  lap_front_chat.refuse(&text, &failure);
  assert_string_equal(
      text.data,
      "{\"error\":{\"message\":\"top_p: 2 is outside 0..1\",\"type\":\"invalid_request_error\","
      "\"param\":\"top_p\",\"code\":null}}");
  lap_text_free(&text);
  lap_front_messages.refuse(&text, &failure);
  assert_string_equal(
      text.data,
      "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"top_p: 2 is "
      "outside 0..1\"}}");
  lap_text_free(&text);
  lap_failure_set(&failure, LAP_FAILURE_CONTEXT, "too long");
  lap_front_responses.refuse(&text, &failure);
  assert_string_equal(
      text.data,
      "{\"error\":{\"message\":\"too long\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":"
      "\"context_length_exceeded\"}}");
  lap_text_free(&text);
}

static void paths_of_files_are_not_told(void **state) {
  (void)state;
  const lap_error error = {LAP_ERROR_ARGUMENT,
                           "/home/somebody/model/chat_template.jinja:3:4: roles must alternate"};
  lap_failure failure;
  lap_failure_from(&failure, &error);
  assert_string_equal(failure.message, "chat_template.jinja:3:4: roles must alternate");
  assert_string_equal(failure.field, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chat_fields_are_read),
      cmocka_unit_test(what_is_not_said_is_the_models),
      cmocka_unit_test(thinking_is_said_in_many_ways),
      cmocka_unit_test(forms_are_read),
      cmocka_unit_test(anthropic_conversations_become_chat),
      cmocka_unit_test(responses_conversations_become_chat),
      cmocka_unit_test(wrong_types_name_the_field),
      cmocka_unit_test(bodies_that_are_no_objects_are_refused),
      cmocka_unit_test(refusals_have_the_form_of_each_api),
      cmocka_unit_test(paths_of_files_are_not_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
