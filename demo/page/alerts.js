/** Messages to the user: errors, with a hint and folded technical details, and notices. */
import { button, element } from './element.js';
import { sentence } from './format.js';
import { focusMessage } from './page.js';

/** @typedef {{ text: string, run: () => void }} Action */

const alerts = /** @type {HTMLElement} */ (document.getElementById('alerts'));
const notices = /** @type {HTMLElement} */ (document.getElementById('notices'));

/** @param {Iterable<Element>} cards */
function clear(cards) {
  const focused = document.activeElement;
  for (const card of [...cards]) {
    card.remove();
    card.dispatchEvent(new Event('removed'));
  }
  // If the focused button was removed, the focus moves to the message field.
  if (focused && !focused.isConnected) focusMessage();
}

const passing = () => notices.querySelectorAll('.notice:not(.stays)');

export const clearNotice = () => clear(passing());

/** Removes the error and all notices that do not stay. */
export function clearAlert() {
  clear(alerts.children);
  clearNotice();
}

/** @param {Element} card @param {Action[]} actions @param {() => void} [onDismiss] */
function buttons(card, actions, onDismiss) {
  const output = element('div', 'alert-buttons');
  for (const { text, run } of actions) {
    output.append(
      button(text, text, () => {
        clear([card]);
        run();
      }),
    );
  }
  output.append(
    button('Dismiss', 'Dismiss this message', () => {
      clear([card]);
      onDismiss?.();
    }),
  );
  return output;
}

/**
 * Shows an error in place of the previous one.
 * @param {unknown} error  a BqError or any other value
 * @param {...Action} actions  buttons that may help
 */
export function showError(error, ...actions) {
  const { name, code, message, hint, offset, cause } = /** @type {any} */ (
    error instanceof Error ? error : new Error(String(error))
  );
  const detail = cause?.message ?? message;
  const card = element('div', 'alert');
  card.setAttribute('role', 'alert');
  const text = element('div', 'alert-text');
  text.append(element('p', 'what', sentence(message)));
  if (hint) text.append(element('p', 'hint', sentence(hint)));
  const more = element('details', 'more');
  more.append(
    element('summary', '', 'Details'),
    element('code', 'code', `${code ?? name}${offset === null || offset === undefined ? '' : ` at byte ${offset}`}`),
    element('p', '', detail === message ? '' : sentence(detail)),
  );
  text.append(more);
  card.append(text, buttons(card, actions));
  alerts.replaceChildren(card);
}

/**
 * Shows a notice, which is removed at the next turn unless it stays.
 * @param {string} text
 * @param {Action[]} [actions]
 * @param {boolean} [stays]
 * @param {() => void} [onDismiss]
 */
export function showNotice(text, actions = [], stays = false, onDismiss) {
  const card = element('div', stays ? 'alert notice stays' : 'alert notice');
  card.append(element('p', 'alert-text', text), buttons(card, actions, onDismiss));
  clear(stays ? notices.querySelectorAll('.stays') : passing());
  notices.append(card);
  return card;
}

/**
 * Makes an error of the page for `showError`.
 * @param {string} code
 * @param {string} message
 * @param {string} hint
 * @param {unknown} [cause]
 * @param {object} [details]
 */
export const trouble = (code, message, hint, cause, details) =>
  Object.assign(new Error(message, { cause }), { code, hint, details });
