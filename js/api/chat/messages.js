/** Converts messages from all forms that callers can use. Errors for other forms name the wrong part. */
import { BqError } from '../../shared/errors.js';
import { checkOptions, wrong } from '../../shared/options.js';

/** @import { Message } from '../../shared/types.js' */

/**
 * Returns the text of a message's content: a string, or joined text parts. Throws ARGUMENT for other parts.
 * @param {any} content
 * @returns {string}
 */
export function textOf(content) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw wrong('content', content, 'a string or a list of text parts');
  return content
    .map((part, i) => {
      if (typeof part === 'string') return part;
      if (part?.type === 'text' && typeof part.text === 'string') return part.text;
      throw wrong(`content[${i}]`, part, `{ type: 'text', text }`);
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
    // A message of the assistant may consist of calls or reasoning only.
    content: (content ?? '') === '' && (tokens || fields.tool_calls || fields.reasoning_content) ? '' : textOf(content),
    ...(tokens && { tokens: [...tokens] }),
    ...fields,
  };
}

/** Converts a list of messages. Throws ARGUMENT. @param {any} messages @returns {Message[]} */
export function messagesOf(messages) {
  if (Array.isArray(messages)) return messages.map(messageOf);
  throw wrong('messages', messages, 'a list of { role, content }');
}

/**
 * Converts a string, text parts, a message or a list of messages to messages. Throws ARGUMENT.
 * @param {any} content
 * @returns {Message[]}
 */
export function toMessages(content) {
  const items = [content].flat();
  if (items.length && items.every((item) => typeof item === 'object' && item && 'role' in item))
    return messagesOf(items);
  return [{ role: 'user', content: textOf(content) }];
}
