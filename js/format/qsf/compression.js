/** How the layers of a QSF file may be compressed: LZ4 blocks, and ZSTD by Node's own zlib where it has it. */
import { BqError } from '../../shared/errors.js';
import { nodeModule } from '../../shared/node.js';
import { packLz4, unpackLz4 } from './lz4.js';

/** By number in files; LZ4-HC differs in the encoder only. */
const METHODS = ['none', 'lz4', 'lz4-hc', 'zstd'];
/** What can be asked for. */
const WRITTEN = ['none', 'lz4', 'zstd'];

/** ARGUMENT. @param {string} name @returns {number} */
export function methodNamed(name) {
  if (!WRITTEN.includes(name))
    throw new BqError('ARGUMENT', `"${name}" is no compression of .qsf files`, {
      hint: `one of ${WRITTEN.join(', ')}`,
    });
  return METHODS.indexOf(name);
}

/** @param {number} method */
export const methodName = (method) => METHODS[method];

/** UNSUPPORTED. @returns {any} */
function zlibWithZstd() {
  const zlib = nodeModule('zlib');
  if (!zlib.zstdCompressSync)
    throw new BqError('UNSUPPORTED', `Node ${globalThis.process.version} has no ZSTD`, {
      hint: 'use Node 22.15 or later, or LZ4',
    });
  return zlib;
}

/** UNSUPPORTED. @param {number} method @param {Uint8Array} bytes @returns {Uint8Array} */
export function pack(method, bytes) {
  if (METHODS[method] === 'none') return bytes;
  return METHODS[method] === 'zstd' ? zlibWithZstd().zstdCompressSync(bytes) : packLz4(bytes);
}

/**
 * Exactly `size` bytes; none more is ever made. FORMAT, UNSUPPORTED.
 * @param {number} method @param {Uint8Array} bytes @param {number} size
 * @returns {Uint8Array}
 */
export function unpack(method, bytes, size) {
  if (METHODS[method] !== 'zstd') return unpackLz4(bytes, size);
  const zlib = zlibWithZstd();
  let out;
  try {
    out = zlib.zstdDecompressSync(bytes, { maxOutputLength: size });
  } catch (cause) {
    throw new BqError(
      'FORMAT',
      `the ZSTD data is damaged, or more than ${size} bytes: ${/** @type {Error} */ (cause).message}`,
      { cause },
    );
  }
  if (out.length !== size) throw new BqError('FORMAT', `the ZSTD data has ${out.length} bytes, not ${size}`);
  return out;
}
