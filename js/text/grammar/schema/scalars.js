/** Writes the rules of a shape's listed values (`enum`, `const`), null, booleans, numbers and strings. */
import { ANY, intersection, lengthsOf, dfaOfLength, dfaOfTexts, difference } from '../dfa.js';
import { missingOf, SPELLINGS } from '../text.js';
import { numberTexts } from './numbers.js';
import { typeOf } from './shapes.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Quote } from '../notations.js' */
/** @import { Compiler } from './index.js' */
/** @import { Shape, StringShape } from './shapes.js' */

/** Largest product of a pattern's edges and a limit of length that still becomes one automaton. */
const MAX_PRODUCT = 2000;

/**
 * Returns the strings of a shape without limits of length that the pattern already implies.
 * @param {StringShape} string
 */
function limited({ min, max, dfa }) {
  if (!dfa) return { min, max, dfa };
  const { shortest, longest } = lengthsOf(dfa);
  return { min: min <= shortest ? 0 : min, max: max >= longest ? Infinity : max, dfa };
}

/** Returns the strings of a shape, or null if only their length is limited. @param {Shape} s */
export function stringDfa({ string, excluded }) {
  const { min, max, dfa } = limited(string);
  const texts = [...excluded.values()].filter((v) => typeof v === 'string');
  let all = dfa;
  if (all && (min > 0 || max < Infinity)) all = intersection(all, dfaOfLength(min, max));
  if (texts.length)
    all = difference(all ?? (min > 0 || max < Infinity ? dfaOfLength(min, max) : ANY), dfaOfTexts(texts));
  return all;
}

/**
 * Returns the strings of a shape without the limits of length that C counts, and these limits. Returns null if one
 * automaton can contain the limits, or if C cannot count them.
 * @param {Shape} s @param {Quote} quote
 */
function countedDfa({ string, ...s }, { escaped }) {
  const { min, max, dfa } = limited(string);
  if (!dfa || (max === Infinity && !min)) return null;
  const edges = dfa.reduce((sum, state) => sum + state.edges.length, 0);
  if ((max < Infinity ? max : min) * edges <= MAX_PRODUCT) return null;
  const texts = (/** @type {number} */ least) =>
    /** @type {Dfa} */ (stringDfa({ ...s, string: { min: least, max: Infinity, dfa } }));
  const spelled = escaped && SPELLINGS[escaped];
  const all = texts(0);
  const missing = missingOf(all, true, spelled);
  if (missing) return { all, missing, min, max };
  // Otherwise the automaton contains the minimum, and C counts up to the maximum only.
  const long = texts(min);
  const longMissing = max < Infinity ? missingOf(long, false, spelled) : null;
  return longMissing && { all: long, missing: longMissing, min: 0, max };
}

/**
 * Writes the strings of a shape in each kind of quotes.
 * @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to
 */
function writeString(compiler, s, from, to) {
  const { rules } = compiler;
  for (const quote of compiler.notation.quotes) {
    const end = rules.state();
    rules.literal(end, quote.close, to);
    writeText(compiler, s, quote, rules.literal(from, quote.open), end);
  }
}

/**
 * Returns the shape with only the strings that can be written in a kind of quotes.
 * @param {Compiler} compiler @param {Shape} s @param {Quote} quote @returns {Shape}
 */
function within(compiler, s, quote) {
  const allowed = compiler.allowedIn(quote);
  if (!allowed) return s;
  return { ...s, string: { ...s.string, dfa: s.string.dfa ? intersection(s.string.dfa, allowed) : allowed } };
}

/**
 * Writes the text between the quotes of a shape's strings.
 * @param {Compiler} compiler @param {Shape} shape @param {Quote} quote @param {number} inside @param {number} end
 * @param {number} [character]  rule of one character, for strings without a pattern; default: a rule with all spellings
 */
export function writeText(compiler, shape, quote, inside, end, character) {
  if (shape.string.min > shape.string.max) return;
  const { rules, writer } = compiler;
  const s = within(compiler, shape, quote);
  const spelled = quote.escaped && SPELLINGS[quote.escaped];
  const counted = countedDfa(s, quote);
  if (counted) return writer.limited(inside, counted.all, counted.missing, counted, end, spelled);
  const dfa = stringDfa(s);
  if (dfa) writer.dfa(inside, dfa, end, spelled);
  else rules.call(inside, character ?? compiler.character(quote), end, s.string.min, s.string.max);
}

/**
 * Writes the listed values of a shape, or else its null, booleans, numbers and strings.
 * @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to
 */
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
    const missing = max < Infinity ? missingOf(texts, false, null) : null;
    if (missing) writer.limited(from, texts, missing, { min: 0, max }, to, null);
    else writer.dfa(from, texts, to, null);
  }
  if (s.types.has('string')) writeString(compiler, s, from, to);
}
