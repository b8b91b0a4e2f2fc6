/** The list of keyboard shortcuts, as a dialog. Loaded on demand. */
import { button, element } from './element.js';
import { closeBeside, showDialog } from './page.js';

const CONTROL = /^(Mac|iP)/.test(navigator.platform) ? '⌘' : 'Ctrl';

/** @type {[keys: string, action: string][]} */
const SHORTCUTS = [
  ['Enter', 'Send the message'],
  ['Shift + Enter', 'New line'],
  [`${CONTROL} + Enter`, 'Send the message, also on a touch screen'],
  [`${CONTROL} + Shift + O`, 'New chat'],
  [`${CONTROL} + K`, 'Search chats'],
  ['↑ in an empty field', 'Edit your last message'],
  ['/ in an empty field', 'Insert a prompt'],
  ['Esc', 'Stop the reply, or close what is open'],
  ['?', 'Show this list'],
];

/** @type {HTMLDialogElement | null} */
let dialog = null;

export function showShortcuts() {
  dialog ??= createDialog();
  showDialog(dialog);
}

function createDialog() {
  const created = element('dialog', 'shortcuts');
  created.setAttribute('aria-labelledby', 'shortcuts-title');
  const head = element('div', 'dialog-top');
  const title = element('h2', '', 'Keyboard shortcuts');
  title.id = 'shortcuts-title';
  head.append(
    title,
    button('Close', 'Close', () => created.close()),
  );
  const list = element('dl', 'facts');
  for (const [keys, action] of SHORTCUTS) {
    const row = element('div');
    row.append(element('dt', '', action), element('dd', '', keys));
    list.append(row);
  }
  created.append(head, list);
  closeBeside(created);
  document.body.append(created);
  return created;
}
