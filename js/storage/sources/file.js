/** Opens files as sources. Node only. */
import { BqError } from '../../shared/errors.js';
import { nodeModule } from '../../shared/node.js';
import { versionOf } from './file-version.js';
import { streamOf } from './local.js';

/** @import { ByteSource } from './types.js' */

/**
 * Opens a file. Throws READ.
 * @param {string} path  a path or a file: address
 * @returns {Promise<ByteSource>}
 */
export async function openFile(path) {
  const { open, stat: statOf } = await nodeModule('fs/promises');
  const changed = (/** @type {number} */ offset) =>
    new BqError('READ', `${path} can't be read any more: it was written while it was read`, { offset });
  const fail = (/** @type {unknown} */ cause, offset = -1) =>
    new BqError('READ', `${path} can't be read: ${/** @type {Error} */ (cause).message}`, {
      cause,
      offset: offset < 0 ? null : offset,
      hint: 'check the path and its permissions',
    });
  let file;
  let version;
  try {
    const location = path.startsWith('file:') ? new URL(path) : path;
    const stats = await statOf(location); // opening a pipe would wait for its writer
    if (stats.isFile() || stats.isDirectory()) {
      file = await open(location);
      version = await versionOf(file);
    }
  } catch (cause) {
    await file?.close();
    throw fail(cause);
  }
  if (!file || !version)
    throw new BqError('READ', `${path} is not a regular file`, {
      hint: 'copy it to a regular file: a model needs random access',
    });
  const { stat, wasWritten } = version;
  const { size, mtimeMs } = stat;
  if (stat.isDirectory()) {
    await file.close();
    throw new BqError('READ', `${path} is a folder, not a file`, {
      hint: `convert a Hugging Face folder first: npx bq4 convert ${path} model.bq4`,
    });
  }
  return {
    name: path,
    size,
    remote: false,
    type: '',
    tag: String(mtimeMs), // the time of the last write identifies the version of a file
    stream: streamOf(size, async (offset, end) => {
      try {
        const { buffer, bytesRead } = await file.read(new Uint8Array(end - offset), 0, end - offset, offset);
        if (!(await wasWritten())) return buffer.subarray(0, bytesRead);
      } catch (cause) {
        throw fail(cause, offset);
      }
      throw changed(offset);
    }),
    close: () => file.close(),
  };
}
