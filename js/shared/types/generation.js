/** Types of a generation: options, parts, result; and of the choice between given answers. */

/** @import { Adapter, Model } from './model.js' */
/** @import { PromptOptions } from './chat.js' */

/** @typedef {import('../generation.js').Generation} Generation */

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
 * @property {number} firstTokenMs  until the first token, including `prefillMs`
 * @property {number} decodeMs      from the first token to the last
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

export {};
