/**
 * What a conversion that was killed left, so that the next one goes on there: beside NAME.part lies NAME.part.journal, a line of JSON for
 * what is made of what, then one now and then for the tensors that are whole. What it says is believed where the hashes of the bytes agree.
 */
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';

/**
 * How far the data has come.
 * @typedef {object} Mark
 * @property {number} tensors   so many are whole
 * @property {number} position  bytes of data
 * @property {string[]} hashes  of the chunks since the mark before, and of the begun one; hex
 * @property {any[]} reports    of the tensors since the mark before
 */

/**
 * @typedef {object} Journal
 * @property {Mark[]} marks     that another one left
 * @property {any} facts        what was found out before anything was written, by `decide`; null: nothing
 * @property {boolean} noted    something of the data is whole
 * @property {(facts: object) => Promise<void>} decide
 * @property {(mark: Mark) => Promise<void>} note
 * @property {() => Promise<void>} restart  what was noted doesn't count
 * @property {() => Promise<void>} remove
 */

/** Of all tensors: those that another one left are in its marks. @template T @param {{ report: () => T }[]} tensors @param {Journal | null} journal @returns {T[]} */
export function reportsOf(tensors, journal) {
  const kept = journal?.marks.flatMap(({ reports }) => reports) ?? [];
  return tensors.map((tensor, i) => kept[i] ?? tensor.report());
}

/** What a network let down: the next try goes on. @param {unknown} error */
export const isPassing = (error) =>
  error instanceof BqError && (error.code === 'NETWORK' || error.code === 'HTTP_STATUS');

/** Of all that decides on the bytes of a file. @param {unknown} facts @param {(Uint8Array | string | null | undefined)[]} bytes */
export async function keyOf(facts, bytes) {
  const all = new Blob([JSON.stringify(facts), ...bytes.map((each) => /** @type {BlobPart} */ (each ?? ''))]);
  return globalThis.Buffer.from(await crypto.subtle.digest('SHA-256', await all.arrayBuffer())).toString('hex');
}

/** What a line says; null: it isn't whole. @param {string} line @returns {any} */
function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** @param {any} mark */
const isMark = (mark) =>
  [mark?.tensors, mark?.position].every(Number.isInteger) && Array.isArray(mark.hashes) && Array.isArray(mark.reports);

/** The first line, and marks as far as they are whole. @param {string} text @returns {{ first: any, marks: Mark[] }} */
function read(text) {
  const [first, ...marks] = text.split('\n').slice(0, -1).map(parsed);
  const broken = marks.findIndex((mark) => !isMark(mark));
  return { first, marks: broken < 0 ? marks : marks.slice(0, broken) };
}

/**
 * @param {string} output
 * @param {string} key  by `keyOf`: another one's journal is of no use
 * @returns {Promise<Journal>}
 */
export async function openJournal(output, key) {
  const { appendFile, readFile, rm, writeFile } = await nodeModule('fs/promises');
  const { existsSync } = await nodeModule('fs');
  const path = `${output}.part.journal`;
  const part = `${output}.part`;
  const there = existsSync(path) ? read(await readFile(path, 'utf8')) : null;
  const same = there?.first?.key === key;
  const marks = there && same && existsSync(part) ? there.marks : [];
  let facts = (same && there?.first.facts) || null;
  let noted = marks.length > 0;
  const begin = () => writeFile(path, [{ key, facts }, ...marks].map((line) => `${JSON.stringify(line)}\n`).join(''));
  if (there && !same) for (const old of [path, part]) await rm(old, { force: true });
  else if (there && (facts || noted)) await begin(); // without a line that was cut short
  return {
    marks,
    facts,
    get noted() {
      return noted;
    },
    async decide(given) {
      facts = given;
      await begin();
    },
    async restart() {
      marks.length = 0;
      noted = false;
      await begin();
    },
    async note(mark) {
      if (!noted) await begin();
      noted = true;
      await appendFile(path, `${JSON.stringify(mark)}\n`);
    },
    remove: () => rm(path, { force: true }),
  };
}
