/** Conversations with tools for templates that know of none. */

/** @import { ChatCompletionTool } from '../../shared/types.js' */

/** @param {ChatCompletionTool[]} tools */
const introduction = (tools) => `You may call functions to answer. The functions, as JSON within <tools></tools>:
<tools>
${tools.map((tool) => JSON.stringify(tool.function)).join('\n')}
</tools>
To call one, write a JSON object with its name and arguments within <tool_call></tool_call>:
<tool_call>
{"name": "the function", "arguments": {}}
</tool_call>`;

/**
 * A conversation with tools as one without: for templates that have no place for them.
 * @param {any[]} messages  with arguments as objects @param {ChatCompletionTool[]} tools
 * @returns {any[]}
 */
export function plainly(messages, tools) {
  const plain = messages.map(({ role, content, tool_calls, tool_call_id, name, ...more }) => {
    if (role === 'tool') return { role: 'user', content: `<tool_response>\n${content}\n</tool_response>` };
    const calls = (tool_calls ?? []).map(
      (/** @type {any} */ { function: { name: called, arguments: given } }) =>
        `<tool_call>\n${JSON.stringify({ name: called, arguments: given })}\n</tool_call>`,
    );
    return { role, content: calls.length ? [content, ...calls].filter(Boolean).join('\n') : content, ...more };
  });
  if (!tools.length) return plain;
  const [first, ...rest] = plain;
  if (first?.role === 'system') return [{ ...first, content: `${first.content}\n\n${introduction(tools)}` }, ...rest];
  return [{ role: 'system', content: introduction(tools) }, ...plain];
}
