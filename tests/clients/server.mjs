/* A `lapidary serve` for tests: started on a free port, asked about itself, stopped as an operator would. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const root = new URL('../..', import.meta.url).pathname;
const program = process.env.LAPIDARY ?? `${root}build/lapidary`;

/** By how much longer all waiting may take: for a build with sanitizers, or a machine with other work. */
export const patience = Number(process.env.PATIENCE ?? 1);

/** Starts the server on Pebble with plain caches, whose greedy answers the exam holds word for word. */
export async function serve(...flags) {
  const child = spawn(program, ['serve', '-m', `${root}models/pebble`, '--port', '0', '--kv', 'plain', ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (data) => (said += data));
  const exit = once(child, 'exit');
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    exit.then(([code, signal]) => assert.fail(`lapidary serve ended (${code ?? signal}): ${said}`)),
    sleep(20000 * patience, null, { ref: false }).then(() => assert.fail(`lapidary serve does not start: ${said}`)),
  ]);
  const url = /^listening on (http:\/\/\S+)$/.exec(line)?.[1];
  assert.ok(url, `the first line should tell the address, not: ${line}`);
  process.once('exit', () => child.kill('SIGKILL'));
  process.once('SIGTERM', () => process.exit(1)); // so that the runner's time limit leaves no server behind

  const get = async (path) => {
    const response = await fetch(url + path, { signal: AbortSignal.timeout(20000 * patience) });
    assert.equal(response.status, 200, path);
    return response;
  };
  const server = {
    url,
    health: async () => (await get('/health')).json(),
    /** Memory that is the server's own, in bytes. */
    memory: () => Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]) * 1024,
    descriptors: () => readdirSync(`/proc/${child.pid}/fd`).length,
    /** Waits until so many requests run and so many wait; gives the seconds that it took. */
    async reaches(wanted, limit = 5 * patience) {
      const start = performance.now();
      for (;;) {
        const { running, waiting } = await server.health();
        const seconds = (performance.now() - start) / 1000;
        if (running === wanted.running && waiting === wanted.waiting) return seconds;
        assert.ok(seconds < limit, `after ${limit} s ${running} running, ${waiting} waiting`);
        await sleep(20);
      }
    },
    idle: () => server.reaches({ running: 0, waiting: 0 }),
    /** Sends SIGTERM and expects an orderly end. */
    async stop() {
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), 15000 * patience);
      const [code, signal] = await exit;
      clearTimeout(late);
      assert.equal(signal ?? code, 0, `lapidary serve should end well on SIGTERM: ${said}`);
    },
  };
  return server;
}

/** Cases of the exam: {task, messages, said}, answers of an independent implementation, recorded greedy. */
export function exam(task, count) {
  const { cases } = JSON.parse(readFileSync(`${root}tests/data/exam.json`, 'utf8')).kv_bf16;
  return cases
    .filter((one) => one.task === task)
    .slice(0, count)
    .map(({ prompt, said }) => ({ said, messages: [{ role: 'user', content: /<\|turn>user\n([^]*)<turn\|>/.exec(prompt)[1] }] }));
}

/** The two tools that Pebble was trained to call. */
export const tools = [
  {
    name: 'get_weather',
    description: 'Get the weather in a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', description: 'The city' } },
      required: ['city'],
    },
  },
  {
    name: 'add',
    description: 'Add two numbers',
    parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
  },
];
