/** Encoders whose layers differ from BERT's: ModernBERT, EuroBERT, MPNet, versions 2 and 3 of Jina's embedding models. */
import { shown } from '../../shared/quote-value.js';
import { flattened, pick, range } from '../bq4/tensor-views.js';
import { bert, ENCODER, ggufEncoder, PADDING_ROWS, roberta } from './bert.js';
import { GGUF_ATTENTION, ggufLayerNorm, ggufRms, ggufRotaryLayerNorm } from './gguf.js';
import { GGUF_LABELS, denseLabels, ggufLabels } from './labels.js';
import { bothSides, eachLayer, numbersOf, someLayers } from './layers.js';
import { llama, llamaGguf } from './llama.js';
import { ropeOf } from './rope.js';
import { activationOf, expect, QKV, splitInto } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./gguf.js').GgufFacts} GgufFacts */

/**
 * Returns the key for layers with global attention; all other layers have a window.
 * @param {number} layers
 * @param {boolean[] | null} global  for each layer whether its attention is global; null if the period determines it
 * @param {number} every  period: layers whose number (from 0) is a multiple of it have global attention
 */
const globalLayersOf = (layers, global, every) =>
  someLayers(global ?? numbersOf(layers).map((i) => i % every === 0), 'global_every', 'global_layers');

/** Keys of ModernBERT's configuration that do not depend on the file. */
const MODERN = {
  ...ENCODER,
  norm_place: 'before',
  position: 'rope',
  gated: true,
  first_unnormed: true,
};

/**
 * ModernBERT: a norm before each branch except the first, a gated MLP, windows in two of three layers. Layers with a
 * window have their own base of rotary positions.
 * @type {Family}
 */
export const modernbert = {
  arch: 'bert',
  prefix: 'model.',
  layers: 'layers.',
  outer: { 'embeddings.tok_embeddings': 'wte', 'embeddings.norm': 'ln_0', final_norm: 'ln_f' },
  modules: {
    attn_norm: 'ln1',
    'attn.Wqkv': splitInto(QKV, ({ hidden }) => [hidden, hidden, hidden]),
    'attn.Wo': 'attn.o',
    mlp_norm: 'ln2',
    'mlp.Wi': splitInto(['mlp.gate', 'mlp.up'], ({ ffn }) => [ffn, ffn]),
    'mlp.Wo': 'mlp.down',
  },
  unread: /^(head|decoder|classifier)\.|\.inv_freq$/,
  labels(hf, config) {
    const activation = activationOf(hf.classifier_activation ?? 'gelu');
    expect(activation === 'gelu_erf', `ModernBERT with a classifier of activation ${hf.classifier_activation}`);
    const found = denseLabels('head.dense', 'classifier', activation, { 'head.norm': 'pooled.norm' })(hf, config);
    if (found) found.config.pooling = hf.classifier_pooling ?? 'cls';
    return found;
  },
  config: (hf) => {
    const layers = hf.num_hidden_layers;
    const kinds = eachLayer(hf.layer_types, layers, 'layer_types');
    const { full_attention: full = {}, sliding_attention: sliding = {} } = hf.rope_parameters ?? {};
    for (const { rope_type: type = 'default' } of [full, sliding])
      expect(type === 'default', `ModernBERT with scaled positions (${type})`);
    return {
      ...MODERN,
      layers,
      hidden: hf.hidden_size,
      heads: hf.num_attention_heads,
      ffn: hf.intermediate_size,
      vocab: hf.vocab_size,
      context: hf.max_position_embeddings,
      norm_eps: hf.norm_eps ?? 1e-5,
      activation: activationOf(hf.hidden_activation ?? 'gelu'),
      rope_theta: full.rope_theta ?? hf.global_rope_theta ?? 160000,
      local_theta: sliding.rope_theta ?? hf.local_rope_theta ?? 10000,
      window: bothSides(hf.local_attention ?? 128),
      ...globalLayersOf(
        layers,
        kinds && kinds.map((kind) => kind === 'full_attention'),
        hf.global_attn_every_n_layers ?? 3,
      ),
    };
  },
  gguf: {
    'modern-bert': {
      outer: { token_embd: 'wte', token_embd_norm: 'ln_0', output_norm: 'ln_f', ...GGUF_LABELS },
      modules: () => ({
        ...GGUF_ATTENTION,
        attn_norm: 'ln1',
        ffn_norm: 'ln2',
        ffn_up: 'mlp.gate_up',
        ffn_down: 'mlp.down',
      }),
      config: (facts) => {
        const act = facts.get('hidden_act', facts.get('hidden_activation', 'gelu'));
        const config = ggufRotaryLayerNorm(facts, activationOf(act));
        const window = facts.get('attention.sliding_window', 0);
        const pattern = facts.get('attention.sliding_window_pattern', 3);
        const listed = typeof pattern === 'number' ? null : eachLayer(pattern, config.layers, 'sliding_window_pattern');
        return {
          ...config,
          ...MODERN,
          tied: false,
          // Without a window all layers have the base of global attention.
          ...(window && {
            local_theta: facts.get('rope.freq_base_swa', 10000),
            window: bothSides(window),
            ...globalLayersOf(config.layers, listed && listed.map((isLocal) => !isLocal), pattern),
          }),
          ...ggufLabels(facts, 'gelu', 1),
        };
      },
    },
  },
};

