// Changes relative file addresses in modules that a bundler moves to another folder.
import { dirname, join, sep } from 'node:path';

/**
 * Returns code in which each `new URL('./…', import.meta.url)` is relative to the folder of the bundle.
 * @param {string} code @param {string} id  path of the module
 * @param {(target: string) => string} found  returns the path of a file relative to the bundle's folder
 */
export const moveAddresses = (code, id, found) =>
  code.replace(/new URL\('(\.[^']*)', import\.meta\.url\)/g, (_, path) => {
    const address = found(join(dirname(id), path))
      .split(sep)
      .join('/');
    return `new URL('${address.startsWith('.') ? address : `./${address}`}', import.meta.url)`;
  });
