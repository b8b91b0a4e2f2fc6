/**
 * Metadata of GGUF files that no row of a family reads although it would change results. A key whose value is that of the
 * configuration, or has no effect, is fine: converters write such keys into most files. Any other value is refused, since a model that
 * is computed without it gives other text than the file means.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { POOLING } from '../families/gguf.js';
import { StringList } from './string-list.js';

/** @typedef {Record<string, any>} Config */
/**
 * A key that results depend on.
 * @typedef {object} Check
 * @property {(config: Config, get: (key: string) => any) => any[]} accepted  values without effect or with that of the configuration,
 *   of which `get` gives other keys; []: any value is fine
 * @property {boolean} [always]  also where the row reads the key
 * @property {boolean} [compared]  the configuration's value comes from tensors, so that the file contradicts itself
 */

const OFF = [0];
const FACTOR_ONE = [0, 1];

/** @param {any[]} values @returns {Check} */
const only = (values) => ({ accepted: () => values });
/** A size of tensors. @param {(config: Config) => number | undefined} size @returns {Check} */
const sameAs = (size) => ({ accepted: (config) => [size(config) ?? []].flat(), compared: true, always: true });
/** Where positions are rotated. @param {Check['accepted']} accepted @param {Partial<Check>} [more] @returns {Check} */
const rotated = (accepted, more) => ({
  accepted: (config, get) => (config.rope_theta === undefined ? [] : accepted(config, get)),
  ...more,
});
/** Where some layers have a window. @param {(config: Config) => any[]} accepted @returns {Check} */
const windowed = (accepted) => ({ accepted: (config) => (config.window ? accepted(config) : []) });
/** Where layers have experts. @param {(config: Config) => any[]} accepted @param {Partial<Check>} [more] @returns {Check} */
const ofExperts = (accepted, more) => ({ accepted: (config) => (config.experts ? accepted(config) : []), ...more });

/** @param {Config} config */
const globalHead = ({ global_head_dim: global, head_dim: head }) => global || head;
/** Scores are scaled so if a configuration names no factor. @param {Config} config */
const scoreScale = (config) => config.attn_scale || globalHead(config) ** -0.5;

