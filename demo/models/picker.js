/**
 * The dialog of all models: those on this device, recommended ones, local files, Hugging Face, links. Loaded on demand.
 */
import * as format from '../page/format.js';
import { words } from './expected-speed.js';
import { offers } from './offers.js';
import { $, closeBeside, showDialog } from '../page/page.js';
import { factsOf, fromFile, fromLink } from '../storage/model-history.js';
import { button, element } from '../page/element.js';
import { deleteLater, pendingFile, showDeletion, undoDeletion } from './deletion.js';

/** @typedef {import('../../js/storage/cache/types.js').Listed} Listed */
/** @typedef {import('./catalogue.js').Offer} Offer */
/** @typedef {import('../storage/model-history.js').PlacedFile} PlacedFile */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */
/** @typedef {{ level?: number }} LoadOptions  as in models.js */
/**
 * @typedef {object} Store  the methods of the engine's store that the demo uses
 * @property {string} backend
 * @property {() => Promise<Listed[]>} list
 * @property {() => Promise<{ cachedBytes: number, usage: number, quota: number, persisted: boolean }>} usage
 * @property {(key: string) => Promise<unknown>} delete
 * @property {(key: string, on: boolean) => Promise<unknown>} pin
 */
/**
 * A row of the list: a recommended model, a stored one, or both.
 * @typedef {{ choice: ModelChoice, bytes: number, offer?: Offer, stored?: Listed }} Row
 */

const dialog = /** @type {HTMLDialogElement} */ ($('models'));
const search = /** @type {HTMLInputElement} */ ($('models-search'));
const field = /** @type {HTMLInputElement} */ ($('link'));
const [fileInput, folderInput] = ['file', 'folder'].map((id) => /** @type {HTMLInputElement} */ ($(id)));

/**
 * @typedef {object} Actions
 * @property {ModelChoice} bundled
 * @property {() => string} current  key of the model in use; '' if none
 * @property {() => string} downloading  key of the model that is being downloaded; '' if none
 * @property {() => ModelChoice | null} file  local file in use; null if none
 * @property {() => Store | null} store  null if this browser does not let the page store models
 * @property {(choice: ModelChoice, how?: LoadOptions) => void} onUse
 * @property {(offer: Offer) => void} onOffer
 * @property {(files: PlacedFile[], how?: LoadOptions) => void} onFiles  several files, or those of a folder
 * @property {(folder: FileSystemHandle, how?: LoadOptions) => void} onFolder
 * @property {(error: unknown) => void} onError
 * @property {(url: string) => Promise<void>} onDelete  called when the model of this address is deleted
 * @property {() => void} onChange  called after a model was deleted or pinned
 */

/** Undoes a pending deletion of this model, so that it is not downloaded again. @param {ModelChoice} choice */
function restore({ source }) {
  if (pendingFile()?.url === String(source)) undoDeletion();
}

export class Picker {
  #actions;
  /** @type {Row[]} */
  #rows = [];
  /** Options for the file that is being chosen. @type {LoadOptions} */
  #loadOptions = {};
  /** Aborts a search on Hugging Face. */
  #finding = new AbortController();

