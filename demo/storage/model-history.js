/**
 * What a page remembers of models: which was used last, how each is talked to, how fast it was. In localStorage, but for
 * the handle of a file, which only IndexedDB can hold. What lies there may be anything: what isn't understood is absent.
 */
import { CATALOGUE } from '../models/catalogue.js';
import { paceOf } from '../models/expected-speed.js';

const [LAST, KNOWN, DOWNLOAD, VISITED] = ['bq4.model', 'bq4.models', 'bq4.download', 'bq4.visited'];
const [DATABASE, HANDLES] = ['bq4-demo', 'handles'];
/** Models of which something is remembered. */
const MAX_MODELS = 40;

/** A file among others. @typedef {{ file: File, place: string }} PlacedFile  `place`: its folders and name, as far as the browser tells */
/** A file, the address of one, or the files that a model is in. @typedef {Blob | string | PlacedFile[]} ModelSource */

/**
 * A model to be used.
 * @typedef {object} ModelChoice
 * @property {'bundled' | 'link' | 'file'} kind
 * @property {string} name           to show while the file hasn't said its own
 * @property {ModelSource} source
 * @property {string} key            what is remembered of it lies under this
 * @property {FileSystemHandle} [handle]  of the file, or of the folder that it is in
 * @property {number} [folder]       bytes of the folder that it is made of
 */

/**
 * The model that was used last.
 * @typedef {object} Last
 * @property {ModelChoice['kind']} kind
 * @property {string} name
 * @property {string} key
 * @property {number} bytes  of a file
 * @property {number} context  tokens; 0: the model's own
 * @property {boolean} folder  a folder, not a file
 */

/** How a model is talked to, and how fast it was. `integrity`: what its file must be. @typedef {{ format?: string, rate?: number, estimate?: number, at?: number, integrity?: string }} Facts */

/** @param {string} url @param {string} name @returns {ModelChoice} */
export const fromLink = (url, name) => ({ kind: 'link', name, source: url, key: url });
/** @param {File} file @param {FileSystemHandle} [handle] @returns {ModelChoice} */
export const fromFile = (file, handle) => ({
  kind: 'file',
  name: file.name,
  source: file,
  key: `file:${file.name}:${file.size}`,
  handle,
});

/** @param {PlacedFile[]} files */
const sizeOf = (files) => files.reduce((sum, { file }) => sum + file.size, 0);

/** @param {string} name @param {PlacedFile[]} files @param {boolean} folder  that is to be converted @returns {ModelChoice} */
export const fromFiles = (name, files, folder) => ({
  kind: 'file',
  name,
  source: files,
  key: `file:${name}:${sizeOf(files)}`,
  ...(folder && { folder: sizeOf(files) }),
});

/** @param {string} key @returns {any} */
export function read(key) {
  try {
    const value = JSON.parse(localStorage.getItem(key) ?? 'null');
    return value && typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

/** @param {string} key @param {object} value */
function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Then nothing is remembered.
  }
}

/** @returns {Last | null} */
export function lastModel() {
  const { kind, name, key, bytes, context, folder } = read(LAST) ?? {};
  const right =
    ['bundled', 'link', 'file'].includes(kind) &&
    [name, key].every((text) => typeof text === 'string') &&
    [bytes, context].every(Number.isInteger);
  return right ? { kind, name, key, bytes, context, folder: folder === true } : null;
}

/** @param {ModelChoice} choice @param {number} context  0: the model's own */
export function rememberModel({ kind, name, key, source, handle, folder }, context) {
  const bytes = typeof source === 'string' ? 0 : source instanceof Blob ? source.size : sizeOf(source);
  write(LAST, { kind, name, key, context, bytes: folder ?? bytes, folder: folder !== undefined });
  rememberHandle(handle ?? null);
}

/** The model of this address was deleted by a person, and is not the one to begin the next visit with. @param {string} url */
export function forgetModel(url) {
  if (lastModel()?.key === url) write(LAST, {});
  forgetDownload(url);
}

/** Whether nothing of a model can be stored yet: no page has asked before. A page that was left amid its first download has. */
export function isFirstVisit() {
  if (read(VISITED) || lastModel()) return false;
  write(VISITED, {});
  return true;
}

/** A download that was not complete when the page was last closed, or whose model was neither used nor dismissed. @returns {{ name: string, url: string, context: number, paused: boolean } | null} */
export function lastDownload() {
  const { name, url, context, paused } = read(DOWNLOAD) ?? {};
  const right = typeof name === 'string' && typeof url === 'string' && Number.isInteger(context);
  return right ? { name, url, context, paused: paused === true } : null;
}

/** @param {{ name: string, url: string, context: number } | null} download  null: none */
export const rememberDownload = (download) => write(DOWNLOAD, download ?? {});

/** Nothing is left to do for the download of this address. @param {string} url */
export function forgetDownload(url) {
  if (lastDownload()?.url === url) rememberDownload(null);
}

/** The download is not to go on by itself, or again. @param {boolean} paused */
export const rememberPause = (paused) => write(DOWNLOAD, { ...read(DOWNLOAD), paused });

/** Keys of files that a person deleted and that may still be there (models/deletion.js). */
export const DELETED = 'bq4.deleted';
export const hasDeletions = () => read(DELETED) !== null;

/** @param {string} key @returns {Facts} */
export function factsOf(key) {
  const facts = read(KNOWN)?.[key];
  return facts && typeof facts === 'object' ? facts : {};
}

/** What the file of an address must be, where that is known. @param {unknown} source */
export const integrityOf = (source) =>
  typeof source === 'string'
    ? (CATALOGUE.find(({ url }) => url === source)?.integrity ?? factsOf(source).integrity)
    : undefined;

/** @param {string} key @param {Facts} facts  that are new */
export function rememberFacts(key, facts) {
  const known = read(KNOWN) ?? {};
  const local = { ...factsOf(key), ...facts };
  delete known[key];
  const others = Object.entries(known).slice(1 - MAX_MODELS);
  write(KNOWN, { ...Object.fromEntries(others), [key]: local });
}

/** How much of what was estimated came here. */
export const paceHere = () => paceOf(Object.values(read(KNOWN) ?? {}));

/** @template T @param {(store: IDBObjectStore) => IDBRequest<T>} work @returns {Promise<T>} */
function inDatabase(work) {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open(DATABASE, 1);
    open.onupgradeneeded = () => open.result.createObjectStore(HANDLES);
    open.onerror = () => reject(open.error);
    open.onsuccess = () => {
      const transaction = open.result.transaction(HANDLES, 'readwrite');
      const request = work(transaction.objectStore(HANDLES));
      transaction.oncomplete = () => (open.result.close(), resolve(request.result));
      transaction.onerror = transaction.onabort = () => (open.result.close(), reject(transaction.error));
    };
  });
}

/** @param {FileSystemHandle | null} handle  of the model that is used, or tried */
export function rememberHandle(handle) {
  inDatabase((store) => /** @type {IDBRequest<any>} */ (handle ? store.put(handle, LAST) : store.delete(LAST))).catch(
    () => {},
  ); // then it has to be opened by hand
}

/** The file or folder that was used last, where the browser gives handles out. @returns {Promise<FileSystemHandle | null>} */
export const lastHandle = async () => (await inDatabase((store) => store.get(LAST)).catch(() => null)) ?? null;
