/** Deletes a message of a chat, and restores it. Loaded on demand. */
import { withoutPassages } from './composed.js';
import { newestFrom, versions } from './tree.js';

/** @typedef {import('./tree.js').Entry} Entry */

/**
 * Returns the messages that remain when a message is deleted. A message of the user is deleted with its replies; a reply without other
 * versions is deleted with the message that it answers. Later messages then follow the message before. If a reply has several
 * versions, only one is deleted, with all messages after it.
 * @param {Entry[]} entries @param {Entry} entry @returns {{ entries: Entry[], leaf: string | null }}
 */
function withoutMessage(entries, entry) {
  const following = (/** @type {string} */ id) => entries.filter(({ parent }) => parent === id);
  if (entry.role === 'assistant' && versions(entries, entry).length > 1) {
    const removed = new Set([entry.id]);
    for (const id of removed) for (const next of following(id)) removed.add(next.id);
    const remaining = entries.filter(({ id }) => !removed.has(id));
    return { entries: remaining, leaf: entry.parent === null ? null : newestFrom(remaining, entry.parent) };
  }
  const question = entry.role === 'user' ? entry : entries.find(({ id }) => id === entry.parent);
  const first = question ?? entry;
  const removed = new Set([
    first.id,
    ...following(first.id)
      .filter(({ role }) => role !== first.role)
      .map(({ id }) => id),
  ]);
  const remaining = entries
    .filter(({ id }) => !removed.has(id))
    .map((other) => (other.parent !== null && removed.has(other.parent) ? { ...other, parent: first.parent } : other));
  const next = remaining.findLast(({ parent }) => parent === first.parent);
  return { entries: remaining, leaf: next ? newestFrom(remaining, next.id) : first.parent };
}

/**
 * Deletes a message and those that depend on it.
 * @param {Entry} entry @param {import('./conversation.js').Current} current
 * @returns {() => void}  restores them, if this conversation is still shown
 */
export function deleteMessage(entry, current) {
  const { id, entries, leaf } = current.conversation;
  const remaining = withoutMessage(entries, entry);
  const removed = entries.filter(({ id }) => !remaining.entries.some((other) => other.id === id));
  const ids = removed.map(({ id }) => id);
  current.setDeleted(ids, true, { ...remaining, entries: withoutPassages(remaining.entries, removed) });
  return () => {
    const { conversation: shown } = current;
    if (shown.id !== id) return;
    const added = shown.entries.filter(({ id }) => !entries.some((other) => other.id === id));
    current.setDeleted(ids, false, {
      entries: [...entries, ...added],
      leaf: shown.leaf === remaining.leaf ? leaf : shown.leaf,
    });
  };
}
