/** A loaded model in the engine of this thread. */
import { NONE, structs, WANT_DATA } from '../../wasm/abi.js';
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { BqError, onDemand } from '../../shared/errors.js';
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

/** Layers; of an `exit` at least that one, so that the engine refuses it where there is none. @param {import('../../shared/types.js').Quality} quality @param {number} layers */
function leftOut({ skipLayers: skip = [], exitLayer: exit }, layers) {
  const left = [...skip];
  for (let i = exit ?? layers; i === exit || i < layers; i++) left.push(i);
  return left;
}

/** @implements {Omit<Model, 'createChat' | 'score' | 'rerank' | 'chat' | 'completions' | 'embeddings'>} */
export class LocalModel {
  #wasm;
  #loading;
  #options;
  /** What a run that stopped waits for. @type {Pager | import('../batching/tensor-parallel.js').Spread | null} */
  #pager;
  /** @type {Set<LocalSession>} */
  #sessions = new Set();
  /** Those that were forked: their room is that of the sessions they come from. @type {Set<LocalSession>} */
  #forks = new Set();
  /** Its handle in the engine. */
  handle;
  /** Timelines that go on token by token. @type {Set<import('../session/token-sequence.js').Timeline>} */
  decoding = new Set();
  #closed = false;
  /** @type {Promise<Embedder> | null} */
  #embedder = null;
  /** How two texts are joined for its classifier. @type {import('../../shared/types.js').PairFormat | null} */
  pair = null;
  /** By their ids. @type {Map<string, LocalAdapter>} */
  #adapters = new Map();
  /** What is kept for them. @type {import('./adapter.js').Room | null} */
  #room = null;
  /** The vocabulary for formats, once one was asked for. @type {Promise<import('../generation/grammar-guide.js').Guides> | null} */
  #guides = null;

  /**
   * @param {Wasm} wasm  its own instance
   * @param {Loading} loading
   * @param {number} handle
   * @param {Plan} plan
   * @param {LoadOptions} options
   * @param {Pager | null} pager  when not all weights stay in memory
   * @param {Set<LocalModel>} siblings  all of its engine, itself included
   * @param {import('../pace.js').Tempo} tempo  of the engine
   */
  constructor(wasm, loading, handle, plan, options, pager, siblings, tempo) {
    this.#wasm = wasm;
    this.#loading = loading;
    this.#options = options;
    this.#pager = pager;
    this.siblings = siblings;
    this.tempo = tempo;
    this.handle = handle;
    this.loaded = loading.done;
    /** @type {ModelInfo} */
    this.info = {
      ...plan,
      id: crypto.getRandomValues(new Uint32Array(2)).join('-'),
      authenticated: options.integrity !== undefined,
      threads: wasm.threads,
      spread: null,
      tokenizer: this.#tokenizer(plan),
      chatFormat: this.#chat(),
      chatTemplate: this.#section('TMPL'),
      card: this.#section('CARD'),
      ...this.#meta(plan),
    };
  }

