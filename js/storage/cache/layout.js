/** The division of a file into prefix and chunks, and the journal of stored chunks. */
import { CHUNK_BYTES } from '../../shared/sections.js';

/** Index that stands for the prefix instead of a chunk. */
export const PREFIX = 0xffffffff;

/**
 * The state of SHA-256 before a chunk, for files whose hash is checked while they are repacked: u32 chunk, u32 0, and
 * the state. The states of the two newest chunks are stored, with these indices in place of a chunk's: a state is
 * stored before the chunk that precedes it, so one of them belongs to the first missing chunk at any time.
 */
export const STATE_BYTES = 112;
const LAST_STATE = 0xfffffffe;

/** Returns the index of the state before a chunk. @param {number} chunk */
export const stateIndex = (chunk) => LAST_STATE - (chunk % 2);

/** Whether an index stands for a state. @param {number} index */
export const isState = (index) => index === LAST_STATE || index === LAST_STATE - 1;

/** Name of the file with measurements of the machine by engines. It can't be confused with the key of a model. */
export const MEASUREMENTS = 'measurements';

/** Bytes per record: u32 kind, u32 chunk, u64 XXH64 of the chunk, u32 0, u32 checksum of the 20 bytes before. */
export const RECORD_BYTES = 24;
const PRESENT = 1;
const PRESENT_UNHASHED = 2;
const DROPPED = 3;

/** Computes FNV-1a. @param {Uint8Array} bytes */
function checksum(bytes) {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}

/**
 * Creates a record of the journal.
 * @param {number} index @param {bigint | null | undefined} hash  null: unknown; undefined: the chunk was dropped
 */
export function encodeRecord(index, hash) {
  const bytes = new Uint8Array(RECORD_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, hash === undefined ? DROPPED : hash === null ? PRESENT_UNHASHED : PRESENT, true);
  view.setUint32(4, index, true);
  view.setBigUint64(8, hash ?? 0n, true);
  view.setUint32(20, checksum(bytes.subarray(0, 20)), true);
  return bytes;
}

/**
 * Returns the stored chunks according to a journal, with their hashes if they are known. Damaged records and an
 * incomplete one at the end are ignored.
 * @param {Uint8Array} journal
 * @returns {Map<number, bigint | null>}
 */
export function replay(journal) {
  /** @type {Map<number, bigint | null>} */
  const hashes = new Map();
  const view = new DataView(journal.buffer, journal.byteOffset, journal.length);
  for (let at = 0; at + RECORD_BYTES <= journal.length; at += RECORD_BYTES) {
    if (checksum(journal.subarray(at, at + 20)) !== view.getUint32(at + 20, true)) continue;
    const [kind, index] = [view.getUint32(at, true), view.getUint32(at + 4, true)];
    if (kind === PRESENT) hashes.set(index, view.getBigUint64(at + 8, true));
    else if (kind === PRESENT_UNHASHED) hashes.set(index, null);
    else if (kind === DROPPED) hashes.delete(index);
  }
  return hashes;
}

/** Returns the number of chunks of a file. @param {{ fileBytes: number, prefixBytes: number }} about */
export const chunksOf = ({ fileBytes, prefixBytes }) => Math.ceil((fileBytes - prefixBytes) / CHUNK_BYTES);

/**
 * Returns the length of a chunk, of the prefix or of a state, in bytes.
 * @param {{ fileBytes: number, prefixBytes: number }} about @param {number} index
 */
export const lengthOf = ({ fileBytes, prefixBytes }, index) =>
  isState(index)
    ? STATE_BYTES
    : index === PREFIX
      ? prefixBytes
      : Math.min(CHUNK_BYTES, fileBytes - prefixBytes - index * CHUNK_BYTES);
