/**
 * Parses and writes JSON without rounding integers: those beyond 2^53, which a double may not represent, are BigInts.
 */

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Whether the text of a number in JSON is an integer that a double would round. @param {string} text */
const isRounded = (text) => /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text));

/**
 * Parses a number of JSON; an integer that a double would round becomes a BigInt.
 * @param {string} text
 * @returns {number | bigint}
 */
export const exactNumber = (text) => (isRounded(text) ? BigInt(text) : Number(text));

/** Returns the first integer in JSON that a double would round, or ''. @param {string} text  JSON */
export const roundedInteger = (text) => text.match(TOKENS)?.find(isRounded) ?? '';

/**
 * Returns a prefix that no string of the text contains. It marks integers that are temporarily written as strings.
 * @param {string} text
 */
function markFor(text) {
  let mark = '\u{f0009}';
  while (text.includes(mark)) mark += mark;
  return mark;
}

/** Parses JSON with exact integers. Throws like `JSON.parse`. @param {string} text @returns {any} */
export function parseExact(text) {
  if (!roundedInteger(text)) return JSON.parse(text);
  JSON.parse(text); // invalid JSON throws before the text is changed
  const mark = markFor(text);
  const pattern = new RegExp(`^${mark}-?\\d+$`, 'u');
  return JSON.parse(
    text.replace(TOKENS, (token) => (isRounded(token) ? `"${mark}${token}"` : token)),
    (_, value) => (typeof value === 'string' && pattern.test(value) ? BigInt(value.slice(mark.length)) : value),
  );
}

/**
 * Converts a value that may contain BigInts to JSON. Throws like `JSON.stringify`.
 * @param {any} value
 * @param {(key: string, value: any) => any} [check]  called for each value inside; returns the value to write
 * @returns {string}
 */
export function exactJson(value, check = (_, item) => item) {
  let isExact = false;
  const plain = JSON.stringify(value, (key, item) => {
    const checked = check(key, item);
    isExact ||= typeof checked === 'bigint';
    return typeof checked === 'bigint' ? null : checked;
  });
  if (!isExact) return plain;
  const mark = markFor(plain);
  return JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? `${mark}${item}` : item)).replace(
    new RegExp(`"${mark}(-?\\d+)"`, 'gu'),
    '$1',
  );
}
