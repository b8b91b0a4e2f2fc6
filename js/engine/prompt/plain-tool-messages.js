/** Describes tools and calls in the text of messages, for templates without support for tools. */

import { exactJson } from '../../shared/exact-json.js';

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
 * Writes tools, calls and results into the content of messages.
 * @param {any[]} messages  messages with arguments as objects @param {ChatCompletionTool[]} tools
 * @returns {any[]}
 */
export function describeToolsInText(messages, tools) {
  const plain = messages.map(({ role, content, tool_calls, tool_call_id, name, ...fields }) => {
    if (role === 'tool') return { role: 'user', content: `<tool_response>\n${content}\n</tool_response>` };
    const calls = (tool_calls ?? []).map(
      (/** @type {any} */ { function: { name: functionName, arguments: callArguments } }) =>
        `<tool_call>\n${exactJson({ name: functionName, arguments: callArguments })}\n</tool_call>`,
    );
    return { role, content: calls.length ? [content, ...calls].filter(Boolean).join('\n') : content, ...fields };
  });
  if (!tools.length) return plain;
  const [first, ...laterMessages] = plain;
  if (first?.role === 'system')
    return [{ ...first, content: `${first.content}\n\n${introduction(tools)}` }, ...laterMessages];
  return [{ role: 'system', content: introduction(tools) }, ...plain];
}
