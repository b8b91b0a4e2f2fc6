/** LZ4 blocks without a frame, as the block format's description has them. */
import { BqError } from '../../shared/errors.js';

const MIN_MATCH = 4;
/** The last bytes of a block are literals; the last match begins no later than 12 before the end. */
const LAST_LITERALS = 5;
const LAST_MATCH = 12;
const FARTHEST = 65535;
const HASH_BITS = 16;
/** Bytes that one packed byte stands for, at most. */
const MOST = 255;

/** @param {boolean} fine @param {string} what @param {number} at */
function expect(fine, what, at) {
  if (!fine) throw new BqError('FORMAT', `the LZ4 block is damaged at its byte ${at}: ${what}`);
}

/**
 * FORMAT: it is malformed, or gives another number of bytes.
 * @param {Uint8Array} src @param {number} size
 * @returns {Uint8Array}
 */
export function unpackLz4(src, size) {
  expect(size <= MOST * src.length, `${src.length} bytes can't unpack to ${size}`, 0);
  const out = new Uint8Array(size);
  let [at, to] = [0, 0];
  const lengthOf = (/** @type {number} */ n) => {
    for (let more = n === 15; more;) {
      expect(at < src.length, 'a length ends too early', at);
      n += src[at];
      more = src[at++] === 255;
    }
    return n;
  };
  for (;;) {
    expect(at < src.length, 'it ends too early', at);
    const token = src[at++];
    const literals = lengthOf(token >> 4);
    expect(literals <= src.length - at && literals <= size - to, 'too many literals', at);
    out.set(src.subarray(at, at + literals), to);
    at += literals;
    to += literals;
    if (at === src.length) break;
    expect(at + 2 <= src.length, 'it ends too early', at);
    const back = src[at] | (src[at + 1] << 8);
    at += 2;
    const length = MIN_MATCH + lengthOf(token & 15);
    expect(back > 0 && back <= to && length <= size - to, 'a match lies outside', at);
    // Byte by byte: a match may repeat what it just wrote.
    for (const end = to + length; to < end; to++) out[to] = out[to - back];
  }
  expect(to === size, `it gives ${to} bytes, not ${size}`, at);
  return out;
}

/** Greedy, with one candidate per hash of four bytes. @param {Uint8Array} src @returns {Uint8Array} */
export function packLz4(src) {
  const out = new Uint8Array(src.length + Math.ceil(src.length / 255) + 16);
  const view = new DataView(src.buffer, src.byteOffset, src.length);
  const last = new Int32Array(1 << HASH_BITS).fill(-1);
  let to = 0;
  const rest = (/** @type {number} */ n) => {
    for (n -= 15; n >= 0; n -= 255) out[to++] = Math.min(n, 255);
  };
  const literals = (/** @type {number} */ from, /** @type {number} */ end, /** @type {number} */ low) => {
    out[to++] = (Math.min(end - from, 15) << 4) | low;
    rest(end - from);
    out.set(src.subarray(from, end), to);
    to += end - from;
  };
  let [from, at] = [0, 0];
  while (at < src.length - LAST_MATCH) {
    const four = view.getUint32(at, true);
    const hash = Math.imul(four, 2654435761) >>> (32 - HASH_BITS);
    const found = last[hash];
    last[hash] = at;
    if (found < 0 || at - found > FARTHEST || view.getUint32(found, true) !== four) {
      at++;
      continue;
    }
    let length = MIN_MATCH;
    while (at + length < src.length - LAST_LITERALS && src[found + length] === src[at + length]) length++;
    literals(from, at, Math.min(length - MIN_MATCH, 15));
    out[to++] = (at - found) & 255;
    out[to++] = (at - found) >> 8;
    rest(length - MIN_MATCH);
    at += length;
    from = at;
  }
  literals(from, src.length, 0);
  return out.slice(0, to);
}
