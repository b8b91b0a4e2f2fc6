/** Converts tools of a request to options of a reply, and tool calls of messages and answers. */
import { flag, kind, object, oneOf, text, integer } from '../../shared/checks.js';
import { wrong } from '../../shared/options.js';
import { membersOf, refuse } from './check-fields.js';

/** @import { ChatCompletionTool, CompleteOptions, Part, ToolCall } from '../../shared/types.js' */

/** Largest number of tools in a request, as in OpenAI's API. */
const MAX_TOOLS = 128;
const TYPE = { type: oneOf('function') };
const parameters = kind('a JSON Schema of an object', (v) => !object(v));
const FUNCTION = { name: text, description: text, parameters, strict: flag };

/**
 * Checks a tool and removes members that are null. Throws ARGUMENT.
 * @param {any} tool
 * @param {number} i
 * @returns {ChatCompletionTool}
 */
function checkTool(tool, i) {
  const at = `tools[${i}]`;
  const { type, function: definition } = membersOf(at, { ...TYPE, function: object }, tool);
  const checkedFunction = definition && membersOf(`${at}.function`, FUNCTION, definition);
  if (type === undefined || !checkedFunction?.name)
    throw refuse('tools', `${at}: expected { type: "function", function: { name, parameters } }`);
  return /** @type {any} */ ({ type, function: checkedFunction });
}

/**
 * Converts the fields of tools to the options `tools` and `toolChoice`. Throws ARGUMENT.
 * @param {Record<string, any>} fields
 * @returns {Pick<CompleteOptions, 'tools' | 'toolChoice'>}
 */
export function toolsOf({ tools: toolList = [], tool_choice: choice }) {
  if (toolList.length > MAX_TOOLS)
    throw refuse('tools', `expected at most ${MAX_TOOLS} tools, found ${toolList.length}`);
  const tools = toolList.map(checkTool);
  const names = tools.map((/** @type {ChatCompletionTool} */ tool) => tool.function.name);
  const duplicate = names.find((/** @type {string} */ name, /** @type {number} */ i) => names.indexOf(name) < i);
  if (duplicate !== undefined) throw refuse('tools', `two tools have the name "${duplicate}"`);
  if (choice === undefined) return { tools, toolChoice: tools.length ? 'auto' : 'none' };
  if (choice === 'none' || choice === 'auto') return { tools, toolChoice: tools.length ? choice : 'none' };
  if (!tools.length) throw refuse('tool_choice', 'tool_choice needs tools');
  if (choice === 'required') return { tools, toolChoice: choice };
  const options = `"none", "auto", "required", or { type: "function", function: { name } } of ${names.join(', ')}`;
  if (object(choice)) throw wrong('tool_choice', choice, options);
  if (choice.type === 'allowed_tools') return selectTools(tools, choice);
  const { function: functionNamed } = membersOf('tool_choice', { ...TYPE, function: object }, choice);
  const { name } = membersOf('tool_choice.function', { name: text }, functionNamed ?? {});
  if (!names.includes(name)) throw wrong('tool_choice', choice, options);
  return { tools, toolChoice: { name } };
}

/**
 * Selects the tools of OpenAI's `allowed_tools`. Throws ARGUMENT.
 * @param {ChatCompletionTool[]} tools
 * @param {any} choice
 * @returns {Pick<CompleteOptions, 'tools' | 'toolChoice'>}
 */
function selectTools(tools, choice) {
  const { allowed_tools: allowedField = {} } = membersOf('tool_choice', { type: text, allowed_tools: object }, choice);
  const allowedTools = kind(
    'a list of { type: "function", function: { name } }',
    (v) => Array.isArray(v) && v.length > 0,
  );
  const checks = { mode: oneOf('auto', 'required'), tools: allowedTools };
  const { mode = 'auto', tools: allowedList = [] } = membersOf('tool_choice.allowed_tools', checks, allowedField);
  const names = allowedList.map((/** @type {any} */ tool) => tool?.function?.name);
  const selectedTools = tools.filter(({ function: { name } }) => names.includes(name));
  if (selectedTools.length !== names.length || !selectedTools.length)
    throw refuse('tool_choice', 'tool_choice.allowed_tools: expected names of `tools`, found another name or none');
  return { tools: selectedTools, toolChoice: mode };
}

/** Members of a call in a message, and of its `function`. */
const CALL = { id: text, type: oneOf('function'), function: object, index: integer(0) };
// OpenAI's client adds `parsed_arguments` to messages that it has parsed.
const CALL_FUNCTION = {
  name: text,
  arguments: kind('a string of JSON', (v) => !text(v) || !object(v)),
  parsed_arguments: () => '',
};

/**
 * Checks the tool calls of a message and converts them to the form that templates read. Throws ARGUMENT.
 * @param {string} path  of the calls in the request
 * @param {any} calls
 * @returns {any[]}
 */
export function callsIn(path, calls) {
  if (!Array.isArray(calls)) throw wrong(path, calls, 'a list of calls');
  return calls.map((item, i) => {
    const at = `${path}[${i}]`;
    const { index, function: callFunction, ...call } = membersOf(at, CALL, item);
    const { parsed_arguments, ...functionFields } = membersOf(`${at}.function`, CALL_FUNCTION, callFunction ?? {});
    if (!functionFields.name) throw refuse(`${at}.function.name`, `${at} has no function.name`);
    return { type: 'function', ...call, function: { arguments: '{}', ...functionFields } };
  });
}

/** Returns a random id of nine letters and digits, because Mistral's templates accept no other ids. */
const randomId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => (byte % 36).toString(36)).join('');

/**
 * Converts a tool call to OpenAI's form, with an id.
 * @param {NonNullable<Part['toolCalls']>[0]} call
 * @returns {ToolCall}
 */
export const callOf = ({ id = randomId(), name, arguments: callArguments }) => ({
  id,
  type: 'function',
  function: { name, arguments: callArguments },
});
