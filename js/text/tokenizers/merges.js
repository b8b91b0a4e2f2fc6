/** Computes the merges of byte-level BPE as triples of ids: left, right, result. */
import { keyOf } from './bytes.js';
import { malformed } from './section.js';

/** @typedef {import('./section.js').Tokenizer['merges']} Merges */

/**
 * Returns the merges for pairs of texts in the byte alphabet. Throws FORMAT if a text is not a token.
 * @param {Iterable<readonly [string, string]>} pairs  in rank order
 * @param {ReadonlyMap<string, number>} ids  ids by text in the byte alphabet
 * @param {readonly string[]} [texts]  texts by id, if all are different. Most tokens are in the order of their merges,
 *   and comparing with the next text is faster than looking up the joined text
 * @returns {Merges}
 */
export function mergesFromPairs(pairs, ids, texts = []) {
  /** @type {Merges} */
  const merges = [];
  const idOf = (/** @type {string} */ text) => {
    const id = ids.get(text);
    if (id === undefined) throw malformed(`merge ${merges.length} needs ${JSON.stringify(text)}, which is not a token`);
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
 * Splits a merge "left right", the form of vocab.bpe, GGUF and older tokenizer.json. Throws FORMAT.
 * @param {string} line
 * @returns {[string, string]}
 */
export function splitMerge(line) {
  const at = typeof line === 'string' ? line.indexOf(' ', 1) : -1;
  if (at < 0 || at === line.length - 1) throw malformed(`expected a merge "left right", found ${JSON.stringify(line)}`);
  return [line.slice(0, at), line.slice(at + 1)];
}

/** Maximum number of bytes of a token whose merges are derived; the longest known ones have 128. */
const MAX_TOKEN_BYTES = 1024;

/**
 * Derives merges from ranks (tiktoken). Merging the bytes of a token with only the tokens of lower rank results in the
 * two parts that the token's own merge joins. If the result is not two parts, the token is never the result of a merge.
 * @param {readonly Uint8Array[]} tokens  in rank order
 * @returns {Merges}
 */
export function mergesFromRanks(tokens) {
  /** @type {Map<string, number>} */
  const ranks = new Map();
  tokens.forEach((bytes, rank) => {
    if (bytes.length > MAX_TOKEN_BYTES)
      throw malformed(
        `token ${rank} has ${bytes.length} bytes; at most ${MAX_TOKEN_BYTES} are supported in a file of ranks`,
      );
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
 * Merges `text` with the ranks below `limit`, the lowest rank first, and returns the ids of the remaining parts. Only
 * new pairs are looked up: a token of n bytes needs O(n) look-ups and O(n²) comparisons of numbers.
 * @param {string} text @param {number} limit @param {ReadonlyMap<string, number>} ranks
 * @returns {number[] | undefined}  undefined if a remaining part (a single byte) is not a token
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
