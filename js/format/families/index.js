/**
 * The supported families of models. A family is one row (a Family, shared.js) in a file of this folder. The row
 * converts a config.json of Hugging Face to a model configuration (docs/FORMAT.md, "CONF keys") and maps its tensors to
 * canonical names ("TENS"). It does the same for GGUF files. The engine depends only on the configuration. So a new
 * family of known parts needs only its row, its model_type in FAMILIES and a fixture.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { bloom, falcon, mpt } from './alibi.js';
import { bitnet } from './bitnet.js';
import { bert, distilbert, nomicBert, roberta } from './bert.js';
import { cohere, cohere2 } from './cohere.js';
import { eurobert, jinaBert, jinaV3, llamaBidirectional, modernbert, mpnet } from './encoders.js';
import { granitemoe, mixtral, qwen2moe, qwen3moe } from './experts.js';
import { embeddingGemma2 } from './embedding-gemma2.js';
import { gemma, gemma2, gemma3, vaultgemma } from './gemma.js';
import { gemma4 } from './gemma4.js';
import { GGUF_MODULES, GGUF_OUTER } from './gguf.js';
import { graniteMoeSwa, graniteSwa } from './granite-swa.js';
import { glm, glm4 } from './glm.js';
import { bigcode, codegen, gpt2, gptj, neox, starcoder2 } from './gpt.js';
import { hunyuan } from './hunyuan.js';
import {
  arcee,
  ernie,
  exaone,
  exaone4,
  granite,
  helium,
  internlm2,
  llama,
  minicpm,
  ministral3,
  mistral,
  olmo2,
  olmo3,
  qwen,
  qwen2,
  qwen3,
  seedOss,
  smollm3,
} from './llama.js';
import { jais } from './jais.js';
import { lfm2, lfm2moe } from './lfm2.js';
import { lfm3 } from './lfm3.js';
import { falconH1, graniteHybrid, mamba2 } from './mamba2.js';
import { nanochat } from './nanochat.js';
import { jais2, nemotron } from './nemotron.js';
import { olmo, olmoe } from './olmo.js';
import { qwen35 } from './qwen35.js';
import { phi, phi3, stablelm } from './phi.js';
import { spark } from './spark.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./shared.js').Split} Split */

/** Families by the model_type of config.json. @type {Record<string, Family>} */
export const FAMILIES = {
  llama,
  mistral,
  ministral: mistral,
  arcee,
  smollm3,
  bitnet,
  PanguEmbedded: llama,
  qwen,
  qwen2,
  qwen3,
  granite,
  granitemoe,
  granitemoeshared: granitemoe,
  granitemoehybrid: graniteHybrid,
  granite_swa: graniteSwa,
  granitemoe_swa: graniteMoeSwa,
  olmo,
  olmo2,
  olmo3,
  olmoe,
  ernie4_5: ernie,
  exaone,
  exaone4,
  helium,
  hunyuan_v1_dense: hunyuan,
  internlm2,
  lfm2,
  lfm2_moe: lfm2moe,
  lfm3,
  mamba2,
  minicpm,
  ministral3,
  // Without images these vision models are Qwen 2 and 3. Their older config.json files have no text_config.
  qwen2_vl: qwen2,
  qwen2_vl_text: qwen2,
  qwen2_5_vl: qwen2,
  qwen2_5_vl_text: qwen2,
  qwen3_vl_text: qwen3,
  seed_oss: seedOss,
  gemma,
  gemma2,
  vaultgemma,
  gemma3_text: gemma3,
  gemma4_text: gemma4,
  embedding_gemma2_text: embeddingGemma2,
  gpt2,
  gpt_bigcode: bigcode,
  starcoder2,
  gptj,
  codegen,
  gpt_neox: neox,
  phi,
  phi3,
  spark2_5: spark,
  stablelm,
  glm,
  glm4,
  cohere,
  cohere2,
  nanochat,
  nemotron,
  jais,
  jais2,
  falcon,
  falcon_h1: falconH1,
  bloom,
  mpt,
  bert,
  roberta,
  'xlm-roberta': roberta,
  camembert: roberta,
  distilbert,
  nomic_bert: nomicBert,
  modernbert,
  mpnet,
  jina_bert: jinaBert,
  jina_embeddings_v3: jinaV3,
  eurobert,
  llama_bidirec: llamaBidirectional,
  mixtral,
  qwen2_moe: qwen2moe,
  qwen3_moe: qwen3moe,
  qwen3_5: qwen35,
  qwen3_5_text: qwen35,
};

