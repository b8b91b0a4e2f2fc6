/**
 * Sources of the bytes of a model. The functions `from…` create a source as plain data, which can be posted to a
 * worker. kinds.js has the methods of sources. `openSource` opens a source in the thread that reads it.
 */
import { fullUrl, noAddress } from '../../shared/builds.js';
import { address } from '../../shared/checks.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { isNode } from '../../shared/node.js';
import { checkOptions, wrong } from '../../shared/options.js';
import { filesOf, openOne, pathOf, withPath } from './kinds.js';

/** @import { ByteSource, Source, SourceLike, SourceOptions, UrlOptions } from './types.js' */

/**
 * Returns the name of a value's class, also for objects of other windows, which instanceof does not recognize.
 * @param {any} value
 */
const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);

/**
 * Checks the options that all kinds of sources have. Throws ARGUMENT.
 * @param {SourceOptions} options @returns {{ companion?: Source, manifest?: Uint8Array }}
 */
function checkCommonOptions(options) {
  const { companion, manifest } = checkOptions('source', options);
  if (manifest && tagOf(manifest) !== 'Uint8Array') throw wrong('manifest', manifest, 'a Uint8Array');
  return { ...(companion && { companion: toSource(companion) }), ...(manifest && { manifest }) };
}

/** Returns an absolute address. Throws ARGUMENT. @param {string | URL} url */
function resolveUrl(url) {
  // In a page '' resolves to the page itself; the drive of a Windows path looks like a scheme of one letter.
  const href = url && fullUrl(url);
  if (href && !/^(.|ftp):/.test(href)) return href;
  throw noAddress(url);
}

