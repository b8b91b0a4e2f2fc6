/** Types of the public interface. Nothing here runs. */

/** @typedef {import('../storage/sources/types.js').Source} Source */
/** @typedef {import('../storage/sources/types.js').SourceLike} SourceLike */
/** @typedef {import('../storage/sources/types.js').SourceOptions} SourceOptions */
/** @typedef {import('./generation.js').Generation} Generation */
/** @typedef {import('../api/chat/chat.js').Chat} Chat */
/** @typedef {import('../storage/cache/types.js').StoreOptions} StoreOptions */
/** @typedef {import('../wasm/build-choice.js').Build} Build */

/** What went wrong: js/shared/error-codes.js and docs/reference/errors.md have a row for each. @typedef {keyof typeof import('./error-codes.js').ERRORS} ErrorCode */

/** @typedef {import('./error-codes.js').ErrorGroup} ErrorGroup */

/**
 * @typedef {object} EngineOptions
 * @property {Build} [build]  this build, without measuring; default: the fastest one
 * @property {string | URL | { relaxed: string | URL, relaxed16?: string | URL, simd128: string | URL, 'relaxed-threads'?: string | URL, 'relaxed16-threads'?: string | URL, 'simd128-threads'?: string | URL, 'relaxed-rare'?: string | URL, 'relaxed16-rare'?: string | URL, 'simd128-rare'?: string | URL, 'relaxed-threads-rare'?: string | URL, 'relaxed16-threads-rare'?: string | URL, 'simd128-threads-rare'?: string | URL, probe?: string | URL, grammar?: string | URL, convert?: string | URL }} [wasmUrl]
 *   addresses of the wasm modules; default: those of the package. Without the builds for threads there is one thread; without the
 *   probe nothing is measured, and `relaxed16` is never chosen. A single address is the only build
 * @property {'auto' | number} [threads]  number of threads, where memory can be shared; default "auto": the number that measurements during
 *   computing find to be the fastest
 * @property {string | URL} [threadUrl]  a script of yours that imports bq4/files/thread.js, for the other threads
 * @property {AbortSignal} [signal]  stops fetching and compiling
 * @property {'auto' | string | StoreOptions | Cache | false} [cache]  keeps downloaded files between visits: 'auto' in the best
 *   backend, the path of a folder (Node), options of a store, or an open store (in this thread only). Default: 'auto' for an engine in a page's worker, else false
 */

/**
 * @typedef {object} EngineInfo
 * @property {Build} build   the module in use
 * @property {string} reason   why this one: what the machine can do, a measurement, a failed self test
 * @property {boolean} worker  whether the engine is in a worker
 * @property {number} threads  number of threads, of which `learned` may use fewer; 1: the engine's own thread alone
 * @property {string} threadsReason  the reason for this number
 * @property {ThreadTiming[]} timings  measurements at the start or, with a cache, at that of an earlier visit, which give the first number
 *   of threads; empty: none were made
 * @property {{ prefill?: Learned, decode?: Learned, few?: Learned }} learned  the fastest number of threads of the model that
 *   computed last: for prompts, for single tokens, for 2 to 8 tokens at once (draft tokens, sessions that share a batch). A field is missing while
 *   its number is unknown; all are missing where `threads` is a number
 */

/**
 * @typedef {object} Learned
 * @property {number} threads  the fastest
 * @property {{ threads: number, time: number, samples: number }[]} tried  times of the same work with other numbers of threads, relative to the fastest (1)
 */

/**
 * @typedef {object} ThreadTiming
 * @property {number} threads
 * @property {number} ms  of the same work, the median of several
 */

/**
 * @typedef {object} LoadOptions
 * @property {number} [contextTokens]   tokens per session; default: the model's own, at most 4,096
 * @property {number} [sessions]  sessions that can be open at once; default 1
 * @property {'f32' | 'f16' | 'i8' | 'i4' | 'i2'} [kv]  type of the KV cache; default i8, f16 where keys have a bias (Qwen 2)
 * @property {'i8' | 'i16'} [activations]  what quantized weights are multiplied with; default i16 for a model that
 *   writes text and has 50 to 300 MB of weights, i8 for others
 * @property {number} [prefillWindow]    tokens that go through a layer before the next layer starts; default 256
 * @property {number} [prefillBatch]     tokens per matrix product in prefill; default 32
 * @property {number} [forks]     forks that each session may have at once; default 0
 * @property {number} [adapterBytes]  bytes that are reserved for adapters; default 0
 * @property {number} [kvWindow]  positions that a token sees at least, and up to 255 more, in layers without a window of their own; default: all.
 *   `contextTokens` may then exceed the context that the model was trained with, and the KV cache doesn't grow with it
 * @property {number} [kvSinks]   first positions that stay visible besides the window; default 4 with a window
 * @property {'oldest' | 'attention'} [kvEvict]  what leaves a cache with a window: the oldest positions, or, 32 at a time, those that got the
 *   least attention (H2O); the context is at most the model's own then, and kvWindow a multiple of 256. Default 'oldest'
 * @property {Quality} [quality]  parts of the model that are left out, for speed at the cost of quality; default: none
 * @property {number} [forkTokens]  tokens that each fork may add; default: the context
 * @property {number} [draftTokens]    maximum number of draft tokens (`speculate` of `generate`); each takes 4 bytes for each token of the
 *   vocabulary, per session; default 7
 * @property {AbortSignal} [signal]    ends the load, also one with `streaming` that has resolved
 * @property {(progress: Progress) => void} [onProgress]
 * @property {number} [memoryBudget]    bytes of memory that the model may take (Infinity: all weights stay in it, tables of rows too); `load` gives up sessions, then context, then
 *   the precision of the KV cache to stay within it, then keeps only some of the weights in memory and reads the
 *   others from the file for every token (by its handle, from a Blob, or in Node); `gaveUp` of a plan lists this
 * @property {string} [integrity]  `sha256-…`: only the file with this hash is accepted (docs/FORMAT.md, HASH)
 * @property {boolean | SourceLike} [promptCache]  a prompt cache that `bq4 prompt-state` has written: true: the file FILE.prompt beside the
 *   model. What can't be used is left out (`info.promptCache`). Not with `streaming`
 * @property {boolean} [streaming]  resolve as soon as the model is known; sessions wait for layers still on
 *   their way, and `model.loaded` settles when all are there
 */

