/** A model in a heap of its own that reads a text: what its products are given, and weights that can be changed. */
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
import { Pages } from './weight-pages.js';
import { piecesOf } from './text-chunks.js';

/** @import { Plan, Source } from '../shared/types.js' */
/** @import { ByteSource } from '../storage/sources/types.js' */

/** @typedef {{ layers: number, hidden: number, ffn: number, heads: number, headDim: number }} Shape */

/** Those that read, kept from one reader for the next. */
const workers = new Threads();

/** What the largest instance can have, and a page of it. */
const [MOST, PAGE] = [2 ** 32 - 2 ** 24, 65536];
/** Tokens whose logits are computed in one batch, besides the first. */
export const DRAFTS = 31;
/** Beside what is planned. */
const ROOM = 1 << 22;
/** Characters of the text that become tokens at once. */
const PIECE = 1 << 16;
/** Bytes of the heap that a character takes while it becomes tokens, at most. */
const CHARACTER = 128;

/** Numbers of modules (c/model/program.h), each the one whose moments those of the same input take, too. @type {Record<string, [number, string]>} */
export const MODULES = {
  'attn.q': [1, 'attn.q'],
  'attn.k': [2, 'attn.q'],
  'attn.v': [3, 'attn.q'],
  'attn.o': [6, 'attn.o'],
  'mlp.gate': [9, 'mlp.up'],
  'mlp.up': [10, 'mlp.up'],
  'mlp.down': [11, 'mlp.down'],
};

/** The layer and the module of a matrix, and the one that it shares its input with; null: it has no moments. @param {string} name */
export function inputOf(name) {
  const [, layer, module] = /^h\.(\d+)\.(\w+\.\w+)\.weight$/.exec(name) ?? [];
  if (!module || !Object.hasOwn(MODULES, module)) return null;
  const [number, shared] = MODULES[module];
  return { layer: Number(layer), module: number, key: `h.${layer}.${shared}` };
}

/** Columns of the inputs of a layer's products. @param {Shape} shape */
export const inputCols = ({ hidden, ffn, heads, headDim }) => [hidden, hidden, heads * headDim, ffn];

/**
 * A model in a heap of its own, and a text in windows of its context; spare: bytes of it that are left; pages: where not all weights stay in the heap.
 * @typedef {{ wasm: Wasm, model: number, windows: Uint32Array[], plan: Plan, context: number, spare: number, pages: Pages | null }} Reading
 */

/**
 * Within `most` bytes of the heap: the whole model if it fits, else the layers that do and room for two more. Null: not even these do.
 * @param {import('../wasm/wasm.js').Compiled} compiled @param {Source} source @param {ByteSource} file @param {Parameters<typeof planModel>[3]} options @param {number} most
 */
async function planWithin(compiled, source, file, options, most) {
  if (most < PAGE) return null;
  try {
    return await planModel(compiled, source, file, { ...options, exact: true, memoryBudget: most });
  } catch (error) {
    if (error instanceof BqError && error.code === 'NOMEM') return null;
    throw error;
  }
}

/** Says what would be enough. @param {number} room @param {number} beside  bytes of it that the model can't have @param {(most: number) => Promise<unknown>} plan  null: too little */
async function tooSmall(room, beside, plan) {
  const hint = 'give it a larger --budget, of at most 4GB, or take a smaller model';
  let [less, enough] = [Math.max(0, room - beside) / PAGE, (MOST - beside) / PAGE];
  if (!(await plan(enough * PAGE)))
    return new BqError('NOMEM', 'no instance can hold two layers of the model and what reads a text', { hint });
  while (enough - less > 1) {
    const middle = Math.floor((less + enough) / 2);
    if (await plan(middle * PAGE)) enough = middle;
    else less = middle;
  }
  const needed = enough * PAGE + beside;
  return new BqError('NOMEM', `the text can't be read in ${room} bytes of memory: ${needed} are needed`, {
    hint,
    details: { budget: room, needed },
  });
}

/**
 * ARGUMENT: the text has no tokens; NOMEM.
 * @param {import('../shared/types.js').SourceLike} from
 * @param {string} text
 * @param {{ tokens?: number, threads?: number, budget?: number, besideOf: (plan: Shape, context: number) => number, wantsOf?: (plan: Shape) => number }} how
 *   budget: bytes of memory; besideOf: those that are needed besides; wantsOf: and those that are of use, as far as they are left
 * @returns {Promise<Reading>}
 */
