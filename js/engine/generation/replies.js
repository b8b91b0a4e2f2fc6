/** Generates replies and texts in sessions of the model's pool. */
import { checkCall, isMessages, TABLE } from '../../remote/port/methods.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { Generation } from '../../shared/generation.js';
import { unlessAborted } from '../../shared/async.js';
import { after, now, timeout } from '../../shared/timeouts.js';
import { SessionPool } from '../model/session-pool.js';
import { Prompts } from '../prompt/chat-prompt.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { PreparedCalls } from '../prompt/tool-prompt.js' */
/** @import { Reading } from '../../shared/generation.js' */
/** @import { CompleteOptions, GenerateOptions, MessageLike, Part, PromptOptions, Result, TraceOptions } from '../../shared/types.js' */

/** Returns whether another thread has aborted the generation. @typedef {() => boolean} Aborted */

/** Largest number of calls that may wait for a session. */
const MAX_WAITING = 1000;

export class Replies {
  #model;
  #prompts;
  #pool;
  /** Traced sessions of the pool; null: tracing is off. @type {WeakSet<LocalSession> | null} */
  #traced = null;
  /** Calls that wait for a session, in order. The first one is woken to try again. @type {{ wake: () => void }[]} */
  #queue = [];

  /**
   * @param {LocalModel} model
   * @param {() => LocalSession | null} create  creates a session; returns null if there is no room for another one
   */
  constructor(model, create) {
    this.#model = model;
    this.#prompts = new Prompts(model);
    this.#pool = new SessionPool(create);
  }

  /**
   * Takes a session for a prompt, or waits for one if all are in use. Throws NO_SESSION instead of waiting if no
   * session in use has been read from for a while. Throws CLOSED.
   * @param {ArrayLike<number>} tokens @param {string | null} [adapter]  id of the adapter @param {AbortSignal} [signal]
   */
  async take(tokens, adapter = null, signal) {
    const session = this.#queue.length ? null : this.#pool.take(tokens, adapter);
    return this.#setAdapter(session ?? (await this.#waitForSession(tokens, adapter, signal)), adapter);
  }

  /**
   * Takes a session without waiting, for a caller that must not wait because it holds a session itself.
   * Throws NO_SESSION.
   * @param {ArrayLike<number>} tokens
   */
  takeNow(tokens) {
    const session = this.#pool.take(tokens, null);
    if (!session) throw this.#model.noSession();
    return this.#setAdapter(session, null);
  }

  /** @param {ArrayLike<number>} tokens @param {string | null} adapter @param {AbortSignal} [signal] */
  async #waitForSession(tokens, adapter, signal) {
    if (this.#queue.length >= MAX_WAITING)
      throw new BqError('NO_SESSION', `${MAX_WAITING} calls are already waiting for a session`);
    const waiter = { wake: () => {} };
    this.#queue.push(waiter);
    try {
      for (;;) {
        this.#model.check();
        if (this.#queue[0] === waiter) {
          const session = this.#pool.take(tokens, adapter);
          if (session) return session;
          if (!this.#pool.hasActive(now() - timeout('sessionWait'))) throw this.#model.noSession();
        }
        let stop = () => {};
        const signalled = new Promise((resolve) => {
          waiter.wake = () => resolve(undefined);
          stop = after('sessionLook', waiter.wake);
        });
        await unlessAborted(signalled, signal).finally(stop);
      }
    } finally {
      this.#queue.splice(this.#queue.indexOf(waiter), 1);
      this.wake();
    }
  }

  /** Wakes the first waiting call after sessions have changed. */
  wake() {
    this.#queue[0]?.wake();
  }

  /** @param {LocalSession} session @param {string | null} adapter */
  #setAdapter(session, adapter) {
    try {
      session.useAdapter(adapter);
    } catch (error) {
      this.give(session);
      throw error;
    }
    return session;
  }

  /** Removes an adapter from idle sessions. @param {string} adapter  id of the adapter */
  dropAdapter(adapter) {
    this.#pool.dropAdapter(adapter);
  }

