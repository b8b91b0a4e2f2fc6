// Measures visits in rounds, so that a noisy period of the machine affects all of them. Each result is appended to a file
// immediately, so that an interrupted run can be continued.
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { FEW_ROUNDS, nameOf } from './cells.mjs';
import { busyShare, stolenShare, readCpuTimes } from './machine.mjs';

/** @typedef {import('./cells.mjs').Visit} Visit */
/** @typedef {import('./drivers.mjs').Result} Result */

/**
 * @typedef {object} Entry  a line of the file: one result
 * @property {string} name    name of the visit
 * @property {string} subject hash of the measured build of bq4; '' for peers
 * @property {number} round
 * @property {string} at      ISO date
 * @property {number} ms      duration of the visit
 * @property {number | null} [stolen] share of CPU time that the host gave to other virtual machines; null if unknown
 * @property {number | null} [busy] share of the cores that other programs used before the visit; null if unknown
 * @property {Visit} visit
 * @property {Result} [result]
 * @property {string} [error]
 */

/** Pauses before a visit: until the pages of the previous visit are closed, and for measuring the load by other programs. */
const [SETTLE_MS, LOAD_SAMPLE_MS] = [100, 200];

/** Assumed duration of a visit without a result. */
const DEFAULT_VISIT_MS = 10_000;

/** Reads the file of results. @param {string} path @returns {Entry[]} */
export function readEntries(path) {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** Removes the entries for which `predicate` returns true. @param {string} path @param {(entry: Entry) => boolean} predicate */
export function removeEntries(path, predicate) {
  const remaining = readEntries(path).filter((entry) => !predicate(entry));
  if (existsSync(path)) writeFileSync(path, remaining.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
}

/**
 * Measures the visits that have no result yet.
 * @param {object} run
 * @param {string} run.path  path of the file of results
 * @param {Visit[]} run.visits
 * @param {number} run.rounds
 * @param {(visit: Visit) => string} run.subjectOf  returns the `subject` of the entry
 * @param {(visit: Visit) => Promise<Result>} run.make  measures a visit
 * @param {number} [run.budgetMs]  time limit: no visit is started that would probably exceed it
 * @param {(text: string) => void} run.say
 * @param {() => number} [run.now]
 * @param {(ms: number) => Promise<any>} [run.pause]
 * @returns {Promise<number>} number of visits for which there was no time
 */
export async function runVisits({
  path,
  visits,
  rounds,
  subjectOf,
  make,
  budgetMs = Infinity,
  say,
  now = () => performance.now(),
  pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
}) {
  mkdirSync(dirname(path), { recursive: true });
  const entries = readEntries(path);
  const key = (/** @type {Visit} */ visit, /** @type {number} */ round) =>
    `${nameOf(visit)} # ${subjectOf(visit)} # ${round}`;
  const finishedKeys = new Set(entries.map(({ visit, subject, round }) => `${nameOf(visit)} # ${subject} # ${round}`));
  /** @type {Map<string, number>} */
  const durationOf = new Map(entries.map(({ visit, ms }) => [nameOf(visit), ms]));
  const start = now();
  const isPostponed = (/** @type {{ visit: Visit, round: number }} */ { visit, round }) =>
    Number(Boolean(visit.later) && round >= FEW_ROUNDS);
  const pending = Array.from({ length: rounds }, (_, round) => visits.map((visit) => ({ visit, round })))
    .flat()
    .filter(({ visit, round }) => round < (visit.rounds ?? rounds) && !finishedKeys.has(key(visit, round)))
    .sort((a, b) => isPostponed(a) - isPostponed(b));
  const expectedMs = (/** @type {Visit} */ visit) => durationOf.get(nameOf(visit)) ?? DEFAULT_VISIT_MS;
  say(
    `${pending.length} visits, about ${Math.ceil(pending.reduce((sum, { visit }) => sum + expectedMs(visit), 0) / 60e3)} minutes${Number.isFinite(budgetMs) ? `, of which ${Math.round(budgetMs / 60e3)} are available` : ''}`,
  );
  for (const [i, { visit, round }] of pending.entries()) {
    const name = nameOf(visit);
    if (i > 0 && now() - start + expectedMs(visit) > budgetMs) return pending.length - i;
    await pause(SETTLE_MS);
    const timesBefore = readCpuTimes();
    await pause(LOAD_SAMPLE_MS);
    const visitStart = now();
    const timesAtStart = readCpuTimes();
    /** @type {Entry} */
    const entry = { name, subject: subjectOf(visit), round, at: new Date().toISOString(), ms: 0, visit };
    try {
      entry.result = await make(visit);
    } catch (error) {
      entry.error = String(/** @type {any} */ (error)?.message ?? error).slice(0, 400);
    }
    entry.ms = Math.round(now() - visitStart);
    entry.stolen = stolenShare(timesAtStart, readCpuTimes());
    entry.busy = busyShare(timesBefore, timesAtStart);
    durationOf.set(name, entry.ms);
    appendFileSync(path, `${JSON.stringify(entry)}\n`);
    const rates = entry.result?.cells
      .map(
        (c) =>
          `${c.prompt}: ${((c.prompt / c.prefillMs) * 1e3).toFixed(0)}, ${((c.tokens / c.decodeMs) * 1e3).toFixed(1)}`,
      )
      .join('; ');
    say(`${round + 1}/${rounds} ${name}: ${entry.error ?? rates ?? ''} (${(entry.ms / 1e3).toFixed(1)} s)`);
  }
  return 0;
}
