#!/usr/bin/env node
// Writes js/text/tokenizers/unicode-data.js: the character properties that regular expressions and normalizers of
// tokenizers use. They are from the Unicode Character Database of this Node. So every browser splits text in the same way,
// whichever version of Unicode it supports.
//
//   node tools/gen_unicode_data.mjs          writes the file
//   node tools/gen_unicode_data.mjs --print  prints it
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const TARGET = fileURLToPath(new URL('../js/text/tokenizers/unicode-data.js', import.meta.url));
export const VERSION = process.versions.unicode;

/** General categories, in the order of their letters in the table. */
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

const text = (/** @type {number[]} */ ...codePoints) => String.fromCodePoint(...codePoints);
const codes = (/** @type {string} */ string) => Array.from(string, (c) => /** @type {number} */ (c.codePointAt(0)));
const digits = (/** @type {number} */ n) => n.toString(36);

/** @yields {number} all code points except surrogates and Hangul syllables */
function* characters() {
  for (let c = 0; c <= 0x10ffff; c++) if ((c < 0xd800 || c > 0xdfff) && (c < 0xac00 || c > 0xd7a3)) yield c;
}

/** Returns runs of characters of one category: length in base 36, letter of the category. */
function categories() {
  const tests = CATEGORIES.map((name) => new RegExp(`^\\p{${name}}$`, 'u'));
  let [out, last, from] = ['', -1, 0];
  for (let c = 0; c <= 0x110000; c++) {
    const string = c > 0x10ffff ? '' : text(c);
    const now =
      c > 0x10ffff ? -2 : last >= 0 && tests[last].test(string) ? last : tests.findIndex((test) => test.test(string));
    if (now === last) continue;
    if (last >= 0) out += digits(c - from) + LETTERS[last];
    [last, from] = [now, c];
  }
  return out;
}

/**
 * Returns ranges of matching characters: for each its distance from the end of the previous range, and its length.
 * @param {RegExp} test
 */
function ranges(test) {
  const found = [];
  let end = 0;
  for (let c = 0; c <= 0x10ffff; c++) {
    if (!test.test(text(c))) continue;
    const first = c;
    while (c < 0x10ffff && test.test(text(c + 1))) c++;
    found.push(digits(first - end), digits(c + 1 - first));
    end = c + 1;
  }
  return found.join(' ');
}

/**
 * Returns an entry for each character that `change` maps to another string: the distance from the character of the previous
 * entry, and the code points of the new string.
 * @param {(c: string) => string} change
 */
function changes(change) {
  const found = [];
  let last = 0;
  for (const c of characters()) {
    const to = change(text(c));
    if (to === text(c)) continue;
    found.push(
      `${digits(c - last)}:${codes(to)
        .map((code) => digits(code))
        .join(',')}`,
    );
    last = c;
  }
  return found;
}

/**
 * Returns runs of characters with a lower-case form: distance from the first character of the previous run, number of
 * characters, step between them, difference of the lower-case form.
 */
function lowerCase() {
  /** @type {string[]} */
  const found = [];
  let [end, run] = [0, /** @type {number[]} */ ([])];
  const close = () => {
    if (run.length) found.push([run[0] - end, run[1], run[2], run[3]].map(digits).join(','));
    if (run.length) end = run[0];
  };
  for (const c of characters()) {
    const [to, ...more] = codes(text(c).toLowerCase());
    if (to === c || more.length) continue;
    const difference = to - c;
    const [first, n, step] = run;
    const next = n === 1 && c - first <= 2 ? c - first : step;
    if (run.length && run[3] === difference && c === first + n * next) run = [first, n + 1, next, difference];
    else {
      close();
      run = [c, 1, 1, difference];
    }
  }
  close();
  return found.join(' ');
}

/**
 * Returns runs of marks of one combining class: distance from the end of the previous run, number of marks, index of their
 * class in MARKS plus 1.
 */
function combining() {
  const swaps = (/** @type {number} */ a, /** @type {number} */ b) =>
    a !== b && text(a, b).normalize('NFD') === text(b, a);
  const classes = [...characters()]
    .filter((c) => /^\p{M}$/u.test(text(c)) && text(c).normalize('NFD') === text(c))
    .map((c) => [
      c,
      MARKS.findIndex((mark) => (swaps(0x345, c) || swaps(c, 0x334)) && !swaps(c, mark) && !swaps(mark, c)) + 1,
    ])
    .filter(([, place]) => place > 0);
  const found = [];
  let end = 0;
  for (let i = 0; i < classes.length;) {
    const [first, place] = classes[i];
    let n = 0;
    while (i < classes.length && classes[i][0] === first + n && classes[i][1] === place) [i, n] = [i + 1, n + 1];
    found.push([first - end, n, place].map(digits).join(','));
    end = first + n;
  }
  return found.join(' ');
}

/** @param {string} name @param {string} value @param {string} comment */
const constant = (name, value, comment) => `/** ${comment} */\nexport const ${name} = '${value}';\n`;

/** @returns {string} the module */
export function generate() {
  let last = 0;
  const decompositions = changes((c) => c.normalize('NFD'))
    .map((entry) => {
      last += parseInt(entry, 36);
      return text(last).normalize('NFC') === text(last) ? entry : `${entry}!`;
    })
    .join(' ');
  return `/**
 * Generated by tools/gen_unicode_data.mjs: do not edit. From Unicode ${VERSION}. Numbers are in base 36; unicode.js parses
 * these strings.
 */
${constant('CATEGORY_NAMES', CATEGORIES.join(' '), `Names of the general categories, in the order of their letters in CATEGORIES: ${LETTERS}`)}
${constant('CATEGORIES', categories(), 'Runs of characters of one category: length, letter.')}
${constant('WHITE_SPACE', ranges(/^\p{White_Space}$/u), 'White space, as ranges: distance from the end of the previous range, length.')}
/** Characters of each script, as ranges in the same format. @type {Record<string, string>} */
export const SCRIPTS = {
${SCRIPTS.map((name) => `  ${name}: '${ranges(new RegExp(`^\\p{Script=${name}}$`, 'u'))}',`).join('\n')}
};

${constant('LOWER_CASE', lowerCase(), 'Runs of letters with a lower-case form: distance from the first letter of the previous run, number of letters, step, difference.')}
${constant('DECOMPOSITIONS', decompositions, 'Full canonical decompositions except Hangul: distance from the previous character, code points, ! if not recomposed.')}
${constant('COMBINING', combining(), 'Runs of combining marks: distance from the end of the previous run, number of marks, rank of their combining class.')}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--print')) process.stdout.write(generate());
  else writeFileSync(TARGET, generate());
}
