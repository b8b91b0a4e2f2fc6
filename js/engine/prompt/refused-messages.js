/** Explains why a chat format does not support a conversation. Loaded for such an error. */
import { BqError } from '../../shared/errors.js';

/** @import { ChatFormat, Message, PromptOptions } from '../../shared/types.js' */

/** Members of a message that every chat format supports. */
const PLAIN_MEMBERS = ['role', 'content', 'tokens'];

/**
 * Returns the error for a conversation that a chat format does not support, or for a model without one.
 * @param {ChatFormat | null} format
 * @param {readonly Message[]} messages
 * @param {PromptOptions['tools']} tools
 * @param {PromptOptions['templateVariables']} variables
 */
export function refusedMessages(format, messages, tools, variables) {
  if (!format)
    return new BqError('NO_CHAT', 'the model has neither a chat format nor a chat template', {
      hint: 'use createSession(), or pass a chatFormat, such as "chatml"',
    });
  const refused = (/** @type {string} */ param, /** @type {string} */ problem, /** @type {string} */ hint) =>
    new BqError('ARGUMENT', problem, { hint, details: { param } });
  const { roles } = format;
  for (const [i, message] of messages.entries()) {
    const { role } = message;
    if (!Object.hasOwn(roles, role))
      return refused(
        `messages[${i}].role`,
        `messages[${i}]: unknown role "${role}" in this chat format`,
        `pass one of ${Object.keys(roles).join(', ')}`,
      );
  }
  const needsTemplate = 'needs a chat template, and this chat format has none';
  if (variables) return refused('templateVariables', `a template variable ${needsTemplate}`, 'omit it');
  if (tools) return refused('tools', `a description of tools ${needsTemplate}`, 'describe them in a system message');
  for (const [i, message] of messages.entries()) {
    const name = Object.keys(message).find((member) => !PLAIN_MEMBERS.includes(member));
    if (name) return refused(`messages[${i}].${name}`, `messages[${i}].${name} ${needsTemplate}`, 'omit it');
  }
  return refused(
    'messages',
    'the chat format does not support this sequence of messages',
    'pass a system message only at the beginning, followed by a message of the user',
  );
}
