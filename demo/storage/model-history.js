/**
 * Data about models that is kept between visits: the model used last, and the chat template and speed of each. In localStorage, except
 * file handles (file-handles.js). Invalid data counts as absent.
 */
import { CATALOGUE } from '../models/catalogue.js';
import { paceOf } from '../models/expected-speed.js';

const [LAST, KNOWN, DOWNLOAD, VISITED] = ['bq4.model', 'bq4.models', 'bq4.download', 'bq4.visited'];
/** Largest number of models whose facts are kept. */
const MAX_MODELS = 40;

/**
 * A file of several.
 * @typedef {{ file: File, place: string }} PlacedFile  `place`: its path, as far as the browser reports it
 */
/** A file, the address of one, or the files that a model is in. @typedef {Blob | string | PlacedFile[]} ModelSource */

/**
 * A model to be used.
 * @typedef {object} ModelChoice
 * @property {'bundled' | 'link' | 'file'} kind
 * @property {string} name           display name
 * @property {ModelSource} source
 * @property {string} key            key of its facts
 * @property {FileSystemHandle} [handle]  handle of the file or folder
 * @property {number} [folder]       size in bytes of a folder that is to be converted
 */

/**
 * The model that was used last.
 * @typedef {object} Last
 * @property {ModelChoice['kind']} kind
 * @property {string} name
 * @property {string} key
 * @property {number} bytes  size of a local file or folder
 * @property {number} context  tokens; 0 for the model's own
 * @property {boolean} folder  whether it is a folder
 */

/**
 * Chat template and speed of a model; `integrity`: SHA-256 of its file.
 * @typedef {{ format?: string, rate?: number, estimate?: number, at?: number, integrity?: string }} Facts
 */

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

/** Returns the bytes of all files. @param {PlacedFile[]} files */
export const sizeOf = (files) => files.reduce((sum, { file }) => sum + file.size, 0);

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
    // Storage is full or blocked: nothing is kept.
  }
}

/** Whether a stored number of tokens can be one of a context; 0: the model's own. @param {unknown} context */
const isContext = (context) => Number.isInteger(context) && Number(context) >= 0 && Number(context) < 2 ** 32;

/** @returns {Last | null} */
export function lastModel() {
  const { kind, name, key, bytes, context, folder } = read(LAST) ?? {};
  const right =
    ['bundled', 'link', 'file'].includes(kind) &&
    [name, key].every((text) => typeof text === 'string') &&
    Number.isInteger(bytes) &&
    isContext(context);
  return right ? { kind, name, key, bytes, context, folder: folder === true } : null;
}

/** @param {ModelChoice} choice @param {number} context  tokens; 0 for the model's own */
export function rememberModel({ kind, name, key, source, handle, folder }, context) {
  const bytes = typeof source === 'string' ? 0 : source instanceof Blob ? source.size : sizeOf(source);
  // Other visits do not open a database.
  if ([kind, lastModel()?.kind].includes('file'))
    void import('./file-handles.js').then(({ rememberHandle }) => rememberHandle(handle ?? null));
  write(LAST, { kind, name, key, context, bytes: folder ?? bytes, folder: folder !== undefined });
}

/** Forgets a deleted model, so that the next visit does not start with it. @param {string} url */
export function forgetModel(url) {
  if (lastModel()?.key === url) write(LAST, {});
  forgetDownload(url);
}

/**
 * Whether this is the first visit, so that nothing of a model can be stored. False after a visit that ended during its
 * first download.
 */
export function isFirstVisit() {
  if (read(VISITED) || lastModel()) return false;
  write(VISITED, {});
  return true;
}

/**
 * Returns the download that was incomplete when the page was closed, or whose model was neither used nor dismissed.
 * @returns {{ name: string, url: string, context: number, paused: boolean } | null}
 */
export function lastDownload() {
  const { name, url, context, paused } = read(DOWNLOAD) ?? {};
  const right = typeof name === 'string' && typeof url === 'string' && isContext(context);
  return right ? { name, url, context, paused: paused === true } : null;
}

/** @param {{ name: string, url: string, context: number } | null} download  null removes it */
export const rememberDownload = (download) => write(DOWNLOAD, download ?? {});

/** Forgets the download of this address, if it is the remembered one. @param {string} url */
export function forgetDownload(url) {
  if (lastDownload()?.url === url) rememberDownload(null);
}

/** Remembers whether the download is paused, so that the next visit does not resume it. @param {boolean} paused */
export const rememberPause = (paused) => write(DOWNLOAD, { ...read(DOWNLOAD), paused });

/** Key of the list of deleted files that may still be stored (models/deletion.js). */
export const DELETED = 'bq4.deleted';
export const hasDeletions = () => read(DELETED) !== null;

/** @param {string} key @returns {Facts} */
export function factsOf(key) {
  const facts = read(KNOWN)?.[key];
  return facts && typeof facts === 'object' ? facts : {};
}

/** Returns the SHA-256 of the file of an address, if it is known. @param {unknown} source */
export const integrityOf = (source) =>
  typeof source === 'string'
    ? (CATALOGUE.find(({ url }) => url === source)?.integrity ?? factsOf(source).integrity)
    : undefined;

/** Adds facts about a model. @param {string} key @param {Facts} facts */
export function rememberFacts(key, facts) {
  const known = read(KNOWN) ?? {};
  const local = { ...factsOf(key), ...facts };
  delete known[key];
  const others = Object.entries(known).slice(1 - MAX_MODELS);
  write(KNOWN, { ...Object.fromEntries(others), [key]: local });
}

/** Returns the mean ratio of measured to estimated speed on this device. */
export const paceHere = () => paceOf(Object.values(read(KNOWN) ?? {}));
