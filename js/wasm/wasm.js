/**
 * Compiles a build of the engine and creates instances of it. An instance (class Wasm) has its own heap. Its functions
 * are called by the names and signatures in abi.js.
 *
 * Pointers are numbers in [0, 4 GiB). Views of the heap are created for each use and never stored. A trap leaves the
 * heap in an unknown state, so every later call fails.
 */
import { ABI, functions, MORE, OK, structs, WANT_DATA } from './abi.js';
import { BqError } from '../shared/errors.js';
import { fastestBuild, pickBuild } from './build-choice.js';
import { resolveBuilds } from '../shared/builds.js';
import { isNode, nodeModule } from '../shared/node.js';

/** @import { EngineOptions } from '../shared/types.js' */
/** @import { Build } from './build-choice.js' */

/** Size of a page of WebAssembly memory, in bytes. */
const PAGE_BYTES = 65536;
/** Minimum memory of an instance, for static data and the stack: LEAST_MEMORY of emscripten.mk. */
const MIN_PAGES = 16;

/** Suffixes of DataView's `get…` and `set…` methods, by the kind of a field. */
const KIND = /** @type {const} */ ({ u32: 'Uint32', f32: 'Float32', f64: 'Float64' });

const encoder = new TextEncoder();
/** `ignoreBOM` keeps U+FEFF: in the text of a model it is an ordinary character, not a byte order mark. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * A compiled build, and the reason why it was chosen.
 * @typedef {object} Compiled
 * @property {WebAssembly.Module} module
 * @property {Build} build
 * @property {string} reason
 * @property {number} heapBase  address of the heap, after static data and the stack
 * @property {boolean} shared   whether threads share its memory
 * @property {number} threads   number of threads that load plans assume
 * @property {string} [rareUrl]     address of the optional kernels; '': `wasmUrl` has none; undefined: this package's
 *   file
 * @property {string} [grammarUrl]  address of the module for grammars
 * @property {string} [convertUrl]  address of the module for converters
 */

/**
 * The optional kernels (optional-kernels.js) and the function that links them. The function is passed as a value, so
 * that pages whose models don't need optional kernels never load its module.
 * @typedef {{ module: WebAssembly.Module, link: typeof import('./link-optional-kernels.js').linkOptionalKernels }}
 *   OptionalKernels
 */

/**
 * Returns the imports of a module: its memory, a clock for traces, and a function that returns whether to stop a run
 * between two work units.
 * @param {WebAssembly.Memory} memory @param {() => any} [stop]
 */
const imports = (memory, stop = Boolean) => ({ env: { memory, now: () => performance.now(), stop } });

/** Fetches and compiles a module. @param {string} url @param {AbortSignal} [signal] */
export async function fetchModule(url, signal) {
  if (isNode && url.startsWith('file:')) {
    const { readFile } = await nodeModule('fs/promises');
    return WebAssembly.compile(await readFile(new URL(url)));
  }
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`the server responded with HTTP ${response.status}`);
  // Streaming compilation needs this content type, which some hosts don't send.
  if (response.headers.get('content-type') === 'application/wasm') return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

/** Throws NOMEM. @param {number} pages @param {boolean} shared */
function allocateMemory(pages, shared) {
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  } catch (cause) {
    throw new BqError('NOMEM', `can't allocate ${Math.ceil((pages * PAGE_BYTES) / 1e6)} MB of memory here`, {
      cause,
      details: { bytes: pages * PAGE_BYTES },
    });
  }
}

/** @typedef {Pick<EngineOptions, 'build' | 'wasmUrl' | 'signal'>} CompileOptions */

/**
 * Compiles and tests one build. `problem` is not empty if the self test failed. Throws NO_ENGINE, NOMEM.
 * @param {Build} build @param {string} url @param {boolean} shared @param {AbortSignal} [signal]
 */
