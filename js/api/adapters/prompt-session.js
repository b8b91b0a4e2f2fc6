/** A session of the Prompt API: prompts one after the other, over one conversation that stays within the context. */
import { constraintOf, failure, promptOf, quotaError, turnsOf } from './prompt-input.js';

/** @import { Message, Model } from '../../shared/types.js' */
/** @import { Core, PromptInput, PromptOptions } from './prompt-input.js' */

/** A session that holds these messages. QuotaExceededError, OperationError. @type {(Own: any, model: Model, core: Core, initial: Message[], signal?: AbortSignal) => Promise<Session>} */
export let make;

/** What the constructor is called with: pages can't. */
const SECRET = {};

/** An attribute `onNAME`. @param {any} target @param {string[]} names */
export function handlers(target, names) {
  for (const name of names) {
    /** @type {WeakMap<object, any>} */
    const set = new WeakMap();
    Object.defineProperty(target, `on${name}`, {
      get() {
        return set.get(this) ?? null;
      },
      set(handler) {
        if (!set.has(this))
          this.addEventListener(name, (/** @type {Event} */ event) => set.get(this)?.call(this, event));
        set.set(this, typeof handler === 'function' ? handler : null);
      },
      enumerable: true,
      configurable: true,
    });
  }
}

/** An error of ours as the DOM has it; aborts are told as they are. @param {any} error @param {string} otherwise  name of the exception */
export function told(error, otherwise) {
  if (error?.name !== 'BqError') return error;
  const { code, details, message } = error;
  if (code === 'CONTEXT_FULL') return quotaError(details.tokens, details.context);
  return failure(code === 'GRAMMAR' ? 'SyntaxError' : otherwise, message, error);
}

/** Aborts with any of these. @param {(AbortSignal | undefined)[]} signals */
function anyOf(signals) {
  const controller = new AbortController();
  for (const signal of signals) {
    const abort = () => controller.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort, { signal: controller.signal });
  }
  return controller;
}

/** Rejects as soon as the signal aborts. @template T @param {Promise<T>} work @param {AbortSignal | undefined} signal @returns {Promise<T>} */
export const until = (work, signal) =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort);
    work.then(resolve, reject).finally(() => signal?.removeEventListener('abort', abort));
  });

/** The page; none in Node and in workers. */
const page = globalThis.document;

/** InvalidStateError where the page is gone. */
export function active() {
  if (page && !page.defaultView) throw failure('InvalidStateError', 'the page is gone');
}

export class Session extends EventTarget {
  /** @type {Model} */
  #model;
  /** @type {Core} */
  #core;
  /** Never left out. @type {Message[]} */
  #initial;
  /** A prompt and its reply, or what was appended, each. @type {Message[][]} */
  #exchanges = [];
  #usage = 0;
  #life = new AbortController();
  /** The end of what was asked for last: one after the other. @type {Promise<unknown>} */
  #queue = Promise.resolve();

  static {
    make = async (Own, model, core, initial, signal) => {
      const made = new Own(SECRET, model, core, initial);
      try {
        made.#usage = await made.#count(initial);
      } catch (error) {
        throw told(error, 'OperationError');
      }
      if (made.#usage >= model.info.contextTokens) throw quotaError(made.#usage, model.info.contextTokens);
      signal?.addEventListener('abort', () => made.#life.abort(signal.reason), { signal: made.#life.signal });
      return made;
    };
  }

  /** @param {object} key @param {Model} model @param {Core} core @param {Message[]} initial */
  constructor(key, model, core, initial) {
    if (key !== SECRET) throw new TypeError('Illegal constructor: use LanguageModel.create()');
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

  /** Tokens of a conversation. @param {Message[]} messages */
  async #count(messages) {
    const { requested: tools } = this.#core;
    if (!messages.length && !tools.length) return 0;
    try {
      return await this.#model.countTokens(turnsOf(messages), tools.length ? { tools } : {});
    } catch (/** @type {any} */ error) {
      // A template may refuse what is no conversation yet, such as a message of the system alone.
      if (error.code !== 'TEMPLATE' && error.code !== 'ARGUMENT') throw error;
      return (await this.#model.tokenize(messages.map(({ content }) => content).join('\n'))).length;
    }
  }

  /** @param {Message[][]} exchanges */
  #conversation = (exchanges) => [...this.#initial, ...exchanges.flat()];

  /** What these messages add to the conversation. @param {Message[]} messages */
  #added = async (messages) =>
    Math.max((await this.#count([...this.#conversation(this.#exchanges), ...messages])) - this.#usage, 0);

  /**
   * Makes room for messages: the oldest exchanges go, never the initial prompts.
   * @param {Message[]} messages
   */
  async #prefill(messages) {
    const { contextWindow } = this;
    let left = this.#exchanges;
    const first = await this.#count([...this.#conversation(left), ...messages]);
    let tokens = first;
    while (tokens >= contextWindow) {
      if (!left.length) throw quotaError(first, contextWindow);
      left = left.slice(1);
      tokens = await this.#count([...this.#conversation(left), ...messages]);
    }
    if (left.length < this.#exchanges.length) {
      this.#exchanges = left;
      this.#usage = await this.#count(this.#conversation(left));
      for (const name of ['contextoverflow', 'quotaoverflow']) this.dispatchEvent(new Event(name));
    }
  }

  /** What was asked for ends in the DOM's words, at once when it is aborted. @template T @param {AbortController} life @param {Promise<T>} work @returns {Promise<T>} */
  #end(life, work) {
    const { signal } = life;
    return until(work, signal)
      .catch((error) => {
        throw signal.aborted ? signal.reason : told(error, 'UnknownError');
      })
      .finally(() => life.abort()); // which takes its listeners from the signals of others
  }

  /** Its turn, after all that was asked before. @template T @param {AbortController} life @param {() => Promise<T>} work @returns {Promise<T>} */
  #turn(life, work) {
    const mine = this.#queue.then(() => {
      life.signal.throwIfAborted();
      return work();
    });
    this.#queue = mine.catch(() => {});
    return this.#end(life, mine);
  }

