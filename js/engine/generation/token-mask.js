/** Masks of tokens: one bit for each token of the vocabulary, set if the token may come next. */

/** @param {Uint32Array} mask @param {number} id */
export const hasToken = (mask, id) => Boolean(mask[id >>> 5] & (1 << (id & 31)));

/** @param {Uint32Array} mask @param {number} id */
export const addToken = (mask, id) => void (mask[id >>> 5] |= 1 << (id & 31));

/** @param {Uint32Array} mask @param {number} id */
export const removeToken = (mask, id) => void (mask[id >>> 5] &= ~(1 << (id & 31)));

/** Adds the tokens of another mask. @param {Uint32Array} mask @param {Uint32Array} otherMask */
export const addTokens = (mask, otherMask) => otherMask.forEach((word, i) => (mask[i] |= word));
