/** How an engine behaves where its page is out of sight, or the machine has much to do. Loaded when it is asked for. */

/** @import { Engine, Pace } from '../../shared/types.js' */

/** @type {Pace[]} */
const PACES = ['run', 'slow', 'pause'];
/** States of the Compute Pressure specification in which a machine has too much to do. */
const PRESSED = ['serious', 'critical'];

/**
 * @param {Engine} engine @param {{ background?: Pace, pressure?: Pace }} options
 * @returns {() => void}  ends it
 */
export function behave(engine, { background = 'run', pressure = 'run' }) {
  const { document, PressureObserver } = /** @type {any} */ (globalThis);
  let pressed = false;
  /** @type {Pace} */
  let last = 'run';
  const look = () => {
    const wanted = [document?.hidden ? background : 'run', pressed ? pressure : 'run'];
    const pace = PACES[Math.max(...wanted.map((one) => PACES.indexOf(/** @type {Pace} */ (one))))];
    if (pace === last) return;
    last = pace;
    engine.pace(pace).catch(() => {}); // of an engine that has ended
  };
  document?.addEventListener('visibilitychange', look);
  /** @type {any} */
  let observer = null;
  if (PressureObserver && pressure !== 'run') {
    observer = new PressureObserver((/** @type {{ state: string }[]} */ records) => {
      pressed = PRESSED.includes(records[records.length - 1].state);
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
