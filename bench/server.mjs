/* What a server costs beside `lapidary run`: time to the first token and rate of decoding, as a client sees them.
 *
 *   node bench/server.mjs [MODEL [PROMPT_TOKENS [TOKENS [ROUNDS]]]]     LAPIDARY: the program; default build/lapidary
 *
 * By turns: a process of `lapidary run` (what it says of itself with --stats, and its time as a whole) and a streamed
 * completion of the same prompt, greedy, by a server that keeps no prompts. Then the same request four times at once,
 * for what sharing forward passes brings. Medians (smallest to largest); ratios are of neighbours in time. */
import { spawn, spawnSync } from 'node:child_process';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { once } from 'node:events';

const [model = 'models/pebble', promptTokens = '256', tokens = '64', rounds = '9'] = process.argv.slice(2);
const program = process.env.LAPIDARY ?? 'build/lapidary';
const agent = new http.Agent({ keepAlive: true });

const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
const spread = (numbers, digits = 2) =>
  `${median(numbers).toFixed(digits)} (${Math.min(...numbers).toFixed(digits)} to ${Math.max(...numbers).toFixed(digits)})`;

function post(url, path, body, heard = () => {}) {
  return new Promise((resolve, reject) => {
    const data = JSON.stringify(body);
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(data) };
    const request = http.request(url + path, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece) => {
        text += piece;
        heard(text);
      });
      response.on('end', () => (response.statusCode === 200 ? resolve(text) : reject(new Error(text))));
    });
    request.on('error', reject);
    request.end(data);
  });
}

const server = spawn(program, ['serve', '-m', model, '--port', '0', '--cache-bytes', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
const [line] = await once(createInterface({ input: server.stdout }), 'line');
const url = line.replace('listening on ', '');

/* A text of as many tokens as are asked for, and their ids. */
const words = 'Long ago there was a fox who lived beside a river and looked for stones that shone in the dark. ';
const all = JSON.parse(await post(url, '/tokenize', { content: words.repeat(Math.ceil(promptTokens / 16)) })).tokens;
const text = JSON.parse(await post(url, '/detokenize', { tokens: all.slice(0, promptTokens - 1) })).content;

function runAlone() {
  const start = performance.now();
  const result = spawnSync(program, ['run', '-m', model, '-n', tokens, '--temp', '0', '--ignore-eos', '--stats', '-'], { input: text });
  const said = result.stderr.toString();
  const [, count, prompt] = /^prompt +(\d+) tokens in ([\d.]+) s/m.exec(said);
  const [, decode] = /^decode .* ([\d.]+) tokens\/s/m.exec(said);
  return { count: Number(count), first: Number(prompt) * 1000, rate: Number(decode), whole: performance.now() - start };
}

async function askServer() {
  const start = performance.now();
  let first = 0;
  const body = { prompt: text, max_tokens: Number(tokens), temperature: 0, ignore_eos: true, stream: true, stream_options: { include_usage: true } };
  const answer = await post(url, '/v1/completions', body, () => (first ||= performance.now()));
  const end = performance.now();
  const timings = JSON.parse(answer.split('\n').filter((one) => one.includes('"timings"')).at(-1).slice(6)).timings;
  return { first: first - start, rate: ((timings.tokens - 1) / (end - first)) * 1000, whole: end - start, tokens: timings.tokens };
}

const alone = [];
const served = [];
const together = [];
for (let round = 0; round <= Number(rounds); round++) {
  const a = runAlone();
  const b = await askServer();
  const start = performance.now();
  const four = await Promise.all([1, 2, 3, 4].map(askServer));
  const rate = (four.reduce((sum, one) => sum + one.tokens, 0) / (performance.now() - start)) * 1000;
  if (round === 0) continue; // not counted
  alone.push(a);
  served.push(b);
  together.push(rate / ((b.tokens / b.whole) * 1000));
}
const column = (list, key) => list.map((one) => one[key]);
const ratios = (key) => served.map((one, i) => one[key] / alone[i][key]);
console.log(`${model}: prompt of ${alone[0].count} tokens, ${served[0].tokens} generated, ${rounds} rounds`);
console.log(`first token, ms     run ${spread(column(alone, 'first'), 1)}   serve ${spread(column(served, 'first'), 1)}   ratio ${spread(ratios('first'))}`);
console.log(`decode, tokens/s    run ${spread(column(alone, 'rate'), 1)}   serve ${spread(column(served, 'rate'), 1)}   ratio ${spread(ratios('rate'))}`);
console.log(`whole, ms           run ${spread(column(alone, 'whole'), 1)} with its start   serve ${spread(column(served, 'whole'), 1)}`);
console.log(`four at once        ${spread(together)} times the tokens/s of one`);
agent.destroy();
server.kill('SIGTERM');
