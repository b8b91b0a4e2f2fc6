/** Types of the public interface. This module has no code. */

/** @typedef {import('../storage/sources/types.js').Source} Source */
/** @typedef {import('../storage/sources/types.js').SourceLike} SourceLike */
/** @typedef {import('../storage/sources/types.js').SourceOptions} SourceOptions */
/** @typedef {import('./generation.js').Generation} Generation */
/** @typedef {import('../api/chat/chat.js').Chat} Chat */
/** @typedef {import('../storage/cache/types.js').StoreOptions} StoreOptions */
/** @typedef {import('../wasm/build-choice.js').Build} Build */

/**
 * Code of a BqError. js/shared/error-codes.js and docs/reference/errors.md describe each code.
 * @typedef {keyof typeof import('./error-codes.js').ERRORS} ErrorCode
 */

/** @typedef {import('./error-codes.js').ErrorGroup} ErrorGroup */

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
 * @typedef {object} LoadOptions
 * @property {number} [contextTokens]   tokens per session. Default: the model's own context, at most 4,096
 * @property {number} [sessions]  number of sessions that can be open at the same time. Default 1
 * @property {'f32' | 'f16' | 'i8' | 'i4' | 'i2'} [kv]  type of the KV cache. Default i8; f16 for models whose keys have
 *   a bias (Qwen 2)
 * @property {'i8' | 'i16'} [activations]  type of the activations that quantized weights are multiplied with. Default
 *   i16 for generating models with 50 to 300 MB of weights, i8 for others
 * @property {number} [prefillWindow]    tokens that go through a layer before the next layer starts. Default 256
 * @property {number} [prefillBatch]     tokens per matrix product in prefill. Default 32
 * @property {number} [forks]     number of forks that each session can have at the same time. Default 0
 * @property {number} [adapterBytes]  bytes reserved for LoRA adapters. Default 0
 * @property {number} [kvWindow]  number of previous positions that a token attends to (up to 255 more), in layers
 *   without a window of their own. Default: all. With a window the KV cache has a fixed size, and `contextTokens` may
 *   exceed the context that the model was trained with
 * @property {number} [kvSinks]  number of first positions that stay visible in addition to the window. Default 4 with a
 *   window
 * @property {'oldest' | 'attention'} [kvEvict]  which positions are evicted from a full window: the oldest ones (the
 *   default), or those that got the least attention, 32 at a time (H2O). With 'attention' the context is at most the
 *   model's own, and `kvWindow` is a multiple of 256
 * @property {Quality} [quality]  parts of the model to skip, for more speed at the cost of quality. Default: none
 * @property {number} [forkTokens]  number of tokens that each fork can add. Default: the context
 * @property {number} [draftTokens]  largest number of draft tokens (`speculate` of `generate`). Each takes 4 bytes per
 *   token of the vocabulary in every session. Default 7
 * @property {AbortSignal} [signal]    stops the load; with `streaming` also after `load` has resolved
 * @property {(progress: Progress) => void} [onProgress]
 * @property {number} [memoryBudget]  largest number of bytes of memory for the model. To stay within it, `load` reduces
 *   the number of sessions, then the context, then the precision of the KV cache. After that it keeps only some weights
 *   in memory and reads the others from the file for every token, which needs a file handle, a Blob or Node. `gaveUp`
 *   of a plan lists these reductions. Infinity: all weights stay in memory, including tables of rows
 * @property {string} [integrity]  `sha256-…`: only the file with this hash is accepted (docs/FORMAT.md, HASH)
 * @property {boolean | SourceLike} [promptCache]  source of a prompt cache written by `bq4 prompt-state`; true: the
 *   file FILE.prompt next to the model. A prompt cache that can't be used is ignored, and `info.promptCache` has the
 *   reason. Not allowed with `streaming`
 * @property {boolean} [streaming]  whether `load` resolves as soon as the file's header is read. Sessions then wait for
 *   missing layers, and `model.loaded` settles when all layers are there
 */

/** Unit in which progress is counted. @typedef {'bytes' | 'tokens' | 'texts'} Unit */

/**
 * Progress of a load. All kinds of progress have these fields, except `retries` and `cacheProblem`.
 * @typedef {object} Progress
 * @property {'convert' | 'plan' | 'download' | 'load' | 'paused' | 'ready'} phase  `download`: from a network; `load`:
 *   from this machine; `convert`: conversion of a folder in Hugging Face's layout, the first phase, with its own
 *   `loaded` and `total`
 * @property {number} loaded  bytes of the file that have arrived
 * @property {number} total   bytes of the file
 * @property {'bytes'} unit
 * @property {number | null} bytesPerSecond  rate of the last seconds, for bytes that are not cached; null while unknown
 * @property {number | null} etaMs  milliseconds until all bytes that are not cached have arrived; null while unknown
 * @property {number} retries  number of consecutive network failures after which the download was tried again
 * @property {string} cacheProblem  why the file is not completely cached; '' if it is, or if there is no cache
 */

/**
 * @typedef {object} EmbedProgress
 * @property {'embed'} phase
 * @property {number} loaded  number of texts whose vectors are computed
 * @property {number} total
 * @property {'texts'} unit
 * @property {null | number} bytesPerSecond  always null
 * @property {number | null} etaMs  milliseconds until the last vector is computed; null while unknown
 */

