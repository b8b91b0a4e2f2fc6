/**
 * Derives the compact form of a chat template: the texts before and after the messages of each role. They are found by
 * rendering a few conversations. The form is accepted only if it results in exactly the template's text for other
 * conversations.
 */
import { compact } from './compact.js';
import { compile } from './jinja.js';
import { BOS, EOS } from './template-texts.js';

/** @import { ChatFormat } from '../../shared/types.js' */

// Contents of messages. They consist of letters only, so that no filter changes them.
const [SYSTEM, USER, REPLY, NEXT] = ['Qsystemq', 'Quserq', 'Qreplyq', 'Qnextq'];

/**
 * Returns a conversation.
 * @param {string[]} texts  contents of its messages; the first is the system message, '' for none
 */
const conversation = ([system, ...turns]) => [
  ...(system ? [{ role: 'system', content: system }] : []),
  ...turns.map((content, i) => ({ role: i % 2 ? 'assistant' : 'user', content })),
];

/** Conversations with which a form is checked. */
const PROBES = [
  ['', 'a'],
  ['', 'a b', 'c', 'd'],
  ['s', 'a'],
  ['s t', 'a\nb', '  c', 'd ', 'e', 'f'],
  ['', ' a ', ' b\n', 'c'],
  ['', 'a', '<think>b</think>c', 'd', 'e', 'f', 'g', 'h'],
].map(conversation);
/** Two days for which the texts of a template that prints the date differ. */
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

/**
 * Returns the offset in the text between two messages at which the turn ends: after an end token and a line break.
 * @param {string} text @param {string[]} ends
 */
function turnEnd(text, ends) {
  const at = Math.max(...ends.map((end) => (end && text.includes(end) ? text.indexOf(end) + end.length : 0)));
  return at && text[at] === '\n' ? at + 1 : at;
}

/** Whether a text ends inside `<…>` or `[…]`. @param {string} text */
const endsInTag = (text) =>
  text.lastIndexOf('<') > text.lastIndexOf('>') || text.lastIndexOf('[') > text.lastIndexOf(']');

/**
 * Returns the common suffix of two texts, without the rest of a tag that begins before it.
 * @param {string} a @param {string} b
 */
function wholeEnd(a, b) {
  let end = commonEnd(a, b);
  while (end && (endsInTag(a.slice(0, a.length - end.length)) || endsInTag(b.slice(0, b.length - end.length))))
    end = end.slice(1);
  return end;
}

/**
 * Returns the common prefix of two texts, without the beginning of a tag that continues after it.
 * @param {string} a @param {string} b
 */
function wholeStart(a, b) {
  let start = commonStart(a, b);
  while (start.length < Math.max(a.length, b.length) && endsInTag(start)) start = start.slice(0, -1);
  return start;
}

/**
 * Splits a text at some messages, in order. Returns null if one is missing.
 * @param {string} text @param {string[]} messages
 */
function splitAround(text, messages) {
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
 * Returns the compact form of a template, or null if it has none.
 * @param {string} template
 * @param {{ bos?: string, eos?: string, ends?: string[] }} [tokens]  texts of special tokens; `ends`: of those that end
 *   a turn
 * @returns {ChatFormat | null}
 */
export function derive(template, { bos = '', eos = '', ends = [] } = {}) {
  const render = compile(template);
  /**
   * Renders a conversation; null if that fails or depends on the date.
   * @param {{ role: string, content: string }[]} messages
   */
  const write = (messages) => {
    try {
      const [text, later] = DAYS.map((day) =>
        render({ messages, add_generation_prompt: true, bos_token: BOS, eos_token: EOS }, day),
      );
      return text === later ? text : null;
    } catch {
      return null;
    }
  };
  const format = formatOf(write, [EOS, ...ends]);
  if (!format) return null;
  const { system, ...others } = format.roles;
  const match = [format, { ...format, roles: others }].find((candidate) => isCorrect(candidate, write));
  return match ? JSON.parse(JSON.stringify(match).replaceAll(BOS, json(bos)).replaceAll(EOS, json(eos))) : null;
}

/** Escapes a text as a part of a JSON string. @param {string} text */
const json = (text) => JSON.stringify(text).slice(1, -1);

/**
 * Whether a form has the same result as the template for all probes that it allows.
 * @param {ChatFormat} format
 * @param {(messages: { role: string, content: string }[]) => string | null} write  renders the template
 */
const isCorrect = (format, write) =>
  PROBES.every((messages) => {
    const pieces = compact(format, messages);
    if (!pieces) return messages[0].role === 'system';
    return (format.bos ? BOS : '') + pieces.map((piece) => piece.text).join('') === write(messages);
  });

/**
 * Returns the form of a template by its texts for three conversations, or null.
 * @param {(messages: { role: string, content: string }[]) => string | null} write  renders the template
 * @param {string[]} ends  texts that end a turn
 * @returns {ChatFormat | null}
 */
function formatOf(write, ends) {
  const long = splitAround(write(conversation(['', USER, REPLY, NEXT])) ?? '', [USER, REPLY, NEXT]);
  const short = splitAround(write(conversation(['', USER])) ?? '', [USER]);
  const withSystem = splitAround(write(conversation([SYSTEM, USER])) ?? '', [SYSTEM, USER]);
  if (!long || !short || long[0] !== short[0] || long[3] !== short[1]) return null;
  const [first, toReply, toNext, last] = long;
  // The beginning of a turn is the common part of all its occurrences. An end token in it belongs to the previous turn.
  const shared = wholeEnd(first, toNext);
  const before = shared.slice(turnEnd(shared, ends));
  const opens = withSystem !== null && !withSystem[1].endsWith(before);
  const both = wholeStart(last, toReply);
  const after = both.slice(0, turnEnd(both, ends) || both.length);
  const head = first.slice(0, first.length - before.length);
  const bos = head.startsWith(BOS);
  const withoutBos = (/** @type {string} */ text) => (bos && text.startsWith(BOS) ? text.slice(BOS.length) : text);
  const prompt = last.slice(after.length);
  const assistant = { before: toReply.slice(after.length), after: toNext.slice(0, toNext.length - before.length) };
  const trim = !(write(conversation(['', `\t${USER}\t`])) ?? '').includes(`\t${USER}\t`);
  const stop = ends.filter((end) => end && assistant.after.includes(end));
  return {
    roles: {
      ...(withSystem && {
        system: {
          before: withoutBos(withSystem[0]),
          after: opens ? withSystem[1] : withSystem[1].slice(0, withSystem[1].length - before.length),
          ...(opens && { opens }),
        },
      }),
      user: { before, after },
      assistant,
    },
    ...(withoutBos(head) && { start: withoutBos(head) }),
    ...(prompt !== assistant.before && { prompt }),
    ...(trim && { trim }),
    stop,
    bos,
  };
}
