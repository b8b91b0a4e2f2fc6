// A model of this thread that generates a given text: the sampler is replaced by one that picks the tokens of the text, if the mask of the
// grammar allows them.
import { Output } from '../../js/engine/generation/output.js';
import { TOKEN } from '../../js/text/tokenizers/section.js';
import { BYTE, CONFIG, tinyModel, tokenizer } from './fixture.mjs';

const encoder = new TextEncoder();

/** Special tokens that are added to those of the tiny model. */
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
/** Marks that are part of the text of prompts and replies; the other ones are control tokens, which have no text. */
const TEXT_MARKS = new Set(['<think>', '</think>', '<tool_call>', '</tool_call>']);

/** Texts that are tokens: true: MARKS, false: none, or a list. @typedef {boolean | string[]} Marks */
/** @param {Marks} marks */
const listOf = (marks) => (marks === true ? MARKS : marks || []);

/**
 * The bytes of a tiny model with a chat template and special tokens.
 * @param {string} template
 * @param {{ marks?: Marks, shown?: boolean, ends?: string[] }} [options]  `marks`: without, the tokenizer encodes them as bytes; `shown`: all
 *   marks are part of texts; `ends`: marks that end a reply
 */
export function modelWith(template, { marks = true, shown = false, ends = [] } = {}) {
  const tokens = tokenizer();
  for (const text of listOf(marks)) {
    const kind = shown || TEXT_MARKS.has(text) ? TOKEN.user : TOKEN.control;
    if (ends.includes(text)) tokens.eog.push(tokens.tokens.length);
    tokens.tokens.push({ bytes: encoder.encode(text), score: 0, kind });
  }
  return tinyModel({ tokens, template, chat: null, config: { context: 4096, vocab: tokens.tokens.length } });
}

/**
 * Replaces the sampler, until the end of the test, by one that generates a text and then the end token.
 * @param {import('node:test').TestContext} t @param {string} text @param {{ marks?: Marks }} [options]  of the model
 * @returns {{ refused: string[], spelled: string[], found: Map<string, number> }}  `refused`: the rest of the text at each place where the
 *   mask did not allow its next token; `spelled`: marks that were generated as bytes; `found`: number of tokens of each mark
 */
export function scriptReply(t, text, { marks = true } = {}) {
  const bytes = encoder.encode(text);
  const refused = /** @type {string[]} */ ([]);
  const spelled = /** @type {string[]} */ ([]);
  const found = /** @type {Map<string, number>} */ (new Map());
  const special = new Map(listOf(marks).map((mark, i) => [mark, CONFIG.vocab + i]));
  const markOf = new Map([...special].map(([mark, id]) => [id, mark]));
  let at = 0;
  const { part, sample } = Output.prototype;
  t.mock.method(
    Output.prototype,
    'part',
    /** @this {Output} */ function (/** @type {any[]} */ ...args) {
      const [id] = args;
      const mark = markOf.get(id);
      if (mark) found.set(mark, (found.get(mark) ?? 0) + 1);
      at += mark ? encoder.encode(mark).length : id >= BYTE && id < BYTE + 256 ? 1 : lengthOf(id);
      return Reflect.apply(part, this, args);
    },
  );
  t.mock.method(
    Output.prototype,
    'sample',
    /** @this {Output} */ function (/** @type {Uint32Array | undefined} */ mask) {
      const rest = new TextDecoder().decode(bytes.subarray(at));
      const mark = listOf(marks).find((prefix) => rest.startsWith(prefix));
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

/** Texts of the tokens after those of the bytes (fixture.mjs). */
const PAIRS = ['th', 'the', ' the', 'in', 'an', ' a', 'ou', 'you', 'er', 'es'];
/** Bytes of a token's text. @param {number} id */
const lengthOf = (id) => PAIRS[id - BYTE - 256]?.length ?? 0;
