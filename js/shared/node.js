/** Detection of Node, and access to its modules without imports that bundlers for the web would resolve. */

/** Read from globalThis, because some bundlers add a polyfill for the bare identifier `process`. */
const { process } = /** @type {any} */ (globalThis);

/**
 * Whether this is Node. Pages of Electron (which sets `process.type`) and of NW.js have Node's `process` too. A document
 * without these is one of a test environment, such as jsdom.
 */
export const isNode =
  typeof process?.versions?.node === 'string' &&
  (typeof document === 'undefined' || !(process.type ?? process.versions.nw));

/** Returns a built-in module of Node. @param {string} name  without `node:` @returns {any} */
export const nodeModule = (name) => process.getBuiltinModule(name);
