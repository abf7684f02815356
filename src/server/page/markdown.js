/* Markdown as DOM nodes.
 *
 * What a model says is never parsed as HTML: blocks are found line by line, spans by one scan with a
 * stack, and both become nodes that are made here. Links are made for http and https only, and nothing
 * is ever loaded: an image becomes a link.
 *
 * Time is linear in the text but for nesting, and nesting is limited: what lies deeper is shown plain.
 * A text that grows is rendered again and again, so a block whose source has not changed keeps its node,
 * and with it a selection or the focus. */

const MAX_BLOCK_DEPTH = 6;
const MAX_SPAN_DEPTH = 12;
const MAX_LINK = 2000; // characters looked at for the target of a link

const sources = new WeakMap(); // node -> the source that it was made from

function element(tag, children = [], attributes = {}) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Makes `container` show `text`; nodes of unchanged blocks stay. */
export function renderMarkdown(container, text) {
  const found = blocks(text.replaceAll('\r\n', '\n').split('\n'), 0);
  let old = container.firstElementChild;
  for (const block of found) {
    const next = old?.nextElementSibling;
    if (!old || sources.get(old) !== block.source) {
      const node = block.make();
      sources.set(node, block.source);
      if (old) old.replaceWith(node);
      else container.append(node);
    }
    old = next;
  }
  while (old) {
    const next = old.nextElementSibling;
    old.remove();
    old = next;
  }
}

/* ---- blocks ---- */

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;

const blank = (line) => line.trim() === '';
const indentation = (line) => line.length - line.trimStart().length;
const outdent = (line, columns) => line.slice(Math.min(columns, indentation(line)));

/* The kinds of block, in the order in which they are tried. Each takes lines from `at` on and gives
 * {end, make}, or null where it does not begin there. */
const kinds = [fence, heading, rule, table, quote, list];

function blocks(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (blank(lines[at])) {
      at++;
      continue;
    }
    const block = begun(lines, at, depth) ?? paragraph(lines, at, depth);
    found.push({ source: lines.slice(at, block.end).join('\n'), make: block.make });
    at = block.end;
  }
  return found;
}

function begun(lines, at, depth) {
  if (depth >= MAX_BLOCK_DEPTH) return null;
  for (const kind of kinds) {
    const block = kind(lines, at, depth);
    if (block) return block;
  }
  return null;
}

/* Whether one of them begins there, found out without going on. */
const begins = (lines, at, depth) =>
  depth < MAX_BLOCK_DEPTH &&
  ([FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(lines[at])) || columns(lines, at) !== null);

const made = (lines, depth) => blocks(lines, depth).map((block) => block.make());

function fence(lines, at) {
  const [, mark, info] = FENCE.exec(lines[at]) ?? [];
  if (!mark) return null;
  const indent = indentation(lines[at]);
  let end = at + 1;
  const closes = (line) => line.trim().length >= mark.length && line.trim() === mark[0].repeat(line.trim().length);
  while (end < lines.length && !closes(lines[end])) end++;
  const code = lines.slice(at + 1, end).map((line) => outdent(line, indent)).join('\n');
  return { end: Math.min(end + 1, lines.length), make: () => codeBlock(code, info.trim().split(/\s/)[0]) };
}

/* A block of code with its language's name and a button that copies it (page.js listens for it). */
function codeBlock(code, language) {
  const copy = element('button', ['Copy'], { type: 'button', class: 'small', 'data-copy': 'code' });
  const bar = element('div', [element('span', [language || 'text']), copy], { class: 'code-bar' });
  return element('div', [bar, element('pre', [element('code', [code])], { tabindex: 0 })], { class: 'code' });
}

function heading(lines, at) {
  const [, marks, text = ''] = HEADING.exec(lines[at]) ?? [];
  if (!marks) return null;
  let words = text.trim();
  let end = words.length;
  while (end > 0 && words[end - 1] === '#') end--;
  if (end === 0 || /\s/.test(words[end - 1])) words = words.slice(0, end).trim();
  // The page's own headings are h1 and h2; an answer's begin below.
  return { end: at + 1, make: () => element(`h${Math.min(marks.length + 2, 6)}`, spans(words)) };
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? { end: at + 1, make: () => element('hr') } : null;
}

function cells(line) {
  const found = [''];
  let code = false;
  const row = line.trim();
  for (let i = 0; i < row.length; i++) {
    if (row[i] === '\\' && row[i + 1] === '|') found[found.length - 1] += row[++i];
    else if (row[i] === '|' && !code) found.push('');
    else {
      if (row[i] === '`') code = !code;
      found[found.length - 1] += row[i];
    }
  }
  if (row.startsWith('|')) found.shift();
  if (found.length > 1 && found.at(-1).trim() === '') found.pop();
  return found.map((cell) => cell.trim());
}

