/** Choices that are generated at the same time, as far as a model has sessions: it computes them in shared passes. */

/** One that is generated. @template T, R @typedef {{ index: number, pieces: AsyncGenerator<T, R> }} Choice */
/** What it did last. @template T, R @typedef {Choice<T, R> & { step?: IteratorResult<T, R>, error?: any }} Told */

/**
 * What choices yield, as it comes; what they return, in their order. The first begins alone: what it computes of the prompt the
 * others need not compute again.
 * @template T, R
 * @param {number} n @param {number} most  at a time @param {(index: number) => AsyncGenerator<T, R>} begin
 * @param {() => void} leave  ends what is under way, where nobody wants it any more or one has failed
 * @returns {AsyncGenerator<[index: number, piece: T], R[]>}
 */
export async function* several(n, most, begin, leave) {
  /** @type {R[]} */
  const results = [];
  const waiting = Array.from({ length: n }, (_, index) => index);
  /** By index, what each will have done. @type {Map<number, Promise<Told<T, R>>>} */
  const active = new Map();
  /** Those that have told something. @type {Set<number>} */
  const begun = new Set();
  /** Those that are not at their end. @type {Set<AsyncGenerator<T, R>>} */
  const open = new Set();
  const go = (/** @type {Choice<T, R>} */ { index, pieces }) =>
    active.set(
      index,
      pieces.next().then(
        (step) => ({ index, pieces, step }),
        (error) => ({ index, pieces, error }),
      ),
    );
  try {
    while (waiting.length || active.size) {
      while (waiting.length && active.size < (begun.size ? most : 1)) {
        const [index] = waiting.splice(0, 1);
        const pieces = begin(index);
        open.add(pieces);
        go({ index, pieces });
      }
      const { step, error, ...choice } = await Promise.race(active.values());
      const { index, pieces } = choice;
      active.delete(index);
      if (error || step?.done) open.delete(pieces);
      if (error) {
        // Others of the page have the sessions: it comes after one of these.
        if (error.code !== 'NO_SESSION' || begun.has(index) || !active.size) throw error;
        waiting.unshift(index);
        most = active.size;
        continue;
      }
      begun.add(index);
      if (step?.done) {
        results[index] = step.value;
        continue;
      }
      const told = /** @type {[number, T]} */ ([index, step?.value]);
      // One alone computes what is asked for; of several the next is computed while this one is read.
      if (n > 1) go(choice);
      yield told;
      if (n === 1) go(choice);
    }
    return results;
  } finally {
    if (active.size) leave();
    await Promise.all([...open].map((pieces) => pieces.return(/** @type {any} */ (undefined))));
  }
}
