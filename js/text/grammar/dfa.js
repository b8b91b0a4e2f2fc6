/**
 * Deterministic automata over code points, built from regular expressions and from lists of texts. Operations on the
 * sets of texts that they accept: union, intersection, difference, lengths. In this folder, a text is a sequence of
 * code points, and an automaton stands for the set of texts that it accepts.
 */
import { Nfa } from '../regex/nfa.js';
import { TEXT } from '../regex/sets.js';
import { tooLargeError } from './failure.js';
import { countSteps } from './work.js';

/** @import { Assertion, Tree } from './regex.js' */

/**
 * An edge: the first and the last character, and the target state.
 * @typedef {[low: number, high: number, target: number]} Edge
 */
/** Edges of a state are disjoint and sorted. @typedef {{ accepts: boolean, edges: Edge[] }} State */
/**
 * State 0 is the initial one. An accepting state can be reached from every state, except perhaps from state 0.
 * @typedef {State[]} Dfa
 */

/** Maximum number of states. */
const MAX_STATES = 20000;
/** Maximum number of states of a nondeterministic automaton. */
const MAX_NFA_STATES = 4 * MAX_STATES;
/** Maximum number of trie nodes for a list of texts. */
const MAX_NODES = 400_000;
/** Subject of error messages. */
export const REGEX = 'the regular expression';

/** Throws GRAMMAR if there are too many states. @param {string} subject  of the message @param {number} states */
function checkSize(subject, states) {
  if (states > MAX_STATES) throw tooLargeError(subject);
}

/**
 * Returns the items that can be reached without a character, only those at a set or at the accepting state. An item is
 * 2 × state, + 1 if the text must end there.
 * @param {Nfa<Assertion>} nfa @param {Iterable<number>} from  items @param {boolean} atStart  of the text
 */
function closure({ states }, from, atStart) {
  const items = new Set(from);
  for (const item of items) {
    const { next, set, assert } = states[item >> 1];
    if (set || (assert === '^' && !atStart)) continue;
    for (const state of next) items.add(state * 2 + (assert === '$' ? 1 : item & 1));
  }
  countSteps(2 * items.size, REGEX);
  return [...items].filter((item) => (states[item >> 1].set ? !(item & 1) : item >> 1 === 0)).sort((a, b) => a - b);
}

/**
 * Builds an automaton by exploring it from its first state. `keyOf` identifies a state, `expand` returns its edges.
 * @template T @param {string} subject  of messages @param {T} first @param {(value: T) => string | number} keyOf
 * @param {(value: T) => { accepts: boolean, edges: [number, number, T][] }} expand @returns {Dfa}
 */
export function explore(subject, first, keyOf, expand) {
  const numbers = new Map([[keyOf(first), 0]]);
  const todo = [first];
  /** @type {Dfa} */
  const dfa = [];
  for (const value of todo) {
    const { accepts, edges } = expand(value);
    countSteps(4 * (1 + edges.length), subject);
    dfa.push({
      accepts,
      edges: edges.map(([low, high, target]) => {
        const key = keyOf(target);
        let id = numbers.get(key);
        if (id === undefined) {
          id = todo.push(target) - 1;
          numbers.set(key, id);
          checkSize(subject, id);
        }
        return [low, high, id];
      }),
    });
  }
  return trim(dfa);
}

/**
 * Removes states from which no accepting state can be reached, and joins adjacent edges.
 * @param {Dfa} dfa @returns {Dfa}
 */
function trim(dfa) {
  /** @type {number[][]} */
  const from = dfa.map(() => []);
  dfa.forEach(({ edges }, i) => edges.forEach(([, , to]) => from[to].push(i)));
  const live = new Set(dfa.flatMap(({ accepts }, i) => (accepts ? [i] : [])));
  for (const i of live) for (const j of from[i]) live.add(j);
  const kept = [0, ...[...live].filter((i) => i > 0).sort((a, b) => a - b)];
  const number = new Map(kept.map((old, i) => [old, i]));
  return kept.map((old) => {
    /** @type {Edge[]} */
    const edges = [];
    for (const [low, high, to] of dfa[old].edges) {
      const target = number.get(to);
      const last = edges.at(-1);
      if (target === undefined || !live.has(to)) continue;
      if (last && last[1] === low - 1 && last[2] === target) last[1] = high;
      else edges.push([low, high, target]);
    }
    return { accepts: dfa[old].accepts, edges };
  });
}

/**
 * Returns the automaton with the fewest states for the same texts. It divides states into classes by their edges until
 * the classes no longer change.
 * @param {Dfa} dfa @returns {Dfa}
 */
