/**
 * Finds out how a chat template writes calls of tools: it renders conversations with calls of known names, arguments and ids, and looks
 * where these occur in the text. The template's source is not read.
 */
import { CALL_NOTATIONS, writeValue } from '../grammar/notations.js';

/** @import { Notation } from '../grammar/notations.js' */

/** Placeholders in a form for a call's name, its arguments, its id, and the number of calls before it. Private characters of Unicode. */
export const [NAME, ARGUMENTS, ID, COUNT] = ['\u{f0005}', '\u{f0006}', '\u{f0007}', '\u{f0008}'];
/** Splits a form at its placeholders, which it keeps. */
export const PLACEHOLDERS = new RegExp(`([${NAME}${ARGUMENTS}${ID}${COUNT}])`, 'u');

/** Arguments in a list of names and values: the texts around each name and value, and the notation of three words. @typedef {{ open: string, between: string, close: string, words: Record<'true' | 'false' | 'null', string> }} Fields */

/**
 * @typedef {object} CallForm
 * @property {string} first   the first call of a reply, with the text before it
 * @property {string | null} next  a further call; null: a reply has only one
 * @property {string} after   the text after the last call
 * @property {Fields | null} fields  null: arguments are in a notation
 * @property {string | null} notation  of arguments, by its name in grammar/notations.js; null: JSON, or `fields`
 * @property {boolean} texts  whether the template expects arguments as JSON texts, not as objects
 * @property {boolean} none   whether the template expects null as the content of a message with calls
 * @property {boolean} inContent  whether calls are a part of the content, as the template writes none
 * @property {string | null} contentRole  role of a message of its own for what is said before calls, as the template writes the content of
 *   their message behind the results; null: it doesn't
 * @property {boolean} joinsResults  whether the template reads results from the message with the calls, as `tool_responses`
 */

/** What most templates have. */
const USUAL = {
  fields: null,
  notation: null,
  texts: false,
  none: false,
  inContent: false,
  contentRole: null,
  joinsResults: false,
};

/** The form of calls where the system message describes the tools, because the template can't. @type {CallForm} */
export const DEFAULT_CALL_FORM = {
  ...USUAL,
  first: `<tool_call>\n{"name": "${NAME}", "arguments": ${ARGUMENTS}}\n</tool_call>`,
  next: `\n<tool_call>\n{"name": "${NAME}", "arguments": ${ARGUMENTS}}\n</tool_call>`,
  after: '',
};

/** Forms of models whose templates write tools and no calls, by a token that begins a call. @type {Map<string, CallForm>} */
export const FORMS_BY_TOKEN = new Map([
  // LFM2 and LFM2.5.
  [
    '<|tool_call_start|>',
    {
      ...USUAL,
      first: `<|tool_call_start|>[${NAME}(${ARGUMENTS})`,
      next: `, ${NAME}(${ARGUMENTS})`,
      after: ']<|tool_call_end|>',
      notation: 'python',
      inContent: true,
    },
  ],
]);

/** @typedef {(context: Record<string, any>) => string} Render */

const NAMES = ['qzprobe', 'qzother', 'qzthird'];
const IDS = ['qzcallone', 'qzcalltwo', 'qzcallsix'];
const [KEY, VALUE, SECOND, NUMBER] = ['qzkey', 'qzvalue', 'qzcount', 70917];
const USER = { role: 'user', content: 'qzquestion' };
const [SAID, RESULT] = ['qzanswer', 'qzresult'];

/** The reasoning before a call, which is not a part of it, by its closing mark. */
const REASONED = /^[^]*(?:<\/think>|\[\/THINK\]|<\|END_THINKING\|>|<\/seed:think>|<\/thinking>|<channel\|>)\s*/;

const TOOLS = NAMES.map((name) => ({
  type: 'function',
  function: {
    name,
    description: 'qzdescription',
    parameters: {
      type: 'object',
      properties: { [KEY]: { type: 'string' }, [SECOND]: { type: 'integer' } },
      required: [],
    },
  },
}));

