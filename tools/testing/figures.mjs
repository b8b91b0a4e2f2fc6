// Tables of measured figures in documents. Each table is between two HTML comments; scripts replace the text between them.
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';

/** Returns the machine of a measurement: the number of cores and the name of the CPU. */
export const machine = () => `${availableParallelism()} × ${cpus()[0]?.model.trim() || 'unknown'}`;

/** Returns a Markdown table. @param {readonly string[]} head @param {readonly (readonly (string | number)[])[]} rows */
export const tableOf = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/**
 * Replaces the text between the comments `<!-- name -->` and `<!-- /name -->` of a document. Throws if they are missing.
 * @param {string} path @param {string} name @param {string} text
 */
export function replaceTable(path, name, text) {
  const document = readFileSync(path, 'utf8');
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [beginIndex, endIndex] = [document.indexOf(begin), document.indexOf(end)];
  if (beginIndex < 0 || endIndex < beginIndex) throw new Error(`${path}: expected ${begin} and ${end}, found none`);
  writeFileSync(path, `${document.slice(0, beginIndex + begin.length)}\n${text}\n${document.slice(endIndex)}`);
}
