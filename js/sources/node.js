/** Node's own modules, asked for in Node only. */

export const isNode = typeof process === 'object' && typeof process.versions?.node === 'string' && typeof document === 'undefined';

/**
 * The name is put together here so that bundlers for the web leave the import alone.
 * @param {string} name  without `node:`
 * @returns {Promise<any>}
 */
export const nodeModule = (name) => import(/* webpackIgnore: true */ /* @vite-ignore */ `node:${name}`);
