#!/usr/bin/env node
// Writes js/text/tokenizers/unicode-data.js: the character properties that regular expressions and normalizers of
// tokenizers use. They are from the Unicode Character Database of this Node. So text is split in the same way in every
// browser, whichever version of Unicode it supports.
//
//   node tools/gen_unicode_data.mjs          writes the file
//   node tools/gen_unicode_data.mjs --print  prints it
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const TARGET = fileURLToPath(new URL('../js/text/tokenizers/unicode-data.js', import.meta.url));
export const VERSION = process.versions.unicode;

/** General categories, in the order of their letters in LETTERS. */
const CATEGORIES = 'Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co'.split(
  ' ',
);
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ*+-=';
const SCRIPTS = ['Han', 'Hiragana', 'Katakana', 'Hangul', 'Latin', 'Greek', 'Cyrillic', 'Thai'];
/**
 * One mark of each combining class, in the order in which normalization sorts marks. Other marks are compared with these to
 * find their class.
 */
const MARKS = [
  0x334, 0x16ff0, 0x93c, 0x3099, 0x94d, 0x5b0, 0x5b1, 0x5b2, 0x5b3, 0x5b4, 0x5b5, 0x5b6, 0x5b7, 0x5b8, 0x5b9, 0x5bb,
  0x5bc, 0x5bd, 0x5bf, 0x5c1, 0x5c2, 0xfb1e, 0x64b, 0x64c, 0x64d, 0x64e, 0x64f, 0x650, 0x651, 0x652, 0x670, 0x711,
  0xc55, 0xc56, 0xe38, 0xe48, 0xeb8, 0xec8, 0xf71, 0xf72, 0xf74, 0x321, 0x1dce, 0x31b, 0x302a, 0x323, 0x59a, 0x302e,
  0x1d16d, 0x5ae, 0x301, 0x315, 0x35c, 0x35d, 0x345,
];

const textOf = (/** @type {number[]} */ ...codePoints) => String.fromCodePoint(...codePoints);
const codePointsOf = (/** @type {string} */ string) =>
  Array.from(string, (c) => /** @type {number} */ (c.codePointAt(0)));
const toBase36 = (/** @type {number} */ n) => n.toString(36);

/** @yields {number} all code points except surrogates and Hangul syllables */
function* characters() {
  for (let c = 0; c <= 0x10ffff; c++) if ((c < 0xd800 || c > 0xdfff) && (c < 0xac00 || c > 0xd7a3)) yield c;
}

/** Returns runs of characters of one category: length in base 36, letter of the category. */
function encodeCategories() {
  const tests = CATEGORIES.map((name) => new RegExp(`^\\p{${name}}$`, 'u'));
  let [runs, category, start] = ['', -1, 0];
  for (let c = 0; c <= 0x110000; c++) {
    const string = c > 0x10ffff ? '' : textOf(c);
    const nextCategory =
      c > 0x10ffff
        ? -2
        : category >= 0 && tests[category].test(string)
          ? category
          : tests.findIndex((test) => test.test(string));
    if (nextCategory === category) continue;
    if (category >= 0) runs += toBase36(c - start) + LETTERS[category];
    [category, start] = [nextCategory, c];
  }
  return runs;
}

/**
 * Returns ranges of matching characters: for each its distance from the end of the previous range, and its length.
 * @param {RegExp} test
 */
function encodeRanges(test) {
  const numbers = [];
  let end = 0;
  for (let c = 0; c <= 0x10ffff; c++) {
    if (!test.test(textOf(c))) continue;
    const first = c;
    while (c < 0x10ffff && test.test(textOf(c + 1))) c++;
    numbers.push(toBase36(first - end), toBase36(c + 1 - first));
    end = c + 1;
  }
  return numbers.join(' ');
}

/**
 * Returns an entry for each character that `change` maps to another string: the distance from the character of the previous
 * entry, and the code points of the new string.
 * @param {(c: string) => string} change
 */
function encodeChanges(change) {
  const entries = [];
  let previous = 0;
  for (const c of characters()) {
    const result = change(textOf(c));
    if (result === textOf(c)) continue;
    entries.push(
      `${toBase36(c - previous)}:${codePointsOf(result)
        .map((code) => toBase36(code))
        .join(',')}`,
    );
    previous = c;
  }
  return entries;
}

