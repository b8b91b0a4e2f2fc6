/**
 * The border between a page and its engine, as a table: which methods an object has, what they take, and what comes of
 * them. The proxies of a page (remote.js) and the dispatch beside the engine (serve.js) are both made from it.
 */
import { messagesOf } from '../../api/chat/messages.js';
import { guarded } from '../../shared/events.js';
import { checkOptions, PACES, wrong } from '../../shared/options.js';
import { plainFormat, plainTools } from '../../shared/standard-schema.js';
import { toSource } from '../../storage/sources/index.js';

/**
 * @typedef {object} Row
 * @property {((value: any) => any)[]} [args]  each checks an argument and makes it fit to be posted
 * @property {keyof typeof import('../../shared/options.js').OPTIONS} [options]  of the last argument. With `signal` it can be aborted, with `onProgress` tells how far it is
 * @property {keyof typeof import('../../shared/options.js').OPTIONS} [ofMessages]  options where the first argument is a list of messages
 * @property {boolean} [stream]   parts come, as fast as they are read, before the result
 * @property {string} [makes]     kind of the object that comes of it, which belongs to the one that was asked
 */

/** @param {string} name @param {(value: any) => boolean} is @param {string} what @returns {(value: any) => any} */
const must = (name, is, what) => (value) => {
  if (is(value)) return value;
  throw wrong(name, value, what);
};
const text = must('the text', (v) => typeof v === 'string', 'a text');
const count = must('the number of tokens', (v) => Number.isInteger(v) && v > 0, 'a whole number of at least 1');
const bytes = must('the saved session', (v) => v instanceof Uint8Array, 'a Uint8Array');

/** @param {any} value */
function ids(value) {
  if (value && typeof value === 'object' && 'length' in value) return Uint32Array.from(value);
  throw wrong('the list of tokens', value, 'a list of numbers');
}

/** @param {any} value */
function texts(value) {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.map(prompt);
  throw wrong('the list of texts', value, 'a text or a list of texts');
}

/** @param {any} value */
const prompt = (value) => (typeof value === 'string' ? value : ids(value));
/** Whether a prompt is a list of messages, not a text or tokens. @param {any} value */
export const isMessages = (value) => Array.isArray(value) && typeof value[0] === 'object';
/** @param {any} value */
const promptOrMessages = (value) => (isMessages(value) ? messagesOf(value) : prompt(value));

const pace = must('the pace', (v) => PACES.includes(v), `one of ${PACES.join(', ')}`);

/** @param {any} value @returns {string[]} */
function choices(value) {
  if (Array.isArray(value) && value.length && new Set(value).size === value.length)
    if (value.every((one) => typeof one === 'string' && one)) return [...value];
  throw wrong('the list of options', value, 'a list of different texts, none empty');
}
/** @param {unknown} value */
const flag = (value = true) => Boolean(value);

/** @type {Record<string, Record<string, Row>>} */
export const TABLE = {
  engine: {
    plan: { args: [toSource], options: 'plan' },
    load: { args: [toSource], options: 'load', makes: 'model' },
    pause: {},
    resume: {},
    setPace: { args: [pace] },
    openPort: {},
    close: {},
  },
  store: {
    list: {},
    usage: {},
    delete: { args: [text] },
    pin: { args: [text, flag] },
    clear: {},
  },
  model: {
    tokenize: { args: [text], options: 'tokenize' },
    detokenize: { args: [ids] },
    tokenId: { args: [text] },
    memory: {},
    pauseDownload: {},
    resumeDownload: {},
    createSession: { options: 'createSession', makes: 'session' },
    loadAdapter: { args: [toSource], options: 'loadAdapter', makes: 'adapter' },
    countTokens: { args: [messagesOf], options: 'countTokens' },
    generate: { args: [promptOrMessages], options: 'generate', ofMessages: 'complete', stream: true },
    choose: { args: [promptOrMessages, choices], options: 'choose' },
    savePromptCache: { args: [messagesOf], options: 'savePromptCache' },
    loadPromptCache: { args: [bytes] },
    embed: { args: [texts], options: 'embed' },
    classify: { args: [texts], options: 'classify' },
    trace: { options: 'trace' },
    close: {},
  },
  session: {
    generate: { args: [prompt], options: 'generate', stream: true },
    continue: { options: 'generate', stream: true },
    choose: { args: [prompt, choices], options: 'chooseNext' },
    append: { args: [prompt], options: 'append' },
    truncate: { args: [count] },
    fork: { makes: 'session' },
    save: {},
    restore: { args: [bytes] },
    tokens: {},
    stats: {},
    trace: { options: 'trace' },
    close: {},
  },
  adapter: { close: {} },
};

/** Options whose schemas can be posted. @param {any} options */
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
 * What a call was given, checked. ARGUMENT.
 * @param {Row} row
 * @param {any[]} given
 * @returns {{ args: any[], options: Record<string, any>, signal?: AbortSignal, onProgress?: (event: any) => void }}
 */
export function checkCall({ args = [], options: name, ofMessages }, given) {
  const options = ofMessages && isMessages(given[0]) ? ofMessages : name;
  const { signal, onProgress, ...rest } = /** @type {any} */ (
    options ? checkOptions(options, withPlainSchemas(given[args.length])) : {}
  );
  // An object of either side is told by its id.
  const named = (/** @type {any} */ made) => made.info?.id ?? made;
  if (rest.adapter) rest.adapter = named(rest.adapter);
  if (rest.speculate?.model) rest.speculate = { ...rest.speculate, model: named(rest.speculate.model) };
  return {
    args: args.map((check, i) => check(given[i])),
    options: rest,
    signal,
    onProgress: onProgress && guarded(onProgress),
  };
}
