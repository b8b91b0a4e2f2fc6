// Computes the figures of the report from the results of single visits: medians, rates, and ratios for the targets.
import { SHAPES } from '../make_random.mjs';
import { dotInFirefox, dotInstruction } from './machine.mjs';
import { median, summary } from './stats.mjs';
import { Table } from './table.mjs';
import { targetsOf } from './targets.mjs';

/** @typedef {import('./runner.mjs').Entry} Entry */
/** @typedef {import('./table.mjs').Row} Row */
/** @typedef {import('./table.mjs').Limit} Limit */
/** @typedef {import('./targets.mjs').Sizes} Sizes */

/** Whether a visit is measured again with each build of bq4. It is true for the limits of the machine, too. @param {{ visit: import('./cells.mjs').Visit }} entry */
const isLocal = ({ visit }) => /^(bq4|limit|read)$/.test(visit.runtime);

/** Returns the rows of all visits; those of bq4 contain results of the newest build only. @param {Entry[]} entries @returns {Row[]} */
export function rowsOf(entries) {
  const newestBuild = entries.filter(isLocal).at(-1)?.subject;
  const localEntries = entries.filter((entry) => !isLocal(entry) || entry.subject === newestBuild);
  /** @type {Map<string, Entry[]>} */
  const groups = new Map();
  for (const entry of localEntries) groups.set(entry.name, [...(groups.get(entry.name) ?? []), entry]);
  return [...groups].map(([name, list]) => {
    const completedEntries = list.filter(({ result }) => result);
    const results = completedEntries.map(({ result }) => /** @type {import('./drivers.mjs').Result} */ (result));
    const visit = list[list.length - 1].visit;
    const cells = visit.cells.map(({ prompt, tokens }) => {
      const byRound = completedEntries.flatMap(({ round, at }, i) =>
        results[i].cells
          .filter((c) => c.prompt === prompt && c.tokens === tokens)
          .map((c) => ({
            round,
            at: Date.parse(at),
            prefill: (prompt / c.prefillMs) * 1e3,
            decode: (tokens / c.decodeMs) * 1e3,
          })),
      );
      return {
        prompt,
        tokens,
        prefill: summary(byRound.map((c) => c.prefill)),
        decode: summary(byRound.map((c) => c.decode)),
        byRound,
      };
    });
    const facts = results.map((result) => result.facts);
    const loadRate = (/** @type {string} */ format) =>
      summary(facts.map(({ loads }) => (loads ? loads[format].bytes / loads[format].ms / 1e6 : NaN)));
    return {
      name,
      visit,
      subject: list[0].subject,
      rounds: results.length,
      cells,
      loadMs: summary(facts.map(({ loadMs }) => loadMs)),
      memory: summary(facts.map(({ memory }) => memory ?? NaN)),
      // Until the first token, the engine computes the prompt and at most one more token.
      startRatio: summary(facts.map(({ startMs, warm16Ms }) => startMs / ((warm16Ms * 17) / 16))),
      limits: facts.flatMap(({ limit }) => (limit ? [limit] : [])),
      traces: facts.flatMap(({ traces }) => traces ?? []),
      twoReads: summary(facts.map(({ read }) => read?.ratio ?? NaN)),
      loadRates: { tile: loadRate('tile'), v1: loadRate('v1'), v2: loadRate('v2') },
      facts: facts.at(-1) ?? {},
      errors: [...new Set(list.flatMap(({ error }) => (error ? [error] : [])))],
    };
  });
}

/** Returns the number of weights that one decoded token multiplies. @param {Record<string, any>} shape */
export function weightsPerToken({ hidden, layers, heads, kv_heads: kvHeads = heads, ffn, vocab }) {
  return layers * (2 * hidden * hidden + 2 * hidden * (hidden / heads) * kvHeads + 3 * hidden * ffn) + vocab * hidden;
}

/**
 * Computes all figures.
 * @param {Entry[]} entries
 * @param {{ machine: import('./machine.mjs').Machine, payload: { bq4: Sizes, peers: Sizes } }} facts
 */
export function figures(entries, { machine, payload }) {
  const rows = rowsOf(entries);
  const times = entries.map(({ at }) => at).sort();
  return {
    machine,
    dot: dotInstruction(machine),
    firefoxDot: dotInFirefox(machine),
    payload,
    rows,
    targets: targetsOf(new Table(rows), payload.bq4),
    limits: limitsOf(rows),
    from: times[0],
    to: times[times.length - 1],
    stolen: summary(entries.flatMap(({ stolen }) => (typeof stolen === 'number' ? [stolen] : []))),
    busy: summary(entries.flatMap(({ busy }) => (typeof busy === 'number' ? [busy] : []))),
    weights: Object.fromEntries(
      Object.entries(SHAPES)
        .filter(([, { arch }]) => arch !== 'gemma4') // the widths of its layers differ
        .map(([shape, config]) => [shape, weightsPerToken(config)]),
    ),
  };
}

/** Returns the rates of a decode step, of its bare loops and of a plain read, with one thread and the 135m shape. @param {Row[]} rows */
function limitsOf(rows) {
  return rows
    .filter(({ visit, limits }) => visit.runtime === 'limit' && visit.shape === '135m' && limits.length)
    .map(({ visit, limits }) => {
      const medianOf = (/** @type {(limit: Limit) => number} */ value) => median(limits.map(value));
      const { bytes, bytesF32, weights } = limits[0];
      const line = (
        /** @type {string} */ title,
        /** @type {keyof Limit['ms']} */ name,
        /** @type {number} */ readBytes,
        /** @type {boolean} */ isProduct,
      ) => {
        const ms = medianOf((limit) => limit.ms[name]);
        return {
          title,
          ms,
          gbPerS: readBytes / ms / 1e6,
          gPerS: isProduct ? weights / ms / 1e6 : null,
          ofRead: medianOf((limit) => readBytes / limit.ms[name] / (bytes / limit.ms.read)),
        };
      };
      return {
        precision: visit.precision,
        bytes,
        rounds: limits.length,
        lines: [
          line('plain read', 'read', bytes, false),
          line('bare loop', 'bare', bytes, true),
          line('bare loop, f32 scales', 'bareF32', bytesF32, true),
          line('bare loop, SIMD128', 'bareSimd128', bytes, true),
          line('whole decode step', 'step', bytes, true),
        ],
      };
    });
}
