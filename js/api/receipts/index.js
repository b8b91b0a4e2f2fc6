/** `bq4/receipts`: reproducibility records of generations, with which a text can be computed again and compared. */
import { checkBy, checkNames, wrong } from '../../shared/check-options.js';
import { object, signal as signalCheck } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { OPTION_ROWS } from '../../shared/generate-options.js';
import { hex } from '../../shared/hex.js';

/** @import { GenerateOptions, LoadOptions, Model, Quality, Result, Session } from '../../shared/types.js' */

/** Version of this package. Other versions may compute different bits. */
export const ENGINE = '1.0.0-rc.1';
/** Version of the format of receipts. */
const VERSION = 1;
/** Finish reasons that depend on time. A replay of such a generation only compares the tokens of the receipt. */
const STOPPED_EARLY = ['abort', 'deadline'];
/**
 * Byte ranges in a saved session (c/session/save.c): the 16-byte id of the model's file, and the 8-byte key of an
 * adapter.
 */
const [FILE_ID, ADAPTER_KEY] = [
  [8, 24],
  [64, 72],
];

/** Names of the options that affect the tokens. */
const OPTIONS = OPTION_ROWS.flatMap(([name, row]) => (row.receipt ? [name] : []));

/**
 * A receipt, which can be stored as JSON.
 * @typedef {object} Receipt
 * @property {1} receipt
 * @property {string} engine   version of bq4
 * @property {{ name: string, file: string | null, context: number, kv: import('../../shared/names.js').KvType, activations: 'i8' | 'i16', kvWindow?: number, kvSinks?: number,
 *   kvEvict?: 'attention', quality?: Quality }} model
 *   `file`: the id of the model's file, 32 hexadecimal digits. The id of a GGUF file is a hash of its header and
 *   length. Null for files of version 1
 * @property {Record<string, unknown>} options  options of the generation that affect the tokens
 * @property {number} seed
 * @property {number[]} prompt
 * @property {number[]} tokens      generated tokens
 * @property {Result['finishReason']} finishReason
 * @property {string} hash     SHA-256 of the other properties as JSON, in this order; hexadecimal
 */

/**
 * A difference between a receipt and its replay. `at`: index of the first token that differs.
 * @typedef {{ what: 'file' | 'tokens' | 'finishReason', expected: unknown, actual: unknown, at?: number }} Difference
 */

/**
 * Result of a replay. `engine`: version of the package that computed it.
 * @typedef {{ equal: boolean, engine: string, tokens: number[], differences: Difference[] }} Replay
 */

/**
 * Computes the hash of a receipt. Throws UNSUPPORTED on a page without SHA-256.
 * @param {Omit<Receipt, 'hash'>} receipt
 */
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

const adapterError = () =>
  new BqError('UNSUPPORTED', 'receipts do not support adapters', { hint: 'generate without one' });

/**
 * Returns the id of the model's file, or null if it has none. Throws UNSUPPORTED for an adapter.
 * @param {Session} session
 */
async function fileOf(session) {
  const saved = await session.save().catch((error) => {
    if (error instanceof BqError && error.code === 'UNSUPPORTED') return null;
    throw error;
  });
  if (!saved) return null;
  if (saved.subarray(...ADAPTER_KEY).some(Boolean)) throw adapterError();
  return hex(saved.subarray(...FILE_ID));
}

/** Names of the options of `generate`, which has checked their values. */
const GENERATE_OPTIONS = OPTION_ROWS.map(([name]) => name);
/** Names of the options that only replies have. */
const REPLY_OPTIONS = ['chatFormat', 'tools', 'templateVariables', 'prefix', 'toolChoice', 'parallelToolCalls'];

/**
 * Converts options to values of JSON, which has neither Infinity nor RegExp. Throws UNSUPPORTED.
 * @param {any} options
 */
