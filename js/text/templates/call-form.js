/**
 * How a chat template writes calls of tools: found by rendering conversations with calls whose names, arguments and ids are known, and
 * looking where these come in the text. Nothing of a template's source is read.
 */

/** Stand in a form for a call's name, its arguments, its id, and how many calls came before it. Private characters of Unicode. */
export const [NAME, ARGUMENTS, ID, COUNT] = ['\u{f0005}', '\u{f0006}', '\u{f0007}', '\u{f0008}'];

/** Arguments that are no JSON: what stands around each, and how three words are written. @typedef {{ open: string, between: string, close: string, words: Record<'true' | 'false' | 'null', string> }} Fields */

/**
 * @typedef {object} CallForm
 * @property {string} first   a reply's first call, with what stands before it
 * @property {string | null} next  another one behind it; null: a reply has one
 * @property {string} after   what stands behind the last
 * @property {Fields | null} fields  null: arguments are JSON
 * @property {boolean} texts  the template takes arguments as texts
 * @property {boolean} none   the template writes calls of a message without content, where that is null
 */

/** @typedef {(context: Record<string, any>) => string} Render */

const NAMES = ['qzprobe', 'qzother', 'qzthird'];
const IDS = ['qzcallone', 'qzcalltwo', 'qzcallsix'];
const [KEY, VALUE, SECOND, NUMBER] = ['qzkey', 'qzvalue', 'qzcount', 70917];
const USER = { role: 'user', content: 'qzquestion' };
const SAID = 'qzanswer';

/** Closing marks of models that reason: what they thought before a call is no part of it. */
const REASONED = /^[^]*(?:<\/think>|\[\/THINK\]|<\|END_THINKING\|>|<\/seed:think>|<\/thinking>)\s*/;

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

/** How much two texts begin alike. @param {string} a @param {string} b */
function alike(a, b) {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
}

/** Without a tag that only began: `<|call` of `<|call_begin|>` and `<|calls_end|>`. @param {string} text */
const whole = (text) => text.replace(/[<[][^>\]\s]*$/, '');

/** What two texts begin with alike, without a tag that only began. @param {string} a @param {string} b */
const common = (a, b) => whole(a.slice(0, alike(a, b)));

class Probe {
  #render;
  #ends;
  #how;

  /** @param {Render} render @param {string[]} ends @param {{ tools: boolean, texts: boolean, none: boolean }} how  `tools`: the template is told of them */
  constructor(render, ends, how) {
    this.#render = render;
    this.#ends = ends;
    this.#how = how;
  }

