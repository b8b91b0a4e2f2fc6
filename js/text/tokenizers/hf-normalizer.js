/** Converts the normalizers of tokenizer.json to steps. */
import { fromBase64 } from './bytes.js';
import {
  bertParts,
  charsmapPart,
  composed,
  decomposed,
  isChinese,
  lowerPart,
  prefixPart,
  replacePart,
  spacesPart,
  stripAccentsPart,
  trimPart,
} from './normalizers.js';
import { unsupported } from './section.js';

/** @import { Part } from './section.js' */

/**
 * Whether a Replace step replaces spaces by ▁. It needs no step, because the section writes ▁ as a space.
 * @param {any} json
 */
const isSpaceMarking = ({ pattern, content }) => pattern?.String === ' ' && content === '▁';

/**
 * Properties of the tokenizer. `marks`: whether it replaces spaces by ▁, which the section writes as spaces; `marked`:
 * whether that happened before this step; `mapped`: whether SentencePiece's map has replaced all white space by spaces.
 * @typedef {{ hint: string, marks: boolean, marked: boolean, mapped?: boolean }} Context
 */

/** @param {any} json @param {Context} context @returns {Part[]} */
function replace(json, { hint, marks, marked }) {
  const { pattern, content } = json;
  const toSection = (/** @type {string} */ text) => (marked ? text.replaceAll('▁', ' ') : text);
  if (typeof pattern?.String === 'string' && pattern.String && typeof content === 'string') {
    // The section keeps spaces, which stand for ▁ from here on. A ▁ of the text becomes a space, too.
    if (marks && isSpaceMarking(json)) return marked ? [] : [replacePart('▁', ' ')];
    if (marked && (pattern.String.includes(' ') || content.includes(' '))) throw unsupportedReplace(json, hint);
    return [replacePart(toSection(pattern.String), toSection(content))];
  }
  if (pattern?.Regex === ' {2,}' && !marked && (content === ' ' || (marks && content === '▁')))
    return [spacesPart({ repeated: true })];
  throw unsupportedReplace(json, hint);
}

/** Creates the error for a Replace step without an equivalent. @param {any} json @param {string} hint */
const unsupportedReplace = ({ pattern }, hint) =>
  unsupported(`tokenizer.json replaces ${JSON.stringify(pattern?.Regex ?? pattern)}`, hint);

/** @param {any} json @param {Context} context @returns {Part[]} */
function sequence({ normalizers }, { marked, mapped, ...context }) {
  return normalizers.flatMap((/** @type {any} */ one) => {
    const parts = normalizerParts(one, { ...context, marked, mapped });
    marked ||= context.marks && marksSpaces(one);
    mapped ||= one.type === 'Precompiled' && Boolean(one.precompiled_charsmap);
    return parts;
  });
}

/** @type {Record<string, (json: any, context: Context) => Part[]>} */
const NORMALIZERS = {
  Sequence: sequence,
  BertNormalizer: (json) =>
    bertParts({
      clean: json.clean_text ?? true,
      chinese: json.handle_chinese_chars ?? true,
      lower: json.lowercase ?? true,
      accents: json.strip_accents ?? json.lowercase ?? true,
    }),
  NFC: () => composed(),
  NFD: () => decomposed(),
  NFKC: () => composed(true),
  NFKD: () => decomposed(true),
  Lowercase: () => [lowerPart()],
  StripAccents: () => [stripAccentsPart()],
  Strip: ({ strip_left: atStart = true, strip_right: atEnd = true }, { mapped }) => [
    mapped ? spacesPart({ atStart, atEnd, inParts: true }) : trimPart({ atStart, atEnd }),
  ],
  Prepend: ({ prepend }, { marks }) => [prefixPart(marks ? prepend.replaceAll('▁', ' ') : prepend)],
  Precompiled: ({ precompiled_charsmap: map }) => charsmapPart(map ? fromBase64(map) : new Uint8Array()),
  Replace: replace,
};

/**
 * Returns the steps of a normalizer. Throws UNSUPPORTED if there is no equivalent step.
 * @param {any} json  a normalizer, or null
 * @param {Context} context @returns {Part[]}
 */
export function normalizerParts(json, context) {
  if (json === null || json === undefined) return [];
  if (!Object.hasOwn(NORMALIZERS, json.type))
    throw unsupported(`tokenizer.json normalizes text by ${json.type}`, context.hint);
  return NORMALIZERS[json.type](json, context);
}

/** Whether a normalizer replaces spaces by ▁. @param {any} json @returns {boolean} */
export const marksSpaces = (json) =>
  Boolean(json) &&
  (json.type === 'Sequence' ? json.normalizers.some(marksSpaces) : json.type === 'Replace' && isSpaceMarking(json));

/** Removes the matches of a pattern. @param {string} text @param {RegExp} pattern */
const without = (text, pattern) => text.replace(pattern, '');
/**
 * Converts to lower case, each character alone: a sigma at the end of a word is not special here.
 * @param {string} text
 */
const lower = (text) => Array.from(text, (c) => c.toLowerCase()).join('');

/**
 * The result of each normalizer for a short text; null if it is unknown here.
 * @type {Record<string, (json: any, text: string) => string | null>}
 */
const TEXTS = {
  Sequence: ({ normalizers }, text) =>
    normalizers.reduce(
      (/** @type {string | null} */ done, /** @type {any} */ one) => done && normalizedText(one, done),
      text,
    ),
  BertNormalizer: ({ clean_text = true, handle_chinese_chars = true, lowercase = true, strip_accents }, text) => {
    if (!/^\P{C}*$/u.test(text)) return null;
    const clean = clean_text ? text.replace(/\s/g, ' ') : text;
    const spaced = handle_chinese_chars ? Array.from(clean, (c) => (isChinese(c) ? ` ${c} ` : c)).join('') : clean;
    const bare = (strip_accents ?? lowercase) ? without(spaced.normalize('NFD'), /\p{Mn}/gu) : spaced;
    return lowercase ? lower(bare) : bare;
  },
  NFC: (_, text) => text.normalize('NFC'),
  NFD: (_, text) => text.normalize('NFD'),
  NFKC: (_, text) => text.normalize('NFKC'),
  NFKD: (_, text) => text.normalize('NFKD'),
  Lowercase: (_, text) => lower(text),
  StripAccents: (_, text) => without(text, /\p{M}/gu),
  Strip: ({ strip_left = true, strip_right = true }, text) => {
    const rest = strip_left ? text.trimStart() : text;
    return strip_right ? rest.trimEnd() : rest;
  },
  Replace: ({ pattern, content }, text) =>
    pattern?.String ? text.replaceAll(pattern.String, () => content) : text.replace(/ {2,}/g, () => content),
  Precompiled: (_, text) => (/^[!-~]*$/.test(text) ? text : null),
};

/**
 * Returns the text of an added token after a normalizer; null if it is unknown.
 * @param {any} json @param {string} text @returns {string | null}
 */
export const normalizedText = (json, text) => (Object.hasOwn(TEXTS, json.type) ? TEXTS[json.type](json, text) : null);
