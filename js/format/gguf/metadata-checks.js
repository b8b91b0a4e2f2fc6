/**
 * Checks metadata of GGUF files that would change results but that the row of an architecture (js/format/families) does
 * not read. A key is accepted if its value equals the value of the configuration or has no effect: converters write
 * such keys to most files. Any other value is an error, since a model that is computed without it would generate wrong
 * text.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { POOLING } from '../families/gguf.js';
import { StringList } from './string-list.js';

/** @typedef {Record<string, any>} Config */
/**
 * A key that changes results.
 * @typedef {object} Check
 * @property {(config: Config, get: (key: string) => any) => any[]} accepted  returns the values that have no effect or
 *   the same effect as the configuration; [] if every value is accepted. `get` returns the value of another key
 * @property {boolean} [always]  whether the key is also checked if the row reads it
 * @property {boolean} [compared]  whether the configuration's value comes from the shapes of tensors: another value in
 *   the metadata then means that the file contradicts itself
 */

const OFF = [0];
const FACTOR_ONE = [0, 1];

/** @param {any[]} values @returns {Check} */
const only = (values) => ({ accepted: () => values });
/**
 * Check of a key whose value is a size of tensors.
 * @param {(config: Config) => number | undefined} size @returns {Check}
 */
const sameAs = (size) => ({ accepted: (config) => [size(config) ?? []].flat(), compared: true, always: true });
/**
 * Check of a key that has an effect only in models with rotary positions.
 * @param {Check['accepted']} accepted @param {Partial<Check>} [flags] @returns {Check}
 */
const ofRotary = (accepted, flags) => ({
  accepted: (config, get) => (config.rope_theta === undefined ? [] : accepted(config, get)),
  ...flags,
});
/**
 * Check of a key that has an effect only if some layers have a window.
 * @param {(config: Config) => any[]} accepted @returns {Check}
 */
const ofWindows = (accepted) => ({ accepted: (config) => (config.window ? accepted(config) : []) });
/**
 * Check of a key that has an effect only in models with experts.
 * @param {(config: Config) => any[]} accepted @param {Partial<Check>} [flags] @returns {Check}
 */
const ofExperts = (accepted, flags) => ({ accepted: (config) => (config.experts ? accepted(config) : []), ...flags });

/** @param {Config} config */
const globalHead = ({ global_head_dim: global, head_dim: head }) => global || head;
/** Returns the factor of attention scores; the default is 1 / √(head size). @param {Config} config */
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
    accepted: ({ position, alibi_max: maxBias = 8 }) => (position === 'alibi' ? [maxBias] : OFF),
  },
  'attention.sliding_window': { accepted: ({ window }) => [0, ...(window ? [window] : [])] },
  'attention.sliding_window_pattern': ofWindows(() => OFF),
  'attention.rope_pattern': only([1]),
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
  // 4 is the scores of a classifier. If an encoder has 4 but no supported classifier, info.unused lists the
  // classifier's tensors.
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
  'rope.dimension_count': ofRotary(({ global_head_dim: global, rope_dim: dim }) => [global || dim], { always: true }),
  'rope.dimension_count_swa': {
    accepted: ({ window, global_head_dim: global, rope_dim: dim, head_dim: head, local_rope_dim: local = dim }) =>
      window ? [global ? head : (local ?? head)] : [],
    always: true,
  },
  'rope.freq_base_swa': ofWindows(({ local_theta: local, rope_theta: theta }) => [local ?? theta]),
  'rope.scaling.alpha': ofRotary(() => FACTOR_ONE),
  // Layers with a window and positions of their own would have the factor, too, except in OLMo 3 (norms only after layers).
  'rope.scaling.attn_factor': {
    accepted: ({ local_theta: local, norm_place: place }) => (local !== undefined && place !== 'after' ? [1] : []),
    always: true,
  },
  'rope.scaling.yarn_ext_factor': ofRotary((_, get) => (get('rope.scaling.type') === 'yarn' ? [1, -1] : [0, 1, -1])),
  full_attention_interval: only(FACTOR_ONE),
  // The last layers are a head for decisions.
  'decision.block_count': only(OFF),
  // Other sizes of a recurrent state have no effect without its tensors (Granite 4 without Mamba-2 has such sizes).
  // Unknown tensors are an error anyway.
  'ssm.dt_b_c_rms': only(OFF),
  'shortconv.l_cache': only(OFF),
  rescale_every_n_layers: only(OFF),
};

/** Key of files whose weights are multiplied by Hadamard matrices; the inputs of products would have to be, too. */
const HADAMARD = 'prism.hadamard.version';

/** @param {unknown} value @returns {unknown[]} */
function itemsOf(value) {
  if (value instanceof StringList) return Array.from({ length: value.length }, (_, i) => value.at(i));
  return ArrayBuffer.isView(value) ? Array.from(/** @type {any} */ (value)) : [value].flat();
}

/** Compares with a tolerance, since metadata stores factors as f32. @param {unknown} item @param {number} expected */
const equals = (item, expected) =>
  (typeof item === 'number' || typeof item === 'boolean') &&
  Math.abs(Number(item) - expected) <= 1e-6 * Math.abs(expected);

/**
 * Throws UNSUPPORTED for a value that the engine does not implement, SHAPE for a value that the tensors contradict.
 * @param {Record<string, any>} metadata
 * @param {string} arch  general.architecture
 * @param {Set<string>} read  keys that the row of the architecture has read
 * @param {Config} config
 */
export function checkMetadata(metadata, arch, read, config) {
  if (Object.hasOwn(metadata, HADAMARD))
    throw new BqError('UNSUPPORTED', `the weights of the GGUF file are transformed (${HADAMARD})`, {
      hint: 'load a file of the same model without this transformation',
    });
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
        hint: `${expected}: the values of the GGUF file are inconsistent; convert it again`,
      });
    throw new BqError('UNSUPPORTED', `${found}, which is not supported for this architecture`, {
      hint: `${expected}, or no such key; results without it would be wrong`,
    });
  }
}
