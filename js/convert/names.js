/** The tensors of a model in execution order, with their canonical names (docs/FORMAT.md, "TENS"). */
import { BqError } from '../shared/errors.js';
import { completeConfig } from './config.js';

/**
 * @typedef {object} Slot
 * @property {string} name
 * @property {number[]} dims
 * @property {boolean} required
 * @property {boolean} embedding  belongs to the embedding or the head
 */

/**
 * @param {Record<string, any>} config
 * @returns {Slot[]}
 */
export function tensorTable(config) {
  const c = completeConfig(config);
  const layerNorm = c.norm === 1;
  const q = c.heads * c.head_dim;
  const kv = c.kv_heads * c.head_dim;
  /** @type {Slot[]} */
  const slots = [];
  const add = (/** @type {string} */ name, /** @type {number[]} */ dims, required = true, embedding = false) =>
    slots.push({ name, dims, required, embedding });
  const linear = (/** @type {string} */ name, /** @type {number} */ out, /** @type {number} */ into) => {
    add(`${name}.weight`, [out, into]);
    add(`${name}.bias`, [out], false);
  };
  const norm = (/** @type {string} */ name) => {
    add(`${name}.weight`, [c.hidden]);
    if (layerNorm) add(`${name}.bias`, [c.hidden], false);
  };
  add('wte.weight', [c.vocab, c.hidden], true, true);
  if (c.position === 1) add('wpe.weight', [c.context, c.hidden], true, true);
  for (let n = 0; n < c.layers; n++) {
    norm(`h.${n}.ln1`);
    linear(`h.${n}.attn.q`, q, c.hidden);
    linear(`h.${n}.attn.k`, kv, c.hidden);
    linear(`h.${n}.attn.v`, kv, c.hidden);
    linear(`h.${n}.attn.o`, c.hidden, q);
    norm(`h.${n}.ln2`);
    if (c.gated) linear(`h.${n}.mlp.gate`, c.ffn, c.hidden);
    linear(`h.${n}.mlp.up`, c.ffn, c.hidden);
    linear(`h.${n}.mlp.down`, c.hidden, c.ffn);
  }
  norm('ln_f');
  if (!c.tied) add('lm_head.weight', [c.vocab, c.hidden], true, true);
  add('lm_head.bias', [c.vocab], false, true);
  return slots;
}

/**
 * Pairs a checkpoint's tensors with the table. SHAPE: one is missing, has another shape, or has no place.
 * @template {{ dims: number[] }} T
 * @param {Record<string, any>} config
 * @param {Map<string, T>} tensors  by canonical name
 * @returns {{ slot: Slot, tensor: T }[]}  in execution order
 */
export function matchTensors(config, tensors) {
  const table = tensorTable(config);
  const known = new Set(table.map((slot) => slot.name));
  for (const name of tensors.keys())
    if (!known.has(name)) throw new BqError('SHAPE', `tensor "${name}" has no place in this configuration`, { hint: 'it would be ignored: is the configuration of another model?' });
  return table.flatMap((slot) => {
    const tensor = tensors.get(slot.name);
    if (!tensor && slot.required) throw new BqError('SHAPE', `tensor "${slot.name}" is missing`);
    if (tensor && tensor.dims.join() !== slot.dims.join())
      throw new BqError('SHAPE', `tensor "${slot.name}" is ${tensor.dims.join(' × ')}, not ${slot.dims.join(' × ')} as the configuration says`);
    return tensor ? [{ slot, tensor }] : [];
  });
}
