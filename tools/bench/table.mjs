// Rows of results, and functions that find the best row, compute the ratio of two rows, and split a step into its stages.
import { median, summary } from './stats.mjs';

/** @typedef {import('./stats.mjs').Summary} Summary */
/** Rates of one round. @typedef {{ round: number, at?: number, prefill: number, decode: number }} Round  tokens per second; `at`: time in ms */
/** @typedef {{ prompt: number, tokens: number, prefill: Summary | null, decode: Summary | null, byRound: Round[] }} Rates in tokens per second */
/** Medians of a decode step, of the bare loops and of a plain read in milliseconds, with the bytes that they read. @typedef {{ ms: Record<'step' | 'bare' | 'bareF32' | 'bareSimd128' | 'read', number>, bytes: number, bytesF32: number, weights: number }} Limit */

/**
 * @typedef {object} Row  results of a visit in all its rounds
 * @property {string} name
 * @property {import('./cells.mjs').Visit} visit
 * @property {string} subject
 * @property {number} rounds
 * @property {Rates[]} cells
 * @property {Summary | null} loadMs
 * @property {Summary | null} memory  bytes
 * @property {Limit[]} limits  one for each round
 * @property {import('./pages/limit.js').Traced[]} traces  traces of all rounds
 * @property {Summary | null} startRatio  bq4: time of the first prompt, relative to the same arithmetic when warm
 * @property {Summary | null} twoReads  read: rate of a plain read by two threads, relative to one
 * @property {Record<'tile' | 'v1' | 'v2', Summary | null>} loadRates  limit: GB/s for loading files from memory
 * @property {Record<string, any>} facts  facts of the last round
 * @property {string[]} errors
 */

/** A collection of rows with queries. */
export class Table {
  /** @param {Row[]} rows */
  constructor(rows) {
    this.rows = rows;
  }

  /** Returns the rows whose visits have these properties. @param {Partial<import('./cells.mjs').Visit>} conditions @returns {Row[]} */
  where(conditions) {
    const allConditions = { browser: undefined, ...conditions };
    return this.rows.filter(({ visit }) =>
      Object.entries(allConditions).every(([key, value]) => visit[/** @type {keyof typeof visit} */ (key)] === value),
    );
  }

  /** Returns the row with the best median, and its cell. @param {Row[]} rows @param {number} prompt @param {RateName} rate @returns {{ row: Row, cell: Rates } | null} */
  best(rows, prompt, rate) {
    const candidates = rows.flatMap((row) =>
      row.cells.filter((cell) => cell.prompt === prompt && cell[rate]).map((cell) => ({ row, cell })),
    );
    return candidates.reduce(
      (best, candidate) => ((candidate.cell[rate]?.median ?? 0) > (best?.cell[rate]?.median ?? 0) ? candidate : best),
      /** @type {{ row: Row, cell: Rates } | null} */ (null),
    );
  }

  /** Returns the cell with the best median. @param {Row[]} rows @param {number} prompt @param {RateName} rate */
  bestOf(rows, prompt, rate) {
    return this.best(rows, prompt, rate)?.cell ?? null;
  }
}

/** @typedef {'prefill' | 'decode'} RateName */

/** Largest distance of two rounds of one run in milliseconds. When bq4 is measured again, older results of peers remain. */
const RUN_MS = 30 * 60e3;

/**
 * Returns the ratios of two cells in the rounds of the same run that both cells have; the report uses their median. If there are no
 * such rounds, it is the ratio of the two medians.
 * @param {Rates | null} a @param {Rates | null} b @param {RateName} rate @param {RateName} [otherRate] @returns {Summary | null}
 */
export function ratioOf(a, b, rate, otherRate = rate) {
  if (!a?.[rate] || !b?.[otherRate]) return null;
  const ratios = a.byRound.flatMap((x) =>
    b.byRound
      .filter(({ round, at = 0 }) => round === x.round && Math.abs(at - (x.at ?? 0)) <= RUN_MS)
      .map((y) => x[rate] / y[otherRate]),
  );
  return summary(
    ratios.length ? ratios : [/** @type {Summary} */ (a[rate]).median / /** @type {Summary} */ (b[otherRate]).median],
  );
}

/**
 * Returns the duration of a decode step at `depth` relative to `base`, for rounds that both cells of a row have. Attention reads
 * all positions, so the duration is linear in the depth. The line passes through both cells, each at the mean of its depths.
 * @param {Row | undefined} row @param {readonly [number, number]} prompts @param {number} base @param {number} depth @returns {Summary | null}
 */
export function stepRatio(row, prompts, base, depth) {
  const [nearCell, farCell] = prompts.map((prompt) => row?.cells.find((cell) => cell.prompt === prompt && cell.decode));
  if (!nearCell || !farCell) return null;
  const depthOf = (/** @type {Rates} */ { prompt, tokens }) => prompt + tokens / 2;
  return summary(
    nearCell.byRound.flatMap(({ round, decode }) =>
      farCell.byRound
        .filter((farRound) => farRound.round === round)
        .map((farRound) => {
          const slope = (1 / farRound.decode - 1 / decode) / (depthOf(farCell) - depthOf(nearCell));
          const ms = (/** @type {number} */ where) => 1 / decode + slope * (where - depthOf(nearCell));
          return ms(depth) / ms(base);
        }),
    ),
  );
}

/** Stages that are matrix products. */
const PRODUCTS = new Set(['qkv', 'o', 'mlpIn', 'down', 'head']);

/**
 * Returns the stages of a step: medians over rounds in milliseconds, and shares of their sum.
 * @param {Row} row @param {number} depth
 */
export function stepOf(row, depth) {
  const traces = row.traces.filter((trace) => trace.depth === depth);
  if (!traces.length) return null;
  const stages = traces[0].stages.map(({ stage, weightBytes, kvBytes }) => {
    const ms = median(traces.map((trace) => trace.stages.find((s) => s.stage === stage)?.ms ?? 0));
    return { stage, ms, bytes: weightBytes + kvBytes, product: PRODUCTS.has(stage) };
  });
  const totalMs = stages.reduce((sum, { ms }) => sum + ms, 0);
  /** Returns the share of the stages for which `predicate` returns true. @param {(stage: string) => boolean} predicate */
  const share = (predicate) =>
    summary(
      traces.map((trace) => {
        const sum = (/** @type {typeof trace.stages} */ list) => list.reduce((total, { ms }) => total + ms, 0);
        return sum(trace.stages.filter(({ stage }) => predicate(stage))) / sum(trace.stages);
      }),
    );
  return {
    depth,
    ms: totalMs,
    stages: stages.map((stage) => ({ ...stage, share: stage.ms / totalMs })),
    attend: share((stage) => stage === 'attend'),
    others: share((stage) => stage !== 'attend' && !PRODUCTS.has(stage)),
    noProduct: share((stage) => !PRODUCTS.has(stage)),
  };
}

/** @typedef {NonNullable<ReturnType<typeof stepOf>>} Step */
