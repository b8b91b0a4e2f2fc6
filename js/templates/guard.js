/**
 * What a person wrote stays text, also inside of a rendered template: a mark is put where it could be taken for a special
 * token, and the rendered text is cut there before it becomes tokens.
 */

/** Stand for the model's BOS and EOS, and for a place where no token goes across. Private characters of Unicode. */
export const [BOS, EOS, CUT] = ['\u{f0001}', '\u{f0002}', '\u{f0003}'];
const MARKS = /[\u{f0001}-\u{f0003}]/gu;

/** Where special tokens begin, first as most do. */
const BEGINNINGS = [/[<[{|\uff5c]/gu, /[^\p{L}\p{N}\s]/gu, /[^]/gu];

/** What begins a special token that another text could end: the last `<` or `[` that nothing closes. */
const OPEN = /[<[](?=[^<>[\]]*$)/u;

/**
 * @param {string} text
 * @param {(text: string) => boolean} hasSpecial  whether a text would become special tokens
 */
export function guardText(text, hasSpecial) {
  const clean = text.replace(MARKS, '\ufffd').replace(OPEN, `$&${CUT}`);
  const harmless = (/** @type {string} */ marked) => !marked.split(CUT).some(hasSpecial);
  if (harmless(clean)) return clean;
  const marked = BEGINNINGS.map((pattern) => clean.replaceAll(CUT, '').replace(pattern, `$&${CUT}`));
  return /** @type {string} */ (marked.find(harmless) ?? marked.at(-1));
}

/** Names that a template compares, and that no person writes. */
const FIXED = new Set(['role', 'type']);

/** Every text in it. @param {any} value @param {(text: string) => boolean} hasSpecial @returns {any} */
export function guard(value, hasSpecial) {
  if (typeof value === 'string') return guardText(value, hasSpecial);
  if (Array.isArray(value)) return value.map((item) => guard(item, hasSpecial));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) =>
      FIXED.has(key) && /^\w+$/.test(item) ? [key, item] : [guardText(key, hasSpecial), guard(item, hasSpecial)],
    ),
  );
}

/** A rendered text in what is encoded by itself and the marks between. @param {string} text */
export const parts = (text) => text.split(/([\u{f0001}-\u{f0003}])/u).filter(Boolean);
