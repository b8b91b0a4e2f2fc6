// A session that reads a known text: the following tokens of the text are draft tokens, so they are computed in batches and all accepted.
import { openLogits } from '../../tests/js/logits.mjs';
import { median } from '../bench/stats.mjs';

/** Number of draft tokens of a batch. A batch also contains the token before them. */
const DRAFT_TOKENS = 31;
/** Number of steps whose duration is measured. */
const MEASURED_STEPS = 8;

/** @typedef {ArrayLike<number> & { slice(from: number, to?: number): number[] }} Tokens */

/**
 * Loads a model and returns a reader of a text.
 * @param {import('../../js/shared/types.js').SourceLike} source @param {Tokens} tokens
 * @param {NonNullable<Parameters<typeof openLogits>[1]>} options
 */
export async function openReader(source, tokens, { threads = 1, ...options }) {
  const logits = await openLogits(source, {
    contextTokens: tokens.length,
    draftTokens: DRAFT_TOKENS,
    ...options,
    threads: threads > 1 ? threads : 0,
  });
  return { ...readerOf(logits, tokens), another: logits.another };
}

/**
 * Returns a reader for a session.
 * @param {Omit<Awaited<ReturnType<typeof openLogits>>, 'another'>} logits  has memory for DRAFT_TOKENS draft tokens
 * @param {Tokens} tokens
 */
export function readerOf(logits, tokens) {
  const { wasm, session, vocab } = logits;
  let computedDrafts = 0;
  return {
    ...logits,
    /** Returns the logits after the first n tokens. The call before this one was for n - 1 tokens. @param {number} n */
    read(n) {
      if (n === 1) logits.sync(tokens.slice(0, 1));
      else wasm.check('bqw_session_append', session, tokens[n - 1]);
      if (n > 1 && computedDrafts-- > 0) return wasm.f32(wasm.out('bqw_session_logits', session), vocab).slice();
      const drafts = tokens.slice(n, n + DRAFT_TOKENS);
      computedDrafts = wasm.scope((alloc) => {
        const pointer = alloc(4 * DRAFT_TOKENS);
        wasm.u32(pointer, drafts.length).set(drafts);
        return wasm.out('bqw_session_draft', session, pointer, drafts.length);
      });
      return logits.run();
    },
    /** Returns the duration of a step in milliseconds: the median of the steps that end at `depth`. @param {number} depth  in tokens */
    step(depth) {
      logits.start(tokens.slice(0, depth - MEASURED_STEPS));
      const durations = tokens.slice(depth - MEASURED_STEPS, depth).map((token) => {
        const startTime = performance.now();
        logits.next(token);
        return performance.now() - startTime;
      });
      return median(durations);
    },
    /** Continues reading after `depth` tokens. @param {number} depth */
    resume(depth) {
      logits.sync(tokens.slice(0, depth));
      logits.run();
      computedDrafts = 0;
    },
  };
}
