/** `chat.completions.runTools`: asks, calls the functions that the model wants, tells it what came of them, and asks again. */
import { unlessAborted } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { checkBy, checkOptions, kind, object, oneOf, whole } from '../../shared/options.js';
import { membersOf, refuse } from './check-fields.js';

/** @import { ChatCompletion, ChatMessage, RunToolsRequest, ToolCall, ToolRun } from '../../shared/types.js' */

/** Replies at most, where the caller doesn't say. */
const STEPS = 10;

const REQUEST = { tools: kind('a list of tools with functions', (v) => Array.isArray(v) && v.length > 0), bq4: object };
/** Members of `bq4` that are for this loop, not for the model. */
const EXTENSIONS = { maxSteps: whole(1), toolErrors: oneOf('tell', 'throw') };

/** The caller's functions by name, and the tools without them. ARGUMENT. @param {RunToolsRequest['tools']} given */
function functionsOf(given) {
  /** @type {Map<string, (args: any, more: { signal?: AbortSignal, call: ToolCall }) => unknown>} */
  const functions = new Map();
  const tools = given.map((/** @type {any} */ tool) => {
    const { function: run, ...described } = tool?.function ?? {};
    if (tool?.type !== 'function' || typeof described.name !== 'string' || typeof run !== 'function')
      throw refuse('tools', 'a tool is no { type: "function", function: { name, parameters, function } }');
    if (functions.has(described.name)) throw refuse('tools', `two tools are called "${described.name}"`);
    functions.set(described.name, run);
    return { type: tool.type, function: described };
  });
  return { functions, tools };
}

/** Which tools replies behind the first may call: whoever must call one has done so, but only some of them may be allowed. @param {any} choice */
const laterChoice = (choice) =>
  choice?.type === 'allowed_tools'
    ? { tool_choice: { ...choice, allowed_tools: { ...choice.allowed_tools, mode: 'auto' } } }
    : {};

/** What a function gave, as the text of a message. @param {unknown} value */
const contentOf = (value) => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));

/**
 * The result of a call. An abort throws the signal's reason, whatever the function goes on with.
 * @param {ReturnType<typeof functionsOf>['functions']} functions @param {ToolCall} call @param {boolean} tell  the model of an error @param {AbortSignal} [signal]
 * @returns {Promise<string>}
 */
async function resultOf(functions, call, tell, signal) {
  const { name, arguments: given } = call.function;
  try {
    const run = functions.get(name);
    if (!run) throw new Error(`there is no tool "${name}", only ${[...functions.keys()].join(', ')}`);
    const args = JSON.parse(given);
    return contentOf(
      await unlessAborted(
        Promise.resolve().then(() => run(args, { signal, call })),
        signal,
      ),
    );
  } catch (cause) {
    signal?.throwIfAborted();
    const message = cause instanceof Error ? cause.message : String(cause);
    if (tell) return `Error: ${message}`;
    throw new BqError('TOOL', `the tool "${name}" failed: ${message}`, { cause, details: { call } });
  }
}

/**
 * ARGUMENT, TOOL, and what `create` throws. Errors amid the conversation have it in `details.messages`.
 * @param {(body: any, options: { signal?: AbortSignal }) => Promise<ChatCompletion>} create  `chat.completions.create`
 * @param {RunToolsRequest} body @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<ToolRun>}
 */
export async function runTools(create, body, options) {
  const { signal } = checkOptions('createOne', options);
  const { bq4 = {}, tools: given, messages: first, tool_choice, ...rest } = /** @type {any} */ (body ?? {});
  checkBy(REQUEST, 'runTools', { bq4, tools: given ?? null });
  const { maxSteps, toolErrors, ...extensions } = bq4;
  membersOf('bq4', EXTENSIONS, { maxSteps, toolErrors });
  const asked = { ...rest, ...(Object.keys(extensions).length > 0 && { bq4: extensions }) };
  if (rest.stream || (rest.n ?? 1) !== 1) throw refuse(rest.stream ? 'stream' : 'n', 'runTools gives one whole reply');
  const { functions, tools } = functionsOf(given);
  const most = maxSteps ?? STEPS;
  /** @type {ChatMessage[]} */
  const messages = [...(first ?? [])];
  /** @type {ChatCompletion[]} */
  const completions = [];
  try {
    for (;;) {
      const choice = completions.length ? laterChoice(tool_choice) : { tool_choice };
      const completion = await create({ ...asked, ...choice, messages, tools }, { signal });
      completions.push(completion);
      const { message, finish_reason } = completion.choices[0];
      messages.push(/** @type {ChatMessage} */ (message));
      const calls = message.tool_calls ?? [];
      if (!calls.length) return { messages, completions, content: message.content, finishReason: finish_reason };
      for (const call of calls) {
        const content = await resultOf(functions, call, toolErrors !== 'throw', signal);
        messages.push({ role: 'tool', tool_call_id: call.id, content });
      }
      if (completions.length >= most) return { messages, completions, content: null, finishReason: 'maxSteps' };
    }
  } catch (error) {
    if (error instanceof BqError) error.details.messages = messages;
    throw error;
  }
}
