// Makes visits in rounds, so that a noisy period of the machine affects all of them. Each result is appended to a file
// immediately, so that an interrupted run can be continued.
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { FEW, nameOf } from './cells.mjs';
import { busyShare, stolenShare, times } from './machine.mjs';

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
 * @property {number | null} [busy] share of the cores in use right before the visit, by other programs; null if unknown
 * @property {Visit} visit
 * @property {Result} [result]
 * @property {string} [error]
 */

/** Pauses before a visit: for closing the pages of the last one, then for measuring the load by other programs. */
const [AFTERMATH_MS, LOOK_MS] = [100, 200];

/** Assumed duration of a visit that was never made. */
const UNKNOWN_MS = 10_000;

/** @param {string} path @returns {Entry[]} */
export function readEntries(path) {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** Removes the entries for which `which` returns true. @param {string} path @param {(entry: Entry) => boolean} which */
export function forget(path, which) {
  const kept = readEntries(path).filter((entry) => !which(entry));
  if (existsSync(path)) writeFileSync(path, kept.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
}

/**
 * Makes the visits that have no result yet.
 * @param {object} run
 * @param {string} run.path  path of the file of results
 * @param {Visit[]} run.visits
 * @param {number} run.rounds
 * @param {(visit: Visit) => string} run.subjectOf  returns the `subject` of the entry
 * @param {(visit: Visit) => Promise<Result>} run.make
 * @param {number} [run.budgetMs]  time limit: no visit is started that would probably exceed it
 * @param {(text: string) => void} run.say
 * @param {() => number} [run.now]
 * @param {(ms: number) => Promise<any>} [run.pause]
 * @returns {Promise<number>} number of visits that were not made in time
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
  const done = new Set(entries.map(({ visit, subject, round }) => `${nameOf(visit)} # ${subject} # ${round}`));
  /** @type {Map<string, number>} */
  const took = new Map(entries.map(({ visit, ms }) => [nameOf(visit), ms]));
  const start = now();
  const waits = (/** @type {{ visit: Visit, round: number }} */ { visit, round }) =>
    Number(Boolean(visit.later) && round >= FEW);
  const todo = Array.from({ length: rounds }, (_, round) => visits.map((visit) => ({ visit, round })))
    .flat()
    .filter(({ visit, round }) => round < (visit.rounds ?? rounds) && !done.has(key(visit, round)))
    .sort((a, b) => waits(a) - waits(b));
  const cost = (/** @type {Visit} */ visit) => took.get(nameOf(visit)) ?? UNKNOWN_MS;
  say(
    `${todo.length} visits, about ${Math.ceil(todo.reduce((sum, { visit }) => sum + cost(visit), 0) / 60e3)} minutes${Number.isFinite(budgetMs) ? `, of which ${Math.round(budgetMs / 60e3)} may be used now` : ''}`,
  );
  for (const [i, { visit, round }] of todo.entries()) {
    const name = nameOf(visit);
    if (i > 0 && now() - start + cost(visit) > budgetMs) return todo.length - i;
    await pause(AFTERMATH_MS);
    const calm = times();
    await pause(LOOK_MS);
    const since = now();
    const before = times();
    /** @type {Entry} */
    const entry = { name, subject: subjectOf(visit), round, at: new Date().toISOString(), ms: 0, visit };
    try {
      entry.result = await make(visit);
    } catch (error) {
      entry.error = String(/** @type {any} */ (error)?.message ?? error).slice(0, 400);
    }
    entry.ms = Math.round(now() - since);
    entry.stolen = stolenShare(before, times());
    entry.busy = busyShare(calm, before);
    took.set(name, entry.ms);
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
