/** Deterministic automata over code points: made of expressions and lists of texts, intersected, subtracted, counted. */
import { refused, tooLarge } from './failure.js';
import { ALL, rangesOf } from './sets.js';
import { countSteps } from './work.js';

/** @import { Ahead, Tree } from './regex.js' */

/** Edges of a state are disjoint and sorted. @typedef {{ accepts: boolean, edges: [number, number, number][] }} State  [low, high, target] */
/** Starts at state 0; from each an end can be reached, but perhaps not from 0. @typedef {State[]} Dfa */

const MOST = 20000;
const REGEX = 'the regular expression';
/** Nodes of a list of texts. */
const MOST_NODES = 400_000;

/** @param {string} what @param {number} n */
function bounded(what, n) {
  if (n > MOST) throw tooLarge(what);
}

/** The parts of a tree as a machine of steps without bytes (to), over characters (set), and at begin and end (only). */
class Nfa {
  /** @type {{ set: number[] | null, to: number[], only: '' | '^' | '$' }[]} */
  states = [];

  /** @param {number[]} to @param {number[] | null} [set] @param {'' | '^' | '$'} [only] */
  state(to, set = null, only = '') {
    bounded(REGEX, this.states.length / 4);
    countSteps(1, REGEX);
    return this.states.push({ to, set, only }) - 1;
  }

  /** @param {Tree} tree @param {number} next  where it ends @returns {number} where it begins */
  add(tree, next) {
    switch (tree.kind) {
      case 'chars':
        return this.state([next], tree.set);
      case '^':
      case '$':
        return this.state([next], null, tree.kind);
      case 'and':
        return tree.parts.reduceRight((at, part) => this.add(part, at), next);
      case 'or':
        return this.state(tree.parts.map((part) => this.add(part, next)));
      default:
        return this.#repeat(tree.part, tree.min, tree.max, next);
    }
  }

  /** @param {Tree} part @param {number} min @param {number} max @param {number} next */
  #repeat(part, min, max, next) {
    let at = next;
    if (max === Infinity) {
      at = this.state([]);
      this.states[at].to = [this.add(part, at), next];
    } else for (let i = min; i < max; i++) at = this.state([this.add(part, at), next]);
    for (let i = 0; i < min; i++) at = this.add(part, at);
    return at;
  }

  /** What is reached without a character; numbers are 2 × state, + 1 where the text must end. @param {Iterable<number>} from @param {boolean} first */
  closure(from, first) {
    const all = new Set(from);
    for (const item of all) {
      const { to, set, only } = this.states[item >> 1];
      if (set || (only === '^' && !first)) continue;
      for (const next of to) all.add(next * 2 + (only === '$' ? 1 : item & 1));
    }
    countSteps(2 * all.size, REGEX);
    return [...all]
      .filter((item) => (this.states[item >> 1].set ? !(item & 1) : item >> 1 === 0))
      .sort((a, b) => a - b);
  }
}

/** Of states found from the first on: `next` says a state's edges by keys of others. @template T @param {string} what @param {T} first @param {(value: T) => string | number} keyOf @param {(value: T) => { accepts: boolean, edges: [number, number, T][] }} expand @returns {Dfa} */
export function explore(what, first, keyOf, expand) {
  const known = new Map([[keyOf(first), 0]]);
  const todo = [first];
  /** @type {Dfa} */
  const dfa = [];
  for (const value of todo) {
    const { accepts, edges } = expand(value);
    countSteps(4 * (1 + edges.length), what);
    dfa.push({
      accepts,
      edges: edges.map(([low, high, target]) => {
        const key = keyOf(target);
        let id = known.get(key);
        if (id === undefined) {
          id = todo.push(target) - 1;
          known.set(key, id);
          bounded(what, id);
        }
        return [low, high, id];
      }),
    });
  }
  return trim(dfa);
}

