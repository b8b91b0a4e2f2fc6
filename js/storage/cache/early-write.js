/**
 * Stores chunks that arrive out of order, so that a page that is killed on a slow network loses only incomplete chunks.
 */

import { timeout } from '../../shared/timeouts.js';

/** @import { Entry } from './entry.js' */

/**
 * Starts a timer that stores verified chunks ahead of their turn.
 * @param {Entry} entry
 * @param {Map<number, { arrivedBytes?: Uint8Array }>} slots  chunks that will be verified and written later; until then
 *   their bytes do not change
 * @param {ArrayLike<bigint>} expected  XXH64 of each chunk
 * @param {(bytes: Uint8Array) => bigint | Promise<bigint>} hash
 * @param {AbortSignal} signal  ends the timer
 */
export function keepAhead(entry, slots, expected, hash, signal) {
  /** Bytes that were present at the last check. @type {Set<Uint8Array | undefined>} */
  let earlierBytes = new Set();
  let isBusy = false;
  const storeArrived = async () => {
    for (const [c, { arrivedBytes }] of [...slots]) {
      // The next chunk in order has arrived, so the network is not the bottleneck.
      if (slots.get(Math.min(...slots.keys()))?.arrivedBytes) return;
      if (!arrivedBytes || !earlierBytes.has(arrivedBytes) || entry.has(c) || entry.role === 'reader') continue;
      // The buffer may have been reused meanwhile.
      if ((await hash(arrivedBytes)) === expected[c] && slots.get(c)?.arrivedBytes === arrivedBytes)
        await entry.write(c, arrivedBytes, expected[c]);
    }
  };
  const timer = setInterval(async () => {
    if (isBusy) return;
    isBusy = true;
    await storeArrived().catch(() => clearInterval(timer));
    earlierBytes = new Set([...slots.values()].map(({ arrivedBytes }) => arrivedBytes));
    isBusy = false;
  }, timeout('keepAhead'));
  signal.addEventListener('abort', () => clearInterval(timer));
}
