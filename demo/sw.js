/**
 * Service worker: keeps all that the page needs, as one version of it, and starts the page from there without asking the
 * network. Behind that it looks whether there is another version; that is kept whole beside the one in use, offered, and
 * taken where no page of the old one is open: no page ever has parts of two. What belongs to a version it finds by
 * reading the page, what that names, what these import, and so on. Everything else (models, which the engine stores,
 * other origins, other folders) passes unchanged.
 *
 * It also makes the page cross-origin isolated, which threads need, on hosts that can't send headers.
 *
 * A browser test compares what is kept with what a browser asks for.
 */

/** Begins the names of caches: one for each version, and one that says which is in use and which comes next. */
const PREFIX = 'bq4-demo-4';

/** Where the page's own files and the engine's are. */
const FOLDERS = [
  './',
  '../js/',
  '../build/wasm/',
  '../node_modules/@huggingface/jinja/dist/',
  '../node_modules/marked/lib/',
  '../node_modules/temml/dist/',
  '../node_modules/@highlightjs/cdn-assets/es/',
  '../node_modules/pdfjs-dist/legacy/build/',
  '../classifiers/',
  '../node_modules/pdfjs-dist/cmaps/',
].map((path) => new URL(path, location.href).href);
/** The grammar of chat templates, that of Markdown, formulas, colours of code, PDF files, heads: a host may lack them, and the page does without. */
const LIBRARIES = FOLDERS.slice(3);
/** Tables of letters for PDF files: too many to keep all, so each is kept once it was fetched. */
const TABLE = /\.bcmap$/;
/** What `npm start` finds on the machine changes while the page stays the same. */
const LOCAL = `${FOLDERS[0]}local.json`;

/** With these on the page and its workers, the browser lets them share memory. */
const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** The types of service workers are not those of pages. @type {any} */
const worker = globalThis;

worker.addEventListener('install', (/** @type {any} */ event) => {
  // A first page may wait for this worker to isolate it: it asks for the rest once its model is there.
  event.waitUntil(isVersionKept().then((isKept) => (isKept ? keepInTurn() : undefined)));
});

worker.addEventListener('activate', (/** @type {any} */ event) => {
  // A worker that replaces another begins when no page of the old one is open.
  event.waitUntil(promote());
  // Nobody waits for it: in Firefox it waits for the page's workers, and a worker amid an `import()` waits for this event.
  worker.clients.claim().catch(() => {});
});

worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const key = keyOf(event.request);
  if (!key) return;
  const visit = event.request.mode === 'navigate';
  // A version that can't start its page must not keep the next one away: so this is asked here, not by the page.
  if (visit) event.waitUntil(lookBehind());
  event.respondWith(
    (visit ? unlessOpen(event.request) : Promise.resolve()).then(() => answer(event.request, key)).then(isolated),
  );
});

worker.addEventListener('message', (/** @type {any} */ event) => {
  if (event.data === 'keep') event.waitUntil(keepFirst(event.ports[0]));
  // A page that begins asks itself: it may not have been there when all were told.
  if (event.data === 'ask') event.waitUntil(offer([event.source]));
  if (event.data === 'take') event.waitUntil(take(event.source));
  if (event.data === 'replace') worker.skipWaiting();
});

/** Which version is in use, and which comes next; '': none. @param {'use' | 'next'} which @returns {Promise<string>} */
async function named(which) {
  const message = await (await caches.open(PREFIX)).match(`./${which}`);
  return message ? message.text() : '';
}

/** @param {'use' | 'next'} which @param {string} name */
async function name(which, name) {
  await (await caches.open(PREFIX)).put(`./${which}`, new Response(name));
}

/** Whether a version is stored; no, where storage can't be read. */
const isVersionKept = () => named('use').then(Boolean, () => false);

/** Stores a version of the page unless one is stored, and answers whether one is. @param {MessagePort} port */
async function keepFirst(port) {
  if (!(await isVersionKept())) await keepInTurn().catch(() => {}); // storage that is full, a network that went
  port.postMessage(await isVersionKept());
}

/** The version in use, as long as this worker lives. */
let using = '';

/** The version that comes next is in use from now on; all others go. */
async function promote() {
  const next = await named('next');
  if (next) await name('use', next);
  await name('next', '');
  using = await named('use');
  const names = await caches.keys();
  await Promise.all(
    names
      .filter((one) => one.startsWith('bq4-demo-') && one !== PREFIX && one !== using)
      .map((one) => caches.delete(one)),
  );
}

/** How many pages are open. */
const pages = async () => (await worker.clients.matchAll({ type: 'window', includeUncontrolled: true })).length;

/** The next version is activated once no page uses the old one. @param {any} request  for the page */
async function unlessOpen(request) {
  try {
    if ((await pages()) <= (request.isReloadNavigation ? 1 : 0) && (await named('next'))) await promote();
  } catch {
    // Storage that was taken away: the network has what there is.
  }
}

