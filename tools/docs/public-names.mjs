#!/usr/bin/env node
// The public names of the package, read from its sources: properties of JSDoc types, options, methods and error codes. A test
// (tests/js/api-doc.test.mjs) compares them with docs/reference. The command `node tools/docs/public-names.mjs` prints them by type.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ERRORS } from '../../js/shared/error-codes.js';
import { GENERATE_OPTIONS } from '../../js/shared/generate-options.js';

const ROOT = new URL('../../', import.meta.url);
const read = (/** @type {string} */ path) => readFileSync(new URL(path, ROOT), 'utf8');

/** The modules that declare public types. */
const MODULES = [
  ...readdirSync(new URL('js/shared/types/', ROOT)).map((name) => `js/shared/types/${name}`),
  'js/storage/sources/types.js',
  'js/storage/cache/types.js',
];

/**
 * Returns the properties of each type that is declared by `@typedef {object}`, and of GenerateOptions, by name of the type.
 * @returns {Map<string, string[]>}
 */
export function publicTypes() {
  /** @type {Map<string, string[]>} */
  const types = new Map([['GenerateOptions', Object.keys(GENERATE_OPTIONS)]]);
  for (const comment of MODULES.flatMap((path) => read(path).split('/**'))) {
    const [, name] = /@typedef \{object\} (\w+)/.exec(comment) ?? [];
    if (name)
      types.set(
        name,
        [...comment.matchAll(/^ \* @property \{.*\} \[?(\w+)\]?/gm)].map(([, property]) => property),
      );
  }
  return types;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, properties] of publicTypes()) console.log(`${name}: ${properties.join(', ')}`);
  console.log(`ErrorCode: ${Object.keys(ERRORS).join(', ')}`);
}
