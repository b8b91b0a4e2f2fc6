/** Generates one choice of a chat completion: text and tool calls. */
import { generateOptions } from './request.js';
import { callOf, toolsOf } from './tools.js';
import { finishReasonOf } from './usage.js';

/** @import { FinishReason, Model, Part, Result, ToolCall } from '../../shared/types.js' */

/** A part of a choice, with the tool calls that it completes. @typedef {{ part: Part, calls: ToolCall[] }} Piece */
/** The end of a choice. @typedef {{ results: Result[], finish: FinishReason }} End */

/**
 * Yields the parts of a choice.
 * @param {Model} model
 * @param {Record<string, any>} fields  checked fields of the request
 * @param {any[]} messages
 * @param {number} index  index of the choice
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Piece, End>}
 */
export async function* answer(model, fields, messages, index, signal) {
  const { logprobs, top_logprobs = 0, chat_template_kwargs: variables = {}, tools } = fields;
  // Without tools, as in most conversations, the modules for tools are not loaded.
  const usesTools = tools?.length || messages.some(({ role, tool_calls }) => role === 'tool' || tool_calls);
  const generation = model.generate(messages, {
    ...generateOptions(fields, index),
    ...(usesTools && { ...toolsOf(fields), parallelToolCalls: fields.parallel_tool_calls }),
    logprobs: logprobs ? top_logprobs : undefined,
    ...(Object.keys(variables).length && { templateVariables: variables }),
    signal,
  });
  let hasCalls = false;
  try {
    for await (const part of generation) {
      const calls = (part.toolCalls ?? []).map(callOf);
      hasCalls ||= calls.length > 0;
      yield { part, calls };
    }
  } catch (/** @type {any} */ error) {
    if (error?.code === 'GRAMMAR' && !(usesTools && fields.response_format))
      error.details.param ??= usesTools ? 'tools' : 'response_format';
    if (error?.details?.param === 'templateVariables') error.details.param = 'chat_template_kwargs';
    throw error;
  }
  const result = await generation.result;
  const finish = finishReasonOf(result);
  // A reply that ended at a limit may lack calls, so its reason stays 'length'.
  return { results: [result], finish: hasCalls && finish === 'stop' ? 'tool_calls' : finish };
}
