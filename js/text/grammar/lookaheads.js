/**
 * Automata of expressions with lookaheads that are not at the beginning. A path through the automaton carries the
 * conditions of the lookaheads that it has passed. A condition is a state of a lookahead's own automaton. At the end of
 * the text, all these automata must accept.
 */
import { ANY, intersection, cutsOf, explore, nfaOf, dfaOfTree, REGEX, difference } from './dfa.js';
import { grammarError } from './failure.js';
import { countSteps } from './work.js';

/** @import { Dfa } from './dfa.js' */
/** @import { Ahead, Regex, Tree } from './regex.js' */

/**
 * A path through the nondeterministic automaton. `item`: 2 × the number of its last state, + 1 if the text must end
 * there. `conditions`: numbers of the path's conditions.
 * @typedef {{ item: number, conditions: number[] }} Path
 */

/** Table of conditions (states of lookaheads' automata), numbered in the order in which they are found. */
class Conditions {
  /** @type {{ dfa: Dfa, state: number }[]} */
  all = [];
  /** @type {Map<Dfa, Map<number, number>>} */
  #numbers = new Map();

  /**
   * Returns the number of a condition, or null if the state accepts every continuation.
   * @param {Dfa} dfa @param {number} state
   */
  number(dfa, state) {
    const { accepts, edges } = dfa[state];
    if (accepts && edges.length === ANY[0].edges.length && edges.every(([, , to]) => to === state)) return null;
    const numbers = this.#numbers.get(dfa) ?? new Map();
    this.#numbers.set(dfa, numbers);
    const number = numbers.get(state) ?? this.all.push({ dfa, state }) - 1;
    numbers.set(state, number);
    return number;
  }

  /**
   * Returns the conditions after a character, or null if they don't allow it.
   * @param {number[]} conditions @param {number} character
   */
  after(conditions, character) {
    const next = new Set();
    for (const number of conditions) {
      const { dfa, state } = this.all[number];
      const edge = dfa[state].edges.find(([low, high]) => character >= low && character <= high);
      if (!edge) return null;
      const condition = this.number(dfa, edge[2]);
      if (condition !== null) next.add(condition);
    }
    return [...next].sort((a, b) => a - b);
  }

  /** Whether the text may end with these conditions. @param {number[]} conditions */
  areMet = (conditions) => conditions.every((number) => this.all[number].dfa[this.all[number].state].accepts);
}

/**
 * Returns the automaton of the texts that satisfy a lookahead at their beginning.
 * @param {Ahead} ahead @returns {Dfa}
 */
function beginning({ ahead, not }) {
  const tree = { all: [{ assert: /** @type {'^'} */ ('^') }, ahead] };
  const dfa = hasLookahead(ahead) ? dfaOfAheadTree(tree, true) : dfaOfTree(tree, { search: true });
  return not ? difference(ANY, dfa) : dfa;
}

/** Whether an expression contains a lookahead. @param {Tree} tree @returns {boolean} */
export function hasLookahead(tree) {
  if ('assert' in tree) return typeof tree.assert === 'object';
  if ('repeat' in tree) return hasLookahead(tree.repeat);
  return 'all' in tree ? tree.all.some(hasLookahead) : 'any' in tree && tree.any.some(hasLookahead);
}

/** Whether an expression contains a ^. @param {Tree} tree @returns {boolean} */
function hasStart(tree) {
  if ('assert' in tree) return typeof tree.assert === 'object' ? hasStart(tree.assert.ahead) : tree.assert === '^';
  if ('repeat' in tree) return hasStart(tree.repeat);
  return 'all' in tree ? tree.all.some(hasStart) : 'any' in tree && tree.any.some(hasStart);
}

/**
 * Removes paths whose conditions include all conditions of another path to the same item.
 * @param {Map<string, Path>} paths
 */
function removeRedundant(paths) {
  const all = [...paths.values()].sort((a, b) => a.item - b.item || a.conditions.length - b.conditions.length);
  /** @type {Path[]} */
  const kept = [];
  for (const path of all) {
    countSteps(1 + kept.length, REGEX);
    if (
      !kept.some(
        ({ item, conditions }) => item === path.item && conditions.every((number) => path.conditions.includes(number)),
      )
    )
      kept.push(path);
  }
  return kept;
}

