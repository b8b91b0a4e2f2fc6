/**
 * Pickles, read without executing what they say. A pickle is a program for a stack machine; GLOBAL names any function of any
 * Python module and REDUCE calls it. Here a name is looked up in one closed table of stand-ins, the caller's; every other is
 * refused by its name, before anything is done with it. Work and memory are bounded by the pickle's length and by MAX_WORK.
 */
import { BqError } from '../../shared/errors.js';
import { MARK, STEPS } from './pickle-opcodes.js';

/**
 * What a name may stand for. A call that does more than a bounded amount of work spends it from the machine's budget first.
 * @typedef {{ call?: (args: any[], machine: Machine) => any, state?: (object: any, state: any) => void, value?: any }} StandIn
 */

const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Of one pickle, in instructions: torch.save writes some 35 for each tensor, and large checkpoints are split into files of some
 * thousand. An object costs more than its instruction, so that the same bound holds its memory.
 */
const MAX_WORK = 4_000_000;
/** Of a dict, and of bytes (a view), in instructions: both take some 150 bytes of memory. */
const OBJECT_WORK = 16;
/** Bytes of a text: a name. */
const MAX_TEXT = 1 << 20;
/** How deep dicts may hold each other, how many entries they may have together, and how many characters the names of those. */
const MAX_DEPTH = 64;
const MAX_ENTRIES = 200_000;
const MAX_NAMES = 16 << 20;
/** Bytes of a whole number: larger ones are no sizes. */
const MAX_INTEGER = 32;

/** What a GLOBAL left on the stack. */
class Name {
  /** @param {string} name @param {StandIn} standIn */
  constructor(name, standIn) {
    this.name = name;
    this.standIn = standIn;
  }
}

/** One run of the machine. */
export class Machine {
  at;
  /** @type {any[]} */
  stack = [];
  /** @type {Map<number, any>} */
  memo = new Map();
  work = 0;