/**
 * Store of files that persists between visits: the interface that the engine uses.
 * @typedef {object} Cache
 * @property {boolean} [pages]  whether any part of a complete file can be read at any time (`parts` of an entry)
 * @property {{ read: () => Promise<Uint8Array | null>, write: (bytes: Uint8Array) => Promise<void> }} [measurements]
 *   file with the engine's measurements of this machine (js/wasm/measurements.js)
 * @property {(url: string) => Promise<{ fileId: string, fileBytes: number, prefixBytes: number, prefix: Uint8Array, cachedBytes: number, complete: boolean } | null>} find
 *   Returns the cached file of an address, or null.
 * @property {(url: string, signal?: AbortSignal) => Promise<(() => Promise<void>) | null>} [turn]  Waits for the
 *   exclusive right to fetch the beginning of a file. Returns a function that releases it.
 * @property {(file: { url: string, prefix: Uint8Array, sealed: boolean, fileId: Uint8Array | string, fileBytes: number, prefixBytes: number,
 *   hashes: ArrayLike<bigint> | null }) => Promise<CacheEntry>} open  Opens the entry of a file. js/storage/cache/types.js, EntryOptions,
 *   describes the fields
 * @property {(key: string) => Promise<void>} [delete]  Deletes a cached file that turned out to be another file than
 *   the requested one.
 */

/**
 * The cache of an engine, for inspection and deletion. All methods throw STORAGE.
 * @typedef {object} EngineStore
 * @property {import('../storage/cache/types.js').BackendName} backend  kind of storage in use
 * @property {string} reason  why a better backend is not in use; '' if this is the best one
 * @property {() => Promise<import('../storage/cache/types.js').Listed[]>} list  Lists the cached files.
 * @property {() => Promise<import('../storage/cache/types.js').Usage>} usage  Returns the space in use and the
 *   available space.
 * @property {(key: string) => Promise<void>} delete  Deletes a file. Throws ARGUMENT if `list()` has no such key,
 *   IN_USE if the file is open
 * @property {(key: string, on?: boolean) => Promise<void>} pin  Pins or unpins a file. A pinned file is only removed by
 *   `delete` or `clear`. Throws ARGUMENT if no file has this key
 * @property {() => Promise<void>} clear  Deletes all files that are not in use, and the measurements. Throws IN_USE if
 *   a file was in use
 * @property {() => Promise<void>} [close]  Closes a store that was opened separately from an engine.
 */

/**
 * A file in the cache, divided into chunks (docs/FORMAT.md, HASH). Failures of the cache must not fail a load.
 * @typedef {object} CacheEntry
 * @property {(chunk: number) => boolean} has
 * @property {(chunk: number, signal?: AbortSignal, into?: Uint8Array) => Promise<Uint8Array | null>} read  Returns a
 *   chunk, or null if it is missing after all. `into` is an optional buffer of the chunk's length, which may be filled
 *   and returned
 * @property {(chunk: number, bytes: Uint8Array) => Promise<unknown>} write   Stores a verified chunk.
 * @property {(chunk: number) => Promise<void>} drop  Removes a chunk that did not verify. 0xffffffff: the prefix, after
 *   the beginning of the file has changed
 * @property {(bytes: Uint8Array) => Promise<unknown>} writePrefix
 * @property {(chunk: number, bytes: Uint8Array) => Promise<boolean>} [intact]  Checks that the bytes equal those
 *   written, for files without hashes of their own.
 * @property {(slots: Map<number, { arrivedBytes?: Uint8Array }>) => void} [keepAhead]  Stores chunks that have arrived
 *   but are not verified yet, from now on. Only chunks whose hash matches the file's are stored; the bytes are not
 *   modified
 * @property {string} [key]  key of the file, for `delete` of the cache
 * @property {number} chunks  number of chunks
 * @property {boolean} [complete]  whether all chunks and the prefix are cached
 * @property {Error | null} problem   why no more chunks are stored
 * @property {'reader' | 'writer'} [role]   'reader' if another tab fetches this file
 * @property {(chunk: number, signal?: AbortSignal) => Promise<boolean>} [waitFor]  Waits for a chunk; false if it won't
 *   arrive
 * @property {() => Promise<import('../storage/sources/types.js').FilePart[] | null>} [parts]  Returns the files that
 *   hold the chunks, or null if some chunks are missing.
 * @property {() => Promise<void>} close
 */

/**
 * Description of a model and its memory, computed from the first bytes of its file. Sizes are in bytes.
 * @typedef {object} Plan
 * @property {number} version       version of the file format; 0: another container, described by a manifest
 * @property {string} name          '' if the file has no name
 * @property {string} license       '' if the file has no license
 * @property {string} arch          model family: "llama", "bullet", … (docs/FORMAT.md, "CONF keys"), or "other"
 * @property {number} layers
 * @property {number} hidden        width of the hidden states
 * @property {number} heads         number of attention heads
 * @property {number} kvHeads
 * @property {number} headDim
 * @property {number} ffn           width of the feed-forward layers
 * @property {number} stateWidth    numbers that a recurrent layer computes from its state for each token; 0 if no layer
 *   is recurrent
 * @property {number} vocabSize
 * @property {number} tokenizerSize        number of tokens of the tokenizer; 0 if the file has none
 * @property {number} trainedContext  number of positions that the model was trained for
 * @property {boolean} tied         whether the embedding is also the LM head
 * @property {boolean} generates    false for an encoder, which has no LM head and generates no text
 * @property {{ pooling: Pooling | null, normalize: boolean, tokens: number, width: number }} embedding  how the file
 *   specifies its vectors; `width` is their length, `tokens` the largest number of tokens of a text under this plan
 * @property {number} labelCount    number of labels of the model's own classifier; 0 if it has none
 * @property {number} contextTokens       tokens per session under this plan
 * @property {number} sessions
 * @property {number} fileBytes
 * @property {number} weightBytes
 * @property {number} sessionBytes  per session, including its KV cache
 * @property {number} kvBytes       per session
 * @property {number} kvBytesPer1000  per session and 1,000 tokens
 * @property {'f32' | 'f16' | 'i8' | 'i4' | 'i2'} kv     type of the KV cache
 * @property {number} kvWindow      0 if a token attends to all previous tokens
 * @property {number} kvSinks
 * @property {'oldest' | 'attention'} kvEvict
 * @property {Quality | null} quality  value of the option `quality`
 * @property {'i8' | 'i16'} activations  type of the activations that quantized weights are multiplied with
 * @property {number} tokenWeights  number of weights that every token is multiplied with
 * @property {boolean} rareTypes    whether some weights have types whose kernels are in a module of their own
 * @property {number} heapBytes     all memory of the engine for this model: weights, sessions, stack, reserve
 * @property {'resident' | 'paged'} residency  whether all weights stay in memory, or some are read from the file while
 *   it computes
 * @property {Paging | null} paging  which weights stay in memory and how much is read, if not all weights do
 * @property {'yes' | 'no' | 'unknown'} fits  whether the model fits the budget, or else the available memory
 * @property {string} fitsReason
 * @property {number | null} contextThatFits  largest context that fits with one session; 0 if none fits
 * @property {GaveUp[]} gaveUp      reductions that a load makes, or has made, to stay within the budget, in this order
 * @property {{ bytes: number, complete: boolean }} cached  how much of the file is cached
 * @property {number | null} tokensPerSecond  an estimate from a short measurement of the kernels; null if not measured
 * @property {File} [converted]  for a folder: the .bq4 file that it was converted to. Loading this file avoids another
 *   conversion
 */

