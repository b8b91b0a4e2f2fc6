/** Integers beyond 2^53, which JavaScript rounds: what a number was before it came here is unknown. */

/** From here on JSON writes numbers with an exponent: not each of their digits is meant. */
const EXPONENTS = 1e21;

/** Whether an integer may be another one that was rounded: beyond 2^53 doubles skip some. @param {any} value */
export const isRounded = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);

/** Whether its digits are written, though they may be those of another one. @param {any} value */
export const isInexact = (value) => isRounded(value) && Math.abs(value) < EXPONENTS;
