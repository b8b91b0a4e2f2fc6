/**
 * The options of every public call, by name: unknown ones are refused with the nearest known one, others by kind and range.
 * Both sides of a port check with these, so that a call that can't succeed is never made.
 */
import {
  adapter,
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
  marks,
  milliseconds,
  number,
  object,
  objects,
  oneOf,
  quality,
  signal,
  text,
  texts,
  threads,
  tokenList,
  whole,
  worker,
} from './checks.js';
import { BqError } from './errors.js';
import { OPTION_ROWS } from './generate-options.js';

/** @import { Check, Options } from './checks.js' */

const SESSION = {
  contextTokens: whole(1),
  prefillWindow: whole(1),
  prefillBatch: whole(1),
  kv: oneOf('f32', 'f16', 'i8', 'i4', 'i2'),
  kvEvict: oneOf('oldest', 'attention'),
  activations: oneOf('i8', 'i16'),
  forks: whole(0),
  forkTokens: whole(0),
  kvWindow: whole(1),
  kvSinks: whole(0, 32),
  quality,
  draftTokens: whole(0, 31),
};
/** @type {Options} */
const GENERATE = Object.fromEntries(OPTION_ROWS.map(([name, { check }]) => [name, check]));
/** How much of the machine an engine takes: the most first. 'pause' is for the options `background` and `pressure` alone. */
export const PACES = ['full', 'slow', 'pause'];
const pace = oneOf(...PACES);
const PROMPTS = { chatFormat, tools: objects, templateVariables: object };
/** Which tools a reply may call. */
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
  cache: anyValue,
};
const LOAD = {
  ...SESSION,
  sessions: whole(1, 63),
  adapterBytes: whole(0),
  signal,
  onProgress: callback,
  memoryBudget: bytes,
  integrity: text,
  promptCache: fileOrFlag,
  streaming: flag,
};