/** The length of the common beginning of two texts. @param {string} a @param {string} b */
function alike(a, b) {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
}

/** A text without an incomplete tag at its end: `<|call` of `<|call_begin|>` and `<|calls_end|>`. @param {string} text */
const whole = (text) => text.replace(/(<[^>\s]*|\[[A-Za-z_/]*)$/, '');

/** The common beginning of two texts, without an incomplete tag. @param {string} a @param {string} b */
const common = (a, b) => whole(a.slice(0, alike(a, b)));

class Probe {
  #render;
  #ends;
  #how;

  /** @param {Render} render @param {string[]} ends @param {{ tools: boolean, texts: boolean, none: boolean }} how  `tools`: whether they are passed to the template */
  constructor(render, ends, how) {
    this.#render = render;
    this.#ends = ends;
    this.#how = how;
  }

  /** Renders a conversation. @param {any[]} messages @param {boolean} [prompt]  with the prompt for a reply */
  #text(messages, prompt = false) {
    return this.#render({ messages, tools: this.#how.tools ? TOOLS : null, add_generation_prompt: prompt });
  }

  /** The template's text of a reply; null: it refuses the reply, or the text before it depends on the reply. @param {any} message */
  #reply(message) {
    try {
      const text = this.#text([USER, { role: 'assistant', ...message }]);
      const prompt = this.#text([USER], true);
      if (text.startsWith(prompt)) return text.slice(prompt.length);
      const before = this.#text([USER]);
      if (!text.startsWith(before) || !prompt.startsWith(before)) return null;
      const commonStart = common(text.slice(before.length), prompt.slice(before.length));
      return text.slice(before.length + commonStart.length);
    } catch {
      return null;
    }
  }

  /** A text without the end of the turn. @param {string} text */
  #turn(text) {
    const message = this.#reply({ content: SAID }) ?? '';
    const end = message.slice(message.indexOf(SAID) + SAID.length);
    if (message.includes(SAID) && end && text.endsWith(end)) return text.slice(0, -end.length);
    const at = this.#ends.map((one) => text.indexOf(one)).filter((i) => i >= 0);
    return at.length ? text.slice(0, Math.min(...at)) : text;
  }

  /** The text of calls, with placeholders for names and ids; null: the template doesn't write them. @param {object[]} list  the arguments of each call */
  calls(list) {
    const tool_calls = list.map((args, i) => ({
      id: IDS[i],
      type: 'function',
      function: { name: NAMES[i], arguments: this.#how.texts ? JSON.stringify(args) : args },
    }));
    const text = this.#reply({ content: this.#how.none ? null : '', tool_calls });
    if (text === null || list.some((_, i) => !text.includes(NAMES[i]))) return null;
    const begin = Math.min(
      ...NAMES.concat(IDS)
        .map((one) => text.indexOf(one))
        .filter((at) => at >= 0),
    );
    const bare = text.slice(0, begin).replace(REASONED, '') + text.slice(begin);
    return this.#turn(list.reduce((all, _, i) => all.replaceAll(NAMES[i], NAME).replaceAll(IDS[i], ID), bare));
  }

  /** How the template reads results, and what is said before calls. @returns {Pick<CallForm, 'joinsResults' | 'contentRole'>} */
  conversation() {
    const [name, id] = [NAMES[0], IDS[0]];
    const tool_calls = [{ id, type: 'function', function: { name, arguments: this.#how.texts ? '{}' : {} } }];
    const message = { role: 'assistant', content: this.#how.none ? null : '', tool_calls };
    const result = { role: 'tool', tool_call_id: id, content: RESULT };
    const tool_responses = [{ name, response: RESULT }];
    const text = (/** @type {any[]} */ ...messages) => {
      try {
        return this.#text([USER, ...messages]);
      } catch {
        return '';
      }
    };
    const namesIn = (/** @type {string} */ found) => found.split(name).length;
    // A template that reads messages with results finds the function's name by the id.
    const joinsResults =
      text({ ...message, tool_responses }).includes(RESULT) && namesIn(text(message, result)) <= namesIn(text(message));
    const whole = joinsResults
      ? text({ ...message, content: SAID, tool_responses })
      : text({ ...message, content: SAID }, result);
    if (!whole.includes(RESULT) || whole.indexOf(SAID) < whole.indexOf(RESULT))
      return { joinsResults, contentRole: null };
    const textAs = (/** @type {string} */ role) => text({ role, content: SAID });
    return { joinsResults, contentRole: textAs('model') === textAs('assistant') ? 'model' : 'assistant' };
  }

  /** A call's text with a placeholder for its arguments; null: they are not JSON. @param {string} text @param {object} args */
  static json(text, args) {
    const wanted = JSON.stringify(args);
    for (let at = text.indexOf('{'); at >= 0; at = text.indexOf('{', at + 1))
      for (let end = text.indexOf('}', at); end >= 0; end = text.indexOf('}', end + 1)) {
        try {
          if (JSON.stringify(JSON.parse(text.slice(at, end + 1))) !== wanted) continue;
        } catch {
          continue;
        }
        return text.slice(0, at) + ARGUMENTS + text.slice(end + 1);
      }
    return null;
  }
}

/** A call's text with a placeholder for its arguments; null: they are not in this notation. @param {string} text @param {object} args @param {Notation} notation */
function noted(text, args, notation) {
  for (const quote of notation.quotes) {
    const written = writeValue(args, { ...notation, quotes: [quote] }, notation.root);
    const at = text.indexOf(written);
    if (at >= 0) return text.slice(0, at) + ARGUMENTS + text.slice(at + written.length);
  }
  return null;
}

/** Replaces the arguments in the texts of one, two and three calls; null where one isn't found. @param {(string | null)[]} texts @param {(text: string) => string | null} replace */
const markAll = (texts, replace) =>
  texts.map((text, i) => {
    for (let n = 0; n <= i && text !== null; n++) text = replace(text);
    return text;
  });

/** Splits the texts of one, two and three calls into the first call, a further one, and the text after the last. @param {string} one @param {string | null} two @param {string | null} three */
function split(one, two, three) {
  const rest = two !== null && three !== null ? splitNext(one, two, three) : null;
  return { ...USUAL, ...(rest ?? { first: one, next: null, after: '' }) };
}

/** @param {string} one @param {string} two @param {string} three */
function splitNext(one, two, three) {
  const first = common(one, two);
  const after = one.slice(first.length);
  if (!two.endsWith(after) || !three.endsWith(after) || !three.startsWith(first)) return null;
  const second = two.slice(first.length, two.length - after.length);
  const both = three.slice(first.length, three.length - after.length);
  if (both === second + second) return { first, next: second, after };
  // The calls are numbered.
  for (const found of second.match(/\d+/g) ?? []) {
    const next = second.replace(found, COUNT);
    const all = next.replace(COUNT, found) + next.replace(COUNT, String(Number(found) + 1));
    const firstCall = first.replace(String(Number(found) - 1), COUNT);
    if (both === all && firstCall !== first) return { first: firstCall, next, after };
  }
  return null;
}

/** The notation of arguments that are not JSON; null: it isn't a list of names and values. @param {(args: object) => string | null} written */
function fieldsOf(written) {
  const [none, one, two] = [{}, { [KEY]: VALUE }, { [KEY]: VALUE, [SECOND]: NUMBER }].map(written);
  if (none === null || one === null || two === null || !one.includes(VALUE) || !one.includes(KEY)) return null;
  const name = one.indexOf(KEY);
  const value = one.indexOf(VALUE, name);
  if (one.indexOf(NAME) > name || value < 0) return null;
  const head = one.slice(0, name);
  const before = common(head, none);
  const open = head.slice(before.length);
  const between = one.slice(name + KEY.length, value);
  const tail = one.slice(value + VALUE.length);
  const rest = none.slice(before.length);
  if (!tail.endsWith(rest)) return null;
  const close = tail.slice(0, tail.length - rest.length);
  const field = (/** @type {string} */ key, /** @type {string} */ text) => open + key + between + text + close;
  if (!open || !close || two !== before + field(KEY, VALUE) + field(SECOND, String(NUMBER)) + rest) return null;
  // Text values must be written as they are, not as JSON.
  if (written({ [KEY]: 'qz"\\' }) !== before + field(KEY, 'qz"\\') + rest) return null;
  const word = (/** @type {any} */ one) =>
    written({ [KEY]: one })?.slice((before + open + KEY + between).length, -(close + rest).length) ?? '';
  const words = { true: word(true), false: word(false), null: word(null) };
  return { call: before + ARGUMENTS + rest, fields: { open, between, close, words } };
}

/** The form of calls whose arguments are in a notation besides JSON; null: they are not. @param {Probe} probe @param {(string | null)[]} written  one, two and three calls with these arguments @param {object} args @returns {CallForm | null} */
function notedFormOf(probe, written, args) {
  for (const notation of CALL_NOTATIONS) {
    const [one, two, three] = markAll(written, (text) => noted(text, args, notation));
    const isSame = [{ [KEY]: VALUE }, { [SECOND]: NUMBER }].every(
      (given) => noted(probe.calls([given]) ?? '', given, notation) === one,
    );
    if (one !== null && isSame) return { ...split(one, two, three), notation: notation.name };
  }
  return null;
}

/** @param {Probe} probe @param {{ texts: boolean, none: boolean }} how @returns {CallForm | null} */
function formOf(probe, { texts, none }) {
  const args = { [KEY]: VALUE, [SECOND]: NUMBER };
  const written = [1, 2, 3].map((n) => probe.calls(Array(n).fill(args)));
  const [one] = written;
  if (one === null) return null;
  const marked = markAll(written, (text) => Probe.json(text, args));
  if (marked[0] !== null) return { ...split(marked[0], marked[1], marked[2]), texts, none };
  if (texts) return null;
  const notedForm = notedFormOf(probe, written, args);
  if (notedForm) return { ...notedForm, none };
  const found = fieldsOf((given) => probe.calls([given]));
  if (!found) return null;
  const { call, fields } = found;
  const field = (/** @type {string} */ key, /** @type {any} */ value) =>
    fields.open + key + fields.between + value + fields.close;
  const all = field(KEY, VALUE) + field(SECOND, NUMBER);
  const [, two, three] = written.map((text) => text?.replaceAll(all, ARGUMENTS) ?? null);
  return { ...split(call, two, three), fields, texts, none };
}

/**
 * The form of a template's calls; null: it writes none, or in an unknown form.
 * @param {Render} render @param {string[]} ends  texts that end a turn
 * @returns {CallForm | null}
 */
export function callForm(render, ends) {
  const ways = [true, false].flatMap((tools) =>
    [false, true].flatMap((none) => [false, true].map((texts) => ({ tools, none, texts }))),
  );
  let isOwnNotation = false;
  for (const how of ways) {
    const probe = new Probe(render, ends, how);
    // Arguments that are written in a notation of the template's own come as JSON only where they were given as a text: no
    // model was trained with that.
    if (how.texts && isOwnNotation) continue;
    const form = formOf(probe, how);
    if (form && isUsable(form)) return { ...form, ...probe.conversation() };
    isOwnNotation ||= !how.texts && (probe.calls([{ [KEY]: VALUE }])?.includes(VALUE) ?? false);
  }
  return null;
}

/** Whether each call has a name and arguments once, and an id once at most. @param {CallForm} form */
function isUsable({ first, next }) {
  const times = (/** @type {string} */ text, /** @type {string} */ mark) => text.split(mark).length - 1;
  return [first, ...(next === null ? [] : [next])].every(
    (text) => times(text, NAME) === 1 && times(text, ARGUMENTS) === 1 && times(text, ID) <= 1 && !text.startsWith(NAME),
  );
}

/** Whether a template's text depends on the tools that it gets. @param {Render} render */
export function knowsTools(render) {
  try {
    const context = { messages: [USER], add_generation_prompt: true };
    return render({ ...context, tools: TOOLS }) !== render({ ...context, tools: null });
  } catch {
    return true;
  }
}
