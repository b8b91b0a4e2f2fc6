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
/** Values of `qk_norm` with which a norm has weights for all heads. */
const WHOLE = [2, 3];
/** Value of `norm`: a LayerNorm, with a bias. */
const LAYER_NORM = 1;
/** Values of `attn_gate`. */
const [DIMS, HEADS] = [1, 2];
/** Value of `mamba`: the result is gated but not normalized. */
const GATE = 1;

/** Adds the tensors of a configuration to a list. */
class TensorList {
  /** @type {Slot[]} */
  slots = [];
  #config;

  /** @param {Record<string, any>} config  complete */
  constructor(config) {
    this.#config = config;
  }

  /** @param {string} name @param {number[]} dims */
  add(name, dims, required = true, embedding = false) {
    const exact =
      (this.#config.labels && name.startsWith('pooled.')) || /\.(router|switch|delta\.[ab])\.weight$/.test(name);
    this.slots.push({ name, dims, required, embedding, exact });
  }

  /** @param {string} name @param {number} out @param {number} into */
  linear(name, out, into) {
    this.add(`${name}.weight`, [out, into]);
    this.add(`${name}.bias`, [out], false);
    this.add(`${name}.scale`, [out], false);
  }

  /** @param {string} name */
  norm(name, size = this.#config.hidden) {
    this.add(`${name}.weight`, [size]);
    if (this.#config.norm === LAYER_NORM) this.add(`${name}.bias`, [size], false);
  }

  /** @param {string} name @param {number} inner */
  mlp(name, inner) {
    const { hidden, gated, sub_norms: hasSubNorms } = this.#config;
    if (gated) this.linear(`${name}.gate`, inner, hidden);
    this.linear(`${name}.up`, inner, hidden);
    if (hasSubNorms) this.norm(`${name}.sub_norm`, inner);
    this.linear(`${name}.down`, hidden, inner);
  }
}

/** Tensors before the layers. @param {TensorList} list @param {Record<string, any>} c */
function addEmbeddings(list, c) {
  list.add('wte.weight', [c.vocab, c.hidden], true, true);
  if (c.position === LEARNED) list.add('wpe.weight', [c.context, c.hidden], true, true);
  if (c.token_types) list.add('wtt.weight', [c.token_types, c.hidden], true, true);
  if (c.embed_norm) list.norm('ln_0');
  if (c.bias_buckets) list.add('attn.biases.weight', [c.bias_buckets * c.heads]);
  const globalAngles = (c.global_head_dim || c.rope_dim) / 2;
  if (c.position === ROPE) list.add('rope.factors', [globalAngles], false);
  if (c.position === ROPE && c.local_theta) list.add('rope.local_factors', [c.rope_dim / 2], false);
  if (c.position === ROPE && c.rope_original) list.add('rope.long_factors', [globalAngles]);
  if (!c.layer_embed) return;
  const width = c.layers * c.layer_embed;
  if (!c.layer_embed_projected) list.add('embed.layers.weight', [c.vocab, width], true, true);
  list.add('embed.project.weight', [width, c.hidden]);
  list.norm('embed.norm', c.layer_embed);
}

/** Tensors of a recurrent layer. @param {TensorList} list @param {Record<string, any>} c @param {string} layer */
function addRecurrence(list, c, layer) {
  const values = c.state_value_heads * c.state_value_dim;
  const channels = 2 * c.state_key_heads * c.state_key_dim + values;
  if (c.mamba) {
    list.linear(`${layer}.mamba.in`, values + channels + c.state_value_heads, c.hidden);
    list.add(`${layer}.mamba.taps.weight`, [channels * c.conv_size]);
    list.add(`${layer}.mamba.bias.weight`, [channels]);
    for (const name of ['dt', 'decay', 'skip']) list.add(`${layer}.mamba.${name}.weight`, [c.state_value_heads]);
    if (c.mamba !== GATE) list.add(`${layer}.mamba.norm.weight`, [values]);
    list.linear(`${layer}.mamba.out`, c.hidden, values);
  } else if (c.state_value_heads) {
    list.linear(`${layer}.delta.in`, channels, c.hidden);
    list.linear(`${layer}.delta.z`, values, c.hidden);
    list.linear(`${layer}.delta.a`, c.state_value_heads, c.hidden);
    list.linear(`${layer}.delta.b`, c.state_value_heads, c.hidden);
    list.add(`${layer}.delta.taps.weight`, [channels * c.conv_size]);
    list.add(`${layer}.delta.dt.weight`, [c.state_value_heads]);
    list.add(`${layer}.delta.decay.weight`, [c.state_value_heads]);
    list.add(`${layer}.delta.norm.weight`, [c.state_value_dim]);
    list.linear(`${layer}.delta.out`, c.hidden, values);
  } else {
    list.linear(`${layer}.conv.in`, 3 * c.hidden, c.hidden);
    list.add(`${layer}.conv.taps.weight`, [c.hidden * c.conv_size]);
    list.linear(`${layer}.conv.out`, c.hidden, c.hidden);
  }
}

/** Returns whether a layer attends to all positions. @param {Record<string, any>} c @param {number} n */
const isGlobal = (c, n) =>
  !c.window || (c.global_every ? (n + 1) % c.global_every === 0 : Boolean(c.global_layers?.includes(n)));

/** Returns whether a layer uses keys and values of an earlier layer. @param {Record<string, any>} c @param {number} n */
const sharesKv = (c, n) => n >= c.layers - (c.shared_kv ?? 0);

/** @param {TensorList} list @param {Record<string, any>} c @param {number} n */
function addAttention(list, c, n) {
  const name = `h.${n}.attn`;
  const hasKv = !sharesKv(c, n);
  const dim = (isGlobal(c, n) && c.global_head_dim) || c.head_dim;
  const q = c.heads * dim;
  const kv = ((isGlobal(c, n) && c.global_kv_heads) || c.kv_heads) * dim;
  list.linear(`${name}.q`, c.attn_gate === DIMS ? 2 * q : q, c.hidden);
  if (hasKv) list.linear(`${name}.k`, kv, c.hidden);
  if (hasKv && !(c.keys_as_values && isGlobal(c, n))) list.linear(`${name}.v`, kv, c.hidden);
  if (c.attn_gate === HEADS) list.linear(`${name}.gate`, c.heads, c.hidden);
  if (c.qk_norm) list.norm(`${name}.q_norm`, WHOLE.includes(c.qk_norm) ? q : dim);
  if (c.qk_norm && hasKv) list.norm(`${name}.k_norm`, WHOLE.includes(c.qk_norm) ? kv : dim);
  if (c.attn_sinks) list.add(`${name}.sinks.weight`, [c.heads]);
  if (c.sub_norms) list.norm(`${name}.sub_norm`, q);
  list.linear(`${name}.o`, c.hidden, q);
}

/** @param {TensorList} list @param {Record<string, any>} c @param {string} layer */
function addExperts(list, c, layer) {
  const inner = c.expert_ffn || c.ffn;
  list.linear(`${layer}.mlp.router`, c.experts, c.hidden);
  if (c.gated) list.add(`${layer}.mlp.experts.gate.weight`, [c.experts, inner, c.hidden]);
  list.add(`${layer}.mlp.experts.up.weight`, [c.experts, inner, c.hidden]);
  list.add(`${layer}.mlp.experts.down.weight`, [c.experts, c.hidden, inner]);
  list.add(`${layer}.mlp.experts.down.bias`, [c.hidden], false);
  if (c.shared_ffn && !c.shared_always) list.linear(`${layer}.mlp.shared.switch`, 1, c.hidden);
  if (c.shared_ffn) list.mlp(`${layer}.mlp.shared`, c.shared_ffn);
}

/**
 * Adds the tensors of a layer.
 * @param {TensorList} list @param {Record<string, any>} c @param {number} n
 * @param {{ isRecurrent: boolean, isDense: boolean }} kind
 */
function addLayer(list, c, n, { isRecurrent, isDense }) {
  const layer = `h.${n}`;
  const place = c.norm_place ?? BEFORE;
  const [before, after] = [place === BEFORE || place === AROUND, place !== BEFORE];
  if (before && !(c.first_unnormed && n === 0)) list.norm(`${layer}.ln1`);
  if (isRecurrent) addRecurrence(list, c, layer);
  if (!isRecurrent || c.attn_beside) addAttention(list, c, n);
  if (after) list.norm(`${layer}.ln1_post`);
  if (!c.ffn) return;
  if (before && c.block !== SHARED) list.norm(`${layer}.ln2`);
  if (isDense) list.mlp(`${layer}.mlp`, (sharesKv(c, n) && c.shared_kv_ffn) || c.ffn);
  else addExperts(list, c, layer);
  if (after) list.norm(`${layer}.ln2_post`);
  if (c.layer_embed) {
    list.linear(`${layer}.embed.gate`, c.layer_embed, c.hidden);
    list.linear(`${layer}.embed.out`, c.hidden, c.layer_embed);
    list.norm(`${layer}.embed.post`);
  }
  if (c.layer_scale) list.add(`${layer}.layer_scale.weight`, [1]);
}

/** Tensors after the layers. @param {TensorList} list @param {Record<string, any>} c */
function addHead(list, c) {
  if (c.norm_place !== AFTER_SUM) list.norm('ln_f');
  if (c.dense1) {
    list.add('pooled.dense1.weight', [c.dense1, c.hidden]);
    list.add('pooled.dense1.bias', [c.dense1], false);
    list.add('pooled.norm.weight', [c.dense1], false);
    list.add('pooled.norm.bias', [c.dense1], false);
  }
  if (c.dense2) {
    list.add('pooled.dense2.weight', [c.dense2, c.dense1 || c.hidden]);
    list.add('pooled.dense2.bias', [c.dense2], false);
  }
  if (c.no_head) return;
  if (!c.tied) list.add('lm_head.weight', [c.vocab, c.hidden], true, true);
  list.add('lm_head.bias', [c.vocab], false, true);
}

/**
 * Returns all tensors that a model with this configuration can have, in execution order. Throws FORMAT.
 * @param {Record<string, any>} config
 * @returns {Slot[]}
 */
export function tensorTable(config) {
  const c = completeConfig(config);
  const list = new TensorList(c);
  const recurrent = new Set(c.conv_layers);
  const dense = new Set(c.experts ? c.dense_layers : Array(c.layers).keys());
  addEmbeddings(list, c);
  for (let n = 0; n < c.layers; n++) addLayer(list, c, n, { isRecurrent: recurrent.has(n), isDense: dense.has(n) });
  addHead(list, c);
  return list.slots;
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
