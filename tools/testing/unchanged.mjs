// Test files that take long, and depend on a part of the project alone: they run when that part has changed since they passed.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** What passed, with the digest of what it depends on. */
export class Passed {
  #file;
  /** @type {Record<string, string>} */
  #kept = {};

  /** @param {string} file */
  constructor(file) {
    this.#file = file;
    try {
      if (existsSync(file)) this.#kept = JSON.parse(readFileSync(file, 'utf8'));
    } catch {
      // A run that was killed has left half a file: all runs again.
    }
  }

  /** @param {string} name @param {string} digest */
  has(name, digest) {
    return this.#kept[name] === digest;
  }

  /** @param {string} name @param {string} digest */
  add(name, digest) {
    this.#kept[name] = digest;
    mkdirSync(dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, `${JSON.stringify(this.#kept, null, 1)}\n`);
  }
}