/** Number of classes of distances in MPNet. The engine supports only this number. */
const BIAS_BUCKETS = 32;

/**
 * MPNet: BERT without token types, with a learned bias of attention scores for each class of distances.
 * @type {Family}
 */
export const mpnet = {
  ...bert,
  prefix: 'mpnet.',
  outer: {
    'embeddings.word_embeddings': 'wte',
    'embeddings.position_embeddings': 'wpe',
    'embeddings.LayerNorm': 'ln_0',
    'encoder.relative_attention_bias': 'attn.biases',
  },
  modules: {
    'attention.attn.q': 'attn.q',
    'attention.attn.k': 'attn.k',
    'attention.attn.v': 'attn.v',
    'attention.attn.o': 'attn.o',
    'attention.LayerNorm': 'ln1_post',
    'intermediate.dense': 'mlp.up',
    'output.dense': 'mlp.down',
    'output.LayerNorm': 'ln2_post',
  },
  unread: /(^|\.)embeddings\.position_ids$|^(mpnet\.)?pooler\.|^(lm_head|classifier|qa_outputs)\./,
  labels: denseLabels('classifier.dense', 'classifier.out_proj', 'tanh'),
  config: (hf) => {
    const buckets = hf.relative_attention_num_buckets ?? BIAS_BUCKETS;
    expect(buckets === BIAS_BUCKETS, `MPNet with ${buckets} relative_attention_num_buckets`);
    return { ...roberta.config(hf), token_types: 0, bias_buckets: buckets };
  },
  change: (name, tensor) =>
    name === 'attn.biases.weight'
      ? flattened(tensor)
      : name === 'wpe.weight'
        ? pick(tensor, range(PADDING_ROWS, tensor.dims[0] - PADDING_ROWS))
        : tensor,
  gguf: {},
};

/**
 * Version 2 of Jina's embedding models: BERT with ALiBi in place of learned positions, and a gated MLP. model_type in
 * their config.json is "bert".
 * @type {Family}
 */
export const jinaBert = {
  ...bert,
  outer: {
    'embeddings.word_embeddings': 'wte',
    'embeddings.token_type_embeddings': 'wtt',
    'embeddings.LayerNorm': 'ln_0',
  },
  modules: {
    ...bert.modules,
    'mlp.gated_layers': splitInto(['mlp.gate', 'mlp.up'], ({ ffn }) => [ffn, ffn]),
    'mlp.wo': 'mlp.down',
    'mlp.layernorm': 'ln2_post',
  },
  labels: undefined, // not supported, since it has not been compared with a reference: info.unused lists the classifier
  config: (hf) => {
    const kind = hf.feed_forward_type ?? 'geglu';
    expect(kind === 'geglu', `JinaBERT with an MLP of type "${kind}"`);
    const config = bert.config({ ...hf, position_embedding_type: 'absolute' });
    return { ...config, position: 'alibi', gated: true };
  },
  gguf: {
    'jina-bert-v2': {
      arch: 'other',
      outer: { token_embd: 'wte', token_embd_norm: 'ln_0', token_types: 'wtt' },
      modules: ({ has }) => ({
        ...GGUF_ATTENTION,
        attn_output_norm: 'ln1_post',
        // In older files the two halves are separate tensors.
        ...(has('blk.0.ffn_gate.weight') ? { ffn_gate: 'mlp.gate', ffn_up: 'mlp.up' } : { ffn_up: 'mlp.gate_up' }),
        ffn_down: 'mlp.down',
        layer_output_norm: 'ln2_post',
      }),
      unread: /^cls\./,
      config: (facts) => ({
        ...ggufLayerNorm(facts, 'gelu_erf'),
        ...ggufEncoder(facts),
        position: 'alibi',
        gated: true,
      }),
    },
  },
};

