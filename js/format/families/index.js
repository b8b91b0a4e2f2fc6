/**
 * The families of models in Hugging Face's layout that can be converted: a row each, by model_type. A family says what its
 * config.json means in ours (docs/FORMAT.md, "CONF keys") and what its tensors are called in ours ("TENS"). What is
 * computed is known by the engine from the configuration; to add a family made of what it computes already is to add a row.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { bloom, falcon, mpt } from './alibi.js';
import { bert, distilbert, nomicBert, roberta } from './bert.js';
import { granitemoe, mixtral, qwen2moe, qwen3moe } from './experts.js';
import { gemma, gemma2, gemma3 } from './gemma.js';
import { bigcode, gpt2, neox, starcoder2 } from './gpt.js';
import {
  ernie,
  exaone,
  granite,
  internlm2,
  lfm2,
  llama,
  minicpm,
  ministral3,
  mistral,
  olmo2,
  olmo3,
  qwen2,
  qwen3,
  smollm3,
} from './llama.js';
import { phi, phi3, stablelm } from './phi.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./shared.js').Split} Split */

/** By model_type. @type {Record<string, Family>} */
export const FAMILIES = {
  llama,
  mistral,
  smollm3,
  qwen2,
  qwen3,
  granite,
  granitemoe,
  olmo2,
  olmo3,
  ernie4_5: ernie,
  exaone,
  internlm2,
  lfm2,
  minicpm,
  ministral3,
  // Without pictures these are Qwen 2 and 3; older files say what the text is without a part of its own.
  qwen2_vl: qwen2,
  qwen2_vl_text: qwen2,
  qwen2_5_vl: qwen2,
  qwen2_5_vl_text: qwen2,
  qwen3_vl_text: qwen3,
  gemma,
  gemma2,
  gemma3_text: gemma3,
  gpt2,
  gpt_bigcode: bigcode,
  starcoder2,
  gpt_neox: neox,
  phi,
  phi3,
  stablelm,
  falcon,
  bloom,
  mpt,
  bert,
  roberta,
  'xlm-roberta': roberta,
  camembert: roberta,
  distilbert,
  nomic_bert: nomicBert,
  mixtral,
  qwen2_moe: qwen2moe,
  qwen3_moe: qwen3moe,
};

/**
 * The family of a config.json, and what that says with defaults. Of a model that sees or hears too, its language model is
 * meant. UNSUPPORTED.
 * @param {Record<string, any>} hf
 * @returns {{ family: Family, hf: Record<string, any> }}
 */
export function familyOf(hf) {
  const inner = hf.text_config;
  const text =
    typeof inner?.model_type === 'string' && Object.hasOwn(FAMILIES, inner.model_type)
      ? { tie_word_embeddings: hf.tie_word_embeddings, ...inner }
      : hf;
  const type = text.model_type;
  if (typeof type !== 'string' || !Object.hasOwn(FAMILIES, type))
    throw new BqError('UNSUPPORTED', `config.json says model_type ${shown(type)}`, {
      hint: `convert reads ${Object.keys(FAMILIES).join(', ')} and our own "bq4"`,
    });
  return { family: FAMILIES[type], hf: { ...FAMILIES[type].defaults, ...text } };
}
