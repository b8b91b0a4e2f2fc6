/**
 * Compiles a regular expression to the automaton of a stage (docs/FORMAT.md, TOKN): the match that a backtracking matcher
 * finds first, in one pass over the text. States are lists of places in the expression, those tried first in front.
 */
import { ALPHABET } from './bytes.js';
import { parseRegex } from './regex.js';
import { unsupported } from './section.js';

/** @import { CharSet } from './unicode.js' @import { Node } from './regex.js' */

export const STAGE = Object.freeze({ dropMatches: 1, dropBetween: 2, bytes: 4 });
const [MATCH, START] = [0x8000, 1];
const MOST = { places: 20_000, states: 4096, classes: 250, steps: 4_000_000 };

/**
 * Places of an expression: `set` and `look` go on at `next`, `split` tries its ways in order.
 * @typedef {{ set?: CharSet, look?: CharSet, end?: boolean, next?: number, split?: number[], match?: true }} Place
 */

/** @param {string} source @param {string} what */
const tooLarge = (source, what) =>
  unsupported(
    `the tokenizer cuts text by ${JSON.stringify(source.slice(0, 200))}, which takes too many ${what}`,
    'simplify the expression',
  );

/**
 * Places for a tree, from the last to the first.
 * @param {Node} tree
 * @param {string} source
 */
function placesOf(tree, source) {
  /** @type {Place[]} */
  const places = [{ match: true }];
  const add = (/** @type {Place} */ place) => {
    if (places.push(place) > MOST.places) throw tooLarge(source, 'places');
    return places.length - 1;
  };
  /** The first place of a node after which `next` comes. @type {(node: Node, next: number) => number} */
  const build = (node, next) => {
    if ('set' in node) return add({ set: node.set, next });
    if ('look' in node) return add({ look: node.look, end: node.end, next });
    if ('all' in node) return node.all.reduceRight((at, part) => build(part, at), next);
    if ('any' in node) return add({ split: node.any.map((part) => build(part, next)) });
    const order = (/** @type {number} */ more, /** @type {number} */ enough) =>
      node.lazy ? [enough, more] : [more, enough];
    let at = next;
    if (node.max === Infinity) {
      at = add({ split: [] });
      places[at].split = order(build(node.repeat, at), next);
    } else for (let i = node.min; i < node.max; i++) at = add({ split: order(build(node.repeat, at), next) });
    for (let i = 0; i < node.min; i++) at = build(node.repeat, at);
    return at;
  };
  return { places, start: build(tree, 0) };
}

/**
 * Characters that no set tells apart are a class. Gives runs of characters of one class, and for each set its classes.
 * @param {CharSet[]} sets
 * @param {string} source
 */
function classify(sets, source) {
  /** Sets that begin or end at a character. @type {Map<number, number[]>} */
  const turns = new Map([[0, []]]);
  sets.forEach((set, i) =>
    set.forEach(([first, last]) => {
      for (const at of [first, last + 1]) turns.set(at, [...(turns.get(at) ?? []), i]);
    }),
  );
  /** @type {Map<string, number>} */
  const classes = new Map();
  /** @type {[number, number][]} */
  const runs = [];
  const inside = new Uint8Array(sets.length);
  const members = sets.map(() => new Set());
  for (const at of [...turns.keys()].sort((a, b) => a - b)) {
    if (at > 0x10ffff) break;
    for (const i of turns.get(at) ?? []) inside[i] ^= 1;
    const key = inside.join('');
    const known = classes.get(key) ?? classes.size;
    classes.set(key, known);
    sets.forEach((_, i) => inside[i] && members[i].add(known));
    if (runs.at(-1)?.[1] !== known) runs.push([at, known]);
  }
  if (classes.size > MOST.classes) throw tooLarge(source, 'kinds of characters');
  return { runs, members, count: classes.size };
}

