/** Types of sources. Nothing here runs. */

/**
 * How to reach a model. Plain data that can be posted to a worker.
 * @typedef {({ kind: 'url', url: string } | { kind: 'blob', blob: Blob } | { kind: 'bytes', bytes: Uint8Array }
 *   | { kind: 'handle', handle: FileSystemFileHandle }
 *   | { kind: 'file', path: string }) & { companion?: Source }} Source
 */

/**
 * What can stand for a source: a descriptor of `from…`, an address, a Blob or bytes.
 * @typedef {Source | string | URL | Blob | Uint8Array | ArrayBuffer} SourceLike
 */

/**
 * @typedef {object} SourceOptions
 * @property {SourceLike} [companion]  JSON that tells architecture and tokenizer of a v1 file. For addresses and
 *   paths the default is NAME.json beside NAME.bq4.
 */

/**
 * An open source. Reads throw BqError (NETWORK, HTTP_STATUS, READ, …) or the signal's reason.
 * @typedef {object} ByteSource
 * @property {string} name     for messages
 * @property {number} size     bytes; -1 while unknown
 * @property {boolean} remote  bytes come over a network
 * @property {string} type     media type, as far as known
 * @property {(offset: number, end: number, signal?: AbortSignal) => AsyncGenerator<Uint8Array, void>} stream
 *   the bytes from `offset` up to `end` (Infinity: all there are) in pieces; ends early only at the end of the file
 * @property {() => Promise<void>} close
 */

export {};
