/**
 * A model in several files, as one: each begins at a multiple of STRIDE, so that no length must be known before it is read. What
 * lies between is nothing that anybody asks for.
 */

/** @import { ByteSource } from './types.js' */

/** More than any file has. */
export const STRIDE = 2 ** 42;

/** What the parts of a GGUF file are called; the first tells of the others. */
const FIRST = /-00001-of-(\d{5})\.gguf$/;
/** A part's number in its name; 0: it has none. @param {string} name */
const numberOf = (name) => Number(/-(\d{5})-of-\d{5}\.gguf$/.exec(name)?.[1] ?? 0);

/**
 * The paths of all parts, of the first one's; none where it is no first part.
 * @param {string} path  without query and hash
 */
export function partsOf(path) {
  const count = Number(FIRST.exec(path)?.[1] ?? 0);
  return Array.from({ length: count }, (_, i) => path.replace(FIRST, `-${String(i + 1).padStart(5, '0')}-of-$1.gguf`));
}

/** @implements {ByteSource} */
export class SplitSource {
  /** @param {ByteSource[]} parts  closed with it; by the numbers in their names, or in their order if one has no number */
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
  /** Of all; -1 while one is unknown. */
  get size() {
    const sizes = this.parts.map(({ size }) => size);
    return sizes.includes(-1) ? -1 : sizes.reduce((a, b) => a + b, 0);
  }
  get parallel() {
    return Math.min(...this.parts.map(({ parallel = 0 }) => parallel));
  }
  get tag() {
    return this.parts.map(({ tag = '' }) => tag).join('');
  }

  get renamed() {
    return this.parts.some(({ renamed }) => renamed);
  }

  /** Of one part. @type {ByteSource['stream']} */
  async *stream(offset, end, signal) {
    const part = Math.floor(offset / STRIDE);
    yield* this.parts[part].stream(offset - part * STRIDE, end - part * STRIDE, signal);
  }

  async close() {
    for (const part of this.parts) await part.close();
  }
}