export async function openReader(
  from,
  text,
  { tokens = 16384, threads: wanted = 1, budget = MOST, besideOf, wantsOf },
) {
  const threads = Math.min(wanted, THREADS);
  const wasmUrl = { relaxed: CONVERT_URL, simd128: CONVERT_URL, 'simd128-threads': CONVERT_THREADS_URL };
  const compiled = { ...(await compile({ build: 'simd128', wasmUrl }, threads > 1)), threads };
  const source = toSource(from);
  const file = await openSource(source);
  try {
    const planOf = (/** @type {number} */ context, /** @type {number} */ most) =>
      planWithin(compiled, source, file, { ...sessionOptions(context), sessions: 1 }, most);
    const shape = (await planOf(1, MOST))?.plan;
    if (!shape) throw new BqError('NOMEM', 'no instance can hold two layers of the model');
    const context = Math.min(shape.trainedContext, 2048);
    const room = Math.floor(Math.min(budget, MOST) / PAGE) * PAGE;
    const beside =
      Math.ceil((besideOf(shape, context) + ROOM + CHARACTER * Math.min(text.length, PIECE)) / PAGE) * PAGE;
    const planned = await planOf(context, room - beside);
    if (!planned) throw await tooSmall(room, beside, (most) => planOf(context, most));
    const { plan, regionBytes, paging } = planned;
    const left = room - compiled.heapBase - regionBytes - beside;
    const spare = Math.max(0, Math.min(wantsOf?.(plan) ?? 0, left));
    const wasm = await Wasm.create(compiled, regionBytes + beside + spare);
    return await releasedUnless(wasm, async () => {
      if (threads > 1) await workers.attach(wasm, compiled, threads); // where none can be had it computes alone
      const loading = new Loading(wasm, file, planned, sessionOptions(context));
      const model = await loading.model;
      await loading.done;
      const pages = paging && (await Pages.open(wasm, model, source));
      return { wasm, model, windows: windowsOf(wasm, model, text, context, tokens), plan, context, spare, pages };
    });
  } finally {
    await file.close();
  }
}

/** Between two pieces of work: what else waits goes first, an abort among it. @param {AbortSignal} [signal] */
export async function turn(signal) {
  await new Promise((resolve) => setImmediate(resolve));
  signal?.throwIfAborted();
}

/** What `make` makes of a heap; where it fails, the heap and its threads are let go. @template T @param {Wasm} wasm @param {() => T | Promise<T>} make */
export async function releasedUnless(wasm, make) {
  try {
    return await make();
  } catch (error) {
    wasm.release();
    throw error;
  }
}

/** A pass has all tokens of a window. @param {number} context */
const sessionOptions = (context) => ({
  context,
  kv: /** @type {'f32'} */ ('f32'),
  drafts: DRAFTS,
  window: context,
});

/** A session of a reader's model. @param {Wasm} wasm @param {number} model @param {number} context */
export const sessionOf = (wasm, model, context) =>
  wasm.scope((take) => {
    const options = take(structs.bqw_session_options.size);
    wasm.write('bqw_session_options', options, sessionRecord(sessionOptions(context)));
    return wasm.out('bqw_session_create', model, options);
  });

/** Makes tokens a session's timeline. @param {Wasm} wasm @param {number} session @param {Uint32Array | number[]} ids */
export const syncSession = (wasm, session, ids) =>
  wasm.scope((take) => {
    const at = take(4 * ids.length);
    wasm.u32(at, ids.length).set(ids);
    wasm.out('bqw_session_sync', session, at, ids.length);
  });

/** Where the weights of a matrix lie, and their type. ARGUMENT: it can't be changed. @param {Wasm} wasm @param {number} session @param {number} layers @param {string} name */
export function weightsAt(wasm, session, layers, name) {
  const [, ends] = /^(wte|lm_head)\.weight$/.exec(name) ?? [];
  const input = ends ? { layer: layers, module: Number(ends === 'lm_head') } : inputOf(name);
  if (!input) throw new BqError('ARGUMENT', `"${name}" can't be changed`);
  return wasm.scope((take) => {
    const out = take(8);
    wasm.check('bqw_weights', session, input.layer, input.module, out);
    const [at, type] = wasm.u32(out, 2);
    return { at, bytesOf: type === 0 ? asBytes : halves };
  });
}

/** @param {Float32Array} values */
const asBytes = (values) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
/** @param {Float32Array} values */
const halves = (values) => new Uint8Array(Uint16Array.from(values, f16FromNumber).buffer);

/** Numbers in the heap. @param {Wasm} wasm @param {number} n */
export function zeroed(wasm, n) {
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

/** The first tokens of a text, of which no more is read than they need. @param {Wasm} wasm @param {number} model @param {string} text @param {number} tokens */
function firstTokens(wasm, model, text, tokens) {
  /** @type {number[]} */
  const ids = [];
  for (const piece of piecesOf(text, PIECE)) {
    for (const id of encodeText(wasm, model, piece, { addSpecial: false, parseSpecial: true })) ids.push(id);
    if (ids.length >= tokens) break;
  }
  return ids.slice(0, tokens);
}

/** Windows of a text, each behind what the tokenizer puts first, which counts once: sessions keep what windows begin with. @param {Wasm} wasm @param {number} model @param {string} text @param {number} context @param {number} tokens */
function windowsOf(wasm, model, text, context, tokens) {
  if (!hasTokenizer(wasm, model))
    throw new BqError('STATE', 'the model has no tokenizer, so it reads no text', {
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
