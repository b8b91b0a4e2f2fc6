/** Types of a generation: options, parts, result; and of the choice between given answers. */

/** @import { PromptOptions } from './chat.js' */

/** @typedef {import('../generation.js').Generation} Generation */

/** @typedef {import('../generate-options.js').GenerateOptions} GenerateOptions */

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
