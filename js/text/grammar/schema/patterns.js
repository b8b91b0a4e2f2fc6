/** Patterns of a JSON Schema (`pattern`, `patternProperties`) as automata, some with limits of length. */
import { dfaOfTree, intersection } from '../dfa.js';
import { dfaOfRegex } from '../lookaheads.js';
import { parseRegex } from '../regex.js';
import { requireValid } from './keyword-factories.js';

/** @import { CharSet } from '../../regex/sets.js' */
/** @import { Dfa } from '../dfa.js' */
/** @import { Ahead } from '../regex.js' */

/** Smallest maximum of a lookahead such as (?=.{1,253}$) that is enforced by counting instead of by states. */
const MIN_COUNTED = 64;

/** Returns the strings that contain a match of a pattern. @param {any} pattern */
export function patternDfa(pattern) {
  requireValid('a pattern', pattern, (v) => typeof v === 'string', 'a string');
  return dfaOfRegex(parseRegex(pattern), { search: true });
}

/**
 * Returns the length that a lookahead such as (?=.{1,253}$) requires of the complete string, and the set of its
 * characters. Optional parts after the counted characters are ignored. Returns null for other lookaheads.
 * @param {Ahead} ahead @returns {{ min: number, max: number, set: CharSet } | null}
 */
function lengthOf({ ahead, not }) {
  const [first, ...rest] = 'all' in ahead ? ahead.all : [ahead];
  const end = rest.pop();
  const isLimit =
    first && 'repeat' in first && 'set' in first.repeat && first.max >= MIN_COUNTED && end && 'assert' in end;
  if (not || !isLimit || end.assert !== '$' || !rest.every((part) => 'repeat' in part && part.min === 0)) return null;
  return { min: first.min, max: first.max, set: /** @type {{ set: CharSet }} */ (first.repeat).set };
}

/**
 * Returns the strings that contain a match of a pattern, and limits of length that its lookaheads require. The
 * automaton does not contain these limits, because it would have too many states: C counts the characters instead.
 * @param {string} pattern
 * @returns {{ dfa: Dfa, min: number, max: number } | null}  null if no lookahead limits the length
 */
export function limitedPattern(pattern) {
  const { tree, lookaheads } = parseRegex(pattern);
  const begins = 'all' in tree && tree.all[0] && 'assert' in tree.all[0] && tree.all[0].assert === '^';
  const limits = begins ? lookaheads.flatMap((ahead) => lengthOf(ahead) ?? []) : [];
  if (!limits.length) return null;
  const others = lookaheads.filter((ahead) => !lengthOf(ahead));
  return {
    dfa: limits.reduce(
      (dfa, { set }) => intersection(dfa, dfaOfTree({ repeat: { set }, min: 0, max: Infinity })),
      dfaOfRegex({ tree, lookaheads: others }, { search: true }),
    ),
    min: Math.max(...limits.map(({ min }) => min)),
    max: Math.min(...limits.map(({ max }) => max)),
  };
}
