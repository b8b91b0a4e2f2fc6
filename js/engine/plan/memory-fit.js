/** Determines whether a model fits in memory. If it does not, reduced-fit.js reduces the sizes. */
import { BqError, onDemand } from '../../shared/errors.js';
import { LIMIT, megabytes } from './memory-limit.js';

/** @import { LoadOptions, Plan } from '../../shared/types.js' */
/** @import { KvType } from '../../shared/names.js' */
/** @import { Planner } from './plan.js' */

/** Bytes that every browser can allocate. */
const ALWAYS_AVAILABLE = 256 * 2 ** 20;
/** Default of `contextTokens`, if the model has a larger context. */
const DEFAULT_CONTEXT = 4096;
/**
 * Returns the default type of the KV cache. Models with a bias of keys (Qwen 2) get f16: the bias may be so large that
 * i8 costs more quality than everything else together (docs/QUALITY.md), and it is unknown before the weights are
 * loaded.
 * @param {Record<string, number>} numbers  numbers of a plan
 * @returns {KvType}
 */
const defaultKv = ({ no_head: encodes, key_bias: keyBias }) => (encodes ? 'f32' : keyBias ? 'f16' : 'i8');

/** @typedef {{ sessions: number, contextTokens: number, kv: KvType }} Sizes */
/**
 * A plan for some sizes. `numbers`: a `bqw_plan` record; `paging`: a `bqw_paging` record, null if no weights are paged.
 * @typedef {object} SizedPlan
 * @property {Record<string, number>} numbers
 * @property {Record<string, number> | null} paging
 * @property {number} heapBytes
 */
/** @typedef {Pick<Plan, 'fits' | 'fitsReason' | 'contextThatFits' | 'gaveUp'>} FitResult */
/** A plan, the sizes that it is for, and whether they fit. @typedef {Sizes & SizedPlan & FitResult} Fitted */

/**
 * Plans the requested sizes and determines whether they fit. With `apply`, plans the largest sizes that fit. With the
 * option `exact`, no size is reduced, but weights may be paged. Throws ARGUMENT, and NOMEM if nothing fits.
 * @param {Planner} planner  planner with all bytes of the header
 * @param {number} heapBase
 * @param {LoadOptions & { exact?: boolean }} options
 * @param {boolean} apply
 * @param {string} pagingHint  hint how to make paging possible; '': paging is possible
 * @param {boolean} [pagesTable]  whether, without a budget, a table of per-layer embeddings may stay in the file
 * @returns {Promise<Fitted>}
 */
export async function fitPlan(planner, heapBase, options, apply, pagingHint, pagesTable = false) {
  const { memoryBudget: budget, sessions = 1, adapterBytes = 0, exact = false } = options;
  if (budget !== undefined && !(budget > 0))
    throw new BqError('ARGUMENT', `memoryBudget: expected a number of bytes, found ${budget}`);
  /**
   * @param {Partial<LoadOptions>} sizes
   * @param {number} [pagedBudget]  budget that is met by paging weights if necessary
   */
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
  const { context: trainedContext, text_tokens: textTokens, no_head: encodes } = smallest.numbers;
  /** @type {Sizes} */
  const requested = {
    sessions,
    contextTokens:
      options.contextTokens ?? Math.min(encodes && textTokens ? textTokens : trainedContext, DEFAULT_CONTEXT),
    kv: options.kv ?? defaultKv(smallest.numbers),
  };
  const limit = Math.min(budget ?? LIMIT, LIMIT);
  /** @type {(sizes: Partial<Sizes>, room?: number) => ReturnType<typeof planFor> & { note?: string }} */
  const planBest =
    pagesTable && budget === undefined && smallest.numbers.layer_embeds
      ? (await onDemand(import('./table-fit.js'))).withPagedTable(planFor)
      : planFor;
  /** Returns the heap bytes for these sizes; Infinity if they exceed the planner's range. @param {Sizes} sizes */
  const bytesOf = (sizes) => {
    try {
      return planBest(sizes).heapBytes;
    } catch (error) {
      if (error instanceof BqError && error.code === 'NOMEM') return Infinity;
      throw error;
    }
  };
  if (bytesOf(requested) <= limit) {
    const { note = '', ...plan } = planBest(requested);
    const machineFit = budget === undefined && !apply ? await estimateFit(plan.heapBytes) : null;
    const [fits, reason] = machineFit ?? ['yes', `${megabytes(plan.heapBytes)}, with the requested sizes`];
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
    smallestNumbers: smallest.numbers,
    budget,
    limit,
    apply,
    exact,
    pagingHint,
  });
}

/**
 * Estimates whether a heap fits in the memory of this machine, and returns the reason.
 * @param {number} heap  bytes
 * @returns {Promise<[fits: 'yes' | 'no' | 'unknown', reason: string]>}
 */
const estimateFit = async (heap) =>
  heap <= ALWAYS_AVAILABLE
    ? ['yes', `${megabytes(heap)} are available in every browser`]
    : (await onDemand(import('./machine-fit.js'))).estimateFit(heap);
