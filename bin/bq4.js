#!/usr/bin/env node
// Entry of the CLI: selects the command (bin/commands/), prints help, and converts errors to messages and exit codes.
import { stderr, stdout } from 'node:process';
import { nearest } from '../js/shared/options.js';
import { helpOf, parse, summaryLine } from './command.js';
import { COMMANDS } from './commands/index.js';
import { explain } from './explain.js';
import { Usage } from './options.js';

/** Loads a command. @param {string} name @returns {Promise<import('./command.js').Command>} */
const loadCommand = async (name) => (await COMMANDS[name]()).command;

async function overview() {
  const lines = [];
  for (const name of Object.keys(COMMANDS)) lines.push(summaryLine(name, await loadCommand(name)));
  return `bq4: language models in the browser, on the CPU

Usage: bq4 COMMAND ... [options]

${lines.join('')}
  bq4 COMMAND --help   the options of a command
  bq4 --version

FILE is the path or the address of a .bq4 or .gguf file.
Exit codes: 0 success, 1 failure, 2 wrong usage.
`;
}

/** @param {string | undefined} name */
const help = async (name) =>
  name !== undefined && Object.hasOwn(COMMANDS, name) ? helpOf(name, await loadCommand(name)) : overview();

/** @param {string[]} args */
async function main([name, ...args]) {
  if (name === '--help' || name === '-h' || name === 'help') return void stdout.write(await help(args[0]));
  if (args.includes('--help') || args.includes('-h')) return void stdout.write(await help(name));
  if (name === '--version') {
    const { readFile } = await import('node:fs/promises');
    return void stdout.write(
      `${JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')).version}\n`,
    );
  }
  if (name === undefined) throw new Usage('expected a command');
  if (!Object.hasOwn(COMMANDS, name)) {
    const guess = nearest(name, Object.keys(COMMANDS));
    throw new Usage(`unknown command "${name}"${guess ? `; did you mean ${guess}?` : ''}`);
  }
  const command = await loadCommand(name);
  const { operands, options } = await parse(name, command, args);
  await command.run(operands, options);
}

// It is no error if the reader of a pipe closes it early (`bq4 run … | head`).
stdout.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
  if (error.code === 'EPIPE') process.exit(0);
  stderr.write(explain(error));
  process.exit(1);
});
try {
  await main(process.argv.slice(2));
} catch (error) {
  stderr.write(error instanceof Usage ? `bq4: ${error.message}\n     see bq4 --help\n` : explain(error));
  process.exitCode = error instanceof Usage ? 2 : 1;
}
