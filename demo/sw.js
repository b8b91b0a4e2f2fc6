/**
 * Service worker: stores all files of the page as one version and starts the page from there, without the network. In the background
 * it checks for another version. That is stored completely next to the version in use, offered to the user, and used once no page of
 * the old version is open, so a page never mixes two versions. The files of a version are found by reading the page, the files that
 * it refers to, their imports, and so on. All other requests (models, which the engine stores; other origins and folders) pass
 * unchanged.
 *
 * It also makes the page cross-origin isolated, which threads need, on hosts that do not send the headers.
 *
 * A browser test compares the stored files with the requests of a browser.
 */

/**
 * Prefix of cache names. There is one cache for each version, and one that records the version in use and the next one.
 */
const PREFIX = 'bq4-demo-4';

/** Folders of the page's files and the engine's. */
const FOLDERS = [
  './',
  '../js/',
  '../build/wasm/',
  '../node_modules/marked/lib/',
  '../node_modules/temml/dist/',
  '../node_modules/@highlightjs/cdn-assets/es/',
  '../node_modules/pdfjs-dist/legacy/build/',
  '../classifiers/',
  '../node_modules/pdfjs-dist/cmaps/',
].map((path) => new URL(path, location.href).href);
/**
 * Folders that a host may lack, since the page works without them: Markdown, formulas, highlighting, PDF, classifiers.
 */
const LIBRARIES = FOLDERS.slice(3);
/** Character tables for PDF files: too many to store all, so each is stored when it is first fetched. */
const TABLE = /\.bcmap$/;
/** Not stored: the list of models that `npm start` finds on the machine changes without a new version of the page. */
const LOCAL = `${FOLDERS[0]}local.json`;

/** Headers with which the page and its workers can share memory. */
const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** The global of a service worker, for which this project has no types. @type {any} */
const worker = globalThis;

worker.addEventListener('install', (/** @type {any} */ event) => {
  // On a first visit the page may wait for this worker, so files are stored later, at its request, when its model is loaded.
  event.waitUntil(isVersionKept().then((isKept) => (isKept ? keepInTurn() : undefined)));
});

worker.addEventListener('activate', (/** @type {any} */ event) => {
  // A worker that replaces another is activated when no page of the old one is open.
  event.waitUntil(promote());
  // Not awaited: in Firefox `claim` waits for the page's workers, and a worker within an `import()` waits for this event.
  worker.clients.claim().catch(() => {});
});

worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const key = keyOf(event.request);
  if (!key) return;
  const visit = event.request.mode === 'navigate';
  // Checked here and not by the page, so that a version whose page cannot start is still replaced.
  if (visit) event.waitUntil(storeNextVersion());
  event.respondWith(
    (visit ? promoteUnlessOpen(event.request) : Promise.resolve())
      .then(() => respond(event.request, key))
      .then(withIsolation),
  );
});

worker.addEventListener('message', (/** @type {any} */ event) => {
  if (event.data === 'keep') event.waitUntil(keepFirst(event.ports[0]));
  // A page that has just started requests this, because it may have missed the message to all pages.
  if (event.data === 'ask') event.waitUntil(offer([event.source]));
  if (event.data === 'take') event.waitUntil(promoteForPage(event.source));
  if (event.data === 'replace') worker.skipWaiting();
});

/**
 * Returns the name of the version in use or of the next one; '' if there is none.
 * @param {'use' | 'next'} which
 * @returns {Promise<string>}
 */
async function recordedVersion(which) {
  const message = await (await caches.open(PREFIX)).match(`./${which}`);
  return message ? message.text() : '';
}

/** Records the name of a version. @param {'use' | 'next'} which @param {string} name */
async function recordVersion(which, name) {
  await (await caches.open(PREFIX)).put(`./${which}`, new Response(name));
}

/** Whether a version is stored; false if storage cannot be read. */
const isVersionKept = () => recordedVersion('use').then(Boolean, () => false);

/** Stores a version of the page unless one is stored, and reports whether one is. @param {MessagePort} port */
async function keepFirst(port) {
  if (!(await isVersionKept())) await keepInTurn().catch(() => {}); // storage full or offline
  port.postMessage(await isVersionKept());
}

/** Name of the version in use, cached while this worker runs. */
let versionInUse = '';

/** Puts the next version into use and deletes all others. */
async function promote() {
  const next = await recordedVersion('next');
  if (next) await recordVersion('use', next);
  await recordVersion('next', '');
  versionInUse = await recordedVersion('use');
  const names = await caches.keys();
  await Promise.all(
    names
      .filter((one) => one.startsWith('bq4-demo-') && one !== PREFIX && one !== versionInUse)
      .map((one) => caches.delete(one)),
  );
}

/** Returns the number of open pages. */
const countPages = async () => (await worker.clients.matchAll({ type: 'window', includeUncontrolled: true })).length;

/** Puts the next version into use if no page uses the old one. @param {any} request  for the page */
async function promoteUnlessOpen(request) {
  try {
    if ((await countPages()) <= (request.isReloadNavigation ? 1 : 0) && (await recordedVersion('next')))
      await promote();
  } catch {
    // Storage was removed: the files come from the network.
  }
}