  /** @param {any[]} messages @param {boolean} [prompt]  for a reply */
  #text(messages, prompt = false) {
    return this.#render({ messages, tools: this.#how.tools ? TOOLS : null, add_generation_prompt: prompt });
  }

  /** What the template writes of a reply; null: it refuses it, or writes other things differently, too. @param {any} message */
  #reply(message) {
    try {
      const text = this.#text([USER, { role: 'assistant', ...message }]);
      const prompt = this.#text([USER], true);
      if (text.startsWith(prompt)) return text.slice(prompt.length);
      const before = this.#text([USER]);
      if (!text.startsWith(before) || !prompt.startsWith(before)) return null;
      const begun = common(text.slice(before.length), prompt.slice(before.length));
      return text.slice(before.length + begun.length);
    } catch {
      return null;
    }
  }

  /** Without what ends a turn. @param {string} text */
  #turn(text) {
    const said = this.#reply({ content: SAID }) ?? '';
    const end = said.slice(said.indexOf(SAID) + SAID.length);
    if (said.includes(SAID) && end && text.endsWith(end)) return text.slice(0, -end.length);
    const at = this.#ends.map((one) => text.indexOf(one)).filter((i) => i >= 0);
    return at.length ? text.slice(0, Math.min(...at)) : text;
  }

  /** The text of calls, with marks in the place of names and ids; null: it isn't there. @param {object[]} given  arguments of each */
  calls(given) {
    const tool_calls = given.map((args, i) => ({
      id: IDS[i],
      type: 'function',
      function: { name: NAMES[i], arguments: this.#how.texts ? JSON.stringify(args) : args },
    }));
    const text = this.#reply({ content: this.#how.none ? null : '', tool_calls });
    if (text === null || given.some((_, i) => !text.includes(NAMES[i]))) return null;
    const begin = Math.min(
      ...NAMES.concat(IDS)
        .map((one) => text.indexOf(one))
        .filter((at) => at >= 0),
    );
    const bare = text.slice(0, begin).replace(REASONED, '') + text.slice(begin);
    return this.#turn(given.reduce((all, _, i) => all.replaceAll(NAMES[i], NAME).replaceAll(IDS[i], ID), bare));
  }

  /** A call's text with a mark in the place of its arguments, where these are JSON. @param {string} text @param {object} args */
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

/** Several calls' texts, of one, two and three of them, as a first, a next, and what ends them. @param {string} one @param {string | null} two @param {string | null} three */
function split(one, two, three) {
  const rest = two !== null && three !== null ? splitNext(one, two, three) : null;
  return rest ?? { first: one, next: null, after: '' };
}

/** @param {string} one @param {string} two @param {string} three */
function splitNext(one, two, three) {
  const first = common(one, two);
  const after = one.slice(first.length);
  if (!two.endsWith(after) || !three.endsWith(after) || !three.startsWith(first)) return null;
  const second = two.slice(first.length, two.length - after.length);
  const both = three.slice(first.length, three.length - after.length);
  if (both === second + second) return { first, next: second, after };
  // Calls that are numbered.
  for (const found of second.match(/\d+/g) ?? []) {
    const next = second.replace(found, COUNT);
    const all = next.replace(COUNT, found) + next.replace(COUNT, String(Number(found) + 1));
    const begun = first.replace(String(Number(found) - 1), COUNT);
    if (both === all && begun !== first) return { first: begun, next, after };
  }
  return null;
}

/** How fields are written; null: not as name and value. @param {(args: object) => string | null} written */
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
  // A text as it is, not as JSON.
  if (written({ [KEY]: 'qz"\\' }) !== before + field(KEY, 'qz"\\') + rest) return null;
  const word = (/** @type {any} */ one) =>
    written({ [KEY]: one })?.slice((before + open + KEY + between).length, -(close + rest).length) ?? '';
  const words = { true: word(true), false: word(false), null: word(null) };
  return { call: before + ARGUMENTS + rest, fields: { open, between, close, words } };
}

/** @param {Probe} probe @param {{ texts: boolean, none: boolean }} how @returns {CallForm | null} */
function formOf(probe, { texts, none }) {
  const args = { [KEY]: VALUE, [SECOND]: NUMBER };
  const written = [1, 2, 3].map((n) => probe.calls(Array(n).fill(args)));
  const [one] = written;
  if (one === null) return null;
  const marked = written.map((text, i) => {
    for (let n = 0; n <= i && text !== null; n++) text = Probe.json(text, args);
    return text;
  });
  if (marked[0] !== null) return { ...split(marked[0], marked[1], marked[2]), fields: null, texts, none };
  const found = fieldsOf((given) => probe.calls([given]));
  if (!found || texts) return null;
  const { call, fields } = found;
  const field = (/** @type {string} */ key, /** @type {any} */ value) =>
    fields.open + key + fields.between + value + fields.close;
  const all = field(KEY, VALUE) + field(SECOND, NUMBER);
  const [, two, three] = written.map((text) => text?.replaceAll(all, ARGUMENTS) ?? null);
  return { ...split(call, two, three), fields, texts, none };
}

/**
 * The form of a template's calls; null: it writes none, or in a way that is not understood.
 * @param {Render} render @param {string[]} ends  texts that end a turn
 * @returns {CallForm | null}
 */
export function callForm(render, ends) {
  const ways = [true, false].flatMap((tools) =>
    [false, true].flatMap((none) => [false, true].map((texts) => ({ tools, none, texts }))),
  );
  for (const how of ways) {
    const form = formOf(new Probe(render, ends, how), how);
    if (form && isUsable(form)) return form;
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

/** Whether a template says anything of tools. @param {Render} render */
export function knowsTools(render) {
  try {
    const context = { messages: [USER], add_generation_prompt: true };
    return render({ ...context, tools: TOOLS }) !== render({ ...context, tools: null });
  } catch {
    return true;
  }
}
