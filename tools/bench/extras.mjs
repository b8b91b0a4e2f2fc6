// Measurements of `npm run bench` in addition to its visits: low-bit types, simultaneous sessions, draft tokens, and each table of
// kernels on one matrix. Each is a command that can also be run alone. Its output is written to docs/benchmarks/NAME-KIND.md, a file
// for each kind of machine.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runMake } from '../build.mjs';
import { ROOT } from '../setup/setup.mjs';
import { run, say, SetupError, step } from '../setup/shell.mjs';
import { dotInstruction, machine, relaxedModule } from './machine.mjs';

/**
 * @typedef {object} Extra
 * @property {string} name     of the file
 * @property {string} title
 * @property {string} what     one sentence
 * @property {string[]} args   of Node
 * @property {boolean} [table]  it prints Markdown
 */

/** @type {Extra[]} */
const EXTRAS = [
  {
    name: 'types',
    title: 'Types of weights',
    what: 'Kernels alone, one thread: weights per second relative to `bq4h_32`, decode and prefill; *per byte*: times the bits in the heap relative to its 4.5, which is the share of what fewer bytes allow.',
    args: ['build/bench-kernels/types.js', '40', '12'],
    table: true,
  },
  {
    name: 'sessions',
    title: 'Several sessions at the same time',
    what: 'SmolLM2-135M-Instruct, one thread: generations that share passes, beside one alone.',
    args: ['tests/bench/together.mjs'],
  },
  {
    name: 'guesses',
    title: 'Guesses from the text so far',
    what: 'SmolLM2-135M-Instruct, one thread: decode without guesses, with them wherever something repeats (`true`), and by default (`auto`).',
    args: ['tests/bench/speculate.mjs'],
  },
];

/** Returns the name of the instruction that multiplies bytes, which is part of file names. */
const kindOf = (/** @type {import('./machine.mjs').Machine} */ here) =>
  /^vpdpbusd/.test(dotInstruction(here)) ? 'vnni' : /^sdot/.test(dotInstruction(here)) ? 'arm' : 'avx2';

/** @param {Extra} extra @param {string} printed @param {import('./machine.mjs').Machine} here */
export function extraText({ title, what, args, table }, printed, here) {
  const shown = table ? printed.trim() : `\`\`\`\n${printed.trim()}\n\`\`\``;
  return `## ${title}: ${here.cpu}

${what} ${here.cores} cores, the relaxed dot is ${dotInstruction(here)}; Node ${here.node}. \`node_modules/.bin/node ${args.join(' ')}\`.

${shown}
`;
}

/** @param {import('../setup/setup.mjs').Tools} tools */
export async function measureExtras(tools) {
  if (!(await runMake(tools, ['bench-kernels'])))
    throw new SetupError('the kernels alone could not be built, see above');
  const here = machine();
  for (const extra of EXTRAS) {
    const build = extra.table ? [] : ['--build', relaxedModule(here)];
    const own = { ...extra, args: [...extra.args, ...build] };
    const printed = await step(`measuring ${extra.name}`, () =>
      run(/** @type {string} */ (tools.node), own.args, { cwd: ROOT }),
    );
    const file = `docs/benchmarks/${extra.name}-${kindOf(here)}.md`;
    writeFileSync(join(ROOT, file), extraText(own, printed, here));
    say(`wrote ${file}`);
  }
}