/**
 * Memory and reads of a model that is larger than its budget.
 * @typedef {object} Paging
 * @property {number} layers         number of layers that stay in memory
 * @property {boolean} head          whether the LM head stays in memory (with tied embeddings, those too)
 * @property {number} streamedBytes  bytes read from the file for every generated token; a prompt reads about as many
 *   for every `prefillWindow` tokens
 * @property {number} slotBytes      bytes of each of the two buffers in the heap
 * @property {number} besideBytes    bytes of buffers outside the heap, needed if the reading worker can't share it
 */

/**
 * One reduction to stay within the memory budget: an option, its value before and its value after.
 * @typedef {{ what: 'sessions' | 'contextTokens' | 'kv' | 'residency', from: number | string, to: number | string }} GaveUp
 */

/**
 * @typedef {object} TokenizerInfo
 * @property {'spm' | 'bpe' | 'wordlist' | 'unigram' | 'wordpiece'} kind
 * @property {number} tokens  number of tokens
 * @property {number | null} bos
 * @property {number | null} eos
 * @property {number | null} unk
 * @property {number | null} pad
 * @property {boolean} addBos  whether BOS is prepended by default
 * @property {boolean} addEos  whether EOS is appended by default
 */

/**
 * Text around the messages of a conversation: the CHAT section of docs/FORMAT.md.
 * @typedef {object} ChatFormat
 * @property {Record<string, { before: string, after: string, opens?: boolean }>} roles  text before and after a message
 *   of each role; `opens`: the user's message that follows has no `before` of its own
 * @property {string} [start]   text before a conversation without a system message: the default system message
 * @property {string} [prompt]  text before the reply. Default: `before` of the assistant
 * @property {boolean} [trim]   whether white space around the content of messages is removed
 * @property {string | string[]} [stop]
 * @property {boolean} [bos]
 * @property {[string, string]} [think]  marks before and after the reasoning of a reply
 */

/**
 * Fields of a loaded model in addition to those of its plan.
 * @typedef {object} ModelFields
 * @property {string} id  identifies the model among all models that were loaded
 * @property {boolean} authenticated  whether `integrity` was given; no token is computed from a file with another hash
 * @property {number} threads  number of threads that compute
 * @property {{ parts: number, tokens: number } | null} tensorParallel  tensor parallelism without shared memory: the
 *   number of workers that compute parts of a product, including the engine's own, and the smallest batch in tokens for
 *   which they do. Null if the engine's worker or its threads compute alone
 * @property {{ tokens: number, problem: string } | null} promptCache  result of the option `promptCache`: the number of
 *   tokens that no reply has to compute, or the reason why there are none. Null without the option
 * @property {TokenizerInfo | null} tokenizer  null if the file has none
 * @property {ChatFormat | null} chatFormat
 * @property {string} chatTemplate  Jinja template; '' if the file has none
 * @property {string} card  model card
 * @property {string[] | null} labels  labels of the model's own classifier; null if it has none
 * @property {'classifier' | 'cosine' | null} reranks  how `rerank` scores documents: by the model's own classifier, or
 *   by the cosine of vectors. Null if the model cannot rerank
 * @property {Record<string, string>} prompts  embedding prompts by name, for `embed`
 * @property {string} defaultPrompt  name of the embedding prompt that `embed` uses by default
 * @property {string[]} unused  parts of the file that are not used, such as vision
 */

/** @typedef {Plan & ModelFields} ModelInfo */

/**
 * @typedef {object} TokenizeOptions
 * @property {boolean} [addSpecial]    whether BOS and EOS are added as by the model's tokenizer. Default true
 * @property {boolean} [parseSpecial]  whether "<|user|>" in the text becomes that special token. Default false, which
 *   is safe for text written by people
 */

/**
 * @typedef {object} Quality
 * @property {number[]} [skipLayers]  indices of layers to skip, from 0
 * @property {number} [exitLayer]    index of the first layer that is skipped with all layers after it
 * @property {number} [lmHeadFraction]  share of the LM head that is computed, above 0 and below 1; tokens of the other
 *   rows are never picked
 */
/**
 * @typedef {Pick<LoadOptions, 'contextTokens' | 'kv' | 'activations' | 'prefillWindow' | 'prefillBatch' | 'forks' | 'forkTokens' | 'draftTokens' | 'kvWindow' | 'kvSinks' | 'kvEvict' | 'quality'> & { adapter?: Adapter | null }} SessionOptions
 */

