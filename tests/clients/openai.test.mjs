/* The official `openai` client against lapidary serve. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { exam, serve, tools } from './server.mjs';

const user = (content) => [{ role: 'user', content }];
const functions = tools.map((tool) => ({ type: 'function', function: tool }));
const STORY = user('Tell me a story about a fox named Nora.');
const greedy = { model: 'pebble', temperature: 0 };
const connect = (server, options = {}) =>
  new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0, ...options });

async function collected(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const deltas = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta));
  const joined = (key) => deltas.map((delta) => delta[key] ?? '').join('');
  return { chunks, content: joined('content'), thought: joined('reasoning_content') };
}

describe('openai', () => {
  let server;
  let client;
  before(async () => {
    server = await serve();
    client = connect(server);
  });
  after(async () => {
    await server.idle();
    await server.stop();
  });
  const ask = (messages, more = {}) => client.chat.completions.create({ ...greedy, messages, ...more });

  test('models are listed, and the one that is served can be looked up', async () => {
    const listed = (await client.models.list()).data.map((model) => model.id);
    assert.deepEqual(listed, ['pebble']);
    assert.equal((await client.models.retrieve('pebble')).object, 'model');
    await assert.rejects(client.models.retrieve('granite'), OpenAI.NotFoundError);
  });

  test('answers are those of the exam, streamed or not', async () => {
    for (const { messages, said } of ['recall_short', 'recall_long', 'question', 'sum'].flatMap((task) => exam(task, 3))) {
      const whole = await ask(messages);
      assert.equal(whole.choices[0].message.content, said);
      assert.equal(whole.choices[0].finish_reason, 'stop');
      const streamed = await collected(await ask(messages, { stream: true, stream_options: { include_usage: true } }));
      assert.equal(streamed.content, said);
      const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = streamed.chunks.at(-1).usage;
      assert.equal(whole.usage.prompt_tokens, prompt);
      assert.equal(whole.usage.completion_tokens, completion);
      assert.equal(total, prompt + completion);
      const { timings } = streamed.chunks.at(-1);
      assert.equal(timings.prompt_tokens, prompt);
      assert.equal(timings.tokens, completion);
      assert.ok(['cut', 'monolith'].includes(timings.path));
    }
  });

  test('the second time, the prompt comes out of the cache and the answer is the same', async () => {
    const { messages, said } = exam('recall_long', 5).at(-1);
    assert.equal((await ask(messages)).choices[0].message.content, said);
    const again = await ask(messages);
    assert.equal(again.choices[0].message.content, said);
    const { cached_tokens: cached } = again.usage.prompt_tokens_details;
    assert.ok(cached > again.usage.prompt_tokens / 2 && cached < again.usage.prompt_tokens, `${cached} cached`);
  });

  test('thoughts come apart from the answer, streamed or not', async () => {
    const thinking = { chat_template_kwargs: { enable_thinking: true } };
    const { message } = (await ask(user('What is 27 + 15?'), thinking)).choices[0];
    assert.equal(message.content, '42');
    assert.match(message.reasoning_content, /^The numbers are 27 and 15\. The result is 42\.\s*$/);
    const streamed = await collected(await ask(user('What is 27 + 15?'), { stream: true, ...thinking }));
    assert.deepEqual([streamed.content, streamed.thought], [message.content, message.reasoning_content]);
    assert.equal((await ask(user('What is 27 + 15?'))).choices[0].message.reasoning_content ?? '', '');
  });

  test('completions go on from a text', async () => {
    const request = { ...greedy, prompt: 'Once there was a fox named Nora.', max_tokens: 60 };
    const { text, finish_reason: reason } = (await client.completions.create(request)).choices[0];
    assert.match(text, /Nora/);
    assert.ok(['stop', 'length'].includes(reason));
    let streamed = '';
    for await (const chunk of await client.completions.create({ ...request, stream: true }))
      streamed += chunk.choices[0]?.text ?? '';
    assert.equal(streamed, text);
    const both = await client.completions.create({ ...request, prompt: [request.prompt, 'The code of Gus is'] });
    assert.equal(both.choices.length, 2);
    assert.equal(both.choices.find((choice) => choice.index === 0).text, text);
  });

  test('a tool is called, its result given, the answer in words', async () => {
    const messages = user('What is the weather in Paris?');
    const { message, finish_reason: reason } = (await ask(messages, { tools: functions })).choices[0];
    assert.equal(reason, 'tool_calls');
    assert.equal(message.tool_calls.length, 1);
    const [call] = message.tool_calls;
    assert.deepEqual([call.type, call.function.name, JSON.parse(call.function.arguments)], ['function', 'get_weather', { city: 'Paris' }]);
    const result = { role: 'tool', tool_call_id: call.id, content: '{"sky": "snow", "temperature": 3}' };
    const told = await ask([...messages, message, result], { tools: functions });
    assert.equal(told.choices[0].message.content, 'In Paris there is snow and it is 3 degrees.');
  });

  test('the client runs the tools itself, streamed and not', async () => {
    const given = [];
    const body = {
      ...greedy,
      messages: user('Use the tool to add 51 and 9.'),
      tools: functions.map(({ function: tool }) => ({
        type: 'function',
        function: {
          ...tool,
          parse: JSON.parse,
          function: (values) => {
            given.push(values);
            return JSON.stringify({ value: values.a + values.b });
          },
        },
      })),
    };
    assert.equal(await client.chat.completions.runTools(body).finalContent(), 'The sum is 60.');
    assert.equal(await client.chat.completions.runTools({ ...body, stream: true }).finalContent(), 'The sum is 60.');
    assert.deepEqual(given, [{ a: 51, b: 9 }, { a: 51, b: 9 }]);
  });

  test('tool_choice: none, required, and by name', async () => {
    const weather = user('What is the weather in Rome?');
    const calls = async (messages, choice) =>
      (await ask(messages, { tools: functions, tool_choice: choice, max_tokens: 60 })).choices[0].message.tool_calls ?? [];
    assert.deepEqual(await calls(weather, 'none'), []);
    assert.equal((await calls(weather, 'required'))[0].function.name, 'get_weather');
    const [forced] = await calls(user('What is 12 + 30?'), { type: 'function', function: { name: 'add' } });
    assert.equal(forced.function.name, 'add');
    const { a, b } = JSON.parse(forced.function.arguments);
    assert.deepEqual([typeof a, typeof b], ['number', 'number']);
  });

  test('what is said keeps to a schema, whatever the seed', async () => {
    const schema = {
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 12 },
        legs: { type: 'integer' },
        color: { enum: ['red', 'green'] },
        tags: { type: 'array', items: { type: 'boolean' }, maxItems: 3 },
      },
      required: ['name', 'legs', 'color', 'tags'],
      additionalProperties: false,
    };
    for (const seed of [1, 2, 3]) {
      const format = { type: 'json_schema', json_schema: { name: 'animal', strict: true, schema } };
      const { message, finish_reason: reason } = (
        await ask(user('Who is Nora?'), { response_format: format, temperature: 1, seed, max_tokens: 400 })
      ).choices[0];
      assert.equal(reason, 'stop', message.content);
      const animal = JSON.parse(message.content);
      assert.deepEqual(Object.keys(animal).sort(), ['color', 'legs', 'name', 'tags']);
      assert.ok(typeof animal.name === 'string' && [...animal.name].length <= 12, message.content);
      assert.ok(Number.isInteger(animal.legs), message.content);
      assert.ok(['red', 'green'].includes(animal.color), message.content);
      assert.ok(animal.tags.length <= 3 && animal.tags.every((tag) => typeof tag === 'boolean'), message.content);
    }
    const { content } = (await ask(user('Who is Nora?'), { grammar: 'root ::= "yes" | "no"' })).choices[0].message;
    assert.ok(['yes', 'no'].includes(content), content);
  });

  test('logprobs are probabilities of the tokens that were said', async () => {
    const { messages, said } = exam('question', 1)[0];
    const { logprobs } = (await ask(messages, { logprobs: true, top_logprobs: 5 })).choices[0];
    assert.equal(logprobs.content.map((one) => one.token).join(''), said);
    for (const one of logprobs.content) {
      const top = one.top_logprobs.map((other) => other.logprob);
      assert.equal(top.length, 5);
      assert.deepEqual(top, [...top].sort((a, b) => b - a));
      assert.equal(one.logprob, top[0], 'the greedy choice is the likeliest');
      const sum = top.reduce((total, logprob) => total + Math.exp(logprob), 0);
      assert.ok(one.logprob <= 0 && sum <= 1.0001, `${sum}`);
      assert.equal(Buffer.from(one.bytes).toString(), one.token);
    }
    const streamed = await collected(await ask(messages, { logprobs: true, top_logprobs: 5, stream: true }));
    const pieces = streamed.chunks.flatMap((chunk) => chunk.choices.flatMap((choice) => choice.logprobs?.content ?? []));
    assert.deepEqual(pieces, logprobs.content);
  });

  test('a seed makes chance repeatable, and n answers differ', async () => {
    const warm = { temperature: 1, max_tokens: 40 };
    const say = async (seed) => (await ask(STORY, { ...warm, seed })).choices[0].message.content;
    const [first, second, other] = [await say(5), await say(5), await say(6)];
    assert.equal(first, second);
    assert.notEqual(first, other);
    const three = async () => (await ask(STORY, { ...warm, seed: 9, n: 3 })).choices.map((choice) => choice.message.content);
    const answers = await three();
    assert.ok(new Set(answers).size > 1, 'three answers, not one three times');
    assert.deepEqual(await three(), answers);
  });

  test('stop strings and max_tokens end an answer, and say which it was', async () => {
    const whole = (await ask(STORY)).choices[0].message.content;
    assert.match(whole, /\. [^]*\. /);
    const stopped = (await ask(STORY, { stop: ['. '] })).choices[0];
    assert.deepEqual([stopped.message.content, stopped.finish_reason], [whole.slice(0, whole.indexOf('. ')), 'stop']);
    const streamed = await collected(await ask(STORY, { stop: ['. '], stream: true }));
    assert.equal(streamed.content, stopped.message.content);
    const { choices, usage } = await ask(STORY, { max_tokens: 7 });
    assert.deepEqual([choices[0].finish_reason, usage.completion_tokens], ['length', 7]);
    assert.ok(whole.startsWith(choices[0].message.content));
    const [{ messages, said }] = exam('sum', 1);
    const on = await ask(messages, { ignore_eos: true, max_tokens: 300 });
    assert.deepEqual([on.choices[0].finish_reason, on.usage.completion_tokens], ['length', 300]);
    assert.ok(on.choices[0].message.content.startsWith(said));
  });

  test('a banned token is never said', async () => {
    const { messages, said } = exam('sum', 1)[0];
    const response = await fetch(`${server.url}/tokenize`, { method: 'POST', body: JSON.stringify({ content: said }) });
    const { tokens } = await response.json();
    const ids = tokens.map((token) => token.id ?? token);
    const bias = Object.fromEntries(ids.map((id) => [id, -100]));
    const { content } = (await ask(messages, { logit_bias: bias, max_tokens: 8 })).choices[0].message;
    for (const digit of said) assert.ok(!content.includes(digit), `${content} has a digit of ${said}`);
  });

  test('the responses API: whole, streamed, and with a tool', async () => {
    const [{ messages, said }] = exam('recall_short', 1);
    const whole = await client.responses.create({ ...greedy, input: messages[0].content });
    assert.deepEqual([whole.output_text, whole.status], [said, 'completed']);
    const events = [];
    for await (const event of await client.responses.create({ ...greedy, input: messages, stream: true })) events.push(event);
    assert.equal(events[0].type, 'response.created');
    assert.equal(events.at(-1).type, 'response.completed');
    assert.equal(events.at(-1).response.usage.output_tokens, whole.usage.output_tokens);
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
    const deltas = events.filter((event) => event.type === 'response.output_text.delta');
    assert.equal(deltas.map((event) => event.delta).join(''), said);
    const final = await client.responses.stream({ ...greedy, input: messages }).finalResponse();
    assert.equal(final.output_text, said);

    const flat = tools.map((tool) => ({ type: 'function', strict: false, ...tool }));
    const input = user('What is the weather in Oslo?');
    const called = await client.responses.create({ ...greedy, input, tools: flat });
    const call = called.output.find((item) => item.type === 'function_call');
    assert.deepEqual([call.name, JSON.parse(call.arguments)], ['get_weather', { city: 'Oslo' }]);
    const output = { type: 'function_call_output', call_id: call.call_id, output: '{"sky": "fog", "temperature": 8}' };
    const told = await client.responses.create({ ...greedy, input: [...input, ...called.output, output], tools: flat });
    assert.equal(told.output_text, 'In Oslo there is fog and it is 8 degrees.');
  });

  test('what is not known is ignored; what is wrong is named', async () => {
    const [{ messages, said }] = exam('sum', 1);
    assert.equal((await ask(messages, { brand_new_field: { a: 1 }, user: 'someone' })).choices[0].message.content, said);
    const wrong = [
      [{ temperature: 'hot' }, 'temperature'],
      [{ max_tokens: -4 }, 'max_tokens'],
      [{ n: 'two' }, 'n'],
      [{ messages: 'hello' }, 'messages'],
      [{ stop: [1] }, 'stop'],
      [{ top_p: 7 }, 'top_p'],
      [{ response_format: { type: 'poem' } }, 'response_format'],
      [{ tools: [{ type: 'function' }] }, 'tools'],
    ];
    for (const [fields, name] of wrong) {
      const error = await ask(messages, fields).then(() => assert.fail(`${name} was taken`), (caught) => caught);
      assert.ok(error instanceof OpenAI.BadRequestError, `${name}: ${error}`);
      assert.equal(error.type, 'invalid_request_error');
      assert.match(error.param, new RegExp(`^${name}\\b`));
      assert.match(error.message, new RegExp(name));
    }
    await assert.rejects(client.post('/nothing', { body: {} }), OpenAI.NotFoundError);
    const broken = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body: '{"messages": [' });
    assert.equal(broken.status, 400);
    assert.equal(typeof (await broken.json()).error.message, 'string');
  });

  test('a prompt over the context limit is refused, not cut', async () => {
    const long = user('The code of Gus is 9048. '.repeat(2000));
    const error = await ask(long).then(() => assert.fail('it was taken'), (caught) => caught);
    assert.ok(error instanceof OpenAI.BadRequestError, String(error));
    assert.equal(error.code, 'context_length_exceeded');
  });

  test('an aborted stream frees its place', async () => {
    const stream = await client.completions.create({
      ...greedy,
      prompt: 'Once',
      max_tokens: 4000,
      stream: true,
      temperature: 1,
      logit_bias: { 1: -100, 6: -100 },
    });
    let pieces = 0;
    for await (const _ of stream) if (++pieces === 5) break; // the client aborts
    await server.idle();
    const controller = new AbortController();
    const whole = client.completions.create(
      { ...greedy, prompt: 'Once', max_tokens: 4000, logit_bias: { 1: -100, 6: -100 } },
      { signal: controller.signal },
    );
    setTimeout(() => controller.abort(), 150);
    await assert.rejects(whole, OpenAI.APIUserAbortError);
    await server.idle();
  });
});

describe('openai, a server with a key and little room', () => {
  let server;
  before(async () => {
    server = await serve('--api-key', 'sesame', '--parallel', '1', '--max-queue', '1');
  });
  after(() => server.stop());

  test('another key is refused, /health needs none', async () => {
    await assert.rejects(connect(server, { apiKey: 'open' }).models.list(), OpenAI.AuthenticationError);
    assert.equal((await connect(server, { apiKey: 'sesame' }).models.list()).data.length, 1);
    assert.equal((await server.health()).status, 'ok');
  });

  test('past the queue a request is told when to come again, and the client does', async () => {
    const impatient = connect(server, { apiKey: 'sesame' });
    const patient = connect(server, { apiKey: 'sesame', maxRetries: 20 });
    const controller = new AbortController();
    const long = { ...greedy, prompt: 'Once', max_tokens: 4000, logit_bias: { 1: -100, 6: -100 } };
    const kept = [1, 2].map(() => impatient.completions.create(long, { signal: controller.signal }).catch((error) => error));
    await server.reaches({ running: 1, waiting: 1 });
    const [{ messages, said }] = exam('sum', 1);
    const refused = await impatient.chat.completions.create({ ...greedy, messages }).catch((error) => error);
    assert.ok(refused instanceof OpenAI.RateLimitError, String(refused));
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    const later = patient.chat.completions.create({ ...greedy, messages });
    setTimeout(() => controller.abort(), 100);
    for (const one of await Promise.all(kept)) assert.ok(one instanceof OpenAI.APIUserAbortError, String(one));
    assert.equal((await later).choices[0].message.content, said);
  });
});