/* The titles and the marks (---, :--, :-:, --:) of the table that begins there, or null. */
function columns(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes('|') || !lines[at + 1].includes('-')) return null;
  const marks = cells(lines[at + 1]);
  const titles = cells(lines[at]);
  return marks.length === titles.length && marks.every((mark) => /^:?-+:?$/.test(mark)) ? { titles, marks } : null;
}

function table(lines, at) {
  const { titles, marks } = columns(lines, at) ?? {};
  if (!titles) return null;
  let end = at + 2;
  while (end < lines.length && !blank(lines[end]) && lines[end].includes('|')) end++;
  const sides = marks.map((mark) => (mark.endsWith(':') ? (mark.startsWith(':') ? 'center' : 'right') : 'left'));
  const row = (tag, texts) =>
    element('tr', sides.map((side, i) => element(tag, spans(texts[i] ?? ''), { class: `align-${side}` })));
  const make = () => {
    const body = lines.slice(at + 2, end).map((line) => row('td', cells(line)));
    const grid = element('table', [element('thead', [row('th', titles)]), element('tbody', body)]);
    return element('div', [grid], { class: 'table', tabindex: 0 });
  };
  return { end, make };
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  if (end === at) return null;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ''));
  return { end, make: () => element('blockquote', made(inner, depth + 1)) };
}

/* An item goes on over lines that are indented by two or more, over blank lines between such, and over
 * text that follows directly and begins nothing of its own. */
function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first || RULE.test(lines[at])) return null;
  const [, outer, mark] = first;
  const kind = mark.at(-1);
  const items = [];
  let end = at;
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]);
    const inside = items.length > 0 && indentation(lines[next]) >= outer.length + 2;
    if (item && !inside && item[2].at(-1) === kind && !RULE.test(lines[next])) {
      items.push({ width: item[0].length, lines: [lines[next].slice(item[0].length)] });
    } else if (blank(lines[next])) {
      items.at(-1).lines.push('');
      next++;
      continue; // belongs to the list only if something of the list follows
    } else if (inside || (next === end && !begins(lines, next, depth))) {
      items.at(-1).lines.push(outdent(lines[next], items.at(-1).width));
    } else {
      break;
    }
    end = ++next;
  }
  const make = () => {
    const ordered = /\d/.test(mark);
    const nodes = items.map((item) => element('li', tight(made(item.lines, depth + 1))));
    return element(ordered ? 'ol' : 'ul', nodes, ordered && mark.slice(0, -1) !== '1' ? { start: parseInt(mark, 10) } : {});
  };
  return { end, make };
}

/* A single paragraph in an item is shown without a paragraph's distance. */
function tight(nodes) {
  if (nodes.filter((node) => node.tagName === 'P').length !== 1) return nodes;
  return nodes.flatMap((node) => (node.tagName === 'P' ? [...node.childNodes] : [node]));
}

function paragraph(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && !blank(lines[end]) && !begins(lines, end, depth)) end++;
  const text = lines.slice(at, end).map((line) => line.trimStart()).join('\n');
  return { end, make: () => element('p', spans(text)) };
}

