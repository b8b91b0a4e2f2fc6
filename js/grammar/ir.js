/**
 * Rules over bytes on their way to C: states with edges and calls, see c/grammar/grammar.h. What can never end is left
 * out, so that whoever follows the rest always finds an end.
 */
import { refused, tooLarge } from './failure.js';

const MAGIC = 0x52475142;
const VERSION = 2;
/** What a state's only byte begins or ends: c/grammar/grammar.h. */
export const MARK = Object.freeze({ list: 2, open: 4, close: 8, shut: 16 });
const NONE = 0xffffffff;
const MOST = 400_000;
/** More bytes than any way to an end is said to have. */
const FAR = 1 << 22;

/** @typedef {{ accepts: boolean, mark: number, edges: [number, number, number][], calls: [number, number, number, number][] }} State  edges [low, high, target], calls [rule, min, max, next] */

const encoder = new TextEncoder();

export class Rules {
  /** @type {State[]} */
  states = [];
  /** @type {{ start: number, plain: boolean, name: string }[]} */
  rules = [];
  /** Bytes that lists whose items differ may take beyond the least. */
  slack = 0;

  /** @returns {number} */
  state(accepts = false) {
    if (this.states.length === MOST) throw tooLarge('the grammar');
    return this.states.push({ accepts, mark: 0, edges: [], calls: [] }) - 1;
  }

  /** A rule, with its first state. @param {string} name  for messages @param {boolean} [plain] @returns {number} */
  rule(name, plain = false) {
    return this.rules.push({ start: this.state(), plain, name }) - 1;
  }

  /** @param {number} rule */
  start(rule) {
    return this.rules[rule].start;
  }

  /** @param {number} from @param {number} low @param {number} high @param {number} to */
  edge(from, low, high, to) {
    this.states[from].edges.push([low, high, to]);
  }

  /** A rule, so many times in a row. @param {number} from @param {number} rule @param {number} to @param {number} [min] @param {number} [max] */
  call(from, rule, to, min = 1, max = 1) {
    if (max > 0) this.states[from].calls.push([rule, min, max === Infinity ? NONE : max, to]);
    else this.skip(from, to);
  }

  /** @param {number} from @param {number} to */
  skip(from, to) {
    this.states[from].calls.push([NONE, 1, 1, to]);
  }

  /** A byte that begins or ends something, from a state of its own. @param {number} from @param {string} byte @param {number} mark @param {number} [to] @returns {number} */
  marked(from, byte, mark, to) {
    const state = this.state();
    this.skip(from, state);
    this.states[state].mark = mark;
    return this.literal(state, byte, to);
  }

  /** @param {number} state */
  end(state) {
    this.states[state].accepts = true;
  }

  /** A text as it is; where it ends. @param {number} from @param {string | Uint8Array} text @param {number} [to] */
  literal(from, text, to) {
    const bytes = typeof text === 'string' ? encoder.encode(text) : text;
    let at = from;
    bytes.forEach((byte, i) => {
      const next = to !== undefined && i === bytes.length - 1 ? to : this.state();
      this.edge(at, byte, byte, next);
      at = next;
    });
    if (!bytes.length && to !== undefined) this.skip(from, to);
    return bytes.length ? at : (to ?? from);
  }