/** Without states that no end can be reached from, and edges side by side as one. @param {Dfa} dfa @returns {Dfa} */
function trim(dfa) {
  /** @type {number[][]} */
  const from = dfa.map(() => []);
  dfa.forEach(({ edges }, i) => edges.forEach(([, , to]) => from[to].push(i)));
  const live = new Set(dfa.flatMap(({ accepts }, i) => (accepts ? [i] : [])));
  for (const i of live) for (const j of from[i]) live.add(j);
  const kept = [0, ...[...live].filter((i) => i > 0).sort((a, b) => a - b)];
  const number = new Map(kept.map((old, i) => [old, i]));
  return kept.map((old) => {
    /** @type {[number, number, number][]} */
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

/** The same texts with as few states as can be: states are told apart by what follows them, until nothing tells more apart. @param {Dfa} dfa @returns {Dfa} */
export function minimal(dfa) {
  let classes = dfa.map(({ accepts }) => Number(accepts));
  for (let count = 0; ;) {
    /** @type {Map<string, number>} */
    const found = new Map();
    const next = dfa.map(({ edges }, i) => {
      const key = [classes[i], ...edges.map(([low, high, to]) => `${low}-${high}>${classes[to]}`)].join();
      const known = found.get(key) ?? found.size;
      found.set(key, known);
      return known;
    });
    countSteps(dfa.length, 'an automaton');
    classes = next;
    if (found.size === count) break;
    count = found.size;
  }
  /** @type {Dfa} */
  const out = [];
  // A class is numbered where it is met first, so the first state's is 0.
  dfa.forEach(({ accepts, edges }, i) => {
    out[classes[i]] ??= { accepts, edges: edges.map(([low, high, to]) => [low, high, classes[to]]) };
  });
  return trim(out);
}

/** Texts of an expression: the whole text, or any with such a part. @param {Tree} tree @param {{ search?: boolean }} [options] @returns {Dfa} */
export function ofTree(tree, { search = false } = {}) {
  const nfa = new Nfa();
  nfa.state([]); // 0: the end
  const any = {
    kind: /** @type {const} */ ('repeat'),
    part: { kind: /** @type {const} */ ('chars'), set: ALL },
    min: 0,
    max: Infinity,
  };
  const begin = nfa.add(search ? { kind: 'and', parts: [any, tree, any] } : tree, 0);
  const cuts = [
    ...new Set(nfa.states.flatMap(({ set }) => (set ? rangesOf(set).flatMap(([low, high]) => [low, high + 1]) : []))),
  ].sort((a, b) => a - b);
  /** Which parts between cuts a state's characters are, first and last of each range. */
  const spans = nfa.states.map(({ set }) =>
    set ? rangesOf(set).map(([low, high]) => [indexOf(cuts, low), indexOf(cuts, high + 1)]) : [],
  );
  /** Closures of states behind a character, by their numbers. @type {Map<string, number[]>} */
  const closed = new Map();
  const first = nfa.closure([begin * 2], true);
  return explore(
    REGEX,
    first,
    (items) => items.join(),
    (items) => {
      /** Targets by the index of the cut where a range begins. @type {Map<number, Set<number>>} */
      const targets = new Map();
      for (const item of items)
        for (const [from, end] of spans[item >> 1]) {
          countSteps(end - from, REGEX);
          for (let i = from; i < end; i++) {
            const all = targets.get(i) ?? new Set();
            targets.set(i, all.add(nfa.states[item >> 1].to[0] * 2));
          }
        }
      const edges = [...targets]
        .sort(([a], [b]) => a - b)
        .map(([i, all]) => {
          const key = [...all].sort().join();
          const closure = closed.get(key) ?? nfa.closure(all, false);
          closed.set(key, closure);
          countSteps(closure.length, REGEX);
          return /** @type {[number, number, number[]]} */ ([cuts[i], cuts[i + 1] - 1, closure]);
        });
      return { accepts: items.some((item) => item >> 1 === 0), edges };
    },
  );
}

/** @param {number[]} sorted @param {number} value  one of them */
function indexOf(sorted, value) {
  let low = 0;
  for (let high = sorted.length; low < high;) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Exactly these texts. @param {Iterable<string>} texts @returns {Dfa} */
export function ofTexts(texts) {
  /** @type {{ accepts: boolean, next: Map<number, number> }[]} */
  const nodes = [{ accepts: false, next: new Map() }];
  for (const text of texts) {
    let at = 0;
    for (const c of text) {
      const code = Number(c.codePointAt(0));
      let next = nodes[at].next.get(code);
      if (next === undefined) nodes[at].next.set(code, (next = nodes.push({ accepts: false, next: new Map() }) - 1));
      at = next;
      if (at > MOST_NODES) throw tooLarge('a list of texts');
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

/** How many characters the texts have: Infinity, where there is no most. @param {Dfa} dfa */
export function lengthsOf(dfa) {
  let shortest = 0;
  for (let states = new Set([0]); ![...states].some((i) => dfa[i].accepts); shortest++) {
    if (shortest > dfa.length) return { shortest: Infinity, longest: 0 };
    states = new Set([...states].flatMap((i) => dfa[i].edges.map(([, , to]) => to)));
  }
  // States in an order in which none leads back, if there is one: each once all that lead to it have come.
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

/** All texts, the shortest first; null: more than so many. @param {Dfa} dfa @param {number} most @returns {string[] | null} */
export function textsOf(dfa, most) {
  /** @type {string[]} */
  const found = [];
  let ways = [{ text: '', state: 0 }];
  for (let n = 0; ways.length; n++) {
    // Each way leads to an end, so a longer way than there are states has a loop.
    if (ways.length + found.length > most || n > dfa.length) return null;
    for (const { text, state } of ways) if (dfa[state].accepts) found.push(text);
    /** @type {typeof ways} */
    const next = [];
    for (const { text, state } of ways)
      for (const [low, high, target] of dfa[state].edges) {
        if (high - low >= most) return null;
        for (let c = low; c <= high; c++) next.push({ text: text + String.fromCodePoint(c), state: target });
      }
    ways = next;
  }
  return found;
}

/** Any text of so many characters. @param {number} min @param {number} max @returns {Dfa} */
export function ofLength(min, max) {
  const last = max === Infinity ? min : max;
  bounded('a limit of length beside a pattern', last);
  return Array.from({ length: last + 1 }, (_, i) => ({
    accepts: i >= min,
    edges:
      i < last
        ? rangesOf(ALL).map(([low, high]) => [low, high, i + 1])
        : max === Infinity
          ? rangesOf(ALL).map(([low, high]) => [low, high, i])
          : [],
  }));
}

/** Steps of two states together; -1 stands for a state that nothing leads on from. @param {[number, number, number][]} a @param {[number, number, number][]} b @returns {[number, number, [number, number]][]} */
function together(a, b) {
  /** @type {[number, number, [number, number]][]} */
  const out = [];
  for (let i = 0, j = 0, low = 0; i < a.length || j < b.length;) {
    const [x, y] = [a[i] ?? NO_EDGE, b[j] ?? NO_EDGE];
    // Up to where one of them ends, or begins.
    const high = Math.min(x[0] > low ? x[0] - 1 : x[1], y[0] > low ? y[0] - 1 : y[1]);
    if (x[0] <= low || y[0] <= low) out.push([low, high, [x[0] <= low ? x[2] : -1, y[0] <= low ? y[2] : -1]]);
    if (x[1] === high) i++;
    if (y[1] === high) j++;
    low = high + 1;
  }
  return out;
}

/** Behind all. @type {[number, number, number]} */
const NO_EDGE = [Infinity, Infinity, -1];

const AND = (/** @type {boolean} */ a, /** @type {boolean} */ b) => a && b;
const OR = (/** @type {boolean} */ a, /** @type {boolean} */ b) => a || b;
const LESS = (/** @type {boolean} */ a, /** @type {boolean} */ b) => a && !b;

/** @param {(a: boolean, b: boolean) => boolean} how @returns {(a: Dfa, b: Dfa) => Dfa} */
const combine = (how) => (a, b) =>
  explore(
    'a combination of patterns',
    [0, 0],
    ([i, j]) => (i + 1) * (b.length + 1) + j + 1,
    ([i, j]) => ({
      accepts: how(i >= 0 && a[i].accepts, j >= 0 && b[j].accepts),
      // Where only one goes on, it may matter or not.
      edges: together(i >= 0 ? a[i].edges : [], j >= 0 ? b[j].edges : []).filter(
        ([, , [x, y]]) => how(x >= 0, y >= 0) || (x >= 0 && how(true, false)) || (x >= 0 && y >= 0 && how(true, true)),
      ),
    }),
  );

export const both = combine(AND);
export const either = combine(OR);
export const without = combine(LESS);

/** Whether there is no such text. @param {Dfa} dfa */
export const isNone = (dfa) => dfa.length === 1 && !dfa[0].accepts;

/** @type {Dfa} */
export const ANY = [{ accepts: true, edges: rangesOf(ALL).map(([low, high]) => [low, high, 0]) }];

/** Whether a text is one of them. @param {Dfa} dfa @param {string} text */
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

/**
 * Texts of an expression as `parseRegex` read it: the whole text, or any with such a part. What lookaheads ask is asked of
 * the whole text, so in a search they need a ^ before them.
 * @param {{ tree: Tree, ahead: Ahead[] }} regex @param {{ search?: boolean }} [options] @returns {Dfa}
 */
export function ofRegex({ tree, ahead }, { search = false } = {}) {
  if (search && ahead.length && !(tree.kind === '^' || (tree.kind === 'and' && tree.parts[0]?.kind === '^')))
    throw refused('a lookahead without a ^ before it is not supported');
  return ahead.reduce(
    (dfa, { tree: next, not }) => {
      const begun = ofTree({ kind: 'and', parts: [{ kind: '^' }, next] }, { search: true });
      return not ? without(dfa, begun) : both(dfa, begun);
    },
    ofTree(tree, { search }),
  );
}
