/**
 * Reads Python pickles without executing their code. A pickle is a program for a stack machine: GLOBAL names any
 * function of any Python module, and REDUCE calls it. Here the caller passes a table of replacements for the allowed
 * names; any other name is an error. Work and memory are bounded by the pickle's length and by MAX_WORK.
 */
import { BqError } from '../../shared/errors.js';
import { MARK, STEPS } from './pickle-opcodes.js';

/**
 * The replacement of a Python name: `call` if it is a function, `state` if BUILD may set the state of its objects,
 * `value` for other code. A function with more than a constant amount of work must call machine.spend() first.
 * @typedef {{
 *   call?: (args: any[], machine: Machine) => any, state?: (object: any, state: any) => void, value?: any
 * }} StandIn
 */

const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Limit of the work for one pickle, in opcodes. torch.save writes about 35 opcodes for each tensor, and large
 * checkpoints are split into files of about a thousand tensors. Objects cost more than one opcode, so that the limit
 * also bounds memory.
 */
const MAX_WORK = 4_000_000;
/** Cost of a dict or a bytes object in opcodes: an object takes about 150 bytes of memory. */
const OBJECT_WORK = 16;
/** Limit of a string in bytes. */
const MAX_STRING = 1 << 20;
/** Limits of walk(): nesting of dicts, number of entries, characters of all names. */
const MAX_DEPTH = 64;
const MAX_ENTRIES = 200_000;
const MAX_NAME_CHARACTERS = 16 << 20;
/** Limit of an integer in bytes. */
const MAX_INTEGER = 32;

/** A GLOBAL on the stack. */
class Name {
  /** @param {string} name @param {StandIn} standIn */
  constructor(name, standIn) {
    this.name = name;
    this.standIn = standIn;
  }
}

