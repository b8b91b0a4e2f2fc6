import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { stampOf } from '../js/convert/folder.js';

/** @import { ByteSource } from '../js/storage/sources/types.js' */

/** Which version of a file this is; what can't be told is never taken for the same. @param {ByteSource} file */
export const versionOf = ({ name, size, remote, tag }) =>
  remote ? `${name} ${size} ${tag || randomUUID()}` : stampOf(name.startsWith('file:') ? fileURLToPath(name) : name);
