/**
 * Checks the fields of OpenAI's requests and converts them to options of `generate`. Null counts as missing. An error
 * for an unknown, unsupported or invalid field contains its name, also in `details.param`.
 */
import { BqError } from '../../shared/errors.js';
import { membersOf, refuse, withoutNulls } from './check-fields.js';
import { formatOf } from './response-format.js';
import { OPTION_ROWS } from '../../shared/generate-options.js';
import { flag, kind, object, objects, oneOf, speculation, text, texts, integer } from '../../shared/checks.js';
import { checkBy, wrong } from '../../shared/options.js';
import { withPlainSchemas } from '../../shared/standard-schema.js';
import { isNestedTooDeeply, MAX_NESTING } from '../../shared/nesting.js';

/** @import { GenerateOptions, Model } from '../../shared/types.js' */
/** @import { Options } from '../../shared/checks.js' */
/** @import { OptionRow } from '../../shared/generate-options.js' */

/** Largest number of prompts or inputs in a request, and of choices for all its prompts. */
export const MAX_CHOICES = 2048;
/** Largest number of stop strings. It is limited because each one is searched for in the text. */
const MAX_STOPS = 128;

const anyValue = () => '';
/**
 * Whether `engine.load` or `loadAdapter` created an object. JSON has no functions, so an object in an HTTP request is
 * never accepted.
 * @param {any} v
 */
const isLoaded = (v) => !text(v?.info?.id) && typeof v.close === 'function';
const loadedAdapter = kind('a loaded adapter', isLoaded);
const biases = kind(
  'an object of numbers from -100 to 100 by token',
  (v) =>
    !object(v) &&
    Object.entries(v).every(
      ([id, bias]) => /^(0|[1-9]\d*)$/.test(id) && typeof bias === 'number' && Math.abs(bias) <= 100,
    ),
);
/** Creates a check for one allowed value. @param {unknown} value @param {string} label */
const exactly = (value, label) => kind(label, (v) => v === value);
/** Whether a value is a non-empty list of valid items. @param {any} v @param {(item: any) => boolean} isItem */
const isListOf = (v, isItem) => Array.isArray(v) && v.length > 0 && v.every(isItem);
/** @param {any} v */
const isText = (v) => typeof v === 'string';
/** @param {any} v */
const isTokens = (v) => isListOf(v, (id) => Number.isInteger(id) && id >= 0);
const prompt = kind(
  `a string, a list of token ids, or a list of at most ${MAX_CHOICES} of either`,
  (v) => isText(v) || isTokens(v) || (v?.length <= MAX_CHOICES && (isListOf(v, isText) || isListOf(v, isTokens))),
);
const stops = kind(
  `a string or a list of at most ${MAX_STOPS} strings`,
  (v) => !texts(v) && [v].flat().length <= MAX_STOPS,
);

/** Fields that describe the request and have no effect on the answer. */
const METADATA = {
  model: text,
  user: text,
  metadata: object,
  safety_identifier: text,
  prompt_cache_key: text,
  service_tier: oneOf('auto', 'default'),
  store: exactly(false, 'false: nothing is stored'),
};
/** Checks of fields whose values differ from those of the option of `generate`. @type {Options} */
const FIELD_CHECKS = {
  max_tokens: integer(0),
  stop: stops,
  seed: integer(-(2 ** 31), 2 ** 53 - MAX_CHOICES),
  logit_bias: biases,
};
/**
 * Returns the checks of options with a field in OpenAI's requests, by the fields' names.
 * @param {(row: OptionRow) => boolean} isIncluded
 * @returns {Options}
 */
const fieldsOfOptions = (isIncluded) =>
  Object.fromEntries(
    OPTION_ROWS.filter(([, row]) => isIncluded(row)).map(([, row]) => {
      const field = String(row.openai);
      return [field, FIELD_CHECKS[field] ?? row.openaiCheck ?? row.check];
    }),
  );
/**
 * Fields of both kinds of completions: those of options (generate-options.js), and those of the request itself.
 * @type {Options}
 */
const SAMPLING = {
  stream: flag,
  stream_options: object,
  n: integer(1, 128),
  ...fieldsOfOptions(({ openai, chatOnly }) => openai !== undefined && openai !== 'bq4' && !chatOnly),
  bq4: object,
};

/**
 * Checks of extensions with objects that must not be from JSON. An engine finds its models by ids, and an HTTP request
 * must not be able to specify such an id.
 * @type {Options}
 */
const EXTENSION_CHECKS = {
  adapter: loadedAdapter,
  speculate: (v) => (v?.model === undefined || isLoaded(v.model) ? speculation(v) : 'an object with a loaded model'),
};
/** Members of `bq4`, the extensions of a request: options without a field in OpenAI's requests. @type {Options} */
const EXTENSIONS = Object.fromEntries(
  OPTION_ROWS.filter(([, { openai }]) => openai === 'bq4').map(([name, row]) => [
    name,
    EXTENSION_CHECKS[name] ?? row.check,
  ]),
);

