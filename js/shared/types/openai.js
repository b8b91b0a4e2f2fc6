/** Types of OpenAI's interface: requests, answers, tools. */

/** @import { GenerateOptions, ResponseFormat, StandardSchema } from './generation.js' */
/** @import { Message } from './chat.js' */

/**
 * @typedef {object} CreateOptions
 * @property {AbortSignal} [signal]
 * @property {number} [parallel]  largest number of choices that are generated at the same time. Default: the model's
 *   number of sessions
 */

/**
 * A call in OpenAI's shape. With `stream: true` it returns chunks.
 * @template {{ stream?: boolean | null }} B, W, C
 * @typedef {{ (request: B & { stream: true }, options?: CreateOptions): Promise<ChunkStream<C>>,
 *   (request: B & { stream?: false | null }, options?: CreateOptions): Promise<W>,
 *   (request: B, options?: CreateOptions): Promise<W | ChunkStream<C>> }} Create
 */

/** Chunks of an answer. @template T @typedef {import('../../api/openai/stream.js').ChunkStream<T>} ChunkStream */

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
 * A function that the model can call. `parameters` is a JSON Schema.
 * @typedef {{ type: 'function', function: { name: string, description?: string, parameters?: object,
 *   strict?: boolean | null } }} ChatCompletionTool
 */

/**
 * A call of a tool in a reply. `arguments` is JSON.
 * @typedef {{ id: string, type: 'function', function: { name: string, arguments: string } }} ToolCall
 */

/** @typedef {'stop' | 'length' | 'tool_calls'} FinishReason */

/** A token and its log probability. @typedef {{ token: string, logprob: number, bytes: number[] }} TokenLogprob */

/** @typedef {{ content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[], refusal: null } | null} ChoiceLogprobs */

/**
 * @typedef {object} CompletionUsage
 * @property {number} prompt_tokens
 * @property {number} completion_tokens
 * @property {number} total_tokens
 * @property {{ cached_tokens: number }} prompt_tokens_details
 * @property {{ accepted_prediction_tokens: number, rejected_prediction_tokens: number }} completion_tokens_details
 *   counts of draft tokens (`speculate`); rejected ones are not included in `completion_tokens`
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
 * @typedef {CompletionFields & { prompt: string | string[] | number[] | number[][], logprobs?: number | null,
 *   echo?: boolean | null }} TextCompletionRequest
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
 * @typedef {{ input: string | string[] | number[] | number[][], model?: string, dimensions?: number | null,
 *   encoding_format?: 'float' | 'base64' | null, user?: string }} EmbeddingRequest
 */

/**
 * @typedef {{ object: 'list', model: string, data: { object: 'embedding', index: number, embedding: number[] | string }[],
 *   usage: { prompt_tokens: number, total_tokens: number } }} EmbeddingList
 */

/**
 * @typedef {{ object: 'list', model: string, usage: { prompt_tokens: number, total_tokens: number },
 *   results: { index: number, relevance_score: number, document?: { text: string } }[] }} RerankAnswer
 */

export {};
