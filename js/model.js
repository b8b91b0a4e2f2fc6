/** A loaded model in the engine of this thread. */
import { NONE } from './border.js';
import { Chat } from './chat.js';
import { BqError } from './errors.js';
import { sessionRecord } from './plan.js';
import { Session } from './session.js';

const KINDS = [null, 'spm', 'bpe', 'wordlist'];

/** @typedef {import('./types.js').Model} ModelType */

/** @implements {ModelType} */
export class Model {
  #wasm;
  #loading;
  #options;
  #onClose;
  /** @type {Set<Session>} */
  #sessions = new Set();
  /** Its handle in the engine. */
  handle;
  #closed = false;

  /**
   * @param {import('./wasm.js').Wasm} wasm  its own instance
   * @param {import('./loading.js').Loading} loading
   * @param {number} handle
   * @param {import('./types.js').Plan} plan
   * @param {import('./types.js').LoadOptions} options
   * @param {(model: Model) => void} onClose
   */
  constructor(wasm, loading, handle, plan, options, onClose) {
    this.#wasm = wasm;
    this.#loading = loading;
    this.#options = options;
    this.#onClose = onClose;
    this.handle = handle;
    this.loaded = loading.done;
    /** @type {import('./types.js').ModelInfo} */
    this.info = { ...plan, tokenizer: this.#tokenizer(plan), chat: this.#chat(), card: this.#section('CARD') };
  }

  /** The next arrival of bytes, while the model is loading. */
  get arrival() {
    return this.#loading.arrival;
  }

  /** @param {string} tag */
  #section(tag) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const out = take(8);
      const code = [...tag].reduce((sum, c, i) => sum + c.charCodeAt(0) * 256 ** i, 0);
      wasm.check('bqw_model_section', this.handle, code, out, out + 4);
      const [at, length] = wasm.u32(out, 2);
      return at ? wasm.text(at, length) : '';
    });
  }

  /** @returns {import('./types.js').ChatFormat | null} */
  #chat() {
    const text = this.#section('CHAT');
    try {
      return text ? JSON.parse(text) : null;
    } catch (cause) {
      throw new BqError('FORMAT', 'the CHAT section is no JSON', { cause, hint: 'convert the model anew' });
    }
  }

  /** @param {import('./types.js').Plan} plan @returns {import('./types.js').TokenizerInfo | null} */
  #tokenizer(plan) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const out = take(32);
      const handle = this.handle;
      const id = (/** @type {number} */ v) => (v === NONE ? null : v);
      if (!plan.tokens) return null;
      wasm.check('bqw_tokenizer_info_get', handle, out);
      const t = wasm.read('bqw_tokenizer_info', out);
      const kind = /** @type {import('./types.js').TokenizerInfo['kind']} */ (KINDS[t.kind]);
      return { kind, tokens: t.tokens, bos: id(t.bos), eos: id(t.eos), unk: id(t.unk), pad: id(t.pad), addBos: t.add_bos !== 0, addEos: t.add_eos !== 0 };
    });
  }

  /**
   * `tokenize` at once.
   * @param {string} text
   * @param {import('./types.js').TokenizeOptions} [options]
   * @returns {number[]}
   */
  encode(text, { addSpecial = true, parseSpecial = false } = {}) {
    const wasm = this.#wasm;
    try {
      return wasm.scope((take) => {
        const { at, length } = wasm.put(take, text);
        const capacity = length + 16; // a token stands for a byte or more, but for BOS, EOS and a space in front
        const ids = take(capacity * 4);
        const count = take(4);
        wasm.check('bqw_tokenize', this.handle, at, length, (addSpecial ? 1 : 0) + (parseSpecial ? 2 : 0), ids, capacity, count);
        return [...wasm.u32(ids, wasm.u32(count, 1)[0])];
      });
    } catch (cause) {
      if (!(cause instanceof BqError) || cause.code !== 'NOMEM') throw cause;
      // There is room for far longer texts than the context holds.
      throw new BqError('CONTEXT_FULL', `a text of ${text.length} characters is far too long for a context of ${this.info.context}`, {
        cause,
        details: { characters: text.length, context: this.info.context },
      });
    }
  }

  /** @param {string} text @param {import('./types.js').TokenizeOptions} [options] */
  async tokenize(text, options) {
    return this.encode(text, options);
  }

  /** @param {ArrayLike<number>} ids */
  async detokenize(ids) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const state = take(8);
      const out = take(wasm.call('bqw_detokenize_limit', this.handle));
      wasm.bytes(state, 8).fill(0);
      return Array.from([...Array.from(ids), NONE], (id) => wasm.text(out, wasm.call('bqw_detokenize', this.handle, state, id, out))).join('');
    });
  }

  /** @param {string} text */
  async tokenId(text) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const { at, length } = wasm.put(take, text);
      const id = wasm.call('bqw_token_find', this.handle, at, length);
      return id === NONE ? null : id;
    });
  }

  /** @param {import('./types.js').SessionOptions} [options]  default: those the model was loaded with */
  async createSession(options = {}) {
    const wasm = this.#wasm;
    const chosen = { ...this.#options, ...options };
    const handle = wasm.scope((take) => {
      const record = take(16);
      const out = take(4);
      wasm.write('bqw_session_options', record, sessionRecord(chosen));
      wasm.check('bqw_session_create', this.handle, record, out);
      return wasm.u32(out, 1)[0];
    });
    const session = new Session(this, wasm, handle, chosen.context ?? this.info.trainedContext);
    this.#sessions.add(session);
    return session;
  }

  /** @param {import('./types.js').ChatOptions} [options] */
  async createChat(options = {}) {
    return Chat.create(this, options);
  }

  async memory() {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const out = take(24);
      wasm.call('bqw_heap', out);
      const { used, peak, size } = wasm.read('bqw_heap_info', out);
      return { used, peak, heap: size, total: wasm.memoryBytes };
    });
  }

  /** For a session that closes. @param {Session} session */
  forget(session) {
    this.#sessions.delete(session);
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    for (const session of [...this.#sessions]) await session.close();
    this.#loading.stop(new BqError('CLOSED', 'the model was closed'));
    this.#wasm.release();
    await this.#loading.done.catch(() => {});
    this.#onClose(this);
  }
}
