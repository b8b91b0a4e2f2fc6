/** Closes the menus of messages and chats at a click outside, at Escape, and when another one is opened. Loaded on demand. */
import { isComposing } from './page.js';

/**
 * Closes the open menus that match, and returns the last one.
 * @param {(menu: HTMLDetailsElement) => boolean} matches
 */
function closeMenus(matches) {
  const all = /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll('details[open]:has(> .menu)'));
  const menus = [...all].filter(matches);
  for (const menu of menus) menu.open = false;
  return menus.at(-1);
}

/** @param {MouseEvent} event */
function closeOthers({ target }) {
  closeMenus((menu) => !menu.contains(/** @type {Node} */ (target)));
}

/** @param {KeyboardEvent} event */
function closeAtEscape(event) {
  if (event.key !== 'Escape' || event.defaultPrevented || isComposing(event)) return;
  const focused = document.activeElement;
  const modal = document.querySelector('dialog:modal');
  const closed = closeMenus((menu) => !modal || modal.contains(menu));
  if (!closed) return;
  event.preventDefault();
  // A user who types elsewhere stays there.
  if (!focused || focused === document.body || closed.parentElement?.contains(focused))
    closed.querySelector('summary')?.focus();
}

/** Watches all menus of the page. Further calls have no effect. */
export function watchMenus() {
  // At a click, not at the press before it: closing a menu moves what is below it.
  document.addEventListener('click', closeOthers);
  document.addEventListener('keydown', closeAtEscape);
}
