/**
 * One instance of the wasm module: exactly one heap, called through the table in border.js.
 *
 * Pointers are numbers in [0, 4 GiB) and stay inside this folder's engine modules. Views of the heap are
 * made per use, never kept. A trap leaves the heap in an unknown state: every later call then fails.
 */
import { ABI, functions, MORE, OK, structs, WANT_DATA } from './abi.js';
import { BqError } from '../shared/errors.js';
import { fastestBuild, pickBuild } from './build-choice.js';
import { resolveBuilds } from '../shared/builds.js';
import { isNode, nodeModule } from '../shared/node.js';

/** @import { EngineOptions } from '../shared/types.js' */
/** @import { Build } from './build-choice.js' */

const PAGE = 65536;
/** LEAST_MEMORY of emscripten.mk: static data and the stack. */
const LEAST_PAGES = 16;

/** Methods of DataView, after `get` and `set`. */
const KIND = /** @type {const} */ ({ u32: 'Uint32', f32: 'Float32', f64: 'Float64' });

const encoder = new TextEncoder();
/** U+FEFF may be part of what a model writes: it is no mark to drop. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * A compiled build and why it was chosen.
 * @typedef {object} Compiled
 * @property {WebAssembly.Module} module
 * @property {Build} build
 * @property {string} reason
 * @property {number} heapBase  first byte of the heap that static data and stack leave free
 * @property {boolean} shared   its memory is shared between threads
 * @property {number} threads   that plans count with
 * @property {string} [rareUrl]     where the kernels of rare types lie; '': that is not known; missing: beside these modules
 * @property {string} [grammarUrl]  where the module for grammars lies
 * @property {string} [convertUrl]  where that of converters lies
 */

/**
 * Kernels of rare types, and how an instance takes them in: what no page without them loads.
 * @typedef {{ module: WebAssembly.Module, roomFor: typeof import('./link-optional-kernels.js').roomForRare }} Rare
 */

/** What a module imports: its memory, a clock for traces, and what ends a run between two slices. @param {WebAssembly.Memory} memory @param {() => any} [stop] */
const imports = (memory, stop = Boolean) => ({ env: { memory, now: () => performance.now(), stop } });

/** @param {string} url @param {AbortSignal} [signal] */
export async function fetchModule(url, signal) {
  if (isNode && url.startsWith('file:')) {
    const { readFile } = await nodeModule('fs/promises');
    return WebAssembly.compile(await readFile(new URL(url)));
  }
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  // Compiling while it streams in needs this type, which some hosts don't send.
  if (response.headers.get('content-type') === 'application/wasm') return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

/** NOMEM. @param {number} pages @param {boolean} shared */
function memoryOf(pages, shared) {
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  } catch (cause) {
    throw new BqError('NOMEM', `${Math.ceil((pages * PAGE) / 1e6)} MB of memory can't be had here`, {
      cause,
      details: { bytes: pages * PAGE },
    });
  }
}

/** @typedef {Pick<EngineOptions, 'build' | 'wasmUrl' | 'signal'>} CompileOptions */

/** NO_ENGINE. @param {Build} build @param {string} url @param {boolean} shared @param {AbortSignal} [signal] */
async function compileBuild(build, url, shared, signal) {
  try {
    if (!url) throw new Error('wasmUrl does not say where it lies');
    const module = await fetchModule(url, signal);
    const exports = /** @type {any} */ (
      (await WebAssembly.instantiate(module, imports(memoryOf(LEAST_PAGES, shared)))).exports
    );
    if (exports.bqw_abi() !== ABI) throw new Error(`it speaks version ${exports.bqw_abi()} of the border, not ${ABI}`);
    const problem = exports.bqw_self_test() === 1 ? '' : `the self test of the ${build} kernels failed on this machine`;
    return { problem, module, build, heapBase: exports.__heap_base.value >>> 0, shared, threads: 1 };
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof BqError) throw cause;
    throw new BqError('NO_ENGINE', `the engine ${url} can't be used: ${/** @type {Error} */ (cause).message}`, {
      cause,
    });
  }
}

/**
 * Picks, fetches, compiles and tests a build: the relaxed one where the machine has it, unless another one is `faster`, or
 * it computes something else than it should and there is the one for all machines. NO_SIMD, NO_ENGINE, NOMEM.
 * @param {CompileOptions} [options]
 * @param {boolean} [shared]  the one for threads
 * @param {Promise<Build | undefined>} [faster]  of fasterBuild
 * @returns {Promise<Compiled>}
 */
