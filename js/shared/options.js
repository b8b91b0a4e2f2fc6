/**
 * The options of every public call, by name: unknown ones are refused with the nearest known one, others by kind and range.
 * Both sides of a port check with these, so that a call that can't succeed is never made.
 */
import { BqError } from './errors.js';

/** Says what a value should have been; '' where it is fine. @typedef {(value: any) => string} Check */
/** @typedef {Record<string, Check>} Options */

/** @param {string} what @param {(value: any) => boolean} is @returns {Check} */
export const kind = (what, is) => (value) => (is(value) ? '' : what);

/** @param {number} least @param {number} [most] */
export const number = (least, most = Infinity) =>
  kind(
    most < Infinity ? `a number from ${least} to ${most}` : `a number of at least ${least}`,
    (v) => Number.isFinite(v) && v >= least && v <= most,
  );
/** @param {number} least @param {number} [most] */
export const whole = (least, most = 2 ** 32 - 1) =>
  kind(`a whole number from ${least} to ${most}`, (v) => Number.isInteger(v) && v >= least && v <= most);
/** @param {string[]} names */
export const oneOf = (...names) => kind(`one of ${names.join(', ')}`, (v) => names.includes(v));

const any = () => '';
export const flag = kind('true or false', (v) => typeof v === 'boolean');
export const text = kind('a text', (v) => typeof v === 'string');
const signal = kind(
  'an AbortSignal',
  (v) => [v?.throwIfAborted, v?.addEventListener].every((method) => typeof method === 'function') && !flag(v.aborted),
);
const callback = kind('a function', (v) => typeof v === 'function');
const bytes = kind('a number of bytes', (v) => typeof v === 'number' && v > 0);
const tokens = kind(
  'a whole number of at least 0, or Infinity',
  (v) => v === Infinity || !whole(0, Number.MAX_SAFE_INTEGER)(v),
);
/** Infinity: none. */
const milliseconds = kind('a number of milliseconds', (v) => typeof v === 'number' && v >= 0);
const address = kind('an address', (v) => !text(v) || v instanceof URL);
const addresses = kind('a list of addresses', (v) => Array.isArray(v) && v.every((one) => !address(one)));
export const texts = kind('a text or a list of texts', (v) => [v].flat().every((t) => !text(t)));
const ids = kind('a list of tokens', (v) => Array.isArray(v) && v.every((id) => !whole(0)(id)));
const rate = kind('a number above 0', (v) => typeof v === 'number' && v > 0);
const deadline = kind('a number of milliseconds or a Date', (v) =>
  v instanceof Date ? !Number.isNaN(v.getTime()) : !milliseconds(v),
);
const threads = kind('"auto" or 1 to 32', (v) => v === 'auto' || !whole(1, 32)(v));
export const object = kind('an object', (v) => typeof v === 'object' && v !== null && !Array.isArray(v));

export const objects = kind('a list of objects', (v) => Array.isArray(v) && v.every((one) => !object(one)));
const chatFormat = kind('a name or an object', (v) => !text(v) || !object(v));
const marks = kind('two texts', (v) => Array.isArray(v) && v.length === 2 && v.every((one) => one && !text(one)));

/** One that was loaded, or its id; null: none. */
const adapter = kind('an adapter', (v) => v === null || !text(v?.info?.id ?? v));

/** An object of nothing but these. @param {any} v @param {Options} known */
const made = (v, known) =>
  !object(v) && Object.keys(v).every((name) => Object.hasOwn(known, name) && known[name](v[name]) === '');

/** Whether what comes next is guessed, how much of it, and by which model, which is named as an adapter is. @type {Options} */
const SPECULATE = { tokens: whole(1, 31), model: adapter };
export const speculation = kind(
  '"auto", true, false, or { tokens: 1 to 31, model }',
  (v) => v === 'auto' || !flag(v) || (made(v, SPECULATE) && Object.keys(v).length > 0),
);

/** What a session gives up for its rate. @type {Options} */
const QUALITY = { skipLayers: ids, exitLayer: whole(1), lmHeadFraction: rate };
const quality = kind('{ skipLayers, exitLayer, lmHeadFraction }', (v) => made(v, QUALITY));

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
const contextPolicy = oneOf('error', 'shift', 'summarize');
const GENERATE = {
  maxTokens: tokens,
  temperature: number(0),
  topK: whole(0),
  topP: number(0, 1),
  minP: number(0, 1),
  repeatPenalty: number(0),
  repeatLast: whole(0),
  seed: whole(0, 2 ** 53),
  stop: texts,
  stopTokens: ids,
  logitBias: objects,
  presencePenalty: number(-Infinity),
  frequencyPenalty: number(-Infinity),
  logprobs: whole(0, 20),
  promptLogprobs: whole(0, 20),
  responseFormat: object,
  speculate: speculation,
  adapter,
  contextPolicy,
  receipt: flag,
  sinks: whole(0),
  deadline,
  maxTokensPerSecond: rate,
  signal,
  onProgress: callback,
};
/** How much of the machine an engine takes: the most first. 'pause' is for the options `background` and `pressure` alone. */
export const PACES = ['full', 'slow', 'pause'];
const pace = oneOf(...PACES);
const PROMPTS = { chatFormat, tools: objects, templateVariables: object };
/** Which tools a reply may call. */
const toolChoice = kind(
  '"none", "auto", "required" or { name }',
  (v) => ['none', 'auto', 'required'].includes(v) || made(v, { name: text }),
);
const ENGINE = {
  build: oneOf('relaxed', 'relaxed16', 'simd128'),
  wasmUrl: any,
  threads,
  threadUrl: address,
  signal,
  cache: any,
};
const LOAD = {
  ...SESSION,
  sessions: whole(1, 63),
  adapterBytes: whole(0),
  signal,
  onProgress: callback,
  memoryBudget: bytes,
  integrity: text,
  streaming: flag,
};

