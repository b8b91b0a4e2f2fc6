/** Tools of a request, as options of a reply; calls in messages, and in answers. */
import { flag, kind, object, oneOf, text, whole, wrong } from '../../shared/options.js';
import { membersOf, refuse } from './check-fields.js';

/** @import { ChatCompletionTool, CompleteOptions, Part, ToolCall } from '../../shared/types.js' */

/** Most tools of a request, as of OpenAI. */
const MOST = 128;
const TYPE = { type: oneOf('function') };
const parameters = kind('a JSON Schema of an object', (v) => !object(v));
const FUNCTION = { name: text, description: text, parameters, strict: flag };

/** A tool without what is null. ARGUMENT. @param {any} tool @param {number} i @returns {ChatCompletionTool} */
function toolOf(tool, i) {
  const at = `tools[${i}]`;
  const { type, function: given } = membersOf(at, { ...TYPE, function: object }, tool);
  const made = given && membersOf(`${at}.function`, FUNCTION, given);
  if (type === undefined || !made?.name)
    throw refuse('tools', `${at} is no { type: "function", function: { name, parameters } }`);
  return /** @type {any} */ ({ type, function: made });
}

/**
 * Which tools may be called, and which must be. ARGUMENT.
 * @param {Record<string, any>} fields
 * @returns {Pick<CompleteOptions, 'tools' | 'toolChoice'>}
 */
export function toolsOf({ tools: given = [], tool_choice: choice }) {
  if (given.length > MOST) throw refuse('tools', `there are ${given.length} tools, at most ${MOST}`);
  const tools = given.map(toolOf);
  const names = tools.map((/** @type {ChatCompletionTool} */ tool) => tool.function.name);
  const twice = names.find((/** @type {string} */ name, /** @type {number} */ i) => names.indexOf(name) < i);
  if (twice !== undefined) throw refuse('tools', `two tools are called "${twice}"`);
  if (choice === undefined) return { tools, toolChoice: tools.length ? 'auto' : 'none' };
  if (choice === 'none' || choice === 'auto') return { tools, toolChoice: tools.length ? choice : 'none' };
  if (!tools.length) throw refuse('tool_choice', 'tool_choice needs tools');
  if (choice === 'required') return { tools, toolChoice: choice };
  const options = `"none", "auto", "required", or { type: "function", function: { name } } of ${names.join(', ')}`;
  if (object(choice)) throw wrong('tool_choice', choice, options);
  if (choice.type === 'allowed_tools') return allowed(tools, choice);
  const { function: called } = membersOf('tool_choice', { ...TYPE, function: object }, choice);
  const { name } = membersOf('tool_choice.function', { name: text }, called ?? {});
  if (!names.includes(name)) throw wrong('tool_choice', choice, options);
  return { tools, toolChoice: { name } };
}

/** Some of the tools, as OpenAI's `allowed_tools` says. ARGUMENT. @param {ChatCompletionTool[]} tools @param {any} choice @returns {Pick<CompleteOptions, 'tools' | 'toolChoice'>} */
function allowed(tools, choice) {
  const { allowed_tools: given = {} } = membersOf('tool_choice', { type: text, allowed_tools: object }, choice);
  const some = kind('a list of { type: "function", function: { name } }', (v) => Array.isArray(v) && v.length > 0);
  const known = { mode: oneOf('auto', 'required'), tools: some };
  const { mode = 'auto', tools: listed = [] } = membersOf('tool_choice.allowed_tools', known, given);
  const names = listed.map((/** @type {any} */ one) => one?.function?.name);
  const found = tools.filter(({ function: { name } }) => names.includes(name));
  if (found.length !== names.length || !found.length)
    throw refuse('tool_choice', 'tool_choice.allowed_tools names a tool that is not in tools, or none');
  return { tools: found, toolChoice: mode };
}

const CALL = { id: text, type: oneOf('function'), function: object, index: whole(0) };
// What OpenAI's own client adds to messages that it has parsed.
const CALLED = {
  name: text,
  arguments: kind('a text of JSON', (v) => !text(v) || !object(v)),
  parsed_arguments: () => '',
};

/** Calls in a message, as templates take them. ARGUMENT. @param {any} given @returns {any[]} */
export function callsIn(given) {
  if (!Array.isArray(given)) throw wrong('tool_calls', given, 'a list of calls');
  return given.map((one, i) => {
    const at = `messages.tool_calls[${i}]`;
    const { index, function: called, ...call } = membersOf(at, CALL, one);
    const { parsed_arguments, ...made } = membersOf(`${at}.function`, CALLED, called ?? {});
    if (!made.name) throw refuse('messages', `${at} has no function.name`);
    return { type: 'function', ...call, function: { arguments: '{}', ...made } };
  });
}

/** Nine letters and digits: Mistral's templates take no other. */
const idOf = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => (byte % 36).toString(36)).join('');

/** A call that was read, with an id. @param {NonNullable<Part['toolCalls']>[0]} call @returns {ToolCall} */
export const callOf = ({ id = idOf(), name, arguments: given }) => ({
  id,
  type: 'function',
  function: { name, arguments: given },
});
