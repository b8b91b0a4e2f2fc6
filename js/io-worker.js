/**
 * Reads models' files for paging.js while the engine computes. The first message of each names the source and, where the
 * heap is shared, the heap; each further one asks for a range, which goes into the shared heap or back as a buffer.
 */
import { packError } from './shared/errors.js';
import { openReader } from './storage/sources/reader.js';

/** @import { Reader } from './storage/sources/reader.js' */

/** The worker's global scope, or a port that it was sent. */
let port = /** @type {any} */ (globalThis);
/**
 * A source that is open.
 * @typedef {object} Open
 * @property {Promise<Reader>} reader
 * @property {SharedArrayBuffer | null} heap
 * @property {Set<Promise<void>>} reads  running reads
 */
/** Open sources by number. @type {Map<number, Open>} */
const sources = new Map();
/** Returned buffers for later reads. @type {ArrayBuffer[]} */
const spare = [];

/** A spare buffer of a fitting size, or a new one. @param {number} bytes */
function bufferFor(bytes) {
  const at = spare.findIndex((buffer) => buffer.byteLength >= bytes && buffer.byteLength < 2 * bytes + 4096);
  return at < 0 ? new ArrayBuffer(bytes) : spare.splice(at, 1)[0];
}

/** @param {Open} source @param {{ id: number, offset: number, at: number, bytes: number }} request */
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

/** Ends the reads that can be ended. @param {Open} source */
const endReads = ({ reader }) =>
  reader.then(
    (opened) => opened.endReads?.(),
    () => {}, // opening has failed
  );

/** Closes a source after its reads have ended. @param {Open} source */
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
  const source = /** @type {Open} */ (sources.get(sourceId));
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
    if (spare.length < 2) spare.push(data.spare);
  } else {
    const read = answer(source, data).finally(() => source.reads.delete(read));
    source.reads.add(read);
  }
}

/** @param {any} newPort  receives requests from now on */
function listenTo(newPort) {
  port = newPort;
  port.onmessage = receive;
  port.postMessage({ started: true });
}

listenTo(globalThis);