/**
 * A row for GGUF files with all defaults filled in. `archs`: values of the configuration's `arch` that models of this
 * architecture can have; an adapter is accepted only for such a model.
 * @typedef {Required<Omit<import('./gguf.js').GgufRow, 'unread'>> & {
 *   unread?: RegExp, archs: Set<string>
 * }} GgufArchitecture
 */

/**
 * Rows for GGUF files by general.architecture. If several families have a row with the same name (because one family is
 * spread into another), these rows are equal.
 * @type {Record<string, GgufArchitecture>}
 */
export const GGUF_ARCHITECTURES = {};
for (const { arch, gguf = {} } of Object.values(FAMILIES))
  for (const [name, row] of Object.entries(gguf)) {
    GGUF_ARCHITECTURES[name] ??= {
      arch,
      ropePairs: 'half',
      outer: GGUF_OUTER,
      modules: () => GGUF_MODULES,
      tables: () => ({}),
      archs: new Set(row.arch ? [row.arch] : []),
      ...row,
    };
    GGUF_ARCHITECTURES[name].archs.add(arch);
  }

const TOO_LARGE =
  'its smallest model has 21 billion weights, about 12 GB; the memory of WebAssembly has at most 4 GB, so choose a smaller model';
/**
 * Reasons why architectures are refused, by their names in GGUF files and in config.json.
 * @type {Record<string, string>}
 */
export const REFUSED = { 'gpt-oss': TOO_LARGE, gpt_oss: TOO_LARGE };

/**
 * Returns the hint for an unsupported architecture: the reason, if `reasons` has one, and the supported names.
 * @param {unknown} name @param {string} supported @param {Record<string, string>} [reasons]
 */
export function architectureHint(name, supported, reasons = REFUSED) {
  const reason = typeof name === 'string' && Object.hasOwn(reasons, name) ? `${reasons[name]}; ` : '';
  return `${reason}expected one of ${supported}`;
}

/** Returns the model_type of a family by the configuration's `arch`. @param {string} arch */
export const modelTypeOf = (arch) => Object.keys(FAMILIES).find((type) => FAMILIES[type].arch === arch) ?? arch;

/**
 * Returns the family of a config.json, and the config.json with the family's defaults. For a multimodal model both are
 * those of its language model. Throws UNSUPPORTED.
 * @param {Record<string, any>} hf
 * @returns {{ family: Family, hf: Record<string, any> }}
 */
export function familyOf(hf) {
  const inner = hf.text_config;
  const languageModel =
    typeof inner?.model_type === 'string' && Object.hasOwn(FAMILIES, inner.model_type)
      ? { tie_word_embeddings: hf.tie_word_embeddings, ...inner }
      : hf;
  const isJinaBert = languageModel.model_type === 'bert' && languageModel.position_embedding_type === 'alibi';
  const type = isJinaBert ? 'jina_bert' : languageModel.model_type;
  if (typeof type !== 'string' || !Object.hasOwn(FAMILIES, type))
    throw new BqError('UNSUPPORTED', `config.json has the unsupported model_type ${shown(type)}`, {
      hint: architectureHint(type, `${Object.keys(FAMILIES).join(', ')}, or "bq4"`),
    });
  return { family: FAMILIES[type], hf: { ...FAMILIES[type].defaults, ...languageModel } };
}
