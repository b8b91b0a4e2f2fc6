/** Changes the pace of an engine: full, slow or paused. Loaded on the first change. */
import { emit } from '../shared/events.js';

/** @import { PauseGate } from '../shared/pause-gate.js' */
/** @import { Pace } from '../shared/types.js' */

/**
 * State that running computations check between work units.
 * @typedef {object} PaceFacts
 * @property {boolean} slow     computes half of the time, with one thread
 * @property {EventTarget} events  of the engine
 * @property {boolean} [paused]  paused by the caller, at any pace
 * @property {Pace} [pace]
 */

/** @typedef {PauseGate & PaceFacts} PaceState */

/** @param {PaceState} tempo @param {{ paused?: boolean, pace?: Pace }} change */
export function applyPace(tempo, change) {
  const { paused = false, pace = 'full' } = tempo;
  Object.assign(tempo, change);
  tempo.slow = tempo.pace === 'slow';
  if (change.pace && change.pace !== pace) emit(tempo.events, 'pace', { pace: change.pace });
  if (change.paused !== undefined && change.paused !== paused) emit(tempo.events, paused ? 'resumed' : 'paused');
  if (tempo.paused || tempo.pace === 'pause') tempo.close();
  else tempo.open();
}
