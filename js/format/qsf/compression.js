/** Compression of the layers of QSF files: LZ4 blocks, and ZSTD if Node's zlib supports it. */
import { BqError } from '../../shared/errors.js';
import { nodeModule } from '../../shared/node.js';
import { packLz4, unpackLz4 } from './lz4.js';

/** Names of compression methods by their number in files. LZ4-HC is another encoder of the LZ4 format. */
const METHODS = ['none', 'lz4', 'lz4-hc', 'zstd'];
/** Names that the option --compress accepts. */
const WRITABLE = ['none', 'lz4', 'zstd'];

/** Returns the number of a compression method. Throws ARGUMENT. @param {string} name @returns {number} */
export function methodNamed(name) {
  if (!WRITABLE.includes(name))
    throw new BqError('ARGUMENT', `unknown compression "${name}" of .qsf files`, {
      hint: `expected one of ${WRITABLE.join(', ')}`,
    });
  return METHODS.indexOf(name);
}

/** @param {number} method */
export const methodName = (method) => METHODS[method];

/** Returns Node's zlib. Throws UNSUPPORTED if it has no ZSTD. @returns {any} */
function zlibWithZstd() {
  const zlib = nodeModule('zlib');
  if (!zlib.zstdCompressSync)
    throw new BqError('UNSUPPORTED', `Node ${globalThis.process.version} does not support ZSTD`, {
      hint: 'use Node 22.15 or later, or LZ4',
    });
  return zlib;
}

/** Compresses. Throws UNSUPPORTED. @param {number} method @param {Uint8Array} bytes @returns {Uint8Array} */
export function pack(method, bytes) {
  if (METHODS[method] === 'none') return bytes;
  return METHODS[method] === 'zstd' ? zlibWithZstd().zstdCompressSync(bytes) : packLz4(bytes);
}

/**
 * Decompresses to exactly `size` bytes, and allocates no more than that. Throws FORMAT, UNSUPPORTED.
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
      `the ZSTD data is damaged or longer than ${size} bytes: ${/** @type {Error} */ (cause).message}`,
      { cause },
    );
  }
  if (out.length !== size) throw new BqError('FORMAT', `the ZSTD data has ${out.length} bytes; expected ${size}`);
  return out;
}
