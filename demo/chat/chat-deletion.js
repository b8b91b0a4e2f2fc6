/** Deletes a stored chat, and restores it. Loaded on demand. */
import { draftOf, EDIT, editOf, remove, save, saveDraft, write } from '../storage/local-storage.js';

/**
 * Deletes a chat with its unsent message and its unsent edit.
 * @param {import('../storage/local-storage.js').Conversation} chat
 * @returns {() => void}  restores them
 */
export function removeChat(chat) {
  const { id } = chat;
  const [draft, edit] = [draftOf(id), editOf(id)];
  remove(id);
  saveDraft(id, '');
  return () => {
    save(chat);
    saveDraft(id, draft);
    if (edit) write(EDIT + id, edit);
  };
}
