/** Renders a model's own chat template as Python's jinja2 does with transformers' settings. */
import { BqError } from '../../shared/errors.js';
import { Evaluator } from './evaluate.js';
import { parseTemplate } from './parse.js';
import { plain } from './template-texts.js';
import { Callable, Dict, elements, fromJson, Meter, Namespace, needWhole, str, templateError, View } from './values.js';

/** Longest template, in characters; the longest in use have 30,000. */
const LONGEST = 2 ** 18;
/** Longest range, as jinja2's sandbox has it. */
const LONGEST_RANGE = 100_000;

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

/** What `dict` and `namespace` are made of. @param {Args} args @param {Meter} meter */
function dictOf({ at, named }, meter) {
  if (at.length > 1) throw templateError('a dict of several values');
  const dict = new Dict();
  const [from] = at;
  if (from instanceof Dict) dict.given = from.given;
  else if (from !== undefined && !(from instanceof Map))
    throw templateError('dict() of a value that is not a dict, which is not supported');
  meter.items(8 * (from?.size ?? 0));
  for (const [key, value] of [...(from ?? []), ...named]) dict.set(key, value);
  return dict;
}

/** @param {Meter} meter @param {Date} now @returns {Record<string, (args: Args) => any>} */
const functions = (meter, now) => ({
  raise_exception({ at: [message] }) {
    throw templateError(str(message, meter));
  },
  strftime_now: ({ at: [format] }) => strftime(str(format, meter), now),
  range({ at, named }) {
    if (!at.length || at.length > 3 || named.size) throw templateError('a range takes one to three whole numbers');
    const numbers = at.map(needWhole);
    const [start, stop, step] = at.length === 1 ? [0, numbers[0], 1] : [numbers[0], numbers[1], numbers[2] ?? 1];
    if (!step) throw templateError('a range in steps of nothing');
    const length = Math.max(0, Math.ceil((stop - start) / step));
    if (length > LONGEST_RANGE) throw templateError(`a range of ${length.toLocaleString('en')} numbers`);
    meter.items(length);
    const shown = `range(${start}, ${stop}${step === 1 ? '' : `, ${step}`})`;
    return View.make(
      Array.from({ length }, (_, i) => start + i * step),
      'range',
      shown,
    );
  },
  dict: (args) => dictOf(args, meter),
  namespace: (args) => new Namespace(dictOf(args, meter)),
  joiner({ at: [text = ', '] }) {
    let used = false;
    return new Callable('joiner', () => (used ? text : ((used = true), '')));
  },
  cycler({ at }) {
    if (!at.length) throw templateError('at least one item has to be provided to a cycler');
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
 * @returns {(own: Record<string, any>, given: Record<string, any>, now?: Date) => string | import('./template-texts.js').Text}
 *   `own`, `given`: plain values by name, as of JSON; texts of those given are marked as such in what comes of it
 */
export function prepare(source) {
  if (source.length > LONGEST) throw templateError(`it has ${source.length.toLocaleString('en')} characters`);
  const program = guarded('it can not be parsed', () => parseTemplate(source));
  return (own, given, now = new Date()) =>
    guarded('it can not be rendered', () => {
      const meter = new Meter();
      /** @type {Map<string, any>} */
      const names = new Map();
      for (const [name, call] of Object.entries(functions(meter, now))) names.set(name, new Callable(name, call));
      for (const [name, value] of Object.entries(given)) names.set(name, fromJson(value, false));
      for (const [name, value] of Object.entries(own)) names.set(name, fromJson(value, true));
      return new Evaluator(meter).run(program, names);
    });
}

/** The same where nothing is told apart. @param {string} source @returns {(context: Record<string, any>, now?: Date) => string} */
export function compile(source) {
  const render = prepare(source);
  return (context, now) => plain(render(context, {}, now));
}
