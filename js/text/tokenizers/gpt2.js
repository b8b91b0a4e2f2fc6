/** Parses GPT-2's own files: encoder.json (ids by token) and vocab.bpe (merges). */
import { shown } from '../../shared/quote-value.js';
import { fromAlphabet, utf8 } from './bytes.js';
import { mergesFromPairs, splitMerge } from './merges.js';
import { KIND, malformed, NONE, TOKEN } from './section.js';

/** @typedef {import('./section.js').Tokenizer} Tokenizer */

/** Placeholder token for ids that the vocabulary doesn't use. */
export const HOLE = Object.freeze({ bytes: new Uint8Array(), score: 0, kind: TOKEN.unused });
/** Maximum number of unused ids, in addition to the number of tokens. */
const MAX_HOLES = 1024;

const END_OF_TEXT = '<|endoftext|>';

/**
 * Returns a list of tokens, each at its id. Throws FORMAT for invalid or duplicate ids, and for too many unused ones.
 * @template T
 * @param {Iterable<readonly [id: number, token: T]>} entries
 * @param {T} [hole]  placeholder for missing tokens; without it, all ids must be used
 * @returns {T[]}
 */
export function byId(entries, hole) {
  /** @type {T[]} */
  const tokens = [];
  let count = 0;
  for (const [id, token] of entries) {
    if (!Number.isInteger(id) || id < 0 || id >= 2 ** 31) throw malformed(`expected a token id, found ${shown(id)}`);
    if (tokens[id] !== undefined) throw malformed(`two tokens have the id ${id}`);
    tokens[id] = token;
    count++;
  }
  if (tokens.length === count) return tokens;
  if (hole === undefined || tokens.length > 2 * count + MAX_HOLES)
    throw malformed(`expected the ids 0 to ${count - 1} for ${count} tokens, found ids up to ${tokens.length - 1}`);
  return Array.from(tokens, (token) => token ?? hole);
}

/**
 * @param {string} encoder  text of encoder.json
 * @param {string} merges   text of vocab.bpe
 * @returns {Tokenizer}
 */
export function parseGpt2(encoder, merges) {
  const json = parseJson(encoder, 'encoder.json');
  if (typeof json !== 'object' || json === null) throw malformed(`encoder.json is ${shown(json)}, not an object`);
  const ids = new Map(Object.entries(/** @type {Record<string, number>} */ (json)));
  const end = ids.get(END_OF_TEXT);
  const lines = merges.split(/\r?\n/).filter((line, i) => line !== '' && !(i === 0 && line.startsWith('#version')));
  return {
    kind: KIND.bpe,
    flags: 0,
    bos: end ?? NONE,
    eos: end ?? NONE,
    unk: NONE,
    pad: NONE,
    eog: end === undefined ? [] : [end],
    tokens: byId(
      [...ids].map(([text, id]) => [
        id,
        text === END_OF_TEXT
          ? { bytes: utf8(text), score: 0, kind: TOKEN.control }
          : { bytes: fromAlphabet(text), score: 0, kind: TOKEN.normal },
      ]),
    ),
    merges: mergesFromPairs(lines.map(splitMerge), ids),
  };
}

/**
 * @param {string} text
 * @param {string} name
 * @returns {any}
 */
export function parseJson(text, name) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw malformed(`${name} is not valid JSON (${/** @type {Error} */ (error).message})`);
  }
}
