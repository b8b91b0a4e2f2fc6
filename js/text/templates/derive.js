/**
 * Derives the compact form of a chat template: the text before and after each role's messages. It is found by rendering a few
 * conversations, and accepted only if it gives exactly the template's text for others.
 */
import { compact } from './compact.js';
import { compile } from './jinja.js';

/** @import { ChatFormat } from '../../shared/types.js' */

// Texts of messages. They consist of letters only, so that no filter changes them.
const [SYSTEM, USER, REPLY, NEXT] = ['Qsystemq', 'Quserq', 'Qreplyq', 'Qnextq'];
/** Stand-ins for BOS and EOS: single characters, which can't be split. */
const [BOS, EOS] = ['\u{f0001}', '\u{f0002}'];

/** A conversation of some messages. @param {string[]} texts  the first is the system's, '' for none */
const conversation = ([system, ...turns]) => [
  ...(system ? [{ role: 'system', content: system }] : []),
  ...turns.map((content, i) => ({ role: i % 2 ? 'assistant' : 'user', content })),
];

/** Conversations by which a form is checked. */
const PROBES = [
  ['', 'a'],
  ['', 'a b', 'c', 'd'],
  ['s', 'a'],
  ['s t', 'a\nb', '  c', 'd ', 'e', 'f'],
  ['', ' a ', ' b\n', 'c'],
  ['', 'a', '<think>b</think>c', 'd', 'e', 'f', 'g', 'h'],
].map(conversation);
/** Two days, on which a template that prints the date gives different texts. */
const DAYS = [new Date(2024, 1, 3), new Date(2025, 10, 14)];

/** @param {string} a @param {string} b */
function commonStart(a, b) {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return a.slice(0, n);
}

/** @param {string} a @param {string} b */
function commonEnd(a, b) {
  let n = 0;
  while (n < Math.min(a.length, b.length) && a.at(-1 - n) === b.at(-1 - n)) n++;
  return n ? a.slice(-n) : '';
}

/** Offset where a turn ends in the text between two messages: after its end token and a line break. @param {string} text @param {string[]} ends */
function cut(text, ends) {
  const at = Math.max(...ends.map((end) => (end && text.includes(end) ? text.indexOf(end) + end.length : 0)));
  return at && text[at] === '\n' ? at + 1 : at;
}

/** Whether a text ends inside of `<…>` or `[…]`. @param {string} text */
const inside = (text) => text.lastIndexOf('<') > text.lastIndexOf('>') || text.lastIndexOf('[') > text.lastIndexOf(']');

/** The common end of two texts, without the rest of a tag that begins before it. @param {string} a @param {string} b */
function wholeEnd(a, b) {
  let end = commonEnd(a, b);
  while (end && (inside(a.slice(0, a.length - end.length)) || inside(b.slice(0, b.length - end.length))))
    end = end.slice(1);
  return end;
}

/** @param {string} a @param {string} b */
function wholeStart(a, b) {
  let start = commonStart(a, b);
  while (start.length < Math.max(a.length, b.length) && inside(start)) start = start.slice(0, -1);
  return start;
}

/** The parts of a text around some messages, in order; null: one is missing. @param {string} text @param {string[]} messages */
function around(text, messages) {
  const parts = [];
  for (const message of messages) {
    const at = text.indexOf(message);
    if (at < 0) return null;
    parts.push(text.slice(0, at));
    text = text.slice(at + message.length);
  }
  return [...parts, text];
}

/**
 * The compact form of a template; null: it has none.
 * @param {string} template
 * @param {{ bos?: string, eos?: string, ends?: string[] }} [tokens]  texts of special tokens; `ends`: those that end a turn
 * @returns {ChatFormat | null}
 */
export function derive(template, { bos = '', eos = '', ends = [] } = {}) {
  const render = compile(template);
  /** @param {{ role: string, content: string }[]} messages */
  const make = (messages) => {
    try {
      const [text, later] = DAYS.map((day) =>
        render({ messages, add_generation_prompt: true, bos_token: BOS, eos_token: EOS }, day),
      );
      return text === later ? text : null;
    } catch {
      return null;
    }
  };
  const format = read(make, [EOS, ...ends]);
  if (!format) return null;
  const { system, ...others } = format.roles;
  const match = [format, { ...format, roles: others }].find((candidate) => agrees(candidate, make));
  return match ? JSON.parse(JSON.stringify(match).replaceAll(BOS, json(bos)).replaceAll(EOS, json(eos))) : null;
}

/** A text as a part of a JSON string. @param {string} text */
const json = (text) => JSON.stringify(text).slice(1, -1);

/**
 * Whether the form gives the template's text for all probes that it allows.
 * @param {ChatFormat} format
 * @param {(messages: { role: string, content: string }[]) => string | null} make
 */
const agrees = (format, make) =>
  PROBES.every((messages) => {
    const pieces = compact(format, messages);
    if (!pieces) return messages[0].role === 'system';
    return (format.bos ? BOS : '') + pieces.map((piece) => piece.text).join('') === make(messages);
  });

/**
 * @param {(messages: { role: string, content: string }[]) => string | null} make
 * @param {string[]} ends
 * @returns {ChatFormat | null}
 */
function read(make, ends) {
  const long = around(make(conversation(['', USER, REPLY, NEXT])) ?? '', [USER, REPLY, NEXT]);
  const short = around(make(conversation(['', USER])) ?? '', [USER]);
  const led = around(make(conversation([SYSTEM, USER])) ?? '', [SYSTEM, USER]);
  if (!long || !short || long[0] !== short[0] || long[3] !== short[1]) return null;
  const [first, toReply, toNext, last] = long;
  // The beginning of a turn is the part that all its occurrences share; an end token in it belongs to the turn before.
  const shared = wholeEnd(first, toNext);
  const before = shared.slice(cut(shared, ends));
  const opens = led !== null && !led[1].endsWith(before);
  const both = wholeStart(last, toReply);
  const after = both.slice(0, cut(both, ends) || both.length);
  const head = first.slice(0, first.length - before.length);
  const bos = head.startsWith(BOS);
  const bare = (/** @type {string} */ text) => (bos && text.startsWith(BOS) ? text.slice(BOS.length) : text);
  const prompt = last.slice(after.length);
  const assistant = { before: toReply.slice(after.length), after: toNext.slice(0, toNext.length - before.length) };
  const trim = !(make(conversation(['', `\t${USER}\t`])) ?? '').includes(`\t${USER}\t`);
  const stop = ends.filter((end) => end && assistant.after.includes(end));
  return {
    roles: {
      ...(led && {
        system: {
          before: bare(led[0]),
          after: opens ? led[1] : led[1].slice(0, led[1].length - before.length),
          ...(opens && { opens }),
        },
      }),
      user: { before, after },
      assistant,
    },
    ...(bare(head) && { start: bare(head) }),
    ...(prompt !== assistant.before && { prompt }),
    ...(trim && { trim }),
    stop,
    bos,
  };
}
