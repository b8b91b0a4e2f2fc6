/** The module that holds texts to grammars (web/grammar/grammar_api.c): a vocabulary, and a matcher for each grammar. */
import { BqError } from '../../shared/errors.js';
import { fetchModule } from '../../wasm/wasm.js';

/** @import { Compiled } from './index.js' */

/** Matchers that are kept with what they have learned, for the next text of the same grammar. */
const KEPT = 4;
/** Bytes that are looked ahead or forced at once. */
const AHEAD = 1024;

/** Modules by address. @type {Map<string, Promise<WebAssembly.Module>>} */
const modules = new Map();

/** NO_ENGINE. @param {string | undefined} url */
async function moduleAt(url) {
  if (!url)
    throw new BqError('NO_ENGINE', 'wasmUrl does not say where the module for grammars lies', {
      hint: 'add grammar: the address of bq4-grammar.wasm',
    });
  const known = modules.get(url) ?? fetchModule(url);
  modules.set(url, known);
  try {
    return await known;
  } catch (cause) {
    modules.delete(url);
    throw new BqError(
      'NO_ENGINE',
      `the module for grammars ${url} can't be used: ${/** @type {Error} */ (cause).message}`,
      { cause },
    );
  }
}

const decoder = new TextDecoder();

export class Machine {
  /** @type {any} */
  #exports;
  #vocabulary = 0;
  /** Bytes that are handed over, and read. */
  #buffer = 0;
  /** Idle matchers by what they are for, the least recently used first. @type {Map<string, Matcher>} */
  #idle = new Map();
  /** Blocks that nobody uses: address and bytes. @type {[number, number][]} */
  #free = [];

  /** @param {any} exports */
  constructor(exports) {
    this.#exports = exports;
  }

