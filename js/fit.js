/** Whether a model fits in memory. */
import { BqError, onDemand } from './errors.js';

/** @import { GaveUp, LoadOptions } from './types.js' */
/** @import { Planner } from './plan.js' */

/** The most that an instance can have: on the last page of 4 GiB the heap would end at address 2^32, which is no pointer. */
export const LIMIT = 65535 * 65536;
/** @typedef {{ sessions: number, context: number, kv: 'f32' | 'f16' | 'i8' }} Sizes */
/**
 * A plan's numbers and what they are for.
 * @typedef {Sizes & { numbers: Record<string, number>, paging: Record<string, number> | null, heapBytes: number, fits: 'yes' | 'no' | 'unknown', fitsReason: string,
 *   contextThatFits: number | null, gaveUp: GaveUp[] }} Fitted
 */

/** @param {number} bytes */
export const mib = (bytes) => `${Math.ceil(bytes / 2 ** 20)} MiB`;

/**
 * The plan for what was asked, and whether it fits; with `apply`, for the most that fits. ARGUMENT; NOMEM: nothing does.
 * @param {Planner} planner  with all bytes that it needs
 * @param {number} heapBase
 * @param {LoadOptions} options
 * @param {boolean} apply
 * @param {boolean} pageable  weights can be read from the source again and again
 * @returns {Promise<Fitted>}
 */
export async function fitted(planner, heapBase, options, apply, pageable) {
  const { budget, sessions = 1, kv = 'f32' } = options;
  if (budget !== undefined && !(budget > 0)) throw new BqError('ARGUMENT', `budget is ${budget}, not a number of bytes`);
  /** @param {Partial<LoadOptions>} sizes @param {number} [room]  weights may be paged to keep to it */
  const planFor = (sizes, room) => {
    const { numbers, paging } = /** @type {{ numbers: Record<string, number>, paging: Record<string, number> | null }} */ (planner({ ...options, ...sizes }, room));
    return { numbers, paging, heapBytes: Math.ceil((heapBase + numbers.heap_bytes) / 65536) * 65536 };
  };
  // More weights than can be addressed may still be paged.
  const least = planFor({ context: 1, window: 1, batch: 1, sessions: 1 }, budget === undefined ? undefined : LIMIT);
  /** @type {Sizes} */
  const asked = { sessions, context: options.context ?? least.numbers.context, kv };
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
    const guess = budget === undefined && !apply ? await (await onDemand(import('./squeeze.js'))).guess(plan.heapBytes) : null;
    const [fits, fitsReason] = guess ?? ['yes', `${mib(plan.heapBytes)}, as asked for`];
    return { ...asked, ...plan, fits, fitsReason, contextThatFits: asked.context, gaveUp: [] };
  }
  return (await onDemand(import('./squeeze.js'))).squeezed({ asked, planFor, bytesOf, least: least.numbers, budget, limit, apply, pageable });
}