export function minimal(dfa) {
  let classes = dfa.map(({ accepts }) => Number(accepts));
  for (let count = 0; ;) {
    /** @type {Map<string, number>} */
    const found = new Map();
    const next = dfa.map(({ edges }, i) => {
      const key = [classes[i], ...edges.map(([low, high, to]) => `${low}-${high}>${classes[to]}`)].join();
      const number = found.get(key) ?? found.size;
      found.set(key, number);
      return number;
    });
    countSteps(dfa.length, 'an automaton');
    classes = next;
    if (found.size === count) break;
    count = found.size;
  }
  /** @type {Dfa} */
  const out = [];
  // Classes are numbered in the order of their first states, so the class of state 0 has the number 0.
  dfa.forEach(({ accepts, edges }, i) => {
    out[classes[i]] ??= { accepts, edges: edges.map(([low, high, to]) => [low, high, classes[to]]) };
  });
  return trim(out);
}

/**
 * Returns the nondeterministic automaton of an expression, and its initial state.
 * @param {Tree} tree @param {boolean} search  whether it accepts all texts that contain a match
 */
export function nfaOf(tree, search) {
  /** @type {Nfa<Assertion>} */
  const nfa = new Nfa((states) => {
    if (states > MAX_NFA_STATES) throw tooLargeError(REGEX);
    countSteps(1, REGEX);
  });
  const anything = { repeat: { set: TEXT }, min: 0, max: Infinity };
  return { nfa, begin: nfa.add(search ? { all: [anything, tree, anything] } : tree, 0) };
}

/**
 * Returns the characters at which one of the ranges begins, and those directly after a range, sorted.
 * @param {Iterable<readonly (readonly [number, number, number?])[]>} all
 */
export const cutsOf = (all) =>
  [...new Set([...all].flatMap((ranges) => ranges.flatMap(([low, high]) => [low, high + 1])))].sort((a, b) => a - b);

/**
 * Returns the texts that an expression without lookaheads matches completely. With `search`, the texts that contain a
 * match.
 * @param {Tree} tree @param {{ search?: boolean }} [options] @returns {Dfa}
 */
export function dfaOfTree(tree, { search = false } = {}) {
  const { nfa, begin } = nfaOf(tree, search);
  const cuts = cutsOf(nfa.states.map(({ set = [] }) => set));
  /** Ranges of each state's set, as indexes into `cuts`. */
  const spans = nfa.states.map(({ set = [] }) =>
    set.map(([low, high]) => [indexOf(cuts, low), indexOf(cuts, high + 1)]),
  );
  /** Cache of closures, by the items directly after a character. @type {Map<string, number[]>} */
  const closures = new Map();
  const first = closure(nfa, [begin * 2], true);
  return explore(
    REGEX,
    first,
    (items) => items.join(),
    (items) => {
      /** Target items by the index of the cut at which a range begins. @type {Map<number, Set<number>>} */
      const targets = new Map();
      for (const item of items)
        for (const [from, end] of spans[item >> 1]) {
          countSteps(end - from, REGEX);
          for (let i = from; i < end; i++) {
            const all = targets.get(i) ?? new Set();
            targets.set(i, all.add(nfa.states[item >> 1].next[0] * 2));
          }
        }
      const edges = [...targets]
        .sort(([a], [b]) => a - b)
        .map(([i, all]) => {
          const key = [...all].sort().join();
          const target = closures.get(key) ?? closure(nfa, all, false);
          closures.set(key, target);
          countSteps(target.length, REGEX);
          return /** @type {[number, number, number[]]} */ ([cuts[i], cuts[i + 1] - 1, target]);
        });
      return { accepts: items.some((item) => item >> 1 === 0), edges };
    },
  );
}

