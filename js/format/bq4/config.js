/**
 * The configuration of a model in its two forms: an object with readable names (as in sidecar configs and in
 * config.json with model_type "bq4"), and the binary payload of a CONF section (docs/FORMAT.md, "CONF keys").
 */
import { BqError } from '../../shared/errors.js';
import { ARCHITECTURES } from '../../shared/names.js';
import { shown } from '../../shared/quote-value.js';

/**
 * Configuration of a model. The names are explained in docs/FORMAT.md, "CONF keys". A choice is given by its name or
 * its number.
 * @typedef {object} ModelConfig
 * @property {string | number} arch  one of ARCHITECTURES, or "other"
 * @property {number} layers
 * @property {number} hidden
 * @property {number} heads
 * @property {number} [kv_heads]  default heads
 * @property {number} [head_dim]  default hidden / heads
 * @property {number} ffn  width of the MLP; 0 if layers have no MLP
 * @property {number} vocab
 * @property {number} context
 * @property {string | number} [norm]      "rms" or "layer"
 * @property {number} [norm_eps]           default 1e-5
 * @property {string | number} [position]  "rope", "learned", "alibi" or "none"
 * @property {number} [rope_theta]
 * @property {string | number} [rope_pairs]  "half" or "adjacent"
 * @property {number} [rope_dim]
 * @property {string | number} [activation]  "silu", "gelu", "relu", "gelu_erf" or "relu2"
 * @property {boolean | number} [gated]  default true
 * @property {boolean | number} [tied]   default false
 * @property {string | number} [norm_place]  "before", "after", "around" or "after_sum"
 * @property {string | number} [block]    "sequential", "parallel" or "shared"
 * @property {string | number} [qk_norm]  "plain", "heads", "rows", "each" or "rotated"
 * @property {number} [window]
 * @property {number} [global_every]
 * @property {number} [unrotated_every]
 * @property {number[]} [global_layers]     numbers of layers, from 0
 * @property {number[]} [unrotated_layers]
 * @property {number[]} [dense_layers]
 * @property {number} [conv_size]  number of taps of the convolutions of recurrent layers
 * @property {number[]} [conv_layers]  recurrent layers, which have no attention unless attn_beside is set
 * @property {boolean | number} [attn_beside]  whether recurrent layers also have attention (Falcon-H1)
 * @property {string | number} [mamba]  whether recurrent layers are Mamba-2 layers, and the operations on their result:
 *   "no", "gate", "gate_norm" or "norm_gate"
 * @property {number} [state_key_heads]  key heads of gated delta nets (Qwen3.5), groups of Mamba-2. Without it
 *   recurrent layers are short convolutions (LFM2)
 * @property {number} [state_value_heads]
 * @property {number} [state_key_dim]
 * @property {number} [state_value_dim]
 * @property {boolean | number} [state_strided]  whether value head h belongs to key head h mod state_key_heads
 * @property {string | number} [attn_gate]  gates of attention's result: "no", "dims" (q also contains them) or "heads"
 * @property {number} [local_theta]
 * @property {number} [attn_scale]
 * @property {number} [attn_softcap]
 * @property {number} [logit_softcap]
 * @property {number} [embed_scale]
 * @property {number} [residual_scale]
 * @property {number} [logit_scale]
 * @property {boolean | number} [bidirectional]
 * @property {boolean | number} [embed_norm]
 * @property {number} [token_types]
 * @property {boolean | number} [no_head]
 * @property {string | number} [pooling]  "unsaid", "mean", "cls" or "last"
 * @property {boolean | number} [normalize]
 * @property {number} [text_tokens]
 * @property {number} [experts]
 * @property {number} [experts_used]
 * @property {number} [expert_ffn]
 * @property {number} [shared_ffn]
 * @property {boolean | number} [shared_always]  whether the shared expert has no switch (gate)
 * @property {boolean | number} [experts_sum]
 * @property {boolean | number} [experts_sigmoid]  whether the experts' weights are sigmoids of their scores; the
 *   router's bias then affects only the choice of experts
 * @property {number} [rope_scale]
 * @property {number} [rope_original]
 * @property {number} [alibi_max]
 * @property {number} [alibi_scale]
 * @property {number} [qkv_clip]
 * @property {number} [global_head_dim]  head size of layers without a window; default: head_dim
 * @property {number} [global_kv_heads]  KV heads of layers without a window; default: kv_heads
 * @property {number} [shared_kv]  number of last layers without own keys and values: each attends to those of the last
 *   layer of its kind before them
 * @property {number} [shared_kv_ffn]  width of these layers' MLP; default: ffn
 * @property {boolean | number} [value_norm]  whether heads of v are normalized, without weights
 * @property {boolean | number} [keys_as_values]  whether v of layers without a window is their k before its norm
 * @property {boolean | number} [layer_scale]  whether the result of a layer is multiplied by a factor
 * @property {number} [layer_embed]  dimensions of per-layer embeddings
 * @property {boolean | number} [layer_embed_projected]  whether per-layer embeddings are only a projection of the
 *   embedding, without a table
 * @property {number} [local_rope_dim]  rope_dim of layers with a window
 * @property {boolean | number} [attn_sinks]  whether each head has a score to which no key belongs
 * @property {boolean | number} [sub_norms]  whether inputs of attn.o and mlp.down are normalized (BitNet)
 * @property {number} [dense1]  rows of the first dense layer after the pooling
 * @property {number} [dense2]  rows of the second dense layer
 * @property {string | number} [dense_activation]  activation between the dense layers: "linear", "tanh", "gelu_erf" or
 *   "relu"
 * @property {boolean | number} [first_unnormed]  whether attention of layer 0 reads the residual without a norm
 * @property {number} [bias_buckets]  number of classes of distances, each with a learned bias of attention scores
 * @property {boolean | number} [labels]  whether the dense layers compute the logits of a classifier's labels
 */

