/**
 * The backend with the Cache API, for browsers without OPFS: one cache per file, one response per chunk. A response is
 * stored completely or not at all, and its URL holds its hash, so the list of URLs is the journal.
 */

/** @import { Backend, ChunkStorage } from './types.js' */

/** URLs need a host; no request is ever sent to it. */
const BASE = 'https://bq4.invalid/';

/** @param {string} name @param {string} path @param {BodyInit} body */
const putResponse = async (name, path, body) => (await caches.open(name)).put(BASE + path, new Response(body));

/**
 * Returns the parts of a response's URL. Marks are responses, too, with the URL `mark/NAME/TIME`.
 * @param {string} url
 */
const partsOf = (url) => url.slice(BASE.length).split('/');

/** Returns the URLs of all responses in a cache. @param {string} name @returns {Promise<string[]>} */
const urlsIn = async (name) =>
  (await caches.has(name)) ? (await (await caches.open(name)).keys()).map(({ url }) => url) : [];

/**
 * Deletes the responses whose URL matches, except that of `keptUrl`.
 * @param {string} name @param {(part: string[]) => boolean} matches @param {string} [keptUrl]
 */
async function removeResponses(name, matches, keptUrl) {
  for (const url of await urlsIn(name)) {
    if (url !== keptUrl && matches(partsOf(url))) await (await caches.open(name)).delete(url);
  }
}

/** @param {string} cache @returns {ChunkStorage} */
function createSpace(cache) {
  /** URLs of chunks, from the last `scan` and from `write`. @type {Map<number, string>} */
  const urlsByChunk = new Map();
  const scan = async () => {
    urlsByChunk.clear();
    const hashes = new Map();
    for (const url of await urlsIn(cache)) {
      const [kind, index, hash] = partsOf(url);
      if (kind !== 'chunk') continue;
      urlsByChunk.set(Number(index), url);
      hashes.set(Number(index), hash ? BigInt(`0x${hash}`) : null);
    }
    return hashes;
  };
  return {
    scan,
    async read(index, from, target) {
      if (!urlsByChunk.has(index)) await scan(); // written by another tab
      const url = urlsByChunk.get(index);
      const response = url && (await caches.has(cache)) ? await (await caches.open(cache)).match(url) : undefined;
      const bytes = response && new Uint8Array(await response.arrayBuffer());
      if (!bytes || from + target.length > bytes.length) return false;
      target.set(bytes.subarray(from, from + target.length));
      return true;
    },
    async write(index, bytes, hash) {
      if (!(await caches.has(cache))) throw new DOMException('the file was deleted', 'NotFoundError');
      const previousUrl = urlsByChunk.get(index);
      const path = `chunk/${index}/${hash === null ? '' : hash.toString(16)}`;
      await putResponse(cache, path, /** @type {Uint8Array<ArrayBuffer>} */ (bytes));
      urlsByChunk.set(index, BASE + path);
      if (previousUrl && previousUrl !== BASE + path) await (await caches.open(cache)).delete(previousUrl);
    },
    async drop(index) {
      urlsByChunk.delete(index);
      await removeResponses(cache, ([kind, chunk]) => kind === 'chunk' && Number(chunk) === index);
    },
    async settle() {},
    async close() {},
  };
}

/** Opens the backend. Rejects without a Cache API. @param {string} name @returns {Promise<Backend>} */
export async function openCache(name) {
  const prefix = `bq4-store-${name}/`;
  await caches.has(prefix);
  const cacheOf = (/** @type {string} */ key) => prefix + key;
  return {
    name: 'cache',
    keys: async () =>
      (await caches.keys()).filter((cache) => cache.startsWith(prefix)).map((cache) => cache.slice(prefix.length)),
    async get(key) {
      const urls = await urlsIn(cacheOf(key));
      const response = urls.includes(`${BASE}about`)
        ? await (await caches.open(cacheOf(key))).match(`${BASE}about`)
        : undefined;
      if (!response) return null;
      const marks = new Map();
      for (const [kind, mark, time] of urls.map(partsOf)) if (kind === 'mark') marks.set(mark, Number(time));
      return { about: await response.json(), marks };
    },
    create: (key, metadata) => putResponse(cacheOf(key), 'about', JSON.stringify(metadata)),
    async mark(key, mark, isOn) {
      if (!(await caches.has(cacheOf(key)))) return;
      const path = `mark/${mark}/${Date.now()}`;
      if (isOn) await putResponse(cacheOf(key), path, '');
      await removeResponses(
        cacheOf(key),
        ([kind, markName]) => kind === 'mark' && markName === mark,
        isOn ? BASE + path : undefined,
      );
    },
    async remove(key) {
      // The storage of a deleted cache is freed late, when no object refers to it, so its responses are deleted first.
      await removeResponses(cacheOf(key), () => true);
      await caches.delete(cacheOf(key));
    },
    open: async (key) => createSpace(cacheOf(key)),
    close() {},
  };
}
