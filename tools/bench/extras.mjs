// Measurements of `npm run bench` in addition to its visits: low-bit types, simultaneous sessions, draft tokens, and each table of
// kernels on one matrix. Each is a command that can also be run alone. Its output is written to docs/benchmarks/NAME-KIND.md, a file
// for each kind of machine.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runMake } from '../build.mjs';
import { ROOT } from '../setup/setup.mjs';
import { run, say, SetupError, step } from '../setup/shell.mjs';
import { dotInstruction, readMachine, relaxedModule } from './machine.mjs';

/**
 * @typedef {object} Extra
 * @property {string} name     name of the file
 * @property {string} title
 * @property {string} description  one sentence
 * @property {string[]} args   arguments of Node
 * @property {boolean} [table]  whether its output is a Markdown table
 */

/** @type {Extra[]} */
const EXTRAS = [
  {
    name: 'types',
    title: 'Types of weights',
    description:
      'Kernels without the rest of a step, one thread: weights per second relative to `bq4h_32` in decode and prefill. *Per byte* is this ratio times the bits per weight in the heap relative to the 4.5 bits of `bq4h_32`: 1 is the rate that the smaller number of bytes allows.',
    args: ['build/bench-kernels/types.js', '40', '12'],
    table: true,
  },
  {
    name: 'sessions',
    title: 'Simultaneous sessions',
    description:
      'SmolLM2-135M-Instruct, one thread: generations that share batches, compared with a single generation.',
    args: ['tests/bench/together.mjs'],
  },
  {
    name: 'guesses',
    title: 'Draft tokens from the text (prompt lookup)',
    description:
      'SmolLM2-135M-Instruct, one thread: decode without draft tokens, with draft tokens wherever the text repeats (`true`), and with the default (`auto`).',
    args: ['tests/bench/speculate.mjs'],
  },
];

/** Returns a name for the instruction that multiplies bytes. It is part of file names. */
const kindOf = (/** @type {import('./machine.mjs').Machine} */ machineInfo) =>
  /^vpdpbusd/.test(dotInstruction(machineInfo)) ? 'vnni' : /^sdot/.test(dotInstruction(machineInfo)) ? 'arm' : 'avx2';

/** Returns the document with the output of a measurement. @param {Extra} extra @param {string} output @param {import('./machine.mjs').Machine} machineInfo */
export function extraText({ title, description, args, table }, output, machineInfo) {
  const markdown = table ? output.trim() : `\`\`\`\n${output.trim()}\n\`\`\``;
  return `## ${title}: ${machineInfo.cpu}

${description} ${machineInfo.cores} cores, the relaxed dot is ${dotInstruction(machineInfo)}; Node ${machineInfo.node}. \`node_modules/.bin/node ${args.join(' ')}\`.

${markdown}
`;
}

/** Runs the measurements and writes their documents. @param {import('../setup/setup.mjs').Tools} tools */
export async function measureExtras(tools) {
  if (!(await runMake(tools, ['bench-kernels'])))
    throw new SetupError(
      'the benchmark of the kernels could not be built: the output of make above contains the reason',
    );
  const machineInfo = readMachine();
  for (const extra of EXTRAS) {
    const buildArgs = extra.table ? [] : ['--build', relaxedModule(machineInfo)];
    const command = { ...extra, args: [...extra.args, ...buildArgs] };
    const output = await step(`measuring ${extra.name}`, () =>
      run(/** @type {string} */ (tools.node), command.args, { cwd: ROOT }),
    );
    const file = `docs/benchmarks/${extra.name}-${kindOf(machineInfo)}.md`;
    writeFileSync(join(ROOT, file), extraText(command, output, machineInfo));
    say(`wrote ${file}`);
  }
}
