/** Tools of a session of the Prompt API. Loaded with the first prompt of a session that has some. */
import { callOf, pieces } from './translate.js';

/** @import { AnyModel } from './translate.js' */

/** Rounds of calls before a reply must be words. */
const ROUNDS = 8;

/**
 * Texts of a reply; in between, the calls that the model makes, those of a round at once.
 * @param {AnyModel} model @param {{ messages: object[], tools: object[] } & Record<string, any>} request
 * @param {{ name: string, execute: (input: any) => any }[]} tools @param {AbortSignal} signal
 * @returns {AsyncGenerator<string, void>}
 */
export async function* withTools(model, { messages, ...request }, tools, signal) {
  const said = [...messages];
  for (let round = 0; ; round++) {
    const tool_choice = round < ROUNDS ? 'auto' : 'none';
    const calls = [];
    let content = '';
    for await (const piece of pieces(model, { ...request, messages: said, tool_choice }, signal)) {
      if ('call' in piece) calls.push(piece.call);
      if (!('text' in piece)) continue;
      content += piece.text;
      yield piece.text;
    }
    if (!calls.length) return;
    const answers = await Promise.all(
      calls.map(({ name, input }) => tools.find((tool) => tool.name === name)?.execute(JSON.parse(input || '{}'))),
    );
    said.push({ role: 'assistant', content, tool_calls: calls.map(callOf) });
    calls.forEach(({ id }, i) => said.push({ role: 'tool', tool_call_id: id, content: `${answers[i]}` }));
  }
}