/**
 * Description of a LoRA adapter.
 * @typedef {object} AdapterInfo
 * @property {string} id
 * @property {string} name  name of its file
 * @property {'peft' | 'gguf'} format
 * @property {number} bytes  bytes of `adapterBytes` that it uses
 * @property {number} changes  number of matrix products that it changes
 */

/** A LoRA adapter of a model. @typedef {Closable & { info: AdapterInfo, close: () => Promise<void> }} Adapter */

/**
 * @typedef {object} AdapterOptions
 * @property {number} [scale]  factor of the adapter's products. Default 1
 * @property {AbortSignal} [signal]
 */

/**
 * @typedef {object} GenerateOptions
 * @property {number} [maxTokens]  largest number of tokens. Default: 1,024, or the rest of the context. Infinity: until
 *   the context is full
 * @property {number} [temperature]    0: always the most probable token. Default 0.7
 * @property {number} [topK]           samples from the k most probable tokens only; 0: off. Default 40
 * @property {number} [topP]  samples from the most probable tokens whose probabilities add up to p, at least one; 1:
 *   off. Default 0.95
 * @property {number} [minP]  samples from tokens with at least p times the probability of the most probable one.
 *   Default 0, off
 * @property {number} [repeatPenalty]  above 1: recent tokens become less probable. Default 1, off
 * @property {number} [repeatLast]     number of recent tokens that are penalized; 0: none. Default 64
 * @property {number} [seed]           integer up to 2^53. Default: random; the result contains it
 * @property {string | string[]} [stop]  strings that end the generation; they are not part of its text
 * @property {number[]} [stopTokens]   tokens that end the generation, in addition to the model's own
 * @property {{ token: number, bias: number }[]} [logitBias]  numbers added to the logits of tokens; -Infinity forbids a
 *   token
 * @property {number} [presencePenalty]  subtracted from the logits of tokens that occurred in this generation. Default
 *   0
 * @property {number} [frequencyPenalty]  subtracted once for each occurrence. Default 0
 * @property {number} [logprobs]  number of most probable tokens, at most 20, that each part lists with their log
 *   probabilities, in addition to that of its own token
 * @property {number} [promptLogprobs]  the same for each token of the prompt, in the result; at most 20
 * @property {Adapter | null} [adapter]  LoRA adapter to compute with; null: none. Default: the session's adapter, if
 *   any
 * @property {'error' | 'shift' | 'summarize'} [contextPolicy]  what happens when the context is full. 'error' (the
 *   default): the generation ends, and a prompt that is too long is refused. 'shift': the oldest turns are removed.
 *   'summarize': the model summarizes the turns that are removed
 * @property {boolean} [receipt]  whether the result of a reply contains `origin`, for `receiptOfReply` of bq4/receipts
 * @property {number} [sinks]  number of first tokens that stay when a full context is shifted during a generation.
 *   Default: all tokens before the first user message; without messages 4
 * @property {number | Date} [deadline]  milliseconds from the call, or a Date, after which the generation ends; the
 *   result is the text so far
 * @property {number} [maxTokensPerSecond]  limit of the speed. Default: none
 * @property {ResponseFormat | StandardSchema} [responseFormat]  format that the text must have. Default: any text
 * @property {'auto' | boolean | { tokens?: number, model?: Model | null }} [speculate]  speculative decoding: draft
 *   tokens are computed in one batch, and the text is the same as without. 'auto' (the default): prompt lookup if
 *   measurements show that it is faster. true: prompt lookup wherever the text repeats. false: never. `tokens`: largest
 *   number of draft tokens. `model`: draft model, a smaller one with the same vocabulary; null: prompt lookup
 * @property {AbortSignal} [signal]  ends the generation with the signal's reason; computed tokens stay in the KV cache
 * @property {(progress: PrefillProgress) => void} [onProgress]  called while the prompt is computed
 */

/**
 * A schema of zod, ArkType, Valibot or another library with the Standard JSON Schema interface.
 * @typedef {{ readonly '~standard': { readonly vendor: string, readonly jsonSchema?: unknown } }} StandardSchema
 */

/**
 * Format that a text must have. The types are: any text, any JSON object, a JSON Schema (draft 7 or 2020-12), a regular
 * expression for the complete text, a GBNF grammar, or one of several texts. A JSON Schema is in `schema`, or in
 * `json_schema.schema` as in OpenAI's requests. `parts` are further schemas, each of which resolves its references
 * within itself; `{ $ref: 'part:0' }` in `schema` refers to the first one.
 * @typedef {{ type: 'text' } | { type: 'json_object', schema?: object | boolean }
 *   | { type: 'json_schema', schema: object | boolean, parts?: (object | boolean)[], name?: string, description?: string,
 *     strict?: boolean | null }
 *   | { type: 'json_schema', json_schema: { name?: string, description?: string, strict?: boolean | null,
 *     schema: object | boolean } }
 *   | { type: 'regex', pattern: string | RegExp } | { type: 'grammar', grammar: string }
 *   | { type: 'choice', choices: string[] }} ResponseFormat
 */

/**
 * How the vectors of a text's tokens become one vector: their mean, the first one or the last one.
 * @typedef {'mean' | 'cls' | 'last'} Pooling
 */

/**
 * @typedef {object} EmbedOptions
 * @property {Pooling} [pooling]    default: as specified by the file, else the mean
 * @property {boolean} [normalize]  whether vectors are scaled to length 1, so that a dot product is a cosine. Default:
 *   as specified by the file, else true
 * @property {string} [prompt]  name of the embedding prompt before each text (`info.prompts`); '': none. Default: as
 *   specified by the file
 * @property {boolean} [truncate]  whether a text that is too long is cut after its beginning, which the result reports.
 *   Default true; false: CONTEXT_FULL is thrown
 * @property {AbortSignal} [signal]
 * @property {(progress: EmbedProgress) => void} [onProgress]  progress in texts
 */

