/**
 * `bq4/prompt-api`: the `LanguageModel` of Chrome's Prompt API over a model of bq4, as the specification's draft has it
 * (webmachinelearning.github.io/prompt-api, June 2026).
 */
import { coreOf, failure, PARAMS, promptOf, supports } from './prompt-input.js';
import { active, handlers, make, Session, toDomException, rejectOnAbort } from './prompt-session.js';

/** @import { Message, Model, Progress } from '../../shared/types.js' */
/** @import { Core, CoreOptions, PromptInput } from './prompt-input.js' */
/** @typedef {CoreOptions & { initialPrompts?: Exclude<PromptInput, string>, signal?: AbortSignal, monitor?: (monitor: CreateMonitor) => void }} CreateOptions */
/**
 * The class that a page sees as `LanguageModel`. Sessions come from `create`; `new` throws.
 * @typedef {object} LanguageModelClass
 * @property {(options?: CreateOptions) => Promise<Session>} create
 * @property {(options?: CoreOptions) => Promise<Availability>} availability
 * @property {() => Promise<typeof PARAMS>} params
 * @property {Session} prototype
 */
/** @typedef {Model | ((options: { onProgress: (event: Progress) => void }) => Promise<Model>)} Given */
/** @typedef {'unavailable' | 'downloadable' | 'downloading' | 'available'} Availability */

/** Milliseconds between two events of progress. */
const EVERY_MS = 50;
/** What options are, with their checks. @type {Record<string, [string, (value: any) => boolean]>} */
const ABOUT = {
  cached: ['a function', (value) => typeof value === 'function'],
  languages: ['a list of texts', (value) => Array.isArray(value) && value.every((tag) => typeof tag === 'string')],
};

/** TypeError: an unknown name, or a value of another kind. @param {any} about @param {typeof ABOUT} checks */
function checkAbout(about, checks) {
  if (Object(about) !== about) throw new TypeError('the options must be an object');
  for (const [name, value] of Object.entries(about)) {
    if (!Object.hasOwn(checks, name))
      throw new TypeError(`unknown option "${name}", expected one of ${Object.keys(checks).join(', ')}`);
    const [kind, check] = checks[name];
    if (value !== undefined && !check(value)) throw new TypeError(`expected ${kind} as the option "${name}"`);
  }
}

/** The argument of the `monitor` callback. */
export class CreateMonitor extends EventTarget {}
handlers(CreateMonitor.prototype, ['downloadprogress']);

/** @param {EventTarget} monitor @param {number} loaded */
function dispatchProgress(monitor, loaded) {
  const init = { loaded, total: 1, lengthComputable: true };
  const Own = globalThis.ProgressEvent; // Node has none
  monitor.dispatchEvent(Own ? new Own('downloadprogress', init) : Object.assign(new Event('downloadprogress'), init));
}

/**
 * The class `LanguageModel` over a model, or over a function that loads the model for the first session.
 * @param {Given} modelOrLoader
 * @param {{ cached?: () => boolean | Promise<boolean>, languages?: string[] }} [about]  whether the model's file is on this machine; the
 *   languages that it speaks, default: any
 * @returns {LanguageModelClass}
 */
export function promptApi(modelOrLoader, about = {}) {
  checkAbout(about, ABOUT);
  const { cached = () => false, languages } = about;
  if (typeof modelOrLoader !== 'function' && !modelOrLoader?.chat)
    throw new TypeError('the model must be one of load(), which is awaited, or a function that loads one');
  /** The model, or its loading. @type {Promise<Model> | null} */
  let loading = typeof modelOrLoader === 'function' ? null : Promise.resolve(modelOrLoader);
  let ready = loading !== null;
  /** Callbacks that receive the loaded share, from 0 to 1. @type {Set<(part: number) => void>} */
  const listeners = new Set();

  /** @returns {Promise<Availability>} */
  const state = async () => (ready || (await cached()) ? 'available' : loading ? 'downloading' : 'downloadable');

  function load() {
    let last = 0;
    loading ??= /** @type {Exclude<Given, Model>} */ (modelOrLoader)({
      onProgress({ phase, loaded, total }) {
        if (phase === 'plan' || !total || performance.now() - last < EVERY_MS || loaded === total) return;
        last = performance.now();
        for (const notify of listeners) notify(Math.floor((loaded / total) * 65_536) / 65_536);
      },
    }).then(
      (model) => {
        ready = true;
        return model;
      },
      (error) => {
        loading = null; // the next session tries again
        throw toDomException(error, error.code === 'NOMEM' ? 'OperationError' : 'NetworkError');
      },
    );
    return loading;
  }

  class LanguageModel extends Session {
    /** @param {CoreOptions} [options] @returns {Promise<Availability>} */
    static async availability(options) {
      active();
      return supports(coreOf(options), languages) ? state() : 'unavailable';
    }

    static async params() {
      return PARAMS;
    }

    /** @param {CreateOptions} [options] */
    static async create(options = {}) {
      active();
      const core = coreOf(options);
      const { signal, monitor, initialPrompts } = options;
      const { messages, prefix } = initialPrompts?.length
        ? promptOf(initialPrompts, false)
        : { messages: [], prefix: '' };
      if (prefix) messages.push({ role: 'assistant', content: prefix });
      signal?.throwIfAborted();
      let notify = (/** @type {number} */ _) => {};
      if (monitor !== undefined) {
        const target = new CreateMonitor();
        monitor(target);
        let last = -1;
        notify = (part) => {
          if (part <= last || signal?.aborted) return;
          last = part;
          dispatchProgress(target, part);
        };
      }
      return rejectOnAbort(LanguageModel.#createSession(core, messages, notify, signal), signal);
    }

    /** @param {Core} core @param {Message[]} messages @param {(part: number) => void} notify @param {AbortSignal} [signal] */
    static async #createSession(core, messages, notify, signal) {
      if (!supports(core, languages)) throw failure('NotSupportedError', 'expected text in a language of the model');
      notify(0);
      listeners.add(notify);
      const model = await load().finally(() => listeners.delete(notify));
      notify(1);
      return make(LanguageModel, model, core, messages, signal);
    }
  }
  return LanguageModel;
}

/**
 * Defines `LanguageModel` on the page where the browser has none, or with `replace` always. Returns the class in use. A browser may have the
 * class and no model for it: pages call its `availability()` first, then pass `replace`.
 * @param {Given} modelOrLoader @param {Parameters<typeof promptApi>[1] & { replace?: boolean }} [about]
 * @returns {LanguageModelClass}
 */
export function polyfill(modelOrLoader, about = {}) {
  checkAbout(about, { ...ABOUT, replace: ['true or false', (value) => typeof value === 'boolean'] });
  const { replace = false, ...options } = about;
  const page = /** @type {any} */ (globalThis);
  if (replace || !page.LanguageModel) {
    const value = promptApi(modelOrLoader, options);
    // The property of the browser may have no setter.
    Object.defineProperty(page, 'LanguageModel', { value, writable: true, configurable: true });
  }
  return page.LanguageModel;
}
