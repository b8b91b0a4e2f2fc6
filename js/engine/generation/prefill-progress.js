/** Tells how far a prompt is, in tokens. */
import { Throttle } from '../../shared/throttle.js';

/** @import { GenerateOptions } from '../../shared/types.js' */

/**
 * @param {NonNullable<GenerateOptions['onProgress']>} onProgress
 * @param {number} total  tokens that are to be computed
 * @param {{ window: number, batch: number, layers: number }} sizes
 * @param {() => number} slices  that the session has computed; one is a layer for a batch
 */
export function prefillProgress(onProgress, total, { window, batch, layers }, slices) {
  const throttle = new Throttle();
  const before = slices();
  const all = layers * (Math.floor(total / window) * Math.ceil(window / batch) + Math.ceil((total % window) / batch));
  const tell = (/** @type {number} */ done) =>
    onProgress({ phase: 'prefill', loaded: done, total, unit: 'tokens', bytesPerSecond: null, etaMs: null });
  tell(0);
  return {
    onSlices: () => throttle.run(() => tell(Math.floor((total * Math.min(slices() - before, all)) / (all + 1)))),
    end() {
      throttle.stop();
      tell(total);
    },
  };
}
