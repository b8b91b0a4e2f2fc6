/**
 * BERT and similar encoders: bidirectional attention, norms after the residual sum, hidden states in place of logits.
 */
import { BqError } from '../../shared/errors.js';
import { columns, pick, range, stacked } from '../bq4/tensor-views.js';
import { GGUF_ATTENTION, ggufExperts, ggufLayerNorm, ggufRotaryLayerNorm } from './gguf.js';
import { denseLabels, GGUF_LABELS, ggufLabels } from './labels.js';
import { numbersOf } from './layers.js';
import { activationOf, expect, QKV, splitInto } from './shared.js';

/** @import { InTensor } from '../checkpoint-tensors.js' */
/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./gguf.js').GgufRow} GgufRow */
/** @typedef {import('./gguf.js').GgufFacts} GgufFacts */

/** Keys of the configuration that all these encoders share. */
export const ENCODER = {
  norm: 'layer',
  norm_place: 'after_sum',
  position: 'learned',
  gated: false,
  bidirectional: true,
  embed_norm: true,
  no_head: true,
};

/** @param {Record<string, any>} hf */
function bertConfig(hf) {
  expect(
    (hf.position_embedding_type ?? 'absolute') === 'absolute',
    `BERT with position embeddings of type "${hf.position_embedding_type}"`,
  );
  expect(!hf.is_decoder && !hf.add_cross_attention, 'BERT as a decoder');
  return {
    ...ENCODER,
    layers: hf.num_hidden_layers,
    hidden: hf.hidden_size,
    heads: hf.num_attention_heads,
    ffn: hf.intermediate_size,
    vocab: hf.vocab_size,
    context: hf.max_position_embeddings,
    norm_eps: hf.layer_norm_eps ?? 1e-12,
    activation: activationOf(hf.hidden_act ?? 'gelu'),
    token_types: hf.type_vocab_size ?? 2,
  };
}

/** @param {GgufFacts} facts */
export const ggufEncoder = (facts) => ({
  ...ENCODER,
  tied: false,
  token_types: facts.has('token_types.weight') ? facts.dims('token_types.weight')[0] : 0,
});

/**
 * Row of "bert", which is also the architecture of RoBERTa, XLM-RoBERTa, CamemBERT and DistilBERT in GGUF files.
 * @type {GgufRow}
 */
const bertGguf = {
  arch: 'other',
  outer: { token_embd: 'wte', token_embd_norm: 'ln_0', position_embd: 'wpe', token_types: 'wtt', ...GGUF_LABELS },
  modules: () => ({
    ...GGUF_ATTENTION,
    attn_output_norm: 'ln1_post',
    ffn_up: 'mlp.up',
    ffn_down: 'mlp.down',
    layer_output_norm: 'ln2_post',
  }),
  unread: /^(cls|cls\.output|cls\.norm)\./,
  config: (facts) => ({ ...ggufLayerNorm(facts, 'gelu_erf'), ...ggufEncoder(facts), ...ggufLabels(facts) }),
};

/** @type {Family} */
export const bert = {
  arch: 'bert',
  prefix: 'bert.',
  layers: 'encoder.layer.',
  outer: {
    'embeddings.word_embeddings': 'wte',
    'embeddings.position_embeddings': 'wpe',
    'embeddings.token_type_embeddings': 'wtt',
    'embeddings.LayerNorm': 'ln_0',
  },
  modules: {
    'attention.self.query': 'attn.q',
    'attention.self.key': 'attn.k',
    'attention.self.value': 'attn.v',
    'attention.output.dense': 'attn.o',
    'attention.output.LayerNorm': 'ln1_post',
    'intermediate.dense': 'mlp.up',
    'output.dense': 'mlp.down',
    'output.LayerNorm': 'ln2_post',
  },
  unread: /(^|\.)embeddings\.position_ids$|^(bert\.)?pooler\.|^cls\.|^classifier\./,
  config: bertConfig,
  labels: denseLabels('pooler.dense', 'classifier', 'tanh'),
  gguf: { bert: bertGguf },
};

