/**
 * The journal of a conversion: a file NAME.part.journal next to NAME.part, with which the same command resumes after it
 * was interrupted. Its first line (JSON) identifies input and options. Each further line is a mark: a record of the
 * complete tensors. Marks are used only if the hashes of the written bytes match.
 */
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';

/**
 * A record of progress.
 * @typedef {object} Mark
 * @property {number} tensors   number of complete tensors
 * @property {number} position  bytes of data written
 * @property {string[]} hashes  hashes of the chunks since the previous mark, and of the incomplete chunk; hexadecimal
 * @property {any[]} reports    reports of the tensors since the previous mark
 */

/**
 * @typedef {object} Journal
 * @property {Mark[]} marks     marks of the interrupted run
 * @property {any} facts        decisions made before writing, as recorded by `decide`; null if there are none
 * @property {boolean} noted    whether the journal has a mark
 * @property {(facts: object) => Promise<void>} decide  records decisions
 * @property {(mark: Mark) => Promise<void>} note  adds a mark
 * @property {() => Promise<void>} restart  discards all marks
 * @property {() => Promise<void>} remove  deletes the file
 */

/**
 * Returns the reports of all tensors. Those of tensors from an interrupted run are read from its marks.
 * @template T @param {{ report: () => T }[]} tensors @param {Journal | null} journal @returns {T[]}
 */
export function reportsOf(tensors, journal) {
  const recorded = journal?.marks.flatMap(({ reports }) => reports) ?? [];
  return tensors.map((tensor, i) => recorded[i] ?? tensor.report());
}

/** Whether an error is a network error, after which the next attempt should resume. @param {unknown} error */
export const isNetworkError = (error) =>
  error instanceof BqError && (error.code === 'NETWORK' || error.code === 'HTTP_STATUS');

/**
 * Returns a hash of all values that determine the bytes of the file.
 * @param {unknown} facts  values that can be converted to JSON
 * @param {(Uint8Array | string | null | undefined)[]} bytes
 */
export async function keyOf(facts, bytes) {
  const all = new Blob([JSON.stringify(facts), ...bytes.map((part) => /** @type {BlobPart} */ (part ?? ''))]);
  return globalThis.Buffer.from(await crypto.subtle.digest('SHA-256', await all.arrayBuffer())).toString('hex');
}

/** Parses the JSON of a line; null if the line is incomplete. @param {string} line @returns {any} */
function parseLine(line) {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** @param {any} mark */
const isMark = (mark) =>
  [mark?.tensors, mark?.position].every(Number.isInteger) && Array.isArray(mark.hashes) && Array.isArray(mark.reports);

/**
 * Parses a journal: its first line, and the marks before the first invalid one.
 * @param {string} text @returns {{ first: any, marks: Mark[] }}
 */
function parseJournal(text) {
  const [first, ...marks] = text.split('\n').slice(0, -1).map(parseLine);
  const invalid = marks.findIndex((mark) => !isMark(mark));
  return { first, marks: invalid < 0 ? marks : marks.slice(0, invalid) };
}

/**
 * Opens the journal of an output file. A journal of another input or other options is deleted together with its
 * NAME.part.
 * @param {string} output
 * @param {string} key  result of `keyOf`
 * @returns {Promise<Journal>}
 */
export async function openJournal(output, key) {
  const { appendFile, readFile, rm, writeFile } = await nodeModule('fs/promises');
  const { existsSync } = await nodeModule('fs');
  const path = `${output}.part.journal`;
  const part = `${output}.part`;
  const previous = existsSync(path) ? parseJournal(await readFile(path, 'utf8')) : null;
  const isSame = previous?.first?.key === key;
  const marks = previous && isSame && existsSync(part) ? previous.marks : [];
  let facts = (isSame && previous?.first.facts) || null;
  let noted = marks.length > 0;
  const rewrite = () => writeFile(path, [{ key, facts }, ...marks].map((line) => `${JSON.stringify(line)}\n`).join(''));
  if (previous && !isSame) for (const old of [path, part]) await rm(old, { force: true });
  else if (previous && (facts || noted)) await rewrite(); // removes an incomplete last line
  return {
    marks,
    facts,
    get noted() {
      return noted;
    },
    async decide(decisions) {
      facts = decisions;
      await rewrite();
    },
    async restart() {
      marks.length = 0;
      noted = false;
      await rewrite();
    },
    async note(mark) {
      if (!noted) await rewrite();
      noted = true;
      await appendFile(path, `${JSON.stringify(mark)}\n`);
    },
    remove: () => rm(path, { force: true }),
  };
}