/** Types of a record's 4-byte value. */
const U32 = 0;
const F32 = 1;

/**
 * Keys by name: [key in the file, type of the value, whether a reader must reject a file with the key if it does not
 * support it, names of the choices, number of the first choice].
 * @type {Record<string, [number, number, boolean, string[]?, number?]>}
 */
const KEYS = {
  arch: [1, U32, true, ARCHITECTURES.slice(1), 1],
  layers: [2, U32, true],
  hidden: [3, U32, true],
  heads: [4, U32, true],
  kv_heads: [5, U32, true],
  head_dim: [6, U32, true],
  ffn: [7, U32, true],
  vocab: [8, U32, true],
  context: [9, U32, true],
  norm: [10, U32, true, ['rms', 'layer']],
  norm_eps: [11, F32, true],
  position: [12, U32, true, ['rope', 'learned', 'alibi', 'none']],
  rope_theta: [13, F32, true],
  rope_pairs: [14, U32, true, ['half', 'adjacent']],
  rope_dim: [15, U32, true],
  activation: [16, U32, true, ['silu', 'gelu', 'relu', 'gelu_erf', 'relu2']],
  gated: [17, U32, true],
  tied: [18, U32, true],
  norm_place: [19, U32, true, ['before', 'after', 'around', 'after_sum']],
  block: [20, U32, true, ['sequential', 'parallel', 'shared']],
  qk_norm: [21, U32, true, ['plain', 'heads', 'rows', 'each', 'rotated']],
  window: [22, U32, true],
  global_every: [23, U32, true],
  unrotated_every: [24, U32, true],
  local_theta: [25, F32, true],
  attn_scale: [26, F32, true],
  attn_softcap: [27, F32, true],
  logit_softcap: [28, F32, true],
  embed_scale: [29, F32, true],
  residual_scale: [30, F32, true],
  logit_scale: [31, F32, true],
  bidirectional: [34, U32, true],
  embed_norm: [35, U32, true],
  token_types: [36, U32, true],
  no_head: [50, U32, true],
  pooling: [51, U32, false, ['unsaid', 'mean', 'cls', 'last']],
  normalize: [52, U32, false],
  text_tokens: [53, U32, false],
  experts: [54, U32, true],
  experts_used: [55, U32, true],
  expert_ffn: [56, U32, true],
  shared_ffn: [57, U32, true],
  experts_sum: [58, U32, true],
  conv_size: [59, U32, true],
  state_key_heads: [42, U32, true],
  state_value_heads: [43, U32, true],
  state_key_dim: [44, U32, true],
  state_value_dim: [45, U32, true],
  state_strided: [46, U32, true],
  attn_gate: [47, U32, true, ['no', 'dims', 'heads']],
  mamba: [48, U32, true, ['no', 'gate', 'gate_norm', 'norm_gate']],
  attn_beside: [49, U32, true],
  shared_always: [194, U32, true],
  rope_scale: [37, F32, true],
  rope_original: [38, U32, true],
  alibi_max: [39, F32, true],
  alibi_scale: [40, F32, true],
  qkv_clip: [41, F32, true],
  dense1: [60, U32, true],
  dense2: [61, U32, true],
  dense_activation: [62, U32, true, ['linear', 'tanh', 'gelu_erf', 'relu']],
  labels: [63, U32, true],
  first_unnormed: [192, U32, true],
  bias_buckets: [193, U32, true],
  global_head_dim: [195, U32, true],
  global_kv_heads: [196, U32, true],
  shared_kv: [197, U32, true],
  shared_kv_ffn: [198, U32, true],
  value_norm: [199, U32, true],
  keys_as_values: [200, U32, true],
  layer_scale: [201, U32, true],
  layer_embed: [202, U32, true],
  experts_sigmoid: [203, U32, true],
  layer_embed_projected: [204, U32, true],
  sub_norms: [205, U32, true],
  local_rope_dim: [206, U32, true],
  attn_sinks: [207, U32, true],
  tokens: [32, U32, false],
  merges: [33, U32, false],
};
/**
 * Bit sets of layers: the key of the first 32-bit word, by name. Bit i of word w represents layer 32 w + i.
 * @type {Record<string, number>}
 */
