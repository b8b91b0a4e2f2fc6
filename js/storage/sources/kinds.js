/**
 * The kinds of sources, with a row of methods for each. A source itself is plain data, which can be posted to a worker.
 * A new kind needs a row here, its type in types.js, and a module that opens it.
 */
import { unlessAborted } from '../../shared/async.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { isNode } from '../../shared/node.js';
import { decodePart } from './file-name.js';

/** @import { ByteSource, Source } from './types.js' */

/**
 * @template S
 * @typedef {object} Kind
 * @property {(source: S, signal?: AbortSignal) => Promise<ByteSource>} open
 * @property {(source: S) => string | null} [key]  identifies the file in the cache; missing if the file is not cached
 * @property {(source: S) => string} [path]  path of the file, if other files can be in the same folder
 * @property {(source: S, path: string) => Source | null} [at]  a copy with another path; null if the path is fixed
 * @property {(source: S) => string} [place]  readable path of the file, among the files of a model in several files
 * @property {(source: S) => boolean} [pageable]  whether any part can be read at any time while a model is open
 * @property {boolean} [inMemory]  whether the bytes are in memory
 * @property {(source: S) => Source[]} [files]  the files of a model in several files
 * @property {(source: S) => Source} [inOneResponse]  a copy that is read from one response, from its first byte to the
 *   last
 * @property {(source: S, options: { memoryBudget?: number, signal?: AbortSignal, cache?: unknown })
 *   => Promise<Source>} [resolve]  returns the source that a name refers to
 */

/** @template {Source['kind']} K @typedef {Extract<Source, { kind: K }>} Of */

/** @param {string} path */
async function openPath(path) {
  if (!isNode) throw new BqError('ARGUMENT', 'paths can be read in Node only', { hint: 'use fromUrl or fromBlob' });
  return (await onDemand(import('./file.js'))).openFile(path);
}

/** @param {Of<'blob'> | Of<'handle'>} source */
const openBlob = async (source) => (await onDemand(import('./blob.js'))).openBlob(source);

/**
 * Returns an `open` for kinds that can't be opened. It throws ARGUMENT.
 * @param {string} message @returns {() => Promise<never>}
 */
const refuse = (message) => async () => {
  throw new BqError('ARGUMENT', message);
};

/** @type {{ [K in Source['kind']]: Kind<Of<K>> }} */
const KINDS = {
  url: {
    open: async (source) =>
      isNode && source.url.startsWith('file:')
        ? openPath(source.url)
        : new (await onDemand(import('./retry.js'))).RemoteSource(source),
    key: ({ url }) => url,
    path: ({ url }) => new URL(url).pathname,
    // Mirrors are omitted, since the file has another path on each of them.
    at: ({ mirrors: _, ...source }, pathname) => {
      const url = Object.assign(new URL(source.url), { pathname });
      // The path of addresses of bytes (blob:, data:) can't be set.
      return url.pathname === pathname ? { ...source, url: url.href } : null;
    },
    place: ({ url }) => decodePart(new URL(url).pathname),
    pageable: ({ url }) => url.startsWith('file:'),
    inOneResponse: (source) => ({ ...source, single: true }),
  },
  file: {
    open: ({ path }) => openPath(path),
    path: ({ path }) => path,
    at: (source, path) => ({ ...source, path }),
    place: ({ path }) => path.replaceAll('\\', '/'),
    pageable: () => true,
  },
  blob: {
    open: openBlob,
    place: ({ place, blob }) => place ?? ('name' in blob ? String(blob.name) : ''),
    pageable: () => true,
  },
  handle: { open: openBlob, place: ({ handle }) => handle.name, pageable: () => true },
  bytes: {
    open: async ({ bytes }) => (await onDemand(import('./bytes.js'))).openBytes(bytes),
    pageable: () => true,
    inMemory: true,
  },
  several: {
    open: refuse('a part of a model must be a single file'),
    files: ({ sources }) => sources,
    pageable: () => true,
    inOneResponse: (source) => ({ ...source, sources: source.sources.map(inOneResponse) }),
  },
  parts: { open: refuse('a source of parts can be used for paging only'), pageable: () => true },
  hub: {
    open: async (source, signal) => openOne(await resolveSource(source, { signal }), signal),
    resolve: async (source, options) => (await onDemand(import('./hub.js'))).resolveHub(source, options),
  },
};

/** Returns the methods of a source's kind. Throws ARGUMENT. @param {Source} source @returns {Kind<any>} */
function kindOf({ kind }) {
  if (Object.hasOwn(KINDS, kind)) return KINDS[kind];
  throw new BqError(
    'ARGUMENT',
    `expected a source that fromUrl or a similar function returned, found the kind ${kind}`,
  );
}

/**
 * Returns the source that a name of a model refers to; other sources unchanged.
 * @param {Source} source @param {{ memoryBudget?: number, signal?: AbortSignal, cache?: unknown }} options
 * @returns {Promise<Source>}
 */
export const resolveSource = async (source, options) => (await kindOf(source).resolve?.(source, options)) ?? source;

/**
 * Returns the identity of a source's file in the cache; null if the file is not cached.
 * @param {Source} source @returns {string | null}
 */
export const keyOf = (source) => kindOf(source).key?.(source) ?? null;

/** Returns the readable path of a source's file; '' if it is unknown. @param {Source} source @returns {string} */
export const placeOf = (source) => kindOf(source).place?.(source) ?? '';

/** Whether any part of a source can be read at any time while a model is open. @param {Source} source */
export const isPageable = (source) => kindOf(source).pageable?.(source) ?? false;

/** Whether the bytes of a source are in memory. @param {Source} source */
export const isInMemory = (source) => kindOf(source).inMemory ?? false;

/**
 * Returns the files of a model that is given as a list of files; none for a single file.
 * @param {Source} source @returns {Source[]}
 */
export const filesOf = (source) => kindOf(source).files?.(source) ?? [];

/** Returns the path of a source's file; '' if it has none. @param {Source} source @returns {string} */
export const pathOf = (source) => kindOf(source).path?.(source) ?? '';

/**
 * Returns a copy of a source with another path; null if it has no path that can be changed.
 * @param {Source} source @param {(path: string) => string} change @returns {Source | null}
 */
export const withPath = (source, change) => kindOf(source).at?.(source, change(pathOf(source))) ?? null;

/**
 * Returns a copy of a source that is read from one response of its server, for servers whose responses have different
 * version tags for one file.
 * @param {Source} source @returns {Source}
 */
export const inOneResponse = (source) => kindOf(source).inOneResponse?.(source) ?? source;

/**
 * Opens a source of a single file.
 * @param {Source} source @param {AbortSignal} [signal] @returns {Promise<ByteSource>}
 */
export async function openOne(source, signal) {
  signal?.throwIfAborted();
  const opening = kindOf(source).open(source, signal);
  // Opening a handle may take forever, so an abort does not wait for it. A file that is opened later is closed.
  const abandon = () => opening.then((file) => file.close()).catch(() => {});
  return unlessAborted(opening, signal).catch((error) => {
    if (signal?.aborted) void abandon();
    throw error;
  });
}
