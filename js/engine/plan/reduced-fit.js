/**
 * Reduces requested sizes that do not fit in memory: first the sessions, then the context, then the KV precision. As
 * the last step, weights are paged. Loaded on demand, since most models fit.
 */
import { BqError } from '../../shared/errors.js';
import { LIMIT, megabytes } from './memory-limit.js';

/** @import { GaveUp } from '../../shared/types.js' */
/** @import { KvType } from '../../shared/names.js' */
/** @import { Fitted, SizedPlan, Sizes } from './memory-fit.js' */

/**
 * Plans sizes. With `room`, weights are paged if necessary so that the heap has at most `room` bytes. Throws NOMEM,
 * UNSUPPORTED.
 * @typedef {(sizes: Sizes, room?: number) => SizedPlan} PlanSizes
 */

/**
 * Smallest reduced context, in tokens. A smaller one is useless for a conversation, so KV precision is reduced first.
 */
const MIN_CONTEXT = 512;
/** KV types in the order of reduction. i4 and i2 must be requested, because they cost quality. @type {KvType[]} */
const KV_STEPS = ['f32', 'f16', 'i8'];

/**
 * Returns the largest number from `low` to `high` for which `fits` returns true; 0 if there is none. `fits` must be
 * true for all smaller numbers too.
 * @param {number} low @param {number} high @param {(n: number) => boolean} fits
 */