  /** @param {Uint8Array} bytes @param {number} at @param {Options} options */
  constructor(bytes, at, { file, names, persistent }) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.at = at;
    this.file = file;
    this.names = names;
    this.persistent = persistent;
  }

  /** @param {string} what */
  damaged(what) {
    return new BqError('FORMAT', `${this.file}: the pickle is damaged: ${what}`, {
      offset: this.at,
      hint: 'save the checkpoint again, best as safetensors',
    });
  }

  /** @param {string} what */
  refused(what) {
    return new BqError(
      'UNSUPPORTED',
      `${this.file}: the pickle asks for ${what}, which is not on the list of harmless names`,
      {
        offset: this.at,
        hint: 'it was not executed; do not trust this file. A checkpoint of tensors only (torch.save(model.state_dict(), path)) or safetensors is read',
      },
    );
  }

  /** FORMAT beyond MAX_WORK. @param {number} work */
  spend(work) {
    if ((this.work += work) > MAX_WORK) throw this.damaged(`it takes more than ${MAX_WORK} steps to read`);
  }

  /** A dict that is empty. @returns {Map<any, any>} */
  dict() {
    this.spend(OBJECT_WORK);
    return new Map();
  }

  /** Bytes as a value. @param {number} n */
  bytesOf(n) {
    this.spend(OBJECT_WORK);
    return this.take(n);
  }

  /** @param {number} n @returns {Uint8Array} */
  take(n) {
    if (!(n >= 0 && n <= this.bytes.length - this.at))
      throw this.damaged(`${n} bytes are announced, ${this.bytes.length - this.at} are left`);
    return this.bytes.subarray(this.at, (this.at += n));
  }

  /** Unsigned, little-endian. @param {1 | 2 | 4 | 8} n */
  size(n) {
    const bytes = this.take(n);
    return bytes.reduceRight((sum, byte) => sum * 256 + byte, 0);
  }

  line() {
    const end = this.bytes.indexOf(10, this.at);
    if (end < 0) throw this.damaged('a line has no end');
    const text = this.take(end - this.at);
    this.at++;
    return this.text(text);
  }

  /** @param {number} n */
  latin1(n) {
    if (n > MAX_TEXT) throw this.damaged(`a text has ${n} bytes`);
    let text = '';
    for (const byte of this.take(n)) text += String.fromCharCode(byte);
    return text;
  }

  /** @param {Uint8Array} bytes */
  text(bytes) {
    if (bytes.length > MAX_TEXT) throw this.damaged(`a text has ${bytes.length} bytes`);
    try {
      return decoder.decode(bytes);
    } catch {
      throw this.damaged('a text is not UTF-8');
    }
  }

  pop() {
    if (!this.stack.length || this.stack.at(-1) === MARK) throw this.damaged('its stack is empty');
    return this.stack.pop();
  }

  top() {
    if (!this.stack.length || this.stack.at(-1) === MARK) throw this.damaged('its stack is empty');
    return this.stack.at(-1);
  }

  /** What lies above the last mark. @returns {any[]} */
  marked() {
    const mark = this.stack.lastIndexOf(MARK);
    if (mark < 0) throw this.damaged('a mark is missing');
    const items = this.stack.splice(mark + 1);
    this.stack.pop();
    return items;
  }

  /** FORMAT. @param {number} index  of the memo */
  checkIndex(index) {
    if (!Number.isSafeInteger(index) || index < 0) throw this.damaged('the number of a memo is not a whole number');
  }

  /** @param {number} index */
  put(index) {
    this.checkIndex(index);
    this.memo.set(index, this.top());
  }

  /** @param {number} index */
  get(index) {
    this.checkIndex(index);
    if (!this.memo.has(index)) throw this.damaged(`memo ${index} is used before it is set`);
    this.stack.push(this.memo.get(index));
  }

  /** @param {number} n  bytes */
  integer(n) {
    if (n > MAX_INTEGER) throw this.damaged(`an integer has ${n} bytes`);
    let value = 0n;
    for (const byte of this.take(n).toReversed()) value = (value << 8n) | BigInt(byte);
    value = n ? BigInt.asIntN(8 * n, value) : 0n;
    return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
  }

  /** @param {unknown} module @param {unknown} name */
  global(module, name) {
    if (typeof module !== 'string' || typeof name !== 'string') throw this.damaged('a name is not a text');
    const full = `${module}.${name}`;
    const standIn = Object.hasOwn(this.names, full) ? this.names[full] : null;
    if (!standIn) throw this.refused(full.slice(0, 200));
    this.stack.push(new Name(full, standIn));
  }

  /** Of a stand-in alone. @param {any} callee @param {any} args */
  call(callee, args) {
    if (!(callee instanceof Name) || !Array.isArray(args)) throw this.damaged('it calls what is not a function');
    if (!callee.standIn.call) throw this.refused(`a call of ${callee.name}`);
    this.stack.push(callee.standIn.call(args, this));
  }

  /** @param {any} map @param {any[]} pairs */
  setItems(map, pairs) {
    if (!(map instanceof Map)) throw this.damaged('it sets items of what is not a dict');
    if (pairs.length % 2) throw this.damaged('a dict has a key without a value');
    for (let i = 0; i < pairs.length; i += 2) map.set(pairs[i], pairs[i + 1]);
  }

  /** @param {any} list @param {any[]} items */
  append(list, items) {
    if (!Array.isArray(list) || Object.isFrozen(list)) throw this.damaged('it appends to what is not a list');
    for (const item of items) list.push(item);
  }

  build() {
    const state = this.pop();
    const object = this.top();
    const found = object?.standIn ?? null;
    if (object instanceof Map) return void (state instanceof Map || state === null || Array.isArray(state)); // attributes of an OrderedDict, as _metadata
    if (!found?.state) throw this.refused(`the state of ${object instanceof Name ? object.name : 'an object'}`);
    found.state(object, state);
  }

  /** @returns {any} */
  run() {
    for (;;) {
      this.spend(1);
      const op = this.take(1)[0];
      if (op === 0x2e) return this.pop(); // STOP
      const step = STEPS[op];
      if (!step) throw this.refused(`instruction 0x${op.toString(16).padStart(2, '0')}`);
      step(this);
    }
  }
}

/**
 * @typedef {object} Options
 * @property {string} file  for messages
 * @property {Record<string, StandIn>} names  by "module.name"
 * @property {(id: any) => any} persistent  what a reference to something outside of the pickle stands for
 */

/**
 * The value of one pickle, and where it ends. Dicts are Maps, tuples frozen arrays. FORMAT, UNSUPPORTED: a name that is not on the list.
 * @param {Uint8Array} bytes @param {number} at @param {Options} options
 * @returns {{ value: any, end: number }}
 */
export function unpickle(bytes, at, options) {
  const machine = new Machine(bytes, at, options);
  const value = machine.run();
  return { value, end: machine.at };
}

/**
 * Names in nested dicts, joined by dots; lists are not entered. One dict may lie in several others, so the bound counts what is
 * visited. FORMAT.
 * @param {any} value @param {(name: string, value: any) => void} found
 */
export function walk(value, found) {
  let [entries, characters] = [0, 0];
  const enter = (/** @type {any} */ inner, /** @type {string} */ name, /** @type {number} */ depth) => {
    characters += name.length;
    if (depth > MAX_DEPTH || ++entries > MAX_ENTRIES || characters > MAX_NAMES)
      throw new BqError(
        'FORMAT',
        `the dicts of the pickle have more than ${MAX_ENTRIES} entries, ${MAX_NAMES} characters of names or ${MAX_DEPTH} levels`,
        { hint: 'save the checkpoint again, best as safetensors' },
      );
    if (!(inner instanceof Map)) return void found(name, inner);
    for (const [key, next] of inner) if (typeof key === 'string') enter(next, name ? `${name}.${key}` : key, depth + 1);
  };
  enter(value, '', 0);
}
