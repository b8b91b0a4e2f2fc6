/**
 * Fields of OpenAI's requests, checked, as options of a generation. Null counts as not given. A field that is unknown, that
 * nothing here does, or whose value is wrong is refused by its name, which is `details.param` too.
 */
import { BqError } from '../shared/errors.js';
import {
  checkBy,
  flag,
  kind,
  number,
  object,
  objects,
  oneOf,
  speculation,
  text,
  texts,
  whole,
  wrong,
} from '../shared/options.js';
import { isNestedTooDeeply, MOST_NESTED } from '../shared/nested.js';

/** @import { GenerateOptions } from '../shared/types.js' */
/** @import { Options } from '../shared/options.js' */

const any = () => '';
const loaded = kind('an adapter that was loaded', (v) => !text(v?.info?.id));
const biases = kind(
  'an object of numbers from -100 to 100 by token',
  (v) =>
    !object(v) &&
    Object.entries(v).every(([id, bias]) => /^\d+$/.test(id) && typeof bias === 'number' && Math.abs(bias) <= 100),
);
/** @param {unknown} list @param {unknown[]} wanted */
const equal = (list, wanted) =>
  Array.isArray(list) && list.length === wanted.length && list.every((one, i) => one === wanted[i]);
/** @param {unknown} value @param {string} what */
const only = (value, what) => kind(what, (v) => (Array.isArray(value) ? equal(v, value) : v === value));
const prompt = kind('a text, a list of tokens, or a list of either', (v) =>
  [v].flat(2).every((one) => typeof one === 'string' || Number.isInteger(one)),
);

/** What tells who asks and why, but nothing of the answer. */
const ABOUT = {
  model: text,
  user: text,
  metadata: object,
  safety_identifier: text,
  prompt_cache_key: text,
  service_tier: oneOf('auto', 'default'),
  store: only(false, 'false: nothing is stored'),
};
/** The last six are not OpenAI's own: llama.cpp's server has three of them. @satisfies {Options} */
const SAMPLING = {
  stream: flag,
  stream_options: object,
  n: whole(1, 128),
  stop: texts,
  seed: whole(0, 2 ** 53),
  temperature: number(0, 2),
  top_p: number(0, 1),
  logit_bias: biases,
  presence_penalty: number(-2, 2),
  frequency_penalty: number(-2, 2),
  max_tokens: whole(0),
  top_k: whole(0),
  min_p: number(0, 1),
  repeat_penalty: number(0),
  adapter: loaded,
  // A name is of this engine's own: who asks has none.
  speculate: (v) => (text(v?.model) ? speculation(v) : 'with a model that was loaded'),
  context_policy: oneOf('error', 'shift', 'summarize'),
};

/** @satisfies {Record<string, Options>} */
const KNOWN = {
  'chat.completions.create': {
    messages: objects,
    ...ABOUT,
    ...SAMPLING,
    max_completion_tokens: whole(0),
    logprobs: flag,
    top_logprobs: whole(0, 20),
    response_format: object,
    modalities: only(['text'], '["text"]'),
    tools: objects,
    tool_choice: any,
    parallel_tool_calls: flag,
    chat_template_kwargs: object,
  },
  'completions.create': { prompt, ...ABOUT, ...SAMPLING, logprobs: whole(0, 20), echo: flag, best_of: only(1, '1') },
  'embeddings.create': { input: prompt, ...ABOUT, dimensions: whole(1), encoding_format: oneOf('float', 'base64') },
};

/** Fields of OpenAI's that ask for what can't be done. */
const UNSUPPORTED = [
  'audio',
  'function_call',
  'functions',
  'moderation',
  'prediction',
  'reasoning_effort',
  'suffix',
  'verbosity',
  'web_search_options',
];

/** ARGUMENT. @param {string} param @param {string} message @param {string} [hint] */
export const refuse = (param, message, hint) => new BqError('ARGUMENT', message, { hint, details: { param } });

/**
 * The fields that were given.
 * @param {keyof typeof KNOWN} call @param {unknown} body
 * @returns {Record<string, any>}
 */
export function fieldsOf(call, body) {
  if (object(body)) throw wrong(`the request of ${call}`, body, 'an object');
  const given = Object.fromEntries(Object.entries(/** @type {object} */ (body)).filter(([, value]) => value !== null));
  const deep = Object.keys(given).find((name) => isNestedTooDeeply(given[name]));
  if (deep) throw refuse(deep, `${deep} is nested too deeply: at most ${MOST_NESTED} levels are read`);
  const unsupported = UNSUPPORTED.find((name) => given[name] !== undefined && !Object.hasOwn(KNOWN[call], name));
  if (unsupported) throw refuse(unsupported, `${call} does not support "${unsupported}"`, 'leave it out');
  return checkBy(KNOWN[call], call, given);
}

/** How many tokens may come. @param {Record<string, any>} fields */
function limitOf({ max_tokens, max_completion_tokens }) {
  if (max_tokens !== undefined && max_completion_tokens !== undefined && max_tokens !== max_completion_tokens)
    throw refuse(
      'max_tokens',
      `max_tokens is ${max_tokens}, but max_completion_tokens is ${max_completion_tokens}`,
      'leave max_tokens out',
    );
  return max_completion_tokens ?? max_tokens;
}

/**
 * What both kinds of completions ask of a generation, the choice of this number.
 * @param {Record<string, any>} fields @param {number} [index]
 * @returns {GenerateOptions}
 */
export function generateOptions(fields, index = 0) {
  const { stop, seed, temperature, top_p: topP, top_k: topK, min_p: minP, repeat_penalty: repeatPenalty } = fields;
  const {
    logit_bias,
    presence_penalty: presencePenalty,
    frequency_penalty: frequencyPenalty,
    response_format: responseFormat,
    adapter,
    context_policy: contextPolicy,
  } = fields;
  const logitBias = logit_bias && Object.entries(logit_bias).map(([id, bias]) => ({ id: Number(id), bias }));
  return {
    stop,
    seed: seed === undefined ? undefined : seed + index,
    temperature,
    topP,
    topK,
    minP,
    repeatPenalty,
    logitBias,
    presencePenalty,
    frequencyPenalty,
    responseFormat,
    adapter,
    speculate: fields.speculate,
    contextPolicy,
    maxTokens: limitOf(fields),
  };
}

/** Whether the chunks end with the usage. ARGUMENT. @param {Record<string, any>} fields @returns {boolean} */
export function wantsUsage({ stream, stream_options: options }) {
  if (!options) return false;
  if (!stream) throw refuse('stream_options', 'stream_options are for requests with stream: true');
  const { include_usage = false } = checkBy(
    { include_usage: flag, include_obfuscation: only(false, 'false') },
    'stream_options',
    options,
  );
  return include_usage;
}
