/**
 * Table of the options of `generate`. A row defines the option's check (options.js), its flag and help on the command
 * line (bin/generate-options.js), its field in OpenAI's requests (api/openai/request.js), the setting that adapters map
 * to it (api/adapters/), whether receipts contain it (api/receipts/) and its default in the sampler
 * (engine/generation/output.js). Each bundle contains only the columns that it reads (tools/dist.mjs).
 *
 * The type GenerateOptions follows from the rows too: `check` has the type of the option, and the comment of the row is
 * its documentation. So a new option needs a row here and the code that uses it. An option without `openai` is not
 * available in OpenAI's requests.
 */
import {
  adapter,
  biases,
  callback,
  contextPolicy,
  deadline,
  flag,
  number,
  object,
  rate,
  signal,
  speculation,
  stopTexts,
  tokenCount,
  tokenList,
  integer,
} from './checks.js';

/** @import { Check } from './checks.js' */
/** @import { PrefillProgress, ResponseFormat, StandardSchema } from './types.js' */

/** Largest finite f32. The sampler divides by the repeat penalty as f32, and larger numbers would be infinite. */
const LARGEST_F32 = 3.4028234663852886e38;

/**
 * @typedef {object} OptionRow
 * @property {Check} check       check of type and range
 * @property {number} [default]
 * @property {string} [flag]  placeholder of the value on the command line. The flag is the option's name in kebab case
 *   (`top-k`). Missing: no flag
 * @property {string} [flagHelp]  help of the flag
 * @property {string} [openai]   field of OpenAI's requests; 'bq4': a member of the extension object `bq4`
 * @property {Check} [openaiCheck]  check of that field, if it differs
 * @property {boolean} [chatOnly]  whether the field belongs to chat completions only
 * @property {string} [aiSdk]    setting of Vercel's AI SDK
 * @property {'f32' | 'u32'} [sampler]  type of the option in the sampler's record, bq_sample_options of c/bq.h. Its name
 *   there is in snake case (`top_k`), and the fields have the order of the rows (wasm/abi.js)
 * @property {boolean} [receipt]  whether the option affects the tokens, so that a receipt contains it. The order of the
 *   rows is the order in the receipt's hash
 */

