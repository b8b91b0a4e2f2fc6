/**
 * Reads the central directory of zip archives with uncompressed entries, as written by torch.save. All lengths are
 * checked.
 */
import { BqError } from '../../shared/errors.js';
import { readRange } from '../../storage/sources/read.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */

/**
 * An entry of the archive; `header`: offset of its local header.
 * @typedef {{ name: string, header: number, bytes: number }} Entry
 */

/**
 * Signatures of the end record, of the 64-bit end record, of its locator, of a directory entry, and of a local header.
 */
const [END, END64, LOCATOR64, ENTRY, LOCAL] = [0x06054b50, 0x06064b50, 0x07064b50, 0x02014b50, 0x04034b50];
const END_BYTES = 22;
const ENTRY_BYTES = 46;
/** Size in bytes of an end record with the longest possible comment. */
const MAX_END_BYTES = END_BYTES + 65535;
const MAX_DIRECTORY_BYTES = 64 << 20;
const decoder = new TextDecoder();

/** @param {Uint8Array} bytes */
const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

/** @param {ByteSource} file @param {string} problem @param {number} [offset] */
const damaged = (file, problem, offset) =>
  new BqError('FORMAT', `${file.name}: the zip archive is damaged: ${problem}`, {
    offset,
    hint: 'fetch the file again',
  });

/**
 * Finds the central directory; returns its number of entries, size and offset. Throws FORMAT.
 * @param {ByteSource} file
 */
async function findDirectory(file) {
  const start = Math.max(0, file.size - MAX_END_BYTES);
  const tail = await readRange(file, start, file.size);
  const view = viewOf(tail);
  let at = tail.length - END_BYTES;
  while (at >= 0 && view.getUint32(at, true) !== END) at--;
  if (at < 0) throw damaged(file, 'it has no central directory', file.size);
  const record = {
    entries: view.getUint16(at + 10, true),
    bytes: view.getUint32(at + 12, true),
    offset: view.getUint32(at + 16, true),
  };
  if (at < 20 || view.getUint32(at - 20, true) !== LOCATOR64) return record;
  const offset64 = Number(view.getBigUint64(at - 12, true));
  if (offset64 > file.size - 56)
    throw damaged(file, 'the offset of its 64-bit end record is outside the file', start + at);
  const end64 = viewOf(await readRange(file, offset64, offset64 + 56));
  if (end64.byteLength < 56 || end64.getUint32(0, true) !== END64)
    throw damaged(file, 'its 64-bit end record has a bad signature', offset64);
  return {
    entries: Number(end64.getBigUint64(32, true)),
    bytes: Number(end64.getBigUint64(40, true)),
    offset: Number(end64.getBigUint64(48, true)),
  };
}

/**
 * Replaces values of 0xffffffff by the 64-bit values of the extra field.
 * @param {DataView} view @param {number} at  offset of the extra field @param {number} end @param {number[]} values
 */
function widen(view, at, end, values) {
  while (at + 4 <= end) {
    const [id, length] = [view.getUint16(at, true), view.getUint16(at + 2, true)];
    let field = at + 4;
    at = field + length;
    if (id !== 1 || at > end) continue;
    for (let i = 0; i < values.length && field + 8 <= at; i++) {
      if (values[i] !== 0xffffffff) continue;
      values[i] = Number(view.getBigUint64(field, true));
      field += 8;
    }
  }
  return values;
}

/**
 * Returns the entries by name. Throws FORMAT; UNSUPPORTED for a compressed or encrypted entry.
 * @param {ByteSource} file
 * @returns {Promise<Map<string, Entry>>}
 */
export async function readZip(file) {
  const { entries, bytes, offset } = await findDirectory(file);
  if (!(offset + bytes <= file.size) || bytes > MAX_DIRECTORY_BYTES || entries * ENTRY_BYTES > bytes)
    throw damaged(file, `its central directory declares ${entries} entries in ${bytes} bytes`, offset);
  const directory = await readRange(file, offset, offset + bytes);
  const view = viewOf(directory);
  /** @type {Map<string, Entry>} */
  const entriesByName = new Map();
  let at = 0;
  for (let i = 0; i < entries; i++) {
    if (at + ENTRY_BYTES > directory.length || view.getUint32(at, true) !== ENTRY)
      throw damaged(file, `central directory entry ${i} has a bad signature`, offset + at);
    const [method, nameBytes, extraBytes, commentBytes] = [10, 28, 30, 32].map((o) => view.getUint16(at + o, true));
    const extra = at + ENTRY_BYTES + nameBytes;
    if (extra + extraBytes + commentBytes > directory.length)
      throw damaged(file, `central directory entry ${i} is truncated`, offset + at);
    const name = decoder.decode(directory.subarray(at + ENTRY_BYTES, extra));
    const [size, packed, header] = widen(view, extra, extra + extraBytes, [
      view.getUint32(at + 24, true),
      view.getUint32(at + 20, true),
      view.getUint32(at + 42, true),
    ]);
    if (method !== 0 || (view.getUint16(at + 8, true) & 1) !== 0)
      throw new BqError('UNSUPPORTED', `${file.name}: "${name}" in the zip archive is compressed or encrypted`, {
        offset: offset + at,
        hint: 'expected an archive of torch.save, which is not compressed: save the checkpoint again',
      });
    if (size !== packed || !(header + 30 + size <= offset))
      throw damaged(file, `entry "${name}" declares ${size} bytes, which exceed the archive`, offset + at);
    if (entriesByName.has(name)) throw damaged(file, `entry "${name}" appears twice`, offset + at);
    entriesByName.set(name, { name, header, bytes: size });
    at = extra + extraBytes + commentBytes;
  }
  return entriesByName;
}

/**
 * Returns the offset of an entry's bytes. It is read from the local header, whose fields may be longer than those in
 * the directory.
 * @param {ByteSource} file @param {Entry} entry
 */
export async function entryStart(file, entry) {
  const head = viewOf(await readRange(file, entry.header, entry.header + 30));
  if (head.byteLength < 30 || head.getUint32(0, true) !== LOCAL)
    throw damaged(file, `entry "${entry.name}" has no local header`, entry.header);
  const start = entry.header + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  if (start + entry.bytes > file.size) throw damaged(file, `entry "${entry.name}" exceeds the file`, entry.header);
  return start;
}
