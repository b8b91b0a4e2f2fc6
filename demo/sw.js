/**
 * Service worker: keeps what the page needs to start without a network, and asks the network first, so a page with a
 * network is never stale. What that is, it finds as it is installed: it reads the page, what that names, what these import,
 * and so on. Everything else (models, which the engine stores, other origins, other folders) is none of its business.
 *
 * It also makes the page cross-origin isolated, which threads need, on hosts that can't send headers.
 *
 * A browser test compares what is kept with what a browser asks for.
 */

const CACHE = 'bq4-demo-3';

/** Where the page's own files and the engine's are. */
const FOLDERS = ['./', '../js/', '../build/wasm/', '../node_modules/@huggingface/jinja/dist/', '../node_modules/marked/lib/'].map((path) => new URL(path, location.href).href);
/** The grammar of chat templates and that of Markdown: a host may lack them, and the page does without. */
const LIBRARIES = FOLDERS.slice(3);

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
  event.waitUntil(keepAll());
});

worker.addEventListener('activate', (/** @type {any} */ event) => {
  event.waitUntil(dropOld());
  // Nobody waits for it: in Firefox it waits for the page's workers, and a worker amid an `import()` waits for this event.
  worker.clients.claim().catch(() => {});
});

worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const key = keyOf(event.request);
  if (key) event.respondWith(answer(event.request, key, (/** @type {Promise<any>} */ work) => event.waitUntil(work)).then(isolated));
});

async function dropOld() {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name.startsWith('bq4-demo-') && name !== CACHE).map((name) => caches.delete(name)));
}

/** Keeps the page and all that it may come to need, or nothing. */
async function keepAll() {
  /** @type {Map<string, Promise<Response>>} */
  const found = new Map();
  const add = async (/** @type {string} */ url) => {
    if (found.has(url)) return;
    // no-cache: asks whether what the browser's own cache holds is still right.
    const asked = fetch(new Request(url, { cache: 'no-cache' }));
    found.set(url, asked);
    const response = await asked;
    if (!response.ok && LIBRARIES.some((folder) => url.startsWith(folder))) return void found.delete(url);
    if (!response.ok) throw new Error(`${url}: ${response.status}`);
    if (/\/$|\.js$/.test(url)) await Promise.all(namedIn(await response.clone().text(), url).map(add));
  };
  await add(FOLDERS[0]);
  const cache = await caches.open(CACHE);
  await Promise.all([...found].map(async ([url, response]) => cache.put(url, await response)));
}

/** Files of ours that a page or a module names: what it imports, on demand too, begins as a worker, shows. @param {string} text @param {string} base */
function namedIn(text, base) {
  const code = text.replace(/\/\*[^]*?\*\/|^\s*\/\/.*/gm, '');
  const names = [...code.matchAll(/(?:from|import|URL)\s*\(?\s*'(\.[^']+)'|(?:src|href)="([^"#]+)"/g)];
  return names.map(([, module, shown]) => new URL(module ?? shown, base).href).filter((url) => isOurs(url) && url !== location.href);
}

/** @param {string} url */
const isOurs = (url) => FOLDERS.some((folder) => url.startsWith(folder)) && !url.includes('?');

/** Under which address a request is kept, if it is ours. @param {Request} request */
function keyOf(request) {
  if (request.method !== 'GET' || request.headers.has('range')) return undefined;
  const url = new URL(request.url);
  if (request.mode === 'navigate') url.search = '';
  url.hash = '';
  const path = url.href.replace(/\/index\.html$/, '/');
  return isOurs(path) ? path : undefined;
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
