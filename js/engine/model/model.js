/** A loaded model of an engine in this thread. */
import { hide } from '../../shared/hide.js';
import { NONE, SPECIAL, structs, WANT_DATA } from '../../wasm/abi.js';
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { wrong } from '../../shared/options.js';
import { TOKENIZERS } from '../../shared/names.js';
import { sessionRecord } from '../plan/plan.js';
import { encodeText } from './encode-text.js';
import { Replies } from '../generation/replies.js';
import { LocalSession } from '../session/session.js';
import { asyncDispose, unlessAborted } from '../../shared/async.js';

/** @import { Loading } from '../../storage/load/loading.js' */
/** @import { Pager } from '../../storage/paging/paging.js' */
/** @import { LocalAdapter } from './adapter.js' */
/** @import { Embedder } from './embedder.js' */
/** @import { ChatFormat, GenerateOptions, LoadOptions, Model, ModelInfo, Plan, SessionOptions, TokenizeOptions, TokenizerInfo } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Returns the indices of skipped layers. An `exitLayer` beyond the last layer is included, so that C refuses it.
 * @param {import('../../shared/types.js').Quality} quality @param {number} layers
 */
function skippedLayers({ skipLayers: skip = [], exitLayer: exit }, layers) {
  const skipped = [...skip];
  for (let i = exit ?? layers; i === exit || i < layers; i++) skipped.push(i);
  return skipped;
}

/** @implements {Omit<Model, 'createChat' | 'score' | 'rerank' | 'chat' | 'completions' | 'embeddings'>} */
export class LocalModel {
  #wasm;
  #loading;
  #options;
  /**
   * Provides the missing weights or products after a run has stopped: paging or tensor parallelism.
   * @type {Pager | import('../batching/tensor-parallel.js').TensorParallel | null}
   */
  #waiter;
  /** @type {Set<LocalSession>} */
  #sessions = new Set();
  /** Forked sessions, which share the memory of their original sessions. @type {Set<LocalSession>} */
  #forks = new Set();
  /** Handle of the model in its WebAssembly instance. */
  handle;
  /** Sequences that are being decoded. @type {Set<import('../session/token-sequence.js').TokenSequence>} */
  decoding = new Set();
  #isClosed = false;
  /** @type {Promise<Embedder> | null} */
  #embedder = null;
  /**
   * Format in which two texts are joined for the model's classifier.
   * @type {import('../../text/tokenizers/section.js').PairFormat | null}
   */
  pair = null;
  /** Tokens that are never generated. @type {{ token: number, bias: number }[]} */
  #suppressed = [];
  /** @type {import('./adapter.js').Adapters | null} */
  #adapters = null;
  /**
   * Grammars for the model's vocabulary, created with the first format.
   * @type {Promise<import('../generation/grammar-guide.js').Grammars> | null}
   */
  #grammars = null;

  /**
   * @param {Wasm} wasm  instance that only this model uses
   * @param {Loading} loading
   * @param {number} handle
   * @param {Plan} plan
   * @param {LoadOptions} options
   * @param {Pager | null} pager  null: all weights stay in memory
   * @param {Set<LocalModel>} siblings  all models of the engine, including this one
   * @param {import('../pace.js').PaceState} pace  pace of the engine
   */
  constructor(wasm, loading, handle, plan, options, pager, siblings, pace) {
    this.#wasm = wasm;
    this.#loading = loading;
    this.#options = options;
    this.#waiter = pager;
    this.siblings = siblings;
    this.paceState = pace;
    this.handle = handle;
    this.loaded = loading.done;
    /** @type {ModelInfo} */
    this.info = {
      ...plan,
      id: crypto.getRandomValues(new Uint32Array(2)).join('-'),
      authenticated: plan.integrity !== null,
      threads: wasm.threads,
      tensorParallel: null,
      promptCache: null,
      tokenizer: this.#tokenizer(plan),
      chatFormat: this.#chat(),
      chatTemplate: this.#section('TMPL'),
      card: this.#section('CARD'),
      ...this.#meta(plan),
    };
    hide(this, 'handle', 'decoding', 'pair', 'replies', 'siblings', 'paceState');
  }

