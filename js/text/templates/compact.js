/** A conversation by the compact form of a template: roles before and after. See CHAT in docs/FORMAT.md. */

/** @import { ChatFormat, Message } from '../../shared/types.js' */
/** Text of a prompt. @typedef {{ text: string, special: boolean, tokens?: number[] }} Piece  `special`: of the format, where special tokens are meant */

/**
 * The prompt for a reply, in pieces; null: the format has no such conversation.
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
    // What begins the user's turn can begin no other.
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
