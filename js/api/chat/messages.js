/** What may stand for messages, made into messages; what can't be understood is refused by its name. */
import { BqError } from '../../shared/errors.js';
import { checkOptions, wrong } from '../../shared/options.js';

/** @import { Message } from '../../shared/types.js' */

/** A message's text: itself, or all of its parts. ARGUMENT: a part that is no text. @param {any} content @returns {string} */
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
  const { role, content = '', tokens, ...more } = checkOptions('message', message);
  if (role === undefined)
    throw new BqError('ARGUMENT', 'a message has no role', { hint: "pass { role: 'user', content }" });
  return {
    role,
    content: content === null && more.tool_calls ? '' : textOf(content),
    ...(tokens && { tokens: [...tokens] }),
    ...more,
  };
}

/** A list of messages. ARGUMENT. @param {any} messages @returns {Message[]} */
export function messagesOf(messages) {
  if (Array.isArray(messages)) return messages.map(messageOf);
  throw wrong('messages', messages, 'a list of { role, content }');
}

/** What a person says: a text, its parts, a message or several. ARGUMENT. @param {any} said @returns {Message[]} */
export function saidBy(said) {
  const all = [said].flat();
  if (all.length && all.every((one) => typeof one === 'object' && one && 'role' in one)) return messagesOf(all);
  return [{ role: 'user', content: textOf(said) }];
}
