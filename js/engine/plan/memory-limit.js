/** The memory limit of a WebAssembly instance, and the notation of byte counts in messages. */

/**
 * Largest memory of an instance, one page less than 4 GiB: the end address 2^32 of a full heap would not fit in a
 * pointer.
 */
export const LIMIT = 65535 * 65536;

/** @param {number} bytes */
export const megabytes = (bytes) => `${(Math.ceil(bytes / 1e5) / 10).toFixed(bytes < 1e8 ? 1 : 0)} MB`;
