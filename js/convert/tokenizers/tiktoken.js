/** tiktoken's files: a line for each token, base64 and rank; the rank is the id. */
import { utf8 } from './bytes.js';
import { byId } from './gpt2.js';
import { mergesFromRanks } from './merges.js';
import { KIND, malformed, NONE, TOKEN } from './section.js';

/** @typedef {import('./section.js').Tokenizer} Tokenizer */

/**
 * @param {string} text
 * @param {{ special?: Record<string, number>, end?: string }} [options]  special: tokens the file doesn't name, by
 *   text; end: the one that ends a text, and begins one
 * @returns {Tokenizer}
 */
export function parseTiktoken(text, { special = { '<|endoftext|>': 50256 }, end = '<|endoftext|>' } = {}) {
  const ranked = byId(text.split(/\r?\n/).filter(Boolean).map(parseLine));
  const tokens = byId([
    ...ranked.map((bytes, id) => entry(id, bytes, TOKEN.normal)),
    ...Object.entries(special).map(([name, id]) => entry(id, utf8(name), TOKEN.control)),
  ]);
  const eos = special[end] ?? NONE;
  return {
    kind: KIND.bpe,
    flags: 0,
    bos: eos,
    eos,
    unk: NONE,
    pad: NONE,
    eog: eos === NONE ? [] : [eos],
    tokens,
    merges: mergesFromRanks(ranked),
  };
}

/**
 * @param {number} id
 * @param {Uint8Array} bytes
 * @param {number} kind
 * @returns {[number, import('./section.js').Token]}
 */
const entry = (id, bytes, kind) => [id, { bytes, score: 0, kind }];

/**
 * @param {string} line
 * @returns {[number, Uint8Array]}
 */
function parseLine(line) {
  const [base64, rank, ...rest] = line.split(' ');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64) || !/^\d+$/.test(rank ?? '') || rest.length) {
    throw malformed(`${JSON.stringify(line)} is no line of base64 and rank`);
  }
  return [Number(rank), Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))];
}
