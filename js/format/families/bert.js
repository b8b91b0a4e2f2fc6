/** Encoders: BERT. */
import { GGUF_ATTENTION, ggufLayerNorm } from './gguf.js';
import { activationOf, expect } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** An encoder: norms after the residual sum, bidirectional attention, hidden states instead of logits. @type {Family} */
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
  unread: /(^|\.)embeddings\.position_ids$|^(bert\.)?pooler\.|^cls\./,
  config: (hf) => {
    expect(
      (hf.position_embedding_type ?? 'absolute') === 'absolute',
      `BERT with position embeddings of type "${hf.position_embedding_type}"`,
    );
    expect(!hf.is_decoder && !hf.add_cross_attention, 'BERT as a decoder');
    return {
      layers: hf.num_hidden_layers,
      hidden: hf.hidden_size,
      heads: hf.num_attention_heads,
      ffn: hf.intermediate_size,
      vocab: hf.vocab_size,
      context: hf.max_position_embeddings,
      norm: 'layer',
      norm_eps: hf.layer_norm_eps ?? 1e-12,
      norm_place: 'after_sum',
      position: 'learned',
      activation: activationOf(hf.hidden_act ?? 'gelu'),
      gated: false,
      bidirectional: true,
      embed_norm: true,
      token_types: hf.type_vocab_size ?? 2,
      no_head: true,
    };
  },
  gguf: {
    bert: {
      arch: 'other',
      outer: { token_embd: 'wte', token_embd_norm: 'ln_0', position_embd: 'wpe', token_types: 'wtt' },
      modules: () => ({
        ...GGUF_ATTENTION,
        attn_output_norm: 'ln1_post',
        ffn_up: 'mlp.up',
        ffn_down: 'mlp.down',
        layer_output_norm: 'ln2_post',
      }),
      unread: /^(cls|cls\.output|cls\.norm)\./,
      config: (facts) => ({
        ...ggufLayerNorm(facts, 'gelu_erf'),
        tied: false,
        no_head: true,
        norm_place: 'after_sum',
        position: 'learned',
        bidirectional: true,
        embed_norm: true,
        token_types: facts.has('token_types.weight') ? facts.dims('token_types.weight')[0] : 0,
      }),
    },
  },
};
