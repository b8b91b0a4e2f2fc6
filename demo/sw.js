/**
 * Service worker: keeps what the page needs to start without a network. It answers only for the files listed here,
 * and asks the network first, so a page with a network is never stale. Everything else (models, which the engine
 * stores, other origins, other files) is none of its business.
 *
 * It also makes the page cross-origin isolated, which threads need, on hosts that can't send headers.
 *
 * A browser test compares the list with what a visit fetches.
 */

const CACHE = 'bq4-demo-2';

const FILES = [
  './', 'icon.svg', 'style.css', 'theme.js',
  'alerts.js', 'app.js', 'bundled.js', 'crash.js', 'drop.js', 'format.js', 'host.js', 'link-card.js', 'link-flow.js', 'offline.js', 'page.js', 'panel.js', 'parts.js', 'settings.js',
  'storage.js', 'store.js', 'thread.js', 'view.js', 'weight-picture.js', 'worker.js',
  ...Object.entries({
    '.': ['index', 'thread', 'worker'],
    chat: ['chat', 'stop-strings'],
    convert: ['companion-json', 'config', 'frame', 'weights'],
    'convert/tokenizers': ['section'],
    engine: ['engine', 'estimate', 'model', 'session', 'trace'],
    load: ['bad-bytes', 'cached-load', 'chunks', 'loading', 'progress'],
    page: ['client'],
    plan: ['companion', 'fit', 'manifest', 'plan', 'v1'],
    shared: ['async', 'builds', 'errors', 'generation', 'node', 'protocol', 'sections'],
    sources: ['blob', 'http', 'index', 'local', 'name', 'read', 'remote'],
    store: ['ahead', 'cache', 'disk', 'entry', 'errors', 'index', 'indexeddb', 'layout', 'locks', 'memory', 'opfs'],
    wasm: ['border', 'features', 'release-memory', 'threads', 'wasm'],
  }).flatMap(([room, names]) => names.map((name) => `../js/${room}/${name}.js`)),
  ...['relaxed', 'simd128', 'relaxed-threads', 'simd128-threads'].map((name) => `../build/wasm/bq4-${name}.wasm`),
].map((path) => new URL(path, location.href).href);

/** Milliseconds that the network may be silent where there is a copy: some connections neither answer nor break. */
const PATIENCE = 4000;

/** With these on the page and its workers, the browser lets them share memory. */
const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** The types of service workers are not those of pages. @type {any} */
const worker = globalThis;

worker.addEventListener('install', (/** @type {any} */ event) => {
  worker.skipWaiting();
  // no-cache: asks whether what the browser's own cache holds is still right.
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES.map((url) => new Request(url, { cache: 'no-cache' })))));
});

worker.addEventListener('activate', (/** @type {any} */ event) => {
  event.waitUntil(Promise.all([dropOld(), worker.clients.claim()]));
});

worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const key = keyOf(event.request);
  if (key) event.respondWith(answer(event.request, key, (/** @type {Promise<any>} */ work) => event.waitUntil(work)).then(isolated));
});

async function dropOld() {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name.startsWith('bq4-demo-') && name !== CACHE).map((name) => caches.delete(name)));
}

/** Under which listed address a request is kept, if it is ours. @param {Request} request */
function keyOf(request) {
  if (request.method !== 'GET' || request.headers.has('range')) return undefined;
  const url = new URL(request.url);
  if (request.mode === 'navigate') url.search = '';
  url.hash = '';
  const path = url.href.replace(/\/index\.html$/, '/');
  return FILES.find((file) => file === path);
}

/** @param {Request} request @param {string} key @param {(work: Promise<unknown>) => void} later */
async function answer(request, key, later) {
  // Storage that is full or was taken away must not fail what the network has.
  const cache = await caches.open(CACHE).catch(() => null);
  const kept = await cache?.match(key).catch(() => undefined);
  const asked = fetch(request).then((response) => {
    if (response.status !== 200 || response.redirected) return kept ?? response;
    if (cache && !isSame(response, kept)) later(cache.put(key, response.clone()).catch(() => {}));
    return response;
  });
  if (!kept) return asked;
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE, kept));
  return Promise.race([asked.catch(() => kept), late]);
}

/** @param {Response} response @param {Response} [kept] */
const isSame = (response, kept) => response.headers.has('etag') && response.headers.get('etag') === kept?.headers.get('etag');

/** @param {Response} response */
function isolated(response) {
  // A redirect, or what can't be looked into, passes as it is.
  if (response.type === 'opaque' || response.type === 'opaqueredirect' || response.status === 304) return response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
