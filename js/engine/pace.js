/** Changes the pace of an engine: full, slow or paused. Loaded on the first change. */
import { emit } from '../shared/events.js';

/** @import { PauseGate } from '../shared/pause-gate.js' */
/** @import { Pace } from '../shared/types.js' */

/**
 * State that running computations check between work units.
 * @typedef {object} PaceFacts
 * @property {boolean} slow     whether to compute only half of the time, with one thread
 * @property {EventTarget} events  event target of the engine
 * @property {boolean} [paused]  whether the caller has paused the engine, at any pace
 * @property {Pace} [pace]
 */

/** @typedef {PauseGate & PaceFacts} PaceState */

/**
 * Applies a change of the pace and emits its events.
 * @param {PaceState} paceState @param {{ paused?: boolean, pace?: Pace }} change
 */
export function applyPace(paceState, change) {
  const { paused = false, pace = 'full' } = paceState;
  Object.assign(paceState, change);
  paceState.slow = paceState.pace === 'slow';
  if (change.pace && change.pace !== pace) emit(paceState.events, 'pace', { pace: change.pace });
  if (change.paused !== undefined && change.paused !== paused) emit(paceState.events, paused ? 'resumed' : 'paused');
  if (paceState.paused || paceState.pace === 'pause') paceState.close();
  else paceState.open();
}
