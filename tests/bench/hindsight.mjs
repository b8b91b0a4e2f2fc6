// What guesses of a text could have brought, with batches that cost so much: counted, nothing is computed.
import { proposeTokens } from '../../js/engine/speculation/prompt-lookup.js';
import { StepCosts, SpeculationTuner } from '../../js/engine/speculation/tuner.js';

/** Tokens that were made, behind those of a prompt. @typedef {{ prompt: number[], made: number[] }} Text */

/** For each token that was made and not the last: the guess behind it, and how much of it came. @param {Text} text @param {number} most  tokens of a guess */
function draftsOf({ prompt, made: output }, most) {
  const ids = [...prompt];
  let near = -1;
  return output.slice(0, -1).map((id, i) => {
    ids.push(id);
    const found = proposeTokens(ids, near, Math.min(most, output.length - 2 - i));
    near = found.near;
    let arrivals = 0;
    while (arrivals < found.tokens.length && found.tokens[arrivals] === output[i + 1 + arrivals]) arrivals++;
    return { length: found.length, tokens: found.tokens.length, came: arrivals };
  });
}

/**
 * How many times as fast as one by one, had it been known what of each guess comes: the limit.
 * @param {Text} text @param {number[]} steps  that 1, 2, 3 … tokens take, in steps of one
 */
export function allowed(text, steps) {
  const all = draftsOf(text, steps.length - 1);
  const left = Array(all.length + 1).fill(0);
  for (let i = all.length - 1; i >= 0; i--)
    left[i] = Math.min(...steps.slice(0, all[i].came + 1).map((cost, arrivals) => cost + left[i + 1 + arrivals]));
  return all.length / left[0];
}

/** How many times as fast `speculate: 'auto'` is, by what it computes with such costs. @param {Text} text @param {number[]} steps */
export function counted(text, steps) {
  const costs = new StepCosts();
  const gains = new SpeculationTuner(costs);
  const all = draftsOf(text, steps.length - 1);
  let spent = 0;
  for (let i = 0; i < all.length;) {
    const { length, tokens, came: right } = all[i];
    const taken = length && gains.bestDraftLength(length, tokens, 1);
    const arrivals = Math.min(taken, right);
    spent += steps[taken];
    costs.record(1 + taken, steps[taken]);
    for (let n = 0; n < arrivals; n++) gains.recordToken(length + n, true);
    if (arrivals < Math.max(taken, Math.min(tokens, 1))) gains.recordToken(length + arrivals, arrivals < right);
    gains.recordStep(1, taken, arrivals);
    i += 1 + arrivals;
  }
  return all.length / spent;
}
