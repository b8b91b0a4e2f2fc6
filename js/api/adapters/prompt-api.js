/**
 * `bq4/prompt-api`: the class `LanguageModel` of Chrome's Prompt API, implemented with a model of bq4. It follows the
 * draft of the specification (webmachinelearning.github.io/prompt-api, June 2026).
 */
import { coreOf, failure, PARAMS, promptOf, supports } from './prompt-input.js';
import {
  checkPageOpen,
  createSession,
  defineEventHandlers,
  rejectOnAbort,
  Session,
  toDomException,
} from './prompt-session.js';

/** @import { Message, Model, Progress } from '../../shared/types.js' */
/** @import { Core, CoreOptions, PromptInput } from './prompt-input.js' */
/**
 * @typedef {CoreOptions & { initialPrompts?: Exclude<PromptInput, string>, signal?: AbortSignal, monitor?: (monitor: CreateMonitor) => void }} CreateOptions
 */
/**
 * The class `LanguageModel` of a page. `create` returns sessions; `new` throws.
 * @typedef {object} LanguageModelClass
 * @property {(options?: CreateOptions) => Promise<Session>} create
 * @property {(options?: CoreOptions) => Promise<Availability>} availability
 * @property {() => Promise<typeof PARAMS>} params
 * @property {Session} prototype
 */
/** @typedef {Model | ((options: { onProgress: (event: Progress) => void }) => Promise<Model>)} ModelOrLoader */
/** @typedef {'unavailable' | 'downloadable' | 'downloading' | 'available'} Availability */

/** Milliseconds between two progress events. */
const PROGRESS_INTERVAL_MS = 50;
/** Descriptions of valid options, with their checks. @type {Record<string, [string, (value: any) => boolean]>} */
const OPTIONS = {
  cached: ['a function', (value) => typeof value === 'function'],
  languages: ['a list of strings', (value) => Array.isArray(value) && value.every((tag) => typeof tag === 'string')],
};

/** Throws a TypeError for an unknown name or an invalid value. @param {any} options @param {typeof OPTIONS} checks */
function checkOptions(options, checks) {
  if (Object(options) !== options) throw new TypeError('the options must be an object');
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(checks, name))
      throw new TypeError(`unknown option "${name}", expected one of ${Object.keys(checks).join(', ')}`);
    const [kind, check] = checks[name];
    if (value !== undefined && !check(value)) throw new TypeError(`expected ${kind} as the option "${name}"`);
  }
}

/** Whether a value is a local model. Models of `connect()` can't count tokens, which sessions need. @param {any} value */
const isModel = (value) => typeof value?.countTokens === 'function';

/** The argument of the `monitor` callback. */
export class CreateMonitor extends EventTarget {}
defineEventHandlers(CreateMonitor.prototype, ['downloadprogress']);

/** @param {EventTarget} monitor @param {number} loaded */
function dispatchProgress(monitor, loaded) {
  const init = { loaded, total: 1, lengthComputable: true };
  const Progress = globalThis.ProgressEvent; // missing in Node
  monitor.dispatchEvent(
    Progress ? new Progress('downloadprogress', init) : Object.assign(new Event('downloadprogress'), init),
  );
}

/** A model that is loaded once, for the first session. Sessions that wait for it receive its progress. */
class ModelLoader {
  /** Promise of the model; null before loading starts. @type {Promise<Model> | null} */
  #loading;
  #loadModel;
  #isCached;
  #isReady;
  /** Callbacks that receive the loaded share, from 0 to 1. @type {Set<(part: number) => void>} */
  #listeners = new Set();

  /** @param {ModelOrLoader} modelOrLoader @param {() => boolean | Promise<boolean>} isCached */
  constructor(modelOrLoader, isCached) {
    this.#loadModel = /** @type {Exclude<ModelOrLoader, Model>} */ (modelOrLoader);
    this.#loading = typeof modelOrLoader === 'function' ? null : Promise.resolve(modelOrLoader);
    this.#isReady = this.#loading !== null;
    this.#isCached = isCached;
  }

  /** @returns {Promise<Availability>} */
  async availability() {
    return this.#isReady || (await this.#isCached()) ? 'available' : this.#loading ? 'downloading' : 'downloadable';
  }

