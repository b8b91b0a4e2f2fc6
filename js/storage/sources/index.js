/**
 * Where the bytes of a model come from. `from…` make plain descriptors, which cross to a worker as they are;
 * `openSource` opens one on the side that reads it.
 */
import { fullUrl } from '../../shared/builds.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { isNode } from '../../shared/node.js';
import { checkOptions } from '../../shared/options.js';

/** @import { ByteSource, Source, SourceLike, SourceOptions, UrlOptions } from './types.js' */

/** @param {SourceOptions} options @returns {{ companion?: Source, manifest?: Uint8Array }} */
function extra(options) {
  const { companion, manifest } = checkOptions('source', options);
  return { ...(companion && { companion: toSource(companion) }), ...(manifest && { manifest }) };
}

/** @param {string | URL} url */
function resolve(url) {
  try {
    return fullUrl(url);
  } catch (cause) {
    throw new BqError('ARGUMENT', `"${url}" is no address`, {
      cause,
      hint: 'pass a full address, or use fromFile() for a path in Node',
    });
  }
}

/**
 * A model on the web. Relative addresses are resolved against the page.
 * @param {string | URL} url
 * @param {UrlOptions} [given]
 * @returns {Source}
 */
export function fromUrl(url, given) {
  const { companion, manifest, mirrors = [], ...options } = checkOptions('fromUrl', given);
  return {
    kind: 'url',
    url: resolve(url),
    ...(mirrors.length && { mirrors: mirrors.map(resolve) }),
    ...options,
    ...extra({ companion, manifest }),
  };
}

/** A `File` that was chosen or dropped, or any Blob. @param {Blob} blob @param {SourceOptions} [options] @returns {Source} */
export function fromBlob(blob, options = {}) {
  return { kind: 'blob', blob, ...extra(options) };
}

/** A file of the browser's file system: one of its own (OPFS), or one that was picked. @param {FileSystemFileHandle} handle @param {SourceOptions} [options] @returns {Source} */
export function fromHandle(handle, options = {}) {
  return { kind: 'handle', handle, ...extra(options) };
}

/** Bytes in memory; a worker gets a copy. @param {Uint8Array | ArrayBuffer} bytes @param {SourceOptions} [options] @returns {Source} */
export function fromBytes(bytes, options = {}) {
  return { kind: 'bytes', bytes: bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes), ...extra(options) };
}

/** A path, in Node. @param {string | URL} path @param {SourceOptions} [options] @returns {Source} */
export function fromFile(path, options = {}) {
  return { kind: 'file', path: typeof path === 'string' ? path : path.href, ...extra(options) };
}

/** One of several: where it lies in the folder that was chosen is lost on the way to a worker. @param {SourceLike} source @returns {Source} */
function placed(source) {
  const place = /** @type {any} */ (source)?.webkitRelativePath;
  return place ? { .../** @type {any} */ (toSource(source)), place } : toSource(source);
}

/**
 * Takes an address, a Blob or bytes for their descriptor, or a list of them for a model in several files.
 * @param {SourceLike} source
 * @returns {Source}
 */
export function toSource(source) {
  if (typeof source === 'string' || source instanceof URL) return fromUrl(source);
  if (source instanceof Blob) return fromBlob(source);
  if (source instanceof Uint8Array || source instanceof ArrayBuffer) return fromBytes(source);
  if (source && typeof source === 'object' && 'kind' in source) return source;
  // A FileList is no array.
  const list = /** @type {ArrayLike<SourceLike> | undefined} */ (source);
  if (list?.length) return { kind: 'several', sources: Array.from(list, placed) };
  throw new BqError('ARGUMENT', 'this is no source of a model', {
    hint: 'use fromUrl, fromBlob, fromBytes or fromFile',
  });
}

/** The same, read from one answer of its server: what several answers call it differs. @param {Source} source @returns {Source} */
export const inOneAnswer = (source) =>
  source.kind === 'several'
    ? { ...source, sources: source.sources.map(inOneAnswer) }
    : source.kind === 'url'
      ? { ...source, single: true }
      : source;

/** The parts of a source that is in several files; none: it is one. @param {Source} source @returns {Promise<Source[]>} */
async function partSources(source) {
  if (source.kind === 'several') return source.sources;
  const path = source.kind === 'url' ? new URL(source.url).pathname : source.kind === 'file' ? source.path : '';
  if (!path.endsWith('.gguf') || !path.includes('-of-')) return [];
  const { partsOf } = await onDemand(import('./split.js'));
  return partsOf(path).map((part) => {
    if (source.kind === 'file') return { ...source, path: part };
    const at = (/** @type {string} */ address) => Object.assign(new URL(address), { pathname: part }).href;
    // Mirrors have other folders: each its own name of the part.
    return /** @type {Source} */ ({ ...source, url: at(/** @type {any} */ (source).url), mirrors: undefined });
  });
}

/** @param {Source[]} sources @param {AbortSignal} [signal] @returns {Promise<ByteSource>} */
async function openParts(sources, signal) {
  const { SplitSource } = await onDemand(import('./split.js'));
  const parts = [];
  try {
    for (const part of sources) parts.push(await openOne(part, signal));
    return new SplitSource(parts);
  } catch (error) {
    for (const part of parts) await part.close();
    throw error;
  }
}

/**
 * @param {Source} source
 * @param {AbortSignal} [signal]
 * @returns {Promise<ByteSource>}  the caller's to close
 */
export async function openSource(source, signal) {
  signal?.throwIfAborted();
  const several = await partSources(source);
  return several.length ? openParts(several, signal) : openOne(source, signal);
}

/** @param {Source} source @param {AbortSignal} [signal] @returns {Promise<ByteSource>} */
async function openOne(source, signal) {
  signal?.throwIfAborted();
  if (source.kind === 'url' && !(isNode && source.url.startsWith('file:')))
    return new (await onDemand(import('./retry.js'))).RemoteSource(source);
  if (source.kind === 'blob' || source.kind === 'handle') return (await onDemand(import('./blob.js'))).openBlob(source);
  if (source.kind === 'bytes') return (await onDemand(import('./bytes.js'))).openBytes(source.bytes);
  if (!isNode) throw new BqError('ARGUMENT', 'paths can be read in Node only', { hint: 'use fromUrl or fromBlob' });
  if (source.kind === 'several') throw new BqError('ARGUMENT', 'a part of a model is no model of several files');
  if (source.kind === 'parts') throw new BqError('ARGUMENT', 'parts are read by pages only');
  const { openFile } = await onDemand(import('./file.js'));
  return openFile(source.kind === 'url' ? source.url : source.path);
}