/** Puts the next version into use at a user's request, if no other page is open. @param {any} page  that requests it */
async function promoteForPage(page) {
  const alone = (await countPages()) <= 1;
  if (alone) await promote();
  if (alone) worker.registration.waiting?.postMessage('replace');
  page.postMessage({ version: alone ? 'taken' : 'others open' });
}

/** Stores the version that the server has now, and informs the pages of it. */
async function storeNextVersion() {
  if (!(await isVersionKept())) return; // the page requests it later
  await keepInTurn().catch(() => {}); // offline: the stored version stays
  await offer(await worker.clients.matchAll({ type: 'window' }));
}

/** Informs pages of the next version, if there is one. @param {any[]} pages */
async function offer(pages) {
  if (!(await recordedVersion('next').catch(() => ''))) return;
  for (const page of pages) page.postMessage({ version: 'next' });
}

/** Settles when the running `keep` has ended. @type {Promise<void>} */
let keeping = Promise.resolve();

/** Runs `keep` calls one after another: the earlier of two parallel ones could discard the version of the later. */
function keepInTurn() {
  keeping = keeping.catch(() => {}).then(keep);
  return keeping;
}

/** Stores the version that the server has now, unless it is stored already. */
async function keep() {
  const found = await fetchFiles();
  const version = await nameOf(found);
  const use = await recordedVersion('use');
  if (version === use) return recordVersion('next', '');
  if (version === (await recordedVersion('next'))) return;
  // If files change meanwhile, they may be parts of two versions: the next visit tries again.
  if (use && (await nameOf(await fetchFiles())) !== version) return;
  const cache = await caches.open(version);
  try {
    await Promise.all([...found].map(([url, response]) => cache.put(url, response)));
  } catch (error) {
    await caches.delete(version); // storage is full
    throw error;
  }
  await recordVersion(use ? 'next' : 'use', version);
}

/** Fetches all files of the page. Throws if one is missing. @returns {Promise<Map<string, Response>>} */
async function fetchFiles() {
  /** @type {Map<string, Promise<Response>>} */
  const found = new Map();
  const add = async (/** @type {string} */ url) => {
    if (found.has(url)) return;
    // no-cache: responses of the browser's own cache are revalidated.
    const request = fetch(new Request(url, { cache: 'no-cache' }));
    found.set(url, request);
    const response = await request;
    if (!response.ok && LIBRARIES.some((folder) => url.startsWith(folder))) return void found.delete(url);
    if (!response.ok) throw new Error(`${url}: ${response.status}`);
    // Some hosts send a page in place of a missing file, or of all files while they are maintained.
    if (url.endsWith('.js') && /html/.test(response.headers.get('content-type') ?? '')) throw new Error(`${url}: HTML`);
    if (/\/$|\.(js|html)$/.test(url)) await Promise.all(addressesIn(await response.clone().text(), url).map(add));
  };
  await add(FOLDERS[0]);
  if (found.size === 1) throw new Error('another page');
  return new Map(
    await Promise.all(
      [...found].map(async ([url, response]) => /** @type {[string, Response]} */ ([url, await response])),
    ),
  );
}

/** Returns the name of a version: a hash of its files. @param {Map<string, Response>} found */
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

/**
 * Returns the addresses of this site that a page or a module refers to: imports, also dynamic ones, workers, images.
 * @param {string} text
 * @param {string} base
 */
function addressesIn(text, base) {
  const code = text.replace(/\/\*[^]*?\*\/|^\s*\/\/.*/gm, '');
  // Addresses in markup count only in pages: in modules of libraries they are no files of this site.
  const pattern = base.endsWith('.js')
    ? /(?:from|import|URL)\s*\(?\s*(['"])(?<name>\.[^'"]*[^'"/])\1/g
    : /(?:src|href)="(?<name>[^"#]+)"/g;
  return [...code.matchAll(pattern)]
    .map(({ groups }) => new URL(groups?.name ?? '', base).href)
    .filter((url) => isOurs(url) && url !== location.href);
}

/** @param {string} url */
const isOurs = (url) => FOLDERS.some((folder) => url.startsWith(folder)) && !url.includes('?') && url !== LOCAL;

/**
 * Returns the address under which the response of a request is stored; undefined if it is not stored.
 * @param {Request} request
 */
function keyOf(request) {
  if (request.method !== 'GET' || request.headers.has('range')) return undefined;
  const url = new URL(request.url);
  if (request.mode === 'navigate') url.search = '';
  url.hash = '';
  const path = url.href.replace(/\/index\.html$/, '/');
  return isOurs(path) ? path : undefined;
}

/** Returns the stored response of a request, or that of the network. @param {Request} request @param {string} key */
async function respond(request, key) {
  try {
    versionInUse ||= await recordedVersion('use');
    const stored = versionInUse && (await (await caches.open(versionInUse)).match(key));
    if (stored) return stored;
  } catch {
    // Without storage the response comes from the network.
  }
  const response = await fetch(request);
  if (versionInUse && response.ok && TABLE.test(key)) await keepTable(key, response.clone()).catch(() => {});
  return response;
}

/** @param {string} key @param {Response} response */
const keepTable = async (key, response) => (await caches.open(versionInUse)).put(key, response);

/** Returns a response with the headers of a cross-origin isolated page. @param {Response} response */
function withIsolation(response) {
  // Redirects and opaque responses pass unchanged.
  if (response.type === 'opaque' || response.type === 'opaqueredirect' || response.status === 304) return response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
