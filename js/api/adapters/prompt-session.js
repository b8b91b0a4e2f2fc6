/**
 * A session of the Prompt API. It answers prompts one after another, in a conversation that is kept within the context.
 */
import { constraintOf, failure, promptOf, quotaError, turnsOf } from './prompt-input.js';

/** @import { Message, Model } from '../../shared/types.js' */
/** @import { Core, PromptInput, PromptOptions } from './prompt-input.js' */

/**
 * Creates a session with initial messages. Throws QuotaExceededError, OperationError.
 * @type {(SessionClass: any, model: Model, core: Core, initial: Message[], signal?: AbortSignal) => Promise<Session>}
 */
export let createSession;

/** Key that the constructor requires, so that pages can't call it. */
const CONSTRUCTOR_KEY = {};

/** Defines the event handler attributes `onNAME` of a class. @param {any} target  prototype @param {string[]} names */
export function defineEventHandlers(target, names) {
  for (const name of names) {
    /** @type {WeakMap<object, any>} */
    const handlersByObject = new WeakMap();
    Object.defineProperty(target, `on${name}`, {
      get() {
        return handlersByObject.get(this) ?? null;
      },
      set(handler) {
        if (!handlersByObject.has(this))
          this.addEventListener(name, (/** @type {Event} */ event) => handlersByObject.get(this)?.call(this, event));
        handlersByObject.set(this, typeof handler === 'function' ? handler : null);
      },
      enumerable: true,
      configurable: true,
    });
  }
}

/**
 * Converts a BqError to a DOMException. Other errors, such as aborts, are returned unchanged.
 * @param {any} error
 * @param {string} fallbackName  name of the exception
 */
export function toDomException(error, fallbackName) {
  if (error?.name !== 'BqError') return error;
  const { code, details, message } = error;
  if (code === 'CONTEXT_FULL') return quotaError(details.tokens, details.context);
  return failure(code === 'GRAMMAR' ? 'SyntaxError' : fallbackName, message, error);
}

/** Creates a controller that aborts when one of the signals aborts. @param {(AbortSignal | undefined)[]} signals */
function followAny(signals) {
  const controller = new AbortController();
  for (const signal of signals) {
    const abort = () => controller.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort, { signal: controller.signal });
  }
  return controller;
}

/**
 * Rejects as soon as the signal aborts.
 * @template T
 * @param {Promise<T>} work
 * @param {AbortSignal | undefined} signal
 * @returns {Promise<T>}
 */
export const rejectOnAbort = (work, signal) =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort);
    work.then(resolve, reject).finally(() => signal?.removeEventListener('abort', abort));
  });

/** The document; undefined in Node and in workers. */
const page = globalThis.document;

/** Throws InvalidStateError if the page was closed. */
export function checkPageOpen() {
  if (page && !page.defaultView) throw failure('InvalidStateError', 'the page was closed');
}

export class Session extends EventTarget {
  /** @type {Model} */
  #model;
  /** @type {Core} */
  #core;
  /** Messages that are never removed to make room. @type {Message[]} */
  #initial;
  /** Each entry is a prompt with its reply, or messages that were appended. @type {Message[][]} */
  #exchanges = [];
  #usage = 0;
  #lifetime = new AbortController();
  /** Settles when the last call has ended. Calls run one after another. @type {Promise<unknown>} */
  #queue = Promise.resolve();

  static {
    createSession = async (SessionClass, model, core, initial, signal) => {
      const session = new SessionClass(CONSTRUCTOR_KEY, model, core, initial);
      try {
        session.#usage = await session.#count(initial);
      } catch (error) {
        throw toDomException(error, 'OperationError');
      }
      if (session.#usage >= model.info.contextTokens) throw quotaError(session.#usage, model.info.contextTokens);
      signal?.addEventListener('abort', () => session.#lifetime.abort(signal.reason), {
        signal: session.#lifetime.signal,
      });
      return session;
    };
  }

  /** @param {object} key @param {Model} model @param {Core} core @param {Message[]} initial */
  constructor(key, model, core, initial) {
    if (key !== CONSTRUCTOR_KEY) throw new TypeError('Illegal constructor: use LanguageModel.create()');
    super();
    this.#model = model;
    this.#core = core;
    this.#initial = initial;
  }

