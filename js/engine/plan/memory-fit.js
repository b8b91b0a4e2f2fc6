/**
 * Decides whether a model fits in memory, and with a budget what to reduce: first sessions,
 * then context, then KV precision, and at last weights are paged.
 */
import { BqError } from '../../shared/errors.js';
import { isNode, nodeModule } from '../../shared/node.js';

/** @import { GaveUp, LoadOptions } from '../../shared/types.js' */
/** @import { Planner } from './plan.js' */

/** Largest memory of an instance: with the last page of 4 GiB the heap would end at address 2^32, which is not a pointer. */
export const LIMIT = 65535 * 65536;
/** Bytes that every browser can allocate. */
const ALWAYS_AVAILABLE = 256 * 2 ** 20;
/** A smaller context is useless for a conversation, so KV precision is reduced first. */
const MIN_CONTEXT = 512;
/** KV types in the order in which a budget reduces them. i4 and i2 are opt-in, because they cost quality. @type {Kv[]} */
const KV_STEPS = ['f32', 'f16', 'i8'];
/** Default of `contextTokens`, if the model has a larger context. */
const DEFAULT_CONTEXT = 4096;
/**
 * The default type of the KV cache. The bias of keys (Qwen 2) may be so large that i8
 * costs more quality than everything else together (docs/QUALITY.md). Its size is unknown before the weights are loaded.
 * @param {Record<string, number>} numbers  of a plan
 * @returns {Kv}
 */
const defaultKv = ({ no_head: encodes, key_bias: keyBias }) => (encodes ? 'f32' : keyBias ? 'f16' : 'i8');

/** @typedef {'f32' | 'f16' | 'i8' | 'i4' | 'i2'} Kv */
/** @typedef {{ sessions: number, contextTokens: number, kv: Kv }} Sizes */
/**
 * A plan with the sizes that it is for.
 * @typedef {Sizes & { numbers: Record<string, number>, paging: Record<string, number> | null, heapBytes: number, fits: 'yes' | 'no' | 'unknown', fitsReason: string,
 *   contextThatFits: number | null, gaveUp: GaveUp[] }} Fitted
 */

/** @param {number} bytes */
const megabytes = (bytes) => `${(Math.ceil(bytes / 1e5) / 10).toFixed(bytes < 1e8 ? 1 : 0)} MB`;

/**
 * The plan for the requested sizes, and whether it fits; with `apply`, for the largest sizes that fit. `exact`: nothing is reduced, but weights may
 * be paged. ARGUMENT; NOMEM: nothing fits.
 * @param {Planner} planner  has all bytes of the header
 * @param {number} heapBase
 * @param {LoadOptions & { exact?: boolean }} options
 * @param {boolean} apply
 * @param {string} notPageable  a hint how to make paging possible; '': it is possible
 * @returns {Promise<Fitted>}
 */
export async function fitPlan(planner, heapBase, options, apply, notPageable) {
  const { memoryBudget: budget, sessions = 1, adapterBytes = 0, exact = false } = options;
  if (budget !== undefined && !(budget > 0))
    throw new BqError('ARGUMENT', `expected memoryBudget to be a number of bytes, found ${budget}`);
  /** @param {Partial<LoadOptions>} sizes @param {number} [pagedBudget]  weights may be paged to keep to it */
  const planFor = (sizes, pagedBudget) => {
    const { numbers, paging } =
      /** @type {{ numbers: Record<string, number>, paging: Record<string, number> | null }} */ (
        planner({ ...options, ...sizes }, pagedBudget)
      );
    numbers.heap_bytes += adapterBytes;
    return { numbers, paging, heapBytes: Math.ceil((heapBase + numbers.heap_bytes) / 65536) * 65536 };
  };
  // Weights that exceed the address space may still be paged.
  const smallest = planFor(
    { contextTokens: 1, prefillWindow: 1, prefillBatch: 1, sessions: 1 },
    budget === undefined ? undefined : LIMIT,
  );
  const { context: trained, text_tokens: text, no_head: encodes } = smallest.numbers;
  /** @type {Sizes} */
  const requested = {
    sessions,
    contextTokens: options.contextTokens ?? Math.min(encodes && text ? text : trained, DEFAULT_CONTEXT),
    kv: options.kv ?? defaultKv(smallest.numbers),
  };
  const limit = Math.min(budget ?? LIMIT, LIMIT);
  /** @param {Sizes} sizes */
  const bytesOf = (sizes) => {
    try {
      return planFor(sizes).heapBytes;
    } catch (error) {
      if (error instanceof BqError && error.code === 'NOMEM') return Infinity;
      throw error;
    }
  };
  const ok = (/** @type {Sizes} */ sizes) => bytesOf(sizes) <= limit;
  if (ok(requested)) {
    const plan = planFor(requested);
    const machineFit = budget === undefined && !apply ? await guessFit(plan.heapBytes) : null;
    const [fits, fitsReason] = machineFit ?? ['yes', `${megabytes(plan.heapBytes)}, as asked for`];
    return { ...requested, ...plan, fits, fitsReason, contextThatFits: requested.contextTokens, gaveUp: [] };
  }
  return fitToBudget({
    requested,
    planFor,
    bytesOf,
    least: smallest.numbers,
    budget,
    limit,
    apply,
    exact,
    notPageable,
  });
}

