/**
 * Progress events of all tasks except downloads of models, which measure their own rate (js/storage/load/progress.js).
 */
import { now } from './timeouts.js';

/** @import { Unit } from './types.js' */

/**
 * Returns a function that creates the events of one task. The remaining time is estimated from the time since this
 * call.
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
