/** `chat.completions.runTools`: a loop that requests a completion, runs the called functions and adds their results. */
import { unlessAborted } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { roundedInteger } from '../../shared/exact-json.js';
import { integer, kind, object, objects, oneOf, signal as abortSignal } from '../../shared/checks.js';
import { checkBy } from '../../shared/check-options.js';
import { membersOf, refuse } from './check-fields.js';
import { contentOf, failureOf } from './tool-result.js';

/** @import { ChatCompletion, ChatMessage, RunToolsRequest, ToolCall, ToolRun } from '../../shared/types.js' */

/** Default of `maxSteps`, the largest number of completions. */
const DEFAULT_MAX_STEPS = 10;

const REQUEST = {
  messages: objects,
  tools: kind('a list of tools with functions', (v) => Array.isArray(v) && v.length > 0),
  bq4: object,
};
/** Members of `bq4` for this loop. Others are passed to the model. */
const EXTENSIONS = { maxSteps: integer(1), toolErrors: oneOf('tell', 'throw') };

/**
 * Returns the caller's functions by name, and the tools without their functions. Throws ARGUMENT.
 * @param {RunToolsRequest['tools']} toolList
 */
function functionsOf(toolList) {
  /** @type {Map<string, (args: any, more: { signal?: AbortSignal, call: ToolCall }) => unknown>} */
  const functions = new Map();
  const tools = toolList.map((/** @type {any} */ tool) => {
    const { function: run, ...definition } = tool?.function ?? {};
    if (tool?.type !== 'function' || typeof definition.name !== 'string' || typeof run !== 'function')
      throw refuse(
        'tools',
        'expected tools of the form { type: "function", function: { name, parameters, function } }',
      );
    if (functions.has(definition.name)) throw refuse('tools', `two tools have the name "${definition.name}"`);
    functions.set(definition.name, run);
    return { type: tool.type, function: definition };
  });
  return { functions, tools };
}

/**
 * Returns the `tool_choice` of later completions. A forced call only applies to the first one, but a selection of
 * allowed tools stays.
 * @param {any} choice
 */
const laterChoice = (choice) =>
  choice?.type === 'allowed_tools'
    ? { tool_choice: { ...choice, allowed_tools: { ...choice.allowed_tools, mode: 'auto' } } }
    : {};

/**
 * Runs the function of a call and returns its result as text. An abort throws the signal's reason, even while the
 * function is still running.
 * @param {ReturnType<typeof functionsOf>['functions']} functions
 * @param {ToolCall} call
 * @param {boolean} reportsErrors  whether an error becomes the result, which the model reads
 * @param {AbortSignal} [signal]
 * @returns {Promise<string>}
 */
async function runCall(functions, call, reportsErrors, signal) {
  const { name, arguments: argumentsText } = call.function;
  try {
    const run = functions.get(name);
    if (!run) throw new Error(`unknown tool "${name}", expected one of ${[...functions.keys()].join(', ')}`);
    const args = JSON.parse(argumentsText.trim() || '{}'); // some servers send '' for a call without arguments
    const rounded = roundedInteger(argumentsText);
    if (rounded)
      throw new Error(`the integer ${rounded} is beyond 2^53, where numbers are rounded: write it as a text`);
    return contentOf(
      await unlessAborted(
        Promise.resolve().then(() => run(args, { signal, call })),
        signal,
      ),
    );
  } catch (cause) {
    signal?.throwIfAborted();
    const message = failureOf(cause);
    if (reportsErrors) return `Error: ${message}`;
    throw new BqError('TOOL', `the tool "${name}" failed: ${message}`, { cause, details: { call } });
  }
}

/**
 * Runs the loop. Throws ARGUMENT, TOOL and the errors of `create`. `details.messages` of an error contains the
 * conversation so far.
 * @param {(body: any, options: { signal?: AbortSignal }) => Promise<ChatCompletion>} create  `chat.completions.create`
 * @param {RunToolsRequest} body @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<ToolRun>}
 */
export async function runTools(create, body, options) {
  const { signal } = checkBy({ signal: abortSignal }, 'runTools', options);
  const {
    bq4 = {},
    tools: toolList,
    messages: firstMessages = [],
    tool_choice,
    ...fields
  } = /** @type {any} */ (body ?? {});
  checkBy(REQUEST, 'runTools', { bq4, tools: toolList ?? null, messages: firstMessages });
  const { maxSteps, toolErrors, ...extensions } = bq4;
  membersOf('bq4', EXTENSIONS, { maxSteps, toolErrors });
  const request = { ...fields, ...(Object.keys(extensions).length > 0 && { bq4: extensions }) };
  if (fields.stream || (fields.n ?? 1) !== 1)
    throw refuse(fields.stream ? 'stream' : 'n', 'runTools returns one complete reply');
  const { functions, tools } = functionsOf(toolList);
  const stepLimit = maxSteps ?? DEFAULT_MAX_STEPS;
  /** @type {ChatMessage[]} */
  const messages = [...firstMessages];
  /** @type {ChatCompletion[]} */
  const completions = [];
  try {
    for (;;) {
      const choice = completions.length ? laterChoice(tool_choice) : { tool_choice };
      const completion = await create({ ...request, ...choice, messages, tools }, { signal });
      completions.push(completion);
      const { message, finish_reason } = completion.choices[0];
      messages.push(/** @type {ChatMessage} */ (message));
      const calls = message.tool_calls ?? [];
      if (!calls.length) return { messages, completions, content: message.content, finishReason: finish_reason };
      for (const call of calls) {
        const content = await runCall(functions, call, toolErrors !== 'throw', signal);
        messages.push({ role: 'tool', tool_call_id: call.id, content });
      }
      if (completions.length >= stepLimit) return { messages, completions, content: null, finishReason: 'maxSteps' };
    }
  } catch (error) {
    if (error instanceof BqError) error.details.messages = messages;
    throw error;
  }
}
