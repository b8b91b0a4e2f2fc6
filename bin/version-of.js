/** Identifies versions of files. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { stampOf } from '../js/convert/folder.js';

/** @import { ByteSource } from '../js/storage/sources/types.js' */

/**
 * Returns a string that identifies the version of a file. An unknown version has a random value, which never equals
 * another.
 * @param {ByteSource} file
 */
export const versionOf = ({ name, size, remote, tag }) =>
  remote ? `${name} ${size} ${tag || randomUUID()}` : stampOf(name.startsWith('file:') ? fileURLToPath(name) : name);
