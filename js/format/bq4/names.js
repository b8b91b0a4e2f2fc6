/** Lists the tensors of a model in execution order, with their canonical names and shapes (docs/FORMAT.md, "TENS"). */
import { BqError, shortened } from '../../shared/errors.js';
import { completeConfig } from './config.js';

/**
 * @typedef {object} Slot
 * @property {string} name
 * @property {number[]} dims
 * @property {boolean} required
 * @property {boolean} embedding  whether it belongs to the embedding or the LM head
 * @property {boolean} exact      whether it is kept as f32, since it is small and sensitive to rounding (router,
 *   switch, classifier)
 */

// Numbers of values in docs/FORMAT.md, "CONF keys".
/** Values of `position`. */
const [ROPE, LEARNED] = [0, 1];
/** Values of `norm_place`. */
const [BEFORE, AROUND, AFTER_SUM] = [0, 2, 3];
/** Value of `block`: attention and MLP read the same normalized input. */
const SHARED = 2;
/** Value of `qk_norm`: each head is normalized by itself. */
const HEADS = 1;
/** Value of `mamba`: the result is gated but not normalized. */
const GATE = 1;

/**
 * Returns all tensors that a model with this configuration can have, in execution order. Throws FORMAT.
 * @param {Record<string, any>} config
 * @returns {Slot[]}
 */
export function tensorTable(config) {
  const c = completeConfig(config);
  const layerNorm = c.norm === 1;
  const isGlobal = (/** @type {number} */ n) =>
    !c.window || (c.global_every ? (n + 1) % c.global_every === 0 : !!c.global_layers?.includes(n));
  const globalDim = c.global_head_dim || c.head_dim;
  const embeds = c.layer_embed && c.layers * c.layer_embed;
  /** @type {Slot[]} */
  const slots = [];
  const add = (/** @type {string} */ name, /** @type {number[]} */ dims, required = true, embedding = false) =>
    slots.push({
      name,
      dims,
      required,
      embedding,
      exact: (c.labels && name.startsWith('pooled.')) || /\.(router|switch|delta\.[ab])\.weight$/.test(name),
    });
  const linear = (/** @type {string} */ name, /** @type {number} */ out, /** @type {number} */ into) => {
    add(`${name}.weight`, [out, into]);
    add(`${name}.bias`, [out], false);
    add(`${name}.scale`, [out], false);
  };
  const mlp = (/** @type {string} */ name, /** @type {number} */ inner) => {
    if (c.gated) linear(`${name}.gate`, inner, c.hidden);
    linear(`${name}.up`, inner, c.hidden);
    if (c.sub_norms) norm(`${name}.sub_norm`, inner);
    linear(`${name}.down`, c.hidden, inner);
  };
  const norm = (/** @type {string} */ name, size = c.hidden) => {
    add(`${name}.weight`, [size]);
    if (layerNorm) add(`${name}.bias`, [size], false);
  };
  const dense = new Set(c.experts ? c.dense_layers : Array(c.layers).keys());
  const recurrent = new Set(c.conv_layers);
  const values = c.state_value_heads * c.state_value_dim;
  const channels = 2 * c.state_key_heads * c.state_key_dim + values;
  const place = c.norm_place ?? BEFORE;
  const [before, after] = [place === BEFORE || place === AROUND, place !== BEFORE];
  add('wte.weight', [c.vocab, c.hidden], true, true);
  if (c.position === LEARNED) add('wpe.weight', [c.context, c.hidden], true, true);
  if (c.token_types) add('wtt.weight', [c.token_types, c.hidden], true, true);
  if (c.embed_norm) norm('ln_0');
  if (c.bias_buckets) add('attn.biases.weight', [c.bias_buckets * c.heads]);
  const globalAngles = (c.global_head_dim || c.rope_dim) / 2;
  if (c.position === ROPE) add('rope.factors', [globalAngles], false);
  if (c.position === ROPE && c.local_theta) add('rope.local_factors', [c.rope_dim / 2], false);
  if (c.position === ROPE && c.rope_original) add('rope.long_factors', [globalAngles]);
  if (embeds) {
    if (!c.layer_embed_projected) add('embed.layers.weight', [c.vocab, embeds], true, true);
    add('embed.project.weight', [embeds, c.hidden]);
    norm('embed.norm', c.layer_embed);
  }
  for (let n = 0; n < c.layers; n++) {
    if (before && !(c.first_unnormed && n === 0)) norm(`h.${n}.ln1`);
    if (recurrent.has(n) && c.mamba) {
      linear(`h.${n}.mamba.in`, values + channels + c.state_value_heads, c.hidden);
      add(`h.${n}.mamba.taps.weight`, [channels * c.conv_size]);
      add(`h.${n}.mamba.bias.weight`, [channels]);
      for (const name of ['dt', 'decay', 'skip']) add(`h.${n}.mamba.${name}.weight`, [c.state_value_heads]);
      if (c.mamba !== GATE) add(`h.${n}.mamba.norm.weight`, [values]);
      linear(`h.${n}.mamba.out`, c.hidden, values);
    } else if (recurrent.has(n) && c.state_value_heads) {
      linear(`h.${n}.delta.in`, channels, c.hidden);
      linear(`h.${n}.delta.z`, values, c.hidden);
      linear(`h.${n}.delta.a`, c.state_value_heads, c.hidden);
      linear(`h.${n}.delta.b`, c.state_value_heads, c.hidden);
      add(`h.${n}.delta.taps.weight`, [channels * c.conv_size]);
      add(`h.${n}.delta.dt.weight`, [c.state_value_heads]);
      add(`h.${n}.delta.decay.weight`, [c.state_value_heads]);
      add(`h.${n}.delta.norm.weight`, [c.state_value_dim]);
      linear(`h.${n}.delta.out`, c.hidden, values);
    } else if (recurrent.has(n)) {
      linear(`h.${n}.conv.in`, 3 * c.hidden, c.hidden);
      add(`h.${n}.conv.taps.weight`, [c.hidden * c.conv_size]);
      linear(`h.${n}.conv.out`, c.hidden, c.hidden);
    }
    const shares = n >= c.layers - (c.shared_kv ?? 0);
    if (!recurrent.has(n) || c.attn_beside) {
      const dim = isGlobal(n) ? globalDim : c.head_dim;
      const q = c.heads * dim;
      const kv = ((isGlobal(n) && c.global_kv_heads) || c.kv_heads) * dim;
      linear(`h.${n}.attn.q`, c.attn_gate ? 2 * q : q, c.hidden);
      if (!shares) linear(`h.${n}.attn.k`, kv, c.hidden);
      if (!shares && !(c.keys_as_values && isGlobal(n))) linear(`h.${n}.attn.v`, kv, c.hidden);
      if (c.qk_norm) norm(`h.${n}.attn.q_norm`, c.qk_norm === HEADS ? dim : q);
      if (c.qk_norm && !shares) norm(`h.${n}.attn.k_norm`, c.qk_norm === HEADS ? dim : kv);
      if (c.sub_norms) norm(`h.${n}.attn.sub_norm`, q);
      linear(`h.${n}.attn.o`, c.hidden, q);
    }
    if (after) norm(`h.${n}.ln1_post`);
    if (!c.ffn) continue;
    if (before && c.block !== SHARED) norm(`h.${n}.ln2`);
    if (dense.has(n)) mlp(`h.${n}.mlp`, (shares && c.shared_kv_ffn) || c.ffn);
    else {
      linear(`h.${n}.mlp.router`, c.experts, c.hidden);
      const inner = c.expert_ffn || c.ffn;
      add(`h.${n}.mlp.experts.gate.weight`, [c.experts, inner, c.hidden]);
      add(`h.${n}.mlp.experts.up.weight`, [c.experts, inner, c.hidden]);
      add(`h.${n}.mlp.experts.down.weight`, [c.experts, c.hidden, inner]);
      if (c.shared_ffn && !c.shared_always) linear(`h.${n}.mlp.shared.switch`, 1, c.hidden);
      if (c.shared_ffn) mlp(`h.${n}.mlp.shared`, c.shared_ffn);
    }
    if (after) norm(`h.${n}.ln2_post`);
    if (embeds) {
      linear(`h.${n}.embed.gate`, c.layer_embed, c.hidden);
      linear(`h.${n}.embed.out`, c.hidden, c.layer_embed);
      norm(`h.${n}.embed.post`);
    }
    if (c.layer_scale) add(`h.${n}.layer_scale.weight`, [1]);
  }
  if (place !== AFTER_SUM) norm('ln_f');
  if (c.dense1) {
    add('pooled.dense1.weight', [c.dense1, c.hidden]);
    add('pooled.dense1.bias', [c.dense1], false);
    add('pooled.norm.weight', [c.dense1], false);
    add('pooled.norm.bias', [c.dense1], false);
  }
  if (c.dense2) {
    add('pooled.dense2.weight', [c.dense2, c.dense1 || c.hidden]);
    add('pooled.dense2.bias', [c.dense2], false);
  }
  if (c.no_head) return slots;
  if (!c.tied) add('lm_head.weight', [c.vocab, c.hidden], true, true);
  add('lm_head.bias', [c.vocab], false, true);
  return slots;
}