/** @type {Record<string, Check>} */
const CHECKS = {
  'attention.value_length': sameAs(globalHead),
  'attention.key_length_swa': sameAs(({ head_dim: head }) => head),
  'attention.value_length_swa': sameAs(({ head_dim: head }) => head),
  'attention.causal': { accepted: ({ bidirectional }) => [bidirectional ? 0 : 1] },
  'attention.scale': { accepted: (config) => [0, scoreScale(config)] },
  'attention.output_scale': only(FACTOR_ONE),
  'attention.temperature_scale': only(OFF),
  'attention.clamp_kqv': only(OFF),
  'attention.max_alibi_bias': {
    accepted: ({ position, alibi_max: most = 8 }) => (position === 'alibi' ? [most] : OFF),
  },
  'attention.sliding_window': { accepted: ({ window }) => [0, ...(window ? [window] : [])] },
  'attention.sliding_window_pattern': windowed(() => OFF),
  'attention.shared_kv_layers': only(OFF),
  'attention.relative_buckets_count': { accepted: ({ bias_buckets: buckets = 0 }) => [buckets] },
  attn_logit_softcapping: only(OFF),
  final_logit_softcapping: only(OFF),
  router_logit_softcapping: only(OFF),
  logit_scale: only(FACTOR_ONE),
  residual_scale: only(FACTOR_ONE),
  embedding_scale: { accepted: ({ embed_scale: scale = 1 }) => [0, scale] },
  embedding_length_per_layer_input: only(OFF),
  embedding_length_out: {
    accepted: ({ dense1 = 0, dense2 = dense1, labels, hidden }) => [0, (!labels && dense2) || hidden],
    compared: true,
  },
  activation_sparsity_scale: only(OFF),
  // Scores of a classifier are 4; what an encoder without one has instead is named in info.unused.
  pooling_type: {
    always: true,
    accepted: ({ labels, bidirectional, pooling }) => [
      0,
      ...[1, 2, 3].filter((type) => labels || POOLING[type] === pooling),
      ...(labels || bidirectional ? [4] : []),
    ],
  },
  expert_count: {
    always: true,
    compared: true,
    accepted: ({ experts = 0 }) => [experts],
  },
  expert_used_count: ofExperts(({ experts_used: used }) => [used], { always: true }),
  expert_feed_forward_length: ofExperts(({ expert_ffn: ffn }) => [ffn], { compared: true }),
  expert_shared_feed_forward_length: ofExperts(({ shared_ffn: ffn = 0 }) => [ffn], { compared: true }),
  expert_shared_count: ofExperts(({ shared_ffn: ffn }) => (ffn ? [1] : OFF)),
  expert_weights_norm: ofExperts(({ experts_sum: sum }) => [Number(Boolean(sum))]),
  expert_weights_scale: ofExperts(() => FACTOR_ONE),
  // 1 is softmax.
  expert_gating_func: ofExperts(() => FACTOR_ONE),
  expert_group_count: ofExperts(() => FACTOR_ONE),
  expert_group_used_count: ofExperts(() => FACTOR_ONE),
  expert_group_scale: ofExperts(() => FACTOR_ONE),
  experts_per_group: ofExperts(() => OFF),
  expert_chunk_feed_forward_length: ofExperts(() => OFF),
  leading_dense_block_count: ofExperts(() => OFF),
  moe_every_n_layers: ofExperts(() => FACTOR_ONE),
  interleave_moe_layer_step: ofExperts(() => FACTOR_ONE),
  moe_latent_size: ofExperts(() => OFF),
  swiglu_clamp_exp: only(OFF),
  swiglu_clamp_shexp: only(OFF),
  'rope.dimension_count': rotated(({ global_head_dim: global, rope_dim: dim }) => [global || dim], { always: true }),
  'rope.dimension_count_swa': {
    accepted: ({ window, global_head_dim: global, rope_dim: dim, head_dim: head }) =>
      window ? [global ? head : (dim ?? head)] : [],
    always: true,
  },
  'rope.freq_base_swa': windowed(({ local_theta: local, rope_theta: theta }) => [local ?? theta]),
  'rope.scaling.alpha': rotated(() => FACTOR_ONE),
  'rope.scaling.yarn_ext_factor': rotated((_, get) => (get('rope.scaling.type') === 'yarn' ? [1, -1] : [0, 1, -1])),
  full_attention_interval: only(FACTOR_ONE),
  // Sizes of a state say nothing without its tensors, which are refused by name: Granite 4 without Mamba-2 has them.
  'ssm.dt_b_c_rms': only(OFF),
  'shortconv.l_cache': only(OFF),
  rescale_every_n_layers: only(OFF),
};

/** @param {unknown} value @returns {unknown[]} */
function itemsOf(value) {
  if (value instanceof StringList) return Array.from({ length: value.length }, (_, i) => value.at(i));
  return ArrayBuffer.isView(value) ? Array.from(/** @type {any} */ (value)) : [value].flat();
}

/** Metadata has factors as f32. @param {unknown} item @param {number} expected */
const equals = (item, expected) =>
  (typeof item === 'number' || typeof item === 'boolean') &&
  Math.abs(Number(item) - expected) <= 1e-6 * Math.abs(expected);

/**
 * Throws UNSUPPORTED for a value that is not computed, SHAPE for one that the tensors contradict.
 * @param {Record<string, any>} metadata
 * @param {string} arch  general.architecture
 * @param {Set<string>} read  keys that the row has read
 * @param {Config} config
 */
export function checkMetadata(metadata, arch, read, config) {
  for (const [key, { accepted, always, compared }] of Object.entries(CHECKS)) {
    const name = `${arch}.${key}`;
    if (!Object.hasOwn(metadata, name) || (read.has(key) && !always)) continue;
    const values = accepted(config, (other) => metadata[`${arch}.${other}`]);
    const wrong = itemsOf(metadata[name]).find((item) => !values.some((value) => equals(item, value)));
    if (!values.length || wrong === undefined) continue;
    const found = `${name} is ${typeof wrong === 'number' ? wrong : shown(wrong)}`;
    const expected = `expected ${values.join(' or ')}`;
    if (compared)
      throw new BqError('SHAPE', `${found}, but the tensors of the file have ${values.join(' or ')}`, {
        hint: `${expected}: the GGUF file contradicts itself; convert it anew`,
      });
    throw new BqError('UNSUPPORTED', `${found}, which is not computed for this architecture`, {
      hint: `${expected}, or no such key; results without it would be wrong`,
    });
  }
}
