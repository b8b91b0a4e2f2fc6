/** Methods of sessions and models that few pages use. They are in one module, which is loaded on demand. */
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { unlessAborted } from '../../shared/async.js';
import { BqError, onDemand } from '../../shared/errors.js';
import * as state from './saved-state.js';

export { chooseOption, chooseNext as choose } from '../model/score-options.js';
export { DraftModel } from '../speculation/draft-model.js';
export { LogitProcessors, vocabulary } from '../generation/logit-processors.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from './session.js' */
/** @import { Replies } from '../generation/replies.js' */
/** @import { SessionStats } from '../../shared/types.js' */

/** @param {LocalSession} session @returns {Promise<SessionStats>} */
export async function stats({ parts: { wasm, sequence, context } }) {
  sequence.check();
  return {
    tokens: sequence.allTokens().length,
    context,
    workUnits: wasm.call('bqw_session_work_units', sequence.handle),
    draftedTokens: sequence.draftedCount,
    acceptedTokens: sequence.acceptedCount,
  };
}

/**
 * Appends text or tokens to a session and computes them.
 * @param {LocalSession} session @param {LocalModel} model @param {any[]} args
 */
export async function append(session, model, args) {
  const {
    args: [addition],
    options: { parseSpecial },
    signal,
    onProgress,
  } = checkCall(TABLE.session.append, args);
  await session.runAlone(({ sequence, fit }) => {
    const addSpecial = !sequence.tokens.length && sequence.pendingToken === null;
    const ids =
      typeof addition === 'string'
        ? model.encode(addition, { addSpecial, parseSpecial, continues: !addSpecial })
        : addition;
    return sequence.prefill({ signal }, onProgress, fit([...sequence.allTokens(), ...ids]));
  });
  return session.stats();
}

/** @param {LocalSession} session @param {LocalModel} _model @param {any[]} args */
export async function truncate(session, _model, args) {
  const {
    args: [tokens],
  } = checkCall(TABLE.session.truncate, args);
  await session.runAlone(({ sequence }) => {
    const tokenList = sequence.allTokens();
    if (tokens > tokenList.length)
      throw new BqError('ARGUMENT', `expected at most ${tokenList.length} tokens, found ${tokens}`);
    sequence.sync(Uint32Array.from(tokenList.slice(0, tokens)));
  });
  return session.stats();
}

/** @param {LocalSession} session */
export const save = (session) =>
  session.runAlone(({ wasm, sequence }) => {
    if (sequence.pendingToken !== null) sequence.push(sequence.pendingToken);
    return state.save(wasm, sequence.handle);
  });

/** @param {LocalSession} session @param {LocalModel} _model @param {any[]} args */
export async function restore(session, _model, args) {
  const {
    args: [saved],
  } = checkCall(TABLE.session.restore, args);
  await session.runAlone(({ wasm, sequence }) => {
    sequence.clear();
    sequence.tokens = state.restore(wasm, sequence.handle, saved);
  });
  return session.stats();
}

/** @param {LocalSession} session @param {LocalModel} model @param {any[]} args */
export async function trace({ parts: { wasm, sequence } }, model, args) {
  const { options } = checkCall(TABLE.session.trace, args);
  const { readTrace } = await onDemand(import('../model/trace.js'));
  sequence.check();
  return readTrace(wasm, sequence.handle, model.info.layers, options);
}

/**
 * Switches the clustered LM head of a session on or off.
 * @param {LocalSession} session @param {LocalModel} model @param {boolean} isOn @param {AbortSignal} signal
 */
export async function useClusteredHead({ parts: { wasm, sequence } }, model, isOn, signal) {
  if (isOn) await unlessAborted(model.loaded, signal);
  if (isOn) wasm.check('bqw_model_cluster', model.handle);
  wasm.check('bqw_session_clusters', sequence.handle, Number(isOn));
}

/** Smallest number of additional shared tokens for which copying the KV cache is faster than computing them. */
const MIN_SHARED = 32;

/**
 * Copies the KV cache of another session, which may be generating, if it shares a longer prefix with the prompt.
 * @param {LocalSession} session @param {LocalModel} _model
 * @param {any[]} args  the other sessions, the prompt's tokens, the id of the adapter or null
 */
