/**
 * Grammars as rules over bytes (c/grammar/grammar.h). A rule has states, with edges that consume a byte and calls of
 * other rules. Parts from which no text can be completed are omitted from the encoded form, so that a generation never
 * gets stuck.
 */
import { grammarError, tooLargeError } from './failure.js';
import { countSteps } from './work.js';

const MAGIC = 0x52475142;
const VERSION = 3;
/**
 * Marks of states whose only byte begins or ends a list, or an item that C compares with the others
 * (c/grammar/grammar.h).
 */
export const MARK = Object.freeze({ list: 2, open: 4, close: 8, shut: 16 });
/** Stands for "no rule" and for "no limit of repetitions". */
const NONE = 0xffffffff;
const ACCEPTS = 1;
/** Flag of an edge: its byte begins a character that is counted. */
const BEGINS = 1 << 16;
/** Flag of a rule that is one character of a JSON string. */
const PLAIN = 1;
/** Flag of a rule whose characters are counted. */
const LENGTH = 2;
const MAX_STATES = 400_000;
/** Largest stored distance from a state to the end of its rule, in bytes; larger ones are clamped. */
const MAX_DISTANCE = 1 << 22;

/**
 * Rows of numbers, sorted by their first number, which is a state. The rows of state s begin at row begin[s].
 * @typedef {{ begin: Uint32Array, rows: Uint32Array }} Table
 */

/** Message of the error for grammars that no text satisfies. */
export const UNSATISFIABLE = 'no text can satisfy this';

const encoder = new TextEncoder();

/**
 * Sorts rows by their states; rows of the same state stay in order.
 * @param {number[]} list @param {number} width  numbers in a row
 * @param {number} states @returns {Table}
 */
function byState(list, width, states) {
  const begin = new Uint32Array(states + 1);
  for (let i = 0; i < list.length; i += width) begin[list[i] + 1]++;
  for (let s = 0; s < states; s++) begin[s + 1] += begin[s];
  const next = begin.slice();
  const rows = new Uint32Array(list.length);
  for (let i = 0; i < list.length; i += width) {
    const at = width * next[list[i]]++;
    for (let k = 0; k < width; k++) rows[at + k] = list[i + k];
  }
  return { begin, rows };
}

export class Rules {
  /**
   * For each state: ACCEPTS, its mark and, shifted by 8 bits, the number of missing characters (see `setMissing`).
   * @type {number[]}
   */
  #flags = [];
  /** Rows of three: from, low byte | high byte << 8 | BEGINS, to. @type {number[]} */
  #edges = [];
  /**
   * Rows of five: from, rule (NONE: `to` follows directly), minimum and maximum of repetitions, to.
   * @type {number[]}
   */
  #calls = [];
  /** @type {{ start: number, plain: boolean, name: string, limited?: boolean }[]} */
  rules = [];
  /** Upper bound for the bytes beyond the minimum that are needed to make the items of lists different. */
  slack = 0;
  /**
   * Initial states of alternatives that must each be satisfiable: an unsatisfiable one is an error.
   * @type {number[]}
   */
  alternatives = [];

