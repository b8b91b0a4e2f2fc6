import { createEngine } from '../../js/node.js';

/** An engine where memory can't be shared. @param {object} options */
export async function unshared(options) {
  const own = Object.getOwnPropertyDescriptor(globalThis, 'crossOriginIsolated');
  Object.defineProperty(globalThis, 'crossOriginIsolated', { value: false, configurable: true });
  try {
    return await createEngine(options);
  } finally {
    if (own) Object.defineProperty(globalThis, 'crossOriginIsolated', own);
    else delete (/** @type {any} */ (globalThis).crossOriginIsolated);
  }
}
