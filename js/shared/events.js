/** Events of an engine (`engine.events`), and callbacks whose errors are reported without an effect on the engine. */

/** Types of the events that a worker's port forwards. docs/reference/events.md lists the details of each. */
export const FORWARDED_EVENTS = ['paused', 'resumed', 'pace', 'shift', 'memory', 'threads'];

/**
 * Reports an error in a callback or listener of the page. If it were thrown, Node would end the process.
 * @param {unknown} error
 */
export function report(error) {
  if (typeof reportError === 'function') reportError(error);
  else console.error(error);
}

/**
 * Wraps a callback so that its errors and rejections are reported, not thrown.
 * @template {any[]} T
 * @param {(...args: T) => unknown} callback
 */
export const guarded =
  (callback) =>
  async (/** @type {T} */ ...args) => {
    try {
      await callback(...args);
    } catch (error) {
      report(error);
    }
  };

/** An EventTarget that reports the errors of its listeners. In Node such an error would otherwise end the process. */
export class Events extends EventTarget {
  /** Wrapped listeners by the caller's listeners. @type {WeakMap<object, (event: Event) => void>} */
  #guarded = new WeakMap();

  /**
   * @override
   * @param {string} type
   * @param {((event: any) => void) | EventListenerObject | null} listener
   * @param {any} [options]
   */
  addEventListener(type, listener, options) {
    if (!listener) return;
    let wrapper = this.#guarded.get(listener);
    if (!wrapper) {
      wrapper = guarded((event) =>
        typeof listener === 'function' ? listener.call(this, event) : listener.handleEvent(event),
      );
      this.#guarded.set(listener, wrapper);
    }
    super.addEventListener(type, wrapper, options);
  }

  /** @override @param {string} type @param {any} listener @param {any} [options] */
  removeEventListener(type, listener, options) {
    super.removeEventListener(type, this.#guarded.get(listener) ?? listener, options);
  }
}

/** Dispatches a CustomEvent. @param {EventTarget} target @param {string} type @param {object} [detail] */
export const emit = (target, type, detail = {}) => void target.dispatchEvent(new CustomEvent(type, { detail }));
