/**
 * Reads LoRA adapters (PEFT's safetensors, GGUF) as changes of a loaded model's matrix products. Names and shapes are
 * checked against the model's configuration. Imported on demand.
 */
import { BqError } from '../../shared/errors.js';
import { openBytes } from '../../storage/sources/bytes.js';
import { readRange } from '../../storage/sources/read.js';
import { readGguf } from './gguf.js';
import { readPeft } from './peft.js';
import { reorderRopePairs } from './rows.js';

export { decodeConfig } from '../bq4/config.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */

/** Modules that an adapter can change; the index is the number in bq_adapted (c/bq.h). */
export const SLOTS = ['attn.q', 'attn.k', 'attn.v', 'attn.o', 'mlp.gate', 'mlp.up', 'mlp.down'];

/** Limit of the bytes read from a file of unknown size. */
const MAX_UNSIZED_BYTES = 2 ** 30;

/**
 * The two matrices of a change: B · A · scale is added to tensor `name`. `storedName`: name of the module in the file,
 * for errors.
 * @typedef {{ name: string, storedName: string, a: InTensor, b: InTensor, scale: number }} Pair
 */
/**
 * A parsed adapter. `ropePairs`: order of rotary pairs in rows of q and k, with the values of "rope_pairs" of CONF.
 * @typedef {{ format: 'peft' | 'gguf', ropePairs: string, pairs: Pair[] }} Adapter
 */
/**
 * A change of one matrix product of a layer. `slot`: index of the module in SLOTS.
 * @typedef {{ layer: number, slot: number, rank: number, scale: number, a: InTensor, b: InTensor }} Change
 */

/**
 * Returns the numbers of rows and columns of a module's matrix.
 * @param {Record<string, any>} c @param {number} slot @returns {[number, number]}
 */
function shapeOf(c, slot) {
  const [q, kv] = [c.heads * c.head_dim, c.kv_heads * c.head_dim];
  /** @type {[number, number][]} */
  const shapes = [
    [q, c.hidden],
    [kv, c.hidden],
    [kv, c.hidden],
    [c.hidden, q],
    [c.ffn, c.hidden],
    [c.ffn, c.hidden],
    [c.hidden, c.ffn],
  ];
  return shapes[slot];
}

/** @param {InTensor} tensor @param {number} rows @param {number} cols */
const hasShape = ({ dims }, rows, cols) => dims.length === 2 && dims[0] === rows && dims[1] === cols;

/**
 * Converts a pair of matrices to a change of the model. Throws SHAPE, UNSUPPORTED, FORMAT.
 * @param {Record<string, any>} config  configuration of the model
 * @param {Pair} pair
 * @param {string} ropePairs  order of rotary pairs in the adapter
 * @returns {Change}
 */
function changeOf(config, { name, storedName, a, b, scale }, ropePairs) {
  const [, layer, module = ''] = /^h\.(\d+)\.(.+)\.weight$/.exec(name) ?? [];
  const slot = SLOTS.indexOf(module);
  if (slot < 0 || (config.experts && slot > 3) || (!config.gated && module === 'mlp.gate'))
    throw new BqError('UNSUPPORTED', `the adapter changes "${storedName}", which is not supported`, {
      hint: `expected one of ${SLOTS.join(', ')}`,
    });
  if (Number(layer) >= config.layers)
    throw new BqError('SHAPE', `the adapter changes "${storedName}", but the model has only ${config.layers} layers`);
  const [rows, cols] = shapeOf(config, slot);
  const rank = a.dims[0];
  if (!hasShape(a, rank, cols) || !hasShape(b, rows, rank) || !rank)
    throw new BqError(
      'SHAPE',
      `the adapter's change of "${storedName}" is ${b.dims.join(' × ')} times ${a.dims.join(' × ')}; the model's matrix is ${rows} × ${cols}`,
      { hint: 'use an adapter of this model' },
    );
  if (!Number.isFinite(scale))
    throw new BqError('FORMAT', `the adapter's change of "${storedName}" has the invalid scale ${scale}`);
  const isReordered = slot < 2 && config.position === 'rope' && config.rope_pairs !== ropePairs;
  return { layer: Number(layer), slot, rank, scale, a, b: isReordered ? reorderRopePairs(b, config, ropePairs) : b };
}

/**
 * Reads an adapter. Throws FORMAT, TRUNCATED, UNSUPPORTED, SHAPE, and errors of the source.
 * @param {ByteSource} file
 * @param {() => Promise<Record<string, any>>} readSettings  reads adapter_config.json; called only for a PEFT adapter
 * @param {Record<string, any>} config  configuration of the model, in its readable form
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ format: Adapter['format'], changes: Change[] }>}
 */
export async function readAdapter(file, readSettings, config, signal) {
  const head = await readRange(file, 0, 4096, signal);
  // A server without range requests may not report the size of a file. The whole file is then read at once.
  if (file.size < 0) file = { ...openBytes(await readRange(file, 0, MAX_UNSIZED_BYTES, signal)), name: file.name };
  const { format, ropePairs, pairs } =
    String.fromCharCode(...head.subarray(0, 4)) === 'GGUF'
      ? await readGguf(file, head, config, signal)
      : await readPeft(file, readSettings, config);
  if (!pairs.length) throw new BqError('FORMAT', `${file.name} is not an adapter: it has no LoRA matrices`);
  const changes = pairs.map((pair) => changeOf(config, pair, ropePairs));
  const seen = new Set();
  for (const [i, { layer, slot }] of changes.entries()) {
    if (seen.has(layer * SLOTS.length + slot))
      throw new BqError('FORMAT', `the adapter changes "${pairs[i].name}" twice`);
    seen.add(layer * SLOTS.length + slot);
  }
  return { format, changes };
}