/** What progress is counted in. @typedef {'bytes' | 'tokens' | 'texts'} Unit */

/**
 * Progress of a load: the one shape of all progress, with two fields of its own.
 * @typedef {object} Progress
 * @property {'convert' | 'plan' | 'download' | 'load' | 'paused' | 'ready'} phase  `download` from a network, `load` from this machine; `convert` of a
 *   folder in Hugging Face's layout, before all others, with its own `loaded` and `total`
 * @property {number} loaded  bytes of the file that have arrived
 * @property {number} total   bytes of the file
 * @property {'bytes'} unit
 * @property {number | null} bytesPerSecond  over the last seconds, of what the cache doesn't have; null while unknown
 * @property {number | null} etaMs  milliseconds until the end of what the cache doesn't have; null while unknown
 * @property {number} retries  consecutive failures of the network that were followed by another try; 0: none
 * @property {string} cacheProblem  why not all of the file is kept in the cache; '' where it is, or without a cache
 */

/**
 * @typedef {object} EmbedProgress
 * @property {'embed'} phase
 * @property {number} loaded  texts whose vectors are computed
 * @property {number} total
 * @property {'texts'} unit
 * @property {null | number} bytesPerSecond  always null
 * @property {number | null} etaMs  milliseconds until the last vector; null while unknown
 */

/**
 * Where files are kept between visits, as an engine uses it.
 * @typedef {object} Cache
 * @property {boolean} [pages]  files that are there can be read anywhere, at any time: `parts`
 * @property {{ read: () => Promise<Uint8Array | null>, write: (bytes: Uint8Array) => Promise<void> }} [measurements]  the file of what an
 *   engine has measured of its machine (js/wasm/measurements.js)
 * @property {(url: string) => Promise<{ fileId: string, fileBytes: number, prefixBytes: number, prefix: Uint8Array, cachedBytes: number, complete: boolean } | null>} find
 * @property {(url: string, signal?: AbortSignal) => Promise<(() => Promise<void>) | null>} [turn]  to fetch the file's beginning, which one
 *   at a time has; ends it
 * @property {(file: { url: string, prefix: Uint8Array, sealed: boolean, fileId: Uint8Array | string, fileBytes: number, prefixBytes: number,
 *   hashes: ArrayLike<bigint> | null }) => Promise<CacheEntry>} open  js/storage/cache/types.js, EntryOptions
 * @property {(key: string) => Promise<void>} [delete]  a file that is not the one that was asked for
 */

/**
 * What an engine keeps between visits, to be looked at. All methods throw STORAGE.
 * @typedef {object} EngineStore
 * @property {import('../storage/cache/types.js').BackendName} backend  where it is
 * @property {string} reason  why not in a better place; '' in the best
 * @property {() => Promise<import('../storage/cache/types.js').Listed[]>} list
 * @property {() => Promise<import('../storage/cache/types.js').Usage>} usage
 * @property {(key: string) => Promise<void>} delete  ARGUMENT: not a key of list(); IN_USE
 * @property {(key: string, on?: boolean) => Promise<void>} pin  a pinned file goes only when it is deleted. ARGUMENT: none has this key
 * @property {() => Promise<void>} clear  of all that is not in use, and of the measurements. IN_USE: something was
 * @property {() => Promise<void>} [close]  of stores that were opened by themselves
 */

/**
 * A file in the cache, by chunks as docs/FORMAT.md, HASH, cuts it. Nothing of it may fail a load.
 * @typedef {object} CacheEntry
 * @property {(chunk: number) => boolean} has
 * @property {(chunk: number, signal?: AbortSignal, into?: Uint8Array) => Promise<Uint8Array | null>} read   null: not there
 *   after all. `into`, as long as the chunk, may be filled and returned
 * @property {(chunk: number, bytes: Uint8Array) => Promise<unknown>} write   of a verified chunk
 * @property {(chunk: number) => Promise<void>} drop   it did not verify; 0xffffffff: the prefix, which is no longer the file's
 * @property {(bytes: Uint8Array) => Promise<unknown>} writePrefix
 * @property {(chunk: number, bytes: Uint8Array) => Promise<boolean>} [intact]  whether they are what was written, of files that bring no hashes
 * @property {(slots: Map<number, { arrivedBytes?: Uint8Array }>) => void} [keepAhead]  from now on stores also chunks that have arrived but
 *   not verified yet, those that are what the file says, and changes none of them
 * @property {string} [key]  of the file, for the cache's `delete`
 * @property {number} chunks
 * @property {boolean} [complete]  all of them are there, and the prefix
 * @property {Error | null} problem   why nothing more is kept
 * @property {'reader' | 'writer'} [role]   'reader': another one fetches this file
 * @property {(chunk: number, signal?: AbortSignal) => Promise<boolean>} [waitFor]   false: it won't come
 * @property {() => Promise<import('../storage/sources/types.js').FilePart[] | null>} [parts]  files that hold the chunks; null: not all are there
 * @property {() => Promise<void>} close
 */

