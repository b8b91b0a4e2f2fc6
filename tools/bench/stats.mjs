// Statistics of repeated measurements.

/** @typedef {{ median: number, least: number, most: number, n: number }} Summary */

/** Returns the median and the extreme values of the finite numbers in a list. @param {readonly number[]} values @returns {Summary | null}  null without values */
export function summary(values) {
  const sortedValues = values.filter(Number.isFinite).sort((a, b) => a - b);
  const count = sortedValues.length;
  if (!count) return null;
  return {
    median: count % 2 ? sortedValues[count >> 1] : (sortedValues[count / 2 - 1] + sortedValues[count / 2]) / 2,
    least: sortedValues[0],
    most: sortedValues[count - 1],
    n: count,
  };
}

/** Returns the median; NaN without values. @param {readonly number[]} values */
export const median = (values) => summary(values)?.median ?? NaN;

/** Formats a number with three significant digits and without an exponent. @param {number} value */
export function formatNumber(value) {
  if (value === 0) return '0';
  const roundedValue = Number(value.toPrecision(3));
  if (Math.abs(roundedValue) >= 1e4) return roundedValue.toLocaleString('en');
  return roundedValue.toFixed(Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(roundedValue))))));
}

/** Formats a summary as "123 (120–130)". @param {Summary | null} s */
export function formatSummary(s) {
  if (!s) return '–';
  return s.n > 1
    ? `${formatNumber(s.median)} (${formatNumber(s.least)}–${formatNumber(s.most)})`
    : formatNumber(s.median);
}
