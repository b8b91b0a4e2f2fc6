/** Creates steps that change text before it is split into words: parts of the section TOKN (docs/FORMAT.md). */
import { utf8 } from './bytes.js';
import { malformed, PART } from './section.js';
import { complement, intersect, unite } from '../regex/sets.js';
import { combining, decompositions, lowerCase, properties } from './unicode.js';

/** @import { Part } from './section.js' @import { CharSet } from '../regex/sets.js' */

/**
 * Kinds of changes of characters. text: replaced by a text; other: replaced by the character at a fixed distance; jamo:
 * decomposed to Hangul letters; around: kept, with a text before and after it.
 */
const TO = Object.freeze({ text: 0, other: 1, jamo: 2, around: 3 });
/** @typedef {{ first: number, last: number, kind: number, text?: string, difference?: number }} Change */

/** Characters that BERT treats as Chinese. @type {CharSet} */
const CHINESE = [
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xf900, 0xfaff],
  [0x20000, 0x2a6df],
  [0x2a700, 0x2b73f],
  [0x2b740, 0x2b81f],
  [0x2b920, 0x2ceaf],
  [0x2f800, 0x2fa1f],
];

/** Whether BERT's normalizer puts spaces around a character. @param {string} c */
export const isChinese = (c) =>
  CHINESE.some(([first, last]) => Number(c.codePointAt(0)) >= first && Number(c.codePointAt(0)) <= last);
const HANGUL = Object.freeze({ first: 0xac00, last: 0xd7a3, kind: TO.jamo });

/** Returns the change of a character to a text. @param {number} c @param {string} text @returns {Change} */
function change(c, text) {
  const [to, ...more] = Array.from(text, (char) => /** @type {number} */ (char.codePointAt(0)));
  if (to === undefined || more.length) return { first: c, last: c, kind: TO.text, text };
  return { first: c, last: c, kind: TO.other, difference: to - c };
}

/** Sorts changes and joins adjacent equal ones. @param {Change[]} changes */
function joinChanges(changes) {
  /** @type {Change[]} */
  const out = [];
  for (const one of changes.sort((a, b) => a.first - b.first)) {
    const before = out.at(-1);
    const same =
      before &&
      before.last + 1 === one.first &&
      before.kind === one.kind &&
      before.text === one.text &&
      before.difference === one.difference;
    if (same) before.last = one.last;
    else out.push({ ...one });
  }
  return out;
}

/** Creates a step that changes characters one by one. @param {Change[]} changes @returns {Part} */
export function mapPart(changes) {
  const records = joinChanges(changes);
  /** @type {Map<string, number>} */
  const places = new Map();
  /** @type {number[]} */
  const text = [];
  const value = (/** @type {Change} */ { text: output, difference = 0 }) => {
    if (output === undefined) return difference >>> 0;
    const bytes = utf8(output);
    const at = places.get(output) ?? text.length;
    if (at === text.length) text.push(...bytes);
    places.set(output, at);
    return at * 256 + bytes.length;
  };
  const rows = records.map((r) => [r.first, r.kind * 2 ** 28 + r.last - r.first, value(r)]);
  const bytes = new Uint8Array(8 + 12 * rows.length + Math.ceil(text.length / 4) * 4);
  const view = new DataView(bytes.buffer);
  [rows.length, text.length, ...rows.flat()].forEach((number, i) => view.setUint32(4 * i, number, true));
  bytes.set(text, 8 + 12 * rows.length);
  return { type: PART.map, bytes };
}

/** @param {CharSet} set @param {string} text @returns {Change[]} */
const allBecome = (set, text) => set.map(([first, last]) => ({ first, last, kind: TO.text, text }));

/**
 * Creates BERT's normalizer. clean: it removes control characters and replaces white space by spaces; chinese: it puts
 * spaces around Chinese characters; accents: it removes accents; lower: it converts to lower case.
 * @param {{ clean: boolean, chinese: boolean, accents: boolean, lower: boolean }} options @returns {Part[]}
 */
