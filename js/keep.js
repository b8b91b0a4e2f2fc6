/** A file's place in the cache. Loaded where there is one. */
import { u32 } from './sections.js';

/** @import { Planned } from './plan.js' */
/** @import { Cache } from './types.js' */

/**
 * `written` settles, always well, when the prefix is kept.
 * @param {Cache} cache
 * @param {Planned} planned  of a v2 file
 * @param {Uint8Array} prefix  verified
 * @param {Uint8Array} [hash]  the payload of HASH
 */
export async function openEntry(cache, { url, prefixBytes, cached, plan: { fileBytes } }, prefix, hash) {
  if (!url) return { entry: null, written: Promise.resolve() };
  const hashes = hash && u32(hash, 0) === 1 ? new BigUint64Array(hash.slice(8).buffer) : null;
  const entry = await cache.open({ url, fileId: prefix.slice(40, 56), fileBytes, prefixBytes, hashes });
  const written = cached ? Promise.resolve() : entry.writePrefix(prefix).then(() => {}, () => {});
  return { entry, written };
}
