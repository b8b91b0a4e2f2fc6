/**
 * Finds models on Hugging Face: by `owner/name`, `hf:owner/name`, the address of a repository or file, or by words. Loaded on demand.
 */
import { trouble } from '../page/alerts.js';
import { factsOf, fromLink, rememberFacts } from '../storage/model-history.js';
import { addressOf, HUB } from './catalogue.js';

/**
 * A repository on Hugging Face; `file`: path of a file in it, or ''.
 * @typedef {{ repo: string, revision: string, file: string }} Named
 */
/** @typedef {{ path: string, url: string, bytes: number, integrity?: string }} HubFile */

/** Weight types that suit a browser, the best choice first: 4 bits keep most of the quality. */
const PREFERRED = ['Q4_K_M', 'Q5_K_M', 'Q4_K_S', 'Q4_0', 'IQ4_XS', 'IQ4_NL', 'Q4_1', 'Q6_K', 'Q8_0', 'Q5_0', 'Q3_K_M'];

/** Paths of files on the computer. */
const LOCAL_PATH = /^(file:|[a-z]:[\\/]|(~|\.\.?)?[\\/])/i;

const NAME = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/;

/**
 * Parses the name or address of a repository or file; null if it is neither.
 * @param {string} text
 * @returns {Named | null}
 */
export function named(text) {
  const bare = text
    .trim()
    .replace(/^hf:(\/\/)?/i, '')
    .replace(/^(https?:\/\/)?(www\.)?(huggingface\.co|hf\.co)\//i, '')
    .replace(/[?#].*$/, '')
    .replace(/\/+$/, '');
  if (/^[a-z]+:\/\//i.test(bare) && !bare.startsWith(HUB)) return null;
  const [owner, name, kind, revision, ...path] = bare.replace(`${HUB}/`, '').split('/');
  const repo = `${owner}/${(name ?? '').replace(/:.*$/, '')}`;
  if (!NAME.test(repo)) return null;
  if (kind === undefined) return { repo, revision: 'main', file: '' };
  if (['blob', 'resolve'].includes(kind) && revision && path.length) return { repo, revision, file: path.join('/') };
  if (kind === 'tree' && revision) return { repo, revision, file: '' };
  // hf:owner/name/file.gguf
  return /\.gguf$/i.test(bare)
    ? { repo, revision: 'main', file: [kind, revision, ...path].filter(Boolean).join('/') }
    : null;
}

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
async function requestJson(path, signal) {
  const worker = new Worker(new URL('./hub-worker.js', import.meta.url), { type: 'module' });
  /** @type {{ status: number, value: any }} */
  const { status, value } = await new Promise((resolve, reject) => {
    const failed = (/** @type {unknown} */ error) => resolve({ status: 0, value: error });
    worker.addEventListener('message', ({ data }) => resolve(data));
    worker.addEventListener('error', ({ message }) => failed(message));
    signal?.addEventListener('abort', () => reject(signal.reason));
    worker.postMessage(path);
  }).finally(() => worker.terminate());
  if (status === 200) return value;
  if (!status)
    throw trouble(
      'NETWORK',
      'Hugging Face could not be reached',
      'check the connection and try again',
      new Error(value),
    );
  if ([401, 403, 404].includes(status))
    throw trouble('NOT_FOUND', 'there is no such public model on Hugging Face', 'check the name: it is owner/name');
  throw trouble('HTTP_STATUS', `Hugging Face answered with status ${status}`, 'try again later');
}

/** Converts a hexadecimal SHA-256 to the format of `integrity`. @param {string} hex */
const integrity = (hex) =>
  `sha256-${btoa(String.fromCharCode(...(hex.match(/../g) ?? []).map((byte) => parseInt(byte, 16))))}`;

/**
 * Returns the .gguf files of a repository, the smallest first. Throws NETWORK, NOT_FOUND, HTTP_STATUS.
 * @param {Named} named
 * @param {AbortSignal} [signal]
 * @returns {Promise<HubFile[]>}
 */
export async function filesOf({ repo, revision }, signal) {
  const list = await requestJson(`models/${repo}/tree/${encodeURIComponent(revision)}?recursive=true`, signal);
  return list
    .filter(
      (/** @type {any} */ { type, path }) =>
        type === 'file' && /\.gguf$/i.test(path) && !/mmproj|-\d{5}-of-\d{5}\.gguf$/i.test(path),
    )
    .map((/** @type {any} */ { path, size, lfs }) => ({
      path,
      url: `${HUB}/${repo}/resolve/${revision}/${path.split('/').map(encodeURIComponent).join('/')}`,
      bytes: lfs?.size ?? size,
      ...(/^[0-9a-f]{64}$/.test(lfs?.oid) && { integrity: integrity(lfs.oid) }),
    }))
    .sort((/** @type {HubFile} */ a, /** @type {HubFile} */ b) => a.bytes - b.bytes);
}

/**
 * Returns the file that fits this device best; undefined if none fits.
 * @param {HubFile[]} files
 * @param {number} most  largest size in bytes
 */
export function bestOf(files, most) {
  const fitting = files.filter(({ bytes }) => bytes <= most);
  for (const type of PREFERRED) {
    const best = fitting.find(({ path }) => path.toUpperCase().includes(type));
    if (best) return best;
  }
  return fitting.at(-1);
}

/**
 * Returns the file of a recommended model, or the best one of its repository if that file no longer exists; undefined
 * without .gguf files.
 * @param {import('./catalogue.js').Offer} offer
 * @param {AbortSignal} [signal]
 * @returns {Promise<HubFile | undefined>}
 */
export async function fileOf({ repo = '', file }, signal) {
  const files = await filesOf({ repo, revision: 'main', file: '' }, signal);
  return files.find(({ path }) => path === file) ?? bestOf(files, Infinity);
}

/**
 * Searches repositories with .gguf files by words. Throws ARGUMENT, NETWORK, HTTP_STATUS.
 * @param {string} words
 * @param {AbortSignal} [signal]
 * @returns {Promise<string[]>}
 */
export async function search(words, signal) {
  if (LOCAL_PATH.test(words))
    throw trouble(
      'ARGUMENT',
      'this is the path of a file on your computer',
      'press “Open a .gguf or .bq4 file…” and choose it there',
    );
  const list = await requestJson(`models?filter=gguf&limit=12&search=${encodeURIComponent(words)}`, signal);
  return list.map((/** @type {any} */ { id }) => String(id)).filter((/** @type {string} */ id) => NAME.test(id));
}

/**
 * Returns the choice of a recommended model. If its SHA-256 is unknown, it is requested from Hugging Face.
 * @param {import('./catalogue.js').Offer} offer
 * @param {AbortSignal} [signal]
 */
export async function linkOf(offer, signal) {
  let url = addressOf(offer);
  if (offer.repo && !(offer.integrity || offer.here || factsOf(url).integrity)) {
    const file = await fileOf(offer, signal);
    url = file?.url ?? url;
    if (file?.integrity) rememberFacts(url, { integrity: file.integrity });
  }
  return fromLink(url, offer.name);
}
