/**
 * Loads a model into a WebAssembly instance of its own, together with the windows of a calibration text. Weights can be
 * replaced.
 */
import { f16FromNumber } from '../format/bq4/half.js';
import { encodeText } from '../engine/model/encode-text.js';
import { Loading } from '../storage/load/loading.js';
import { planModel, sessionRecord } from '../engine/plan/plan.js';
import { BqError } from '../shared/errors.js';
import { openSource, toSource } from '../storage/sources/index.js';
import { structs, THREADS } from '../wasm/abi.js';
import { Threads } from '../wasm/threads.js';
import { compile, Wasm } from '../wasm/wasm.js';
import { CONVERT_THREADS_URL, CONVERT_URL } from './abi.js';
import { WeightPages } from './weight-pages.js';
import { chunksOf } from './text-chunks.js';

/** @import { Plan, Source } from '../shared/types.js' */
/** @import { ByteSource } from '../storage/sources/types.js' */

/**
 * Dimensions of a model. stateWidth: numbers per token that a recurrent layer computes from its state; 0 without
 * recurrent layers.
 * @typedef {{ layers: number, hidden: number, ffn: number, heads: number, headDim: number, stateWidth: number }} Shape
 */

/** The threads that run the model, reused by the next one. */
const workers = new Threads();

/** Limit of an instance's memory, and the size of a WebAssembly page, in bytes. */
const [MAX_MEMORY, PAGE] = [2 ** 32 - 2 ** 24, 65536];
/** Tokens whose logits are computed in one batch, besides the first. */
export const DRAFT_TOKENS = 31;
/** Bytes reserved for the session's small allocations. */
const RESERVED_BYTES = 1 << 22;
/** Characters of the text that are tokenized at once. */
const CHUNK_CHARACTERS = 1 << 16;
/** Upper bound of the heap that tokenization takes for each character, in bytes. */
const BYTES_PER_CHARACTER = 128;

/**
 * Modules by name: number (c/model/program.h), and the module that represents all modules with the same input.
 * @type {Record<string, [number, string]>}
 */
export const MODULES = {
  'attn.q': [1, 'attn.q'],
  'attn.k': [2, 'attn.q'],
  'attn.v': [3, 'attn.q'],
  'attn.o': [6, 'attn.o'],
  'mlp.gate': [9, 'mlp.up'],
  'mlp.up': [10, 'mlp.up'],
  'mlp.down': [11, 'mlp.down'],
  'conv.in': [21, 'conv.in'],
  'conv.out': [23, 'conv.out'],
  'delta.in': [24, 'delta.in'],
  'delta.z': [25, 'delta.in'],
  'delta.out': [32, 'delta.out'],
  'mamba.in': [33, 'mamba.in'],
  'mamba.out': [40, 'mamba.out'],
  'attn.gate': [48, 'attn.q'],
};

/**
 * Returns layer and module of a matrix, and the key of its input; null if its inputs are not collected.
 * @param {string} name
 */
export function inputOf(name) {
  const [, layer, module] = /^h\.(\d+)\.(\w+\.\w+)\.weight$/.exec(name) ?? [];
  if (!module || !Object.hasOwn(MODULES, module)) return null;
  const [number, shared] = MODULES[module];
  return { layer: Number(layer), module: number, key: `h.${layer}.${shared}` };
}

/** Returns the lengths of the inputs of a layer's products. @param {Shape} shape */
export const inputCols = ({ hidden, ffn, heads, headDim, stateWidth }) => [
  hidden,
  hidden,
  heads * headDim,
  ffn,
  ...(stateWidth ? [hidden, stateWidth] : []),
];

/**
 * A loaded model and a text in windows of its context. spare: unused heap bytes; pages: loads weights if not all of
 * them fit in the heap.
 * @typedef {{ wasm: Wasm, model: number, windows: Uint32Array[], plan: Plan, context: number, spare: number,
 *   pages: WeightPages | null }} Reading
 */

/**
 * Returns the memory plan for `budget` bytes: all weights stay in memory if they fit, else as many layers as fit, with
 * space to load two more. Null if not even these two layers fit.
 * @param {import('../wasm/wasm.js').Compiled} compiled @param {Source} source @param {ByteSource} file
 * @param {Parameters<typeof planModel>[3]} options @param {number} budget
 */
async function planWithin(compiled, source, file, options, budget) {
  if (budget < PAGE) return null;
  try {
    return await planModel(compiled, source, file, { ...options, exact: true, memoryBudget: budget });
  } catch (error) {
    if (error instanceof BqError && error.code === 'NOMEM') return null;
    throw error;
  }
}

