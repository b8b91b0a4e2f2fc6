import { createEngine } from '../../js/node.js';

/** Creates an engine without shared memory, as in a page without cross-origin isolation. @param {object} options */
export async function createUnsharedEngine(options) {
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, 'crossOriginIsolated');
  Object.defineProperty(globalThis, 'crossOriginIsolated', { value: false, configurable: true });
  try {
    return await createEngine(options);
  } finally {
    if (descriptor) Object.defineProperty(globalThis, 'crossOriginIsolated', descriptor);
    else delete (/** @type {any} */ (globalThis).crossOriginIsolated);
  }
}
