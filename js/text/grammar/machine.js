/**
 * Access to the wasm module that constrains generated text to grammars (web/grammar/grammar_api.c). An instance
 * (Machine) holds the vocabulary of a model, and a Matcher for each text that is being generated.
 */
import { BqError } from '../../shared/errors.js';
import { fetchModule } from '../../wasm/wasm.js';

/** @import { Compiled } from './index.js' */

/** Maximum number of idle matchers. Each is kept, with its cache, for the next text of its grammar. */
const MAX_IDLE = 4;
/** Size of the buffer for texts that are passed to the module and back, in bytes. */
const BUFFER_BYTES = 1024;

/** Compiled modules by URL. @type {Map<string, Promise<WebAssembly.Module>>} */
const modules = new Map();

/** Loads the module. Throws NO_ENGINE. @param {string | undefined} url */
async function moduleAt(url) {
  if (!url)
    throw new BqError('NO_ENGINE', "structured output needs the module for grammars, and wasmUrl has no 'grammar'", {
      hint: "add 'grammar' to wasmUrl: the address of bq4-grammar.wasm",
    });
  const module = modules.get(url) ?? fetchModule(url);
  modules.set(url, module);
  try {
    return await module;
  } catch (cause) {
    modules.delete(url);
    throw new BqError(
      'NO_ENGINE',
      `can't load the module for grammars ${url}: ${/** @type {Error} */ (cause).message}`,
      { cause },
    );
  }
}

const decoder = new TextDecoder();

/** Kind of a token whose text may be part of the generated text (docs/FORMAT.md, TOKN). */
const USER_DEFINED = 3;

export class Machine {
  /** @type {any} */
  #exports;
  #vocabulary = 0;
  /** Address of the buffer for texts that are passed to the module and back. */
  #buffer = 0;
  /** Idle matchers by the key of their grammar, the least recently used first. @type {Map<string, Matcher>} */
  #idle = new Map();
  /** Blocks of the heap that can be reused: address and size in bytes. @type {[number, number][]} */
  #free = [];

  /** @param {any} exports */
  constructor(exports) {
    this.#exports = exports;
  }

  /**
   * Creates an instance with the vocabulary of a model. Throws NO_ENGINE, NOMEM or FORMAT.
   * @param {string | undefined} url
   * @param {Uint8Array} section  section TOKN of the model file
   * @param {number} vocab  number of the model's logits
   * @param {number[]} [quotes]  special tokens that may be part of the generated text
   */
  static async create(url, section, vocab, quotes = []) {
    const { exports } = await WebAssembly.instantiate(await moduleAt(url), {});
    const machine = new Machine(exports);
    const at = machine.#take(section.length);
    machine.#bytes(at, section.length).set(section);
    const view = new DataView(section.buffer, section.byteOffset, section.length);
    // Fields of the section's header (docs/FORMAT.md, TOKN).
    const [tokens, merges, textBytes] = [32, 36, 40].map((offset) => view.getUint32(offset, true));
    const kinds = at + section.length - textBytes - 12 * merges - 4 * Math.ceil(tokens / 4);
    for (const id of quotes) machine.#bytes(kinds + id, 1)[0] = USER_DEFINED;
    machine.#vocabulary = machine.#address('bqg_vocabulary', at, section.length, tokens, merges, vocab);
    machine.#buffer = machine.#take(BUFFER_BYTES + 4);
    return machine;
  }

  /** Calls a function of the module. @param {string} name @param {...number} args @returns {number} */
  call(name, ...args) {
    return this.#exports[name](...args);
  }

  /** Returns the error of the last call. */
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