async function compileBuild(build, url, shared, signal) {
  try {
    if (!url) throw new Error(`wasmUrl has no address for the build ${build}`);
    const module = await fetchModule(url, signal);
    const exports = /** @type {any} */ (
      (await WebAssembly.instantiate(module, imports(allocateMemory(MIN_PAGES, shared)))).exports
    );
    if (exports.bqw_abi() !== ABI)
      throw new Error(
        `its ABI version is ${exports.bqw_abi()}, expected ${ABI}: serve the wasm files of this bq4 version`,
      );
    const problem = exports.bqw_self_test() === 1 ? '' : `the self test of the ${build} kernels failed on this machine`;
    return { problem, module, build, heapBase: exports.__heap_base.value >>> 0, shared, threads: 1 };
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof BqError) throw cause;
    throw new BqError(
      'NO_ENGINE',
      `can't load the engine${url ? ` ${url}` : ''}: ${/** @type {Error} */ (cause).message}`,
      {
        cause,
        details: { url },
      },
    );
  }
}

/**
 * Picks, fetches, compiles and tests a build: `fastest` if a measurement found one, otherwise `relaxed` if the runtime
 * has relaxed SIMD. If the self test of the build fails, uses simd128 instead. Throws NO_SIMD, NO_ENGINE, NOMEM.
 * @param {CompileOptions} [options]
 * @param {boolean} [shared]  whether threads will share its memory
 * @param {Promise<Build | undefined>} [fastest]  the result of measureBuilds
 * @returns {Promise<Compiled>}
 */
export async function compile({ build: requested, wasmUrl, signal } = {}, shared = false, fastest) {
  const picked = pickBuild(requested);
  const builds = resolveBuilds(wasmUrl);
  const keyOf = (/** @type {Build} */ name) => (shared ? `${name}-threads` : name);
  const urlOf = (/** @type {Build} */ name) => builds[keyOf(name)];
  /** @param {Omit<Compiled, 'reason'>} compiled @param {string} reason */
  const complete = (compiled, reason) => ({
    ...compiled,
    reason,
    rareUrl: wasmUrl && (builds[`${keyOf(compiled.build)}-rare`] ?? ''),
    grammarUrl: builds.grammar,
    convertUrl: builds.convert,
  });
  const fastestName = await fastest;
  const { build, reason } =
    fastestName && fastestName !== picked.build && urlOf(fastestName)
      ? { build: fastestName, reason: `the ${fastestName} kernels are the fastest on this machine, by a measurement` }
      : picked;
  const first = await compileBuild(build, urlOf(build), shared, signal);
  if (!first.problem) return complete(first, reason);
  const fallback = urlOf('simd128');
  if (!fallback || fallback === urlOf(build)) throw new BqError('NO_ENGINE', first.problem);
  const second = await compileBuild('simd128', fallback, shared, signal);
  if (second.problem) throw new BqError('NO_ENGINE', second.problem);
  return complete(second, first.problem);
}

/**
 * Measures which build is the fastest on this machine. Returns undefined if there is only one possible build, if the
 * caller requested a build, or if the measurement failed. Never rejects.
 * @param {CompileOptions} options
 * @param {Build} [measured]  fastest build of an earlier measurement on this machine
 */
export async function measureBuilds({ build, wasmUrl, signal }, measured) {
  try {
    const url = resolveBuilds(wasmUrl).probe;
    if (!url || build || pickBuild().build !== 'relaxed') return undefined;
    if (measured) return measured;
    const { exports } = await WebAssembly.instantiate(await fetchModule(url, signal));
    return fastestBuild(/** @type {any} */ (exports).multiply);
  } catch {
    return undefined;
  }
}

/** An instance of a build. */
export class Wasm {
  #exports;
  #memory;
  /** Error that every call throws after a trap or a release; null: the instance can be used. @type {BqError | null} */
  #failure = null;
  /** Number of threads of the instance, including the caller's. */
  threads = 1;
  /** Called before the memory is released, so that the other threads leave it. */
  onRelease = () => {};
  /** Sets the number of threads that compute. */
  useThreads = (/** @type {number} */ _count) => {};
  /**
   * Chooses the number of threads for each run; null: all threads compute.
   * @type {import('./thread-choice.js').ThreadChoice | null}
   */
  choice = null;
  /** Address of the module for grammars. @type {string | undefined} */
  grammarUrl;
  /** The module of the optional kernels, if they are linked. @type {WebAssembly.Module | undefined} */
  rare;
  /** Returns whether the current run must stop. @type {(() => boolean) | undefined} */
  aborted;

