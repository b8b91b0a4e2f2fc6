/** Converts the pre-tokenizers of tokenizer.json, which split text into words, to stages and steps. */
import { compileStage, STAGE } from './automaton.js';
import { prefixPart } from './normalizers.js';
import { GPT2 } from './patterns.js';
import { PART, unsupported } from './section.js';
import { bertStages, PUNCTUATION } from './wordpiece.js';

/** @import { Part } from './section.js' */

/**
 * Properties of the tokenizer. `marks`: whether spaces have become ▁ before; `flags`: flags of all stages.
 * @typedef {{ hint: string, marks: boolean, flags?: number }} Context
 */

/** Compiles an expression to a stage. @param {string} source @param {number} [flags]  bits of STAGE @returns {Part} */
export const stage = (source, flags = 0) => ({ type: PART.stage, bytes: compileStage(source, { flags }) });

/** Returns an expression that matches a text literally. @param {string} text */
const literal = (text) => text.replace(/[\\^$.*+?()[\]{}|&-]/g, '\\$&');

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
  if (!invert && Array.from(source.replace(/^\\/, '')).length === 1) {
    if (behavior === 'MergedWithNext') return stage(`${source}[^${source}]*|[^${source}]+`, flags);
    if (behavior === 'MergedWithPrevious') return stage(`[^${source}]*${source}|[^${source}]+`, flags);
  }
  throw unsupported(`tokenizer.json splits text with the behavior ${behavior}${invert ? ', inverted' : ''}`, hint);
}

/** @param {any} json @param {Context} context @returns {Part[]} */
function split({ pattern, behavior, invert = false }, context) {
  const { marks, hint } = context;
  let source = pattern?.Regex ?? (typeof pattern?.String === 'string' ? literal(pattern.String) : undefined);
  if (typeof source !== 'string') throw unsupported('tokenizer.json splits text without a pattern', hint);
  if (marks) {
    // Spaces have already become ▁, so an expression with spaces matches nothing. The section writes ▁ as a space.
    if (source === ' ') return [];
    if (/ |\\[sSWwpP]|\[\^|\./.test(source) && source !== '[^\\n]+|[\\n]+')
      throw unsupported(`tokenizer.json splits text that has ▁ for spaces by ${source}`, hint);
    source = source.replaceAll('▁', ' ');
  }
  return [cut(source, behavior, invert, context)];
}

/** @param {any} json @returns {Part[]} */
function metaspace(json) {
  const scheme = json.prepend_scheme ?? (json.add_prefix_space === false ? 'never' : 'always');
  const prefix = scheme === 'never' ? [] : [prefixPart(' ', { unlessThere: true, atStart: scheme === 'first' })];
  return json.split === false ? prefix : [...prefix, stage(' [^ ]*|[^ ]+')];
}

/** @type {Record<string, (json: any, context: Context) => Part[]>} */
const SPLITTERS = {
  Sequence: ({ pretokenizers }, context) => {
    // After ByteLevel, the text consists of letters that represent bytes.
    const bytes = pretokenizers.findIndex((/** @type {any} */ one) => one.type === 'ByteLevel');
    return pretokenizers.flatMap((/** @type {any} */ one, /** @type {number} */ i) =>
      stageParts(one, bytes >= 0 && i > bytes ? { ...context, flags: STAGE.bytes } : context),
    );
  },
  ByteLevel: ({ add_prefix_space: prefix = true, use_regex: regex = true }) => [
    ...(prefix ? [prefixPart(' ', { unlessThere: true })] : []),
    ...(regex ? [stage(GPT2)] : []),
  ],
  Split: split,
  Digits: ({ individual_digits: one }, { flags }) => [stage(one ? '\\p{N}' : '\\p{N}+', flags)],
  Punctuation: ({ behavior = 'Isolated' }, context) => [cut(PUNCTUATION, behavior, false, context)],
  Whitespace: () => [stage('\\w+|[^\\w\\s]+', STAGE.dropBetween)],
  WhitespaceSplit: () => [stage('\\s+', STAGE.dropMatches)],
  CharDelimiterSplit: ({ delimiter }) => [stage(literal(delimiter), STAGE.dropMatches)],
  BertPreTokenizer: bertStages,
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
