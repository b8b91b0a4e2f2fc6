/** Deletes all chats after a confirmation, and restores them. Loaded on demand. */
import { showNotice } from '../page/alerts.js';
import { button, element } from '../page/element.js';
import * as format from '../page/format.js';
import { $, closeBeside, focusMessage, say, showDialog } from '../page/page.js';
import { list } from '../storage/local-storage.js';
import { removeChat } from './chat-deletion.js';

/**
 * @typedef {object} Page
 * @property {import('./conversation.js').Current} current
 * @property {(conversation?: import('../storage/local-storage.js').Conversation) => Promise<void>} open  without an argument: a new chat
 * @property {() => Promise<void>} showState  draws the list of chats again
 */

/** Asks the user whether to delete all chats. @param {Page} page */
export function confirmDeletion(page) {
  const count = list().length;
  const dialog = element('dialog');
  const title = element('h2', '', count ? 'Delete all chats?' : 'There are no chats to delete.');
  title.id = 'all-deletion-title';
  dialog.setAttribute('aria-labelledby', title.id);
  const row = element('div', 'row end');
  const cancel = button(count ? 'Cancel' : 'Close', count ? 'Cancel' : 'Close', () => dialog.close());
  row.append(cancel);
  dialog.append(title);
  if (count) {
    const text = `${format.counted(count, 'chat')} will be deleted from this browser. To keep a copy, use “Export all” in the list of chats.`;
    dialog.append(element('p', '', text));
    const confirm = button('Delete all', 'Delete all chats', () => {
      dialog.close();
      /** @type {HTMLDialogElement} */ ($('settings')).close();
      void deleteAll(page);
    });
    confirm.className = 'danger';
    row.append(confirm);
  }
  dialog.append(row);
  closeBeside(dialog);
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  showDialog(dialog);
  cancel.focus();
}

/** @param {Page} page */
async function deleteAll({ current, open, showState }) {
  const { id } = current.conversation;
  await open(); // stops a reply, which would store its chat again
  const chats = list();
  const restoreAll = chats.map((chat) => removeChat(chat));
  await showState();
  const text = `Deleted ${format.counted(chats.length, 'chat')}.`;
  say(text);
  const undo = () => {
    for (const restore of restoreAll) restore();
    say('Restored.');
    const shown = chats.find((chat) => chat.id === id);
    void (shown && !current.path.length ? open(shown) : showState());
  };
  // Stays at the next message: more is lost than by other deletions.
  showNotice(text, [{ text: 'Undo', run: undo }], true);
  focusMessage();
}