/** @param {string} source @param {{ rust?: boolean }} [options] */
function automaton(source, options) {
  const { places, start } = placesOf(parseRegex(source, options), source);
  /** @type {Map<string, number>} */
  const names = new Map();
  /** @type {CharSet[]} */
  const sets = [];
  const setOf = places.map(({ set, look }) => {
    const own = set ?? look;
    if (!own) return -1;
    const key = own.join();
    const known = names.get(key) ?? sets.length;
    if (known === sets.length) sets.push(own);
    names.set(key, known);
    return known;
  });
  const { runs, members, count } = classify(sets, source);
  let steps = 0;
  /** Adds what can be reached from a place without a character, in order. @type {(at: number, seen: Set<number>, out: number[]) => void} */
  const reach = (from, seen, out) => {
    const stack = [from];
    for (let at; (at = stack.pop()) !== undefined;) {
      if (seen.has(at)) continue;
      if (++steps > MOST.steps) throw tooLarge(source, 'steps');
      seen.add(at);
      const { split } = places[at];
      if (split) stack.push(...[...split].reverse());
      else out.push(at);
    }
  };
  /** Where a state goes by a class, or by the end of the text. @param {number[]} state @param {number} byClass */
  const go = (state, byClass) => {
    const [seen, next, nextSeen] = [new Set(), /** @type {number[]} */ ([]), new Set()];
    const todo = [...state].reverse();
    for (let at; (at = todo.pop()) !== undefined;) {
      if (seen.has(at)) continue; // a way tried before comes here too
      seen.add(at);
      const place = places[at];
      if (place.match) return { match: true, next };
      const has = byClass < count ? members[setOf[at]].has(byClass) : Boolean(place.end);
      if (!has) continue;
      /** @type {number[]} */
      const ways = [];
      if (place.set) reach(/** @type {number} */ (place.next), nextSeen, next);
      else reach(/** @type {number} */ (place.next), new Set(), ways);
      todo.push(...ways.reverse());
    }
    return { match: false, next };
  };
  /** @type {number[]} */
  const first = [];
  reach(start, new Set(), first);
  const states = [[], first];
  const numbers = new Map([
    ['', 0],
    [first.join(), START],
  ]);
  /** @type {number[][]} */
  const table = [Array.from({ length: count + 1 }, () => 0)];
  for (let i = START; i < states.length; i++) {
    table.push(
      Array.from({ length: count + 1 }, (_, byClass) => {
        const { match, next } = go(states[i], byClass);
        if (match && i === START)
          throw unsupported(
            `the tokenizer cuts text by ${JSON.stringify(source)}, which matches nothing at all`,
            'each match must take a character',
          );
        const key = next.join();
        const known = numbers.get(key) ?? states.length;
        if (known === states.length && states.push(next) > MOST.states) throw tooLarge(source, 'states');
        numbers.set(key, known);
        return known | (match ? MATCH : 0);
      }),
    );
  }
  return { runs, table, count };
}

/** Runs of bytes of one class, from those of the letters that stand for them. @param {[number, number][]} runs */
function byteRuns(runs) {
  /** @type {[number, number][]} */
  const out = [];
  for (const [letter, byte] of [...ALPHABET].sort((a, b) => a[1] - b[1])) {
    const code = letter.charCodeAt(0);
    const found = /** @type {[number, number]} */ (runs.findLast(([first]) => first <= code));
    if (out.at(-1)?.[1] !== found[1]) out.push([byte, found[1]]);
  }
  return out;
}

/**
 * The payload of a stage. UNSUPPORTED names what can't be used.
 * @param {string} source
 * @param {{ rust?: boolean, flags?: number }} [options]  flags: of STAGE; bytes: the expression is about the alphabet in which
 *   byte-level vocabularies are written, of which each byte has a letter
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function compileStage(source, { rust, flags = 0 } = {}) {
  const { runs: all, table, count } = automaton(source, { rust });
  const runs = flags & STAGE.bytes ? byteRuns(all) : all;
  const tableAt = 16 + 4 * runs.length;
  const out = new Uint8Array(tableAt + Math.ceil((2 * table.length * (count + 1)) / 4) * 4);
  const view = new DataView(out.buffer);
  [flags, count, table.length, runs.length].forEach((value, i) => view.setUint32(4 * i, value, true));
  runs.forEach(([first, byClass], i) => view.setUint32(16 + 4 * i, first * 256 + byClass, true));
  table.flat().forEach((next, i) => view.setUint16(tableAt + 2 * i, next, true));
  return out;
}
