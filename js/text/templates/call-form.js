/**
 * Determines how a chat template writes tool calls. Conversations with calls of known names, arguments and ids are
 * rendered, and these are searched for in the text. The source of the template is not parsed for this.
 */
import { CALL_NOTATIONS, writeValue } from '../grammar/notations.js';

/** @import { Notation } from '../grammar/notations.js' */

/**
 * Placeholders in a form for a call's name, its arguments, its id, and the number of calls before it: private-use
 * characters of Unicode.
 */
export const [NAME, ARGUMENTS, ID, COUNT] = ['\u{f0005}', '\u{f0006}', '\u{f0007}', '\u{f0008}'];
/** Pattern that splits a form at its placeholders; the placeholders are kept. */
export const PLACEHOLDERS = new RegExp(`([${NAME}${ARGUMENTS}${ID}${COUNT}])`, 'u');

/**
 * Arguments written as a list of names and values: texts around each name and value, and spellings of three words.
 * @typedef {{ open: string, between: string, close: string, words: Record<'true' | 'false' | 'null', string> }} Fields
 */

/**
 * @typedef {object} CallForm
 * @property {string} first   the first call of a reply, with the text before it
 * @property {string | null} next  a further call; null: a reply has only one call
 * @property {string} after   text after the last call
 * @property {Fields | null} fields  list of names and values; null: arguments are in a notation
 * @property {string | null} notation  name of the arguments' notation in grammar/notations.js; null: JSON, or `fields`
 * @property {boolean} texts  whether the template expects arguments as JSON texts instead of objects
 * @property {boolean} none   whether the template expects null as the content of a message with calls
 * @property {boolean} inContent  whether calls are passed as a part of the content, because the template writes none,
 *   or none that can be read back
 * @property {string | null} contentRole  role of a separate message for the text before calls, needed if the template
 *   writes the content of a message with calls after the results; null: not needed
 * @property {boolean} joinsResults  whether the template expects results in the message with the calls, as
 *   `tool_responses`
 * @property {string | null} resultRole  role of messages with results, if the template ignores messages of role `tool`;
 *   otherwise null
 */

/** Properties of the form of most templates. */
const DEFAULTS = {
  fields: null,
  notation: null,
  texts: false,
  none: false,
  inContent: false,
  contentRole: null,
  joinsResults: false,
  resultRole: null,
};

/** Form of calls if the template does not support tools, so that the system message describes them. @type {CallForm} */
export const DEFAULT_CALL_FORM = {
  ...DEFAULTS,
  first: `<tool_call>\n{"name": "${NAME}", "arguments": ${ARGUMENTS}}\n</tool_call>`,
  next: `\n<tool_call>\n{"name": "${NAME}", "arguments": ${ARGUMENTS}}\n</tool_call>`,
  after: '',
};

/**
 * Forms of models whose templates write tools but no calls, by a token that begins a call.
 * @type {Map<string, CallForm>}
 */
export const FORMS_BY_TOKEN = new Map([
  // LFM2 and LFM2.5.
  [
    '<|tool_call_start|>',
    {
      ...DEFAULTS,
      first: `<|tool_call_start|>[${NAME}(${ARGUMENTS})`,
      next: `, ${NAME}(${ARGUMENTS})`,
      after: ']<|tool_call_end|>',
      notation: 'python',
      inContent: true,
    },
  ],
  // Granite 3.0 to 3.3.
  [
    '<|tool_call|>',
    {
      ...DEFAULTS,
      first: `<|tool_call|>[{"name": "${NAME}", "arguments": ${ARGUMENTS}}`,
      next: `, {"name": "${NAME}", "arguments": ${ARGUMENTS}}`,
      after: ']',
      inContent: true,
    },
  ],
]);

/** Roles of results in templates that pass over messages of the role `tool`. */
const RESULT_ROLES = ['tool_response', 'function', 'ipython', 'observation'];

