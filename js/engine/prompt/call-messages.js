/** Gives calls and results to templates that don't read them as OpenAI's messages have them. Loaded for conversations with calls. */
import { BqError } from '../../shared/errors.js';
import { exactJson } from '../../shared/exact-json.js';
import { isNestedTooDeeply, MAX_NESTING } from '../../shared/nesting.js';
import { notationNamed, writeValue } from '../../text/grammar/notations.js';
import { ARGUMENTS, COUNT, ID, NAME, PLACEHOLDERS } from '../../text/templates/call-form.js';
import { callerText, concat } from '../../text/templates/template-texts.js';

/** @import { Message } from '../../shared/types.js' */
/** @import { CallForm } from '../../text/templates/call-form.js' */
/** @import { Text } from '../../text/templates/template-texts.js' */

/** @typedef {{ id?: string, function: { name: string, arguments: any } }} Call */

/** The arguments of a call in the form's notation. ARGUMENT: they can't be written so. @param {Call} call @param {CallForm} form */
function writtenArguments({ function: called }, { notation }) {
  if (!notation) return exactJson(called.arguments);
  const row = notationNamed(notation);
  try {
    return writeValue(called.arguments, row, row.root);
  } catch (error) {
    if (!(error instanceof BqError)) throw error;
    throw new BqError('ARGUMENT', `the arguments of a call: ${error.message}`, { details: { param: 'messages' } });
  }
}

/** Calls as the model writes them. Special tokens are read from the form's own text only. ARGUMENT. @param {Call[]} calls @param {CallForm} form */
function writtenCalls(calls, form) {
  const parts = calls.flatMap((call, i) => {
    const text = (i && form.next) || form.first;
    return text.split(PLACEHOLDERS).map((part) => {
      if (part === NAME) return callerText(call.function.name);
      if (part === ARGUMENTS) return callerText(writtenArguments(call, form));
      if (part === ID) return callerText(call.id ?? '');
      return part === COUNT ? String(i) : part;
    });
  });
  return [...parts, form.after];
}

/** Maximum number of levels of a result that is an object: templates write each by macros that call themselves, which a limit bounds. */
const RESULT_LEVELS = 40;
const STRINGS = /"(?:[^"\\]|\\.)*"/g;
const NUMBERS = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Whether all numbers are as they were when the JSON is read and written again, but for fractions, of which doubles round the last digits. @param {string} json */
const keepsNumbers = (json) =>
  (json.replace(STRINGS, '').match(NUMBERS) ?? []).every((number) =>
    /[.eE]/.test(number) ? Number.isFinite(Number(number)) : Number.isSafeInteger(Number(number)),
  );

/** A result as the template prints it: an object, if it is one as JSON that can be read without loss, or a text. @param {any} content */
function resultOf(content) {
  try {
    const value = JSON.parse(content);
    const isObject = typeof value === 'object' && value && !Array.isArray(value);
    return isObject && !isNestedTooDeeply(value, MAX_NESTING - RESULT_LEVELS) && keepsNumbers(content)
      ? value
      : content;
  } catch {
    return content;
  }
}

/** @param {any} message  a result @param {number} n  its index @param {Call[]} calls */
function responseOf({ tool_call_id: id, name, content }, n, calls) {
  const call = calls.find((one) => id !== undefined && one.id === id) ?? calls[n];
  return { name: call?.function.name ?? name ?? 'unknown', response: resultOf(content) };
}

/** @param {any} message @returns {boolean} */
const hasCalls = ({ tool_calls }) => Boolean(tool_calls?.length);

/**
 * Messages in which results name their calls, as some templates look for a function's name, in all messages that follow: so each call of a
 * conversation has an id of its own. Models that write no ids give calls none, and the results come in their order then.
 * @param {any[]} messages  whose results belong to calls (call-results.js)
 */
function nameCalls(messages) {
  const taken = new Set(messages.flatMap(({ tool_calls }) => tool_calls ?? []).map(({ id }) => id));
  /** Ids that calls have in the result. @type {Set<string>} */
  const used = new Set();
  let n = 0;
  const idOf = (/** @type {string | undefined} */ given) => {
    let id = given;
    for (; id === undefined || used.has(id); n++) id = taken.has(`${n}`) ? undefined : `${n}`;
    used.add(id);
    return id;
  };
  /** Ids of the calls whose results follow: as they were given, and as they are. @type {{ given: string | undefined, id: string }[]} */
  let names = [];
  let place = 0;
  return messages.map((message) => {
    if (hasCalls(message)) {
      names = message.tool_calls.map((/** @type {Call} */ { id }) => ({ given: id, id: idOf(id) }));
      place = 0;
      const calls = message.tool_calls.map((/** @type {Call} */ call, /** @type {number} */ i) => ({
        ...call,
        id: names[i].id,
      }));
      return { ...message, tool_calls: calls };
    }
    if (message.role !== 'tool') return message;
    const at = place++;
    const called = names.find(({ given }) => given !== undefined && given === message.tool_call_id) ?? names[at];
    return called ? { ...message, tool_call_id: called.id } : message;
  });
}

/** Messages with what is said before calls in a message of its own. @param {any[]} messages @param {string} role */
const splitContent = (messages, role) =>
  messages.flatMap((message) =>
    hasCalls(message) && message.content
      ? [
          { role, content: message.content },
          { ...message, content: '' },
        ]
      : [message],
  );

/** Messages with the results of calls on the message of the calls, and with the answer that follows, if content is written behind them: a turn of the model. @param {any[]} messages @param {boolean} joinsAnswer */
function joinResults(messages, joinsAnswer) {
  const joined = [];
  for (let i = 0; i < messages.length;) {
    const message = messages[i++];
    const first = i;
    if (hasCalls(message)) while (messages[i]?.role === 'tool') i++;
    if (first === i) {
      joined.push(message);
      continue;
    }
    const responses = messages.slice(first, i).map((result, n) => responseOf(result, n, message.tool_calls));
    const next = joinsAnswer ? messages[i] : undefined;
    const hasAnswer = next?.role === 'assistant' && !hasCalls(next);
    joined.push({ ...message, ...(hasAnswer && { content: messages[i++].content }), tool_responses: responses });
  }
  return joined;
}

/** Messages as the template reads them. ARGUMENT. @param {Message[]} messages  with arguments as objects @param {CallForm} form @returns {(Omit<Message, 'content'> & { content: string | Text | null })[]} */
export function messagesForTemplate(messages, form) {
  const named = form.first.includes(ID) ? messages : nameCalls(messages);
  const split = form.contentRole ? splitContent(named, form.contentRole) : named;
  const joined = form.joinsResults ? joinResults(split, form.contentRole !== null) : split;
  if (!form.inContent) return joined;
  return joined.map((message) =>
    hasCalls(message)
      ? { ...message, content: concat([callerText(message.content ?? ''), ...writtenCalls(message.tool_calls, form)]) }
      : message,
  );
}
