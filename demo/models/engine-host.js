/** The engine, the model that the page talks to, and another that may be downloaded beside it. */
import { BqError, createWorkerEngine, fromBlob, fromUrl } from '../../js/index.js';
import { recommendedFor } from './catalogue.js';
import { BUNDLED } from './bundled.js';
import { integrityOf, isFirstVisit } from '../storage/model-history.js';

/** @typedef {import('../../js/shared/types.js').Engine} Engine */
/** @typedef {import('../../js/shared/types.js').GenerateOptions} GenerateOptions */
/** @typedef {import('../../js/shared/types.js').PromptOptions} PromptOptions */
/** @typedef {import('../../js/shared/types.js').Message} Message */
/** @typedef {import('../../js/shared/types.js').Model} Model */
/** @typedef {import('../../js/shared/types.js').LoadOptions} LoadOptions */
/** @typedef {import('../../js/shared/types.js').Progress} Progress */
/** @typedef {(progress: Progress) => void} OnProgress */
/** @typedef {import('../storage/model-history.js').ModelSource} ModelSource */
/** What may be asked of a load besides its source. @typedef {Pick<LoadOptions, 'contextTokens' | 'kv' | 'streaming'>} Sizes */

/** A model that is loaded, or being downloaded, beside the one in use. @typedef {{ model: Model, source: ModelSource, format: string, variables?: Record<string, unknown> }} Prepared */

/** What the engine takes. @param {ModelSource} source @param {boolean} [single]  it is requested whole */
const opened = (source, single) =>
  typeof source === 'string'
    ? single
      ? { ...fromUrl(source), single }
      : source
    : source instanceof Blob
      ? fromBlob(source)
      : source.map(({ file, place }) => ({ ...fromBlob(file), place }));

/** For base models: they continue the text. */
const NO_TURNS = { roles: { user: { before: '', after: '' }, assistant: { before: '', after: '' } }, bos: true };

export class Host {
  /** @type {Engine | null} */
  #engine = null;
  #settleStart = () => {};
  /** Settles when the engine has started, or has failed to. @type {Promise<void>} */
  #start = new Promise((resolve) => (this.#settleStart = resolve));
  /** @type {Model | null} */
  #model = null;
  /** How its prompts are made. @type {PromptOptions} */
  #prompts = {};
  /** For its chat template. @type {Record<string, unknown> | undefined} */
  #variables;
  /** Where the model is from. @type {ModelSource} */
  #source = '';
  /** Of the model, once it was asked for. @type {number | null | undefined} */
  #limit;
  /** What is being loaded is to ask for no more bytes, though there may be no model yet. */
  #paused = false;
  /** What the worker has requested by itself. */
  #early = '';

