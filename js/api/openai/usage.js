/** Members of an answer in addition to its text: name, usage, log probabilities. */

import { hex } from '../../shared/hex.js';

/** @import { CompletionUsage, Logprob, ModelInfo, Part, Result } from '../../shared/types.js' */

/**
 * Returns the first members of an answer.
 * @param {string} prefix  prefix of the id
 * @param {ModelInfo} info
 * @param {string} [modelName]  the model's name in the request
 */
export function headOf(prefix, info, modelName) {
  const id = `${prefix}-${hex(crypto.getRandomValues(new Uint8Array(12)))}`;
  return { id, created: Math.floor(Date.now() / 1000), model: modelName ?? info.name };
}

/** @param {number[]} list */
const sum = (list) => list.reduce((a, b) => a + b, 0);

/**
 * Returns the extensions of bq4 as the member `bq4` of an answer, or an empty object if there are none.
 * @param {Result[]} results  results of the answer or choice
 */
export function extensionsOf(results) {
  const warnings = [...new Set(results.flatMap((result) => result.warnings ?? []))];
  const shiftedTokens = sum(results.map((result) => result.shifted?.tokens ?? 0));
  if (!warnings.length && !shiftedTokens) return {};
  return { bq4: { ...(warnings.length > 0 && { warnings }), ...(shiftedTokens > 0 && { shiftedTokens }) } };
}

/**
 * Returns the usage of a request. Each prompt counts once, and each choice counts all its generations.
 * @param {Result[][][]} prompts
 * @returns {CompletionUsage}
 */
export function usageOf(...prompts) {
  const firsts = prompts.map(([[{ usage }]]) => usage);
  const results = prompts.flat(2);
  const prompt = sum(firsts.map(({ promptTokens }) => promptTokens));
  const completion = sum(results.map(({ usage }) => usage.completionTokens));
  const accepted = sum(results.map(({ usage }) => usage.acceptedTokens));
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: sum(firsts.map(({ cachedTokens }) => cachedTokens)) },
    completion_tokens_details: {
      accepted_prediction_tokens: accepted,
      rejected_prediction_tokens: sum(results.map(({ usage }) => usage.draftedTokens)) - accepted,
    },
  };
}

/** @param {Result} result @returns {'stop' | 'length'} */
export const finishReasonOf = ({ finishReason }) => (finishReason === 'stop' ? 'stop' : 'length');

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
/**
 * Returns text, log probability and bytes of a token. Its bytes may be only a part of a character.
 * @param {Logprob} logprob
 */
export const namedOf = ({ bytes, logprob }) => ({ token: decoder.decode(Uint8Array.from(bytes)), logprob, bytes });

/**
 * Returns the log probabilities of a part of a chat completion. A stop token has no text and no log probabilities.
 * @param {Part} part
 */
export const logprobsOf = ({ logprobs }) =>
  logprobs?.bytes.length ? [{ ...namedOf(logprobs), top_logprobs: logprobs.top.map(namedOf) }] : [];
