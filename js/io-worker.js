/**
 * Reads a model's file for paging.js while the engine computes. The first message names the source and, where the
 * heap is shared, the heap; each further one asks for a range, which goes into the shared heap or back as a buffer.
 */
import { packError } from './shared/errors.js';
import { openReader } from './paging/reader.js';

/** @import { Reader } from './paging/reader.js' */

/** The worker's global scope. */
const port = /** @type {any} */ (globalThis);
/** @type {Promise<Reader>} */
let reader;
/** @type {SharedArrayBuffer | null} */
let heap = null;
/** Buffers that came back, to be filled again. @type {ArrayBuffer[]} */
const spare = [];

/** A spare one that has room and not far too much, or a new one. @param {number} bytes */
function bufferFor(bytes) {
  const at = spare.findIndex((buffer) => buffer.byteLength >= bytes && buffer.byteLength < 2 * bytes + 4096);
  return at < 0 ? new ArrayBuffer(bytes) : spare.splice(at, 1)[0];
}

/** @param {{ id: number, offset: number, at: number, bytes: number }} request */
async function answer({ id, offset, at, bytes }) {
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

port.onmessage = (/** @type {MessageEvent} */ { data }) => {
  if (data.source) {
    heap = data.shared;
    reader = openReader(data.source);
    reader.catch(() => {});
  } else if (data.close) {
    const done = () => port.postMessage({ closed: true });
    reader.then((open) => open.close()).then(done, done);
  } else if (data.spare) {
    if (spare.length < 2) spare.push(data.spare);
  } else {
    void answer(data);
  }
};

port.postMessage({ begun: true });
