/**
 * How families cut text into words, as expressions one after the other, by the names that GGUF files have for them
 * (tokenizer.ggml.pre). The four of split.js are written as programs; these become automata.
 */
const R = String.raw;

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const gpt2 = R`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const spaces = R`\s*[\r\n]+|\s+(?!\S)|\s+`;
const llama3 = (/** @type {string} */ digits) =>
  R`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|${digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|${spaces}`;
/** Words in which a capital begins another. @param {string} end  what may follow a word @param {string} digits */
const cased = (end, digits) =>
  R`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+${end}|` +
  R`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*${end}|${digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|${spaces}`;
const threeDigits = R`\p{N}{1,3}`;
const asian = '[一-龥぀-ゟ゠-ヿ]+';
const deepseek3 = R`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_${'`'}{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|${spaces}`;
const bloom = R` ?[^(\s|.,!?…。，、।۔،)]+`;
const cased3 = cased(`${contractions}?`, threeDigits);

/**
 * `split`: one of split.js instead; nfc: the model's own tokenizer composes characters first; whole: a word that is a token
 * stays one; bos: texts begin with BOS unless the file says otherwise.
 * @typedef {{ names: string[], split?: string, stages?: string[], nfc?: boolean, whole?: boolean, bos?: boolean }} Pattern
 */

/** @type {Pattern[]} */
export const PATTERNS = [
  {
    names: [
      'gpt-2',
      'phi-2',
      'jina-es',
      'jina-de',
      'gigachat',
      'jina-v2-es',
      'jina-v2-de',
      'a.x-4.0',
      'mellum',
      'modern-bert',
      'jina-v1-en',
      'jina-v2-code',
      'roberta-bpe',
      'exaone4',
      'jais',
      'trillion',
      'granite-docling',
    ],
    split: 'gpt-2',
  },
  { names: ['olmo', 'mpt'], split: 'gpt-2', nfc: true },
  {
    names: ['smollm', 'starcoder', 'refact', 'command-r', 'codeshell', 'exaone', 'minerva-7b', 'mellum2'],
    split: 'digits',
  },
  {
    names: ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'falcon-h1', 'pixtral', 'midm-2.0', 'lfm2', 'jina-v5-nano'],
    split: 'llama-3',
    whole: true,
    bos: true,
  },
  { names: ['dbrx', 'smaug-bpe', 'glm4', 'chatglm-bpe'], split: 'llama-3' },
  { names: ['qwen2', 'deepseek-r1-qwen', 'kormo', 'f2llmv2', 'stablelm2'], split: 'qwen-2', nfc: true },
  { names: ['megrez', 'hunyuan', 'solar-open', 'grok-2'], split: 'qwen-2' },
  {
    names: ['qwen35'],
    nfc: true,
    stages: [R`${contractions}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|${spaces}`],
  },
  {
    names: ['deepseek-llm'],
    stages: [
      R`[\r\n]`, // Cased letters but Georgian's, which had no case when the model was made.
      R`\s?[\p{Lu}\p{Ll}\p{Lt}&&[^\u10c7\u10cd\u10d0-\u10ff]]+`,
      R`\s?[!-/:-~！-／：-～‘-‟　-。]+`,
      R`\s+$`,
      '[一-龥ࠀ-一가-퟿]+',
      R`\p{N}+`,
    ],
  },
  { names: ['deepseek-coder'], stages: [R`[\r\n]`, R`\s?\p{L}+`, R`\s?\p{P}+`, '[一-龥ࠀ-一가-퟿]+', R`\p{N}`] },
  { names: ['deepseek-v3', 'hunyuan-dense', 'joyai-llm'], stages: [threeDigits, asian, deepseek3] },
  { names: ['longcat'], stages: [llama3(R`\p{N}`), R` ?[！-／：-～‘-‟　-。《》「」【】]+`, '[一-龥ࠀ-一가-퟿]+'] },
  {
    names: ['youtu'],
    whole: true,
    stages: [
      '[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+',
      cased(`${contractions}?`, R`\p{N}`),
    ],
  },
  { names: ['falcon'], stages: [R`[\p{P}$+<=>^~|${'`'}]+`, gpt2, '[0-9][0-9][0-9]'] },
  { names: ['default'], stages: [R`[\p{P}$+<=>^~|]+`, gpt2, R`\p{N}+`, '[0-9][0-9][0-9]'] },
  { names: ['bloom', 'poro-chat', 'gpt3-finnish'], stages: [bloom] },
  { names: ['viking'], stages: [bloom, R`\p{N}`] },
  { names: ['tekken'], whole: true, bos: true, stages: [cased('', R`\p{N}`)] },
  {
    names: ['chameleon'],
    bos: true,
    stages: [
      '<sentinel:[0-9]+>',
      '(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z',
      R`([\t\n]|    |  )`,
      R`\p{N}`,
      R`[\p{P}!-/:-@\[-${'`'}{-~]`,
      gpt2,
    ],
  },
  { names: ['gpt-4o', 'llama4', 'kanana2', 'talkie', 'minimax-m2'], stages: [cased3] },
  { names: ['granite-embed-multi-97m'], whole: true, stages: [cased3] },
  {
    names: ['bailingmoe', 'bailingmoe2', 'llada-moe'],
    stages: [R`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`],
  },
  {
    names: ['seed-coder'],
    stages: [R`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|${spaces}`],
  },
  {
    names: ['exaone-moe'],
    stages: [
      R`${contractions}|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`,
    ],
  },
  { names: ['minicpm5'], whole: true, stages: [threeDigits, llama3(R`\p{N}+`)] },
];

export const GPT2 = gpt2;
/** What the programs of split.js say, as expressions. @type {Record<string, string[]>} */
export const EXPRESSIONS = {
  'gpt-2': [gpt2],
  digits: [R`\p{N}`, gpt2],
  'llama-3': [llama3(threeDigits)],
  'qwen-2': [llama3(R`\p{N}`)],
};

/** The way of cutting that GGUF files call so. @param {string} name @returns {Pattern | undefined} */
export const patternNamed = (name) => PATTERNS.find(({ names }) => names.includes(name));
