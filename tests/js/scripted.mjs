// A model of this thread that writes a given text: the sampler picks its tokens one by one, where what holds the text lets it.
import { Output } from '../../js/engine/generation/output.js';
import { TOKEN } from '../../js/text/tokenizers/section.js';
import { BYTE, CONFIG, tinyModel, tokenizer } from './fixture.mjs';

const encoder = new TextEncoder();

/** Special tokens besides those of the tiny model, with ids behind its own. */
export const MARKS = [
  '<think>',
  '</think>',
  '[TOOL_CALLS]',
  '[ARGS]',
  '<tool_call>',
  '</tool_call>',
  '[THINK]',
  '[/THINK]',
];
/** Those that are text in a prompt and in a reply; the others have none. */
const SHOWN = new Set(['<think>', '</think>', '<tool_call>', '</tool_call>']);

/** Texts that are tokens of their own: none, MARKS, or others. @typedef {boolean | string[]} Marks */
/** @param {Marks} marks */
const listOf = (marks) => (marks === true ? MARKS : marks || []);

/** @param {string} template @param {{ marks?: Marks, shown?: boolean, ends?: string[] }} [options]  `marks`: without, all of these are spelled in bytes; `shown`: all are text in a prompt and in a reply; `ends`: those that end a reply */
export function modelWith(template, { marks = true, shown = false, ends = [] } = {}) {
  const tokens = tokenizer();
  for (const text of listOf(marks)) {
    const kind = shown || SHOWN.has(text) ? TOKEN.user : TOKEN.control;
    if (ends.includes(text)) tokens.eog.push(tokens.tokens.length);
    tokens.tokens.push({ bytes: encoder.encode(text), score: 0, kind });
  }
  return tinyModel({ tokens, template, chat: null, config: { context: 4096, vocab: tokens.tokens.length } });
}

/**
 * @param {import('node:test').TestContext} t @param {string} text  what it would write; then it ends @param {{ marks?: Marks }} [options]  of the model
 * @returns {{ refused: string[], spelled: string[], found: Map<string, number> }}  what it was not allowed to, with what was there; marks that had
 *   to be spelled; how often each mark came as a token
 */
export function writes(t, text, { marks = true } = {}) {
  const bytes = encoder.encode(text);
  const refused = /** @type {string[]} */ ([]);
  const spelled = /** @type {string[]} */ ([]);
  const found = /** @type {Map<string, number>} */ (new Map());
  const special = new Map(listOf(marks).map((mark, i) => [mark, CONFIG.vocab + i]));
  const back = new Map([...special].map(([mark, id]) => [id, mark]));
  let at = 0;
  const { part, sample } = Output.prototype;
  t.mock.method(
    Output.prototype,
    'part',
    /** @this {Output} */ function (/** @type {any[]} */ ...given) {
      const [id] = given;
      const token = back.get(id);
      if (token) found.set(token, (found.get(token) ?? 0) + 1);
      at += token ? encoder.encode(token).length : id >= BYTE && id < BYTE + 256 ? 1 : lengthOf(id);
      return Reflect.apply(part, this, given);
    },
  );
  t.mock.method(
    Output.prototype,
    'sample',
    /** @this {Output} */ function (/** @type {Uint32Array | undefined} */ mask) {
      const rest = new TextDecoder().decode(bytes.subarray(at));
      const mark = listOf(marks).find((one) => rest.startsWith(one));
      const ids = [mark && special.get(mark), at < bytes.length ? BYTE + bytes[at] : 0].filter(
        (id) => id !== undefined,
      );
      const next = ids.find((id) => !mask || mask[id >>> 5] & (1 << (id & 31)));
      if (mark && next !== special.get(mark)) spelled.push(mark);
      if (next !== undefined) return next;
      refused.push(rest);
      return Reflect.apply(sample, this, [mask]);
    },
  );
  return { refused, spelled, found };
}

const PAIRS = ['th', 'the', ' the', 'in', 'an', ' a', 'ou', 'you', 'er', 'es'];
/** @param {number} id */
const lengthOf = (id) => PAIRS[id - BYTE - 256]?.length ?? 0;