/** Returns the index of a value in a sorted list that contains it. @param {number[]} sorted @param {number} value */
function indexOf(sorted, value) {
  let low = 0;
  for (let high = sorted.length; low < high;) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the automaton of a list of texts. @param {Iterable<string>} texts @returns {Dfa} */
export function dfaOfTexts(texts) {
  /** @type {{ accepts: boolean, next: Map<number, number> }[]} */
  const nodes = [{ accepts: false, next: new Map() }];
  for (const text of texts) {
    let at = 0;
    for (const c of text) {
      const code = Number(c.codePointAt(0));
      let next = nodes[at].next.get(code);
      if (next === undefined) nodes[at].next.set(code, (next = nodes.push({ accepts: false, next: new Map() }) - 1));
      at = next;
      if (at > MAX_NODES) throw tooLargeError('a list of texts');
    }
    nodes[at].accepts = true;
  }
  return trim(
    nodes.map(({ accepts, next }) => ({
      accepts,
      edges: [...next].sort(([a], [b]) => a - b).map(([c, to]) => [c, c, to]),
    })),
  );
}

/**
 * Returns the lengths of the shortest and the longest text, in characters. Without texts, `shortest` is Infinity.
 * Without a longest text, `longest` is Infinity.
 * @param {Dfa} dfa
 */
export function lengthsOf(dfa) {
  let shortest = 0;
  for (let states = new Set([0]); ![...states].some((i) => dfa[i].accepts); shortest++) {
    if (shortest > dfa.length) return { shortest: Infinity, longest: 0 };
    states = new Set([...states].flatMap((i) => dfa[i].edges.map(([, , to]) => to)));
  }
  // A topological order of the states, up to the first loop: a state is added after all states with an edge to it.
  const before = new Uint32Array(dfa.length);
  for (const { edges } of dfa) for (const [, , to] of edges) before[to]++;
  const longest = new Uint32Array(dfa.length);
  const order = before[0] ? [] : [0];
  for (const i of order)
    for (const [, , to] of dfa[i].edges) {
      longest[to] = Math.max(longest[to], longest[i] + 1);
      if (!--before[to]) order.push(to);
    }
  const most = order.reduce((all, i) => (dfa[i].accepts ? Math.max(all, longest[i]) : all), 0);
  return { shortest, longest: order.length < dfa.length ? Infinity : most };
}

/**
 * Returns all texts, the shortest first, or null if there are more than `max`.
 * @param {Dfa} dfa @param {number} max @returns {string[] | null}
 */
export function textsOf(dfa, max) {
  /** @type {string[]} */
  const found = [];
  let paths = [{ text: '', state: 0 }];
  for (let n = 0; paths.length; n++) {
    // Each path leads to an accepting state, so a path that is longer than the number of states has a loop.
    if (paths.length + found.length > max || n > dfa.length) return null;
    for (const { text, state } of paths) if (dfa[state].accepts) found.push(text);
    /** @type {typeof paths} */
    const next = [];
    for (const { text, state } of paths)
      for (const [low, high, target] of dfa[state].edges) {
        if (high - low >= max) return null;
        for (let c = low; c <= high; c++) next.push({ text: text + String.fromCodePoint(c), state: target });
      }
    paths = next;
  }
  return found;
}

/** Returns the texts with `min` to `max` characters. @param {number} min @param {number} max @returns {Dfa} */
export function dfaOfLength(min, max) {
  const last = max === Infinity ? min : max;
  checkSize('a limit of length together with a pattern', last);
  return Array.from({ length: last + 1 }, (_, i) => ({
    accepts: i >= min,
    edges:
      i < last
        ? TEXT.map(([low, high]) => [low, high, i + 1])
        : max === Infinity
          ? TEXT.map(([low, high]) => [low, high, i])
          : [],
  }));
}

/**
 * Returns the edges of the pair of two states, with both targets. A target is -1 if its state has no such edge.
 * @param {Edge[]} a @param {Edge[]} b @returns {[number, number, [number, number]][]}
 */
function parallel(a, b) {
  /** @type {[number, number, [number, number]][]} */
  const out = [];
  for (let i = 0, j = 0, low = 0; i < a.length || j < b.length;) {
    const [x, y] = [a[i] ?? NO_EDGE, b[j] ?? NO_EDGE];
    // The range ends where an edge of either state ends or begins.
    const high = Math.min(x[0] > low ? x[0] - 1 : x[1], y[0] > low ? y[0] - 1 : y[1]);
    if (x[0] <= low || y[0] <= low) out.push([low, high, [x[0] <= low ? x[2] : -1, y[0] <= low ? y[2] : -1]]);
    if (x[1] === high) i++;
    if (y[1] === high) j++;
    low = high + 1;
  }
  return out;
}

/** Sentinel after all edges. @type {Edge} */
const NO_EDGE = [Infinity, Infinity, -1];

/**
 * Creates a function that combines two automata. `accepts` decides from both results whether a text is accepted.
 * @param {(a: boolean, b: boolean) => boolean} accepts @returns {(a: Dfa, b: Dfa) => Dfa}
 */
const combine = (accepts) => (a, b) =>
  explore(
    'a combination of patterns',
    [0, 0],
    ([i, j]) => (i + 1) * (b.length + 1) + j + 1,
    ([i, j]) => ({
      accepts: accepts(i >= 0 && a[i].accepts, j >= 0 && b[j].accepts),
      // An edge is kept if a text may be accepted after it, even if only one of the two states has the edge.
      edges: parallel(i >= 0 ? a[i].edges : [], j >= 0 ? b[j].edges : []).filter(
        ([, , [x, y]]) =>
          accepts(x >= 0, y >= 0) || (x >= 0 && accepts(true, false)) || (x >= 0 && y >= 0 && accepts(true, true)),
      ),
    }),
  );

/** Returns the texts that both automata accept. */
export const intersection = combine((a, b) => a && b);
/** Returns the texts that at least one of the automata accepts. */
export const union = combine((a, b) => a || b);
/** Returns the texts that only the first automaton accepts. */
export const difference = combine((a, b) => a && !b);

/** Whether an automaton accepts no text. @param {Dfa} dfa */
export const isEmpty = (dfa) => dfa.length === 1 && !dfa[0].accepts;

/** The automaton of all texts. @type {Dfa} */
export const ANY = [{ accepts: true, edges: TEXT.map(([low, high]) => [low, high, 0]) }];

/** Whether an automaton accepts a text. @param {Dfa} dfa @param {string} text */
export function matches(dfa, text) {
  let at = 0;
  for (const c of text) {
    const code = Number(c.codePointAt(0));
    const edge = dfa[at].edges.find(([low, high]) => code >= low && code <= high);
    if (!edge) return false;
    at = edge[2];
  }
  return dfa[at].accepts;
}
