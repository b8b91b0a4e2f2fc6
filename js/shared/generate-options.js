/**
 * Table of the options of `generate`. A row defines the option's check (options.js), its flag and help on the command
 * line (bin/generate-options.js), its field in OpenAI's requests (api/openai/request.js), the setting that adapters map
 * to it (api/adapters/), whether receipts contain it (api/receipts/) and its default in the sampler
 * (engine/generation/output.js). Each bundle contains only the columns that it reads (tools/dist.mjs).
 *
 * A new option needs a row here, its type in types.js, and the code that uses it. An option without `openai` is not
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

/** Largest finite f32. The sampler divides by the repeat penalty as f32, and larger numbers would be infinite. */
const LARGEST_F32 = 3.4028234663852886e38;

/**
 * @typedef {object} OptionRow
 * @property {Check} check       check of type and range
 * @property {string} meaning    one phrase, for help texts
 * @property {number} [default]
 * @property {string} [flag]  placeholder of the value on the command line. The flag is the option's name in kebab case
 *   (`top-k`). Missing: no flag
 * @property {string} [flagHelp]  help of the flag, if it differs from `meaning`
 * @property {string} [openai]   field of OpenAI's requests; 'bq4': a member of the extension object `bq4`
 * @property {Check} [openaiCheck]  check of that field, if it differs
 * @property {boolean} [chatOnly]  whether the field belongs to chat completions only
 * @property {string} [aiSdk]    setting of Vercel's AI SDK
 * @property {string} [sampler]  field of the sampler's record (bqw_sample_options)
 * @property {boolean} [receipt]  whether the option affects the tokens, so that a receipt contains it. The order of the
 *   rows is the order in the receipt's hash
 */

/** @satisfies {Record<string, OptionRow>} */
export const GENERATE_OPTIONS = {
  maxTokens: {
    check: tokenCount,
    default: 1024,
    meaning: 'largest number of tokens to generate',
    flag: 'N',
    openai: 'max_tokens',
    aiSdk: 'maxOutputTokens',
    receipt: true,
  },
  temperature: {
    check: number(0),
    default: 0.7,
    meaning: 'randomness of the sampling (0: always the most likely token)',
    flag: 'T',
    openai: 'temperature',
    openaiCheck: number(0, 2),
    aiSdk: 'temperature',
    sampler: 'temperature',
    receipt: true,
  },
  topK: {
    check: integer(0),
    default: 40,
    meaning: 'samples from the K most likely tokens',
    flag: 'K',
    openai: 'top_k',
    aiSdk: 'topK',
    sampler: 'top_k',
    receipt: true,
  },
  topP: {
    check: number(0, 1),
    default: 0.95,
    meaning: 'samples from the most likely tokens with this total probability',
    flag: 'P',
    openai: 'top_p',
    aiSdk: 'topP',
    sampler: 'top_p',
    receipt: true,
  },
  minP: {
    check: number(0, 1),
    default: 0,
    meaning: 'samples from tokens with at least this share of the highest probability',
    flag: 'P',
    openai: 'min_p',
    sampler: 'min_p',
    receipt: true,
  },
  repeatPenalty: {
    check: number(0, LARGEST_F32),
    default: 1,
    meaning: 'makes tokens that occurred before less likely (1: off)',
    flag: 'R',
    openai: 'repeat_penalty',
    sampler: 'repeat_penalty',
    receipt: true,
  },
  repeatLast: {
    check: integer(0),
    default: 64,
    meaning: 'number of recent tokens that the repeat penalty applies to',
    sampler: 'repeat_last',
    receipt: true,
  },
  seed: {
    check: integer(0, 2 ** 53),
    meaning: 'seed of the random numbers: the same seed gives the same text',
    flag: 'N',
    openai: 'seed',
    aiSdk: 'seed',
  },
  stop: {
    check: stopTexts,
    meaning: 'ends generation at this text',
    flag: 'TEXT',
    openai: 'stop',
    aiSdk: 'stopSequences',
    receipt: true,
  },
  stopTokens: { check: tokenList, meaning: "tokens that end the text, in addition to the model's", receipt: true },
  logitBias: {
    check: biases,
    meaning: 'numbers that are added to the logits of tokens',
    openai: 'logit_bias',
    receipt: true,
  },
  presencePenalty: {
    check: number(-Infinity),
    meaning: 'subtracted from the logits of tokens that occurred in this generation',
    openai: 'presence_penalty',
    openaiCheck: number(-2, 2),
    aiSdk: 'presencePenalty',
    receipt: true,
  },
  frequencyPenalty: {
    check: number(-Infinity),
    meaning: 'subtracted from the logits of tokens once for each occurrence in this generation',
    openai: 'frequency_penalty',
    openaiCheck: number(-2, 2),
    aiSdk: 'frequencyPenalty',
    receipt: true,
  },
  logprobs: {
    check: integer(0, 20),
    meaning: 'number of alternatives with log probabilities in each part',
  },
  promptLogprobs: {
    check: integer(0, 20),
    meaning: 'number of alternatives with log probabilities for each token of the prompt',
  },
  responseFormat: {
    check: object,
    meaning: 'the format that the text must have',
    openai: 'response_format',
    chatOnly: true,
    receipt: true,
  },
  speculate: { check: speculation, meaning: 'speculative decoding', openai: 'bq4' },
  adapter: { check: adapter, meaning: 'the LoRA adapter to compute with; null: none', openai: 'bq4' },
  contextPolicy: { check: contextPolicy, meaning: 'action when the context is full', openai: 'bq4' },
  receipt: { check: flag, meaning: 'adds `origin` to the result of a reply, for a receipt' },
  sinks: { check: integer(0), meaning: 'number of first tokens that are kept when a full context is shifted' },
  deadline: { check: deadline, meaning: 'milliseconds from the call, or a Date, after which the generation ends' },
  maxTokensPerSecond: { check: rate, meaning: 'largest number of tokens per second' },
  signal: { check: signal, meaning: 'an AbortSignal that ends the generation' },
  onProgress: { check: callback, meaning: 'called while the prompt is computed' },
};

/** @type {[name: string, row: OptionRow][]} */
export const OPTION_ROWS = Object.entries(GENERATE_OPTIONS);