export function bertParts({ clean, chinese, accents, lower }) {
  const small = lowerCase();
  const marks = new Set(
    properties('Mn').flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i)),
  );
  const letter = (/** @type {number} */ c) => String.fromCodePoint(lower ? (small.get(c) ?? c) : c);
  const inSet = (/** @type {CharSet} */ set, /** @type {number} */ c) =>
    set.some(([first, last]) => first <= c && c <= last);
  const removedPoints = clean
    ? unite([
        [0, 0],
        [0xfffd, 0xfffd],
        ...intersect(
          properties('Cc', 'Cf', 'Co'),
          complement([
            [9, 10],
            [13, 13],
          ]),
        ),
      ])
    : [];
  const spaces = clean
    ? intersect(unite([[9, 10], [13, 13], ...properties('White_Space')]), complement(removedPoints))
    : [];
  /** @type {Map<number, string>} */
  const others = new Map();
  if (lower) for (const c of small.keys()) others.set(c, letter(c));
  if (lower && !accents) others.set(0x130, 'i\u0307');
  if (accents) {
    for (const c of marks) others.set(c, '');
    for (const [c, to] of decompositions().of)
      others.set(
        c,
        to
          .filter((part) => !marks.has(part))
          .map(letter)
          .join(''),
      );
  }
  const special = [...others]
    .filter(([c]) => !inSet(removedPoints, c) && !inSet(spaces, c))
    .map(([c, text]) => change(c, chinese && inSet(CHINESE, c) ? ` ${text} ` : text));
  const changed = unite([...others.keys()].map((c) => [c, c]));
  const around = chinese ? intersect(CHINESE, complement(changed)) : [];
  const changes = [
    ...special,
    ...allBecome(removedPoints, ''),
    ...allBecome(spaces, ' '),
    ...around.map(([first, last]) => ({ first, last, kind: TO.around, text: ' ' })),
    ...(accents ? [HANGUL] : []),
  ];
  return changes.length ? [mapPart(changes)] : [];
}

/**
 * Encodes a payload: numbers, then bytes, padded with zeros to a multiple of 4.
 * @param {Uint8Array} bytes @param {number[]} numbers
 */
function payload(bytes, ...numbers) {
  const out = new Uint8Array(4 * numbers.length + Math.ceil(bytes.length / 4) * 4);
  const view = new DataView(out.buffer);
  numbers.forEach((number, i) => view.setUint32(4 * i, number, true));
  out.set(bytes, 4 * numbers.length);
  return out;
}

/**
 * Creates a step that puts a prefix before each text that is not empty.
 * @param {string} text  the prefix
 * @param {{ atStart?: boolean, unlessThere?: boolean }} [when]  atStart: only at the beginning of the complete input;
 *   unlessThere: only if the text does not begin with the prefix
 * @returns {Part}
 */
export function prefixPart(text, { atStart = false, unlessThere = false } = {}) {
  const bytes = utf8(text);
  return { type: PART.prefix, bytes: payload(bytes, (atStart ? 1 : 0) | (unlessThere ? 2 : 0), bytes.length) };
}

/**
 * Creates a step that removes spaces. atStart, atEnd: at the beginning and the end of the text; repeated: all except one
 * of consecutive spaces; inParts: atStart and atEnd apply to each part between special tokens.
 * @param {{ atStart?: boolean, atEnd?: boolean, repeated?: boolean, inParts?: boolean }} which
 * @returns {Part}
 */
export const spacesPart = ({ atStart, atEnd, repeated, inParts }) => ({
  type: PART.spaces,
  bytes: payload(new Uint8Array(), (atStart ? 1 : 0) | (atEnd ? 2 : 0) | (repeated ? 4 : 0) | (inParts ? 8 : 0)),
});

/**
 * Creates a step that removes white space at the ends of each part between special tokens.
 * @param {{ atStart: boolean, atEnd: boolean }} ends @returns {Part}
 */
export const trimPart = ({ atStart, atEnd }) => ({
  type: PART.trim,
  bytes: payload(new Uint8Array(), (atStart ? 1 : 0) | (atEnd ? 2 : 0)),
});

/** Creates a step that replaces a text by another one. @param {string} from @param {string} to @returns {Part} */
export function replacePart(from, to) {
  const [a, b] = [utf8(from), utf8(to)];
  return { type: PART.replace, bytes: payload(Uint8Array.of(...a, ...b), a.length, b.length) };
}

/** Creates a step that replaces all white space by spaces. @returns {Part} */
export const whiteSpacePart = () =>
  mapPart(allBecome(intersect(properties('White_Space'), complement([[32, 32]])), ' '));

