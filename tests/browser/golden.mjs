// A golden run, with the same code in Node and in a browser: greedy tokens, and a hash of the logits of every step.
import { xxh64 } from '../js/xxh64.mjs';
import { argmax, openLogits } from '../js/logits.mjs';

/**
 * Computes the logits of a sequence.
 * @param {import('../../js/shared/types.js').Build} build
 * @param {import('../../js/shared/types.js').SourceLike} source
 * @param {number[]} prompt
 * @param {number[] | number} follow  tokens after the prompt, or the number of tokens that the model chooses
 * @param {number} [threads]  0: the build without threads
 * @returns {Promise<{ ids: number[], hash: string }>}  `ids`: the most probable token of each step; `hash`: XXH64 of all logits, as in
 *   logit_hashes.txt
 */
export async function goldenRun(build, source, prompt, follow, threads = 0) {
  const model = await openLogits(source, { build, threads });
  const count = typeof follow === 'number' ? follow : follow.length;
  /** @type {Float32Array[]} */
  const steps = [];
  /** @type {number[]} */
  const ids = [];
  for (let i = 0; i < count; i++) {
    steps.push(i ? model.next(typeof follow === 'number' ? ids[i - 1] : follow[i - 1]) : model.start(prompt));
    ids.push(argmax(steps[i]));
  }
  model.close();
  const all = new Float32Array(steps.flatMap((step) => [...step]));
  return { ids, hash: xxh64(new Uint8Array(all.buffer)).toString(16).padStart(16, '0') };
}
