// From the results of single visits to what the report shows: medians, rates, ratios against the targets.
import { SHAPES } from '../make_random.mjs';
import { SCRIPT_LIMIT } from '../payload.mjs';
import { MODULE_LIMIT } from '../size.mjs';
import { dotInstruction } from './machine.mjs';
import { median, summary } from './stats.mjs';

/** @typedef {import('./runner.mjs').Entry} Entry */
/** @typedef {import('./stats.mjs').Summary} Summary */
/** One round. @typedef {{ round: number, prefill: number, decode: number }} Round  tokens per second */
/** @typedef {{ prompt: number, tokens: number, prefill: Summary | null, decode: Summary | null, byRound: Round[] }} Rates in tokens per second */
/** Medians of a step, the bare loops and a plain read: milliseconds; what they read: bytes. @typedef {{ ms: Record<'step' | 'bare' | 'bareF32' | 'bareSimd128' | 'read', number>, bytes: number, bytesF32: number, weights: number }} Limit */

/**
 * @typedef {object} Row  a visit, all its rounds together
 * @property {string} name
 * @property {import('./cells.mjs').Visit} visit
 * @property {string} subject
 * @property {number} rounds
 * @property {Rates[]} cells
 * @property {Summary | null} loadMs
 * @property {Summary | null} memory  bytes
 * @property {Limit[]} limits  of each round
 * @property {import('./pages/limit.js').Traced[]} traces  of all rounds
 * @property {Summary | null} startRatio  us: start of the first prompt, against the same arithmetic when warm
 * @property {Record<string, any>} facts  of the last round
 * @property {string[]} errors
 */

/** `range`: of single rounds. @typedef {{ group: string, what: string, target: string, value: number | null, range: Summary | null, reached: boolean | null }} Target  null: not measured */

/** Ours: what changes with our build. @param {{ visit: import('./cells.mjs').Visit }} entry */
const isOurs = ({ visit }) => visit.runtime === 'us' || visit.runtime === 'limit';

/** Our rows are of the newest build only. @param {Entry[]} entries @returns {Row[]} */
export function rowsOf(entries) {
  const newest = entries.filter(isOurs).at(-1)?.subject;
  const mine = entries.filter((entry) => !isOurs(entry) || entry.subject === newest);
  /** @type {Map<string, Entry[]>} */
  const groups = new Map();
  for (const entry of mine) groups.set(entry.name, [...(groups.get(entry.name) ?? []), entry]);
  return [...groups].map(([name, list]) => {
    const good = list.filter(({ result }) => result);
    const results = good.map(({ result }) => /** @type {import('./drivers.mjs').Result} */ (result));
    const visit = list[list.length - 1].visit;
    const cells = visit.cells.map(({ prompt, tokens }) => {
      const byRound = good.flatMap(({ round }, i) => results[i].cells.filter((c) => c.prompt === prompt && c.tokens === tokens)
        .map((c) => ({ round, prefill: prompt / c.prefillMs * 1e3, decode: tokens / c.decodeMs * 1e3 })));
      return { prompt, tokens, prefill: summary(byRound.map((c) => c.prefill)), decode: summary(byRound.map((c) => c.decode)), byRound };
    });
    const facts = results.map((result) => result.facts);
    return {
      name, visit, subject: list[0].subject, rounds: results.length, cells,
      loadMs: summary(facts.map(({ loadMs }) => loadMs)), memory: summary(facts.map(({ memory }) => memory ?? NaN)),
      // The first token takes the arithmetic of the prompt and, counted generously, of one token more.
      startRatio: summary(facts.map(({ startMs, warm16Ms }) => startMs / (warm16Ms * 17 / 16))),
      limits: facts.flatMap(({ limit }) => (limit ? [limit] : [])), traces: facts.flatMap(({ traces }) => traces ?? []),
      facts: facts.at(-1) ?? {}, errors: [...new Set(list.flatMap(({ error }) => (error ? [error] : [])))],
    };
  });
}

/** Weights that one decoded token multiplies. @param {Record<string, any>} shape */
export function weightsPerToken({ hidden, layers, heads, kv_heads: kvHeads = heads, ffn, vocab }) {
  return layers * (2 * hidden * hidden + 2 * hidden * (hidden / heads) * kvHeads + 3 * hidden * ffn) + vocab * hidden;
}

/** Answers questions about rows. */
export class Table {
  /** @param {Row[]} rows */
  constructor(rows) {
    this.rows = rows;
  }

  /** @param {Partial<import('./cells.mjs').Visit>} wanted @returns {Row[]} */
  where(wanted) {
    const full = { browser: undefined, ...wanted };
    return this.rows.filter(({ visit }) => Object.entries(full).every(([key, value]) => visit[/** @type {keyof typeof visit} */ (key)] === value));
  }

  /** The row whose median is best. @param {Row[]} rows @param {number} prompt @param {What} what @returns {Rates | null} */
  bestOf(rows, prompt, what) {
    const cells = rows.flatMap((row) => row.cells.filter((cell) => cell.prompt === prompt && cell[what]));
    return cells.reduce((best, cell) => ((cell[what]?.median ?? 0) > (best?.[what]?.median ?? 0) ? cell : best), /** @type {Rates | null} */ (null));
  }
}

