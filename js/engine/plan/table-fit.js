/**
 * Plans for models with a table of per-layer embeddings (Gemma 4). A token reads one row of the table. Without a memory
 * budget, the table stays in the file and everything else is in memory. Loaded on demand, since few models have one.
 */
import { BqError } from '../../shared/errors.js';
import { LIMIT } from './memory-limit.js';

const NOTE =
  '; rows of the per-layer embeddings are read from the file as tokens need them (memoryBudget: Infinity keeps the table in memory)';

/**
 * Returns a planner that leaves the table in the file if possible. It is not possible with a clustered LM head, or for
 * a table so small that paging it saves nothing.
 * @template {{ numbers: Record<string, number>, paging: Record<string, number> | null, heapBytes: number }} P
 * @template S
 * @param {(sizes: S, room?: number) => P} planFor
 * @returns {(sizes: S, room?: number) => P & { note?: string }}
 */
export function withPagedTable(planFor) {
  /** Returns null if planning fails with one of these codes. @param {() => P} plan @param {string[]} codes */
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
    const residentPlan = planUnless(() => planFor(sizes), ['NOMEM']);
    // With any budget below the resident plan, C pages the table first.
    const budget = Math.min(residentPlan?.heapBytes ?? LIMIT, LIMIT) - 65536;
    const pagedPlan = planUnless(() => planFor(sizes, budget), ['NOMEM', 'UNSUPPORTED']);
    const isRestResident = pagedPlan?.paging?.head && pagedPlan.paging.layers === pagedPlan.numbers.layers;
    return pagedPlan && isRestResident ? { ...pagedPlan, note: NOTE } : (residentPlan ?? planFor(sizes));
  };
}
