/** Writes the rules of a shape's listed values (`enum`, `const`), null, booleans, numbers and strings. */
import { ANY, both, lengthsOf, ofLength, ofTexts, without } from '../dfa.js';
import { missingOf, SPELLINGS } from '../text.js';
import { numberTexts } from './numbers.js';
import { typeOf } from './shapes.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Quote } from '../notations.js' */
/** @import { Compiler } from './index.js' */
/** @import { Shape } from './shapes.js' */

/** Edges of a pattern times characters, up to which both together are one automaton. */
const MAX_PRODUCT = 2000;

/** A shape's strings without limits of length that their pattern has by itself. @param {Shape['string']} string */
function limited({ min, max, dfa }) {
  if (!dfa) return { min, max, dfa };
  const { shortest, longest } = lengthsOf(dfa);
  return { min: min <= shortest ? 0 : min, max: max >= longest ? Infinity : max, dfa };
}

/** Texts of a shape's strings; null: any of those lengths. @param {Shape} s */
export function stringDfa({ string, excluded }) {
  const { min, max, dfa } = limited(string);
  const texts = [...excluded.values()].filter((v) => typeof v === 'string');
  let all = dfa;
  if (all && (min > 0 || max < Infinity)) all = both(all, ofLength(min, max));
  if (texts.length) all = without(all ?? (min > 0 || max < Infinity ? ofLength(min, max) : ANY), ofTexts(texts));
  return all;
}

/** Texts of a shape's strings of any length, where that is better counted as they are written. @param {Shape} s @param {Quote} quote */
function countedDfa({ string, ...s }, { escaped }) {
  const { min, max, dfa } = limited(string);
  if (!dfa || (max === Infinity && !min)) return null;
  const edges = dfa.reduce((sum, state) => sum + state.edges.length, 0);
  if ((max < Infinity ? max : min) * edges <= MAX_PRODUCT) return null;
  const texts = (/** @type {number} */ least) =>
    /** @type {Dfa} */ (stringDfa({ ...s, string: { min: least, max: Infinity, dfa } }));
  const spelled = escaped && SPELLINGS[escaped];
  const all = texts(0);
  const lacks = missingOf(all, true, spelled);
  if (lacks) return { all, lacks, min, max };
  // Else the least number is the automaton's part.
  const long = texts(min);
  const longLacks = max < Infinity ? missingOf(long, false, spelled) : null;
  return longLacks && { all: long, lacks: longLacks, min: 0, max };
}

/** @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to */
function writeString(compiler, s, from, to) {
  const { rules } = compiler;
  for (const quote of compiler.notation.quotes) {
    const end = rules.state();
    rules.literal(end, quote.close, to);
    writeText(compiler, s, quote, rules.literal(from, quote.open), end);
  }
}

/** The shape with the strings that can be written in a quote. @param {Compiler} compiler @param {Shape} s @param {Quote} quote @returns {Shape} */
function within(compiler, s, quote) {
  const allowed = compiler.allowedIn(quote);
  if (!allowed) return s;
  return { ...s, string: { ...s.string, dfa: s.string.dfa ? both(s.string.dfa, allowed) : allowed } };
}

/**
 * What a string of a shape has in its quotes.
 * @param {Compiler} compiler @param {Shape} shape @param {Quote} quote @param {number} inside @param {number} end
 * @param {number} [character]  the rule of one, if any may come; default: in any of its spellings
 */
export function writeText(compiler, shape, quote, inside, end, character) {
  if (shape.string.min > shape.string.max) return;
  const { rules, writer } = compiler;
  const s = within(compiler, shape, quote);
  const spelled = quote.escaped && SPELLINGS[quote.escaped];
  const counted = countedDfa(s, quote);
  if (counted) return writer.limited(inside, counted.all, counted.lacks, counted, end, spelled);
  const dfa = stringDfa(s);
  if (dfa) writer.dfa(inside, dfa, end, spelled);
  else rules.call(inside, character ?? compiler.character(quote), end, s.string.min, s.string.max);
}

/** @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to */
export function writeScalars(compiler, s, from, to) {
  const { rules, writer, admission } = compiler;
  const excluded = [...s.excluded.values()];
  if (s.values) {
    const values = [...s.values.values()].filter((value) => admission.admits(s, value));
    if (values.length) compiler.writeListed(values, from, to);
    return;
  }
  const words = /** @type {const} */ ([null, true, false]).filter(
    (word) => s.types.has(typeOf(word)) && !excluded.includes(word),
  );
  for (const word of words) for (const text of compiler.notation.words.get(word) ?? []) rules.literal(from, text, to);
  if (s.types.has('number')) {
    const { texts, max } = numberTexts(
      s.number,
      excluded.filter((v) => typeof v === 'number'),
    );
    const lacks = max < Infinity ? missingOf(texts, false, null) : null;
    if (lacks) writer.limited(from, texts, lacks, { min: 0, max }, to, null);
    else writer.dfa(from, texts, to, null);
  }
  if (s.types.has('string')) writeString(compiler, s, from, to);
}
