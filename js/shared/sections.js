/** The size of a chunk, and the sections of a bq4 file (docs/FORMAT.md §2). C has checked their bytes before. */

/** Bytes of a chunk: the unit of download, of hashing and of the cache. */
export const CHUNK_BYTES = 1 << 20;

/** @param {Uint8Array} bytes @param {number} at */
const view = (bytes, at) => new DataView(bytes.buffer, bytes.byteOffset + at);

/** @param {Uint8Array} bytes @param {number} at */
export const u32 = (bytes, at) => view(bytes, at).getUint32(0, true);

/** Reads a u64, exact up to 2^53. @param {Uint8Array} bytes @param {number} at */
export const u64 = (bytes, at) => u32(bytes, at) + u32(bytes, at + 4) * 2 ** 32;

/**
 * Returns the payloads of sections by their tags. Sections that are not complete in `bytes` are omitted.
 * @param {Uint8Array} bytes  the beginning of the file
 * @param {number} [from]
 * @param {number} [limit]  default: the end of the header's sections
 * @returns {Record<string, Uint8Array>}
 */
export function sections(bytes, from = 64, limit = from + u64(bytes, 16)) {
  /** @type {Record<string, Uint8Array>} */
  const payloads = {};
  const end = Math.min(limit, bytes.length);
  for (let at = from; at + 16 <= end;) {
    const tag = String.fromCharCode(...bytes.subarray(at, at + 4));
    const length = u64(bytes, at + 8);
    if (tag === '\0\0\0\0' || at + 16 + length > end) break;
    payloads[tag] = bytes.subarray(at + 16, at + 16 + length);
    at += 16 + Math.ceil(length / 8) * 8;
  }
  return payloads;
}
