/**
 * What a conversion that was killed left, so that the next one goes on there: beside NAME.part lies NAME.part.journal, a line of JSON for
 * what is made of what, then one now and then for the tensors that are whole. What it says is believed where the hashes of the bytes agree.
 */
import { nodeModule } from '../../shared/node.js';

/**
 * How far the data has come.
 * @typedef {object} Mark
 * @property {number} tensors   so many are whole
 * @property {number} position  bytes of data
 * @property {string[]} hashes  of the chunks since the mark before, and of the begun one; hex
 * @property {any[]} reports    of the tensors since the mark before
 */

/** @typedef {{ marks: Mark[], note: (mark: Mark) => Promise<void>, restart: () => void, remove: () => Promise<void> }} Journal */

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
 * @param {string} key  of all that decides on the bytes: another one's journal is of no use
 * @returns {Promise<Journal>}
 */
export async function openJournal(output, key) {
  const { appendFile, readFile, rm, writeFile } = await nodeModule('fs/promises');
  const { existsSync } = await nodeModule('fs');
  const path = `${output}.part.journal`;
  const [first, ...marks] =
    existsSync(path) && existsSync(`${output}.part`) ? linesOf(await readFile(path, 'utf8')) : [];
  const same = first?.key === key;
  if (!same) await rm(path, { force: true });
  let begun = same;
  const known = same ? marks : [];
  return {
    marks: known,
    restart() {
      known.length = 0;
      begun = false;
    },
    async note(mark) {
      if (!begun) await writeFile(path, `${JSON.stringify({ key })}\n`);
      begun = true;
      await appendFile(path, `${JSON.stringify(mark)}\n`);
    },
    remove: () => rm(path, { force: true }),
  };
}