export async function compile({ build: asked, wasmUrl, signal } = {}, shared = false, faster) {
  const able = pickBuild(asked);
  const builds = resolveBuilds(wasmUrl);
  const keyOf = (/** @type {Build} */ name) => (shared ? `${name}-threads` : name);
  const urlOf = (/** @type {Build} */ name) => builds[keyOf(name)];
  /** @param {Omit<Compiled, 'reason'>} compiled @param {string} reason */
  const described = (compiled, reason) => ({
    ...compiled,
    reason,
    rareUrl: wasmUrl && (builds[`${keyOf(compiled.build)}-rare`] ?? ''),
    grammarUrl: builds.grammar,
    convertUrl: builds.convert,
  });
  const other = await faster;
  const { build, reason } =
    other && urlOf(other)
      ? { build: other, reason: `the ${other} kernels are the fastest on this machine, by a measurement` }
      : able;
  const first = await compileBuild(build, urlOf(build), shared, signal);
  if (!first.problem) return described(first, reason);
  const last = urlOf('simd128');
  if (!last || last === urlOf(build)) throw new BqError('NO_ENGINE', first.problem);
  const second = await compileBuild('simd128', last, shared, signal);
  if (second.problem) throw new BqError('NO_ENGINE', second.problem);
  return described(second, first.problem);
}

/**
 * The build that is to be preferred to the relaxed one on this machine; none where there is none, where one was asked for,
 * or where nobody can tell. Never rejects.
 * @param {CompileOptions} options
 */
export async function fasterBuild({ build, wasmUrl, signal }) {
  try {
    const url = resolveBuilds(wasmUrl).probe;
    if (!url || build || pickBuild().build !== 'relaxed') return undefined;
    const { exports } = await WebAssembly.instantiate(await fetchModule(url, signal));
    const fastest = fastestBuild(/** @type {any} */ (exports).multiply);
    return fastest === 'relaxed' ? undefined : fastest;
  } catch {
    return undefined;
  }
}

export class Wasm {
  #exports;
  #memory;
  /** Why every call fails: a trap, or it was released. @type {BqError | null} */
  #dead = null;
  /** Threads that compute in it, and what lets the others go before the memory does. */
  threads = 1;
  onRelease = () => {};
  /** Computes with so many of them, until it is told otherwise. */
  useThreads = (/** @type {number} */ _count) => {};
  /** What finds out how many are the fastest; null: they are all used. @type {import('./thread-choice.js').Choice | null} */
  choice = null;
  /** Where the module for grammars lies. @type {string | undefined} */
  grammarUrl;
  /** The kernels of rare types, where it has them. @type {WebAssembly.Module | undefined} */
  rare;
  /** Says whether the run under way is to end. @type {(() => boolean) | undefined} */
  aborted;

  /** @param {any} exports @param {WebAssembly.Memory} memory */
  constructor(exports, memory) {
    this.#exports = exports;
    this.#memory = memory;
  }

  /** Lets go of the memory, whoever still holds this object. */
  release() {
    this.onRelease();
    this.onRelease = () => {};
    this.#dead = new BqError('CLOSED', 'the model was closed');
    this.#exports = null;
    this.#memory = new WebAssembly.Memory({ initial: 0, maximum: 0 });
  }

  get alive() {
    return !this.#dead;
  }

  /**
   * An instance whose heap has room for `bytes` and can't grow. NOMEM.
   * @param {Compiled} compiled @param {number} bytes @param {Rare} [rare]  kernels of rare types to be added
   */
  static async create({ module, heapBase, shared, grammarUrl }, bytes, rare) {
    const pages = Math.max(LEAST_PAGES, Math.ceil((heapBase + bytes) / PAGE));
    const memory = memoryOf(pages, shared);
    /** @type {Wasm} */
    let wasm;
    const { exports } = await WebAssembly.instantiate(
      module,
      imports(memory, () => wasm.stop()),
    );
    wasm = new Wasm(exports, memory);
    wasm.grammarUrl = grammarUrl;
    wasm.check('bqw_init', heapBase, pages * PAGE - heapBase);
    if (rare) await wasm.#add(rare);
    return wasm;
  }

  /** @param {Rare} rare */
  async #add({ module, roomFor }) {
    const { table, at, imports: room } = roomFor(this.#exports, this.#memory);
    table.set(at, (await WebAssembly.instantiate(module, room)).exports.bq_rare_matmul);
    this.call('bqw_add_kernels', at);
    this.rare = module;
  }

  /** Asked between two slices of a run. */
  stop() {
    return this.aborted?.();
  }

  get memoryBytes() {
    return this.#memory.buffer.byteLength;
  }

  get memory() {
    return this.#memory;
  }

