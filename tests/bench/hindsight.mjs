// Computes what draft tokens of a text could have gained with given costs of batches, without running a model.
import { proposeTokens } from '../../js/engine/speculation/prompt-lookup.js';
import { StepCosts, SpeculationTuner } from '../../js/engine/speculation/tuner.js';

/** A prompt and the tokens generated after it. @typedef {{ prompt: number[], output: number[] }} Text */

/**
 * Returns, for each generated token except the last, the draft tokens proposed after it and how many of them are correct.
 * @param {Text} text @param {number} maxTokens  limit of draft tokens
 */
function listDrafts({ prompt, output }, maxTokens) {
  const ids = [...prompt];
  let near = -1;
  return output.slice(0, -1).map((id, i) => {
    ids.push(id);
    const proposal = proposeTokens(ids, near, Math.min(maxTokens, output.length - 2 - i));
    near = proposal.near;
    let correct = 0;
    while (correct < proposal.tokens.length && proposal.tokens[correct] === output[i + 1 + correct]) correct++;
    return { length: proposal.length, tokens: proposal.tokens.length, correct };
  });
}

/**
 * Returns the largest possible speedup over decoding token by token: the number of correct draft tokens is known in advance.
 * @param {Text} text @param {number[]} steps  time of a step with 1, 2, 3 … tokens, relative to one token
 */
export function computeMaxSpeedup(text, steps) {
  const drafts = listDrafts(text, steps.length - 1);
  const remaining = Array(drafts.length + 1).fill(0);
  for (let i = drafts.length - 1; i >= 0; i--)
    remaining[i] = Math.min(
      ...steps.slice(0, drafts[i].correct + 1).map((cost, accepted) => cost + remaining[i + 1 + accepted]),
    );
  return drafts.length / remaining[0];
}

/** Returns the speedup of `speculate: 'auto'`, whose decisions are computed with these costs. @param {Text} text @param {number[]} steps */
export function computeAutoSpeedup(text, steps) {
  const costs = new StepCosts();
  const tuner = new SpeculationTuner(costs);
  const drafts = listDrafts(text, steps.length - 1);
  let total = 0;
  for (let i = 0; i < drafts.length;) {
    const { length, tokens, correct } = drafts[i];
    const drafted = length && tuner.bestDraftLength(length, tokens, 1);
    const accepted = Math.min(drafted, correct);
    total += steps[drafted];
    costs.record(1 + drafted, steps[drafted]);
    for (let n = 0; n < accepted; n++) tuner.recordToken(length + n, true);
    if (accepted < Math.max(drafted, Math.min(tokens, 1))) tuner.recordToken(length + accepted, accepted < correct);
    tuner.recordStep(1, drafted, accepted);
    i += 1 + accepted;
  }
  return drafts.length / total;
}
