/** How a file is cut, and the journal of what is there. */

/** Bytes per chunk, as in docs/FORMAT.md. */
export const CHUNK = 1 << 20;
/** The number that stands for the prefix. */
export const PREFIX = 0xffffffff;

/** Name of the file of what engines have measured of their machine. No key of a model has this form. */
export const MEASUREMENTS = 'measurements';

/** Bytes per record: u32 kind, u32 chunk, u64 XXH64 of the chunk, u32 0, u32 checksum of the 20 bytes before. */
export const RECORD = 24;
const PRESENT = 1;
const HAVE_UNHASHED = 2;
const DROPPED = 3;

/** FNV-1a. @param {Uint8Array} bytes */
function checksum(bytes) {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}

/** @param {number} index @param {bigint | null | undefined} hash  undefined: the chunk is gone */
export function record(index, hash) {
  const bytes = new Uint8Array(RECORD);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, hash === undefined ? DROPPED : hash === null ? HAVE_UNHASHED : PRESENT, true);
  view.setUint32(4, index, true);
  view.setBigUint64(8, hash ?? 0n, true);
  view.setUint32(20, checksum(bytes.subarray(0, 20)), true);
  return bytes;
}

/**
 * What a journal says. A torn record at its end and damaged ones count for nothing.
 * @param {Uint8Array} journal
 * @returns {Map<number, bigint | null>}
 */
export function replay(journal) {
  /** @type {Map<number, bigint | null>} */
  const hashes = new Map();
  const view = new DataView(journal.buffer, journal.byteOffset, journal.length);
  for (let at = 0; at + RECORD <= journal.length; at += RECORD) {
    if (checksum(journal.subarray(at, at + 20)) !== view.getUint32(at + 20, true)) continue;
    const [kind, index] = [view.getUint32(at, true), view.getUint32(at + 4, true)];
    if (kind === PRESENT) hashes.set(index, view.getBigUint64(at + 8, true));
    else if (kind === HAVE_UNHASHED) hashes.set(index, null);
    else if (kind === DROPPED) hashes.delete(index);
  }
  return hashes;
}

/** @param {{ fileBytes: number, prefixBytes: number }} about */
export const chunksOf = ({ fileBytes, prefixBytes }) => Math.ceil((fileBytes - prefixBytes) / CHUNK);

/** Bytes of a chunk or of the prefix. @param {{ fileBytes: number, prefixBytes: number }} about @param {number} index */
export const lengthOf = ({ fileBytes, prefixBytes }, index) =>
  index === PREFIX ? prefixBytes : Math.min(CHUNK, fileBytes - prefixBytes - index * CHUNK);