/** Parses a name on a hub. Throws ARGUMENT. @param {string} name  `hf:owner/name[/file | :type][@revision]` */
function parseHubName(name) {
  const [, repo, file, type, revision = 'main'] =
    /^hf:([\w-][\w.-]*\/[\w-][\w.-]*)(?:\/([^@?#]+)|:([\w-]+))?(?:@([\w./-]+))?$/.exec(name) ?? [];
  if (!repo)
    throw new BqError(
      'ARGUMENT',
      `expected hf:owner/name, hf:owner/name:Q4_K_M, hf:owner/name/file.gguf, or one with @revision, found "${name}"`,
    );
  return { repo, revision, ...(file && { file }), ...(type && { type }) };
}

/**
 * Creates the source of a model on the web: an address, which may be relative to the page, or the name of a model on a
 * hub, `hf:owner/name[/file.gguf | :Q4_K_M][@revision]`. Throws ARGUMENT.
 * @param {string | URL} url
 * @param {UrlOptions} [urlOptions]
 * @returns {Source}
 */
export function fromUrl(url, urlOptions) {
  if (address(url) && tagOf(url) !== 'URL') throw wrong('fromUrl', url, 'an address');
  const { companion, manifest, mirrors = [], hubUrl, token, ...options } = checkOptions('fromUrl', urlOptions);
  if (String(url).startsWith('hf:'))
    return {
      kind: 'hub',
      ...parseHubName(String(url)),
      ...(hubUrl !== undefined && { hubUrl: resolveUrl(hubUrl) }),
      ...(token && { token }),
      ...options,
      ...checkCommonOptions({ companion, manifest }),
    };
  if (token) throw wrong('token', 'one', 'an address hf:owner/name');
  return {
    kind: 'url',
    url: resolveUrl(url),
    ...(mirrors.length && { mirrors: mirrors.map(resolveUrl) }),
    ...options,
    ...checkCommonOptions({ companion, manifest }),
  };
}

/**
 * Creates the source of a `File` that the user has chosen or dropped, or of any Blob. Throws ARGUMENT.
 * @param {Blob} blob @param {SourceOptions} [options] @returns {Source}
 */
export function fromBlob(blob, options = {}) {
  if (!['Blob', 'File'].includes(tagOf(blob))) throw wrong('fromBlob', blob, 'a Blob');
  return { kind: 'blob', blob, ...checkCommonOptions(options) };
}

/**
 * Creates the source of a file handle: of the origin private file system (OPFS), or of a file that the user has picked.
 * Throws ARGUMENT.
 * @param {FileSystemFileHandle} handle @param {SourceOptions} [options] @returns {Source}
 */
export function fromHandle(handle, options = {}) {
  if (typeof handle?.getFile !== 'function') throw wrong('fromHandle', handle, 'a FileSystemFileHandle');
  return { kind: 'handle', handle, ...checkCommonOptions(options) };
}

/**
 * Creates the source of bytes in memory, which are copied to a worker. Throws ARGUMENT.
 * @param {Uint8Array | ArrayBuffer} bytes @param {SourceOptions} [options] @returns {Source}
 */
export function fromBytes(bytes, options = {}) {
  if (!['Uint8Array', 'ArrayBuffer', 'SharedArrayBuffer'].includes(tagOf(bytes)))
    throw wrong('fromBytes', bytes, 'a Uint8Array or an ArrayBuffer');
  // The constructor of Uint8Array rejects a buffer that was transferred.
  const array =
    bytes instanceof Uint8Array ? bytes : new Uint8Array(/** @type {ArrayBuffer} */ (bytes.byteLength ? bytes : []));
  return { kind: 'bytes', bytes: array, ...checkCommonOptions(options) };
}

/**
 * Creates the source of a file in Node. Throws ARGUMENT.
 * @param {string | URL} path @param {SourceOptions} [options] @returns {Source}
 */
export function fromFile(path, options = {}) {
  const text = typeof path === 'string' ? path : path?.href;
  if (typeof text !== 'string') throw wrong('fromFile', path, 'a path');
  return { kind: 'file', path: text, ...checkCommonOptions(options) };
}

/**
 * Creates the source of one file of a list. It has the path of a File in the chosen folder, which a File loses when it
 * is posted to a worker. Throws ARGUMENT.
 * @param {SourceLike} source @returns {Source}
 */
function toListedSource(source) {
  if (Array.isArray(source) || /** @type {any} */ (source)?.kind === 'several')
    throw wrong('a file of a list', source, 'the source of one file');
  const file = toSource(source);
  const place = /** @type {any} */ (source)?.webkitRelativePath;
  return place ? { .../** @type {any} */ (file), place } : file;
}

/**
 * By kind: a function that creates an equal source, which checks its fields. Throws ARGUMENT.
 * @type {Record<string, (source: any) => Source>}
 */
const COPIES = {
  url: ({ url, mirrors, retries, retryDelay, timeout }) => fromUrl(url, { mirrors, retries, retryDelay, timeout }),
  // Its other fields are checked when it is resolved.
  hub: ({ repo }) => fromUrl(`hf:${repo}`),
  blob: ({ blob }) => fromBlob(blob),
  bytes: ({ bytes }) => fromBytes(bytes),
  handle: ({ handle }) => fromHandle(handle),
  file: ({ path }) => fromFile(path),
  several: ({ sources }) => toSource(sources),
};

/**
 * Checks a source, since callers can create one without the functions `from…`. Throws ARGUMENT.
 * @param {any} source @returns {Source}
 */
function checkSource(source) {
  const { kind, companion, manifest } = source;
  if (!Object.hasOwn(COPIES, kind))
    throw wrong('the source', source, 'an object that fromUrl or a similar function returned');
  const copy = COPIES[kind](source);
  // A companion has no companion itself.
  const ownCompanion = tagOf(companion) === 'Object' ? { ...companion, companion: undefined } : companion;
  return { ...source, ...(kind !== 'hub' && copy), ...checkCommonOptions({ companion: ownCompanion, manifest }) };
}

/**
 * Returns whether a string is a path: in Node, without an address that it may be relative to, one without a scheme of at
 * least two letters.
 * @param {string} text
 */
const isPath = (text) => isNode && !globalThis.location && text && !/^[a-z][\w+.-]+:/i.test(text);

/**
 * Converts an address, a path in Node, a Blob, a handle or bytes to a source; a list of them to the source of a model in
 * several files. Checks and returns a source. Throws ARGUMENT.
 * @param {SourceLike} source
 * @returns {Source}
 */
export function toSource(source) {
  const value = /** @type {any} */ (source);
  const tag = tagOf(value);
  if (typeof value === 'string' || tag === 'URL') return isPath(value) ? fromFile(value) : fromUrl(value);
  if (['Blob', 'File'].includes(tag)) return fromBlob(value);
  if (['Uint8Array', 'ArrayBuffer', 'SharedArrayBuffer'].includes(tag)) return fromBytes(value);
  // A handle has a field `kind`, too, so it is recognized before sources.
  if (typeof value?.getFile === 'function') return fromHandle(value);
  if ((Array.isArray(value) || tag === 'FileList') && value.length)
    return { kind: 'several', sources: Array.from(value, toListedSource) };
  if (tag === 'Object' && typeof value.kind === 'string') return checkSource(value);
  throw Object.assign(wrong('the source', value, 'an address, a File or another Blob, or bytes'), {
    hint: 'use fromUrl, fromBlob, fromBytes, fromFile or fromHandle; await promises, pass request.url or response.blob()',
  });
}

/**
 * Returns the sources of the files of a model in several files; none for a model in one file.
 * @param {Source} source @returns {Promise<Source[]>}
 */
async function partSources(source) {
  const path = pathOf(source);
  if (!path.endsWith('.gguf') || !path.includes('-of-')) return filesOf(source);
  const { partsOf } = await onDemand(import('./split.js'));
  return partsOf(path).flatMap((part) => withPath(source, () => part) ?? []);
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
 * Opens a source; the files of a model in several files as one.
 * @param {Source} source
 * @param {AbortSignal} [signal]
 * @returns {Promise<ByteSource>}  closed by the caller
 */
export async function openSource(source, signal) {
  signal?.throwIfAborted();
  const parts = await partSources(source);
  return parts.length ? openParts(parts, signal) : openOne(source, signal);
}
