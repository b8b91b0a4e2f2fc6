/** Types of messages, chats, and of the way in which messages become a prompt. */

/** @import { GenerateOptions, PrefillProgress } from './generation.js' */

/** @typedef {import('../../api/chat/chat.js').Chat} Chat */

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
 * @typedef {PromptOptions & { signal?: AbortSignal, onProgress?: (progress: PrefillProgress) => void }} PromptCacheOptions
 */

/**
 * @typedef {{ system?: Content, messages?: MessageLike[], contextPolicy?: GenerateOptions['contextPolicy'] } & PromptOptions} ChatOptions
 */

/**
 * @typedef {object} ChatStats
 * @property {number} tokens   tokens of the conversation that have been computed
 * @property {number} context  largest number of tokens
 */

export {};
