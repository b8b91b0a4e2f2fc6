/**
 * Whether a model fits in memory: what can be said without a budget, and what is given up within one. First sessions,
 * then context, then KV precision, and at last that all weights stay in memory.
 */
import { BqError } from '../../shared/errors.js';
import { isNode, nodeModule } from '../../shared/node.js';

/** @import { GaveUp, LoadOptions } from '../../shared/types.js' */
/** @import { Planner } from './plan.js' */

/** The most that an instance can have: on the last page of 4 GiB the heap would end at address 2^32, which is no pointer. */
export const LIMIT = 65535 * 65536;
/** Every browser gives so much. */
const SMALL = 256 * 2 ** 20;
/** A context below this is no use for talking: KV precision goes first. */
const LEAST_CONTEXT = 512;
/** One after the other, where a budget asks for it. Not i4 and i2, which cost quality: only who asks for them gets them. @type {Kv[]} */
const PRECISIONS = ['f32', 'f16', 'i8'];
/** Tokens of context at most, where nothing is asked for. */
const CONTEXT_DEFAULT = 4096;
/**
 * The type of the KV cache where nothing is asked for: what is of use, not the reference. The bias of keys (Qwen 2) may be so large that i8
 * costs more than all else together (docs/QUALITY.md). How large it is isn't known before the weights are there.
 * @param {Record<string, number>} numbers  of a plan
 * @returns {Kv}
 */
const defaultKv = ({ no_head: encodes, key_bias: keyBias }) => (encodes ? 'f32' : keyBias ? 'f16' : 'i8');

/** @typedef {'f32' | 'f16' | 'i8' | 'i4' | 'i2'} Kv */
/** @typedef {{ sessions: number, contextTokens: number, kv: Kv }} Sizes */
/**
 * A plan's numbers and what they are for.
 * @typedef {Sizes & { numbers: Record<string, number>, paging: Record<string, number> | null, heapBytes: number, fits: 'yes' | 'no' | 'unknown', fitsReason: string,
 *   contextThatFits: number | null, gaveUp: GaveUp[] }} Fitted
 */

/** @param {number} bytes */
const megabytes = (bytes) => `${(Math.ceil(bytes / 1e5) / 10).toFixed(bytes < 1e8 ? 1 : 0)} MB`;

/**
 * The plan for what was asked, and whether it fits; with `apply`, for the most that fits. `exact`: nothing is given up but that all weights stay
 * in memory. ARGUMENT; NOMEM: nothing does.
 * @param {Planner} planner  with all bytes that it needs
 * @param {number} heapBase
 * @param {LoadOptions & { exact?: boolean }} options
 * @param {boolean} apply
 * @param {string} notPageable  what to do so that weights can be read from the source again and again; '': they can
 * @returns {Promise<Fitted>}
 */
