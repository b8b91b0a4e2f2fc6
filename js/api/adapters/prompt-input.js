/**
 * Checks arguments of the Prompt API as its specification and Web IDL demand: TypeError, RangeError, or a DOMException by name.
 */

/** @import { Message } from '../../shared/types.js' */
/** A message in the form of the Prompt API. @typedef {{ role: 'system' | 'user' | 'assistant', content: string | { type: 'text', value: string }[], prefix?: boolean }} Given */
/** @typedef {string | Given[]} PromptInput */
/** @typedef {{ responseConstraint?: object | RegExp, omitResponseConstraintInput?: boolean, signal?: AbortSignal }} PromptOptions */
/** @typedef {'most-predictable' | 'predictable' | 'balanced' | 'creative' | 'most-creative' | 'default'} SamplingMode */
/** @typedef {{ name: string, description: string, inputSchema: object, execute: (input: any) => unknown }} PromptTool */
/** @typedef {{ expectedInputs?: Expected[], expectedOutputs?: Expected[], tools?: PromptTool[], samplingMode?: SamplingMode, topK?: number, temperature?: number }} CoreOptions */
/** @typedef {{ type: string, languages?: string[] }} Expected */

const ROLES = ['system', 'user', 'assistant'];
const TYPES = ['text', 'image', 'audio', 'tool-call', 'tool-response'];
/** Sampling options of each mode. @type {Record<string, { temperature: number, topK: number }>} */
const MODES = {
  'most-predictable': { temperature: 0, topK: 1 },
  predictable: { temperature: 0.4, topK: 20 },
  balanced: { temperature: 0.7, topK: 40 },
  creative: { temperature: 1, topK: 60 },
  'most-creative': { temperature: 1.3, topK: 100 },
};
export const DEFAULT = 'balanced';
export const PARAMS = Object.freeze({ defaultTopK: 40, maxTopK: 128, defaultTemperature: 0.7, maxTemperature: 2 });

/** Kept here, because a page that was closed has no DOMException. */
const Exception = DOMException;

/** @param {string} name @param {string} message @param {unknown} [cause] */
export const failure = (name, message, cause) => Object.assign(new Exception(message, name), { cause });

/** @param {number} requested @param {number} quota @returns {Error} */
export function quotaError(requested, quota) {
  const message = `the input takes ${requested} tokens, there is room for ${quota}`;
  const numbers = { requested, quota };
  const Own = /** @type {any} */ (globalThis).QuotaExceededError;
  return Own ? new Own(message, numbers) : Object.assign(failure('QuotaExceededError', message), numbers);
}

/** A list as Web IDL takes it. @param {any} value @param {string} label @returns {any[]} */
function listOf(value, label) {
  if (typeof value?.[Symbol.iterator] !== 'function' || typeof value === 'string')
    throw new TypeError(`${label} must be a list`);
  return [...value];
}

/** @param {string} value @param {string[]} values @param {string} label */
function oneOf(value, values, label) {
  if (!values.includes(`${value}`)) throw new TypeError(`${label} is "${value}", not one of ${values.join(', ')}`);
}

/** @param {any} value @param {string} name */
function needs(value, name) {
  if (value === undefined) throw new TypeError(`${name} is missing`);
}

/** The text of a content. @param {any} content @returns {string} */
function textOf(content) {
  needs(content, 'content');
  if (typeof content !== 'object') return `${content}`;
  return listOf(content, 'content')
    .map(({ type, value }) => {
      oneOf(type, TYPES, 'type');
      if (type !== 'text') throw failure('NotSupportedError', `the session expects no ${type}`);
      if (typeof value !== 'string') throw new TypeError('the value of a text must be a string');
      return value;
    })
    .join('');
}

/**
 * "Validate and canonicalize a prompt": messages whose content is one text. If the last message begins the reply, it becomes the `prefix`.
 * @param {any} input @param {boolean} hasHistory  whether the session has messages
 * @returns {{ messages: Message[], prefix: string }}
 */
export function promptOf(input, hasHistory) {
  /** @type {Given[]} */
  const messagesGiven =
    typeof input === 'object' && input !== null ? listOf(input, 'a prompt') : [{ role: 'user', content: `${input}` }];
  if (!messagesGiven.length) messagesGiven.push({ role: 'user', content: '' });
  let prefix = '';
  /** @type {Message[]} */
  const messages = [];
  messagesGiven.forEach(({ role, content, prefix: open }, i) => {
    oneOf(role, ROLES, 'role');
    if (open && (role !== 'assistant' || i < messagesGiven.length - 1))
      throw failure('SyntaxError', 'only a last assistant message can be a prefix');
    if (role === 'system' && (hasHistory || i > 0)) throw new TypeError('a system message must come first');
    const text = textOf(content);
    if (open) prefix = text;
    else messages.push({ role, content: text });
  });
  return { messages, prefix };
}

