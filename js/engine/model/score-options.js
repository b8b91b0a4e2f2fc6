/** The method `choose`: probabilities of given answers to a prompt. */
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { logSum, roundLogprob } from './probabilities.js';

/** @import { LocalModel } from './model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Replies } from '../generation/replies.js' */
/** @import { Chosen } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */
/** @import { StopConditions, TokenSequence } from '../session/token-sequence.js' */

/**
 * Tokens of a prompt, and the tokens of each option after it.
 * @typedef {{ base: number[], tails: number[][] }} Branches
 */

/**
 * Splits a prompt with options into tokens of the prompt and tokens of each option. The last tokens of a text may
 * change with the text that follows. So only the tokens that are the same for every option belong to the prompt; the
 * others belong to the options.
 * @param {LocalModel} model @param {string | ArrayLike<number>} prompt @param {string[]} options @returns {Branches}
 */
function splitOptions(model, prompt, options) {
  const promptTokens = typeof prompt === 'string' ? model.encode(prompt) : Array.from(prompt);
  const fullTokens = options.map((option) =>
    typeof prompt === 'string'
      ? model.encode(prompt + option)
      : [...promptTokens, ...model.encode(option, { addSpecial: false })],
  );
  let sharedLength = 0;
  while (
    sharedLength < promptTokens.length &&
    fullTokens.every((ids) => ids[sharedLength] === promptTokens[sharedLength])
  )
    sharedLength++;
  const tails = fullTokens.map((ids) => ids.slice(sharedLength));
  const emptyIndex = tails.findIndex((ids) => !ids.length);
  if (emptyIndex >= 0)
    throw new BqError(
      'ARGUMENT',
      `the option "${options[emptyIndex]}" adds no token to the prompt; expected a text that does`,
    );
  if (!sharedLength && promptTokens.length)
    throw new BqError(
      'ARGUMENT',
      `the prompt ${shown(prompt)}: expected at least one token that is the same with every option, found none`,
      { hint: 'put a text before the prompt, or begin the options where a token of the prompt ends' },
    );
  return { base: promptTokens.slice(0, sharedLength), tails };
}

/**
 * Returns the log probability of each option. A common beginning of several options is computed once.
 * @param {Wasm} wasm @param {number} vocab  vocabulary size @param {TokenSequence} sequence @param {Branches} branches
 * @param {StopConditions} stopConditions @param {any} onProgress
 */
async function scoreTails(wasm, vocab, sequence, { base, tails }, stopConditions, onProgress) {
  const logprobs = tails.map(() => 0);
  wasm.check('bqw_session_clusters', sequence.handle, 0);
  const reusedCount = await sequence.prefill(stopConditions, onProgress, Uint32Array.from(base));
  let computedCount = base.length - reusedCount;
  /** @type {{ path: number[], members: number[] }[]} */
  const pending = [{ path: [], members: tails.map((_, i) => i) }];
  for (let node = pending.pop(); node; node = pending.pop()) {
    const { path, members } = node;
    const prefix = Uint32Array.from([...base, ...path]);
    if (path.length) computedCount += prefix.length - (await sequence.prefill(stopConditions, undefined, prefix));
    const logits = wasm.f32(wasm.out('bqw_session_logits', sequence.handle), vocab);
    const sum = logSum(logits);
    /** @type {Map<number, number[]>} */
    const next = new Map();
    for (const i of members) {
      const id = tails[i][path.length];
      logprobs[i] += logits[id] - sum;
      if (tails[i].length > path.length + 1) next.set(id, [...(next.get(id) ?? []), i]);
    }
    for (const [id, memberList] of next) pending.push({ path: [...path, id], members: memberList });
  }
  sequence.sync(Uint32Array.from(base));
  return { logprobs, reusedCount, computedCount };
}

/**
 * Implements `session.choose`.
 * @param {LocalSession} session @param {LocalModel} model @param {any[]} args
 * @param {boolean} [followsSequence]  whether the options follow the session's sequence if the prompt is empty
 * @returns {Promise<Chosen>}
 */
export function chooseNext(session, model, args, followsSequence = true) {
  const {
    args: [prompt, options],
    signal,
    onProgress,
  } = checkCall(TABLE.session.choose, args);
  model.checkGenerates();
  return session.runAlone(async ({ wasm, sequence, fit }) => {
    const continues = followsSequence && !prompt.length;
    const split = splitOptions(model, continues ? sequence.allTokens() : prompt, options);
    fit(split.base); // throws if it has no token
    for (const tail of split.tails) fit([...split.base, ...tail.slice(0, -1)]);
    const { vocabSize: vocab } = model.info;
    const { logprobs, reusedCount, computedCount } = await scoreTails(
      wasm,
      vocab,
      sequence,
      split,
      { signal },
      onProgress,
    );
    const total = logSum(logprobs);
    const scored = options.map((/** @type {string} */ text, /** @type {number} */ i) => ({
      text,
      probability: roundLogprob(Math.exp(logprobs[i] - total)),
      logprob: roundLogprob(logprobs[i]),
      tokens: split.tails[i],
    }));
    const bestIndex = logprobs.indexOf(Math.max(...logprobs));
    const counts = { promptTokens: split.base.length, cachedTokens: reusedCount, computedTokens: computedCount };
    return { best: options[bestIndex], options: scored, ...counts };
  });
}

/**
 * Implements `model.choose`.
 * @param {LocalModel} model @param {Replies} replies @param {any[]} args
 * @returns {Promise<Chosen>}
 */
export async function chooseOption(model, replies, args) {
  const {
    args: [prompt, options],
    options: promptOptions,
    ...handlers
  } = checkCall(TABLE.model.choose, args);
  model.checkGenerates();
  const isConversation = Array.isArray(prompt) && typeof prompt[0] === 'object';
  const textOrTokens = isConversation ? await replies.tokens(prompt, promptOptions) : prompt;
  const tokens = typeof textOrTokens === 'string' ? model.encode(textOrTokens) : textOrTokens;
  const session = await replies.take(tokens, null, handlers.signal);
  try {
    // The sequence of a pooled session is that of another call.
    return await chooseNext(session, model, [textOrTokens, options, handlers], false);
  } finally {
    replies.give(session);
  }
}
