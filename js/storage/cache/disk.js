/**
 * The backend that stores files in folders: OPFS in a browser, a directory in Node. Each key is a folder with
 *   about      JSON, written once
 *   journal    records of verified chunks (layout.js), written after the chunk itself
 *   prefix     the first bytes of the model file
 *   s0, s1, …  its chunks, `perSegment` in each
 *   hash0, hash1  states of SHA-256 (layout.js), while a file with `integrity` is downloaded
 *   used, pinned, at-…  marks: files of one byte, whose date is the time when the mark was set
 * A process that is killed loses at most the chunk that was being written. Writes are not flushed: after a power cut
 * records may exist without their bytes, so readers compare the hash of each chunk.
 */
import { CHUNK_BYTES } from '../../shared/sections.js';
import { encodeRecord, isState, lengthOf, PREFIX, RECORD_BYTES, replay } from './layout.js';

/** @import { FileMetadata, Backend, ChunkStorage } from './types.js' */

/**
 * An open file. Methods may return values or promises.
 * @typedef {object} Handle
 * @property {(into: Uint8Array<ArrayBufferLike>, at: number) => number | Promise<number>} read  returns the number of
 *   bytes read
 * @property {(bytes: Uint8Array, at: number) => void | Promise<void>} write  writes all bytes, or throws
 * @property {() => void | Promise<void>} close
 */

/**
 * The folder of a key.
 * @typedef {object} Folder
 * @property {() => Promise<string[]>} names
 * @property {(name: string) => Promise<{ size: number, date: number } | null>} stat
 * @property {(name: string) => Promise<Uint8Array | null>} bytes
 * @property {(name: string, bytes: Uint8Array) => Promise<void>} put  creates or replaces a file
 * @property {(name: string) => Promise<void>} remove
 * @property {(name: string) => Promise<FileSystemFileHandle | string>} locate  returns a handle that other threads can
 *   open; in Node a path
 * @property {(name: string) => Promise<Handle>} edit  opens a file for writing, and creates it if it is missing; there
 *   is only one writer
 * @property {(name: string, direct: boolean) => Promise<Handle | null>} view  opens a file for reading; `direct`: no
 *   other tab writes it
 */

/**
 * The folders of a store.
 * @typedef {object} Tree
 * @property {'opfs' | 'file'} name
 * @property {string} [root]  as of Backend
 * @property {number} perSegment  chunks per segment of new files
 * @property {() => Promise<string[]>} keys
 * @property {(key: string, create?: boolean) => Promise<Folder | null>} folder
 * @property {(key: string) => Promise<void>} remove
 * @property {Backend['lock']} [lock]
 * @property {Backend['notes']} [notes]
 */

/** @implements {ChunkStorage} */
class Segments {
  #folder;
  #metadata;
  #perSegment;
  /** Files that are open for writing, by name. @type {Map<string, Handle>} */
  #writeHandles = new Map();
  /** Files that are open for reading, by name. @type {Map<string, Handle>} */
  #readHandles = new Map();
  /** Offset of the next record in the journal; -1 while it is unknown. */
  #journalEnd = -1;
  /** Number of missing chunks of each segment that is being written. @type {Map<string, number>} */
  #missingChunks = new Map();

  /** @param {Folder} folder @param {FileMetadata} metadata */
  constructor(folder, metadata) {
    this.#folder = folder;
    this.#metadata = metadata;
    this.#perSegment = metadata.perSegment ?? 64;
  }

