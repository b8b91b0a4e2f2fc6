/** Progress of computing a prompt, in tokens. */
import { progressOf } from '../../shared/progress.js';
import { Throttle } from '../../shared/throttle.js';

/** @import { GenerateOptions } from '../../shared/types.js' */

/**
 * Reports progress from the number of computed work units. `end` reports that the prompt is complete.
 * @param {NonNullable<GenerateOptions['onProgress']>} onProgress
 * @param {number} total  number of tokens to compute
 * @param {{ window: number, batch: number, layers: number }} sizes
 * @param {() => number} workUnits  returns the number of work units that the session has computed
 */
export function prefillProgress(onProgress, total, { window, batch, layers }, workUnits) {
  const throttle = new Throttle();
  const unitsBefore = workUnits();
  const totalUnits =
    layers * (Math.floor(total / window) * Math.ceil(window / batch) + Math.ceil((total % window) / batch));
  const progress = progressOf('prefill', 'tokens');
  const report = (/** @type {number} */ loaded) => onProgress(progress(loaded, total));
  report(0);
  return {
    onWorkUnits: () =>
      throttle.run(() =>
        report(Math.floor((total * Math.min(workUnits() - unitsBefore, totalUnits)) / (totalUnits + 1))),
      ),
    end() {
      throttle.stop();
      report(total);
    },
  };
}
