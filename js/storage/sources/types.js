/** Types of sources, without code. */

/**
 * A source of a model as plain data, which can be posted to a worker. kinds.js has the methods of each kind. `hints`:
 * hints of errors by the status of the server's response. `headers`: of each request. `type`: type of the weights, in
 * the name of a repository's file. `integrity`: SHA-256 of the file, unless the load has an option of this name.
 * `facts`: additional properties of the plan.
 * @typedef {({ kind: 'url', url: string, mirrors?: string[], retries?: number, retryDelay?: number, timeout?: number,
 *     single?: boolean, hints?: Record<number, string>, headers?: Record<string, string> }
 *   | { kind: 'blob', blob: Blob, place?: string } | { kind: 'bytes', bytes: Uint8Array }
 *   | { kind: 'handle', handle: FileSystemFileHandle }
 *   | { kind: 'hub', repo: string, file?: string, type?: string, revision: string, hubUrl?: string,
 *     token?: string, retries?: number, retryDelay?: number, timeout?: number }
 *   | { kind: 'several', sources: Source[] } | { kind: 'file', path: string } | { kind: 'parts', parts: FilePart[] }) &
 *   { companion?: Source, manifest?: Uint8Array, integrity?: string,
 *     facts?: { file?: string, fileReason?: string, converted?: File } }} Source
 */

/**
 * A part of a model's file that is stored in another file.
 * @typedef {object} FilePart
 * @property {FileSystemFileHandle | string} handle  of the other file; in Node its path
 * @property {number} offset  beginning of the part in the model's file
 * @property {number} bytes
 * @property {number} at      beginning of the part in the other file
 */

/**
 * Values that are accepted as a source: the result of a function `from…`, an address, a Blob, bytes or a handle. A list
 * of them is a model in several files: the parts of a GGUF file, or the files of a folder in Hugging Face's layout.
 * @typedef {Source | string | URL | Blob | Uint8Array | ArrayBuffer | FileSystemFileHandle | SourceLike[]
 *   | FileList} SourceLike
 */

/**
 * @typedef {object} SourceOptions
 * @property {SourceLike} [companion]  JSON with architecture and tokenizer of a v1 file. For addresses and
 *   paths the default is NAME.json beside NAME.bq4.
 * @property {Uint8Array} [manifest]  list of the contents of a file in any other container, with offsets
 *   (docs/FORMAT.md §4)
 */

/**
 * @typedef {object} UrlOnly
 * @property {(string | URL)[]} [mirrors]  other addresses of the same file, tried in order after a permanent failure
 * @property {number} [retries]     attempts after a temporary failure, counted again from 0 after each received byte; default 4
 * @property {number} [retryDelay]  milliseconds before the first retry, doubled before each further one; default 500
 * @property {number} [timeout]     milliseconds without a byte that count as a failure; default 20,000
 * @property {string | URL} [hubUrl]  the hub of a name `hf:owner/name`; default https://huggingface.co
 * @property {string} [token]  access token for private and gated repositories, which is sent to the hub only
 */

/** @typedef {SourceOptions & UrlOnly} UrlOptions */

/**
 * An open source. Reads throw BqError (NETWORK, HTTP_STATUS, READ, …) or the signal's reason.
 * @typedef {object} ByteSource
 * @property {string} name     for messages
 * @property {number} size     bytes; -1 while unknown
 * @property {boolean} remote  whether bytes come over a network
 * @property {string} type     media type, as far as known
 * @property {(offset: number, end: number, signal?: AbortSignal) => AsyncGenerator<Uint8Array, void>} stream
 *   yields the bytes from `offset` up to `end` (Infinity: the end of the file) in pieces, each valid until the next one
 *   is requested; ends early only at the end of the file
 * @property {() => Promise<void>} close
 * @property {number} [parallel]  number of streams of any length that may be read at a time; missing or 0: only one, as
 *   long as possible
 * @property {(head: Uint8Array, size: number, tag?: string) => void} [expect]  sets the expected beginning and length,
 *   so that another file is detected; `tag`: version tag of an earlier visit
 * @property {ByteSource[]} [parts]  the files of a model in several files
 * @property {(failures: number) => void} [onFailure]  called with the number of consecutive failures, before each retry
 * @property {string} [tag]  version tag of the file (ETag or date of the last change); '' if the server sends none
 * @property {boolean} [renamed]  whether responses had different tags, though the file may be the same
 * @property {boolean} [single]  whether the file is read from one response, from its first byte to the last
 * @property {() => void} [trustHashes]  allows different tags, because the caller compares hashes
 * @property {(signal?: AbortSignal) => Promise<boolean>} [nextMirror]  continues with the next mirror; false: no mirror
 *   is left
 * @property {import('../../format/gguf/file-hash.js').FileHash | null} [fileHash]  checks the hash of the whole file, for
 *   which it is read in order
 * @property {(signal?: AbortSignal) => Promise<boolean>} [changed]  whether the address has another file now
 */

export {};
