/** Filters that compare, sort or group the items of a list, and the sorting that they share. */
import { isText, stringOf } from './template-texts.js';
import { textLength } from './text-operations.js';
import {
  compare,
  elements,
  equal,
  isNumber,
  keyOf,
  requireText,
  numberOf,
  templateError,
  isTrue,
  Tuple,
  Undefined,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @import { Filter, Host } from './filters.js' */

/**
 * Returns a function that returns an attribute of an item.
 * @param {any} value  name, or a path of names with points between them
 * @param {Host} host @returns {(item: any) => any}
 */
export function attribute(value, { member }) {
  const parts =
    typeof value === 'number'
      ? [value]
      : requireText(value)
          .split('.')
          .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  return (item) => parts.reduce(member, item);
}

/**
 * Like `attribute`; without a name, the function returns the item itself.
 * @param {any} name @param {Host} host @returns {(item: any) => any}
 */
export const picker = (name, host) => (name == null ? (item) => item : attribute(name, host));

/**
 * Creates the filters max and min.
 * @param {(order: number) => boolean} wins  whether an item that compares so with the best one so far replaces it
 * @returns {Filter}
 */
export const extremeFilter =
  (wins) =>
  (value, [sensitive = false, by], host) => {
    const get = picker(by, host);
    const fold = caseFolder(isTrue(sensitive), host.meter);
    const all = elements(value, host.meter).map((item) => ({ item, key: fold(get(item)) }));
    if (!all.length) return new Undefined('no element');
    return all.reduce((a, b) => (wins(compare(b.key, a.key, host.meter)) ? b : a)).item;
  };

/** @type {Filter} */
export function groupby(value, [name, otherwise, sensitive = false], host) {
  const attributeOf = attribute(name, host);
  const get = (/** @type {any} */ item) => {
    const result = attributeOf(item);
    return result instanceof Undefined && otherwise != null ? otherwise : result;
  };
  const fold = caseFolder(isTrue(sensitive), host.meter);
  /** @type {[any, any[]][]} */
  const groups = [];
  for (const item of sortItems(elements(value, host.meter), host.meter, { by: get, sensitive: isTrue(sensitive) })) {
    const last = groups.at(-1);
    if (last && equal(fold(last[0]), fold(get(item)), host.meter)) last[1].push(item);
    else groups.push([get(item), [item]]);
  }
  return groups.map(([grouper, list]) =>
    Object.assign(Tuple.from([grouper, list]), {
      names: new Map([
        ['grouper', grouper],
        ['list', list],
      ]),
    }),
  );
}

/** @type {Filter} */
export function unique(value, [sensitive = false, by], host) {
  const get = picker(by, host);
  const fold = caseFolder(isTrue(sensitive), host.meter);
  const seen = new Set();
  return elements(value, host.meter).filter((item) => {
    const picked = stringOf(fold(get(item)));
    host.meter.countInput(textLength(picked));
    const key = isNumber(picked) ? numberOf(picked) : keyOf(picked);
    return !seen.has(key) && seen.add(key);
  });
}

/**
 * Returns a sorted copy of a list.
 * @param {any[]} list @param {Meter} meter
 * @param {{ by?: (item: any) => any, sensitive?: boolean, reverse?: boolean }} how  by: returns the sort key of an
 *   item; sensitive: whether case matters
 */
export function sortItems(list, meter, { by = (item) => item, sensitive = false, reverse = false }) {
  meter.countItems(list.length);
  const lower = caseFolder(sensitive, meter);
  const keyed = Array.from(list, (item) => ({ item, key: lower(by(item)) }));
  if (keyed.some(({ key }) => key instanceof Undefined))
    throw templateError('sorting by undefined values is not supported');
  const order = keyed.sort((a, b) => {
    const sign = reverse ? compare(b.key, a.key, meter) : compare(a.key, b.key, meter);
    if (Number.isNaN(sign)) throw templateError("can't sort a list that contains NaN");
    return sign;
  });
  return order.map(({ item }) => item);
}

/**
 * Returns a function that converts texts to lower case for comparisons, unless `sensitive`.
 * @param {boolean} sensitive @param {Meter} meter
 */
const caseFolder = (sensitive, meter) => (/** @type {any} */ key) => {
  if (!isText(key) || sensitive) return key;
  meter.countItems(stringOf(key).length);
  return stringOf(key).toLowerCase();
};