/**
 * Number of rows in RoBERTa's position table before the row of position 0. Positions are counted from pad_token_id + 1
 * (`create_position_ids_from_input_ids` of transformers), and pad_token_id is 1 in all published models.
 */
export const PADDING_ROWS = 2;

/** RoBERTa, XLM-RoBERTa and CamemBERT: BERT whose position table begins with rows for padding. @type {Family} */
export const roberta = {
  ...bert,
  prefix: 'roberta.',
  unread: /(^|\.)embeddings\.(position|token_type)_ids$|^(roberta\.)?pooler\.|^lm_head\.|^classifier\./,
  config: (hf) => {
    expect((hf.pad_token_id ?? 1) === PADDING_ROWS - 1, `RoBERTa with pad_token_id ${hf.pad_token_id}`);
    return { ...bertConfig(hf), context: hf.max_position_embeddings - PADDING_ROWS };
  },
  labels: denseLabels('classifier.dense', 'classifier.out_proj', 'tanh'),
  change: (name, tensor) =>
    name === 'wpe.weight' ? pick(tensor, range(PADDING_ROWS, tensor.dims[0] - PADDING_ROWS)) : tensor,
};

/** DistilBERT: BERT without token types, with other names of tensors. @type {Family} */
export const distilbert = {
  ...bert,
  prefix: 'distilbert.',
  layers: 'transformer.layer.',
  outer: {
    'embeddings.word_embeddings': 'wte',
    'embeddings.position_embeddings': 'wpe',
    'embeddings.LayerNorm': 'ln_0',
  },
  modules: {
    'attention.q_lin': 'attn.q',
    'attention.k_lin': 'attn.k',
    'attention.v_lin': 'attn.v',
    'attention.out_lin': 'attn.o',
    sa_layer_norm: 'ln1_post',
    'ffn.lin1': 'mlp.up',
    'ffn.lin2': 'mlp.down',
    output_layer_norm: 'ln2_post',
  },
  unread: /(^|\.)embeddings\.position_ids$|^vocab_|^(pre_)?classifier\.|^qa_outputs\./,
  labels: denseLabels('pre_classifier', 'classifier', 'relu'),
  config: (hf) => ({
    ...ENCODER,
    layers: hf.n_layers,
    hidden: hf.dim,
    heads: hf.n_heads,
    ffn: hf.hidden_dim,
    vocab: hf.vocab_size,
    context: hf.max_position_embeddings ?? 512,
    norm_eps: 1e-12,
    activation: activationOf(hf.activation ?? 'gelu'),
    token_types: 0,
  }),
};

/** Keys of nomic-embed-text's config.json that change results, with the supported values. */
const NOMIC_SUPPORTED = {
  rotary_emb_fraction: 1,
  rotary_emb_interleaved: false,
  prenorm: false,
  parallel_block: false,
  use_rms_norm: false,
  causal: false,
  moe_normalize_expert_weights: false,
};

/**
 * Returns the layers with an MLP in place of experts. Layers i with i % every = 1 have experts.
 * @param {unknown} layers @param {number} every
 */
const denseLayers = (layers, every) => numbersOf(layers).filter((i) => i % every !== 1);

/**
 * Returns the experts' matrices, which the checkpoint has one below the other in a tensor. Throws SHAPE.
 * @param {InTensor} tensor @param {Record<string, any>} config  configuration of the model
 */
function expertMatrices(tensor, { experts, expert_ffn: ffn }) {
  if (tensor.dims[0] !== experts * ffn)
    throw new BqError('SHAPE', `the experts have ${tensor.dims[0]} rows; config.json implies ${experts} × ${ffn}`);
  return numbersOf(experts).map((i) => pick(tensor, range(i * ffn, ffn)));
}

/**
 * nomic-embed-text: BERT with rotary positions, with the tensor names of the published files. Versions 1 and 1.5 have
 * gated MLPs; in version 2 every second layer has experts, without gates and with one bias for all of them.
 * @type {Family}
 */