  get contextUsage() {
    return this.#usage;
  }

  get contextWindow() {
    return this.#model.info.contextTokens;
  }

  get topK() {
    return this.#core.topK;
  }

  get temperature() {
    return this.#core.temperature;
  }

  get samplingMode() {
    return this.#core.samplingMode;
  }

  /** Returns the number of tokens of a conversation. @param {Message[]} messages */
  async #count(messages) {
    const { requested: tools } = this.#core;
    if (!messages.length && !tools.length) return 0;
    try {
      return await this.#model.countTokens(turnsOf(messages), tools.length ? { tools } : {});
    } catch (/** @type {any} */ error) {
      // A template may refuse a conversation without a user message, such as a single system message.
      if (error.code !== 'TEMPLATE' && error.code !== 'ARGUMENT') throw error;
      return (await this.#model.tokenize(messages.map(({ content }) => content).join('\n'))).length;
    }
  }

  /** @param {Message[][]} exchanges */
  #conversation = (exchanges) => [...this.#initial, ...exchanges.flat()];

  /** Returns the number of tokens that messages add to the conversation. @param {Message[]} messages */
  #countAdded = async (messages) =>
    Math.max((await this.#count([...this.#conversation(this.#exchanges), ...messages])) - this.#usage, 0);

  /**
   * Makes room for messages by removing the oldest exchanges. The initial messages always stay. Throws
   * QuotaExceededError.
   * @param {Message[]} messages
   */
  async #makeRoom(messages) {
    const { contextWindow } = this;
    let remaining = this.#exchanges;
    const requestedTokens = await this.#count([...this.#conversation(remaining), ...messages]);
    let tokens = requestedTokens;
    while (tokens >= contextWindow) {
      if (!remaining.length) throw quotaError(requestedTokens, contextWindow);
      remaining = remaining.slice(1);
      tokens = await this.#count([...this.#conversation(remaining), ...messages]);
    }
    if (remaining.length < this.#exchanges.length) {
      this.#exchanges = remaining;
      this.#usage = await this.#count(this.#conversation(remaining));
      for (const name of ['contextoverflow', 'quotaoverflow']) this.dispatchEvent(new Event(name));
    }
  }

  /**
   * Settles a call. Errors become DOMExceptions, and an abort rejects immediately.
   * @template T @param {AbortController} lifetime @param {Promise<T>} work @returns {Promise<T>}
   */
  #settle(lifetime, work) {
    const { signal } = lifetime;
    return rejectOnAbort(work, signal)
      .catch((error) => {
        throw signal.aborted ? signal.reason : toDomException(error, 'UnknownError');
      })
      .finally(() => lifetime.abort()); // removes the listeners on the caller's signals
  }

