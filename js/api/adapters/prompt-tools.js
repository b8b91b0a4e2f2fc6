/** Tools of a session of the Prompt API. Loaded with the first prompt of a session that has tools. */
import { BqError } from '../../shared/errors.js';
import { roundedInteger } from '../../shared/exact-json.js';
import { callOf, pieces } from './translate.js';

/**
 * Parses the arguments of a call. Throws TOOL for an integer that JavaScript would round.
 * @param {string} name
 * @param {string} input
 */
function argumentsOf(name, input) {
  const rounded = roundedInteger(input);
  if (!rounded) return JSON.parse(input || '{}');
  throw new BqError('TOOL', `a call of "${name}" has the integer ${rounded}, beyond 2^53, where numbers are rounded`, {
    hint: 'use a string in the schema of the tool',
  });
}

/** @import { AnyModel } from './translate.js' */

/** Largest number of rounds of tool calls. After them the model must answer with text. */
const MAX_ROUNDS = 8;

/**
 * Yields the texts of a reply, and runs the tools that the model calls between them. The calls of one round run
 * concurrently.
 * @param {AnyModel} model @param {{ messages: object[], tools: object[] } & Record<string, any>} request
 * @param {{ name: string, execute: (input: any) => any }[]} tools @param {AbortSignal} signal
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
    const answers = await Promise.all(
      calls.map(({ name, input }) => tools.find((tool) => tool.name === name)?.execute(argumentsOf(name, input))),
    );
    conversation.push({ role: 'assistant', content, tool_calls: calls.map(callOf) });
    calls.forEach(({ id }, i) => conversation.push({ role: 'tool', tool_call_id: id, content: `${answers[i]}` }));
  }
}
