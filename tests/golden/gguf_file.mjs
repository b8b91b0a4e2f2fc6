// Reads GGUF files with the types of their metadata, so that gguf-writer.mjs can write them again with changes.
import { readFileSync } from 'node:fs';
import { bf16ToNumber, f16ToNumber } from '../../js/format/bq4/half.js';

/** @import { Tensor, Value } from '../js/gguf-writer.mjs' */
/** @typedef {{ metadata: Record<string, Value>, tensors: Tensor[] }} GgufFile */

/** Names of types, in the order of GGUF's numbers; how a number is read, and its size. @type {[string, string, number][]} */
const TYPES = [
  ['u8', 'getUint8', 1],
  ['i8', 'getInt8', 1],
  ['u16', 'getUint16', 2],
  ['i16', 'getInt16', 2],
  ['u32', 'getUint32', 4],
  ['i32', 'getInt32', 4],
  ['f32', 'getFloat32', 4],
  ['bool', 'getUint8', 1],
  ['text', '', 0],
  ['array', '', 0],
  ['u64', 'getBigUint64', 8],
  ['i64', 'getBigInt64', 8],
  ['f64', 'getFloat64', 8],
];
const [F32, F16, BF16] = [0, 1, 30];

/** Returns weights as f32, since llama.cpp rounds the input of a product to the type of its weights. @param {Buffer} bytes @param {number} type @param {number} count */
function weightsOf(bytes, type, count) {
  if (type === F32) return Uint8Array.from(bytes.subarray(0, 4 * count));
  const toNumber = { [F16]: f16ToNumber, [BF16]: bf16ToNumber }[type];
  if (!toNumber) throw new Error(`expected f32, f16 or bf16, found the type ${type}`);
  return new Uint8Array(Float32Array.from({ length: count }, (_, i) => toNumber(bytes.readUInt16LE(2 * i))).buffer);
}

/** Metadata, and a function that reads the tensors. @param {string} path */
function readHeader(path) {
  const bytes = readFileSync(path);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 8;
  const number = (/** @type {string} */ name) => {
    const [, read, size] = /** @type {any} */ (TYPES.find(([type]) => type === name));
    at += size;
    return Number(view[/** @type {'getUint32'} */ (read)](at - size, true));
  };
  const text = () => {
    const size = number('u64');
    return bytes.toString('utf8', at, (at += size));
  };
  const value = (/** @type {string} */ type) => {
    if (type === 'text') return text();
    if (type === 'bool') return number('bool') !== 0;
    if (type !== 'array') return number(type);
    const item = TYPES[number('u32')][0];
    return [item, Array.from({ length: number('u64') }, () => value(item))];
  };
  const [tensorCount, pairs] = [number('u64'), number('u64')];
  /** @type {Record<string, Value>} */
  const metadata = {};
  for (let i = 0; i < pairs; i++) {
    const [key, type] = [text(), TYPES[number('u32')][0]];
    metadata[key] = [type, value(type)];
  }
  const entries = Array.from({ length: tensorCount }, () => {
    const [name, count] = [text(), number('u32')];
    const dims = Array.from({ length: count }, () => number('u64')).reverse();
    return { name, dims, type: number('u32'), offset: number('u64') };
  });
  const start = Math.ceil(at / 32) * 32;
  const tensors = () =>
    entries.map(({ name, dims, type, offset }) => {
      const count = dims.reduce((a, b) => a * b, 1);
      return { name, dims, type: F32, bytes: weightsOf(bytes.subarray(start + offset), type, count) };
    });
  return { metadata, tensors };
}

/** @param {string} path @returns {GgufFile}  all weights as f32 */
export function readGguf(path) {
  const { metadata, tensors } = readHeader(path);
  return { metadata, tensors: tensors() };
}

/** The metadata of a file's tokenizer. @param {string} path @returns {Record<string, Value>} */
export const readTokenizer = (path) =>
  Object.fromEntries(Object.entries(readHeader(path).metadata).filter(([key]) => key.startsWith('tokenizer.ggml.')));
