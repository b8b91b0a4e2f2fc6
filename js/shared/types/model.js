/** Types of a loaded model: its information, its methods, and its adapters. */

/** @import { Closable } from './engine.js' */
/** @import { SourceLike } from './storage.js' */
/** @import { Plan } from './load.js' */
/** @import { Classified, ClassifyOptions, EmbedOptions, Embeddings, Ranked, RerankOptions, Score, ScoreOptions } from './embedding.js' */
/** @import { ChooseOptions, Chosen, Generation } from './generation.js' */
/** @import { Session, SessionOptions, StageTrace, TraceOptions } from './session.js' */
/** @import { Chat, ChatFormat, ChatOptions, CompleteOptions, MessageLike, PromptOptions, PromptCacheOptions } from './chat.js' */
/** @import { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest, Create, EmbeddingList, EmbeddingRequest, RunTools, TextCompletion, TextCompletionRequest } from './openai.js' */

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
 * Fields of a loaded model in addition to those of its plan.
 * @typedef {object} ModelFields
 * @property {string} id  identifies the model among all models that were loaded
 * @property {boolean} authenticated  whether the plan has an `integrity`; no token is computed from a file with another hash
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
 * @typedef {object} MemoryInfo
 * @property {number} used   bytes of the heap in use
 * @property {number} peak   largest number of bytes of the heap that were in use
 * @property {number} heap   bytes of the heap
 * @property {number} total  bytes of the wasm memory: heap, stack and static data
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
 * @property {(messages: MessageLike[], options?: PromptCacheOptions) => Promise<Uint8Array>} savePromptCache  Returns
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

export {};