/**
 * What a model is and what it takes, known from the first bytes of its file. Sizes are bytes.
 * @typedef {object} Plan
 * @property {number} version       of the file format; 0: another container, described by a manifest
 * @property {string} name          '' when the file doesn't say
 * @property {string} license       '' when the file doesn't say
 * @property {string} arch          the family it comes from: "llama", "bullet", … (docs/FORMAT.md, "CONF keys"), or "other"
 * @property {number} layers
 * @property {number} hidden
 * @property {number} heads
 * @property {number} kvHeads
 * @property {number} headDim
 * @property {number} ffn
 * @property {number} stateWidth    numbers that a recurrent layer makes of its state for each token; 0: no layer is recurrent
 * @property {number} vocabSize
 * @property {number} tokenizerSize        of the tokenizer; 0: the file has none
 * @property {number} trainedContext  positions the model was made for
 * @property {boolean} tied         the embedding is also the head
 * @property {boolean} generates    false: an encoder, which has no head: for `embed` alone
 * @property {{ pooling: Pooling | null, normalize: boolean, tokens: number, width: number }} embedding  how the file says that its
 *   vectors of `width` numbers are made; `tokens` of a text at most under this plan
 * @property {number} labelCount    labels of the model's own classifier; 0: it has none
 * @property {number} contextTokens       tokens per session under this plan
 * @property {number} sessions
 * @property {number} fileBytes
 * @property {number} weightBytes
 * @property {number} sessionBytes  per session, its KV cache included
 * @property {number} kvBytes       per session
 * @property {number} kvBytesPer1000  per session and 1,000 tokens
 * @property {'f32' | 'f16' | 'i8' | 'i4' | 'i2'} kv     type of the KV cache
 * @property {number} kvWindow      0: a token sees all before it
 * @property {number} kvSinks
 * @property {'oldest' | 'attention'} kvEvict
 * @property {Quality | null} quality  as it was asked for
 * @property {'i8' | 'i16'} activations  what quantized weights are multiplied with
 * @property {number} tokenWeights  weights that every token is multiplied with
 * @property {boolean} rareTypes    some weights are of types whose kernels are a module of their own
 * @property {number} heapBytes     all of the engine's memory for this model: weights, sessions, stack, reserve
 * @property {'resident' | 'paged'} residency  where the weights are while it computes
 * @property {Paging | null} paging  what stays in memory when not all weights do, and what that costs
 * @property {'yes' | 'no' | 'unknown'} fits
 * @property {string} fitsReason
 * @property {number | null} contextThatFits  with one session; 0: none
 * @property {GaveUp[]} gaveUp      what a load with this budget gives up, or has given up, in this order
 * @property {{ bytes: number, complete: boolean }} cached  what the cache has of the file
 * @property {number | null} tokensPerSecond  an estimate from a short measurement of the kernels; null: not measured
 * @property {File} [converted]     of a folder: the .bq4 file that was made of it. A load of this one needn't convert again
 */

/**
 * What stays in memory of a model that is larger than its budget, and what the rest costs.
 * @typedef {object} Paging
 * @property {number} layers         layers that stay
 * @property {boolean} head          the head stays (with tied embeddings: those too)
 * @property {number} streamedBytes  read from the file for every token that is generated; for a prompt, about that for
 *   every `prefillWindow` tokens
 * @property {number} slotBytes      of each of the two buffers in the heap
 * @property {number} besideBytes    of buffers outside the heap, where the reading worker can't share it
 */

/** @typedef {{ what: 'sessions' | 'contextTokens' | 'kv' | 'residency', from: number | string, to: number | string }} GaveUp */

/**
 * @typedef {object} TokenizerInfo
 * @property {'spm' | 'bpe' | 'wordlist' | 'unigram' | 'wordpiece'} kind
 * @property {number} tokens
 * @property {number | null} bos
 * @property {number | null} eos
 * @property {number | null} unk
 * @property {number | null} pad
 * @property {boolean} addBos  BOS is put in front by default
 * @property {boolean} addEos
 */

/**
 * How turns are wrapped: the CHAT section of docs/FORMAT.md.
 * @typedef {object} ChatFormat
 * @property {Record<string, { before: string, after: string, opens?: boolean }>} roles  `opens`: the user's turn that follows has
 *   no `before` of its own
 * @property {string} [start]   in front of a conversation without a message of the system: what the system says then
 * @property {string} [prompt]  in front of the reply; default: the assistant's `before`
 * @property {boolean} [trim]   white space around what people write is left out
 * @property {string | string[]} [stop]
 * @property {boolean} [bos]
 * @property {[string, string]} [think]  what stands before and behind the reasoning in a reply
 */

/**
 * `labels` of the model's own classifier; null: it has none.
 * `reranks`: what `rerank` scores documents with: that classifier, or the cosine of vectors; null: it can't.
 * `prompts` by name, for `embed`, and the name of the one that is used where the caller names none. `unused`: parts of the file that are not used, such as vision.
 * `authenticated`: an `integrity` was given. No token then comes out of any other file.
 * `tensorParallel`: where memory can't be shared, how many workers compute parts of a product, this one included, and from how many
 * tokens of a batch on; null: this one computes alone, or threads do.
 * `promptCache`: what the option `promptCache` led to: the tokens that no reply computes, and else why there are none; null: not asked for.
 * `threads` that compute.
 * `id`: which one it is of all that were loaded.
 * @typedef {Plan & { id: string, authenticated: boolean, threads: number, tensorParallel: { parts: number, tokens: number } | null, promptCache: { tokens: number, problem: string } | null, tokenizer: TokenizerInfo | null, chatFormat: ChatFormat | null, chatTemplate: string, card: string,
 *   labels: string[] | null, reranks: 'classifier' | 'cosine' | null, prompts: Record<string, string>, defaultPrompt: string, unused: string[] }} ModelInfo
 */

/**
 * @typedef {object} TokenizeOptions
 * @property {boolean} [addSpecial]    BOS and EOS as the model's tokenizer adds them; default true
 * @property {boolean} [parseSpecial]  "<|user|>" in the text becomes the token; default false, for text that people write
 */

/**
 * @typedef {object} Quality
 * @property {number[]} [skipLayers]  layers that are left out, from 0 on
 * @property {number} [exitLayer]    this layer and all after it are left out
 * @property {number} [lmHeadFraction]    the share of the LM head that is computed, above 0 and below 1; tokens of the rest are never picked
 */
/** @typedef {Pick<LoadOptions, 'contextTokens' | 'kv' | 'activations' | 'prefillWindow' | 'prefillBatch' | 'forks' | 'forkTokens' | 'draftTokens' | 'kvWindow' | 'kvSinks' | 'kvEvict' | 'quality'> & { adapter?: Adapter | null }} SessionOptions */

/**
 * What an adapter changes.
 * @typedef {object} AdapterInfo
 * @property {string} id
 * @property {string} name  of its file
 * @property {'peft' | 'gguf'} format
 * @property {number} bytes  that it takes of `adapterBytes`
 * @property {number} changes  products that it changes
 */

/** An adapter of a model (LoRA). @typedef {Closable & { info: AdapterInfo, close: () => Promise<void> }} Adapter */

/**
 * @typedef {object} AdapterOptions
 * @property {number} [scale]  factor of the adapter's products; default 1
 * @property {AbortSignal} [signal]
 */

