// Tables of docs/log/quality.md, written and read: a row costs minutes, so those that were measured before, or elsewhere, stay.

import { readdirSync, readFileSync } from 'node:fs';

/** What a model that talks is asked, and tokens of its reply. */
export const QUESTION = 'Why is the sky blue?';
export const REPLY = 40;

/**
 * `says`: to QUESTION. `written`: its line in the document, which has fewer digits.
 * @typedef {{ type: string, how: string, bits: number, bytes: number, perplexity: number, kl: number, same: number, says?: string, written?: string }} Row
 */
/** `says`: what the reference does. @typedef {{ name: string, reference: number, predicted: number, says?: string, rows: Row[] }} Table */

/** What a model adds to the reference's perplexity. @param {{ perplexity: number }} row @param {{ reference: number }} table */
export function added({ perplexity }, { reference }) {
  const share = 100 * (perplexity / reference - 1);
  return `${share < 0 ? '−' : '+'}${Math.abs(share).toFixed(2)} %`;
}

/** How fast types are in decode, of `bq4h`, by the names that `types.c` prints. @typedef {{ title: string, of: Map<string, string> }} Speeds */

/** A kind of machine and what `npm run bench -- --extras` wrote of it. @param {string} kind @param {string} text @returns {Speeds} */
export function speedsIn(kind, text) {
  const cellsOf = (/** @type {string} */ row) => row.split('|').map((cell) => cell.trim());
  const [head, , ...rows] = text
    .split('\n')
    .filter((row) => row.startsWith('|'))
    .map(cellsOf);
  const at = head?.indexOf(`${kind === 'avx2' ? 'relaxed16' : 'relaxed'} decode`) ?? -1;
  return {
    title: `decode, ${kind === 'arm' ? 'Arm' : kind.toUpperCase()}`,
    of: new Map(at < 0 ? [] : rows.map((cells) => [cells[1], cells[at]])),
  };
}

/** Of each kind of machine that was measured. @returns {Speeds[]} */
export function speedsOf() {
  const folder = new URL('../../docs/benchmarks/', import.meta.url);
  return readdirSync(folder).flatMap((name) => {
    const [, kind] = /^types-(\w+)\.md$/.exec(name) ?? [];
    return kind ? [speedsIn(kind, readFileSync(new URL(name, folder), 'utf8'))] : [];
  });
}

/** Of a type of these tables; of a mixture nothing is known. @param {Speeds} speeds @param {string} type */
const speedOf = ({ of }, type) =>
  ['', '_32', '_64'].map((end) => of.get(type.toLowerCase() + end)).find((speed) => speed) ?? '–';

/** @param {string[]} cells */
const line = (cells) => `| ${cells.join(' | ')} |`;

/** What a row says by itself. */
const TITLES = ['type', 'rounded', 'bits', 'file, KB', 'perplexity', 'of what v1 adds', 'mean KL', 'top-1'];
const CELLS = TITLES.length;

/** @param {Table} table @param {Speeds[]} [speeds] */
export function markdown({ name, reference, predicted, says, rows }, speeds = []) {
  const worst = rows.find(({ type, how }) => type === 'bq4' && how.includes('v1'));
  const share = (/** @type {Row} */ row) =>
    worst ? `${Math.round((100 * (row.perplexity - reference)) / (worst.perplexity - reference))} %` : '';
  const sorted = rows.toSorted((a, b) => a.bits - b.bits || b.kl - a.kl);
  const messages = sorted.filter((row) => row.says !== undefined);
  const fast = (/** @type {Row} */ { type }) => speeds.map((each) => speedOf(each, type));
  const before = (/** @type {string} */ written) =>
    written
      .slice(2, -2)
      .split(/(?<!\\) \| /)
      .slice(0, CELLS);
  const quoted = (/** @type {string} */ text) => text.replaceAll('|', '\\|');
  return [
    `${name}: perplexity ${reference.toFixed(4)} as f32, ${predicted.toLocaleString('en')} predictions.`,
    '',
    line([...TITLES, ...speeds.map(({ title }) => title)]),
    `|${'---|'.repeat(CELLS + speeds.length)}`,
    ...sorted.map((row) =>
      line([
        ...(row.written
          ? before(row.written)
          : [
              `\`${row.type}\``,
              row.how,
              row.bits.toFixed(2),
              Math.round(row.bytes / 1e3).toLocaleString('en'),
              added(row, { reference }),
              share(row),
              row.kl.toFixed(5),
              `${(100 * row.same).toFixed(1)} %`,
            ]),
        ...fast(row),
      ]),
    ),
    ...(says === undefined
      ? []
      : [
          '',
          `| type | rounded | “${QUESTION}”, greedy, ${REPLY} tokens |`,
          '|---|---|---|',
          line(['`f32`', 'the reference', quoted(says)]),
          ...messages.map((row) => line([`\`${row.type}\``, row.how, quoted(row.says ?? '')])),
        ]),
  ].join('\n');
}

/** @param {string} text @returns {Table} */
function tableIn(text) {
  const number = (/** @type {string} */ cell) => Number(cell.replace('−', '-').replace(/[,+ %]/g, ''));
  const [, name, perplexity, predicted] = /^(.+): perplexity (\S+) as f32, (\S+) predictions/.exec(text) ?? [];
  const reference = number(perplexity);
  /** @type {Table} */
  const table = { name, reference, predicted: number(predicted), rows: [] };
  for (const [written, type, rest] of text.matchAll(/^\| `(.+?)` \| (.+) \|$/gm)) {
    const [how, ...cells] = rest.split(/(?<!\\) \| /);
    const says = cells[0].replaceAll('\\|', '|');
    const row = table.rows.find((each) => each.type === type && each.how === how);
    if (row) row.says = says;
    else if (cells.length === 1) table.says = says;
    else {
      const [bits, kilobytes, more, , kl, same] = cells.map(number);
      const found = { perplexity: reference * (1 + more / 100), kl, same: same / 100 };
      table.rows.push({ type, how, bits, bytes: 1e3 * kilobytes, ...found, written });
    }
  }
  return table;
}

/** What `markdown` wrote of several, as far as it says it. @param {string} text */
export const tablesIn = (text) =>
  text
    .trim()
    .split(/\n\n(?=[^|\n]*: perplexity )/)
    .map(tableIn);

/** What this machine found, and rows of the same reference that the document has beside that. @param {Table} found @param {Table | undefined} before */
export function joined(found, before) {
  const same =
    before?.reference.toFixed(4) === found.reference.toFixed(4) && before.predicted === found.predicted ? before : null;
  const isNew = (/** @type {Row} */ { type, how }) => !found.rows.some((row) => row.type === type && row.how === how);
  return { says: same?.says, ...found, rows: [...found.rows, ...(same?.rows.filter(isNew) ?? [])] };
}

/** A document with another text between the marks of that name. @param {string} document @param {string} name @param {string} text */
export function between(document, name, text) {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const [from, to] = [document.indexOf(begin), document.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`no place for ${name} in the document`);
  return `${document.slice(0, from + begin.length)}\n\n${text}\n\n${document.slice(to)}`;
}
