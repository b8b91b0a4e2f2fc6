/**
 * `bq4/prompt-api`: the `LanguageModel` of Chrome's Prompt API over a model of bq4, as the specification's draft has it
 * (webmachinelearning.github.io/prompt-api, June 2026).
 */
import { coreOf, failure, PARAMS, promptOf, supports } from './prompt-input.js';
import { active, handlers, make, Session, told, until } from './prompt-session.js';

/** @import { Message, Model, Progress } from '../../shared/types.js' */
/** @import { Core, CoreOptions, PromptInput } from './prompt-input.js' */
/** @typedef {CoreOptions & { initialPrompts?: Exclude<PromptInput, string>, signal?: AbortSignal, monitor?: (monitor: CreateMonitor) => void }} CreateOptions */
/**
 * The class that a page knows as `LanguageModel`: `create` makes its sessions, `new` doesn't.
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
/** What `monitor` is given. */
export class CreateMonitor extends EventTarget {}
handlers(CreateMonitor.prototype, ['downloadprogress']);

/** @param {EventTarget} monitor @param {number} loaded */
function tell(monitor, loaded) {
  const init = { loaded, total: 1, lengthComputable: true };
  const Own = globalThis.ProgressEvent; // Node has none
  monitor.dispatchEvent(Own ? new Own('downloadprogress', init) : Object.assign(new Event('downloadprogress'), init));
}

/**
 * The class `LanguageModel` over a model, or over what loads one when it is first asked for.
 * @param {Given} given
 * @param {{ cached?: () => boolean | Promise<boolean>, languages?: string[] }} [about]  whether the model's file is on this machine; the
 *   languages that it speaks, default: any
 * @returns {LanguageModelClass}
 */
export function promptApi(given, { cached = () => false, languages } = {}) {
  /** The model, or its loading. @type {Promise<Model> | null} */
  let loading = typeof given === 'function' ? null : Promise.resolve(given);
  let ready = loading !== null;
  /** Who hears of the loading. @type {Set<(part: number) => void>} */
  const listeners = new Set();

  /** @returns {Promise<Availability>} */
  const state = async () => (ready || (await cached()) ? 'available' : loading ? 'downloading' : 'downloadable');

  function load() {
    let last = 0;
    loading ??= /** @type {Exclude<Given, Model>} */ (given)({
      onProgress({ phase, loaded, total }) {
        if (phase === 'plan' || !total || performance.now() - last < EVERY_MS || loaded === total) return;
        last = performance.now();
        for (const hear of listeners) hear(Math.floor((loaded / total) * 65_536) / 65_536);
      },
    }).then(
      (model) => {
        ready = true;
        return model;
      },
      (error) => {
        loading = null; // the next one tries again
        throw told(error, error.code === 'NOMEM' ? 'OperationError' : 'NetworkError');
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
      let hear = (/** @type {number} */ _) => {};
      if (monitor !== undefined) {
        const target = new CreateMonitor();
        monitor(target);
        let last = -1;
        hear = (part) => {
          if (part <= last || signal?.aborted) return;
          last = part;
          tell(target, part);
        };
      }
      return until(LanguageModel.#made(core, messages, hear, signal), signal);
    }

    /** @param {Core} core @param {Message[]} messages @param {(part: number) => void} hear @param {AbortSignal} [signal] */
    static async #made(core, messages, hear, signal) {
      if (!supports(core, languages)) throw failure('NotSupportedError', 'only text, in the languages of the model');
      hear(0);
      listeners.add(hear);
      const model = await load().finally(() => listeners.delete(hear));
      hear(1);
      return make(LanguageModel, model, core, messages, signal);
    }
  }
  return LanguageModel;
}

/**
 * Gives the page a `LanguageModel` where its browser has none, or in place of its own. Says which one there is then. A browser may have the
 * class and no model for it: `replace` is for pages that have asked its `availability()`.
 * @param {Given} given @param {Parameters<typeof promptApi>[1] & { replace?: boolean }} [about]
 * @returns {LanguageModelClass}
 */
export function polyfill(given, { replace = false, ...about } = {}) {
  const page = /** @type {any} */ (globalThis);
  if (replace || !page.LanguageModel) {
    const value = promptApi(given, about);
    // The browser's own may have no setter.
    Object.defineProperty(page, 'LanguageModel', { value, writable: true, configurable: true });
  }
  return page.LanguageModel;
}