  /** Returns the model. @param {(part: number) => void} onProgress */
  async load(onProgress) {
    this.#listeners.add(onProgress);
    try {
      return await (this.#loading ??= this.#start());
    } finally {
      this.#listeners.delete(onProgress);
    }
  }

  /** Starts loading. */
  #start() {
    let last = 0;
    /** @param {Progress} event */
    const onProgress = ({ phase, loaded, total }) => {
      if (phase === 'plan' || !total || performance.now() - last < PROGRESS_INTERVAL_MS || loaded === total) return;
      last = performance.now();
      for (const notify of this.#listeners) notify(Math.floor((loaded / total) * 65_536) / 65_536);
    };
    return (async () => this.#loadModel({ onProgress }))().then(
      (model) => {
        if (!isModel(model)) {
          this.#loading = null;
          throw new TypeError(`expected a function that returns a model of load(), found ${typeof model}`);
        }
        this.#isReady = true;
        return model;
      },
      (error) => {
        this.#loading = null; // the next session tries again
        throw toDomException(error, error.code === 'NOMEM' ? 'OperationError' : 'NetworkError');
      },
    );
  }
}

/**
 * Returns a function that reports the loaded share to the `monitor` callback of a session. Shares only increase.
 * @param {((monitor: CreateMonitor) => void) | undefined} monitor @param {AbortSignal} [signal]
 * @returns {(part: number) => void}
 */
function createProgressReporter(monitor, signal) {
  if (monitor === undefined) return () => {};
  const target = new CreateMonitor();
  monitor(target);
  let last = -1;
  return (part) => {
    if (part <= last || signal?.aborted) return;
    last = part;
    dispatchProgress(target, part);
  };
}

/**
 * Creates the class `LanguageModel` for a model, or for a function that loads the model for the first session.
 * @param {ModelOrLoader} modelOrLoader
 * @param {{ cached?: () => boolean | Promise<boolean>, languages?: string[] }} [options]  `cached`: returns whether the
 *   model's file is on this machine; `languages`: languages that the model supports. Default: any
 * @returns {LanguageModelClass}
 */
export function promptApi(modelOrLoader, options = {}) {
  checkOptions(options, OPTIONS);
  const { cached = () => false, languages } = options;
  if (typeof modelOrLoader !== 'function' && !isModel(modelOrLoader))
    throw new TypeError('expected a loaded model (await load()) or a function that loads one');
  const loader = new ModelLoader(modelOrLoader, cached);

  class LanguageModel extends Session {
    /** @param {CoreOptions} [options] @returns {Promise<Availability>} */
    static async availability(options) {
      checkPageOpen();
      return supports(coreOf(options), languages) ? loader.availability() : 'unavailable';
    }

    static async params() {
      return PARAMS;
    }

    /** @param {CreateOptions} [options] */
    static async create(options = {}) {
      checkPageOpen();
      const core = coreOf(options);
      const { signal, monitor, initialPrompts } = options;
      const { messages, prefix } = initialPrompts?.length
        ? promptOf(initialPrompts, false)
        : { messages: [], prefix: '' };
      if (prefix) messages.push({ role: 'assistant', content: prefix });
      signal?.throwIfAborted();
      const notify = createProgressReporter(monitor, signal);
      return rejectOnAbort(LanguageModel.#loadAndCreate(core, messages, notify, signal), signal);
    }

    /**
     * @param {Core} core
     * @param {Message[]} messages
     * @param {(part: number) => void} notify
     * @param {AbortSignal} [signal]
     */
    static async #loadAndCreate(core, messages, notify, signal) {
      if (!supports(core, languages)) throw failure('NotSupportedError', 'expected text in a language of the model');
      notify(0);
      const model = await loader.load(notify);
      notify(1);
      return createSession(LanguageModel, model, core, messages, signal);
    }
  }
  return LanguageModel;
}

/**
 * Defines `LanguageModel` on the page if the browser lacks it, or always with `replace`. Returns the class in use. A
 * browser may have the class but no model for it, so pages should call its `availability()` first, and pass `replace`
 * if it is unavailable.
 * @param {ModelOrLoader} modelOrLoader
 * @param {Parameters<typeof promptApi>[1] & { replace?: boolean }} [options]
 * @returns {LanguageModelClass}
 */
export function polyfill(modelOrLoader, options = {}) {
  checkOptions(options, { ...OPTIONS, replace: ['true or false', (value) => typeof value === 'boolean'] });
  const { replace = false, ...modelOptions } = options;
  const page = /** @type {any} */ (globalThis);
  if (replace || !page.LanguageModel) {
    const value = promptApi(modelOrLoader, modelOptions);
    // The browser's property may have no setter.
    Object.defineProperty(page, 'LanguageModel', { value, writable: true, configurable: true });
  }
  return page.LanguageModel;
}
