/**
 * Trees of regular expressions, and the nondeterministic automata that they become.
 *
 * Two parsers make trees: js/text/grammar/regex.js reads ECMAScript's syntax, js/text/tokenizers/regex.js Oniguruma's and Rust's. Two
 * compilers make the automata deterministic, because they need different results: grammars combine sets of texts (js/text/grammar/dfa.js),
 * tokenizers find the match that a backtracking matcher would find first (js/text/tokenizers/automaton.js).
 */

/** @import { CharSet } from './sets.js' */

/**
 * A tree. `set`: one character of a set; `assert`: no character, where an assertion holds (the compilers give A its meaning); `all`:
 * parts one after the other; `any`: one of several parts, the first that matches being preferred; `repeat`: a part so many times, as
 * often as possible, or as seldom as possible if `lazy`.
 * @template A
 * @typedef {{ set: CharSet } | { assert: A } | { all: Tree<A>[] } | { any: Tree<A>[] }
 *   | { repeat: Tree<A>, min: number, max: number, lazy?: boolean }} Tree
 */

/**
 * A state. It goes on to the states `next` after a character of `set`, where the assertion `assert` holds, or (with neither) at once; the
 * first of them is preferred. The accepting state has no `next`.
 * @template A
 * @typedef {{ next: number[], set?: CharSet, assert?: A }} State
 */

/** State 0 is the accepting one. @template A */
export class Nfa {
  /** @type {State<A>[]} */
  states = [];
  #onState;

  /** @param {(count: number) => void} onState  is called before each state with the number of states, to limit it */
  constructor(onState) {
    this.#onState = onState;
    this.state({ next: [] });
  }

  /** @param {State<A>} state @returns {number} */
  state(state) {
    this.#onState(this.states.length);
    return this.states.push(state) - 1;
  }

  /** Adds the states of a tree that lead to the state `next`, and returns the first of them. @param {Tree<A>} tree @param {number} next @returns {number} */
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
