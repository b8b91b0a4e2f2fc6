/** `bq4/receipts`: reproducibility records of generations, from which anybody can compute the text again and compare. */
import { checkBy, wrong } from '../../shared/check-options.js';
import { anyValue, object, signal as signalCheck } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { OPTION_ROWS } from '../../shared/generate-options.js';
import { hex } from '../../shared/hex.js';

/** @import { GenerateOptions, LoadOptions, Model, Quality, Result, Session } from '../../shared/types.js' */

/** Version of this package. Other versions may compute other bits. */
export const ENGINE = '1.0.0-rc.1';
const VERSION = 1;
/** Finish reasons that depend on time: a replay compares the tokens up to there. */
const STOPPED_EARLY = ['abort', 'deadline'];
/** Byte ranges in a saved session (c/session/save.c): 16 bytes identify the model's file, 8 an adapter. */
const [FILE_ID, KEY] = [
  [8, 24],
  [64, 72],
];

/** Names of the options that decide tokens. */
const OPTIONS = OPTION_ROWS.flatMap(([name, row]) => (row.receipt ? [name] : []));

/**
 * @typedef {object} Receipt  as JSON
 * @property {1} receipt
 * @property {string} engine   version of bq4
 * @property {{ name: string, file: string | null, context: number, kv: 'f32' | 'f16' | 'i8' | 'i4' | 'i2', activations: 'i8' | 'i16', kvWindow?: number, kvSinks?: number,
 *   kvEvict?: 'attention', quality?: Quality }} model
 *   `file`: the id of its file, 32 hexadecimal digits; that of a GGUF file is a hash of its header and length; null for files of version 1
 * @property {Record<string, unknown>} options  of the generation
 * @property {number} seed
 * @property {number[]} prompt
 * @property {number[]} tokens      generated
 * @property {Result['finishReason']} finishReason
 * @property {string} hash     SHA-256 of the other properties as JSON, in this order; hexadecimal
 */

/** @typedef {{ what: 'file' | 'tokens' | 'finishReason', expected: unknown, actual: unknown, at?: number }} Difference  `at`: index of the first token that differs */

/** @typedef {{ equal: boolean, engine: string, tokens: number[], differences: Difference[] }} Replay  `engine`: the version that computed it now */

/** @param {Omit<Receipt, 'hash'>} receipt */
async function hashOf({ receipt, engine, model, options, seed, prompt, tokens, finishReason }) {
  if (!globalThis.crypto?.subtle)
    throw new BqError('UNSUPPORTED', 'SHA-256 is not available on this page', {
      hint: 'serve it by https or from localhost',
    });
  const { name, file, context, kv, activations, kvWindow, kvSinks, kvEvict, quality } = model;
  const { skipLayers, exitLayer, lmHeadFraction } = quality ?? {};
  const qualityValues =
    exitLayer || lmHeadFraction ? [skipLayers, exitLayer, lmHeadFraction] : quality ? [skipLayers] : [];
  const cacheValues = [...(kvWindow ? [kvWindow, kvSinks] : []), ...(kvEvict ? [kvEvict] : []), ...qualityValues];
  const sorted = Object.fromEntries(OPTIONS.filter((key) => key in options).map((key) => [key, options[key]]));
  const hashedValues = [
    receipt,
    engine,
    [name, file, context, kv, activations, ...cacheValues],
    sorted,
    seed,
    prompt,
    tokens,
    finishReason,
  ];
  const json = new TextEncoder().encode(JSON.stringify(hashedValues));
  return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', json)));
}

const ofAdapter = () =>
  new BqError('UNSUPPORTED', 'receipts do not support adapters', { hint: 'generate without one' });

/** The id of the model's file; null: it has none. @param {Session} session */
async function fileOf(session) {
  const saved = await session.save().catch((error) => {
    if (error instanceof BqError && error.code === 'UNSUPPORTED') return null;
    throw error;
  });
  if (!saved) return null;
  if (saved.subarray(...KEY).some(Boolean)) throw ofAdapter();
  return hex(saved.subarray(...FILE_ID));
}

/** What a reply may have besides the options of a generation. */
const REPLY_OPTIONS = ['chatFormat', 'tools', 'templateVariables', 'prefix', 'toolChoice', 'parallelToolCalls'];

/** Options whose names are known; their values were checked when they were generated with. ARGUMENT. @param {string} call @param {any} options @param {string[]} [more]  names */
function checkNames(call, options, more = []) {
  const names = [...OPTION_ROWS.map(([name]) => name), ...more];
  return checkBy(Object.fromEntries(names.map((name) => [name, anyValue])), call, options);
}

