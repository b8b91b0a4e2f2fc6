/** Types of the engine: its options and information, its methods, and the engine that tabs share. */

/** @import { Cache, EngineStore, SourceLike, StoreOptions } from './storage.js' */
/** @import { LoadOptions, Plan } from './load.js' */
/** @import { Model } from './model.js' */
/** @import { ChatFormat } from './chat.js' */

/**
 * Code of a BqError. js/shared/error-codes.js and docs/reference/errors.md describe each code.
 * @typedef {keyof typeof import('../error-codes.js').ERRORS} ErrorCode
 */

/** @typedef {import('../error-codes.js').ErrorGroup} ErrorGroup */

/** @typedef {import('../../wasm/build-choice.js').Build} Build */

/**
 * Addresses of the WebAssembly modules, by build. A build without an address is not used. Without the builds for
 * threads the engine has one thread. Without the `rare` modules, models that need optional kernels are refused. Without
 * `probe` no build is measured, and `relaxed16` is never chosen. `grammar` is needed for `responseFormat`, `convert`
 * for folders in Hugging Face's layout.
 * @typedef {{ relaxed: string | URL, simd128: string | URL } & Partial<Record<'relaxed16' | 'probe' | 'grammar'
 *   | 'convert' | 'relaxed-threads' | 'relaxed16-threads' | 'simd128-threads' | 'relaxed-rare' | 'relaxed16-rare'
 *   | 'simd128-rare' | 'relaxed-threads-rare' | 'relaxed16-threads-rare' | 'simd128-threads-rare',
 *   string | URL>>} WasmUrls
 */

/**
 * @typedef {object} EngineOptions
 * @property {Build} [build]  build to use, without measuring. Default: the fastest one
 * @property {string | URL | WasmUrls} [wasmUrl]  addresses of the WebAssembly modules, the address of their folder
 *   (ending in `/`), or the address of the only build. Default: the modules of the package
 * @property {'auto' | number} [threads]  number of threads, if memory can be shared. Default 'auto': the number that
 *   measurements find to be the fastest while the engine computes
 * @property {string | URL} [threadUrl]  your own script for the other threads; it must import bq4/files/thread.js
 * @property {AbortSignal} [signal]  stops fetching and compiling
 * @property {'auto' | string | StoreOptions | Cache | false} [cache]  where downloaded files are kept between visits:
 *   'auto' for the best backend, the path of a folder (Node), options of a store, or an open store (only for an engine
 *   in the same thread). Default: 'auto' for an engine in a page's worker, otherwise false
 */

/**
 * @typedef {object} EngineInfo
 * @property {Build} build   build in use
 * @property {string} reason   why this build was chosen: features of the machine, a measurement or a failed self test
 * @property {boolean} worker  whether the engine runs in a worker
 * @property {number} threads  number of threads; 1 is the engine's own thread alone. Fewer may be used: see `learned`
 * @property {string} threadsReason  why there are this many threads
 * @property {ThreadTiming[]} timings  measurements at the start, or from an earlier visit if there is a cache. The
 *   first number of threads in use follows from them. Empty if nothing was measured
 * @property {{ prefill?: Learned, decode?: Learned, few?: Learned }} learned  fastest numbers of threads for the model
 *   that computed last: for prompts, for single tokens, and for batches of 2 to 8 tokens (draft tokens, sessions that
 *   share a batch). A field is missing while its number is unknown. All are missing if the option `threads` is a number
 */

/**
 * @typedef {object} Learned
 * @property {number} threads  fastest number of threads
 * @property {{ threads: number, time: number, samples: number }[]} tried  times of the same work with other numbers of
 *   threads, relative to the fastest (1)
 */

/**
 * @typedef {object} ThreadTiming
 * @property {number} threads
 * @property {number} ms  median of several times for the same work
 */

/**
 * @typedef {Closable & EngineMethods} Engine
 */

/**
 * @typedef {object} EngineMethods
 * @property {EngineInfo} info
 * @property {EngineStore | null} store  the engine's cache; null without one
 * @property {(source: SourceLike, options?: LoadOptions) => Promise<Plan>} plan  Computes the memory of a model from
 *   its header
 * @property {(source: SourceLike, options?: LoadOptions) => Promise<Model>} load  Loads a model
 * @property {EventTarget} events  target of the engine's CustomEvents, which docs/reference/events.md describes
 * @property {() => Promise<void>} pause  Pauses all computing of the engine, for all callers. Settles when nothing is
 *   computed any more
 * @property {() => Promise<void>} resume
 * @property {(pace: 'full' | 'slow') => Promise<void>} setPace  Sets the share of the machine that the engine uses.
 *   'slow': one thread, half of the time
 * @property {() => Promise<MessagePort>} openPort  Opens another port to this engine, for `connectEngine` in the
 *   worker, frame or page that receives it
 * @property {() => Promise<void>} close
 */

/** Values of the options `background` and `pressure`. @typedef {'full' | 'slow' | 'pause'} Pace */

/**
 * Models and files that this version supports.
 * @typedef {object} Supported
 * @property {string[]} architectures  names as in model configurations and GGUF files
 * @property {{ name: string, format: ChatFormat, example: string }[]} chatFormats  chat formats by the names that
 *   `createChat` accepts; `example`: a short conversation in this format, as the model reads it
 * @property {{ bq4: string[], gguf: string[] }} weightTypes  by container
 * @property {string[]} containers
 */

/**
 * Options for sharing an engine between tabs. All other options are used by the leader only.
 * @typedef {object} SharingOptions
 * @property {() => unknown} [worker]  function that creates the leader's worker
 * @property {string} [name]  tabs with the same name share an engine. Default 'bq4'
 * @property {number} [leaderTimeout]  milliseconds without an answer after which the leader counts as lost. Default
 *   10,000
 */

/** @typedef {EngineOptions & SharingOptions} SharedOptions */

/**
 * @typedef {object} SharedInfo
 * @property {boolean} shared  whether other tabs of the origin share the engine
 * @property {boolean} leads   whether this tab is the leader: the engine computes in a worker of this tab
 * @property {string} sharedReason  why the engine isn't shared
 */

/** @typedef {Omit<Engine, 'info'> & { info: EngineInfo & SharedInfo }} SharedEngine */

/** An object that `await using` closes. @typedef {{ [Symbol.asyncDispose]: () => Promise<void> }} Closable */

export {};
