/** The cache of an engine, and a file's place in it. Loaded where there is one. */
import { BqError, onDemand } from '../../shared/errors.js';
import { u32 } from '../../shared/sections.js';
import { PREFIX } from '../cache/layout.js';
import { Wasm } from '../../wasm/wasm.js';

export { PREFIX };

/** @import { Planned } from '../../engine/plan/plan.js' */
/** @import { Cache, CacheEntry, EngineOptions, Plan, Source } from '../../shared/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */

/** What hashing needs of the heap beside the bytes, and how many of these are hashed without a new instance. */
const ROOM = 4096;
const CHUNK = 2 ** 20;
/** Kinds of chunk hashes (docs/FORMAT.md, HASH). */
const [XXH64, SHA256] = [1, 2];

/** XXH64, computed by the engine; and SHA-256, where pages have no other: without a secure context. @param {Compiled} compiled */
function hashes(compiled) {
  /** @type {Promise<Wasm> | undefined} */
  let kept;
  const instance = () => (kept ??= Wasm.create(compiled, CHUNK + ROOM));
  return {
    async hash(/** @type {Uint8Array} */ bytes) {
      const wasm = bytes.length > CHUNK ? await Wasm.create(compiled, bytes.length + ROOM) : await instance();
      return wasm.scope((take) => {
        const { at, length } = wasm.put(take, bytes);
        const out = take(8);
        wasm.call('bqw_xxh64', at, length, out);
        return new DataView(wasm.bytes(out, 8).slice().buffer).getBigUint64(0, true);
      });
    },
    sha256: globalThis.crypto?.subtle
      ? undefined
      : async (/** @type {Uint8Array} */ bytes) => {
          const hash = new (await onDemand(import('../../wasm/sha256.js'))).Sha256(await instance());
          for (let at = 0; at < bytes.length; at += CHUNK) hash.add(bytes.subarray(at, at + CHUNK));
          return hash.end();
        },
  };
}

/**
 * The store that an engine's option stands for; an open one is returned as it is. STORAGE, ARGUMENT.
 * @param {Exclude<EngineOptions['cache'], false | undefined>} option
 * @param {Compiled} compiled
 * @returns {Promise<Cache>}
 */
export async function openCache(option, compiled) {
  if (typeof option === 'object' && 'open' in option) return option;
  if (typeof option !== 'object' && typeof option !== 'string')
    throw new BqError('ARGUMENT', `cache: expected 'auto', a path, options or a store, found ${option}`);
  return (await onDemand(import('../cache/index.js'))).toStore(option, hashes(compiled));
}

/**
 * Of those that load a file at once one fetches what `plan` did not need of its prefix; the others find it in the cache
 * after that.
 * @param {Cache} cache
 * @param {Planned} planned  `head` becomes what is found
 * @param {AbortSignal} signal
 * @returns {Promise<(() => Promise<void>) | null>}  ends the turn to fetch it, which the caller now has: when the prefix is kept, or won't be
 */
export async function sharePrefix(cache, planned, signal) {
  const { url, head, prefixBytes } = planned;
  if (!url || !cache.turn || head.length >= prefixBytes) return null;
  const pass = await cache.turn(url, signal);
  const { prefix = head } = (await cache.find(url).catch(() => null)) ?? {};
  if (prefix.length !== prefixBytes || head.some((byte, i) => byte !== prefix[i])) return pass;
  planned.head = prefix;
  await pass?.();
  return null;
}

/** Without chunks. A good one is only believed to be damaged the second time. @param {CacheEntry} entry */
async function purge(entry) {
  for (let c = 0; c < 2 * entry.chunks; c++) if (entry.has(c >> 1)) await entry.drop(c >> 1);
}

/**
 * `written` settles, always well, when the prefix is kept; `reads`: chunks may come from the entry.
 * @param {Cache} cache
 * @param {Planned} planned
 * @param {Uint8Array} prefix  verified
 * @param {Uint8Array} [hash]  the payload of HASH
 */
export async function openEntry(cache, { url, prefixBytes, cached, totalBytes, fileId, wanted }, prefix, hash) {
  if (!url) return { entry: null, written: Promise.resolve(), reads: false };
  const kind = hash && u32(hash, 0);
  const entry = await cache.open({
    url,
    prefix,
    sealed: kind === SHA256,
    fileId: fileId ?? prefix.slice(40, 56),
    fileBytes: totalBytes,
    prefixBytes,
    hashes: hash && kind === XXH64 ? new BigUint64Array(hash.slice(8).buffer) : null,
  });
  // The hash of a whole file is made from its first byte on, in one visit: what an earlier one has left doesn't count.
  const reads = !wanted || !!entry.complete;
  if (!reads) await purge(entry);
  // A prefix that is there and wasn't found is damaged.
  const old = cached || !entry.has(PREFIX) ? null : await entry.read(PREFIX);
  if (old?.some((byte, i) => byte !== prefix[i])) await entry.drop(PREFIX);
  const written = cached
    ? Promise.resolve()
    : entry.writePrefix(prefix).then(
        () => {},
        () => {},
      );
  return { entry, written, reads };
}

/**
 * A file in the cache as a source of pages. NOMEM: it isn't there.
 * @param {CacheEntry | null} entry
 * @param {Plan} plan
 * @returns {Promise<Source>}
 */
export async function pagedFrom(entry, { fileBytes }) {
  const parts = await entry?.parts?.();
  if (parts) return { kind: 'parts', parts };
  const why = entry?.problem?.message ?? 'another page may still be writing';
  throw new BqError(
    'NOMEM',
    `the model is larger than the budget, and not all of it is kept in the cache to be read from there: ${why}`,
    { details: { fileBytes } },
  );
}