  /** Calls a function of the border; u32 results come unsigned. @param {string} name @param {...number} args @returns {number} */
  call(name, ...args) {
    if (this.#dead) throw this.#dead;
    try {
      const result = this.#exports[name](...args);
      return functions[name][0] === 'f' ? result : result >>> 0;
    } catch (cause) {
      this.#dead = new BqError('TRAP', `the engine broke down in ${name}: ${/** @type {Error} */ (cause).message}`, {
        cause,
      });
      throw this.#dead;
    }
  }

  /** Calls a function that returns a status; failures are thrown. @param {string} name @param {...number} args */
  check(name, ...args) {
    const status = this.call(name, ...args);
    if (status !== OK && status !== MORE && status !== WANT_DATA) throw this.#error(name, status);
    return status;
  }

  /** `check` with a pointer to a u32 as last argument: returns that u32. @param {string} name @param {...number} args */
  out(name, ...args) {
    return this.scope((take) => {
      const at = take(4);
      this.check(name, ...args, at);
      return this.u32(at, 1)[0];
    });
  }

  /** Likewise for a struct. @param {keyof typeof structs} struct @param {string} name @param {...number} args */
  outStruct(struct, name, ...args) {
    return this.scope((take) => {
      const at = take(structs[struct].size);
      if (functions[name][0] === 's') this.check(name, ...args, at);
      else this.call(name, ...args, at);
      return this.read(struct, at);
    });
  }

  /** @param {string} name @param {number} status */
  #error(name, status) {
    const at = this.call('bqw_error');
    const { status: recorded, offset } = this.read('bqw_error_record', at);
    const detail = recorded === status ? this.text(at + structs.bqw_error_record.fields[3].offset) : '';
    const code = /** @type {import('../shared/types.js').ErrorCode} */ (
      this.text(this.call('bqw_status_name', status))
    );
    // C's caller is this package; whoever reads this has chosen the argument.
    const hint = code === 'ARGUMENT' ? undefined : this.text(this.call('bqw_status_hint', status));
    return new BqError(code, detail || `${name} failed`, {
      offset: recorded === status && offset >= 0 ? offset : null,
      hint,
    });
  }

  /** A view, valid until the next call. @param {number} at @param {number} length */
  bytes(at, length) {
    return new Uint8Array(this.#memory.buffer, at, length);
  }

  /** @param {number} at  a multiple of 4 @param {number} length  in elements */
  u32(at, length) {
    return new Uint32Array(this.#memory.buffer, at, length);
  }

  /** @param {number} at  a multiple of 4 @param {number} length  in elements */
  f32(at, length) {
    return new Float32Array(this.#memory.buffer, at, length);
  }

  /** UTF-8 at a pointer: `length` bytes, or up to the terminator. @param {number} at @param {number} [length] */
  text(at, length) {
    const heap = new Uint8Array(this.#memory.buffer);
    const end = length === undefined ? heap.indexOf(0, at) : at + length;
    return decoder.decode(heap.slice(at, end)); // a copy: decoders refuse shared memory
  }

  /** A struct without its arrays. @param {keyof typeof structs} name @param {number} at */
  read(name, at) {
    const view = new DataView(this.#memory.buffer, at, structs[name].size);
    /** @type {Record<string, number>} */
    const out = {};
    for (const { name: field, kind, offset, count } of structs[name].fields)
      if (count === 1) out[field] = view[`get${KIND[kind]}`](offset, true);
    return out;
  }

  /** Fields without a value become 0. @param {keyof typeof structs} name @param {number} at @param {Record<string, number | undefined>} values */
  write(name, at, values) {
    const view = new DataView(this.#memory.buffer, at, structs[name].size);
    for (const { name: field, kind, offset, count } of structs[name].fields)
      if (count === 1) view[`set${KIND[kind]}`](offset, values[field] ?? 0, true);
  }

  /** The caller frees it. NOMEM. @param {number} bytes */
  alloc(bytes) {
    const at = bytes < 2 ** 32 ? this.call('bqw_alloc', bytes || 1) : 0;
    if (!at)
      throw new BqError('NOMEM', `the heap has no room for ${bytes} bytes beside what was planned`, {
        details: { bytes },
      });
    return at;
  }

  /** @param {number} at */
  free(at) {
    if (!this.#dead) this.call('bqw_free', at);
  }

  /**
   * Runs `use` with an allocator whose blocks are freed when it returns or throws.
   * @template T
   * @param {(take: (bytes: number) => number) => T} use
   * @returns {T}
   */
  scope(use) {
    /** @type {number[]} */
    const taken = [];
    try {
      return use((bytes) => {
        const at = this.alloc(bytes);
        taken.push(at);
        return at;
      });
    } finally {
      for (const at of taken.reverse()) this.free(at);
    }
  }

  /** A copy of text or bytes. @param {(bytes: number) => number} take @param {string | Uint8Array} data */
  put(take, data) {
    const bytes = typeof data === 'string' ? encoder.encode(data) : data;
    const at = take(bytes.length);
    this.bytes(at, bytes.length).set(bytes);
    return { at, length: bytes.length };
  }
}
