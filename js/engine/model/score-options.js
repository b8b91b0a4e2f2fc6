/** How likely given answers are behind a prompt. */
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { BqError } from '../../shared/errors.js';
import { logSum, round } from './probabilities.js';

/** @import { LocalModel } from './model.js' */
/** @import { LocalSession } from '../session/session.js' */
/** @import { Replies } from '../generation/replies.js' */
/** @import { Chosen } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */
/** @import { Ends, Timeline } from '../session/token-sequence.js' */

/** A prompt, and what follows it for each option. @typedef {{ base: number[], tails: number[][] }} Branches */

/**
 * A text and each of its continuations as tokens. A text's last tokens may become others with what follows: only what is the
 * same with every option is the prompt, and the rest is counted to each option.
 * @param {LocalModel} model @param {string | ArrayLike<number>} prompt @param {string[]} options @returns {Branches}
 */
function branches(model, prompt, options) {
  const own = typeof prompt === 'string' ? model.encode(prompt) : Array.from(prompt);
  const whole = options.map((option) =>
    typeof prompt === 'string'
      ? model.encode(prompt + option)
      : [...own, ...model.encode(option, { addSpecial: false })],
  );
  let shared = 0;
  while (shared < own.length && whole.every((ids) => ids[shared] === own[shared])) shared++;
  const tails = whole.map((ids) => ids.slice(shared));
  const without = tails.findIndex((ids) => !ids.length);
  if (without >= 0) throw new BqError('ARGUMENT', `the option "${options[without]}" adds no token to the prompt`);
  return { base: own.slice(0, shared), tails };
}

/**
 * The logarithm of the probability of each continuation. Where several begin alike that is computed once.
 * @param {Wasm} wasm @param {number} vocab @param {Timeline} timeline @param {Branches} branches @param {Ends} ends @param {any} onProgress
 */
async function scores(wasm, vocab, timeline, { base, tails }, ends, onProgress) {
  const logprobs = tails.map(() => 0);
  wasm.check('bqw_session_clusters', timeline.handle, 0);
  const reused = await timeline.prefill(ends, onProgress, Uint32Array.from(base));
  let computed = base.length - reused;
  /** @type {{ path: number[], members: number[] }[]} */
  const open = [{ path: [], members: tails.map((_, i) => i) }];
  for (let node = open.pop(); node; node = open.pop()) {
    const { path, members } = node;
    const all = Uint32Array.from([...base, ...path]);
    if (path.length) computed += all.length - (await timeline.prefill(ends, undefined, all));
    const logits = wasm.f32(wasm.out('bqw_session_logits', timeline.handle), vocab);
    const sum = logSum(logits);
    /** @type {Map<number, number[]>} */
    const next = new Map();
    for (const i of members) {
      const id = tails[i][path.length];
      logprobs[i] += logits[id] - sum;
      if (tails[i].length > path.length + 1) next.set(id, [...(next.get(id) ?? []), i]);
    }
    for (const [id, those] of next) open.push({ path: [...path, id], members: those });
  }
  timeline.sync(Uint32Array.from(base));
  return { logprobs, reused, computed };
}

/** `session.choose`. @param {LocalSession} session @param {LocalModel} model @param {any[]} given @returns {Promise<Chosen>} */
export function next(session, model, given) {
  const {
    args: [prompt, options],
    signal,
    onProgress,
  } = checkCall(TABLE.session.choose, given);
  model.writes();
  return session.alone(async ({ wasm, timeline, fit }) => {
    const made = branches(model, prompt.length ? prompt : timeline.all(), options);
    for (const tail of made.tails) fit([...made.base, ...tail.slice(0, -1)]);
    const { vocabSize: vocab } = model.info;
    const { logprobs, reused, computed } = await scores(wasm, vocab, timeline, made, { signal }, onProgress);
    const total = logSum(logprobs);
    const told = options.map((/** @type {string} */ text, /** @type {number} */ i) => ({
      text,
      probability: round(Math.exp(logprobs[i] - total)),
      logprob: round(logprobs[i]),
      tokens: made.tails[i],
    }));
    const most = logprobs.indexOf(Math.max(...logprobs));
    const counts = { promptTokens: made.base.length, cachedTokens: reused, computedTokens: computed };
    return { best: options[most], options: told, ...counts };
  });
}

/** `model.choose`. @param {LocalModel} model @param {Replies} replies @param {any[]} given @returns {Promise<Chosen>} */
export async function choose(model, replies, given) {
  const {
    args: [prompt, options],
    options: turns,
    ...hears
  } = checkCall(TABLE.model.choose, given);
  model.writes();
  const isConversation = Array.isArray(prompt) && typeof prompt[0] === 'object';
  const text = isConversation ? await replies.tokens(prompt, turns) : prompt;
  const session = await replies.take(typeof text === 'string' ? model.encode(text) : text, null, hears.signal);
  try {
    return await next(session, model, [text, options, hears]);
  } finally {
    replies.give(session);
  }
}