const LAYER_SETS = { global_layers: 64, unrotated_layers: 96, dense_layers: 128, conv_layers: 160 };
const MAX_LAYERS = 1024;
const WORDS_PER_SET = MAX_LAYERS / 32;
/** Names by key in the file. */
const NAMES = new Map(Object.entries(KEYS).map(([name, [key]]) => [key, name]));
/**
 * Keys that were added after the first release of the format. They are omitted if they are 0, their default, so that
 * older readers can still read the file.
 */
const OPTIONAL_KEYS = Object.keys(KEYS).filter(
  (name) => KEYS[name][0] >= 19 && KEYS[name][0] !== 32 && KEYS[name][0] !== 33,
);
const BOOLEANS = [
  'gated',
  'tied',
  'bidirectional',
  'embed_norm',
  'no_head',
  'normalize',
  'experts_sum',
  'state_strided',
  'attn_beside',
  'shared_always',
  'labels',
  'first_unnormed',
  'value_norm',
  'keys_as_values',
  'layer_scale',
  'experts_sigmoid',
  'layer_embed_projected',
  'sub_norms',
  'attn_sinks',
];
const REQUIRED_KEYS = ['arch', 'layers', 'hidden', 'heads', 'ffn', 'vocab', 'context'];

/** Defaults of the architecture "bullet". */
const BULLET_DEFAULTS = { norm: 'layer', position: 'learned', activation: 'gelu', gated: true };

/** @param {string} name @param {unknown} value @returns {never} */
function refuse(name, value) {
  throw new BqError('FORMAT', `the configuration's "${name}" is ${shown(value)}, which is not valid`, {
    hint: 'see "CONF keys" in docs/FORMAT.md',
  });
}

/** @param {string} name @param {unknown} value @returns {number} */
function numberOf(name, value) {
  const [, kind, , choices, first = 0] = KEYS[name];
  if (typeof value === 'boolean' && BOOLEANS.includes(name)) return Number(value);
  if (typeof value === 'string') {
    const choice = choices?.indexOf(value) ?? -1;
    return choice < 0 ? refuse(name, value) : choice + first;
  }
  if (typeof value !== 'number' || !Number.isFinite(value)) return refuse(name, value);
  if (kind === U32 && !(Number.isInteger(value) && value >= 0 && value < 2 ** 32)) return refuse(name, value);
  return value;
}

/**
 * Checks a list of layer numbers; returns them without duplicates, in ascending order. Throws FORMAT.
 * @param {string} name @param {unknown} list @param {number} layers @returns {number[]}
 */
function layerSetOf(name, list, layers) {
  if (!Array.isArray(list) || !list.every((n) => Number.isInteger(n) && n >= 0 && n < layers))
    return refuse(name, list);
  return [...new Set(list)].sort((a, b) => a - b);
}

/**
 * Returns the configuration with defaults filled in and choices as numbers. Sets of layers become sorted lists; empty
 * sets are omitted. Throws FORMAT.
 * @param {Record<string, any>} config
 * @returns {Record<string, any>}
 */
