/** The most memory of an instance, and how numbers of bytes are written in messages. */

/** Largest memory of an instance: with the last page of 4 GiB the heap would end at address 2^32, which is not a pointer. */
export const LIMIT = 65535 * 65536;

/** @param {number} bytes */
export const megabytes = (bytes) => `${(Math.ceil(bytes / 1e5) / 10).toFixed(bytes < 1e8 ? 1 : 0)} MB`;
