/**
 * The Cache API, where a browser has no OPFS: one cache per file, a response per chunk. A response is kept whole or
 * not at all, and its address tells its hash, so the list of addresses is the journal.
 */

/** @import { Backend, Space } from './types.js' */

/** Addresses need a host; nothing is ever asked of it. */
const BASE = 'https://bq4.invalid/';

/** @param {string} name @param {string} path @param {BodyInit} body */
const put = async (name, path, body) => (await caches.open(name)).put(BASE + path, new Response(body));

/** Marks too are responses: `mark/NAME/TIME`. @param {string} url */
const parts = (url) => url.slice(BASE.length).split('/');

/** @param {string} name @returns {Promise<string[]>} */
const paths = async (name) =>
  (await caches.has(name)) ? (await (await caches.open(name)).keys()).map(({ url }) => url) : [];

/** @param {string} name @param {(part: string[]) => boolean} which @param {string} [but] */
async function remove(name, which, but) {
  for (const url of await paths(name)) {
    if (url !== but && which(parts(url))) await (await caches.open(name)).delete(url);
  }
}

/** @param {string} cache @returns {Space} */
function space(cache) {
  /** What `scan` and `write` know of: address by chunk. @type {Map<number, string>} */
  const known = new Map();
  const scan = async () => {
    known.clear();
    const have = new Map();
    for (const url of await paths(cache)) {
      const [kind, index, hash] = parts(url);
      if (kind !== 'chunk') continue;
      known.set(Number(index), url);
      have.set(Number(index), hash ? BigInt(`0x${hash}`) : null);
    }
    return have;
  };
  return {
    scan,
    async read(index, from, into) {
      if (!known.has(index)) await scan(); // written by another tab
      const url = known.get(index);
      const response = url && (await caches.has(cache)) ? await (await caches.open(cache)).match(url) : undefined;
      const bytes = response && new Uint8Array(await response.arrayBuffer());
      if (!bytes || from + into.length > bytes.length) return false;
      into.set(bytes.subarray(from, from + into.length));
      return true;
    },
    async write(index, bytes, hash) {
      if (!(await caches.has(cache))) throw new DOMException('the file was deleted', 'NotFoundError');
      const before = known.get(index);
      const path = `chunk/${index}/${hash === null ? '' : hash.toString(16)}`;
      await put(cache, path, /** @type {Uint8Array<ArrayBuffer>} */ (bytes));
      known.set(index, BASE + path);
      if (before && before !== BASE + path) await (await caches.open(cache)).delete(before);
    },
    async drop(index) {
      known.delete(index);
      await remove(cache, ([kind, of]) => kind === 'chunk' && Number(of) === index);
    },
    async settle() {},
    async close() {},
  };
}

/** Rejects where there is no Cache API. @param {string} name @returns {Promise<Backend>} */
export async function openCache(name) {
  const prefix = `bq4-store-${name}/`;
  await caches.has(prefix);
  const cacheOf = (/** @type {string} */ key) => prefix + key;
  return {
    name: 'cache',
    keys: async () =>
      (await caches.keys()).filter((cache) => cache.startsWith(prefix)).map((cache) => cache.slice(prefix.length)),
    async get(key) {
      const urls = await paths(cacheOf(key));
      const response = urls.includes(`${BASE}about`)
        ? await (await caches.open(cacheOf(key))).match(`${BASE}about`)
        : undefined;
      if (!response) return null;
      const marks = new Map();
      for (const [kind, mark, time] of urls.map(parts)) if (kind === 'mark') marks.set(mark, Number(time));
      return { about: await response.json(), marks };
    },
    create: (key, about) => put(cacheOf(key), 'about', JSON.stringify(about)),
    async mark(key, mark, on) {
      if (!(await caches.has(cacheOf(key)))) return;
      const path = `mark/${mark}/${Date.now()}`;
      if (on) await put(cacheOf(key), path, '');
      await remove(cacheOf(key), ([kind, of]) => kind === 'mark' && of === mark, on ? BASE + path : undefined);
    },
    async remove(key) {
      // A deleted cache takes its room until no object stands for it: its responses go at once.
      await remove(cacheOf(key), () => true);
      await caches.delete(cacheOf(key));
    },
    open: async (key) => space(cacheOf(key)),
    close() {},
  };
}