/**
 * Returns an error with the size of memory that would suffice, found by bisection.
 * @param {number} budget  bytes @param {number} reservedBytes  part of the budget that is not available for the model
 * @param {(bytes: number) => Promise<unknown>} plan  plans the model; null if the memory is too small
 */
async function memoryError(budget, reservedBytes, plan) {
  const hint = 'pass a larger --memory-budget (at most 4GB), or use a smaller model';
  let [tooLittle, enough] = [Math.max(0, budget - reservedBytes) / PAGE, (MAX_MEMORY - reservedBytes) / PAGE];
  if (!(await plan(enough * PAGE)))
    return new BqError(
      'NOMEM',
      'two layers of the model and the calibration data exceed the memory of an instance (4 GB)',
      { hint },
    );
  while (enough - tooLittle > 1) {
    const middle = Math.floor((tooLittle + enough) / 2);
    if (await plan(middle * PAGE)) enough = middle;
    else tooLittle = middle;
  }
  const needed = enough * PAGE + reservedBytes;
  return new BqError('NOMEM', `calibration needs ${needed} bytes of memory; the budget is ${budget}`, {
    hint,
    details: { budget, needed },
  });
}

/**
 * Loads a model and tokenizes a text. Throws ARGUMENT if the text has no tokens; NOMEM, STATE.
 * @param {import('../shared/types.js').SourceLike} from
 * @param {string} text
 * @param {{ tokens?: number, threads?: number, budget?: number,
 *   reservedBytesOf: (plan: Shape, context: number) => number, optionalBytesOf?: (plan: Shape) => number }} options
 *   budget: bytes of memory; reservedBytesOf: returns the bytes that the caller needs in addition to the model;
 *   optionalBytesOf: returns the further bytes that the caller can use if the budget suffices
 * @returns {Promise<Reading>}
 */
export async function openReading(
  from,
  text,
  { tokens = 16384, threads: requested = 1, budget = MAX_MEMORY, reservedBytesOf, optionalBytesOf },
) {
  const threads = Math.min(requested, THREADS);
  const wasmUrl = { relaxed: CONVERT_URL, simd128: CONVERT_URL, 'simd128-threads': CONVERT_THREADS_URL };
  const compiled = { ...(await compile({ build: 'simd128', wasmUrl }, threads > 1)), threads };
  const source = toSource(from);
  const file = await openSource(source);
  try {
    const planOf = (/** @type {number} */ context, /** @type {number} */ bytes) =>
      planWithin(compiled, source, file, { ...sessionOptions(context), sessions: 1 }, bytes);
    const shape = (await planOf(1, MAX_MEMORY))?.plan;
    if (!shape) throw new BqError('NOMEM', 'two layers of the model exceed the memory of an instance (4 GB)');
    const context = Math.min(shape.trainedContext, 2048);
    const memory = Math.floor(Math.min(budget, MAX_MEMORY) / PAGE) * PAGE;
    const reservedBytes =
      Math.ceil(
        (reservedBytesOf(shape, context) +
          RESERVED_BYTES +
          BYTES_PER_CHARACTER * Math.min(text.length, CHUNK_CHARACTERS)) /
          PAGE,
      ) * PAGE;
    const planResult = await planOf(context, memory - reservedBytes);
    if (!planResult) throw await memoryError(memory, reservedBytes, (bytes) => planOf(context, bytes));
    const { plan, regionBytes, paging } = planResult;
    const unusedBytes = memory - compiled.heapBase - regionBytes - reservedBytes;
    const spare = Math.max(0, Math.min(optionalBytesOf?.(plan) ?? 0, unusedBytes));
    const wasm = await Wasm.create(compiled, regionBytes + reservedBytes + spare);
    return await releaseOnError(wasm, async () => {
      if (threads > 1) await workers.attach(wasm, compiled, threads); // without these threads this thread computes alone
      const loading = new Loading(wasm, file, planResult, sessionOptions(context));
      const model = await loading.model;
      await loading.done;
      const pages = paging && (await WeightPages.open(wasm, model, source));
      return { wasm, model, windows: windowsOf(wasm, model, text, context, tokens), plan, context, spare, pages };
    });
  } finally {
    await file.close();
  }
}

/**
 * Yields to the event loop between two pieces of work; throws if the signal is aborted.
 * @param {AbortSignal} [signal]
 */
