/**
 * Renders a model's chat template with the same result as Python's jinja2 with the settings of transformers. The
 * template is parsed (lexer.js, parse.js), and its tree is evaluated (evaluate.js) with values of Python's types
 * (values.js), their methods (methods.js, text-methods.js), and filters (filters.js, list-filters.js).
 */
import { BqError } from '../../shared/errors.js';
import { Evaluator } from './evaluate.js';
import { parseTemplate } from './parse.js';
import { stringOf } from './template-texts.js';
import { Callable, Dict, elements, fromJson, Meter, Namespace, str, templateError, typeOf, View } from './values.js';

/** Maximum length of a template, in characters; the longest known ones have 30,000. */
const MAX_TEMPLATE_LENGTH = 2 ** 18;
/** Maximum length of a range, the same as in jinja2's sandbox. */
const MAX_RANGE = 100_000;

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

/**
 * Formats a date like Python's `strftime` in English, with the directives that templates use.
 * @param {string} format @param {Date} date
 */
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
    if (parts[letter] === undefined) throw templateError(`strftime_now(): "${all}" is not supported`);
    return bare ? parts[letter].replace(/^0+(?=.)/, '') : parts[letter];
  });
}

/** @typedef {import('./arguments.js').Args} Args */

/** Creates the dict for a call of `dict()` or `namespace()`. @param {Args} args @param {Meter} meter */
function dictOf({ at, named }, meter) {
  if (at.length > 1) throw templateError(`dict() takes at most 1 argument, found ${at.length}`);
  const dict = new Dict();
  const [from] = at;
  if (from instanceof Dict) dict.hasCallerKeys = from.hasCallerKeys;
  else if (from !== undefined && !(from instanceof Map))
    throw templateError(`dict() expects a dict, found a value of type ${typeOf(from)}`);
  meter.countItems(8 * (from?.size ?? 0));
  for (const [key, value] of [...(from ?? []), ...named]) dict.set(key, value);
  return dict;
}

/**
 * Returns the functions that a template can call.
 * @param {Meter} meter @param {Date} now @returns {Record<string, (args: Args) => any>}
 */
const functions = (meter, now) => ({
  raise_exception({ at: [message] }) {
    throw templateError(str(message, meter));
  },
  strftime_now: ({ at: [format] }) => strftime(str(format, meter), now),
  range({ at, named }) {
    if (!at.length || at.length > 3 || named.size || !at.every(isInteger))
      throw templateError('range() expects one to three integers');
    const numbers = at.map(Number);
    const [start, stop, step] = at.length === 1 ? [0, numbers[0], 1] : [numbers[0], numbers[1], numbers[2] ?? 1];
    if (!step) throw templateError('the step of range() must not be 0');
    const length = Math.max(0, Math.ceil((stop - start) / step));
    if (length > MAX_RANGE)
      throw templateError(
        `range() with ${length.toLocaleString('en')} numbers; at most ${MAX_RANGE.toLocaleString('en')} are allowed`,
      );
    meter.countItems(length);
    return View.make(
      Array.from({ length }, (_, i) => start + i * step),
      'range',
      `range(${start}, ${stop}${step === 1 ? '' : `, ${step}`})`,
    );
  },
  dict: (args) => dictOf(args, meter),
  namespace: (args) => new Namespace(dictOf(args, meter)),
  joiner({ at: [text = ', '] }) {
    let used = false;
    return new Callable('joiner', () => (used ? text : ((used = true), '')));
  },
  cycler({ at }) {
    if (!at.length) throw templateError('cycler() expects at least one value');
    let i = 0;
    const members = new Map([
      ['next', new Callable('next', () => at[i++ % at.length])],
      ['reset', new Callable('reset', () => ((i = 0), null))],
    ]);
    return new Callable('cycler', () => elements(null, meter), members);
  },
  lipsum() {
    throw templateError('lipsum is not supported');
  },
  self() {
    throw templateError('self is not supported');
  },
});

/** Whether a value is an integer or, as in Python, a boolean. @param {any} value */
const isInteger = (value) => typeof value === 'number' || typeof value === 'boolean';

/**
 * Runs a function and converts all its errors to TEMPLATE errors.
 * @param {string} problem  beginning of their messages
 * @param {() => any} work
 */
function withTemplateErrors(problem, work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof BqError) throw error;
    throw templateError(
      `${problem}: ${error instanceof RangeError ? 'it is nested too deeply' : /** @type {any} */ (error)?.message}`,
      error,
    );
  }
}

/**
 * Parses a template and returns the function that renders it. Throws TEMPLATE if parsing fails. The returned function
 * throws TEMPLATE if the template rejects the messages, uses a missing value, or does not end.
 * @param {string} source
 * @returns {(trusted: Record<string, any>, fromCaller: Record<string, any>, now?: Date) => string |
 *   import('./template-texts.js').Text} `trusted` and `fromCaller` are JSON values by name. In the result, texts of
 *   `fromCaller` are marked.
 */
export function prepare(source) {
  if (source.length > MAX_TEMPLATE_LENGTH)
    throw templateError(
      `it has ${source.length.toLocaleString('en')} characters; at most ${MAX_TEMPLATE_LENGTH.toLocaleString('en')} are allowed`,
    );
  const program = withTemplateErrors("it can't be parsed", () => parseTemplate(source));
  return (trusted, fromCaller, now = new Date()) =>
    withTemplateErrors("it can't be rendered", () => {
      const meter = new Meter();
      /** @type {Map<string, any>} */
      const names = new Map();
      for (const [name, call] of Object.entries(functions(meter, now))) names.set(name, new Callable(name, call));
      for (const [name, value] of Object.entries(fromCaller)) names.set(name, fromJson(value, false));
      for (const [name, value] of Object.entries(trusted)) names.set(name, fromJson(value, true));
      return new Evaluator(meter).run(program, names);
    });
}

/**
 * Like `prepare`, for rendering without marked texts.
 * @param {string} source @returns {(context: Record<string, any>, now?: Date) => string}
 */
export function compile(source) {
  const render = prepare(source);
  return (context, now) => stringOf(render(context, {}, now));
}
