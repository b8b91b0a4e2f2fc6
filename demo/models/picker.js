/** All models in one place: the bundled one, those on offer, what is stored, a file or an address of one's own. */
import * as format from '../page/format.js';
import { offers } from './offers.js';
import { $, showDialog } from '../page/page.js';
import { fromFile, fromLink } from '../storage/model-history.js';
import { button, element } from '../page/element.js';

/** @typedef {import('../../js/storage/cache/types.js').Listed} Listed */
/** @typedef {import('./offers.js').Offer} Offer */
/** @typedef {import('../storage/model-history.js').Placed} Placed */
/** @typedef {import('../storage/model-history.js').Wanted} Wanted */
/** @typedef {{ level?: number }} How  as of Models */
/**
 * @typedef {object} Shelf  the part of a store that is needed here
 * @property {string} backend
 * @property {() => Promise<Listed[]>} list
 * @property {() => Promise<{ cachedBytes: number, usage: number, quota: number, persisted: boolean }>} usage
 * @property {(key: string) => Promise<unknown>} delete
 * @property {(key: string, on: boolean) => Promise<unknown>} pin
 */
/** A row: what is offered, what of it is stored, or both. @typedef {{ wanted: Wanted, bytes: number, license?: string, here?: boolean, stored?: Listed }} Row */

const KINDS = {
  opfs: 'its private files',
  cache: 'its cache storage',
  indexeddb: 'its database',
  memory: 'memory, until the page is closed',
  file: 'a folder',
};

const dialog = /** @type {HTMLDialogElement} */ ($('models'));
const search = /** @type {HTMLInputElement} */ ($('models-search'));
const field = /** @type {HTMLInputElement} */ ($('link'));
const [fileInput, folderInput] = ['file', 'folder'].map((id) => /** @type {HTMLInputElement} */ ($(id)));

/**
 * @typedef {object} Actions
 * @property {Wanted} bundled
 * @property {() => string} current  key of the model in use; '': none
 * @property {() => Shelf | null} shelf
 * @property {(wanted: Wanted, how?: How) => void} onUse
 * @property {(files: Placed[], how?: How) => void} onFiles  several, or a folder's
 * @property {(folder: FileSystemHandle, how?: How) => void} onFolder
 * @property {(error: unknown) => void} onError
 * @property {() => void} onChange  something was deleted or pinned
 */

export class Picker {
  #actions;
  /** @type {Row[]} */
  #rows = [];
  /** How to load the file that is being chosen. @type {How} */
  #how = {};

  /** @param {Actions} actions */
  constructor(actions) {
    this.#actions = actions;
    $('model-name').addEventListener('click', () => this.open());
    $('models-close').addEventListener('click', () => dialog.close());
    search.addEventListener('input', () => this.#draw());
    $('open').addEventListener('click', () => void this.chooseFile());
    $('open-folder').addEventListener('click', () => void this.chooseFolder());
    for (const input of [fileInput, folderInput]) {
      input.addEventListener('change', () => {
        const files = [...(input.files ?? [])];
        input.value = '';
        this.#take(files);
      });
    }
    $('from-link').addEventListener('submit', (event) => {
      event.preventDefault();
      const url = format.fileAddress(field.value.trim());
      if (url) this.#use(fromLink(url, format.nameOf(url)));
    });
  }

  open() {
    search.value = '';
    this.#draw();
    showDialog(dialog);
    void this.show();
  }

  /** A folder in Hugging Face's layout. */
  async chooseFolder(level = 0) {
    this.#how = { level };
    const handle = await this.#picked('showDirectoryPicker', {});
    if (!handle) return handle === undefined && folderInput.click();
    dialog.close();
    this.#actions.onFolder(handle, this.#how);
  }

  /** What the person picks, as browsers give it that can open it again at the next visit; undefined: this one can't, null: nothing was picked. @param {string} how @param {object} options */
  async #picked(how, options) {
    try {
      return await /** @type {any} */ (globalThis)[how]?.(options);
    } catch (error) {
      if (/** @type {any} */ (error).name !== 'AbortError') this.#actions.onError(error);
      return null;
    }
  }

