/**
 * What an adapter's file says, as changes of a loaded model's products: PEFT's safetensors and GGUF. Nothing of it is
 * believed before it was compared with the model. Loaded when first asked for.
 */
import { BqError } from '../../shared/errors.js';
import { openBytes } from '../../storage/sources/bytes.js';
import { readRange } from '../../storage/sources/read.js';
import { readGguf } from './gguf.js';
import { readPeft } from './peft.js';
import { turned } from './rows.js';

export { decodeConfig } from '../bq4/config.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */

/** Products that can be changed, by their numbers in bq_adapted (c/bq.h). */
export const SLOTS = ['attn.q', 'attn.k', 'attn.v', 'attn.o', 'mlp.gate', 'mlp.up', 'mlp.down'];

/** Bytes that are read of a file whose size nobody says. */
const MOST = 2 ** 30;

/** Half of a change, by the name of our tensor. @typedef {{ name: string, theirs: string, a: InTensor, b: InTensor, scale: number }} Pair */
/** What a file's reader gives: `pairs`: rotary positions in rows of q and k, as "rope_pairs" of CONF. @typedef {{ format: 'peft' | 'gguf', pairs: string, list: Pair[] }} Adapter */
/** A change of a layer's product. @typedef {{ layer: number, slot: number, rank: number, scale: number, a: InTensor, b: InTensor }} Change */

/** Rows and columns of a product. @param {Record<string, any>} c @param {number} slot @returns {[number, number]} */
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
const is = ({ dims }, rows, cols) => dims.length === 2 && dims[0] === rows && dims[1] === cols;

/**
 * SHAPE, UNSUPPORTED.
 * @param {Record<string, any>} config  of the model
 * @param {Pair} pair
 * @param {string} pairs  of the adapter
 * @returns {Change}
 */
function changeOf(config, { name, theirs, a, b, scale }, pairs) {
  const [, layer, module = ''] = /^h\.(\d+)\.(.+)\.weight$/.exec(name) ?? [];
  const slot = SLOTS.indexOf(module);
  if (slot < 0 || (config.experts && slot > 3) || (!config.gated && module === 'mlp.gate'))
    throw new BqError('UNSUPPORTED', `the adapter changes "${theirs}"; adapters of such tensors are not computed`, {
      hint: `computed are those of ${SLOTS.join(', ')}`,
    });
  if (Number(layer) >= config.layers)
    throw new BqError('SHAPE', `the adapter changes "${theirs}" of a model with more than ${config.layers} layers`);
  const [rows, cols] = shapeOf(config, slot);
  const rank = a.dims[0];
  if (!is(a, rank, cols) || !is(b, rows, rank) || !rank)
    throw new BqError(
      'SHAPE',
      `the adapter's change of "${theirs}" is ${b.dims.join(' × ')} times ${a.dims.join(' × ')}; the model has ${rows} × ${cols} there`,
      { hint: 'it was made for another model' },
    );
  if (!Number.isFinite(scale)) throw new BqError('FORMAT', `the adapter's change of "${theirs}" is scaled by ${scale}`);
  const rotated = slot < 2 && config.position === 'rope' && config.rope_pairs !== pairs;
  return { layer: Number(layer), slot, rank, scale, a, b: rotated ? turned(b, config, pairs) : b };
}

/**
 * FORMAT, TRUNCATED, UNSUPPORTED, SHAPE, and what sources throw.
 * @param {ByteSource} file
 * @param {() => Promise<Record<string, any>>} companion  what adapter_config.json says
 * @param {Record<string, any>} config  of the model, as people write it
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ format: Adapter['format'], changes: Change[] }>}
 */
export async function readAdapter(file, companion, config, signal) {
  const head = await readRange(file, 0, 4096, signal);
  // A server that answers no ranges says no size either: all of it, in one go.
  if (file.size < 0) file = { ...openBytes(await readRange(file, 0, MOST, signal)), name: file.name };
  const { format, pairs, list } =
    String.fromCharCode(...head.subarray(0, 4)) === 'GGUF'
      ? await readGguf(file, head, config, signal)
      : await readPeft(file, await companion(), config);
  if (!list.length) throw new BqError('FORMAT', `${file.name} holds no adapter: no tensor of it is half of a pair`);
  const changes = list.map((pair) => changeOf(config, pair, pairs));
  const met = new Set();
  for (const [i, { layer, slot }] of changes.entries()) {
    if (met.has(layer * SLOTS.length + slot))
      throw new BqError('FORMAT', `the adapter changes "${list[i].name}" twice`);
    met.add(layer * SLOTS.length + slot);
  }
  return { format, changes };
}
