/** Bags of words: a baseline for the accuracy of a classifier. */

/** @import { Features } from './train.js' */

/** @param {string} text */
const wordsOf = (text) => text.toLowerCase().match(/\p{L}[\p{L}\p{M}'’]*|\p{N}+/gu) ?? [];

/** Assigns a number to each word of the training texts. @param {string[]} texts */
export function vocabulary(texts) {
  const numbers = new Map();
  for (const text of texts) for (const word of wordsOf(text)) if (!numbers.has(word)) numbers.set(word, numbers.size);
  return numbers;
}

/**
 * Returns the counts of known words in a text as a vector of length 1.
 * @param {Map<string, number>} numbers
 * @param {string} text
 * @returns {Features & { index: Uint32Array }}
 */
export function bag(numbers, text) {
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (const word of wordsOf(text)) {
    const number = numbers.get(word);
    if (number !== undefined) counts.set(number, (counts.get(number) ?? 0) + 1);
  }
  const length = Math.hypot(...counts.values()) || 1;
  return {
    index: Uint32Array.from(counts.keys()),
    value: Float64Array.from(counts.values(), (count) => count / length),
  };
}
