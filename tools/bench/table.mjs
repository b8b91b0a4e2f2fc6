// Rows of results, and functions that find the best one, compute ratios of two, and split a step into its stages.
import { median, summary } from './stats.mjs';

/** @typedef {import('./stats.mjs').Summary} Summary */
/** Rates of one round. @typedef {{ round: number, at?: number, prefill: number, decode: number }} Round  tokens per second; `at`: time in ms */
/** @typedef {{ prompt: number, tokens: number, prefill: Summary | null, decode: Summary | null, byRound: Round[] }} Rates in tokens per second */
/** Medians of a step, of the bare loops and of a plain read in `ms`, with the bytes that they read. @typedef {{ ms: Record<'step' | 'bare' | 'bareF32' | 'bareSimd128' | 'read', number>, bytes: number, bytesF32: number, weights: number }} Limit */

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
 * @property {Summary | null} startRatio  us: time of the first prompt, relative to the same arithmetic when warm
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

  /** @param {Partial<import('./cells.mjs').Visit>} wanted @returns {Row[]} */
  where(wanted) {
    const full = { browser: undefined, ...wanted };
    return this.rows.filter(({ visit }) =>
      Object.entries(full).every(([key, value]) => visit[/** @type {keyof typeof visit} */ (key)] === value),
    );
  }

  /** Returns the row with the best median, and its cell. @param {Row[]} rows @param {number} prompt @param {What} what @returns {{ row: Row, cell: Rates } | null} */
  best(rows, prompt, what) {
    const all = rows.flatMap((row) =>
      row.cells.filter((cell) => cell.prompt === prompt && cell[what]).map((cell) => ({ row, cell })),
    );
    return all.reduce(
      (best, each) => ((each.cell[what]?.median ?? 0) > (best?.cell[what]?.median ?? 0) ? each : best),
      /** @type {{ row: Row, cell: Rates } | null} */ (null),
    );
  }

  /** @param {Row[]} rows @param {number} prompt @param {What} what */
  bestOf(rows, prompt, what) {
    return this.best(rows, prompt, what)?.cell ?? null;
  }
}

/** @typedef {'prefill' | 'decode'} What */

/** Largest distance in ms of two rounds of one run. Older results of peers remain when bq4 is measured again. */
const ONE_RUN = 30 * 60e3;

/**
 * Returns the ratios of two cells in the rounds of the same run that both have; the report uses their median. Without such
 * rounds it is the ratio of the two medians.
 * @param {Rates | null} a @param {Rates | null} b @param {What} what @param {What} [whatB] @returns {Summary | null}
 */
export function ratioOf(a, b, what, whatB = what) {
  if (!a?.[what] || !b?.[whatB]) return null;
  const paired = a.byRound.flatMap((x) =>
    b.byRound
      .filter(({ round, at = 0 }) => round === x.round && Math.abs(at - (x.at ?? 0)) <= ONE_RUN)
      .map((y) => x[what] / y[whatB]),
  );
  return summary(
    paired.length ? paired : [/** @type {Summary} */ (a[what]).median / /** @type {Summary} */ (b[whatB]).median],
  );
}

/**
 * Returns the duration of a decode step at `depth` relative to `base`, for rounds that both cells of a row have. Attention reads
 * all positions, so the duration is linear in the depth: the line through both cells, each at the mean of its depths.
 * @param {Row | undefined} row @param {readonly [number, number]} prompts @param {number} base @param {number} depth @returns {Summary | null}
 */
export function stepRatio(row, prompts, base, depth) {
  const [near, far] = prompts.map((prompt) => row?.cells.find((cell) => cell.prompt === prompt && cell.decode));
  if (!near || !far) return null;
  const at = (/** @type {Rates} */ { prompt, tokens }) => prompt + tokens / 2;
  return summary(
    near.byRound.flatMap(({ round, decode }) =>
      far.byRound
        .filter((other) => other.round === round)
        .map((other) => {
          const slope = (1 / other.decode - 1 / decode) / (at(far) - at(near));
          const ms = (/** @type {number} */ where) => 1 / decode + slope * (where - at(near));
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
  const all = stages.reduce((sum, { ms }) => sum + ms, 0);
  /** Returns the share of these stages in each round. @param {(stage: string) => boolean} which */
  const share = (which) =>
    summary(
      traces.map((trace) => {
        const sum = (/** @type {typeof trace.stages} */ list) => list.reduce((total, { ms }) => total + ms, 0);
        return sum(trace.stages.filter(({ stage }) => which(stage))) / sum(trace.stages);
      }),
    );
  return {
    depth,
    ms: all,
    stages: stages.map((stage) => ({ ...stage, share: stage.ms / all })),
    attend: share((stage) => stage === 'attend'),
    others: share((stage) => stage !== 'attend' && !PRODUCTS.has(stage)),
    noProduct: share((stage) => !PRODUCTS.has(stage)),
  };
}

/** @typedef {NonNullable<ReturnType<typeof stepOf>>} Step */
