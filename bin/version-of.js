/** Identifies versions of files. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { stampOf } from '../js/convert/folder.js';

/** @import { ByteSource } from '../js/storage/sources/types.js' */

/** Identifies the version of a file. An unknown version gets a random value, so that it never equals another. @param {ByteSource} file */
export const versionOf = ({ name, size, remote, tag }) =>
  remote ? `${name} ${size} ${tag || randomUUID()}` : stampOf(name.startsWith('file:') ? fileURLToPath(name) : name);
