/**
 * Prepares messages for the model's template and finds the form of its tool calls. Loaded for conversations with tools.
 */
import { BqError, onDemand } from '../../shared/errors.js';
import { exactJson, parseExact } from '../../shared/exact-json.js';
import { isNestedTooDeeply, MAX_NESTING } from '../../shared/nesting.js';
import { wrong } from '../../shared/options.js';
import { shown } from '../../shared/quote-value.js';
import { isInexact } from '../../shared/rounded-number.js';
import {
  callForm,
  callSample,
  DEFAULT_CALL_FORM,
  FORMS_BY_TOKEN,
  knowsTools,
  resultRoleOf,
} from '../../text/templates/call-form.js';
import { compile } from '../../text/templates/jinja.js';
import { BOS, EOS } from '../../text/templates/template-texts.js';
import { ENDS } from '../../wasm/abi.js';
import { messagesForTemplate } from './call-messages.js';
import { checkResults } from './call-results.js';
import { CallForms } from './tool-calls.js';
import { describeToolsInText } from './plain-tool-messages.js';
import { ReplyParts } from '../generation/reply-parts.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { CallForm } from '../../text/templates/call-form.js' */
/** @import { ChatCompletionTool, CompleteOptions, Message } from '../../shared/types.js' */

const decoder = new TextDecoder();

/**
 * Support for tools in a template: whether it describes tools, and the form of its calls (null: none or unknown).
 * `sample`: what it writes for a call in an unknown form.
 * @typedef {{ isToolAware: boolean, form: CallForm | null, sample?: string }} ToolSupport
 */
/**
 * A conversation with tools, converted for the prompt.
 * @typedef {object} PreparedCalls
 * @property {Message[]} messages
 * @property {any[] | undefined} tools  tools that the template describes
 * @property {CallForm | null} form     form of calls; null: no tool may be called
 * @property {ChatCompletionTool[]} callable  tools that may be called
 */
/** @type {WeakMap<LocalModel, ToolSupport>} */
const supportCache = new WeakMap();