  /** Adds a state. Throws GRAMMAR if there are too many. @returns {number} */
  state(accepts = false) {
    if (this.#flags.length === MAX_STATES) throw tooLargeError('the grammar');
    return this.#flags.push(accepts ? ACCEPTS : 0) - 1;
  }

  /** Adds a rule with its first state. @param {string} name  for messages @param {boolean} [plain] @returns {number} */
  rule(name, plain = false) {
    return this.rules.push({ start: this.state(), plain, name }) - 1;
  }

  /** Returns the first state of a rule. @param {number} rule */
  start(rule) {
    return this.rules[rule].start;
  }

  /**
   * Adds an edge for the bytes from `low` to `high`.
   * @param {number} from @param {number} low @param {number} high @param {number} to
   * @param {boolean} [begins]  whether the byte begins a character that is counted
   */
  edge(from, low, high, to, begins = false) {
    this.#edges.push(from, low | (high << 8) | (begins ? BEGINS : 0), to);
  }

  /**
   * Adds a rule whose characters are counted. `min` and `max` of its calls limit the number of characters instead of
   * repetitions. `setMissing` must be called for each state to which an edge leads.
   * @param {string} name
   */
  limitedRule(name) {
    const rule = this.rule(name);
    this.rules[rule].limited = true;
    return rule;
  }

  /**
   * Sets the smallest number of characters from a state to the end of the rule, after the current one.
   * @param {number} state @param {number} characters
   */
  setMissing(state, characters) {
    this.#flags[state] = (this.#flags[state] & 255) | (characters << 8);
  }

  /**
   * Calls a rule `min` to `max` times in a row.
   * @param {number} from @param {number} rule @param {number} to @param {number} [min] @param {number} [max]
   */
  call(from, rule, to, min = 1, max = 1) {
    // NONE means no limit: no text is so long.
    if (max > 0) this.#calls.push(from, rule, min, Math.min(max, NONE), to);
    else this.skip(from, to);
  }

  /** Makes the state `to` follow without a byte. @param {number} from @param {number} to */
  skip(from, to) {
    this.#calls.push(from, NONE, 1, 1, to);
  }

  /**
   * Adds a byte whose state has a mark. Returns the state after the byte.
   * @param {number} from @param {string} byte @param {number} mark @param {number} [to] @returns {number}
   */
  marked(from, byte, mark, to) {
    const state = this.state();
    this.skip(from, state);
    this.#flags[state] |= mark;
    return this.literal(state, byte, to);
  }

  /** Sets whether a rule may end in a state. @param {number} state @param {boolean} [accepts] */
  end(state, accepts = true) {
    this.#flags[state] = (this.#flags[state] & ~ACCEPTS) | (accepts ? ACCEPTS : 0);
  }

  /**
   * Adds a fixed text. Returns the state after it.
   * @param {number} from @param {string | Uint8Array} text @param {number} [to]
   */
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

  /**
   * Returns the smallest number of bytes of `min` repetitions of a rule, or of `min` characters of a limited rule.
   * @param {number} rule @param {number} min @param {Float64Array} bytesToEnd
   */
  #bytesOf(rule, min, bytesToEnd) {
    const start = this.start(rule);
    if (this.rules[rule].limited) return bytesToEnd[start] + Math.max(0, min - (this.#flags[start] >>> 8));
    return min ? min * bytesToEnd[start] : 0;
  }

  /**
   * Returns the smallest number of bytes from each state to the end of its rule; Infinity if it cannot be reached.
   * @param {Table} edges @param {Table} calls
   */
  #bytesToEnd(edges, calls) {
    const states = this.#flags.length;
    const bytesToEnd = Float64Array.from(this.#flags, (flags) => (flags & ACCEPTS ? 0 : Infinity));
    /**
     * Dependencies between distances, in rows of three: a state, a state whose distance depends on it, and the
     * connection: 0 for an edge, or the index of a call + 1.
     * @type {number[]}
     */
    const dependencies = [];
    for (let i = 0; i < edges.rows.length; i += 3) dependencies.push(edges.rows[i + 2], edges.rows[i], 0);
    for (let i = 0; i < calls.rows.length; i += 5) {
      const [from, rule, min, to] = [calls.rows[i], calls.rows[i + 1], calls.rows[i + 2], calls.rows[i + 4]];
      dependencies.push(to, from, i + 1);
      if (rule !== NONE && (min || this.rules[rule].limited)) dependencies.push(this.start(rule), from, i + 1);
    }
    const before = byState(dependencies, 3, states);
    const queue = [];
    for (let s = 0; s < states; s++) if (!bytesToEnd[s]) queue.push(s);
    const queued = new Uint8Array(states);
    for (let q = 0; q < queue.length; q++) {
      const found = queue[q];
      queued[found] = 0;
      countSteps(1 + before.begin[found + 1] - before.begin[found], 'the grammar');
      for (let b = 3 * before.begin[found]; b < 3 * before.begin[found + 1]; b += 3) {
        /** @type {number} */
        const s = /** @type {number} */ (before.rows[b + 1]);
        const call = before.rows[b + 2];
        let n = 1 + bytesToEnd[found];
        if (call) {
          const rule = calls.rows[call];
          n =
            (rule === NONE ? 0 : this.#bytesOf(rule, calls.rows[call + 1], bytesToEnd)) +
            bytesToEnd[calls.rows[call + 3]];
        }
        if (n >= bytesToEnd[s]) continue;
        bytesToEnd[s] = n;
        if (!queued[s]) queue.push(s);
        queued[s] = 1;
      }
    }
    return bytesToEnd;
  }

  /**
   * Throws GRAMMAR if a rule is left-recursive, because it would be called endlessly.
   * @param {Table} calls @param {Float64Array} bytesToEnd @param {number} root
   */
  #checkRecursion({ begin, rows }, bytesToEnd, root) {
    /** Returns the rules that a rule can call before its first byte. @param {number} rule */
    const firsts = (rule) => {
      const states = new Set([this.start(rule)]);
      const found = new Set();
      for (const s of states)
        for (let c = 5 * begin[s]; c < 5 * begin[s + 1]; c += 5) {
          const called = rows[c + 1];
          if (called !== NONE && bytesToEnd[this.start(called)] < Infinity) found.add(called);
          if (called === NONE || !rows[c + 2] || bytesToEnd[this.start(called)] === 0) states.add(rows[c + 4]);
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
        throw grammarError(
          `the rule "${this.rules[rule].name}" is left-recursive`,
          'write the repetition with * or +, or begin the rule with a string',
        );
      else if (!done.has(rule)) {
        done.set(rule, false);
        path.push({ rule, next: firsts(rule) });
      }
    }
  }

  /**
   * Returns the states that are reachable from the root and from which the end is reachable, in ascending order.
   * @param {Table} edges @param {Table} calls @param {Float64Array} bytesToEnd @param {number} root
   */
  #usefulStates(edges, calls, bytesToEnd, root) {
    const known = new Uint8Array(this.#flags.length);
    /** @type {number[]} */
    const found = [];
    const keep = (/** @type {number} */ s) => {
      if (!known[s]) found.push(s);
      known[s] = 1;
    };
    keep(this.start(root));
    for (let i = 0; i < found.length; i++) {
      const s = found[i];
      for (let e = edges.begin[s]; e < edges.begin[s + 1]; e++) {
        const to = edges.rows[3 * e + 2];
        if (bytesToEnd[to] < Infinity) keep(to);
      }
      for (let c = 5 * calls.begin[s]; c < 5 * calls.begin[s + 1]; c += 5) {
        const [rule, min, to] = [calls.rows[c + 1], calls.rows[c + 2], calls.rows[c + 4]];
        const canEnd = rule !== NONE && bytesToEnd[this.start(rule)] < Infinity;
        if (bytesToEnd[to] === Infinity || (rule !== NONE && min && !canEnd)) continue;
        keep(to);
        if (canEnd) keep(this.start(rule));
      }
    }
    return Uint32Array.from(found).sort();
  }

  /**
   * Encodes the grammar for C. Throws GRAMMAR if no text satisfies it or one of its `alternatives`, or if a rule begins
   * with itself.
   * @param {number} root @returns {Uint8Array<ArrayBuffer>}
   */
  encode(root) {
    const n = this.#flags.length;
    const [allEdges, allCalls] = [byState(this.#edges, 3, n), byState(this.#calls, 5, n)];
    const bytesToEnd = this.#bytesToEnd(allEdges, allCalls);
    if ([this.start(root), ...this.alternatives].some((state) => bytesToEnd[state] === Infinity))
      throw grammarError(
        UNSATISFIABLE,
        'no text satisfies all of its parts: look for parts that contradict each other',
      );
    this.#checkRecursion(allCalls, bytesToEnd, root);
    const usefulStates = this.#usefulStates(allEdges, allCalls, bytesToEnd, root);
    const stateNumbers = new Int32Array(n).fill(-1);
    usefulStates.forEach((old, i) => (stateNumbers[old] = i));
    const usedRules = this.rules.flatMap(({ start }, i) =>
      stateNumbers[start] >= 0 && bytesToEnd[start] < Infinity ? [i] : [],
    );
    const ruleNumbers = new Map(usedRules.map((old, i) => [old, i]));
    /** @type {number[]} */
    const states = [];
    /** @type {number[]} */
    const edges = [];
    /** @type {number[]} */
    const calls = [];
    for (const old of usefulStates) {
      for (let e = 3 * allEdges.begin[old]; e < 3 * allEdges.begin[old + 1]; e += 3) {
        const to = stateNumbers[allEdges.rows[e + 2]];
        if (to >= 0) edges.push(allEdges.rows[e + 1], to);
      }
      for (let c = 5 * allCalls.begin[old]; c < 5 * allCalls.begin[old + 1]; c += 5) {
        const rule = allCalls.rows[c + 1];
        const min = allCalls.rows[c + 2];
        const max = allCalls.rows[c + 3];
        const to = stateNumbers[allCalls.rows[c + 4]];
        if (to < 0) continue;
        const called = rule === NONE ? NONE : ruleNumbers.get(rule);
        if (called !== undefined) calls.push(called, min, max, to);
        else if (!min) calls.push(NONE, 1, 1, to);
      }
      states.push(edges.length / 2, calls.length / 4, Math.min(bytesToEnd[old], MAX_DISTANCE), this.#flags[old]);
    }
    const rules = usedRules.flatMap((i) => {
      const { start, plain, limited } = this.rules[i];
      return [stateNumbers[start], limited ? LENGTH : plain ? PLAIN : 0];
    });
    const head = [
      MAGIC,
      VERSION,
      usedRules.length,
      usefulStates.length,
      edges.length / 2,
      calls.length / 4,
      Number(ruleNumbers.get(root)),
      this.slack,
    ];
    const parts = [head, rules, states, edges, calls];
    const words = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      words.set(part, at);
      at += part.length;
    }
    return new Uint8Array(words.buffer);
  }
}
