/** Errors as people see them: what happened, what to do, and the code to search for. */
import { button, element } from './view.js';

const place = /** @type {HTMLElement} */ (document.getElementById('alerts'));

export function clearAlert() {
  place.replaceChildren();
}

/**
 * Replaces the one that is shown.
 * @param {unknown} error  a BqError, or anything
 * @param {{ text: string, run: () => void }} [action]  what may help
 */
export function showError(error, action) {
  const { name, code, message, hint, offset } = /** @type {any} */ (error instanceof Error ? error : new Error(String(error)));
  const card = element('div', 'alert');
  card.setAttribute('role', 'alert');
  const text = element('div', 'alert-text');
  text.append(element('p', 'what', sentence(message)));
  if (hint) text.append(element('p', 'hint', sentence(hint)));
  text.append(element('code', 'code', `${code ?? name}${offset === null || offset === undefined ? '' : ` at byte ${offset}`}`));
  const buttons = element('div', 'alert-buttons');
  if (action) {
    buttons.append(button(action.text, action.text, () => {
      clearAlert();
      action.run();
    }));
  }
  buttons.append(button('Dismiss', 'Dismiss this message', () => {
    clearAlert();
    document.getElementById('message')?.focus();
  }));
  card.append(text, buttons);
  place.replaceChildren(card);
}

/** @param {string} text */
const sentence = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

/** What goes wrong on the page itself, as `showError` shows it. @param {string} code @param {string} message @param {string} hint @param {unknown} [cause] */
export const trouble = (code, message, hint, cause) => Object.assign(new Error(message, { cause }), { code, hint });
