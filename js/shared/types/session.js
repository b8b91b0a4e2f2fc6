/** Types of a session: options and methods, and the trace of the time of each stage. */

/** @import { Closable } from './engine.js' */
/** @import { LoadOptions } from './load.js' */
/** @import { Adapter } from './model.js' */
/** @import { ChooseOptions, Chosen, GenerateOptions, Generation, PrefillProgress } from './generation.js' */

/**
 * @typedef {Pick<LoadOptions, 'contextTokens' | 'kv' | 'activations' | 'prefillWindow' | 'prefillBatch' | 'forks' | 'forkTokens' | 'draftTokens' | 'kvWindow' | 'kvSinks' | 'kvEvict' | 'quality'> & { adapter?: Adapter | null }} SessionOptions
 */

/**
 * @typedef {object} AppendOptions
 * @property {boolean} [parseSpecial]  as in `tokenize`
 * @property {AbortSignal} [signal]
 * @property {(progress: PrefillProgress) => void} [onProgress]
 */

/**
 * @typedef {object} SessionStats
 * @property {number} tokens   tokens in the sequence
 * @property {number} context  largest number of tokens
 * @property {number} workUnits   work units computed since the session was created; each is one layer for one batch
 * @property {number} draftedTokens   draft tokens computed since the session was created
 * @property {number} acceptedTokens  draft tokens that were accepted
 */

/**
 * @typedef {object} TraceOptions
 * @property {boolean} [on]       true: starts a trace with all counters at zero; false: stops it. Default: unchanged
 * @property {boolean} [byLayer]  whether each stage has a row per layer
 */

/**
 * @typedef {'host' | 'embed' | 'norm' | 'qkv' | 'kv' | 'attend' | 'o' | 'mlpIn' | 'activate' | 'down' | 'head' | 'sample'} Stage
 */

/**
 * Totals of a stage of the forward pass since the trace was started.
 * @typedef {object} StageTrace
 * @property {Stage} stage  "host" (time between two calls of the engine while it generates), "embed", "norm" (and
 *   quantization of activations), "qkv", "kv" (rotation and storing), "attend", "o", "mlpIn", "activate", "down",
 *   "head", "sample"
 * @property {number} [layer]  with `byLayer`, for stages of a layer
 * @property {number} ms  time on the main compute thread, including waits for other threads, without the cost of
 *   reading the clock
 * @property {number} calls
 * @property {number} weightBytes  bytes of weights read, once per batch
 * @property {number} kvBytes      bytes of the KV cache, read by "attend", written by "kv"
 * @property {number} macs         multiplications with weights and with the KV cache
 * @property {number} GBps         both kinds of bytes divided by the time, in 10^9 bytes per second
 */

/**
 * @typedef {Closable & SessionMethods} Session
 */

/**
 * @typedef {object} SessionMethods
 * @property {(prompt: string | ArrayLike<number>, options?: GenerateOptions) => Generation} generate  Continues a text
 *   (with BOS as added by the tokenizer) or tokens, which become the session's token sequence. Tokens that the sequence
 *   already begins with are not computed again
 * @property {(options?: GenerateOptions) => Generation} continue  Continues the session's token sequence
 * @property {(prompt: string | ArrayLike<number>, options: string[], more?: Pick<ChooseOptions, 'signal' | 'onProgress'>) => Promise<Chosen>} choose
 *   Returns the probability of each text after a prompt, which becomes the token sequence. With the prompt [] they
 *   follow the current sequence
 * @property {(more: string | ArrayLike<number>, options?: AppendOptions) => Promise<SessionStats>} append  Computes a
 *   text or tokens and appends them to the token sequence
 * @property {(tokens: number) => Promise<SessionStats>} truncate  Keeps the given number of first tokens of the
 *   sequence
 * @property {() => Promise<Session>} fork  Returns a session that continues from here. Both share the KV cache computed
 *   so far
 * @property {() => Promise<Uint8Array>} save  Returns the token sequence and its KV cache as bytes
 * @property {(saved: Uint8Array) => Promise<SessionStats>} restore  Restores a session saved by the same model. Throws
 *   MISMATCH otherwise
 * @property {() => Promise<number[]>} tokens  Returns the token sequence, including generated tokens
 * @property {() => Promise<SessionStats>} stats
 * @property {(options?: TraceOptions) => Promise<StageTrace[]>} trace  Returns the time of each stage since the trace
 *   was started. It is off by default and then costs nothing
 * @property {() => Promise<void>} close
 */

export {};