export const nomicBert = {
  arch: 'bert',
  prefix: 'bert.',
  layers: 'encoder.layers.',
  outer: {
    'embeddings.word_embeddings': 'wte',
    'embeddings.token_type_embeddings': 'wtt',
    emb_ln: 'ln_0',
  },
  modules: {
    'attn.Wqkv': splitInto(QKV, ({ hidden }) => [hidden, hidden, hidden]),
    'attn.out_proj': 'attn.o',
    norm1: 'ln1_post',
    norm2: 'ln2_post',
    'mlp.fc1': 'mlp.up',
    'mlp.fc11': 'mlp.up',
    'mlp.fc12': 'mlp.gate',
    'mlp.fc2': 'mlp.down',
    'mlp.router.layer': 'mlp.router',
    'mlp.experts.mlp.w1': (tensor, config) => [
      ['mlp.experts.up', stacked('mlp.experts.mlp.w1', expertMatrices(tensor, config))],
    ],
    'mlp.experts.mlp.w2': (tensor, config) => [
      [
        'mlp.experts.down',
        stacked(
          'mlp.experts.mlp.w2',
          expertMatrices(tensor, config).map((matrix) => columns(matrix, 0, config.hidden)),
        ),
      ],
    ],
    'mlp.experts': 'mlp.experts.down', // its bias
  },
  unread: /(^|\.)embeddings\.position_ids$|^(bert\.)?pooler\.|^cls\.|\.rotary_emb\.inv_freq$/,
  config: (hf) => {
    const every = hf.moe_every_n_layers ?? 0;
    const activation = every ? 'gelu' : 'swiglu';
    for (const [key, supported] of Object.entries({ ...NOMIC_SUPPORTED, activation_function: activation }))
      expect((hf[key] ?? supported) === supported, `nomic-embed-text with ${key} ${JSON.stringify(hf[key])}`);
    const layers = hf.n_layer ?? hf.num_hidden_layers;
    const ffn = hf.n_inner ?? hf.intermediate_size;
    const positions = hf.n_positions ?? hf.max_position_embeddings ?? 2048;
    return {
      ...ENCODER,
      position: 'rope',
      rope_theta: hf.rotary_emb_base ?? hf.rope_parameters?.rope_theta ?? 1000,
      layers,
      hidden: hf.n_embd ?? hf.hidden_size,
      heads: hf.n_head ?? hf.num_attention_heads,
      ffn,
      vocab: hf.vocab_size,
      // Longer texts would need scaled positions (rotary_scaling_factor), which are not supported here.
      context: Math.min(positions, hf.max_trained_positions ?? positions),
      norm_eps: hf.layer_norm_epsilon ?? hf.layer_norm_eps ?? 1e-12,
      activation: every ? 'gelu_erf' : 'silu',
      gated: !every,
      token_types: hf.type_vocab_size ?? 2,
      ...(every && {
        experts: hf.num_experts,
        experts_used: hf.moe_top_k,
        expert_ffn: ffn,
        experts_sum: false,
        dense_layers: denseLayers(layers, every),
      }),
    };
  },
  gguf: {
    'nomic-bert-moe': {
      ...bertGguf,
      modules: (facts) => ({
        .../** @type {Required<GgufRow>} */ (bertGguf).modules(facts),
        ffn_gate_inp: 'mlp.router',
        ffn_up_exps: 'mlp.experts.up',
        ffn_down_exps: 'mlp.experts.down',
      }),
      // llama.cpp's converter leaves out the bias of the experts.
      config: (facts) => ({
        ...ggufRotaryLayerNorm(facts, 'gelu_erf'),
        ...ggufEncoder(facts),
        position: 'rope',
        ...ggufExperts(facts, false, 'blk.1.'),
        dense_layers: denseLayers(facts.get('block_count'), facts.get('moe_every_n_layers')),
      }),
    },
    'nomic-bert': {
      ...bertGguf,
      modules: (facts) => ({ .../** @type {Required<GgufRow>} */ (bertGguf).modules(facts), ffn_gate: 'mlp.gate' }),
      config: (facts) => ({
        ...ggufRotaryLayerNorm(facts, 'silu'),
        ...ggufEncoder(facts),
        position: 'rope',
        gated: true,
      }),
    },
  },
};
