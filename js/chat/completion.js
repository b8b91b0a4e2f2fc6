/**
 * A reply in the shape of OpenAI's chat completions: chunks as they come (`for await`), or the whole (`await`).
 */
import { asyncDispose } from '../shared/async.js';

/** @import { ChatCompletion, ChatCompletionChunk, ModelInfo, Part, Result } from '../shared/types.js' */
/** @import { Generation } from '../shared/generation.js' */

/** @param {Result} result @returns {'stop' | 'length'} */
const finished = ({ reason }) => (reason === 'stop' ? 'stop' : 'length');

/** @param {Result} result */
const usageOf = ({ timings, ids }) => ({
  prompt_tokens: timings.promptTokens,
  completion_tokens: ids.length,
  total_tokens: timings.promptTokens + ids.length,
  prompt_tokens_details: { cached_tokens: timings.reusedTokens },
});

/** @implements {AsyncIterable<ChatCompletionChunk>} */
export class Completion {
  #head;

  /** @param {Generation} parts @param {ModelInfo} info */
  constructor(parts, info) {
    /** The same reply, token by token; only one of both can be read. */
    this.parts = parts;
    const id = `chatcmpl-${Math.random().toString(36).slice(2)}`;
    this.#head = { id, created: Math.floor(Date.now() / 1000), model: info.name };
  }

  /** As of a generation: set once it has ended. */
  get result() {
    return this.parts.result;
  }

  /** @returns {AsyncGenerator<ChatCompletionChunk, void>} */
  async *[Symbol.asyncIterator]() {
    /** @type {{ role?: 'assistant' }} */
    let begins = { role: 'assistant' };
    /** @param {Partial<Part>} part @param {'stop' | 'length' | null} [finish_reason] @returns {ChatCompletionChunk} */
    const chunk = ({ text, reasoning }, finish_reason = null) => {
      const delta = { ...begins, ...(reasoning && { reasoning_content: reasoning }), ...(text && { content: text }) };
      begins = {};
      return { ...this.#head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] };
    };
    for await (const part of this.parts) if (part.text || part.reasoning) yield chunk(part);
    if (this.result) yield { ...chunk({}, finished(this.result)), usage: usageOf(this.result) };
  }

  /** The whole reply. @returns {Promise<ChatCompletion>} */
  async done() {
    const result = await this.parts.done();
    const { text, reasoning } = result;
    const message = /** @type {const} */ ({ role: 'assistant', content: text, ...(reasoning && { reasoning_content: reasoning }) });
    const choices = [{ index: 0, message, finish_reason: finished(result) }];
    return { ...this.#head, object: 'chat.completion', choices, usage: usageOf(result) };
  }

  /**
   * `await completion`.
   * @template [A=ChatCompletion], [B=never]
   * @param {((whole: ChatCompletion) => A | PromiseLike<A>) | null} [onDone]
   * @param {((error: any) => B | PromiseLike<B>) | null} [onFailure]
   * @returns {Promise<A | B>}
   */
  then(onDone, onFailure) {
    return this.done().then(onDone, onFailure);
  }

  /** Ends it. */
  [asyncDispose]() {
    return this.parts[asyncDispose]();
  }
}
