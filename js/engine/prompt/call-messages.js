/**
 * Converts calls and results for templates that expect another form than OpenAI's messages. Loaded for conversations
 * with calls.
 */
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

/**
 * Returns the arguments of a call in the form's notation. Throws ARGUMENT if the notation can't represent them.
 * @param {Call} call @param {CallForm} form
 */
function formatArguments({ function: called }, { notation }) {
  if (!notation) return exactJson(called.arguments);
  const row = notationNamed(notation);
  try {
    return writeValue(called.arguments, row, row.root);
  } catch (error) {
    if (!(error instanceof BqError)) throw error;
    throw new BqError('ARGUMENT', `the arguments of a call: ${error.message}`, { details: { param: 'messages' } });
  }
}

/**
 * Returns calls in the form that the model writes, as parts of a text. Special tokens are recognised only in the form's
 * own text, not in texts of the caller. Throws ARGUMENT.
 * @param {Call[]} calls @param {CallForm} form
 */
function formatCalls(calls, form) {
  const parts = calls.flatMap((call, i) => {
    const text = (i && form.next) || form.first;
    return text.split(PLACEHOLDERS).map((part) => {
      if (part === NAME) return callerText(call.function.name);
      if (part === ARGUMENTS) return callerText(formatArguments(call, form));
      if (part === ID) return callerText(call.id ?? '');
      return part === COUNT ? String(i) : part;
    });
  });
  return [...parts, form.after];
}

/**
 * Largest nesting of a result that is passed as an object. Templates write each level with a recursive macro, whose
 * depth is limited.
 */
const RESULT_LEVELS = 40;
const STRINGS = /"(?:[^"\\]|\\.)*"/g;
const NUMBERS = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Returns whether all integers of a JSON text are safe integers, and all other numbers finite. Such numbers survive
 * parsing, except that the last digits of fractions may be rounded.
 * @param {string} json
 */
const keepsNumbers = (json) =>
  (json.replace(STRINGS, '').match(NUMBERS) ?? []).every((number) =>
    /[.eE]/.test(number) ? Number.isFinite(Number(number)) : Number.isSafeInteger(Number(number)),
  );

/**
 * Returns a result as an object if it is JSON of an object that can be parsed without loss, otherwise unchanged.
 * @param {any} content
 */
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

/**
 * Returns a result with the name of its function.
 * @param {any} message  a result @param {number} n  index of the result @param {Call[]} calls
 */
function responseOf({ tool_call_id: id, name, content }, n, calls) {
  const call = calls.find((candidate) => id !== undefined && candidate.id === id) ?? calls[n];
  return { name: call?.function.name ?? name ?? 'unknown', response: resultOf(content) };
}

/** @param {any} message @returns {boolean} */
const hasCalls = ({ tool_calls }) => Boolean(tool_calls?.length);

/**
 * Gives each call of a conversation a unique id, and each result the id of its call. Some templates search all messages
 * that follow for the id, to find the function's name. A result without a known id belongs to the call at its position.
 * @param {any[]} messages  messages whose results belong to calls (checked by call-results.js)
 */
function assignCallIds(messages) {
  const originalIds = new Set(messages.flatMap(({ tool_calls }) => tool_calls ?? []).map(({ id }) => id));
  /** Ids that are assigned to calls. @type {Set<string>} */
  const assignedIds = new Set();
  let n = 0;
  const uniqueId = (/** @type {string | undefined} */ originalId) => {
    let id = originalId;
    for (; id === undefined || assignedIds.has(id); n++) id = originalIds.has(`${n}`) ? undefined : `${n}`;
    assignedIds.add(id);
    return id;
  };
  /** Ids of the calls whose results follow. @type {{ originalId: string | undefined, id: string }[]} */
  let callIds = [];
  let resultCount = 0;
  return messages.map((message) => {
    if (hasCalls(message)) {
      callIds = message.tool_calls.map((/** @type {Call} */ { id }) => ({ originalId: id, id: uniqueId(id) }));
      resultCount = 0;
      const calls = message.tool_calls.map((/** @type {Call} */ call, /** @type {number} */ i) => ({
        ...call,
        id: callIds[i].id,
      }));
      return { ...message, tool_calls: calls };
    }
    if (message.role !== 'tool') return message;
    const at = resultCount++;
    const isCallOf = (/** @type {{ originalId: string | undefined }} */ { originalId }) =>
      originalId !== undefined && originalId === message.tool_call_id;
    const call = callIds.find(isCallOf) ?? callIds[at];
    return call ? { ...message, tool_call_id: call.id } : message;
  });
}

/** Moves the content of messages with calls to messages of their own. @param {any[]} messages @param {string} role */
const splitContent = (messages, role) =>
  messages.flatMap((message) =>
    hasCalls(message) && message.content
      ? [
          { role, content: message.content },
          { ...message, content: '' },
        ]
      : [message],
  );

/**
 * Moves the results of calls to the message with the calls, as `tool_responses`.
 * @param {any[]} messages
 * @param {boolean} joinsAnswer  whether the answer that follows becomes the content of that message, which the template
 *   writes after the results
 */
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

/**
 * Converts messages to the form that the template expects. Throws ARGUMENT.
 * @param {Message[]} messages  messages with arguments as objects @param {CallForm} form
 * @returns {(Omit<Message, 'content'> & { content: string | Text | null })[]}
 */
export function messagesForTemplate(messages, form) {
  const withIds = form.first.includes(ID) ? messages : assignCallIds(messages);
  const split = form.contentRole ? splitContent(withIds, form.contentRole) : withIds;
  const joined = (form.joinsResults ? joinResults(split, form.contentRole !== null) : split).map((message) =>
    form.resultRole && message.role === 'tool' ? { ...message, role: form.resultRole } : message,
  );
  if (!form.inContent) return joined;
  return joined.map((message) => {
    const { tool_calls: calls, ...fields } = message;
    if (!calls?.length) return message;
    return { ...fields, content: concat([callerText(message.content ?? ''), ...formatCalls(calls, form)]) };
  });
}
