// Records of long test files that depend on only a part of the project. They run only if that part has changed since they
// last passed.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Test files that passed, each with a digest of the files that it depends on. */
export class Passed {
  #file;
  /** @type {Record<string, string>} */
  #digests = {};

  /** @param {string} file */
  constructor(file) {
    this.#file = file;
    try {
      if (existsSync(file)) this.#digests = JSON.parse(readFileSync(file, 'utf8'));
    } catch {
      // The file is incomplete if a run was killed while writing it. All test files then run again.
    }
  }

  /** Whether a test file has passed with this digest. @param {string} name @param {string} digest */
  has(name, digest) {
    return this.#digests[name] === digest;
  }

  /** Records that a test file has passed. @param {string} name @param {string} digest */
  add(name, digest) {
    this.#digests[name] = digest;
    mkdirSync(dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, `${JSON.stringify(this.#digests, null, 1)}\n`);
  }
}
