/** The field that replaces a message of the user while it is edited. Loaded on demand. */
import { button, element } from '../page/element.js';
import { isComposing, isSendKey, limitDirections } from '../page/page.js';
import { allowed, EDIT, editOf, write } from '../storage/local-storage.js';
import { hasAttachments } from './tree.js';

/**
 * Stores the unsent edit of a message, in place of one of another message.
 * @param {string} id  of the conversation
 * @param {string} entry  id of the message
 * @param {string | null} text  null removes it
 */
function saveEdit(id, entry, text) {
  if (text !== null) write(EDIT + id, { entry, text });
  else if (editOf(id)?.entry === entry) allowed(() => localStorage.removeItem(EDIT + id), undefined);
}

/**
 * Opens the field, unless it is open.
 * @param {HTMLElement} root  element of the message @param {HTMLElement} shown  its text, in `root` @param {import('./tree.js').Entry} entry
 * @param {Pick<import('./view.js').Actions, 'onEdit' | 'chatId'>} actions @param {string} [draft]  text of an unsent edit, which is
 *   restored without the focus
 */
export function editMessage(root, shown, entry, { onEdit, chatId }, draft) {
  if (root.classList.contains('editing')) return;
  const id = chatId();
  const form = element('form', 'edit');
  const field = element('textarea');
  const { content } = entry;
  // Attachments stay unchanged.
  const text = hasAttachments(content) ? (shown.lastChild?.textContent ?? '') : content;
  const before = content.slice(0, content.length - text.length);
  field.value = draft ?? text; // the field normalizes line ends
  limitDirections(field, field.value.length);
  field.setAttribute('aria-label', 'Edit your message');
  field.dir = 'auto';
  const end = () => {
    saveEdit(id, entry.id, null);
    form.replaceWith(shown);
    root.classList.remove('editing');
    /** @type {HTMLElement | null} */ (root.querySelector('.tools [aria-label^="Edit"]'))?.focus();
  };
  const send = button('Send', 'Send the edited message', () => {
    const edited = before + field.value;
    if (!edited.trim() || onEdit(entry, edited)) end();
  });
  field.addEventListener('keydown', (event) => {
    if (isComposing(event)) return;
    if (event.key === 'Escape') end();
    else if (isSendKey(event)) send.click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const fitHeight = () => {
    field.style.height = 'auto';
    field.style.height = `${field.scrollHeight + 2}px`;
  };
  field.addEventListener('input', () => {
    fitHeight();
    saveEdit(id, entry.id, field.value);
  });
  send.className = 'filled';
  form.append(field, button('Cancel', 'Cancel', end), send);
  shown.replaceWith(form);
  root.classList.add('editing');
  fitHeight();
  if (draft === undefined) field.focus();
}
