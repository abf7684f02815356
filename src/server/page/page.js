/* The page at /: a conversation, shown and carried on.
 *
 * `messages` is the conversation in the API's own form; everything on the screen follows from it. A
 * message keeps its node, and `show` brings the nodes into line with the messages. A tool's result is a
 * message too, but it is shown within the call that it answers. At most one answer is `running`. */

import { renderMarkdown } from './markdown.js';
import { complete, headers, RequestError } from './completion.js';
import * as settings from './settings.js';

export { renderMarkdown }; // for the tests

const CHAT = 'lapidary.chat';
const THEME = 'lapidary.theme';
const $ = (id) => document.getElementById(id);
const conversation = $('conversation');
const list = $('messages');
const prompt = $('prompt');

let messages = [];
let running = null; // {message, abort, began, thought}
const nodes = new WeakMap(); // message -> its node
let pinned = true; // the end of the conversation is kept in sight
let server = {}; // what /health said last

/* ---- nodes ---- */

function make(tag, { on = {}, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
  node.append(...children);
  return node;
}

function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', `#i-${name}`);
  svg.setAttribute('aria-hidden', 'true');
  svg.append(use);
  return svg;
}

const iconButton = (name, label, click, kind = '') =>
  make('button', { type: 'button', class: `icon ${kind}`, 'aria-label': label, title: label, on: { click } }, icon(name));

const textButton = (label, click, kind = 'small') => make('button', { type: 'button', class: kind, on: { click } }, label);

/** Says something to those who listen to the page instead of looking at it. */
function announce(text) {
  $('announce').textContent = text;
}

/** A line above the composer, until the next one or until it is closed. */
function notify(text, ...buttons) {
  const close = iconButton('close', 'Close this notice', () => $('notice').replaceChildren());
  $('notice').replaceChildren(make('p', {}, text), ...buttons, close);
}

/* ---- the conversation ---- */

const newAnswer = () => ({ role: 'assistant', content: '', reasoning_content: '', tool_calls: [] });
const resultOf = (call) => messages.find((message) => message.role === 'tool' && message.tool_call_id === call.id);
const isRunning = (message) => running?.message === message;

/** The calls at the end of the conversation that wait for their results. */
function waitingCalls() {
  const last = messages.findLast((message) => message.role !== 'tool');
  if (last?.role !== 'assistant' || isRunning(last)) return [];
  return last.tool_calls.filter((call) => !resultOf(call));
}

const keep = () => settings.store(CHAT, messages);

/** Replaces the conversation, and offers the way back. */
function replace(next, said) {
  stop();
  running = null;
  const before = messages;
  messages = next;
  pinned = true;
  show();
  keep();
  if (before.length > 0 && said) {
    const undo = () => {
      $('notice').replaceChildren();
      replace(before);
      prompt.focus();
    };
    notify(said, textButton('Undo', undo));
  }
}

/* A message as the API takes it. Empty answers (stopped before a word) are left out. */
function asSent(message) {
  if (message.role !== 'assistant') return message;
  const { content, reasoning_content, tool_calls } = message;
  if (!content && tool_calls.length === 0) return null;
  return {
    role: 'assistant',
    content: content || null,
    ...(reasoning_content && { reasoning_content }),
    ...(tool_calls.length && { tool_calls }),
  };
}

function send(text) {
  if (running) return;
  if (waitingCalls().length > 0) {
    notify('The model waits for the result of its call.');
    list.querySelector('.call-result textarea')?.focus();
    return;
  }
  const parameters = readSettings();
  if (!parameters) return;
  messages.push({ role: 'user', content: text });
  $('notice').replaceChildren();
  prompt.value = '';
  fitPrompt();
  answer(parameters);
}

function readSettings() {
  const parameters = settings.parameters();
  if (!parameters) openSettings(document.querySelector('#settings [aria-invalid]'));
  return parameters;
}

