// Addresses of files in modules that a bundler moves.
import { dirname, join, sep } from 'node:path';

/**
 * The code with each `new URL('./…', import.meta.url)` as its file is found from where the bundle lies.
 * @param {string} code @param {string} id  path of the module
 * @param {(target: string) => string} found  the path of a file from there
 */
export const moveAddresses = (code, id, found) =>
  code.replace(/new URL\('(\.[^']*)', import\.meta\.url\)/g, (_, path) => {
    const address = found(join(dirname(id), path))
      .split(sep)
      .join('/');
    return `new URL('${address.startsWith('.') ? address : `./${address}`}', import.meta.url)`;
  });
