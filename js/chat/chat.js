/**
 * A conversation: messages become tokens by the model's chat format, replies stream. It knows only the
 * interface of models and sessions, so it works in front of either engine.
 *
 * Every reply is generated from the whole conversation as one list of tokens; the session computes only what
 * its KV cache doesn't hold. A reply's own tokens stay in that list as they were generated.
 */
import { BqError } from '../shared/errors.js';
import { Generation } from '../shared/generation.js';

/** @import { ChatFormat, ChatOptions, GenerateOptions, Message, Model, Part, Result, Session, TraceOptions } from '../shared/types.js' */

/** @typedef {Message & { ids: number[] }} Turn */

/** @param {any} format @returns {ChatFormat} */
function checkFormat(format) {
  if (!format) throw new BqError('NO_CHAT', 'the model does not say how turns are wrapped');
  const text = (/** @type {any} */ v) => typeof v === 'string';
  const turn = (/** @type {any} */ r) => r && text(r.before) && text(r.after);
  const { roles, stop = [] } = format;
  if (roles && turn(roles.user) && turn(roles.assistant) && Object.values(roles).every(turn) && Array.isArray(stop) && stop.every(text)) return format;
  throw new BqError('FORMAT', 'the chat format needs "before" and "after" for the roles user and assistant', { hint: 'see CHAT in docs/FORMAT.md' });
}

export class Chat {
  #model;
  #session;
  #format;
  /** @type {Turn[]} */
  #turns = [];
  #stopTokens;
  #busy = false;

  /**
   * @param {Model} model
   * @param {Session} session
   * @param {ChatFormat} format
   * @param {number[]} stopTokens
   */
  constructor(model, session, format, stopTokens) {
    this.#model = model;
    this.#session = session;
    this.#format = format;
    this.#stopTokens = stopTokens;
  }

  /**
   * `model.createChat`. NO_CHAT, FORMAT, ARGUMENT (a role that the format lacks).
   * @param {Model} model
   * @param {ChatOptions} options
   */
  static async create(model, { system, messages = [], format, ...options }) {
    const chosen = checkFormat(format ?? model.info.chat);
    const found = await Promise.all((chosen.stop ?? []).map((text) => model.tokenId(text)));
    const session = await model.createSession(options);
    const chat = new Chat(model, session, chosen, found.filter((id) => id !== null));
    try {
      if (system !== undefined) await chat.#add({ role: 'system', content: system });
      for (const message of messages) await chat.#add(message);
    } catch (error) {
      await chat.close();
      throw error;
    }
    return chat;
  }

  /** The conversation so far; a reply under way is its last message. @returns {Message[]} */
  get messages() {
    return this.#turns.map(({ role, content }) => ({ role, content }));
  }

  /**
   * Says something; the reply comes as it is generated. When it fails (CONTEXT_FULL, …) the conversation is as
   * before and `error.details.unsent` holds the text; after an abort what came of the reply stays.
   * @param {string} content
   * @param {GenerateOptions} [options]
   */
  send(content, options = {}) {
    return new Generation((end) => this.#reply(content, options, end));
  }

  /** Another reply to the last message: the one that was given is dropped. @param {GenerateOptions} [options] */
  regenerate(options = {}) {
    return new Generation((end) => this.#reply(null, options, end));
  }

  stats() {
    return this.#session.stats();
  }

  /** @param {TraceOptions} [options] */
  trace(options) {
    return this.#session.trace(options);
  }

  close() {
    return this.#session.close();
  }

  /** What wraps a turn: special tokens count. @param {string} text */
  #wrap(text) {
    return this.#model.tokenize(text, { addSpecial: false, parseSpecial: true });
  }

  /** What a person or the model wrote: special tokens are mere text. @param {string} text */
  #plain(text) {
    return this.#model.tokenize(text, { addSpecial: false, parseSpecial: false });
  }

  /** @param {Message} message */
  async #add({ role, content }) {
    const wrap = this.#format.roles[role];
    if (!wrap) throw new BqError('ARGUMENT', `the chat format has no role "${role}"`, { hint: `it has ${Object.keys(this.#format.roles).join(', ')}` });
    const ids = [...(await this.#wrap(wrap.before)), ...(await this.#plain(content)), ...(await this.#wrap(wrap.after))];
    this.#turns.push({ role, content, ids });
  }

  /**
   * @param {string | null} content  null: answer the last message once more
   * @param {GenerateOptions} options
   * @param {(result: Result) => void} end
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#reply(content, options, end) {
    if (this.#busy) throw new BqError('STATE', 'a reply is under way');
    const before = [...this.#turns];
    this.#busy = true;
    /** @type {Result | null} */
    let result = null;
    try {
      if (content !== null) await this.#add({ role: 'user', content });
      else if (this.#turns.at(-1)?.role === 'assistant') this.#turns.pop();
      if (!this.#turns.length) throw new BqError('STATE', 'there is nothing to answer', { hint: 'send a message first' });
      const open = await this.#wrap(this.#format.roles.assistant.before);
      const { tokenizer } = this.#model.info;
      const bos = this.#format.bos && tokenizer?.bos != null ? [tokenizer.bos] : [];
      const prompt = [...bos, ...this.#turns.flatMap((turn) => turn.ids), ...open];
      const reply = { role: 'assistant', content: '', ids: /** @type {number[]} */ ([]) };
      this.#turns.push(reply);
      const run = this.#session.generate(prompt, {
        ...options,
        stop: [...(this.#format.stop ?? []), ...(options.stop ?? [])],
        stopTokens: [...this.#stopTokens, ...(options.stopTokens ?? [])],
      });
      try {
        for await (const part of run) {
          reply.content += part.text;
          yield part;
        }
      } finally {
        result = run.result;
        // Nothing came of it, not even an end: there is no message.
        if (result && !result.ids.length) this.#turns.pop();
        if (result) {
          reply.ids = [...open, ...(await this.#body(result)), ...(await this.#wrap(this.#format.roles.assistant.after))];
          end(result);
        }
      }
    } catch (error) {
      if (content !== null && error instanceof BqError) error.details.unsent = content;
      throw error;
    } finally {
      if (!result) this.#turns = before;
      this.#busy = false;
    }
  }

  /** A reply's tokens as they stay in the conversation: without its end, which `after` repeats. @param {Result} result */
  async #body({ ids, text, stop }) {
    if (typeof stop === 'string') return this.#plain(text);
    return stop === null ? ids : ids.slice(0, -1);
  }
}
