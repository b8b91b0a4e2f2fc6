/**
 * Calls of tools, as models write them: how the template has them, a schema that holds them to what a tool takes, and
 * conversations for templates that know of no tools.
 */
import { refuse } from './members.js';

/** @import { ChatCompletionTool, ModelInfo, ToolCall } from '../shared/types.js' */

/**
 * How a call is written.
 * @typedef {object} Style
 * @property {string} trigger  text that begins a call; '': a reply that begins with {
 * @property {string} open     what stands before its JSON
 * @property {string} close    what stands behind it
 * @property {string} key      of the arguments
 * @property {boolean} list    the JSON is a list of calls
 * @property {boolean} known   the template has tools, and what becomes of them
 */

/** @type {Record<'hermes' | 'mistral' | 'llama', Omit<Style, 'known'>>} */
const STYLES = {
  hermes: { trigger: '<tool_call>', open: '<tool_call>\n', close: '\n</tool_call>', key: 'arguments', list: false },
  mistral: { trigger: '[TOOL_CALLS]', open: '[TOOL_CALLS]', close: '', key: 'arguments', list: true },
  llama: { trigger: '', open: '', close: '', key: 'parameters', list: false },
};

/** By what the template writes itself. @param {ModelInfo} info @returns {Style} */
export function styleOf({ template }) {
  const known = /\btools\b/.test(template);
  const name =
    !known || template.includes('<tool_call>')
      ? 'hermes'
      : template.includes('[TOOL_CALLS]')
        ? 'mistral'
        : template.includes('"parameters"')
          ? 'llama'
          : 'hermes';
  return { ...STYLES[name], known };
}

/**
 * Which tools may be called, and whether one must be. ARGUMENT.
 * @param {Record<string, any>} fields
 * @returns {{ tools: ChatCompletionTool[], must: boolean } | null}  null: none
 */
export function toolsOf({ tools, tool_choice: choice }) {
  if (!tools?.length) {
    if (choice === undefined || choice === 'none' || choice === 'auto') return null;
    throw refuse('tool_choice', 'tool_choice needs tools');
  }
  for (const tool of tools)
    if (tool.type !== 'function' || typeof tool.function?.name !== 'string' || !tool.function.name)
      throw refuse('tools', 'a tool is no { type: "function", function: { name, parameters } }');
  const names = tools.map((/** @type {ChatCompletionTool} */ tool) => tool.function.name);
  if (choice === 'none') return null;
  if (choice === undefined || choice === 'auto' || choice === 'required') return { tools, must: choice === 'required' };
  const name = choice?.type === 'function' ? choice.function?.name : undefined;
  if (!names.includes(name))
    throw refuse('tool_choice', `tool_choice is none of "none", "auto", "required" and the tools ${names.join(', ')}`);
  return { tools: [tools[names.indexOf(name)]], must: true };
}

/** A schema as part of another one: its references lead into it still. @param {any} value @param {string} at @returns {any} */
function moved(value, at) {
  if (Array.isArray(value)) return value.map((one) => moved(one, at));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      name === '$ref' && typeof one === 'string' && one.startsWith('#') ? `#${at}${one.slice(1)}` : moved(one, at),
    ]),
  );
}

/** What a call's JSON is held to. @param {ChatCompletionTool[]} tools @param {Style} style */
export function schemaOf(tools, { key, list }) {
  const anyOf = tools.map(({ function: { name, parameters } }, i) => ({
    type: 'object',
    properties: {
      name: { const: name },
      [key]: moved(parameters ?? { type: 'object' }, `${list ? '/items' : ''}/anyOf/${i}/properties/${key}`),
    },
    required: ['name', key],
    additionalProperties: false,
  }));
  return list ? { type: 'array', items: { anyOf }, minItems: 1, maxItems: 1 } : { anyOf };
}

/** Nine letters and digits: Mistral's templates take no other. */
const idOf = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => (byte % 36).toString(36)).join('');

/** Calls of a text; null: it was cut short. @param {string} text @param {Style} style @returns {ToolCall[] | null} */
export function callsOf(text, { key }) {
  try {
    return [JSON.parse(text)].flat().map((call) => ({
      id: idOf(),
      type: 'function',
      function: { name: call.name, arguments: JSON.stringify(call[key]) },
    }));
  } catch {
    return null;
  }
}

/** The arguments of a call as a template takes them. @param {any} given @returns {any} */
function argumentsOf(given) {
  try {
    return typeof given === 'string' ? JSON.parse(given) : given;
  } catch {
    throw refuse('messages', `the arguments of a call are no JSON: ${given}`);
  }
}

/** Calls in messages, whose arguments OpenAI has as text. @param {any[]} messages @returns {any[]} */
export const withArguments = (messages) =>
  messages.map(({ tool_calls, ...message }) =>
    !tool_calls
      ? message
      : {
          ...message,
          tool_calls: tool_calls.map((/** @type {any} */ call) => ({
            ...call,
            function: { ...call.function, arguments: argumentsOf(call.function?.arguments) },
          })),
        },
  );

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
 * @param {any[]} messages  as withArguments gives them @param {ChatCompletionTool[]} tools
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
