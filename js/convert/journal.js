/**
 * The journal of a conversion, from which the same command resumes after it was killed: NAME.part.journal beside NAME.part. Its first line
 * (JSON) identifies input and options; further lines are marks, each with the tensors that are complete. Marks count only if the
 * hashes of the written bytes match.
 */
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';

/**
 * A record of progress.
 * @typedef {object} Mark
 * @property {number} tensors   number of complete tensors
 * @property {number} position  bytes of data written
 * @property {string[]} hashes  of the chunks since the previous mark, and of the incomplete one; hex
 * @property {any[]} reports    of the tensors since the previous mark
 */

/**
 * @typedef {object} Journal
 * @property {Mark[]} marks     of the interrupted run
 * @property {any} facts        decisions made before writing, recorded by `decide`; null: none
 * @property {boolean} noted    whether there is a mark
 * @property {(facts: object) => Promise<void>} decide
 * @property {(mark: Mark) => Promise<void>} note
 * @property {() => Promise<void>} restart  discards all marks
 * @property {() => Promise<void>} remove
 */

/** Reports of all tensors, those of the interrupted run from its marks. @template T @param {{ report: () => T }[]} tensors @param {Journal | null} journal @returns {T[]} */
export function reportsOf(tensors, journal) {
  const recorded = journal?.marks.flatMap(({ reports }) => reports) ?? [];
  return tensors.map((tensor, i) => recorded[i] ?? tensor.report());
}

/** Whether an error comes from the network, so that the next attempt should resume. @param {unknown} error */
export const isNetworkError = (error) =>
  error instanceof BqError && (error.code === 'NETWORK' || error.code === 'HTTP_STATUS');

/** A hash of everything that determines the bytes of the file. @param {unknown} facts  as JSON @param {(Uint8Array | string | null | undefined)[]} bytes */
export async function keyOf(facts, bytes) {
  const all = new Blob([JSON.stringify(facts), ...bytes.map((part) => /** @type {BlobPart} */ (part ?? ''))]);
  return globalThis.Buffer.from(await crypto.subtle.digest('SHA-256', await all.arrayBuffer())).toString('hex');
}

/** The JSON of a line; null if the line was cut short. @param {string} line @returns {any} */
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

/** The first line, and the marks up to the first incomplete one. @param {string} text @returns {{ first: any, marks: Mark[] }} */
function read(text) {
  const [first, ...marks] = text.split('\n').slice(0, -1).map(parseLine);
  const broken = marks.findIndex((mark) => !isMark(mark));
  return { first, marks: broken < 0 ? marks : marks.slice(0, broken) };
}

/**
 * @param {string} output
 * Opens the journal of an output file. One of another input or with other options is deleted together with its NAME.part.
 * @param {string} output
 * @param {string} key  by `keyOf`
 * @returns {Promise<Journal>}
 */
export async function openJournal(output, key) {
  const { appendFile, readFile, rm, writeFile } = await nodeModule('fs/promises');
  const { existsSync } = await nodeModule('fs');
  const path = `${output}.part.journal`;
  const part = `${output}.part`;
  const previous = existsSync(path) ? read(await readFile(path, 'utf8')) : null;
  const isSame = previous?.first?.key === key;
  const marks = previous && isSame && existsSync(part) ? previous.marks : [];
  let facts = (isSame && previous?.first.facts) || null;
  let noted = marks.length > 0;
  const rewrite = () => writeFile(path, [{ key, facts }, ...marks].map((line) => `${JSON.stringify(line)}\n`).join(''));
  if (previous && !isSame) for (const old of [path, part]) await rm(old, { force: true });
  else if (previous && (facts || noted)) await rewrite(); // drops a line that was cut short
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
