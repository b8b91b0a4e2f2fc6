/**
 * Table of the methods that can be called over a port: the methods of each kind of object, their arguments, and the
 * kind of object that they create. The page's proxies (proxy.js) and the dispatch on the engine's side (dispatch.js)
 * both use it.
 */
import { messagesOf } from '../../api/chat/messages.js';
import { guarded } from '../../shared/events.js';
import { adapter, callback, flag, number, object, oneOf, signal, text } from '../../shared/checks.js';
import { checkBy, OPTIONS, PACES, PROMPTS, SESSION, wrong } from '../../shared/options.js';
import { plainFormat, plainTools } from '../../shared/standard-schema.js';
import { toSource } from '../../storage/sources/index.js';

/** @import { Options } from '../../shared/checks.js' */

/**
 * @typedef {object} Row
 * @property {((value: any) => any)[]} [args]  functions that check an argument and convert it to a value that can be
 *   posted
 * @property {Options} [options]  checks of the options, which are the last argument
 * @property {Options} [ofMessages]  the same, if the first argument is a list of messages
 * @property {boolean} [stream]   whether the call yields parts before its result
 * @property {string} [makes]     kind of the object that the call creates. Its parent is the object of the call
 * @property {string} [name]      name of the method, for messages
 */

/**
 * Creates a check of an argument.
 * @param {string} name
 * @param {(value: any) => boolean} isValid
 * @param {string} expected
 * @returns {(value: any) => any}
 */
const checkArgument = (name, isValid, expected) => (value) => {
  if (isValid(value)) return value;
  throw wrong(name, value, expected);
};
const textArgument = checkArgument('the text', (v) => typeof v === 'string', 'a string');
const count = checkArgument('the number of tokens', (v) => Number.isInteger(v) && v > 0, 'an integer of at least 1');
const bytes = checkArgument('the saved session', (v) => v instanceof Uint8Array, 'a Uint8Array');

/** Checks a list of tokens. @param {any} value @param {string} [name] @param {string} [expected] */
function tokens(value, name = 'the list of tokens', expected = 'a list of token ids') {
  if (value && typeof value === 'object' && 'length' in value)
    if (Array.from(value).every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32))
      return Uint32Array.from(value);
  throw wrong(name, value, expected);
}

/**
 * Checks a text or a list of texts or token lists.
 * @param {any} value @param {(entry: any, i: number) => any} [check]  checks an entry
 */
function texts(value, check = textOrTokens) {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.map(check);
  throw wrong('the list of texts', value, 'a string or a list of strings');
}

/** Checks the same, or pairs of texts. @param {any} value */
const textsOrPairs = (value) =>
  texts(value, (entry, i) =>
    typeof entry?.text === 'string' && typeof entry.textPair === 'string'
      ? { text: entry.text, textPair: entry.textPair }
      : textOrTokens(entry, i),
  );

/** @param {any} value @param {string} [expected] @param {string} [name] */
const prompt = (value, expected = 'a string or a list of token ids', name = 'the prompt') =>
  typeof value === 'string' ? value : tokens(value, name, expected);
/** Checks an entry of a list of texts. @param {any} value @param {number} i */
const textOrTokens = (value, i) => prompt(value, undefined, `text ${i}`);
/** Whether a prompt is a list of messages, instead of a text or tokens. @param {any} value */
export const isMessages = (value) => Array.isArray(value) && typeof value[0] === 'object';
/** @param {any} value */
const promptOrMessages = (value) =>
  isMessages(value) ? messagesOf(value) : prompt(value, 'a string, a list of messages or a list of token ids');

const pace = checkArgument('the pace', (v) => PACES.includes(v), `one of ${PACES.join(', ')}`);

/** @param {any} value @returns {string[]} */
function choices(value) {
  if (Array.isArray(value) && value.length && new Set(value).size === value.length)
    if (value.every((choice) => typeof choice === 'string' && choice)) return [...value];
  throw wrong('the list of options', value, 'a list of different non-empty strings');
}
/** @param {unknown} value */
const flagArgument = (value = true) => Boolean(value);

/** Options of `trace`. */
const trace = { on: flag, byLayer: flag };
/** Options of most calls. */
const handlers = { signal, onProgress: callback };

