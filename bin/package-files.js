/** Reads files of the package. Its root is the parent folder of this file, and of the bundle dist/cli.js. */
import { readFile } from 'node:fs/promises';
import { BqError } from '../js/shared/errors.js';

/** Reads a file. Throws NO_ENGINE if it is missing. @param {string} path  relative to the package's root */
export const readPackageFile = (path) =>
  readFile(new URL(`../${path}`, import.meta.url)).catch((cause) => {
    throw new BqError('NO_ENGINE', `${path} is missing in the package`, {
      cause,
      hint: 'in a copy of the repository: npm run build && npm run dist',
    });
  });
