// Test files that take long, and depend on a part of the project alone: they run when that part has changed since they passed.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Not read: made by tests, or large and never an input. */
const IGNORED = new Set(['node_modules', '__pycache__', 'build', 'dist']);

/** SHA-256 of the contents of files and folders, with their names. @param {string} root @param {readonly string[]} paths */
export function digestOf(root, paths) {
  const hash = createHash('sha256');
  /** @param {string} path */
  const add = (path) => {
    const full = join(root, path);
    if (!existsSync(full)) return void hash.update(`${path} missing\n`);
    if (statSync(full).isDirectory()) {
      for (const name of readdirSync(full).sort()) if (!IGNORED.has(name)) add(`${path}/${name}`);
      return;
    }
    const bytes = readFileSync(full);
    hash.update(`${path} ${bytes.length}\n`).update(bytes);
  };
  for (const path of paths) add(path);
  return hash.digest('hex');
}

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