  /** Texts of a reply. @param {Message[]} messages @param {string} prefix @param {any} responseFormat @param {AbortSignal} signal */
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
   * What `prompt` and `promptStreaming` do. An exchange that was aborted or failed never was.
   * @param {any} input @param {any} options @param {AbortSignal} signal @param {(text: string) => void} hear
   */
  async #prompt(input, options, signal, hear) {
    const format = constraintOf(options);
    const { messages, prefix } = promptOf(input, this.#usage > 0);
    if (prefix && this.#core.tools.length) throw failure('NotSupportedError', 'a prefix goes without tools');
    await this.#prefill(messages);
    const all = this.#conversation(this.#exchanges);
    let text = '';
    for await (const part of this.#reply(turnsOf([...all, ...messages]), prefix, format, signal)) {
      text += part;
      hear(part);
    }
    signal.throwIfAborted();
    await this.#keep([...messages, { role: 'assistant', content: prefix + text }]);
    return text;
  }

  /** @param {Message[]} messages */
  async #keep(messages) {
    this.#usage += await this.#added(messages);
    this.#exchanges.push(messages);
  }

  /** @param {any} options  with its signal */
  #heard({ signal } = /** @type {any} */ ({})) {
    active();
    const controller = anyOf([this.#life.signal, signal]);
    controller.signal.throwIfAborted();
    return controller;
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<string>} */
  async prompt(input, options) {
    const life = this.#heard(options);
    return this.#turn(life, () => this.#prompt(input, options, life.signal, () => {}));
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] @returns {ReadableStream<string>} */
  promptStreaming(input, options) {
    const life = this.#heard(options);
    const { signal } = life;
    return new ReadableStream({
      start: (sink) => {
        const hear = (/** @type {string} */ text) => signal.aborted || sink.enqueue(text);
        const work = async () => {
          await this.#prompt(input, options, signal, hear);
          sink.close();
        };
        this.#turn(life, work).catch((error) => sink.error(error));
      },
      cancel: () => life.abort(),
    });
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<void>} */
  async append(input, options) {
    const life = this.#heard(options);
    return this.#turn(life, async () => {
      const { messages, prefix } = promptOf(input, this.#usage > 0);
      if (prefix) messages.push({ role: 'assistant', content: prefix });
      await this.#prefill(messages);
      life.signal.throwIfAborted();
      await this.#keep(messages);
    });
  }

  /** @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<number>} */
  async measureContextUsage(input, options) {
    constraintOf(options);
    const { messages, prefix } = promptOf(input, false);
    const life = this.#heard(options);
    const [system, ...others] = messages;
    // A second message of the system is no conversation: it counts as if it were said by the user.
    const said = system?.role === 'system' && this.#usage ? [{ ...system, role: 'user' }, ...others] : messages;
    if (prefix) said.push({ role: 'assistant', content: prefix });
    return this.#end(life, this.#added(said));
  }

  /** @param {{ signal?: AbortSignal }} [options] @returns {Promise<Session>} */
  async clone(options) {
    return this.#turn(this.#heard(options), async () => {
      const Own = /** @type {any} */ (this.constructor);
      const clone = new Own(SECRET, this.#model, this.#core, this.#initial);
      clone.#exchanges = [...this.#exchanges];
      clone.#usage = this.#usage;
      return clone;
    });
  }

  /** Ends what is under way; the model stays whose it is. */
  destroy() {
    this.#life.abort(failure('AbortError', 'destroyed'));
  }

  get [Symbol.toStringTag]() {
    return 'LanguageModel';
  }
}
handlers(Session.prototype, ['contextoverflow', 'quotaoverflow']);
// The names before, which extensions still have.
for (const [old, name] of [
  ['inputUsage', 'contextUsage'],
  ['inputQuota', 'contextWindow'],
  ['measureInputUsage', 'measureContextUsage'],
])
  Object.defineProperty(
    Session.prototype,
    old,
    /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(Session.prototype, name)),
  );
