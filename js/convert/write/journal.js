/**
 * What a conversion that was killed left, so that the next one goes on there: beside NAME.part lies NAME.part.journal, a line of JSON for
 * what is made of what, then one now and then for the tensors that are whole. What it says is believed where the hashes of the bytes agree.
 */
import { BqError } from '../../shared/errors.js';
import { nodeModule } from '../../shared/node.js';

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
 * @property {() => void} restart  what was noted doesn't count
 * @property {() => Promise<void>} remove
 */

/** What a network let down: the next try goes on. @param {unknown} error */
export const isPassing = (error) =>
  error instanceof BqError && (error.code === 'NETWORK' || error.code === 'HTTP_STATUS');

/** Of all that decides on the bytes of a file. @param {unknown} facts @param {(Uint8Array | string | null | undefined)[]} bytes */
export async function keyOf(facts, bytes) {
  const all = new Blob([JSON.stringify(facts), ...bytes.map((each) => /** @type {BlobPart} */ (each ?? ''))]);
  return globalThis.Buffer.from(await crypto.subtle.digest('SHA-256', await all.arrayBuffer())).toString('hex');
}

/** Lines that are whole. @param {string} text @returns {any[]} */
function linesOf(text) {
  /** @type {any[]} */
  const lines = [];
  for (const line of text.split('\n').slice(0, -1)) {
    try {
      lines.push(JSON.parse(line));
    } catch {
      break;
    }
  }
  return lines;
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
  const [first, ...lines] = existsSync(path) ? linesOf(await readFile(path, 'utf8')) : [];
  const same = first?.key === key;
  if (!same) await rm(path, { force: true });
  const marks = same && existsSync(`${output}.part`) ? lines : [];
  let facts = (same && first.facts) || null;
  let noted = marks.length > 0;
  const begin = () => writeFile(path, `${JSON.stringify({ key, facts })}\n`);
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
    restart() {
      marks.length = 0;
      noted = false;
    },
    async note(mark) {
      if (!noted) await begin();
      noted = true;
      await appendFile(path, `${JSON.stringify(mark)}\n`);
    },
    remove: () => rm(path, { force: true }),
  };
}