/** Options as JSON, which has neither Infinity nor RegExp. @param {any} options */
function asJson(options) {
  if (options.adapter) throw ofAdapter();
  const { logitBias, responseFormat: format } = options;
  return JSON.parse(
    JSON.stringify({
      ...Object.fromEntries(OPTIONS.map((key) => [key, options[key]])),
      maxTokens: options.maxTokens === Infinity ? 'Infinity' : options.maxTokens,
      logitBias: logitBias?.map((/** @type {any} */ { token, bias }) => ({ token, bias: String(bias) })),
      responseFormat: format?.pattern instanceof RegExp ? { ...format, pattern: format.pattern.source } : format,
    }),
  );
}

/** ARGUMENT: no model, session or result. @param {string} what @param {any} value @param {string} member @param {string} type  of the member */
function checkGiven(what, value, member, type) {
  const isGiven = Array.isArray(value?.[member]) ? type === 'list' : typeof value?.[member] === type;
  if (!isGiven || (type === 'object' && !value[member])) throw wrong(`the ${what}`, value, `a ${what}`);
}

/** @param {Record<string, any>} options @returns {GenerateOptions} */
const fromJson = ({ logitBias, maxTokens, ...options }) => ({
  ...options,
  ...(maxTokens !== undefined && { maxTokens: Number(maxTokens) }),
  ...(logitBias && {
    logitBias: Array.isArray(logitBias)
      ? logitBias.map((/** @type {any} */ entry) => ({ token: entry?.token, bias: Number(entry?.bias) }))
      : logitBias,
  }),
});

/**
 * The receipt of the last generation of a session.
 * @param {Model} model
 * @param {Session} session  unchanged since then, with the model's `kv`, `kvWindow`, `kvSinks`, `kvEvict`, `quality` and `activations`
 * @param {Result} result    of the generation
 * @param {GenerateOptions} [options]  of the generation
 * @returns {Promise<Receipt>}
 */
export async function receiptOf(model, session, result, options) {
  checkGiven('model', model, 'info', 'object');
  checkGiven('session', session, 'save', 'function');
  checkGiven('result', result, 'tokens', 'list');
  const chosen = asJson(checkNames('receiptOf', options));
  const file = await fileOf(session);
  const sequence = await session.tokens();
  const { tokens } = result;
  const from = sequence.length - tokens.length;
  if (from < 1 || tokens.some((token, i) => sequence[from + i] !== token))
    throw new BqError('STATE', 'the session does not end with what this result has generated', {
      hint: 'ask for the receipt before anything else is done with the session',
    });
  const { context } = await session.stats();
  return createReceipt(model, context, file, sequence.slice(0, from), result, chosen);
}

/**
 * The receipt of a reply, also of one in a chat.
 * @param {Model} model
 * @param {Result} result    of a reply with the option `receipt: true`
 * @param {GenerateOptions} [options]  of the reply
 * @returns {Promise<Receipt>}
 */
export async function receiptOfReply(model, result, options) {
  checkGiven('model', model, 'info', 'object');
  checkGiven('result', result, 'tokens', 'list');
  const chosen = checkNames('receiptOfReply', options, REPLY_OPTIONS);
  const { origin, tokens } = result;
  const { contextTokens: context } = model.info;
  if (!origin)
    throw new BqError('STATE', 'expected a result with `origin`, found none', {
      hint: 'reply with { receipt: true }',
    });
  const { file, prompt, stop, stopTokens, sections } = origin;
  if (sections)
    throw new BqError('UNSUPPORTED', 'receipts do not support calls of tools, nor a format behind reasoning', {
      hint: 'reply without tools, or without reasoning',
    });
  if (prompt.length + tokens.length > context + 1)
    throw new BqError('UNSUPPORTED', 'receipts do not support replies that outgrew their context', {
      hint: 'give a smaller maxTokens, or load the model with a larger context',
    });
  return createReceipt(model, context, file, prompt, result, asJson({ ...chosen, stop, stopTokens }));
}

/**
 * @param {Model} model @param {number} context @param {string | null} file @param {number[]} prompt
 * @param {Result} result @param {Record<string, unknown>} options  as JSON
 * @returns {Promise<Receipt>}
 */
async function createReceipt({ info }, context, file, prompt, { tokens, seed, finishReason }, options) {
  const model = { name: info.name, file, ...deciding({ ...info, context }) };
  const receipt = {
    receipt: /** @type {1} */ (VERSION),
    engine: ENGINE,
    model,
    options,
    seed,
    prompt,
    tokens: [...tokens],
    finishReason,
  };
  return { ...receipt, hash: await hashOf(receipt) };
}

