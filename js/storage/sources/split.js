/**
 * A model in several files as one source. Each file begins at a multiple of STRIDE, so that no length must be known
 * before it is read. The offsets between the end of a file and the next multiple are never requested.
 */

/** @import { ByteSource } from './types.js' */

/** Distance between the offsets of two files, in bytes: larger than any file. */
export const STRIDE = 2 ** 42;

/** Ending of the first part's name of a GGUF file in several parts, with the number of parts. */
const FIRST_PART = /-00001-of-(\d{5})\.gguf$/;
/** Returns the number in the name of a part; 0 if it has none. @param {string} name */
const numberOf = (name) => Number(/-(\d{5})-of-\d{5}\.gguf$/.exec(name)?.[1] ?? 0);

/**
 * Returns the name that all parts of a model have in common; undefined if the name of a file has no number.
 * @param {string} path
 */
export const commonNameOf = (path) => /([^/\\]*)-\d{5}-of-\d{5}\.gguf$/.exec(path)?.[1];

/**
 * Returns the paths of all parts, given the path of the first part; none for other paths.
 * @param {string} path  without query and hash
 */
export function partsOf(path) {
  const count = Number(FIRST_PART.exec(path)?.[1] ?? 0);
  return Array.from({ length: count }, (_, i) =>
    path.replace(FIRST_PART, `-${String(i + 1).padStart(5, '0')}-of-$1.gguf`),
  );
}

/**
 * Returns the file that has the byte at an offset of a source, and the offset in that file.
 * @param {ByteSource} source @param {number} offset
 */
export function locate(source, offset) {
  const { name } = source.parts?.[Math.floor(offset / STRIDE)] ?? source;
  return { name, offset: offset % STRIDE };
}

/** @implements {ByteSource} */
export class SplitSource {
  /** @param {ByteSource[]} parts  sorted by the numbers in their names, if all have numbers; closed with this source */
  constructor(parts) {
    const areNumbered = parts.every(({ name }) => numberOf(name));
    this.parts = areNumbered ? [...parts].sort((a, b) => numberOf(a.name) - numberOf(b.name)) : [...parts];
    const [first] = this.parts;
    this.name = first.name;
    this.remote = first.remote;
    this.single = first.single;
  }

  get type() {
    return this.parts[0].type;
  }
  /** Bytes of all parts; -1 while one of them is unknown. */
  get size() {
    const sizes = this.parts.map(({ size }) => size);
    return sizes.includes(-1) ? -1 : sizes.reduce((a, b) => a + b, 0);
  }
  get parallel() {
    return Math.min(...this.parts.map(({ parallel = 0 }) => parallel));
  }
  /** The version tags of the parts, one per line; '' if one of them is unknown. */
  get tag() {
    const tags = this.parts.map(({ tag = '' }) => tag);
    return tags.includes('') ? '' : tags.join('\n');
  }

  get renamed() {
    return this.parts.some(({ renamed }) => renamed);
  }

  /** @param {(failures: number) => void} report  as `onFailure` of each part */
  set onFailure(report) {
    for (const part of this.parts) part.onFailure = report;
  }

  /**
   * Sets the expected beginning of the first part, and the version tags of all parts.
   * @param {Uint8Array} head @param {number} _size @param {string} [tag]  as `tag`, of an earlier visit
   */
  expect(head, _size, tag) {
    const tags = tag?.split('\n') ?? [];
    this.parts.forEach((part, i) => {
      if (!i || tags.length === this.parts.length) part.expect?.(i ? new Uint8Array() : head, -1, tags[i]);
    });
  }

  /** Yields bytes of one part. @type {ByteSource['stream']} */
  async *stream(offset, end, signal) {
    const part = Math.floor(offset / STRIDE);
    yield* this.parts[part].stream(offset - part * STRIDE, end - part * STRIDE, signal);
  }

  async close() {
    for (const part of this.parts) await part.close();
  }
}