/** Bytes of memory as far as this machine tells; 0: it doesn't. */
async function machineBytes() {
  if (isNode) return (await nodeModule('os')).totalmem();
  const { deviceMemory = 0 } = /** @type {any} */ (globalThis.navigator ?? {});
  return deviceMemory * 2 ** 30;
}

/** What may be said without a budget. @param {number} heap @returns {Promise<['yes' | 'no' | 'unknown', string]>} */
async function guessFit(heap) {
  if (heap <= ALWAYS_AVAILABLE) return ['yes', `${megabytes(heap)} are no more than any browser gives`];
  const machine = await machineBytes();
  if (!machine)
    return ['unknown', `the browser does not report the memory of this machine; ${megabytes(heap)} are needed`];
  if (heap <= machine / 4)
    return ['yes', `${megabytes(heap)} are at most a quarter of this machine's ${megabytes(machine)}`];
  // Browsers report at most 8 GiB, newer ones 32.
  if (heap > machine && machine < 8 * 2 ** 30)
    return ['no', `${megabytes(heap)} are needed, this machine has ${megabytes(machine)}`];
  return ['unknown', `${megabytes(heap)} are much for this machine's ${megabytes(machine)}`];
}

/** The largest number in [from, to] for which `ok` holds, as it does for all smaller ones; 0: none. @param {number} low @param {number} high @param {(n: number) => boolean} fits */
function largest(low, high, fits) {
  if (low > high || !fits(low)) return 0;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** @param {Sizes} requested @param {Sizes} chosen @returns {GaveUp[]} */
const listChanges = (requested, chosen) =>
  /** @type {const} */ (['sessions', 'contextTokens', 'kv'])
    .filter((what) => requested[what] !== chosen[what])
    .map((name) => ({ what: name, from: requested[name], to: chosen[name] }));

/**
 * What was asked for does not fit: its plan, or with `apply` that of the most that does. NOMEM: nothing does.
 * @param {object} given
 * @param {Sizes} given.requested
 * @param {(sizes: Sizes, room?: number) => { numbers: Record<string, number>, paging: Record<string, number> | null, heapBytes: number }} given.planFor
 *   with `room`, weights may be paged to keep to it
 * @param {(sizes: Sizes) => number} given.bytesOf  Infinity: more than can be counted
 * @param {Record<string, number>} given.least  numbers of the smallest plan
 * @param {number} [given.budget]
 * @param {number} given.limit
 * @param {boolean} given.apply
 * @param {boolean} given.exact
 * @param {string} given.notPageable
 * @returns {Fitted}
 */
function fitToBudget({
  requested,
  planFor,
  bytesOf,
  least: smallestNumbers,
  budget,
  limit,
  apply,
  exact,
  notPageable,
}) {
  const ok = (/** @type {Sizes} */ sizes) => bytesOf(sizes) <= limit;
  const findLargest = exact ? fitExactly : fitLargest;
  const chosen = findLargest(requested, ok);
  const { paged, unpageable } =
    !chosen && budget !== undefined && !notPageable
      ? fitWithPaging(requested, findLargest, planFor, budget, limit)
      : {};
  if (paged) return paged;
  const single = { ...requested, sessions: 1 };
  const contextThatFits = largest(1, requested.contextTokens, (contextTokens) => ok({ ...single, contextTokens }));
  const needed = bytesOf(requested);
  const neededText = Number.isFinite(needed) ? megabytes(needed) : `more than ${megabytes(LIMIT)}`;
  const fitsReason = `${neededText} are needed, ${budget === undefined || budget > LIMIT ? `WebAssembly can have ${megabytes(LIMIT)}` : `the budget is ${megabytes(budget)}`}`;
  if (!chosen && (apply || exact || !Number.isFinite(needed))) {
    const smallest = bytesOf({ sessions: 1, contextTokens: Math.min(MIN_CONTEXT, requested.contextTokens), kv: 'i8' });
    throw new BqError(
      'NOMEM',
      `${fitsReason}; the least that is of use, one session of ${Math.min(MIN_CONTEXT, requested.contextTokens)} tokens, takes ${Number.isFinite(smallest) ? megabytes(smallest) : 'more than that too'}`,
      {
        ...(notPageable && { hint: notPageable }),
        ...(unpageable && {
          cause: unpageable,
          hint: `fewer bytes would do if weights could be read from the file for every token, but ${unpageable.message}`,
        }),
        details: { needed, smallest, budget: limit, weightBytes: smallestNumbers.weight_bytes, contextThatFits },
      },
    );
  }
  const gaveUp = chosen ? listChanges(requested, chosen) : [];
  if (apply && chosen) return { ...chosen, ...planFor(chosen), fits: 'yes', fitsReason, contextThatFits, gaveUp };
  if (Number.isFinite(needed))
    return { ...requested, ...planFor(requested), fits: 'no', fitsReason, contextThatFits, gaveUp };
  // Beyond what can be counted: from what does fit, token by token.
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
 * Where weights leave memory, what they leave behind is for what was asked. Nothing: not even so; `unpageable`: since they
 * can't leave it.
 * @param {Sizes} requested
 * @param {typeof fitLargest} findLargest
 * @param {(sizes: Sizes, room?: number) => { numbers: Record<string, number>, paging: Record<string, number> | null, heapBytes: number }} planFor
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

/** @type {typeof fitLargest} */
const fitExactly = (requested, fits) => (fits(requested) ? requested : null);

/** @param {Sizes} requested @param {(sizes: Sizes) => boolean} fits @returns {Sizes | null} */
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
