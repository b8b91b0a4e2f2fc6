// Writes and reads the tables of docs/log/quality.md. A row takes minutes to measure, so rows of earlier runs and of other machines stay in
// the document.
import { readdirSync, readFileSync } from 'node:fs';

/** Prompt for chat models, and the number of tokens of the reply. */
export const QUESTION = 'Why is the sky blue?';
export const REPLY_TOKENS = 40;

/**
 * A quantized model: compute type, method of rounding, bits per weight of the layers' matrices, size of the file, perplexity, mean KL
 * divergence from the reference, and the share of positions with the same likeliest token. `reply`: its reply to QUESTION. `documentLine`:
 * its line in the document, if it was read from there, with rounded numbers.
 * @typedef {{ type: string, method: string, bits: number, bytes: number, perplexity: number, kl: number, top1: number, reply?: string, documentLine?: string }} Row
 */
/**
 * `reference`: perplexity of the model in f32; `predictions`: number of predicted tokens; `reply`: reply of the reference to QUESTION.
 * @typedef {{ name: string, reference: number, predictions: number, reply?: string, rows: Row[] }} Table
 */

/** Formats the change of the perplexity. @param {{ perplexity: number }} row @param {{ reference: number }} table */
export function formatAdded({ perplexity }, { reference }) {
  const percent = 100 * (perplexity / reference - 1);
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent).toFixed(2)} %`;
}

/** Decode rates on one kind of machine, relative to `bq4h`, by the type names of `types.c`. @typedef {{ title: string, rateOf: Map<string, string> }} DecodeRates */

/** Reads decode rates from the output of `npm run bench -- --extras`. @param {string} machineKind @param {string} text @returns {DecodeRates} */
export function readDecodeRates(machineKind, text) {
  const cellsOf = (/** @type {string} */ row) => row.split('|').map((cell) => cell.trim());
  const [titles, , ...rows] = text
    .split('\n')
    .filter((row) => row.startsWith('|'))
    .map(cellsOf);
  const column = titles?.indexOf(`${machineKind === 'avx2' ? 'relaxed16' : 'relaxed'} decode`) ?? -1;
  return {
    title: `decode, ${machineKind === 'arm' ? 'Arm' : machineKind.toUpperCase()}`,
    rateOf: new Map(column < 0 ? [] : rows.map((cells) => [cells[1], cells[column]])),
  };
}

/** Reads the decode rates of each measured kind of machine from docs/benchmarks. @returns {DecodeRates[]} */
export function readAllDecodeRates() {
  const folder = new URL('../../docs/benchmarks/', import.meta.url);
  return readdirSync(folder).flatMap((name) => {
    const [, machineKind] = /^types-(\w+)\.md$/.exec(name) ?? [];
    return machineKind ? [readDecodeRates(machineKind, readFileSync(new URL(name, folder), 'utf8'))] : [];
  });
}

/** Returns the decode rate of a type of these tables; a dash for mixed types, which are not measured. @param {DecodeRates} rates @param {string} type */
const decodeRateOf = ({ rateOf }, type) =>
  ['', '_32', '_64'].map((suffix) => rateOf.get(type.toLowerCase() + suffix)).find((rate) => rate) ?? '–';

/** @param {string[]} cells */
const formatLine = (cells) => `| ${cells.join(' | ')} |`;

/** Titles of the columns of measured values. Columns with decode rates follow. */
const TITLES = ['type', 'rounded', 'bits', 'file, KB', 'perplexity', 'of what v1 adds', 'mean KL', 'top-1'];
/** Separator of cells. A `|` within a cell is escaped. */
const SEPARATOR = /(?<!\\) \| /;

/** Returns the cells of a row that was read from the document. @param {string} documentLine */
const cellsOfLine = (documentLine) => documentLine.slice(2, -2).split(SEPARATOR).slice(0, TITLES.length);

/** Formats the measured cells of a row. @param {Row} row @param {number} reference @param {Row | undefined} v1  row of format v1, to compare with */
const formatCells = (row, reference, v1) => [
  `\`${row.type}\``,
  row.method,
  row.bits.toFixed(2),
  Math.round(row.bytes / 1e3).toLocaleString('en'),
  formatAdded(row, { reference }),
  v1 ? `${Math.round((100 * (row.perplexity - reference)) / (v1.perplexity - reference))} %` : '',
  row.kl.toFixed(5),
  `${(100 * row.top1).toFixed(1)} %`,
];

