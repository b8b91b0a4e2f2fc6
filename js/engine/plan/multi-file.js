/**
 * Models in several files. The parts of a GGUF file are used unchanged; a Hugging Face folder is converted to a .bq4
 * file. Loaded on demand.
 */
import { convertFolder } from '../../convert/in-page.js';
import { unlessAborted } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { progressOf } from '../../shared/progress.js';
import { openSource } from '../../storage/sources/index.js';
import { filesOf, placeOf } from '../../storage/sources/kinds.js';

/** @import { Folder } from '../../convert/folder.js' */
/** @import { Progress, Source } from '../../shared/types.js' */

const CONFIG = 'config.json';

/** Returns the common folder of paths, with "/" at its end; '' if there is none. @param {string[]} paths */
function commonFolder(paths) {
  const folders = paths.map((path) => path.slice(0, path.lastIndexOf('/') + 1));
  return folders.reduce((a, b) => (a.length <= b.length ? a : b), folders[0]);
}

/**
 * Returns the sources as a folder of a model; null if they have no config.json. Throws ARGUMENT.
 * @param {Source[]} sources @param {AbortSignal} [signal] @returns {Folder | null}
 */
function folderOf(sources, signal) {
  const paths = sources.map(placeOf);
  const root = commonFolder(paths);
  /** @type {Map<string, Source>} */
  const files = new Map();
  sources.forEach((source, i) => {
    const name = paths[i].startsWith(root) ? paths[i].slice(root.length) : paths[i];
    if (name && files.has(name))
      throw new BqError('ARGUMENT', `two files have the name ${name}`, {
        hint: 'select the folder itself (webkitdirectory), which gives paths, or fewer files',
      });
    files.set(name, source);
  });
  if (!files.has(CONFIG)) return null;
  const names = [...files.keys()];
  return {
    path: root.split('/').at(-2) ?? 'model',
    names: names.filter((name) => !name.includes('/')),
    has: (name) => files.has(name),
    open: async (name) => {
      const source = files.get(name);
      if (!source) throw new BqError('NOT_A_MODEL', `${name} is missing`, { hint: 'choose all files of the folder' });
      const file = await openSource(source, signal);
      const { stream } = file;
      // Converters read without a signal, so the caller's signal is the default.
      file.stream = (offset, end, readSignal = signal) => stream.call(file, offset, end, readSignal);
      return file;
    },
    stamp: () => '',
  };
}

/**
 * @param {((progress: Progress) => void) | undefined} onProgress
 * @returns {((loaded: number, total: number) => void) | undefined}
 */
function conversionProgress(onProgress) {
  const progress = progressOf('convert', 'bytes');
  return onProgress && ((loaded, total) => onProgress({ ...progress(loaded, total), retries: 0, cacheProblem: '' }));
}

/**
 * Returns the source to open for a model in several files. `facts` are added to the model's plan.
 * @param {Source} source
 * @param {string | undefined} convertUrl  URL of the module of converters
 * @param {{ signal?: AbortSignal, onProgress?: (progress: Progress) => void }} options
 * @returns {Promise<Source>}
 */
export async function asOneFile(source, convertUrl, { signal, onProgress }) {
  const folder = folderOf(filesOf(source), signal);
  if (!folder) return source;
  const converting = convertFolder(folder, { wasmUrl: convertUrl, signal, onBytes: conversionProgress(onProgress) });
  // A read of one of its files may never settle, so the signal ends the wait.
  const blob = await unlessAborted(converting, signal);
  return { kind: 'blob', blob, facts: { converted: blob } };
}
