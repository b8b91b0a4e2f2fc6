/** How much of the machine an engine takes: all of it, less, nothing. Loaded when that is to change. */
import { emit } from '../shared/events.js';

/** @import { PauseGate } from '../shared/pause-gate.js' */
/** @import { Pace } from '../shared/types.js' */

/**
 * What computing looks at before it goes on.
 * @typedef {object} Facts
 * @property {boolean} slow     it computes half of the time, with one thread
 * @property {EventTarget} events  of the engine
 * @property {boolean} [paused]  by the caller: whatever the pace is
 * @property {Pace} [pace]
 */

/** @typedef {PauseGate & Facts} Tempo */

/** @param {Tempo} tempo @param {{ paused?: boolean, pace?: Pace }} change */
export function settle(tempo, change) {
  const { paused = false, pace = 'full' } = tempo;
  Object.assign(tempo, change);
  tempo.slow = tempo.pace === 'slow';
  if (change.pace && change.pace !== pace) emit(tempo.events, 'pace', { pace: change.pace });
  if (change.paused !== undefined && change.paused !== paused) emit(tempo.events, paused ? 'resumed' : 'paused');
  if (tempo.paused || tempo.pace === 'pause') tempo.close();
  else tempo.open();
}