export async function yieldToEventLoop(signal) {
  await new Promise((resolve) => setImmediate(resolve));
  signal?.throwIfAborted();
}

/**
 * Calls `create`, and releases the instance and its threads if that throws.
 * @template T @param {Wasm} wasm @param {() => T | Promise<T>} create
 */
export async function releaseOnError(wasm, create) {
  try {
    return await create();
  } catch (error) {
    wasm.release();
    throw error;
  }
}

/** Returns the options of a session that computes all tokens of a window in one pass. @param {number} context */
const sessionOptions = (context) => ({
  contextTokens: context,
  kv: /** @type {'f32'} */ ('f32'),
  draftTokens: DRAFT_TOKENS,
  prefillWindow: context,
});

/** Creates a session. @param {Wasm} wasm @param {number} model @param {number} context */
export const sessionOf = (wasm, model, context) =>
  wasm.scope((take) => {
    const options = take(structs.bqw_session_options.size);
    wasm.write('bqw_session_options', options, sessionRecord(sessionOptions(context)));
    return wasm.out('bqw_session_create', model, options);
  });

/**
 * Sets the token sequence of a session.
 * @param {Wasm} wasm @param {number} session @param {Uint32Array | number[]} ids
 */
export const syncSession = (wasm, session, ids) =>
  wasm.scope((take) => {
    const at = take(4 * ids.length);
    wasm.u32(at, ids.length).set(ids);
    wasm.out('bqw_session_sync', session, at, ids.length);
  });

/**
 * Returns the address of a matrix's weights, and a function that converts f32 to their type. Throws ARGUMENT for other
 * tensors.
 * @param {Wasm} wasm @param {number} session @param {number} layers @param {string} name
 */
export function weightsAt(wasm, session, layers, name) {
  const [, outer] = /^(wte|lm_head)\.weight$/.exec(name) ?? [];
  const input = outer ? { layer: layers, module: Number(outer === 'lm_head') } : inputOf(name);
  if (!input) throw new BqError('ARGUMENT', `the weights of "${name}" can't be replaced`);
  return wasm.scope((take) => {
    const out = take(8);
    wasm.check('bqw_weights', session, input.layer, input.module, out);
    const [at, type] = wasm.u32(out, 2);
    return { at, bytesOf: type === 0 ? asBytes : asHalves };
  });
}

/** @param {Float32Array} values */
const asBytes = (values) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
/** @param {Float32Array} values */
const asHalves = (values) => new Uint8Array(Uint16Array.from(values, f16FromNumber).buffer);

/** Allocates n floats with the value 0 and returns their address. @param {Wasm} wasm @param {number} n */
export function allocateZeros(wasm, n) {
  const at = wasm.alloc(4 * n);
  wasm.bytes(at, 4 * n).fill(0);
  return at;
}

/** @param {Wasm} wasm @param {number} model */
function hasTokenizer(wasm, model) {
  try {
    return wasm.outStruct('bqw_tokenizer_info', 'bqw_tokenizer_info_get', model) !== null;
  } catch {
    return false;
  }
}

/**
 * Returns the first tokens of a text, which is tokenized only as far as needed.
 * @param {Wasm} wasm @param {number} model @param {string} text @param {number} tokens
 */
function firstTokens(wasm, model, text, tokens) {
  /** @type {number[]} */
  const ids = [];
  for (const chunk of chunksOf(text, CHUNK_CHARACTERS)) {
    for (const id of encodeText(wasm, model, chunk, { addSpecial: false, parseSpecial: true })) ids.push(id);
    if (ids.length >= tokens) break;
  }
  return ids.slice(0, tokens);
}

/**
 * Divides a text into windows. Each begins with the tokenizer's first token (BOS), which is counted only once, since
 * sessions keep the common prefix.
 * @param {Wasm} wasm @param {number} model @param {string} text @param {number} context @param {number} tokens
 */
function windowsOf(wasm, model, text, context, tokens) {
  if (!hasTokenizer(wasm, model))
    throw new BqError('STATE', 'the model has no tokenizer, which calibration needs', {
      hint: 'convert it with --tokenizer first',
    });
  const begin = encodeText(wasm, model, '').slice(0, 1);
  const ids = firstTokens(wasm, model, text, tokens);
  if (!ids.length) throw new BqError('ARGUMENT', 'the calibration text has no tokens');
  const step = context - begin.length;
  return Array.from({ length: Math.ceil(ids.length / step) }, (_, i) =>
    Uint32Array.from([...begin, ...ids.slice(i * step, (i + 1) * step)]),
  );
}
