/** WordPiece vocabularies, as BERT's: tokens that go on a word are written with ## in front. */
import { compileStage, STAGE } from './automaton.js';
import { utf8 } from './bytes.js';
import { FLAG, KIND, PART, TOKEN } from './section.js';

/** @import { Part, Token } from './section.js' */

/** White space between words is left out; punctuation is a word, each character. @returns {Part[]} */
export function bertStages() {
  return [
    { type: PART.stage, bytes: compileStage(String.raw`\s+`, { flags: STAGE.dropMatches }) },
    { type: PART.stage, bytes: compileStage('[\\p{P}!-/:-@\\[-`{-~]') },
  ];
}

/** @param {number} n @returns {Part} */
export const longestWord = (n) => ({ type: PART.words, bytes: new Uint8Array(Uint32Array.of(n).buffer) });

/**
 * A token as the section has it: one that begins a word begins with a space.
 * @param {string} text
 * @param {number} kind
 * @param {string} prefix  of tokens that go on
 * @returns {Token}
 */
export function wordpieceToken(text, kind, prefix) {
  if (kind !== TOKEN.normal) return { bytes: utf8(text), score: 0, kind };
  const goesOn = text.startsWith(prefix) && text.length > prefix.length;
  return { bytes: utf8(goesOn ? text.slice(prefix.length) : ` ${text}`), score: 0, kind };
}

/** What all have: a space in front of a text is dropped when it is shown. */
export const WORDPIECE = Object.freeze({ kind: KIND.wordpiece, flags: FLAG.dropSpace, merges: [] });