/** A person wants the next version. @param {any} page  that asks */
async function take(page) {
  const alone = (await pages()) <= 1;
  if (alone) await promote();
  if (alone) worker.registration.waiting?.postMessage('replace');
  page.postMessage({ version: alone ? 'taken' : 'others open' });
}

async function lookBehind() {
  if (!(await isVersionKept())) return; // the page asks
  await keepInTurn().catch(() => {}); // no network: what is kept goes on
  await offer(await worker.clients.matchAll({ type: 'window' }));
}

/** Tells these pages, if a version comes next. @param {any[]} pages */
async function offer(pages) {
  if (!(await named('next').catch(() => ''))) return;
  for (const page of pages) page.postMessage({ version: 'next' });
}

/** What keeps a version now. @type {Promise<void>} */
let keeping = Promise.resolve();

/** One after the other: who has looked earlier would take the later one's version for none. */
function keepInTurn() {
  keeping = keeping.catch(() => {}).then(keep);
  return keeping;
}

/** Keeps the version that is there now whole, unless it is kept. */
async function keep() {
  const found = await gather();
  const version = await nameOf(found);
  const use = await named('use');
  if (version === use) return name('next', '');
  if (version === (await named('next'))) return;
  // Files that change while they are gathered would be parts of two versions: the next visit finds them at rest.
  if (use && (await nameOf(await gather())) !== version) return;
  const cache = await caches.open(version);
  await Promise.all([...found].map(([url, response]) => cache.put(url, response)));
  await name(use ? 'next' : 'use', version);
}

/** The page and all that it may come to need, or nothing. @returns {Promise<Map<string, Response>>} */
async function gather() {
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
    if (/\/$|\.(js|html)$/.test(url)) await Promise.all(namedIn(await response.clone().text(), url).map(add));
  };
  await add(FOLDERS[0]);
  return new Map(
    await Promise.all(
      [...found].map(async ([url, response]) => /** @type {[string, Response]} */ ([url, await response])),
    ),
  );
}

/** A version is called by what it consists of. @param {Map<string, Response>} found */
async function nameOf(found) {
  const hash = async (/** @type {BufferSource} */ bytes) =>
    [...new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))]
      .map((byte) => byte.toString(16).padStart(2, '0'))
      .join('');
  const parts = await Promise.all(
    [...found].map(async ([url, response]) => {
      const copy = response.clone();
      return `${url} ${copy.headers.get('content-security-policy')} ${await hash(await copy.arrayBuffer())}`;
    }),
  );
  return `${PREFIX}-${(await hash(new TextEncoder().encode(parts.sort().join('\n')))).slice(0, 16)}`;
}

/** Files of ours that a page or a module names: what it imports, on demand too, begins as a worker, shows. @param {string} text @param {string} base */
function namedIn(text, base) {
  const code = text.replace(/\/\*[^]*?\*\/|^\s*\/\/.*/gm, '');
  // What a module of others writes into pages names no file of ours.
  const named = base.endsWith('.js')
    ? /(?:from|import|URL)\s*\(?\s*(['"])(?<name>\.[^'"]*[^'"/])\1/g
    : /(?:src|href)="(?<name>[^"#]+)"/g;
  return [...code.matchAll(named)]
    .map(({ groups }) => new URL(groups?.name ?? '', base).href)
    .filter((url) => isOurs(url) && url !== location.href);
}

/** @param {string} url */
const isOurs = (url) => FOLDERS.some((folder) => url.startsWith(folder)) && !url.includes('?') && url !== LOCAL;

/** Under which address a request is kept, if it is ours. @param {Request} request */
function keyOf(request) {
  if (request.method !== 'GET' || request.headers.has('range')) return undefined;
  const url = new URL(request.url);
  if (request.mode === 'navigate') url.search = '';
  url.hash = '';
  const path = url.href.replace(/\/index\.html$/, '/');
  return isOurs(path) ? path : undefined;
}

/** @param {Request} request @param {string} key */
async function answer(request, key) {
  try {
    using ||= await named('use');
    const kept = using && (await (await caches.open(using)).match(key));
    if (kept) return kept;
  } catch {
    // Storage that is full or was taken away must not fail what the network has.
  }
  const response = await fetch(request);
  if (using && response.ok && TABLE.test(key)) await keepTable(key, response.clone()).catch(() => {});
  return response;
}

/** @param {string} key @param {Response} response */
const keepTable = async (key, response) => (await caches.open(using)).put(key, response);

/** @param {Response} response */
function isolated(response) {
  // A redirect, or what can't be looked into, passes as it is.
  if (response.type === 'opaque' || response.type === 'opaqueredirect' || response.status === 304) return response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