function toJson(options) {
  if (options.adapter) throw adapterError();
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

/**
 * Throws ARGUMENT if a value is not a model, a session or a result.
 * @param {string} name  name of the expected object, for the message
 * @param {any} value
 * @param {string} member  member that the object must have
 * @param {string} type  type of the member
 */
function checkObject(name, value, member, type) {
  const hasType = Array.isArray(value?.[member]) ? type === 'list' : typeof value?.[member] === type;
  if (!hasType || (type === 'object' && !value[member])) throw wrong(`the ${name}`, value, `a ${name}`);
}

/**
 * Converts the options of a receipt to options of `generate`.
 * @param {Record<string, any>} options
 * @returns {GenerateOptions}
 */
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
 * Creates the receipt of the last generation of a session.
 * @param {Model} model
 * @param {Session} session  unchanged since the generation; with the `kv`, `kvWindow`, `kvSinks`, `kvEvict`, `quality`
 *   and `activations` of the model
 * @param {Result} result    result of the generation
 * @param {GenerateOptions} [options]  options of the generation
 * @returns {Promise<Receipt>}
 */
export async function receiptOf(model, session, result, options) {
  checkObject('model', model, 'info', 'object');
  checkObject('session', session, 'save', 'function');
  checkObject('result', result, 'tokens', 'list');
  const jsonOptions = toJson(checkNames('receiptOf', GENERATE_OPTIONS, options));
  const file = await fileOf(session);
  const sequence = await session.tokens();
  const { tokens } = result;
  const from = sequence.length - tokens.length;
  if (from < 1 || tokens.some((token, i) => sequence[from + i] !== token))
    throw new BqError('STATE', 'the session does not end with the tokens of this result', {
      hint: 'create the receipt before the session is used again',
    });
  const { context } = await session.stats();
  return createReceipt(model, context, file, sequence.slice(0, from), result, jsonOptions);
}

/**
 * Creates the receipt of a reply, including replies in a chat.
 * @param {Model} model
 * @param {Result} result    result of a reply with the option `receipt: true`
 * @param {GenerateOptions} [options]  options of the reply
 * @returns {Promise<Receipt>}
 */
export async function receiptOfReply(model, result, options) {
  checkObject('model', model, 'info', 'object');
  checkObject('result', result, 'tokens', 'list');
  const replyOptions = checkNames('receiptOfReply', [...GENERATE_OPTIONS, ...REPLY_OPTIONS], options);
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
    throw new BqError('UNSUPPORTED', 'receipts do not support replies that exceeded their context', {
      hint: 'pass a smaller maxTokens, or load the model with a larger context',
    });
  return createReceipt(model, context, file, prompt, result, toJson({ ...replyOptions, stop, stopTokens }));
}

/**
 * @param {Model} model
 * @param {number} context
 * @param {string | null} file
 * @param {number[]} prompt
 * @param {Result} result
 * @param {Record<string, unknown>} options  result of `toJson`
 * @returns {Promise<Receipt>}
 */
async function createReceipt({ info }, context, file, prompt, { tokens, seed, finishReason }, options) {
  const model = { name: info.name, file, ...settingsOf({ ...info, context }) };
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

/**
 * Checks a received receipt, as JSON or an object. Throws FORMAT, MISMATCH.
 * @param {unknown} receipt
 * @returns {Promise<Receipt>}
 */
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

/** Throws FORMAT if a value is not a receipt. @param {any} value */
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
 * Returns the settings of a model that affect the tokens.
 * @param {Pick<Receipt['model'], 'context' | 'kv' | 'activations' | 'kvWindow' | 'kvSinks'> &
 *   { kvEvict?: 'oldest' | 'attention', quality?: Quality | null }} model
 */
const settingsOf = ({ context, kv, activations, kvWindow, kvSinks, kvEvict, quality }) => ({
  context,
  kv,
  activations,
  ...(kvWindow && { kvWindow, kvSinks }),
  ...(kvEvict === 'attention' && { kvEvict }),
  ...(quality && { quality }),
});

/**
 * Returns the options to load a model, or to create a session, for computing a receipt again. Throws FORMAT.
 * @param {Receipt} receipt
 * @returns {Pick<LoadOptions, 'contextTokens' | 'kv' | 'activations' | 'kvWindow' | 'kvSinks' | 'kvEvict' | 'quality'>}
 */
export function loadOptions(receipt) {
  checkShape(receipt);
  const { context, ...options } = settingsOf(receipt.model);
  return { contextTokens: context, ...options };
}

/**
 * Computes the generation of a receipt again and compares the results.
 * @param {Model} model  loaded with `loadOptions(receipt)`
 * @param {Receipt} receipt  a received receipt must be checked with `readReceipt` first
 * @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<Replay>}
 */
export async function replay(model, receipt, options) {
  const { signal } = checkBy({ signal: signalCheck }, 'replay', options);
  checkObject('model', model, 'createSession', 'function');
  const session = await model.createSession(loadOptions(receipt));
  try {
    const generation = session.generate(receipt.prompt, { ...fromJson(receipt.options), seed: receipt.seed, signal });
    /** @type {number[]} */
    const tokens = [];
    const isEmpty = STOPPED_EARLY.includes(receipt.finishReason) && !receipt.tokens.length;
    for await (const { token } of isEmpty ? [] : generation) {
      tokens.push(token);
      if (STOPPED_EARLY.includes(receipt.finishReason) && tokens.length === receipt.tokens.length) break;
    }
    const finishReasonNow = isEmpty ? 'abort' : (await generation.result).finishReason;
    const finishReason =
      finishReasonNow === 'abort' && STOPPED_EARLY.includes(receipt.finishReason)
        ? receipt.finishReason
        : finishReasonNow;
    const file = await fileOf(session);
    /** @type {Difference[]} */
    const differences = [];
    if (file !== receipt.model.file) differences.push({ what: 'file', expected: receipt.model.file, actual: file });
    const at = tokens.findIndex((token, i) => token !== receipt.tokens[i]);
    const firstDifference =
      at < 0 && tokens.length !== receipt.tokens.length ? Math.min(tokens.length, receipt.tokens.length) : at;
    if (firstDifference >= 0)
      differences.push({
        what: 'tokens',
        at: firstDifference,
        expected: receipt.tokens[firstDifference] ?? null,
        actual: tokens[firstDifference] ?? null,
      });
    else if (finishReason !== receipt.finishReason)
      differences.push({ what: 'finishReason', expected: receipt.finishReason, actual: finishReason });
    return { equal: differences.length === 0, engine: ENGINE, tokens, differences };
  } finally {
    await session.close();
  }
}
