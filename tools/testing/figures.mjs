// Tables of figures in documents, each between marks that a script replaces.
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';

/** What figures were measured on: cores and their name. */
export const machine = () => `${availableParallelism()} × ${cpus()[0]?.model.trim() || 'unknown'}`;

/** A table in Markdown. @param {readonly string[]} head @param {readonly (readonly (string | number)[])[]} rows */
export const tableOf = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/**
 * Puts a text between two marks of a document.
 * @param {string} path @param {string} name  of the marks: `<!-- name -->` and `<!-- /name -->` @param {string} text
 */
export function replaceTable(path, name, text) {
  const document = readFileSync(path, 'utf8');
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [from, to] = [document.indexOf(begin), document.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${path} has no ${begin} … ${end}`);
  writeFileSync(path, `${document.slice(0, from + begin.length)}\n${text}\n${document.slice(to)}`);
}
