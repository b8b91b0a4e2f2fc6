/**
 * Files in folders: OPFS in a browser, a directory in Node. Each key is a folder with
 *   about      JSON, written once
 *   journal    records of verified chunks (layout.js), written after the chunk itself
 *   prefix     the first bytes of the model file
 *   s0, s1, …  its chunks, `perSegment` in each
 *   used, pinned, at-…  marks: one byte, its date is when it was set
 * Whoever is killed loses at most the chunk that was being written. Nothing waits for the disk: after a power cut records
 * may be there without their bytes, which is why whoever reads a chunk compares its hash.
 */
import { CHUNK, lengthOf, PREFIX, RECORD, record, replay } from './layout.js';

/** @import { About, Backend, Space } from './types.js' */

/**
 * An open file. May answer at once or by promise.
 * @typedef {object} Handle
 * @property {(into: Uint8Array<ArrayBufferLike>, at: number) => number | Promise<number>} read  bytes read
 * @property {(bytes: Uint8Array, at: number) => void | Promise<void>} write  all of them, or throws
 * @property {() => void | Promise<void>} close
 */

/**
 * @typedef {object} Folder
 * @property {() => Promise<string[]>} names
 * @property {(name: string) => Promise<{ size: number, date: number } | null>} stat
 * @property {(name: string) => Promise<Uint8Array | null>} bytes
 * @property {(name: string, bytes: Uint8Array) => Promise<void>} put   replaces
 * @property {(name: string) => Promise<void>} remove
 * @property {(name: string) => Promise<FileSystemFileHandle | string>} locate  for others to open; in Node a path
 * @property {(name: string) => Promise<Handle>} edit  creates; nobody else writes meanwhile
 * @property {(name: string, direct: boolean) => Promise<Handle | null>} view  for reading; `direct`: nobody writes to it
 */

/**
 * @typedef {object} Tree
 * @property {'opfs' | 'file'} name
 * @property {number} perSegment  for new files
 * @property {() => Promise<string[]>} keys
 * @property {(key: string, create?: boolean) => Promise<Folder | null>} folder
 * @property {(key: string) => Promise<void>} remove
 * @property {Backend['lock']} [lock]
 */

/** @implements {Space} */
class Segments {
  #folder;
  #about;
  #perSegment;
  /** Open files by name. @type {Map<string, Handle>} */
  #edited = new Map();
  /** @type {Map<string, Handle>} */
  #viewed = new Map();
  #journalEnd = -1;
  /** Chunks missing in each segment that is being written. @type {Map<string, number>} */
  #left = new Map();

  /** @param {Folder} folder @param {About} about */
  constructor(folder, about) {
    this.#folder = folder;
    this.#about = about;
    this.#perSegment = about.perSegment ?? 64;
  }