/**
 * Version 3 of Jina's embedding models, without the adapters for its tasks: BERT with rotary positions, with the names
 * of transformers. The first published files, with an adapter in each matrix, have another model_type.
 * @type {Family}
 */
export const jinaV3 = {
  ...bert,
  prefix: 'roberta.',
  layers: 'layers.',
  outer: {
    'embeddings.word_embeddings': 'wte',
    'embeddings.token_type_embeddings': 'wtt',
    'embeddings.LayerNorm': 'ln_0',
  },
  modules: {
    'self_attn.q_proj': 'attn.q',
    'self_attn.k_proj': 'attn.k',
    'self_attn.v_proj': 'attn.v',
    'self_attn.o_proj': 'attn.o',
    post_attention_layernorm: 'ln1_post',
    'mlp.fc1': 'mlp.up',
    'mlp.fc2': 'mlp.down',
    post_mlp_layernorm: 'ln2_post',
  },
  unread: /(^|\.)embeddings\.(position|token_type)_ids$|^(roberta\.)?pooler\.|^(lm_head|classifier)\./,
  labels: undefined,
  config: (hf) => ({
    ...bert.config({ layer_norm_eps: 1e-5, type_vocab_size: 1, ...hf }),
    ...ropeOf(hf, hf.hidden_size / hf.num_attention_heads, 20000),
    position: 'rope',
    context: hf.max_position_embeddings - PADDING_ROWS,
  }),
  gguf: {
    'jina-bert-v3': {
      .../** @type {Required<import('./shared.js').Family>} */ (bert).gguf.bert,
      config: (facts) => ({ ...ggufRotaryLayerNorm(facts, 'gelu_erf'), ...ggufEncoder(facts), position: 'rope' }),
    },
  },
};

/** Keys of EuroBERT's configuration that differ from LLaMA's. */
const EURO = { bidirectional: true, no_head: true, tied: false };

/** @type {import('./gguf.js').GgufRow} */
const euroGguf = { config: (facts) => ({ ...ggufRms(facts), ...EURO }) };

/** EuroBERT, also as version 5 of Jina's small embedding model: LLaMA as an encoder. @type {Family} */
export const eurobert = {
  ...llama,
  arch: 'other',
  labels: undefined,
  unread: /\.rotary_emb\.inv_freq$|^(lm_head|dense|classifier)\./,
  config: (hf) => ({ ...llama.config({ rms_norm_eps: 1e-5, ...hf }), ...EURO }),
  // In llama.cpp "llama-embed" is a decoder unless attention.causal is false or an option says so. These models are
  // encoders, and their converter writes no such key.
  gguf: { eurobert: euroGguf, 'llama-embed': { ...euroGguf, ropePairs: 'adjacent', unread: llamaGguf.unread } },
};

/** The configuration's names of pooling by those of config.json. @type {Record<string, string>} */
const POOLING = { avg: 'mean', cls: 'cls', last: 'last' };

/** NVIDIA's embedding models: LLaMA as an encoder. @type {Family} */
export const llamaBidirectional = {
  ...eurobert,
  config: (hf) => {
    const { pooling = 'avg' } = hf;
    expect(Object.hasOwn(POOLING, pooling), `llama_bidirec with pooling ${shown(pooling)}`);
    return { ...llama.config(hf), ...EURO, pooling: POOLING[pooling], normalize: true };
  },
};
