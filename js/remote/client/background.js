/**
 * Throttles an engine while its page is hidden or the processor is under pressure. This module is only loaded if the
 * option `background` or `pressure` is set.
 */

/** @import { Engine, Pace } from '../../shared/types.js' */

/** @type {Pace[]} */
const PACES = ['full', 'slow', 'pause'];
/** States of an overloaded machine in the Compute Pressure specification. */
const UNDER_PRESSURE = ['serious', 'critical'];

/**
 * Sets the pace of an engine whenever the visibility of the page or the pressure changes.
 * @param {Engine} engine @param {{ background?: Pace, pressure?: Pace }} options
 * @returns {() => void}  removes the listeners
 */
export function throttleInBackground(engine, { background = 'full', pressure = 'full' }) {
  const { document, PressureObserver } = /** @type {any} */ (globalThis);
  let isUnderPressure = false;
  /** @type {Pace} */
  let appliedPace = 'full';
  const update = () => {
    const paces = [document?.hidden ? background : 'full', isUnderPressure ? pressure : 'full'];
    const pace = PACES[Math.max(...paces.map((level) => PACES.indexOf(/** @type {Pace} */ (level))))];
    if (pace === appliedPace) return;
    appliedPace = pace;
    engine.setPace(/** @type {any} */ (pace)).catch(() => {}); // rejects after the engine was closed
  };
  document?.addEventListener('visibilitychange', update);
  /** @type {any} */
  let observer = null;
  if (PressureObserver && pressure !== 'full') {
    observer = new PressureObserver((/** @type {{ state: string }[]} */ records) => {
      isUnderPressure = UNDER_PRESSURE.includes(records[records.length - 1].state);
      update();
    });
    // Rejects if the page's policy forbids it or the machine can't measure pressure. The pace then stays full.
    Promise.resolve(observer.observe('cpu', { sampleInterval: 1000 })).catch(() => {});
  }
  update();
  return () => {
    document?.removeEventListener('visibilitychange', update);
    observer?.disconnect();
  };
}
