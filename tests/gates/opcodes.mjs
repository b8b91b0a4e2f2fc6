// Reads a WebAssembly module: its sections, and every instruction of its functions. The supported
// instructions are those of WebAssembly 2.0 with relaxed SIMD and threads; any other one is an error, so
// that no instruction is missed. (Binary format: WebAssembly core specification, chapter 5.)

/** A cursor over the bytes of a module. */
class Cursor {
  /** @param {Uint8Array} bytes @param {number} at @param {number} end */
  constructor(bytes, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  byte() {
    if (this.at >= this.end) throw new Error(`the module ends early, at byte ${this.at}`);
    return this.bytes[this.at++];
  }

  /** Reads a LEB128 number. A signed one is returned as if it were unsigned. */
  leb() {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * shift;
      if (byte < 0x80) return value;
    }
  }

  /** @param {number} count */
  skip(count) {
    this.at += count;
    if (this.at > this.end) throw new Error(`the module ends early, at byte ${this.at}`);
  }

  name() {
    const length = this.leb();
    const start = this.at;
    this.skip(length);
    return new TextDecoder().decode(this.bytes.subarray(start, this.at));
  }

  /** A cursor over the next bytes, which are skipped. @param {number} length */
  part(length) {
    const start = this.at;
    this.skip(length);
    return new Cursor(this.bytes, start, this.at);
  }
}

/**
 * The sections of a module.
 * @param {Uint8Array} bytes
 * @returns {Generator<{id: number, body: Cursor}>}
 */
export function* sections(bytes) {
  const cursor = new Cursor(bytes);
  if (new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) !== 0x0061736d)
    throw new Error('expected a WebAssembly module: its first bytes are 00 61 73 6d');
  cursor.skip(8);
  while (cursor.at < cursor.end) {
    const id = cursor.byte();
    yield { id, body: cursor.part(cursor.leb()) };
  }
}

/** Skips an alignment and an offset, and the index of the memory if a bit of the alignment is set. @param {Cursor} c */
function skipMemarg(c) {
  if (c.leb() & 0x40) c.leb();
  c.leb();
}

/** @param {Cursor} c @param {number} n */
function skipIndices(c, n) {
  for (let i = 0; i < n; i++) c.leb();
}

/** Skips the immediates of a one-byte instruction. @param {Cursor} c @param {number} op */
function skipPlain(c, op) {
  if (op <= 0x01 || op === 0x05 || op === 0x0b || op === 0x0f || op === 0x1a || op === 0x1b) return; // nop, else, end, return, drop, select
  if (op >= 0x02 && op <= 0x04) return void c.leb(); // block, loop, if: type
  if (op === 0x0c || op === 0x0d || op === 0x10 || op === 0x12) return void c.leb(); // br, br_if, call, return_call
  if (op === 0x0e) return skipIndices(c, c.leb() + 1); // br_table
  if (op === 0x11 || op === 0x13) return skipIndices(c, 2); // call_indirect, return_call_indirect
  if (op === 0x1c) return c.skip(c.leb()); // select with types
  if (op >= 0x20 && op <= 0x26) return void c.leb(); // locals, globals, tables
  if (op >= 0x28 && op <= 0x3e) return skipMemarg(c); // loads and stores
  if (op === 0x3f || op === 0x40) return void c.leb(); // memory.size, memory.grow
  if (op === 0x41 || op === 0x42) return void c.leb(); // integer constants
  if (op === 0x43) return c.skip(4);
  if (op === 0x44) return c.skip(8);
  if (op >= 0x45 && op <= 0xc4) return; // arithmetic
  if (op === 0xd0 || op === 0xd2) return void c.leb(); // ref.null, ref.func
  if (op === 0xd1) return; // ref.is_null
  throw new Error(`unknown instruction 0x${op.toString(16)} before byte ${c.at}`);
}

