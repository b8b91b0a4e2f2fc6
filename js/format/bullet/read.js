/**
 * Reads .bullet v1.0 files (docs/FORMAT.md, ".bullet"): a JSON header, a list of tokens, and tensors with hashes
 * instead of names.
 */
import { BqError } from '../../shared/errors.js';
import { readRange } from '../../storage/sources/read.js';
import {
  ALIGN,
  BLOCK,
  BLOCK_BYTES,
  blocksBytes,
  decodeBlocks,
  MAX_JSON,
  MAX_TOKENIZER,
  nameHash,
  PAGE,
} from './blocks.js';
import { tensorTable } from '../bq4/names.js';
import { wordList } from '../../text/tokenizers/wordlist.js';
import { alignUp } from '../bq4/frame.js';
import { matrixOf } from '../bq4/write-v2.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */

/** Byte offsets of the file's parts. @typedef {{ tokenizer: number, tensors: number, footer: number }} Offsets */

const MAX_RANK = 8;
/**
 * Sizes in bytes: a tensor's entry before and after its dims, the longest entry, the smallest tensor (entry and data).
 */
const ENTRY = { beforeDims: 9, afterDims: 5, maxBytes: 9 + 2 * MAX_RANK + 5, minTensorBytes: 16 + BLOCK_BYTES };

/**
 * @param {ByteSource} file @param {string} reason @param {number} offset
 * @param {import('../../shared/types.js').ErrorCode} [code]
 */
const bad = (file, reason, offset, code = 'FORMAT') => new BqError(code, `${file.name}: ${reason}`, { offset });

/** Reads a range completely. Throws TRUNCATED. @param {ByteSource} file @param {number} from @param {number} to */
async function take(file, from, to) {
  const bytes = await readRange(file, from, to);
  if (bytes.length !== to - from)
    throw bad(file, `it ends after ${from + bytes.length} of ${to} bytes`, from + bytes.length, 'TRUNCATED');
  return bytes;
}

/** @param {Uint8Array} bytes @param {number} at */
const tag = (bytes, at) => String.fromCharCode(...bytes.subarray(at, at + 4));

/** @param {Uint8Array} bytes @returns {DataView} */
const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

/**
 * Reads the JSON header; `end`: offset after its terminator. Throws FORMAT, TRUNCATED, NOT_A_MODEL.
 * @param {ByteSource} file @returns {Promise<{ json: Record<string, any>, end: number }>}
 */
async function readJsonHeader(file) {
  const start = await readRange(file, 0, MAX_JSON + 4);
  const zero = start.indexOf(0);
  if (zero < 0) {
    if (start.length === MAX_JSON + 4) throw bad(file, `its JSON header exceeds ${MAX_JSON} bytes`, 0);
    const isTruncated = new TextDecoder().decode(start).includes('"bullet_version"');
    throw bad(
      file,
      isTruncated ? 'it ends within its JSON header' : 'it begins with { but is not a .bullet file',
      start.length,
      isTruncated ? 'TRUNCATED' : 'NOT_A_MODEL',
    );
  }
  if (zero + 4 > start.length && start.length < MAX_JSON + 4)
    throw bad(file, `it ends after ${start.length} bytes`, start.length, 'TRUNCATED');
  if (start.subarray(zero, zero + 4).some((byte) => byte))
    throw bad(file, 'expected four zero bytes after its JSON header', zero);
  let json;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(start.subarray(0, zero)));
  } catch (cause) {
    throw new BqError(
      'FORMAT',
      `${file.name}: its JSON header is not valid JSON: ${/** @type {Error} */ (cause).message}`,
      {
        cause,
        offset: 0,
      },
    );
  }
  return { json, end: zero + 4 };
}

/**
 * Checks the header's version and its offsets, and returns the offsets. Throws FORMAT, TRUNCATED, NOT_A_MODEL,
 * UNSUPPORTED.
 * @param {ByteSource} file @param {Record<string, any>} json
 * @param {number} end  offset after the terminator of the JSON
 * @returns {Offsets}
 */
