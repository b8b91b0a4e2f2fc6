/**
 * Renders a model's own chat template as Python's jinja2 does with transformers' settings. The grammar is a library's
 * (@huggingface/jinja); its evaluator differs from jinja2 in equality, in what undefined and None do, in how values
 * print, and has no bound: ours is in evaluate.js.
 */
import { parse, tokenize } from '../../node_modules/@huggingface/jinja/dist/index.js';
import { BqError } from '../shared/errors.js';
import { Evaluator } from './evaluate.js';
import { fromJson, Meter, Namespace, str, templateError } from './values.js';

/** Longest template, in characters; the longest in use have 30,000. */
const LONGEST = 2 ** 18;

const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/** Python's `strftime` in English, as far as templates use it. @param {string} format @param {Date} date */
function strftime(format, date) {
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  const hour = date.getHours() % 12 || 12;
  const first = new Date(date.getFullYear(), 0, 1);
  /** @type {Record<string, string>} */
  const parts = {
    Y: String(date.getFullYear()),
    y: two(date.getFullYear() % 100),
    m: two(date.getMonth() + 1),
    d: two(date.getDate()),
    B: MONTHS[date.getMonth()],
    b: MONTHS[date.getMonth()].slice(0, 3),
    A: DAYS[date.getDay()],
    a: DAYS[date.getDay()].slice(0, 3),
    H: two(date.getHours()),
    I: two(hour),
    M: two(date.getMinutes()),
    S: two(date.getSeconds()),
    p: date.getHours() < 12 ? 'AM' : 'PM',
    j: String(
      Math.round((new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime() - first.getTime()) / 864e5) +
        1,
    ).padStart(3, '0'),
    '%': '%',
  };
  return format.replace(/%(-?)([A-Za-z%])/g, (all, bare, letter) => {
    if (parts[letter] === undefined) throw templateError(`a date's "${all}"`);
    return bare ? parts[letter].replace(/^0+(?=.)/, '') : parts[letter];
  });
}

/** @typedef {import('./methods.js').Args} Args */

/** @param {Meter} meter @param {Date} now @returns {Record<string, any>} */
const globals = (meter, now) => ({
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  raise_exception(/** @type {Args} */ { at: [message] }) {
    throw templateError(str(message, meter));
  },
  strftime_now: (/** @type {Args} */ { at: [format] }) => strftime(str(format, meter), now),
  range(/** @type {Args} */ { at }) {
    const [start, stop, step] = at.length === 1 ? [0, at[0], 1] : [at[0], at[1], at[2] ?? 1];
    if (!at.every(Number.isInteger) || !step) throw templateError('a range of what is no number');
    const length = Math.max(0, Math.ceil((stop - start) / step));
    meter.room(length * 8);
    return Array.from({ length }, (_, i) => start + i * step);
  },
  dict: (/** @type {Args} */ { at, named }) => new Map([...(at[0] ?? []), ...named]),
  namespace: (/** @type {Args} */ { at, named }) => new Namespace(new Map([...(at[0] ?? []), ...named])),
  joiner(/** @type {Args} */ { at: [text = ', '] }) {
    let used = false;
    return () => (used ? text : ((used = true), ''));
  },
  cycler(/** @type {Args} */ { at }) {
    let i = 0;
    /** @type {Record<string, () => any>} */
    const members = { next: () => at[i++ % at.length], reset: () => ((i = 0), null) };
    return new Map(Object.entries(members));
  },
});

/** @param {string} what @param {() => any} work  whatever goes wrong in it is a template's fault */
function guarded(what, work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof BqError) throw error;
    throw templateError(
      `${what}: ${error instanceof RangeError ? 'it is nested too deeply' : /** @type {any} */ (error)?.message}`,
      error,
    );
  }
}

/**
 * A template, ready to be rendered. TEMPLATE: it can't be parsed; of rendering: it refuses the messages, needs what is
 * missing, goes on without end.
 * @param {string} source
 * @returns {(context: Record<string, any>, now?: Date) => string}  plain values by name, as of JSON
 */
export function compile(source) {
  if (source.length > LONGEST) throw templateError(`it has ${source.length.toLocaleString('en')} characters`);
  // A run of white space costs the parser its square.
  if (/\s{2000}/.test(source)) throw templateError('it has thousands of spaces in a row');
  const text = source.replace(/\r\n?/g, '\n');
  const program = guarded('it can not be parsed', () =>
    parse(tokenize(text, { lstrip_blocks: true, trim_blocks: true })),
  );
  return (context, now = new Date()) => {
    const meter = new Meter();
    const names = {
      ...globals(meter, now),
      ...Object.fromEntries(Object.entries(context).map(([name, value]) => [name, fromJson(value)])),
    };
    return guarded('it can not be rendered', () => new Evaluator(meter).run(program, names));
  };
}
