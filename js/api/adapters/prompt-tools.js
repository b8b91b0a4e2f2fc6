/** Tools of a session of the Prompt API. Loaded with the first prompt of a session that has tools. */
import { BqError } from '../../shared/errors.js';
import { roundedInteger } from '../../shared/exact-json.js';
import { shown } from '../../shared/quote-value.js';
import { contentOf, failureOf } from '../openai/tool-result.js';
import { callOf, pieces } from './translate.js';

/** @import { AnyModel, ToolCall } from './translate.js' */

/** A tool of a session. @typedef {{ name: string, execute: (input: any) => any }} Tool */

/** Largest number of rounds of tool calls. After them the model must answer with text. */
const MAX_ROUNDS = 8;

/**
 * Parses the arguments of a call. Throws TOOL for text that is not JSON, which some servers send, and for an integer
 * that JavaScript would round.
 * @param {ToolCall} call
 */
function argumentsOf({ name, input }) {
  const rounded = roundedInteger(input);
  if (rounded)
    throw new BqError(
      'TOOL',
      `a call of "${name}" has the integer ${rounded}, beyond 2^53, where numbers are rounded`,
      { hint: 'use a string in the schema of the tool' },
    );
  try {
    return JSON.parse(input);
  } catch (cause) {
    throw new BqError('TOOL', `expected JSON as the arguments of the call of "${name}", found ${shown(input)}`, {
      cause,
    });
  }
}

/**
 * Runs the tool of a call and returns its result as text: a string unchanged, other values as JSON. The model receives
 * an error for a tool that the session doesn't have. Exceptions of the tool are thrown unchanged; TOOL is thrown for a
 * result that JSON can't represent.
 * @param {Tool[]} tools @param {ToolCall} call @returns {Promise<string>}
 */
async function runCall(tools, call) {
  const tool = tools.find(({ name }) => name === call.name);
  if (!tool) return `Error: unknown tool "${call.name}", expected one of ${tools.map(({ name }) => name).join(', ')}`;
  const result = await tool.execute(argumentsOf(call));
  try {
    return contentOf(result);
  } catch (/** @type {any} */ cause) {
    if (cause === result) throw cause; // an error that the tool returned
    throw new BqError('TOOL', `the tool "${call.name}" failed: ${failureOf(cause)}`, { cause });
  }
}

/**
 * Yields the texts of a reply, and runs the tools that the model calls between them. The calls of one round run
 * concurrently.
 * @param {AnyModel} model @param {{ messages: object[], tools: object[] } & Record<string, any>} request
 * @param {Tool[]} tools @param {AbortSignal} signal
 * @returns {AsyncGenerator<string, void>}
 */
export async function* withTools(model, { messages, ...request }, tools, signal) {
  const conversation = [...messages];
  for (let round = 0; ; round++) {
    const tool_choice = round < MAX_ROUNDS ? 'auto' : 'none';
    const calls = [];
    let content = '';
    for await (const piece of pieces(model, { ...request, messages: conversation, tool_choice }, signal)) {
      if ('call' in piece) calls.push(piece.call);
      if (!('text' in piece)) continue;
      content += piece.text;
      yield piece.text;
    }
    if (!calls.length) return;
    const results = await Promise.all(calls.map((call) => runCall(tools, call)));
    conversation.push({ role: 'assistant', content, tool_calls: calls.map(callOf) });
    calls.forEach(({ id }, i) => conversation.push({ role: 'tool', tool_call_id: id, content: results[i] }));
  }
}
