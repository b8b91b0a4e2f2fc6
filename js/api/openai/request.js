/**
 * Checks fields of OpenAI's requests and converts them to options of `generate`. Null counts as not given. A field that is
 * unknown, unsupported or has a wrong value is refused by its name, which is `details.param` too.
 */
import { BqError } from '../../shared/errors.js';
import { membersOf, refuse, withoutNulls } from './check-fields.js';
import { formatOf } from './response-format.js';
import { OPTION_ROWS } from '../../shared/generate-options.js';
import { flag, kind, object, objects, oneOf, speculation, text, texts, whole } from '../../shared/checks.js';
import { checkBy, wrong } from '../../shared/options.js';
import { withPlainSchemas } from '../../shared/standard-schema.js';
import { isNestedTooDeeply, MAX_NESTING } from '../../shared/nesting.js';

/** @import { GenerateOptions, Model } from '../../shared/types.js' */
/** @import { Options } from '../../shared/checks.js' */
/** @import { OptionRow } from '../../shared/generate-options.js' */

/** Largest number of prompts or inputs of a request, and of choices of all its prompts together. */
export const MOST_CHOICES = 2048;
/** Largest number of stop strings, since each is searched for in the whole text. */
const MOST_STOPS = 128;

const anyValue = () => '';
/** Whether `engine.load` or `loadAdapter` created the object. JSON has no functions, so an object of an HTTP request never passes. @param {any} v */
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
/** @param {unknown} value @param {string} label */
const exactly = (value, label) => kind(label, (v) => v === value);
/** Whether the value is a non-empty list of such items. @param {any} v @param {(one: any) => boolean} isItem */
const listOf = (v, isItem) => Array.isArray(v) && v.length > 0 && v.every(isItem);
/** @param {any} v */
const isText = (v) => typeof v === 'string';
/** @param {any} v */
const isTokens = (v) => listOf(v, (id) => Number.isInteger(id) && id >= 0);
const prompt = kind(
  `a text, a list of tokens, or a list of at most ${MOST_CHOICES} of one of these`,
  (v) => isText(v) || isTokens(v) || (v?.length <= MOST_CHOICES && (listOf(v, isText) || listOf(v, isTokens))),
);
const stops = kind(
  `a text or a list of at most ${MOST_STOPS} texts`,
  (v) => !texts(v) && [v].flat().length <= MOST_STOPS,
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
/** Checks of fields that OpenAI writes otherwise than `generate`. @type {Options} */
const FIELD_CHECKS = {
  max_tokens: whole(0),
  stop: stops,
  seed: whole(-(2 ** 31), 2 ** 53 - MOST_CHOICES),
  logit_bias: biases,
};
/** The checks of options with a field in OpenAI's requests. @param {(row: OptionRow) => boolean} isIncluded @returns {Options} */
const fieldsOfOptions = (isIncluded) =>
  Object.fromEntries(
    OPTION_ROWS.filter(([, row]) => isIncluded(row)).map(([, row]) => {
      const field = String(row.openai);
      return [field, FIELD_CHECKS[field] ?? row.openaiCheck ?? row.check];
    }),
  );
/** Fields of options (generate-options.js), and fields of the request itself; extensions of bq4 are members of `bq4`. @type {Options} */
const SAMPLING = {
  stream: flag,
  stream_options: object,
  n: whole(1, 128),
  ...fieldsOfOptions(({ openai, chatOnly }) => openai !== undefined && openai !== 'bq4' && !chatOnly),
  bq4: object,
};

/** Checks of extensions whose objects must not come from JSON: an engine finds its models by ids, which a request must not name. @type {Options} */
const EXTENSION_CHECKS = {
  adapter: loadedAdapter,
  speculate: (v) => (v?.model === undefined || isLoaded(v.model) ? speculation(v) : 'an object with a loaded model'),
};
/** Members of `bq4`, our extensions of a request: options that OpenAI has no field for. @type {Options} */
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
    max_completion_tokens: whole(0),
    logprobs: flag,
    top_logprobs: whole(0, 20),
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
    logprobs: whole(0, 20),
    echo: flag,
    best_of: exactly(1, '1'),
  },
  rerank: {
    query: text,
    documents: kind(
      'a list of texts, or of { text }',
      (v) => Array.isArray(v) && v.every((document) => isText(document?.text ?? document)),
    ),
    ...METADATA,
    top_n: whole(1),
    return_documents: flag,
  },
  'embeddings.create': { input: prompt, ...METADATA, dimensions: whole(1), encoding_format: oneOf('float', 'base64') },
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
 * The checked fields of a request, without those that are null or undefined. ARGUMENT.
 * @param {keyof typeof FIELDS} call @param {unknown} body
 * @returns {Record<string, any>}
 */
