/** Reads llama2.c checkpoints: the legacy `.bin` (seven integers, then f32 tensors) and version 1 ("ak42"). */
import { BqError } from '../shared/errors.js';
import { readRange } from '../storage/sources/read.js';
import { floatRows } from './checkpoint-tensors.js';

const MAGIC = 0x616b3432;
const V1_HEADER = 256;
const LEGACY_HEADER = 28;

/** @typedef {import('../storage/sources/types.js').ByteSource} ByteSource */
/**
 * @typedef {{
 *   dim: number, hidden: number, layers: number, heads: number, kvHeads: number, vocab: number, context: number,
 *   tied: boolean
 * }} Header
 */

/**
 * Returns the canonical name and the shape of each tensor of both variants. Tensors with `layered` are stored for all
 * layers, one layer after another.
 * @param {Header} h
 */
function shapes({ dim, hidden, heads, kvHeads, vocab }) {
  const kv = (dim / heads) * kvHeads;
  return /** @type {Record<string, { name: string, dims: number[], layered: boolean }>} */ ({
    embedding: { name: 'wte.weight', dims: [vocab, dim], layered: false },
    attentionNorm: { name: 'ln1.weight', dims: [dim], layered: true },
    wq: { name: 'attn.q.weight', dims: [dim, dim], layered: true },
    wk: { name: 'attn.k.weight', dims: [kv, dim], layered: true },
    wv: { name: 'attn.v.weight', dims: [kv, dim], layered: true },
    wo: { name: 'attn.o.weight', dims: [dim, dim], layered: true },
    ffnNorm: { name: 'ln2.weight', dims: [dim], layered: true },
    w1: { name: 'mlp.gate.weight', dims: [hidden, dim], layered: true },
    w2: { name: 'mlp.down.weight', dims: [dim, hidden], layered: true },
    w3: { name: 'mlp.up.weight', dims: [hidden, dim], layered: true },
    finalNorm: { name: 'ln_f.weight', dims: [dim], layered: false },
    head: { name: 'lm_head.weight', dims: [vocab, dim], layered: false },
  });
}

const LEGACY_ORDER = [
  'embedding',
  'attentionNorm',
  'wq',
  'wk',
  'wv',
  'wo',
  'ffnNorm',
  'w1',
  'w2',
  'w3',
  'finalNorm',
  'ropeTables',
  'head',
];
const V1_ORDER = [
  'attentionNorm',
  'ffnNorm',
  'finalNorm',
  'embedding',
  'wq',
  'wk',
  'wv',
  'wo',
  'w1',
  'w2',
  'w3',
  'head',
];

/** @param {Header} h @param {string} name */
function checkHeader(h, name) {
  const { dim, hidden, layers, heads, kvHeads, vocab, context } = h;
  const isValid =
    [dim, hidden, layers, heads, kvHeads, vocab, context].every((v) => v > 0) &&
    layers <= 1024 &&
    dim % heads === 0 &&
    heads % kvHeads === 0 &&
    (dim / heads) % 2 === 0;
  if (!isValid)
    throw new BqError('NOT_A_MODEL', `${name} does not begin like a llama2.c checkpoint`, {
      offset: 0,
      hint: 'convert reads llama2.c .bin files, safetensors files and folders that contain them',
    });
}

/** @param {DataView} view @param {number} at @returns {Header} */
function readHeader(view, at) {
  const [dim, hidden, layers, heads, kvHeads, vocab, context] = Array.from({ length: 7 }, (_, i) =>
    view.getInt32(at + 4 * i, true),
  );
  return { dim, hidden, layers, heads, kvHeads, vocab, context, tied: true };
}

/** @param {ByteSource} file @returns {Promise<{ header: Header, start: number, order: string[] }>} */
async function readStart(file) {
  const bytes = await readRange(file, 0, V1_HEADER);
  const view = new DataView(bytes.buffer);
  if (bytes.length >= 8 && view.getUint32(0, true) === MAGIC) {
    const version = view.getInt32(4, true);
    if (version !== 1)
      throw new BqError('UNSUPPORTED', `${file.name} is a llama2.c checkpoint of version ${version}; expected 0 or 1`, {
        offset: 4,
        hint: 'export it as version 0 or 1 (f32)',
      });
    if (bytes.length < V1_HEADER)
      throw new BqError(
        'TRUNCATED',
        `${file.name} ends after ${bytes.length} bytes, inside its header of ${V1_HEADER}`,
        {
          offset: bytes.length,
        },
      );
    return { header: { ...readHeader(view, 8), tied: bytes[36] !== 0 }, start: V1_HEADER, order: V1_ORDER };
  }
  if (bytes.length < LEGACY_HEADER)
    throw new BqError('NOT_A_MODEL', `${file.name} has ${bytes.length} bytes, too few for a llama2.c checkpoint`, {
      offset: bytes.length,
    });
  const header = readHeader(view, 0);
  // A negative vocabulary size means that the LM head has its own weights.
  return {
    header: { ...header, vocab: Math.abs(header.vocab), tied: header.vocab > 0 },
    start: LEGACY_HEADER,
    order: LEGACY_ORDER,
  };
}

/**
 * Reads a llama2.c checkpoint. Throws NOT_A_MODEL, UNSUPPORTED, TRUNCATED, FORMAT.
 * @param {ByteSource} file
 * @returns {Promise<{
 *   config: import('./bq4/config.js').ModelConfig, tensors: Map<string, import('./checkpoint-tensors.js').InTensor>
 * }>}
 */
export async function readLlama2c(file) {
  const { header, start, order } = await readStart(file);
  checkHeader(header, file.name);
  const table = shapes(header);
  /** @type {Map<string, import('./checkpoint-tensors.js').InTensor>} */
  const tensors = new Map();
  let at = start;
  for (const key of order) {
    if (key === 'head' && header.tied) continue;
    if (key === 'ropeTables') {
      // Two tables, which the engine computes itself: cos and sin, each of shape [context][head size / 2].
      at += 4 * header.context * (header.dim / header.heads);
      continue;
    }
    const { name, dims, layered } = table[key];
    for (let layer = 0; layer < (layered ? header.layers : 1); layer++) {
      tensors.set(layered ? `h.${layer}.${name}` : name, floatRows(file, at, 'F32', dims));
      at += 4 * dims.reduce((a, b) => a * b, 1);
    }
  }
  if (file.size !== at) {
    const code = file.size < at ? 'TRUNCATED' : 'FORMAT';
    throw new BqError(code, `${file.name} has ${file.size} bytes; its header implies ${at}`, {
      offset: Math.min(file.size, at),
      hint: 'check that it is a llama2.c .bin file, and fetch it again',
    });
  }
  return {
    config: {
      arch: 'llama',
      layers: header.layers,
      hidden: header.dim,
      heads: header.heads,
      kv_heads: header.kvHeads,
      ffn: header.hidden,
      vocab: header.vocab,
      context: header.context,
      norm_eps: 1e-5,
      rope_theta: 10000,
      rope_pairs: 'adjacent',
      tied: header.tied,
    },
    tensors,
  };
}