/** Skips the immediates of an instruction with prefix 0xfc. @param {Cursor} c @param {number} op */
function skipBulk(c, op) {
  if (op <= 7) return; // saturating conversions
  const counts = [2, 1, 2, 1, 2, 1, 2, 1, 1, 1]; // memory.init ... table.fill
  if (op > 17) throw new Error(`unknown instruction 0xfc ${op} before byte ${c.at}`);
  skipIndices(c, counts[op - 8]);
}

/** Skips the immediates of an instruction with prefix 0xfd. @param {Cursor} c @param {number} op */
function skipSimd(c, op) {
  if (op <= 11 || op === 92 || op === 93) return skipMemarg(c); // loads, store
  if (op === 12 || op === 13) return c.skip(16); // const, shuffle
  if (op >= 21 && op <= 34) return c.skip(1); // extract and replace lane
  if (op >= 84 && op <= 91) {
    skipMemarg(c);
    return c.skip(1);
  } // load and store lane
  if (op > 0x113) throw new Error(`unknown instruction 0xfd 0x${op.toString(16)} before byte ${c.at}`);
}

/** Skips the immediates of an instruction with prefix 0xfe. @param {Cursor} c @param {number} op */
function skipAtomic(c, op) {
  if (op === 3) return c.skip(1); // fence
  if (op > 0x4e) throw new Error(`unknown instruction 0xfe ${op} before byte ${c.at}`);
  skipMemarg(c);
}

/**
 * The instructions of all functions, in order, by a name like "41", "fd 113" (hexadecimal).
 * @param {Uint8Array} bytes
 * @returns {Generator<string>}
 */
function* opcodes(bytes) {
  for (const { id, body } of sections(bytes)) {
    if (id !== 10) continue;
    for (let functions = body.leb(); functions > 0; functions--) {
      const code = body.part(body.leb());
      for (let groups = code.leb(); groups > 0; groups--) {
        code.leb();
        code.byte();
      }
      while (code.at < code.end) {
        const op = code.byte();
        const skip = { 0xfc: skipBulk, 0xfd: skipSimd, 0xfe: skipAtomic }[op];
        const second = skip && code.leb();
        if (skip) skip(code, /** @type {number} */ (second));
        else skipPlain(code, op);
        yield second === undefined ? op.toString(16) : `${op.toString(16)} ${second.toString(16)}`;
      }
    }
  }
}

/** Number of occurrences of each instruction, and of occurrences directly after the same instruction. @typedef {{ all: Map<string, number>, repeated: Map<string, number> }} Counts */

/** Results of modules that were read before. @type {WeakMap<Uint8Array, Counts>} */
const cache = new WeakMap();

/** @param {Uint8Array} bytes @returns {Counts} */
function count(bytes) {
  const cached = cache.get(bytes);
  if (cached) return cached;
  /** @type {Counts} */
  const counts = { all: new Map(), repeated: new Map() };
  let last = '';
  for (const name of opcodes(bytes)) {
    counts.all.set(name, (counts.all.get(name) ?? 0) + 1);
    if (name === last) counts.repeated.set(name, (counts.repeated.get(name) ?? 0) + 1);
    last = name;
  }
  cache.set(bytes, counts);
  return counts;
}

/**
 * Number of occurrences of each instruction.
 * @param {Uint8Array} bytes
 * @returns {ReadonlyMap<string, number>}
 */
export const countOpcodes = (bytes) => count(bytes).all;

/**
 * Number of occurrences of an instruction directly after the same instruction, whose result is its last operand.
 * @param {Uint8Array} bytes @param {string} name  of the instruction
 */
export const countChained = (bytes, name) => count(bytes).repeated.get(name) ?? 0;

/**
 * The relaxed SIMD instructions of a module with their counts: those from 0xfd 0x100 on, whose results may differ
 * between machines.
 * @param {Uint8Array} bytes
 * @returns {Map<string, number>}
 */
export function relaxedOpcodes(bytes) {
  return new Map(
    [...countOpcodes(bytes)].filter(([name]) => name.startsWith('fd ') && parseInt(name.slice(3), 16) >= 0x100),
  );
}
