/** The engine, the model in use, and a second model that can be downloaded meanwhile. */
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
/** Options of a load that the page sets. @typedef {Pick<LoadOptions, 'contextTokens' | 'kv' | 'streaming'>} Sizes */

/**
 * A model that is loaded or being downloaded in addition to the one in use.
 * @typedef {{ model: Model, source: ModelSource, format: string, variables?: Record<string, unknown> }} Prepared
 */

/**
 * Converts a source of the page to one of the engine.
 * @param {ModelSource} source
 * @param {boolean} [single]  whether one request fetches all of it
 */
const opened = (source, single) =>
  typeof source === 'string'
    ? single
      ? { ...fromUrl(source), single }
      : source
    : source instanceof Blob
      ? fromBlob(source)
      : source.map(({ file, place }) => ({ ...fromBlob(file), place }));

/** Chat format of base models, which continue the text. */
const NO_TURNS = { roles: { user: { before: '', after: '' }, assistant: { before: '', after: '' } }, bos: true };

export class Host {
  /** @type {Engine | null} */
  #engine = null;
  #settleStart = () => {};
  /** Settles when the engine has started, or has failed to. @type {Promise<void>} */
  #start = new Promise((resolve) => (this.#settleStart = resolve));
  /** @type {Model | null} */
  #model = null;
  /** Prompt options of the model. @type {PromptOptions} */
  #prompts = {};
  /** Variables of its chat template. @type {Record<string, unknown> | undefined} */
  #variables;
  /** Source of the model. @type {ModelSource} */
  #source = '';
  /** Cached result of `limit`; undefined if it is not known yet. @type {number | null | undefined} */
  #limit;
  /** Whether the load is paused; also set before there is a model. */
  #paused = false;
  /** Address that the worker has requested on its own (early-request.js); '' if none. */
  #early = '';

  /**
   * Starts the engine. Throws NO_SIMD, NO_ENGINE, NO_WORKER.
   * @param {(info: Engine['info']) => void} onInfo  called at the start and for each update
   */
  async start(onInfo) {
    // Scripts of workers are in demo/, because the service worker there only serves addresses below it.
    this.#early = isFirstVisit() ? BUNDLED : '';
    const options = { name: this.#early }; // requested by early-request.js
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

  /** Store of downloaded models; null while none is open. */
  get store() {
    return this.#engine?.store ?? null;
  }

  /**
   * Returns the load plan of a model.
   * @param {ModelSource} source
   * @param {Sizes} sizes
   * @param {AbortSignal} signal
   * @param {OnProgress} [onProgress]  for a folder, which is converted first
   */
  async plan(source, { contextTokens: context, kv }, signal, onProgress) {
    // Only one retry, because the user waits for the result. It is needed for servers without range requests.
    const first = typeof source === 'string' ? fromUrl(source, { retries: 1, retryDelay: 100 }) : opened(source);
    return (await this.#started()).plan(first, {
      contextTokens: context,
      kv,
      integrity: integrityOf(source),
      signal,
      onProgress,
    });
  }

  /**
   * Returns the context of a model halved `level` times, in tokens.
   * @param {ModelSource} source
   * @param {number} level
   * @param {AbortSignal} signal
   */
  async smaller(source, level, signal) {
    const { contextTokens: context } = await this.plan(source, {}, signal);
    return Math.max(Math.min(context, 64), context >> level);
  }

  /** Waits for the engine: the user can choose a model before it has started. Throws CLOSED. */
  async #started() {
    await this.#start;
    if (!this.#engine) throw new BqError('CLOSED', 'the engine did not start', { hint: 'reload the page' });
    return this.#engine;
  }

  /**
   * Loads a model and closes the previous one, which stays in use if the load fails. If there is not enough memory for both, the
   * previous one is closed first. With `streaming` the model is in use while its weights are still arriving: see `arrived`.
   * @param {ModelSource} source
   * @param {Sizes} sizes
   * @param {OnProgress} onProgress
   * @param {AbortSignal} signal
   * @param {string} [format]  name of the chat template for a model without one
   * @param {string} [name]  name by which recommended options are looked up
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
   * Loads a model without closing the one in use. `model.loaded` settles when its weights are loaded.
   * @param {ModelSource} source @param {Sizes} sizes @param {OnProgress} onProgress @param {AbortSignal} signal
   * @param {{ format?: string, name?: string }} [how]  `name`: name by which recommended options are looked up
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

  /** Uses a prepared model and closes the previous one. @param {Prepared} prepared */
  async use({ model, source, format, variables }) {
    const before = this.#model;
    [this.#model, this.#source, this.#limit, this.#variables] = [model, source, undefined, variables];
    this.format = format;
    await before?.close();
    return model.info;
  }

  /** Settles when all weights of the model are loaded. */
  get arrived() {
    return this.#model?.loaded ?? Promise.resolve();
  }

  /** Pauses or resumes the download of the model. @param {boolean} paused */
  async pause(paused) {
    this.#paused = paused;
    await (paused ? this.#model?.pauseDownload() : this.#model?.resumeDownload());
  }

  /** Closes a model whose load was not completed. */
  async drop() {
    const model = this.#model;
    this.#model = null;
    await model?.close();
  }

  /**
   * Generates the next message of a conversation. `prefix`: text that the reply starts with.
   * @param {Message[]} messages
   * @param {GenerateOptions & { prefix?: string }} options
   */
  reply(messages, options) {
    return this.model.generate(messages, { ...this.#prompts, ...options });
  }

  /**
   * Returns the number of tokens of a conversation's prompt.
   * @param {Message[]} messages
   * @param {string} [prefix]  text that the reply starts with
   */
  count(messages, prefix) {
    return this.model.countTokens(messages, { ...this.#prompts, ...(prefix && { prefix }) });
  }

  /** @type {import('../panel/stage-times.js').Trace} */
  trace = async (options) => this.#model?.trace(options) ?? [];

  /** Returns the tokens per second if only the kernels took time, an upper bound; null if unknown. */
  limit = async () => {
    if (this.#limit !== undefined) return this.#limit;
    const model = this.model;
    const { contextTokens: context, kv } = model.info;
    const { tokensPerSecond } = await this.plan(
      this.#source,
      { contextTokens: context, kv },
      new AbortController().signal,
    );
    if (model === this.#model) this.#limit = tokensPerSecond; // the model may have changed meanwhile
    return tokensPerSecond;
  };

  /** Description of the model; null if none is loaded. */
  get info() {
    return this.#model?.info ?? null;
  }

  /** Name of the chat template, used if the model has none; '' continues the text. @param {string} name */
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

  /** The model in use. Throws STATE if no model is loaded. */
  get model() {
    if (!this.#model) throw new BqError('STATE', 'no model is loaded', { hint: 'open a file, or reload the page' });
    return this.#model;
  }
}

/**
 * Whether two models would use too much of the device's memory. Browsers report it capped at 8 GB, or not at all.
 * @param {number} a  bytes
 * @param {number} b  bytes
 */
const tight = (a, b) => {
  const { deviceMemory = 4 } = /** @type {any} */ (navigator);
  return a + b > (deviceMemory * 2 ** 30) / 4;
};