export async function copyCacheFrom(session, _model, [otherSessions, tokens, adapter]) {
  let longest = session.sharedLength(tokens, adapter) + MIN_SHARED;
  /** @type {LocalSession | null} */
  let source = null;
  for (const candidate of /** @type {Iterable<LocalSession>} */ (otherSessions)) {
    const length = candidate.isClosed ? 0 : candidate.sharedLength(tokens, adapter);
    if (length >= longest) [longest, source] = [length, candidate];
  }
  if (!source) return;
  const { handle } = /** @type {LocalSession} */ (source).parts.sequence;
  await session.runAlone(({ wasm, sequence }) => {
    sequence.clear();
    try {
      sequence.tokens = state.restore(wasm, sequence.handle, state.save(wasm, handle));
    } catch {
      // The model's file has no id, or the heap is too small. The prompt is computed instead.
    }
  });
}

/**
 * Sample user messages with different first tokens. The common prefix of their prompts is common to nearly all prompts.
 */
const SAMPLE_MESSAGES = ['1', 'And', 'x', '?'];

/**
 * Computes and saves the KV cache of the common prefix of all prompts that begin with some messages.
 * @param {LocalModel} model @param {Replies} replies @param {any[]} callArgs
 */
export async function savePromptCache(model, replies, callArgs) {
  const { args, options, signal, onProgress } = checkCall(TABLE.model.savePromptCache, callArgs);
  model.checkGenerates();
  const [messages] = args;
  const [firstPrompt, ...otherPrompts] = await Promise.all(
    SAMPLE_MESSAGES.map((content) => replies.tokens([...messages, { role: 'user', content }], options)),
  );
  let sharedLength = 0;
  while (
    sharedLength < firstPrompt.length &&
    otherPrompts.every((prompt) => prompt[sharedLength] === firstPrompt[sharedLength])
  )
    sharedLength++;
  if (!sharedLength)
    throw new BqError('ARGUMENT', 'expected messages whose conversations have a common prefix, found none');
  const tokens = firstPrompt.slice(0, sharedLength);
  const session = await replies.take(tokens, null, signal);
  try {
    return await session.runAlone(async ({ wasm, sequence, fit }) => {
      await sequence.prefill({ signal }, onProgress, fit(tokens));
      return state.save(wasm, sequence.handle);
    });
  } finally {
    replies.give(session);
  }
}

/**
 * Computes the last restored token again, which replies need anyway, and compares the bytes of its KV cache with the
 * saved ones. These bytes depend on all earlier tokens in all layers. So the comparison detects other weights under the
 * same file id (the id of a GGUF file is a hash of its header), and versions of the engine with different sums. Throws
 * MISMATCH and ARGUMENT, and empties the session then.
 * @param {LocalSession} session @param {Uint8Array} saved
 */
const compareLastToken = (session, saved) =>
  session.runAlone(async ({ wasm, sequence }) => {
    const isComparable = state.isComputed(saved);
    let isSame = false;
    try {
      if (isComparable) await sequence.run({}, 1);
      isSame = isComparable && state.isSame(wasm, sequence.handle, saved);
    } finally {
      if (!isSame) {
        sequence.clear();
        if (!sequence.isClosed) state.empty(wasm, sequence.handle);
      }
    }
    if (!isComparable)
      throw new BqError(
        'ARGUMENT',
        'expected a prompt cache, found a saved session, whose last token is not computed',
        {
          hint: 'pass the bytes of model.savePromptCache(messages); for those of session.save() use session.restore(bytes)',
        },
      );
    if (!isSame)
      throw new BqError('MISMATCH', 'the prompt cache was computed with other weights, or by another version of bq4', {
        hint: 'save it again with this model and this version',
      });
  });

/** Restores a prompt cache in a session of the pool, and checks it. @param {Replies} replies @param {any[]} args */
export async function loadPromptCache(replies, args) {
  const {
    args: [saved],
  } = checkCall(TABLE.model.loadPromptCache, args);
  const session = await replies.take([]);
  try {
    await session.restore(saved);
    await compareLastToken(session, saved);
    return { tokens: session.length };
  } finally {
    replies.give(session);
  }
}
