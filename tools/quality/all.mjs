#!/usr/bin/env node
// `npm run quality -- --stories FOLDER/stories260K.bin --text BOOK.txt [--other TEXT.txt] [--chat CHECKPOINT] [--only NAME,...]`:
// measures all tables of docs/log/quality.md, one after another, with SmolLM2 of `npm run models`. This takes hours. Each table is the output
// of a command of this folder, which is named in its section, and is written as soon as it is complete. If a run is interrupted, tables of
// weights and positions are continued by the next one. --only measures some tables. NAME: tables, chat, outliers, positions, kv, layers,
// head, chats, replies.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { NO_REAL_MODEL, realModel } from '../setup/models.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { run, say, SetupError, step } from '../setup/shell.mjs';
import { replaceSection } from './rows.mjs';

const DOCUMENT = join(ROOT, 'docs/log/quality.md');
const FOLDER = join(ROOT, 'build/quality');
/** Caches that kv.mjs compares. */
const CACHES = ['f32', 'f16', 'i8', 'i4', 'i2', 'i8/1024/4', 'i8/1024/4/h2o', 'i8/256/4', 'i8/256/4/h2o'];

/** Paths: the program Node, models and texts. @typedef {{ node: string, model: string, text: string, other?: string, stories?: string, chat?: string }} Inputs */

/** Runs a program of this project and returns its output. @param {Inputs} inputs @param {string[]} args */
const runNode = ({ node: program }, ...args) => run(program, args, { cwd: ROOT });

/** Returns one of the tables in the output of a program. @param {string} output @param {number} [index]  default: the last table */
const tableOf = (output, index = -1) =>
  output
    .split(/\n{2,}/)
    .map((part) => part.split('\n').filter((line) => line.startsWith('|')))
    .filter((lines) => lines.length > 1)
    .at(index)
    ?.join('\n') ?? '';

/** Writes files of SmolLM2 unless they exist: in f32, quantized by several methods, and rescaled. Returns a function from their names to paths. @param {Inputs} inputs @returns {Promise<(name: string) => string>} */
async function provideQuantized(inputs) {
  const pathOf = (/** @type {string} */ name) => join(FOLDER, `${name}.bq4`);
  const calibration = ['--calibrate', join(FOLDER, 'model-own.txt'), '--tokens', '2048'];
  /** @type {[string, string[]][]} */
  const commands = [
    ['F32', ['bin/bq4.js', 'convert', inputs.model, pathOf('F32'), '--quant', 'f32', '--embed', 'f32']],
    ['MINILM', ['bin/bq4.js', 'convert', /** @type {string} */ (realModel('minilm')), pathOf('MINILM')]],
    ['A', ['bin/bq4.js', 'quantize', pathOf('F32'), pathOf('A')]],
    ['H', ['bin/bq4.js', 'quantize', pathOf('F32'), pathOf('H'), '--quant', 'bq4h', ...calibration]],
    ['V1', ['bin/bq4.js', 'quantize', pathOf('F32'), pathOf('V1'), '--quant', 'bq4']],
    ['R32', ['tools/quality/rescaled.mjs', pathOf('F32'), pathOf('R32')]],
    ['RA', ['bin/bq4.js', 'quantize', pathOf('R32'), pathOf('RA')]],
    ['RC', ['bin/bq4.js', 'quantize', pathOf('R32'), pathOf('RC'), '--method', 'gptq', ...calibration]],
    ['RV1', ['bin/bq4.js', 'quantize', pathOf('R32'), pathOf('RV1'), '--quant', 'bq4']],
  ];
  for (const [name, args] of commands)
    if (!existsSync(pathOf(name))) await step(`writing ${name}`, () => runNode(inputs, ...args));
  return pathOf;
}

/** Returns the table of the twenty chats. @param {Inputs} inputs */
async function measureChats(inputs) {
  const pathOf = await provideQuantized(inputs);
  const rows = [];
  for (const [activations, kv] of [
    ['i8', 'i8'],
    ['i16', 'i8'],
    ['i16', 'f16'],
  ]) {
    const options = ['--activations', activations, '--kv', kv, '--against', pathOf('F32')];
    const report =
      (await runNode(inputs, 'tools/quality/chats.mjs', inputs.model, ...options)).trim().split('\n').at(-1) ?? '';
    const [, equal, count, equalStart, ownReplies, referenceReplies] =
      /^(\d+) of (\d+) replies are equal, (\d+) .*: these replies (\S+), replies of f32 (\S+)$/.exec(report) ?? [];
    const note = activations === 'i16' ? ' (default)' : '';
    rows.push(
      `| activations ${activations}${note}, KV ${kv} | ${equal} of ${count} | ${equalStart} of ${count} | ${ownReplies} | ${referenceReplies} |`,
    );
  }
  const head =
    '| | equal replies | equal first 20 tokens | log probability in f32 | that of replies of f32 |\n|---|---|---|---|---|';
  return `${head}\n${rows.join('\n')}`;
}