export function completeConfig(config) {
  const isBullet = config.arch === 'bullet' || config.arch === 2;
  /** @type {Record<string, any>} */
  const merged = { norm_eps: 1e-5, ...(isBullet && BULLET_DEFAULTS), ...config };
  for (const name of REQUIRED_KEYS) if (merged[name] === undefined) refuse(name, undefined);
  // Checked first, since the lists below have an entry for each layer.
  const layers = numberOf('layers', merged.layers);
  if (layers > MAX_LAYERS) refuse('layers', merged.layers);
  const heads = numberOf('heads', merged.heads);
  const headDim = merged.head_dim ?? numberOf('hidden', merged.hidden) / heads;
  /** @type {Record<string, any>} */
  const all = {
    norm: 0,
    position: 0,
    rope_theta: 10000,
    rope_pairs: 0,
    activation: 0,
    gated: 1,
    tied: 0,
    ...merged,
    kv_heads: merged.kv_heads ?? heads,
    head_dim: headDim,
    rope_dim: merged.rope_dim ?? headDim,
  };
  const sets = Object.keys(LAYER_SETS).map(
    (name) => /** @type {const} */ ([name, layerSetOf(name, all[name] ?? [], layers)]),
  );
  return Object.fromEntries([
    ...Object.keys(KEYS)
      .filter((name) => all[name] !== undefined)
      .map((name) => [name, numberOf(name, all[name])]),
    ...sets.filter(([, list]) => list.length),
  ]);
}

/**
 * Returns the non-zero words of a bit set of layers, by key.
 * @param {number} first @param {number[]} list @returns {Map<number, number>}
 */
function wordsOf(first, list) {
  /** @type {Map<number, number>} */
  const words = new Map();
  for (const layer of list) {
    const key = first + (layer >> 5);
    words.set(key, ((words.get(key) ?? 0) | (1 << (layer & 31))) >>> 0);
  }
  return words;
}

/**
 * Encodes a CONF payload. Missing keys get their defaults. Throws FORMAT.
 * @param {Record<string, any>} config
 * @returns {Uint8Array}
 */
export function encodeConfig(config) {
  const records = Object.entries(completeConfig(config))
    .filter(([name, value]) => value !== 0 || !OPTIONAL_KEYS.includes(name))
    .flatMap(([name, value]) =>
      LAYER_SETS[name]
        ? [...wordsOf(LAYER_SETS[name], value)].map(([key, word]) => ({ key, kind: U32, required: true, value: word }))
        : [{ key: KEYS[name][0], kind: KEYS[name][1], required: KEYS[name][2], value }],
    );
  const bytes = new Uint8Array(records.length * 8);
  const view = new DataView(bytes.buffer);
  records.forEach(({ key, kind, required, value }, i) => {
    view.setUint16(i * 8, key, true);
    view.setUint8(i * 8 + 2, kind);
    view.setUint8(i * 8 + 3, required ? 1 : 0);
    if (kind === F32) view.setFloat32(i * 8 + 4, value, true);
    else view.setUint32(i * 8 + 4, value, true);
  });
  return bytes;
}

/** Returns the layers whose bits are set in a word. @param {number} word @param {number} from  layer of bit 0 */
const layersOf = (word, from) =>
  Array.from({ length: 32 }, (_, i) => from + i).filter((layer) => (word >>> (layer - from)) & 1);

/**
 * Returns the name of the layer set with a key, and the layer of bit 0 of the key's word.
 * @param {number} key @returns {[string, number] | null}
 */
function layerSetAt(key) {
  const name = Object.keys(LAYER_SETS).find((set) => key >= LAYER_SETS[set] && key < LAYER_SETS[set] + WORDS_PER_SET);
  return name ? [name, 32 * (key - LAYER_SETS[name])] : null;
}

/**
 * Converts a record of a CONF payload to its readable form: its name, and its value or the name of the choice.
 * @param {number} key @param {number} value @returns {[string, number | string]}
 */
function namedRecord(key, value) {
  const name = NAMES.get(key);
  if (!name) return [`key ${key}`, value];
  const [, , , choices, first = 0] = KEYS[name];
  return [name, choices?.[value - first] ?? value];
}

/**
 * Decodes a CONF payload to the readable form.
 * @param {Uint8Array} payload
 * @param {(value: number) => number} [f32]  applied to each f32 value, for example to round it for display
 * @returns {Record<string, any>}
 */
export function decodeConfig(payload, f32 = (value) => value) {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  /** @type {Record<string, any>} */
  const config = {};
  for (let at = 0; at + 8 <= payload.length; at += 8) {
    const key = view.getUint16(at, true);
    const value = view.getUint8(at + 2) === F32 ? f32(view.getFloat32(at + 4, true)) : view.getUint32(at + 4, true);
    const [set, from] = layerSetAt(key) ?? ['', 0];
    if (set) config[set] = [...(config[set] ?? []), ...layersOf(value, from)];
    else {
      const [name, named] = namedRecord(key, value);
      config[name] = named;
    }
  }
  return config;
}