/**
 * @typedef {object} GenerateOptions
 * @property {number} [maxTokens]      default: 1,024, or what is left of the context; Infinity: until the context is full
 * @property {number} [temperature]    0: always the likeliest token; default 0.7
 * @property {number} [topK]           only the k likeliest tokens; 0: off; default 40
 * @property {number} [topP]           only the likeliest tokens whose probabilities reach p together, at least one; 1: off; default 0.95
 * @property {number} [minP]           only tokens with at least p times the probability of the likeliest; default 0, off
 * @property {number} [repeatPenalty]  above 1: recent tokens become less likely; default 1, off
 * @property {number} [repeatLast]     number of recent tokens that are penalized; 0: none; default 64
 * @property {number} [seed]           integer up to 2^53; default: random; the result has it
 * @property {string | string[]} [stop]  texts that end the generation; they are not part of its text
 * @property {number[]} [stopTokens]   tokens that end it, besides the model's own
 * @property {{ token: number, bias: number }[]} [logitBias]  added to the logits of tokens; -Infinity forbids one
 * @property {number} [presencePenalty]   subtracted from the logits of tokens that occurred in this generation; default 0
 * @property {number} [frequencyPenalty]  subtracted once for each occurrence; default 0
 * @property {number} [logprobs]       adds to each part the log probability of its token and of this many likeliest ones, at most 20
 * @property {number} [promptLogprobs]  adds the same to the result for each token of the prompt, at most 20
 * @property {Adapter | null} [adapter]  the LoRA adapter to compute with; null: none. Default: the session's adapter, else none
 * @property {'error' | 'shift' | 'summarize'} [contextPolicy]  what happens when the context is full; default 'error': the generation ends, and a
 *   prompt that is too long is refused; 'shift': the oldest turns are left out; 'summarize': the model summarizes the turns that are left out
 * @property {boolean} [receipt]  adds `origin` to the result of a reply, for `receiptOfReply` of bq4/receipts
 * @property {number} [sinks]  first tokens that stay when a full context is shifted during a generation; default: all before the first
 *   user's message, without messages 4
 * @property {number | Date} [deadline]  milliseconds from the call, or a Date, after which the generation ends; the result is the text so far
 * @property {number} [maxTokensPerSecond]  limit of the speed; default: none
 * @property {ResponseFormat | StandardSchema} [responseFormat]  the format that the text must have; default: any text
 * @property {'auto' | boolean | { tokens?: number, model?: Model | null }} [speculate]  speculative decoding: draft tokens are computed in one batch, and
 *   the text is the same as without. Default 'auto': prompt lookup where measurements say that it pays; true: prompt lookup wherever the text
 *   repeats; `tokens`: maximum of the draft; `model`: a smaller model of the same vocabulary writes the draft, null: prompt lookup; false: never
 * @property {AbortSignal} [signal]    ends it with the signal's reason; what was computed stays in the KV cache
 * @property {(progress: PrefillProgress) => void} [onProgress]  while the prompt is computed
 */

/**
 * A schema of zod, ArkType, Valibot or another library with the Standard JSON Schema interface.
 * @typedef {{ readonly '~standard': { readonly vendor: string, readonly jsonSchema?: unknown } }} StandardSchema
 */

/**
 * What a text is held to, whatever the model would rather write: any JSON object, a JSON Schema (draft 7 or 2020-12; `schema`, or as
 * OpenAI has it in `json_schema`; `parts` are schemas whose references are their own, `{ $ref: 'part:0' }` in the schema is the first), a regular expression for the whole text, a GBNF grammar, or one of some texts.
 * @typedef {{ type: 'text' } | { type: 'json_object', schema?: object | boolean } | { type: 'json_schema', schema: object | boolean, parts?: (object | boolean)[], name?: string, description?: string, strict?: boolean | null }
 *   | { type: 'json_schema', json_schema: { name?: string, description?: string, strict?: boolean | null, schema: object | boolean } }
 *   | { type: 'regex', pattern: string | RegExp } | { type: 'grammar', grammar: string } | { type: 'choice', choices: string[] }} ResponseFormat
 */

/** What makes one vector of a text's tokens: their mean, the first one's, the last one's. @typedef {'mean' | 'cls' | 'last'} Pooling */

/**
 * @typedef {object} EmbedOptions
 * @property {Pooling} [pooling]    default: as the file says, else the mean
 * @property {boolean} [normalize]  to length 1, so that a dot product is a cosine; default: as the file says, else true
 * @property {string} [prompt]      name of the prompt that precedes each text (`info.prompts`); '': none; default: as the file says
 * @property {boolean} [truncate]   default true: of a text that is too long its beginning counts, and the result says so;
 *   false: CONTEXT_FULL
 * @property {AbortSignal} [signal]
 * @property {(progress: EmbedProgress) => void} [onProgress]  in texts
 */

/**
 * @typedef {object} Embeddings
 * @property {Float32Array[]} vectors  one for each text, in their order
 * @property {number[]} tokens         that each is made of
 * @property {number[]} truncated      indices of texts that were too long: their vectors are of their beginnings
 */

/**
 * @typedef {object} ScoreOptions
 * @property {number} [topLogprobs]  so many of the likeliest tokens at each place, at most 20; default 0
 * @property {AbortSignal} [signal]
 * @property {(progress: PrefillProgress) => void} [onProgress]
 */

/**
 * How likely a text is.
 * @typedef {object} Score
 * @property {(Logprob & { top: Logprob[] })[]} tokens  each but the first, which has no tokens before it
 * @property {number} logprob     sum of the tokens' natural logarithms
 * @property {number} perplexity  of the text
 */

/**
 * @typedef {{ object: 'list', model: string, usage: { prompt_tokens: number, total_tokens: number },
 *   results: { index: number, relevance_score: number, document?: { text: string } }[] }} RerankAnswer
 */

/** @typedef {Pick<EmbedOptions, 'truncate' | 'signal' | 'onProgress'> & { topN?: number }} RerankOptions  `topN`: no more than so many are returned */

/**
 * @typedef {object} Ranked
 * @property {number} index   in the list that was given
 * @property {number} score   by a classifier how likely the document fits, 0 to 1; by vectors their cosine, -1 to 1
 * @property {string} document
 * @property {'classifier' | 'cosine'} method
 * @property {number} tokens  that were read: of the pair, or by vectors of the document alone
 * @property {number} [logit]  of the classifier's label
 */

