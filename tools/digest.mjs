// SHA-256 of parts of the project: whether what a product is made of, or what a test depends on, is as it was.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Not read of sources: made by tests, or large and never an input. */
const IGNORED = new Set(['node_modules', '__pycache__', 'build', 'dist']);

/**
 * SHA-256 of the contents of files and folders, with their names.
 * @param {string} root @param {readonly string[]} paths @param {ReadonlySet<string>} [ignored]  names of files and folders in them
 */
export function digestOf(root, paths, ignored = IGNORED) {
  const hash = createHash('sha256');
  /** @param {string} path */
  const add = (path) => {
    const full = join(root, path);
    if (!existsSync(full)) return void hash.update(`${path} missing\n`);
    if (statSync(full).isDirectory()) {
      for (const name of readdirSync(full).sort()) if (!ignored.has(name)) add(`${path}/${name}`);
      return;
    }
    const bytes = readFileSync(full);
    hash.update(`${path} ${bytes.length}\n`).update(bytes);
  };
  for (const path of paths) add(path);
  return hash.digest('hex');
}

/** A folder that is made of files: whether it, and all that it is made of, is as it was when it was last made. */
export class Product {
  #root;
  #folder;
  #sources;
  #file;

  /** @param {string} root @param {{ folder: string, sources: readonly string[] }} options  paths from the root */
  constructor(root, { folder, sources }) {
    this.#root = root;
    this.#folder = folder;
    this.#sources = sources;
    this.#file = join(root, 'build', 'digests', folder.replaceAll('/', '-'));
  }

  #digest() {
    return `${digestOf(this.#root, this.#sources)} ${digestOf(this.#root, [this.#folder], new Set())}\n`;
  }

  isCurrent() {
    return existsSync(this.#file) && readFileSync(this.#file, 'utf8') === this.#digest();
  }

  noteMade() {
    mkdirSync(dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, this.#digest());
  }
}
