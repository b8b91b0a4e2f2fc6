/**
 * The kinds of sources, a row for each: what differs between them. A source is plain data, which can be posted to a worker; these are its
 * methods. To add a kind: a row here, its type in types.js, a module that opens it.
 */
import { unlessAborted } from '../../shared/async.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { isNode } from '../../shared/node.js';
import { decoded } from './file-name.js';

/** @import { ByteSource, Source } from './types.js' */

/**
 * @template S
 * @typedef {object} Kind
 * @property {(source: S, signal?: AbortSignal) => Promise<ByteSource>} open
 * @property {(source: S) => string | null} [key]  what the cache knows the file by; none: it is not kept
 * @property {(source: S) => string} [path]  of the file, where others may lie beside it
 * @property {(source: S, path: string) => Source | null} [at]  the same kind of source with another path; null: it can't have another
 * @property {(source: S) => string} [place]  where the file lies in a folder of several, as people read it
 * @property {(source: S) => boolean} [pageable]  any part can be read at any time, for as long as a model is open
 * @property {boolean} [inMemory]
 * @property {(source: S) => Source[]} [files]  the files that it consists of
 * @property {(source: S) => Source} [inOneAnswer]  read from one answer of its server, from the first byte to the last
 * @property {(source: S, options: { memoryBudget?: number, signal?: AbortSignal, cache?: unknown }) => Promise<Source>} [resolve]  what it stands for
 */

/** @template {Source['kind']} K @typedef {Extract<Source, { kind: K }>} Of */

/** @param {string} path */
async function openPath(path) {
  if (!isNode) throw new BqError('ARGUMENT', 'paths can be read in Node only', { hint: 'use fromUrl or fromBlob' });
  return (await onDemand(import('./file.js'))).openFile(path);
}

/** @param {Of<'blob'> | Of<'handle'>} source */
const openBlob = async (source) => (await onDemand(import('./blob.js'))).openBlob(source);

/** @param {string} message @returns {() => Promise<never>} */
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
    // Mirrors have other folders: each its own name of the file.
    at: ({ mirrors: _, ...source }, pathname) => {
      const url = Object.assign(new URL(source.url), { pathname });
      // Addresses of bytes (blob:, data:) keep the path that they have.
      return url.pathname === pathname ? { ...source, url: url.href } : null;
    },
    place: ({ url }) => decoded(new URL(url).pathname),
    pageable: ({ url }) => url.startsWith('file:'),
    inOneAnswer: (source) => ({ ...source, single: true }),
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
    open: refuse('a part of a model is no model of several files'),
    files: ({ sources }) => sources,
    pageable: () => true,
    inOneAnswer: (source) => ({ ...source, sources: source.sources.map(inOneAnswer) }),
  },
  parts: { open: refuse('parts are read by pages only'), pageable: () => true },
  hub: {
    open: async (source, signal) => openOne(await resolveSource(source, { signal }), signal),
    resolve: async (source, options) => (await onDemand(import('./hub.js'))).resolveHub(source, options),
  },
};

/** ARGUMENT. @param {Source} source @returns {Kind<any>} */
function kindOf({ kind }) {
  if (Object.hasOwn(KINDS, kind)) return KINDS[kind];
  throw new BqError(
    'ARGUMENT',
    `expected a source that fromUrl or another function made, found one of the kind ${kind}`,
  );
}

/** What a name of a model stands for; another source as it is. @param {Source} source @param {{ memoryBudget?: number, signal?: AbortSignal, cache?: unknown }} options @returns {Promise<Source>} */
export const resolveSource = async (source, options) => (await kindOf(source).resolve?.(source, options)) ?? source;

/** What the cache knows its file by; null: it is not kept. @param {Source} source @returns {string | null} */
export const keyOf = (source) => kindOf(source).key?.(source) ?? null;

/** Where it lies in a folder of several files; '' where that is unknown. @param {Source} source @returns {string} */
export const placeOf = (source) => kindOf(source).place?.(source) ?? '';

/** Whether any part can be read at any time, for as long as a model is open. @param {Source} source */
export const isPageable = (source) => kindOf(source).pageable?.(source) ?? false;

/** @param {Source} source */
export const isInMemory = (source) => kindOf(source).inMemory ?? false;

/** The files that were listed as one model; none: it is one file. @param {Source} source @returns {Source[]} */
export const filesOf = (source) => kindOf(source).files?.(source) ?? [];

/** The path of its file, '' where it has none. @param {Source} source @returns {string} */
export const pathOf = (source) => kindOf(source).path?.(source) ?? '';

/** The same kind of source with another path; null: it has none. @param {Source} source @param {(path: string) => string} change @returns {Source | null} */
export const withPath = (source, change) => kindOf(source).at?.(source, change(pathOf(source))) ?? null;

/** The same, read from one answer of its server: for servers whose answers name different versions of one file. @param {Source} source @returns {Source} */
export const inOneAnswer = (source) => kindOf(source).inOneAnswer?.(source) ?? source;

/** @param {Source} source @param {AbortSignal} [signal] @returns {Promise<ByteSource>} */
export async function openOne(source, signal) {
  signal?.throwIfAborted();
  const opening = kindOf(source).open(source, signal);
  // A handle may never give its file: what is opened after an abort is closed.
  const abandon = () => opening.then((file) => file.close()).catch(() => {});
  return unlessAborted(opening, signal).catch((error) => {
    if (signal?.aborted) void abandon();
    throw error;
  });
}