/**
 * A classifier over a model's vectors.
 * @typedef {object} Head
 * @property {string} name
 * @property {string[]} labels
 * @property {number} width       numbers of a vector
 * @property {Pooling} pooling
 * @property {boolean} normalize
 * @property {Float32Array} weights  labels x width
 * @property {Float32Array} bias     one for each label
 */

/**
 * A head as JSON, as `bq4 train-head` writes it: js/api/classifiers/classifier.js.
 * @typedef {{ format: 'bq4-head', version: 1, name: string, labels: string[], width: number, pooling: Pooling, normalize: boolean,
 *   type: 'bq4' | 'f32', weights: string, bias: number[], facts: Record<string, unknown> }} ClassifierFile
 */

/**
 * @typedef {object} ClassifyOptions
 * @property {ClassifierFile} [classifier]   default: the model's own (`info.labels`); SHAPE when it is of one with other vectors
 * @property {boolean} [truncate]  as of `embed`
 * @property {AbortSignal} [signal]
 * @property {(progress: EmbedProgress) => void} [onProgress]  in texts
 */

/**
 * What a text is.
 * @typedef {object} Classified
 * @property {string} label
 * @property {number} index   of the label
 * @property {number} score   how likely it is, 0 to 1
 * @property {Float32Array} scores  of all labels
 * @property {Float32Array} [logits]  of the model's own classifier, before the scores are made of them
 * @property {number} [tokens]        that it has read
 */

/**
 * What becomes of messages.
 * @typedef {object} PromptOptions
 * @property {ChatFormat | string} [chatFormat]  instead of the model's own; or the name of one that is known
 * @property {object[]} [tools]  for the model's template, as it expects them
 * @property {Record<string, unknown>} [templateVariables]  for the model's template
 */

/**
 * `prefix`: what the reply begins with; its text is what follows. `toolChoice`: which of `tools` the reply may call, or must; left out, the
 * template is told of them and calls stay text. `parallelCalls`: whether calls may follow each other, default true.
 * @typedef {GenerateOptions & PromptOptions & { prefix?: string, toolChoice?: 'none' | 'auto' | 'required' | { name: string }, parallelToolCalls?: boolean }} CompleteOptions
 */

/** @typedef {PromptOptions & { signal?: AbortSignal, onProgress?: (progress: PrefillProgress) => void }} PromptStateOptions */

/** Of messages also PromptOptions. @typedef {PromptOptions & { prefix?: string, signal?: AbortSignal, onProgress?: (progress: PrefillProgress) => void }} ChooseOptions */

/**
 * How likely given answers are.
 * @typedef {object} Chosen
 * @property {string} best  the likeliest option
 * @property {ChosenOption[]} options  in the order in which they were given
 * @property {number} promptTokens  that all options have in common
 * @property {number} cachedTokens  of these, found in the KV cache
 * @property {number} computedTokens  of the prompt and of the options
 */

/**
 * @typedef {object} ChosenOption
 * @property {string} text
 * @property {number} probability  among the options: they add up to 1
 * @property {number} logprob  natural logarithm of the probability that the model gives this text behind the prompt
 * @property {number[]} tokens  that were counted
 */

/**
 * @typedef {object} PrefillProgress
 * @property {'prefill'} phase
 * @property {number} loaded  tokens of the prompt that have been computed, about
 * @property {number} total   tokens that must be computed: those in the KV cache are not counted
 * @property {'tokens'} unit
 * @property {null | number} bytesPerSecond  always null
 * @property {number | null} etaMs  milliseconds until the first token can be sampled; null while unknown
 */

/** A call of a tool in a reply; `arguments` are JSON, an id is there where the template has ids. @typedef {{ name: string, arguments: string, id?: string }} ReadCall */

/**
 * @typedef {object} Part
 * @property {number} token    the token
 * @property {string} text  what it adds to the text: '' while a character or a stop string is incomplete
 * @property {string} [reasoning]  of a reply: what it adds to what the model thinks before it answers
 * @property {ReadCall[]} [toolCalls]  of a reply with `toolChoice`: calls that are whole now
 * @property {Logprob & { top: Logprob[] }} [logprobs]  with `logprobs`: how likely the token was, and the likeliest
 */

/**
 * How likely the model found a token, before temperature and all else that sampling does.
 * @typedef {object} Logprob
 * @property {number} token
 * @property {number} logprob  natural logarithm of its probability; 0 where a format left no choice
 * @property {number[]} bytes  of its text: one token alone may be no whole character
 */

/**
 * @typedef {object} Result
 * @property {number[]} tokens  tokens generated, the one that ended it included
 * @property {string} text
 * @property {string} [reasoning]  of a reply: what the model thought
 * @property {ReadCall[]} [toolCalls]  of a reply with `toolChoice`
 * @property {'stop' | 'length' | 'context' | 'deadline' | 'abort'} finishReason  `stop`: an end token or a stop string;
 *   `length`: maxTokens; `context`: the context is full; `deadline`: it has come; `abort`: the signal, or the loop was left
 * @property {{ messages: number, tokens: number, summary?: string }} [shifted]  what was left out, with `contextPolicy: 'shift'` or
 *   'summarize'; `summary`: what the model read in its place
 * @property {{ file: string | null, prompt: number[], stop: string[], stopTokens: number[], sections: boolean }} [origin]  with `receipt: true`: the
 *   id of the model's file, the tokens that the reply follows, what ended it besides the model's own tokens, and whether parts of it are
 *   constrained by themselves: calls of tools, a format behind reasoning
 * @property {string | number | null} stop  the stop string or end token that was met
 * @property {(Logprob & { top: Logprob[] })[]} [promptLogprobs]  with `promptLogprobs`: of each token of the prompt but the first
 * @property {number} seed
 * @property {string[]} [warnings]  what of `responseFormat`, and of the parameters of tools, was passed over because it says nothing of texts:
 *   unknown keywords and formats of a schema; there if there is any
 * @property {TokenUsage} usage
 * @property {Timings} timings
 */

