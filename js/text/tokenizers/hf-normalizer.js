/** Converts the normalizers of tokenizer.json to steps. */
import { fromBase64 } from './bytes.js';
import {
  bertParts,
  charsmapPart,
  composed,
  decomposed,
  lowerPart,
  prefixPart,
  replacePart,
  spacesPart,
  stripAccentsPart,
} from './normalizers.js';
import { unsupported } from './section.js';

/** @import { Part } from './section.js' */

/**
 * Whether a Replace step replaces spaces by ▁. It needs no step, because the section writes ▁ as a space.
 * @param {any} json
 */
const isSpaceMarking = ({ pattern, content }) => pattern?.String === ' ' && content === '▁';

/** @param {any} json @param {string} hint @returns {Part[]} */
function replace(json, hint) {
  const { pattern, content } = json;
  if (isSpaceMarking(json)) return [];
  if (typeof pattern?.String === 'string' && pattern.String && typeof content === 'string')
    return [replacePart(pattern.String, content)];
  if (pattern?.Regex === ' {2,}' && (content === '▁' || content === ' ')) return [spacesPart({ rows: true })];
  throw unsupported(`tokenizer.json replaces ${JSON.stringify(pattern?.Regex ?? pattern)}`, hint);
}

/** @type {Record<string, (json: any, hint: string) => Part[]>} */
const NORMALIZERS = {
  Sequence: ({ normalizers }, hint) => normalizers.flatMap((/** @type {any} */ one) => normalizerParts(one, hint)),
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
  Strip: ({ strip_left: before = true, strip_right: behind = true }) => [spacesPart({ before, behind, parts: true })],
  Prepend: ({ prepend }) => [prefixPart(prepend === '▁' ? ' ' : prepend)],
  Precompiled: ({ precompiled_charsmap: map }) => charsmapPart(map ? fromBase64(map) : new Uint8Array()),
  Replace: replace,
};

/**
 * Returns the steps of a normalizer. Throws UNSUPPORTED if there is no equivalent step.
 * @param {any} json  a normalizer, or null
 * @param {string} hint @returns {Part[]}
 */
export function normalizerParts(json, hint) {
  if (json === null || json === undefined) return [];
  if (!Object.hasOwn(NORMALIZERS, json.type)) throw unsupported(`tokenizer.json normalizes text by ${json.type}`, hint);
  return NORMALIZERS[json.type](json, hint);
}

/** Whether a normalizer replaces spaces by ▁. @param {any} json @returns {boolean} */
export const marksSpaces = (json) =>
  Boolean(json) &&
  (json.type === 'Sequence' ? json.normalizers.some(marksSpaces) : json.type === 'Replace' && isSpaceMarking(json));
