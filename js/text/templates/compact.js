/**
 * Writes a conversation in a compact chat format, which has a fixed text before and after the messages of each role
 * (section CHAT in docs/FORMAT.md).
 */

/** @import { ChatFormat, Message } from '../../shared/types.js' */
/**
 * A part of a prompt. `special`: whether it belongs to the format, so that special tokens are recognized in it.
 * @typedef {{ text: string, special: boolean, tokens?: number[] }} Piece
 */

/**
 * Returns the prompt for a reply in pieces, or null if the format does not allow such a conversation.
 * @param {ChatFormat} format
 * @param {Pick<Message, 'role' | 'content' | 'tokens'>[]} messages
 * @returns {Piece[] | null}
 */
export function compact({ roles, start = '', prompt = roles.assistant.before, trim = false }, messages) {
  /** @type {Piece[]} */
  const pieces = [];
  const add = (/** @type {string} */ text) => text && pieces.push({ text, special: true });
  if (messages[0]?.role !== 'system') add(start);
  let opened = false;
  for (const [i, { role, content, tokens }] of messages.entries()) {
    const turn = Object.hasOwn(roles, role) ? roles[role] : null;
    // A system message that opens the user's turn must be the first message, and a user's message must follow.
    if (!turn || (turn.opens && i > 0) || (opened && role !== 'user')) return null;
    if (!opened) add(turn.before);
    opened = turn.opens === true;
    const text = trim ? content.trim() : content;
    if (text) pieces.push({ text, special: false, ...(tokens && text === content && { tokens }) });
    add(turn.after);
  }
  if (opened) return null;
  add(prompt);
  return pieces;
}