/** @satisfies {Record<string, Options>} */
const FIELDS = {
  'chat.completions.create': {
    messages: objects,
    ...METADATA,
    ...SAMPLING,
    max_completion_tokens: integer(0),
    logprobs: flag,
    top_logprobs: integer(0, 20),
    ...fieldsOfOptions(({ chatOnly = false }) => chatOnly),
    modalities: kind('["text"]', (v) => Array.isArray(v) && v.length === 1 && v[0] === 'text'),
    tools: objects,
    tool_choice: anyValue,
    parallel_tool_calls: flag,
    chat_template_kwargs: object,
  },
  'completions.create': {
    prompt,
    ...METADATA,
    ...SAMPLING,
    logprobs: integer(0, 20),
    echo: flag,
    best_of: exactly(1, '1'),
  },
  rerank: {
    query: text,
    documents: kind(
      'a list of strings, or of { text }',
      (v) => Array.isArray(v) && v.every((document) => isText(document?.text ?? document)),
    ),
    ...METADATA,
    top_n: integer(1),
    return_documents: flag,
  },
  'embeddings.create': {
    input: prompt,
    ...METADATA,
    dimensions: integer(1),
    encoding_format: oneOf('float', 'base64'),
  },
};

/** Fields of OpenAI's requests that bq4 does not support. */
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

/**
 * Checks a request and returns its fields, without those that are null or undefined. Throws ARGUMENT.
 * @param {keyof typeof FIELDS} call @param {unknown} body
 * @returns {Record<string, any>}
 */
export function fieldsOf(call, body) {
  if (object(body)) throw wrong(`the request of ${call}`, body, 'an object');
  body = withPlainSchemas(body);
  const deepField = Object.entries(/** @type {object} */ (body)).find(([, value]) => isNestedTooDeeply(value))?.[0];
  if (deepField) throw refuse(deepField, `${deepField}: expected at most ${MAX_NESTING} levels of nesting, found more`);
  const bodyFields = withoutNulls(/** @type {object} */ (body));
  const unsupported = UNSUPPORTED.find((name) => bodyFields[name] !== undefined && !Object.hasOwn(FIELDS[call], name));
  if (unsupported) throw refuse(unsupported, `${call} does not support "${unsupported}"`, 'omit it');
  const fields = checkBy(FIELDS[call], call, bodyFields);
  if (fields.bq4) fields.bq4 = membersOf('bq4', EXTENSIONS, fields.bq4);
  return fields;
}

/** Throws UNSUPPORTED if the model is an encoder. @param {Model} model */
export function checkGenerates({ info }) {
  if (!info.generates)
    throw new BqError('UNSUPPORTED', 'this is an embedding model; it cannot generate text', {
      hint: 'use embeddings.create()',
    });
}

/**
 * Throws ARGUMENT if `logit_bias` has a token that the model lacks.
 * @param {Record<string, any>} fields
 * @param {Model} model
 */
export function checkBiases({ logit_bias: biases = {} }, { info: { vocabSize } }) {
  const unknown = Object.keys(biases).find((id) => Number(id) >= vocabSize);
  if (unknown !== undefined)
    throw refuse('logit_bias', `logit_bias: expected a token from 0 to ${vocabSize - 1}, found ${unknown}`);
}

/**
 * Returns the value of `maxTokens`. Throws ARGUMENT if the request has two different values.
 * @param {Record<string, any>} fields
 */
function maxTokensOf({ max_tokens, max_completion_tokens }) {
  if (max_tokens !== undefined && max_completion_tokens !== undefined && max_tokens !== max_completion_tokens)
    throw refuse(
      'max_tokens',
      `max_tokens is ${max_tokens}, but max_completion_tokens is ${max_completion_tokens}`,
      'omit max_tokens',
    );
  return max_completion_tokens ?? max_tokens;
}

/**
 * Returns the seed of a choice. As in llama.cpp, -1 means a random seed, and other negative numbers are read as
 * unsigned 32-bit numbers.
 * @param {number | undefined} seed @param {number} index
 */
function seedOf(seed, index) {
  if (seed === undefined || seed === -1) return undefined;
  return (seed < 0 ? seed + 2 ** 32 : seed) + index;
}

/**
 * Conversions of fields to options, for fields whose values differ.
 * @type {Record<string, (fields: Record<string, any>, index: number) => unknown>}
 */
const CONVERSIONS = {
  max_tokens: maxTokensOf,
  seed: ({ seed }, index) => seedOf(seed, index),
  logit_bias: ({ logit_bias }) =>
    logit_bias && Object.entries(logit_bias).map(([id, bias]) => ({ token: Number(id), bias })),
  response_format: ({ response_format }) => response_format && formatOf(response_format),
};

/**
 * Returns the options of `generate` for one choice, for both kinds of completions.
 * @param {Record<string, any>} fields @param {number} [index]
 * @returns {GenerateOptions}
 */
export function generateOptions(fields, index = 0) {
  /** @type {Record<string, any>} */
  const options = {};
  for (const [name, { openai }] of OPTION_ROWS)
    if (openai && openai !== 'bq4')
      options[name] = openai in CONVERSIONS ? CONVERSIONS[openai](fields, index) : fields[openai];
  return { ...options, ...fields.bq4, maxTokens: options.maxTokens };
}

/**
 * Whether the last chunk contains the usage. Throws ARGUMENT.
 * @param {Record<string, any>} fields
 * @returns {boolean}
 */
export function wantsUsage({ stream, stream_options: options }) {
  if (!options) return false;
  if (!stream) throw refuse('stream_options', 'stream_options needs stream: true');
  const { include_usage = false } = membersOf(
    'stream_options',
    { include_usage: flag, include_obfuscation: exactly(false, 'false') },
    options,
  );
  return include_usage;
}