/** Creates a step that converts text to lower case. @returns {Part} */
export const lowerPart = () =>
  mapPart([
    change(0x130, 'i\u0307'),
    ...[...lowerCase()].filter(([c]) => c !== 0x130).map(([c, to]) => change(c, String.fromCodePoint(to))),
  ]);

/** Creates a step that removes combining marks. @returns {Part} */
export const stripAccentsPart = () => mapPart(allBecome(properties('M'), ''));

/** Returns the changes of NFKD, except those of Hangul, by the runtime's version of Unicode. @returns {Change[]} */
const compatible = () =>
  properties('L', 'M', 'N', 'P', 'S', 'Z').flatMap(([first, last]) => {
    const changes = [];
    for (let c = first; c <= last; c++) {
      if (c >= HANGUL.first && c <= HANGUL.last) continue;
      const to = String.fromCodePoint(c).normalize('NFKD');
      if (to !== String.fromCodePoint(c)) changes.push(change(c, to));
    }
    return changes;
  });

/** Creates the steps of NFD or NFKD. @param {boolean} [isCompatible]  whether it is NFKD @returns {Part[]} */
export function decomposed(isCompatible = false) {
  const changes = isCompatible
    ? compatible()
    : [...decompositions().of].map(([c, to]) => change(c, String.fromCodePoint(...to)));
  const runs = combining().flatMap(([first, n, rank]) => [first, n * 256 + rank]);
  return [
    mapPart([...changes, HANGUL]),
    { type: PART.order, bytes: payload(new Uint8Array(), runs.length / 2, ...runs) },
  ];
}

/** Creates the steps of NFC or NFKC. @param {boolean} [isCompatible]  whether it is NFKC @returns {Part[]} */
export function composed(isCompatible = false) {
  const { of, excluded } = decompositions();
  const whole = new Map([...of].filter(([c]) => !excluded.has(c)).map(([c, to]) => [to.join(), c]));
  const pairs = [...whole.values()]
    .flatMap((c) => {
      const to = /** @type {number[]} */ (of.get(c));
      const first = to.length === 2 ? to[0] : whole.get(to.slice(0, -1).join());
      return first === undefined ? [] : [[first, to[to.length - 1], c]];
    })
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const runs = combining().flatMap(([first, n, rank]) => [first, n * 256 + rank]);
  return [
    ...decomposed(isCompatible),
    { type: PART.compose, bytes: payload(new Uint8Array(), runs.length / 2, pairs.length, ...runs, ...pairs.flat()) },
  ];
}

/**
 * Creates a step from SentencePiece's precompiled map of texts. Throws FORMAT if it is truncated.
 * @param {Uint8Array} bytes @returns {Part[]}
 */
export function charsmapPart(bytes) {
  if (!bytes.length) return [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const size = bytes.length >= 4 ? view.getUint32(0, true) : 0;
  if (!size || size % 4 || size > bytes.length - 5 || bytes[bytes.length - 1] !== 0)
    throw malformed('its map of characters is truncated');
  return [{ type: PART.charsmap, bytes: payload(bytes, bytes.length) }];
}

/**
 * Creates the rules of pieces that are also searched for literally, in the text before its spaces become ▁.
 * @param {Iterable<number>} ids  in ascending order @returns {Part[]}
 */
export function writtenParts(ids) {
  const rows = Uint32Array.from(Array.from(ids, (id) => [id, 16]).flat());
  return rows.length ? [{ type: PART.rules, bytes: new Uint8Array(rows.buffer) }] : [];
}

/**
 * Creates the rules of added tokens of SentencePiece. It searches for tokens with spaces (such as Gemma's runs of
 * spaces) in the normalized text, in which a ▁ of the input counts as a space.
 * @param {number[]} spaced  ids of tokens with spaces @param {number[]} stripping  ids of tokens that absorb the white
 *   space after them
 * @returns {Part[]}
 */
export function addedParts(spaced, stripping) {
  const ids = [...new Set([...spaced, ...stripping])].sort((a, b) => a - b);
  const rows = ids.flatMap((id) => [id, (spaced.includes(id) ? 8 : 0) | (stripping.includes(id) ? 2 : 0)]);
  return [
    ...(spaced.length ? [replacePart('\u2581', ' ')] : []),
    ...(rows.length ? [{ type: PART.rules, bytes: new Uint8Array(Uint32Array.from(rows).buffer) }] : []),
  ];
}
