/**
 * Trees of regular expressions, and the nondeterministic automata that are built from them.
 *
 * Two parsers create trees: js/text/grammar/regex.js for ECMAScript's syntax, js/text/tokenizers/regex.js for the
 * syntaxes of Oniguruma and Rust. Two compilers make the automata deterministic. js/text/grammar/dfa.js combines sets
 * of texts; js/text/tokenizers/automaton.js finds the match that a backtracking matcher would find first.
 */

/** @import { CharSet } from './sets.js' */

/**
 * A node of a tree:
 * - `set`: one character of a set
 * - `assert`: an assertion, which consumes no character (the compilers define A)
 * - `all`: parts in this order
 * - `any`: one of several parts; the first that matches is preferred
 * - `repeat`: a part, `min` to `max` times: as often as possible, or as seldom as possible if `lazy`
 * @template A
 * @typedef {{ set: CharSet } | { assert: A } | { all: Tree<A>[] } | { any: Tree<A>[] }
 *   | { repeat: Tree<A>, min: number, max: number, lazy?: boolean }} Tree
 */

/**
 * A state. It continues with the states `next`: after a character of `set`, if the assertion `assert` holds, or, with
 * neither, unconditionally. The first of them is preferred. The accepting state has an empty `next`.
 * @template A
 * @typedef {{ next: number[], set?: CharSet, assert?: A }} State
 */

/** A nondeterministic automaton. State 0 is its accepting state. @template A */
export class Nfa {
  /** @type {State<A>[]} */
  states = [];
  #onState;

  /**
   * @param {(count: number) => void} onState  called before a state is added, with the number of states; may throw to
   *   limit it
   */
  constructor(onState) {
    this.#onState = onState;
    this.state({ next: [] });
  }

  /** Adds a state and returns its number. @param {State<A>} state @returns {number} */
  state(state) {
    this.#onState(this.states.length);
    return this.states.push(state) - 1;
  }

  /**
   * Adds the states of a tree that lead to the state `next`, and returns the first of them.
   * @param {Tree<A>} tree @param {number} next @returns {number}
   */
  add(tree, next) {
    if ('set' in tree) return this.state({ next: [next], set: tree.set });
    if ('assert' in tree) return this.state({ next: [next], assert: tree.assert });
    if ('all' in tree) return tree.all.reduceRight((at, part) => this.add(part, at), next);
    if ('any' in tree) return this.state({ next: tree.any.map((part) => this.add(part, next)) });
    const { repeat, min, max, lazy } = tree;
    const inOrder = (/** @type {number} */ more, /** @type {number} */ end) => (lazy ? [end, more] : [more, end]);
    let at = next;
    if (max === Infinity) {
      at = this.state({ next: [] });
      this.states[at].next = inOrder(this.add(repeat, at), next);
    } else for (let i = min; i < max; i++) at = this.state({ next: inOrder(this.add(repeat, at), next) });
    for (let i = 0; i < min; i++) at = this.add(repeat, at);
    return at;
  }
}
