/** Names of enumerated values in a bq4 file (docs/FORMAT.md). The value in the file is the index of the name. */

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
