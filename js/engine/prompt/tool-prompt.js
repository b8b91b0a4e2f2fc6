/** What a reply that may call tools is made from: messages as the model's template takes them, and the form of its calls. Loaded when first asked for. */
import { BqError, onDemand } from '../../shared/errors.js';
import { isNestedTooDeeply, MAX_NESTING } from '../../shared/nesting.js';
import { wrong } from '../../shared/options.js';
import { callForm, knowsTools } from '../../text/templates/call-form.js';
import { compile } from '../../text/templates/jinja.js';
import { BOS, EOS } from '../../text/templates/template-texts.js';
import { ENDS, SPECIAL } from '../../wasm/abi.js';
import { CallWriter, TOLD } from './tool-calls.js';
import { plainly } from './plain-tool-messages.js';
import { Turn } from '../generation/reply-parts.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { CallForm } from '../../text/templates/call-form.js' */
/** @import { ChatCompletionTool, CompleteOptions, Message } from '../../shared/types.js' */

const decoder = new TextDecoder();

/** What a template says of tools. @typedef {{ knows: boolean, form: CallForm | null }} Spoken */
/** @type {WeakMap<LocalModel, Spoken>} */
const spoken = new WeakMap();

/** A template that tells of calls as JSON in `<tool_call>`, but writes none itself. */
const TELLS = /<tool_call>(?:\\n|\s)*\{\\?["']name/;

/** @param {LocalModel} model @returns {Promise<Spoken>} */
async function spokenBy(model) {
  const known = spoken.get(model);
  if (known) return known;
  const { chatTemplate: template, vocabSize: vocab } = model.info;
  const render = compile(template);
  const all = (/** @type {any} */ context) => render({ documents: null, bos_token: BOS, eos_token: EOS, ...context });
  const { vocabulary } = await onDemand(import('../session/lazy-methods.js'));
  const bytesOf = vocabulary(model.bytes('TOKN'));
  const ends = Array.from({ length: vocab }, (_, id) => id).filter((id) => model.flags(id) & ENDS);
  const texts = ends.map((id) => decoder.decode(bytesOf(id))).filter(Boolean);
  const knows = knowsTools(all);
  const form = callForm(all, [EOS, ...texts]) ?? (knows && TELLS.test(template) ? TOLD : null);
  const found = { knows, form };
  spoken.set(model, found);
  return found;
}

/** Of a given format, and of a model without a template, nothing. @param {LocalModel} model @param {CompleteOptions['chatFormat']} format @returns {Promise<Spoken>} */
const spokenIn = async (model, format) =>
  format || !model.info.chatTemplate ? { knows: false, form: null } : spokenBy(model);

/** Calls in a conversation, with arguments as the template takes them. @param {Message[]} messages @param {CallForm} form @returns {any[]} */
const written = (messages, { texts, none }) =>
  messages.map((message) => {
    if (!message.tool_calls) return message;
    const calls = /** @type {any[]} */ (message.tool_calls).map((call) => ({
      ...call,
      function: { ...call.function, arguments: argumentsOf(call.function?.arguments, texts) },
    }));
    return { ...message, content: message.content || (none ? null : ''), tool_calls: calls };
  });

/** ARGUMENT. @param {any} given  a text of JSON, or what it says @param {boolean} texts */
function argumentsOf(given, texts) {
  const value = typeof given === 'string' ? parsed(given || '{}') : (given ?? {});
  if (isNestedTooDeeply(value)) throw wrongArguments(`are nested deeper than ${MAX_NESTING} levels`);
  if (!texts) return value;
  return typeof given === 'string' ? given || '{}' : JSON.stringify(value);
}

/** ARGUMENT. @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw wrongArguments(`are not JSON: ${text.slice(0, 100)}`);
  }
}

/** @param {string} why */
const wrongArguments = (why) =>
  new BqError('ARGUMENT', `the arguments of a call ${why}`, { details: { param: 'messages' } });

/** Of the parameters of a tool; without any it takes any object. @param {unknown} value */
const isSchema = (value) =>
  value === undefined || (typeof value === 'object' && value !== null && !Array.isArray(value));

/** @param {ChatCompletionTool[]} tools @param {CompleteOptions['toolChoice']} choice */
function chosen(tools, choice) {
  if (choice === 'none') return [];
  if (typeof choice !== 'object') return tools;
  const found = tools.filter(({ function: { name } }) => name === choice.name);
  if (!found.length)
    throw wrong('toolChoice', choice, `one of ${tools.map(({ function: { name } }) => name).join(', ')}`);
  return found;
}

/**
 * Messages and tools for the prompt, and the form of calls; null: no tool may be called. Without `toolChoice` the template is told of tools,
 * none may be called, and calls in messages are written as far as its form is understood. ARGUMENT, TEMPLATE, UNSUPPORTED: the template
 * writes calls in a way that is not understood.
 * @param {LocalModel} model @param {Message[]} messages
 * @param {Pick<CompleteOptions, 'chatFormat' | 'toolChoice'> & { tools?: any[] }} options
 * @returns {Promise<{ messages: Message[], tools: any[] | undefined, form: CallForm | null, callable: ChatCompletionTool[] }>}
 */
export async function calling(model, messages, { chatFormat: format, tools = [], toolChoice }) {
  if (toolChoice === undefined) {
    const { knows, form } = await spokenIn(model, format);
    const all = knows ? (form ? written(messages, form) : messages) : plainly(written(messages, TOLD), []);
    return { messages: all, tools: tools.length ? tools : undefined, form: null, callable: [] };
  }
  for (const tool of tools)
    if (typeof tool.function?.name !== 'string' || !tool.function.name || !isSchema(tool.function.parameters))
      throw wrong('a tool', tool, '{ type: "function", function: { name, parameters } }');
  const callable = chosen(tools, toolChoice);
  if (!callable.length && (toolChoice === 'required' || typeof toolChoice === 'object'))
    throw wrong('toolChoice', toolChoice, '"none" or "auto" where there are no tools');
  // Calls are written around the name as it is: it must be the same in JSON, in a tag and alone.
  const strange = callable.find(({ function: { name } }) => /["\\<>\p{Cc}\p{Co}]/u.test(name));
  if (strange)
    throw wrong(
      'the name of a tool',
      strange.function.name,
      'a name without quotes, backslashes, < >, control characters',
    );
  const given = callable.length ? tools : [];
  const has = messages.some(({ role, tool_calls }) => role === 'tool' || tool_calls);
  if (!given.length && !has) return { messages, tools: undefined, form: null, callable };
  const { knows, form } = await spokenIn(model, format);
  if (!knows) return { messages: plainly(written(messages, TOLD), given), tools: undefined, form: TOLD, callable };
  if (!form)
    throw new BqError('UNSUPPORTED', "how the model's chat template writes calls of tools is not understood", {
      hint: 'leave tools out, or pass a format by its name: the system message describes the tools then',
    });
  return { messages: written(messages, form), tools: given.length ? given : undefined, form, callable };
}

/**
 * What holds a reply to its parts.
 * @param {LocalModel} model
 * @param {{ thinking: import('../../api/chat/reasoning.js').ReasoningParser | null, marks: [string, string] | null, options: CompleteOptions, form: CallForm | null, callable: ChatCompletionTool[] }} parts
 */
export async function turnOf(model, { thinking, marks, options, form, callable }) {
  const { responseFormat, stopTokens = [], toolChoice, parallelToolCalls = true } = options;
  const guides = await model.guides();
  // Behind other text: vocabularies of SentencePiece put a space in front of one that begins.
  const ids = (/** @type {string} */ text) =>
    model.encode(text, { addSpecial: false, parseSpecial: true, continues: true });
  const special = (/** @type {number} */ id) =>
    model.flags(id) & SPECIAL ? decoder.decode(guides.machine.token(id)) || null : null;
  const tools = callable.map(({ function: called }) => called);
  const must = tools.length > 0 && toolChoice !== 'auto';
  const format = /** @type {any} */ (responseFormat);
  const isHeld = format && format.type !== 'text' && !must;
  const turn = new Turn({
    guides,
    ids,
    thinking,
    marks,
    format: isHeld ? await guides.guide(format, stopTokens) : null,
    writer: tools.length && form ? new CallWriter(form, tools, { ids, special }) : null,
    must,
    many: !must && parallelToolCalls,
  });
  await turn.prepare();
  return turn;
}