/**
 * How many tokens a generation took.
 * @typedef {object} TokenUsage
 * @property {number} promptTokens
 * @property {number} cachedTokens  of these, found in the KV cache
 * @property {number} completionTokens  generated
 * @property {number} totalTokens  of prompt and completion
 * @property {number} draftedTokens   proposed by speculative decoding and computed along
 * @property {number} acceptedTokens  of these, that became part of the completion
 */

/**
 * How long a generation took, in milliseconds.
 * @typedef {object} Timings
 * @property {number} prefillMs     until the logits of the last prompt token
 * @property {number} firstTokenMs  from there to the first token
 * @property {number} decodeMs      from the first token to the last
 */

/**
 * @typedef {object} AppendOptions
 * @property {boolean} [parseSpecial]  as of `tokenize`
 * @property {AbortSignal} [signal]
 * @property {(progress: PrefillProgress) => void} [onProgress]
 */

/**
 * @typedef {object} SessionStats
 * @property {number} tokens   in the sequence
 * @property {number} context  how many fit
 * @property {number} workUnits   computed since the session was created; each is one layer for one batch
 * @property {number} draftedTokens   guesses that were computed along since then
 * @property {number} acceptedTokens  of these, that came
 */

/**
 * @typedef {object} TraceOptions
 * @property {boolean} [on]       true: from now on, from zero; false: no more; left out: as it is
 * @property {boolean} [byLayer]  a row per stage and layer, not per stage
 */

/** @typedef {'host' | 'embed' | 'norm' | 'qkv' | 'kv' | 'attend' | 'o' | 'mlpIn' | 'activate' | 'down' | 'head' | 'sample'} Stage */

/**
 * A stage of the forward pass, all together since the trace began.
 * @typedef {object} StageTrace
 * @property {Stage} stage    "host" is what lies between two calls of the engine while it generates; "embed", "norm"
 *   (and activations quantized), "qkv", "kv" (rotated and stored), "attend", "o", "mlpIn", "activate", "down", "head",
 *   "sample"
 * @property {number} [layer]  with byLayer, of stages that have one
 * @property {number} ms       on the thread that leads, its waits for others included, less what looking at the clock costs
 * @property {number} calls
 * @property {number} weightBytes  weights read, once per batch
 * @property {number} kvBytes      of the KV cache, read by "attend", written by "kv"
 * @property {number} macs         multiplications with weights and with what is cached
 * @property {number} GBps         both kinds of bytes by that time, in 10^9 per second
 */

/**
 * @typedef {object} MemoryInfo
 * @property {number} used   bytes of the heap in use
 * @property {number} peak   the most there ever was
 * @property {number} heap   bytes of the heap
 * @property {number} total  bytes of the wasm memory: heap, stack and static data
 */

/**
 * @typedef {Closable & SessionMethods} Session
 */

/**
 * @typedef {object} SessionMethods
 * @property {(prompt: string | ArrayLike<number>, options?: GenerateOptions) => Generation} generate  continues a text (BOS is
 *   added as the tokenizer does) or tokens, which become the session's token sequence; tokens that it begins with already are not computed again
 * @property {(options?: GenerateOptions) => Generation} continue  continues the session's token sequence
 * @property {(prompt: string | ArrayLike<number>, options: string[], more?: Pick<ChooseOptions, 'signal' | 'onProgress'>) => Promise<Chosen>} choose
 *   how likely each of these texts is after a prompt, which becomes the token sequence; []: after the sequence as it is
 * @property {(more: string | ArrayLike<number>, options?: AppendOptions) => Promise<SessionStats>} append  computes more of the timeline
 * @property {(tokens: number) => Promise<SessionStats>} truncate  keeps so many of the timeline's first tokens
 * @property {() => Promise<Session>} fork  another session that goes on from here; they share what is computed already
 * @property {() => Promise<Uint8Array>} save  its tokens and what was computed for them
 * @property {(saved: Uint8Array) => Promise<SessionStats>} restore  goes on from what was saved, by the same model. MISMATCH
 * @property {() => Promise<number[]>} tokens  of the timeline, those generated included
 * @property {() => Promise<SessionStats>} stats
 * @property {(options?: TraceOptions) => Promise<StageTrace[]>} trace  where the time went since it was switched on; off
 *   until then, and then it costs nothing
 * @property {() => Promise<void>} close
 */

/**
 * @typedef {Closable & ModelMethods} Model
 */

/**
 * @typedef {object} ModelMethods
 * @property {ModelInfo} info
 * @property {Promise<void>} loaded  settles when all bytes are in place
 * @property {() => Promise<void>} pauseDownload   asks for no more bytes of a model that is loading
 * @property {() => Promise<void>} resumeDownload  goes on where it was
 * @property {(text: string, options?: TokenizeOptions) => Promise<number[]>} tokenize
 * @property {(ids: ArrayLike<number>) => Promise<string>} detokenize
 * @property {(text: string) => Promise<number | null>} tokenId  the token with exactly this text, special ones included
 * @property {(options?: SessionOptions) => Promise<Session>} createSession  options: default those of `load`
 * @property {(source: SourceLike, options?: AdapterOptions) => Promise<Adapter>} loadAdapter  PEFT's safetensors, or GGUF, into the
 *   bytes that `adapterBytes` of `load` keeps. NOMEM, SHAPE, UNSUPPORTED, FORMAT
 * @property {(options?: ChatOptions) => Promise<Chat>} createChat
 * @property {(prompt: string | ArrayLike<number> | MessageLike[], options?: CompleteOptions) => Generation} generate  continues a text or its
 *   tokens, or replies to messages, in the pooled session with the longest cached prefix. Options of CompleteOptions alone are for messages
 * @property {{ completions: { create: Create<ChatCompletionRequest, ChatCompletion, ChatCompletionChunk>, runTools: RunTools } }} chat  OpenAI's
 *   calls, as those that follow
 * @property {{ create: Create<TextCompletionRequest, TextCompletion, TextCompletion> }} completions
 * @property {{ create: (request: EmbeddingRequest, options?: { signal?: AbortSignal }) => Promise<EmbeddingList> }} embeddings
 * @property {(messages: MessageLike[], options?: PromptOptions & { prefix?: string }) => Promise<number>} countTokens  of the prompt that
 *   these messages make
 * @property {(texts: string | (string | ArrayLike<number>)[], options?: EmbedOptions) => Promise<Embeddings>} embed  vectors that
 *   stand for what texts mean; ids are taken as they are
 * @property {(prompt: string | ArrayLike<number> | MessageLike[], options: string[], more?: ChooseOptions) => Promise<Chosen>} choose  how
 *   likely each of these texts is as what follows, or as the reply's beginning
 * @property {(messages: MessageLike[], options?: PromptStateOptions) => Promise<Uint8Array>} savePromptCache  what conversations that begin
 *   with these messages have in common, computed
 * @property {(state: Uint8Array) => Promise<{ tokens: number }>} loadPromptCache  so that replies need not compute it. MISMATCH, FORMAT,
 *   TRUNCATED, UNSUPPORTED
 * @property {(text: string | ArrayLike<number>, options?: ScoreOptions) => Promise<Score>} score  how likely each token of a text is, and its perplexity
 * @property {(query: string, documents: string[], options?: RerankOptions) => Promise<Ranked[]>} rerank  documents by relevance, by a
 *   cross-encoder or an embedding model. UNSUPPORTED
 * @property {(texts: string | (string | ArrayLike<number> | { text: string, textPair: string })[], options?: ClassifyOptions) => Promise<Classified[]>} classify  by
 *   a classifier that is given, or the model's own
 * @property {(options?: TraceOptions) => Promise<StageTrace[]>} trace  of the sessions that replies are computed in
 * @property {() => Promise<MemoryInfo>} memory
 * @property {() => Promise<void>} close
 */

