// Changes relative file addresses in modules that a bundler moves to another folder.
import { dirname, join, sep } from 'node:path';

/**
 * Returns code in which each `new URL('./…', import.meta.url)` is relative to the folder of the bundle.
 * @param {string} code  of the module
 * @param {string} modulePath
 * @param {(path: string) => string} bundlePathOf  returns the path of a file relative to the folder of the bundle
 */
export const moveAddresses = (code, modulePath, bundlePathOf) =>
  code.replace(/new URL\('(\.[^']*)', import\.meta\.url\)/g, (_, path) => {
    const address = bundlePathOf(join(dirname(modulePath), path))
      .split(sep)
      .join('/');
    return `new URL('${address.startsWith('.') ? address : `./${address}`}', import.meta.url)`;
  });
