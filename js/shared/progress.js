/** Progress events of everything but the download of a model, which measures its rate itself (js/storage/load/progress.js). */
import { now } from './timeouts.js';

/** @import { Unit } from './types.js' */

/**
 * Makes the events of one task. Its remaining time is estimated from the time that has passed since this was called.
 * @template {string} P @template {Unit} U
 * @param {P} phase @param {U} unit
 * @returns {(loaded: number, total: number) => { phase: P, loaded: number, total: number, unit: U, bytesPerSecond: number | null, etaMs: number | null }}
 */
export function progressOf(phase, unit) {
  const start = now();
  return (loaded, total) => {
    const elapsedMs = now() - start;
    const rate = loaded > 0 && elapsedMs > 0 ? loaded / elapsedMs : null;
    const bytesPerSecond = unit === 'bytes' && rate ? 1000 * rate : null;
    const etaMs = loaded >= total ? 0 : rate && (total - loaded) / rate;
    return { phase, loaded, total, unit, bytesPerSecond, etaMs };
  };
}
