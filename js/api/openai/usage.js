/** What an answer has besides its text: a name, its cost, the probabilities of its tokens. */

import { hex } from '../../shared/hex.js';

/** @import { CompletionUsage, Logprob, ModelInfo, Part, Result } from '../../shared/types.js' */

/** Beginning of an answer. @param {string} prefix @param {ModelInfo} info @param {string} [asked]  the model's name in the request */
export function headOf(prefix, info, asked) {
  const id = `${prefix}-${hex(crypto.getRandomValues(new Uint8Array(12)))}`;
  return { id, created: Math.floor(Date.now() / 1000), model: asked ?? info.name };
}

/** @param {number[]} list */
const sum = (list) => list.reduce((a, b) => a + b, 0);

/**
 * Our extensions of an answer, as its member `bq4`; nothing where there are none.
 * @param {Result[]} results  that the answer, or its choice, is made of
 */
export function extensionsOf(results) {
  const warnings = [...new Set(results.flatMap((result) => result.warnings ?? []))];
  const shiftedTokens = sum(results.map((result) => result.shifted?.tokens ?? 0));
  if (!warnings.length && !shiftedTokens) return {};
  return { bq4: { ...(warnings.length > 0 && { warnings }), ...(shiftedTokens > 0 && { shiftedTokens }) } };
}

/** Of prompts, each counted once, and their choices, each made of what was generated on the way. @param {Result[][][]} prompts @returns {CompletionUsage} */
export function usageOf(...prompts) {
  const firsts = prompts.map(([[{ usage }]]) => usage);
  const all = prompts.flat(2);
  const prompt = sum(firsts.map(({ promptTokens }) => promptTokens));
  const completion = sum(all.map(({ usage }) => usage.completionTokens));
  const accepted = sum(all.map(({ usage }) => usage.acceptedTokens));
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: sum(firsts.map(({ cachedTokens }) => cachedTokens)) },
    completion_tokens_details: {
      accepted_prediction_tokens: accepted,
      rejected_prediction_tokens: sum(all.map(({ usage }) => usage.draftedTokens)) - accepted,
    },
  };
}

/** @param {Result} result @returns {'stop' | 'length'} */
export const finished = ({ finishReason }) => (finishReason === 'stop' ? 'stop' : 'length');

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
/** A token's text, and its bytes: one alone may be no character. @param {Logprob} of */
export const namedOf = ({ bytes, logprob }) => ({ token: decoder.decode(Uint8Array.from(bytes)), logprob, bytes });

/** Of a part of a chat's answer; what ends it has no text, and none. @param {Part} part */
export const logprobsOf = ({ logprobs }) =>
  logprobs?.bytes.length ? [{ ...namedOf(logprobs), top_logprobs: logprobs.top.map(namedOf) }] : [];
