/** The backend in memory, which ends with the page: for tests, and for pages that load a model more than once. */

/** @import { FileMetadata, Backend, Marks } from './types.js' */

/**
 * @typedef {{ about: FileMetadata, marks: Marks, chunks: Map<number, { bytes: Uint8Array, hash: bigint | null }> }} StoredFile
 */

/** Files of all stores of this thread, by name of the store and by key. @type {Map<string, Map<string, StoredFile>>} */
const stores = new Map();

/** Opens the backend. @param {string} name @returns {Backend} */
export function openMemory(name) {
  const files = stores.get(name) ?? new Map();
  stores.set(name, files);
  return {
    name: 'memory',
    keys: async () => [...files.keys()],
    get: async (key) => files.get(key) ?? null,
    async create(key, metadata) {
      files.set(key, { about: metadata, marks: new Map(), chunks: new Map() });
    },
    async mark(key, mark, isOn) {
      if (isOn) files.get(key)?.marks.set(mark, Date.now());
      else files.get(key)?.marks.delete(mark);
    },
    async remove(key) {
      files.delete(key);
    },
    async open(key) {
      const chunks = () => files.get(key)?.chunks;
      return {
        scan: async () => new Map([...(chunks() ?? [])].map(([index, { hash }]) => [index, hash])),
        async read(index, from, target) {
          const bytes = chunks()?.get(index)?.bytes;
          if (!bytes || from + target.length > bytes.length) return false;
          target.set(bytes.subarray(from, from + target.length));
          return true;
        },
        async write(index, bytes, hash) {
          const map = chunks();
          if (!map) throw new DOMException('the file was deleted', 'NotFoundError');
          map.set(index, { bytes: bytes.slice(), hash });
        },
        async drop(index) {
          chunks()?.delete(index);
        },
        async settle() {},
        async close() {},
      };
    },
    close() {},
  };
}
