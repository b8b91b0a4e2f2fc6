/**
 * Finds the model in files that were dropped or chosen together: a folder in Hugging Face's layout, the parts of a GGUF file, or a single
 * model file among them. Loaded on demand.
 */
import { trouble } from '../page/alerts.js';
import { fromFile, sizeOf } from '../storage/model-history.js';

/** @typedef {import('../storage/model-history.js').PlacedFile} PlacedFile */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */
/**
 * Files, dropped entries, or the handle of a readable folder.
 * @typedef {PlacedFile[] | FileSystemEntry[] | FileSystemHandle} Several
 */

/** Largest number of files in the folder of a model. */
const MAX_FILES = 2000;

const CONFIG = /(^|\/)config\.json$/;
const WEIGHTS = /\.(safetensors|bin|pth?)$/;
const MODEL = /\.(gguf|bq4)$/i;
/** Matches the number of a part in the name of a file that is split. */
const PART = /-\d{5}-of-\d{5}\.gguf$/;

/** @param {FileSystemDirectoryEntry} folder @returns {Promise<FileSystemEntry[]>} */
async function entriesIn(folder) {
  const reader = folder.createReader();
  const all = [];
  // Browsers return entries in batches, and an empty batch at the end.
  for (;;) {
    const batch = await new Promise(
      (/** @type {(batch: FileSystemEntry[]) => void} */ resolve, reject) => void reader.readEntries(resolve, reject),
    );
    if (!batch.length) return all;
    all.push(...batch);
  }
}

/**
 * Returns all files, including those in folders, except hidden ones. Throws ARGUMENT, READ.
 * @param {Several} chosen
 * @returns {Promise<PlacedFile[]>}
 */
export async function filesOf(chosen) {
  if (Array.isArray(chosen) && 'file' in chosen[0] && 'place' in chosen[0]) return /** @type {PlacedFile[]} */ (chosen);
  /** @type {PlacedFile[]} */
  const found = [];
  /** Whether an entry is read: hidden ones are not. @param {string} name */
  const isRead = (name) => {
    if (found.length >= MAX_FILES)
      throw trouble('ARGUMENT', `the folder has more than ${MAX_FILES} files`, 'drop the folder of one model');
    return !name.startsWith('.');
  };
  /** @param {FileSystemEntry} entry */
  const visit = async (entry) => {
    if (!isRead(entry.name)) return;
    if (entry.isDirectory)
      for (const child of await entriesIn(/** @type {FileSystemDirectoryEntry} */ (entry))) await visit(child);
    else
      found.push({
        file: await new Promise((resolve, reject) => /** @type {any} */ (entry).file(resolve, reject)),
        place: entry.fullPath.replace(/^\//, ''),
      });
  };
  /** @param {any} handle @param {string} place */
  const visitHandle = async (handle, place) => {
    if (!isRead(handle.name)) return;
    if (handle.kind === 'file') found.push({ file: await handle.getFile(), place });
    else for await (const one of handle.values()) await visitHandle(one, `${place}/${one.name}`);
  };
  try {
    if (Array.isArray(chosen)) for (const entry of /** @type {FileSystemEntry[]} */ (chosen)) await visit(entry);
    else await visitHandle(chosen, chosen.name);
  } catch (error) {
    if (/** @type {any} */ (error).hint) throw error;
    throw trouble('READ', 'the folder cannot be read', 'choose its files instead', error);
  }
  return found;
}

/**
 * @param {string} name
 * @param {PlacedFile[]} files
 * @param {boolean} folder  whether they are a folder that is to be converted
 * @returns {ModelChoice}
 */
const fromFiles = (name, files, folder) => ({
  kind: 'file',
  name,
  source: files,
  key: `file:${name}:${sizeOf(files)}`,
  ...(folder && { folder: sizeOf(files) }),
});

/**
 * Returns the model in these files. Throws ARGUMENT, NOT_A_MODEL.
 * @param {PlacedFile[]} files
 * @returns {ModelChoice}
 */
export function modelOf(files) {
  const folders = files
    .filter(({ place }) => CONFIG.test(place))
    .map(({ place }) => place.replace(/config\.json$/, ''));
  const [root] = folders.sort((a, b) => a.split('/').length - b.split('/').length);
  if (root !== undefined) {
    const folderFiles = files.filter(({ place }) => place.startsWith(root) && !MODEL.test(place));
    if (folderFiles.some(({ place }) => WEIGHTS.test(place)))
      return fromFiles(root.split('/').at(-2) || 'Your files', folderFiles, true);
  }
  const models = files.filter(({ place }) => MODEL.test(place));
  const names = [...new Set(models.map(({ place }) => place.replace(PART, '.gguf')))];
  if (names.length > 1)
    throw trouble('ARGUMENT', `these are ${names.length} models: ${names.join(', ')}`, 'open one of them at a time');
  const [first] = models.length ? models : files.length === 1 ? files : [];
  if (!first)
    throw trouble(
      'NOT_A_MODEL',
      'there is no model among these files',
      'a model is a .gguf or .bq4 file, all parts of one, or a folder with config.json, its .safetensors and its tokenizer',
    );
  return models.length > 1 ? fromFiles(first.file.name.replace(PART, '.gguf'), models, false) : fromFile(first.file);
}
