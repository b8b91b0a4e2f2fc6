/** Types of the store, without code. */

/** @typedef {import('../sources/types.js').FilePart} FilePart */

/**
 * The metadata of a file, written when it is created.
 * @typedef {object} FileMetadata
 * @property {string} url         address of the first download
 * @property {string} name        name to show to the user: the last part of the address
 * @property {string} fileId      hexadecimal; '' if the file has none
 * @property {number} fileBytes
 * @property {number} prefixBytes
 * @property {number} [perSegment]  chunks per segment file, in backends with files
 */

/**
 * Names of marks, with the time (milliseconds since 1970) when they were last set: `used`, `pinned`, and `at-…` for
 * each address of the file.
 * @typedef {Map<string, number>} Marks
 */

/**
 * A kind of storage for files. Keys are short names of letters, digits and `-`. All methods may reject with errors of
 * the platform, which the store converts to BqErrors.
 * @typedef {object} Backend
 * @property {BackendName} name
 * @property {string} [root]  path of its folder, the same for all spellings
 * @property {() => Promise<string[]>} keys
 * @property {(key: string) => Promise<{ about: FileMetadata, marks: Marks } | null>} get
 * @property {(key: string, about: FileMetadata) => Promise<FileMetadata | void>} create  returns the stored metadata if it has more
 *   fields
 * @property {(key: string, mark: string, on: boolean) => Promise<void>} mark
 * @property {(key: string) => Promise<void>} remove  deletes a file, complete or not; does nothing if it is missing
 * @property {(key: string, about: FileMetadata) => Promise<ChunkStorage>} open
 * @property {((key: string) => Promise<(() => void | Promise<void>) | null>)} [lock]  takes a lock against other
 *   processes, for which Web Locks have no effect; null if another process holds it
 * @property {Pick<import('./disk.js').Folder, 'bytes' | 'put'>} [notes]  small files next to the models, which `remove`
 *   deletes by their names. Only OPFS has them: their contents are valid in the browser that wrote them, while a folder
 *   of Node may be moved to another machine
 * @property {() => void} close
 */

/**
 * The stored chunks of one file, by index; PREFIX is the index of the prefix. Calls must not overlap.
 * @typedef {object} ChunkStorage
 * @property {() => Promise<Map<number, bigint | null>>} scan  returns the stored chunks, with their XXH64 if it is
 *   known
 * @property {(index: number, from: number, into: Uint8Array<ArrayBufferLike>, direct: boolean) => Promise<boolean>} read
 *   fills `into` with bytes of a chunk from offset `from` on; false if they are missing. `direct`: no other tab writes
 * @property {(index: number, bytes: Uint8Array, hash: bigint | null) => Promise<void>} write  when it resolves, the
 *   chunk is stored, even if the tab is killed
 * @property {(index: number) => Promise<void>} drop
 * @property {() => Promise<FilePart[]>} [parts]  returns the files with the chunks, in backends with files; without the
 *   prefix
 * @property {() => Promise<void>} settle  closes all handles that prevent other tabs from writing
 * @property {() => Promise<void>} close
 */

/** @typedef {'opfs' | 'cache' | 'indexeddb' | 'memory' | 'file'} BackendName */

/**
 * @typedef {object} StoreOptions
 * @property {'auto' | BackendName} [backend]  'auto' (default): the best available one
 * @property {number} [maxBytes]  size limit in bytes; beyond it the least recently used files are deleted. Default: the
 *   browser's quota
 * @property {string} [name]      name of the store; stores with different names are independent. Default 'models'
 * @property {string} [path]      folder of the 'file' backend (Node); created if it is missing
 * @property {number} [stallTimeout] milliseconds without a new chunk after which another tab that downloads the same
 *   file counts as stalled. Default 20000
 * @property {boolean} [crossOrigin]  whether GGUF files whose SHA-256 is known are shared with other sites, in browsers
 *   with Cross-Origin Storage. The browser may ask the user. Default false
 * @property {(bytes: Uint8Array) => bigint | Promise<bigint>} [hash]  computes XXH64 with seed 0, for files without
 *   hashes
 * @property {(bytes: Uint8Array) => Uint8Array | Promise<Uint8Array>} [sha256]  Default: the browser's function, which
 *   is available in secure contexts only
 */

/**
 * A file as `find` returns it.
 * @typedef {object} Found
 * @property {string} key
 * @property {string} fileId
 * @property {number} fileBytes
 * @property {number} prefixBytes
 * @property {Uint8Array} prefix
 * @property {bigint | null} prefixHash  XXH64 of the prefix when it was written, to be compared before use
 * @property {number} cachedBytes  stored bytes of the file according to the journal; not verified
 * @property {boolean} complete
 */

/**
 * @typedef {object} Usage
 * @property {number} files
 * @property {number} cachedBytes  of these files
 * @property {number} usage        bytes of the entire origin, estimated by the browser; 0 if it gives no estimate
 * @property {number} quota        bytes that the origin may store, estimated by the browser; 0 if it gives no estimate
 * @property {number} maxBytes
 * @property {boolean} persisted   whether the browser never deletes the storage by itself
 */

/**
 * @typedef {object} Listed
 * @property {string} key
 * @property {string} url
 * @property {string} name
 * @property {string} fileId
 * @property {number} fileBytes
 * @property {number} cachedBytes
 * @property {boolean} complete
 * @property {boolean} pinned
 * @property {number} lastUsed  milliseconds since 1970
 */

/**
 * @typedef {object} EntryOptions
 * @property {string} url
 * @property {Uint8Array} prefix   of the file, verified
 * @property {boolean} [sealed]    whether the prefix has SHA-256 hashes of all bytes after it, so that it identifies
 *   the file at every address
 * @property {string | Uint8Array | null} [fileId]  id that the file contains, to show to the user
 * @property {number} fileBytes
 * @property {number} prefixBytes
 * @property {ArrayLike<bigint> | null} [hashes]  XXH64 of each chunk, if the file contains them; stored chunks with
 *   another hash count as missing
 */

export {};
