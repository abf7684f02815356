/* The official `@anthropic-ai/sdk` client against lapidary serve. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { exam, serve, tools } from './server.mjs';

const user = (content) => [{ role: 'user', content }];
const offered = tools.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters }));
const greedy = { model: 'pebble', max_tokens: 200, temperature: 0 };
const connect = (server, options = {}) => new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0, ...options });

describe('anthropic', () => {
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
  const ask = (messages, more = {}) => client.messages.create({ ...greedy, messages, ...more });

  test('answers are those of the exam, streamed or not', async () => {
    for (const { messages, said } of ['recall_short', 'question', 'sum'].flatMap((task) => exam(task, 2))) {
      const whole = await ask(messages);
      assert.deepEqual(whole.content.map(({ type, text }) => ({ type, text })), [{ type: 'text', text: said }]);
      assert.deepEqual([whole.role, whole.stop_reason], ['assistant', 'end_turn']);
      const pieces = [];
      const stream = client.messages.stream({ ...greedy, messages }).on('text', (text) => pieces.push(text));
      const final = await stream.finalMessage();
      assert.equal(pieces.join(''), said);
      assert.deepEqual(final.content, whole.content);
      assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
      assert.equal(final.stop_reason, 'end_turn');
    }
  });

  test('count_tokens counts what a message would use', async () => {
    for (const request of [
      { messages: user('What is 27 + 15?') },
      { messages: user('What is the weather in Rome?'), system: 'You are a helpful assistant.', tools: offered },
    ]) {
      const { input_tokens: counted } = await client.messages.countTokens({ model: 'pebble', ...request });
      const { usage } = await client.messages.create({ ...greedy, ...request });
      const used = usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
      assert.equal(counted, used);
    }
  });

  test('a tool is used, its result given, the answer in words', async () => {
    const messages = user('What is the weather in Paris?');
    const called = await ask(messages, { tools: offered });
    assert.equal(called.stop_reason, 'tool_use');
    const use = called.content.find((block) => block.type === 'tool_use');
    assert.deepEqual([use.name, use.input], ['get_weather', { city: 'Paris' }]);
    const result = { type: 'tool_result', tool_use_id: use.id, content: '{"sky": "sun", "temperature": 31}' };
    const told = await ask([...messages, { role: 'assistant', content: called.content }, ...user([result])], { tools: offered });
    assert.equal(told.content[0].text, 'In Paris there is sun and it is 31 degrees.');

    const streamed = await client.messages.stream({ ...greedy, messages: user('Use the tool to add 17 and 79.'), tools: offered }).finalMessage();
    const add = streamed.content.find((block) => block.type === 'tool_use');
    assert.deepEqual([add.name, add.input, streamed.stop_reason], ['add', { a: 17, b: 79 }, 'tool_use']);
  });

  test('tool_choice: any and by name', async () => {
    const choose = async (content, choice) =>
      (await ask(user(content), { tools: offered, tool_choice: choice })).content.find((block) => block.type === 'tool_use')?.name;
    assert.equal(await choose('What is the weather in Rome?', { type: 'any' }), 'get_weather');
    assert.equal(await choose('What is 12 + 30?', { type: 'tool', name: 'add' }), 'add');
    assert.equal(await choose('What is the weather in Rome?', { type: 'none' }), undefined);
  });

  test('thoughts are blocks of their own, streamed or not', async () => {
    const request = { ...greedy, max_tokens: 2048, messages: user('What is 27 + 15?'), thinking: { type: 'enabled', budget_tokens: 1024 } };
    delete request.temperature;
    const seeded = { ...request, top_k: 1 };
    const whole = await client.messages.create(seeded);
    assert.deepEqual(whole.content.map((block) => block.type), ['thinking', 'text']);
    assert.match(whole.content[0].thinking, /The result is 42\./);
    assert.equal(whole.content[1].text, '42');
    const final = await client.messages.stream(seeded).finalMessage();
    assert.deepEqual(final.content, whole.content);
  });

  test('why an answer ended is told', async () => {
    const story = user('Tell me a story about a fox named Nora.');
    const stopped = await ask(story, { stop_sequences: ['. '] });
    assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ['stop_sequence', '. ']);
    assert.ok(!stopped.content[0].text.includes('. '));
    const short = await ask(story, { max_tokens: 5 });
    assert.deepEqual([short.stop_reason, short.usage.output_tokens], ['max_tokens', 5]);
  });

  test('what is wrong is named', async () => {
    const wrong = [
      [{ temperature: 'hot' }, 'temperature'],
      [{ max_tokens: 'many' }, 'max_tokens'],
      [{ messages: 'hello' }, 'messages'],
      [{ stop_sequences: [1] }, 'stop_sequences'],
      [{ tools: [{ name: 5 }] }, 'tools'],
    ];
    for (const [fields, name] of wrong) {
      const error = await ask(user('Hello'), fields).then(() => assert.fail(`${name} was taken`), (caught) => caught);
      assert.ok(error instanceof Anthropic.BadRequestError, `${name}: ${error}`);
      assert.equal(error.error.type, 'error');
      assert.equal(error.error.error.type, 'invalid_request_error');
      assert.match(error.error.error.message, new RegExp(`^${name}\\b`));
    }
  });

  test('an aborted stream frees its place', async () => {
    const stream = client.messages.stream({ ...greedy, max_tokens: 4000, temperature: 1, messages: user('Tell me a story about Nora and Milo.') });
    stream.on('text', () => stream.abort());
    await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
    await server.idle();
  });
});

describe('anthropic, a server with a key and little room', () => {
  let server;
  before(async () => {
    server = await serve('--api-key', 'sesame', '--parallel', '1', '--max-queue', '0');
  });
  after(() => server.stop());

  test('another key is refused', async () => {
    const error = await connect(server, { apiKey: 'open' }).messages.create({ ...greedy, messages: user('Hello') }).catch((caught) => caught);
    assert.ok(error instanceof Anthropic.AuthenticationError, String(error));
    assert.equal(error.error.error.type, 'authentication_error');
  });

  test('past the queue a request is told to come again', async () => {
    const client = connect(server, { apiKey: 'sesame' });
    const controller = new AbortController();
    const body = { ...greedy, prompt: 'Once', max_tokens: 4000, logit_bias: { 1: -100, 6: -100 } };
    const long = client.post('/v1/completions', { body, signal: controller.signal }).catch((error) => error);
    await server.reaches({ running: 1, waiting: 0 });
    const error = await client.messages.create({ ...greedy, messages: user('Hello') }).catch((caught) => caught);
    assert.ok(error instanceof Anthropic.RateLimitError, String(error));
    assert.equal(error.error.error.type, 'rate_limit_error');
    controller.abort();
    await long;
  });
});
