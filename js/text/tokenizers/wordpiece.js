/** WordPiece vocabularies (BERT): tokens that continue a word begin with ##. */
import { compileStage, STAGE } from './automaton.js';
import { utf8 } from './bytes.js';
import { FLAG, KIND, PART, TOKEN } from './section.js';

/** @import { Part, Token } from './section.js' */

/** One punctuation character as BERT defines it, which includes the symbols of ASCII. */
export const PUNCTUATION = '[\\p{P}!-/:-@\\[-`{-~]';

/**
 * Returns the stages that split text: white space is dropped, and each punctuation character is a word.
 * @returns {Part[]}
 */
export function bertStages() {
  return [
    { type: PART.stage, bytes: compileStage(String.raw`\s+`, { flags: STAGE.dropMatches }) },
    { type: PART.stage, bytes: compileStage(PUNCTUATION) },
  ];
}

/**
 * Returns the parameter for the maximum length of words; longer ones are unknown.
 * @param {number} n  in characters
 * @returns {Part}
 */
export const longestWord = (n) => ({ type: PART.words, bytes: new Uint8Array(Uint32Array.of(n).buffer) });

/**
 * Returns a token in the form of the section: if it begins a word, its text begins with a space.
 * @param {string} text
 * @param {number} kind
 * @param {string} prefix  prefix of tokens that continue a word
 * @returns {Token}
 */
export function wordpieceToken(text, kind, prefix) {
  if (kind !== TOKEN.normal) return { bytes: utf8(text), score: 0, kind };
  const continues = text.startsWith(prefix) && text.length > prefix.length;
  return { bytes: utf8(continues ? text.slice(prefix.length) : ` ${text}`), score: 0, kind };
}

/** Properties of all WordPiece tokenizers. The space at the beginning of a text is dropped in the output. */
export const WORDPIECE = Object.freeze({ kind: KIND.wordpiece, flags: FLAG.dropSpace, merges: [] });