/** Lets the model answer what the conversation holds. */
async function answer(parameters = readSettings()) {
  if (!parameters || running) return;
  const system = settings.setting('system').trim();
  const request = {
    ...(server.model && { model: server.model }),
    messages: [...(system ? [{ role: 'system', content: system }] : []), ...messages.map(asSent).filter(Boolean)],
    ...parameters,
  };
  const message = newAnswer();
  const mine = { message, abort: new AbortController(), began: performance.now() };
  const focused = document.activeElement;
  running = mine;
  messages.push(message);
  pinned = true;
  show();
  announce('The model is answering.');
  try {
    await complete(request, message, {
      apiKey: settings.setting('api_key'),
      signal: mine.abort.signal,
      changed: () => arrived(mine),
    });
  } catch (error) {
    if (error.name === 'AbortError') message.stopped = true;
    else message.error = describe(error);
    message.tool_calls = message.tool_calls.filter((call) => call && parsed(call.function.arguments) !== undefined);
  }
  if (running === mine) running = null;
  if (!messages.includes(message)) return; // another conversation by now
  await refreshServer();
  if (server.kv_bytes !== undefined) message.kv_bytes = keptBytes();
  show();
  keep();
  announce(spoken(message));
  if (waitingCalls().length > 0 && [prompt, document.body, focused].includes(document.activeElement))
    list.querySelector('.call-result textarea')?.focus();
}

/* Pieces come faster than a screen shows them: the node is updated once for each frame. */
function arrived(mine) {
  const { message } = mine;
  if (message.content && message.reasoning_content) message.thinking_seconds ??= (performance.now() - mine.began) / 1000;
  if (mine.frame) return;
  mine.frame = requestAnimationFrame(() => {
    mine.frame = 0;
    if (!isRunning(message)) return;
    update(message);
    follow();
  });
}

function stop() {
  running?.abort.abort();
}

function describe(error) {
  if (!(error instanceof RequestError)) return { text: `Something went wrong in the page: ${error.message}` };
  const when = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : '';
  const kinds = { 401: 'The server did not accept the API key', 429: 'The server is busy' };
  const kind = kinds[error.status] ?? (error.status ? `The server refused this (${error.status})` : '');
  const reason = error.message.replace(/[^.!?]$/, '$&.');
  return { text: kind ? `${kind}: ${reason}${when}` : reason, status: error.status };
}

/** What a listener hears when an answer is there. */
function spoken(message) {
  if (message.error) return ''; // an alert of its own
  if (message.tool_calls.length > 0)
    return `The model calls ${message.tool_calls.map((call) => call.function.name).join(' and ')}.`;
  return message.stopped ? 'Stopped.' : nodes.get(message).querySelector('.said').textContent;
}

/** Takes away an answer and what follows, and asks again. */
function again(message) {
  if (running || !settings.parameters()) return void readSettings();
  messages.length = messages.indexOf(message);
  $('notice').replaceChildren();
  answer();
}

/* ---- how it is shown ---- */

/** Brings the screen into line with the conversation. */
function show() {
  const shown = messages.filter((message) => message.role !== 'tool');
  $('welcome').hidden = shown.length > 0;
  const wanted = shown.map((message) => {
    if (!nodes.has(message)) nodes.set(message, message.role === 'user' ? userNode(message) : answerNode(message));
    update(message);
    return nodes.get(message);
  });
  for (const node of [...list.children]) if (!wanted.includes(node)) node.remove();
  wanted.forEach((node, i) => {
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
  });
  for (const button of list.querySelectorAll('.changes')) button.disabled = Boolean(running);
  const label = running ? 'Stop' : 'Send';
  $('send').setAttribute('aria-label', label);
  $('send').title = running ? 'Stop (Esc)' : 'Send (Enter)';
  $('send').querySelector('use').setAttribute('href', running ? '#i-stop' : '#i-send');
  follow();
}

function update(message) {
  if (message.role === 'assistant') updateAnswer(nodes.get(message), message);
}

function userNode(message) {
  const node = make('li', { class: 'message user' }, make('span', { class: 'unseen' }, 'You said:'));
  const bubble = make('div', { class: 'bubble' }, message.content);
  const foot = make(
    'div',
    { class: 'foot' },
    iconButton('copy', 'Copy message', (event) => copy(message.content, event.currentTarget)),
    iconButton('edit', 'Edit message', () => edit(node, [bubble, foot], message), 'changes'),
  );
  node.append(bubble, foot);
  return node;
}