  /** @param {any} exports @param {WebAssembly.Memory} memory */
  constructor(exports, memory) {
    this.#exports = exports;
    this.#memory = memory;
  }

  /** Releases the memory, even if references to this object remain. Later calls fail with CLOSED. */
  release() {
    this.onRelease();
    this.onRelease = () => {};
    this.#failure = new BqError('CLOSED', 'the model was closed');
    this.#exports = null;
    this.#memory = new WebAssembly.Memory({ initial: 0, maximum: 0 });
  }

  get alive() {
    return !this.#failure;
  }

  /**
   * Creates an instance whose heap has `bytes` bytes and can't grow. Throws NOMEM.
   * @param {Compiled} compiled @param {number} bytes @param {OptionalKernels} [kernels]  optional kernels to link
   */
  static async create({ module, heapBase, shared, grammarUrl }, bytes, kernels) {
    const pages = Math.max(MIN_PAGES, Math.ceil((heapBase + bytes) / PAGE_BYTES));
    const memory = allocateMemory(pages, shared);
    /** @type {Wasm} */
    let wasm;
    const { exports } = await WebAssembly.instantiate(
      module,
      imports(memory, () => wasm.stop()),
    );
    wasm = new Wasm(exports, memory);
    wasm.grammarUrl = grammarUrl;
    wasm.check('bqw_init', heapBase, pages * PAGE_BYTES - heapBase);
    if (kernels) await wasm.#link(kernels);
    return wasm;
  }

  /** Links optional kernels. @param {OptionalKernels} kernels */
  async #link({ module, link }) {
    const { table, at, imports: kernelImports } = link(this.#exports, this.#memory);
    table.set(at, (await WebAssembly.instantiate(module, kernelImports)).exports.bq_rare_matmul);
    this.call('bqw_add_kernels', at);
    this.rare = module;
  }

  /** Returns whether to stop a run. Called by the module between two work units. */
  stop() {
    return this.aborted?.();
  }

  get memoryBytes() {
    return this.#memory.buffer.byteLength;
  }

  get memory() {
    return this.#memory;
  }

  /**
   * Calls a function of the ABI. Results of type u32 are converted to unsigned numbers. Throws TRAP, CLOSED.
   * @param {string} name @param {...number} args @returns {number}
   */
  call(name, ...args) {
    if (this.#failure) throw this.#failure;
    try {
      const result = this.#exports[name](...args);
      return functions[name][0] === 'f' ? result : result >>> 0;
    } catch (cause) {
      this.#failure = new BqError(
        'TRAP',
        `WebAssembly trap in ${name}: ${/** @type {Error} */ (cause).message}; reload the model`,
        { cause },
      );
      throw this.#failure;
    }
  }

  /**
   * Calls a function that returns a status. Throws the error of the status.
   * @param {string} name @param {...number} args
   */
  check(name, ...args) {
    const status = this.call(name, ...args);
    if (status !== OK && status !== MORE && status !== WANT_DATA) throw this.#error(name, status);
    return status;
  }

  /**
   * Calls a function that writes a u32 to the pointer in its last argument, and returns that u32.
   * @param {string} name @param {...number} args  all arguments except the last
   */
  out(name, ...args) {
    return this.scope((take) => {
      const at = take(4);
      this.check(name, ...args, at);
      return this.u32(at, 1)[0];
    });
  }

  /**
   * Calls a function that writes a struct to the pointer in its last argument, and returns that struct.
   * @param {keyof typeof structs} struct @param {string} name @param {...number} args  all arguments except the last
   */
  outStruct(struct, name, ...args) {
    return this.scope((take) => {
      const at = take(structs[struct].size);
      if (functions[name][0] === 's') this.check(name, ...args, at);
      else this.call(name, ...args, at);
      return this.read(struct, at);
    });
  }