  /** How few bytes lead from each state to the end of its rule; Infinity: there is no way. */
  #least() {
    const least = this.states.map(({ accepts }) => (accepts ? 0 : Infinity));
    /** @type {number[][]} */
    const before = this.states.map(() => []);
    this.states.forEach(({ edges, calls }, i) => {
      for (const [, , to] of edges) before[to].push(i);
      for (const [rule, min, , to] of calls) {
        before[to].push(i);
        if (rule !== NONE && min) before[this.start(rule)].push(i);
      }
    });
    const queue = least.flatMap((n, i) => (n ? [] : [i]));
    const queued = new Uint8Array(least.length);
    for (let q = 0; q < queue.length; q++) {
      queued[queue[q]] = 0;
      for (const i of before[queue[q]]) {
        const { edges, calls } = this.states[i];
        let n = least[i];
        for (const [, , to] of edges) n = Math.min(n, 1 + least[to]);
        for (const [rule, min, , to] of calls)
          n = Math.min(n, (rule === NONE || !min ? 0 : Math.min(min * least[this.start(rule)], Infinity)) + least[to]);
        if (n < least[i]) {
          least[i] = n;
          if (!queued[i]) queue.push(i);
          queued[i] = 1;
        }
      }
    }
    return least;
  }

  /** GRAMMAR: a rule that begins with itself would be called without end. @param {number[]} least @param {number} root */
  #checkRecursion(least, root) {
    /** Rules that begin where a rule begins. @param {number} rule */
    const firsts = (rule) => {
      const states = new Set([this.start(rule)]);
      const found = new Set();
      for (const s of states)
        for (const [called, min, , next] of this.states[s].calls) {
          if (called !== NONE && least[this.start(called)] < Infinity) found.add(called);
          if (called === NONE || !min || least[this.start(called)] === 0) states.add(next);
        }
      return [...found];
    };
    /** @type {Map<number, boolean>} */
    const done = new Map();
    const path = [{ rule: root, next: firsts(root) }];
    const roots = this.rules.map((_, rule) => rule);
    done.set(root, false);
    while (path.length || roots.length) {
      const top = path.at(-1);
      const rule = top ? top.next.pop() : roots.pop();
      if (rule === undefined) {
        if (top) done.set(top.rule, true);
        path.pop();
      } else if (done.get(rule) === false)
        throw refused(
          `the rule "${this.rules[rule].name}" begins with itself`,
          'write what repeats with * or +, or put what the rule begins with first',
        );
      else if (!done.has(rule)) {
        done.set(rule, false);
        path.push({ rule, next: firsts(rule) });
      }
    }
  }

  /** States that the root needs and that have an end, in their order. @param {number} root @param {number[]} least */
  #kept(root, least) {
    const kept = new Set([this.start(root)]);
    for (const s of kept) {
      const { edges, calls } = this.states[s];
      for (const [, , to] of edges) if (least[to] < Infinity) kept.add(to);
      for (const [rule, min, , to] of calls) {
        const there = rule !== NONE && least[this.start(rule)] < Infinity;
        if (least[to] === Infinity || (rule !== NONE && min && !there)) continue;
        kept.add(to);
        if (there) kept.add(this.start(rule));
      }
    }
    return [...kept].sort((a, b) => a - b);
  }

  /** The bytes that C reads. GRAMMAR: nothing satisfies it, or a rule begins with itself. @param {number} root @returns {Uint8Array<ArrayBuffer>} */
  encode(root) {
    const least = this.#least();
    if (least[this.start(root)] === Infinity)
      throw refused(
        'nothing can satisfy this',
        'there is no text that keeps to all of it: look for parts that contradict each other',
      );
    this.#checkRecursion(least, root);
    const kept = this.#kept(root, least);
    const number = new Map(kept.map((old, i) => [old, i]));
    const used = this.rules.flatMap(({ start }, i) => (number.has(start) && least[start] < Infinity ? [i] : []));
    const ruleNumber = new Map(used.map((old, i) => [old, i]));
    const at = (/** @type {number} */ state) => Number(number.get(state));
    /** @type {number[]} */
    const states = [];
    /** @type {number[]} */
    const edges = [];
    /** @type {number[]} */
    const calls = [];
    for (const old of kept) {
      const state = this.states[old];
      for (const [low, high, to] of state.edges) if (number.has(to)) edges.push(low | (high << 8), at(to));
      for (const [rule, min, max, to] of state.calls) {
        if (!number.has(to)) continue;
        const called = rule === NONE ? NONE : ruleNumber.get(rule);
        if (called !== undefined) calls.push(called, min, max, at(to));
        else if (!min) calls.push(NONE, 1, 1, at(to));
      }
      states.push(edges.length / 2, calls.length / 4, Math.min(least[old], FAR), (state.accepts ? 1 : 0) | state.mark);
    }
    const rules = used.flatMap((i) => [at(this.rules[i].start), this.rules[i].plain ? 1 : 0]);
    const head = [
      MAGIC,
      VERSION,
      used.length,
      kept.length,
      edges.length / 2,
      calls.length / 4,
      Number(ruleNumber.get(root)),
      this.slack,
    ];
    const bytes = new Uint8Array(4 * (head.length + rules.length + states.length + edges.length + calls.length));
    const view = new DataView(bytes.buffer);
    let offset = 0;
    for (const part of [head, rules, states, edges, calls])
      for (const value of part) {
        view.setUint32(offset, value, true);
        offset += 4;
      }
    return bytes;
  }
}
