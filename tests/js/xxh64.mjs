/**
 * XXH64 (Yann Collet's xxHash, 64-bit variant), implemented from its public specification. The engine has the same function in C; tests use
 * this one to check it, and where no wasm module is loaded.
 */

const P1 = 0x9e3779b185ebca87n;
const P2 = 0xc2b2ae3d27d4eb4fn;
const P3 = 0x165667b19e3779f9n;
const P4 = 0x85ebca77c2b2ae63n;
const P5 = 0x27d4eb2f165667c5n;

/** @param {bigint} x */
const wrap = (x) => BigInt.asUintN(64, x);
/** @param {bigint} x @param {bigint} bits */
const rotate = (x, bits) => wrap(x << bits) | (x >> (64n - bits));
/** @param {bigint} sum @param {bigint} input */
const round = (sum, input) => wrap(rotate(wrap(sum + wrap(input * P2)), 31n) * P1);
/** @param {bigint} hash @param {bigint} sum */
const merge = (hash, sum) => wrap((hash ^ round(0n, sum)) * P1 + P4);

/**
 * @param {Uint8Array} bytes
 * @param {bigint} [seed]
 * @returns {bigint}
 */
export function xxh64(bytes, seed = 0n) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const u64 = (/** @type {number} */ at) => view.getBigUint64(at, true);
  let at = 0;
  let hash = wrap(seed + P5);
  if (bytes.length >= 32) {
    let a = wrap(seed + P1 + P2);
    let b = wrap(seed + P2);
    let c = seed;
    let d = wrap(seed - P1);
    for (; at + 32 <= bytes.length; at += 32) {
      a = round(a, u64(at));
      b = round(b, u64(at + 8));
      c = round(c, u64(at + 16));
      d = round(d, u64(at + 24));
    }
    hash = wrap(rotate(a, 1n) + rotate(b, 7n) + rotate(c, 12n) + rotate(d, 18n));
    for (const sum of [a, b, c, d]) hash = merge(hash, sum);
  }
  hash = wrap(hash + BigInt(bytes.length));
  for (; at + 8 <= bytes.length; at += 8) hash = wrap(rotate(hash ^ round(0n, u64(at)), 27n) * P1 + P4);
  if (at + 4 <= bytes.length) {
    hash = wrap(rotate(hash ^ wrap(BigInt(view.getUint32(at, true)) * P1), 23n) * P2 + P3);
    at += 4;
  }
  for (; at < bytes.length; at++) hash = wrap(rotate(hash ^ wrap(BigInt(bytes[at]) * P5), 11n) * P1);
  hash = wrap((hash ^ (hash >> 33n)) * P2);
  hash = wrap((hash ^ (hash >> 29n)) * P3);
  return hash ^ (hash >> 32n);
}
