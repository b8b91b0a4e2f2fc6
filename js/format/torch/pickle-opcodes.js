/** The opcodes of pickle protocols 0 to 5, as functions of the machine in pickle.js. */

/** @import { Machine } from './pickle.js' */

/** Returns the representation of a Python tuple: a frozen array. @param {any[]} items */
const tuple = (items) => Object.freeze(items);
/** Represents a MARK on the stack. */
export const MARK = Symbol('mark');

/** @param {Machine} m @param {any} value */
const push = (m, value) => void m.stack.push(value);
/** @param {Machine} m @param {number} n */
function pushTuple(m, n) {
  const items = Array.from({ length: n }, () => m.pop()).reverse();
  push(m, tuple(items));
}
/** @param {Machine} m @param {any[]} pairs */
function pushDict(m, pairs) {
  const map = m.dict();
  m.setItems(map, pairs);
  push(m, map);
}
/** Parses an integer or a boolean in text form. @param {Machine} m @param {string} line */
function textInteger(m, line) {
  if (line === '00') return false;
  if (line === '01') return true;
  const digits = line.replace(/L$/, '');
  if (!/^[+-]?\d{1,40}$/.test(digits))
    throw m.damaged(`expected an integer, found ${JSON.stringify(line.slice(0, 40))}`);
  return Number(digits);
}
/** Parses a float in text form, as written by Python's repr(). @param {Machine} m @param {string} line */
function textFloat(m, line) {
  if (/^[+-]?inf$/.test(line)) return line[0] === '-' ? -Infinity : Infinity;
  if (/^[+-]?nan$/.test(line)) return NaN;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(line))
    throw m.damaged(`expected a float, found ${JSON.stringify(line.slice(0, 40))}`);
  return Number(line);
}
/** Parses an index of the memo in text form. @param {Machine} m @param {string} line */
function memoIndex(m, line) {
  if (!/^\d{1,15}$/.test(line)) throw m.damaged(`expected a memo index, found ${JSON.stringify(line.slice(0, 40))}`);
  return Number(line);
}
/** Parses 'text' or "text" without escapes. @param {Machine} m @param {string} line */
function quoted(m, line) {
  if (!/^(['"])[^\\]*\1$/.test(line))
    throw m.damaged(`expected a quoted string without escapes, found ${JSON.stringify(line.slice(0, 40))}`);
  return line.slice(1, -1);
}

/**
 * Implementations of opcodes by their byte. An opcode without an implementation is an error.
 * @type {((m: Machine) => void)[]}
 */
export const STEPS = [];
/** @type {Record<string, (m: Machine) => void>} */
const PROTOCOL_0_AND_1 = {
  '(': (m) => push(m, MARK),
  0: (m) => void m.pop(),
  1: (m) => void m.marked(),
  2: (m) => push(m, m.top()),
  F: (m) => push(m, textFloat(m, m.line())),
  I: (m) => push(m, textInteger(m, m.line())),
  L: (m) => push(m, textInteger(m, m.line())),
  J: (m) => push(m, m.integer(4)),
  K: (m) => push(m, m.size(1)),
  M: (m) => push(m, m.size(2)),
  N: (m) => push(m, null),
  Q: (m) => push(m, m.persistent(m.pop())),
  R: (m) => {
    const args = m.pop();
    m.call(m.pop(), args);
  },
  S: (m) => push(m, quoted(m, m.line())),
  T: (m) => push(m, m.latin1(m.size(4))),
  U: (m) => push(m, m.latin1(m.size(1))),
  V: (m) => push(m, m.line()),
  X: (m) => push(m, m.text(m.take(m.size(4)))),
  a: (m) => {
    const item = m.pop();
    m.append(m.top(), [item]);
  },
  b: (m) => m.build(),
  c: (m) => {
    const module = m.line();
    m.global(module, m.line());
  },
  d: (m) => pushDict(m, m.marked()),
  '}': (m) => push(m, m.dict()),
  e: (m) => {
    const items = m.marked();
    m.append(m.top(), items);
  },
  g: (m) => m.get(memoIndex(m, m.line())),
  h: (m) => m.get(m.size(1)),
  j: (m) => m.get(m.size(4)),
  l: (m) => push(m, m.marked()),
  ']': (m) => push(m, []),
  p: (m) => m.put(memoIndex(m, m.line())),
  q: (m) => m.put(m.size(1)),
  r: (m) => m.put(m.size(4)),
  s: (m) => {
    const value = m.pop();
    const key = m.pop();
    m.setItems(m.top(), [key, value]);
  },
  t: (m) => push(m, tuple(m.marked())),
  ')': (m) => push(m, tuple([])),
  u: (m) => {
    const pairs = m.marked();
    m.setItems(m.top(), pairs);
  },
  G: (m) => {
    m.take(8);
    push(m, m.view.getFloat64(m.at - 8, false));
  },
  B: (m) => push(m, m.bytesOf(m.size(4))),
  C: (m) => push(m, m.bytesOf(m.size(1))),
};
for (const [letter, step] of Object.entries(PROTOCOL_0_AND_1)) STEPS[letter.charCodeAt(0)] = step;
/** @type {Record<number, (m: Machine) => void>} */
const PROTOCOL_2_TO_5 = {
  0x80: (m) => {
    const protocol = m.size(1);
    if (protocol > 5) throw m.refused(`protocol ${protocol}`);
  },
  0x81: (m) => {
    const args = m.pop();
    m.call(m.pop(), args);
  },
  0x85: (m) => pushTuple(m, 1),
  0x86: (m) => pushTuple(m, 2),
  0x87: (m) => pushTuple(m, 3),
  0x88: (m) => push(m, true),
  0x89: (m) => push(m, false),
  0x8a: (m) => push(m, m.integer(m.size(1))),
  0x8b: (m) => push(m, m.integer(m.size(4))),
  0x8c: (m) => push(m, m.text(m.take(m.size(1)))),
  0x8d: (m) => push(m, m.text(m.take(m.size(8)))),
  0x8e: (m) => push(m, m.bytesOf(m.size(8))),
  0x8f: (m) => push(m, []),
  0x90: (m) => {
    const items = m.marked();
    m.append(m.top(), items);
  },
  0x93: (m) => {
    const name = m.pop();
    m.global(m.pop(), name);
  },
  0x94: (m) => m.put(m.memo.size),
  0x95: (m) => void m.take(8), // FRAME: only a hint for readers
  0x96: (m) => push(m, m.bytesOf(m.size(8))),
};
for (const [byte, step] of Object.entries(PROTOCOL_2_TO_5)) STEPS[Number(byte)] = step;
