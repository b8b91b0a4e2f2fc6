/** Throttles an engine while its page is hidden or the processor is under pressure. Loaded where one of the two options is given. */

/** @import { Engine, Pace } from '../../shared/types.js' */

/** @type {Pace[]} */
const PACES = ['full', 'slow', 'pause'];
/** States of the Compute Pressure specification in which a machine is overloaded. */
const UNDER_PRESSURE = ['serious', 'critical'];

/**
 * @param {Engine} engine @param {{ background?: Pace, pressure?: Pace }} options
 * @returns {() => void}  removes the listeners
 */
export function throttleInBackground(engine, { background = 'full', pressure = 'full' }) {
  const { document, PressureObserver } = /** @type {any} */ (globalThis);
  let underPressure = false;
  /** @type {Pace} */
  let applied = 'full';
  const update = () => {
    const paces = [document?.hidden ? background : 'full', underPressure ? pressure : 'full'];
    const pace = PACES[Math.max(...paces.map((level) => PACES.indexOf(/** @type {Pace} */ (level))))];
    if (pace === applied) return;
    applied = pace;
    engine.setPace(/** @type {any} */ (pace)).catch(() => {}); // rejects after the engine was closed
  };
  document?.addEventListener('visibilitychange', update);
  /** @type {any} */
  let observer = null;
  if (PressureObserver && pressure !== 'full') {
    observer = new PressureObserver((/** @type {{ state: string }[]} */ records) => {
      underPressure = UNDER_PRESSURE.includes(records[records.length - 1].state);
      update();
    });
    // Rejects if the page's policy forbids it or the machine can't measure pressure; the pace then stays full.
    Promise.resolve(observer.observe('cpu', { sampleInterval: 1000 })).catch(() => {});
  }
  update();
  return () => {
    document?.removeEventListener('visibilitychange', update);
    observer?.disconnect();
  };
}
