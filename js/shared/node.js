/** Detection of Node, and access to its modules without imports that bundlers for the web would resolve. */

/** Read from globalThis, because some bundlers add a polyfill for the bare identifier `process`. */
const { process } = globalThis;

/**
 * Whether this is Node. Pages of Electron and NW.js have Node's `process` too; a document without these is one of a test
 * environment (jsdom, happy-dom).
 */
export const isNode =
  typeof process?.versions?.node === 'string' &&
  (typeof document === 'undefined' || !(process.versions.electron || process.versions.nw));

/** Returns a built-in module of Node. @param {string} name  without `node:` @returns {any} */
export const nodeModule = (name) => /** @type {any} */ (process).getBuiltinModule(name);
