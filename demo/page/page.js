/** Elements of the page, and small functions for them. */

/** @param {string} id @returns {HTMLElement} */
export const $ = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

export const message = /** @type {HTMLTextAreaElement} */ ($('message'));
export const send = /** @type {HTMLButtonElement} */ ($('send'));
export const stop = /** @type {HTMLButtonElement} */ ($('stop'));
export const newChat = /** @type {HTMLButtonElement} */ ($('new-chat'));
export const plain = /** @type {HTMLInputElement} */ ($('plain'));
export const chips = [...document.querySelectorAll('button.chip')].map(
  (chip) => /** @type {HTMLButtonElement} */ (chip),
);
const progress = /** @type {HTMLProgressElement} */ ($('progress'));

/** Announces a status to screen readers. Not called for each token. @param {string} text */
export function say(text) {
  $('status').textContent = text;
}

/** Shows or hides the progress bar; at first its value is unknown. @param {boolean} loading */
export function showLoading(loading) {
  if (progress.hidden === !loading) return;
  progress.hidden = !loading;
  progress.removeAttribute('value');
  $('amount').textContent = loading ? 'Loading…' : '';
}

/** @param {number} done @param {number} total  0 if unknown @param {string} words  text beside the bar */
export function showProgress(done, total, words) {
  if (total) progress.value = done / total;
  $('amount').textContent = words;
}

/**
 * Length, in characters, of the longest text whose paragraphs have directions of their own. Laying them out takes Chromium a time that
 * grows with the square of the longest paragraph: half a minute for 2 million characters.
 */
const MAX_DIRECTED = 100_000;

/** Gives a long text one direction. Called before it is laid out. @param {HTMLElement} field @param {number} length  of the text */
export const limitDirections = (field, length) => field.classList.toggle('long', length > MAX_DIRECTED);

/** Sets the height of the message field to that of its text, up to the limit in the style sheet. */
export function grow() {
  limitDirections(message, message.value.length);
  message.style.height = 'auto';
  message.style.height = `${message.scrollHeight}px`;
}

/**
 * Whether a key belongs to the composition of a character by an input method. Safari sends the Enter that accepts a character after the
 * composition has ended; it is only recognised by the old key code 229.
 * @param {KeyboardEvent} event
 */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

const touch = matchMedia('(pointer: coarse)');

/**
 * Whether a key press sends a text: Enter; on touch screens, whose keyboards have no Shift+Enter, only Ctrl+Enter or Cmd+Enter.
 * @param {KeyboardEvent} event
 */
export const isSendKey = (event) =>
  event.key === 'Enter' && !event.shiftKey && !isComposing(event) && (!touch.matches || event.ctrlKey || event.metaKey);

/**
 * Focuses the message field; on touch screens, where that opens a keyboard over the conversation, it loses the focus
 * instead.
 */
export const focusMessage = () => (touch.matches ? message.blur() : message.focus());

/**
 * @param {(text: string) => void} submit  called for the keys that send and for the button
 * @param {() => boolean} editLast  called for the arrow up key in an empty field
 */
export function onMessage(submit, editLast) {
  if (touch.matches) message.enterKeyHint = 'enter';
  $('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    submit(message.value);
    focusMessage();
  });
  document.addEventListener('beforeinput', ({ target, data }) => {
    if (target instanceof HTMLTextAreaElement) limitDirections(target, target.value.length + (data?.length ?? 0));
  });
  message.addEventListener('input', grow);
  message.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowUp' && !message.value && editLast()) event.preventDefault();
    if (!isSendKey(event)) return;
    event.preventDefault();
    submit(message.value);
  });
}

/**
 * Sets the four squares of the logo: at rest the binary 4 of bq4, while a reply is written the tokens divided by 8.
 * @param {number} [tokens]
 */
export function countOn(tokens) {
  const value = tokens === undefined ? 4 : tokens >> 3;
  [...$('nibble').children].forEach((bit, i) => bit.classList.toggle('on', Boolean(value & (8 >> i))));
}

/**
 * Closes a dialog at a click outside of it. Clicks on its edge do not count, nor clicks that began inside, such as the selection of a
 * text or a click on a button that moved.
 * @param {HTMLDialogElement} dialog @param {() => void} [close]
 */
export function closeBeside(dialog, close = () => dialog.close()) {
  const isBeside = (/** @type {MouseEvent} */ { target, clientX: x, clientY: y }) => {
    const { left, right, top, bottom } = dialog.getBoundingClientRect();
    return target === dialog && (x < left || x > right || y < top || y > bottom);
  };
  let beganBeside = false;
  dialog.addEventListener('pointerdown', (event) => (beganBeside = isBeside(event)));
  dialog.addEventListener('click', (event) => beganBeside && isBeside(event) && close());
}

/** Opens a dialog; focus goes into it, and back to where it was. @param {HTMLDialogElement} dialog */
export function showDialog(dialog) {
  if (dialog.open) return;
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  dialog.showModal();
  // Chromium restores the focus of a text field, but the field gets no key presses until it is focused again.
  dialog.addEventListener(
    'close',
    () => {
      if (document.activeElement !== before) return;
      before?.blur();
      before?.focus();
    },
    { once: true },
  );
}

/**
 * Remembers whether a panel next to the conversation is open. theme.js restores it before the first paint.
 * @param {'details' | 'sidebar'} name
 * @param {boolean} open
 */
export function rememberPanel(name, open) {
  try {
    const { panels } = JSON.parse(localStorage.getItem('bq4.panels') ?? '{}');
    localStorage.setItem('bq4.panels', JSON.stringify({ panels: { ...panels, [name]: open } }));
  } catch {
    // Storage is blocked: nothing is remembered.
  }
}

/** The details panel: next to the conversation if the window is wide enough, else in place of it. */
export const details = {
  wide: matchMedia('(min-width: 64rem)'),

  get open() {
    return document.documentElement.hasAttribute('data-details');
  },

  set open(open) {
    document.documentElement.toggleAttribute('data-details', open);
    $('details-toggle').setAttribute('aria-expanded', String(open));
  },
};

/**
 * Moves the focus if the focused element was hidden, disabled or removed: to `back`, else to the message field; on touch screens, where
 * that would open the keyboard, to the conversation.
 * @param {Element | null} before  element that had the focus
 * @param {HTMLElement} [back]
 */
export function keepFocus(before, back) {
  const now = document.activeElement;
  const isLost =
    !now ||
    now === document.body ||
    (now instanceof HTMLElement && (!now.checkVisibility() || now.matches(':disabled')));
  if (!isLost || before === null || before === document.body) return;
  if (back?.checkVisibility() && !back.matches(':disabled')) back.focus();
  else if (matchMedia('(hover: hover)').matches) message.focus();
  else $('log').focus();
}
