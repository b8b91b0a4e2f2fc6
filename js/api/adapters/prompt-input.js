/**
 * Checks arguments of the Prompt API as required by its specification and by Web IDL. Errors are a TypeError, a
 * RangeError or a DOMException.
 */

/** @import { Message } from '../../shared/types.js' */
/**
 * A message in the form of the Prompt API.
 * @typedef {{ role: 'system' | 'user' | 'assistant', content: string | { type: 'text', value: string }[], prefix?: boolean }} PromptMessage
 */
/** @typedef {string | PromptMessage[]} PromptInput */
/**
 * @typedef {{ responseConstraint?: object | RegExp, omitResponseConstraintInput?: boolean, signal?: AbortSignal }} PromptOptions
 */
/**
 * @typedef {'most-predictable' | 'predictable' | 'balanced' | 'creative' | 'most-creative' | 'default'} SamplingMode
 */
/**
 * @typedef {{ name: string, description: string, inputSchema: object, execute: (input: any) => unknown }} PromptTool
 */
/**
 * @typedef {{ expectedInputs?: Expected[], expectedOutputs?: Expected[], tools?: PromptTool[], samplingMode?: SamplingMode, topK?: number, temperature?: number }} CoreOptions
 */
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
/** Mode of a session without a `samplingMode`. */
export const DEFAULT = 'balanced';
export const PARAMS = Object.freeze({ defaultTopK: 40, maxTopK: 128, defaultTemperature: 0.7, maxTemperature: 2 });

/** Stored here, because a closed page has no DOMException. */
const Exception = DOMException;

/** Creates a DOMException. @param {string} name @param {string} message @param {unknown} [cause] */
export const failure = (name, message, cause) => Object.assign(new Exception(message, name), { cause });

/** Creates a QuotaExceededError. @param {number} requested  tokens @param {number} quota  tokens @returns {Error} */
export function quotaError(requested, quota) {
  const message = `the input has ${requested} tokens, but there is room for ${quota}`;
  const numbers = { requested, quota };
  const { QuotaExceededError } = /** @type {any} */ (globalThis);
  return QuotaExceededError
    ? new QuotaExceededError(message, numbers)
    : Object.assign(failure('QuotaExceededError', message), numbers);
}

/**
 * Converts an iterable to a list, like Web IDL. Throws a TypeError.
 * @param {any} value
 * @param {string} label
 * @returns {any[]}
 */
function listOf(value, label) {
  if (typeof value?.[Symbol.iterator] !== 'function' || typeof value === 'string')
    throw new TypeError(`${label} must be a list`);
  return [...value];
}

/**
 * Throws a TypeError if a value is not one of the allowed values.
 * @param {string} value
 * @param {string[]} values
 * @param {string} label
 */
function checkOneOf(value, values, label) {
  if (!values.includes(`${value}`)) throw new TypeError(`${label} is "${value}", not one of ${values.join(', ')}`);
}

/** Throws a TypeError if a value is missing. @param {any} value @param {string} name */
function checkPresent(value, name) {
  if (value === undefined) throw new TypeError(`${name} is missing`);
}

/** Returns the text of a message's content. @param {any} content @returns {string} */
function textOf(content) {
  checkPresent(content, 'content');
  if (typeof content !== 'object') return `${content}`;
  return listOf(content, 'content')
    .map(({ type, value }) => {
      checkOneOf(type, TYPES, 'type');
      if (type !== 'text') throw failure('NotSupportedError', `the session does not support the type "${type}"`);
      if (typeof value !== 'string') throw new TypeError('the value of a text must be a string');
      return value;
    })
    .join('');
}

/**
 * Implements "validate and canonicalize a prompt": returns messages whose content is a string. If the last message is
 * the beginning of the reply, it becomes the `prefix`.
 * @param {any} input @param {boolean} hasHistory  whether the session has messages
 * @returns {{ messages: Message[], prefix: string }}
 */