function answerNode(message) {
  const node = make('li', { class: 'message answer' }, make('span', { class: 'unseen' }, 'The model said:'));
  const thought = make(
    'details',
    { class: 'thought', hidden: true },
    make('summary', {}, icon('think'), make('span')),
    make('div', { class: 'markdown' }),
  );
  const waiting = make('p', { class: 'waiting', hidden: true }, icon('gem'), 'Reading…');
  const said = make('div', { class: 'markdown said' });
  const calls = make('div', { class: 'calls' });
  const foot = make(
    'div',
    { class: 'foot', hidden: true },
    iconButton('copy', 'Copy answer', (event) => copy(message.content, event.currentTarget), 'of-text'),
    iconButton('edit', 'Edit answer', () => edit(node, [said, foot], message), 'changes of-text'),
    iconButton('again', 'Answer again', () => again(message), 'changes again'),
    make('div', { class: 'stats' }),
  );
  node.append(thought, waiting, said, calls, make('div', { class: 'outcome' }), foot);
  return node;
}

function updateAnswer(node, message) {
  const part = (selector) => node.querySelector(`:scope > ${selector}`);
  const runs = isRunning(message);
  const { content, reasoning_content: thought, tool_calls: calls } = message;

  part('.thought').hidden = !thought;
  if (thought) {
    const seconds = message.thinking_seconds ? ` for ${message.thinking_seconds.toFixed(1)} s` : '';
    part('.thought').querySelector('summary span').textContent = runs && !content ? 'Thinking…' : `Thought${seconds}`;
    renderMarkdown(part('.thought').querySelector('.markdown'), thought);
  }
  part('.waiting').hidden = !runs || Boolean(content || thought || calls.length);
  if (!node.classList.contains('editing')) renderMarkdown(part('.said'), content);
  renew(part('.calls'), [calls, calls.map(resultOf), runs, waitingCalls().length], () => callNodes(message, runs));
  renew(part('.outcome'), [message.error, message.stopped, message.finish_reason, runs], () => outcomeNodes(message, runs));
  renew(part('.foot').querySelector('.stats'), [message.timings, message.usage, message.kv_bytes], () => statNodes(message));
  for (const button of part('.foot').querySelectorAll('.of-text')) button.hidden = !content;
  part('.foot').hidden = runs || node.classList.contains('editing');
  node.setAttribute('aria-busy', String(runs));
}

/* Makes the children anew only if what they show has changed: else a half-typed result would be lost. */
const shownStates = new WeakMap();
function renew(node, state, children) {
  const key = JSON.stringify(state);
  if (shownStates.get(node) === key) return;
  shownStates.set(node, key);
  node.replaceChildren(...children());
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function pretty(text) {
  const value = parsed(text);
  return value === undefined ? text : JSON.stringify(value, null, 2);
}

/** The calls of an answer: name, arguments, and the result or the place to give it. */
function callNodes(message, runs) {
  const waiting = runs ? [] : waitingCalls();
  const cards = message.tool_calls.map((call) => {
    const body = make('pre', { class: 'wrap', tabindex: 0 }, make('code', {}, pretty(call.function.arguments)));
    const title = make('h3', {}, icon('tool'), make('span', {}, 'Call of '), make('code', {}, call.function.name));
    const card = make('section', { class: 'call', 'aria-label': `Call of ${call.function.name}` }, title, body);
    const result = resultOf(call);
    if (result) card.append(resultNode(result));
    else if (waiting.includes(call)) card.append(resultField(call));
    return card;
  });
  if (waiting.length === 0 || !waiting.every((call) => message.tool_calls.includes(call))) return cards;
  const go = textButton(waiting.length === 1 ? 'Give the result' : 'Give the results', () => giveResults(message), 'primary');
  return [...cards, make('p', { class: 'row' }, go)];
}

function resultNode(result) {
  return make(
    'details',
    { class: 'call-result', open: true },
    make('summary', {}, 'Result'),
    make('pre', { class: 'wrap' }, make('code', {}, pretty(result.content))),
  );
}

function resultField(call) {
  const enter = (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    const empty = [...list.querySelectorAll('.call-result textarea')].find((field) => !field.value.trim());
    if (empty) empty.focus();
    else giveResults(messages.findLast((message) => message.role === 'assistant'));
  };
  const field = make('textarea', {
    rows: 2,
    class: 'code-input',
    spellcheck: 'false',
    placeholder: 'Text or JSON: {"temperature": 21, "sky": "sun"}',
    'data-call': call.id,
    on: { keydown: enter },
  });
  return make('div', { class: 'call-result' }, make('label', {}, `Result of ${call.function.name}`, field));
}

function giveResults(message) {
  if (running || !readSettings()) return;
  const fields = [...nodes.get(message).querySelectorAll('.call-result textarea')];
  const empty = fields.find((field) => !field.value.trim());
  if (empty) {
    notify('Every call needs a result; it may be as short as "done".');
    empty.focus();
    return;
  }
  for (const field of fields)
    messages.push({ role: 'tool', tool_call_id: field.dataset.call, content: field.value.trim() });
  $('notice').replaceChildren();
  prompt.focus();
  answer();
}

/** What became of an answer that is not simply there. */
function outcomeNodes(message, runs) {
  if (runs) return [];
  if (message.error) {
    const buttons = [textButton('Try again', () => again(message))];
    if (message.error.status === 401) buttons.unshift(textButton('Settings', () => openSettings('api_key')));
    return [make('div', { class: 'trouble', role: 'alert' }, make('p', {}, message.error.text), ...buttons)];
  }
  if (message.stopped) return [make('p', { class: 'remark' }, 'Stopped.')];
  if (message.finish_reason === 'length') return [make('p', { class: 'remark' }, 'Cut off: the limit of tokens is reached.')];
  if (!message.content && message.tool_calls.length === 0) return [make('p', { class: 'remark' }, 'The model said nothing.')];
  return [];
}

const decimal = new Intl.NumberFormat('en', { maximumSignificantDigits: 3, useGrouping: true });
const whole = new Intl.NumberFormat('en');

function bytes(count) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const step = count < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(count) / 3));
  return `${decimal.format(count / 1000 ** step)} ${units[step]}`;
}

