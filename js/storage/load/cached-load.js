/** The cache of an engine, and the entry of a file in it. Loaded for engines with a cache. */
import { BqError, onDemand } from '../../shared/errors.js';
import { CHUNK_BYTES, u32 } from '../../shared/sections.js';
import { PREFIX } from '../cache/layout.js';
import { Wasm } from '../../wasm/wasm.js';

export { PREFIX };

/** @import { HashStates } from '../../format/gguf/file-hash.js' */
/** @import { Planned } from '../../engine/plan/plan.js' */
/** @import { Cache, CacheEntry, EngineOptions, Plan, Source } from '../../shared/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */

/** Spare heap bytes for hashing. */
const SPARE_BYTES = 4096;
/** Kinds of chunk hashes (docs/FORMAT.md, HASH). */
const [XXH64, SHA256] = [1, 2];

/**
 * XXH64 and SHA-256, computed in WebAssembly; SHA-256 only where the page has none, outside secure contexts.
 * @param {Promise<Compiled>} compiled
 */
function hashes(compiled) {
  /** @type {Promise<Wasm> | undefined} */
  let sharedInstance;
  const create = async (/** @type {number} */ bytes) => Wasm.create(await compiled, bytes + SPARE_BYTES);
  const instance = () => (sharedInstance ??= create(CHUNK_BYTES));
  return {
    async hash(/** @type {Uint8Array} */ bytes) {
      const wasm = await (bytes.length > CHUNK_BYTES ? create(bytes.length) : instance());
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
          for (let at = 0; at < bytes.length; at += CHUNK_BYTES) hash.add(bytes.subarray(at, at + CHUNK_BYTES));
          return hash.end();
        },
  };
}

/**
 * Opens the store of the option `cache`; returns an open store unchanged. Throws STORAGE, ARGUMENT.
 * @param {Exclude<EngineOptions['cache'], false | undefined>} option
 * @param {Promise<Compiled>} compiled  opening a store does not wait for it, computing a hash does
 * @returns {Promise<Cache>}
 */
export async function openCache(option, compiled) {
  if (typeof option === 'object' && typeof (/** @type {any} */ (option).open) === 'function')
    return /** @type {any} */ (option);
  if ((typeof option !== 'object' || Array.isArray(option)) && typeof option !== 'string')
    throw new BqError('ARGUMENT', `cache: expected 'auto', a path, options or a store, found ${option}`);
  return (await onDemand(import('../cache/index.js'))).toStore(/** @type {any} */ (option), hashes(compiled));
}

/**
 * If several tabs load a file at the same time, one of them downloads the rest of its prefix. The others wait and then
 * read the prefix from the cache.
 * @param {Cache} cache
 * @param {Planned} planResult  its `head` is replaced by the cached prefix, if there is one
 * @param {AbortSignal} signal
 * @returns {Promise<(() => Promise<void>) | null>}  ends the caller's turn to download the prefix; to be called when
 *   the prefix is stored or can't be stored. Null if there is nothing to end
 */
export async function sharePrefix(cache, planResult, signal) {
  const { url, head, prefixBytes } = planResult;
  if (!url || !cache.turn || head.length >= prefixBytes) return null;
  const releaseTurn = await cache.turn(url, signal);
  const { prefix = head } = (await cache.find(url).catch(() => null)) ?? {};
  if (prefix.length !== prefixBytes || head.some((byte, i) => byte !== prefix[i])) return releaseTurn;
  planResult.head = prefix;
  await releaseTurn?.();
  return null;
}

/**
 * Opens the entry of a file. `written` resolves when the prefix is stored or can't be stored.
 * @param {Cache} cache
 * @param {Planned} planned
 * @param {Uint8Array} prefix  verified
 * @param {Uint8Array} [hash]  the payload of HASH
 * @param {import('../sources/types.js').ByteSource} [file]  the source, which stores states of its hash in the entry
 */
export async function openEntry(cache, { url, prefixBytes, cached, totalBytes, fileId }, prefix, hash, file) {
  if (!url) return { entry: null, written: Promise.resolve() };
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
  const fileHash = file?.fileHash;
  if (fileHash && cache.crossOrigin && !entry.has(0)) {
    const { StoredCopy } = await onDemand(import('../sources/cross-origin.js'));
    fileHash.storedCopy = await StoredCopy.create(fileHash.expected.hash);
  }
  // An incomplete download continues where the state of the file's hash is stored, else it starts again (CHANGED).
  if (fileHash && entry.writeHashState) fileHash.entry = /** @type {HashStates} */ (entry);
  // A prefix that is stored but was not found is damaged.
  const storedPrefix = cached || !entry.has(PREFIX) ? null : await entry.read(PREFIX);
  if (storedPrefix?.some((byte, i) => byte !== prefix[i])) await entry.drop(PREFIX);
  if (!cached && !entry.has(0)) await fileHash?.save(0);
  const written = cached
    ? Promise.resolve()
    : entry.writePrefix(prefix).then(
        () => {},
        () => {},
      );
  return { entry, written };
}

/**
 * Returns a cached file as a source for paging. Throws NOMEM if it is not completely cached.
 * @param {CacheEntry | null} entry
 * @param {Plan} plan
 * @returns {Promise<Source>}
 */
export async function pagedFrom(entry, { fileBytes }) {
  const parts = await entry?.parts?.();
  if (parts) return { kind: 'parts', parts };
  const reason = entry?.problem?.message ?? 'another page may still be writing';
  throw new BqError(
    'NOMEM',
    `the model is larger than the memory budget, and it is not completely in the cache for paging: ${reason}`,
    { details: { fileBytes, isUncached: true } },
  );
}
