/** Marks replies whose tab was closed while it wrote them. Loaded when a conversation has a reply that is marked as being written. */
import { draftOf, saveDraft } from '../storage/local-storage.js';
import { isWordless, newestFrom, versions } from './tree.js';

/**
 * Marks the replies as interrupted; a tab that is still writing holds a lock. A reply without a word is removed, and its message becomes
 * a draft again; both stay if there is a draft already. If it was another version of a message or reply, the previous version is shown.
 * @param {import('./conversation.js').Current} current
 * @param {string} lock  name of the lock that a tab holds while it writes a reply of this conversation
 * @returns {Promise<boolean>}  whether the conversation has changed
 */
export async function markInterrupted(current, lock) {
  const { conversation } = current;
  const cut = conversation.entries.filter(({ end }) => end === 'writing'); // not those that this tab begins meanwhile
  const { held = [] } = (await navigator.locks?.query().catch(() => null)) ?? {};
  if (conversation !== current.conversation || held.some(({ name }) => name === lock)) return false;
  const blank = cut.filter(isWordless);
  for (const entry of cut) entry.end = 'interrupted';
  for (const entry of blank) {
    const { entries, leaf } = conversation;
    const question = entries.find(({ id }) => id === entry.parent);
    const first = question && versions(entries, entry).length === 1 ? question : entry;
    const isShown = leaf === entry.id;
    if (first === question) {
      if (!isShown || draftOf(conversation.id)) continue;
      saveDraft(conversation.id, question.content);
    }
    const others = versions(entries, first).filter((other) => other !== first);
    const next = others.length ? newestFrom(entries, others[others.length - 1].id) : first.parent;
    current.takeBack([entry, first], isShown ? next : leaf);
  }
  return true;
}
