/** What happens to an engine, told to whoever listens: `engine.events` is an EventTarget. */

/** Those of an engine that its port passes on; docs/reference/events.md says what each brings. */
export const PASSED_ON = ['paused', 'resumed', 'pace', 'shift', 'memory', 'threads'];

/** Tells the page of an error in what it has passed: a callback, a listener. Node would end the process. @param {unknown} error */
export function report(error) {
  if (typeof reportError === 'function') reportError(error);
  else console.error(error);
}

/** A callback whose errors, thrown or rejected, are its own. @template {any[]} T @param {(...given: T) => unknown} callback */
export const guarded =
  (callback) =>
  async (/** @type {T} */ ...given) => {
    try {
      await callback(...given);
    } catch (error) {
      report(error);
    }
  };

/** An EventTarget whose listeners' errors end nothing, in Node neither. */
export class Events extends EventTarget {
  /** By what was passed. @type {WeakMap<object, (event: Event) => void>} */
  #guarded = new WeakMap();

  /** @override @param {string} type @param {((event: any) => void) | EventListenerObject | null} listener @param {any} [options] */
  addEventListener(type, listener, options) {
    if (!listener) return;
    let known = this.#guarded.get(listener);
    if (!known) {
      known = guarded((event) =>
        typeof listener === 'function' ? listener.call(this, event) : listener.handleEvent(event),
      );
      this.#guarded.set(listener, known);
    }
    super.addEventListener(type, known, options);
  }

  /** @override @param {string} type @param {any} listener @param {any} [options] */
  removeEventListener(type, listener, options) {
    super.removeEventListener(type, this.#guarded.get(listener) ?? listener, options);
  }
}

/** @param {EventTarget} target @param {string} type @param {object} [detail] */
export const emit = (target, type, detail = {}) => void target.dispatchEvent(new CustomEvent(type, { detail }));
