/** Converts the pre-tokenizers of tokenizer.json, which split text into words, to stages and steps. */
import { compileStage, STAGE } from './automaton.js';
import { prefixPart, replacePart, spacesPart, whiteSpacePart } from './normalizers.js';
import { GPT2 } from './patterns.js';
import { PART, unsupported } from './section.js';
import { bertStages, PUNCTUATION } from './wordpiece.js';

/** @import { Part } from './section.js' */

/**
 * Properties of the tokenizer. `marks`: whether it replaces spaces by ▁; `marked`: whether that happened before this
 * step; `flags`: flags of all stages.
 * @typedef {{ hint: string, marks: boolean, marked?: boolean, flags?: number }} Context
 */

/** Compiles an expression to a stage. @param {string} source @param {number} [flags]  bits of STAGE @returns {Part} */
export const stage = (source, flags = 0) => ({ type: PART.stage, bytes: compileStage(source, { flags }) });

/** Returns an expression that matches a text literally. @param {string} text */
const literal = (text) => text.replace(/[\\^$.*+?()[\]{}|&-]/g, '\\$&');

/** Characters of Rust's `\\w`: those of Oniguruma's, letters among numbers and symbols, and joiners. */
const WORD = '\\w\\p{Nl}\\u200c\\u200d\\u24b6-\\u24e9\\u{1f130}-\\u{1f149}\\u{1f150}-\\u{1f169}\\u{1f170}-\\u{1f189}';

/**
 * Returns the stage of a pattern. `behavior` is tokenizer.json's name of what happens to matches.
 * @param {string} source
 * @param {string} behavior
 * @param {boolean} invert
 * @param {Context} context
 * @returns {Part}
 */
function cut(source, behavior, invert, { hint, flags = 0 }) {
  if (behavior === 'Isolated') return stage(source, flags);
  if (behavior === 'Removed') return stage(source, flags | (invert ? STAGE.dropBetween : STAGE.dropMatches));
  if (behavior === 'Contiguous' && !invert) return stage(`(?:${source})+`, flags);
  if (!invert && source !== '.' && Array.from(source.replace(/^\\/, '')).length === 1) {
    if (behavior === 'MergedWithNext') return stage(`${source}[^${source}]*|[^${source}]+`, flags);
    if (behavior === 'MergedWithPrevious') return stage(`[^${source}]*${source}|[^${source}]+`, flags);
  }
  throw unsupported(`tokenizer.json splits text with the behavior ${behavior}${invert ? ', inverted' : ''}`, hint);
}

