/**
 * A conversation: messages, and a reply to each message that is sent. It only uses `model.generate`, one call per
 * message, so it works with an engine in this thread or in another one. The engine handles templates and tokens.
 */
import { asyncDispose, follow } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { Generation } from '../../shared/generation.js';
import { checkOptions } from '../../shared/options.js';
import { messagesOf, toMessages } from './messages.js';

/** @import { ChatOptions, ChatStats, Content, GenerateOptions, Message, Model, Part, PromptOptions, Result, TraceOptions } from '../../shared/types.js' */

export class Chat {
  #model;
  #prompts;
  #messages;
  /** Text of the running reply so far. @type {string | null} */
  #reply = null;
  /** Aborts the running reply. @type {AbortController | null} */
  #lifetime = null;
  #isClosed = false;
  /** Number of tokens of the conversation that have been computed. */
  #tokens = 0;

  /**
   * @param {Model} model
   * @param {Message[]} messages
   * @param {PromptOptions & Pick<GenerateOptions, 'contextPolicy'>} prompts
   */
  constructor(model, messages, prompts) {
    this.#model = model;
    this.#messages = messages;
    this.#prompts = prompts;
  }

  /**
   * Implements `model.createChat`. Throws NO_CHAT, FORMAT, ARGUMENT (a role that the format lacks), CONTEXT_FULL.
   * @param {Model} model
   * @param {ChatOptions} [options]
   */
  static async create(model, options) {
    const { system, messages = [], contextPolicy, ...prompts } = checkOptions('createChat', options);
    const initialMessages = messagesOf(messages);
    if (system !== undefined) initialMessages.unshift(...messagesOf([{ role: 'system', content: system }]));
    await model.countTokens(initialMessages, prompts);
    return new Chat(model, initialMessages, { ...prompts, contextPolicy });
  }

  /** Copy of the conversation so far. A running reply is its last message. @returns {readonly Readonly<Message>[]} */
  get messages() {
    const copies = this.#messages.map(({ tokens, ...message }) => Object.freeze(structuredClone(message)));
    if (this.#reply !== null) copies.push(Object.freeze({ role: 'assistant', content: this.#reply }));
    return Object.freeze(copies);
  }

  /**
   * Sends a message and generates a reply. If it fails (CONTEXT_FULL, …), the conversation is unchanged, and
   * `error.details.unsent` contains the message. After an abort the text generated so far becomes part of the
   * conversation. If there is no text, the conversation is unchanged.
   * @param {Content | Message | Message[]} content
   * @param {GenerateOptions} [options]
   */
  send(content, options) {
    return this.#startReply(content, false, options);
  }

  /** Replaces the last reply by a new one. @param {GenerateOptions} [options] */
  regenerate(options) {
    return this.#startReply(undefined, true, options);
  }

  /** Adds the unsent message to an error. @param {unknown} error @param {any} content */
  static #addUnsent(error, content) {
    if (error instanceof BqError) error.details.unsent = content;
    return error;
  }

  /** @param {any} content @param {boolean} isRegenerated @param {GenerateOptions} [options] */
  #startReply(content, isRegenerated, options) {
    const check = () => {
      try {
        return checkOptions('generate or send', options);
      } catch (error) {
        throw isRegenerated ? error : Chat.#addUnsent(error, content);
      }
    };
    return Generation.check(check, (_, end, reading) =>
      this.#generateReply(content, isRegenerated, options, end, reading),
    );
  }

  /** @returns {Promise<ChatStats>} */
  async stats() {
    this.#checkOpen();
    return { tokens: this.#tokens, context: this.#model.info.contextTokens };
  }

  /** Calls `model.trace`. Throws CLOSED. @param {TraceOptions} [options] */
  async trace(options) {
    this.#checkOpen();
    return this.#model.trace(options);
  }

  /** Aborts a running reply. Later calls fail with CLOSED. */
  async close() {
    this.#isClosed = true;
    this.#lifetime?.abort(new BqError('CLOSED', 'the chat was closed'));
  }

  #checkOpen() {
    if (this.#isClosed) throw new BqError('CLOSED', 'the chat was closed');
  }

  [asyncDispose]() {
    return this.close();
  }

  /**
   * @param {any} content
   * @param {boolean} isRegenerated  whether the last reply is replaced
   * @param {GenerateOptions | undefined} options
   * @param {(result: Result) => void} end
   * @param {import('../../shared/generation.js').Reading} reading
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#generateReply(content, isRegenerated, options, end, { signal, reader }) {
    this.#checkOpen();
    if (this.#lifetime)
      throw new BqError('STATE', 'a reply is still being generated', { hint: 'await it or abort it first' });
    const previous = this.#messages;
    const lifetime = follow(signal);
    this.#lifetime = lifetime.controller;
    let isKept = false;
    try {
      if (!isRegenerated) this.#messages = [...previous, ...toMessages(content)];
      else if (previous.at(-1)?.role === 'assistant') this.#messages = previous.slice(0, -1);
      if (!this.#messages.length)
        throw new BqError('STATE', 'the conversation has no message to answer', { hint: 'send a message first' });
      const replyOptions = { ...this.#prompts, ...options, signal: lifetime.signal };
      const generation = this.#model.generate(this.#messages, replyOptions).readBy(reader);
      try {
        for await (const part of generation) {
          this.#reply = (this.#reply ?? '') + part.text;
          yield part;
        }
      } finally {
        const result = await generation.result.catch(() => null);
        // Aborted before the first token: the message does not become part of the conversation.
        isKept = result !== null && (result.tokens.length > 0 || result.finishReason !== 'abort');
        if (result && isKept) this.#addReply(result);
        if (result) end(result);
      }
    } catch (error) {
      throw isRegenerated ? error : Chat.#addUnsent(error, content);
    } finally {
      lifetime.release();
      if (!isKept) this.#messages = previous;
      this.#lifetime = this.#reply = null;
    }
  }

  /** Adds a reply to the conversation, unless it has no tokens. @param {Result} result */
  #addReply({ tokens, text, reasoning, toolCalls = [], stop, usage }) {
    this.#tokens = usage.promptTokens + Math.max(tokens.length - 1, 0);
    if (!tokens.length) return;
    // The tokens without the stop token are stored for the next prompt, unless they differ from the text because of a
    // stop string or reasoning.
    const textTokens = stop === null ? tokens : tokens.slice(0, -1);
    const tool_calls = toolCalls.map(({ id, ...call }) => ({
      type: 'function',
      ...(id && { id }),
      function: call,
    }));
    const extraFields = tool_calls.length
      ? { tool_calls }
      : typeof stop !== 'string' && !reasoning && { tokens: textTokens };
    this.#messages = [...this.#messages, { role: 'assistant', content: text, ...extraFields }];
  }
}
