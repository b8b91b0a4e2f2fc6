/**
 * The menu of a message: read aloud, rate as bad, save as picture, save as prompt, delete. Loaded when a menu is first
 * opened.
 */
import { showError, showNotice } from '../page/alerts.js';
import { button } from '../page/element.js';
import { watchMenus } from '../page/menus.js';
import { say } from '../page/page.js';
import { deleteMessage } from './message-deletion.js';

/** @typedef {import('./tree.js').Entry} Entry */

/** Characters of one utterance: some speech engines stop after half a minute of one utterance. */
const SPOKEN_AT_ONCE = 200;

watchMenus();

/**
 * Adds the buttons to an empty menu.
 * @param {Entry} entry @param {HTMLElement} menu
 * @param {{ current: import('./conversation.js').Current, idle: () => boolean, focusAt: (at: number) => void }} page
 *   `idle`: whether no reply is being written
 */
export function fillMenu(entry, menu, { current, idle, focusAt }) {
  const isReply = entry.role === 'assistant';
  if (isReply && 'speechSynthesis' in globalThis) menu.append(readAloudButton(entry));
  if (isReply) menu.append(ratingButton(entry, current), imageButton(entry, current));
  if (!isReply)
    menu.append(
      button(
        'Save as prompt',
        'Save this message as a prompt: type / to insert it',
        () => void import('./prompts.js').then(({ keepPrompt }) => keepPrompt(entry.content), showError),
      ),
    );
  menu.append(
    button('Delete', isReply ? 'Delete this reply' : 'Delete this message and its reply', () => {
      if (!idle()) return;
      const at = current.path.indexOf(entry);
      const restore = deleteMessage(entry, current);
      const undo = () => (restore(), say('Restored.'));
      focusAt(Math.min(at, current.path.length - 1));
      say('Deleted.');
      showNotice('Message deleted.', [{ text: 'Undo', run: undo }]);
    }),
  );
  const show = () => menu.lastElementChild?.scrollIntoView({ block: 'nearest' });
  menu.parentElement?.addEventListener('toggle', show);
  show();
}

/**
 * Returns the text of a reply without Markdown and code, in pieces that end with a sentence if possible.
 * @param {string} text
 * @returns {string[]}
 */
export function spokenPieces(text) {
  const plain = text
    .replace(/^(`{3,}|~{3,})[^]*?(^\1|$(?![^]))/gm, ' ')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/^[ \t]*([#>]+|[-*+]|\|)[ \t]+/gm, '')
    .replace(/[*_`~|]+/g, '');
  const sentences = plain.match(/[^.!?\n。！？]+[.!?。！？]*\s*|[.!?。！？]+\s*/g) ?? [];
  /** @type {string[]} */
  const pieces = [];
  for (const sentence of sentences) {
    const last = pieces.at(-1);
    if (last !== undefined && last.length + sentence.length <= SPOKEN_AT_ONCE) pieces[pieces.length - 1] += sentence;
    else pieces.push(sentence);
  }
  return pieces.map((piece) => piece.replace(/\s+/g, ' ').trim()).filter(Boolean);
}

/** @param {Entry} entry */
function readAloudButton(entry) {
  const read = button('Read aloud', 'Read aloud: the reply', () => {
    const isReading = read.getAttribute('aria-pressed') === 'true';
    speechSynthesis.cancel();
    if (isReading) return setReading(false);
    const pieces = spokenPieces(entry.content);
    for (const [i, piece] of pieces.entries()) {
      const utterance = new SpeechSynthesisUtterance(piece);
      // Without voices, nothing starts.
      utterance.onstart = () => setReading(true);
      if (i === pieces.length - 1) utterance.onend = () => setReading(false);
      utterance.onerror = () => setReading(false);
      speechSynthesis.speak(utterance);
    }
  });
  const setReading = (/** @type {boolean} */ isReading) => {
    read.setAttribute('aria-pressed', String(isReading));
    read.textContent = isReading ? 'Stop reading' : 'Read aloud';
  };
  return read;
}

/** Whether the device can share pictures. */
const sharesImages = () =>
  'canShare' in navigator && navigator.canShare({ files: [new File([], 'a.png', { type: 'image/png' })] });

/**
 * Returns the button that shares the picture of a reply, or saves it if the device cannot share pictures.
 * @param {Entry} entry
 * @param {import('./conversation.js').Current} current
 */
function imageButton(entry, current) {
  const verb = sharesImages() ? 'Share' : 'Save';
  const question = () => current.path[current.path.indexOf(entry) - 1]?.content ?? '';
  return button(`${verb} as picture`, `${verb} the question and this reply as a picture`, () => {
    import('./message-image.js')
      .then(({ shareImage }) => shareImage(question(), entry.content, sharesImages()))
      .catch(showError);
  });
}

/** @param {Entry} entry @param {import('./conversation.js').Current} current */
function ratingButton(entry, current) {
  const rate = button('Bad reply', 'Mark as a bad reply, on this device only', () => {
    if (entry.rating) delete entry.rating;
    else entry.rating = 'bad';
    current.save();
    show();
  });
  const show = () => {
    rate.setAttribute('aria-pressed', String(entry.rating === 'bad'));
    rate.textContent = entry.rating ? 'Bad reply ✓' : 'Bad reply';
  };
  show();
  return rate;
}
