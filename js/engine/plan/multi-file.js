/** A model that is several files: the parts of a GGUF file stay as they are, a Hugging Face folder becomes a .bq4 file. Loaded when first asked for. */
import { convertFolder } from '../../convert/in-page.js';
import { BqError } from '../../shared/errors.js';
import { progressOf } from '../../shared/progress.js';
import { openSource } from '../../storage/sources/index.js';
import { filesOf, placeOf } from '../../storage/sources/kinds.js';

/** @import { Folder } from '../../convert/folder.js' */
/** @import { Progress, Source } from '../../shared/types.js' */

const CONFIG = 'config.json';

/** The folder that all of them lie in, with "/" behind it; '' where they have none. @param {string[]} places */
function commonFolder(places) {
  const folders = places.map((place) => place.slice(0, place.lastIndexOf('/') + 1));
  return folders.reduce((a, b) => (a.length <= b.length ? a : b), folders[0]);
}

/** null: these are no folder of a model. ARGUMENT. @param {Source[]} sources @param {AbortSignal} [signal] @returns {Folder | null} */
function folderOf(sources, signal) {
  const places = sources.map(placeOf);
  const common = commonFolder(places);
  /** @type {Map<string, Source>} */
  const files = new Map();
  sources.forEach((source, i) => {
    const name = places[i].startsWith(common) ? places[i].slice(common.length) : places[i];
    if (name && files.has(name))
      throw new BqError('ARGUMENT', `two files are called ${name}`, {
        hint: 'choose the folder itself (webkitdirectory), which tells where they lie, or fewer files',
      });
    files.set(name, source);
  });
  if (!files.has(CONFIG)) return null;
  const names = [...files.keys()];
  return {
    path: common.split('/').at(-2) ?? 'model',
    names: names.filter((name) => !name.includes('/')),
    has: (name) => files.has(name),
    open: async (name) => {
      const source = files.get(name);
      if (!source) throw new BqError('NOT_A_MODEL', `${name} is missing`, { hint: 'choose all files of the folder' });
      return openSource(source, signal);
    },
    stamp: () => '',
  };
}

/** @param {((progress: Progress) => void) | undefined} onProgress @returns {((loaded: number, total: number) => void) | undefined} */
function conversionProgress(onProgress) {
  const progress = progressOf('convert', 'bytes');
  return onProgress && ((loaded, total) => onProgress({ ...progress(loaded, total), retries: 0, cacheProblem: '' }));
}

/**
 * The source that is opened for a model in several files; `facts` are added to its plan.
 * @param {Source} source
 * @param {string | undefined} convertUrl  where the module of converters lies
 * @param {{ signal?: AbortSignal, onProgress?: (progress: Progress) => void }} options
 * @returns {Promise<Source & { facts?: { converted: File } }>}
 */
export async function asOneFile(source, convertUrl, { signal, onProgress }) {
  const folder = folderOf(filesOf(source), signal);
  if (!folder) return source;
  const blob = await convertFolder(folder, { wasmUrl: convertUrl, signal, onBytes: conversionProgress(onProgress) });
  return { kind: 'blob', blob, facts: { converted: blob } };
}