function rate(tokens, seconds) {
  return tokens > 0 && seconds > 0 ? `, ${whole.format(Math.round(tokens / seconds))} tok/s` : '';
}

function statNodes({ timings = {}, usage = {}, kv_bytes: kv }) {
  const parts = [];
  const add = (title, ...children) => parts.push(make('span', { title }, ...children));
  const prompted = timings.prompt_tokens ?? usage.prompt_tokens;
  const cached = timings.cached_tokens ?? usage.prompt_tokens_details?.cached_tokens ?? 0;
  const tokens = timings.tokens ?? usage.completion_tokens;
  if (timings.path) add(`The forward passes ran on the ${timings.path}`, make('b', {}, timings.path));
  if (prompted !== undefined)
    add(
      'Tokens of the prompt, how many of them were in the cache, and tokens a second for the others',
      `prompt ${whole.format(prompted)}${cached ? ` (${whole.format(cached)} cached)` : ''}`,
      rate(prompted - cached, timings.prompt_seconds),
    );
  if (tokens !== undefined)
    add('Tokens of the answer, and tokens a second', `answer ${whole.format(tokens)}`, rate(tokens, timings.decode_seconds));
  if (kv !== undefined && tokens !== undefined) add("The server's memory for keys and values after this answer", `KV ${bytes(kv)}`);
  return parts;
}

function follow() {
  if (pinned) conversation.scrollTop = conversation.scrollHeight;
  $('latest').hidden = pinned || messages.length === 0;
}

conversation.addEventListener('scroll', () => {
  pinned = conversation.scrollHeight - conversation.scrollTop - conversation.clientHeight < 40;
  $('latest').hidden = pinned || messages.length === 0;
});
new ResizeObserver(follow).observe(conversation);
$('latest').addEventListener('click', () => {
  pinned = true;
  follow();
  prompt.focus();
});

/* ---- editing and copying ---- */

/** Edits a message in its place. A question changed is asked again; an answer changed just stays. */
function edit(node, hidden, message) {
  const field = make('textarea', { rows: Math.min(14, message.content.split('\n').length + 1), 'aria-label': 'Message' });
  field.value = message.content;
  const asks = message.role === 'user';
  const close = () => {
    form.remove();
    node.classList.remove('editing');
    for (const part of hidden) part.hidden = false;
    node.querySelector('[aria-label^="Edit"]').focus();
    show();
  };
  const save = () => {
    const text = field.value.trim();
    if (!text || running) return;
    if (!asks) message.content = text;
    close();
    if (asks && readSettings()) {
      const kept = messages.slice(0, messages.indexOf(message));
      replace([...kept, { role: 'user', content: text }], 'The conversation goes on from the edited message.');
      prompt.focus();
      answer();
    }
    keep();
  };
  const buttons = [textButton('Cancel', close, ''), make('button', { type: 'submit', class: 'primary' }, asks ? 'Send' : 'Keep')];
  const form = make('form', { class: 'editor' }, field, make('div', { class: 'row end' }, ...buttons));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    save();
  });
  form.addEventListener('keydown', (event) => {
    if (event.isComposing || event.target !== field) return;
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      save();
    }
  });
  form.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    close();
  });
  for (const part of hidden) part.hidden = true;
  node.classList.add('editing');
  node.append(form);
  field.focus();
}