export async function fitted(planner, heapBase, options, apply, notPageable) {
  const { memoryBudget: budget, sessions = 1, adapterBytes = 0, exact = false } = options;
  if (budget !== undefined && !(budget > 0))
    throw new BqError('ARGUMENT', `expected memoryBudget to be a number of bytes, found ${budget}`);
  /** @param {Partial<LoadOptions>} sizes @param {number} [room]  weights may be paged to keep to it */
  const planFor = (sizes, room) => {
    const { numbers, paging } =
      /** @type {{ numbers: Record<string, number>, paging: Record<string, number> | null }} */ (
        planner({ ...options, ...sizes }, room && room - adapterBytes)
      );
    numbers.heap_bytes += adapterBytes;
    return { numbers, paging, heapBytes: Math.ceil((heapBase + numbers.heap_bytes) / 65536) * 65536 };
  };
  // More weights than can be addressed may still be paged.
  const least = planFor(
    { contextTokens: 1, prefillWindow: 1, prefillBatch: 1, sessions: 1 },
    budget === undefined ? undefined : LIMIT,
  );
  const { context: trained, text_tokens: text, no_head: encodes } = least.numbers;
  /** @type {Sizes} */
  const asked = {
    sessions,
    contextTokens: options.contextTokens ?? Math.min(encodes && text ? text : trained, CONTEXT_DEFAULT),
    kv: options.kv ?? defaultKv(least.numbers),
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
  if (ok(asked)) {
    const plan = planFor(asked);
    const guessed = budget === undefined && !apply ? await guess(plan.heapBytes) : null;
    const [fits, fitsReason] = guessed ?? ['yes', `${megabytes(plan.heapBytes)}, as asked for`];
    return { ...asked, ...plan, fits, fitsReason, contextThatFits: asked.contextTokens, gaveUp: [] };
  }
  return squeezed({ asked, planFor, bytesOf, least: least.numbers, budget, limit, apply, exact, notPageable });
}

/** Bytes of memory as far as this machine tells; 0: it doesn't. */
async function machineBytes() {
  if (isNode) return (await nodeModule('os')).totalmem();
  const { deviceMemory = 0 } = /** @type {any} */ (globalThis.navigator ?? {});
  return deviceMemory * 2 ** 30;
}

/** What may be said without a budget. @param {number} heap @returns {Promise<['yes' | 'no' | 'unknown', string]>} */
async function guess(heap) {
  if (heap <= SMALL) return ['yes', `${megabytes(heap)} are no more than any browser gives`];
  const machine = await machineBytes();
  if (!machine)
    return ['unknown', `this browser does not tell how much memory there is; ${megabytes(heap)} are needed`];
  if (heap <= machine / 4)
    return ['yes', `${megabytes(heap)} are at most a quarter of this machine's ${megabytes(machine)}`];
  // Browsers never tell more than 8 GiB, or now 32.
  if (heap > machine && machine < 8 * 2 ** 30)
    return ['no', `${megabytes(heap)} are needed, this machine has ${megabytes(machine)}`];
  return ['unknown', `${megabytes(heap)} are much for this machine's ${megabytes(machine)}`];
}

/** The largest number in [from, to] for which `ok` holds, as it does for all smaller ones; 0: none. @param {number} from @param {number} to @param {(n: number) => boolean} ok */
function largest(from, to, ok) {
  if (from > to || !ok(from)) return 0;
  while (from < to) {
    const middle = Math.ceil((from + to) / 2);
    if (ok(middle)) from = middle;
    else to = middle - 1;
  }
  return from;
}

/** @param {Sizes} asked @param {Sizes} chosen @returns {GaveUp[]} */
const differences = (asked, chosen) =>
  /** @type {const} */ (['sessions', 'contextTokens', 'kv'])
    .filter((what) => asked[what] !== chosen[what])
    .map((what) => ({ what, from: asked[what], to: chosen[what] }));

/**
 * What was asked for does not fit: its plan, or with `apply` that of the most that does. NOMEM: nothing does.
 * @param {object} given
 * @param {Sizes} given.asked
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
function squeezed({ asked, planFor, bytesOf, least, budget, limit, apply, exact, notPageable }) {
  const ok = (/** @type {Sizes} */ sizes) => bytesOf(sizes) <= limit;
  const most = exact ? allThatFits : mostThatFits;
  const chosen = most(asked, ok);
  const { paged, unpageable } =
    !chosen && budget !== undefined && !notPageable ? pagedWithin(asked, most, planFor, budget, limit) : {};
  if (paged) return paged;
  const single = { ...asked, sessions: 1 };
  const contextThatFits = largest(1, asked.contextTokens, (contextTokens) => ok({ ...single, contextTokens }));
  const needed = bytesOf(asked);
  const what = Number.isFinite(needed) ? megabytes(needed) : `more than ${megabytes(LIMIT)}`;
  const fitsReason = `${what} are needed, ${budget === undefined || budget > LIMIT ? `WebAssembly can have ${megabytes(LIMIT)}` : `the budget is ${megabytes(budget)}`}`;
  if (!chosen && (apply || exact || !Number.isFinite(needed))) {
    const smallest = bytesOf({ sessions: 1, contextTokens: Math.min(LEAST_CONTEXT, asked.contextTokens), kv: 'i8' });
    throw new BqError(
      'NOMEM',
      `${fitsReason}; the least that is of use, one session of ${Math.min(LEAST_CONTEXT, asked.contextTokens)} tokens, takes ${Number.isFinite(smallest) ? megabytes(smallest) : 'more than that too'}`,
      {
        ...(notPageable && { hint: notPageable }),
        ...(unpageable && {
          cause: unpageable,
          hint: `fewer bytes would do if weights could be read from the file for every token, but ${unpageable.message}`,
        }),
        details: { needed, smallest, budget: limit, weightBytes: least.weight_bytes, contextThatFits },
      },
    );
  }
  const gaveUp = chosen ? differences(asked, chosen) : [];
  if (apply && chosen) return { ...chosen, ...planFor(chosen), fits: 'yes', fitsReason, contextThatFits, gaveUp };
  if (Number.isFinite(needed)) return { ...asked, ...planFor(asked), fits: 'no', fitsReason, contextThatFits, gaveUp };
  // Beyond what can be counted: from what does fit, token by token.
  const plan = planFor(/** @type {Sizes} */ (chosen));
  const perToken = plan.numbers.kv_bytes / /** @type {Sizes} */ (chosen).contextTokens;
  const kvBytes = perToken * asked.contextTokens;
  const sessionBytes = plan.numbers.session_bytes - plan.numbers.kv_bytes + kvBytes;
  const heapBytes =
    plan.heapBytes +
    sessionBytes * asked.sessions -
    plan.numbers.session_bytes * /** @type {Sizes} */ (chosen).sessions;
  return {
    ...asked,
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
 * @param {Sizes} asked
 * @param {typeof mostThatFits} most
 * @param {(sizes: Sizes, room?: number) => { numbers: Record<string, number>, paging: Record<string, number> | null, heapBytes: number }} planFor
 * @param {number} budget
 * @param {number} limit
 * @returns {{ paged?: Fitted, unpageable?: BqError }}
 */
function pagedWithin(asked, most, planFor, budget, limit) {
  /** @type {BqError | undefined} */
  let unpageable;
  /** @param {Sizes} sizes */
  const planned = (sizes) => {
    try {
      return planFor(sizes, limit);
    } catch (error) {
      if (!(error instanceof BqError) || (error.code !== 'NOMEM' && error.code !== 'UNSUPPORTED')) throw error;
      if (error.code === 'UNSUPPORTED') unpageable = error;
      return null;
    }
  };
  const some = most(asked, (sizes) => planned(sizes) !== null);
  const plan = some && planned(some);
  if (!some || !plan) return { unpageable };
  const contextThatFits = largest(
    1,
    asked.contextTokens,
    (contextTokens) => planned({ ...asked, sessions: 1, contextTokens }) !== null,
  );
  const fitsReason = `${megabytes(plan.heapBytes)} of a budget of ${megabytes(budget)}, with weights read from the file for every token`;
  const gaveUp = [
    ...differences(asked, some),
    { what: /** @type {const} */ ('residency'), from: 'resident', to: 'paged' },
  ];
  return { paged: { ...some, ...plan, fits: 'yes', fitsReason, contextThatFits, gaveUp } };
}

/** @type {typeof mostThatFits} */
const allThatFits = (asked, ok) => (ok(asked) ? asked : null);

/** @param {Sizes} asked @param {(sizes: Sizes) => boolean} ok @returns {Sizes | null} */
function mostThatFits(asked, ok) {
  const sessions = largest(1, asked.sessions, (n) => ok({ ...asked, sessions: n }));
  if (sessions) return { ...asked, sessions };
  for (const kv of !PRECISIONS.includes(asked.kv) ? [asked.kv] : PRECISIONS.slice(PRECISIONS.indexOf(asked.kv))) {
    const sizes = { ...asked, sessions: 1, kv };
    const contextTokens = largest(Math.min(LEAST_CONTEXT, asked.contextTokens), asked.contextTokens, (n) =>
      ok({ ...sizes, contextTokens: n }),
    );
    if (contextTokens) return { ...sizes, contextTokens };
  }
  return null;
}