export function promptOf(input, hasHistory) {
  /** @type {PromptMessage[]} */
  const inputMessages =
    typeof input === 'object' && input !== null ? listOf(input, 'a prompt') : [{ role: 'user', content: `${input}` }];
  if (!inputMessages.length) inputMessages.push({ role: 'user', content: '' });
  let prefix = '';
  /** @type {Message[]} */
  const messages = [];
  inputMessages.forEach(({ role, content, prefix: isPrefix }, i) => {
    checkOneOf(role, ROLES, 'role');
    if (isPrefix && (role !== 'assistant' || i < inputMessages.length - 1))
      throw failure('SyntaxError', 'only the last message, of the role assistant, can be a prefix');
    if (role === 'system' && (hasHistory || i > 0)) throw new TypeError('a system message must come first');
    const text = textOf(content);
    if (isPrefix) prefix = text;
    else messages.push({ role, content: text });
  });
  return { messages, prefix };
}

/**
 * Joins consecutive messages of the same role (`append`, then `prompt`), because many templates only accept alternating
 * roles.
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

/**
 * Checks expected inputs or outputs and canonicalizes their languages. Throws RangeError, TypeError.
 * @param {any} list
 * @returns {Expected[]}
 */
const expectedOf = (list) =>
  (list === undefined ? [] : listOf(list, 'expectedInputs or expectedOutputs')).map(({ type, languages }) => {
    checkOneOf(type, TYPES, 'type');
    return { type, languages: languages && Intl.getCanonicalLocales(listOf(languages, 'languages')) };
  });

/**
 * Checks a list of tools. Throws a TypeError.
 * @param {any} list
 * @returns {{ name: string, description: string, inputSchema: object, execute: (input: any) => any }[]}
 */
const toolsOf = (list) =>
  (list === undefined ? [] : listOf(list, 'tools')).map(({ name, description, inputSchema, execute }) => {
    checkPresent(name, 'name');
    checkPresent(description, 'description');
    if (Object(inputSchema) !== inputSchema) throw new TypeError('inputSchema must be an object');
    if (typeof execute !== 'function') throw new TypeError('execute must be a function');
    return { name: `${name}`, description: `${description}`, inputSchema, execute };
  });

/**
 * Limits a number to `maximum`. Throws a RangeError if it is less than `minimum`.
 * @param {any} value
 * @param {number} minimum
 * @param {number} maximum
 * @param {string} name
 */
function clampNumber(value, minimum, maximum, name) {
  const number = Number(value);
  if (!(number >= minimum)) throw new RangeError(`${name} must be at least ${minimum}`);
  return Math.min(number, maximum);
}

/**
 * Returns the sampling options of a session. Throws TypeError, RangeError.
 * @param {any} options
 * @returns {{ samplingMode: string, temperature: number, topK: number }}
 */
function samplingOf({ topK, temperature, samplingMode }) {
  const hasNumbers = topK !== undefined || temperature !== undefined;
  if (samplingMode !== undefined && samplingMode !== 'default') {
    checkOneOf(samplingMode, Object.keys(MODES), 'samplingMode');
    if (hasNumbers) throw new TypeError('samplingMode excludes topK and temperature');
    return { samplingMode, ...MODES[samplingMode] };
  }
  return {
    samplingMode: DEFAULT,
    topK: Math.floor(clampNumber(topK ?? PARAMS.defaultTopK, 1, PARAMS.maxTopK, 'topK')),
    temperature: clampNumber(temperature ?? PARAMS.defaultTemperature, 0, PARAMS.maxTemperature, 'temperature'),
  };
}

/** Implements "validate and canonicalize language model options". @param {any} [options] */
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
 * @param {Core} core @param {string[]} [languages]  languages of the model. Default: any
 */
export function supports({ inputs, outputs, tools }, languages) {
  const modelLanguages = languages?.map((tag) => new Intl.Locale(tag).language);
  const supportsLanguage = (/** @type {string} */ tag) =>
    !modelLanguages || modelLanguages.includes(new Intl.Locale(tag).language);
  const supportsType = (/** @type {string} */ toolType) => (/** @type {Expected} */ expected) =>
    (expected.type === 'text' || (expected.type === toolType && tools.length > 0)) &&
    (expected.languages ?? []).every(supportsLanguage);
  return inputs.every(supportsType('tool-response')) && outputs.every(supportsType('tool-call'));
}

/**
 * Returns the `responseFormat` for the option `responseConstraint`. Throws a TypeError.
 * @param {any} [options]
 * @returns {any}
 */
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