function largest(low, high, fits) {
  if (low > high || !fits(low)) return 0;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Lists the reduced sizes. @param {Sizes} requested @param {Sizes} chosen @returns {GaveUp[]} */
const listChanges = (requested, chosen) =>
  /** @type {const} */ (['sessions', 'contextTokens', 'kv'])
    .filter((name) => requested[name] !== chosen[name])
    .map((name) => ({ what: name, from: requested[name], to: chosen[name] }));

/**
 * Plans requested sizes that do not fit. With `apply`, plans the largest sizes that fit. Throws NOMEM if nothing fits.
 * @param {object} request
 * @param {Sizes} request.requested
 * @param {PlanSizes} request.planFor
 * @param {(sizes: Sizes) => number} request.bytesOf  returns the heap bytes; Infinity: beyond the planner's range
 * @param {Record<string, number>} request.smallestNumbers  numbers of the smallest plan
 * @param {number} [request.budget]
 * @param {number} request.limit
 * @param {boolean} request.apply
 * @param {boolean} request.exact
 * @param {string} request.pagingHint
 * @returns {Fitted}
 */
export function fitToBudget({ requested, planFor, bytesOf, smallestNumbers, budget, limit, apply, exact, pagingHint }) {
  const fits = (/** @type {Sizes} */ sizes) => bytesOf(sizes) <= limit;
  const findLargest = exact ? fitExactly : fitLargest;
  const chosen = findLargest(requested, fits);
  const { paged, unpageable } =
    !chosen && budget !== undefined && !pagingHint ? fitWithPaging(requested, findLargest, planFor, budget, limit) : {};
  if (paged) return paged;
  const single = { ...requested, sessions: 1 };
  const contextThatFits = largest(1, requested.contextTokens, (contextTokens) => fits({ ...single, contextTokens }));
  const needed = bytesOf(requested);
  const neededText = Number.isFinite(needed) ? megabytes(needed) : `more than ${megabytes(LIMIT)}`;
  const fitsReason = `${neededText} are needed, ${budget === undefined || budget > LIMIT ? `the limit of WebAssembly is ${megabytes(LIMIT)}` : `the budget is ${megabytes(budget)}`}`;
  if (!chosen && (apply || exact || !Number.isFinite(needed))) {
    const smallest = bytesOf({ sessions: 1, contextTokens: Math.min(MIN_CONTEXT, requested.contextTokens), kv: 'i8' });
    throw new BqError(
      'NOMEM',
      `${fitsReason}; the smallest configuration, one session of ${Math.min(MIN_CONTEXT, requested.contextTokens)} tokens, needs ${Number.isFinite(smallest) ? megabytes(smallest) : 'more than that as well'}`,
      {
        ...(pagingHint && { hint: pagingHint }),
        ...(unpageable && {
          cause: unpageable,
          hint: `reading weights from the file for every token would need less memory, but ${unpageable.message}`,
        }),
        details: { needed, smallest, budget: limit, weightBytes: smallestNumbers.weight_bytes, contextThatFits },
      },
    );
  }
  const gaveUp = chosen ? listChanges(requested, chosen) : [];
  if (apply && chosen) return { ...chosen, ...planFor(chosen), fits: 'yes', fitsReason, contextThatFits, gaveUp };
  if (Number.isFinite(needed))
    return { ...requested, ...planFor(requested), fits: 'no', fitsReason, contextThatFits, gaveUp };
  // The requested sizes exceed the planner's range, so their bytes are extrapolated from the plan that fits.
  const plan = planFor(/** @type {Sizes} */ (chosen));
  const perToken = plan.numbers.kv_bytes / /** @type {Sizes} */ (chosen).contextTokens;
  const kvBytes = perToken * requested.contextTokens;
  const sessionBytes = plan.numbers.session_bytes - plan.numbers.kv_bytes + kvBytes;
  const heapBytes =
    plan.heapBytes +
    sessionBytes * requested.sessions -
    plan.numbers.session_bytes * /** @type {Sizes} */ (chosen).sessions;
  return {
    ...requested,
    numbers: { ...plan.numbers, kv_bytes: kvBytes, session_bytes: sessionBytes },
    paging: null,
    heapBytes,
    fits: 'no',
    fitsReason,
    contextThatFits,
    gaveUp,
  };
}

/**
 * Plans the largest sizes that fit if weights are paged. Returns no plan if nothing fits. `unpageable` is set to the
 * error if these weights can't be paged.
 * @param {Sizes} requested
 * @param {typeof fitLargest} findLargest
 * @param {PlanSizes} planFor
 * @param {number} budget
 * @param {number} limit
 * @returns {{ paged?: Fitted, unpageable?: BqError }}
 */
function fitWithPaging(requested, findLargest, planFor, budget, limit) {
  /** @type {BqError | undefined} */
  let unpageable;
  /** @param {Sizes} sizes */
  const planPaged = (sizes) => {
    try {
      return planFor(sizes, limit);
    } catch (error) {
      if (!(error instanceof BqError) || (error.code !== 'NOMEM' && error.code !== 'UNSUPPORTED')) throw error;
      if (error.code === 'UNSUPPORTED') unpageable = error;
      return null;
    }
  };
  const largestSizes = findLargest(requested, (sizes) => planPaged(sizes) !== null);
  const plan = largestSizes && planPaged(largestSizes);
  if (!largestSizes || !plan) return { unpageable };
  const contextThatFits = largest(
    1,
    requested.contextTokens,
    (contextTokens) => planPaged({ ...requested, sessions: 1, contextTokens }) !== null,
  );
  const fitsReason = `${megabytes(plan.heapBytes)} of a budget of ${megabytes(budget)}, with weights read from the file for every token`;
  const gaveUp = [
    ...listChanges(requested, largestSizes),
    { what: /** @type {const} */ ('residency'), from: 'resident', to: 'paged' },
  ];
  return { paged: { ...largestSizes, ...plan, fits: 'yes', fitsReason, contextThatFits, gaveUp } };
}

/** Returns the requested sizes if they fit, otherwise null. @type {typeof fitLargest} */
const fitExactly = (requested, fits) => (fits(requested) ? requested : null);

/**
 * Returns the largest sizes that fit; null if none do.
 * @param {Sizes} requested @param {(sizes: Sizes) => boolean} fits
 * @returns {Sizes | null}
 */
function fitLargest(requested, fits) {
  const sessions = largest(1, requested.sessions, (n) => fits({ ...requested, sessions: n }));
  if (sessions) return { ...requested, sessions };
  for (const kv of !KV_STEPS.includes(requested.kv) ? [requested.kv] : KV_STEPS.slice(KV_STEPS.indexOf(requested.kv))) {
    const sizes = { ...requested, sessions: 1, kv };
    const contextTokens = largest(Math.min(MIN_CONTEXT, requested.contextTokens), requested.contextTokens, (n) =>
      fits({ ...sizes, contextTokens: n }),
    );
    if (contextTokens) return { ...sizes, contextTokens };
  }
  return null;
}
