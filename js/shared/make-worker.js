/** Creates the workers that an engine uses: for files ('io') and for threads. Loaded on demand, in the context that creates them. */

/** @import { Role } from './workers.js' */

/** @param {Role} role @param {string} [url]  of a script that imports js/io-worker.js or js/thread.js, in place of these @returns {Worker} */
export function makeWorker(role, url) {
  if (url) return new Worker(url, { type: 'module' });
  if (role === 'io') return new Worker(new URL('../io-worker.js', import.meta.url), { type: 'module' });
  return new Worker(new URL('../thread.js', import.meta.url), { type: 'module' });
}
