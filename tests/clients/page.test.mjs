/* The page at /, driven in Chromium as people use it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { exam, patience, serve } from './server.mjs';

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
// An answer that does not end before it is stopped.
const ENDLESS = 'root ::= [ab]{3000}';

describe('the page', () => {
  let server;
  let browser;
  let page;
  let context;
  let complaints; // of the console; of requests to anywhere else
  let expected; // a complaint that belongs to the test

  before(async () => {
    server = await serve();
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: flags });
  });
  after(async () => {
    await browser?.close();
    await server.idle();
    await server.stop();
  });

  async function open(options = {}, url = server.url) {
    await context?.close();
    context = await browser.newContext({ viewport: { width: 1100, height: 760 }, permissions: ['clipboard-read', 'clipboard-write'], ...options });
    context.setDefaultTimeout(10000 * patience);
    page = await context.newPage();
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.stack));
    page.on('request', (request) => {
      if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) complaints.push(`asked for ${request.url()}`);
    });
    await page.goto(url);
    await page.getByText(/^pebble · (cut|monolith)/).waitFor();
  }
  beforeEach(async () => {
    complaints = [];
    expected = null;
    await open();
  });
  afterEach(() => {
    assert.deepEqual(complaints.filter((text) => !expected?.test(text)), [], 'the console should be silent');
  });

  const settings = () => page.getByRole('dialog', { name: 'Settings' });
  const prompt = () => page.getByRole('textbox', { name: 'Message', exact: true });
  const lastAnswer = () => page.locator('.answer').last();
  const finished = () => page.getByRole('button', { name: 'Send', exact: true }).waitFor();
  async function set(fields) {
    await page.getByRole('button', { name: 'Settings' }).first().click();
    for (const [label, value] of Object.entries(fields)) {
      const field = settings().getByLabel(label, { exact: true });
      if (label === 'Response format') await field.selectOption(value);
      else await field.fill(value);
    }
    await page.getByRole('button', { name: 'Done' }).click();
  }
  async function say(text) {
    await prompt().fill(text);
    await prompt().press('Enter');
  }
  async function answered(text) {
    await say(text);
    await finished();
    return lastAnswer().locator('.said').innerText();
  }

  test('an answer appears while it comes, with its figures', async () => {
    await set({ Temperature: '0' });
    await page.evaluate(() => {
      window.lengths = new Set();
      const look = () => window.lengths.add(document.querySelector('.said')?.textContent.length ?? 0);
      new MutationObserver(look).observe(document.getElementById('messages'), { subtree: true, childList: true });
    });
    const story = await answered('Tell me a story about a fox named Nora.');
    assert.match(story, /Nora/);
    const lengths = await page.evaluate(() => [...window.lengths]);
    assert.ok(lengths.some((length) => length > 0 && length < story.length), `lengths seen: ${lengths}`);
    const stats = await lastAnswer().locator('.stats').innerText();
    assert.match(stats, /(cut|monolith)\s+prompt \d+.*answer \d+, [\d,]+ tok\/s\s+KV [1-9][\d.]* [kM]B/s);
    for (const { messages, said } of exam('recall_short', 2)) {
      await page.getByRole('button', { name: 'New chat' }).click();
      assert.equal(await answered(messages[0].content), said);
    }
  });

  test('thoughts are folded, and open to what was thought', async () => {
    await set({ Temperature: '0' });
    const think = page.getByRole('button', { name: 'Think' });
    await think.click();
    assert.equal(await think.getAttribute('aria-pressed'), 'true');
    assert.equal(await answered('What is 27 + 15?'), '42');
    const thought = lastAnswer().locator('details.thought');
    assert.equal(await thought.getAttribute('open'), null);
    await thought.getByText('Thought').click();
    await thought.getByText('The result is 42.').waitFor();
    await think.click();
    assert.equal(await answered('What is 50 + 8?'), '58');
    assert.ok(await lastAnswer().locator('details.thought').isHidden());
  });

  test('a call of a tool is shown, its result given, and the model goes on', async () => {
    await set({ Temperature: '0' });
    await page.getByRole('button', { name: /What is the weather in Paris/ }).click();
    await finished();
    const call = page.getByRole('region', { name: 'Call of get_weather' });
    assert.equal(await call.locator('pre').innerText(), '{\n  "city": "Paris"\n}');
    await page.getByRole('button', { name: '2 tools' }).waitFor();
    await say('Never mind.'); // not before the result
    await page.getByText('The model waits for the result of its call.').waitFor();
    const field = call.getByRole('textbox', { name: 'Result of get_weather' });
    await field.fill('{"sky": "sun", "temperature": 21}');
    await field.press('Enter');
    await lastAnswer().getByText('In Paris there is sun and it is 21 degrees.').waitFor();
    await finished();
    await call.getByText('"temperature": 21').waitFor();
  });

  test('Escape and the button stop an answer; what came stays, and it can be asked again', async () => {
    await set({ 'Response format': 'grammar', 'Grammar (GBNF)': ENDLESS });
    await say('Go on.');
    await page.waitForFunction(() => document.querySelector('.said')?.textContent.length > 20);
    await page.keyboard.press('Escape');
    await lastAnswer().getByText('Stopped.').waitFor();
    await server.idle();
    assert.match(await lastAnswer().locator('.said').innerText(), /^[ab]{20,}$/);
    await page.getByRole('button', { name: 'Answer again' }).click();
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor();
    await page.waitForFunction(() => document.querySelector('.said')?.textContent.length > 20);
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await finished();
    await server.idle();
    assert.equal(await page.locator('.answer').count(), 1);
  });

  test('settings and the chat outlive the page; what cannot be read is shown', async () => {
    await set({ 'System prompt': 'You are a helpful assistant.', 'Top k': '7', 'Stop strings, one a line': 'Milo' });
    const said = await answered('What is 27 + 15?');
    await page.reload();
    assert.equal(await lastAnswer().locator('.said').innerText(), said);
    await page.getByRole('button', { name: 'Settings' }).first().click();
    assert.equal(await settings().getByLabel('Top k').inputValue(), '7');
    assert.equal(await settings().getByLabel('System prompt').inputValue(), 'You are a helpful assistant.');
    await settings().getByLabel('Temperature').fill('hot');
    await settings().getByLabel('Functions that the model may call, as JSON').fill('[{]');
    await page.keyboard.press('Escape');
    await say('Hello');
    await settings().getByText('This is not a number.').waitFor();
    await settings().getByText(/^This is not JSON/).waitFor();
    assert.equal(await page.locator('.message.user').count(), 1, 'nothing was sent');
    await settings().getByRole('button', { name: 'Reset all' }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    await answered('Hello');
  });

  test('what is sent is what was set', async () => {
    await set({ 'System prompt': 'Be brief.', Temperature: '0,5', 'Top k': '3', Seed: '11', 'Max tokens': '5', 'Stop strings, one a line': 'x\ny' });
    const [request] = await Promise.all([page.waitForRequest('**/v1/chat/completions'), answered('Hello')]);
    const { messages, temperature, top_k, seed, max_tokens, stop, top_p, stream } = request.postDataJSON();
    assert.deepEqual(messages, [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello' }]);
    assert.deepEqual({ temperature, top_k, seed, max_tokens, stop, top_p, stream },
      { temperature: 0.5, top_k: 3, seed: 11, max_tokens: 5, stop: ['x', 'y'], top_p: undefined, stream: true });
    await lastAnswer().getByText('the limit of tokens is reached').waitFor();
  });

  test('again, edit, copy, a new chat, and the way back', async () => {
    await set({ Temperature: '0' });
    assert.equal(await answered('What is 27 + 15?'), '42');
    await page.getByRole('button', { name: 'Answer again' }).click();
    await finished();
    assert.equal(await page.locator('.message').count(), 2);
    assert.equal(await answered('What is 50 + 8?'), '58');
    await page.getByRole('button', { name: 'Edit message' }).first().click();
    await page.locator('.editor textarea').fill('What is 74 - 8?');
    await page.keyboard.press('Enter');
    await lastAnswer().getByText('66', { exact: true }).waitFor();
    await finished();
    assert.equal(await page.locator('.message').count(), 2, 'what followed is gone');
    await page.getByRole('button', { name: 'Undo' }).click();
    assert.deepEqual(await page.locator('.said').allInnerTexts(), ['42', '58']);
    await page.getByRole('button', { name: 'Copy answer' }).last().click();
    await page.getByText('Copied.').waitFor({ state: 'attached' });
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), '58');
    await page.getByRole('button', { name: 'New chat' }).click();
    assert.equal(await page.locator('.message').count(), 0);
    await page.getByRole('heading', { name: 'What would you like to know?' }).waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    assert.equal(await page.locator('.message').count(), 4);
  });

  test('a chat is exported without the key, and imported', async () => {
    await set({ Temperature: '0', 'API key': 'sesame' });
    await answered('What is 27 + 15?');
    await page.getByRole('button', { name: 'More' }).click();
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export this chat' }).click()]);
    const path = await download.path();
    const text = await readFile(path, 'utf8');
    assert.ok(!text.includes('sesame'));
    assert.deepEqual(JSON.parse(text).messages.map(({ role, content }) => [role, content]), [['user', 'What is 27 + 15?'], ['assistant', '42']]);
    await open();
    const take = (name, buffer) => page.locator('#import-file').setInputFiles({ name, mimeType: 'application/json', buffer });
    await take('chat.json', Buffer.from(text));
    assert.equal(await lastAnswer().locator('.said').innerText(), '42');
    for (const [name, wrong] of [['a.json', 'no json'], ['b.json', '{}'], ['c.json', '[{"role": "user", "content": 5}]'], ['d.json', '[{"role": "king"}]']]) {
      await take(name, Buffer.from(wrong));
      await page.getByText(`${name} was not imported`).waitFor();
      assert.equal(await page.locator('.message').count(), 2);
    }
    await take('plain.json', Buffer.from('[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]'));
    await page.locator('.message.user').getByText('Hi').waitFor();
  });

  test('the keyboard is enough', async () => {
    const focused = () => page.evaluate(() => {
      const { id, textContent, ariaLabel } = document.activeElement;
      return ariaLabel || textContent.trim() || id;
    });
    assert.equal(await focused(), 'Message');
    await page.keyboard.type('What is');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('27 + 15?');
    assert.equal(await prompt().inputValue(), 'What is\n27 + 15?');
    await page.keyboard.press('Enter');
    await finished();
    assert.equal(await page.locator('.message').count(), 2);
    assert.equal(await focused(), 'Message');
    const order = [];
    for (let i = 0; i < 20 && order.at(-1) !== 'New chat'; i++) {
      await page.keyboard.press('Shift+Tab');
      order.push(await focused());
    }
    assert.deepEqual(order, ['Answer again', 'Edit answer', 'Copy answer', 'Edit message', 'Copy message', 'Conversation',
      'Settings', 'More', 'Colours: system', 'New chat']);
    for (let i = 0; i < 3; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await settings().waitFor();
    await page.keyboard.press('Escape');
    await settings().waitFor({ state: 'hidden' });
    assert.equal(await focused(), 'Settings');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'Export this chat');
    await page.keyboard.press('Escape');
    assert.ok(await page.locator('#menu').isHidden());
  });

  test('on a phone nothing is too wide and nothing too small to touch', async () => {
    await open({ viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
    await page.getByRole('button', { name: 'Tell me a story about a fox' }).tap();
    await finished();
    const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && document.body.scrollHeight <= innerHeight);
    const small = () => page.evaluate(() => [...document.querySelectorAll('button, input, select, textarea, summary')]
      .filter((node) => node.checkVisibility() && node.type !== 'checkbox')
      .map((node) => [node.ariaLabel || node.textContent || node.name, node.getBoundingClientRect()])
      .filter(([, { width, height }]) => width < 36 || height < 36)
      .map(([name, { width, height }]) => `${name}: ${width} x ${height}`));
    assert.ok(await fits());
    assert.deepEqual(await small(), []);
    await page.getByRole('button', { name: 'Settings' }).tap();
    assert.equal((await settings().boundingBox()).width, 360);
    assert.ok(await fits());
    assert.deepEqual(await small(), []);
  });

  test('light and dark, by the system and by the switch, with enough contrast', async () => {
    /* WCAG's contrast of a text with what is behind it. */
    const contrasts = () => page.evaluate(() => {
      const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
      const channels = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
      };
      const behind = (node) => (channels(getComputedStyle(node).backgroundColor)[3] === 255 || !node.parentElement
        ? getComputedStyle(node).backgroundColor : behind(node.parentElement));
      const luminance = (color) => {
        const [r, g, b] = channels(color).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const contrast = (node) => {
        const [a, b] = [luminance(getComputedStyle(node).color), luminance(behind(node))].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
      };
      return Object.fromEntries(['body', '#model', '.bubble', '.said', '.stats', '.stats b', '#send', '#think', '#theme']
        .map((selector) => [selector, contrast(document.querySelector(selector))]));
    });
    const dark = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme === 'dark'
      || (getComputedStyle(document.documentElement).colorScheme === 'light dark' && matchMedia('(prefers-color-scheme: dark)').matches));
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await answered('What is 27 + 15?');
    const seen = {};
    for (const [scheme, presses] of [['light', 0], ['dark', 0], ['dark', 1], ['light', 1]]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (let i = 0; i < presses; i++) await page.locator('#theme').click(); // to light, then to dark
      const wanted = presses === 0 ? scheme : scheme === 'dark' ? 'light' : 'dark';
      assert.equal(await dark(), wanted === 'dark', `${scheme}, pressed ${presses}`);
      seen[wanted] ??= await paper();
      assert.equal(await paper(), seen[wanted]);
      for (const [selector, ratio] of Object.entries(await contrasts())) assert.ok(ratio >= 4.5, `${wanted} ${selector}: ${ratio.toFixed(2)}`);
    }
    assert.notEqual(seen.light, seen.dark);
    await page.reload();
    assert.ok(await dark(), 'the switch is remembered');
  });

  test('errors are told in words, and can be tried again', async () => {
    expected = /status of 429|ERR_FAILED|Failed to load/;
    await set({ Temperature: '0' });
    const refuse = (route) => route.fulfill({ status: 429, headers: { 'Retry-After': '3' }, json: { error: { message: 'the queue is full' } } });
    await page.route('**/v1/chat/completions', refuse);
    await say('What is 27 + 15?');
    await lastAnswer().getByText('The server is busy: the queue is full. Try again in 3 s.').waitFor();
    await page.unroute('**/v1/chat/completions');
    await page.route('**/v1/chat/completions', (route) => route.abort());
    await page.getByRole('button', { name: 'Try again' }).click();
    await lastAnswer().getByText('The server cannot be reached.').waitFor();
    await page.unroute('**/v1/chat/completions');
    await page.route('**/v1/chat/completions', (route) => route.fulfill({
      contentType: 'text/event-stream', body: 'data: {"choices": [{"index": 0, "delta": {"content": "4"}}]}\n\n' }));
    await page.getByRole('button', { name: 'Try again' }).click();
    await lastAnswer().getByText('The connection ended before the answer did.').waitFor();
    await page.unroute('**/v1/chat/completions');
    await page.getByRole('button', { name: 'Try again' }).click();
    await lastAnswer().getByText('42', { exact: true }).waitFor();
    await finished();
    assert.equal(await page.locator('.message').count(), 2);
  });

  test('a server with a key: asked for, given in the settings, kept', async () => {
    expected = /status of 401/;
    const locked = await serve('--api-key', 'sesame');
    try {
      await open({}, locked.url);
      await say('What is 27 + 15?');
      await lastAnswer().getByText('The server did not accept the API key').waitFor();
      await lastAnswer().getByRole('button', { name: 'Settings' }).click();
      await page.keyboard.type('sesame');
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: 'Try again' }).click();
      await lastAnswer().locator('.stats').getByText(/answer/).waitFor();
    } finally {
      await context.close();
      context = null;
      await locked.stop();
    }
  });

  test('markdown becomes nodes: what it should, nothing that runs, in time', async () => {
    const html = (text) => page.evaluate(async (source) => {
      const { renderMarkdown } = await import('./page.js');
      const node = document.createElement('div');
      renderMarkdown(node, source);
      return node.innerHTML.replaceAll(' target="_blank" rel="noopener noreferrer"', '');
    }, text);
    const pairs = [
      ['a *b* **c** ***d*** ~~e~~ snake_case_f 2 * 3 * 4', '<p>a <em>b</em> <strong>c</strong> <em><strong>d</strong></em> <del>e</del> snake_case_f 2 * 3 * 4</p>'],
      ['**Note:**text', '<p><strong>Note:</strong>text</p>'],
      ['`a``b` ``c`d`` \\*e\\*', '<p><code>a``b</code> <code>c`d</code> *e*</p>'],
      ['# A #\n\n## B', '<h3>A</h3><h4>B</h4>'],
      ['- a\n- b\n  1. c\n  2. d\n- e', '<ul><li>a</li><li>b<ol><li>c</li><li>d</li></ol></li><li>e</li></ul>'],
      ['3. x\n4. y', '<ol start="3"><li>x</li><li>y</li></ol>'],
      ['> q\n> - l', '<blockquote><p>q</p><ul><li>l</li></ul></blockquote>'],
      ['a\nb\n\nc\n***', '<p>a<br>b</p><p>c</p><hr>'],
      ['[x](http://a.b/c_(d)) and https://e.f/g.', '<p><a href="http://a.b/c_(d)">x</a> and <a href="https://e.f/g">https://e.f/g</a>.</p>'],
      ['![i](https://e.f/i.png)', '<p><a href="https://e.f/i.png">i</a></p>'],
      ['[x](javascript:alert(1)) [y](data:text/html,z) [z](//a.b)', '<p>[x](javascript:alert(1)) [y](data:text/html,z) [z](//a.b)</p>'],
      ['<img src=x onerror=alert(1)> &amp;', '<p>&lt;img src=x onerror=alert(1)&gt; &amp;amp;</p>'],
    ];
    for (const [source, wanted] of pairs) assert.equal(await html(source), wanted);
    assert.match(await html('| a | b |\n|:-:|--:|\n| `x|y` | 2 |\nno'),
      /<th class="align-center">a<\/th>.*<td class="align-center"><code>x\|y<\/code><\/td><td class="align-right">2<\/td>.*<p>no<\/p>$/);
    assert.match(await html('~~~c\nint <a>;\n```\n'), /<span>c<\/span>.*<code>int &lt;a&gt;;\n```\n<\/code>/);
    const hostile = ['*a ', '_a *b ', '[', '[](http://', '`` ` ', '> ', '- a\n+ b\n', '|', '```\n', 'http://', '**a* '];
    const seconds = await page.evaluate(async (pieces) => {
      const { renderMarkdown } = await import('./page.js');
      return pieces.map((piece) => {
        const start = performance.now();
        renderMarkdown(document.createElement('div'), piece.repeat(20000 / piece.length));
        return (performance.now() - start) / 1000;
      });
    }, hostile);
    seconds.forEach((time, i) => assert.ok(time < 3 * patience, `20 kB of ${JSON.stringify(hostile[i])} took ${time} s`));
  });
});
