/** Detects integers beyond 2^53. JavaScript may have rounded them, so the original number is unknown. */

/** Smallest number that JSON writes with an exponent. Its digits are approximate by nature. */
const SMALLEST_WITH_EXPONENT = 1e21;

/**
 * Whether an integer may be the result of rounding: beyond 2^53 doubles can't represent all integers.
 * @param {any} value
 */
export const isRounded = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);

/** Whether an integer may be rounded although JSON writes all of its digits. @param {any} value */
export const isInexact = (value) => isRounded(value) && Math.abs(value) < SMALLEST_WITH_EXPONENT;
