/** Generates several choices at the same time, in shared batches, up to the model's number of sessions. */

/**
 * A choice that is being generated.
 * @template T, R
 * @typedef {{ index: number, pieces: AsyncGenerator<T, R> }} Choice
 */
/**
 * A choice with its latest step or error.
 * @template T, R
 * @typedef {Choice<T, R> & { step?: IteratorResult<T, R>, error?: any }} PendingChoice  an error, which may be any value,
 *   has no step
 */

/**
 * Yields pieces of all choices when they are computed, and returns the results in order. The first choice starts alone,
 * so that the others can reuse its KV cache of the prompt.
 * @template T, R
 * @param {number} n  number of choices
 * @param {number} parallel  largest number of choices at the same time
 * @param {(index: number) => AsyncGenerator<T, R>} start  starts a choice
 * @param {() => void} abort  aborts running choices; called when the reader leaves or one of them fails
 * @returns {AsyncGenerator<[index: number, piece: T], R[]>}
 */
export async function* generateChoices(n, parallel, start, abort) {
  /** @type {R[]} */
  const results = [];
  const pending = Array.from({ length: n }, (_, index) => index);
  /** The pending step of each running choice, by index. @type {Map<number, Promise<PendingChoice<T, R>>>} */
  const active = new Map();
  /** Choices that have yielded a piece. @type {Set<number>} */
  const started = new Set();
  /** Generators that have not ended. @type {Set<AsyncGenerator<T, R>>} */
  const open = new Set();
  const advance = (/** @type {Choice<T, R>} */ { index, pieces }) =>
    active.set(
      index,
      pieces.next().then(
        (step) => ({ index, pieces, step }),
        (error) => ({ index, pieces, error }),
      ),
    );
  try {
    while (pending.length || active.size) {
      while (pending.length && active.size < (started.size ? parallel : 1)) {
        const [index] = pending.splice(0, 1);
        const pieces = start(index);
        open.add(pieces);
        advance({ index, pieces });
      }
      const { step, error, ...choice } = await Promise.race(active.values());
      const { index, pieces } = choice;
      active.delete(index);
      if (!step || step.done) open.delete(pieces);
      if (!step) {
        // Other callers use the sessions. This choice waits until another choice of this request ends.
        if (error?.code !== 'NO_SESSION' || started.has(index) || !active.size) throw error;
        pending.unshift(index);
        parallel = active.size;
        continue;
      }
      started.add(index);
      if (step.done) {
        results[index] = step.value;
        continue;
      }
      const output = /** @type {[number, T]} */ ([index, step.value]);
      // A single choice computes on demand; several compute the next piece while this one is read.
      if (n > 1) advance(choice);
      yield output;
      if (n === 1) advance(choice);
    }
    return results;
  } finally {
    if (active.size) abort();
    await Promise.all([...open].map((pieces) => pieces.return(/** @type {any} */ (undefined))));
  }
}
