/** One choice of a chat completion as it is generated: text, and calls of tools. */
import { generateOptions } from './request.js';
import { callOf, toolsOf } from './tools.js';
import { finishReasonOf } from './usage.js';

/** @import { FinishReason, Model, Part, Result, ToolCall } from '../../shared/types.js' */

/** A piece of an answer. @typedef {{ part: Part, calls: ToolCall[] }} Piece */
/** The end of an answer. @typedef {{ results: Result[], finish: FinishReason }} End */

/**
 * @param {Model} model @param {Record<string, any>} fields @param {any[]} messages @param {number} index @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Piece, End>}
 */
export async function* answer(model, fields, messages, index, signal) {
  const { logprobs, top_logprobs = 0, chat_template_kwargs: variables, tools } = fields;
  // Most conversations use no tools, and then the modules for tools are not loaded.
  const asks = tools?.length || messages.some(({ role, tool_calls }) => role === 'tool' || tool_calls);
  const run = model.generate(messages, {
    ...generateOptions(fields, index),
    ...(asks && { ...toolsOf(fields), parallelToolCalls: fields.parallel_tool_calls }),
    logprobs: logprobs ? top_logprobs : undefined,
    templateVariables: variables,
    signal,
  });
  let hasCalls = false;
  for await (const part of run) {
    const calls = (part.toolCalls ?? []).map(callOf);
    hasCalls ||= calls.length > 0;
    yield { part, calls };
  }
  const result = await run.result;
  const finish = finishReasonOf(result);
  // A reply that was cut may lack calls.
  return { results: [result], finish: hasCalls && finish === 'stop' ? 'tool_calls' : finish };
}