export function fieldsOf(call, body) {
  if (object(body)) throw wrong(`the request of ${call}`, body, 'an object');
  body = withPlainSchemas(body);
  const deep = Object.entries(/** @type {object} */ (body)).find(([, value]) => isNestedTooDeeply(value))?.[0];
  if (deep) throw refuse(deep, `${deep}: expected at most ${MAX_NESTING} levels of nesting, found more`);
  const fieldsGiven = withoutNulls(/** @type {object} */ (body));
  const unsupported = UNSUPPORTED.find((name) => fieldsGiven[name] !== undefined && !Object.hasOwn(FIELDS[call], name));
  if (unsupported) throw refuse(unsupported, `${call} does not support "${unsupported}"`, 'leave it out');
  const fields = checkBy(FIELDS[call], call, fieldsGiven);
  if (fields.bq4) fields.bq4 = membersOf('bq4', EXTENSIONS, fields.bq4);
  return fields;
}

/** UNSUPPORTED: the model is an encoder. @param {Model} model */
export function checkGenerates({ info }) {
  if (!info.generates)
    throw new BqError('UNSUPPORTED', 'this is an embedding model; it cannot generate text', {
      hint: 'use embeddings.create()',
    });
}

/** ARGUMENT: the model has no such token. @param {Record<string, any>} fields @param {Model} model */
export function checkBiases({ logit_bias: biases = {} }, { info: { vocabSize } }) {
  const unknown = Object.keys(biases).find((id) => Number(id) >= vocabSize);
  if (unknown !== undefined)
    throw refuse('logit_bias', `logit_bias: expected a token from 0 to ${vocabSize - 1}, found ${unknown}`);
}

/** The value of `maxTokens`. ARGUMENT: two different values. @param {Record<string, any>} fields */
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
 * The seed of a choice. As in llama.cpp, -1 asks for a random seed, and other negative numbers are read as 32-bit numbers.
 * @param {number | undefined} seed @param {number} index
 */
function seedOf(seed, index) {
  if (seed === undefined || seed === -1) return undefined;
  return (seed < 0 ? seed + 2 ** 32 : seed) + index;
}

/** Values of options that OpenAI writes otherwise, by their fields. @type {Record<string, (fields: Record<string, any>, index: number) => unknown>} */
const CONVERSIONS = {
  max_tokens: limitOf,
  seed: ({ seed }, index) => seedOf(seed, index),
  logit_bias: ({ logit_bias }) =>
    logit_bias && Object.entries(logit_bias).map(([id, bias]) => ({ token: Number(id), bias })),
  response_format: ({ response_format }) => response_format && formatOf(response_format),
};

/**
 * Options of `generate` for one choice of either kind of completion.
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

/** Whether the last chunk holds the usage. ARGUMENT. @param {Record<string, any>} fields @returns {boolean} */
export function wantsUsage({ stream, stream_options: options }) {
  if (!options) return false;
  if (!stream) throw refuse('stream_options', 'stream_options need stream: true');
  const { include_usage = false } = membersOf(
    'stream_options',
    { include_usage: flag, include_obfuscation: exactly(false, 'false') },
    options,
  );
  return include_usage;
}
