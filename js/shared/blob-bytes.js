/** Reads Blobs and Files. */
import { LONGEST_MS, timeout } from './timeouts.js';

/**
 * Bytes of a range, which ends with the Blob at the latest.
 *
 * In a worker of Firefox (153) the first reads of a Blob that came through a MessagePort may stay without an answer for ever,
 * while later reads of the same bytes are answered. So a read without an answer is begun anew, each time after twice as
 * long, and the first that ends counts.
 * @param {Blob} blob @param {number} [from] @param {number} [to] @param {AbortSignal} [signal]  begins no read anew @returns {Promise<Uint8Array<ArrayBuffer>>}  rejects as
 *   `blob.arrayBuffer()` does
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
