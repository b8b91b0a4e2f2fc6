/** Types of a load: options, progress, and the load plan. */

/** @import { SourceLike } from './storage.js' */
/** @import { KvType } from '../names.js' */
/** @import { Pooling } from './embedding.js' */

/**
 * @typedef {object} LoadOptions
 * @property {number} [contextTokens]   tokens per session. Default: the model's own context, at most 4,096
 * @property {number} [sessions]  number of sessions that can be open at the same time. Default 1
 * @property {KvType} [kv]  type of the KV cache. Default i8; f16 for models whose keys have
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
 * @property {boolean | SourceLike} [promptCache]  source of a prompt cache written by `bq4 prompt-cache`; true: the
 *   file FILE.prompt next to the model. A prompt cache that can't be used is ignored, and `info.promptCache` has the
 *   reason. Not allowed with `streaming`
 * @property {boolean} [streaming]  whether `load` resolves as soon as the file's header is read. Sessions then wait for
 *   missing layers, and `model.loaded` settles when all layers are there
 */

/**
 * @typedef {object} Quality
 * @property {number[]} [skipLayers]  indices of layers to skip, from 0
 * @property {number} [exitLayer]    index of the first layer that is skipped with all layers after it
 * @property {number} [lmHeadFraction]  share of the LM head that is computed, above 0 and below 1; tokens of the other
 *   rows are never picked
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
 * @property {KvType} kv     type of the KV cache
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
 * @property {string | null} integrity  SHA-256 that the file must have (`sha256-…`): of the option, or of the hub's list
 *   of files; null if none is known
 * @property {string} [file]  for a name of a repository: the chosen file
 * @property {string} [fileReason]  why this file was chosen
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

export {};
