/** Throttles an engine while its page is hidden or the CPU is under pressure. Loaded on demand. */

/** @import { Engine, Pace } from '../../shared/types.js' */

/** @type {Pace[]} */
const PACES = ['full', 'slow', 'pause'];
/** States of the Compute Pressure specification in which an engine is throttled. */
const HIGH_PRESSURE = ['serious', 'critical'];

/**
 * @param {Engine} engine @param {{ background?: Pace, pressure?: Pace }} options
 * @returns {() => void}  ends it
 */
export function throttleInBackground(engine, { background = 'full', pressure = 'full' }) {
  const { document, PressureObserver } = /** @type {any} */ (globalThis);
  let pressed = false;
  /** @type {Pace} */
  let last = 'full';
  const look = () => {
    const wanted = [document?.hidden ? background : 'full', pressed ? pressure : 'full'];
    const pace = PACES[Math.max(...wanted.map((one) => PACES.indexOf(/** @type {Pace} */ (one))))];
    if (pace === last) return;
    last = pace;
    engine.setPace(/** @type {any} */ (pace)).catch(() => {}); // of an engine that has ended
  };
  document?.addEventListener('visibilitychange', look);
  /** @type {any} */
  let observer = null;
  if (PressureObserver && pressure !== 'full') {
    observer = new PressureObserver((/** @type {{ state: string }[]} */ records) => {
      pressed = HIGH_PRESSURE.includes(records[records.length - 1].state);
      look();
    });
    // Where the page's policy forbids it, or the machine can't tell, there is no pressure.
    Promise.resolve(observer.observe('cpu', { sampleInterval: 1000 })).catch(() => {});
  }
  look();
  return () => {
    document?.removeEventListener('visibilitychange', look);
    observer?.disconnect();
  };
}
