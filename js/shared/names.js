/** What numbers in a file stand for (docs/FORMAT.md): at each number its name. */

/** CONF's `arch`. */
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
];

/** TOKN's kind. */
export const TOKENIZERS = ['', 'spm', 'bpe', 'wordlist', 'unigram', 'wordpiece'];