  /**
   * Distributes the model's matrix products over workers from now on; with null, this thread computes them all.
   * @param {import('../batching/tensor-parallel.js').TensorParallel | null} parallel
   */
  useTensorParallel(parallel) {
    if (this.#isClosed) return void parallel?.close();
    this.#waiter = parallel;
    parallel?.begin();
    if (parallel) this.info.tensorParallel = { parts: parallel.parts, tokens: parallel.minTokens };
  }

  /** Computes with one thread, or with all. @param {boolean} isAlone */
  useOneThread(isAlone) {
    const { choice, threads } = this.#wasm;
    if (choice) choice.alone = isAlone;
    else this.#wasm.useThreads(isAlone ? 1 : threads);
  }

  pauseDownload = async () => (this.check(), this.#loading.pause());
  resumeDownload = async () => (this.check(), this.#loading.resume());

  /**
   * Computes work units of a session and returns a status of the ABI. Computes only one work unit if weights or
   * products must be provided between work units.
   * @param {number} session  handle of the session
   * @param {number} workUnits  largest number of work units; 0: no limit
   */
  run(session, workUnits) {
    const status = this.runTuned(session, 0, () =>
      this.#wasm.check('bqw_session_run', session, this.#waiter ? 1 : workUnits),
    );
    if (status !== WANT_DATA) {
      this.#waiter?.leave(session);
      this.#waiter?.ahead(session);
    }
    return status;
  }

  /**
   * Runs with the number of threads that the thread tuner picks.
   * @param {number} session  handle of the session, or of the first session of a batch
   * @param {number} otherCount  number of further sessions in the batch @param {() => number} run
   */
  runTuned(session, otherCount, run) {
    const { choice } = this.#wasm;
    return choice ? choice.run(session, otherCount, run) : run();
  }

  /**
   * Waits after WANT_DATA until the bytes for the next work unit may have arrived.
   * @param {number} session  handle of the session @param {AbortSignal} [signal]
   */
  async wait(session, signal) {
    if (!(await this.#waiter?.wait(session, signal))) await unlessAborted(this.#loading.arrival, signal);
  }

  /** Releases the pages that a session uses, after it has stopped. @param {number} session  handle of the session */
  releaseUnit(session) {
    this.#waiter?.leave(session);
  }

  /** Returns a copy of a section of the file; empty if the file does not have it. @param {string} tag */
  bytes(tag) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const out = take(8);
      const code = [...tag].reduce((sum, c, i) => sum + c.charCodeAt(0) * 256 ** i, 0);
      wasm.check('bqw_model_section', this.handle, code, out, out + 4);
      const [at, length] = wasm.u32(out, 2);
      return wasm.bytes(at, at ? length : 0).slice();
    });
  }

  /** @param {string} tag */
  #section(tag) {
    return decoder.decode(this.bytes(tag));
  }

  /** Returns the flags of a token (ENDS, SPECIAL). @param {number} id */
  flags(id) {
    return this.#wasm.call('bqw_token_flags', this.handle, id);
  }

  /**
   * Returns a guide for the format of a text; null if there is no format. Throws GRAMMAR, NO_ENGINE, STATE.
   * @param {Omit<GenerateOptions, 'responseFormat'> & { responseFormat?: any }} options
   */
  async guide({ responseFormat, stopTokens = [] }) {
    if (!responseFormat || (responseFormat.type === 'text' && Object.keys(responseFormat).length === 1)) return null;
    return (await this.grammars()).guide(responseFormat, stopTokens);
  }

  /**
   * Returns the grammars for the model's vocabulary. Throws NO_ENGINE, STATE.
   * @returns {Promise<import('../generation/grammar-guide.js').Grammars>}
   */
  async grammars() {
    if (!this.info.tokenizer)
      throw new BqError('STATE', "the model has no tokenizer, so its text can't be constrained to a format");
    const { Grammars } = await onDemand(import('../generation/grammar-guide.js'));
    const grammars = (this.#grammars ??= Grammars.create(this, this.bytes('TOKN'), this.#wasm.grammarUrl));
    grammars.catch(() => (this.#grammars = null)); // the next call tries again
    return grammars;
  }

  /**
   * Returns the logit processors of a generation; null if no option requires them. Throws ARGUMENT.
   * @param {GenerateOptions} options @param {number} session  handle of the session
   */
  async logitProcessors(options, session) {
    const { logitBias = [], presencePenalty, frequencyPenalty, logprobs, promptLogprobs } = options;
    const logprobCount = logprobs ?? promptLogprobs;
    const biases = [...logitBias, ...this.#suppressed];
    if (!biases.length && !presencePenalty && !frequencyPenalty && logprobCount === undefined) return null;
    const { LogitProcessors } = await onDemand(import('../session/lazy-methods.js'));
    this.checkTokens(
      'logitBias',
      logitBias.map(({ token }) => token),
    );
    return new LogitProcessors(
      this.#wasm,
      session,
      { ...options, logitBias: biases },
      () => this.bytes('TOKN'),
      this.info.vocabSize,
    );
  }

  /** @returns {ChatFormat | null} */
  #chat() {
    return this.#json('CHAT');
  }

  /** @param {string} tag */
  #json(tag) {
    const text = this.#section(tag);
    try {
      return text ? JSON.parse(text) : null;
    } catch (cause) {
      throw new BqError('FORMAT', `the ${tag} section is not valid JSON`, { cause, hint: 'convert the model again' });
    }
  }

  /**
   * Returns the fields of `info` that come from the META section.
   * @param {Plan} plan @returns {Pick<ModelInfo, 'labels' | 'reranks' | 'prompts' | 'defaultPrompt' | 'unused'>}
   */
  #meta({ labelCount: count, generates, embedding, vocabSize }) {
    const meta = this.#json('META') ?? {};
    const { labels: names = [], pair = null, prompts = {}, defaultPrompt = '', unused = [], suppressed = [] } = meta;
    this.#suppressed = [suppressed]
      .flat()
      .filter((/** @type {number} */ token) => token >= 0 && token < vocabSize)
      .map((/** @type {number} */ token) => ({ token, bias: -Infinity }));
    const labels = count ? Array.from({ length: count }, (_, i) => String(names[i] ?? `LABEL_${i}`)) : null;
    this.pair = pair;
    const scores = labels?.length === 1 || labels?.join() === 'yes,no';
    const vectors = !generates || embedding.pooling;
    return {
      labels,
      reranks: labels ? (pair && scores ? 'classifier' : null) : vectors ? 'cosine' : null,
      prompts,
      defaultPrompt,
      unused,
    };
  }

  /** @param {Plan} plan @returns {TokenizerInfo | null} */
  #tokenizer(plan) {
    if (!plan.tokenizerSize) return null;
    const id = (/** @type {number} */ v) => (v === NONE ? null : v);
    const t = this.#wasm.outStruct('bqw_tokenizer_info', 'bqw_tokenizer_info_get', this.handle);
    const kind = /** @type {TokenizerInfo['kind']} */ (TOKENIZERS[t.kind]);
    return {
      kind,
      tokens: t.tokens,
      bos: id(t.bos),
      eos: id(t.eos),
      unk: id(t.unk),
      pad: id(t.pad),
      addBos: t.add_bos !== 0,
      addEos: t.add_eos !== 0,
    };
  }

  /**
   * Returns the tokens of a text; the synchronous form of `tokenize`. Throws CONTEXT_FULL, STATE.
   * @param {string | Uint8Array} text
   * @param {import('./encode-text.js').EncodeOptions} [options]
   */
  encode(text, options) {
    return encodeText(this.#wasm, this.handle, text, options, this.info.contextTokens);
  }

  /** @type {Model['tokenize']} */
  tokenize = async (...args) => {
    const {
      args: [text],
      options,
    } = checkCall(TABLE.model.tokenize, args);
    return this.encode(text, options);
  };

  /**
   * Throws ARGUMENT if a token is outside the vocabulary.
   * @param {string} name  name of the option or argument, for the message @param {ArrayLike<number>} tokens
   */
  checkTokens(name, tokens) {
    const { vocabSize } = this.info;
    for (const token of Array.from(tokens))
      if (token >= vocabSize) throw wrong(name, token, `a token from 0 to ${vocabSize - 1}`);
  }

  /** @type {Model['detokenize']} */
  detokenize = async (...args) => {
    const {
      args: [ids],
    } = checkCall(TABLE.model.detokenize, args);
    const wasm = this.#wasm;
    this.checkTokens('the list of tokens', ids);
    return wasm.scope((take) => {
      const state = take(8);
      const out = take(wasm.call('bqw_detokenize_limit', this.handle));
      wasm.bytes(state, 8).fill(0);
      return Array.from([...ids, NONE], (id) =>
        wasm.text(out, wasm.call('bqw_detokenize', this.handle, state, id, out)),
      ).join('');
    });
  };

  /** @type {Model['tokenId']} */
  tokenId = async (...args) => this.findToken(checkCall(TABLE.model.tokenId, args).args[0]);

  /**
   * Returns the token with this text; the synchronous form of `tokenId`.
   * @param {string} text
   * @returns {number | null}  null: there is none
   */
  findToken(text) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const { at, length } = wasm.put(take, text);
      const id = wasm.call('bqw_token_find', this.handle, at, length);
      return id === NONE ? null : id;
    });
  }

  /** Returns the name of a special token; null if it is not special or has no name. @param {number} id */
  specialText(id) {
    return (this.flags(id) & SPECIAL && this.tokenText(id)) || null;
  }

  /** Returns the text of a token; for a special token, its name. @param {number} id */
  tokenText(id) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const bytes = take(4);
      const at = wasm.call('bqw_token_text', this.handle, id, bytes);
      return wasm.text(at, wasm.u32(bytes, 1)[0]);
    });
  }

  /** @type {Model['createSession']} */
  createSession = async (options) => {
    const { options: sessionOptions } = checkCall(TABLE.model.createSession, [options]);
    let session = this.#openIfRoom(sessionOptions);
    while (!session && this.replies.evict()) session = this.#openIfRoom(sessionOptions);
    if (!session && this.#sessions.size >= this.info.sessions) throw this.noSession();
    return session ?? this.#open(sessionOptions); // throws the error, which contains the numbers
  };

  /** @type {Model['loadAdapter']} */
  loadAdapter = async (...args) => {
    const { Adapters } = await onDemand(import('./adapter.js'));
    return (this.#adapters ??= new Adapters(this.#wasm, this, this.#options)).load(args);
  };

  /** Returns an adapter. Throws CLOSED if the model has none with this id. @param {string} id */
  adapter(id) {
    const adapter = this.#adapters?.get(id);
    if (adapter) return adapter;
    throw new BqError('CLOSED', 'the adapter was closed, or belongs to another model');
  }

  /** @type {Model['classify']} */
  classify = async (...args) => {
    const {
      args: [texts],
      options,
      ...handlers
    } = checkCall(TABLE.model.classify, args);
    this.check();
    if (!options.classifier) return (await this.#embedding()).classify(texts, { ...options, ...handlers });
    const { classify } = await onDemand(import('../../api/classifiers/classify.js'));
    return classify(this, texts, { classifier: options.classifier, ...options, ...handlers });
  };

  /** @type {Model['savePromptCache']} */
  savePromptCache = async (...args) =>
    (await onDemand(import('../session/lazy-methods.js'))).savePromptCache(this, this.replies, args);

  /** @type {Model['loadPromptCache']} */
  loadPromptCache = async (...args) =>
    (await onDemand(import('../session/lazy-methods.js'))).loadPromptCache(this.replies, args);

  /** @type {Model['choose']} */
  choose = async (...args) =>
    (await onDemand(import('../session/lazy-methods.js'))).chooseOption(this, this.replies, args);

  /** @type {Model['embed']} */
  embed = async (...args) => {
    const {
      args: [texts],
      options,
      ...handlers
    } = checkCall(TABLE.model.embed, args);
    return (await this.#embedding()).embed(texts, { ...options, ...handlers });
  };

  #embedding() {
    const embedder = (this.#embedder ??= onDemand(import('./embedder.js')).then(
      ({ Embedder }) => new Embedder(this, this.replies),
    ));
    embedder.catch(() => (this.#embedder = null)); // the next call tries again
    return embedder;
  }

  /** Throws UNSUPPORTED if it is an embedding model. */
  checkGenerates() {
    if (!this.info.generates)
      throw new BqError('UNSUPPORTED', 'this is an embedding model; it cannot generate text', { hint: 'use embed()' });
  }

  /** Throws CLOSED. */
  check() {
    if (this.#isClosed) throw new BqError('CLOSED', 'the model was closed');
  }

  /** Returns the error for a call that gets no session. */
  noSession() {
    const { sessions } = this.info;
    return new BqError('NO_SESSION', `all sessions of the model are in use (${sessions})`, { details: { sessions } });
  }

  /**
   * Opens a session. Returns null if there is no room, for example because forks of closed sessions still use memory.
   * @param {SessionOptions} options
   */
  #openIfRoom(options) {
    if (this.#sessions.size >= this.info.sessions) return null;
    try {
      return this.#open(options);
    } catch (/** @type {any} */ error) {
      if (error.code === 'NO_SESSION') return null;
      throw error;
    }
  }

  /** Opens a session. Throws NO_SESSION, ARGUMENT, NOMEM. @param {SessionOptions & { adapter?: any }} options */
  #open(options) {
    const wasm = this.#wasm;
    const { contextTokens: maxContext } = this.info;
    const { adapter = null, ...sizes } = options;
    const settings = { ...this.#options, contextTokens: maxContext, ...sizes };
    const { forks = 0, forkTokens = maxContext } = this.#options;
    for (const [name, limit] of Object.entries({ contextTokens: maxContext, forks, forkTokens })) {
      const size = /** @type {any} */ (settings)[name];
      if (size > limit)
        throw new BqError('NOMEM', `${name}: expected at most ${limit} (of the loaded model), found ${size}`, {
          hint: `load the model with a larger ${name}`,
        });
    }
    if (settings.quality?.lmHeadFraction && !this.info.quality?.lmHeadFraction)
      throw new BqError('NOMEM', 'the model was loaded without a clustered LM head', {
        hint: 'load the model with quality.lmHeadFraction',
      });
    const handle = wasm.scope((take) => {
      const record = take(structs.bqw_session_options.size);
      wasm.write('bqw_session_options', record, sessionRecord(settings));
      return wasm.out('bqw_session_create', this.handle, record);
    });
    const session = new LocalSession(this, wasm, handle, settings);
    this.#sessions.add(session);
    try {
      session.useAdapter(adapter);
      const skipped = skippedLayers(settings.quality ?? {}, this.info.layers);
      wasm.scope((take) => {
        const at = take(4 * skipped.length);
        wasm.u32(at, skipped.length).set(skipped);
        wasm.check('bqw_session_skip', handle, at, skipped.length);
      });
    } catch (error) {
      session.end();
      throw error;
    }
    return session;
  }

  /**
   * Creates a fork of a session. Throws NO_SESSION.
   * @param {number} sourceHandle  handle of the session @param {{ contextTokens: number }} sizes
   * @param {number[]} ids  tokens of the session @param {LocalAdapter | null} adapter  adapter of the session
   */
  forked(sourceHandle, sizes, ids, adapter) {
    const maxForks = (this.#options.forks ?? 0) * this.info.sessions;
    if (this.#forks.size >= maxForks) throw new BqError('NO_SESSION', `all ${maxForks} planned forks are in use`);
    const handle = this.#wasm.out('bqw_session_fork', sourceHandle);
    const session = new LocalSession(this, this.#wasm, handle, sizes, ids, adapter);
    this.#forks.add(session);
    return session;
  }

  /** @type {Model['countTokens']} */
  countTokens = async (...args) => {
    const {
      args: [messages],
      options,
    } = checkCall(TABLE.model.countTokens, args);
    return (await this.replies.tokens(messages, options)).length;
  };

  replies = new Replies(this, () => this.#openIfRoom({}));
  /** Public `model.generate`, with a third argument: a function that returns whether another thread has aborted. */
  generate = this.replies.generate;

  /** Sets `info.chatFormat` to a known chat format that matches the template, if the file has only a template. */
  async findChatFormat() {
    const { chatFormat: chat, chatTemplate: template } = this.info;
    if (!chat && template)
      this.info.chatFormat = (await onDemand(import('../../text/templates/known-formats.js'))).knownFormat(template);
  }

  /** @type {Model['trace']} */
  trace = async (options) => {
    this.check();
    return this.replies.trace(checkCall(TABLE.model.trace, [options]).options);
  };

  async memory() {
    const { used, peak, size } = this.#wasm.outStruct('bqw_heap_info', 'bqw_heap');
    return { used, peak, heap: size, total: this.#wasm.memoryBytes };
  }

  /** Removes a closed session. @param {LocalSession} session */
  forget(session) {
    this.#sessions.delete(session);
    this.#forks.delete(session);
    this.replies.wake();
  }

  async close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.replies.wake();
    for (const session of [...this.#sessions, ...this.#forks]) await session.close();
    this.#loading.stop(new BqError('CLOSED', 'the model was closed'));
    await this.#waiter?.close();
    this.#wasm.release();
    await this.#loading.releaseCache();
    this.siblings.delete(this);
  }

  [asyncDispose]() {
    return this.close();
  }
}
