/** What happens to an engine, told to whoever listens: `engine.events` is an EventTarget. */

/** Those of an engine that its port passes on; docs/API.md says what each brings. */
export const PASSED_ON = ['paused', 'resumed', 'pace', 'shift', 'memory', 'threads'];

/** @param {EventTarget} target @param {string} type @param {object} [detail] */
export const emit = (target, type, detail = {}) => void target.dispatchEvent(new CustomEvent(type, { detail }));
