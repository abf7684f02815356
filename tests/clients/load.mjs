/* Load: many connections at once, mixed requests, a quarter of them dropped in the middle.
 *
 *   node load.mjs [--seconds 60] [--connections 64]
 *
 * What must hold: each request gets its whole answer or is one of those that were dropped; each answer is the
 * one that the same request got alone; memory and descriptors do not grow once the caches are full; at the end
 * nothing runs. Requests are drawn by a fixed sequence of numbers. */
import assert from 'node:assert/strict';
import http from 'node:http';
import { parseArgs } from 'node:util';
import { exam, patience as serverPatience, serve, tools } from './server.mjs';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '60' }, connections: { type: 'string', default: '64' } },
});
const seconds = Number(values.seconds);
const connections = Number(values.connections);

/* Numbers that look like chance and are the same in every run (mulberry32). */
let state = 1;
function chance() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}

/* The requests: every endpoint, prompts of 5 to 1500 tokens, answers of 1 to 200, greedy and not, streams and not. */
function catalogue() {
  const user = (content) => [{ role: 'user', content }];
  const requests = [];
  const add = (path, body) => requests.push({ path, body }, { path, body: { ...body, stream: true } });
  for (const task of ['recall_short', 'recall_long', 'question', 'sum'])
    for (const { messages } of exam(task, 2)) add('/v1/chat/completions', { messages, temperature: 0 });
  for (const seed of [1, 2]) {
    const chat = { temperature: 1, seed };
    add('/v1/chat/completions', { ...chat, messages: user('Tell me a story about a fox named Nora.'), max_tokens: 200 });
    add('/v1/completions', { ...chat, prompt: 'Long ago', max_tokens: 20 + 100 * seed });
    add('/v1/messages', { ...chat, top_k: 64, messages: user('Write a short story about Nora and Milo.'), max_tokens: 120 });
    add('/v1/responses', { ...chat, input: 'Please tell a story with a red drum in it.', max_output_tokens: 90 });
  }
  add('/v1/completions', { prompt: 'The', temperature: 0, max_tokens: 1 });
  add('/v1/chat/completions', {
    messages: user('What is the weather in Lima?'),
    tools: tools.map((tool) => ({ type: 'function', function: tool })),
    temperature: 0,
  });
  return requests;
}

/* What an answer says, without the ids, dates and times that differ from run to run. */
function essence(text, stream) {
  const changing = new Set(['id', 'created', 'created_at', 'completed_at', 'item_id', 'call_id', 'timings', 'usage', 'sequence_number', 'system_fingerprint']);
  const parts = stream
    ? text.split(/\r?\n/).filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)))
    : [JSON.parse(text)];
  if (!stream) return JSON.stringify(parts[0], (key, value) => (changing.has(key) ? undefined : value));
  // How a stream is cut into pieces may depend on what else runs; what it says may not.
  let said = '';
  const collect = (value, key) => {
    if (typeof value === 'string') {
      // `message` is that of an error, which no lone run has.
      if (['content', 'reasoning_content', 'text', 'delta', 'arguments', 'partial_json', 'thinking', 'name', 'finish_reason', 'stop_reason', 'message'].includes(key)) said += value;
    } else if (value && typeof value === 'object' && key !== 'response' && key !== 'item' && key !== 'part') {
      for (const [name, inner] of Object.entries(value)) collect(inner, name);
    }
  };
  for (const part of parts) if (!/\.done$/.test(part.type ?? '')) collect(part, '');
  return said;
}

const SILENCE = 60000 * serverPatience; // milliseconds
const agent = new http.Agent({ keepAlive: true, maxSockets: connections });

