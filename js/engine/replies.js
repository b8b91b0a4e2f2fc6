/** Replies and texts, computed in sessions that the model keeps for them. */
import { checkCall, TABLE } from '../port/table.js';
import { BqError, onDemand } from '../shared/errors.js';
import { Generation } from '../shared/generation.js';
import { Pool } from './pool.js';
import { Prompts } from './prompts.js';

/** @import { LocalModel } from './model.js' */
/** @import { LocalSession } from './session.js' */
/** @import { Hold } from '../shared/hold.js' */
/** @import { CompleteOptions, GenerateOptions, MessageLike, Part, PromptOptions, Result, TraceOptions } from '../shared/types.js' */

/** Says from another thread that it is over. @typedef {() => boolean} Aborted */

export class Replies {
  #model;
  #prompts;
  #pool;
  /** Sessions of the pool whose time is traced; null: none. @type {WeakSet<LocalSession> | null} */
  #traced = null;

  /** @param {LocalModel} model @param {() => LocalSession | null} create  a session; null: there is room for none */
  constructor(model, create) {
    this.#model = model;
    this.#prompts = new Prompts(model);
    this.#pool = new Pool(create);
  }

  /** A session for a prompt. NO_SESSION, CLOSED. @param {ArrayLike<number>} tokens @param {string | null} [adapter]  by its id */
  take(tokens, adapter = null) {
    const session = this.#pool.take(tokens, adapter);
    if (!session) throw this.#model.noSession();
    try {
      session.use(adapter);
    } catch (error) {
      this.give(session);
      throw error;
    }
    return session;
  }

  /** Idle sessions compute without this adapter. @param {string} adapter */
  leave(adapter) {
    this.#pool.leave(adapter);
  }

  /** @param {LocalSession} session  that was taken */
  give(session) {
    this.#pool.give(session);
  }

  /** Gives up a session that nobody uses. @returns {boolean}  whether there was one */
  evict() {
    return this.#pool.evict();
  }