async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text); // a page that is not on localhost or https has no clipboard
    button.focus();
  }
  announce(done ? 'Copied.' : 'Copying failed.');
  if (!done) notify('The browser did not let the text be copied.');
  else if (button.textContent) confirmOn(button);
  else button.title = 'Copied';
}

function copyBySelection(text) {
  const field = make('textarea', { class: 'unseen' });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  return done;
}

function confirmOn(button) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  button.textContent = 'Copied';
  setTimeout(() => (button.textContent = label), 1500);
}

list.addEventListener('click', (event) => {
  const button = event.target.closest('[data-copy="code"]');
  if (button) copy(button.closest('.code').querySelector('pre').textContent, button);
});

/* ---- export and import ---- */

function exportChat() {
  const chat = {
    format: 'lapidary-chat',
    version: 1,
    model: server.model ?? null,
    exported: new Date().toISOString(),
    settings: settings.exported(),
    messages,
  };
  const url = URL.createObjectURL(new Blob([JSON.stringify(chat, null, 2)], { type: 'application/json' }));
  make('a', { href: url, download: `chat-${chat.exported.slice(0, 16).replace(/[T:]/g, '-')}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function importChat(file) {
  try {
    if (file.size > 50e6) throw new Error('it is larger than 50 MB');
    const chat = JSON.parse(await file.text());
    const { system, read } = readMessages(Array.isArray(chat) ? chat : chat?.messages);
    replace(read, 'The chat was imported.');
    if (chat.format === 'lapidary-chat') settings.restore(chat.settings);
    else if (system !== undefined) settings.set('system', system);
    announce('The chat was imported.');
  } catch (error) {
    notify(`${file.name} was not imported: ${error.message}.`);
  }
}

/* Messages from a file or from storage: only what is understood, or an error. */
function readMessages(given) {
  if (!Array.isArray(given)) throw new Error('it holds no list of messages');
  let system;
  const read = [];
  given.forEach((message, i) => {
    const wrong = (what) => new Error(`message ${i + 1} ${what}`);
    if (typeof message !== 'object' || message === null) throw wrong('is not an object');
    const content = textOf(message.content);
    if (content === undefined) throw wrong('has a content that is not text');
    if (message.role === 'system' || message.role === 'developer') system = content;
    else if (message.role === 'user') read.push({ role: 'user', content });
    else if (message.role === 'tool' && typeof message.tool_call_id === 'string')
      read.push({ role: 'tool', tool_call_id: message.tool_call_id, content });
    else if (message.role === 'assistant') read.push(readAnswer(message, content, wrong));
    else throw wrong('has a role that is not known');
  });
  return { system, read };
}

function readAnswer(message, content, wrong) {
  const calls = message.tool_calls ?? [];
  const sound = (call) => [call?.id, call?.function?.name, call?.function?.arguments].every((text) => typeof text === 'string');
  if (!Array.isArray(calls) || !calls.every(sound)) throw wrong('has tool calls that cannot be read');
  const object = (value) => (typeof value === 'object' && value !== null ? value : undefined);
  return {
    ...newAnswer(),
    content,
    reasoning_content: textOf(message.reasoning_content) ?? '',
    tool_calls: calls.map(({ id, function: { name, arguments: given } }) => ({ id, type: 'function', function: { name, arguments: given } })),
    finish_reason: textOf(message.finish_reason) || 'stop',
    ...(message.stopped === true && { stopped: true }),
    ...(typeof message.error?.text === 'string' && { error: { text: message.error.text, status: message.error.status } }),
    ...(Number.isFinite(message.thinking_seconds) && { thinking_seconds: message.thinking_seconds }),
    ...(Number.isFinite(message.kv_bytes) && { kv_bytes: message.kv_bytes }),
    timings: object(message.timings),
    usage: object(message.usage),
  };
}

function textOf(content) {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content) || !content.every((part) => typeof part?.text === 'string')) return undefined;
  return content.map((part) => part.text).join('\n');
}

/* ---- the server ---- */

/* Keys and values of what runs, and of what is kept for the next turn. */
const keptBytes = () => (server.kv_bytes ?? 0) + (server.cache_bytes ?? 0);

async function refreshServer() {
  try {
    const response = await fetch('health', { headers: headers(settings.setting('api_key')) });
    if (!response.ok) throw new Error(response.statusText);
    server = await response.json();
  } catch {
    server = {};
  }
  const { model, path, isa, kv, threads, context } = server;
  const name = model?.split('/').filter(Boolean).at(-1);
  $('model').textContent = name ? [name, path, isa].filter(Boolean).join(' · ') : 'The server cannot be reached';
  document.title = name ? `${name} · Lapidary` : 'Lapidary';
  const rows = { Model: model, Path: path, 'KV cache': kv, 'KV memory': model && bytes(keptBytes()), Context: context, Instructions: isa, Threads: threads };
  const known = Object.entries(rows).filter(([, value]) => value !== undefined && value !== null);
  $('server').replaceChildren(...known.flatMap(([term, value]) => [make('dt', {}, term), make('dd', {}, String(value))]));
}

/* ---- settings, theme, keys ---- */

function openSettings(focus) {
  if (!$('settings').open) $('settings').showModal();
  const field = typeof focus === 'string' ? $('settings-form').elements[focus] : focus;
  field?.focus();
  field?.scrollIntoView({ block: 'center' });
}

settings.onChange(() => {
  const count = settings.toolCount();
  $('think').setAttribute('aria-pressed', String(settings.setting('thinking')));
  $('tools-chip').classList.toggle('on', count > 0);
  $('tools-chip').querySelector('span').textContent = count === 0 ? 'Tools' : count === 1 ? '1 tool' : `${count} tools`;
});
$('open-settings').addEventListener('click', () => openSettings());
$('tools-chip').addEventListener('click', () => openSettings('tools'));
$('think').addEventListener('click', () => settings.set('thinking', !settings.setting('thinking')));
$('close-settings').addEventListener('click', () => $('settings').close());
$('settings').addEventListener('click', (event) => {
  if (event.target === $('settings')) $('settings').close(); // beside the drawer
});
$('settings').addEventListener('close', () => refreshServer());
$('settings-form').addEventListener('submit', (event) => {
  event.preventDefault();
  if (settings.parameters()) $('settings').close();
  else document.querySelector('#settings [aria-invalid]').focus();
});

const themes = ['system', 'light', 'dark'];
let theme = themes.find((name) => name === settings.stored(THEME)) ?? 'system';
function showTheme() {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $('theme').setAttribute('aria-label', `Colours: ${theme}`);
  $('theme').title = `Colours: ${theme}`;
  $('theme').querySelector('use').setAttribute('href', `#i-${theme}`);
}
$('theme').addEventListener('click', () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  settings.store(THEME, theme);
  showTheme();
  announce(`Colours: ${theme}`);
});

$('new').addEventListener('click', () => {
  replace([], 'A new chat.');
  prompt.focus();
});
$('export').addEventListener('click', () => {
  $('menu').hidePopover();
  exportChat();
});
$('import').addEventListener('click', () => {
  $('menu').hidePopover();
  $('import-file').click();
});
$('import-file').addEventListener('change', async (event) => {
  const [file] = event.target.files;
  if (file) await importChat(file);
  event.target.value = '';
});
$('examples').addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (!button) return;
  if ('tools' in button.dataset && settings.toolCount() === 0) settings.useExampleTools();
  send(button.firstChild.textContent);
  prompt.focus();
});

function fitPrompt() {
  prompt.style.height = 'auto';
  prompt.style.height = `${prompt.scrollHeight}px`;
}
prompt.addEventListener('input', fitPrompt);
prompt.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running) $('composer').requestSubmit();
});
$('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  if (running) stop();
  else if (prompt.value.trim()) send(prompt.value.trim());
  else prompt.focus();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && running && !$('settings').open && !$('menu').matches(':popover-open')) stop();
});
window.addEventListener('pagehide', keep);

try {
  messages = readMessages(settings.stored(CHAT) ?? []).read;
} catch {
  messages = [];
}
showTheme();
show();
refreshServer();
