// From the results of single visits to what the report shows: medians, rates, ratios against the targets.
import { SHAPES } from '../make_random.mjs';
import { dotInstruction } from './machine.mjs';
import { summary } from './stats.mjs';

/** @typedef {import('./runner.mjs').Entry} Entry */
/** @typedef {import('./stats.mjs').Summary} Summary */
/** @typedef {{ prompt: number, tokens: number, prefill: Summary | null, decode: Summary | null }} Rates in tokens per second */

/**
 * @typedef {object} Row  a visit, all its rounds together
 * @property {string} name
 * @property {import('./cells.mjs').Visit} visit
 * @property {string} subject
 * @property {number} rounds
 * @property {Rates[]} cells
 * @property {Summary | null} loadMs
 * @property {Summary | null} startRatio  us: start of the first prompt, against the same arithmetic when warm
 * @property {Record<string, any>} facts  of the last round
 * @property {string[]} errors
 */

/** @typedef {{ group: string, what: string, target: string, value: number | null, reached: boolean | null }} Target  null: not measured */

/** Our rows are of the newest build only. @param {Entry[]} entries @returns {Row[]} */
export function rowsOf(entries) {
  const newest = entries.filter(({ visit }) => visit.runtime === 'us').at(-1)?.subject;
  const mine = entries.filter(({ visit, subject }) => (visit.runtime !== 'us' && visit.runtime !== 'kernels') || subject === newest);
  /** @type {Map<string, Entry[]>} */
  const groups = new Map();
  for (const entry of mine) groups.set(entry.name, [...(groups.get(entry.name) ?? []), entry]);
  return [...groups].map(([name, list]) => {
    const results = list.flatMap(({ result }) => (result ? [result] : []));
    const visit = list[list.length - 1].visit;
    const cells = visit.cells.map(({ prompt, tokens }) => {
      const same = results.flatMap((result) => result.cells.filter((cell) => cell.prompt === prompt && cell.tokens === tokens));
      return { prompt, tokens, prefill: summary(same.map((c) => prompt / c.prefillMs * 1e3)), decode: summary(same.map((c) => tokens / c.decodeMs * 1e3)) };
    });
    return {
      name, visit, subject: list[0].subject, rounds: results.length, cells, loadMs: summary(results.map(({ facts }) => facts.loadMs)),
      // The first token takes the arithmetic of the prompt and, counted generously, of one token more.
      startRatio: summary(results.map(({ facts }) => facts.startMs / (facts.warm16Ms * 17 / 16))),
      facts: results.at(-1)?.facts ?? {}, errors: [...new Set(list.flatMap(({ error }) => (error ? [error] : [])))],
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

  /** The best median among rows. @param {Row[]} rows @param {number} prompt @param {'prefill' | 'decode'} what @returns {number | null} */
  best(rows, prompt, what) {
    const medians = rows.flatMap(({ cells }) => cells.filter((cell) => cell.prompt === prompt).map((cell) => cell[what]?.median ?? NaN)).filter(Number.isFinite);
    return medians.length ? Math.max(...medians) : null;
  }
}

/** @param {number | null | undefined} a @param {number | null | undefined} b */
const over = (a, b) => (a && b ? a / b : null);

/** What is asked of the 135m shape. @param {Table} table @param {Kernels} kernels @returns {Target[]} */
export function targetsOf(table, kernels) {
  /** @type {Target[]} */
  const list = [];
  const least = (/** @type {string} */ group, /** @type {string} */ what, /** @type {number} */ target, /** @type {number | null} */ value) =>
    list.push({ group, what, target: `≥ ${target}`, value, reached: value === null ? null : value >= target });
  const most = (/** @type {string} */ group, /** @type {string} */ what, /** @type {number} */ target, /** @type {number | null} */ value) =>
    list.push({ group, what, target: `≤ ${target}`, value, reached: value === null ? null : value <= target });
  const shape = '135m';
  const us = (/** @type {number} */ threads, precision = 'bq4h+bq8', extra = {}) => table.where({ runtime: 'us', shape, precision, threads, kv: 'i8', variant: 'relaxed', ...extra });
  const native = (/** @type {number} */ threads, precision = 'q4_0', variant = 'best') => table.where({ runtime: 'native', shape, precision, threads, variant });
  const web = (/** @type {number} */ threads) => table.where({ shape, threads }).filter(({ visit }) => /wllama|ort|tjs/.test(visit.runtime));
  const rate = (/** @type {Row[]} */ rows, /** @type {number} */ prompt, /** @type {'prefill' | 'decode'} */ what) => table.best(rows, prompt, what);

  const decode = rate(us(1), 128, 'decode');
  const pure = rate(us(1, 'bq4h+bq4h'), 128, 'decode');
  least('decode, 1 thread', 'against native llama.cpp Q4_0, both with an 8-bit head', 1.0, over(decode, rate(native(1), 128, 'decode')));
  least('decode, 1 thread', 'the same, all 4-bit, against its --pure', 0.9, over(pure, rate(native(1, 'q4_0-pure'), 128, 'decode')));
  least('decode, 1 thread', 'against wllama 3.8.1 Q4_0', 15, over(decode, rate(table.where({ runtime: 'wllama', version: '3.8.1', precision: 'q4_0', shape, threads: 1 }), 128, 'decode')));
  least('decode, 1 thread', 'against the best in a browser, at any precision', 6, over(decode, rate(web(1), 128, 'decode')));
  for (const prompt of [128, 512]) {
    const mine = rate(us(1), prompt, 'prefill');
    least('prefill, 1 thread', `${prompt} tokens, against native`, 0.45, over(mine, rate(native(1), prompt, 'prefill')));
    least('prefill, 1 thread', `${prompt} tokens, against the best in a browser`, 2.5, over(mine, rate(web(1), prompt, 'prefill')));
  }
  const decode2 = rate(us(2), 128, 'decode');
  const prefill2 = rate(us(2), 128, 'prefill');
  least('2 threads', 'decode against one thread', 1.7, over(decode2, decode));
  least('2 threads', 'decode against native on two', 1.3, over(decode2, rate(native(2), 128, 'decode')));
  least('2 threads', 'prefill against one thread', 1.85, over(prefill2, rate(us(1), 128, 'prefill')));
  least('2 threads', 'decode against the best in a browser on two', 6, over(decode2, rate(web(2), 128, 'decode')));
  least('2 threads', 'prefill against the best in a browser on two', 2.5, over(prefill2, rate(web(2), 128, 'prefill')));

  const bare = kernels.matvec.find(({ type, table: of }) => type === 'bq4h_32' && of === 'relaxed');
  const bareF32 = kernels.matvec.find(({ type, table: of }) => type === 'bq4_32' && of === 'relaxed');
  const weights = weightsPerToken(SHAPES[shape]);
  least('share of the limit', 'weights per second of whole decode steps (all 4-bit), against the bare matvec loop', 0.85, over(pure && pure * weights / 1e9, bare?.gPerS));
  least('share of the limit', 'bytes per second of that loop with f32 scales, against a plain read', 0.65, over(bareF32?.gbPerS, kernels.readGBPerS));
  least('share of the limit', 'weights per second with f16 scales, against f32 scales', 1, over(bare?.gPerS, bareF32?.gPerS));
  least('other builds', 'decode with SIMD128 against relaxed SIMD', 0.5, over(rate(table.where({ runtime: 'us', shape, variant: 'simd128', threads: 1, kv: 'i8', precision: 'bq4h+bq8' }), 128, 'decode'), decode));
  least('other builds', 'decode in Firefox against Chromium', 0.8, over(rate(us(1, 'bq4h+bq8', { browser: 'firefox' }), 128, 'decode'), decode));
  for (const kv of ['f32', 'f16', 'i8']) {
    const rows = us(1, 'bq4h+bq8', { kv });
    most('context', `a decode step at 1,900 tokens against one at 128, KV ${kv}`, 1.5, over(rate(rows, 128, 'decode'), rate(rows, 1900, 'decode')));
  }
  most('overheads', 'share of kernels that are no matmul, in a step of them alone', 0.1, kernels.othersShare);
  most('overheads', 'first token of a 16-token prompt, against the arithmetic of 17 tokens when warm', 1.2, us(1)[0]?.startRatio?.median ?? null);
  return list;
}

/** @typedef {{ readGBPerS: number | null, othersShare: number | null, matvec: { type: string, table: string, gbPerS: number, gPerS: number, ofRead: number }[] }} Kernels medians over rounds */

/** @param {Entry[]} entries @returns {Kernels} */
export function kernelsOf(entries) {
  const newest = entries.filter(({ visit }) => visit.runtime === 'kernels').at(-1)?.subject;
  const rounds = entries.filter(({ visit, subject }) => visit.runtime === 'kernels' && subject === newest).flatMap(({ result }) => (result ? [result.facts.kernels] : []));
  const median = (/** @type {number[]} */ values) => summary(values)?.median ?? NaN;
  const lines = rounds.flat();
  const keys = [...new Set(lines.filter((line) => line.bench === 'matvec').map((line) => `${line.of} ${line.table}`))];
  const step = (/** @type {string} */ of) => median(lines.filter((line) => line.bench === 'step' && line.table === 'relaxed' && line.of === of).map((line) => line.us));
  const others = step('others') / (step('others') + step('matmuls'));
  const reads = lines.filter((line) => line.bench === 'read').map((line) => line.GB_per_s);
  return {
    readGBPerS: reads.length ? median(reads) : null,
    othersShare: Number.isFinite(others) ? others : null,
    matvec: keys.map((key) => {
      const [type, table] = key.split(' ');
      const same = lines.filter((line) => line.bench === 'matvec' && line.of === type && line.table === table);
      return { type, table, gbPerS: median(same.map((l) => l.GB_per_s)), gPerS: median(same.map((l) => l.G_per_s)), ofRead: median(same.map((l) => l.of_read)) };
    }),
  };
}

/**
 * @param {Entry[]} entries
 * @param {{ machine: import('./machine.mjs').Machine, payload: { ours: Record<string, { raw: number, gzip: number }>, peers: Record<string, { raw: number, gzip: number }> } }} facts
 */
export function figures(entries, { machine, payload }) {
  const rows = rowsOf(entries);
  const kernels = kernelsOf(entries);
  const times = entries.map(({ at }) => at).sort();
  return {
    machine, dot: dotInstruction(machine), payload, kernels, rows, targets: targetsOf(new Table(rows), kernels),
    from: times[0], to: times[times.length - 1], stolen: summary(entries.flatMap(({ stolen }) => (typeof stolen === 'number' ? [stolen] : []))),
    weights: Object.fromEntries(Object.entries(SHAPES).map(([shape, config]) => [shape, weightsPerToken(config)])),
  };
}