/** @typedef {(context: Record<string, any>) => string} Render */

const NAMES = ['qzprobe', 'qzother', 'qzthird'];
const IDS = ['qzcallone', 'qzcalltwo', 'qzcallsix'];
const [KEY, VALUE, SECOND, NUMBER] = ['qzkey', 'qzvalue', 'qzcount', 70917];
const USER = { role: 'user', content: 'qzquestion' };
const [ANSWER, RESULT] = ['qzanswer', 'qzresult'];

/** Reasoning before a call, up to its closing mark. It is not a part of the call. */
const REASONING = /^[^]*(?:<\/think>|\[\/THINK\]|<\|END_THINKING\|>|<\/seed:think>|<\/thinking>|<channel\|>)\s*/;

const TOOLS = NAMES.map((name) => ({
  type: 'function',
  function: {
    name,
    description: 'qzdescription',
    parameters: {
      type: 'object',
      properties: {
        [KEY]: { type: 'string', description: 'qzdescription' },
        [SECOND]: { type: 'integer', description: 'qzdescription' },
      },
      required: [],
    },
  },
}));

/** Returns the length of the common prefix of two strings. @param {string} a @param {string} b */
function commonLength(a, b) {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
}

/**
 * Removes an incomplete tag at the end: `<|call`, the common prefix of `<|call_begin|>` and `<|calls_end|>`.
 * @param {string} text
 */
