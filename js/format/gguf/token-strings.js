/** Decodes the tokens of a GGUF vocabulary to bytes, and its merges to ids, without a JavaScript string for each. */
import { BYTES, fromUtf8 } from '../../text/tokenizers/bytes.js';
import { malformed } from '../../text/tokenizers/section.js';

/** @import { StringList } from './string-list.js' */

const SPACE = 0x20;
/** Constants of the 32-bit FNV-1a hash. */
const [FNV_OFFSET, FNV_PRIME] = [0x811c9dc5, 0x01000193];

/**
 * Decodes string `i` to bytes, writes them to `out` from offset `to` on, and returns the offset after them.
 * @typedef {(texts: StringList, i: number, out: Uint8Array, to: number) => number} Writer
 */

/**
 * Writes a token of a byte-level vocabulary: each letter represents a byte and takes one or two bytes of UTF-8. A token
 * with other letters (an added token) is written unchanged.
 * @type {Writer}
 */
export function writeLetters(texts, i, out, to) {
  const { bytes } = texts;
  const [begin, end] = [to, texts.ends[i]];
  for (let at = texts.starts[i]; at < end; at++) {
    const first = bytes[at];
    let code = first;
    if (first >= 0x80) {
      const next = at + 1 < end ? bytes[++at] : 0;
      code = first < 0xc6 && (next & 0xc0) === 0x80 ? ((first & 31) << 6) | (next & 63) : 0;
    }
    const byte = BYTES[code];
    if (byte > 255) return writeUnchanged(texts, i, out, begin);
    out[to++] = byte;
  }
  return to;
}

/** Writes a SentencePiece token: ▁ (E2 96 81) becomes a space. @type {Writer} */
export function writePiece({ bytes, starts, ends }, i, out, to) {
  const end = ends[i];
  for (let at = starts[i]; at < end; at++) {
    const mark = bytes[at] === 0xe2 && at + 2 < end && bytes[at + 1] === 0x96 && bytes[at + 2] === 0x81;
    out[to++] = mark ? SPACE : bytes[at];
    if (mark) at += 2;
  }
  return to;
}

/** @type {Writer} */
export function writeUnchanged({ bytes, starts, ends }, i, out, to) {
  for (let at = starts[i]; at < ends[i]; at++) out[to++] = bytes[at];
  return to;
}

/** @param {number} hash @param {Uint8Array} bytes @param {number} from @param {number} to */
function addToHash(hash, bytes, from, to) {
  for (let at = from; at < to; at++) hash = Math.imul(hash ^ bytes[at], FNV_PRIME);
  return hash;
}

/** @param {Uint8Array} a @param {number} from @param {Uint8Array} b @param {number} at @param {number} length */
function equalBytes(a, from, b, at, length) {
  for (let i = 0; i < length; i++) if (a[from + i] !== b[at + i]) return false;
  return true;
}

/** A hash table from strings to ids. If several strings are equal, it returns the id of the last one. */
class IdTable {
  /** @param {StringList} texts */
  constructor(texts) {
    this.texts = texts;
    /** @type {number} */
    this.mask = 2 ** Math.ceil(Math.log2(2 * texts.length + 2)) - 1;
    /** Open addressing: id + 1, or 0 for a free slot. */
    this.slots = new Uint32Array(this.mask + 1);
    this.unique = true;
    const { bytes, starts, ends } = texts;
    for (let id = 0; id < texts.length; id++) {
      const [from, to] = [starts[id], ends[id]];
      const slot = this.slot(addToHash(FNV_OFFSET, bytes, from, to), bytes, from, to, to, to);
      if (this.slots[slot]) this.unique = false;
      this.slots[slot] = id + 1;
    }
  }

  /**
   * Returns the slot of the concatenation of two byte ranges, or the free slot for it.
   * @param {number} hash @param {Uint8Array} bytes @param {number} a @param {number} aEnd @param {number} b
   * @param {number} bEnd
   * @returns {number}
   */
  slot(hash, bytes, a, aEnd, b, bEnd) {
    const { slots, mask } = this;
    for (let at = (hash ^ (hash >>> 15)) & mask; ; at = (at + 1) & mask)
      if (!slots[at] || this.isConcatenation(slots[at] - 1, bytes, a, aEnd, b, bEnd)) return at;
  }

  /**
   * Whether a token is the concatenation of two byte ranges.
   * @param {number} id @param {Uint8Array} bytes @param {number} a @param {number} aEnd @param {number} b
   * @param {number} bEnd
   */
  isConcatenation(id, bytes, a, aEnd, b, bEnd) {
    const { texts } = this;
    const [from, first, second] = [texts.starts[id], aEnd - a, bEnd - b];
    return (
      texts.ends[id] - from === first + second &&
      equalBytes(texts.bytes, from, bytes, a, first) &&
      equalBytes(texts.bytes, from + first, bytes, b, second)
    );
  }
}

/**
 * Returns the ids of merges: left, right and merged token of each. Throws FORMAT.
 * @param {StringList} lines  "left right", in order of rank
 * @param {StringList} texts  the tokens
 */
export function mergesOf(lines, texts) {
  const ids = new IdTable(texts);
  const { bytes, starts, ends } = lines;
  const merges = new Uint32Array(3 * lines.length);
  /**
   * @param {number} rank @param {number} hash @param {number} a @param {number} aEnd @param {number} b
   * @param {number} bEnd
   */
  const idOf = (rank, hash, a, aEnd, b, bEnd) => {
    const id = ids.slots[ids.slot(hash, bytes, a, aEnd, b, bEnd)] - 1;
    if (id >= 0) return id;
    const text = fromUtf8(Uint8Array.of(...bytes.subarray(a, aEnd), ...bytes.subarray(b, bEnd)));
    throw malformed(`merge ${rank} needs ${JSON.stringify(text)}, which is not a token`);
  };
  for (let rank = 0, next = 0; rank < lines.length; rank++) {
    const from = starts[rank];
    const to = ends[rank];
    let gap = from + 1;
    while (gap < to && bytes[gap] !== SPACE) gap++;
    if (gap >= to - 1)
      throw malformed(`merge ${rank} is ${JSON.stringify(lines.at(rank))}; expected two tokens separated by a space`);
    const right = gap + 1;
    const hash = addToHash(FNV_OFFSET, bytes, from, gap);
    merges[3 * rank] = idOf(rank, hash, from, gap, gap, gap);
    merges[3 * rank + 1] = idOf(rank, addToHash(FNV_OFFSET, bytes, right, to), right, to, to, to);
    // Most vocabularies list tokens in the order of the merges that produce them: the next token is compared before the
    // table is searched.
    const isNext = ids.unique && next < texts.length && ids.isConcatenation(next, bytes, from, gap, right, to);
    if (!isNext) next = idOf(rank, addToHash(hash, bytes, right, to), from, gap, right, to);
    merges[3 * rank + 2] = next++;
  }
  return merges;
}
