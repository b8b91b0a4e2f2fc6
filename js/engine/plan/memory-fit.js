/** Decides whether a model fits in memory. What does not is for reduced-fit.js. */
import { BqError, onDemand } from '../../shared/errors.js';
import { isNode, nodeModule } from '../../shared/node.js';
import { LIMIT, megabytes } from './memory-limit.js';

/** @import { GaveUp, LoadOptions } from '../../shared/types.js' */
/** @import { Planner } from './plan.js' */

/** Bytes that every browser can allocate. */
const ALWAYS_AVAILABLE = 256 * 2 ** 20;
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

/**
 * The plan for the requested sizes, and whether it fits; with `apply`, for the largest sizes that fit. `exact`: nothing is reduced, but weights may
 * be paged. ARGUMENT; NOMEM: nothing fits.
 * @param {Planner} planner  has all bytes of the header
 * @param {number} heapBase
 * @param {LoadOptions & { exact?: boolean }} options
 * @param {boolean} apply
 * @param {string} notPageable  a hint how to make paging possible; '': it is possible
 * @param {boolean} [pagesTable]  without a budget, rows of a table of per-layer embeddings may be read as tokens need them
 * @returns {Promise<Fitted>}
 */
export async function fitPlan(planner, heapBase, options, apply, notPageable, pagesTable = false) {
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
  /** @type {(sizes: Partial<Sizes>, room?: number) => ReturnType<typeof planFor> & { note?: string }} */
  const planBest =
    pagesTable && budget === undefined && smallest.numbers.layer_embeds
      ? (await onDemand(import('./table-fit.js'))).leaveTable(planFor)
      : planFor;
  /** @param {Sizes} sizes */
  const bytesOf = (sizes) => {
    try {
      return planBest(sizes).heapBytes;
    } catch (error) {
      if (error instanceof BqError && error.code === 'NOMEM') return Infinity;
      throw error;
    }
  };
  const ok = (/** @type {Sizes} */ sizes) => bytesOf(sizes) <= limit;
  if (ok(requested)) {
    const { note = '', ...plan } = planBest(requested);
    const machineFit = budget === undefined && !apply ? await guessFit(plan.heapBytes) : null;
    const [fits, reason] = machineFit ?? ['yes', `${megabytes(plan.heapBytes)}, as asked for`];
    return {
      ...requested,
      ...plan,
      fits,
      fitsReason: reason + note,
      contextThatFits: requested.contextTokens,
      gaveUp: [],
    };
  }
  const { fitToBudget } = await onDemand(import('./reduced-fit.js'));
  return fitToBudget({
    requested,
    planFor: planBest,
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
