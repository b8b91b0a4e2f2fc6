/** Methods of texts, lists and dicts that a template can call: Python's, except those that change the value. */
import { bindArguments } from './arguments.js';
import { format } from './format-text.js';
import { isSafe, isText, stringOf } from './template-texts.js';
import { TEXT_METHODS } from './text-methods.js';
import { textLength } from './text-operations.js';
import { Dict, entriesOf, equal, lookUp, keyOf, keysOf, templateError, typeOf, View } from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {import('./arguments.js').Args} Args */

/** @type {Record<string, [string, (dict: Map<any, any>, values: any[], meter: Meter) => any]>} */
const DICT_METHODS = {
  get: [
    'key otherwise?',
    (dict, [key, otherwise = null], meter) =>
      (meter.countInput(textLength(key)), lookUp(dict, key)) ?? (hasKey(dict, key) ? null : otherwise),
  ],
  items: ['', (dict, _, meter) => (meter.countItems(16 * dict.size), View.make(entriesOf(dict), 'dict_items'))],
  keys: ['', (dict) => View.make(keysOf(dict), 'dict_keys')],
  values: ['', (dict) => View.make([...dict.values()], 'dict_values')],
  copy: ['', (dict, _, meter) => (meter.countItems(8 * dict.size), copyDict(dict))],
};

/** @param {Map<any, any>} dict @param {any} key */
const hasKey = (dict, key) => dict.has(keyOf(key)) || lookUp(dict, key) !== undefined;

/** @param {Map<any, any>} dict */
function copyDict(dict) {
  const copy = new Dict(dict);
  copy.hasCallerKeys = dict instanceof Dict && dict.hasCallerKeys;
  return copy;
}

/** @type {Record<string, [string, (list: any[], values: any[], meter: Meter) => any]>} */
const LIST_METHODS = {
  index: [
    'value',
    (list, [value], meter) => {
      const i = list.findIndex((item) => equal(item, value, meter));
      if (i < 0) throw templateError('index(): the list does not contain the value');
      return i;
    },
  ],
  count: ['value', (list, [value], meter) => Array.from(list).filter((item) => equal(item, value, meter)).length],
  copy: ['', (list) => [...list]],
};

const names = (/** @type {string} */ text) => text.split(' ');
/**
 * Members of Python's types that are not supported, some of them because they change the value.
 * @type {Record<string, string[]>}
 */
const UNSUPPORTED_MEMBERS = {
  str: names('encode expandtabs format_map isidentifier isprintable istitle maketrans translate'),
  dict: names('clear fromkeys pop popitem setdefault update'),
  list: names('append clear extend insert pop remove reverse sort'),
  tuple: [],
  int: names(
    'as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real to_bytes',
  ),
  float: names('as_integer_ratio conjugate fromhex hex imag is_integer real'),
  generator: names('close gi_code gi_frame gi_running send throw'),
  range: names('count index start step stop'),
  dict_keys: names('isdisjoint mapping'),
  dict_items: names('isdisjoint mapping'),
  dict_values: ['mapping'],
};
UNSUPPORTED_MEMBERS.bool = UNSUPPORTED_MEMBERS.int;
/** Unsupported members that are not methods. */
const UNSUPPORTED_ATTRIBUTES = names(
  'denominator imag mapping numerator real start step stop gi_code gi_frame gi_running',
);

/**
 * Returns a method of a value as a function, or undefined for an unknown name.
 * @param {any} value @param {any} key @returns {((args: Args, meter: Meter) => any) | undefined}
 */
export function method(value, key) {
  const name = stringOf(key);
  if (typeof name !== 'string') return undefined;
  const type = typeOf(value);
  if (Object.hasOwn(UNSUPPORTED_MEMBERS, type) && UNSUPPORTED_MEMBERS[type].includes(name)) {
    const refuse = () => {
      throw templateError(`${type}.${name} is not supported in a chat template`);
    };
    return UNSUPPORTED_ATTRIBUTES.includes(name) ? refuse() : refuse;
  }
  const subject = `${type}.${name}`;
  if (type === 'str') {
    if (name === 'format')
      return (args, meter) => (refuseSafe(value, subject), meter.countText(format(value, args, meter)));
    if (!Object.hasOwn(TEXT_METHODS, name)) return undefined;
    const [signature, call] = TEXT_METHODS[name];
    return (args, meter) => {
      refuseSafe(value, subject);
      meter.count();
      const result = call(value, bindArguments(subject, args, signature), meter);
      return isText(result) ? meter.countText(result) : result;
    };
  }
  const table = /** @type {Record<string, [string, any]>} */ (
    value instanceof Map ? DICT_METHODS : type === 'list' || type === 'tuple' ? LIST_METHODS : {}
  );
  if (!Object.hasOwn(table, name) || (type === 'tuple' && name === 'copy')) return undefined;
  const [signature, call] = table[name];
  return (args, meter) => {
    meter.countItems(value.size ?? value.length);
    return call(value, bindArguments(subject, args, signature), meter);
  };
}

/** Throws TEMPLATE for a safe text. @param {any} value @param {string} subject  of the message */
function refuseSafe(value, subject) {
  if (isSafe(value)) throw templateError(`${subject} is not supported for safe strings`);
}