/** @param {any} json @param {Context} context @returns {Part[]} */
function split({ pattern, behavior, invert = false }, context) {
  const { marks, marked, hint } = context;
  let source = pattern?.Regex ?? (typeof pattern?.String === 'string' ? literal(pattern.String) : undefined);
  if (typeof source !== 'string') throw unsupported('tokenizer.json splits text without a pattern', hint);
  if (marks) {
    // Spaces have already become ▁, so an expression with spaces matches nothing. The section writes ▁ as a space.
    if (marked && source === ' ') return [];
    if ((/ |\\[sSWwpP]|\[\^|\./.test(source) && source !== '[^\\n]+|[\\n]+') || (!marked && source.includes('▁')))
      throw unsupported(`tokenizer.json splits text that has ▁ for spaces by ${source}`, hint);
    source = source.replaceAll('▁', ' ');
  }
  return [cut(source, behavior, invert, context)];
}

/** Whether a pre-tokenizer adds a space before each of its texts. @param {any} json @returns {boolean} */
const addsSpace = (json) =>
  (json.type === 'ByteLevel' && (json.add_prefix_space ?? true)) ||
  (json.type === 'Metaspace' && schemeOf(json) !== 'never') ||
  (json.type === 'Sequence' && json.pretokenizers.some(addsSpace));

/** @param {any} json  a Metaspace */
const schemeOf = (json) => json.prepend_scheme ?? (json.add_prefix_space === false ? 'never' : 'always');

/**
 * Returns the parts of a split at white space. Throws UNSUPPORTED if the text has ▁ instead of spaces.
 * @param {Part[]} parts @param {string} type @param {Context} context
 */
function whiteSpace(parts, type, { marked, hint }) {
  if (!marked) return parts;
  throw unsupported(`tokenizer.json splits text that has ▁ for spaces by ${type}`, hint);
}

/**
 * Returns the parts of a split into words between white space, each with a ▁ before it (XLM-RoBERTa). Steps run before
 * all stages, so white space becomes the ▁.
 * @param {any} json  the Metaspace that follows a WhitespaceSplit @param {Context} context @returns {Part[]}
 */
const markedWords = (json, context) => [
  whiteSpacePart(),
  spacesPart({ atStart: true, atEnd: true, repeated: true, inParts: true }),
  prefixPart(' '),
  replacePart(' ▁', ' '), // no second ▁ before a word that begins with one
  ...metaspace({ ...json, prepend_scheme: 'never' }, context),
];

/** @param {any} json @param {Context} context @returns {Part[]} */
function metaspace(json, { hint, marks, marked }) {
  const scheme = schemeOf(json);
  if (!marks) throw unsupported('tokenizer.json splits text by Metaspace and by ByteLevel', hint);
  const mark = json.replacement ?? '▁';
  if (mark !== '▁') throw unsupported(`tokenizer.json writes spaces as ${JSON.stringify(mark)}`, hint);
  const prefix = scheme === 'never' ? [] : [prefixPart(' ', { unlessThere: true, atStart: scheme === 'first' })];
  const start = [...(marked ? [] : [replacePart('▁', ' ')]), ...prefix];
  return json.split === false ? start : [...start, stage(' [^ ]*|[^ ]+')];
}

/** @param {any} json @param {Context} context @returns {Part[]} */
function sequence({ pretokenizers: [...steps] }, { flags: outer, ...context }) {
  const [first, second] = steps;
  const words =
    first?.type === 'WhitespaceSplit' &&
    second?.type === 'Metaspace' &&
    schemeOf(second) === 'always' &&
    second.split !== false;
  if (words && !context.marked) steps.splice(0, 2, { ...second, words });
  let [marked, flags] = [context.marked, outer];
  return steps.flatMap((/** @type {any} */ one, /** @type {number} */ i) => {
    if (i && (addsSpace(one) || has(one, 'Metaspace')))
      throw unsupported(`tokenizer.json puts a space before each part of a text by ${one.type}`, context.hint);
    const parts = one.words ? markedWords(one, { ...context, flags }) : stageParts(one, { ...context, marked, flags });
    marked ||= has(one, 'Metaspace');
    // After ByteLevel, texts consist of letters that represent bytes.
    if (has(one, 'ByteLevel')) flags = STAGE.bytes;
    return parts;
  });
}

/** @type {Record<string, (json: any, context: Context) => Part[]>} */
const SPLITTERS = {
  Sequence: sequence,
  ByteLevel: ({ add_prefix_space: prefix = true, use_regex: regex = true }) => [
    ...(prefix ? [prefixPart(' ', { unlessThere: true })] : []),
    ...(regex ? [stage(GPT2)] : []),
  ],
  Split: split,
  Digits: ({ individual_digits: one }, { flags }) => [stage(one ? '\\p{N}' : '\\p{N}+', flags)],
  Punctuation: ({ behavior = 'Isolated' }, context) => [cut(PUNCTUATION, behavior, false, context)],
  Whitespace: (_, context) =>
    whiteSpace([stage(`[${WORD}]+|[^${WORD}\\s]+`, STAGE.dropBetween)], 'Whitespace', context),
  WhitespaceSplit: (_, context) => whiteSpace([stage('\\s+', STAGE.dropMatches)], 'WhitespaceSplit', context),
  CharDelimiterSplit: ({ delimiter }, { marks, hint }) => {
    if (marks && /[ ▁]/.test(delimiter))
      throw unsupported('tokenizer.json splits text that has ▁ for spaces by CharDelimiterSplit', hint);
    return [stage(literal(delimiter), STAGE.dropMatches)];
  },
  BertPreTokenizer: (_, context) => whiteSpace(bertStages(), 'BertPreTokenizer', context),
  Metaspace: metaspace,
};

/**
 * Returns the stages of a pre-tokenizer. Throws UNSUPPORTED if the result would differ.
 * @param {any} json  a pre-tokenizer, or null
 * @param {Context} context @returns {Part[]}
 */
export function stageParts(json, context) {
  if (json === null || json === undefined) return [];
  if (!Object.hasOwn(SPLITTERS, json.type))
    throw unsupported(`tokenizer.json splits text by ${json.type}`, context.hint);
  return SPLITTERS[json.type](json, context);
}

/** Whether a normalizer, pre-tokenizer or decoder has a step of a type. @param {any} json @param {string} type */
const has = (json, type) => stepOf(json, type) !== undefined;

/**
 * Returns the first step of a type, or undefined.
 * @param {any} json  a normalizer, pre-tokenizer, post-processor or decoder
 * @param {string} type @returns {any}
 */
export function stepOf(json, type) {
  if (json === null || typeof json !== 'object') return undefined;
  if (json.type === type) return json;
  const steps = json.normalizers ?? json.pretokenizers ?? json.decoders ?? json.processors;
  return Array.isArray(steps) ? steps.map((step) => stepOf(step, type)).find(Boolean) : undefined;
}