  /** @param {Actions} actions */
  constructor(actions) {
    this.#actions = actions;
    $('models-close').addEventListener('click', () => dialog.close());
    closeBeside(dialog);
    search.addEventListener('input', () => {
      this.#finding.abort();
      $('hub').hidden = true; // what was found there would hide the list
      this.#draw();
    });
    $('open').addEventListener('click', () => void this.chooseFile());
    $('open-folder').addEventListener('click', () => void this.chooseFolder());
    $('from-link').addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#find(field.value.trim());
    });
  }

  open() {
    search.value = '';
    $('hub').hidden = true;
    this.#draw();
    showDialog(dialog);
    showDeletion();
    void this.show();
  }

  /** Uses the address of a file; searches a repository name or words on Hugging Face. @param {string} text */
  async #find(text) {
    if (!text) return;
    const { named } = await import('./hub.js');
    const repo = named(text);
    if (/^https?:\/\//.test(text) && !repo) return this.#use(fromLink(text, format.nameOf(text)));
    this.#finding.abort();
    const { signal } = (this.#finding = new AbortController());
    const { showFound } = await import('./hub-list.js');
    await showFound($('hub'), repo ?? text, signal, (choice) => this.#use(choice));
  }

  /** Lets the user choose a folder in Hugging Face's layout. */
  async chooseFolder(level = 0) {
    this.#loadOptions = { level };
    const handle = await this.#pickHandle('showDirectoryPicker', {});
    if (!handle) return handle === undefined && folderInput.click();
    dialog.close();
    this.#actions.onFolder(handle, this.#loadOptions);
  }

  /**
   * Returns the handle of what the user picks, with which the next visit can open it again; undefined if the browser has no such
   * pickers, null if nothing was picked.
   * @param {string} method  name of the browser's function @param {object} options
   */
  async #pickHandle(method, options) {
    try {
      return await /** @type {any} */ (globalThis)[method]?.(options);
    } catch (error) {
      if (/** @type {any} */ (error).name !== 'AbortError') this.#actions.onError(error);
      return null;
    }
  }

  /** Uses chosen files. @param {File[]} files @param {FileSystemFileHandle} [handle]  if it is a single file */
  take(files, handle) {
    if (!files.length) return;
    dialog.close();
    const loadOptions = this.#loadOptions;
    this.#loadOptions = {};
    if (files.length === 1 && !files[0].webkitRelativePath)
      return this.#actions.onUse(fromFile(files[0], handle), loadOptions);
    const placed = files.map((file) => ({ file, place: file.webkitRelativePath || file.name }));
    this.#actions.onFiles(placed, loadOptions);
  }

  /** Lets the user choose a local file, or all parts of one. */
  async chooseFile(level = 0) {
    this.#loadOptions = { level };
    const handles = await this.#pickHandle('showOpenFilePicker', {
      multiple: true,
      types: [{ description: 'Models', accept: { 'application/octet-stream': ['.gguf', '.bq4'] } }],
    });
    if (!handles) return handles === undefined && fileInput.click();
    const read = handles.map((/** @type {FileSystemFileHandle} */ one) => one.getFile());
    await Promise.all(read).then((files) => this.take(files, handles[0]), this.#actions.onError);
  }

  /** @param {ModelChoice} choice @param {LoadOptions} [loadOptions] */
  #use(choice, loadOptions) {
    restore(choice);
    dialog.close();
    this.#actions.onUse(choice, loadOptions);
  }

  /** Reads the list of stored models again and draws it. */
  async show() {
    const { bundled, onError, file } = this.#actions;
    try {
      const store = this.#actions.store();
      const [all, room] = store ? await Promise.all([store.list(), store.usage()]) : [[], null];
      const deleted = all.find(({ key }) => key === pendingFile()?.key);
      const list = all.filter((file) => file !== deleted);
      /** @param {string} url */
      const stored = (url) => list.find((file) => file.url === url);
      const offered = (await offers()).map((offer) => ({
        choice: fromLink(offer.url, offer.name),
        bytes: offer.bytes,
        offer,
        stored: stored(offer.url),
      }));
      const storedBundled = stored(String(bundled.source));
      const ownFile = file();
      const shown = [bundled.source, ...offered.map(({ choice }) => choice.source)];
      this.#rows = [
        ...(ownFile
          ? [{ choice: ownFile, bytes: ownFile.source instanceof Blob ? ownFile.source.size : (ownFile.folder ?? 0) }]
          : []),
        { choice: bundled, bytes: storedBundled?.fileBytes ?? 0, stored: storedBundled },
        ...offered,
        ...list
          .filter(({ url }) => !shown.includes(url))
          .map((file) => ({ choice: fromLink(file.url, file.name), bytes: file.fileBytes, stored: file })),
      ];
      this.#draw();
      $('stored-note').textContent =
        store && room
          ? this.#note(store.backend, room, deleted?.cachedBytes ?? 0)
          : "This browser doesn't let the page store models.";
    } catch (error) {
      onError(error);
    }
  }

  /**
   * @param {string} backend
   * @param {{ cachedBytes: number, usage: number, quota: number }} room
   * @param {number} deleted  bytes of a file that is no longer listed
   */
  #note(backend, { cachedBytes, usage, quota }, deleted) {
    const freeNote = quota > usage ? ` ${format.bytes(quota - usage + deleted)} free.` : '';
    const lossNote = backend === 'memory' ? " This browser won't keep them after you close the page." : '';
    return `Models use ${format.bytes(cachedBytes - deleted)}.${freeNote}${lossNote}`;
  }

  #draw() {
    const sought = search.value.trim().toLowerCase();
    const shown = this.#rows.filter(({ choice }) => `${choice.name} ${choice.key}`.toLowerCase().includes(sought));
    const here = (/** @type {Row} */ { choice, stored }) => Boolean(stored) || choice.kind !== 'link';
    const group = (/** @type {string} */ title, /** @type {Row[]} */ rows) =>
      rows.length ? [element('li', 'group', title), ...rows.map((row) => this.#row(row))] : [];
    $('stored').replaceChildren(
      ...group('On this device', shown.filter(here)),
      ...group(
        'Recommended',
        shown.filter((row) => !here(row)),
      ),
    );
    $('models-none').hidden = shown.length > 0 || !sought;
  }

  /** @param {Row} row */
  #row({ choice, bytes, offer, stored }) {
    const { name, key } = choice;
    const isUsed = this.#actions.current() === key;
    const downloading = this.#actions.downloading() === key;
    const item = element('li', 'stored');
    item.dataset.key = key;
    if (stored) item.dataset.url = stored.url;
    const isPartial = stored && !stored.complete;
    const size = isPartial
      ? `${format.bytes(stored.cachedBytes)} of ${format.bytes(stored.fileBytes)} downloaded`
      : bytes
        ? format.bytes(bytes)
        : '';
    const { rate } = factsOf(key);
    const facts = [
      size,
      offer?.license,
      rate && `about ${words(rate)}`,
      choice.kind === 'file' && 'Your file',
      offer?.here && 'On this computer',
      stored?.complete && choice.kind !== 'bundled' && 'Downloaded',
    ];
    const text = element('p', 'stored-name', name);
    if (offer?.use) text.append(element('small', '', offer.use));
    text.append(element('small', 'facts-line', facts.filter(Boolean).join(' · ')));
    const [verb, label] = isUsed
      ? ['✓ In use', `${name} is in use`]
      : downloading
        ? ['Downloading', `${name} is being downloaded`]
        : isPartial
          ? ['Resume', `Resume the download of ${name}`]
          : stored?.complete || choice.kind !== 'link' || offer?.here
            ? ['Use', `Use ${name}`]
            : ['Download…', `Download ${name}`];
    const use = button(verb, label, () => {
      if (!offer?.repo || stored) return this.#use(choice);
      restore(choice);
      dialog.close();
      this.#actions.onOffer(offer);
    });
    use.disabled = isUsed || downloading;
    use.className = use.disabled ? '' : verb === 'Download…' ? 'offered' : 'filled';
    const buttons = element('div', 'row');
    if (stored) buttons.append(this.#keep(stored, name), this.#delete(stored, name));
    buttons.append(use);
    item.append(text, buttons);
    return item;
  }

  /** @param {Listed} file @param {string} name */
  #keep({ key, pinned }, name) {
    const toggle = button(pinned ? 'Kept' : 'Keep', `${pinned ? 'Kept' : 'Keep'}: ${name}`, () => {
      // Requests persistent storage. Some browsers ask the user; the answer is not awaited.
      if (!pinned) navigator.storage?.persist?.().catch(() => {});
      return this.#change((store) => store.pin(key, !pinned));
    });
    toggle.title = "Won't be deleted when space is short";
    toggle.setAttribute('aria-pressed', String(pinned));
    return toggle;
  }

  /** @param {Listed} file @param {string} name */
  #delete(file, name) {
    const deleteButton = button('Delete', `Delete ${name} from this browser`, () =>
      this.#change(async (store) => {
        await this.#actions.onDelete(file.url);
        deleteLater(store, file, name, (error) => {
          if (error) this.#actions.onError(error);
          void this.#change(async () => {});
        });
      }),
    );
    deleteButton.classList.add('danger');
    return deleteButton;
  }

  /** Changes the store, then draws the list. @param {(store: Store) => Promise<unknown>} change */
  async #change(change) {
    const store = this.#actions.store();
    if (store) await change(store).catch(this.#actions.onError);
    await this.show();
    // The pressed button was replaced or removed, and the focus with it.
    if (dialog.open && !dialog.contains(document.activeElement)) search.focus();
    this.#actions.onChange();
  }
}
