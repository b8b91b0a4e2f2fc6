/**
 * How families of models split text into words, by their names in GGUF files (tokenizer.ggml.pre): regular expressions
 * that are applied one after another. They are compiled to automata. Four of them are programs instead (split.js).
 */
const R = String.raw;

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const gpt2 = R`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const spaces = R`\s*[\r\n]+|\s+(?!\S)|\s+`;
const llama3 = (/** @type {string} */ digits) =>
  R`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|${digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|${spaces}`;
/**
 * Returns the expression of words in which a capital letter begins another word.
 * @param {string} end  expression after a word
 * @param {string} digits
 */
const cased = (end, digits) =>
  R`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+${end}|` +
  R`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*${end}|${digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|${spaces}`;
const threeDigits = R`\p{N}{1,3}`;
const asian = '[一-龥぀-ゟ゠-ヿ]+';
const deepseek3 = R`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_${'`'}{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|${spaces}`;
const spark = deepseek3.replace(R` ?[\p{P}\p{S}]+[\r\n]*|${spaces}`, R` ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+`);
const bloom = R` ?[^(\s|.,!?…。，、।۔،)]+`;
const cased3 = cased(`${contractions}?`, threeDigits);

/**
 * Letters with case, as listed in deepseek-llm's own tokenizer: those of an older version of Unicode, without the small
 * letters of Armenian and Georgian.
 */
const LISTED =
  'A-Za-z\xb5\xc0-\xd6\xd8-\xf6\xf8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376' +
  '\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481' +
  '\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf' +
  '\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d' +
  '\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4' +
  '\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107' +
  '\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f' +
  '\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d' +
  '\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17' +
  '\uff21-\uff3a\uff41-\uff5a\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}' +
  '\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}';

/**
 * `split`: name in split.js, replaces `stages`; `nfc`: whether the model's own tokenizer composes characters first
 * (NFC); `whole`: whether a word that is a token is not split; `bos`: whether texts begin with BOS by default.
 * @typedef {{ names: string[], split?: string, stages?: string[], nfc?: boolean, whole?: boolean, bos?: boolean }}
 *   Pattern
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
    names: ['smollm', 'starcoder', 'refact', 'codeshell', 'exaone', 'minerva-7b', 'mellum2'],
    split: 'digits',
  },
  { names: ['command-r'], split: 'digits', nfc: true },
  {
    names: ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'falcon-h1', 'midm-2.0', 'lfm2', 'jina-v5-nano'],
    split: 'llama-3',
    whole: true,
    bos: true,
  },
  { names: ['dbrx', 'smaug-bpe', 'chatglm-bpe'], split: 'llama-3' },
  { names: ['glm4', 'glm5'], split: 'llama-3', whole: true },
  { names: ['qwen2', 'deepseek-r1-qwen', 'kormo', 'f2llmv2', 'stablelm2'], split: 'qwen-2', nfc: true },
  { names: ['megrez', 'hunyuan', 'solar-open', 'grok-2'], split: 'qwen-2' },
  { names: ['ufakzeka'], stages: [R`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|${spaces}`] },
  {
    names: ['qwen35'],
    nfc: true,
    stages: [R`${contractions}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|${spaces}`],
  },
  {
    names: ['deepseek-llm'],
    stages: [R`[\r\n]`, R`\s?[${LISTED}]+`, R`\s?[!-/:-~！-／：-～‘-‟　-。]+`, R`\s+$`, '[一-龥ࠀ-一가-퟿]+', R`\p{N}+`],
  },
  { names: ['deepseek-coder'], stages: [R`[\r\n]`, R`\s?\p{L}+`, R`\s?\p{P}+`, '[一-龥ࠀ-一가-퟿]+', R`\p{N}`] },
  { names: ['deepseek-v3', 'hunyuan-dense', 'joyai-llm'], stages: [threeDigits, asian, deepseek3] },
  { names: ['spark2_5'], stages: [threeDigits, asian, spark, R`\p{N}`] },
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
  { names: ['tekken', 'pixtral'], whole: true, bos: true, stages: [cased('', R`\p{N}`)] },
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
/** The programs of split.js as expressions. @type {Record<string, string[]>} */
export const EXPRESSIONS = {
  'gpt-2': [gpt2],
  digits: [R`\p{N}`, gpt2],
  'llama-3': [llama3(threeDigits)],
  'qwen-2': [llama3(R`\p{N}`)],
};

/** Returns the pattern with a name of GGUF files. @param {string} name @returns {Pattern | undefined} */
export const patternNamed = (name) => PATTERNS.find(({ names }) => names.includes(name));
