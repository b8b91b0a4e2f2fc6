/** The backend with a directory, in Node. */
import { nodeModule } from '../../shared/node.js';
import { wrong } from '../../shared/options.js';
import { timeout } from '../../shared/timeouts.js';
import { Disk } from './disk.js';

/** @import { Folder, Handle, Tree } from './disk.js' */

/**
 * Returns null instead of an error if the file is missing.
 * @template T @param {Promise<T>} promise @param {string[]} [codes]  errors that mean that
 * @returns {Promise<T | null>}
 */
const unlessMissing = (promise, codes = ['ENOENT']) =>
  promise.catch((error) => {
    if (codes.includes(error.code)) return null;
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

/**
 * Opens or writes a file. A folder in its place is deleted first.
 * @template T @param {any} fs  node:fs/promises @param {string} path @param {() => Promise<T>} write @returns {Promise<T>}
 */
const withoutFolder = (fs, path, write) =>
  write().catch(async (error) => {
    if (error.code !== 'EISDIR') throw error;
    await fs.rm(path, { recursive: true });
    return write();
  });

/** @param {any} fs  node:fs/promises @param {(name: string) => string} path @returns {Folder} */
const fileFolder = (fs, path) => ({
  names: () => fs.readdir(path('')),
  async stat(name) {
    const stats = await unlessMissing(fs.stat(path(name)));
    return stats && { size: stats.isFile() ? stats.size : 0, date: stats.mtimeMs };
  },
  // Another program may have put a folder in the place of a file.
  bytes: (name) => unlessMissing(fs.readFile(path(name)), ['ENOENT', 'EISDIR']),
  put: (name, bytes) => withoutFolder(fs, path(name), () => fs.writeFile(path(name), bytes)),
  remove: (name) => fs.rm(path(name), { recursive: true, force: true }),
  locate: async (name) => path(name),
  async edit(name) {
    const { O_CREAT, O_RDWR } = fs.constants;
    return handleOf(await withoutFolder(fs, path(name), () => fs.open(path(name), O_RDWR | O_CREAT, 0o644)));
  },
  async view(name) {
    const file = await unlessMissing(fs.open(path(name), 'r'));
    return file && handleOf(file);
  },
});

/**
 * Creates a folder and the missing folders above it. (The option `recursive` of Node's mkdir never returns in a file
 * system such as /proc, which reports the folder above as missing although it exists.)
 * @param {any} fs  node:fs/promises @param {string} path @param {(path: string) => string} dirname
 */
async function makeFolder(fs, path, dirname) {
  const make = async () => {
    try {
      await fs.mkdir(path);
    } catch (error) {
      if (/** @type {any} */ (error).code !== 'EEXIST' || !(await fs.stat(path)).isDirectory()) throw error;
    }
  };
  await make().catch(async (error) => {
    const parent = dirname(path);
    if (error.code !== 'ENOENT' || parent === path) throw error;
    await makeFolder(fs, parent, dirname);
    await make();
  });
}

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
/** Milliseconds after which a lock file from elsewhere, whose time was not updated, belongs to a process that has ended. */
const LOCK_EXPIRY_MS = 120_000;

/**
 * Returns the place in which a process id is valid: the machine and, on Linux, the namespace of process ids. Containers
 * that share a folder have different ones, and usually the same process id, 1.
 */
function processNamespace() {
  const read = (/** @type {() => string} */ value) => {
    try {
      return value();
    } catch {
      return ''; // unknown, or Deno without the permission
    }
  };
  const host = read(() => nodeModule('os').hostname());
  return `${host} ${read(() => nodeModule('fs').readlinkSync('/proc/self/ns/pid'))}`.trim();
}

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
  const [fs, { dirname, join }] = [await nodeModule('fs/promises'), await nodeModule('path')];
  const folder = join(pathOf(path), name);
  await makeFolder(fs, folder, dirname);
  // One path for all spellings, which stays valid when the program changes its folder.
  const root = await fs.realpath(folder);

  const namespace = processNamespace();

  /** Whether another process holds a lock. @param {string} file */
  async function isHeldElsewhere(file) {
    const text = await unlessMissing(fs.readFile(file, 'utf8'));
    if (text === null) return false;
    const [, id, place] = /^([1-9]\d*)(?: (.*))?$/.exec(text) ?? [];
    const isElsewhere = place !== undefined && place !== namespace;
    // The lock of this process was left by one of its threads.
    if (id && !isElsewhere) return Number(id) !== globalThis.process.pid && isRunning(Number(id));
    // Without an id the file is being created now, or its process was killed before it could write the id.
    const stats = await unlessMissing(fs.stat(file));
    return stats !== null && Math.abs(Date.now() - stats.mtimeMs) < (isElsewhere ? LOCK_EXPIRY_MS : LOCK_WRITE_MS);
  }

  /**
   * Takes a lock against other processes: creates a file with the id and the namespace of this process, whose time is
   * updated while the lock is held.
   * @param {string} key @returns {Promise<(() => Promise<void>) | null>}  releases the lock; null if another process
   *   holds it
   */
  async function lock(key) {
    const file = join(root, `${key}.lock`);
    for (let tries = 2; tries > 0; tries--) {
      try {
        const handle = await fs.open(file, 'wx');
        // A full disk has no room for the id. The empty file is a lock for LOCK_WRITE_MS, in which a file can be deleted.
        await handle.writeFile(`${globalThis.process.pid} ${namespace}`.trim()).catch(() => {});
        await handle.close();
        const refresh = setInterval(() => {
          const time = new Date();
          fs.utimes(file, time, time).catch(() => {});
        }, timeout('lockPing'));
        /** @type {any} */ (refresh).unref?.();
        return async () => {
          clearInterval(refresh);
          await fs.rm(file, { force: true }).catch(() => {});
        };
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
    root,
    perSegment: 64,
    lock,
    keys: async () =>
      (await fs.readdir(root, { withFileTypes: true }))
        .filter((/** @type {any} */ e) => e.isDirectory())
        .map((/** @type {any} */ e) => e.name),
    async folder(key, create = false) {
      const folder = join(root, key);
      if (create) await makeFolder(fs, folder, dirname);
      else if (!(await unlessMissing(fs.stat(folder)))) return null;
      return fileFolder(fs, (file) => join(folder, file));
    },
    remove: (key) => fs.rm(join(root, key), { recursive: true, force: true }),
  };
  return new Disk(tree);
}
