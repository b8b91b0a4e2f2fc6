/**
 * Reads models' files for paging.js while the engine computes. The first message of each names the source and, where the
 * heap is shared, the heap; each further one asks for a range, which goes into the shared heap or back as a buffer.
 */
import { packError } from './shared/errors.js';
import { openReader } from './storage/sources/reader.js';

/** @import { Reader } from './storage/sources/reader.js' */

/** The worker's global scope, or the port that this has sent. */
let port = /** @type {any} */ (globalThis);
/**
 * A source that is open.
 * @typedef {object} Open
 * @property {Promise<Reader>} reader
 * @property {SharedArrayBuffer | null} heap
 * @property {Set<Promise<void>>} reads  under way
 */
/** By number. @type {Map<number, Open>} */
const sources = new Map();
/** Buffers that came back, to be filled again. @type {ArrayBuffer[]} */
const spare = [];

/** A spare one that has room and not far too much, or a new one. @param {number} bytes */
function bufferFor(bytes) {
  const at = spare.findIndex((buffer) => buffer.byteLength >= bytes && buffer.byteLength < 2 * bytes + 4096);
  return at < 0 ? new ArrayBuffer(bytes) : spare.splice(at, 1)[0];
}

/** @param {Open} source @param {{ id: number, offset: number, at: number, bytes: number }} request */
async function answer({ reader, heap }, { id, offset, at, bytes }) {
  try {
    const { read, fills } = await reader;
    const into = () => (heap ? new Uint8Array(heap, at, bytes) : new Uint8Array(bufferFor(bytes), 0, bytes));
    const piece = await read(offset, bytes, into);
    if (heap && !fills) into().set(piece);
    if (heap) port.postMessage({ id });
    else port.postMessage({ id, buffer: piece.buffer, again: fills }, [piece.buffer]);
  } catch (error) {
    port.postMessage({ id, error: packError(error) });
  }
}

/** When nothing is written into its heap any more. @param {Open} source */
async function close({ reader, reads }) {
  await Promise.all(reads);
  await reader.then(
    (open) => open.close(),
    () => {}, // it never was open
  );
}

/** @param {MessageEvent} event */
function hear({ data }) {
  const { of } = data;
  const one = /** @type {Open} */ (sources.get(of));
  if (data.port) {
    begin(data.port);
  } else if (data.source) {
    const reader = openReader(data.source);
    reader.catch(() => {});
    sources.set(of, { reader, heap: data.shared, reads: new Set() });
  } else if (data.close) {
    const done = () => port.postMessage({ closed: of });
    sources.delete(of);
    close(one).then(done, done);
  } else if (data.spare) {
    if (spare.length < 2) spare.push(data.spare);
  } else {
    const read = answer(one, data).finally(() => one.reads.delete(read));
    one.reads.add(read);
  }
}

/** @param {any} by */
function begin(by) {
  port = by;
  port.onmessage = hear;
  port.postMessage({ begun: true });
}

begin(globalThis);
