/** Encoders. */
import { activationOf, expect } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** An encoder: norms after the sum, every token sees all, hidden states instead of logits. @type {Family} */
export const bert = {
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
      `positions are embedded the "${hf.position_embedding_type}" way`,
    );
    expect(!hf.is_decoder && !hf.add_cross_attention, 'it is a decoder');
    return {
      arch: 'bert',
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
};