  /**
   * Returns the error of a failed call, with the detail that C has recorded.
   * @param {string} name @param {number} status
   */
  #error(name, status) {
    const at = this.call('bqw_error');
    const { status: recorded, offset } = this.read('bqw_error_record', at);
    const detail = recorded === status ? this.text(at + structs.bqw_error_record.at.detail) : '';
    const code = /** @type {import('../shared/types.js').ErrorCode} */ (
      this.text(this.call('bqw_status_name', status))
    );
    // The hint of ARGUMENT is for callers of the C interface. Here bq4 is that caller, and `detail` contains the
    // argument of the user.
    const hint = code === 'ARGUMENT' ? undefined : this.text(this.call('bqw_status_hint', status));
    return new BqError(code, detail || `${name} failed`, {
      offset: recorded === status && offset >= 0 ? offset : null,
      hint,
    });
  }

  /** Returns a view of bytes, valid until the next call. @param {number} at @param {number} length */
  bytes(at, length) {
    return new Uint8Array(this.#memory.buffer, at, length);
  }

  /**
   * Returns a view of u32 values, valid until the next call.
   * @param {number} at  a multiple of 4 @param {number} length  in elements
   */
  u32(at, length) {
    return new Uint32Array(this.#memory.buffer, at, length);
  }

  /**
   * Returns a view of f32 values, valid until the next call.
   * @param {number} at  a multiple of 4 @param {number} length  in elements
   */
  f32(at, length) {
    return new Float32Array(this.#memory.buffer, at, length);
  }

  /**
   * Decodes UTF-8 at a pointer: `length` bytes, or up to the terminating 0.
   * @param {number} at @param {number} [length]
   */
  text(at, length) {
    const heap = new Uint8Array(this.#memory.buffer);
    const end = length === undefined ? heap.indexOf(0, at) : at + length;
    return decoder.decode(heap.slice(at, end)); // a copy, since TextDecoder refuses shared memory
  }

  /** Reads the fields of a struct, except arrays. @param {keyof typeof structs} name @param {number} at */
  read(name, at) {
    const view = new DataView(this.#memory.buffer, at, structs[name].size);
    /** @type {Record<string, number>} */
    const out = {};
    for (const { name: field, kind, offset, count } of structs[name].fields)
      if (count === 1) out[field] = view[`get${KIND[kind]}`](offset, true);
    return out;
  }

  /**
   * Writes the fields of a struct, except arrays. Fields without a value become 0.
   * @param {keyof typeof structs} name @param {number} at @param {Record<string, number | undefined>} values
   */
  write(name, at, values) {
    const view = new DataView(this.#memory.buffer, at, structs[name].size);
    for (const { name: field, kind, offset, count } of structs[name].fields)
      if (count === 1) view[`set${KIND[kind]}`](offset, values[field] ?? 0, true);
  }

  /** Allocates a block of the heap, which the caller must free. Throws NOMEM. @param {number} bytes */
  alloc(bytes) {
    const at = bytes < 2 ** 32 ? this.call('bqw_alloc', bytes || 1) : 0;
    if (!at)
      throw new BqError('NOMEM', `the heap has no room for ${bytes} more bytes than were planned`, {
        details: { bytes },
      });
    return at;
  }

  /** @param {number} at */
  free(at) {
    if (!this.#failure) this.call('bqw_free', at);
  }

  /**
   * Runs `use` with an allocator whose blocks are freed when `use` returns or throws.
   * @template T
   * @param {(take: (bytes: number) => number) => T} use
   * @returns {T}
   */
  scope(use) {
    /** @type {number[]} */
    const blocks = [];
    try {
      return use((bytes) => {
        const at = this.alloc(bytes);
        blocks.push(at);
        return at;
      });
    } finally {
      for (const at of blocks.reverse()) this.free(at);
    }
  }

  /**
   * Copies bytes, or a string as UTF-8, to the heap.
   * @param {(bytes: number) => number} take  heap allocator @param {string | Uint8Array} data
   */
  put(take, data) {
    const bytes = typeof data === 'string' ? encoder.encode(data) : data;
    const at = take(bytes.length);
    this.bytes(at, bytes.length).set(bytes);
    return { at, length: bytes.length };
  }
}
