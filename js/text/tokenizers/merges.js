/** Merges of byte-level BPE as triples of ids. */
import { keyOf } from './bytes.js';
import { malformed } from './section.js';

/** @typedef {import('./section.js').Tokenizer['merges']} Merges */

/**
 * Merges given as pairs of texts in the byte alphabet, in rank order.
 * @param {Iterable<readonly [string, string]>} pairs
 * @param {ReadonlyMap<string, number>} ids  id by text in the byte alphabet
 * @param {readonly string[]} [texts]  the same by id, where no two are equal: tokens mostly lie in the order of the merges that
 *   make them, and comparing costs less than looking up a text that must be put together first
 * @returns {Merges}
 */
export function mergesFromPairs(pairs, ids, texts = []) {
  /** @type {Merges} */
  const merges = [];
  const idOf = (/** @type {string} */ text) => {
    const id = ids.get(text);
    if (id === undefined) throw malformed(`merge ${merges.length} needs ${JSON.stringify(text)}, which is no token`);
    return id;
  };
  const spells = (/** @type {string | undefined} */ text, /** @type {string} */ left, /** @type {string} */ right) =>
    text?.length === left.length + right.length && text.startsWith(left) && text.endsWith(right);
  let next = 0;
  for (const [left, right] of pairs) {
    const [first, second] = [idOf(left), idOf(right)];
    const whole = spells(texts[next], left, right) ? next : idOf(left + right);
    merges.push([first, second, whole]);
    next = whole + 1;
  }
  return merges;
}

/**
 * "left right", as vocab.bpe, GGUF and older tokenizer.json write a merge.
 * @param {string} line
 * @returns {[string, string]}
 */
export function splitMerge(line) {
  const at = typeof line === 'string' ? line.indexOf(' ', 1) : -1;
  if (at < 0 || at === line.length - 1) throw malformed(`${JSON.stringify(line)} is no merge`);
  return [line.slice(0, at), line.slice(at + 1)];
}

/** Bytes of a token whose merges are found; the longest of those in use have 128. */
const LONGEST = 1024;

/**
 * Vocabularies that name no merges but ranks (tiktoken): merging the bytes of a token by the tokens below it leaves
 * the two parts that it was made of. A token that doesn't come down to two parts can't arise from merging.
 * @param {readonly Uint8Array[]} tokens  in rank order
 * @returns {Merges}
 */
export function mergesFromRanks(tokens) {
  /** @type {Map<string, number>} */
  const ranks = new Map();
  tokens.forEach((bytes, rank) => {
    if (bytes.length > LONGEST)
      throw malformed(`its token ${rank} has ${bytes.length} bytes; tokens of ranks have at most ${LONGEST}`);
    const key = keyOf(bytes);
    if (!ranks.has(key)) ranks.set(key, rank);
  });
  /** @type {Merges} */
  const merges = [];
  tokens.forEach((bytes, rank) => {
    if (bytes.length < 2) return;
    const parts = partsBelow(keyOf(bytes), rank, ranks);
    if (parts?.length === 2) merges.push([parts[0], parts[1], rank]);
  });
  return merges;
}

/**
 * Ids of what is left when `text` is merged, best rank first, by ranks under `limit`. Texts of pairs are looked up where they
 * are new, so that a token costs as many look-ups as it has bytes, and their square in comparing numbers.
 * @param {string} text
 * @param {number} limit
 * @param {ReadonlyMap<string, number>} ranks
 * @returns {number[] | undefined} undefined when a single byte is no token
 */
function partsBelow(text, limit, ranks) {
  const parts = [...text];
  const rankAt = (/** @type {number} */ i) => {
    const rank = i >= 0 && i + 1 < parts.length ? ranks.get(parts[i] + parts[i + 1]) : undefined;
    return rank === undefined || rank >= limit ? Infinity : rank;
  };
  const pairs = parts.map((_, i) => rankAt(i));
  for (;;) {
    let at = 0;
    for (let i = 1; i < pairs.length; i++) if (pairs[i] < pairs[at]) at = i;
    if (pairs[at] === Infinity) break;
    parts.splice(at, 2, parts[at] + parts[at + 1]);
    pairs.splice(at, 1);
    pairs[at] = rankAt(at);
    if (at) pairs[at - 1] = rankAt(at - 1);
  }
  const ids = parts.map((part) => ranks.get(part) ?? -1);
  return ids.includes(-1) ? undefined : ids;
}
