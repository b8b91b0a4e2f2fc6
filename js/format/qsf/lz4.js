/** Encoder and decoder of the LZ4 block format (without frames). */
import { BqError } from '../../shared/errors.js';

const MIN_MATCH = 4;
/** Rules of the format: the last 5 bytes are literals. The last match begins at least 12 bytes before the end. */
const LAST_LITERALS = 5;
const LAST_MATCH = 12;
const MAX_DISTANCE = 65535;
const HASH_BITS = 16;
/** Largest possible compression ratio. */
const MAX_RATIO = 255;

/** Throws FORMAT unless `valid` is true. @param {boolean} valid @param {string} problem @param {number} at */
function expect(valid, problem, at) {
  if (!valid) throw new BqError('FORMAT', `the LZ4 block is damaged at byte ${at}: ${problem}`);
}

/**
 * Decompresses. Throws FORMAT for a malformed block, or if the result does not have exactly `size` bytes.
 * @param {Uint8Array} src @param {number} size
 * @returns {Uint8Array}
 */
export function unpackLz4(src, size) {
  expect(size <= MAX_RATIO * src.length, `${src.length} bytes can't decompress to ${size}`, 0);
  const out = new Uint8Array(size);
  let [at, to] = [0, 0];
  const lengthOf = (/** @type {number} */ n) => {
    for (let isContinued = n === 15; isContinued;) {
      expect(at < src.length, 'a length is truncated', at);
      n += src[at];
      isContinued = src[at++] === 255;
    }
    return n;
  };
  for (;;) {
    expect(at < src.length, 'it is truncated', at);
    const token = src[at++];
    const literals = lengthOf(token >> 4);
    expect(literals <= src.length - at && literals <= size - to, 'too many literals', at);
    out.set(src.subarray(at, at + literals), to);
    at += literals;
    to += literals;
    if (at === src.length) break;
    expect(at + 2 <= src.length, 'it is truncated', at);
    const back = src[at] | (src[at + 1] << 8);
    at += 2;
    const length = MIN_MATCH + lengthOf(token & 15);
    expect(back > 0 && back <= to && length <= size - to, 'a match is out of range', at);
    // Byte by byte, since a match may overlap its own output.
    for (const end = to + length; to < end; to++) out[to] = out[to - back];
  }
  expect(to === size, `it decompresses to ${to} bytes; expected ${size}`, at);
  return out;
}

/**
 * Compresses greedily, with one match candidate per hash of four bytes.
 * @param {Uint8Array} src @returns {Uint8Array}
 */
export function packLz4(src) {
  const out = new Uint8Array(src.length + Math.ceil(src.length / 255) + 16);
  const view = new DataView(src.buffer, src.byteOffset, src.length);
  const last = new Int32Array(1 << HASH_BITS).fill(-1);
  let to = 0;
  const putLength = (/** @type {number} */ n) => {
    for (n -= 15; n >= 0; n -= 255) out[to++] = Math.min(n, 255);
  };
  const literals = (/** @type {number} */ from, /** @type {number} */ end, /** @type {number} */ low) => {
    out[to++] = (Math.min(end - from, 15) << 4) | low;
    putLength(end - from);
    out.set(src.subarray(from, end), to);
    to += end - from;
  };
  let [from, at] = [0, 0];
  while (at < src.length - LAST_MATCH) {
    const four = view.getUint32(at, true);
    const hash = Math.imul(four, 2654435761) >>> (32 - HASH_BITS);
    const candidate = last[hash];
    last[hash] = at;
    if (candidate < 0 || at - candidate > MAX_DISTANCE || view.getUint32(candidate, true) !== four) {
      at++;
      continue;
    }
    let length = MIN_MATCH;
    while (at + length < src.length - LAST_LITERALS && src[candidate + length] === src[at + length]) length++;
    literals(from, at, Math.min(length - MIN_MATCH, 15));
    out[to++] = (at - candidate) & 255;
    out[to++] = (at - candidate) >> 8;
    putLength(length - MIN_MATCH);
    at += length;
    from = at;
  }
  literals(from, src.length, 0);
  return out.slice(0, to);
}