/**
 * Returns runs of characters with a lower-case form: distance from the first character of the previous run, number of
 * characters, step between them, difference of the lower-case form.
 */
function encodeLowerCase() {
  /** @type {string[]} */
  const runs = [];
  let [end, run] = [0, /** @type {number[]} */ ([])];
  const finishRun = () => {
    if (run.length) runs.push([run[0] - end, run[1], run[2], run[3]].map(toBase36).join(','));
    if (run.length) end = run[0];
  };
  for (const c of characters()) {
    const [lower, ...rest] = codePointsOf(textOf(c).toLowerCase());
    if (lower === c || rest.length) continue;
    const difference = lower - c;
    const [first, count, step] = run;
    const newStep = count === 1 && c - first <= 2 ? c - first : step;
    if (run.length && run[3] === difference && c === first + count * newStep)
      run = [first, count + 1, newStep, difference];
    else {
      finishRun();
      run = [c, 1, 1, difference];
    }
  }
  finishRun();
  return runs.join(' ');
}

/**
 * Returns runs of marks of one combining class: distance from the end of the previous run, number of marks, index of their
 * class in MARKS plus 1.
 */
function encodeCombining() {
  const swaps = (/** @type {number} */ a, /** @type {number} */ b) =>
    a !== b && textOf(a, b).normalize('NFD') === textOf(b, a);
  const marks = [...characters()]
    .filter((c) => /^\p{M}$/u.test(textOf(c)) && textOf(c).normalize('NFD') === textOf(c))
    .map((c) => [
      c,
      MARKS.findIndex((mark) => (swaps(0x345, c) || swaps(c, 0x334)) && !swaps(c, mark) && !swaps(mark, c)) + 1,
    ])
    .filter(([, rank]) => rank > 0);
  const runs = [];
  let end = 0;
  for (let i = 0; i < marks.length;) {
    const [first, rank] = marks[i];
    let count = 0;
    while (i < marks.length && marks[i][0] === first + count && marks[i][1] === rank) [i, count] = [i + 1, count + 1];
    runs.push([first - end, count, rank].map(toBase36).join(','));
    end = first + count;
  }
  return runs.join(' ');
}

/** Returns the declaration of a constant. @param {string} name @param {string} value @param {string} comment */
const constant = (name, value, comment) => `/** ${comment} */\nexport const ${name} = '${value}';\n`;

/** Returns the text of the module. @returns {string} */
export function generate() {
  let codePoint = 0;
  const decompositions = encodeChanges((c) => c.normalize('NFD'))
    .map((entry) => {
      codePoint += parseInt(entry, 36);
      return textOf(codePoint).normalize('NFC') === textOf(codePoint) ? entry : `${entry}!`;
    })
    .join(' ');
  return `/**
 * Generated by tools/gen_unicode_data.mjs: do not edit. From Unicode ${VERSION}. Numbers are in base 36; unicode.js parses
 * these strings.
 */
${constant('CATEGORY_NAMES', CATEGORIES.join(' '), `Names of the general categories, in the order of their letters in CATEGORIES: ${LETTERS}`)}
${constant('CATEGORIES', encodeCategories(), 'Runs of characters of one category: length, letter.')}
${constant('WHITE_SPACE', encodeRanges(/^\p{White_Space}$/u), 'White space, as ranges: distance from the end of the previous range, length.')}
/** Characters of each script, as ranges in the same format. @type {Record<string, string>} */
export const SCRIPTS = {
${SCRIPTS.map((name) => `  ${name}: '${encodeRanges(new RegExp(`^\\p{Script=${name}}$`, 'u'))}',`).join('\n')}
};

${constant('LOWER_CASE', encodeLowerCase(), 'Runs of letters with a lower-case form: distance from the first letter of the previous run, number of letters, step, difference.')}
${constant('DECOMPOSITIONS', decompositions, 'Full canonical decompositions except Hangul: distance from the previous character, code points, ! if not recomposed.')}
${constant('COMBINING', encodeCombining(), 'Runs of combining marks: distance from the end of the previous run, number of marks, rank of their combining class.')}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--print')) process.stdout.write(generate());
  else writeFileSync(TARGET, generate());
}
