/** Names of enumerated values in a bq4 file (docs/FORMAT.md) and in the ABI. The value is the index of the name. */

/** Values of `arch` in the section CONF. */
export const ARCHITECTURES = [
  '',
  'llama',
  'bullet',
  'gpt2',
  'neox',
  'gemma2',
  'other',
  'mistral',
  'smollm3',
  'qwen2',
  'qwen3',
  'granite',
  'olmo2',
  'gemma',
  'gemma3',
  'phi',
  'phi3',
  'stablelm',
  'falcon',
  'bloom',
  'mpt',
  'starcoder',
  'starcoder2',
  'bert',
  'mixtral',
  'qwen2moe',
  'qwen3moe',
  'lfm2',
  'qwen35',
  'granitehybrid',
  'falcon-h1',
  'mamba2',
  'gemma4',
  'lfm3',
];

/** Values of `kind` in the section TOKN. */
export const TOKENIZERS = ['', 'spm', 'bpe', 'wordlist', 'unigram', 'wordpiece'];

/** Types of the KV cache, as in `BQ_KV_LIST` of c/kernels/kernels.h. */
export const KV_TYPES = /** @type {const} */ (['f32', 'f16', 'i8', 'i4', 'i2']);
/** @typedef {(typeof KV_TYPES)[number]} KvType */
