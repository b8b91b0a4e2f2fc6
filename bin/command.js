/**
 * The type of a command (bin/commands/), and code that uses its description: parsing of arguments, checks, help texts.
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { nearest } from '../js/shared/options.js';
import { checkOutput, Usage } from './options.js';

/** @typedef {import('./options.js').Option} Option */

/**
 * @typedef {object} Command
 * @property {string} summary   one line for `bq4 --help`
 * @property {string} operands  in the notation of the help: "FILE OUT", "FILE [PROMPT]", "FILE TEXT..."; also
 *   determines their allowed number
 * @property {string} [about]   paragraphs for `bq4 COMMAND --help`
 * @property {Record<string, Option>} options
 * @property {boolean} [writesLast]  whether the last of several operands is a file to write; it must differ from the
 *   others
 * @property {boolean} [loadsFile]  whether the first operand must be a model that can be loaded, not a name on the hub
 * @property {(operands: string[], options: any) => Promise<void>} run
 */

/** Width of help texts in columns, and the column at which descriptions of options begin. */
const [WIDTH, INDENT] = [100, 26];

/** Returns the smallest and the largest number of operands. @param {string} operands */
function countsOf(operands) {
  const words = operands.split(' ');
  const required = words.filter((word) => !word.startsWith('['));
  return [required.length, operands.includes('...') ? Infinity : words.length];
}

/** Wraps a text; lines after the first are indented. @param {string} text @param {number} indent */
function wrap(text, indent) {
  /** @type {string[]} */
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines[lines.length - 1];
    if (last && indent + last.length + 1 + word.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines.join(`\n${' '.repeat(indent)}`);
}

/** Formats the description of an option. @param {string} left @param {string} text */
const formatRow = (left, text) =>
  left.length + 2 < INDENT
    ? `  ${left.padEnd(INDENT - 2)}${wrap(text, INDENT)}\n`
    : `  ${left}\n${' '.repeat(INDENT)}${wrap(text, INDENT)}\n`;

/** Returns the lines of `bq4 --help` for a command. @param {string} name @param {Command} command */
export const summaryLine = (name, { operands, summary }) => `  bq4 ${name} ${operands}\n      ${summary}\n`;

/** Returns the text of `bq4 NAME --help`. @param {string} name @param {Command} command */
export function helpOf(name, { operands, summary, about, options }) {
  const rows = Object.entries(options).map(([option, { value, help, multiple }]) =>
    formatRow(`--${option}${value ? ` ${value}` : ''}`, multiple ? `${help} (may be repeated)` : help),
  );
  return [
    `Usage:\n  bq4 ${name} ${operands}${rows.length ? ' [options]' : ''}\n`,
    `${wrap(`${summary[0].toUpperCase()}${summary.slice(1)}.`, 0)}\n`,
    ...(about ? about.split('\n').map((paragraph) => `${wrap(paragraph, 0)}\n`) : []),
    ...(rows.length ? [`Options:\n${rows.join('')}`] : []),
  ].join('\n');
}

/** Whether the last path is the same file as one of the earlier paths. @param {string[]} files */
async function isLastRepeated(files) {
  const { stat } = await import('node:fs/promises');
  const stats = await Promise.all(files.map((file) => stat(file, { bigint: true }).catch(() => null)));
  const last = stats.pop();
  return last?.isFile() && stats.some((other) => other?.dev === last.dev && other.ino === last.ino);
}

/**
 * Checks an option. Throws Usage if it is unknown, lacks its value, has a value although it takes none, or is repeated.
 * @param {string} command @param {Record<string, Option>} options
 * @param {{ name: string, rawName: string, value?: string, inlineValue?: boolean }} token  of util.parseArgs
 * @param {Map<string, string>} earlierValues  values of the options before it
 */
function checkOption(command, options, { name, rawName, value, inlineValue }, earlierValues) {
  if (!Object.hasOwn(options, name)) {
    const guess = nearest(name, Object.keys(options));
    throw new Usage(`${command}: unknown option ${rawName}${guess ? `; did you mean --${guess}?` : ''}`);
  }
  const { type, multiple } = options[name];
  if (type === 'boolean') {
    if (value !== undefined) throw new Usage(`${command}: ${rawName} takes no value, found "${value}"`);
    return;
  }
  if (value === undefined) throw new Usage(`${command}: expected a value after ${rawName}, found none`);
  if (!inlineValue && /^-./.test(value))
    throw new Usage(
      `${command}: expected a value after ${rawName}, found ${value}; one that begins with a dash is written ${rawName}=${value}`,
    );
  if (!multiple && earlierValues.has(name))
    throw new Usage(
      `${command}: ${rawName} is given twice: expected one value, found "${earlierValues.get(name)}" and "${value}"`,
    );
  earlierValues.set(name, value);
}

/**
 * Parses and checks the arguments of a command. Throws Usage.
 * @param {string} name @param {Command} command @param {string[]} args
 */
export async function parse(name, { operands, options, writesLast, loadsFile }, args) {
  const {
    positionals,
    values: parsed,
    tokens,
  } = parseArgs({
    args,
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  /** @type {Map<string, string>} */
  const values = new Map();
  for (const token of tokens) if (token.kind === 'option') checkOption(name, options, token, values);
  const [min, max] = countsOf(operands);
  if (positionals.length < min || positionals.length > max)
    throw new Usage(
      `${name}: expected ${operands}, found ${positionals.length} argument${positionals.length === 1 ? '' : 's'}`,
    );
  if (writesLast && (await isLastRepeated(positionals)))
    throw new Usage(
      `${name} would replace a file that it reads: choose another name for ${/[\w.]+(?=]?$)/.exec(operands)}`,
    );
  const output = writesLast && positionals.length > 1 ? positionals[positionals.length - 1] : null;
  if (output !== null) await checkOutput(name, output);
  for (const [option, path] of values) {
    if (!options[option].writes) continue;
    await checkOutput(`${name}: --${option}`, path);
    const isOutput = output !== null && resolve(output) === resolve(path); // neither need exist
    if (isOutput || (await isLastRepeated([...positionals, path])))
      throw new Usage(`--${option} would replace ${path}, which ${name} reads or writes: choose another file`);
  }
  if (loadsFile && positionals[0].startsWith('hf:'))
    throw new Usage(`${name} needs a file: first bq4 convert ${positionals[0]} OUT.bq4`);
  return { operands: positionals, options: /** @type {any} */ (parsed) };
}
