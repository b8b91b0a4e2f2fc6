/**
 * Models with a table of per-layer embeddings (Gemma 4), of which a token reads one row: without a budget the table stays in the file and
 * everything else is in memory. Loaded on demand, since few models have one.
 */
import { BqError } from '../../shared/errors.js';
import { LIMIT } from './memory-limit.js';

const NOTE =
  '; rows of the per-layer embeddings are read from the file as tokens need them (memoryBudget: Infinity keeps the table in memory)';

/**
 * A planner that leaves the table out where that is possible: not beside a head by clusters, and not for tables so small that they
 * count for nothing.
 * @template {{ numbers: Record<string, number>, paging: Record<string, number> | null, heapBytes: number }} P
 * @template S
 * @param {(sizes: S, room?: number) => P} planFor
 * @returns {(sizes: S, room?: number) => P & { note?: string }}
 */
export function leaveTable(planFor) {
  /** @param {() => P} plan @param {string[]} codes  errors that mean: no such plan */
  const planUnless = (plan, codes) => {
    try {
      return plan();
    } catch (error) {
      if (error instanceof BqError && codes.includes(error.code)) return null;
      throw error;
    }
  };
  return (sizes, room) => {
    if (room !== undefined) return planFor(sizes, room);
    const whole = planUnless(() => planFor(sizes), ['NOMEM']);
    // Any budget that the whole exceeds leaves the table out first.
    const most = Math.min(whole?.heapBytes ?? LIMIT, LIMIT) - 65536;
    const plan = planUnless(() => planFor(sizes, most), ['NOMEM', 'UNSUPPORTED']);
    const keepsRest = plan?.paging?.head && plan.paging.layers === plan.numbers.layers;
    return plan && keepsRest ? { ...plan, note: NOTE } : (whole ?? planFor(sizes));
  };
}