/** A text, or its parts. @typedef {string | (string | { type: 'text', text: string })[]} Content */

/**
 * @typedef {object} Message
 * @property {'system' | 'user' | 'assistant' | 'tool' | (string & {})} role  those of a template of its own, too
 * @property {string} content
 * @property {number[]} [tokens]  of a reply as it was generated: what was computed of it needn't be again
 * @property {string} [name]              this and what follows is for the model's template
 * @property {string} [reasoning_content]
 * @property {object[]} [tool_calls]
 * @property {string} [tool_call_id]
 */

/** @typedef {Omit<Message, 'content'> & { content?: Content | null }} MessageLike */

/** @typedef {{ system?: Content, messages?: MessageLike[], contextPolicy?: GenerateOptions['contextPolicy'] } & PromptOptions} ChatOptions */

/**
 * @typedef {object} ChatStats
 * @property {number} tokens   of the conversation that have been computed
 * @property {number} context  how many fit
 */

/**
 * @typedef {object} CompletionUsage
 * @property {number} prompt_tokens
 * @property {number} completion_tokens
 * @property {number} total_tokens
 * @property {{ cached_tokens: number }} prompt_tokens_details
 * @property {{ accepted_prediction_tokens: number, rejected_prediction_tokens: number }} completion_tokens_details  of guesses
 *   (`speculate`); those that were rejected are not among the completion's tokens
 */

/** Chunks of an answer. @template T @typedef {import('../api/openai/stream.js').ChunkStream<T>} ChunkStream */

/**
 * A call in OpenAI's shape: with `stream: true` it gives chunks.
 * @template {{ stream?: boolean | null }} B, W, C
 * @typedef {{ (request: B & { stream: true }, options?: CreateOptions): Promise<ChunkStream<C>>,
 *   (request: B & { stream?: false | null }, options?: CreateOptions): Promise<W>,
 *   (request: B, options?: CreateOptions): Promise<W | ChunkStream<C>> }} Create
 */

/**
 * @typedef {object} CreateOptions
 * @property {AbortSignal} [signal]
 * @property {number} [parallel]  choices that are generated at the same time, at most; default: as many as the model has sessions
 */

/**
 * Our extensions of a request in OpenAI's shape: options of a generation by the same names.
 * @typedef {Pick<GenerateOptions, 'adapter' | 'speculate' | 'contextPolicy'>} RequestExtensions
 */

/**
 * Our extensions of an answer in OpenAI's shape.
 * @typedef {object} AnswerExtensions
 * @property {string[]} [warnings]  what of `response_format` and `tools` was passed over, as a Result has it
 * @property {number} [shiftedTokens]  left out, with `contextPolicy`
 */

/**
 * What OpenAI's requests for completions have in common. Null is not given.
 * @typedef {object} CompletionFields
 * @property {string | null} [model]  for the answer, which names it
 * @property {boolean | null} [stream]
 * @property {{ include_usage?: boolean } | null} [stream_options]
 * @property {number | null} [n]  choices, as many at a time as the model has sessions; each has a seed of its own, one more than the one before
 * @property {string | string[] | null} [stop]
 * @property {number | null} [seed]
 * @property {number | null} [temperature]  defaults of these are those of GenerateOptions
 * @property {number | null} [top_p]
 * @property {number | null} [top_k]
 * @property {number | null} [min_p]
 * @property {number | null} [repeat_penalty]
 * @property {Record<string, number> | null} [logit_bias]  by token, -100 to 100
 * @property {number | null} [presence_penalty]
 * @property {number | null} [frequency_penalty]
 * @property {number | null} [max_tokens]
 * @property {RequestExtensions | null} [bq4]  what OpenAI's requests have no word for
 * @property {string | null} [user]  without effect, like the next
 * @property {object | null} [metadata]
 */

/**
 * @typedef {CompletionFields & { messages: readonly ChatMessage[], max_completion_tokens?: number | null, logprobs?: boolean | null, top_logprobs?: number | null,
 *   response_format?: ResponseFormat | JsonFormat | StandardSchema | null, tools?: readonly (ChatCompletionTool | { type: string })[] | null,
 *   tool_choice?: 'none' | 'auto' | 'required' | { type: 'function', function: { name: string } }
 *     | { type: 'allowed_tools', allowed_tools: { mode: 'auto' | 'required', tools: object[] } } | { type: 'custom', custom: object } | null, parallel_tool_calls?: boolean | null,
 *   chat_template_kwargs?: Record<string, unknown> | null }} ChatCompletionRequest
 */

/** OpenAI's and llama.cpp's forms of a JSON Schema. @typedef {{ type: 'json_object', schema?: object | boolean } | { type: 'json_schema', json_schema: { name?: string, description?: string, strict?: boolean | null, schema?: object | boolean } }} JsonFormat */