/**
 * Pairs a checkpoint's tensors with those of the configuration. Throws SHAPE for a missing tensor, an unknown tensor or
 * a wrong shape.
 * @template {{ dims: number[], name?: string }} T
 * @param {Record<string, any>} config
 * @param {Map<string, T>} tensors  by canonical name
 * @returns {{ slot: Slot, tensor: T }[]}  in execution order
 */
export function matchTensors(config, tensors) {
  const table = tensorTable(config);
  const expected = new Set(table.map((slot) => slot.name));
  const unknown = [...tensors.keys()].filter((name) => !expected.has(name));
  if (unknown.length) {
    const list = `"${unknown.slice(0, 8).join('", "')}"${unknown.length > 8 ? ` and ${unknown.length - 8} more` : ''}`;
    throw new BqError(
      'SHAPE',
      `${unknown.length > 1 ? 'tensors' : 'tensor'} ${list} ${unknown.length > 1 ? 'have' : 'has'} no counterpart in this configuration`,
      {
        hint: 'check that the configuration belongs to this model',
        details: { tensors: unknown.map(shortened) },
      },
    );
  }
  return table.flatMap((slot) => {
    const tensor = tensors.get(slot.name);
    if (!tensor && slot.required) throw new BqError('SHAPE', `tensor "${slot.name}" is missing`);
    if (tensor && tensor.dims.join() !== slot.dims.join())
      throw new BqError(
        'SHAPE',
        `tensor "${tensor.name ?? slot.name}" is ${tensor.dims.join(' × ')}; the configuration expects ${slot.dims.join(' × ')}`,
      );
    return tensor ? [{ slot, tensor }] : [];
  });
}