/**
 * @typedef {object} Embeddings
 * @property {Float32Array[]} vectors  one for each text, in their order
 * @property {number[]} tokens         number of tokens of each text
 * @property {number[]} truncated      indices of texts that were too long; their vectors represent the beginnings
 */

/**
 * @typedef {object} ScoreOptions
 * @property {number} [topLogprobs]  number of most probable tokens to list at each position, at most 20. Default 0
 * @property {AbortSignal} [signal]
 * @property {(progress: PrefillProgress) => void} [onProgress]
 */

/**
 * Probability of a text.
 * @typedef {object} Score
 * @property {(Logprob & { top: Logprob[] })[]} tokens  all tokens except the first one, which has no tokens before it
 * @property {number} logprob     sum of the natural logarithms of the tokens' probabilities
 * @property {number} perplexity  perplexity of the text
 */

/**
 * @typedef {{ object: 'list', model: string, usage: { prompt_tokens: number, total_tokens: number },
 *   results: { index: number, relevance_score: number, document?: { text: string } }[] }} RerankAnswer
 */

/**
 * `topN`: largest number of documents to return.
 * @typedef {Pick<EmbedOptions, 'truncate' | 'signal' | 'onProgress'> & { topN?: number }} RerankOptions
 */

/**
 * @typedef {object} Ranked
 * @property {number} index   index in the given list
 * @property {number} score  from a classifier: probability that the document fits, 0 to 1; from vectors: their cosine,
 *   -1 to 1
 * @property {string} document
 * @property {'classifier' | 'cosine'} method
 * @property {number} tokens  number of tokens read: of the pair for a classifier, of the document alone for vectors
 * @property {number} [logit]  logit of the classifier's label
 */

/**
 * A classifier over a model's vectors.
 * @typedef {object} Head
 * @property {string} name
 * @property {string[]} labels
 * @property {number} width       length of a vector
 * @property {Pooling} pooling
 * @property {boolean} normalize
 * @property {Float32Array} weights  labels x width
 * @property {Float32Array} bias     one for each label
 */

/**
 * A classifier as JSON, written by `bq4 train-head`; js/api/classifiers/classifier.js describes the fields.
 * @typedef {{ format: 'bq4-head', version: 1, name: string, labels: string[], width: number, pooling: Pooling, normalize: boolean,
 *   type: 'bq4' | 'f32', weights: string, bias: number[], facts: Record<string, unknown> }} ClassifierFile
 */

/**
 * @typedef {object} ClassifyOptions
 * @property {ClassifierFile} [classifier]  default: the model's own (`info.labels`). SHAPE is thrown for a classifier
 *   of a model with other vectors
 * @property {boolean} [truncate]  as in `embed`
 * @property {AbortSignal} [signal]
 * @property {(progress: EmbedProgress) => void} [onProgress]  progress in texts
 */

/**
 * Label of a text, with the scores of all labels.
 * @typedef {object} Classified
 * @property {string} label
 * @property {number} index   index of the label
 * @property {number} score   probability of the label, 0 to 1
 * @property {Float32Array} scores  scores of all labels
 * @property {Float32Array} [logits]  logits of the model's own classifier, from which the scores are computed
 * @property {number} [tokens]        number of tokens read
 */

/**
 * How messages become a prompt.
 * @typedef {object} PromptOptions
 * @property {ChatFormat | string} [chatFormat]  chat format, or the name of a known one, in place of the model's own
 * @property {object[]} [tools]  tools for the model's template, in the form that it expects
 * @property {Record<string, unknown>} [templateVariables]  variables of the model's template
 */

/**
 * Options of replies to messages alone.
 * @typedef {object} ReplyOptions
 * @property {string} [prefix]  text that the reply starts with; not repeated in the result
 * @property {'none' | 'auto' | 'required' | { name: string }} [toolChoice]  which of `tools` the reply is allowed or
 *   required to call. Default: the template lists the tools, and calls stay text
 * @property {boolean} [parallelToolCalls]  whether a reply is allowed to contain several calls. Default true
 */

/** @typedef {GenerateOptions & PromptOptions & ReplyOptions} CompleteOptions */

/**
 * @typedef {PromptOptions & { signal?: AbortSignal, onProgress?: (progress: PrefillProgress) => void }} PromptStateOptions
 */

/**
 * `prefix` and the options of PromptOptions are for messages only.
 * @typedef {PromptOptions & { prefix?: string, signal?: AbortSignal, onProgress?: (progress: PrefillProgress) => void }} ChooseOptions
 */

/**
 * Probabilities of given answers.
 * @typedef {object} Chosen
 * @property {string} best  the most probable option
 * @property {ChosenOption[]} options  in the given order
 * @property {number} promptTokens  number of tokens that all options have in common
 * @property {number} cachedTokens  number of these tokens that were found in the KV cache
 * @property {number} computedTokens  number of tokens computed for the prompt and the options
 */

/**
 * @typedef {object} ChosenOption
 * @property {string} text
 * @property {number} probability  probability among the options; they add up to 1
 * @property {number} logprob  natural logarithm of the probability of this text after the prompt
 * @property {number[]} tokens  tokens whose probabilities were multiplied
 */

/**
 * @typedef {object} PrefillProgress
 * @property {'prefill'} phase
 * @property {number} loaded  approximate number of prompt tokens that have been computed
 * @property {number} total   number of tokens to compute, without those in the KV cache
 * @property {'tokens'} unit
 * @property {null | number} bytesPerSecond  always null
 * @property {number | null} etaMs  milliseconds until the first token can be sampled; null while unknown
 */

/**
 * A tool call in a reply. `arguments` is JSON. `id` is only set if the model's template has ids.
 * @typedef {{ name: string, arguments: string, id?: string }} ReadCall
 */

