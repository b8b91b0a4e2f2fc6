/**
 * Sinks of the file writers: bytes are written at any position, and the file gets its final name only when it is
 * complete.
 */
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';

/**
 * @typedef {object} Sink
 * @property {(position: number, bytes: Uint8Array) => Promise<void>} write  writes bytes; the caller may reuse `bytes`
 *   when the promise has resolved
 * @property {(bytes?: number) => Promise<void>} finish  gives the file its final name; `bytes`: its final length, since
 *   a resumed file may be longer
 * @property {(keep?: boolean) => Promise<void>} abort   removes NAME.part unless `keep` is set; does nothing after
 *   finish
 * @property {(position: number, length: number) => Promise<Uint8Array>} [read]  reads written bytes back; at the end of
 *   the file the result is shorter than `length`
 */

/**
 * Opens a sink for a file on disk (Node only). The file is called NAME.part until it is finished, then NAME. Throws
 * WRITE.
 * @param {string} path
 * @param {{ keep?: boolean }} [options]  `keep`: whether to continue the existing NAME.part
 * @returns {Promise<Sink>}
 */
export async function fileSink(path, { keep = false } = {}) {
  const { open, rename, rm, stat } = await nodeModule('fs/promises');
  const part = `${path}.part`;
  const writeError = (/** @type {unknown} */ cause) =>
    new BqError('WRITE', `${path} can't be written: ${/** @type {Error} */ (cause).message}`, {
      cause,
      hint: 'check the folder, its permissions and the free space',
    });
  const attempt = async (/** @type {() => Promise<any>} */ action) => {
    try {
      return await action();
    } catch (cause) {
      throw writeError(cause);
    }
  };
  const existing = await stat(path).catch(() => null);
  // A folder, or a device such as /dev/null.
  if (existing && !existing.isFile()) throw writeError(new Error('it exists and is not a regular file'));
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
 * Returns a sink that keeps the bytes in memory, for small models and tests.
 * @returns {Sink & { bytes: Uint8Array }}
 */
export function memorySink() {
  return {
    bytes: new Uint8Array(),
    async write(position, bytes) {
      if (position + bytes.length > this.bytes.length) {
        const grown = new Uint8Array(position + bytes.length);
        grown.set(this.bytes);
        this.bytes = grown;
      }
      this.bytes.set(bytes, position);
    },
    async finish() {},
    async abort() {},
  };
}
