/** Replies and texts, computed in sessions that the model keeps for them. */
import { checkCall, isMessages, TABLE } from '../../remote/port/methods.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { Generation } from '../../shared/generation.js';
import { unlessAborted } from '../../shared/async.js';
import { after, now, timeout } from '../../shared/timeouts.js';
import { Pool } from '../model/session-pool.js';
import { Prompts } from '../prompt/chat-prompt.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Reading } from '../../shared/generation.js' */
/** @import { CompleteOptions, GenerateOptions, MessageLike, Part, PromptOptions, Result, TraceOptions } from '../../shared/types.js' */

/** Says from another thread that it is over. @typedef {() => boolean} Aborted */

/** Calls that may wait for a session. */
const MOST_WAITING = 1000;

export class Replies {
  #model;
  #prompts;
  #pool;
  /** Sessions of the pool whose time is traced; null: none. @type {WeakSet<LocalSession> | null} */
  #traced = null;
  /** Calls that wait for a session, in turn; each is woken to look again. @type {{ wake: () => void }[]} */
  #waiting = [];

  /** @param {LocalModel} model @param {() => LocalSession | null} create  a session; null: there is room for none */
  constructor(model, create) {
    this.#model = model;
    this.#prompts = new Prompts(model);
    this.#pool = new Pool(create);
  }

  /**
   * A session for a prompt. Where all are in use by other calls it waits its turn; not for those whose readers have asked for nothing for
   * a while. NO_SESSION, CLOSED.
   * @param {ArrayLike<number>} tokens @param {string | null} [adapter]  by its id @param {AbortSignal} [signal]
   */
  async take(tokens, adapter = null, signal) {
    const session = this.#waiting.length ? null : this.#pool.take(tokens, adapter);
    return this.#prepared(session ?? (await this.#waitForSession(tokens, adapter, signal)), adapter);
  }

  /** As `take`, for a call that others may be waiting for. @param {ArrayLike<number>} tokens */
  takeNow(tokens) {
    const session = this.#pool.take(tokens, null);
    if (!session) throw this.#model.noSession();
    return this.#prepared(session, null);
  }

  /** @param {ArrayLike<number>} tokens @param {string | null} adapter @param {AbortSignal} [signal] */
  async #waitForSession(tokens, adapter, signal) {
    if (this.#waiting.length >= MOST_WAITING)
      throw new BqError('NO_SESSION', `${MOST_WAITING} calls wait for a session already`);
    const turn = { wake: () => {} };
    this.#waiting.push(turn);
    try {
      for (;;) {
        this.#model.check();
        if (this.#waiting[0] === turn) {
          const session = this.#pool.take(tokens, adapter);
          if (session) return session;
          if (!this.#pool.works(now() - timeout('sessionWait'))) throw this.#model.noSession();
        }
        let stop = () => {};
        const woken = new Promise((resolve) => {
          turn.wake = () => resolve(undefined);
          stop = after('sessionLook', turn.wake);
        });
        await unlessAborted(woken, signal).finally(stop);
      }
    } finally {
      this.#waiting.splice(this.#waiting.indexOf(turn), 1);
      this.wake();
    }
  }

  /** There may be a session, or none any more. */
  wake() {
    this.#waiting[0]?.wake();
  }

  /** @param {LocalSession} session @param {string | null} adapter */
  #prepared(session, adapter) {
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
    this.wake();
  }

  /** Gives up a session that nobody uses. @returns {boolean}  whether there was one */
  evict() {
    return this.#pool.evict();
  }