/**
 * @typedef {object} Part
 * @property {number} token    the token
 * @property {string} text  text that the token adds; '' while a character or a stop string is incomplete
 * @property {string} [reasoning]  in replies: text that the token adds to the reasoning
 * @property {ReadCall[]} [toolCalls]  in replies with `toolChoice`: calls that this token completes
 * @property {Logprob & { top: Logprob[] }} [logprobs]  with `logprobs`: log probabilities of the token and of the most
 *   probable tokens
 */

/**
 * Probability of a token, before temperature and the other steps of sampling.
 * @typedef {object} Logprob
 * @property {number} token
 * @property {number} logprob  natural logarithm of its probability; 0 if a format allowed no other token
 * @property {number[]} bytes  bytes of its text; one token may be only a part of a character
 */

/**
 * @typedef {object} Result
 * @property {number[]} tokens  generated tokens, including the one that ended the generation
 * @property {string} text
 * @property {string} [reasoning]  in replies: text of the reasoning
 * @property {ReadCall[]} [toolCalls]  in replies with `toolChoice`
 * @property {'stop' | 'length' | 'context' | 'deadline' | 'abort'} finishReason  `stop`: an end token or a stop string;
 *   `length`: `maxTokens`; `context`: the context is full; `deadline`: the deadline has passed; `abort`: the signal, or
 *   the caller left the loop
 * @property {{ messages: number, tokens: number, summary?: string }} [shifted]  with `contextPolicy` 'shift' or
 *   'summarize': numbers of removed messages and tokens; `summary`: the text in their place
 * @property {{ file: string | null, prompt: number[], stop: string[], stopTokens: number[], sections: boolean }} [origin]
 *   with `receipt: true`: the id of the model's file, the tokens before the reply, and the stop strings and tokens in
 *   addition to the model's own. `sections`: whether parts of the reply have constraints of their own, such as tool
 *   calls or a format after the reasoning
 * @property {string | number | null} stop  stop string or end token that ended the generation
 * @property {(Logprob & { top: Logprob[] })[]} [promptLogprobs]  with `promptLogprobs`: one for each token of the
 *   prompt except the first
 * @property {number} seed
 * @property {string[]} [warnings]  warnings about the schemas in `responseFormat` and in the parameters of tools:
 *   unknown keywords and formats, which are ignored, and limits that were rounded. Missing if there are none
 * @property {TokenUsage} usage
 * @property {Timings} timings
 */

/**
 * Token counts of a generation.
 * @typedef {object} TokenUsage
 * @property {number} promptTokens
 * @property {number} cachedTokens  prompt tokens found in the KV cache
 * @property {number} completionTokens  generated tokens
 * @property {number} totalTokens  prompt and completion
 * @property {number} draftedTokens   draft tokens computed by speculative decoding
 * @property {number} acceptedTokens  draft tokens that became part of the completion
 */

/**
 * Times of a generation, in milliseconds.
 * @typedef {object} Timings
 * @property {number} prefillMs     until the logits of the last prompt token
 * @property {number} firstTokenMs  from there to the first token
 * @property {number} decodeMs      from the first token to the last
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
 * @typedef {object} MemoryInfo
 * @property {number} used   bytes of the heap in use
 * @property {number} peak   largest number of bytes of the heap that were in use
 * @property {number} heap   bytes of the heap
 * @property {number} total  bytes of the wasm memory: heap, stack and static data
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

/**
 * @typedef {Closable & ModelMethods} Model
 */

/**
 * @typedef {object} ModelMethods
 * @property {ModelInfo} info
 * @property {Promise<void>} loaded  settles when all weights are loaded
 * @property {() => Promise<void>} pauseDownload   Pauses the download of a model that is loading
 * @property {() => Promise<void>} resumeDownload  Continues a paused download
 * @property {(text: string, options?: TokenizeOptions) => Promise<number[]>} tokenize
 * @property {(ids: ArrayLike<number>) => Promise<string>} detokenize
 * @property {(text: string) => Promise<number | null>} tokenId  Returns the token with exactly this text, also a
 *   special one, or null
 * @property {(options?: SessionOptions) => Promise<Session>} createSession  Options default to those of `load`
 * @property {(source: SourceLike, options?: AdapterOptions) => Promise<Adapter>} loadAdapter  Loads a LoRA adapter from
 *   PEFT's safetensors or GGUF into the bytes reserved with `adapterBytes`. Throws NOMEM, SHAPE, UNSUPPORTED, FORMAT
 * @property {(options?: ChatOptions) => Promise<Chat>} createChat
 * @property {(prompt: string | ArrayLike<number> | MessageLike[], options?: CompleteOptions) => Generation} generate
 *   Continues a text or tokens, or replies to messages, in the pooled session with the longest common prefix. Options
 *   that only CompleteOptions has are for messages
 * @property {{ completions: { create: Create<ChatCompletionRequest, ChatCompletion, ChatCompletionChunk>, runTools: RunTools } }} chat
 *   OpenAI's chat completions, and a loop that runs tools
 * @property {{ create: Create<TextCompletionRequest, TextCompletion, TextCompletion> }} completions  OpenAI's text
 *   completions
 * @property {{ create: (request: EmbeddingRequest, options?: { signal?: AbortSignal }) => Promise<EmbeddingList> }} embeddings
 *   OpenAI's embeddings
 * @property {(messages: MessageLike[], options?: PromptOptions & { prefix?: string }) => Promise<number>} countTokens
 *   Returns the number of tokens of the prompt for these messages
 * @property {(texts: string | (string | ArrayLike<number>)[], options?: EmbedOptions) => Promise<Embeddings>} embed
 *   Returns vectors that represent the meaning of texts. Token lists are used unchanged
 * @property {(prompt: string | ArrayLike<number> | MessageLike[], options: string[], more?: ChooseOptions) => Promise<Chosen>} choose
 *   Returns the probability of each text after the prompt; after messages, as the beginning of the reply
 * @property {(messages: MessageLike[], options?: PromptStateOptions) => Promise<Uint8Array>} savePromptCache  Returns
 *   the KV cache that conversations beginning with these messages have in common
 * @property {(state: Uint8Array) => Promise<{ tokens: number }>} loadPromptCache  Loads such a KV cache, so that
 *   replies don't compute it again. Throws MISMATCH, FORMAT, TRUNCATED, UNSUPPORTED
 * @property {(text: string | ArrayLike<number>, options?: ScoreOptions) => Promise<Score>} score  Returns the
 *   probability of each token of a text, and the text's perplexity
 * @property {(query: string, documents: string[], options?: RerankOptions) => Promise<Ranked[]>} rerank  Sorts
 *   documents by relevance, with a cross-encoder or an embedding model. Throws UNSUPPORTED for other models
 * @property {(texts: string | (string | ArrayLike<number> | { text: string, textPair: string })[], options?: ClassifyOptions) => Promise<Classified[]>} classify
 *   Labels texts with a given classifier or the model's own
 * @property {(options?: TraceOptions) => Promise<StageTrace[]>} trace  Returns the time of each stage, over all pooled
 *   sessions
 * @property {() => Promise<MemoryInfo>} memory
 * @property {() => Promise<void>} close
 */