  /** The prompt for a reply. @param {MessageLike[]} messages @param {PromptOptions & { prefix?: string }} [options] */
  async tokens(messages, options) {
    return (await this.#prompts.make(/** @type {any} */ (messages), options)).tokens;
  }

  /** @param {string | ArrayLike<number>} prompt @param {GenerateOptions} [options] @param {Aborted} [aborted] */
  text = (prompt, options, aborted) => new Generation((end, hold) => this.#text(prompt, options, aborted, end, hold));

  /** @param {MessageLike[]} messages @param {CompleteOptions} [options] @param {Aborted} [aborted] */
  reply = (messages, options, aborted) =>
    new Generation((end, hold) => this.#reply(messages, options, aborted, end, hold));

  /**
   * @param {string | ArrayLike<number>} prompt @param {GenerateOptions | undefined} given @param {Aborted | undefined} aborted
   * @param {(result: Result) => void} end @param {Hold} hold
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#text(prompt, given, aborted, end, hold) {
    const {
      args: [checked],
      options,
      ...hears
    } = checkCall(TABLE.model.generate, [prompt, given]);
    const tokens = typeof checked === 'string' ? this.#model.encode(checked) : checked;
    const run = await this.#run(tokens, { ...options, ...hears }, aborted, hold);
    try {
      yield* run.parts;
    } finally {
      run.close();
      if (run.parts.result) end(run.parts.result);
    }
  }

  /**
   * @param {MessageLike[]} messages @param {CompleteOptions | undefined} given @param {Aborted | undefined} aborted
   * @param {(result: Result) => void} end @param {Hold} hold
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#reply(messages, given, aborted, end, hold) {
    const {
      args: [checked],
      options: { format, prefix, tools: offered, variables, toolChoice, parallelCalls, ...options },
      signal,
      onProgress,
    } = checkCall(TABLE.model.reply, [messages, given]);
    if (!checked.length) throw new BqError('ARGUMENT', 'there are no messages to reply to');
    this.#model.writes();
    const choice = { format, tools: offered, toolChoice };
    const calls = toolChoice && (await (await onDemand(import('./calling.js'))).calling(this.#model, checked, choice));
    const asked = calls ? calls.messages : checked;
    const turns = { format, prefix, tools: calls ? calls.tools : offered, variables };
    const { contextPolicy = 'error', receipt } = options;
    const fitted =
      receipt || contextPolicy !== 'error'
        ? await (
            await onDemand(import('./context.js'))
          ).fitted(this, this.#model, asked, turns, { ...options, signal }, hold, aborted)
        : null;
    const { tokens, stop, stopTokens, end: last } = await this.#prompts.make(fitted?.messages ?? asked, turns);
    const thinking = await this.#thinking(format, last);
    const holds = { ...options, toolChoice, parallelCalls };
    const turn = await this.#turn(holds, thinking, calls);
    const shown = turn ?? thinking;
    const ends = {
      stop: [...stop, ...[options.stop ?? []].flat()],
      stopTokens: [...stopTokens, ...(options.stopTokens ?? [])],
    };
    const { parts, close, session } = await this.#run(
      tokens,
      { ...options, ...fitted?.more, ...ends, signal, onProgress },
      aborted,
      hold,
      turn,
    );
    try {
      yield* shown ? shown.parts(parts) : parts;
    } finally {
      close();
      const { result } = parts;
      if (result) await fitted?.tell(result, session, tokens, ends);
      if (result) end(shown ? shown.result(result) : result);
    }
  }

  /** A generation in a session of the pool, which `close` gives back. NO_SESSION. @param {ArrayLike<number>} tokens @param {GenerateOptions} options @param {Aborted | undefined} aborted @param {Hold} hold @param {import('./turn.js').Turn | null} [turn] */
  async #run(tokens, options, aborted, hold, turn) {
    const adapter = /** @type {any} */ (options).adapter ?? null;
    const session = this.take(tokens, adapter);
    const close = () => this.give(session);
    try {
      const { sessions } = this.#pool;
      if (sessions.size > 1) await session.borrow(sessions, tokens, adapter);
      if (this.#traced && !this.#traced.has(session)) await session.trace({ on: true });
    } catch (error) {
      close();
      throw error;
    }
    this.#traced?.add(session);
    return { parts: hold.over(session.generate(tokens, options, aborted, turn)), close, session };
  }

  /** What takes the reasoning out of a reply, where the format or the template has marks for it. @param {any} format @param {string} prompt  its last text */
  async #thinking(format, prompt) {
    const { chat, template } = this.#model.info;
    const marks = (format ?? chat)?.think;
    if (!marks && (format || !template.toLowerCase().includes('think'))) return null;
    const { Thinking } = await onDemand(import('../chat/thinking.js'));
    return Thinking.of(marks, template, prompt);
  }

  /**
   * What holds a reply to its parts; null: it has one.
   * @param {CompleteOptions} options @param {import('../chat/thinking.js').Thinking | null} thinking
   * @param {Pick<Awaited<ReturnType<typeof import('./calling.js').calling>>, 'form' | 'callable'> | undefined} calls
   */
  async #turn(options, thinking, calls) {
    const { type = 'text' } = options.responseFormat ?? {};
    if (!calls?.callable.length && (!thinking || type === 'text')) return null;
    const { turnOf } = await onDemand(import('./calling.js'));
    const { form = null, callable = [] } = calls ?? {};
    return turnOf(this.#model, { thinking, marks: thinking?.marks ?? null, options, form, callable });
  }

  /** @param {TraceOptions} options */
  async trace(options) {
    const { merged } = await onDemand(import('./trace.js'));
    if (options.on !== undefined) this.#traced = options.on ? new WeakSet(this.#pool.sessions) : null;
    return merged(await Promise.all([...this.#pool.sessions].map((session) => session.trace(options))));
  }
}
