/** Node's own modules, asked for in Node only. */

export const isNode =
  typeof process === 'object' && typeof process.versions?.node === 'string' && typeof document === 'undefined';

/** Without `import`, so that bundlers for the web have nothing to find. @param {string} name  without `node:` @returns {any} */
export const nodeModule = (name) => /** @type {any} */ (process).getBuiltinModule(name);