function offsetsOf(file, json, end) {
  const { bullet_version: version, dimensions, file_offsets: offsets } = json;
  if (version === undefined) throw bad(file, 'its JSON header has no bullet_version', 0, 'NOT_A_MODEL');
  if (version !== '1.0') throw bad(file, `it has version ${JSON.stringify(version)}; expected "1.0"`, 0, 'UNSUPPORTED');
  for (const [name, part] of Object.entries({ dimensions, file_offsets: offsets }))
    if (part === null || typeof part !== 'object' || Array.isArray(part))
      throw bad(file, `"${name}" of its JSON header is not an object`, 0);
  const { tokenizer, tensors, footer } = offsets;
  if (![tokenizer, tensors, footer].every(Number.isSafeInteger))
    throw bad(file, 'file_offsets: expected integers tokenizer, tensors and footer', 0);
  if (tokenizer !== alignUp(end, PAGE))
    throw bad(file, `file_offsets.tokenizer is ${tokenizer}; expected ${alignUp(end, PAGE)}`, 0);
  if (tensors < tokenizer + 8 || footer < tensors + 8)
    throw bad(file, `file_offsets overlap: ${tokenizer}, ${tensors}, ${footer}`, 0);
  if (file.size < footer + 4)
    throw bad(file, `it ends after ${file.size} of ${footer + 4} bytes`, file.size, 'TRUNCATED');
  if (file.size > footer + 4) throw bad(file, `${file.size - footer - 4} bytes follow its footer`, footer + 4);
  return { tokenizer, tensors, footer };
}

/** @param {ByteSource} file @param {Offsets} offsets */
async function readTokens(file, { tokenizer: from, tensors: to }) {
  if (to - from > MAX_TOKENIZER)
    throw bad(file, `its tokenizer has ${to - from} bytes; the limit is ${MAX_TOKENIZER}`, from);
  const bytes = await take(file, from, to);
  const view = viewOf(bytes);
  if (tag(bytes, 0) !== 'BULK') throw bad(file, 'expected "BULK" at the beginning of its tokenizer', from);
  const count = view.getUint32(4, true);
  if (count > (bytes.length - 8) / 2)
    throw bad(file, `the tokenizer declares ${count} tokens but has only ${bytes.length} bytes`, from + 4);
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  /** @type {string[]} */
  const texts = [];
  for (let at = 8; texts.length < count;) {
    const end = at + 2 <= bytes.length ? at + 2 + view.getUint16(at, true) : Infinity;
    if (end > bytes.length) throw bad(file, `token ${texts.length} of ${count} extends into the tensors`, from + at);
    try {
      texts.push(decoder.decode(bytes.subarray(at + 2, end)));
    } catch {
      throw bad(file, `token ${texts.length} is not valid UTF-8`, from + at);
    }
    at = end;
  }
  return count ? wordList(texts) : null;
}

/** @param {ByteSource} file @param {number} offset @param {number[]} dims @returns {InTensor} */
function blockRows(file, offset, dims) {
  const { cols } = matrixOf(dims);
  return {
    dims,
    at: offset,
    packed: { type: 'bullet', bytes: blocksBytes(dims) },
    async read(row, rows) {
      // A block may contain the end of a row and the beginning of the next one.
      const [first, last] = [Math.floor((row * cols) / BLOCK), Math.ceil(((row + rows) * cols) / BLOCK)];
      const from = offset + first * BLOCK_BYTES;
      const bytes = await take(file, from, offset + last * BLOCK_BYTES);
      try {
        return decodeBlocks(bytes).subarray(row * cols - first * BLOCK, (row + rows) * cols - first * BLOCK);
      } catch (error) {
        if (!(error instanceof BqError)) throw error;
        throw bad(file, error.message, from + error.details.index * BLOCK_BYTES);
      }
    },
  };
}