/** A text, or its parts. @typedef {string | (string | { type: 'text', text: string })[]} Content */

/**
 * @typedef {object} Message
 * @property {'system' | 'user' | 'assistant' | 'tool' | (string & {})} role  a known role, or one of the model's
 *   template
 * @property {string} content
 * @property {number[]} [tokens]  tokens of a generated reply, so that its KV cache can be reused
 * @property {string} [name]              for the model's template, as are the fields below
 * @property {string} [reasoning_content]
 * @property {object[]} [tool_calls]
 * @property {string} [tool_call_id]
 */

/** @typedef {Omit<Message, 'content'> & { content?: Content | null }} MessageLike */

/**
 * @typedef {{ system?: Content, messages?: MessageLike[], contextPolicy?: GenerateOptions['contextPolicy'] } & PromptOptions} ChatOptions
 */

/**
 * @typedef {object} ChatStats
 * @property {number} tokens   tokens of the conversation that have been computed
 * @property {number} context  largest number of tokens
 */

/**
 * @typedef {object} CompletionUsage
 * @property {number} prompt_tokens
 * @property {number} completion_tokens
 * @property {number} total_tokens
 * @property {{ cached_tokens: number }} prompt_tokens_details
 * @property {{ accepted_prediction_tokens: number, rejected_prediction_tokens: number }} completion_tokens_details
 *   counts of draft tokens (`speculate`); rejected ones are not included in `completion_tokens`
 */

/** Chunks of an answer. @template T @typedef {import('../api/openai/stream.js').ChunkStream<T>} ChunkStream */

/**
 * A call in OpenAI's shape. With `stream: true` it returns chunks.
 * @template {{ stream?: boolean | null }} B, W, C
 * @typedef {{ (request: B & { stream: true }, options?: CreateOptions): Promise<ChunkStream<C>>,
 *   (request: B & { stream?: false | null }, options?: CreateOptions): Promise<W>,
 *   (request: B, options?: CreateOptions): Promise<W | ChunkStream<C>> }} Create
 */

/**
 * @typedef {object} CreateOptions
 * @property {AbortSignal} [signal]
 * @property {number} [parallel]  largest number of choices that are generated at the same time. Default: the model's
 *   number of sessions
 */

/**
 * Extensions of a request in OpenAI's shape: options of a generation with the same names.
 * @typedef {Pick<GenerateOptions, 'adapter' | 'speculate' | 'contextPolicy'>} RequestExtensions
 */

/**
 * Extensions of an answer in OpenAI's shape.
 * @typedef {object} AnswerExtensions
 * @property {string[]} [warnings]  warnings about the schemas in `response_format` and `tools`: `warnings` of a Result
 * @property {number} [shiftedTokens]  number of tokens that `contextPolicy` removed
 */

/**
 * Fields that OpenAI's requests for completions have in common. A field with null counts as missing.
 * @typedef {object} CompletionFields
 * @property {string | null} [model]  repeated in the answer
 * @property {boolean | null} [stream]
 * @property {{ include_usage?: boolean } | null} [stream_options]
 * @property {number | null} [n]  number of choices. As many are generated at the same time as the model has sessions.
 *   The seed of each choice is one more than that of the previous one
 * @property {string | string[] | null} [stop]
 * @property {number | null} [seed]
 * @property {number | null} [temperature]  this and the next fields have the defaults of GenerateOptions
 * @property {number | null} [top_p]
 * @property {number | null} [top_k]
 * @property {number | null} [min_p]
 * @property {number | null} [repeat_penalty]
 * @property {Record<string, number> | null} [logit_bias]  bias by token, -100 to 100
 * @property {number | null} [presence_penalty]
 * @property {number | null} [frequency_penalty]
 * @property {number | null} [max_tokens]
 * @property {RequestExtensions | null} [bq4]  options that OpenAI's requests do not have
 * @property {string | null} [user]  accepted without effect
 * @property {object | null} [metadata]  accepted without effect
 */

/**
 * @typedef {CompletionFields & { messages: readonly ChatMessage[], max_completion_tokens?: number | null,
 *   logprobs?: boolean | null, top_logprobs?: number | null,
 *   response_format?: ResponseFormat | JsonFormat | StandardSchema | null,
 *   tools?: readonly (ChatCompletionTool | { type: string })[] | null,
 *   tool_choice?: 'none' | 'auto' | 'required' | { type: 'function', function: { name: string } }
 *     | { type: 'allowed_tools', allowed_tools: { mode: 'auto' | 'required', tools: object[] } }
 *     | { type: 'custom', custom: object } | null,
 *   parallel_tool_calls?: boolean | null, chat_template_kwargs?: Record<string, unknown> | null }} ChatCompletionRequest
 */