/** By the call, or the thing, that they belong to. @satisfies {Record<string, Options>} */
export const OPTIONS = {
  createEngine: ENGINE,
  createWorkerEngine: { ...ENGINE, worker, background: pace, pressure: pace },
  connectEngine: { signal },
  fromUrl: {
    companion: anyValue,
    manifest: anyValue,
    mirrors: addresses,
    retries: whole(0),
    retryDelay: number(0),
    timeout: milliseconds,
    hubUrl: address,
  },
  source: { companion: anyValue, manifest: anyValue },
  plan: LOAD,
  load: LOAD,
  tokenize: { addSpecial: flag, parseSpecial: flag },
  createSession: { ...SESSION, adapter },
  loadAdapter: { scale: number(-Infinity), signal },
  createChat: { system: anyValue, messages: anyValue, contextPolicy, ...PROMPTS },
  countTokens: { ...PROMPTS, prefix: text },
  complete: { ...GENERATE, ...PROMPTS, prefix: text, toolChoice, parallelToolCalls: flag },
  generate: GENERATE,
  append: { parseSpecial: flag, signal, onProgress: callback },
  choose: { ...PROMPTS, prefix: text, signal, onProgress: callback },
  savePromptCache: { ...PROMPTS, signal, onProgress: callback },
  chooseNext: { signal, onProgress: callback },
  embed: {
    pooling: oneOf('mean', 'cls', 'last'),
    normalize: flag,
    prompt: text,
    truncate: flag,
    signal,
    onProgress: callback,
  },
  create: { signal, parallel: whole(1) },
  createOne: { signal },
  score: { topLogprobs: whole(0, 20), signal, onProgress: callback },
  rerank: { topN: whole(1), truncate: flag, signal, onProgress: callback },
  classify: { classifier: object, truncate: flag, signal, onProgress: callback },
  trace: { on: flag, byLayer: flag },
  format: { roles: object, start: text, prompt: text, trim: flag, stop: texts, bos: flag, think: marks },
  role: { before: text, after: text, opens: flag },
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

/** Characters of a name that a suggestion is looked for. */
const LONGEST_NAME = 100;

/** Letters that must change to make `b` of `a`. @param {string} a @param {string} b */
function distance(a, b) {
  let row = [...b, ''].map((_, i) => i);
  [...a].forEach((x, i) => {
    let last = i + 1;
    row = row.map((cellAbove, j) =>
      j ? (last = Math.min(cellAbove + 1, last + 1, row[j - 1] + Number(x !== b[j - 1]))) : last,
    );
  });
  return row[b.length];
}

/** @param {string} name @param {string[]} names @returns {string | undefined} the nearest, or the one that begins (else ends) most like it, if any is near; case and punctuation do not count */
export function nearest(name, names) {
  if (name.length > LONGEST_NAME) return undefined; // comparing takes as long as it is
  const plain = (/** @type {string} */ text) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const sorted = (/** @type {string} */ text) => [...text].sort().join('');
  const target = plain(name);
  /** Infinity: not near. @param {string} candidate */
  const distanceTo = (candidate) => {
    const candidateText = plain(candidate);
    const [shorter, longer] = [target, candidateText].sort((a, b) => a.length - b.length);
    const { length } = shorter;
    const [end, ...beginnings] = [longer.slice(-length), longer.slice(0, length), longer.slice(0, length + 1)].map(
      (part) => distance(shorter, part),
    );
    const beginning = Math.min(...beginnings);
    const letters = Math.min(beginning, end);
    const all = sorted(target) === sorted(candidateText) ? 1 : distance(target, candidateText); // letters changed places
    return Math.min(
      all < target.length / 2 ? all : Infinity,
      length > 1 && letters <= length / 4
        ? letters + 0.4 * (longer.length - length) + 0.1 * Number(end < beginning)
        : Infinity,
    );
  };
  const near = names.filter((candidate) => distanceTo(candidate) < Infinity);
  return near.sort((a, b) => distanceTo(a) - distanceTo(b))[0];
}

/** @param {unknown} value */
function shown(value) {
  if (value === undefined) return 'nothing';
  if (typeof value === 'number' || typeof value === 'bigint') return String(value); // NaN is null as JSON
  if (typeof value === 'function') return 'a function';
  try {
    const json = ArrayBuffer.isView(value) ? '{}' : (JSON.stringify(value) ?? String(value));
    // Objects that JSON knows nothing of, as a Response.
    return json === '{}' ? Object.prototype.toString.call(value).replace('[object Object]', json) : json.slice(0, 60);
  } catch {
    return typeof value;
  }
}

/** ARGUMENT: a value of the wrong kind. @param {string} name @param {unknown} value @param {string} expected */
export const wrong = (name, value, expected) =>
  new BqError('ARGUMENT', `${name}: expected ${expected}, found ${shown(value)}`, { details: { param: name } });

/**
 * The options that were given, without those that are undefined. ARGUMENT, with the name as `details.param`.
 * @template {object} T
 * @param {Options} checks  what there is
 * @param {string} call  whose options they are
 * @param {T | undefined} options
 * @returns {T}
 */
export function checkBy(checks, call, options) {
  if (options !== undefined && object(options))
    throw wrong(`the last argument of ${call}`, options, 'an object of options');
  const entries = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
  for (const [name, value] of entries) {
    const names = Object.keys(checks);
    if (!Object.hasOwn(checks, name)) {
      const suggestion = nearest(name, names);
      const question = suggestion ? `; did you mean "${suggestion}"?` : '';
      throw new BqError('ARGUMENT', `${call}: unknown option "${name}"${question}`, {
        hint: `${call} takes ${names.join(', ')}`,
        details: { param: name },
      });
    }
    const expected = checks[name](value);
    if (expected) throw wrong(name, value, expected);
  }
  return /** @type {T} */ (Object.fromEntries(entries));
}

/** As `checkBy`, of a call of ours. @template {object} T @param {keyof typeof OPTIONS} call @param {T | undefined} options */
export const checkOptions = (call, options) => checkBy(OPTIONS[call], call, options);
