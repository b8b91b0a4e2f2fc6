/**
 * In the engine's worker: on a first visit the name of the worker is the address of a file (engine-host.js). It is requested before the
 * engine is compiled, and the engine's own request for it gets this response.
 */

/** Milliseconds after which an unused response is aborted. */
const UNUSED_MS = 30_000;

const { name: url, fetch } = /** @type {any} */ (globalThis);

if (url) {
  /** @type {any} */ (globalThis).name = ''; // WebKit can run the bundle again: js/worker.js
  const controller = new AbortController();
  const answer = fetch(url, { cache: 'no-store', signal: controller.signal });
  answer.catch(() => {}); // the engine gets the error with its own request
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