/**
 * Reads the tensor entry at offset `at`.
 * @param {ByteSource} file @param {number} at @param {number} footer  offset of the footer
 */
async function readEntry(file, at, footer) {
  const bytes = await readRange(file, at, Math.min(at + ENTRY.maxBytes, footer));
  const view = viewOf(bytes);
  const rank = bytes.length >= ENTRY.beforeDims ? bytes[8] : 0;
  if (bytes.length < ENTRY.beforeDims + 2 + ENTRY.afterDims) throw bad(file, 'a tensor extends into the footer', at);
  if (rank < 1 || rank > MAX_RANK)
    throw bad(file, `a tensor has ${rank} dimensions; expected 1 to ${MAX_RANK}`, at + 8);
  const dimsEnd = ENTRY.beforeDims + 2 * rank;
  if (bytes.length < dimsEnd + ENTRY.afterDims) throw bad(file, 'a tensor extends into the footer', at);
  const dims = Array.from({ length: rank }, (_, i) => view.getUint16(ENTRY.beforeDims + 2 * i, true));
  if (dims.includes(0)) throw bad(file, 'a tensor has a dimension of 0', at + ENTRY.beforeDims);
  const [type, size] = [bytes[dimsEnd], view.getUint32(dimsEnd + 1, true)];
  if (type !== 0) throw bad(file, `a tensor has quant_type ${type}; expected 0 (BQ4)`, at + dimsEnd, 'UNSUPPORTED');
  if (size !== blocksBytes(dims))
    throw bad(
      file,
      `a tensor of ${dims.join(' × ')} has ${size} bytes; expected ${blocksBytes(dims)}`,
      at + dimsEnd + 1,
    );
  const data = alignUp(at + dimsEnd + ENTRY.afterDims, ALIGN);
  return { hash: view.getBigUint64(0, true), dims, data, end: data + size };
}

/**
 * Returns the tensors by canonical name, found by the hash of the name. The name of a tensor with an unknown hash is
 * the hash.
 * @param {ByteSource} file @param {Offsets} offsets @param {Record<string, any>} config
 */
async function readTensors(file, { tensors: from, footer }, config) {
  const names = new Map(tensorTable(config).map(({ name }) => [nameHash(name), name]));
  const head = await take(file, from, from + 8);
  if (tag(head, 0) !== 'BWT0') throw bad(file, 'expected "BWT0" at the beginning of its tensors', from);
  const count = viewOf(head).getUint32(4, true);
  if (count > (footer - from) / ENTRY.minTensorBytes)
    throw bad(file, `it declares ${count} tensors but has only ${footer - from} bytes of them`, from + 4);
  /** @type {Map<string, InTensor>} */
  const tensors = new Map();
  let at = from + 8;
  for (let i = 0; i < count; i++) {
    const { hash, dims, data, end } = await readEntry(file, at, footer);
    const name = names.get(hash) ?? `0x${hash.toString(16).padStart(16, '0')}`;
    if (tensors.has(name)) throw bad(file, `tensor "${name}" appears twice`, at);
    tensors.set(name, blockRows(file, data, dims));
    at = end;
  }
  if (at !== footer) throw bad(file, `its tensors end at ${at}; expected its footer at ${footer}`, at);
  if (tag(await take(file, footer, footer + 4), 0) !== 'END!') throw bad(file, 'expected "END!" at its end', footer);
  return tensors;
}

/**
 * Reads a .bullet file. Throws NOT_A_MODEL, FORMAT, TRUNCATED, UNSUPPORTED.
 * @param {ByteSource} file
 */
export async function readBullet(file) {
  const { json, end } = await readJsonHeader(file);
  const offsets = offsetsOf(file, json, end);
  const config = { ...json.dimensions, arch: json.architecture };
  const tensors = await readTensors(file, offsets, config);
  const name = typeof json.model_name === 'string' ? json.model_name : '';
  return { config, tensors, tokenizer: await readTokens(file, offsets), ...(name && { name }) };
}
