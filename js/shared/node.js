/** Whether this is Node, and access to its modules that bundlers for the web don't see. */

/** Taken from globalThis, since for a plain `process` some bundlers add a polyfill. */
const { process } = globalThis;

export const isNode = typeof process?.versions?.node === 'string' && typeof document === 'undefined';

/** A module of Node, without an `import` that bundlers for the web would try to resolve. @param {string} name  without `node:` @returns {any} */
export const nodeModule = (name) => /** @type {any} */ (process).getBuiltinModule(name);
