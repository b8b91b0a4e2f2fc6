/** The operators of expressions, which are Python's: members, slices, comparisons, arithmetic. */
import { contains } from './filters.js';
import { formatPercent } from './format-text.js';
import { method } from './methods.js';
import { arithmetic } from './numbers.js';
import { concat, cut, hasCallerText, isSafe, isText, stringOf, withSafeMark } from './template-texts.js';
import { characterOf, characterOffset, escapeHtml, lengthOf, textLength } from './text-operations.js';
import {
  Callable,
  charactersOf,
  checkInteger,
  compare,
  equal,
  Float,
  isNumber,
  Lazy,
  lookUp,
  Namespace,
  numberOf,
  requireDefined,
  templateError,
  Tuple,
  typeOf,
  Undefined,
  View,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {string | import('./template-texts.js').Text} AnyText */

/**
 * Returns `value.name`, where methods take precedence over entries, or `value[name]`, where entries take precedence.
 * @param {any} value @param {any} name @param {boolean} dot  whether it is `value.name` @param {Meter} meter
 */
export function memberOf(value, name, dot, meter) {
  requireDefined(value);
  const bindMethod = () => {
    const call = method(value, name);
    return call && new Callable(stringOf(name), (args) => call(args, meter));
  };
  if (dot) {
    const bound = bindMethod();
    if (bound) return bound;
  }
  const missing = () =>
    new Undefined(
      `'${typeOf(value)}' object has no ${typeof name === 'number' ? 'element' : 'attribute'} ${isText(name) ? stringOf(name).slice(0, 100) : isNumber(name) ? numberOf(name) : typeOf(name)}: it`,
    );
  if (value instanceof Map) {
    meter.countInput(textLength(name));
    const entry =
      Array.isArray(name) || name instanceof Map || name instanceof Undefined || name instanceof Float
        ? undefined
        : lookUp(value, name);
    if (entry !== undefined) return entry;
  } else if (value instanceof Namespace) {
    if (value.entries.has(stringOf(name))) return value.entries.get(stringOf(name));
  } else if (value instanceof Callable) {
    const member = value.members.get(stringOf(name));
    if (member !== undefined) return member;
    if (!value.members.size) throw templateError(`members of functions are not supported: "${stringOf(name)}"`);
  } else if (value instanceof Tuple && value.names?.has(stringOf(name))) return value.names.get(stringOf(name));
  else if (typeof name === 'number' || typeof name === 'boolean') {
    const i = Number(name);
    if (isText(value)) return characterOf(value, i, meter) ?? missing();
    if (Array.isArray(value) && !(value instanceof Lazy) && (!(value instanceof View) || value.kind === 'range')) {
      const item = value[i < 0 ? i + value.length : i];
      return item === undefined ? missing() : item;
    }
  }
  return (dot ? undefined : bindMethod()) ?? missing();
}

/**
 * Returns `value[start:stop:step]`.
 * @param {any} value @param {number | null} start @param {number | null} stop @param {number} step @param {Meter} meter
 */
export function sliceOf(value, start, stop, step, meter) {
  const list = Array.isArray(value) && !(value instanceof Lazy) && (!(value instanceof View) || value.kind === 'range');
  if (!list && !isText(value)) throw templateError(`can't slice a value of type ${typeOf(requireDefined(value))}`);
  if (isSafe(value)) throw templateError('slices of safe strings are not supported');
  if (!step) throw templateError('the step of a slice must not be 0');
  const n = isText(value) ? lengthOf(stringOf(value), meter) : value.length;
  const [low, high] = step > 0 ? [0, n] : [-1, n - 1];
  const place = (/** @type {number | null} */ at, /** @type {number} */ otherwise) =>
    at === null ? otherwise : Math.min(Math.max(at < 0 ? at + n : at, low), high);
  const [begin, end] = [place(start, step > 0 ? 0 : n - 1), place(stop, step > 0 ? n : -1)];
  if (isText(value) && step === 1) {
    if (end <= begin) return '';
    return cut(value, characterOffset(stringOf(value), begin, meter), characterOffset(stringOf(value), end, meter));
  }
  const all = isText(value) ? charactersOf(value, meter) : value;
  meter.countItems(Math.max(0, (end - begin) / step));
  const result = [];
  for (let i = begin; step > 0 ? i < end : i > end; i += step) result.push(all[i]);
  if (isText(value)) return concat(['', ...result]);
  if (value instanceof View) throw templateError('slices of a range are not supported: convert it by the filter list');
  return value instanceof Tuple ? Tuple.from(result) : result;
}

/** Returns `+value` or `-value`. @param {string} operator @param {any} value */
export function signed(operator, value) {
  if (!isNumber(requireDefined(value)))
    throw templateError(`expected a number after ${operator}, found a value of type ${typeOf(value)}`);
  const number = operator === '-' ? -numberOf(value) : numberOf(value);
  return value instanceof Float ? new Float(number) : number + 0;
}

/**
 * Returns the result of a comparison.
 * @param {string} operator @param {any} a @param {any} b @param {Meter} meter @returns {boolean}
 */
export function compareBy(operator, a, b, meter) {
  switch (operator) {
    case '==':
      return equal(a, b, meter);
    case '!=':
      return !equal(a, b, meter);
    case 'in':
      return contains(b, a, meter);
    case 'not in':
      return !contains(b, a, meter);
    case '<':
      return compare(a, b, meter) < 0;
    case '>':
      return compare(a, b, meter) > 0;
    case '<=':
      return compare(a, b, meter) <= 0;
    default:
      return compare(a, b, meter) >= 0;
  }
}

/**
 * Joins two texts. If one of them is safe, the other one is escaped.
 * @param {AnyText} a @param {AnyText} b @param {Meter} meter
 */
function join(a, b, meter) {
  const safe = isSafe(a) || isSafe(b);
  meter.countOutput(stringOf(a).length + stringOf(b).length);
  const part = (/** @type {AnyText} */ text) => (safe && !isSafe(text) ? escapeHtml(text, meter) : text);
  const text = meter.countText(concat([part(a), part(b)]));
  return safe ? withSafeMark(text) : text;
}

/**
 * Returns the result of an arithmetic operator, which also joins and repeats texts and lists.
 * @param {string} operator @param {any} a @param {any} b  neither is undefined @param {Meter} meter
 */
export function operate(operator, a, b, meter) {
  if (isNumber(a) && isNumber(b)) return arithmetic(operator, a, b, checkInteger);
  if (operator === '+' && isText(a) && isText(b)) return join(a, b, meter);
  const list = (/** @type {any} */ value) =>
    Array.isArray(value) && !(value instanceof Lazy) && !(value instanceof View);
  if (operator === '+' && list(a) && list(b) && typeOf(a) === typeOf(b)) {
    meter.countItems(a.length + b.length);
    return a.concat(b);
  }
  if (operator === '%' && isText(a) && !isSafe(a)) return formatPercent(a, b, meter);
  const count = (/** @type {any} */ value) => typeof value === 'number' || typeof value === 'boolean';
  const [many, times] = count(a) ? [b, Math.max(Number(a), 0)] : [a, count(b) ? Math.max(Number(b), 0) : NaN];
  if (operator === '*' && !Number.isNaN(times) && ((isText(many) && !isSafe(many)) || list(many))) {
    if (isText(many)) {
      meter.countOutput(stringOf(many).length * times);
      if (!hasCallerText(many)) return stringOf(many).repeat(times);
      meter.countItems(times);
      return concat(['', ...Array(times).fill(many)]);
    }
    const length = many.length * times;
    meter.countItems(length);
    const repeated = Array.from({ length }, (_, i) => many[i % many.length]);
    return many instanceof Tuple ? Tuple.from(repeated) : repeated;
  }
  throw templateError(`the operation ${typeOf(a)} ${operator} ${typeOf(b)} is not supported`);
}
