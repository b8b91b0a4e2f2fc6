/** JSON whose integers are kept as they are written: beyond 2^53, where doubles skip some, as BigInts. */

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Whether a number of JSON is an integer that a double would round. @param {string} text */
const isRounded = (text) => /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text));

/** A number, or an integer that a double would round. @param {string} text  as JSON has it @returns {number | bigint} */
export const exactNumber = (text) => (isRounded(text) ? BigInt(text) : Number(text));

/** The first integer of a text of JSON that a double would round; '': none. @param {string} text */
export const roundedInteger = (text) => text.match(TOKENS)?.find(isRounded) ?? '';

/** A character in front of integers that stand in strings for a while, as often as no string of the text has it. @param {string} text */
function markFor(text) {
  let mark = '\u{f0009}';
  while (text.includes(mark)) mark += mark;
  return mark;
}

/** Throws as `JSON.parse` does. @param {string} text @returns {any} */
export function parseExact(text) {
  if (!roundedInteger(text)) return JSON.parse(text);
  JSON.parse(text); // what is no JSON is so as it is
  const mark = markFor(text);
  const pattern = new RegExp(`^${mark}-?\\d+$`, 'u');
  return JSON.parse(
    text.replace(TOKENS, (token) => (isRounded(token) ? `"${mark}${token}"` : token)),
    (_, value) => (typeof value === 'string' && pattern.test(value) ? BigInt(value.slice(mark.length)) : value),
  );
}

/**
 * JSON of a value in which integers may be BigInts. Throws as `JSON.stringify` does.
 * @param {any} value @param {(key: string, value: any) => any} [check]  of each value within @returns {string}
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
