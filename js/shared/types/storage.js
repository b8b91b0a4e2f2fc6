/** Types of sources and of the cache, which keeps files between visits. */

/** @typedef {import('../../storage/sources/types.js').Source} Source */

/** @typedef {import('../../storage/sources/types.js').SourceLike} SourceLike */

/** @typedef {import('../../storage/sources/types.js').SourceOptions} SourceOptions */

/** @typedef {import('../../storage/cache/types.js').StoreOptions} StoreOptions */

/**
 * Store of files that persists between visits: the interface that the engine uses.
 * @typedef {object} Cache
 * @property {boolean} [pages]  whether any part of a complete file can be read at any time (`parts` of an entry)
 * @property {{ read: () => Promise<Uint8Array | null>, write: (bytes: Uint8Array) => Promise<void> }} [measurements]
 *   file with the engine's measurements of this machine (js/wasm/measurements.js)
 * @property {boolean} [crossOrigin]  whether files are shared with other sites (js/storage/sources/cross-origin.js)
 * @property {(url: string) => Promise<{ fileId: string, fileBytes: number, prefixBytes: number, prefix: Uint8Array, cachedBytes: number, complete: boolean } | null>} find
 *   Returns the cached file of an address, or null.
 * @property {(url: string, signal?: AbortSignal) => Promise<(() => Promise<void>) | null>} [turn]  Waits for the
 *   exclusive right to fetch the beginning of a file. Returns a function that releases it.
 * @property {(file: { url: string, prefix: Uint8Array, sealed: boolean, fileId: Uint8Array | string, fileBytes: number, prefixBytes: number,
 *   hashes: ArrayLike<bigint> | null }) => Promise<CacheEntry>} open  Opens the entry of a file. js/storage/cache/types.js, EntryOptions,
 *   describes the fields
 * @property {(key: string) => Promise<void>} [delete]  Deletes a cached file that turned out to be another file than
 *   the requested one.
 */

/**
 * The cache of an engine, for inspection and deletion. All methods throw STORAGE.
 * @typedef {object} EngineStore
 * @property {import('../../storage/cache/types.js').BackendName} backend  kind of storage in use
 * @property {string} reason  why a better backend is not in use; '' if this is the best one
 * @property {() => Promise<import('../../storage/cache/types.js').Listed[]>} list  Lists the cached files.
 * @property {() => Promise<import('../../storage/cache/types.js').Usage>} usage  Returns the space in use and the
 *   available space.
 * @property {(key: string) => Promise<void>} delete  Deletes a file. Throws ARGUMENT if `list()` has no such key,
 *   IN_USE if the file is open
 * @property {(key: string, on?: boolean) => Promise<void>} pin  Pins or unpins a file. A pinned file is only removed by
 *   `delete` or `clear`. Throws ARGUMENT if no file has this key
 * @property {() => Promise<void>} clear  Deletes all files that are not in use, and the measurements. Throws IN_USE if
 *   a file was in use
 * @property {() => Promise<void>} [close]  Closes a store that was opened separately from an engine.
 */

/**
 * A file in the cache, divided into chunks (docs/FORMAT.md, HASH). Failures of the cache must not fail a load.
 * @typedef {object} CacheEntry
 * @property {(chunk: number) => boolean} has
 * @property {(chunk: number, signal?: AbortSignal, into?: Uint8Array) => Promise<Uint8Array | null>} read  Returns a
 *   chunk, or null if it is missing after all. `into` is an optional buffer of the chunk's length, which may be filled
 *   and returned
 * @property {(chunk: number, bytes: Uint8Array) => Promise<unknown>} write   Stores a verified chunk.
 * @property {(chunk: number) => Promise<void>} drop  Removes a chunk that did not verify. 0xffffffff: the prefix, after
 *   the beginning of the file has changed
 * @property {(bytes: Uint8Array) => Promise<unknown>} writePrefix
 * @property {(chunk: number, bytes: Uint8Array) => Promise<boolean>} [intact]  Checks that the bytes equal those
 *   written, for files without hashes of their own.
 * @property {(chunk: number, state: Uint8Array) => Promise<void>} [writeHashState]  Stores the state of the file's
 *   SHA-256 before a chunk.
 * @property {(chunk: number) => Promise<Uint8Array | null>} [readHashState]  Returns a stored state.
 * @property {(slots: Map<number, { arrivedBytes?: Uint8Array }>) => void} [keepAhead]  Stores chunks that have arrived
 *   but are not verified yet, from now on. Only chunks whose hash matches the file's are stored; the bytes are not
 *   modified
 * @property {string} [key]  key of the file, for `delete` of the cache
 * @property {number} chunks  number of chunks
 * @property {boolean} [complete]  whether all chunks and the prefix are cached
 * @property {Error | null} problem   why no more chunks are stored
 * @property {'reader' | 'writer'} [role]   'reader' if another tab fetches this file
 * @property {(chunk: number, signal?: AbortSignal) => Promise<boolean>} [waitFor]  Waits for a chunk; false if it won't
 *   arrive
 * @property {() => Promise<import('../../storage/sources/types.js').FilePart[] | null>} [parts]  Returns the files that
 *   hold the chunks, or null if some chunks are missing.
 * @property {() => Promise<void>} close
 */

export {};