/** @satisfies {Record<string, OptionRow>} */
export const GENERATE_OPTIONS = {
  /** Largest number of tokens. Default: 1,024, or the rest of the context. Infinity: until the context is full */
  maxTokens: {
    check: tokenCount,
    default: 1024,
    flag: 'N',
    flagHelp: 'largest number of tokens to generate',
    openai: 'max_tokens',
    aiSdk: 'maxOutputTokens',
    receipt: true,
  },
  /** Randomness of the sampling; 0: always the most probable token. Default 0.7 */
  temperature: {
    check: number(0),
    default: 0.7,
    flag: 'T',
    flagHelp: 'randomness of the sampling (0: always the most likely token)',
    openai: 'temperature',
    openaiCheck: number(0, 2),
    aiSdk: 'temperature',
    sampler: 'f32',
    receipt: true,
  },
  /** Samples from the k most probable tokens only; 0: off. Default 40 */
  topK: {
    check: integer(0),
    default: 40,
    flag: 'K',
    flagHelp: 'samples from the K most likely tokens',
    openai: 'top_k',
    aiSdk: 'topK',
    sampler: 'u32',
    receipt: true,
  },
  /** Samples from the most probable tokens whose probabilities add up to p, at least one; 1: off. Default 0.95 */
  topP: {
    check: number(0, 1),
    default: 0.95,
    flag: 'P',
    flagHelp: 'samples from the most likely tokens with this total probability',
    openai: 'top_p',
    aiSdk: 'topP',
    sampler: 'f32',
    receipt: true,
  },
  /** Samples from tokens with at least p times the probability of the most probable one. Default 0, off */
  minP: {
    check: number(0, 1),
    default: 0,
    flag: 'P',
    flagHelp: 'samples from tokens with at least this share of the highest probability',
    openai: 'min_p',
    sampler: 'f32',
    receipt: true,
  },
  /** Above 1: recent tokens become less probable. Default 1, off */
  repeatPenalty: {
    check: number(0, LARGEST_F32),
    default: 1,
    flag: 'R',
    flagHelp: 'makes tokens that occurred before less likely (1: off)',
    openai: 'repeat_penalty',
    sampler: 'f32',
    receipt: true,
  },
  /** Number of recent tokens that are penalized; 0: none. Default 64 */
  repeatLast: {
    check: integer(0),
    default: 64,
    sampler: 'u32',
    receipt: true,
  },
  /** Integer up to 2^53. Default: random; the result contains it */
  seed: {
    check: integer(0, 2 ** 53),
    flag: 'N',
    flagHelp: 'seed of the random numbers: the same seed gives the same text',
    openai: 'seed',
    aiSdk: 'seed',
  },
  /** Strings that end the generation; they are not part of its text */
  stop: {
    check: stopTexts,
    flag: 'TEXT',
    flagHelp: 'ends generation at this text',
    openai: 'stop',
    aiSdk: 'stopSequences',
    receipt: true,
  },
  /** Tokens that end the generation, in addition to the model's own */
  stopTokens: { check: tokenList, receipt: true },
  /** Numbers added to the logits of tokens; -Infinity forbids a token */
  logitBias: {
    check: biases,
    openai: 'logit_bias',
    receipt: true,
  },
  /** Subtracted from the logits of tokens that occurred in this generation. Default 0 */
  presencePenalty: {
    check: number(-Infinity),
    openai: 'presence_penalty',
    openaiCheck: number(-2, 2),
    aiSdk: 'presencePenalty',
    receipt: true,
  },
  /** Subtracted once for each occurrence. Default 0 */
  frequencyPenalty: {
    check: number(-Infinity),
    openai: 'frequency_penalty',
    openaiCheck: number(-2, 2),
    aiSdk: 'frequencyPenalty',
    receipt: true,
  },
  /**
   * Number of most probable tokens, at most 20, that each part lists with their log probabilities, in addition to that
   * of its own token
   */
  logprobs: {
    check: integer(0, 20),
  },
  /** The same for each token of the prompt, in the result; at most 20 */
  promptLogprobs: {
    check: integer(0, 20),
  },
  /** Format that the text must have. Default: any text */
  responseFormat: {
    check: /** @type {Check<ResponseFormat | StandardSchema>} */ (object),
    openai: 'response_format',
    chatOnly: true,
    receipt: true,
  },
  /**
   * Speculative decoding: draft tokens are computed in one batch, and the text is the same as without. 'auto' (the
   * default): prompt lookup if measurements show that it is faster. true: prompt lookup wherever the text repeats.
   * false: never. `tokens`: largest number of draft tokens. `model`: draft model, a smaller one with the same
   * vocabulary; null: prompt lookup
   */
  speculate: { check: speculation, openai: 'bq4' },
  /** LoRA adapter to compute with; null: none. Default: the session's adapter, if any */
  adapter: { check: adapter, openai: 'bq4' },
  /**
   * What happens when the context is full. 'error' (the default): the generation ends, and a prompt that is too long is
   * refused. 'shift': the oldest turns are removed. 'summarize': the model summarizes the turns that are removed
   */
  contextPolicy: { check: contextPolicy, openai: 'bq4' },
  /** Whether the result of a reply contains `origin`, for `receiptOfReply` of bq4/receipts */
  receipt: { check: flag },
  /**
   * Number of first tokens that stay when a full context is shifted during a generation. Default: all tokens before the
   * first user message; without messages 4
   */
  sinks: { check: integer(0) },
  /** Milliseconds from the call, or a Date, after which the generation ends; the result is the text so far */
  deadline: { check: deadline },
  /** Limit of the speed. Default: none */
  maxTokensPerSecond: { check: rate },
  /** Ends the generation with the signal's reason; computed tokens stay in the KV cache */
  signal: { check: signal },
  /** Called while the prompt is computed */
  onProgress: { check: /** @type {Check<(progress: PrefillProgress) => void>} */ (callback) },
};

/** @type {[name: string, row: OptionRow][]} */
export const OPTION_ROWS = Object.entries(GENERATE_OPTIONS);

/**
 * Options of `generate`.
 * @typedef {{ [name in keyof typeof GENERATE_OPTIONS]?: Parameters<(typeof GENERATE_OPTIONS)[name]['check']>[0] }} GenerateOptions
 */
