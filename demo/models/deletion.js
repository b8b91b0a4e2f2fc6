/**
 * Deletes a stored model with Undo. The list hides the model at once. Its files stay until the notice with Undo disappears or the page
 * is hidden, which may be the last event of a page. Until then a record in localStorage names the files and a lock is held, so that the
 * next visit can complete the deletion. Loaded on demand.
 */
import { showNotice, trouble } from '../page/alerts.js';
import { button, element } from '../page/element.js';
import * as format from '../page/format.js';
import { $ } from '../page/page.js';
import { DELETED, forgetModel, read } from '../storage/model-history.js';

/** @typedef {import('../../js/storage/cache/types.js').Listed} Listed */
/** @typedef {import('./picker.js').Store} Store */
/**
 * @typedef {object} Pending
 * @property {Listed} file
 * @property {string} name
 * @property {Store} store
 * @property {(error?: unknown) => void} onEnd  called when the files are deleted, or stay
 * @property {() => void} release  releases the lock
 */

const dialog = /** @type {HTMLDialogElement} */ ($('models'));
const note = $('models-deleted');

/** @type {Pending | null} */
let pending = null;
/** The notice above the message field. @type {HTMLElement | null} */
let card = null;

/** @param {string} key */
const lockOf = (key) => `bq4.deleting.${key}`;

/** Returns the recorded keys; invalid ones are ignored. @returns {string[]} */
function recorded() {
  const keys = read(DELETED);
  return Array.isArray(keys) ? keys.filter((key) => typeof key === 'string') : [];
}

/** @param {string} key @param {boolean} on */
function record(key, on) {
  const keys = [...recorded().filter((other) => other !== key), ...(on ? [key] : [])];
  try {
    if (keys.length) localStorage.setItem(DELETED, JSON.stringify(keys));
    else localStorage.removeItem(DELETED);
  } catch {
    // Storage is full or blocked: if the page is closed too early, nothing is deleted.
  }
}

/** The file whose deletion can still be undone. */
export const pendingFile = () => pending?.file ?? null;

const textOf = (/** @type {Pending} */ { name, file }) =>
  `${name} deleted (${format.bytes(file.complete ? file.fileBytes : file.cachedBytes)} freed).`;

/**
 * Hides the file until its deletion is complete or undone.
 * @param {Store} store
 * @param {Listed} file
 * @param {string} name
 * @param {Pending['onEnd']} onEnd
 */
export function deleteLater(store, file, name, onEnd) {
  void completeDeletion();
  const deletion = { file, name, store, onEnd, release: () => {} };
  pending = deletion;
  navigator.locks
    ?.request(lockOf(file.key), () => {
      if (pending !== deletion) return undefined;
      record(file.key, true);
      return new Promise((resolve) => (deletion.release = () => resolve(undefined)));
    })
    .catch(() => {});
  showDeletion();
}

/** Shows the deletion with Undo: in the dialog, or above the message field if the dialog is closed. */
export function showDeletion() {
  clearNotes();
  if (!pending) return;
  const deletion = pending;
  const text = textOf(deletion);
  if (dialog.open)
    return note.replaceChildren(element('span', '', text), button('Undo', `Undo: ${text}`, undoDeletion));
  card = showNotice(text, [{ text: 'Undo', run: undoDeletion }]);
  // A click on Undo removes the notice before it calls `undoDeletion`.
  card.addEventListener('removed', () => queueMicrotask(() => pending === deletion && void completeDeletion()));
}
dialog.addEventListener('close', showDeletion);

function clearNotes() {
  note.replaceChildren();
  card?.remove();
  card = null;
}

/** Restores the model in the list. */
export function undoDeletion() {
  if (!pending) return;
  const { file, release, onEnd } = pending;
  pending = null;
  clearNotes();
  record(file.key, false);
  release();
  onEnd();
}

/** Deletes the files now. */
export async function completeDeletion() {
  if (!pending) return;
  const deletion = pending;
  pending = null;
  clearNotes();
  const { store, file, name, onEnd } = deletion;
  /** @type {unknown} */
  let failure;
  forgetModel(file.url); // first, because a page that is being closed may not get further
  try {
    await store.delete(file.key);
  } catch (error) {
    failure = trouble(
      /** @type {any} */ (error).code ?? 'STORAGE',
      `${name} was not deleted`,
      'close other tabs that use it, then delete it again',
      error,
    );
  }
  record(file.key, false);
  deletion.release();
  onEnd(failure);
}

const completeWhenHidden = () => document.visibilityState === 'hidden' && void completeDeletion();
document.addEventListener('visibilitychange', completeWhenHidden);
addEventListener('pagehide', () => void completeDeletion());

/**
 * Completes the deletions of closed pages, except those that another tab can still undo.
 * @param {Store | null} store
 */
export async function completeRecorded(store) {
  if (!store) return;
  const files = await store.list().catch(() => []);
  for (const key of recorded())
    await navigator.locks
      ?.request(lockOf(key), { ifAvailable: true }, async (lock) => {
        if (!lock) return;
        await store.delete(key).then(
          () => forgetModel(files.find((file) => file.key === key)?.url ?? ''),
          () => {}, // the model is in use again
        );
        record(key, false);
      })
      .catch(() => {});
}
