/** Deletes a message of a chat, and restores it. Loaded on demand. */
import { withoutPassages } from './composed.js';
import { newestFrom, versions } from './tree.js';

/** @typedef {import('./tree.js').Entry} Entry */

/**
 * What is left when a message is deleted: a message of the person goes with its replies, a reply that has no other version with the
 * message that it answers; what followed stays, behind the message before. Of several versions of a reply one goes, with what
 * followed it.
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
 * Deletes a message, and what goes with it.
 * @param {Entry} entry @param {import('./conversation.js').Current} current
 * @returns {() => void}  undoes it, while this conversation is shown
 */
export function deleteMessage(entry, current) {
  const { id: conversation, entries, leaf } = current.it;
  const remaining = withoutMessage(entries, entry);
  const removed = entries.filter(({ id }) => !remaining.entries.some((other) => other.id === id));
  const ids = removed.map(({ id }) => id);
  current.setDeleted(ids, true, { ...remaining, entries: withoutPassages(remaining.entries, removed) });
  return () => {
    const { it } = current;
    if (it.id !== conversation) return;
    const added = it.entries.filter(({ id }) => !entries.some((other) => other.id === id));
    current.setDeleted(ids, false, {
      entries: [...entries, ...added],
      leaf: it.leaf === remaining.leaf ? leaf : it.leaf,
    });
  };
}
