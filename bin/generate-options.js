/** The options of the commands that generate text: their declaration, and their conversion to options of `generate`. */
import { BqError } from '../js/shared/errors.js';
import { DECODE, numberOf, readText, Usage, value, values } from './options.js';

/** Options of run and chat. */
export const GENERATE = {
  'max-tokens': value('N', 'limit of the tokens to generate (default: run 256, chat 1024)'),
  temperature: value('T', '0: always the likeliest token (default 0.7)'),
  'top-k': value('K', 'samples among the K likeliest tokens'),
  'top-p': value('P', 'samples among the likeliest tokens with this total probability'),
  'min-p': value('P', 'samples among tokens with at least this share of the highest probability'),
  'repeat-penalty': value('R', 'makes tokens that occurred before less likely (1: off)'),
  seed: value('N', 'seed of the random numbers: the same seed gives the same text'),
  stop: values('TEXT', 'ends generation at this text'),
  system: value('TEXT', 'system message'),
  schema: value('FILE', 'constrains the text to a JSON Schema'),
  grammar: value('FILE', 'constrains the text to a GBNF grammar'),
  regex: value('PATTERN', 'constrains the text to a regular expression'),
  adapter: value('FILE', "applies a LoRA adapter: PEFT's adapter_model.safetensors, or a .gguf"),
  draft: value('FILE', 'draft model with the same vocabulary, for speculative decoding'),
  ...DECODE,
};

/** The constraint of the text, if one is given. @param {any} options @returns {Promise<import('../js/shared/types.js').ResponseFormat | undefined>} */
async function formatOf({ schema, grammar, regex }) {
  if ([schema, grammar, regex].filter((path) => path !== undefined).length > 1)
    throw new Usage('--schema, --grammar and --regex exclude each other: pass only one');
  if (regex !== undefined) return { type: 'regex', pattern: regex };
  if (grammar !== undefined) return { type: 'grammar', grammar: await readText(grammar) };
  if (schema === undefined) return undefined;
  const text = await readText(schema);
  try {
    return { type: 'json_schema', schema: JSON.parse(text) };
  } catch (cause) {
    throw new BqError('GRAMMAR', `${schema} is not valid JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/** @param {any} options @param {number} [maxTokens]  default */
export async function generateOptions(options, maxTokens) {
  return {
    maxTokens: numberOf(options, 'max-tokens') ?? maxTokens,
    temperature: numberOf(options, 'temperature'),
    topK: numberOf(options, 'top-k'),
    topP: numberOf(options, 'top-p'),
    minP: numberOf(options, 'min-p'),
    repeatPenalty: numberOf(options, 'repeat-penalty'),
    seed: numberOf(options, 'seed'),
    stop: options.stop,
    responseFormat: await formatOf(options),
  };
}