/**
 * Joins successive messages of the same role (`append`, then `prompt`), because many templates accept only alternating roles.
 * @param {Message[]} messages @returns {Message[]}
 */
export function turnsOf(messages) {
  /** @type {Message[]} */
  const turns = [];
  for (const { role, content } of messages) {
    const last = turns.at(-1);
    if (last?.role === role) last.content += `\n${content}`;
    else turns.push({ role, content });
  }
  return turns;
}

/** Expected inputs or outputs with canonical languages. RangeError, TypeError. @param {any} list @returns {Expected[]} */
const expectedOf = (list) =>
  (list === undefined ? [] : listOf(list, 'what is expected')).map(({ type, languages }) => {
    oneOf(type, TYPES, 'type');
    return { type, languages: languages && Intl.getCanonicalLocales(listOf(languages, 'languages')) };
  });

/** @param {any} list @returns {{ name: string, description: string, inputSchema: object, execute: (input: any) => any }[]} */
const toolsOf = (list) =>
  (list === undefined ? [] : listOf(list, 'tools')).map(({ name, description, inputSchema, execute }) => {
    needs(name, 'name');
    needs(description, 'description');
    if (Object(inputSchema) !== inputSchema) throw new TypeError('inputSchema must be an object');
    if (typeof execute !== 'function') throw new TypeError('execute must be a function');
    return { name: `${name}`, description: `${description}`, inputSchema, execute };
  });

/** A number of at least `minimum`; larger numbers than `maximum` become `maximum`. RangeError. @param {any} value @param {number} minimum @param {number} maximum @param {string} name */
function clampNumber(value, minimum, maximum, name) {
  const number = Number(value);
  if (!(number >= minimum)) throw new RangeError(`${name} must be at least ${minimum}`);
  return Math.min(number, maximum);
}

/** Sampling options of a session. @param {any} options @returns {{ samplingMode: string, temperature: number, topK: number }} */
function samplingOf({ topK, temperature, samplingMode }) {
  const raw = topK !== undefined || temperature !== undefined;
  if (samplingMode !== undefined && samplingMode !== 'default') {
    oneOf(samplingMode, Object.keys(MODES), 'samplingMode');
    if (raw) throw new TypeError('samplingMode excludes topK and temperature');
    return { samplingMode, ...MODES[samplingMode] };
  }
  return {
    samplingMode: DEFAULT,
    topK: Math.floor(clampNumber(topK ?? PARAMS.defaultTopK, 1, PARAMS.maxTopK, 'topK')),
    temperature: clampNumber(temperature ?? PARAMS.defaultTemperature, 0, PARAMS.maxTemperature, 'temperature'),
  };
}

/** "Validate and canonicalize language model options". @param {any} [options] */
export function coreOf(options = {}) {
  if (Object(options) !== options) throw new TypeError('options must be an object');
  const tools = toolsOf(options.tools);
  return {
    ...samplingOf(options),
    inputs: expectedOf(options.expectedInputs),
    outputs: expectedOf(options.expectedOutputs),
    tools,
    requested: tools.map(({ name, description, inputSchema: parameters }) => ({
      type: 'function',
      function: { name, description, parameters },
    })),
  };
}

/** @typedef {ReturnType<typeof coreOf>} Core */

/**
 * Whether a text model supports the expected inputs and outputs.
 * @param {Core} core @param {string[]} [languages]  of the model, where they are known
 */
export function supports({ inputs, outputs, tools }, languages) {
  const languagesKnown = languages?.map((tag) => new Intl.Locale(tag).language);
  const speaks = (/** @type {string} */ tag) =>
    !languagesKnown || languagesKnown.includes(new Intl.Locale(tag).language);
  const supportsType = (/** @type {string} */ toolType) => (/** @type {Expected} */ expected) =>
    (expected.type === 'text' || (expected.type === toolType && tools.length > 0)) &&
    (expected.languages ?? []).every(speaks);
  return inputs.every(supportsType('tool-response')) && outputs.every(supportsType('tool-call'));
}

/** The `responseFormat` of a reply with a constraint. TypeError. @param {any} [options] @returns {any} */
export function constraintOf({ responseConstraint: constraint, omitResponseConstraintInput: omit } = {}) {
  if (constraint === undefined) {
    if (omit) throw new TypeError('omitResponseConstraintInput needs a responseConstraint');
    return undefined;
  }
  if (constraint === null) return undefined;
  if (typeof constraint !== 'object' || Array.isArray(constraint))
    throw new TypeError('responseConstraint must be a JSON Schema or a RegExp');
  return constraint instanceof RegExp
    ? { type: 'regex', pattern: constraint }
    : { type: 'json_schema', schema: constraint };
}
