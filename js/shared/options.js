/**
 * Checks for the options of public calls, by name. The options of most methods are in their rows of
 * remote/port/methods.js. Unknown options are refused with a suggestion, invalid values by type and range. Both sides of
 * a port use these checks, so an invalid call is not sent.
 */
import {
  address,
  addresses,
  anyValue,
  bytes,
  callback,
  chatFormat,
  contextPolicy,
  fileOrFlag,
  flag,
  isObjectOf,
  kind,
  milliseconds,
  number,
  object,
  objects,
  oneOf,
  quality,
  signal,
  text,
  threads,
  tokenList,
  integer,
  worker,
} from './checks.js';
import { checkBy } from './check-options.js';
import { OPTION_ROWS } from './generate-options.js';
import { KV_TYPES } from './names.js';

/** @import { Options } from './checks.js' */

export { checkBy, nearest, wrong } from './check-options.js';

export const SESSION = {
  contextTokens: integer(1),
  prefillWindow: integer(1),
  prefillBatch: integer(1),
  kv: oneOf(...KV_TYPES),
  kvEvict: oneOf('oldest', 'attention'),
  activations: oneOf('i8', 'i16'),
  forks: integer(0),
  forkTokens: integer(0),
  kvWindow: integer(1),
  kvSinks: integer(0, 32),
  quality,
  draftTokens: integer(0, 31),
};
/** @type {Options} */
const GENERATE = Object.fromEntries(OPTION_ROWS.map(([name, { check }]) => [name, check]));
/** Paces of an engine, fastest first. 'pause' is only valid for the options `background` and `pressure`. */
export const PACES = ['full', 'slow', 'pause'];
const pace = oneOf(...PACES);
export const PROMPTS = { chatFormat, tools: objects, templateVariables: object };
/** Selects the tools that a reply is allowed or required to call. */
const toolChoice = kind(
  '"none", "auto", "required" or { name }',
  (v) => ['none', 'auto', 'required'].includes(v) || isObjectOf(v, { name: text }),
);
const ENGINE = {
  build: oneOf('relaxed', 'relaxed16', 'simd128'),
  wasmUrl: kind(
    'an address, or an object of addresses',
    (v) => !v || !address(v) || (!object(v) && !addresses(Object.values(v))),
  ),
  threads,
  threadUrl: address,
  signal,
  cache: kind('a folder or options', (v) => v !== ''),
};
const LOAD = {
  ...SESSION,
  sessions: integer(1, 63),
  adapterBytes: integer(0),
  signal,
  onProgress: callback,
  memoryBudget: bytes,
  integrity: text,
  promptCache: fileOrFlag,
  streaming: flag,
};

/** Checks by the name of the call, or of the object that has the properties. @satisfies {Record<string, Options>} */
export const OPTIONS = {
  createEngine: ENGINE,
  createWorkerEngine: { ...ENGINE, worker, background: pace, pressure: pace },
  connectEngine: { signal },
  fromUrl: {
    companion: anyValue,
    manifest: anyValue,
    mirrors: addresses,
    retries: integer(0),
    retryDelay: number(0),
    timeout: milliseconds,
    hubUrl: address,
    token: text,
  },
  source: { companion: anyValue, manifest: anyValue },
  load: LOAD,
  createChat: { system: anyValue, messages: anyValue, contextPolicy, ...PROMPTS },
  'generate or send': { ...GENERATE, ...PROMPTS, prefix: text, toolChoice, parallelToolCalls: flag },
  generate: GENERATE,
  create: { signal, parallel: integer(1) },
  score: { topLogprobs: integer(0, 20), signal, onProgress: callback },
  rerank: { topN: integer(1), truncate: flag, signal, onProgress: callback },
  message: {
    role: text,
    content: anyValue,
    tokens: tokenList,
    name: text,
    reasoning_content: text,
    tool_calls: objects,
    tool_call_id: text,
  },
};

/**
 * Checks the options of a call in the table OPTIONS; see `checkBy`.
 * @template {object} T
 * @param {keyof typeof OPTIONS} call
 * @param {T | undefined} options
 */
export const checkOptions = (call, options) => checkBy(OPTIONS[call], call, options);