/** @param {Path} path */
const keyOf = ({ item, conditions }) => `${item}:${conditions.join('.')}`;

/**
 * Like `dfaOfTree` of dfa.js, for expressions with lookaheads.
 * @param {Tree} tree @param {boolean} search @returns {Dfa}
 */
export function dfaOfAheadTree(tree, search) {
  const { nfa, begin } = nfaOf(tree, search);
  const { states } = nfa;
  const conditionTable = new Conditions();
  /** Automata of the lookaheads. @type {Map<Ahead, Dfa>} */
  const dfas = new Map();
  for (const { assert } of states)
    if (typeof assert === 'object' && !dfas.has(assert)) {
      if (hasStart(assert.ahead))
        throw grammarError(`${REGEX} has a ^ in a lookahead that is not at its beginning, which is not supported`);
      dfas.set(assert, beginning(assert));
    }
  const cuts = cutsOf([...states.map(({ set }) => set ?? []), ...[...dfas.values()].flat().map(({ edges }) => edges)]);

  /**
   * Returns the paths that can be reached without a character, only those before a character or at the end.
   * @param {Path[]} from @param {boolean} atStart
   */
  function closure(from, atStart) {
    const paths = new Map(from.map((path) => [keyOf(path), path]));
    for (const { item, conditions } of paths.values()) {
      const { next, set, assert } = states[item >> 1];
      countSteps(1 + next.length + conditions.length, REGEX);
      if (set || (assert === '^' && !atStart)) continue;
      let all = conditions;
      if (typeof assert === 'object') {
        const dfa = /** @type {Dfa} */ (dfas.get(assert));
        const number = conditionTable.number(dfa, 0);
        if (!dfa[0].accepts && !dfa[0].edges.length) continue;
        if (number !== null) all = [...new Set([...conditions, number])].sort((a, b) => a - b);
      }
      for (const state of next) {
        const path = { item: state * 2 + (assert === '$' ? 1 : item & 1), conditions: all };
        if (!paths.has(keyOf(path))) paths.set(keyOf(path), path);
      }
    }
    for (const [key, { item }] of paths) if (states[item >> 1].set ? item & 1 : item >> 1 !== 0) paths.delete(key);
    return removeRedundant(paths);
  }

  return explore(
    REGEX,
    closure([{ item: begin * 2, conditions: [] }], true),
    (paths) => paths.map(keyOf).join(),
    (paths) => {
      /** @type {[number, number, Path[]][]} */
      const edges = [];
      const unfinished = paths.filter(({ item }) => states[item >> 1].set);
      for (let i = 0; i + 1 < cuts.length; i++) {
        countSteps(1 + unfinished.length, REGEX);
        const next = unfinished.flatMap(({ item, conditions }) => {
          const { set, next } = states[item >> 1];
          if (!set?.some(([low, high]) => low <= cuts[i] && cuts[i] <= high)) return [];
          const after = conditionTable.after(conditions, cuts[i]);
          return after ? [{ item: next[0] * 2, conditions: after }] : [];
        });
        const target = next.length ? closure(next, false) : [];
        if (target.length) edges.push([cuts[i], cuts[i + 1] - 1, target]);
      }
      return {
        accepts: paths.some(({ item, conditions }) => item >> 1 === 0 && conditionTable.areMet(conditions)),
        edges,
      };
    },
  );
}

/**
 * Returns the texts that an expression matches completely. With `search`, the texts that contain a match.
 * @param {Regex} regex @param {{ search?: boolean }} [options] @returns {Dfa}
 */
export function dfaOfRegex({ tree, lookaheads }, { search = false } = {}) {
  const first = 'all' in tree ? tree.all[0] : tree;
  // If the match begins at the beginning of the text, the lookaheads there apply to the complete text.
  const isWhole = !search || (first && 'assert' in first && first.assert === '^');
  const expression = isWhole ? tree : { all: [...lookaheads.map((ahead) => ({ assert: ahead })), tree] };
  const texts = hasLookahead(expression) ? dfaOfAheadTree(expression, search) : dfaOfTree(expression, { search });
  return isWhole ? lookaheads.reduce((dfa, ahead) => intersection(dfa, beginning(ahead)), texts) : texts;
}