  /** @param {number} index @returns {[string, number]} file and offset */
  #place(index) {
    if (index === PREFIX) return ['prefix', 0];
    const perSegment = this.#perSegment;
    return [`s${Math.floor(index / perSegment)}`, (index % perSegment) * CHUNK];
  }

  /** @type {Space['scan']} */
  async scan() {
    const have = replay((await this.#folder.bytes('journal')) ?? new Uint8Array());
    /** @type {Map<string, number>} */
    const sizes = new Map();
    for (const index of [...have.keys()].sort((a, b) => a - b)) {
      const [name, at] = this.#place(index);
      if (!sizes.has(name)) sizes.set(name, (await this.#folder.stat(name))?.size ?? 0);
      const length = lengthOf(this.#about, index);
      if (!(length > 0) || at + length > Number(sizes.get(name))) have.delete(index);
    }
    return have;
  }

  /** @type {Space['read']} */
  async read(index, from, into, direct) {
    const [name, at] = this.#place(index);
    const known = this.#edited.get(name) ?? this.#viewed.get(name);
    const handle = known ?? (await this.#folder.view(name, direct));
    if (!handle) return false;
    if (direct && !known) this.#viewed.set(name, handle);
    try {
      return (await handle.read(into, at + from)) === into.length;
    } finally {
      if (!direct && !known) await handle.close();
    }
  }

  /** @param {string} name */
  async #edit(name) {
    const known = this.#edited.get(name);
    if (known) return known;
    const viewed = this.#viewed.get(name);
    this.#viewed.delete(name);
    await viewed?.close();
    const edited = await this.#folder.edit(name);
    this.#edited.set(name, edited);
    return edited;
  }

  /** @param {string} name */
  async #release(name) {
    const edited = this.#edited.get(name);
    this.#edited.delete(name);
    this.#left.delete(name);
    await edited?.close();
  }

  /** @type {Space['write']} */
  async write(index, bytes, hash) {
    const [name, at] = this.#place(index);
    const file = await this.#edit(name);
    await file.write(bytes, at);
    await this.#append(record(index, hash));
    // A file that was filled is left alone at once: others may want to read it faster.
    const left = (this.#left.get(name) ?? (index === PREFIX ? 1 : this.#perSegment)) - 1;
    this.#left.set(name, left);
    if (left === 0) await this.#release(name);
  }

  /** @type {Space['drop']} */
  drop(index) {
    return this.#append(record(index, undefined));
  }

  /** @param {Uint8Array} bytes */
  async #append(bytes) {
    const journal = await this.#edit('journal');
    if (this.#journalEnd < 0) {
      const size = (await this.#folder.stat('journal'))?.size ?? 0;
      this.#journalEnd = size - (size % RECORD); // over a torn record
    }
    await journal.write(bytes, this.#journalEnd);
    this.#journalEnd += bytes.length;
  }

  /** As Space['parts']. */
  async parts() {
    const { fileBytes, prefixBytes } = this.#about;
    const step = this.#perSegment * CHUNK;
    const parts = [];
    for (let offset = prefixBytes; offset < fileBytes; offset += step) {
      const handle = await this.#folder.locate(`s${(offset - prefixBytes) / step}`);
      parts.push({ handle, offset, bytes: Math.min(step, fileBytes - offset), at: 0 });
    }
    return parts;
  }

  /** @type {Space['settle']} */
  async settle() {
    for (const open of [this.#edited, this.#viewed]) {
      for (const handle of open.values()) await handle.close();
      open.clear();
    }
    this.#left.clear();
    this.#journalEnd = -1;
  }

  close() {
    return this.settle();
  }
}

/** @implements {Backend} */
export class Disk {
  #tree;

  /** @param {Tree} tree */
  constructor(tree) {
    this.#tree = tree;
    this.name = tree.name;
    if (tree.lock) this.lock = tree.lock;
  }

  /** @type {Backend['lock']} */
  lock;

  /** @type {Backend['keys']} */
  keys = () => this.#tree.keys();

  /** @type {Backend['get']} */
  async get(key) {
    const folder = await this.#tree.folder(key);
    const bytes = await folder?.bytes('about');
    if (!folder || !bytes) return null;
    let about;
    try {
      about = JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      return null; // killed while it was being written
    }
    const marks = new Map();
    for (const name of await folder.names()) {
      if (/^(used|pinned|at-.*)$/.test(name)) marks.set(name, (await folder.stat(name))?.date ?? 0);
    }
    return { about, marks };
  }

  /** @type {Backend['create']} */
  async create(key, about) {
    await this.#tree.remove(key); // a journal whose `about` was lost says nothing of where its chunks lie
    const folder = /** @type {Folder} */ (await this.#tree.folder(key, true));
    const whole = { ...about, perSegment: this.#tree.perSegment };
    await folder.put('about', new TextEncoder().encode(JSON.stringify(whole)));
    return whole;
  }

  /** @type {Backend['mark']} */
  async mark(key, mark, on) {
    const folder = await this.#tree.folder(key);
    if (on) await folder?.put(mark, new Uint8Array([1]));
    else await folder?.remove(mark);
  }

  /** @type {Backend['remove']} */
  remove = (key) => this.#tree.remove(key);

  /** @type {Backend['open']} */
  async open(key, about) {
    return new Segments(/** @type {Folder} */ (await this.#tree.folder(key, true)), about);
  }

  close() {}
}
