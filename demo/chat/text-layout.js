/**
 * Breaks texts of any script into lines for a canvas, which can only measure the width of a text, and finds their direction. Uses the
 * browser's segmenter and no document.
 */

/** Scripts that are written without spaces: a line may end after almost every word. */
const NO_SPACES =
  '[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]';
const [BEGINS_WITHOUT, ENDS_WITHOUT] = [new RegExp(`^${NO_SPACES}`, 'u'), new RegExp(`${NO_SPACES}$`, 'u')];
/** Characters that must not begin a line, and characters that must not end one. */
const [CLOSES, OPENS] = [/^[\p{Pe}\p{Pf}\p{Po}ー々]/u, /[\p{Ps}\p{Pi}]$/u];
const HYPHENATED = /\p{L}[-–—/]$/u;
const RIGHT_TO_LEFT =
  /^[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

/**
 * Returns the direction of a text by its first letter, like `dir="auto"`.
 * @param {string} text
 * @returns {'ltr' | 'rtl'}
 */
export const directionOf = (text) => (RIGHT_TO_LEFT.test(/\p{L}/u.exec(text)?.[0] ?? '') ? 'rtl' : 'ltr');

/** @param {string} text @param {'word' | 'grapheme'} granularity @returns {string[]} */
const segments = (text, granularity) =>
  Array.from(new Intl.Segmenter(undefined, { granularity }).segment(text), ({ segment }) => segment);

/** Whether a line may end between two neighbouring parts. @param {string} before @param {string} after */
function mayBreak(before, after) {
  if (/^\s/.test(after)) return false;
  if (/\s$/.test(before) || HYPHENATED.test(before)) return true;
  const withoutSpaces = ENDS_WITHOUT.test(before) || BEGINS_WITHOUT.test(after);
  return withoutSpaces && !CLOSES.test(after) && !OPENS.test(before);
}

/**
 * Splits a line into parts that must not be broken, each with the spaces after it.
 * @param {string} line
 * @returns {string[]}
 */
function unbroken(line) {
  /** @type {string[]} */
  const parts = [];
  for (const segment of segments(line, 'word')) {
    const last = parts.at(-1);
    if (last === undefined || mayBreak(last, segment)) parts.push(segment);
    else parts[parts.length - 1] += segment;
  }
  return parts;
}

/**
 * Breaks a text into lines of at most this width. A word wider than a line is cut between graphemes.
 * @param {string} text @param {number} width @param {(text: string) => number} measure @returns {string[]}
 */
export function linesOf(text, width, measure) {
  return text.split('\n').flatMap((paragraph) => {
    /** @type {string[]} */
    const lines = [];
    let line = '';
    const end = () => lines.push(line.trimEnd()) && (line = '');
    for (const part of unbroken(paragraph)) {
      if (line && measure((line + part).trimEnd()) > width) end();
      if (measure(part.trimEnd()) <= width) line += part;
      else
        for (const character of segments(part, 'grapheme')) {
          if (line && measure(line + character) > width) end();
          line += character;
        }
    }
    end();
    return lines;
  });
}
