/** Writes the rules of a shape's listed values (`enum`, `const`), null, booleans, numbers and strings. */
import { ANY, both, lengthsOf, ofLength, ofTexts, without } from '../dfa.js';
import { missingOf } from '../text.js';
import { numberTexts } from './numbers.js';
import { typeOf } from './shapes.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Compiler } from './index.js' */
/** @import { Shape } from './shapes.js' */

/** Edges of a pattern times characters, up to which both together are one automaton. */
const MAX_PRODUCT = 2000;

/** A value as JSON in the form that grammars allow: one line, with a space after commas and colons. @param {any} value @returns {string} */
export function jsonOf(value) {
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(', ')}]`;
  if (typeof value === 'object' && value)
    return `{${Object.entries(value)
      .map(([name, v]) => `${JSON.stringify(name)}: ${jsonOf(v)}`)
      .join(', ')}}`;
  return JSON.stringify(value);
}

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

/** Texts of a shape's strings of any length, where that is better counted as they are written. @param {Shape} s */
function countedDfa({ string, ...s }) {
  const { min, max, dfa } = limited(string);
  if (!dfa || (max === Infinity && !min)) return null;
  const edges = dfa.reduce((sum, state) => sum + state.edges.length, 0);
  if ((max < Infinity ? max : min) * edges <= MAX_PRODUCT) return null;
  const texts = (/** @type {number} */ least) =>
    /** @type {Dfa} */ (stringDfa({ ...s, string: { min: least, max: Infinity, dfa } }));
  const all = texts(0);
  const lacks = missingOf(all, true);
  if (lacks) return { all, lacks, min, max };
  // Else the least number is the automaton's part.
  const long = texts(min);
  const known = max < Infinity ? missingOf(long, false) : null;
  return known && { all: long, lacks: known, min: 0, max };
}

/** @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to */
function writeString(compiler, s, from, to) {
  const { rules } = compiler;
  const end = rules.state();
  rules.literal(end, '"', to);
  writeText(compiler, s, compiler.character(), rules.literal(from, '"'), end);
}

/** What a string of a shape has in its quotes. @param {Compiler} compiler @param {Shape} s @param {number} character  the rule of one, if any may come @param {number} inside @param {number} end */
export function writeText({ rules, writer }, s, character, inside, end) {
  if (s.string.min > s.string.max) return;
  const counted = countedDfa(s);
  if (counted) return writer.limited(inside, counted.all, counted.lacks, counted, end);
  const dfa = stringDfa(s);
  if (dfa) writer.dfa(inside, dfa, end, true);
  else rules.call(inside, character, end, s.string.min, s.string.max);
}

/** @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to */
export function writeScalars(compiler, s, from, to) {
  const { rules, writer, admission } = compiler;
  const excluded = [...s.excluded.values()];
  if (s.values) {
    const values = [...s.values.values()].filter((value) => admission.admits(s, value));
    if (values.length) writer.dfa(from, ofTexts(values.map(jsonOf)), to, false);
    return;
  }
  const words = [null, true, false].filter((word) => s.types.has(typeOf(word)) && !excluded.includes(word));
  for (const word of words) rules.literal(from, String(word), to);
  if (s.types.has('number')) {
    const { texts, max } = numberTexts(
      s.number,
      excluded.filter((v) => typeof v === 'number'),
    );
    const lacks = max < Infinity ? missingOf(texts, false) : null;
    if (lacks) writer.limited(from, texts, lacks, { min: 0, max }, to);
    else writer.dfa(from, texts, to, false);
  }
  if (s.types.has('string')) writeString(compiler, s, from, to);
}
