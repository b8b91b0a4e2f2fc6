/** The backend with a directory, in Node. */
import { nodeModule } from '../../shared/node.js';
import { wrong } from '../../shared/options.js';
import { Disk } from './disk.js';

/** @import { Folder, Handle, Tree } from './disk.js' */

/**
 * Returns null instead of an error if the file is missing.
 * @template T @param {Promise<T>} promise @returns {Promise<T | null>}
 */
const unlessMissing = (promise) =>
  promise.catch((error) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });

/** @param {any} file  FileHandle @returns {Handle} */
const handleOf = (file) => ({
  read: async (target, at) => {
    let filled = 0;
    while (filled < target.length) {
      const { bytesRead } = await file.read(target, filled, target.length - filled, at + filled);
      if (!bytesRead) break;
      filled += bytesRead;
    }
    return filled;
  },
  write: async (bytes, at) => {
    for (let written = 0; written < bytes.length;)
      written += (await file.write(bytes, written, bytes.length - written, at + written)).bytesWritten;
  },
  close: () => file.close(),
});

/** @param {any} fs  node:fs/promises @param {(name: string) => string} path @returns {Folder} */
const fileFolder = (fs, path) => ({
  names: () => fs.readdir(path('')),
  async stat(name) {
    const stats = await unlessMissing(fs.stat(path(name)));
    return stats && { size: stats.size, date: stats.mtimeMs };
  },
  bytes: (name) => unlessMissing(fs.readFile(path(name))),
  put: (name, bytes) => fs.writeFile(path(name), bytes),
  remove: (name) => fs.rm(path(name), { force: true }),
  locate: async (name) => path(name),
  async edit(name) {
    const { O_CREAT, O_RDWR } = fs.constants;
    return handleOf(await fs.open(path(name), O_RDWR | O_CREAT, 0o644));
  },
  async view(name) {
    const file = await unlessMissing(fs.open(path(name), 'r'));
    return file && handleOf(file);
  },
});

/** Whether a process is running. @param {number} pid */
function isRunning(pid) {
  try {
    globalThis.process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {any} */ (error).code === 'EPERM';
  }
}

/** Milliseconds after which the creator of a lock file has certainly written its process id. */
const LOCK_WRITE_MS = 2000;

/** Returns a path. Throws ARGUMENT for an address of another scheme than `file:`. @param {string} text  path or address */
function pathOf(text) {
  if (!/^[a-z][\w+.-]+:/i.test(text)) return text;
  if (text.startsWith('file:')) return nodeModule('url').fileURLToPath(text);
  throw wrong('path', text, 'a folder');
}

/**
 * Opens the backend. Throws ARGUMENT.
 * @param {string} name  of the store @param {string} path  path or `file:` address of the folder with the stores
 */
export async function openFiles(name, path) {
  const [fs, { join }] = [await nodeModule('fs/promises'), await nodeModule('path')];
  const root = join(pathOf(path), name);
  await fs.mkdir(root, { recursive: true });

  /** Whether another process holds a lock. @param {string} file */
  async function isHeldElsewhere(file) {
    const text = await unlessMissing(fs.readFile(file, 'utf8'));
    if (text === null) return false;
    const owner = Number(text);
    // The lock of this process was left by one of its threads.
    if (Number.isInteger(owner) && owner > 0) return owner !== globalThis.process.pid && isRunning(owner);
    // Without an id the file is being created now, or its process was killed before it could write the id.
    const stats = await unlessMissing(fs.stat(file));
    return stats !== null && Math.abs(Date.now() - stats.mtimeMs) < LOCK_WRITE_MS;
  }

  /**
   * Takes a lock against other processes: creates a file with the id of this process.
   * @param {string} key @returns {Promise<(() => Promise<void>) | null>}  releases the lock; null if another process
   *   holds it
   */
  async function lock(key) {
    const file = join(root, `${key}.lock`);
    for (let tries = 2; tries > 0; tries--) {
      try {
        const handle = await fs.open(file, 'wx');
        // A full disk has no room for the id. The empty file is a lock for LOCK_WRITE_MS, in which a file can be deleted.
        await handle.writeFile(String(globalThis.process.pid)).catch(() => {});
        await handle.close();
        return () => fs.rm(file, { force: true }).catch(() => {});
      } catch (error) {
        if (/** @type {any} */ (error).code !== 'EEXIST') throw error;
      }
      if (await isHeldElsewhere(file)) return null;
      await fs.rm(file, { force: true });
    }
    return null;
  }

  /** @type {Tree} */
  const tree = {
    name: 'file',
    perSegment: 64,
    lock,
    keys: async () =>
      (await fs.readdir(root, { withFileTypes: true }))
        .filter((/** @type {any} */ e) => e.isDirectory())
        .map((/** @type {any} */ e) => e.name),
    async folder(key, create = false) {
      const folder = join(root, key);
      if (create) await fs.mkdir(folder, { recursive: true });
      else if (!(await unlessMissing(fs.stat(folder)))) return null;
      return fileFolder(fs, (file) => join(folder, file));
    },
    remove: (key) => fs.rm(join(root, key), { recursive: true, force: true }),
  };
  return new Disk(tree);
}
