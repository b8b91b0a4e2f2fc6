/** A session that reads a known text: what comes next is guessed, rightly, and computed in batches. */
import { openLogits } from '../../tests/js/logits.mjs';
import { median } from '../bench/stats.mjs';

/** Tokens whose logits are computed in one batch, besides the first. */
const AHEAD = 31;
const STEPS = 8;

/**
 * @param {import('../../js/shared/types.js').SourceLike} source @param {ArrayLike<number> & { slice(from: number, to?: number): number[] }} ids
 * @param {NonNullable<Parameters<typeof openLogits>[1]>} options
 */
export async function openReader(source, ids, { threads = 1, ...options }) {
  const own = await openLogits(source, {
    contextTokens: ids.length,
    draftTokens: AHEAD,
    ...options,
    threads: threads > 1 ? threads : 0,
  });
  return { ...readerOf(own, ids), another: own.another };
}

/**
 * @param {Omit<Awaited<ReturnType<typeof openLogits>>, 'another'>} own  with room for AHEAD drafts
 * @param {ArrayLike<number> & { slice(from: number, to?: number): number[] }} ids
 */
export function readerOf(own, ids) {
  const { wasm, session, vocab } = own;
  let ahead = 0;
  return {
    ...own,
    /** Logits behind the first n tokens, where those behind n - 1 were read before. @param {number} n */
    read(n) {
      if (n === 1) own.sync(ids.slice(0, 1));
      else wasm.check('bqw_session_append', session, ids[n - 1]);
      if (n > 1 && ahead-- > 0) return wasm.f32(wasm.out('bqw_session_logits', session), vocab).slice();
      const rest = ids.slice(n, n + AHEAD);
      ahead = wasm.scope((take) => {
        const at = take(4 * AHEAD);
        wasm.u32(at, rest.length).set(rest);
        return wasm.out('bqw_session_draft', session, at, rest.length);
      });
      return own.run();
    },
    /** Milliseconds of a step, the median of those that end at `depth`. @param {number} depth */
    step(depth) {
      own.start(ids.slice(0, depth - STEPS));
      const times = ids.slice(depth - STEPS, depth).map((id) => {
        const startTime = performance.now();
        own.next(id);
        return performance.now() - startTime;
      });
      return median(times);
    },
    /** Goes on reading behind `depth`. @param {number} depth */
    resume(depth) {
      own.sync(ids.slice(0, depth));
      own.run();
      ahead = 0;
    },
  };
}
