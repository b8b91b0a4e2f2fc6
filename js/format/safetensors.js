/** Reads safetensors files: a u64 length, a JSON header of that length, then the tensors' bytes. */
import { BqError } from '../shared/errors.js';
import { readRange } from '../storage/sources/read.js';
import { DTYPES, floatRows } from './checkpoint-tensors.js';

/** Limit of the header's length in bytes, as in the safetensors library. */
const MAX_HEADER = 100_000_000;

/** @typedef {import('../storage/sources/types.js').ByteSource} ByteSource */
/** @typedef {import('./checkpoint-tensors.js').InTensor} InTensor */

/** @param {ByteSource} file @returns {Promise<{ header: Record<string, any>, start: number }>} */
async function readHeader(file) {
  const first = await readRange(file, 0, 8);
  const invalid = (/** @type {string} */ reason, offset = 0) =>
    new BqError('FORMAT', `${file.name} is not a valid safetensors file: ${reason}`, { offset });
  if (first.length < 8) throw invalid(`it has ${first.length} bytes; expected at least 8`);
  const length = Number(new DataView(first.buffer).getBigUint64(0, true));
  if (length < 2 || length > MAX_HEADER || 8 + length > file.size)
    throw invalid(`its header declares ${length} bytes of a file of ${file.size}`);
  const text = new TextDecoder().decode(await readRange(file, 8, 8 + length));
  let header;
  try {
    header = JSON.parse(text);
  } catch (cause) {
    throw invalid(`its header is not valid JSON (${/** @type {Error} */ (cause).message})`, 8);
  }
  if (header === null || typeof header !== 'object' || Array.isArray(header))
    throw invalid('its header is not a JSON object', 8);
  return { header, start: 8 + length };
}

/** @param {unknown} v */
const isSize = (v) => Number.isSafeInteger(v) && /** @type {number} */ (v) >= 0;

/**
 * Checks that each byte after the header belongs to exactly one tensor, as the safetensors library does. Gaps could
 * hide another file, and overlapping tensors could make a small file expand to a large model. Throws FORMAT.
 * @param {ByteSource} file @param {{ name: string, from: number, to: number }[]} entries
 * @param {number} start  offset of the first byte after the header
 */
function checkOffsets(file, entries, start) {
  let end = start;
  for (const { name, from, to } of entries.toSorted((a, b) => a.from - b.from || a.to - b.to)) {
    if (from !== end)
      throw new BqError(
        'FORMAT',
        from > end
          ? `${file.name} has ${from - end} bytes before tensor "${name}" that belong to no tensor`
          : `tensor "${name}" of ${file.name} overlaps the tensor before it by ${end - from} bytes`,
        { offset: end, hint: 'save the file again' },
      );
    end = to;
  }
  if (end !== file.size)
    throw new BqError('FORMAT', `${file.name} has ${file.size - end} bytes after its last tensor`, {
      offset: end,
      hint: 'fetch or save the file again',
    });
}

/**
 * Reads the list of tensors in the header. Throws FORMAT.
 * @param {ByteSource} file
 * @returns {Promise<{
 *   entries: { name: string, dtype: string, shape: number[], from: number, to: number }[],
 *   metadata: Record<string, string>
 * }>}  from, to: byte offsets in the file
 */
export async function listSafetensors(file) {
  const { header, start } = await readHeader(file);
  const entries = Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([name, entry]) => {
      const invalid = (/** @type {string} */ reason) =>
        new BqError('FORMAT', `tensor "${name}" of ${file.name} ${reason}`, { offset: 8 });
      const { dtype, shape, data_offsets: offsets } = entry ?? {};
      if (
        typeof dtype !== 'string' ||
        !Array.isArray(shape) ||
        !shape.every(isSize) ||
        !Array.isArray(offsets) ||
        offsets.length !== 2 ||
        !offsets.every(isSize)
      )
        throw invalid('has no valid dtype, shape and data_offsets');
      const [from, to] = offsets;
      if (from > to || start + to > file.size) throw invalid(`has data_offsets ${from}…${to}, outside the file`);
      return { name, dtype, shape, from: start + from, to: start + to };
    });
  checkOffsets(file, entries, start);
  return { entries, metadata: header.__metadata__ ?? {} };
}

/**
 * Checks that a tensor's size in the file agrees with its shape. Throws FORMAT.
 * @param {ByteSource} file @param {{ name: string, shape: number[], from: number, to: number }} entry
 * @param {number} itemBytes  bytes of an element
 */
function checkBytes(file, { name, shape, from, to }, itemBytes) {
  const needed = shape.reduce((a, b) => a * b, 1) * itemBytes;
  if (needed !== to - from)
    throw new BqError('FORMAT', `tensor "${name}" of ${file.name} has ${to - from} bytes; its shape needs ${needed}`, {
      offset: 8,
    });
}

/**
 * Reads a file; returns its tensors by name. An integer tensor has no weights and is null, except a matrix of bytes
 * (U8) if `unpack` is given. Throws FORMAT, UNSUPPORTED.
 * @param {ByteSource} file
 * @param {(file: ByteSource, at: number, shape: number[], name: string) => InTensor} [unpack]  returns the weights that
 *   are packed in a matrix of bytes at the byte offset `at`
 * @returns {Promise<{ tensors: Map<string, InTensor | null>, metadata: Record<string, string> }>}
 */
export async function readSafetensors(file, unpack) {
  const { entries, metadata } = await listSafetensors(file);
  /** @type {Map<string, InTensor | null>} */
  const tensors = new Map();
  for (const { name, dtype, shape, from, to } of entries) {
    if (!Object.hasOwn(DTYPES, dtype)) {
      if (/^(I|U|BOOL)/.test(dtype)) {
        const isPacked = unpack && dtype === 'U8' && shape.length === 2;
        if (isPacked) checkBytes(file, { name, shape, from, to }, 1);
        tensors.set(name, isPacked ? unpack(file, from, shape, name) : null);
        continue;
      }
      throw new BqError('UNSUPPORTED', `tensor "${name}" of ${file.name} has the unsupported type ${dtype}`, {
        hint: `expected one of ${Object.keys(DTYPES).join(', ')}`,
      });
    }
    checkBytes(file, { name, shape, from, to }, DTYPES[dtype]);
    tensors.set(name, floatRows(file, from, dtype, shape));
  }
  return { tensors, metadata };
}