  /** Others compute parts of its products from now on. @param {import('../batching/tensor-parallel.js').Spread | null} spread */
  spread(spread) {
    if (this.#closed) return void spread?.close();
    this.#pager = spread;
    spread?.begin();
    if (spread) this.info.spread = { parts: spread.parts, tokens: spread.tokens };
  }

  /** Computes with one of its threads, or with all. @param {boolean} alone */
  computeAlone(alone) {
    const { choice, threads } = this.#wasm;
    if (choice) choice.alone = alone;
    else this.#wasm.useThreads(alone ? 1 : threads);
  }

  pauseDownload = async () => this.#loading.pause();
  resumeDownload = async () => this.#loading.resume();

  /**
   * Computes for a session; returns a status of the border.
   * @param {number} session  its handle
   * @param {number} slices  at most; 0: all there are. One at a time where weights are read between them
   */
  run(session, slices) {
    const status = this.timed(session, 0, () => this.#wasm.check('bqw_session_run', session, this.#pager ? 1 : slices));
    if (status !== WANT_DATA) {
      this.#pager?.leave(session);
      this.#pager?.ahead(session);
    }
    return status;
  }

  /** Runs with as many threads as are found to be the fastest. @param {number} session  its handle, or the first's of several in one pass @param {number} others  in it @param {() => number} run */
  timed(session, others, run) {
    const { choice } = this.#wasm;
    return choice ? choice.run(session, others, run) : run();
  }

  /** After WANT_DATA: until the bytes may be there that the next slice needs. @param {number} session  its handle @param {AbortSignal} [signal] */
  async wait(session, signal) {
    if (!(await this.#pager?.wait(session, signal))) await unlessAborted(this.#loading.arrival, signal);
  }

  /** For a session that stops, whatever it was doing. @param {number} session  its handle */
  rest(session) {
    this.#pager?.leave(session);
  }

  /** What a section holds, a copy. @param {string} tag */
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

  /** 1 ends generation, 2 special. @param {number} id */
  flags(id) {
    return this.#wasm.call('bqw_token_flags', this.handle, id);
  }

  /** What holds a text to its format; null: nothing does. GRAMMAR, NO_ENGINE, STATE. @param {Omit<GenerateOptions, 'responseFormat'> & { responseFormat?: any }} options */
  async guide({ responseFormat, stopTokens = [] }) {
    if (!responseFormat || (responseFormat.type === 'text' && Object.keys(responseFormat).length === 1)) return null;
    return (await this.guides()).guide(responseFormat, stopTokens);
  }

  /** NO_ENGINE, STATE. @returns {Promise<import('../generation/grammar-guide.js').Guides>} */
  async guides() {
    if (!this.info.tokenizer)
      throw new BqError('STATE', 'the model has no tokenizer: its texts cannot be held to a format');
    const { Guides } = await onDemand(import('../generation/grammar-guide.js'));
    const guides = (this.#guides ??= Guides.create(this, this.bytes('TOKN'), this.#wasm.grammarUrl));
    guides.catch(() => (this.#guides = null)); // the next one tries again
    return guides;
  }

  /** What else is done with the probabilities of tokens; null: nothing. @param {GenerateOptions} options @param {number} session  its handle */
  async picking(options, session) {
    const { logitBias, presencePenalty, frequencyPenalty, logprobs, promptLogprobs } = options;
    const told = logprobs ?? promptLogprobs;
    if (!logitBias?.length && !presencePenalty && !frequencyPenalty && told === undefined) return null;
    const { Picking } = await onDemand(import('../session/lazy-methods.js'));
    return new Picking(this.#wasm, session, options, () => this.bytes('TOKN'), this.info.vocabSize);
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
      throw new BqError('FORMAT', `the ${tag} section is no JSON`, { cause, hint: 'convert the model anew' });
    }
  }

  /** What the file says in META. @param {Plan} plan @returns {Pick<ModelInfo, 'labels' | 'reranks' | 'prompts' | 'unused'>} */
  #meta({ labelCount: count, generates, embedding }) {
    const { labels: names = [], pair = null, prompts = {}, unused = [] } = this.#json('META') ?? {};
    const labels = count ? Array.from({ length: count }, (_, i) => String(names[i] ?? `LABEL_${i}`)) : null;
    this.pair = pair;
    const scores = labels?.length === 1 || labels?.join() === 'yes,no';
    const vectors = !generates || embedding.pooling;
    return {
      labels,
      reranks: labels ? (pair && scores ? 'classifier' : null) : vectors ? 'cosine' : null,
      prompts,
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
   * `tokenize` at once.
   * @param {string | Uint8Array} text
   * @param {import('./encode-text.js').EncodeOptions} [options]
   */
  encode(text, options) {
    return encodeText(this.#wasm, this.handle, text, options, this.info.contextTokens);
  }

  /** @type {Model['tokenize']} */
  tokenize = async (...given) => {
    const {
      args: [text],
      options,
    } = checkCall(TABLE.model.tokenize, given);
    return this.encode(text, options);
  };

  /** @type {Model['detokenize']} */
  detokenize = async (...given) => {
    const {
      args: [ids],
    } = checkCall(TABLE.model.detokenize, given);
    const wasm = this.#wasm;
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
  tokenId = async (...given) => this.findToken(checkCall(TABLE.model.tokenId, given).args[0]);

  /** `tokenId` at once. @param {string} text @returns {number | null} */
  findToken(text) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const { at, length } = wasm.put(take, text);
      const id = wasm.call('bqw_token_find', this.handle, at, length);
      return id === NONE ? null : id;
    });
  }

  /** Text of a token, a special one's as it is written. @param {number} id */
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
    const { options: given } = checkCall(TABLE.model.createSession, [options]);
    if (this.#sessions.size >= this.info.sessions && !this.replies.evict()) throw this.noSession();
    return this.#open(given);
  };

  /** @type {Model['loadAdapter']} */
  loadAdapter = async (...given) => {
    const {
      args: [source],
      options,
      signal,
    } = checkCall(TABLE.model.loadAdapter, given);
    const { prefillBatch: batch = 32, forks = 0 } = this.#options;
    const { sessions } = this.info;
    const sizes = { sessions: sessions * (1 + forks), rows: Math.max(batch, this.#wasm.threads) };
    const { LocalAdapter, Room } = await onDemand(import('./adapter.js'));
    this.#room ??= new Room(this.#options.adapterBytes ?? 0, this.#adapters, (id) => this.replies.leave(id));
    const read = { ...options, signal };
    const adapter = await LocalAdapter.load(this.#wasm, this.bytes('CONF'), source, read, sizes, this.#room);
    this.#adapters.set(adapter.info.id, adapter);
    return adapter;
  };

  /** For a session with a share of the head: whether that is enough from now on. @param {number} session  its handle @param {boolean} on @param {AbortSignal} [signal] */
  async cluster(session, on, signal) {
    if (on) await unlessAborted(this.loaded, signal);
    if (on) this.#wasm.check('bqw_model_cluster', this.handle);
    this.#wasm.check('bqw_session_clusters', session, Number(on));
  }

  /** CLOSED. @param {string} id */
  adapter(id) {
    const adapter = this.#adapters.get(id);
    if (adapter) return adapter;
    throw new BqError('CLOSED', 'the adapter was closed, or is of another model');
  }

  /** @type {Model['classify']} */
  classify = async (...given) => {
    const {
      args: [texts],
      options,
      ...hears
    } = checkCall(TABLE.model.classify, given);
    if (!options.classifier) return (await this.#embedding()).classify(texts, { ...options, ...hears });
    const { classify } = await onDemand(import('../../api/classifiers/classify.js'));
    return classify(this, texts, { classifier: options.classifier, ...options, ...hears });
  };

  /** @type {Model['savePromptCache']} */
  savePromptCache = async (...given) =>
    (await onDemand(import('../session/lazy-methods.js'))).savePromptCache(this, this.replies, given);

  /** @type {Model['loadPromptCache']} */
  loadPromptCache = async (...given) =>
    (await onDemand(import('../session/lazy-methods.js'))).loadPromptCache(this.replies, given);

  /** @type {Model['choose']} */
  choose = async (...given) =>
    (await onDemand(import('../session/lazy-methods.js'))).chooseIn(this, this.replies, given);

  /** @type {Model['embed']} */
  embed = async (...given) => {
    const {
      args: [texts],
      options,
      ...hears
    } = checkCall(TABLE.model.embed, given);
    return (await this.#embedding()).embed(texts, { ...options, ...hears });
  };

  #embedding() {
    const embedder = (this.#embedder ??= onDemand(import('./embedder.js')).then(
      ({ Embedder }) => new Embedder(this, this.replies),
    ));
    embedder.catch(() => (this.#embedder = null)); // the next call tries again
    return embedder;
  }

  /** UNSUPPORTED: it is an encoder. */
  writes() {
    if (!this.info.generates)
      throw new BqError('UNSUPPORTED', 'the model is an encoder: it writes no text', { hint: 'use embed()' });
  }

  /** CLOSED. */
  check() {
    if (this.#closed) throw new BqError('CLOSED', 'the model was closed');
  }

  noSession() {
    const { sessions } = this.info;
    return new BqError('NO_SESSION', `all of the model's sessions, ${sessions}, are in use`, { details: { sessions } });
  }

  /** @param {SessionOptions & { adapter?: any }} options */
  #open(options) {
    const wasm = this.#wasm;
    const { contextTokens: planned } = this.info;
    const { adapter = null, ...sizes } = options;
    const chosen = { ...this.#options, contextTokens: planned, ...sizes };
    if (chosen.contextTokens > planned)
      throw new BqError('NOMEM', `the model was loaded for a context of ${planned}`, {
        hint: 'load it with a larger context',
      });
    if (chosen.quality?.lmHeadFraction && !this.info.quality?.lmHeadFraction)
      throw new BqError('NOMEM', 'the model was loaded for the whole head alone', {
        hint: 'load it with quality.lmHeadFraction',
      });
    const handle = wasm.scope((take) => {
      const record = take(structs.bqw_session_options.size);
      wasm.write('bqw_session_options', record, sessionRecord(chosen));
      return wasm.out('bqw_session_create', this.handle, record);
    });
    const session = new LocalSession(this, wasm, handle, chosen);
    this.#sessions.add(session);
    try {
      session.use(adapter);
      const left = leftOut(chosen.quality ?? {}, this.info.layers);
      wasm.scope((take) => {
        const at = take(4 * left.length);
        wasm.u32(at, left.length).set(left);
        wasm.check('bqw_session_skip', handle, at, left.length);
      });
    } catch (error) {
      session.end();
      throw error;
    }
    return session;
  }

  /** One that goes on from where another is. NO_SESSION. @param {number} from  its handle @param {{ contextTokens: number }} sizes @param {number[]} ids @param {LocalAdapter | null} adapter */
  forked(from, sizes, ids, adapter) {
    const planned = (this.#options.forks ?? 0) * this.info.sessions;
    if (this.#forks.size >= planned) throw new BqError('NO_SESSION', `all planned forks, ${planned}, are in use`);
    const handle = this.#wasm.out('bqw_session_fork', from);
    const session = new LocalSession(this, this.#wasm, handle, sizes, ids, adapter);
    this.#forks.add(session);
    return session;
  }

  /** @type {Model['countTokens']} */
  countTokens = async (...given) => {
    const {
      args: [messages],
      options,
    } = checkCall(TABLE.model.countTokens, given);
    return (await this.replies.tokens(messages, options)).length;
  };

  replies = new Replies(this, () => (this.#sessions.size < this.info.sessions ? this.#open({}) : null));
  /** As of the Model; a third argument says whether another thread has aborted. */
  generate = this.replies.generate;

  /** For a model whose file has a template and no compact form of it: one that is known. */
  async settleChat() {
    const { chatFormat: chat, chatTemplate: template } = this.info;
    if (!chat && template)
      this.info.chatFormat = (await onDemand(import('../../text/templates/known-formats.js'))).knownFormat(template);
  }

  /** @type {Model['trace']} */
  trace = async (given) => this.replies.trace(checkCall(TABLE.model.trace, [given]).options);

  async memory() {
    const { used, peak, size } = this.#wasm.outStruct('bqw_heap_info', 'bqw_heap');
    return { used, peak, heap: size, total: this.#wasm.memoryBytes };
  }

  /** For a session that closes. @param {LocalSession} session */
  forget(session) {
    this.#sessions.delete(session);
    this.#forks.delete(session);
    this.replies.wake();
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    this.replies.wake();
    for (const session of [...this.#sessions, ...this.#forks]) await session.close();
    this.#loading.stop(new BqError('CLOSED', 'the model was closed'));
    await this.#pager?.close();
    this.#wasm.release();
    await this.#loading.releaseCache();
    this.siblings.delete(this);
  }

  [asyncDispose]() {
    return this.close();
  }
}
