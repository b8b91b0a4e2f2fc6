/** Where writers put bytes: at any position, seen by others only when all is done. */
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';

/**
 * @typedef {object} Sink
 * @property {(position: number, bytes: Uint8Array) => Promise<void>} write  done with `bytes` when it resolves
 * @property {(bytes?: number) => Promise<void>} finish  makes the file appear, of so many bytes: of what was kept there may be more
 * @property {(keep?: boolean) => Promise<void>} abort   leaves nothing behind unless told to keep NAME.part; harmless after finish
 * @property {(position: number, length: number) => Promise<Uint8Array>} [read]  bytes that were written, fewer at the end
 */

/**
 * A file in Node: NAME.part until it is finished, then NAME. WRITE.
 * @param {string} path
 * @param {{ keep?: boolean }} [options]  keep: what NAME.part holds stays
 * @returns {Promise<Sink>}
 */
export async function fileSink(path, { keep = false } = {}) {
  const { open, rename, rm, stat } = await nodeModule('fs/promises');
  const part = `${path}.part`;
  const fail = (/** @type {unknown} */ cause) =>
    new BqError('WRITE', `${path} can't be written: ${/** @type {Error} */ (cause).message}`, {
      cause,
      hint: 'check the folder, its permissions and the free space',
    });
  const attempt = async (/** @type {() => Promise<any>} */ action) => {
    try {
      return await action();
    } catch (cause) {
      throw fail(cause);
    }
  };
  const there = await stat(path).catch(() => null);
  if (there && !there.isFile()) throw fail(new Error('something else has that name')); // a folder, or /dev/null
  /** @type {import('node:fs/promises').FileHandle | null} */
  let file = await attempt(() => open(part, keep ? 'r+' : 'w+'));
  return {
    async write(position, bytes) {
      for (let at = 0; at < bytes.length;) {
        const { bytesWritten } = await attempt(async () => file?.write(bytes, at, bytes.length - at, position + at));
        at += bytesWritten;
      }
    },
    async read(position, length) {
      const { buffer, bytesRead } = await attempt(async () => file?.read(new Uint8Array(length), 0, length, position));
      return buffer.subarray(0, bytesRead);
    },
    async finish(bytes) {
      await attempt(async () => {
        if (bytes !== undefined) await file?.truncate(bytes);
        await file?.sync();
        await file?.close();
        await rename(part, path);
        file = null;
      });
    },
    async abort(keep = false) {
      if (!file) return;
      await file.close().catch(() => {});
      file = null;
      if (!keep) await rm(part, { force: true });
    },
  };
}

/**
 * Bytes in memory, for small models and tests.
 * @returns {Sink & { bytes: Uint8Array }}
 */
export function memorySink() {
  return {
    bytes: new Uint8Array(),
    async write(position, bytes) {
      if (position + bytes.length > this.bytes.length) {
        const longer = new Uint8Array(position + bytes.length);
        longer.set(this.bytes);
        this.bytes = longer;
      }
      this.bytes.set(bytes, position);
    },
    async finish() {},
    async abort() {},
  };
}
