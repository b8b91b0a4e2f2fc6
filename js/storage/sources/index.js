/**
 * Where the bytes of a model come from. `from…` make sources as plain data, which can be posted to a worker; kinds.js has their
 * methods; `openSource` opens one in the thread that reads it.
 */
import { fullUrl, noAddress } from '../../shared/builds.js';
import { address } from '../../shared/checks.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { checkOptions, wrong } from '../../shared/options.js';
import { filesOf, openOne, pathOf, withPath } from './kinds.js';

/** @import { ByteSource, Source, SourceLike, SourceOptions, UrlOptions } from './types.js' */

/** Objects of other windows, too, which are no instances of this one's classes. @param {any} value */
const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);

/** @param {SourceOptions} options @returns {{ companion?: Source, manifest?: Uint8Array }} */
function extra(options) {
  const { companion, manifest } = checkOptions('source', options);
  if (manifest && tagOf(manifest) !== 'Uint8Array') throw wrong('manifest', manifest, 'a Uint8Array');
  return { ...(companion && { companion: toSource(companion) }), ...(manifest && { manifest }) };
}

/** @param {string | URL} url */
function resolve(url) {
  // In a page '' is the page; a path of Windows begins as a scheme of one letter does.
  const href = url && fullUrl(url);
  if (href && !/^(.|ftp):/.test(href)) return href;
  throw noAddress(url);
}

