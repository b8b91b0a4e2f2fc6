/** The page's parts by name, and the small things that are done to them. */

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

/** Screen readers speak this: it changes with what happens, never with every token. @param {string} text */
export function say(text) {
  $('status').textContent = text;
}

/** @param {boolean} loading  begins with nothing known */
export function showLoading(loading) {
  if (progress.hidden === !loading) return;
  progress.hidden = !loading;
  progress.removeAttribute('value');
  $('amount').textContent = loading ? 'Loading…' : '';
}

/** @param {number} done @param {number} total  0: not known @param {string} words  the same for people */
export function showProgress(done, total, words) {
  if (total) progress.value = done / total;
  $('amount').textContent = words;
}

/** The message field becomes as high as its text, up to what the style sheet allows. */
export function grow() {
  message.style.height = 'auto';
  message.style.height = `${message.scrollHeight}px`;
}

/**
 * Whether a key is one of an input method that puts a character together. Safari tells of the Enter that accepts one after the
 * composition has ended: only the old code of such keys marks it.
 * @param {KeyboardEvent} event
 */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

/** @param {(text: string) => void} submit  called for Enter and the button; Shift+Enter starts a line @param {() => boolean} editLast  for the arrow upwards in an empty field */
export function onMessage(submit, editLast) {
  $('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    submit(message.value);
    message.focus();
  });
  message.addEventListener('input', grow);
  message.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowUp' && !message.value && editLast()) event.preventDefault();
    if (event.key !== 'Enter' || event.shiftKey || isComposing(event)) return;
    event.preventDefault();
    submit(message.value);
  });
}

/** The mark shows four bits: at rest the 4 of bq4, while a reply is written its tokens by eights. @param {number} [tokens] */
export function countOn(tokens) {
  const value = tokens === undefined ? 4 : tokens >> 3;
  [...$('nibble').children].forEach((bit, i) => bit.classList.toggle('on', Boolean(value & (8 >> i))));
}

/**
 * A press beside a dialog closes it: not one on its edge, and none that began inside, as the selection of a text may, or a press
 * on a button that moves away.
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
  // Chromium gives a text field its focus back, but not what is typed, until it has been focused once more.
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

/** What stands beside the conversation, remembered. theme.js shows it again before the first paint. @param {'details' | 'sidebar'} name @param {boolean} open */
export function rememberPanel(name, open) {
  try {
    const { panels } = JSON.parse(localStorage.getItem('bq4.panels') ?? '{}');
    localStorage.setItem('bq4.panels', JSON.stringify({ panels: { ...panels, [name]: open } }));
  } catch {
    // Then nothing is remembered.
  }
}

/** At the side where there is room for it; else it takes the conversation's place. */
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
 * The keyboard never falls out of the page: where what had the focus was hidden, disabled or taken away, people go on
 * writing; on a touch screen, where that would bring up the keyboard, reading.
 * @param {Element | null} before  what had it
 * @param {HTMLElement} [back]  where it is to go, if it can
 */
export function keepFocus(before, back) {
  const now = document.activeElement;
  const lost =
    !now ||
    now === document.body ||
    (now instanceof HTMLElement && (!now.checkVisibility() || now.matches(':disabled')));
  if (!lost || before === null || before === document.body) return;
  if (back?.checkVisibility() && !back.matches(':disabled')) back.focus();
  else if (matchMedia('(hover: hover)').matches) message.focus();
  else $('log').focus();
}
