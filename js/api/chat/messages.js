/** Converts the forms in which a caller may give messages, and refuses others by their names. */
import { BqError } from '../../shared/errors.js';
import { checkOptions, wrong } from '../../shared/options.js';

/** @import { Message } from '../../shared/types.js' */

/** The text of a message: a string, or joined text parts. ARGUMENT: a part of another type. @param {any} content @returns {string} */
export function textOf(content) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw wrong('content', content, 'a text or a list of text parts');
  return content
    .map((part) => {
      if (typeof part === 'string') return part;
      if (part?.type === 'text' && typeof part.text === 'string') return part.text;
      throw wrong('a part of content', part, `{ type: 'text', text }`);
    })
    .join('');
}

/** @param {any} message @returns {Message} */
function messageOf(message) {
  const { role, content, tokens, ...fields } = checkOptions('message', message);
  if (role === undefined)
    throw new BqError('ARGUMENT', 'expected a message with a role, found none', {
      hint: "pass { role: 'user', content }",
    });
  return {
    role,
    // A message of the assistant may hold calls, or reasoning, alone.
    content: (content ?? '') === '' && (tokens || fields.tool_calls || fields.reasoning_content) ? '' : textOf(content),
    ...(tokens && { tokens: [...tokens] }),
    ...fields,
  };
}

/** A list of messages. ARGUMENT. @param {any} messages @returns {Message[]} */
export function messagesOf(messages) {
  if (Array.isArray(messages)) return messages.map(messageOf);
  throw wrong('messages', messages, 'a list of { role, content }');
}

/** Messages from a text, from text parts, from a message or from a list of messages. ARGUMENT. @param {any} content @returns {Message[]} */
export function toMessages(content) {
  const items = [content].flat();
  if (items.length && items.every((item) => typeof item === 'object' && item && 'role' in item))
    return messagesOf(items);
  return [{ role: 'user', content: textOf(content) }];
}