/** A tool with what it does. What `function` gives is told to the model: a text, or as JSON. @typedef {{ type: 'function', function: ChatCompletionTool['function'] & { function: (args: any, more: { signal?: AbortSignal, call: ToolCall }) => unknown } }} RunnableTool */

/**
 * `maxSteps`: replies at most, default 10. `toolErrors`: 'tell' the model of them (the default), or 'throw' TOOL.
 * @typedef {Omit<ChatCompletionRequest, 'tools' | 'stream' | 'n' | 'bq4'> & { tools: RunnableTool[], bq4?: RequestExtensions & { maxSteps?: number, toolErrors?: 'tell' | 'throw' } }} RunToolsRequest
 */

/**
 * A conversation with tools that has ended.
 * @typedef {object} ToolRun
 * @property {ChatMessage[]} messages  all of the conversation, those that were given included
 * @property {ChatCompletion[]} completions
 * @property {string | null} content  of the last reply; null: it was to be another call
 * @property {FinishReason | 'maxSteps'} finishReason
 */

/** @typedef {(request: RunToolsRequest, options?: { signal?: AbortSignal }) => Promise<ToolRun>} RunTools */

/**
 * A message as OpenAI has it, its client's own types included. Parts that are no text are refused; an answer's `refusal`, `annotations` and
 * `parsed` are passed over.
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
 * @property {object | null} [audio]  null only, as the next
 * @property {object | null} [function_call]
 */

/** @typedef {CompletionFields & { prompt: string | string[] | number[] | number[][], logprobs?: number | null, echo?: boolean | null }} TextCompletionRequest */

/** @typedef {{ input: string | string[] | number[] | number[][], model?: string, dimensions?: number | null, encoding_format?: 'float' | 'base64' | null, user?: string }} EmbeddingRequest */

/** A token and how likely it was. @typedef {{ token: string, logprob: number, bytes: number[] }} TokenLogprob */

/** @typedef {{ content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[], refusal: null } | null} ChoiceLogprobs */

/** @typedef {'stop' | 'length' | 'tool_calls'} FinishReason */

/** A call that the model asks for; `arguments` are JSON. @typedef {{ id: string, type: 'function', function: { name: string, arguments: string } }} ToolCall */

/** A function that may be called; `parameters` is a JSON Schema. @typedef {{ type: 'function', function: { name: string, description?: string, parameters?: object, strict?: boolean | null } }} ChatCompletionTool */

/**
 * A piece of a reply in OpenAI's shape; a choice's last has a `finish_reason`. With `include_usage` one more comes, which
 * has `usage` and no choices.
 * @typedef {object} ChatCompletionChunk
 * @property {string} id
 * @property {'chat.completion.chunk'} object
 * @property {number} created  seconds since 1970
 * @property {string} model
 * @property {{ index: number, delta: { role?: 'assistant', content?: string, reasoning_content?: string, tool_calls?: (ToolCall & { index: number })[] }, logprobs: ChoiceLogprobs, finish_reason: FinishReason | null }[]} choices
 * @property {CompletionUsage | null} [usage]
 * @property {AnswerExtensions} [bq4]  of the chunk that has the `finish_reason`
 */

/**
 * A whole reply in OpenAI's shape.
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
 * A text that goes on, or a piece of it, in OpenAI's shape.
 * @typedef {object} TextCompletion
 * @property {string} id
 * @property {'text_completion'} object
 * @property {number} created  seconds since 1970
 * @property {string} model
 * @property {{ index: number, text: string, logprobs: TextLogprobs | null, finish_reason: FinishReason | null }[]} choices
 * @property {CompletionUsage} [usage]
 * @property {AnswerExtensions} [bq4]
 */

/** Of the first token of an echoed prompt: null. @typedef {{ tokens: string[], token_logprobs: (number | null)[], top_logprobs: (Record<string, number> | null)[], text_offset: number[] }} TextLogprobs */

/** @typedef {{ object: 'list', model: string, data: { object: 'embedding', index: number, embedding: number[] | string }[], usage: { prompt_tokens: number, total_tokens: number } }} EmbeddingList */

/**
 * @typedef {Closable & EngineMethods} Engine
 */

/**
 * @typedef {object} EngineMethods
 * @property {EngineInfo} info
 * @property {EngineStore | null} store  null without a `cache`
 * @property {(source: SourceLike, options?: LoadOptions) => Promise<Plan>} plan
 * @property {(source: SourceLike, options?: LoadOptions) => Promise<Model>} load
 * @property {EventTarget} events  what happens to it, as CustomEvents: docs/reference/events.md names them
 * @property {() => Promise<void>} pause  computes nothing from when it settles on, whoever has asked
 * @property {() => Promise<void>} resume
 * @property {(pace: 'full' | 'slow') => Promise<void>} setPace  how much of the machine it takes; `slow`: one thread, half of the time
 * @property {() => Promise<MessagePort>} openPort  another way to this engine, for `connectEngine` wherever it is posted to
 * @property {() => Promise<void>} close
 */

/** Values of the options `background` and `pressure`. @typedef {'full' | 'slow' | 'pause'} Pace */

/**
 * What this version can load.
 * @typedef {object} Supported
 * @property {string[]} architectures  as configurations of models and GGUF files name them
 * @property {{ name: string, format: ChatFormat, example: string }[]} chatFormats  with the names that `createChat` takes; `example`: a short
 *   conversation in this format, as a model reads it
 * @property {{ bq4: string[], gguf: string[] }} weightTypes  by container
 * @property {string[]} containers
 */

/**
 * How tabs share an engine; the other options are of the one that leads.
 * @typedef {EngineOptions & { worker?: () => unknown, name?: string, leaderTimeout?: number }} SharedOptions  `name`: tabs with the same one share an engine;
 *   `leaderTimeout`: milliseconds after which a tab that leads and doesn't answer is taken for gone
 */

/**
 * @typedef {object} SharedInfo
 * @property {boolean} shared  with other tabs of the origin
 * @property {boolean} leads   it computes in a worker of this tab
 * @property {string} sharedReason  why it isn't shared
 */

/** @typedef {Omit<Engine, 'info'> & { info: EngineInfo & SharedInfo }} SharedEngine */

/** What `await using` closes. @typedef {{ [Symbol.asyncDispose]: () => Promise<void> }} Closable */

export {};