/* ---- spans ----
 * One scan makes items: text, finished nodes, and runs of * _ ~ that may open or close emphasis. The
 * runs are paired afterwards, within a link's text first and then in the whole. */

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}_]/u;
const ADDRESS = /https?:\/\/[^\s<>"`]+/y;
const TARGET = /\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;

/** The nodes of one line of text or of a paragraph. */
function spans(text) {
  const items = [];
  const brackets = []; // indices of the [ that may begin a link
  const missing = new Set(); // lengths of ` runs that nothing closes any more
  let plain = '';
  let at = 0;
  const flush = () => {
    if (plain) items.push({ text: plain });
    plain = '';
  };
  const node = (made) => {
    flush();
    items.push({ node: made });
  };

  while (at < text.length) {
    const c = text[at];
    if (c === '\\' && PUNCTUATION.test(text[at + 1] ?? '')) {
      plain += text[at + 1];
      at += 2;
    } else if (c === '\n' || (c === '\\' && text[at + 1] === '\n')) {
      plain = plain.trimEnd();
      node(element('br'));
      at += c === '\n' ? 1 : 2;
    } else if (c === '`') {
      const length = runLength(text, at);
      const close = missing.has(length) ? -1 : closingTicks(text, at + length, length);
      if (close < 0) {
        missing.add(length);
        plain += text.slice(at, at + length);
        at += length;
      } else {
        node(element('code', [codeText(text.slice(at + length, close))]));
        at = close + length;
      }
    } else if (c === '*' || c === '_' || c === '~') {
      const length = runLength(text, at);
      flush();
      items.push(run(c, length, text[at - 1] ?? ' ', text[at + length] ?? ' '));
      at += length;
    } else if (c === '[' || (c === '!' && text[at + 1] === '[')) {
      flush();
      brackets.push(items.length);
      items.push({ text: c === '!' ? '![' : '[' });
      at += c === '!' ? 2 : 1;
    } else if (c === ']' && brackets.length > 0) {
      flush();
      const from = brackets.pop();
      const target = matchAt(TARGET, text, at + 1);
      const href = target && safeAddress(target[1]);
      if (href) {
        const inner = items.splice(from).slice(1);
        items.push({ node: link(href, emphasized(inner)) });
        brackets.length = 0; // no link within a link
        at += 1 + target[0].length;
      } else {
        plain += c;
        at++;
      }
    } else if ((c === 'h' && !WORD.test(text[at - 1] ?? ' ')) || (c === '<' && text[at + 1] === 'h')) {
      const angled = c === '<';
      const address = matchAt(ADDRESS, text, angled ? at + 1 : at)?.[0];
      const shown = address && (angled ? address : withoutTail(address));
      const closed = !angled || (address && text[at + 1 + address.length] === '>');
      const href = shown && closed && safeAddress(shown);
      if (href) {
        node(link(href, [shown]));
        at += shown.length + (angled ? 2 : 0);
      } else {
        plain += c;
        at++;
      }
    } else {
      plain += c;
      at++;
    }
  }
  flush();
  return emphasized(items);
}

function runLength(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end++;
  return end - at;
}

function closingTicks(text, from, length) {
  for (let at = text.indexOf('`', from); at >= 0; at = text.indexOf('`', at)) {
    const found = runLength(text, at);
    if (found === length) return at;
    at += found;
  }
  return -1;
}

function codeText(text) {
  const code = text.replaceAll('\n', ' ');
  return code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '' ? code.slice(1, -1) : code;
}

function matchAt(pattern, text, at) {
  pattern.lastIndex = 0;
  return pattern.exec(text.slice(at, at + MAX_LINK));
}

/** The address if a browser may be sent there, else null. */
function safeAddress(text) {
  try {
    const url = new URL(text);
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
  } catch {
    return null;
  }
}

/* Punctuation after an address belongs to the sentence; so does a ) that the address did not open. */
function withoutTail(address) {
  let end = address.length;
  let surplus = 0;
  for (const c of address) surplus += c === ')' ? 1 : c === '(' ? -1 : 0;
  for (; end > 0; end--) {
    const last = address[end - 1];
    if (last === ')' && surplus > 0) surplus--;
    else if (!'.,;:!?\'*_~]'.includes(last)) break;
  }
  return address.slice(0, end);
}

const link = (href, children) =>
  element('a', children, { href, target: '_blank', rel: 'noopener noreferrer' });

/* Whether a run may open or close, by what stands on each side of it. More lenient than CommonMark, where
 * "**Note:**text" is not bold; but _ within a word is a letter. */
function run(mark, length, before, after) {
  const opens = !/\s/.test(after) && (mark !== '_' || !WORD.test(before));
  const closes = !/\s/.test(before) && (mark !== '_' || !WORD.test(after));
  return { mark, left: length, opens, closes, open: [], close: [] };
}

/** Pairs the runs among `items` and gives the nodes. */
function emphasized(items) {
  const openers = [];
  const waiting = { '*': 0, _: 0, '~': 0 };
  for (const item of items) {
    if (!item.mark) continue;
    while (item.closes && item.left > 0 && waiting[item.mark] > 0) {
      while (openers.at(-1).mark !== item.mark) waiting[openers.pop().mark]--;
      const opener = openers.at(-1);
      const width = Math.min(2, opener.left, item.left);
      if (item.mark === '~' && width < 2) break;
      const tag = item.mark === '~' ? 'del' : width === 2 ? 'strong' : 'em';
      opener.open.unshift(tag);
      item.close.push(tag);
      opener.left -= width;
      item.left -= width;
      if (opener.left === 0) waiting[openers.pop().mark]--;
    }
    if (item.opens && item.left > 0) {
      openers.push(item);
      waiting[item.mark]++;
    }
  }

  const root = document.createDocumentFragment();
  const path = [root];
  let deeper = 0; // levels that are open but not shown
  let plain = ''; // not yet in a node
  const flush = () => {
    if (plain) path.at(-1).append(plain);
    plain = '';
  };
  for (const { node, text, mark, left, close, open } of items) {
    if (node) {
      flush();
      path.at(-1).append(node);
    } else if (text) {
      plain += text;
    } else {
      for (let i = 0; i < close.length; i++) {
        if (deeper > 0) deeper--;
        else {
          flush();
          path.pop();
        }
      }
      plain += mark.repeat(left);
      for (const tag of open) {
        if (path.length > MAX_SPAN_DEPTH) {
          deeper++;
          continue;
        }
        flush();
        const inner = element(tag);
        path.at(-1).append(inner);
        path.push(inner);
      }
    }
  }
  flush();
  return [...root.childNodes];
}