  /** NO_SIMD, NO_ENGINE, NO_WORKER. @param {(info: Engine['info']) => void} onInfo  called now, and when the engine has learned more */
  async start(onInfo) {
    // The scripts of workers lie in this folder, which is as far as the service worker beside it reaches.
    this.#early = isFirstVisit() ? BUNDLED : '';
    const options = { name: this.#early }; // what early-request.js requests
    const worker = () => new Worker(new URL('../worker.js', import.meta.url), { type: 'module', ...options });
    const threadUrl = new URL('../thread.js', import.meta.url);
    try {
      const engine = (this.#engine = await createWorkerEngine({ worker, threadUrl, cache: 'auto' }));
      const report = () => onInfo(engine.info);
      engine.events.addEventListener('threads', report);
      report();
    } finally {
      this.#settleStart();
    }
  }

  /** Where models from links are kept; null: nowhere. */
  get store() {
    return this.#engine?.store ?? null;
  }

  /** What a model would take. @param {ModelSource} source @param {Sizes} sizes @param {AbortSignal} signal @param {OnProgress} [onProgress]  of a folder, which is converted for it */
  async plan(source, { contextTokens: context, kv }, signal, onProgress) {
    // A person waits for this: what fails is said at once. The one try more is for servers that can't do ranges.
    const first = typeof source === 'string' ? fromUrl(source, { retries: 1, retryDelay: 100 }) : opened(source);
    return (await this.#started()).plan(first, {
      contextTokens: context,
      kv,
      integrity: integrityOf(source),
      signal,
      onProgress,
    });
  }

  /** A context halved so often. @param {ModelSource} source @param {number} level @param {AbortSignal} signal */
  async smaller(source, level, signal) {
    const { contextTokens: context } = await this.plan(source, {}, signal);
    return Math.max(Math.min(context, 64), context >> level);
  }

  /** The engine; a person may choose a model before it has started. CLOSED. */
  async #started() {
    await this.#start;
    if (!this.#engine) throw new BqError('CLOSED', 'the engine did not start', { hint: 'reload the page' });
    return this.#engine;
  }

  /**
   * Loads a model beside the one in use, which is closed when all went well and stays when not; where there is no memory for
   * both, it is closed first. With `streaming` the
   * model is in use as soon as it is known, while its weights are still on their way: see `arrived`.
   * @param {ModelSource} source
   * @param {Sizes} sizes
   * @param {OnProgress} onProgress
   * @param {AbortSignal} signal
   * @param {string} [format]  the chat template, where the model has none
   * @param {string} [name]  by which it is recommended how to use the model
   */
  async load(source, sizes, onProgress, signal, format = '', name) {
    this.#paused = false;
    if (this.#model && tight((await this.plan(source, sizes, signal)).heapBytes, this.#model.info.heapBytes))
      await this.drop();
    const prepared = await this.prepare(source, sizes, onProgress, signal, { format, name });
    if (this.#paused) await prepared.model.pauseDownload();
    return this.use(prepared);
  }

  /**
   * Loads a model beside the one in use, which stays. `model.loaded` settles when its weights are there.
   * @param {ModelSource} source @param {Sizes} sizes @param {OnProgress} onProgress @param {AbortSignal} signal
   * @param {{ format?: string, name?: string }} [how]  `name`: by which it is recommended how to use it
   * @returns {Promise<Prepared>}
   */
  async prepare(source, sizes, onProgress, signal, { format = '', name = String(source) } = {}) {
    const single = source === this.#early;
    this.#early = '';
    const engine = await this.#started();
    const model = await engine.load(opened(source, single), {
      ...sizes,
      integrity: integrityOf(source),
      onProgress,
      signal,
    });
    if (signal.aborted) {
      await model.close();
      signal.throwIfAborted();
    }
    return { model, source, format, variables: recommendedFor(name).variables };
  }

  /** A model that was prepared takes the place of the one in use, which is closed. @param {Prepared} prepared */
  async use({ model, source, format, variables }) {
    const before = this.#model;
    [this.#model, this.#source, this.#limit, this.#variables] = [model, source, undefined, variables];
    this.format = format;
    await before?.close();
    return model.info;
  }

  /** Settles when all of the model's weights are there. */
  get arrived() {
    return this.#model?.loaded ?? Promise.resolve();
  }

  /** @param {boolean} paused  asks for no more bytes, or goes on */
  async pause(paused) {
    this.#paused = paused;
    await (paused ? this.#model?.pauseDownload() : this.#model?.resumeDownload());
  }

  /** Gives up a model that came only in part. */
  async drop() {
    const model = this.#model;
    this.#model = null;
    await model?.close();
  }

  /** The next message of a conversation; `prefix`: what it begins with. @param {Message[]} messages @param {GenerateOptions & { prefix?: string }} options */
  reply(messages, options) {
    return this.model.generate(messages, { ...this.#prompts, ...options });
  }

  /** Tokens of the prompt that a conversation makes. @param {Message[]} messages @param {string} [prefix]  what the reply begins with */
  count(messages, prefix) {
    return this.model.countTokens(messages, { ...this.#prompts, ...(prefix && { prefix }) });
  }

  /** @type {import('../panel/stage-times.js').Trace} */
  trace = async (options) => this.#model?.trace(options) ?? [];

  /** Tokens per second that the kernels alone would make of the model's weights; null: not known. */
  limit = async () => {
    if (this.#limit !== undefined) return this.#limit;
    const model = this.model;
    const { contextTokens: context, kv } = model.info;
    const { tokensPerSecond } = await this.plan(
      this.#source,
      { contextTokens: context, kv },
      new AbortController().signal,
    );
    if (model === this.#model) this.#limit = tokensPerSecond; // another one may have come
    return tokensPerSecond;
  };

  /** What is known of the model. */
  get info() {
    return this.#model?.info ?? null;
  }

  /** How a chat is written, where the model doesn't say; '': not at all. @param {string} name */
  set format(name) {
    const { chatFormat, chatTemplate } = this.info ?? {};
    this.#prompts = chatFormat || chatTemplate ? {} : { chatFormat: name || NO_TURNS };
    if (this.#variables && chatTemplate) this.#prompts.templateVariables = this.#variables;
  }

  /** @param {string} text */
  tokenId = async (text) => this.model.tokenId(text);

  get hasModel() {
    return this.#model !== null;
  }

  /** STATE: no engine is open. */
  get model() {
    if (!this.#model) throw new BqError('STATE', 'no model is loaded', { hint: 'open a file, or reload the page' });
    return this.#model;
  }
}

/** Whether two models leave too little to the page and to others: browsers tell the memory, capped at 8 GB, or don't. @param {number} a @param {number} b */
const tight = (a, b) => {
  const { deviceMemory = 4 } = /** @type {any} */ (navigator);
  return a + b > (deviceMemory * 2 ** 30) / 4;
};
