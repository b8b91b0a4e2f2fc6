/**
 * A tool call that is being generated: it consists of pieces, each a special token or a text with a grammar. The calls of
 * several tools are generated together until the text shows which tool is called.
 */
import { addToken } from './token-mask.js';

/** @import { Guide, Grammars } from './grammar-guide.js' */
/** @import { Branch, Call, CallForms } from '../prompt/tool-calls.js' */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class CallInProgress {
  #guides;
  #callForms;
  /** Calls of tools that begin with the text so far. @type {Branch[]} */
  #branches;
  /** Index of the current piece. */
  #pieceIndex = 0;
  /** Texts of the complete pieces. @type {string[]} */
  #texts = [];
  /** Bytes of the current piece. @type {Uint8Array[]} */
  #bytes = [];
  /** Guides of the pieces of each branch; null: the piece is a special token. @type {Map<Branch, (Guide | null)[]>} */
  #guidesByBranch = new Map();

  /** @param {Grammars} guides @param {CallForms} callForms @param {Branch[]} branches */
  constructor(guides, callForms, branches) {
    this.#guides = guides;
    this.#callForms = callForms;
    this.#branches = branches;
  }

  /** Compiles the guides. Calls that are the same before a piece share its guide. Throws GRAMMAR. */
  async prepare() {
    /** @type {Map<string, Guide>} */
    const guidesByPrefix = new Map();
    const prefixKey = (/** @type {Branch} */ { pieces }, /** @type {number} */ i) =>
      JSON.stringify([i, pieces.slice(0, i)]);
    for (const branch of this.#branches) {
      /** @type {(Guide | null)[]} */
      const guides = [];
      for (const [i, { special }] of branch.pieces.entries()) {
        const key = prefixKey(branch, i);
        if (special === null && !guidesByPrefix.has(key)) {
          const sameBranches = this.#branches.filter((candidate) => prefixKey(candidate, i) === key);
          const nodes = new Map(sameBranches.map(({ pieces }) => [JSON.stringify(pieces[i].node), pieces[i].node]));
          const end = branch.pieces[i + 1]?.special ?? null;
          guidesByPrefix.set(key, await this.#guides.part({ any: [...nodes.values()] }, end === null ? [] : [end]));
        }
        guides.push(special === null ? /** @type {Guide} */ (guidesByPrefix.get(key)) : null);
      }
      this.#guidesByBranch.set(branch, guides);
    }
    return this;
  }

  /** Keywords of the tools' parameters that have no effect. */
  get warnings() {
    return [...this.#guidesByBranch.values()].flat().flatMap((guide) => guide?.warnings ?? []);
  }

  get #piece() {
    return this.#branches[0].pieces[this.#pieceIndex];
  }

  get #guide() {
    return /** @type {Guide} */ (this.#guidesByBranch.get(this.#branches[0])?.[this.#pieceIndex]);
  }

  /** Whether the call is a plain JSON object, not in the form of the template. */
  get isBare() {
    return Boolean(this.#branches[0].bare);
  }

  get isComplete() {
    return this.#pieceIndex === this.#branches[0].pieces.length;
  }

  /** The complete call; null if it can't be parsed. @returns {Call | null} */
  get call() {
    for (const branch of this.#branches) {
      const call = this.#callForms.read(branch, this.#texts);
      if (call) return call;
    }
    return null;
  }

  /** Returns a mask of the tokens that may come next. @returns {Uint32Array} */
  mask() {
    const { special } = this.#piece;
    if (special === null) return this.#guide.mask();
    const mask = new Uint32Array(this.#guides.words);
    addToken(mask, special);
    return mask;
  }

  /** Returns the smallest number of tokens of the pieces from an index on. @param {number} index */
  #shortestFrom(index) {
    const guides = /** @type {(Guide | null)[]} */ (this.#guidesByBranch.get(this.#branches[0])).slice(index);
    return guides.reduce((sum, guide) => sum + (guide ? guide.shortestEnd : 1), 0);
  }

  /** Smallest number of tokens that complete the call. */
  get shortestEnd() {
    return this.#shortestFrom(this.#pieceIndex);
  }

  /**
   * Returns the next tokens of the call.
   * @param {number} remaining  tokens until the limit @param {(mask: Uint32Array) => number} sample @returns {number[]}
   */
  next(remaining, sample) {
    const { special } = this.#piece;
    if (special !== null) {
      this.#pieceIndex++;
      return [special];
    }
    const guide = this.#guide;
    const end = this.#branches[0].pieces[this.#pieceIndex + 1]?.special;
    const ids = guide.next(remaining - this.#shortestFrom(this.#pieceIndex + 1), sample);
    for (const id of ids) {
      if (id === end && guide.complete) {
        this.#endPiece();
        this.#pieceIndex++;
      } else this.#bytes.push(this.#guides.machine.token(id));
    }
    if (!this.isComplete && this.#guide === guide) this.#endIfComplete();
    return ids;
  }

  /** Accepts a token that the caller has picked. @param {number} id @returns {boolean}  false: it is not allowed */
  accept(id) {
    const { special } = this.#piece;
    if (special !== null) {
      if (id !== special) return false;
      this.#pieceIndex++;
      return true;
    }
    if (id === this.#branches[0].pieces[this.#pieceIndex + 1]?.special && this.#guide.complete) {
      this.#endPiece();
      this.#pieceIndex++;
      return true;
    }
    const bytes = this.#guides.machine.token(id);
    if (!this.#guide.accept(id)) return false;
    this.#bytes.push(bytes);
    this.#endIfComplete();
    return true;
  }

  /** Accepts the beginning of the call. @param {string} text @returns {boolean}  false: it is not allowed */
  feed(text) {
    let unread = text;
    for (let { special } = this.#piece; special !== null && unread; { special } = this.#piece) {
      const fixed = this.#guides.model.tokenText(special);
      if (!unread.startsWith(fixed)) return false;
      unread = unread.slice(fixed.length);
      this.#pieceIndex++;
      if (this.isComplete) return !unread;
    }
    if (!unread) return true;
    const bytes = encoder.encode(unread);
    if (!this.#guide.feed(bytes)) return false;
    this.#bytes.push(bytes);
    this.#endIfComplete();
    return true;
  }

  /** Ends the piece if nothing can follow in it, or if it is the last one and complete. */
  #endIfComplete() {
    const isLast = this.#pieceIndex === this.#branches[0].pieces.length - 1;
    if (this.#guide.complete && (isLast || !this.#guide.continues)) this.#endPiece();
  }

  /** Ends the current piece and keeps the branches that match its text. */
  #endPiece() {
    const length = this.#bytes.reduce((sum, { length: bytes }) => sum + bytes, 0);
    const joined = new Uint8Array(length);
    let at = 0;
    for (const bytes of this.#bytes) {
      joined.set(bytes, at);
      at += bytes.length;
    }
    const text = decoder.decode(joined);
    this.#texts[this.#pieceIndex] = text;
    this.#bytes = [];
    const matches = this.#branches.filter(({ pieces }) =>
      new RegExp(`^${pieces[this.#pieceIndex].pattern}$`, 'u').test(text),
    );
    if (matches.length) this.#branches = matches;
    this.#pieceIndex++;
  }

  close() {
    for (const guide of new Set([...this.#guidesByBranch.values()].flat())) guide?.close();
    this.#guidesByBranch.clear();
  }
}