/** By the call, or the thing, that they belong to. @satisfies {Record<string, Options>} */
export const OPTIONS = {
  createEngine: ENGINE,
  createWorkerEngine: { ...ENGINE, worker: any, background: pace, pressure: pace },
  connectEngine: { signal },
  fromUrl: {
    companion: any,
    manifest: any,
    mirrors: addresses,
    retries: whole(0),
    retryDelay: number(0),
    timeout: milliseconds,
    hubUrl: address,
  },
  source: { companion: any, manifest: any },
  plan: LOAD,
  load: LOAD,
  tokenize: { addSpecial: flag, parseSpecial: flag },
  createSession: { ...SESSION, adapter },
  loadAdapter: { scale: number(-Infinity), signal },
  createChat: { system: any, messages: any, contextPolicy, ...PROMPTS },
  countTokens: { ...PROMPTS, prefix: text },
  complete: { ...GENERATE, ...PROMPTS, prefix: text, toolChoice, parallelToolCalls: flag },
  generate: GENERATE,
  append: { parseSpecial: flag, signal, onProgress: callback },
  choose: { ...PROMPTS, prefix: text, signal, onProgress: callback },
  savePromptCache: { ...PROMPTS, signal, onProgress: callback },
  chooseNext: { signal, onProgress: callback },
  embed: { pooling: oneOf('mean', 'cls', 'last'), normalize: flag, truncate: flag, signal, onProgress: callback },
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
    content: any,
    tokens: ids,
    name: text,
    reasoning_content: text,
    tool_calls: objects,
    tool_call_id: text,
  },
};

/** Letters that must change to make `b` of `a`. @param {string} a @param {string} b */
function distance(a, b) {
  let row = [...b, ''].map((_, i) => i);
  [...a].forEach((x, i) => {
    let last = i + 1;
    row = row.map((above, j) =>
      j ? (last = Math.min(above + 1, last + 1, row[j - 1] + Number(x !== b[j - 1]))) : last,
    );
  });
  return row[b.length];
}

/** @param {string} name @param {string[]} names @returns {string} the nearest, or the one that begins or ends most like it; case and punctuation do not count */
export function nearest(name, names) {
  const plain = (/** @type {string} */ text) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const given = plain(name);
  const far = (/** @type {string} */ known) => {
    const whole = plain(known);
    const more = 0.4 * Math.abs(whole.length - given.length);
    const [start, end] = [whole.slice(0, given.length), whole.slice(-given.length)];
    return Math.min(distance(given, whole), distance(given, start) + more, distance(given, end) + more);
  };
  return names.reduce((best, known) => (far(known) < far(best) ? known : best));
}

/** @param {unknown} value */
function shown(value) {
  try {
    return typeof value === 'function' ? 'a function' : (JSON.stringify(value) ?? String(value)).slice(0, 60);
  } catch {
    return typeof value;
  }
}

/** ARGUMENT: a value of the wrong kind. @param {string} name @param {unknown} value @param {string} wanted */
export const wrong = (name, value, wanted) =>
  new BqError('ARGUMENT', `${name}: expected ${wanted}, found ${shown(value)}`, { details: { param: name } });

/**
 * The options that were given, without those that are undefined. ARGUMENT, with the name as `details.param`.
 * @template {object} T
 * @param {Options} known  what there is
 * @param {string} what  whose options they are
 * @param {T | undefined} given
 * @returns {T}
 */
export function checkBy(known, what, given) {
  if (given !== undefined && object(given)) throw wrong(`the last argument of ${what}`, given, 'an object of options');
  const entries = Object.entries(given ?? {}).filter(([, value]) => value !== undefined);
  for (const [name, value] of entries) {
    const names = Object.keys(known);
    if (!Object.hasOwn(known, name))
      throw new BqError('ARGUMENT', `${what}: unknown option "${name}"; did you mean "${nearest(name, names)}"?`, {
        hint: `${what} takes ${names.join(', ')}`,
        details: { param: name },
      });
    const wanted = known[name](value);
    if (wanted) throw wrong(name, value, wanted);
  }
  return /** @type {T} */ (Object.fromEntries(entries));
}

/** As `checkBy`, of a call of ours. @template {object} T @param {keyof typeof OPTIONS} what @param {T | undefined} given */
export const checkOptions = (what, given) => checkBy(OPTIONS[what], what, given);