  /** @param {number} index @returns {[string, number]} name of the file with the chunk, and its offset there */
  #locate(index) {
    if (index === PREFIX) return ['prefix', 0];
    if (isState(index)) return [`hash${index % 2}`, 0];
    const perSegment = this.#perSegment;
    return [`s${Math.floor(index / perSegment)}`, (index % perSegment) * CHUNK_BYTES];
  }

  /** @type {ChunkStorage['scan']} */
  async scan() {
    const hashes = replay((await this.#folder.bytes('journal')) ?? new Uint8Array());
    const files = new Set([...hashes.keys()].map((index) => this.#locate(index)[0]));
    const sizeOf = async (/** @type {string} */ name) => (await this.#folder.stat(name))?.size ?? 0;
    const sizes = new Map(
      await Promise.all([...files].map(async (name) => /** @type {const} */ ([name, await sizeOf(name)]))),
    );
    for (const index of hashes.keys()) {
      const [name, at] = this.#locate(index);
      const length = lengthOf(this.#metadata, index);
      if (!(length > 0) || at + length > Number(sizes.get(name))) hashes.delete(index);
    }
    return hashes;
  }

  /** @type {ChunkStorage['read']} */
  async read(index, from, target, direct) {
    const [name, at] = this.#locate(index);
    const openHandle = this.#writeHandles.get(name) ?? this.#readHandles.get(name);
    const handle = openHandle ?? (await this.#folder.view(name, direct));
    if (!handle) return false;
    if (direct && !openHandle) this.#readHandles.set(name, handle);
    try {
      return (await handle.read(target, at + from)) === target.length;
    } finally {
      if (!direct && !openHandle) await handle.close();
    }
  }

  /** Opens a file for writing, unless it is open. @param {string} name */
  async #openForWriting(name) {
    const openHandle = this.#writeHandles.get(name);
    if (openHandle) return openHandle;
    const readHandle = this.#readHandles.get(name);
    this.#readHandles.delete(name);
    await readHandle?.close();
    const writeHandle = await this.#folder.edit(name);
    this.#writeHandles.set(name, writeHandle);
    return writeHandle;
  }

  /** Closes a file that is open for writing. @param {string} name */
  async #closeWriter(name) {
    const writeHandle = this.#writeHandles.get(name);
    this.#writeHandles.delete(name);
    this.#missingChunks.delete(name);
    await writeHandle?.close();
  }

  /** @type {ChunkStorage['write']} */
  async write(index, bytes, hash) {
    const [name, at] = this.#locate(index);
    const file = await this.#openForWriting(name);
    await file.write(bytes, at);
    await this.#append(encodeRecord(index, hash));
    // A complete file is closed at once, so that others can read it directly.
    const missingCount = (this.#missingChunks.get(name) ?? (index === PREFIX ? 1 : this.#perSegment)) - 1;
    this.#missingChunks.set(name, missingCount);
    if (missingCount === 0) await this.#closeWriter(name);
  }

  /** @type {ChunkStorage['drop']} */
  drop(index) {
    return this.#append(encodeRecord(index, undefined));
  }

  /** Appends a record to the journal. @param {Uint8Array} bytes */
  async #append(bytes) {
    const journal = await this.#openForWriting('journal');
    if (this.#journalEnd < 0) {
      const size = (await this.#folder.stat('journal'))?.size ?? 0;
      this.#journalEnd = size - (size % RECORD_BYTES); // overwrites an incomplete record
    }
    await journal.write(bytes, this.#journalEnd);
    this.#journalEnd += bytes.length;
  }

  /** As ChunkStorage['parts']. */
  async parts() {
    const { fileBytes, prefixBytes } = this.#metadata;
    const step = this.#perSegment * CHUNK_BYTES;
    const parts = [];
    for (let offset = prefixBytes; offset < fileBytes; offset += step) {
      const handle = await this.#folder.locate(`s${(offset - prefixBytes) / step}`);
      parts.push({ handle, offset, bytes: Math.min(step, fileBytes - offset), at: 0 });
    }
    return parts;
  }

  /** @type {ChunkStorage['settle']} */
  async settle() {
    for (const open of [this.#writeHandles, this.#readHandles]) {
      for (const handle of open.values()) await handle.close();
      open.clear();
    }
    this.#missingChunks.clear();
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
    this.root = tree.root;
    if (tree.lock) this.lock = tree.lock;
    this.notes = tree.notes;
  }

  /** @type {Backend['lock']} */
  lock;

  /** @type {Backend['keys']} */
  keys = () => this.#tree.keys();

  /** @type {Backend['get']} */
  async get(key) {
    const folder = await this.#tree.folder(key);
    const [bytes, names] = await Promise.all([folder?.bytes('about'), folder?.names()]);
    if (!folder || !bytes) return null;
    let metadata;
    try {
      metadata = JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      return null; // the writer was killed
    }
    const marks = (names ?? []).filter((name) => /^(used|pinned|at-.*)$/.test(name));
    const dateOf = async (/** @type {string} */ mark) => (await folder.stat(mark))?.date ?? 0;
    return {
      about: metadata,
      marks: new Map(await Promise.all(marks.map(async (mark) => /** @type {const} */ ([mark, await dateOf(mark)])))),
    };
  }

  /** @type {Backend['create']} */
  async create(key, metadata) {
    await this.#tree.remove(key); // a journal without its `about` is useless, since the layout is unknown
    const folder = /** @type {Folder} */ (await this.#tree.folder(key, true));
    const fullMetadata = { ...metadata, perSegment: this.#tree.perSegment };
    await folder.put('about', new TextEncoder().encode(JSON.stringify(fullMetadata)));
    return fullMetadata;
  }

  /** @type {Backend['mark']} */
  async mark(key, mark, isOn) {
    const folder = await this.#tree.folder(key);
    if (isOn) await folder?.put(mark, new Uint8Array([1]));
    else await folder?.remove(mark);
  }

  /** @type {Backend['remove']} */
  remove = (key) => this.#tree.remove(key);

  /** @type {Backend['open']} */
  async open(key, metadata) {
    return new Segments(/** @type {Folder} */ (await this.#tree.folder(key, true)), metadata);
  }

  close() {}
}
