/** Types of sources. Nothing here runs. */

/**
 * How to reach a model: plain data that can be posted to a worker. kinds.js has the methods of each kind. `hints`: by a status of the server, what to
 * do about it.
 * @typedef {({ kind: 'url', url: string, mirrors?: string[], retries?: number, retryDelay?: number, timeout?: number, single?: boolean, hints?: Record<number, string> } | { kind: 'blob', blob: Blob, place?: string } | { kind: 'bytes', bytes: Uint8Array }
 *   | { kind: 'handle', handle: FileSystemFileHandle }
 *   | { kind: 'hub', repo: string, file?: string, revision: string, hubUrl?: string, retries?: number, retryDelay?: number, timeout?: number }
 *   | { kind: 'several', sources: Source[] } | { kind: 'file', path: string } | { kind: 'parts', parts: FilePart[] }) & { companion?: Source, manifest?: Uint8Array }} Source
 */

/**
 * A part of a model's file in another file.
 * @typedef {object} FilePart
 * @property {FileSystemFileHandle | string} handle  in Node its path
 * @property {number} offset  where it begins in the model's file
 * @property {number} bytes
 * @property {number} at      where it begins in its own
 */

/**
 * What can stand for a source: a descriptor of `from…`, an address, a Blob, bytes or a handle; a list of them: the parts of a GGUF file, or the files of a
 * folder in Hugging Face's layout.
 * @typedef {Source | string | URL | Blob | Uint8Array | ArrayBuffer | FileSystemFileHandle | SourceLike[] | FileList} SourceLike
 */

/**
 * @typedef {object} SourceOptions
 * @property {SourceLike} [companion]  JSON that tells architecture and tokenizer of a v1 file. For addresses and
 *   paths the default is NAME.json beside NAME.bq4.
 * @property {Uint8Array} [manifest]  what a file of any other container holds, and where (docs/FORMAT.md §4)
 */

/**
 * @typedef {object} UrlOnly
 * @property {(string | URL)[]} [mirrors]  other addresses of the same file, asked in turn when this one fails for good
 * @property {number} [retries]     tries after a failure that may pass, without a byte between them; default 4
 * @property {number} [retryDelay]  milliseconds before the first of them, twice as many before each next; default 500
 * @property {number} [timeout]     milliseconds without a byte that count as a failure; default 20,000
 * @property {string | URL} [hubUrl]  the hub of a name `hf:owner/name`; default https://huggingface.co
 */

/** @typedef {SourceOptions & UrlOnly} UrlOptions */

/**
 * An open source. Reads throw BqError (NETWORK, HTTP_STATUS, READ, …) or the signal's reason.
 * @typedef {object} ByteSource
 * @property {string} name     for messages
 * @property {number} size     bytes; -1 while unknown
 * @property {boolean} remote  bytes come over a network
 * @property {string} type     media type, as far as known
 * @property {(offset: number, end: number, signal?: AbortSignal) => AsyncGenerator<Uint8Array, void>} stream
 *   the bytes from `offset` up to `end` (Infinity: all there are) in pieces, each good until the next one is asked for;
 *   ends early only at the end of the file
 * @property {() => Promise<void>} close
 * @property {number} [parallel]  streams that may be read at once, of any length; none or 0: one, as long as possible
 * @property {(head: Uint8Array, size: number, tag?: string) => void} [expect]  tells how the file begins and how long it is, so that another one is
 *   recognised; with `tag` what an earlier visit saw
 * @property {ByteSource[]} [parts]  the files that it is in, where these are several
 * @property {(failures: number) => void} [onFailure]  called with the number of failures in a row, before each further try
 * @property {string} [tag]  the server's name of this version of the file (ETag or date); '' where it gives none
 * @property {boolean} [renamed]  answers had different tags, though the file may be the same
 * @property {boolean} [single]  one answer is read from its first byte to the last
 * @property {() => void} [trustHashes]  says that the reader checks hashes, so that different tags are no failure
 * @property {(signal?: AbortSignal) => Promise<boolean>} [nextMirror]  continues with the next mirror; false: no mirror is left
 * @property {(signal?: AbortSignal) => Promise<boolean>} [changed]  whether the address has another file now
 */

export {};
