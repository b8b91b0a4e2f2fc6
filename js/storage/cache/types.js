/** Types of the store. Nothing here runs. */

/** @typedef {import('../sources/types.js').FilePart} FilePart */

/**
 * What is known of a file from its creation on.
 * @typedef {object} About
 * @property {string} url         where it came from first
 * @property {string} name        for people: the last part of the address
 * @property {string} fileId      hexadecimal; '' when the file has none
 * @property {number} fileBytes
 * @property {number} prefixBytes
 * @property {number} [perSegment]  chunks per segment file, where there are files
 */

/**
 * Names with the time (milliseconds since 1970) when they were last set: `used`, `pinned`, `at-…` (an address).
 * @typedef {Map<string, number>} Marks
 */

/**
 * Where files are kept. Keys are short names of letters, digits, `-`. All methods may reject with what the platform
 * throws; the store makes BqErrors of it.
 * @typedef {object} Backend
 * @property {BackendName} name
 * @property {() => Promise<string[]>} keys
 * @property {(key: string) => Promise<{ about: About, marks: Marks } | null>} get
 * @property {(key: string, about: About) => Promise<About | void>} create  what `get` will say, where that is more
 * @property {(key: string, mark: string, on: boolean) => Promise<void>} mark
 * @property {(key: string) => Promise<void>} remove  also of a half-made or unknown key
 * @property {(key: string, about: About) => Promise<Space>} open
 * @property {((key: string) => Promise<(() => void | Promise<void>) | null>)} [lock]  against other processes, where Web Locks don't
 *   reach; null: another one holds it
 * @property {Pick<import('./disk.js').Folder, 'bytes' | 'put'>} [notes]  small files beside the models, which `remove` deletes by their
 *   names. OPFS has them: what they say holds for the browser that wrote them, and a folder of Node may move to another machine
 * @property {() => void} close
 */

/**
 * The chunks of one file by number; PREFIX is the prefix. One call at a time.
 * @typedef {object} Space
 * @property {() => Promise<Map<number, bigint | null>>} scan  what is there, with XXH64 where it is known
 * @property {(index: number, from: number, into: Uint8Array<ArrayBufferLike>, direct: boolean) => Promise<boolean>} read
 *   fills `into` with what begins `from` bytes into the chunk; false: not there. `direct`: no other tab writes.
 * @property {(index: number, bytes: Uint8Array, hash: bigint | null) => Promise<void>} write  there, whoever is killed, when resolved
 * @property {(index: number) => Promise<void>} drop
 * @property {() => Promise<FilePart[]>} [parts]  files that hold the chunks, where there are files; the prefix apart
 * @property {() => Promise<void>} settle  gives up everything that keeps others from writing
 * @property {() => Promise<void>} close
 */

/** @typedef {'opfs' | 'cache' | 'indexeddb' | 'memory' | 'file'} BackendName */

/**
 * @typedef {object} StoreOptions
 * @property {'auto' | BackendName} [backend]  'auto' (default) takes the best that works here
 * @property {number} [maxBytes]  beyond it the least recently used files go. Default: what the browser allows
 * @property {string} [name]      stores of different names don't meet. Default 'models'
 * @property {string} [path]      folder of the 'file' backend (Node); created when missing
 * @property {number} [stallTimeout] milliseconds without a new chunk after which another tab that downloads the same file
 *   counts as stalled. Default 20000
 * @property {(bytes: Uint8Array) => bigint | Promise<bigint>} [hash]  XXH64 with seed 0, for what brings none
 * @property {(bytes: Uint8Array) => Uint8Array | Promise<Uint8Array>} [sha256]  Default: the browser's, which pages without a secure
 *   context lack
 */

/**
 * A file as `find` returns it.
 * @typedef {object} Found
 * @property {string} key
 * @property {string} fileId
 * @property {number} fileBytes
 * @property {number} prefixBytes
 * @property {Uint8Array} prefix
 * @property {bigint | null} prefixHash  XXH64 of the prefix when it was written: compare before use
 * @property {number} cachedBytes  of the whole file; as the journal says, not verified
 * @property {boolean} complete
 */

/**
 * @typedef {object} Usage
 * @property {number} files
 * @property {number} cachedBytes  of them
 * @property {number} usage        of the whole origin, as the browser says; 0 where it says nothing
 * @property {number} quota        likewise
 * @property {number} maxBytes
 * @property {boolean} persisted   the browser won't delete it by itself
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
 * @property {boolean} [sealed]    the prefix holds SHA-256 hashes of all bytes behind it: the file is the same at every address
 * @property {string | Uint8Array | null} [fileId]  what the file calls itself, for people
 * @property {number} fileBytes
 * @property {number} prefixBytes
 * @property {ArrayLike<bigint> | null} [hashes]  XXH64 of each chunk, where the file brings them: what was recorded
 *   with another hash doesn't count as there
 */

export {};
