/** What a session does besides generating, and what few generations need. One module: parts that two share would be every page's. */
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { BqError } from '../../shared/errors.js';
import * as state from './saved-state.js';

export { choose as chooseIn, next as choose } from '../model/score-options.js';
export { Draft } from '../speculation/draft-model.js';
export { Picking, vocabulary } from '../generation/logit-processors.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { LocalSession } from './session.js' */
/** @import { Replies } from '../generation/replies.js' */
/** @import { SessionStats } from '../../shared/types.js' */

/** @param {LocalSession} session @returns {Promise<SessionStats>} */
export async function stats({ own: { wasm, timeline, context } }) {
  timeline.check();
  return {
    tokens: timeline.all().length,
    context,
    slices: wasm.call('bqw_session_slices', timeline.handle),
    draftedTokens: timeline.drafted,
    acceptedTokens: timeline.accepted,
  };
}

/** @param {LocalSession} session @param {LocalModel} model @param {any[]} given */
export async function append(session, model, given) {
  const {
    args: [more],
    options: { parseSpecial },
    signal,
    onProgress,
  } = checkCall(TABLE.session.append, given);
  await session.alone(({ timeline, fit }) => {
    const addSpecial = !timeline.ids.length && timeline.next === null;
    const ids =
      typeof more === 'string' ? model.encode(more, { addSpecial, parseSpecial, continues: !addSpecial }) : more;
    return timeline.prefill({ signal }, onProgress, fit([...timeline.all(), ...ids]));
  });
  return session.stats();
}

/** @param {LocalSession} session @param {LocalModel} _model @param {any[]} given */
export async function truncate(session, _model, given) {
  const {
    args: [tokens],
  } = checkCall(TABLE.session.truncate, given);
  await session.alone(({ timeline }) => {
    const all = timeline.all();
    if (tokens > all.length) throw new BqError('ARGUMENT', `there are ${all.length} tokens, not ${tokens}`);
    timeline.sync(Uint32Array.from(all.slice(0, tokens)));
  });
  return session.stats();
}

/** @param {LocalSession} session */
export const save = (session) =>
  session.alone(({ wasm, timeline }) => {
    if (timeline.next !== null) timeline.push(timeline.next);
    return state.save(wasm, timeline.handle);
  });

/** @param {LocalSession} session @param {LocalModel} _model @param {any[]} given */
export async function restore(session, _model, given) {
  const {
    args: [saved],
  } = checkCall(TABLE.session.restore, given);
  await session.alone(({ wasm, timeline }) => {
    timeline.forget();
    timeline.ids = state.restore(wasm, timeline.handle, saved);
  });
  return session.stats();
}

/** Tokens that are worth a copy of what was computed for them. */
const LEAST = 32;

/**
 * A session goes on from what another one, which may be at work, has computed, as far as a prompt begins so: bytes are copied.
 * @param {LocalSession} session @param {LocalModel} _model @param {any[]} given  the sessions, the prompt, the id of the adapter or null
 */
export async function borrow(session, _model, [others, tokens, adapter]) {
  let most = session.shares(tokens, adapter) + LEAST;
  /** @type {LocalSession | null} */
  let from = null;
  for (const other of /** @type {Iterable<LocalSession>} */ (others)) {
    const shared = other.closed ? 0 : other.shares(tokens, adapter);
    if (shared >= most) [most, from] = [shared, other];
  }
  if (!from) return;
  const { handle } = /** @type {LocalSession} */ (from).own.timeline;
  await session.alone(({ wasm, timeline }) => {
    timeline.forget();
    try {
      timeline.ids = state.restore(wasm, timeline.handle, state.save(wasm, handle));
    } catch {
      // The model's file has no id, or the context is too small for both: the prompt is computed.
    }
  });
}

/** What a user may say first, as different as their first tokens are: what prompts with these have in common is common to nearly all. */
const OPENINGS = ['1', 'And', 'x', '?'];

/** @param {LocalModel} model @param {Replies} replies @param {any[]} given */
export async function savePromptCache(model, replies, given) {
  const { args, options, signal, onProgress } = checkCall(TABLE.model.savePromptCache, given);
  model.writes();
  const [messages] = args;
  const [one, ...others] = await Promise.all(
    OPENINGS.map((content) => replies.tokens([...messages, { role: 'user', content }], options)),
  );
  let shared = 0;
  while (shared < one.length && others.every((other) => other[shared] === one[shared])) shared++;
  if (!shared) throw new BqError('ARGUMENT', 'conversations that begin with these messages have no token in common');
  const tokens = one.slice(0, shared);
  const session = await replies.take(tokens, null, signal);
  try {
    return await session.alone(async ({ wasm, timeline, fit }) => {
      await timeline.prefill({ signal }, onProgress, fit(tokens));
      return state.save(wasm, timeline.handle);
    });
  } finally {
    replies.give(session);
  }
}

/**
 * Computes the last token of what was restored anew, which replies need anyway: then the same bytes are to be there. They depend
 * on all tokens before it, in all layers, so they tell weights apart whose files have one id (that of GGUF is a hash of the header), and
 * engines whose sums differ. MISMATCH: the session is empty.
 * @param {LocalSession} session @param {Uint8Array} saved
 */
const compare = (session, saved) =>
  session.alone(async ({ wasm, timeline }) => {
    let same = false;
    try {
      await timeline.run({}, 1);
      same = state.isSame(wasm, timeline.handle, saved);
    } finally {
      if (!same) {
        timeline.forget();
        if (!timeline.closed) state.empty(wasm, timeline.handle);
      }
    }
    if (!same)
      throw new BqError('MISMATCH', 'the state was computed with other weights, or by another version of the engine', {
        hint: 'make it anew, with this model and this version',
      });
  });

/** @param {Replies} replies @param {any[]} given */
export async function loadPromptCache(replies, given) {
  const {
    args: [saved],
  } = checkCall(TABLE.model.loadPromptCache, given);
  const session = await replies.take([]);
  try {
    await session.restore(saved);
    if (state.isComputed(saved)) await compare(session, saved);
    return { tokens: session.length };
  } finally {
    replies.give(session);
  }
}