/** Sends a request; `patience` is after how many bytes or milliseconds the client goes away, or null. */
function send(url, { path, body }, patience = null) {
  return new Promise((resolve, reject) => {
    const data = JSON.stringify(body);
    let dropped = false;
    let timer = null;
    const request = http.request(url + path, { method: 'POST', agent, headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(data) } });
    const drop = () => {
      dropped = true;
      request.destroy();
    };
    if (patience?.milliseconds !== undefined) timer = setTimeout(drop, patience.milliseconds);
    const end = (settle, value) => {
      clearTimeout(timer);
      settle(value);
    };
    request.setTimeout(SILENCE, () => request.destroy(new Error(`${path}: nothing came for ${SILENCE / 1000} s`)));
    request.on('error', (error) => (dropped ? end(resolve, null) : end(reject, error)));
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece) => {
        text += piece;
        if (!dropped && patience?.bytes !== undefined && text.length > patience.bytes) drop();
      });
      response.on('error', (error) => (dropped ? end(resolve, null) : end(reject, error)));
      response.on('end', () => {
        if (dropped) end(resolve, null); // what had arrived already ends all the same
        else if (response.statusCode === 200) end(resolve, text);
        else end(reject, new Error(`${path}: ${response.statusCode} ${text}`));
      });
    });
    request.end(data);
  });
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];

const server = await serve('--parallel', '16', '--max-queue', String(connections), '--cache-bytes', String(24 * 2 ** 20));
const requests = catalogue();
for (const request of requests) request.alone = essence(await send(server.url, request), request.body.stream);
for (const request of requests) assert.ok(request.alone.length > 0, JSON.stringify(request));
const descriptors = server.descriptors();

const counts = { sent: 0, completed: 0, dropped: 0 };
const seen = new Set();
const memory = []; // [seconds, bytes]
const start = performance.now();
const elapsed = () => (performance.now() - start) / 1000;

/* Kinds of request take turns; each is dropped every fourth time, at some point that chance decides. */
async function client() {
  while (elapsed() < seconds) {
    const turn = Math.floor(counts.sent / requests.length);
    const index = (counts.sent * 7 + turn) % requests.length; // neighbours in the catalogue do not come together
    const request = requests[index];
    const leaves = (turn + index) % 4 === 3;
    const patience = !leaves ? null : request.body.stream ? { bytes: Math.floor(chance() * 4000) } : { milliseconds: chance() * 300 };
    counts.sent++;
    const text = await send(server.url, request, patience);
    if (text === null) counts.dropped++;
    else {
      assert.equal(essence(text, request.body.stream), request.alone, `differs from its lone run: ${request.path} ${JSON.stringify(request.body)}`);
      counts.completed++;
      seen.add(index);
    }
  }
}
const sampler = setInterval(() => memory.push([elapsed(), server.memory()]), 100);
await Promise.all(Array.from({ length: connections }, client));
clearInterval(sampler);

const took = elapsed();
const idle = await server.idle();
agent.destroy();

/* Constant: the last third needs no more than the third before it, but for what an allocator moves about. */
const between = (from, to) => memory.filter(([at]) => at >= from * seconds && at < to * seconds).map(([, bytes]) => bytes);
const [warm, late] = [median(between(1 / 3, 2 / 3)), median(between(2 / 3, 1))];
const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
console.log(`${counts.sent} requests in ${took.toFixed(1)} s: ${counts.completed} answered, ${counts.dropped} dropped; ` +
  `memory ${mb(warm)}, then ${mb(late)}; idle after ${(idle * 1000).toFixed(0)} ms`);
assert.equal(counts.completed + counts.dropped, counts.sent);
assert.ok(counts.dropped > counts.sent / 10, `only ${counts.dropped} of ${counts.sent} were dropped`);
assert.equal(seen.size, requests.length, 'each kind of request was answered at least once');
assert.ok(late <= warm * 1.02 + 2e6, `memory grew from ${mb(warm)} to ${mb(late)}`);

await new Promise((resolve) => setTimeout(resolve, 200));
assert.ok(server.descriptors() <= descriptors, `${server.descriptors()} descriptors, ${descriptors} before`);
for (const request of requests.slice(0, 6))
  assert.equal(essence(await send(server.url, request), request.body.stream), request.alone, 'after the load');
agent.destroy();
await server.stop();
