/**
 * Converts f16 and bf16, given as 16 bits, from and to numbers. Narrowing rounds to nearest, ties to even; subnormals
 * and infinities are kept.
 */

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

/** @param {number} h  16 bits @returns {number} */
export function f16ToNumber(h) {
  const exponent = (h >> 10) & 31;
  const mantissa = h & 1023;
  const sign = h & 0x8000 ? -1 : 1;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (exponent ? (mantissa + 1024) * 2 ** (exponent - 25) : mantissa * 2 ** -24);
}

/** @param {number} value  an f32 @returns {number} 16 bits */
export function f16FromNumber(value) {
  f32[0] = value;
  const sign = (u32[0] >>> 16) & 0x8000;
  const size = Math.abs(f32[0]);
  if (Number.isNaN(size)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  // Below the normal range the step is 2^-24 everywhere; above, 2^10 steps per power of two.
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size));
  const [low, steps] = scaled(size, exponent);
  // A mantissa that rounds up to 2048 carries into the exponent by itself.
  return sign | (low * 1024 + steps);
}

/**
 * @param {number} size
 * @param {number} exponent  floor(log2(size)); may be wrong by one near a power of two
 * @returns {[number, number]} exponent bits and rounded mantissa, which may be 1024 or more
 */
function scaled(size, exponent) {
  if (size < 2 ** exponent && exponent > -14) exponent--;
  else if (size >= 2 ** (exponent + 1)) exponent++;
  const steps = roundEven(size * 2 ** (10 - exponent));
  return steps < 1024 ? [0, steps] : [exponent + 15, steps - 1024];
}

/** Rounds halves to the even integer. @param {number} x  ≥ 0, below 2^52 */
function roundEven(x) {
  const low = Math.floor(x);
  const fraction = x - low;
  return fraction > 0.5 || (fraction === 0.5 && low % 2 === 1) ? low + 1 : low;
}

/** @param {number} b  16 bits */
export function bf16ToNumber(b) {
  u32[0] = b << 16;
  return f32[0];
}

/** @param {number} value  an f32 @returns {number} 16 bits; NaN stays NaN */
export function bf16FromNumber(value) {
  f32[0] = value;
  const bits = u32[0];
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
