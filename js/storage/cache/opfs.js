/**
 * The backend with the origin private file system. A dedicated worker reads and writes with sync access handles. A page
 * has only createWritable, which copies a file to change it, so there each chunk is stored in a file of its own.
 */
import { readBlob } from '../../shared/blob-bytes.js';
import { Disk } from './disk.js';

/** @import { Folder, Handle, Tree } from './disk.js' */

/**
 * A sync access handle, which TypeScript's DOM types declare for workers only.
 * @typedef {{ read: (into: Uint8Array<ArrayBufferLike>, at: { at: number }) => number, close: () => void,
 *   write: (bytes: Uint8Array, at: { at: number }) => number, truncate: (size: number) => void,
 *   mode?: string }} SyncHandle
 */

/** Whether sync access handles can be opened for reading only. Without this mode they lock the file for other tabs. */
let hasReadOnlyHandles = true;

const hasSync = () => 'createSyncAccessHandle' in FileSystemFileHandle.prototype;

/** @param {FileSystemFileHandle} file @param {object} [options] @returns {Promise<SyncHandle>} */
const openSync = (file, options) => /** @type {any} */ (file).createSyncAccessHandle(options);

/**
 * Returns null instead of an error if the file is missing, or if another script has put a folder in its place.
 * @template T @param {Promise<T>} promise @returns {Promise<T | null>}
 */
const unlessMissing = (promise) =>
  promise.catch((error) => {
    if (error.name === 'NotFoundError' || error.name === 'TypeMismatchError') return null;
    throw error;
  });

/** @param {SyncHandle} handle @param {() => Promise<unknown>} exists  null if the file was deleted @returns {Handle} */
const syncHandle = (handle, exists = async () => true) => ({
  read: (target, at) => handle.read(target, { at }),
  write(bytes, at) {
    if (handle.write(bytes, { at }) !== bytes.length)
      throw new DOMException('only a part could be written', 'QuotaExceededError');
  },
  async close() {
    // A worker in Chromium hangs forever when it closes a file that was deleted by "clear site data".
    if (await exists()) handle.close();
  },
});

/**
 * Reads the bytes of a file from `from` up to `to`.
 * @param {FileSystemFileHandle} handle @param {number} [from] @param {number} [to]
 */
async function bytesOf(handle, from, to) {
  // A File is a snapshot: after another tab writes to the file, reading fails and a new File must be opened.
  for (let tries = 8; ; tries--) {
    try {
      return await readBlob(await handle.getFile(), from, to);
    } catch (error) {
      if (tries === 0 || /** @type {Error} */ (error).name !== 'NotReadableError') throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

/** @param {FileSystemFileHandle} file @returns {Handle} */
const plainHandle = (file) => ({
  async read(target, at) {
    const bytes = await bytesOf(file, at, at + target.length);
    target.set(bytes);
    return bytes.length;
  },
  async write(bytes, at) {
    const stream = await file.createWritable({ keepExistingData: true });
    await stream.write({ type: 'write', position: at, data: /** @type {Uint8Array<ArrayBuffer>} */ (bytes) });
    await stream.close();
  },
  close() {},
});

/** @param {FileSystemDirectoryHandle} folder @returns {Folder} */
function opfsFolder(folder) {
  const file = (/** @type {string} */ name) => unlessMissing(folder.getFileHandle(name));
  const remove = (/** @type {string} */ name) => unlessMissing(folder.removeEntry(name, { recursive: true }));
  const edit = async (/** @type {string} */ name) => {
    if (!(await file(name))) await remove(name); // a folder in its place
    const created = await folder.getFileHandle(name, { create: true });
    return hasSync() ? syncHandle(await openSync(created), () => file(name)) : plainHandle(created);
  };
  return {
    async names() {
      const names = [];
      for await (const name of folder.keys()) names.push(name);
      return names;
    },
    async stat(name) {
      const stored = await (await file(name))?.getFile();
      return stored ? { size: stored.size, date: stored.lastModified } : null;
    },
    async bytes(name) {
      const stored = await file(name);
      return stored && bytesOf(stored);
    },
    async put(name, bytes) {
      await remove(name);
      const handle = await edit(name);
      try {
        await handle.write(bytes, 0);
      } finally {
        await handle.close();
      }
    },
    async remove(name) {
      await remove(name);
    },
    locate: (name) => folder.getFileHandle(name),
    edit,
    async view(name, direct) {
      const stored = await file(name);
      if (!stored) return null;
      if (direct && hasReadOnlyHandles && hasSync()) {
        const handle = await openSync(stored, { mode: 'read-only' }).catch(() => null);
        if (handle?.mode === 'read-only') return syncHandle(handle, () => file(name));
        if (handle) hasReadOnlyHandles = false;
        handle?.close();
      }
      return plainHandle(stored);
    },
  };
}

/** Opens the backend. Rejects if the browser has no such file system or denies access. @param {string} name */
export async function openOpfs(name) {
  if (!hasSync() && !('createWritable' in FileSystemFileHandle.prototype))
    throw new Error('this thread can only read files');
  // Opened again for each operation: "clear site data" or another script may have deleted the folder meanwhile.
  const openRoot = async () => {
    const top = await navigator.storage.getDirectory();
    return (await top.getDirectoryHandle('bq4', { create: true })).getDirectoryHandle(name, { create: true });
  };
  const root = await openRoot();
  // Some browsers deny access only when a file is created.
  const trial = `trial-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
  await root.getFileHandle(trial, { create: true }).then(
    () => root.removeEntry(trial),
    (error) => {
      // Files in full storage can be read.
      if (error.name !== 'QuotaExceededError') throw error;
    },
  );
  /** @type {Tree} */
  const tree = {
    name: 'opfs',
    perSegment: hasSync() ? 64 : 1,
    async keys() {
      const keys = [];
      for await (const [key, handle] of (await openRoot()).entries()) if (handle.kind === 'directory') keys.push(key);
      return keys;
    },
    async folder(key, create = false) {
      const folder = await unlessMissing((await openRoot()).getDirectoryHandle(key, { create }));
      return folder && opfsFolder(folder);
    },
    async remove(key) {
      await unlessMissing((await openRoot()).removeEntry(key, { recursive: true }));
    },
    notes: opfsFolder(root),
  };
  return new Disk(tree);
}
