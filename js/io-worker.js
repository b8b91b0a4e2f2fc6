/**
 * Worker that reads model files for paging.js while the engine computes. The first message for each source contains the
 * source and, if the heap is shared, the heap. Each further message requests a range of bytes. They are written to the
 * shared heap, or returned in a buffer.
 */
import { packError } from './shared/errors.js';
import { openReader } from './storage/sources/reader.js';

/** @import { Reader } from './storage/sources/reader.js' */

/** The worker's global scope, or a port that it has received. */
let port = /** @type {any} */ (globalThis);
/**
 * @typedef {object} OpenSource
 * @property {Promise<Reader>} reader
 * @property {SharedArrayBuffer | null} heap
 * @property {Set<Promise<void>>} reads  running reads
 */
/** Open sources by id. @type {Map<number, OpenSource>} */
const sources = new Map();
/** Buffers that the engine has returned, for later reads. @type {ArrayBuffer[]} */
const spareBuffers = [];

/** Returns a spare buffer of a suitable size, or a new one. @param {number} bytes */
function bufferFor(bytes) {
  const at = spareBuffers.findIndex((buffer) => buffer.byteLength >= bytes && buffer.byteLength < 2 * bytes + 4096);
  return at < 0 ? new ArrayBuffer(bytes) : spareBuffers.splice(at, 1)[0];
}

/**
 * Reads a range of a source and posts the result.
 * @param {OpenSource} source
 * @param {{ id: number, offset: number, at: number, bytes: number }} request  `offset`: in the file; `at`: in the heap
 */
async function answer({ reader, heap }, { id, offset, at, bytes }) {
  try {
    const { read, fills } = await reader;
    const target = () => (heap ? new Uint8Array(heap, at, bytes) : new Uint8Array(bufferFor(bytes), 0, bytes));
    const piece = await read(offset, bytes, target);
    if (heap && !fills) target().set(piece);
    if (heap) port.postMessage({ id });
    else port.postMessage({ id, buffer: piece.buffer, isReusable: fills }, [piece.buffer]);
  } catch (error) {
    port.postMessage({ id, error: packError(error) });
  }
}

/** Ends the reads that can be ended early. @param {OpenSource} source */
const endReads = ({ reader }) =>
  reader.then(
    (opened) => opened.endReads?.(),
    () => {}, // opening has failed
  );

/** Closes a source after its reads have ended. @param {OpenSource} source */
async function close(source) {
  const { reader, reads } = source;
  await endReads(source);
  await Promise.all(reads);
  await reader.then(
    (opened) => opened.close(),
    () => {}, // opening has failed
  );
}

/** @param {MessageEvent} event */
function receive({ data }) {
  const { sourceId } = data;
  const source = /** @type {OpenSource} */ (sources.get(sourceId));
  if (data.port) {
    listenTo(data.port);
  } else if (data.source) {
    const reader = openReader(data.source);
    reader.catch(() => {});
    sources.set(sourceId, { reader, heap: data.sharedHeap, reads: new Set() });
  } else if (data.close) {
    const report = () => port.postMessage({ closedSource: sourceId });
    sources.delete(sourceId);
    close(source).then(report, report);
  } else if (data.endReads) {
    void endReads(source);
  } else if (data.spare) {
    if (spareBuffers.length < 2) spareBuffers.push(data.spare);
  } else {
    const read = answer(source, data).finally(() => source.reads.delete(read));
    source.reads.add(read);
  }
}

/** Receives requests from a port from now on, instead of the previous one. @param {any} newPort */
function listenTo(newPort) {
  port = newPort;
  port.onmessage = receive;
  port.postMessage({ started: true });
}

listenTo(globalThis);
