/** Node's own modules, asked for in Node only. */

/** Of globalThis: for a plain `process` some bundlers bring a package. */
const { process } = globalThis;

export const isNode = typeof process?.versions?.node === 'string' && typeof document === 'undefined';

/** Without `import`, so that bundlers for the web have nothing to find. @param {string} name  without `node:` @returns {any} */
export const nodeModule = (name) => /** @type {any} */ (process).getBuiltinModule(name);
