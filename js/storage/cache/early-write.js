/** Chunks that came before their turn, kept before it: who is killed on a slow network loses only those under way. */

import { timeout } from '../../shared/timeouts.js';

/** @import { Entry } from './entry.js' */

/**
 * @param {Entry} entry
 * @param {Map<number, { there?: Uint8Array }>} slots  chunks that will be taken, verified and written later; not before that
 *   may their bytes change
 * @param {ArrayLike<bigint>} expected  XXH64 of each chunk
 * @param {(bytes: Uint8Array) => bigint | Promise<bigint>} hash
 * @param {AbortSignal} signal  ends it
 */
export function keepAhead(entry, slots, expected, hash, signal) {
  /** What was there the last time. @type {Set<Uint8Array | undefined>} */
  let seen = new Set();
  let busy = false;
  const keep = async () => {
    for (const [c, { there }] of [...slots]) {
      // Whose turn it is has come: not the network is what is waited for.
      if (slots.get(Math.min(...slots.keys()))?.there) return;
      if (!there || !seen.has(there) || entry.has(c) || entry.role === 'reader') continue;
      // Somebody else may have its memory by now.
      if ((await hash(there)) === expected[c] && slots.get(c)?.there === there)
        await entry.write(c, there, expected[c]);
    }
  };
  const timer = setInterval(async () => {
    if (busy) return;
    busy = true;
    await keep().catch(() => clearInterval(timer));
    seen = new Set([...slots.values()].map(({ there }) => there));
    busy = false;
  }, timeout('keepAhead'));
  signal.addEventListener('abort', () => clearInterval(timer));
}