/** @typedef {'prefill' | 'decode'} What */

/** Ratio of two cells: of rounds that both have, whose figures are minutes apart at most; its median counts. @param {Rates | null} a @param {Rates | null} b @param {What} what @param {What} [whatB] @returns {Summary | null} */
export function ratioOf(a, b, what, whatB = what) {
  if (!a?.[what] || !b?.[whatB]) return null;
  const paired = a.byRound.flatMap((x) => b.byRound.filter(({ round }) => round === x.round).map((y) => x[what] / y[whatB]));
  return summary(paired.length ? paired : [/** @type {Summary} */ (a[what]).median / /** @type {Summary} */ (b[whatB]).median]);
}

/** Stages that are matrix products. */
const PRODUCTS = new Set(['qkv', 'o', 'mlpIn', 'down', 'head']);

/**
 * A step by its parts, medians over rounds: milliseconds, and shares of the sum of all.
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
  /** Of every round. @param {(stage: string) => boolean} which */
  const share = (which) => summary(traces.map((trace) => {
    const sum = (/** @type {typeof trace.stages} */ list) => list.reduce((total, { ms }) => total + ms, 0);
    return sum(trace.stages.filter(({ stage }) => which(stage))) / sum(trace.stages);
  }));
  return {
    depth, ms: all, stages: stages.map((stage) => ({ ...stage, share: stage.ms / all })),
    attend: share((stage) => stage === 'attend'), others: share((stage) => stage !== 'attend' && !PRODUCTS.has(stage)), noProduct: share((stage) => !PRODUCTS.has(stage)),
  };
}

/** @typedef {NonNullable<ReturnType<typeof stepOf>>} Step */

/** All JavaScript that a page loads, as a name among the modules'. */
export const SCRIPTS = 'JavaScript';

/** @typedef {Record<string, { raw: number, gzip: number }>} Sizes */