/** Matches a template that describes calls as JSON in `<tool_call>` without writing calls itself. */
const JSON_CALL_DESCRIPTION = /<tool_call>(?:\\n|\s)*\{\\?["']name/;

/**
 * Returns the form of calls for a template that describes tools but does not write calls; null if it is unknown.
 * @param {LocalModel} model @param {import('../../text/templates/call-form.js').Render} render
 * @returns {CallForm | null}
 */
function guessForm(model, render) {
  for (const [token, form] of FORMS_BY_TOKEN)
    if (model.findToken(token) !== null) return { ...form, resultRole: resultRoleOf(render) };
  return JSON_CALL_DESCRIPTION.test(model.info.chatTemplate) ? DEFAULT_CALL_FORM : null;
}

/**
 * Determines the support for tools of the model's template.
 * @param {LocalModel} model
 * @returns {Promise<ToolSupport>}
 */
async function toolSupport(model) {
  const cached = supportCache.get(model);
  if (cached) return cached;
  const { chatTemplate: template, vocabSize: vocab } = model.info;
  const render = compile(template);
  const renderWith = (/** @type {any} */ context) =>
    render({ documents: null, bos_token: BOS, eos_token: EOS, ...context });
  const { vocabulary } = await onDemand(import('../session/lazy-methods.js'));
  const bytesOf = vocabulary(model.bytes('TOKN'));
  const endTokens = Array.from({ length: vocab }, (_, id) => id).filter((id) => model.flags(id) & ENDS);
  const texts = endTokens.map((id) => decoder.decode(bytesOf(id))).filter(Boolean);
  const isToolAware = knowsTools(renderWith);
  const form = callForm(renderWith, [EOS, ...texts]) ?? (isToolAware ? guessForm(model, renderWith) : null);
  const support = { isToolAware, form, ...(isToolAware && !form && { sample: callSample(renderWith) }) };
  supportCache.set(model, support);
  return support;
}

/**
 * Returns the support for tools of the model's template; no support with a `chatFormat` or without a template.
 * @param {LocalModel} model @param {CompleteOptions['chatFormat']} format @returns {Promise<ToolSupport>}
 */
const toolSupportFor = async (model, format) =>
  format || !model.info.chatTemplate ? { isToolAware: false, form: null } : toolSupport(model);

/**
 * Converts the arguments of calls to the form that the template expects. Throws ARGUMENT.
 * @param {Message[]} messages @param {CallForm} form @returns {any[]}
 */
const convertCalls = (messages, { texts, none }) =>
  messages.map((message) => {
    if (!message.tool_calls) return message;
    const calls = /** @type {any[]} */ (message.tool_calls).map((call) => {
      const { name, arguments: callArguments } = call.function ?? {};
      if (typeof name !== 'string' || !name)
        throw wrongCall(`a call: expected the name of a function, found ${shown(name)}`);
      return { ...call, function: { ...call.function, arguments: argumentsOf(callArguments, texts) } };
    });
    return { ...message, content: message.content || (none ? null : ''), tool_calls: calls };
  });

/**
 * Returns the arguments of a call as an object, or as JSON. Throws ARGUMENT.
 * @param {any} callArguments  JSON or an object; undefined, null or an empty string for no arguments
 * @param {boolean} asText  whether to return JSON
 */
function argumentsOf(callArguments, asText) {
  const parsed = typeof callArguments === 'string' ? parseArguments(callArguments || '{}') : callArguments;
  if (isNestedTooDeeply(parsed)) throw wrongArguments(`are nested deeper than ${MAX_NESTING} levels`);
  const isObject = parsed === callArguments; // an object of the caller may have values that JSON does not have
  const text = textOfArguments(parsed ?? {}, isObject);
  const value = parseExact(text);
  if (typeof value !== 'object' || Array.isArray(value))
    throw wrongArguments(`are ${shown(value)}; expected an object`);
  if (!asText) return value;
  return isObject || !callArguments || parsed === null ? text : callArguments;
}

/** Parses arguments. Throws ARGUMENT. @param {string} text */
function parseArguments(text) {
  try {
    return parseExact(text);
  } catch {
    throw wrongArguments(`are not valid JSON: ${text.slice(0, 100)}`);
  }
}

/**
 * Checks a value within arguments that were parsed from JSON. Integers beyond 2^53 are BigInts there, and numbers
 * larger than a double are infinite. Throws ARGUMENT.
 * @param {string} _ @param {any} value
 */
function checkedNumber(_, value) {
  if (['function', 'symbol'].includes(typeof value) || (typeof value === 'number' && !Number.isFinite(value)))
    throw wrongArguments(
      `contain a ${typeof value}, ${shown(value)}; expected values of JSON, and numbers in the range of a double`,
    );
  return value;
}

/**
 * Checks a value within arguments that the caller passed as an object. Throws ARGUMENT.
 * @param {string} key @param {any} value
 */
function checkedValue(key, value) {
  if (typeof value === 'bigint' || isInexact(value))
    throw Object.assign(
      wrongArguments(
        `contain a ${typeof value}, ${value}; expected values of JSON, and integers up to 2^53, beyond which numbers of JavaScript are rounded`,
      ),
      { hint: 'pass the arguments as a string of JSON, whose integers are not rounded' },
    );
  return checkedNumber(key, value);
}

/**
 * Returns arguments as JSON. Throws ARGUMENT.
 * @param {any} value @param {boolean} isObject  whether the caller passed an object
 */
function textOfArguments(value, isObject) {
  try {
    return exactJson(value, isObject ? checkedValue : checkedNumber);
  } catch (error) {
    throw error instanceof BqError ? error : wrongArguments(`are not valid JSON: ${shown(value)}`);
  }
}

/** @param {string} problem */
const wrongCall = (problem) => new BqError('ARGUMENT', problem, { details: { param: 'messages' } });
/** @param {string} problem */
const wrongArguments = (problem) => wrongCall(`the arguments of a call ${problem}`);

/**
 * Converts messages with calls and results to the form that the model's template expects. Throws ARGUMENT.
 * @param {LocalModel} model @param {Message[]} messages
 */
export async function convertMessages(model, messages) {
  const { form } = await toolSupport(model);
  return form ? messagesForTemplate(messages, form) : messages;
}

/**
 * Returns whether a value is a schema for parameters. Undefined is one, which accepts any object.
 * @param {unknown} value
 */
const isSchema = (value) =>
  value === undefined || (typeof value === 'object' && value !== null && !Array.isArray(value));

/**
 * Returns the tools that may be called. Throws ARGUMENT.
 * @param {ChatCompletionTool[]} tools @param {CompleteOptions['toolChoice']} choice
 */
function chooseTools(tools, choice) {
  if (choice === 'none') return [];
  if (typeof choice !== 'object') return tools;
  const matches = tools.filter(({ function: { name } }) => name === choice.name);
  if (!matches.length)
    throw wrong('toolChoice', choice, `one of ${tools.map(({ function: { name } }) => name).join(', ')}`);
  return matches;
}

/**
 * Converts a conversation with tools. Returns undefined if it needs no conversion. Without `toolChoice`, the prompt
 * describes the tools, but no tool may be called. Throws ARGUMENT, TEMPLATE, and UNSUPPORTED if the template writes calls
 * in an unknown form.
 * @param {LocalModel} model @param {Message[]} messages
 * @param {Pick<CompleteOptions, 'chatFormat' | 'toolChoice'> & { tools?: any[] }} options
 * @returns {Promise<PreparedCalls | undefined>}
 */
export async function prepareCalls(model, messages, { chatFormat: format, tools = [], toolChoice }) {
  const isPlain = !messages.some(({ tool_calls, tool_call_id }) => tool_calls || tool_call_id !== undefined);
  // A chat format with a role for results accepts them at any position.
  if (isPlain && !toolChoice && (format || !model.info.chatTemplate)) return undefined;
  checkResults(messages);
  if (toolChoice === undefined) {
    const { isToolAware, form } = await toolSupportFor(model, format);
    const converted = isToolAware
      ? form
        ? convertCalls(messages, form)
        : messages
      : describeToolsInText(convertCalls(messages, DEFAULT_CALL_FORM), []);
    return { messages: converted, tools: tools.length ? tools : undefined, form: null, callable: [] };
  }
  for (const tool of tools)
    if (typeof tool.function?.name !== 'string' || !tool.function.name || !isSchema(tool.function.parameters))
      throw wrong('a tool', tool, '{ type: "function", function: { name, parameters } }');
  const callable = chooseTools(tools, toolChoice);
  if (!callable.length && (toolChoice === 'required' || typeof toolChoice === 'object'))
    throw wrong('toolChoice', toolChoice, '"none" or "auto" without tools');
  // The name is written into calls without escapes, so it must be valid in JSON, in a tag and in plain text.
  const badName = callable.find(({ function: { name } }) => /["\\<>\p{Cc}\p{Co}\p{Cs}]/u.test(name));
  if (badName)
    throw wrong(
      'the name of a tool',
      badName.function.name,
      'a name without quotes, backslashes, < >, control characters, halves of surrogate pairs',
    );
  const promptTools = callable.length ? tools : [];
  const hasCalls = messages.some(({ role, tool_calls }) => role === 'tool' || tool_calls);
  if (!promptTools.length && !hasCalls) return { messages, tools: undefined, form: null, callable };
  const { isToolAware, form, sample } = await toolSupportFor(model, format);
  const roles = format ? null : model.info.chatFormat?.roles;
  if (!isToolAware && promptTools.length && roles && !model.info.chatTemplate && !Object.hasOwn(roles, 'system'))
    throw new BqError('UNSUPPORTED', "the model's chat format has no system message, which would describe the tools", {
      hint: 'load a model whose chat template supports tools or a system message',
    });
  if (!isToolAware)
    return {
      messages: describeToolsInText(convertCalls(messages, DEFAULT_CALL_FORM), promptTools),
      tools: undefined,
      form: DEFAULT_CALL_FORM,
      callable,
    };
  if (!form)
    throw new BqError(
      'UNSUPPORTED',
      `the model's chat template writes tool calls in an unknown form: ${sample ? shown(sample, 200) : 'it writes none'}`,
      { hint: 'omit tools, or pass chatFormat: then the system message describes the tools' },
    );
  return {
    messages: convertCalls(messages, form),
    tools: promptTools.length ? promptTools : undefined,
    form,
    callable,
  };
}

/**
 * Creates the constrained sections of a reply.
 * @param {LocalModel} model
 * @param {object} parts
 * @param {import('../../api/chat/reasoning.js').ReasoningParser | null} parts.reasoningParser
 * @param {[string, string] | null} parts.marks  opening and closing mark of the reasoning
 * @param {CompleteOptions} parts.options
 * @param {CallForm | null} parts.form  null: no tool may be called
 * @param {ChatCompletionTool[]} parts.callable  tools that may be called
 */
export async function replyPartsFor(model, { reasoningParser, marks, options, form, callable }) {
  const { responseFormat, stopTokens = [], toolChoice, parallelToolCalls = true } = options;
  const guides = await model.grammars();
  // `continues`, because SentencePiece puts a space in front of a text without earlier text.
  const ids = (/** @type {string} */ text) =>
    model.encode(text, { addSpecial: false, parseSpecial: true, continues: true });
  const special = (/** @type {number} */ id) => model.specialText(id);
  const tools = callable.map(({ function: definition }) => definition);
  const mustCall = tools.length > 0 && toolChoice !== 'auto';
  const format = /** @type {any} */ (responseFormat);
  const isConstrained = format && format.type !== 'text' && !mustCall;
  const replyParts = new ReplyParts({
    guides,
    ids,
    reasoningParser,
    marks,
    format: isConstrained ? await guides.guide(format, stopTokens) : null,
    callForms: tools.length && form ? new CallForms(form, tools, { ids, special }) : null,
    mustCall,
    allowsMany: !mustCall && parallelToolCalls,
  });
  await replyParts.prepare();
  return replyParts;
}