/** Functions that return the tables of the document, by name. `tables` and `chat` write theirs themselves. @type {Record<string, (inputs: Inputs) => Promise<string | void>>} */
const SECTIONS = {
  tables: async (inputs) => {
    if (!inputs.stories) return say('tables: not measured, since --stories is missing');
    const texts = [inputs.text, ...(inputs.other ? [inputs.other] : [])];
    await runNode(inputs, 'tools/quality/table.mjs', inputs.stories, inputs.model, ...texts, '--llama');
  },
  chat: async (inputs) => {
    if (!inputs.chat) return say('chat: not measured, since --chat is missing');
    await runNode(inputs, 'tools/quality/table.mjs', '--chat', inputs.chat, '--llama');
  },
  outliers: async (inputs) => {
    const models = [realModel('minilm'), inputs.stories, inputs.chat, inputs.model].filter((path) => path);
    return tableOf(await runNode(inputs, 'tools/quality/outliers.mjs', .../** @type {string[]} */ (models)));
  },
  positions: async (inputs) => tableOf(await runNode(inputs, 'tools/quality/quality.mjs', inputs.model, inputs.text)),
  kv: async (inputs) => {
    const options = ['--build', 'relaxed16', '--kv', CACHES.join(',')];
    return tableOf(await runNode(inputs, 'tools/quality/kv.mjs', inputs.model, inputs.text, ...options));
  },
  layers: async (inputs) => {
    const options = ['--build', 'relaxed16', '--plot', join(ROOT, 'docs/quality-layers.svg')];
    return tableOf(await runNode(inputs, 'tools/quality/skip.mjs', inputs.model, inputs.text, ...options), 0);
  },
  head: async (inputs) => {
    const options = ['--build', 'relaxed16', '--tokens', '512', '--shares', '0.1,0.3,0.5'];
    return tableOf(await runNode(inputs, 'tools/quality/head.mjs', inputs.model, inputs.text, ...options));
  },
  chats: measureChats,
  replies: async (inputs) => {
    const pathOf = await provideQuantized(inputs);
    const files = [
      ['`bq4a`, which `quantize` makes by default', 'A'],
      ['`bq4h`, calibrated on 2,048 tokens of its own', 'H'],
      ['`bq4`, largest weight (v1)', 'V1'],
      ['rescaled: `bq4a`, by default', 'RA'],
      ['rescaled: `bq4a`, calibrated on 2,048 tokens of its own, `--method gptq`', 'RC'],
      ['rescaled: `bq4`, largest weight (v1)', 'RV1'],
    ].map(([name, file]) => `${name}=${pathOf(file)}`);
    return tableOf(await runNode(inputs, 'tools/quality/replies.mjs', pathOf('F32'), pathOf('MINILM'), ...files));
  },
};

await command(async () => {
  const { values } = parseArgs({
    options: {
      stories: { type: 'string' },
      text: { type: 'string' },
      other: { type: 'string' },
      chat: { type: 'string' },
      only: { type: 'string' },
    },
  });
  const { stories, text, other, chat } = values;
  const tools = await setUp({ tests: true });
  const model = realModel('smollm2');
  if (!model) throw new SetupError(NO_REAL_MODEL);
  if (!text) throw new SetupError('expected --text with the path of a book, found none');
  mkdirSync(FOLDER, { recursive: true });
  const inputs = { node: /** @type {string} */ (tools.node), model, text, other, stories, chat };
  for (const name of values.only?.split(',') ?? Object.keys(SECTIONS)) {
    if (!Object.hasOwn(SECTIONS, name))
      throw new SetupError(`--only: expected names of ${Object.keys(SECTIONS).join(', ')}; found "${name}"`);
    const table = await step(name, () => SECTIONS[name](inputs));
    if (table) writeFileSync(DOCUMENT, replaceSection(readFileSync(DOCUMENT, 'utf8'), name, table));
    say(`${name}: written to ${basename(DOCUMENT)}`);
  }
});
