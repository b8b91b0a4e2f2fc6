/**
 * A conversation: messages, and a reply to them when something is said. It knows only `model.generate`, one call per
 * message, so it works in front of either engine; templates and tokens are the engine's.
 */
import { asyncDispose, follow } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { Generation } from '../../shared/generation.js';
import { checkOptions } from '../../shared/options.js';
import { messagesOf, saidBy } from './messages.js';

/** @import { ChatOptions, ChatStats, Content, GenerateOptions, Message, Model, Part, PromptOptions, Result, TraceOptions } from '../../shared/types.js' */

export class Chat {
  #model;
  #prompts;
  #messages;
  /** What has come of the reply under way. @type {string | null} */
  #reply = null;
  /** Ends the reply under way. @type {AbortController | null} */
  #life = null;
  #closed = false;
  /** Tokens of the conversation that have been computed. */
  #tokens = 0;

  /** @param {Model} model @param {Message[]} messages @param {PromptOptions & Pick<GenerateOptions, 'contextPolicy'>} prompts */
  constructor(model, messages, prompts) {
    this.#model = model;
    this.#messages = messages;
    this.#prompts = prompts;
  }

  /**
   * `model.createChat`. NO_CHAT, FORMAT, ARGUMENT (a role that the format lacks), CONTEXT_FULL.
   * @param {Model} model
   * @param {ChatOptions} [options]
   */
  static async create(model, options) {
    const { system, messages = [], contextPolicy, ...prompts } = checkOptions('createChat', options);
    const all = messagesOf(system === undefined ? messages : [{ role: 'system', content: system }, ...messages]);
    await model.countTokens(all, prompts);
    return new Chat(model, all, { ...prompts, contextPolicy });
  }

  /** The conversation so far, a copy; a reply under way is its last message. @returns {readonly Readonly<Message>[]} */
  get messages() {
    const all = this.#messages.map(({ tokens, ...message }) => Object.freeze(structuredClone(message)));
    if (this.#reply !== null) all.push(Object.freeze({ role: 'assistant', content: this.#reply }));
    return Object.freeze(all);
  }

  /**
   * Says something; the reply comes as it is generated. When it fails (CONTEXT_FULL, …) the conversation is as
   * before and `error.details.unsent` holds what was said; after an abort what came of the reply stays, and if nothing
   * came the conversation is as before.
   * @param {Content | Message | Message[]} content
   * @param {GenerateOptions} [options]
   */
  send(content, options) {
    return this.#generation(content, false, options);
  }

  /** Another reply to the last message: the one that was given is dropped. @param {GenerateOptions} [options] */
  regenerate(options) {
    return this.#generation(undefined, true, options);
  }

  /** The error with what was to be said. @param {unknown} error @param {any} said */
  static #unsent(error, said) {
    if (error instanceof BqError) error.details.unsent = said;
    return error;
  }

  /** @param {any} said @param {boolean} again @param {GenerateOptions} [options] */
  #generation(said, again, options) {
    const check = () => {
      try {
        return checkOptions('complete', options);
      } catch (error) {
        throw again ? error : Chat.#unsent(error, said);
      }
    };
    return Generation.of(check, (_, end, reading) => this.#answer(said, again, options, end, reading));
  }

  /** @returns {Promise<ChatStats>} */
  async stats() {
    return { tokens: this.#tokens, context: this.#model.info.contextTokens };
  }

  /** As of the model. @param {TraceOptions} [options] */
  trace(options) {
    return this.#model.trace(options);
  }

  /** Ends a reply under way, and says no more. */
  async close() {
    this.#closed = true;
    this.#life?.abort(new BqError('CLOSED', 'the chat was closed'));
  }

  [asyncDispose]() {
    return this.close();
  }

  /**
   * @param {any} said
   * @param {boolean} again  answers the last message once more
   * @param {GenerateOptions | undefined} options
   * @param {(result: Result) => void} end
   * @param {import('../../shared/generation.js').Reading} reading
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#answer(said, again, options, end, { signal, reader }) {
    if (this.#closed) throw new BqError('CLOSED', 'the chat was closed');
    if (this.#life) throw new BqError('STATE', 'a reply is under way');
    const before = this.#messages;
    const life = follow(signal);
    this.#life = life.controller;
    let kept = false;
    try {
      if (!again) this.#messages = [...before, ...saidBy(said)];
      else if (before.at(-1)?.role === 'assistant') this.#messages = before.slice(0, -1);
      if (!this.#messages.length)
        throw new BqError('STATE', 'there is nothing to answer', { hint: 'send a message first' });
      const asked = { ...this.#prompts, ...options, signal: life.signal };
      const run = this.#model.generate(this.#messages, asked).readBy(reader);
      try {
        for await (const part of run) {
          this.#reply = (this.#reply ?? '') + part.text;
          yield part;
        }
      } finally {
        const result = await run.result.catch(() => null);
        // Stopped before anything came: as if it had not been said.
        kept = result !== null && (result.tokens.length > 0 || result.finishReason !== 'abort');
        if (result && kept) this.#keep(result);
        if (result) end(result);
      }
    } catch (error) {
      throw again ? error : Chat.#unsent(error, said);
    } finally {
      life.release();
      if (!kept) this.#messages = before;
      this.#life = this.#reply = null;
    }
  }

  /** A reply into the conversation, unless nothing came of it, not even an end. @param {Result} result */
  #keep({ tokens, text, reasoning, toolCalls = [], stop, usage }) {
    this.#tokens = usage.promptTokens + Math.max(tokens.length - 1, 0);
    if (!tokens.length) return;
    // Its own tokens, without the one that ended it; where a text was cut off, or reasoning left out, they are not the text's.
    const own = stop === null ? tokens : tokens.slice(0, -1);
    const tool_calls = toolCalls.map(({ id, ...called }) => ({
      type: 'function',
      ...(id && { id }),
      function: called,
    }));
    const said = tool_calls.length ? { tool_calls } : typeof stop !== 'string' && !reasoning && { tokens: own };
    this.#messages = [...this.#messages, { role: 'assistant', content: text, ...said }];
  }
}