/** The state of the stack machine for one pickle. */
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

  /** @param {string} problem */
  damaged(problem) {
    return new BqError('FORMAT', `${this.file}: the pickle is damaged: ${problem}`, {
      offset: this.at,
      hint: 'save the checkpoint again, preferably as safetensors',
    });
  }

  /** @param {string} feature */
  refused(feature) {
    return new BqError(
      'UNSUPPORTED',
      `${this.file}: the pickle uses ${feature}, which is not on the list of safe names`,
      {
        offset: this.at,
        hint: 'nothing was executed; do not trust this file. Expected a checkpoint of tensors alone (torch.save(model.state_dict(), path)) or safetensors',
      },
    );
  }

  /** Adds to the work done so far. Throws FORMAT beyond MAX_WORK. @param {number} work  in opcodes */
  spend(work) {
    if ((this.work += work) > MAX_WORK) throw this.damaged(`reading it takes more than ${MAX_WORK} steps`);
  }

  /** Returns an empty dict. @returns {Map<any, any>} */
  dict() {
    this.spend(OBJECT_WORK);
    return new Map();
  }

  /** Reads a bytes object. @param {number} n */
  bytesOf(n) {
    this.spend(OBJECT_WORK);
    return this.take(n);
  }

  /** @param {number} n @returns {Uint8Array} */
  take(n) {
    if (!(n >= 0 && n <= this.bytes.length - this.at))
      throw this.damaged(`it declares ${n} bytes but only ${this.bytes.length - this.at} remain`);
    return this.bytes.subarray(this.at, (this.at += n));
  }

  /** Reads an unsigned little-endian integer of n bytes. @param {1 | 2 | 4 | 8} n */
  size(n) {
    const bytes = this.take(n);
    return bytes.reduceRight((sum, byte) => sum * 256 + byte, 0);
  }

  line() {
    const end = this.bytes.indexOf(10, this.at);
    if (end < 0) throw this.damaged('a line is not terminated');
    const text = this.take(end - this.at);
    this.at++;
    return this.text(text);
  }

  /** @param {number} n */
  latin1(n) {
    if (n > MAX_STRING) throw this.damaged(`a string has ${n} bytes; the limit is ${MAX_STRING}`);
    let text = '';
    for (const byte of this.take(n)) text += String.fromCharCode(byte);
    return text;
  }

  /** @param {Uint8Array} bytes */
  text(bytes) {
    if (bytes.length > MAX_STRING) throw this.damaged(`a string has ${bytes.length} bytes; the limit is ${MAX_STRING}`);
    try {
      return decoder.decode(bytes);
    } catch {
      throw this.damaged('a string is not valid UTF-8');
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

  /** Pops the items above the last mark, and the mark. @returns {any[]} */
  marked() {
    const mark = this.stack.lastIndexOf(MARK);
    if (mark < 0) throw this.damaged('a mark is missing');
    const items = this.stack.splice(mark + 1);
    this.stack.pop();
    return items;
  }

  /** @param {number} index */
  put(index) {
    this.memo.set(index, this.top());
  }

  /** @param {number} index */
  get(index) {
    if (!this.memo.has(index)) throw this.damaged(`memo ${index} is used before it is set`);
    this.stack.push(this.memo.get(index));
  }

  /** Reads a signed little-endian integer of n bytes: a number if it is exact, otherwise a bigint. @param {number} n */
  integer(n) {
    if (n > MAX_INTEGER) throw this.damaged(`an integer has ${n} bytes; the limit is ${MAX_INTEGER}`);
    let value = 0n;
    for (const byte of this.take(n).toReversed()) value = (value << 8n) | BigInt(byte);
    value = n ? BigInt.asIntN(8 * n, value) : 0n;
    return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
  }

  /**
   * Pushes the replacement of a Python name. Throws UNSUPPORTED if it has none.
   * @param {unknown} module @param {unknown} name
   */
  global(module, name) {
    if (typeof module !== 'string' || typeof name !== 'string') throw this.damaged('a global name is not a string');
    const fullName = `${module}.${name}`;
    const standIn = Object.hasOwn(this.names, fullName) ? this.names[fullName] : null;
    if (!standIn) throw this.refused(fullName.slice(0, 200));
    this.stack.push(new Name(fullName, standIn));
  }

  /** Calls the replacement of a function and pushes its result. @param {any} callee @param {any} args */
  call(callee, args) {
    if (!(callee instanceof Name) || !Array.isArray(args))
      throw this.damaged('it calls a value that is not a function');
    if (!callee.standIn.call) throw this.refused(`a call of ${callee.name}`);
    this.stack.push(callee.standIn.call(args, this));
  }

  /** @param {any} map @param {any[]} pairs */
  setItems(map, pairs) {
    if (!(map instanceof Map)) throw this.damaged('it sets items of a value that is not a dict');
    if (pairs.length % 2) throw this.damaged('a dict has a key without a value');
    for (let i = 0; i < pairs.length; i += 2) map.set(pairs[i], pairs[i + 1]);
  }

  /** @param {any} list @param {any[]} items */
  append(list, items) {
    if (!Array.isArray(list) || Object.isFrozen(list)) throw this.damaged('it appends to a value that is not a list');
    for (const item of items) list.push(item);
  }

  /** Pops the state of an object and sets it. Throws UNSUPPORTED for an object without a replacement. */
  build() {
    const state = this.pop();
    const object = this.top();
    const standIn = object?.standIn ?? null;
    if (object instanceof Map) return; // attributes of an OrderedDict, such as _metadata, are ignored
    if (!standIn?.state) throw this.refused(`the state of ${object instanceof Name ? object.name : 'an object'}`);
    standIn.state(object, state);
  }

  /** Executes opcodes until STOP; returns the value on top of the stack. @returns {any} */
  run() {
    for (;;) {
      this.spend(1);
      const op = this.take(1)[0];
      if (op === 0x2e) return this.pop(); // STOP
      const step = STEPS[op];
      if (!step) throw this.refused(`opcode 0x${op.toString(16).padStart(2, '0')}`);
      step(this);
    }
  }
}

/**
 * @typedef {object} Options
 * @property {string} file  name of the file, for errors
 * @property {Record<string, StandIn>} names  replacements of the allowed names, by "module.name"
 * @property {(id: any) => any} persistent  resolves a reference to an object outside of the pickle
 */

/**
 * Reads one pickle; returns its value and the offset of its end. Dicts become Maps, tuples frozen arrays. Throws
 * FORMAT; UNSUPPORTED for a name that is not in the table.
 * @param {Uint8Array} bytes @param {number} at @param {Options} options
 * @returns {{ value: any, end: number }}
 */
export function unpickle(bytes, at, options) {
  const machine = new Machine(bytes, at, options);
  const value = machine.run();
  return { value, end: machine.at };
}

/**
 * Visits the values in nested dicts; a value's name is its keys joined by dots. Lists are not entered. A dict may be in
 * several other dicts: the limits count each visit. Throws FORMAT.
 * @param {any} value @param {(name: string, value: any) => void} visit
 */
export function walk(value, visit) {
  let [entries, characters] = [0, 0];
  const enter = (/** @type {any} */ inner, /** @type {string} */ name, /** @type {number} */ depth) => {
    characters += name.length;
    if (depth > MAX_DEPTH || ++entries > MAX_ENTRIES || characters > MAX_NAME_CHARACTERS)
      throw new BqError(
        'FORMAT',
        `the dicts of the pickle have more than ${MAX_ENTRIES} entries, ${MAX_NAME_CHARACTERS} characters of names or ${MAX_DEPTH} levels`,
        { hint: 'save the checkpoint again, preferably as safetensors' },
      );
    if (!(inner instanceof Map)) return void visit(name, inner);
    for (const [key, next] of inner) if (typeof key === 'string') enter(next, name ? `${name}.${key}` : key, depth + 1);
  };
  enter(value, '', 0);
}