/** Checks a receipt from elsewhere. FORMAT, MISMATCH. @param {unknown} receipt @returns {Promise<Receipt>} */
export async function readReceipt(receipt) {
  /** @type {any} */
  let value = receipt;
  if (typeof receipt === 'string') {
    try {
      value = JSON.parse(receipt);
    } catch (cause) {
      throw new BqError('FORMAT', 'the receipt is not JSON', { cause });
    }
  }
  checkShape(value);
  const computedHash = await hashOf(value).catch((cause) => {
    throw cause instanceof BqError ? cause : new BqError('FORMAT', 'the receipt is nested too deeply', { cause });
  });
  if (computedHash !== value.hash)
    throw new BqError('MISMATCH', 'the receipt was changed: its hash does not match its content', {
      hint: 'get the original receipt from its author',
    });
  return value;
}

/** FORMAT: no receipt. @param {any} value */
function checkShape(value) {
  const isTokens = (/** @type {unknown} */ list) =>
    Array.isArray(list) && list.every((token) => Number.isInteger(token) && token >= 0);
  if (object(value) || value.receipt !== VERSION)
    throw new BqError('FORMAT', `expected a receipt of version ${VERSION}, found something else`);
  const { model, options, seed, prompt, tokens } = value;
  if (object(model) || object(options) || !Number.isInteger(seed) || !isTokens(prompt) || !isTokens(tokens))
    throw new BqError('FORMAT', 'the receipt lacks its model, options, seed, prompt or tokens');
  const unknownOption = Object.keys(options).find((key) => !OPTIONS.some((name) => name === key));
  if (unknownOption) throw new BqError('FORMAT', `unknown option "${unknownOption}" in the receipt`);
}

/**
 * Settings of a model that decide tokens, besides its file.
 * @param {Pick<Receipt['model'], 'context' | 'kv' | 'activations' | 'kvWindow' | 'kvSinks'> &
 *   { kvEvict?: 'oldest' | 'attention', quality?: Quality | null }} model
 */
const deciding = ({ context, kv, activations, kvWindow, kvSinks, kvEvict, quality }) => ({
  context,
  kv,
  activations,
  ...(kvWindow && { kvWindow, kvSinks }),
  ...(kvEvict === 'attention' && { kvEvict }),
  ...(quality && { quality }),
});

/** Options with which a model must be loaded, or a session created, to compute a receipt again. FORMAT. @param {Receipt} receipt @returns {Pick<LoadOptions, 'contextTokens' | 'kv' | 'activations' | 'kvWindow' | 'kvSinks' | 'kvEvict' | 'quality'>} */
export function loadOptions(receipt) {
  checkShape(receipt);
  const { context, ...options } = deciding(receipt.model);
  return { contextTokens: context, ...options };
}

/**
 * Computes a receipt's generation again and compares.
 * @param {Model} model  loaded with `loadOptions(receipt)`
 * @param {Receipt} receipt  read by `readReceipt`, if it came from elsewhere
 * @param {{ signal?: AbortSignal }} [more]
 * @returns {Promise<Replay>}
 */
export async function replay(model, receipt, more) {
  const { signal } = checkBy({ signal: signalCheck }, 'replay', more);
  checkGiven('model', model, 'createSession', 'function');
  const session = await model.createSession(loadOptions(receipt));
  try {
    const run = session.generate(receipt.prompt, { ...fromJson(receipt.options), seed: receipt.seed, signal });
    /** @type {number[]} */
    const tokens = [];
    const isEmpty = STOPPED_EARLY.includes(receipt.finishReason) && !receipt.tokens.length;
    for await (const { token } of isEmpty ? [] : run) {
      tokens.push(token);
      if (STOPPED_EARLY.includes(receipt.finishReason) && tokens.length === receipt.tokens.length) break;
    }
    const finishReasonNow = isEmpty ? 'abort' : (await run.result).finishReason;
    const finishReason =
      finishReasonNow === 'abort' && STOPPED_EARLY.includes(receipt.finishReason)
        ? receipt.finishReason
        : finishReasonNow;
    const file = await fileOf(session);
    /** @type {Difference[]} */
    const differences = [];
    if (file !== receipt.model.file) differences.push({ what: 'file', expected: receipt.model.file, actual: file });
    const at = tokens.findIndex((token, i) => token !== receipt.tokens[i]);
    const first =
      at < 0 && tokens.length !== receipt.tokens.length ? Math.min(tokens.length, receipt.tokens.length) : at;
    if (first >= 0)
      differences.push({
        what: 'tokens',
        at: first,
        expected: receipt.tokens[first] ?? null,
        actual: tokens[first] ?? null,
      });
    else if (finishReason !== receipt.finishReason)
      differences.push({ what: 'finishReason', expected: receipt.finishReason, actual: finishReason });
    return { equal: differences.length === 0, engine: ENGINE, tokens, differences };
  } finally {
    await session.close();
  }
}
