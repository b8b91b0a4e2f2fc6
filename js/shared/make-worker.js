/** Makes the workers beside an engine's own. Loaded where this is done: in the page, or where an engine has no worker. */

/** @import { Role } from './workers.js' */

/** @param {Role} role @param {string} [url]  of a script that imports the one that it stands for @returns {Worker} */
export function makeWorker(role, url) {
  if (url) return new Worker(url, { type: 'module' });
  if (role === 'io') return new Worker(new URL('../io-worker.js', import.meta.url), { type: 'module' });
  return new Worker(new URL('../thread.js', import.meta.url), { type: 'module' });
}