/** Returns a table of replies. @param {string} referenceReply @param {Row[]} rows */
function formatReplies(referenceReply, rows) {
  const escapeCell = (/** @type {string} */ text) => text.replaceAll('|', '\\|');
  return [
    `| type | rounded | “${QUESTION}”, greedy, ${REPLY_TOKENS} tokens |`,
    '|---|---|---|',
    formatLine(['`f32`', 'the reference', escapeCell(referenceReply)]),
    ...rows.flatMap(({ type, method, reply }) =>
      reply === undefined ? [] : [formatLine([`\`${type}\``, method, escapeCell(reply)])],
    ),
  ];
}

/** Formats a table as Markdown. @param {Table} table @param {DecodeRates[]} [decodeRates] */
export function formatTable({ name, reference, predictions, reply, rows }, decodeRates = []) {
  const v1 = rows.find(({ type, method }) => type === 'bq4' && method.includes('v1'));
  const sortedRows = rows.toSorted((a, b) => a.bits - b.bits || b.kl - a.kl);
  return [
    `${name}: perplexity ${reference.toFixed(4)} as f32, ${predictions.toLocaleString('en')} predictions.`,
    '',
    formatLine([...TITLES, ...decodeRates.map(({ title }) => title)]),
    `|${'---|'.repeat(TITLES.length + decodeRates.length)}`,
    ...sortedRows.map((row) =>
      formatLine([
        ...(row.documentLine ? cellsOfLine(row.documentLine) : formatCells(row, reference, v1)),
        ...decodeRates.map((rates) => decodeRateOf(rates, row.type)),
      ]),
    ),
    ...(reply === undefined ? [] : ['', ...formatReplies(reply, sortedRows)]),
  ].join('\n');
}

/** Parses a table. @param {string} text  a text that `formatTable` returned @returns {Table} */
function parseTable(text) {
  const parseNumber = (/** @type {string} */ cell) => Number(cell.replace('−', '-').replace(/[,+ %]/g, ''));
  const [, name, perplexity, predictions] = /^(.+): perplexity (\S+) as f32, (\S+) predictions/.exec(text) ?? [];
  const reference = parseNumber(perplexity);
  /** @type {Table} */
  const table = { name, reference, predictions: parseNumber(predictions), rows: [] };
  for (const [documentLine, type, rest] of text.matchAll(/^\| `(.+?)` \| (.+) \|$/gm)) {
    const [method, ...cells] = rest.split(SEPARATOR);
    const reply = cells[0].replaceAll('\\|', '|');
    const row = table.rows.find((candidate) => candidate.type === type && candidate.method === method);
    if (row) row.reply = reply;
    else if (cells.length === 1) table.reply = reply;
    else {
      const [bits, kilobytes, addedPercent, , kl, top1Percent] = cells.map(parseNumber);
      const measured = { perplexity: reference * (1 + addedPercent / 100), kl, top1: top1Percent / 100 };
      table.rows.push({ type, method, bits, bytes: 1e3 * kilobytes, ...measured, documentLine });
    }
  }
  return table;
}

/** Parses the tables of a text, with the precision that it has. @param {string} text  several texts that `formatTable` returned */
export const parseTables = (text) =>
  text
    .trim()
    .split(/\n\n(?=[^|\n]*: perplexity )/)
    .map(parseTable);

/**
 * Returns a measured table with additional rows of the document, if both have the same reference.
 * @param {Table} measured @param {Table | undefined} documentTable
 */
export function mergeTables(measured, documentTable) {
  const hasSameReference =
    documentTable?.reference.toFixed(4) === measured.reference.toFixed(4) &&
    documentTable.predictions === measured.predictions;
  if (!hasSameReference) return { ...measured, rows: [...measured.rows] };
  const isMissing = (/** @type {Row} */ { type, method }) =>
    !measured.rows.some((row) => row.type === type && row.method === method);
  return {
    reply: documentTable.reply,
    ...measured,
    rows: [...measured.rows, ...documentTable.rows.filter(isMissing)],
  };
}

/**
 * Returns a document with another text between the comments `<!-- name -->` and `<!-- end of name -->`. Throws if they are missing.
 * @param {string} document @param {string} name @param {string} text
 */
export function replaceSection(document, name, text) {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const [beginIndex, endIndex] = [document.indexOf(begin), document.indexOf(end)];
  if (beginIndex < 0 || endIndex < beginIndex)
    throw new Error(`expected ${begin} and ${end} in the document, found none`);
  return `${document.slice(0, beginIndex + begin.length)}\n\n${text}\n\n${document.slice(endIndex)}`;
}