/**
 * A JSON Schema in the forms of OpenAI and llama.cpp.
 * @typedef {{ type: 'json_object', schema?: object | boolean }
 *   | { type: 'json_schema', json_schema: { name?: string, description?: string, strict?: boolean | null,
 *     schema?: object | boolean } }} JsonFormat
 */

/**
 * A tool with its JavaScript function. The model reads the function's return value: a string unchanged, any other value
 * as JSON.
 * @typedef {{ type: 'function', function: ChatCompletionTool['function']
 *   & { function: (args: any, more: { signal?: AbortSignal, call: ToolCall }) => unknown } }} RunnableTool
 */

/**
 * `maxSteps`: largest number of replies, 10 by default. `toolErrors`: 'tell' (the default) passes errors of tools to
 * the model, 'throw' throws TOOL.
 * @typedef {Omit<ChatCompletionRequest, 'tools' | 'stream' | 'n' | 'bq4'>
 *   & { tools: RunnableTool[], bq4?: RequestExtensions & { maxSteps?: number, toolErrors?: 'tell' | 'throw' } }} RunToolsRequest
 */

/**
 * Result of `runTools`.
 * @typedef {object} ToolRun
 * @property {ChatMessage[]} messages  the complete conversation, including the given messages
 * @property {ChatCompletion[]} completions
 * @property {string | null} content  text of the last reply; null if it was another call
 * @property {FinishReason | 'maxSteps'} finishReason
 */

/** @typedef {(request: RunToolsRequest, options?: { signal?: AbortSignal }) => Promise<ToolRun>} RunTools */

/**
 * A message in OpenAI's shape, compatible with the types of OpenAI's client. Parts other than text are refused.
 * `refusal`, `annotations` and `parsed` of an earlier answer are ignored.
 * @typedef {object} ChatMessage
 * @property {Message['role']} role
 * @property {string | readonly (string | { type: 'text', text: string } | { type: string })[] | null} [content]
 * @property {string} [name]
 * @property {string | null} [reasoning_content]
 * @property {readonly object[] | null} [tool_calls]
 * @property {string} [tool_call_id]
 * @property {string | null} [refusal]
 * @property {unknown} [annotations]
 * @property {unknown} [parsed]
 * @property {object | null} [audio]  must be null
 * @property {object | null} [function_call]  must be null
 */

/**
 * @typedef {CompletionFields & { prompt: string | string[] | number[] | number[][], logprobs?: number | null,
 *   echo?: boolean | null }} TextCompletionRequest
 */

/**
 * @typedef {{ input: string | string[] | number[] | number[][], model?: string, dimensions?: number | null,
 *   encoding_format?: 'float' | 'base64' | null, user?: string }} EmbeddingRequest
 */

/** A token and its log probability. @typedef {{ token: string, logprob: number, bytes: number[] }} TokenLogprob */

/** @typedef {{ content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[], refusal: null } | null} ChoiceLogprobs */

/** @typedef {'stop' | 'length' | 'tool_calls'} FinishReason */

/**
 * A call of a tool in a reply. `arguments` is JSON.
 * @typedef {{ id: string, type: 'function', function: { name: string, arguments: string } }} ToolCall
 */

/**
 * A function that the model can call. `parameters` is a JSON Schema.
 * @typedef {{ type: 'function', function: { name: string, description?: string, parameters?: object,
 *   strict?: boolean | null } }} ChatCompletionTool
 */

/**
 * A part of a reply in OpenAI's shape. The last chunk of each choice has a `finish_reason`. With `include_usage` one
 * more chunk follows, with `usage` and without choices.
 * @typedef {object} ChatCompletionChunk
 * @property {string} id
 * @property {'chat.completion.chunk'} object
 * @property {number} created  seconds since 1970
 * @property {string} model
 * @property {{ index: number, delta: { role?: 'assistant', content?: string, reasoning_content?: string, tool_calls?: (ToolCall & { index: number })[] }, logprobs: ChoiceLogprobs, finish_reason: FinishReason | null }[]} choices
 * @property {CompletionUsage | null} [usage]
 * @property {AnswerExtensions} [bq4]  only in the chunk with the `finish_reason`
 */

/**
 * A complete reply in OpenAI's shape.
 * @typedef {object} ChatCompletion
 * @property {string} id
 * @property {'chat.completion'} object
 * @property {number} created  seconds since 1970
 * @property {string} model
 * @property {{ index: number, message: { role: 'assistant', content: string | null, refusal: null, reasoning_content?: string, tool_calls?: ToolCall[] }, logprobs: ChoiceLogprobs, finish_reason: FinishReason }[]} choices
 * @property {CompletionUsage} usage
 * @property {AnswerExtensions} [bq4]
 */

/**
 * The continuation of a text, or a part of it, in OpenAI's shape.
 * @typedef {object} TextCompletion
 * @property {string} id
 * @property {'text_completion'} object
 * @property {number} created  seconds since 1970
 * @property {string} model
 * @property {{ index: number, text: string, logprobs: TextLogprobs | null, finish_reason: FinishReason | null }[]} choices
 * @property {CompletionUsage} [usage]
 * @property {AnswerExtensions} [bq4]
 */

/**
 * Log probabilities of a text's tokens. They are null for the first token of an echoed prompt.
 * @typedef {{ tokens: string[], token_logprobs: (number | null)[], top_logprobs: (Record<string, number> | null)[],
 *   text_offset: number[] }} TextLogprobs
 */

/**
 * @typedef {{ object: 'list', model: string, data: { object: 'embedding', index: number, embedding: number[] | string }[],
 *   usage: { prompt_tokens: number, total_tokens: number } }} EmbeddingList
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