  /**
   * Runs a call after all earlier calls have ended.
   * @template T
   * @param {AbortController} lifetime
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #enqueue(lifetime, work) {
    const result = this.#queue.then(() => {
      lifetime.signal.throwIfAborted();
      return work();
    });
    this.#queue = result.catch(() => {});
    return this.#settle(lifetime, result);
  }

  /**
   * Yields the texts of a reply.
   * @param {Message[]} messages
   * @param {string} prefix
   * @param {any} responseFormat
   * @param {AbortSignal} signal
   */
  async *#reply(messages, prefix, responseFormat, signal) {
    const { temperature, topK, tools, requested } = this.#core;
    if (tools.length) {
      const { withTools } = await import('./prompt-tools.js').catch((cause) => {
        throw failure('NetworkError', cause.message, cause);
      });
      const request = { messages, temperature, top_k: topK, response_format: responseFormat, tools: requested };
      return yield* withTools(this.#model, request, tools, signal);
    }
    const reply = this.#model.generate(messages, {
      temperature,
      topK,
      prefix: prefix || undefined,
      responseFormat,
      signal,
    });
    for await (const { text } of reply) if (text) yield text;
    if (responseFormat && (await reply.result).finishReason !== 'stop')
      throw failure('SyntaxError', 'the reply does not fit into the context');
  }

  /**
   * Implements `prompt` and `promptStreaming`. An exchange that was aborted or failed does not change the conversation.
   * @param {any} input @param {any} options @param {AbortSignal} signal @param {(text: string) => void} onText
   */
  async #prompt(input, options, signal, onText) {
    const format = constraintOf(options);
    const { messages, prefix } = promptOf(input, this.#usage > 0);
    if (prefix && this.#core.tools.length) throw failure('NotSupportedError', 'a prefix and tools exclude each other');
    await this.#makeRoom(messages);
    const history = this.#conversation(this.#exchanges);
    let text = '';
    for await (const part of this.#reply(turnsOf([...history, ...messages]), prefix, format, signal)) {
      text += part;
      onText(part);
    }
    signal.throwIfAborted();
    await this.#addExchange([...messages, { role: 'assistant', content: prefix + text }]);
    return text;
  }

  /** Adds messages to the conversation. @param {Message[]} messages */
  async #addExchange(messages) {
    this.#usage += await this.#countAdded(messages);
    this.#exchanges.push(messages);
  }

  /**
   * Creates the controller of a call, which follows the session and the caller's signal.
   * @param {any} options  options of the call
   */
  #openLifetime({ signal } = /** @type {any} */ ({})) {
    checkPageOpen();
    const controller = followAny([this.#lifetime.signal, signal]);
    controller.signal.throwIfAborted();
    return controller;
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<string>} */
  async prompt(input, options) {
    const lifetime = this.#openLifetime(options);
    return this.#enqueue(lifetime, () => this.#prompt(input, options, lifetime.signal, () => {}));
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] @returns {ReadableStream<string>} */
  promptStreaming(input, options) {
    const lifetime = this.#openLifetime(options);
    const { signal } = lifetime;
    return new ReadableStream({
      start: (sink) => {
        const onText = (/** @type {string} */ text) => signal.aborted || sink.enqueue(text);
        const work = async () => {
          await this.#prompt(input, options, signal, onText);
          sink.close();
        };
        this.#enqueue(lifetime, work).catch((error) => sink.error(error));
      },
      cancel: () => lifetime.abort(),
    });
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<void>} */
  async append(input, options) {
    const lifetime = this.#openLifetime(options);
    return this.#enqueue(lifetime, async () => {
      const { messages, prefix } = promptOf(input, this.#usage > 0);
      if (prefix) messages.push({ role: 'assistant', content: prefix });
      await this.#makeRoom(messages);
      lifetime.signal.throwIfAborted();
      await this.#addExchange(messages);
    });
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<number>} */
  async measureContextUsage(input, options) {
    constraintOf(options);
    const { messages, prefix } = promptOf(input, false);
    const lifetime = this.#openLifetime(options);
    const [system, ...laterMessages] = messages;
    // Templates refuse a second system message, so it is counted as a user message.
    const countedMessages =
      system?.role === 'system' && this.#usage ? [{ ...system, role: 'user' }, ...laterMessages] : messages;
    if (prefix) countedMessages.push({ role: 'assistant', content: prefix });
    return this.#settle(lifetime, this.#countAdded(countedMessages));
  }

  /** @param {{ signal?: AbortSignal }} [options] @returns {Promise<Session>} */
  async clone(options) {
    return this.#enqueue(this.#openLifetime(options), async () => {
      const SessionClass = /** @type {any} */ (this.constructor);
      const clone = new SessionClass(CONSTRUCTOR_KEY, this.#model, this.#core, this.#initial);
      clone.#exchanges = [...this.#exchanges];
      clone.#usage = this.#usage;
      return clone;
    });
  }

  /** Ends running calls. The model stays loaded. */
  destroy() {
    this.#lifetime.abort(failure('AbortError', 'destroyed'));
  }

  get [Symbol.toStringTag]() {
    return 'LanguageModel';
  }
}
defineEventHandlers(Session.prototype, ['contextoverflow', 'quotaoverflow']);
// Earlier names of the specification, which extensions still use.
for (const [alias, name] of [
  ['inputUsage', 'contextUsage'],
  ['inputQuota', 'contextWindow'],
  ['measureInputUsage', 'measureContextUsage'],
])
  Object.defineProperty(
    Session.prototype,
    alias,
    /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(Session.prototype, name)),
  );
