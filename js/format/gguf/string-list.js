/**
 * A list of strings that stay in the bytes of their file and are decoded on demand, since a vocabulary may have 150,000
 * tokens and as many merges.
 */

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export class StringList {
  /** @param {Uint8Array} bytes @param {Uint32Array} starts  byte offset of each string @param {Uint32Array} ends */
  constructor(bytes, starts, ends) {
    this.bytes = bytes;
    this.starts = starts;
    this.ends = ends;
  }

  get length() {
    return this.starts.length;
  }

  /** @param {number} i */
  at(i) {
    return decoder.decode(this.bytes.subarray(this.starts[i], this.ends[i]));
  }

  *[Symbol.iterator]() {
    for (let i = 0; i < this.length; i++) yield this.at(i);
  }
}