const withoutOpenTag = (text) => text.replace(/(<[^>\s]*|\[[A-Za-z_/]*)$/, '');

/** Returns the common prefix of two strings, without an incomplete tag. @param {string} a @param {string} b */
const common = (a, b) => withoutOpenTag(a.slice(0, commonLength(a, b)));

/**
 * Returns the reply within a text whose template writes the same words at the end after every reply (Command R+).
 * Returns null if the text before the reply differs, too.
 * @param {string} text  text with the reply @param {string} before  text without it
 * @param {string} prompt  prompt for replies, which follows the conversation in `before`
 */
function inserted(text, before, prompt) {
  const length = text.length - before.length;
  for (let at = commonLength(text, before); at >= 0 && text.endsWith(before.slice(at)); at--)
    if (text.startsWith(prompt, at)) return text.slice(at + prompt.length, at + length);
  return null;
}

/** Renders conversations with calls in one way of passing them to the template. */
class Probe {
  #render;
  #ends;
  #options;

  /**
   * @param {Render} render @param {string[]} ends  texts that end a turn
   * @param {{ tools: boolean, texts: boolean, none: boolean }} options  `tools`: whether tools are passed to the
   *   template; `texts`, `none`: see CallForm
   */
  constructor(render, ends, options) {
    this.#render = render;
    this.#ends = ends;
    this.#options = options;
  }

  /**
   * Renders a conversation.
   * @param {any[]} messages @param {boolean} [prompt]  whether to add the prompt for a reply
   */
  #text(messages, prompt = false) {
    return this.#render({ messages, tools: this.#options.tools ? TOOLS : null, add_generation_prompt: prompt });
  }

  /**
   * Returns the text that the template writes for a reply. Returns null if the template rejects the reply, or if the
   * text before the reply depends on it.
   * @param {any} message
   */
  #reply(message) {
    try {
      const text = this.#text([USER, { role: 'assistant', ...message }]);
      const prompt = this.#text([USER], true);
      if (text.startsWith(prompt)) return text.slice(prompt.length);
      const before = this.#text([USER]);
      if (!prompt.startsWith(before)) return null;
      if (!text.startsWith(before)) return inserted(text, before, prompt.slice(before.length));
      const commonStart = common(text.slice(before.length), prompt.slice(before.length));
      return text.slice(before.length + commonStart.length);
    } catch {
      return null;
    }
  }

  /** Removes the end of the turn from a text. @param {string} text */
  #withoutTurnEnd(text) {
    const message = this.#reply({ content: ANSWER }) ?? '';
    const end = message.slice(message.indexOf(ANSWER) + ANSWER.length);
    if (message.includes(ANSWER) && end && text.endsWith(end)) return text.slice(0, -end.length);
    const at = this.#ends.map((one) => text.indexOf(one)).filter((i) => i >= 0);
    return at.length ? text.slice(0, Math.min(...at)) : text;
  }

  /**
   * Returns the text of calls, with placeholders for names and ids, or null if the template does not write calls.
   * @param {object[]} list  the arguments of each call
   */
  calls(list) {
    const tool_calls = list.map((args, i) => ({
      id: IDS[i],
      type: 'function',
      function: { name: NAMES[i], arguments: this.#options.texts ? JSON.stringify(args) : args },
    }));
    const text = this.#reply({ content: this.#options.none ? null : '', tool_calls });
    if (text === null || list.some((_, i) => !text.includes(NAMES[i]))) return null;
    const begin = Math.min(
      ...NAMES.concat(IDS)
        .map((one) => text.indexOf(one))
        .filter((at) => at >= 0),
    );
    const withoutReasoning = text.slice(0, begin).replace(REASONING, '') + text.slice(begin);
    return this.#withoutTurnEnd(
      list.reduce((all, _, i) => all.replaceAll(NAMES[i], NAME).replaceAll(IDS[i], ID), withoutReasoning),
    );
  }

  /**
   * Determines how results, and content before calls, must be passed to the template.
   * @returns {Pick<CallForm, 'joinsResults' | 'contentRole' | 'resultRole'>}
   */
  conversation() {
    const [name, id] = [NAMES[0], IDS[0]];
    const tool_calls = [{ id, type: 'function', function: { name, arguments: this.#options.texts ? '{}' : {} } }];
    const message = { role: 'assistant', content: this.#options.none ? null : '', tool_calls };
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
    // A template that supports messages with results writes the function's name there, which it finds by the id.
    const joinsResults =
      text({ ...message, tool_responses }).includes(RESULT) && namesIn(text(message, result)) <= namesIn(text(message));
    const all = joinsResults
      ? text({ ...message, content: ANSWER, tool_responses })
      : text({ ...message, content: ANSWER }, result);
    const resultRole = all.includes(RESULT) ? null : resultRoleOf(this.#render);
    if (!all.includes(RESULT) || all.indexOf(ANSWER) < all.indexOf(RESULT))
      return { joinsResults, contentRole: null, resultRole };
    const textAs = (/** @type {string} */ role) => text({ role, content: ANSWER });
    return { joinsResults, contentRole: textAs('model') === textAs('assistant') ? 'model' : 'assistant', resultRole };
  }

  /**
   * Replaces the arguments in a call by a placeholder. Returns null if they are not JSON.
   * @param {string} text @param {object} args
   */
  static markJson(text, args) {
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

/**
 * Replaces the arguments in a call by a placeholder. Returns null if they are not in this notation.
 * @param {string} text @param {object} args @param {Notation} notation
 */
function markNotation(text, args, notation) {
  for (const quote of notation.quotes) {
    const written = writeValue(args, { ...notation, quotes: [quote] }, notation.root);
    const at = text.indexOf(written);
    if (at >= 0) return text.slice(0, at) + ARGUMENTS + text.slice(at + written.length);
  }
  return null;
}

/**
 * Replaces the arguments in the texts of one, two and three calls. A result is null if arguments are not found.
 * @param {(string | null)[]} texts @param {(text: string) => string | null} replace
 */
const markAll = (texts, replace) =>
  texts.map((text, i) => {
    for (let n = 0; n <= i && text !== null; n++) text = replace(text);
    return text;
  });

/**
 * Splits the texts of one, two and three calls into the first call, a further one, and the text after the last.
 * @param {string} one @param {string | null} two @param {string | null} three
 */
function split(one, two, three) {
  const rest = two !== null && three !== null ? splitNext(one, two, three) : null;
  return { ...DEFAULTS, ...(rest ?? { first: one, next: null, after: '' }) };
}

/**
 * Like `split`; returns null if the texts of further calls are not regular.
 * @param {string} one @param {string} two @param {string} three
 */
function splitNext(one, two, three) {
  const first = common(one, two);
  const after = one.slice(first.length);
  if (!two.endsWith(after) || !three.endsWith(after) || !three.startsWith(first)) return null;
  const second = two.slice(first.length, two.length - after.length);
  const both = three.slice(first.length, three.length - after.length);
  if (both === second + second) return { first, next: second, after };
  // Perhaps the calls are numbered.
  for (const found of second.match(/\d+/g) ?? []) {
    const next = second.replace(found, COUNT);
    const all = next.replace(COUNT, found) + next.replace(COUNT, String(Number(found) + 1));
    const firstCall = first.replace(String(Number(found) - 1), COUNT);
    if (both === all && firstCall !== first) return { first: firstCall, next, after };
  }
  return null;
}

/**
 * Returns the form of arguments that are a list of names and values, or null if they are not.
 * @param {(args: object) => string | null} write  returns the text of a call
 */
function fieldsOf(write) {
  const [none, one, two] = [{}, { [KEY]: VALUE }, { [KEY]: VALUE, [SECOND]: NUMBER }].map(write);
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
  // Strings must be written unchanged, not as JSON.
  if (write({ [KEY]: 'qz"\\' }) !== before + field(KEY, 'qz"\\') + rest) return null;
  const word = (/** @type {any} */ one) =>
    write({ [KEY]: one })?.slice((before + open + KEY + between).length, -(close + rest).length) ?? '';
  const words = { true: word(true), false: word(false), null: word(null) };
  return { call: before + ARGUMENTS + rest, fields: { open, between, close, words } };
}

/**
 * Returns the form of calls whose arguments are in a notation other than JSON, or null.
 * @param {Probe} probe @param {(string | null)[]} written  texts of one, two and three calls with these arguments
 * @param {object} args @returns {CallForm | null}
 */
function notedFormOf(probe, written, args) {
  for (const notation of CALL_NOTATIONS) {
    const [one, two, three] = markAll(written, (text) => markNotation(text, args, notation));
    const isSame = [{ [KEY]: VALUE }, { [SECOND]: NUMBER }].every(
      (given) => markNotation(probe.calls([given]) ?? '', given, notation) === one,
    );
    if (one !== null && isSame) return { ...split(one, two, three), notation: notation.name };
  }
  return null;
}

/** Arguments as Python prints a dict, which models never write: the template expects them as a JSON text. */
const PRINTED_DICT = `{'${KEY}': '${VALUE}'}`;

/**
 * Returns the form of calls in Python syntax whose strings the template writes without quotes, or in the quotes of the
 * template without escapes. Such a text of earlier calls could not be read back, so calls are passed as a part of the
 * content. Returns null for other calls.
 * @param {Probe} probe @returns {CallForm | null}
 */
function pythonFormOf(probe) {
  const withArguments = probe.calls([{ [KEY]: VALUE }]);
  if (!withArguments?.includes(`${NAME}(${KEY}=`)) return null;
  const [one, two, three] = [1, 2, 3].map(
    (n) => probe.calls(Array(n).fill({}))?.replaceAll(`${NAME}()`, `${NAME}(${ARGUMENTS})`) ?? null,
  );
  if (!one?.includes(ARGUMENTS)) return null;
  return { ...split(one, two, three), notation: 'python', inContent: true };
}

/**
 * Returns the form of the calls that a probe renders, or null.
 * @param {Probe} probe @param {{ texts: boolean, none: boolean }} options @returns {CallForm | null}
 */
function formOf(probe, { texts, none }) {
  const args = { [KEY]: VALUE, [SECOND]: NUMBER };
  const written = [1, 2, 3].map((n) => probe.calls(Array(n).fill(args)));
  const [one] = written;
  if (one === null) return null;
  const marked = markAll(written, (text) => Probe.markJson(text, args));
  if (marked[0] !== null) return { ...split(marked[0], marked[1], marked[2]), texts, none };
  if (texts) return null;
  const notedForm = notedFormOf(probe, written, args);
  if (notedForm) return { ...notedForm, none };
  const found = fieldsOf((given) => probe.calls([given]));
  if (!found) return pythonFormOf(probe);
  const { call, fields } = found;
  const field = (/** @type {string} */ key, /** @type {any} */ value) =>
    fields.open + key + fields.between + value + fields.close;
  const all = field(KEY, VALUE) + field(SECOND, NUMBER);
  const [, two, three] = written.map((text) => text?.replaceAll(all, ARGUMENTS) ?? null);
  return { ...split(call, two, three), fields, texts, none };
}

/**
 * Returns the form of a template's calls, or null if it writes none or writes them in an unknown form.
 * @param {Render} render @param {string[]} ends  texts that end a turn
 * @returns {CallForm | null}
 */
export function callForm(render, ends) {
  const allOptions = [true, false].flatMap((tools) =>
    [false, true].flatMap((none) => [false, true].map((texts) => ({ tools, none, texts }))),
  );
  let isOwnNotation = false;
  for (const options of allOptions) {
    const probe = new Probe(render, ends, options);
    // If a template has its own notation for arguments, it writes JSON only when arguments are passed as a JSON text.
    // No model was trained with that.
    if (options.texts && isOwnNotation) continue;
    const form = formOf(probe, options);
    if (form && isUsable(form)) return { ...form, ...probe.conversation() };
    const text = options.texts ? null : probe.calls([{ [KEY]: VALUE }]);
    isOwnNotation ||= Boolean(text?.includes(VALUE)) && !text?.includes(PRINTED_DICT);
  }
  return null;
}

/**
 * Returns what a template writes for a call of "weather" whose arguments are `{"city": "Oslo"}`, or the error of the
 * template, for the message of an error; '' if it writes nothing.
 * @param {Render} render
 */
export function callSample(render) {
  const call = { id: 'call00000', type: 'function', function: { name: 'weather', arguments: '{"city": "Oslo"}' } };
  try {
    const [before, after] = [[USER], [USER, { role: 'assistant', content: '', tool_calls: [call] }]].map((messages) =>
      render({ messages, tools: TOOLS, add_generation_prompt: false }),
    );
    return after.slice(commonLength(before, after));
  } catch (/** @type {any} */ error) {
    return error.message;
  }
}

/** Whether each call contains the name and the arguments once, and the id at most once. @param {CallForm} form */
function isUsable({ first, next }) {
  const times = (/** @type {string} */ text, /** @type {string} */ mark) => text.split(mark).length - 1;
  return [first, ...(next === null ? [] : [next])].every(
    (text) => times(text, NAME) === 1 && times(text, ARGUMENTS) === 1 && times(text, ID) <= 1 && !text.startsWith(NAME),
  );
}

/**
 * Returns the role of messages with results if the template ignores messages of role `tool`; null if it does not, or if
 * no other role is known.
 * @param {Render} render
 */
export function resultRoleOf(render) {
  const writes = (/** @type {string} */ role) =>
    render({ messages: [USER, { role, content: RESULT }], tools: null, add_generation_prompt: true }).includes(RESULT);
  try {
    return writes('tool') ? null : (RESULT_ROLES.find(writes) ?? null);
  } catch {
    return null;
  }
}

/** Whether the text of a template depends on the tools that are passed to it. @param {Render} render */
export function knowsTools(render) {
  try {
    const context = { messages: [USER], add_generation_prompt: true };
    return render({ ...context, tools: TOOLS }) !== render({ ...context, tools: null });
  } catch {
    return true;
  }
}