/** What is asked of the 135m shape, and of our payload. @param {Table} table @param {Sizes} ours @returns {Target[]} */
export function targetsOf(table, ours) {
  /** @type {Target[]} */
  const list = [];
  const add = (/** @type {string} */ group, /** @type {string} */ what, /** @type {'≥' | '≤'} */ sign, /** @type {number} */ target, /** @type {Summary | null} */ range) => {
    const value = range?.median ?? null;
    list.push({ group, what, target: `${sign} ${target}`, value, range, reached: value === null ? null : sign === '≥' ? value >= target : value <= target });
  };
  const shape = '135m';
  const us = (/** @type {number} */ threads, precision = 'bq4h+bq8', extra = {}) => table.where({ runtime: 'us', shape, precision, threads, kv: 'i8', variant: 'relaxed', ...extra });
  const native = (/** @type {number} */ threads, precision = 'q4_0', variant = 'best') => table.where({ runtime: 'native', shape, precision, threads, variant });
  const web = (/** @type {number} */ threads) => table.where({ shape, threads }).filter(({ visit }) => /wllama|ort|tjs/.test(visit.runtime));
  const ratio = (/** @type {Row[]} */ a, /** @type {Row[]} */ b, /** @type {number} */ prompt, /** @type {What} */ what) => ratioOf(table.bestOf(a, prompt, what), table.bestOf(b, prompt, what), what);

  const first = 'decode, 1 thread';
  add(first, 'against native llama.cpp Q4_0, both with an 8-bit head', '≥', 1.0, ratio(us(1), native(1), 128, 'decode'));
  add(first, 'the same, all 4-bit, against its --pure', '≥', 0.9, ratio(us(1, 'bq4h+bq4h'), native(1, 'q4_0-pure'), 128, 'decode'));
  add(first, 'against wllama 3.8.1 Q4_0', '≥', 15, ratio(us(1), table.where({ runtime: 'wllama', version: '3.8.1', precision: 'q4_0', shape, threads: 1 }), 128, 'decode'));
  add(first, 'against the best in a browser, at any precision', '≥', 6, ratio(us(1), web(1), 128, 'decode'));
  for (const prompt of [128, 512]) {
    add('prefill, 1 thread', `${prompt} tokens, against native`, '≥', 0.45, ratio(us(1), native(1), prompt, 'prefill'));
    add('prefill, 1 thread', `${prompt} tokens, against the best in a browser`, '≥', 2.5, ratio(us(1), web(1), prompt, 'prefill'));
  }
  add('2 threads', 'decode against one thread', '≥', 1.7, ratio(us(2), us(1), 128, 'decode'));
  add('2 threads', 'decode against native on two', '≥', 1.3, ratio(us(2), native(2), 128, 'decode'));
  add('2 threads', 'prefill against one thread', '≥', 1.85, ratio(us(2), us(1), 128, 'prefill'));
  add('2 threads', 'decode against the best in a browser on two', '≥', 6, ratio(us(2), web(2), 128, 'decode'));
  add('2 threads', 'prefill against the best in a browser on two', '≥', 2.5, ratio(us(2), web(2), 128, 'prefill'));

  for (const [precision, head] of [['bq4h+bq8', '8-bit head'], ['bq4h+bq4h', 'all 4-bit']]) {
    const limits = table.where({ runtime: 'limit', shape, precision })[0]?.limits ?? [];
    const of = (/** @type {(limit: Limit) => number} */ value) => summary(limits.map(value));
    add('share of the limit', `weights per second of whole decode steps, against the bare matvec loop, ${head}`, '≥', 0.85, of(({ ms }) => ms.bare / ms.step));
    add('share of the limit', `bytes per second of that loop with f32 scales, against a plain read, ${head}`, '≥', 0.65, of(({ ms, bytes, bytesF32 }) => (bytesF32 / ms.bareF32) / (bytes / ms.read)));
    add('share of the limit', `weights per second with f16 scales, against f32 scales, ${head}`, '≥', 1, of(({ ms }) => ms.bareF32 / ms.bare));
  }
  add('other builds', 'decode with SIMD128 against relaxed SIMD', '≥', 0.5, ratio(table.where({ runtime: 'us', shape, variant: 'simd128', threads: 1, kv: 'i8', precision: 'bq4h+bq8' }), us(1), 128, 'decode'));
  for (const threads of [1, 2])
    add('other builds', `decode in Firefox against Chromium, ${threads} thread${threads > 1 ? 's' : ''}`, '≥', 0.8, ratio(us(threads, 'bq4h+bq8', { browser: 'firefox' }), us(threads), 128, 'decode'));
  for (const kv of ['f32', 'f16', 'i8']) {
    const rows = us(1, 'bq4h+bq8', { kv });
    add('context', `a decode step at 1,900 tokens against one at 128, KV ${kv}`, '≤', 1.5, ratioOf(table.bestOf(rows, 128, 'decode'), table.bestOf(rows, 1900, 'decode'), 'decode'));
  }
  const traced = table.where({ runtime: 'limit', shape, precision: 'bq4h+bq8' })[0];
  add('overheads', 'share of a decode step that is no matmul, attention included', '≤', 0.1, (traced && stepOf(traced, 128)?.noProduct) ?? null);
  add('overheads', 'the same without attention', '≤', 0.1, (traced && stepOf(traced, 128)?.others) ?? null);
  add('overheads', 'first token of a 16-token prompt, against the arithmetic of 17 tokens when warm', '≤', 1.2, us(1)[0]?.startRatio ?? null);
  add('payload, bytes gzipped', 'the largest module', '≤', MODULE_LIMIT, summary([Math.max(...Object.entries(ours).filter(([name]) => name !== SCRIPTS).map(([, { gzip }]) => gzip))]));
  add('payload, bytes gzipped', 'all JavaScript of a page', '≤', SCRIPT_LIMIT, summary([ours[SCRIPTS]?.gzip ?? NaN]));
  return list;
}

/**
 * @param {Entry[]} entries
 * @param {{ machine: import('./machine.mjs').Machine, payload: { ours: Sizes, peers: Sizes } }} facts
 */
export function figures(entries, { machine, payload }) {
  const rows = rowsOf(entries);
  const times = entries.map(({ at }) => at).sort();
  return {
    machine, dot: dotInstruction(machine), payload, rows, targets: targetsOf(new Table(rows), payload.ours), limits: limitsOf(rows),
    from: times[0], to: times[times.length - 1], stolen: summary(entries.flatMap(({ stolen }) => (typeof stolen === 'number' ? [stolen] : []))),
    weights: Object.fromEntries(Object.entries(SHAPES).map(([shape, config]) => [shape, weightsPerToken(config)])),
  };
}

/** A step, its bare loops and a plain read, as rates: one thread of the 135m shape. @param {Row[]} rows */
function limitsOf(rows) {
  return rows.filter(({ visit, limits }) => visit.runtime === 'limit' && visit.shape === '135m' && limits.length).map(({ visit, limits }) => {
    const middle = (/** @type {(limit: Limit) => number} */ value) => median(limits.map(value));
    const { bytes, bytesF32, weights } = limits[0];
    const line = (/** @type {string} */ what, /** @type {keyof Limit['ms']} */ name, /** @type {number} */ of, /** @type {boolean} */ multiplies) => {
      const ms = middle((limit) => limit.ms[name]);
      return { what, ms, gbPerS: of / ms / 1e6, gPerS: multiplies ? weights / ms / 1e6 : null, ofRead: middle((limit) => (of / limit.ms[name]) / (bytes / limit.ms.read)) };
    };
    return {
      precision: visit.precision, bytes, rounds: limits.length,
      lines: [line('plain read', 'read', bytes, false), line('bare loop', 'bare', bytes, true), line('bare loop, f32 scales', 'bareF32', bytesF32, true),
        line('bare loop, SIMD128', 'bareSimd128', bytes, true), line('whole decode step', 'step', bytes, true)],
    };
  });
}