  /** The prompt for a reply. @param {MessageLike[]} messages @param {PromptOptions & { prefix?: string }} [options] */
  async tokens(messages, options) {
    const all = /** @type {any} */ (messages);
    const calls = await this.#calling(all, { chatFormat: options?.chatFormat, tools: options?.tools });
    return (await this.#prompts.make(calls?.messages ?? all, options)).tokens;
  }

  /** What a reply that may call, or a conversation with calls, is made from; undefined: there are none. @param {import('../../shared/types.js').Message[]} messages @param {Pick<CompleteOptions, 'chatFormat' | 'tools' | 'toolChoice'>} options */
  async #calling(messages, options) {
    if (!options.toolChoice && !messages.some(({ tool_calls }) => tool_calls)) return undefined;
    return (await onDemand(import('../prompt/tool-prompt.js'))).calling(this.#model, messages, options);
  }

  /** @param {string | ArrayLike<number> | MessageLike[]} prompt @param {CompleteOptions} [options] @param {Aborted} [aborted] */
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
    const run = await this.#run(tokens, { ...options, onProgress }, aborted, reading);
    try {
      yield* run.parts;
    } finally {
      run.close();
      const result = await run.parts.result.catch(() => null);
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
      options: { chatFormat, prefix, tools: offered, templateVariables, toolChoice, parallelToolCalls, ...options },
      onProgress,
    },
    aborted,
    end,
    reading,
  ) {
    const { signal, reader } = reading;
    if (!checked.length) throw new BqError('ARGUMENT', 'there are no messages to reply to');
    this.#model.writes();
    const calls = await this.#calling(checked, { chatFormat, tools: offered, toolChoice });
    const asked = calls ? calls.messages : checked;
    const turns = { chatFormat, prefix, tools: calls ? calls.tools : offered, templateVariables };
    const { contextPolicy = 'error', receipt } = options;
    const fitted =
      receipt || contextPolicy !== 'error'
        ? await (
            await onDemand(import('../prompt/context-policy.js'))
          ).fitted(this, this.#model, asked, turns, { ...options, signal }, aborted)
        : null;
    const { tokens, stop, stopTokens, end: last } = await this.#prompts.make(fitted?.messages ?? asked, turns);
    const thinking = await this.#thinking(chatFormat, last);
    const holds = { ...options, toolChoice, parallelToolCalls };
    const turn = await this.#turnOf(holds, thinking, calls);
    const shown = turn ?? thinking;
    const ends = {
      stop: [...stop, ...[options.stop ?? []].flat()],
      stopTokens: [...stopTokens, ...(options.stopTokens ?? [])],
    };
    const given = { ...options, ...fitted?.more, ...ends, onProgress };
    const run = await this.#run(tokens, given, aborted, reading, turn).catch((error) => {
      turn?.close();
      throw error;
    });
    try {
      yield* shown ? shown.parts(run.parts) : run.parts;
    } finally {
      run.close();
      const result = await run.parts.result.catch(() => null);
      if (result) await fitted?.tell(result, run.session, tokens, ends);
      if (result) end(shown ? shown.result(result, reader?.readCount ?? Infinity) : result);
    }
  }

  /** A generation in a session of the pool, which `close` gives back. NO_SESSION. @param {ArrayLike<number>} tokens @param {GenerateOptions} options @param {Aborted | undefined} aborted @param {Reading} reading @param {import('./reply-parts.js').Turn | null} [turn] */
  async #run(tokens, options, aborted, { signal, reader }, turn) {
    const adapter = /** @type {any} */ (options).adapter ?? null;
    const session = await this.take(tokens, adapter, signal);
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
    const parts = session.generate(tokens, { ...options, signal }, aborted, turn).readBy(reader);
    return { parts, close, session };
  }

  /** What takes the reasoning out of a reply, where the format or the template has marks for it. @param {any} format @param {string} prompt  its last text */
  async #thinking(format, prompt) {
    const { chatFormat: chat, chatTemplate: template } = this.#model.info;
    const marks = (format ?? chat)?.think;
    if (!marks && (format || !template.toLowerCase().includes('think'))) return null;
    const { ReasoningParser } = await onDemand(import('../../api/chat/reasoning.js'));
    return ReasoningParser.forPrompt(marks, template, prompt);
  }

  /**
   * What holds a reply to its parts; null: it has one.
   * @param {CompleteOptions} options @param {import('../../api/chat/reasoning.js').ReasoningParser | null} thinking
   * @param {Pick<Awaited<ReturnType<typeof import('../prompt/tool-prompt.js').calling>>, 'form' | 'callable'> | undefined} calls
   */
  async #turnOf(options, thinking, calls) {
    const { type = 'text' } = /** @type {any} */ (options.responseFormat ?? {});
    if (!calls?.callable.length && (!thinking || type === 'text')) return null;
    const { turnOf } = await onDemand(import('../prompt/tool-prompt.js'));
    const { form = null, callable = [] } = calls ?? {};
    return turnOf(this.#model, { thinking, marks: thinking?.marks ?? null, options, form, callable });
  }

  /** @param {TraceOptions} options */
  async trace(options) {
    const { merged } = await onDemand(import('../model/trace.js'));
    if (options.on !== undefined) this.#traced = options.on ? new WeakSet(this.#pool.sessions) : null;
    return merged(await Promise.all([...this.#pool.sessions].map((session) => session.trace(options))));
  }
}
