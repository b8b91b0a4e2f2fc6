/**
 * Creates the workers of an engine: one for files ('io') and the threads. Loaded on demand, in the context that creates
 * them.
 */

/** @import { Role } from './workers.js' */

/**
 * @param {Role} role
 * @param {string} [url]  another script, which imports js/io-worker.js or js/thread.js
 * @returns {Worker}
 */
export function makeWorker(role, url) {
  if (url) return new Worker(url, { type: 'module' });
  if (role === 'io') return new Worker(new URL('../io-worker.js', import.meta.url), { type: 'module' });
  return new Worker(new URL('../thread.js', import.meta.url), { type: 'module' });
}
