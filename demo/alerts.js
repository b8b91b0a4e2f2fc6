/** What people are told: errors with what happened, what to do and the code to search for; and mere news. */
import { button, element } from './element.js';

/** @typedef {{ text: string, run: () => void }} Action */

const alerts = /** @type {HTMLElement} */ (document.getElementById('alerts'));
const notices = /** @type {HTMLElement} */ (document.getElementById('notices'));

/** @param {HTMLElement} place */
function clear(place) {
  const focused = place.contains(document.activeElement);
  place.replaceChildren();
  // The keyboard goes on where people write.
  if (focused) document.getElementById('message')?.focus();
}

export const clearNotice = () => clear(notices);

/** All of them. */
export function clearAlert() {
  clear(alerts);
  clearNotice();
}

/** @param {HTMLElement} place @param {Action[]} actions */
function buttons(place, actions) {
  const made = element('div', 'alert-buttons');
  for (const { text, run } of actions) {
    made.append(
      button(text, text, () => {
        clear(place);
        run();
      }),
    );
  }
  made.append(button('Dismiss', 'Dismiss this message', () => clear(place)));
  return made;
}

/**
 * Replaces the one that is shown.
 * @param {unknown} error  a BqError, or anything
 * @param {...Action} actions  what may help
 */
export function showError(error, ...actions) {
  const { name, code, message, hint, offset } = /** @type {any} */ (
    error instanceof Error ? error : new Error(String(error))
  );
  const card = element('div', 'alert');
  card.setAttribute('role', 'alert');
  const text = element('div', 'alert-text');
  text.append(element('p', 'what', sentence(message)));
  if (hint) text.append(element('p', 'hint', sentence(hint)));
  text.append(
    element('code', 'code', `${code ?? name}${offset === null || offset === undefined ? '' : ` at byte ${offset}`}`),
  );
  card.append(text, buttons(alerts, actions));
  alerts.replaceChildren(card);
}

/** What is no error: spoken politely, and gone with the next turn. @param {string} text @param {Action[]} [actions] */
export function showNotice(text, actions = []) {
  const card = element('div', 'alert notice');
  card.append(element('p', 'alert-text', text), buttons(notices, actions));
  notices.replaceChildren(card);
}

/** A name that begins it keeps its case. @param {string} text */
const sentence = (text) =>
  `${/^[a-z]+[ ,:;]/.test(text) ? text[0].toUpperCase() + text.slice(1) : text}${/[.!?]$/.test(text) ? '' : '.'}`;

/** What goes wrong on the page itself, as `showError` shows it. @param {string} code @param {string} message @param {string} hint @param {unknown} [cause] */
export const trouble = (code, message, hint, cause) => Object.assign(new Error(message, { cause }), { code, hint });

/** An error of a load with what helps here. @param {unknown} error @param {'bundled' | 'link' | 'file'} kind @param {unknown} source */
export function helped(error, kind, source) {
  const { code, details, message } = /** @type {any} */ (error);
  if (kind !== 'link' || code !== 'NETWORK' || !details?.unreached || !navigator.onLine) return error;
  const elsewhere = new URL(String(source), location.href).origin !== location.origin;
  const why =
    'check the address; if it is right, its site may not let other pages read its files (CORS): download the file there and open it here';
  return elsewhere ? trouble(code, message, why, error) : error;
}
