// Keeps what the page asks for, and answers with it where there is no network. Models it leaves alone: bq4 keeps those itself,
// in chunks that are checked, and goes on with a download that broke off.
const NAME = 'bq4-example-1';

addEventListener('install', () => /** @type {any} */ (self).skipWaiting());
addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(/** @type {any} */ (self).clients.claim()));

/** @param {Request} request */
async function answer(request) {
  const cache = await caches.open(NAME);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(request);
    if (kept) return kept;
    throw error;
  }
}

addEventListener('fetch', (/** @type {any} */ event) => {
  const { request } = event;
  if (request.method === 'GET' && !request.headers.has('range') && !/\.(bq4|gguf)$/.test(new URL(request.url).pathname))
    event.respondWith(answer(request));
});
