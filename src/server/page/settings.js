/* Settings: what the form holds, kept in localStorage, and what of it goes into a request.
 *
 * A setting is kept as it was typed and read in one place, when a request is made. One that cannot be
 * read stops the request and is shown beside its field; it is never left out silently. An empty field is
 * not sent: the server has its own defaults. */

const KEY = 'lapidary.settings';
const form = document.getElementById('settings-form');
const fields = [...form.elements].filter((field) => field.name);

const EXAMPLE_TOOLS = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Get the weather in a city',
      parameters: {
        type: 'object',
        properties: { city: { type: 'string', description: 'The city' } },
        required: ['city'],
      },
    },
  },
  {
    type: 'function',
    function: {
      name: 'add',
      description: 'Add two numbers',
      parameters: {
        type: 'object',
        properties: { a: { type: 'number' }, b: { type: 'number' } },
        required: ['a', 'b'],
      },
    },
  },
];

/* How the text of each kind of field is read. They throw what is to be shown beside the field. */
const readers = {
  number(text, { min = -Infinity, max = Infinity }) {
    const value = Number(text.trim().replace(',', '.'));
    if (!Number.isFinite(value)) throw new Error('This is not a number.');
    if (value < Number(min)) throw new Error(`At least ${min}.`);
    if (value > Number(max)) throw new Error(`At most ${max}.`);
    return value;
  },
  integer(text, limits) {
    const value = readers.number(text, limits);
    if (!Number.isSafeInteger(value)) throw new Error('This is not a whole number.');
    return value;
  },
  text: (text) => text,
  lines(text) {
    return text.split('\n').filter((line) => line !== '');
  },
  tools(text) {
    const tools = json(text);
    if (!Array.isArray(tools)) throw new Error('This must be a list: [ … ]');
    return tools.map((tool, i) => {
      const whole = tool?.function ? tool : { type: 'function', function: tool };
      if (typeof whole.function?.name !== 'string') throw new Error(`Tool ${i + 1} has no name.`);
      return whole;
    });
  },
  schema(text) {
    const schema = json(text);
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) throw new Error('This must be an object: { … }');
    return schema;
  },
};

function json(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${error.message}`);
  }
}

/** What was kept under `key`, or null. */
export function stored(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

/** Keeps a value in this browser; where it keeps nothing, or has no room, the value lives as long as the page. */
export function store(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // As said.
  }
}

/** The text or state of one setting. */
export const setting = (name) => {
  const field = form.elements[name];
  return field.type === 'checkbox' ? field.checked : field.value;
};

/** Sets one setting, keeps it, and lets everything that shows it know. */
export function set(name, value) {
  const field = form.elements[name];
  if (field.type === 'checkbox') field.checked = value;
  else field.value = value;
  changed();
}

export const useExampleTools = () => set('tools', JSON.stringify(EXAMPLE_TOOLS, null, 2));

/** All settings but the key, as typed: what an exported chat holds. */
export const exported = () =>
  Object.fromEntries(fields.filter(({ name }) => name !== 'api_key').map(({ name }) => [name, setting(name)]));

/** Takes over what `exported` gave; what is of another type is left. */
export function restore(stored) {
  for (const field of fields) {
    const value = stored?.[field.name];
    if (field.type === 'checkbox' && typeof value === 'boolean') field.checked = value;
    else if (field.type !== 'checkbox' && typeof value === 'string') field.value = value;
  }
  changed();
}

/** The settings' part of a request, or null where a field cannot be read: then the form shows which. */
export function parameters() {
  const given = {};
  let problems = 0;
  for (const field of fields.filter(({ dataset }) => dataset.kind)) {
    const { of: format } = field.dataset; // some belong to one format of the answer, and are needed then
    if (format && format !== setting('format')) continue;
    const { value, problem } = read(field);
    if (problem) problems++;
    else if (value !== undefined) given[field.name] = value;
    else if (format) {
      mark(field, 'This is needed for the format that is chosen.');
      problems++;
    }
  }
  return problems === 0 ? asRequest(given) : null;
}

/* The value of a field, undefined where it is empty; or the problem, which is shown. */
function read(field) {
  mark(field, '');
  const kind = field.dataset.kind;
  if (!kind || field.value.trim() === '') return {};
  try {
    return { value: readers[kind](field.value, field.dataset) };
  } catch (error) {
    mark(field, error.message);
    return { problem: error.message };
  }
}

function asRequest({ schema, stop, tools, ...numbers }) {
  const request = { ...numbers, chat_template_kwargs: { enable_thinking: setting('thinking') } };
  if (stop?.length) request.stop = stop;
  if (tools?.length) request.tools = tools;
  if (setting('format') === 'json_object') request.response_format = { type: 'json_object' };
  if (schema) request.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } };
  return request;
}

/** How many tools there are; 0 while they cannot be read. */
export function toolCount() {
  try {
    return setting('tools').trim() === '' ? 0 : readers.tools(setting('tools')).length;
  } catch {
    return 0;
  }
}

/* Says beside a field, within its label, what is wrong with it, or that nothing is. */
function mark(field, problem) {
  field.parentElement.querySelector('.problem')?.remove();
  field.removeAttribute('aria-invalid');
  if (!problem) return;
  const text = document.createElement('span');
  text.className = 'problem';
  text.textContent = problem;
  field.after(text);
  field.setAttribute('aria-invalid', 'true');
}

function changed() {
  for (const field of fields) if (field.dataset.of) field.parentElement.hidden = field.dataset.of !== setting('format');
  store(KEY, { ...exported(), api_key: setting('api_key') });
  form.dispatchEvent(new CustomEvent('settings'));
}

/** Calls `listener` now and whenever a setting has changed. */
export function onChange(listener) {
  form.addEventListener('settings', listener);
  listener();
}

form.addEventListener('input', (event) => {
  mark(event.target, '');
  changed();
});
form.addEventListener('change', (event) => read(event.target));
document.getElementById('example-tools').addEventListener('click', useExampleTools);
document.getElementById('reset-settings').addEventListener('click', () => {
  form.reset();
  for (const field of fields) mark(field, '');
  changed();
});

restore(stored(KEY));
