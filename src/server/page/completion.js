/* A chat completion as it arrives.
 *
 * The one place that knows the server's protocol: POST /v1/chat/completions with a stream of events, and
 * how deltas add up to a message. A stream that ends without the reason why the answer ended is an error:
 * half an answer is never taken for whole. */

/** What the server, or the way to it, has to say against a request. */
export class RequestError extends Error {
  constructor(message, { status = 0, retryAfter = null } = {}) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export const headers = (apiKey) => (apiKey ? { Authorization: `Bearer ${apiKey}` } : {});

/**
 * Asks for the answer to `request` and adds it to `message` as it comes, calling `changed` after each piece.
 * Throws RequestError; when `signal` aborts, fetch's AbortError.
 */
export async function complete(request, message, { apiKey, signal, changed }) {
  const response = await post(request, apiKey, signal);
  for await (const data of events(response.body)) {
    if (data === '[DONE]') break;
    let chunk;
    try {
      chunk = JSON.parse(data);
    } catch {
      throw new RequestError('The server sent an event that is not JSON.');
    }
    if (chunk.error) throw new RequestError(chunk.error.message ?? 'The server gave up without a reason.');
    add(message, chunk);
    changed();
  }
  if (!message.finish_reason) throw new RequestError('The connection ended before the answer did.');
}

async function post(request, apiKey, signal) {
  let response;
  try {
    response = await fetch('v1/chat/completions', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers(apiKey) },
      body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
      signal,
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new RequestError('The server cannot be reached.');
  }
  if (response.ok) return response;
  const text = await response.text();
  let message = text.trim() || response.statusText;
  try {
    message = JSON.parse(text).error.message ?? message;
  } catch {
    // Not the server's own words, then: shown as they are.
  }
  throw new RequestError(message, { status: response.status, retryAfter: response.headers.get('Retry-After') });
}

/** The data of each server-sent event in a body. */
async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  let data = [];
  try {
    for (;;) {
      const { done, value } = await read(reader);
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const line of lines.map((whole) => whole.replace(/\r$/, ''))) {
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        else if (line === '' && data.length > 0) {
          yield data.join('\n');
          data = [];
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {}); // so that the server learns that nobody listens any more
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new RequestError('The connection broke.');
  }
}

function add(message, chunk) {
  if (chunk.usage) message.usage = chunk.usage;
  if (chunk.timings) message.timings = chunk.timings;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const delta = choice.delta ?? {};
  message.reasoning_content += delta.reasoning_content ?? '';
  message.content += delta.content ?? '';
  for (const piece of delta.tool_calls ?? []) {
    const call = (message.tool_calls[piece.index ?? 0] ??= { id: '', type: 'function', function: { name: '', arguments: '' } });
    if (piece.id) call.id = piece.id;
    call.function.name += piece.function?.name ?? '';
    call.function.arguments += piece.function?.arguments ?? '';
  }
  if (choice.finish_reason) message.finish_reason = choice.finish_reason;
}
