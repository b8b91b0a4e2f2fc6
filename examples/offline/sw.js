// Stores each response that the page receives, and returns it when there is no network. Requests for models are not handled: bq4
// stores models itself, in chunks with hashes, and resumes an interrupted download.
const CACHE_NAME = 'bq4-example-1';

addEventListener('install', () => /** @type {any} */ (self).skipWaiting());
addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(/** @type {any} */ (self).clients.claim()));

/** The response of the network, or the stored one if the network fails. @param {Request} request */
async function respond(request) {
  const cache = await caches.open(CACHE_NAME);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    const storedResponse = await cache.match(request);
    if (storedResponse) return storedResponse;
    throw error;
  }
}

addEventListener('fetch', (/** @type {any} */ event) => {
  const { request } = event;
  if (request.method === 'GET' && !request.headers.has('range') && !/\.(bq4|gguf)$/.test(new URL(request.url).pathname))
    event.respondWith(respond(request));
});
