/** Reads Blobs and Files. */
import { LONGEST_MS, timeout } from './timeouts.js';

/**
 * Reads a range of a Blob. A range that extends beyond the Blob is cut at its end. Rejects like `blob.arrayBuffer()`.
 *
 * In a worker of Firefox (153), the first reads of a Blob that arrived over a MessagePort may never settle, while later
 * reads of the same bytes do. So a pending read is repeated, each time after twice the previous delay. The first read
 * that settles counts.
 * @param {Blob} blob
 * @param {number} [from]
 * @param {number} [to]
 * @param {AbortSignal} [signal]  stops the repetitions
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export function readBlob(blob, from = 0, to = blob.size, signal) {
  return new Promise((resolve, reject) => {
    let ms = timeout('blobRead');
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let retry;
    const read = () => {
      if (signal?.aborted) return;
      if (ms <= LONGEST_MS) retry = setTimeout(read, ms);
      ms *= 2;
      blob
        .slice(from, to)
        .arrayBuffer()
        .then((buffer) => resolve(new Uint8Array(buffer)), reject)
        .finally(() => clearTimeout(retry));
    };
    read();
  });
}