  /**
   * Calls a function that returns an address, or 0 if it fails. Throws its error.
   * @param {string} name @param {...number} args @returns {number}
   */
  #address(name, ...args) {
    const at = this.call(name, ...args) >>> 0;
    if (!at) throw this.error();
    return at;
  }

  /** Allocates memory that is never freed. @param {number} bytes */
  #take(bytes) {
    return this.#address('bqg_take', bytes);
  }

  /** @param {number} at @param {number} length */
  #bytes(at, length) {
    return new Uint8Array(this.#exports.memory.buffer, at, length);
  }

  /**
   * Returns a free block of the heap that is large enough, or allocates one.
   * @param {number} bytes @returns {[number, number]}
   */
  #block(bytes) {
    const i = this.#free.findIndex(([, size]) => size >= bytes);
    return i < 0 ? [this.#take(bytes), bytes] : this.#free.splice(i, 1)[0];
  }

  /**
   * Returns a matcher at the beginning of a text. The caller must return it with `give`. Throws GRAMMAR.
   * @param {string} key  identifies the grammar
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

  /** Takes back a matcher and keeps it for the next text of its grammar. @param {Matcher} matcher */
  give(matcher) {
    const other = this.#idle.get(matcher.key);
    if (other) this.#free.push(...other.blocks);
    this.#idle.delete(matcher.key);
    this.#idle.set(matcher.key, matcher);
    for (const [key, oldest] of this.#idle) {
      if (this.#idle.size <= MAX_IDLE) break;
      this.#idle.delete(key);
      this.#free.push(...oldest.blocks);
    }
  }

  /**
   * Returns a copy of the bytes that a function writes to the buffer, or null if they don't fit.
   * @param {string} name @param {number} matcher @returns {Uint8Array | null}
   */
  read(name, matcher) {
    const n = this.call(name, matcher, this.#buffer, BUFFER_BYTES);
    return n < 0 ? null : this.#bytes(this.#buffer, n).slice();
  }

  /**
   * Copies bytes to the buffer.
   * @param {Uint8Array} bytes  at most BUFFER_BYTES
   * @returns {number}  their address, valid until the next call
   */
  put(bytes) {
    this.#bytes(this.#buffer, bytes.length).set(bytes);
    return this.#buffer;
  }

  /** Returns the bytes of a token. @param {number} id */
  token(id) {
    const at = this.call('bqg_token', this.#vocabulary, id, this.#buffer + BUFFER_BYTES);
    return this.#bytes(at, this.u32(this.#buffer + BUFFER_BYTES, 1)[0]).slice();
  }

  /**
   * Returns the longest token that is a prefix of some bytes, or 0xffffffff if there is none.
   * @param {Uint8Array} bytes
   */
  longest(bytes) {
    return this.call('bqg_longest', this.#vocabulary, this.put(bytes), bytes.length) >>> 0;
  }

  /** Returns a view of 32-bit integers in memory. @param {number} at  address @param {number} length */
  u32(at, length) {
    return new Uint32Array(this.#exports.memory.buffer, at, length);
  }

  get memoryBytes() {
    return this.#exports.memory.buffer.byteLength;
  }
}

export class Matcher {
  #machine;

  /**
   * @param {Machine} machine @param {number} at @param {string} key @param {[number, number][]} blocks
   * @param {string[]} warnings  warnings about ignored parts of the format
   */
  constructor(machine, at, key, blocks, warnings) {
    this.#machine = machine;
    this.at = at;
    this.key = key;
    this.blocks = blocks;
    this.warnings = warnings;
  }

  /** Whether the text may end here. */
  get complete() {
    return Boolean(this.#machine.call('bqg_state', this.at) & 1);
  }

  /** Whether the text may continue. */
  get continues() {
    return Boolean(this.#machine.call('bqg_state', this.at) & 2);
  }

  /**
   * Returns the allowed next tokens, one bit each. The view is valid until the next call. Throws GRAMMAR.
   * @param {number} words  number of 32-bit words
   */
  mask(words) {
    const at = this.#machine.call('bqg_mask', this.at) >>> 0;
    if (!at) throw this.#machine.error();
    return this.#machine.u32(at, words);
  }

  /** Advances by a token if the grammar allows it. @param {number} id @returns {boolean}  whether it is allowed */
  accept(id) {
    return Boolean(this.#machine.call('bqg_accept', this.at, id));
  }

  /** Saves the current position in the text for `return`. */
  mark() {
    this.#machine.call('bqg_mark', this.at);
  }

  /** Returns to the saved position. */
  return() {
    this.#machine.call('bqg_return', this.at);
  }

  /** Returns the bytes with which every allowed continuation begins. Throws GRAMMAR. */
  forced() {
    const bytes = this.#machine.read('bqg_forced', this.at);
    if (!bytes) throw this.#machine.error();
    return bytes;
  }

  /** Whether an allowed token is longer than the last forced bytes and begins with them. @param {Uint8Array} tail */
  extends(tail) {
    return this.#machine.call('bqg_extends', this.at, this.#machine.put(tail), tail.length) !== 0;
  }

  /** Smallest number of bytes that complete the text. */
  get least() {
    return this.#machine.call('bqg_least', this.at) >>> 0;
  }

  /** Returns the shortest bytes that complete the text, or null if they don't fit into the buffer. */
  shortest() {
    return this.#machine.read('bqg_shortest', this.at);
  }
}
