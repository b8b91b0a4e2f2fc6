/** The panel of stored models: what lies there, how much of it, and buttons to use, keep or delete it. */
import * as format from './format.js';
import { $ } from './page.js';
import { button, element } from './element.js';

/** @typedef {import('../js/store/types.js').Listed} Listed */
/**
 * @typedef {object} Shelf  the part of a store that the panel needs
 * @property {string} backend
 * @property {() => Promise<Listed[]>} list
 * @property {() => Promise<{ cachedBytes: number, usage: number, quota: number, persisted: boolean }>} usage
 * @property {(key: string) => Promise<unknown>} delete
 * @property {(key: string, on: boolean) => Promise<unknown>} pin
 */

const KINDS = { opfs: 'its private files', cache: 'its cache storage', indexeddb: 'its database', memory: 'memory, until the page is closed', file: 'a folder' };

export class StoragePanel {
  #shelf;
  #onUse;
  #onError;

  /**
   * @param {Shelf} shelf
   * @param {{ onUse: (url: string) => void, onError: (error: unknown) => void }} actions
   */
  constructor(shelf, { onUse, onError }) {
    this.#shelf = shelf;
    this.#onUse = onUse;
    this.#onError = onError;
  }

  async show() {
    try {
      const [list, { cachedBytes, usage, quota, persisted }] = await Promise.all([this.#shelf.list(), this.#shelf.usage()]);
      $('stored').replaceChildren(...list.map((file) => this.#row(file)));
      const where = KINDS[/** @type {keyof typeof KINDS} */ (this.#shelf.backend)] ?? this.#shelf.backend;
      const room = quota > usage ? `, room for ${format.bytes(quota - usage)} more` : '';
      $('stored-note').textContent = `${format.bytes(cachedBytes)} in this browser${room}; kept in ${where}${persisted ? ', for good' : ''}.`;
    } catch (error) {
      this.#onError(error);
    }
  }

  /** @param {Listed} file */
  #row(file) {
    const row = element('li', 'stored');
    row.dataset.url = file.url;
    const size = file.complete ? format.bytes(file.fileBytes) : `${format.bytes(file.cachedBytes)} of ${format.bytes(file.fileBytes)}`;
    const text = element('p', 'stored-name', file.name);
    text.append(element('small', '', size));
    const buttons = element('div', 'row');
    buttons.append(
      button(file.complete ? 'Use' : 'Go on', `${file.complete ? 'Use' : 'Go on loading'} ${file.name}`, () => this.#onUse(file.url)),
      this.#pin(file),
      button('Delete', `Delete ${file.name}`, () => this.#change(() => this.#shelf.delete(file.key))),
    );
    row.append(text, buttons);
    return row;
  }

  /** @param {Listed} file */
  #pin({ key, name, pinned }) {
    const made = button(pinned ? 'Kept' : 'Keep', `${pinned ? 'Kept' : 'Keep'} ${name} when storage is short`, () => {
      // What the person wants kept, the browser shall not delete by itself either. Some ask; nobody waits for the answer.
      if (!pinned) navigator.storage?.persist?.().catch(() => {});
      return this.#change(() => this.#shelf.pin(key, !pinned));
    });
    made.setAttribute('aria-pressed', String(pinned));
    return made;
  }

  /** @param {() => Promise<unknown>} work */
  async #change(work) {
    await work().catch(this.#onError);
    await this.show();
  }
}