  /**
   * NO_ENGINE, NOMEM, FORMAT.
   * @param {string | undefined} url
   * @param {Uint8Array} section  TOKN, as a file has it
   * @param {number} vocab  logits of the model
   */
  static async create(url, section, vocab) {
    const { exports } = await WebAssembly.instantiate(await moduleAt(url), {});
    const machine = new Machine(exports);
    const at = machine.#take(section.length);
    machine.#bytes(at, section.length).set(section);
    const view = new DataView(section.buffer, section.byteOffset, section.length);
    // Tokens and merges: docs/FORMAT.md, TOKN.
    machine.#vocabulary = machine.#address(
      'bqg_vocabulary',
      at,
      section.length,
      view.getUint32(32, true),
      view.getUint32(36, true),
      vocab,
    );
    machine.#buffer = machine.#take(AHEAD + 4);
    return machine;
  }

  /** @param {string} name @param {...number} args @returns {number} */
  call(name, ...args) {
    return this.#exports[name](...args);
  }

  /** Why the last call failed. */
  error() {
    const heap = new Uint8Array(this.#exports.memory.buffer);
    const text = (/** @type {number} */ at) => decoder.decode(heap.subarray(at, heap.indexOf(0, at)));
    const status = text(this.call('bqg_status'));
    const detail = text(this.call('bqg_detail'));
    if (status !== 'NOMEM') return new BqError(/** @type {any} */ (status), detail);
    return new BqError('GRAMMAR', detail, {
      hint: 'make the grammar or schema simpler: less nesting, fewer alternatives that begin alike',
    });
  }

  /** A call whose 0 is a failure. @param {string} name @param {...number} args @returns {number} */
  #address(name, ...args) {
    const at = this.call(name, ...args) >>> 0;
    if (!at) throw this.error();
    return at;
  }

  /** @param {number} bytes */
  #take(bytes) {
    return this.#address('bqg_take', bytes);
  }

  /** @param {number} at @param {number} length */
  #bytes(at, length) {
    return new Uint8Array(this.#exports.memory.buffer, at, length);
  }

  /** A block of its own, one that was left if it is large enough. @param {number} bytes @returns {[number, number]} */
  #block(bytes) {
    const i = this.#free.findIndex(([, size]) => size >= bytes);
    return i < 0 ? [this.#take(bytes), bytes] : this.#free.splice(i, 1)[0];
  }

  /**
   * A matcher at the beginning; it is given back. GRAMMAR.
   * @param {string} key  of the grammar
   * @param {() => Promise<Compiled>} compile
   */
  async matcher(key, compile) {
    let matcher = this.#idle.get(key);
    this.#idle.delete(key);
    if (!matcher) {
      const { bytes: grammar, warnings } = await compile();
      const source = this.#block(grammar.length);
      this.#bytes(source[0], grammar.length).set(grammar);
      const size = this.#address('bqg_matcher_bytes', this.#vocabulary, source[0], grammar.length);
      const block = this.#block(size);
      const at = this.#address('bqg_matcher', this.#vocabulary, source[0], grammar.length, block[0], size);
      matcher = new Matcher(this, at, key, [source, block], warnings);
    }
    if (!this.call('bqg_begin', matcher.at)) throw this.error();
    return matcher;
  }

  /** @param {Matcher} matcher */
  give(matcher) {
    const known = this.#idle.get(matcher.key);
    if (known) this.#free.push(...known.blocks);
    this.#idle.delete(matcher.key);
    this.#idle.set(matcher.key, matcher);
    for (const [key, oldest] of this.#idle) {
      if (this.#idle.size <= KEPT) break;
      this.#idle.delete(key);
      this.#free.push(...oldest.blocks);
    }
  }

  /** What a call leaves in the buffer. @param {string} name @param {number} matcher @returns {Uint8Array | null} a copy; null: there is too much */
  read(name, matcher) {
    const n = this.call(name, matcher, this.#buffer, AHEAD);
    return n < 0 ? null : this.#bytes(this.#buffer, n).slice();
  }

  /** @param {Uint8Array} bytes  at most AHEAD @returns {number} where they lie until the next call */
  put(bytes) {
    this.#bytes(this.#buffer, bytes.length).set(bytes);
    return this.#buffer;
  }

  /** Bytes of a token. @param {number} id */
  token(id) {
    const at = this.call('bqg_token', this.#vocabulary, id, this.#buffer + AHEAD);
    return this.#bytes(at, this.u32(this.#buffer + AHEAD, 1)[0]).slice();
  }

  /** The longest token that bytes begin with; 0xffffffff. @param {Uint8Array} bytes */
  longest(bytes) {
    return this.call('bqg_longest', this.#vocabulary, this.put(bytes), bytes.length) >>> 0;
  }

  /** @param {number} at @param {number} length */
  u32(at, length) {
    return new Uint32Array(this.#exports.memory.buffer, at, length);
  }

  get memoryBytes() {
    return this.#exports.memory.buffer.byteLength;
  }
}

export class Matcher {
  #machine;

  /** @param {Machine} machine @param {number} at @param {string} key @param {[number, number][]} blocks @param {string[]} warnings  of its format */
  constructor(machine, at, key, blocks, warnings) {
    this.#machine = machine;
    this.at = at;
    this.key = key;
    this.blocks = blocks;
    this.warnings = warnings;
  }

  /** The text may end here. */
  get complete() {
    return Boolean(this.#machine.call('bqg_state', this.at) & 1);
  }

  /** It may go on. */
  get continues() {
    return Boolean(this.#machine.call('bqg_state', this.at) & 2);
  }

  /** Tokens that may come next, one bit each; valid until the next call. GRAMMAR. @param {number} words */
  mask(words) {
    const at = this.#machine.call('bqg_mask', this.at) >>> 0;
    if (!at) throw this.#machine.error();
    return this.#machine.u32(at, words);
  }

  /** Takes a token. @param {number} id @returns {boolean} false: it may not come next */
  accept(id) {
    return Boolean(this.#machine.call('bqg_accept', this.at, id));
  }

  mark() {
    this.#machine.call('bqg_mark', this.at);
  }

  /** Back to the mark. */
  return() {
    this.#machine.call('bqg_return', this.at);
  }

  /** Bytes that come next whatever is chosen. GRAMMAR. */
  forced() {
    const bytes = this.#machine.read('bqg_forced', this.at);
    if (!bytes) throw this.#machine.error();
    return bytes;
  }

  /** Whether a token may come that begins with the last of the forced bytes and goes on. @param {Uint8Array} tail */
  extends(tail) {
    return this.#machine.call('bqg_extends', this.at, this.#machine.put(tail), tail.length) !== 0;
  }

  /** How few bytes end the text. */
  get least() {
    return this.#machine.call('bqg_least', this.at) >>> 0;
  }

  /** Bytes that end it soonest; null: too many. */
  shortest() {
    return this.#machine.read('bqg_shortest', this.at);
  }
}