/** @type {Record<string, Record<string, Row>>} */
export const TABLE = {
  engine: {
    plan: { args: [toSource], options: OPTIONS.load },
    load: { args: [toSource], options: OPTIONS.load, makes: 'model' },
    pause: {},
    resume: {},
    setPace: { args: [pace] },
    openPort: {},
    close: {},
  },
  store: {
    list: {},
    usage: {},
    delete: { args: [textArgument] },
    pin: { args: [textArgument, flagArgument] },
    clear: {},
  },
  model: {
    tokenize: { args: [textArgument], options: { addSpecial: flag, parseSpecial: flag } },
    detokenize: { args: [tokens] },
    tokenId: { args: [textArgument] },
    memory: {},
    pauseDownload: {},
    resumeDownload: {},
    createSession: { options: { ...SESSION, adapter }, makes: 'session' },
    loadAdapter: { args: [toSource], options: { scale: number(-Infinity), signal }, makes: 'adapter' },
    countTokens: { args: [messagesOf], options: { ...PROMPTS, prefix: text } },
    generate: {
      args: [promptOrMessages],
      options: OPTIONS.generate,
      ofMessages: OPTIONS['generate or send'],
      stream: true,
    },
    choose: { args: [promptOrMessages, choices], options: { ...PROMPTS, prefix: text, ...handlers } },
    savePromptCache: { args: [messagesOf], options: { ...PROMPTS, ...handlers } },
    loadPromptCache: { args: [bytes] },
    embed: {
      args: [texts],
      options: {
        pooling: oneOf('mean', 'cls', 'last'),
        normalize: flag,
        prompt: text,
        truncate: flag,
        ...handlers,
      },
    },
    classify: { args: [textsOrPairs], options: { classifier: object, truncate: flag, ...handlers } },
    trace: { options: trace },
    close: {},
  },
  session: {
    generate: { args: [prompt], options: OPTIONS.generate, stream: true },
    continue: { options: OPTIONS.generate, stream: true },
    choose: { args: [prompt, choices], options: handlers },
    append: { args: [prompt], options: { parseSpecial: flag, ...handlers } },
    truncate: { args: [count] },
    fork: { makes: 'session' },
    save: {},
    restore: { args: [bytes] },
    tokens: {},
    stats: {},
    trace: { options: trace },
    close: {},
  },
  adapter: { close: {} },
};
for (const rows of Object.values(TABLE)) for (const [name, row] of Object.entries(rows)) row.name = name;

/** Converts schemas of other libraries to JSON Schemas, which can be posted. @param {any} options */
function withPlainSchemas(options) {
  const { responseFormat, tools } = options ?? {};
  if (!responseFormat && !tools) return options;
  return {
    ...options,
    ...(responseFormat && { responseFormat: plainFormat(responseFormat) }),
    ...(tools && { tools: plainTools(tools) }),
  };
}

/**
 * Checks the arguments of a call. Throws ARGUMENT.
 * @param {Row} row
 * @param {any[]} callArgs
 * @returns {{ args: any[], options: Record<string, any>, signal?: AbortSignal, onProgress?: (event: any) => void }}
 */
export function checkCall({ name = '', args = [], options: checks, ofMessages }, callArgs) {
  const options = ofMessages && isMessages(callArgs[0]) ? ofMessages : checks;
  const {
    signal: abortSignal,
    onProgress,
    ...plainOptions
  } = /** @type {any} */ (options ? checkBy(options, name, withPlainSchemas(callArgs[args.length])) : {});
  // An address is resolved here, against the page, not in its worker. Adapters and draft models are passed by their
  // ids.
  const idOf = (/** @type {any} */ object) => object.info?.id ?? object;
  if (plainOptions.adapter) plainOptions.adapter = idOf(plainOptions.adapter);
  if (plainOptions.promptCache && plainOptions.promptCache !== true)
    plainOptions.promptCache = toSource(plainOptions.promptCache);
  if (plainOptions.speculate?.model)
    plainOptions.speculate = { ...plainOptions.speculate, model: idOf(plainOptions.speculate.model) };
  return {
    args: args.map((check, i) => check(callArgs[i])),
    options: plainOptions,
    signal: abortSignal,
    onProgress: onProgress && guarded(onProgress),
  };
}
