/** What goes into the products of a model while it reads a text: second moments of it, collected by C as the layers are computed. */
import { f16FromNumber } from '../convert/half.js';
import { encodeText } from '../engine/encode-text.js';
import { logSum } from '../engine/probabilities.js';
import { Loading } from '../load/loading.js';
import { planModel, sessionRecord } from '../plan/plan.js';
import { BqError } from '../shared/errors.js';
import { openSource, toSource } from '../sources/index.js';
import { structs } from '../wasm/border.js';
import { compile, Wasm } from '../wasm/wasm.js';
import { CONVERT_URL } from './border.js';
import { piecesOf } from './pieces.js';

/** Bytes of moments that are collected at once: of so many layers as that is enough for. */
const AT_ONCE = 1 << 30;
/** What the largest instance can have. */
const MOST = 2 ** 32 - 2 ** 24;
/** Tokens whose logits are computed in one batch, besides the first. */
const DRAFTS = 31;
/** Beside what is planned. */
const ROOM = 1 << 22;
/** Characters of the text that become tokens at once. */
const PIECE = 1 << 16;
/** Bytes of the heap that a character takes while it becomes tokens, at most. */
const CHARACTER = 128;

/** Numbers of modules (c/model/program.h), each the one whose moments those of the same input take, too. @type {Record<string, [number, string]>} */
const MODULES = {
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

/** @param {Float32Array} values */
const halves = (values) => new Uint8Array(Uint16Array.from(values, f16FromNumber).buffer);

/**
 * A model that reads a text. Moments are asked for in the order of the layers: those that are gone are collected anew.
 */
export class Calibrator {
  #wasm;
  #model;
  /** @type {Uint32Array[]} */
  #windows;
  #layers;
  #context;
  #vocab;
  #signal;
  /** By keys of `inputOf`: where in the heap, and how many columns. @type {Map<string, { at: number, cols: number }>} */
  #held = new Map();
  /** @type {(done: number, total: number) => void} */
  onTokens = () => {};

  /** @param {Wasm} wasm @param {number} model @param {Uint32Array[]} windows @param {{ layers: number, context: number, vocab: number }} plan @param {AbortSignal} [signal] */
  constructor(wasm, model, windows, { layers, context, vocab }, signal) {
    this.#wasm = wasm;
    this.#model = model;
    this.#windows = windows;
    this.#layers = layers;
    this.#context = context;
    this.#vocab = vocab;
    this.#signal = signal;
  }

  get tokens() {
    return this.#windows.reduce((sum, ids) => sum + ids.length, 0);
  }

  /**
   * ARGUMENT: the text has no tokens; NOMEM.
   * @param {import('../shared/types.js').SourceLike} from
   * @param {string} text
   * @param {{ tokens?: number, signal?: AbortSignal }} [limits]
   */
  static async open(from, text, { tokens = 16384, signal } = {}) {
    const compiled = await compile({ build: 'simd128', wasmUrl: CONVERT_URL });
    const source = toSource(from);
    const { trainedContext } = await (async () => {
      const file = await openSource(source);
      const { plan } = await planModel(compiled, source, file, { context: 1, sessions: 1 });
      await file.close();
      return plan;
    })();
    const options = {
      context: Math.min(trainedContext, 2048),
      kv: /** @type {'f32'} */ ('f32'),
      sessions: 1,
      drafts: DRAFTS,
    };
    const file = await openSource(source);
    const planned = await planModel(compiled, source, file, options);
    const { plan, regionBytes } = planned;
    // All moments, or as many as there is room for.
    const all = 4 * plan.layers * (2 * plan.hidden ** 2 + plan.ffn ** 2 + (plan.heads * plan.headDim) ** 2);
    const beside = Math.min(all + 4096 * plan.layers, AT_ONCE) + ROOM + CHARACTER * Math.min(text.length, PIECE);
    if (regionBytes + beside > MOST)
      throw new BqError('NOMEM', `the model takes ${regionBytes} bytes, and ${beside} more are needed to calibrate`);
    const wasm = await Wasm.create(compiled, regionBytes + beside);
    const loading = new Loading(wasm, file, planned, options);
    const model = await loading.model;
    await loading.done;
    const windows = windowsOf(wasm, model, text, options.context, tokens);
    return new Calibrator(wasm, model, windows, { ...plan, context: options.context }, signal);
  }

  /** Moments of what a matrix is multiplied with; null: they aren't known. @param {string} name  of the matrix */
  async momentsOf(name) {
    const input = inputOf(name);
    if (!input) return null;
    if (!this.#held.has(input.key)) await this.#collect(input.layer);
    const held = this.#held.get(input.key);
    return held && held.at ? { ...held, key: input.key, values: this.#wasm.f32(held.at, held.cols ** 2) } : null;
  }

  close() {
    this.#wasm.release();
  }

  /** A session of the only one that there is room for. @template T @param {(session: number) => Promise<T>} use */
  async #session(use) {
    const wasm = this.#wasm;
    const session = wasm.scope((take) => {
      const options = take(structs.bqw_session_options.size);
      wasm.write('bqw_session_options', options, sessionRecord({ context: this.#context, kv: 'f32', drafts: DRAFTS }));
      return wasm.out('bqw_session_create', this.#model, options);
    });
    try {
      return await use(session);
    } finally {
      wasm.check('bqw_session_free', session);
    }
  }

  /** @param {number} session @param {Uint32Array | number[]} ids */
  #sync(session, ids) {
    this.#wasm.scope((take) => {
      const at = take(4 * ids.length);
      this.#wasm.u32(at, ids.length).set(ids);
      this.#wasm.out('bqw_session_sync', session, at, ids.length);
    });
  }

  /** @param {number} session */
  async #run(session) {
    do {
      await new Promise((resolve) => setImmediate(resolve));
      this.#signal?.throwIfAborted();
    } while (this.#wasm.check('bqw_session_run', session, 8) !== 0);
  }

  /** What comes behind each of the text's first `n` tokens: log probabilities. @param {number} n @returns {Promise<Float32Array[]>} */
  async predictions(n) {
    const wasm = this.#wasm;
    const ids = [...this.#windows[0].subarray(0, n)];
    return this.#session(async (session) => {
      /** @type {Float32Array[]} */
      const out = [];
      this.#sync(session, [ids[0]]);
      for (let ahead = 0, i = 1; i <= ids.length; i++) {
        if (i > 1) wasm.check('bqw_session_append', session, ids[i - 1]);
        if (ahead) ahead--;
        else {
          const next = ids.slice(i, i + DRAFTS);
          ahead = wasm.scope((take) => {
            const at = take(4 * next.length);
            wasm.u32(at, next.length).set(next);
            return wasm.out('bqw_session_draft', session, at, next.length);
          });
          await this.#run(session);
        }
        const logits = wasm.f32(wasm.out('bqw_session_logits', session), this.#vocab).slice();
        const sum = logSum(logits);
        out.push(logits.map((x) => x - sum));
      }
      return out;
    });
  }

  /** How well it predicts the text's first window. */
  async perplexity() {
    const [ids] = this.#windows;
    const predicted = await this.predictions(ids.length);
    let sum = 0;
    for (let i = 1; i < ids.length; i++) sum -= predicted[i - 1][ids[i]];
    return Math.exp(sum / (ids.length - 1));
  }

  /**
   * While `use` runs the model has other weights in one matrix.
   * @template T @param {string} name  wte.weight, or one that has moments @param {Float32Array} values @param {() => Promise<T>} use
   */
  async withWeights(name, values, use) {
    const wasm = this.#wasm;
    const input =
      name === 'wte.weight'
        ? { layer: this.#layers, module: 0 }
        : name === 'lm_head.weight'
          ? { layer: this.#layers, module: 1 }
          : inputOf(name);
    if (!input) throw new BqError('ARGUMENT', `"${name}" can't be changed`);
    const [at, type] = await this.#session(async (session) =>
      wasm.scope((take) => {
        const out = take(8);
        wasm.check('bqw_weights', session, input.layer, input.module, out);
        return [...wasm.u32(out, 2)];
      }),
    );
    const bytes = type === 0 ? new Uint8Array(values.buffer, values.byteOffset, values.byteLength) : halves(values);
    const before = wasm.bytes(at, bytes.length).slice();
    wasm.bytes(at, bytes.length).set(bytes);
    try {
      return await use();
    } finally {
      wasm.bytes(at, bytes.length).set(before);
    }
  }

  /** Of as many layers as there is room for, from this one on. @param {number} from */
  async #collect(from) {
    const wasm = this.#wasm;
    for (const { at } of this.#held.values()) if (at) wasm.free(at);
    this.#held.clear();
    await this.#session(async (session) => this.#read(session, from));
  }

  /** @param {number} session @param {number} from  layer */
  async #read(session, from) {
    for (let layer = from, room = AT_ONCE; layer < this.#layers; layer++) {
      const taken = this.#watch(session, layer, room);
      if (taken < 0) break;
      room -= taken;
    }
    let done = 0;
    for (const ids of this.#windows) {
      this.#sync(session, ids);
      await this.#run(session);
      done += ids.length;
      this.onTokens(done, this.tokens);
    }
    this.#wasm.call('bqw_inputs_end', session);
  }

  /** Begins to collect those of a layer; −1: there was no room, and none is. @param {number} session @param {number} layer @param {number} room */
  #watch(session, layer, room) {
    const wasm = this.#wasm;
    /** @type {[string, number, number][]} */
    const wanted = [];
    for (const [name, [module, shared]] of Object.entries(MODULES))
      if (name === shared)
        wanted.push([`h.${layer}.${name}`, module, wasm.out('bqw_inputs_watch', session, layer, module, 0)]);
    const bytes = wanted.reduce((sum, [, , cols]) => sum + 4 * cols ** 2 + 256, 0);
    if (bytes > room && this.#held.size) return -1;
    for (const [key, module, cols] of wanted) {
      const at = cols ? wasm.alloc(4 * cols ** 2) : 0;
      if (at) wasm.bytes(at, 4 * cols ** 2).fill(0);
      const watched = cols ? wasm.out('bqw_inputs_watch', session, layer, module, at) : 0;
      if (at && !watched) wasm.free(at);
      this.#held.set(key, { at: watched ? at : 0, cols });
    }
    return bytes;
  }
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