  /** Returns a session to the pool. @param {LocalSession} session */
  give(session) {
    this.#pool.give(session);
    this.wake();
  }

  /** Closes an idle session. @returns {boolean}  false: no session was idle */
  evict() {
    return this.#pool.evict();
  }

  /**
   * Returns the tokens of the prompt for a reply.
   * @param {MessageLike[]} messages @param {PromptOptions & { prefix?: string }} [options]
   */
  async tokens(messages, options) {
    const asMessages = /** @type {any} */ (messages);
    const calls = await this.#prepareCalls(asMessages, { chatFormat: options?.chatFormat, tools: options?.tools });
    return (await this.#prompts.makePrompt(calls?.messages ?? asMessages, options)).tokens;
  }

  /**
   * Converts a conversation with tools. Returns undefined for a conversation without tools. Throws ARGUMENT.
   * @param {import('../../shared/types.js').Message[]} messages
   * @param {Pick<CompleteOptions, 'chatFormat' | 'tools' | 'toolChoice'>} options
   */
  async #prepareCalls(messages, options) {
    if (!options.toolChoice && !messages.some(({ role, tool_calls }) => role === 'tool' || tool_calls))
      return undefined;
    return (await onDemand(import('../prompt/tool-prompt.js'))).prepareCalls(this.#model, messages, options);
  }

  /**
   * Generates a reply to messages, or the continuation of a text.
   * @param {string | ArrayLike<number> | MessageLike[]} prompt @param {CompleteOptions} [options]
   * @param {Aborted} [aborted]
   */
  generate = (prompt, options, aborted) =>
    Generation.check(
      () => checkCall(TABLE.model.generate, [prompt, options]),
      (call, end, reading) =>
        isMessages(prompt) ? this.#reply(call, aborted, end, reading) : this.#text(call, aborted, end, reading),
    );

  /**
   * @param {ReturnType<typeof checkCall>} call @param {Aborted | undefined} aborted
   * @param {(result: Result) => void} end @param {Reading} reading
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#text({ args: [checked], options, onProgress }, aborted, end, reading) {
    const tokens = typeof checked === 'string' ? this.#model.encode(checked) : checked;
    const generation = await this.#startGeneration(tokens, { ...options, onProgress }, aborted, reading);
    try {
      yield* generation.parts;
    } finally {
      generation.close();
      const result = await generation.parts.result.catch(() => null);
      if (result) end(result);
    }
  }

  /**
   * @param {ReturnType<typeof checkCall>} call @param {Aborted | undefined} aborted
   * @param {(result: Result) => void} end @param {Reading} reading
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#reply(
    {
      args: [checked],
      options: {
        chatFormat,
        prefix,
        tools: offeredTools,
        templateVariables,
        toolChoice,
        parallelToolCalls,
        ...options
      },
      onProgress,
    },
    aborted,
    end,
    reading,
  ) {
    const { signal, reader } = reading;
    if (!checked.length) throw new BqError('ARGUMENT', 'expected at least one message, found none');
    this.#model.checkGenerates();
    const calls = await this.#prepareCalls(checked, { chatFormat, tools: offeredTools, toolChoice });
    const conversation = calls ? calls.messages : checked;
    const promptOptions = { chatFormat, prefix, tools: calls ? calls.tools : offeredTools, templateVariables };
    const { contextPolicy = 'error', receipt } = options;
    const fitResult =
      receipt || contextPolicy !== 'error'
        ? await (
            await onDemand(import('../prompt/context-policy.js'))
          ).fitConversation(this, this.#model, conversation, promptOptions, { ...options, signal }, aborted)
        : null;
    const {
      tokens,
      stop,
      stopTokens,
      end: promptEnd,
    } = await this.#prompts.makePrompt(fitResult?.messages ?? conversation, promptOptions);
    const reasoningParser = await this.#reasoningParserFor(chatFormat, promptEnd);
    const partOptions = { ...options, toolChoice, parallelToolCalls };
    const replyParts = await this.#replyPartsFor(partOptions, reasoningParser, calls);
    const partFilter = replyParts ?? reasoningParser;
    const stops = {
      stop: [...stop, ...[options.stop ?? []].flat()],
      stopTokens: [...stopTokens, ...(options.stopTokens ?? [])],
    };
    const runOptions = { ...options, ...fitResult?.generateOptions, ...stops, onProgress };
    const generation = await this.#startGeneration(tokens, runOptions, aborted, reading, replyParts).catch((error) => {
      replyParts?.close();
      throw error;
    });
    try {
      yield* partFilter ? partFilter.parts(generation.parts) : generation.parts;
    } finally {
      generation.close();
      const result = await generation.parts.result.catch(() => null);
      if (result)
        await fitResult?.report(result, generation.session, tokens, { ...stops, sections: Boolean(replyParts) });
      if (result) end(partFilter ? partFilter.result(result, reader?.readCount ?? Infinity) : result);
    }
  }

  /**
   * Starts a generation in a session of the pool. `close` of the result returns the session to the pool.
   * Throws NO_SESSION.
   * @param {ArrayLike<number>} tokens @param {GenerateOptions} options @param {Aborted | undefined} aborted
   * @param {Reading} reading @param {import('./reply-parts.js').ReplyParts | null} [replyParts]
   */
  async #startGeneration(tokens, options, aborted, { signal, reader }, replyParts) {
    const adapter = /** @type {any} */ (options).adapter ?? null;
    const session = await this.take(tokens, adapter, signal);
    const close = () => this.give(session);
    try {
      const { sessions } = this.#pool;
      if (sessions.size > 1) await session.copyCacheFrom(sessions, tokens, adapter);
      if (this.#traced && !this.#traced.has(session)) await session.trace({ on: true });
    } catch (error) {
      close();
      throw error;
    }
    this.#traced?.add(session);
    const parts = session.generate(tokens, { ...options, signal }, aborted, replyParts).readBy(reader);
    return { parts, close, session };
  }

  /**
   * Returns a parser of reasoning; null if neither the chat format nor the template has marks for reasoning.
   * @param {any} format @param {string} prompt  last text of the prompt
   */
  async #reasoningParserFor(format, prompt) {
    const { chatFormat: chat, chatTemplate: template } = this.#model.info;
    const marks = (format ?? chat)?.think;
    if (!marks && (format || !template.toLowerCase().includes('think'))) return null;
    const { ReasoningParser } = await onDemand(import('../../api/chat/reasoning.js'));
    return ReasoningParser.forPrompt(marks, template, prompt, this.#model);
  }

  /**
   * Returns the constrained sections of a reply; null if the reply is only free text.
   * @param {CompleteOptions} options
   * @param {import('../../api/chat/reasoning.js').ReasoningParser | null} reasoningParser
   * @param {Pick<PreparedCalls, 'form' | 'callable'> | undefined} calls
   */
  async #replyPartsFor(options, reasoningParser, calls) {
    const { type = 'text' } = /** @type {any} */ (options.responseFormat ?? {});
    if (!calls?.callable.length && (!reasoningParser || type === 'text')) return null;
    const { replyPartsFor } = await onDemand(import('../prompt/tool-prompt.js'));
    const { form = null, callable = [] } = calls ?? {};
    const marks = reasoningParser?.marks ?? null;
    return replyPartsFor(this.#model, { reasoningParser, marks, options, form, callable });
  }

  /**
   * Returns the merged trace of all sessions of the pool; `on` starts or stops tracing.
   * @param {TraceOptions} options
   */
  async trace(options) {
    const { mergeTraces } = await onDemand(import('../model/trace.js'));
    if (options.on !== undefined) this.#traced = options.on ? new WeakSet(this.#pool.sessions) : null;
    return mergeTraces(await Promise.all([...this.#pool.sessions].map((session) => session.trace(options))));
  }
}