  /** @param {File[]} files @param {FileSystemFileHandle} [handle]  of a single one */
  #take(files, handle) {
    if (!files.length) return;
    dialog.close();
    if (files.length === 1 && !files[0].webkitRelativePath)
      return this.#actions.onUse(fromFile(files[0], handle), this.#how);
    const placed = files.map((file) => ({ file, place: file.webkitRelativePath || file.name }));
    this.#actions.onFiles(placed, this.#how);
  }

  /** A file of one's own, or all parts of one. */
  async chooseFile(level = 0) {
    this.#how = { level };
    const handles = await this.#picked('showOpenFilePicker', {
      multiple: true,
      types: [{ description: 'Models', accept: { 'application/octet-stream': ['.gguf', '.bq4'] } }],
    });
    if (!handles) return handles === undefined && fileInput.click();
    const read = handles.map((/** @type {FileSystemFileHandle} */ one) => one.getFile());
    await Promise.all(read).then((files) => this.#take(files, handles[0]), this.#actions.onError);
  }

  /** @param {Wanted} wanted @param {How} [how] */
  #use(wanted, how) {
    dialog.close();
    this.#actions.onUse(wanted, how);
  }

  /** Looks again at what is stored. */
  async show() {
    const { bundled, shelf, onError } = this.#actions;
    try {
      const store = shelf();
      const [list, room] = store ? await Promise.all([store.list(), store.usage()]) : [[], null];
      /** @param {string} url */
      const stored = (url) => list.find((file) => file.url === url);
      const offered = (await offers()).map(({ name, url, ...rest }) => ({
        ...rest,
        wanted: fromLink(url, name),
        stored: stored(url),
      }));
      const kept = stored(String(bundled.source));
      const shown = [bundled.source, ...offered.map(({ wanted }) => wanted.source)];
      this.#rows = [
        { wanted: bundled, bytes: kept?.fileBytes ?? 0, stored: kept },
        ...offered,
        ...list
          .filter(({ url }) => !shown.includes(url))
          .map((file) => ({ wanted: fromLink(file.url, file.name), bytes: file.fileBytes, stored: file })),
      ];
      this.#draw();
      $('stored-note').textContent =
        store && room ? this.#note(store.backend, room) : 'This browser lets the page store nothing.';
    } catch (error) {
      onError(error);
    }
  }

  /** @param {string} backend @param {{ cachedBytes: number, usage: number, quota: number, persisted: boolean }} room */
  #note(backend, { cachedBytes, usage, quota, persisted }) {
    const where = KINDS[/** @type {keyof typeof KINDS} */ (backend)] ?? backend;
    const more = quota > usage ? `, room for ${format.bytes(quota - usage)} more` : '';
    return `${format.bytes(cachedBytes)} of models in this browser${more}; kept in ${where}${persisted ? ', for good' : ''}.`;
  }

  #draw() {
    const words = search.value.trim().toLowerCase();
    const shown = this.#rows.filter(({ wanted }) => `${wanted.name} ${wanted.key}`.toLowerCase().includes(words));
    $('stored').replaceChildren(...shown.map((row) => this.#row(row)));
    $('models-none').hidden = shown.length > 0 || !words;
  }

  /** @param {Row} row */
  #row({ wanted, bytes, license, here, stored }) {
    const { name, key } = wanted;
    const used = this.#actions.current() === key;
    const made = element('li', 'stored');
    made.dataset.key = key;
    if (stored) made.dataset.url = stored.url;
    const part = stored && !stored.complete;
    const size = part
      ? `${format.bytes(stored.cachedBytes)} of ${format.bytes(stored.fileBytes)} stored`
      : bytes
        ? format.bytes(bytes)
        : '';
    const facts = [size, license, here && 'on this machine', stored?.complete && 'stored', used && 'in use'];
    const text = element('p', 'stored-name', name);
    text.append(element('small', '', facts.filter(Boolean).join(' · ')));
    const [verb, label] = part
      ? ['Resume', `Resume the download of ${name}`]
      : stored?.complete || wanted.kind === 'bundled'
        ? ['Use', `Use ${name}`]
        : ['Check', `Check what ${name} takes`];
    const use = button(verb, label, () => this.#use(wanted));
    use.disabled = used;
    use.classList.remove('quiet');
    const buttons = element('div', 'row');
    if (stored) buttons.append(this.#pin(stored, name), this.#delete(stored, name));
    buttons.append(use);
    made.append(text, buttons);
    return made;
  }

  /** @param {Listed} file @param {string} name */
  #pin({ key, pinned }, name) {
    const made = button(
      pinned ? 'Pinned' : 'Pin',
      `${pinned ? 'Pinned' : 'Pin'}: ${name} stays when storage is short`,
      () => {
        // What the person wants kept, the browser shall not delete by itself either. Some ask; nobody waits for the answer.
        if (!pinned) navigator.storage?.persist?.().catch(() => {});
        return this.#change((shelf) => shelf.pin(key, !pinned));
      },
    );
    made.setAttribute('aria-pressed', String(pinned));
    return made;
  }

  /** @param {Listed} file @param {string} name */
  #delete({ key }, name) {
    const made = button('Delete', `Delete ${name} from this browser`, () => this.#change((shelf) => shelf.delete(key)));
    made.classList.add('danger');
    return made;
  }

  /** @param {(shelf: Shelf) => Promise<unknown>} work */
  async #change(work) {
    const shelf = this.#actions.shelf();
    if (shelf) await work(shelf).catch(this.#actions.onError);
    await this.show();
    // The button that was pressed has been drawn anew, or is gone.
    if (dialog.open && !dialog.contains(document.activeElement)) search.focus();
    this.#actions.onChange();
  }
}
