/**
 * In the engine's worker: on a first visit the file that the worker is called by (engine-host.js) is requested before the
 * engine has its module, and the engine's request for all of that file gets the answer.
 */

/** Milliseconds after which an unused response is aborted. */
const UNUSED_MS = 30_000;

const { name: url, fetch } = /** @type {any} */ (globalThis);

if (url) {
  const controller = new AbortController();
  const answer = fetch(url, { cache: 'no-store', signal: controller.signal });
  answer.catch(() => {}); // the engine is told when it asks
  const restore = () => (globalThis.fetch = fetch);
  const timer = setTimeout(() => (restore(), controller.abort()), UNUSED_MS);
  globalThis.fetch = (address, options) => {
    if (address !== url || new Headers(options?.headers).has('range')) return fetch(address, options);
    clearTimeout(timer);
    restore();
    options?.signal?.addEventListener('abort', () => controller.abort());
    return answer;
  };
}
