// Statistics of repeated measurements.

/** @typedef {{ median: number, least: number, most: number, n: number }} Summary */

/** @param {readonly number[]} values @returns {Summary | null} null without values */
export function summary(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const n = sorted.length;
  if (!n) return null;
  return {
    median: n % 2 ? sorted[n >> 1] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2,
    least: sorted[0],
    most: sorted[n - 1],
    n,
  };
}

/** Returns the median; NaN without values. @param {readonly number[]} values */
export const median = (values) => summary(values)?.median ?? NaN;

/** Formats a number with three significant digits and without an exponent. @param {number} x */
export function short(x) {
  if (x === 0) return '0';
  const rounded = Number(x.toPrecision(3));
  if (Math.abs(rounded) >= 1e4) return rounded.toLocaleString('en');
  return rounded.toFixed(Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(rounded))))));
}

/** Formats a summary as "123 (120–130)". @param {Summary | null} s */
export function shown(s) {
  if (!s) return '–';
  return s.n > 1 ? `${short(s.median)} (${short(s.least)}–${short(s.most)})` : short(s.median);
}