/** ARGUMENT. @param {string} name  `hf:owner/name[/file][@revision]` */
function parseHubName(name) {
  const [, repo, file, revision = 'main'] =
    /^hf:([\w-][\w.-]*\/[\w-][\w.-]*)(?:\/([^@?#]+))?(?:@([\w./-]+))?$/.exec(name) ?? [];
  if (!repo)
    throw new BqError(
      'ARGUMENT',
      `expected hf:owner/name, hf:owner/name/file.gguf, or either with @revision, found "${name}"`,
    );
  return { repo, revision, ...(file && { file }) };
}

/**
 * A model on the web: an address, relative ones of the page, or a name on a hub, `hf:owner/name[/file.gguf][@revision]`. ARGUMENT.
 * @param {string | URL} url
 * @param {UrlOptions} [urlOptions]
 * @returns {Source}
 */
export function fromUrl(url, urlOptions) {
  if (address(url) && tagOf(url) !== 'URL') throw wrong('fromUrl', url, 'an address');
  const { companion, manifest, mirrors = [], hubUrl, ...options } = checkOptions('fromUrl', urlOptions);
  if (String(url).startsWith('hf:'))
    return {
      kind: 'hub',
      ...parseHubName(String(url)),
      ...(hubUrl !== undefined && { hubUrl: resolve(hubUrl) }),
      ...options,
      ...extra({ companion, manifest }),
    };
  return {
    kind: 'url',
    url: resolve(url),
    ...(mirrors.length && { mirrors: mirrors.map(resolve) }),
    ...options,
    ...extra({ companion, manifest }),
  };
}

/** A `File` that was chosen or dropped, or any Blob. ARGUMENT. @param {Blob} blob @param {SourceOptions} [options] @returns {Source} */
export function fromBlob(blob, options = {}) {
  if (!['Blob', 'File'].includes(tagOf(blob))) throw wrong('fromBlob', blob, 'a Blob');
  return { kind: 'blob', blob, ...extra(options) };
}

/** A file of the browser's file system: one of its own (OPFS), or one that was picked. ARGUMENT. @param {FileSystemFileHandle} handle @param {SourceOptions} [options] @returns {Source} */
export function fromHandle(handle, options = {}) {
  if (typeof handle?.getFile !== 'function') throw wrong('fromHandle', handle, 'a FileSystemFileHandle');
  return { kind: 'handle', handle, ...extra(options) };
}

/** Bytes in memory; a worker gets a copy. ARGUMENT. @param {Uint8Array | ArrayBuffer} bytes @param {SourceOptions} [options] @returns {Source} */
export function fromBytes(bytes, options = {}) {
  if (!['Uint8Array', 'ArrayBuffer', 'SharedArrayBuffer'].includes(tagOf(bytes)))
    throw wrong('fromBytes', bytes, 'a Uint8Array or an ArrayBuffer');
  // Of a buffer that was transferred no array can be made.
  const array =
    bytes instanceof Uint8Array ? bytes : new Uint8Array(/** @type {ArrayBuffer} */ (bytes.byteLength ? bytes : []));
  return { kind: 'bytes', bytes: array, ...extra(options) };
}

/** A path, in Node. ARGUMENT. @param {string | URL} path @param {SourceOptions} [options] @returns {Source} */
export function fromFile(path, options = {}) {
  const text = typeof path === 'string' ? path : path?.href;
  if (typeof text !== 'string') throw wrong('fromFile', path, 'a path');
  return { kind: 'file', path: text, ...extra(options) };
}

/** A file of several, with its place in the folder that was chosen: a File loses that when it is posted to a worker. @param {SourceLike} source @returns {Source} */
function placed(source) {
  if (Array.isArray(source) || /** @type {any} */ (source)?.kind === 'several')
    throw wrong('a file of a list', source, 'the source of one file');
  const file = toSource(source);
  const place = /** @type {any} */ (source)?.webkitRelativePath;
  return place ? { .../** @type {any} */ (file), place } : file;
}

/** What a source of each kind is made from, made again: the same, or ARGUMENT. @type {Record<string, (source: any) => Source>} */
const MAKERS = {
  url: ({ url, mirrors, retries, retryDelay, timeout }) => fromUrl(url, { mirrors, retries, retryDelay, timeout }),
  // The rest of it is checked where it is resolved.
  hub: ({ repo }) => fromUrl(`hf:${repo}`),
  blob: ({ blob }) => fromBlob(blob),
  bytes: ({ bytes }) => fromBytes(bytes),
  handle: ({ handle }) => fromHandle(handle),
  file: ({ path }) => fromFile(path),
  several: ({ sources }) => toSource(sources),
};

/** A source that was made by one of our functions, or by hand. ARGUMENT. @param {any} source @returns {Source} */
function checked(source) {
  const { kind, companion, manifest } = source;
  if (!Object.hasOwn(MAKERS, kind)) throw wrong('the source', source, 'one that fromUrl or another function made');
  const same = MAKERS[kind](source);
  // A companion has none itself.
  const single = tagOf(companion) === 'Object' ? { ...companion, companion: undefined } : companion;
  return { ...source, ...(kind !== 'hub' && same), ...extra({ companion: single, manifest }) };
}

/**
 * The source that an address, a Blob or bytes stand for, or a list of them for a model in several files. ARGUMENT.
 * @param {SourceLike} source
 * @returns {Source}
 */
export function toSource(source) {
  const value = /** @type {any} */ (source);
  const tag = tagOf(value);
  if (typeof value === 'string' || tag === 'URL') return fromUrl(value);
  if (['Blob', 'File'].includes(tag)) return fromBlob(value);
  if (['Uint8Array', 'ArrayBuffer', 'SharedArrayBuffer'].includes(tag)) return fromBytes(value);
  // Such a handle has a kind, too.
  if (typeof value?.getFile === 'function') return fromHandle(value);
  if ((Array.isArray(value) || tag === 'FileList') && value.length)
    return { kind: 'several', sources: Array.from(value, placed) };
  if (tag === 'Object' && typeof value.kind === 'string') return checked(value);
  throw Object.assign(wrong('the source', value, 'an address, a File or another Blob, or bytes'), {
    hint: 'use fromUrl, fromBlob, fromBytes, fromFile or fromHandle; await promises, pass request.url or response.blob()',
  });
}

/** The parts of a source that is in several files; none: it is one. @param {Source} source @returns {Promise<Source[]>} */
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
 * @param {Source} source
 * @param {AbortSignal} [signal]
 * @returns {Promise<ByteSource>}  the caller's to close
 */
export async function openSource(source, signal) {
  signal?.throwIfAborted();
  const several = await partSources(source);
  return several.length ? openParts(several, signal) : openOne(source, signal);
}
