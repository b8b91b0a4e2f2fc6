#!/usr/bin/env node
// `npm run quality -- --stories FOLDER/stories260K.bin --text BOOK.txt [--other TEXT.txt] [--chat CHECKPOINT] [--only NAME,...]`:
// measures all tables of docs/log/quality.md, one after another, with SmolLM2 of `npm run models`. This takes hours. Each table is the output
// of a command of this folder, which is given in its section, and is written as soon as it is complete. If a run is interrupted, tables of
// weights and positions are continued by the next one. --only measures some tables. NAME: tables, chat, outliers, positions, kv, layers,
// head, chats, replies.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { NO_REAL_MODEL, realModel } from '../setup/models.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { run, say, SetupError, step } from '../setup/shell.mjs';
import { between } from './rows.mjs';

const DOCUMENT = join(ROOT, 'docs/log/quality.md');
const FOLDER = join(ROOT, 'build/quality');
/** As kv.mjs takes them. */
const CACHES = ['f32', 'f16', 'i8', 'i4', 'i2', 'i8/1024/4', 'i8/1024/4/h2o', 'i8/256/4', 'i8/256/4/h2o'];

/** @typedef {{ node: string, model: string, text: string, other?: string, stories?: string, chat?: string }} Given */

/** Output of a program of this project. @param {Given} given @param {string[]} args */
const node = ({ node: program }, ...args) => run(program, args, { cwd: ROOT });

/** Of the tables that a program printed one, the last by default. @param {string} printed @param {number} [at] */
const tableOf = (printed, at = -1) =>
  printed
    .split(/\n{2,}/)
    .map((part) => part.split('\n').filter((line) => line.startsWith('|')))
    .filter((lines) => lines.length > 1)
    .at(at)
    ?.join('\n') ?? '';

/** Made of SmolLM2 once: as f32, rounded in several ways, and rescaled. @param {Given} given @returns {Promise<(name: string) => string>} */
async function provideRounded(given) {
  const at = (/** @type {string} */ name) => join(FOLDER, `${name}.bq4`);
  const own = ['--calibrate', join(FOLDER, 'model-own.txt'), '--tokens', '2048'];
  /** @type {[string, string[]][]} */
  const items = [
    ['F32', ['bin/bq4.js', 'convert', given.model, at('F32'), '--quant', 'f32', '--embed', 'f32']],
    ['MINILM', ['bin/bq4.js', 'convert', /** @type {string} */ (realModel('minilm')), at('MINILM')]],
    ['A', ['bin/bq4.js', 'quantize', at('F32'), at('A')]],
    ['H', ['bin/bq4.js', 'quantize', at('F32'), at('H'), '--quant', 'bq4h', ...own]],
    ['V1', ['bin/bq4.js', 'quantize', at('F32'), at('V1'), '--quant', 'bq4']],
    ['R32', ['tools/quality/rescaled.mjs', at('F32'), at('R32')]],
    ['RA', ['bin/bq4.js', 'quantize', at('R32'), at('RA')]],
    ['RC', ['bin/bq4.js', 'quantize', at('R32'), at('RC'), '--method', 'gptq', ...own]],
    ['RV1', ['bin/bq4.js', 'quantize', at('R32'), at('RV1'), '--quant', 'bq4']],
  ];
  for (const [name, args] of items) if (!existsSync(at(name))) await step(`making ${name}`, () => node(given, ...args));
  return at;
}

/** Rows of the twenty chats. @param {Given} given */
async function chats(given) {
  const at = await provideRounded(given);
  const rows = [];
  for (const [activations, kv] of [
    ['i8', 'i8'],
    ['i16', 'i8'],
    ['i16', 'f16'],
  ]) {
    const how = ['--activations', activations, '--kv', kv, '--against', at('F32')];
    const report = (await node(given, 'tools/quality/chats.mjs', given.model, ...how)).trim().split('\n').at(-1) ?? '';
    const [, whole, of, first, ours, own] =
      /^(\d+) of (\d+) replies are equal, (\d+) for .* finds ours (\S+), its own (\S+)$/.exec(report) ?? [];
    const usual = activations === 'i16' ? ' (default)' : '';
    rows.push(
      `| activations ${activations}${usual}, KV ${kv} | ${whole} of ${of} | ${first} of ${of} | ${ours} | ${own} |`,
    );
  }
  const head =
    '| | equal replies | equal for 20 tokens or to an end | f32 finds ours | f32 finds its own |\n|---|---|---|---|---|';
  return `${head}\n${rows.join('\n')}`;
}

/** Each a table of the document, between marks of its name; `tables` and `chat` write theirs themselves. @type {Record<string, (given: Given) => Promise<string | void>>} */
const SECTIONS = {
  tables: async (given) => {
    if (!given.stories) return say('tables: left out, no --stories');
    const texts = [given.text, ...(given.other ? [given.other] : [])];
    await node(given, 'tools/quality/table.mjs', given.stories, given.model, ...texts, '--llama');
  },
  chat: async (given) => {
    if (!given.chat) return say('chat: left out, no --chat');
    await node(given, 'tools/quality/table.mjs', '--chat', given.chat, '--llama');
  },
  outliers: async (given) => {
    const models = [realModel('minilm'), given.stories, given.chat, given.model].filter((path) => path);
    return tableOf(await node(given, 'tools/quality/outliers.mjs', .../** @type {string[]} */ (models)));
  },
  positions: async (given) => tableOf(await node(given, 'tools/quality/quality.mjs', given.model, given.text)),
  kv: async (given) => {
    const how = ['--build', 'relaxed16', '--kv', CACHES.join(',')];
    return tableOf(await node(given, 'tools/quality/kv.mjs', given.model, given.text, ...how));
  },
  layers: async (given) => {
    const how = ['--build', 'relaxed16', '--plot', join(ROOT, 'docs/quality-layers.svg')];
    return tableOf(await node(given, 'tools/quality/skip.mjs', given.model, given.text, ...how), 0);
  },
  head: async (given) => {
    const how = ['--build', 'relaxed16', '--tokens', '512', '--shares', '0.1,0.3,0.5'];
    return tableOf(await node(given, 'tools/quality/head.mjs', given.model, given.text, ...how));
  },
  chats,
  replies: async (given) => {
    const at = await provideRounded(given);
    const files = [
      ['`bq4a`, which `quantize` makes by default', 'A'],
      ['`bq4h`, calibrated on 2,048 tokens of its own', 'H'],
      ['`bq4`, largest weight (v1)', 'V1'],
      ['rescaled: `bq4a`, by default', 'RA'],
      ['rescaled: `bq4a`, calibrated on 2,048 tokens of its own, `--method gptq`', 'RC'],
      ['rescaled: `bq4`, largest weight (v1)', 'RV1'],
    ].map(([name, file]) => `${name}=${at(file)}`);
    return tableOf(await node(given, 'tools/quality/replies.mjs', at('F32'), at('MINILM'), ...files));
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
  if (!text) throw new SetupError('a book is read: --text BOOK.txt');
  mkdirSync(FOLDER, { recursive: true });
  const given = { node: /** @type {string} */ (tools.node), model, text, other, stories, chat };
  for (const name of values.only?.split(',') ?? Object.keys(SECTIONS)) {
    if (!Object.hasOwn(SECTIONS, name))
      throw new SetupError(`there is no "${name}", but ${Object.keys(SECTIONS).join(', ')}`);
    const table = await step(name, () => SECTIONS[name](given));
    if (table) writeFileSync(DOCUMENT, between(readFileSync(DOCUMENT, 'utf8'), name, table));
    say(`${name}: ${basename(DOCUMENT)} has it`);
  }
});
