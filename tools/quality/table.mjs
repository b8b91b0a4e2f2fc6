#!/usr/bin/env node
// What each type and way of rounding costs: docs/log/quality.md's table and docs/quality.svg, by one command.
//   node tools/quality/table.mjs STORIES.bin MODEL.gguf TEXT [TEXT] [--tokens 4096] [--only stories|model|rescaled] [--rows PATTERN] [--llama]
//   node tools/quality/table.mjs --chat FOLDER [--rows PATTERN] [--llama]
// STORIES.bin: stories260K of llama2.c with tok512.bin beside it, measured on tests/golden/stories_sample.json. MODEL: measured on the
// first tokens of each TEXT, in windows of 512, and once more rescaled (rescaled.mjs). --chat: a chat model as tools/train makes it, on a text of its own, with
// rows of a multiple of 256 (padded.mjs). Each is calibrated on a text of its own (own-text.mjs).
// Perplexity and KL divergence against the same weights as f32, activations of i16, KV f32: what weights alone cost. --llama: and what llama.cpp's
// quantizer makes of MODEL with an importance matrix of the same text, embedding Q8_0. --rows: those whose type and way match. Figures are kept in
// build/quality, so that it goes on where it was stopped; without files it only writes the document. Rows that the document has of the same
// reference stay in it.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { typeNamed } from '../../js/format/bq4/weight-types.js';
import { fromFile } from '../../js/node.js';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { llamaQuantizer } from './llama-quantize.mjs';
import { ownText } from './own-text.mjs';
import { writePadded } from './padded.mjs';
import { scatter } from './plot.mjs';
import { read } from './read.mjs';
import { rescale, rescaleGguf } from './rescaled.mjs';
import { added, joined, markdown, QUESTION, REPLY, speedsOf, tablesIn } from './rows.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const FOLDER = join(ROOT, 'build/quality');
const WINDOW = 512;
/** What adds more percent than that is no point of the plot. */
const DRAWN = 1000;

/** Name, way, options of `bq4 quantize`, and the calibration text: none, that of the table, or one of so many tokens. @typedef {[string, string, string[], boolean | number]} Asked */
const GPTQ = ['--method', 'gptq'];

/** What is compared. Embedding and head are bq8 in all. */
const ROWS = /** @type {Asked[]} */ ([
  ['bq4', 'largest weight (v1)', ['--quant', 'bq4'], false],
  ['bq4h', 'in order', ['--quant', 'bq4h'], true],
  ['bq4h', 'in order, smoothed', ['--quant', 'bq4h', '--smooth', '0.25'], true],
  ['bq4h', 'in order, 16,384 tokens', ['--quant', 'bq4h'], 16384],
  ['bq4h', 'in order, smoothed, 16,384 tokens', ['--quant', 'bq4h', '--smooth', '0.25'], 16384],
  ['bq4a', 'in order', ['--quant', 'bq4a'], true],
  ['bq4a', 'in order, 16,384 tokens', ['--quant', 'bq4a'], 16384],
  ['bq3a', 'in order', ['--quant', 'bq3a'], true],
  ['bq3a', 'in order, 16,384 tokens', ['--quant', 'bq3a'], 16384],
  ['bq2a', 'in order', ['--quant', 'bq2a'], true],
  ['bqt', 'in order', ['--quant', 'bqt'], true],
  ['bq4h', 'compensated', [...GPTQ, '--quant', 'bq4h'], true],
  ['bq4h', 'compensated, smoothed', [...GPTQ, '--quant', 'bq4h', '--smooth', '0.25'], true],
  ['bq4h', 'largest weight', ['--quant', 'bq4h'], false],
  ['bq8', 'one by one', ['--quant', 'bq8'], false],
  ['bq4a', 'searched', ['--quant', 'bq4a'], false],
  ['bq4h', 'searched by importance', ['--quant', 'bq4h', '--method', 'search'], true],
  ['bq4a', 'searched by importance', ['--quant', 'bq4a', '--method', 'search'], true],
  ['bq4a', 'compensated', [...GPTQ, '--quant', 'bq4a'], true],
  ['bq4_64', 'compensated', [...GPTQ, '--quant', 'bq4_64'], true],
  ['bq3a', 'searched', ['--quant', 'bq3a'], false],
  ['bq3a', 'compensated', [...GPTQ, '--quant', 'bq3a'], true],
  ['bq2a', 'searched', ['--quant', 'bq2a'], false],
  ['bq2a', 'compensated', [...GPTQ, '--quant', 'bq2a'], true],
  ['bq2', 'searched', ['--quant', 'bq2'], false],
  ['bqt', 'searched', ['--quant', 'bqt'], false],
  ['bqt', 'compensated', [...GPTQ, '--quant', 'bqt'], true],
]);

/** Made by llama.cpp's quantizer with its importance matrix, on the same calibration text. @type {Record<string, string[]>} */
const LLAMA = {
  stories: [],
  model: ['Q4_0', 'IQ4_NL', 'Q4_1'],
  rescaled: ['Q4_0', 'IQ4_NL', 'Q4_1'],
  chat: ['Q2_K', 'Q3_K_S', 'Q3_K_M', 'Q4_0', 'IQ4_NL', 'Q4_K_S', 'Q4_K_M', 'Q5_K_M', 'Q6_K'],
};
const THEIRS = 'llama.cpp, importance';
/** Of those the ones that are made with the importance of a longer text, too, of so many tokens. @type {Record<string, string[]>} */
const LONGER = { model: ['Q4_0', 'IQ4_NL'], rescaled: ['Q4_0', 'IQ4_NL'] };
const LONG = 16384;
const THEIRS_LONG = `${THEIRS}, ${LONG.toLocaleString('en')} tokens`;

/** Sizes between those of one type for all. @type {Record<string, typeof ROWS>} */
const MIXED = {
  stories: [
    ['mixed', 'in order', ['--target-size', '172000'], true],
    ['mixed', 'in order, larger', ['--target-size', '185000'], true],
    ['mixed', 'in order, 4.0 bits', ['--target-size', '149500'], true],
  ],
  model: [],
  rescaled: [['mixed', 'in order, 84.6 MB', ['--target-size', '84600000'], true]],
  chat: [
    ['mixed', 'in order, 2.8 MB', ['--target-size', '2800000'], true],
    ['mixed', 'in order, 3.2 MB', ['--target-size', '3200000'], true],
    ['mixed', 'in order, 3.7 MB', ['--target-size', '3700000'], true],
  ],
};

const KEYS = Object.keys(LLAMA);

/** Of a model whose function is another's: what that one's table doesn't say. */
const RESCALED = [
  'bq4 largest weight (v1)',
  'bq4h compensated',
  'bq4h in order',
  'bq4h in order, 16,384 tokens',
  'bq4h in order, smoothed, 16,384 tokens',
  'bq4a searched',
  'bq4a compensated',
  'bq4a in order',
  'bq4a in order, 16,384 tokens',
  'mixed in order, 84.6 MB',
];

/** @import { Row, Table } from './rows.mjs' */

/** @param {string[]} args */
function bq4(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), ...args], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

/** What a model says to QUESTION, greedy, in one line. @param {string} file */
function replyOf(file) {
  const drawn = ['--chat', '--prompt', QUESTION, '--temperature', '0', '--max-tokens', String(REPLY)];
  return JSON.parse(bq4('run', file, ...drawn, '--json'))
    .text.replace(/\s+/g, ' ')
    .trim();
}

/** What the reference predicts at a position: probabilities, the sum of each times its logarithm, and the likeliest token. @typedef {{ chances: Float32Array, certainty: number, first: number }} Prediction */

/** @param {Float32Array} logits  which become probabilities @returns {Prediction} */
function predictionOf(logits) {
  const [first, sum] = [argmax(logits), logSum(logits)];
  let certainty = 0;
  for (let i = 0; i < logits.length; i++) {
    const p = logits[i] - sum;
    logits[i] = Math.exp(p);
    certainty += logits[i] * p;
  }
  return { chances: logits, certainty, first };
}

/** @param {string} file @param {number[][]} windows @param {Prediction[]} reference */
async function measure(file, windows, reference) {
  const sums = { nll: 0, kl: 0, same: 0 };
  await read(file, windows, WINDOW, (logits, next, at) => {
    const { chances, certainty, first } = reference[at];
    const sum = logSum(logits);
    let [mean, all] = [0, 0];
    for (let i = 0; i < logits.length; i++) {
      mean += chances[i] * logits[i];
      all += chances[i];
    }
    sums.nll += sum - logits[next];
    sums.kl += certainty - (mean - all * sum);
    sums.same += Number(argmax(logits) === first);
  });
  const n = reference.length;
  // What is the reference's to the bit differs by how sums are rounded.
  return { perplexity: Math.exp(sums.nll / n), kl: Math.max(sums.kl / n, 0), same: sums.same / n };
}

/** A text that models are measured on, and what is known of it. */
class Measured {
  #kept;
  /** @type {Table} */
  table;
  /** @type {number[][]} */
  #windows = [];
  /** @type {Prediction[]} */
  #reference = [];

  /** @param {string} file  of its figures @param {string} name @param {() => Promise<number[][]>} windowsOf */
  constructor(file, name, windowsOf) {
    this.#kept = join(FOLDER, `${file}.json`);
    this.windowsOf = windowsOf;
    this.table = existsSync(this.#kept)
      ? JSON.parse(readFileSync(this.#kept, 'utf8'))
      : { name, reference: 0, predicted: 0, rows: [] };
  }

  /** @param {string} type @param {string} how */
  lacks = (type, how) => !this.table.rows.some((row) => row.type === type && row.how === how);

  /** What all others are compared with. @param {string} floats */
  async refer(floats) {
    this.#windows = await this.windowsOf();
    let nll = 0;
    await read(floats, this.#windows, WINDOW, (logits, next) => {
      nll += logSum(logits) - logits[next];
      this.#reference.push(predictionOf(logits));
    });
    this.table.reference = Math.exp(nll / this.#reference.length);
    this.table.predicted = this.#reference.length;
  }

  /** @param {string} type @param {string} how @param {number} bits @param {string} file */
  async add(type, how, bits, file) {
    if (!this.lacks(type, how)) return;
    const { table } = this;
    const says = table.says && replyOf(file);
    const found = await measure(file, this.#windows, this.#reference);
    table.rows.push({ type, how, bits, bytes: statSync(file).size, ...found, ...(says !== undefined && { says }) });
    console.log(`${table.name}: ${type}, ${how}: ${added(found, table)}, KL ${found.kl.toFixed(4)}`);
    writeFileSync(this.#kept, JSON.stringify(table, null, 1));
  }
}

/** @param {string} key @param {Measured[]} on @param {string} model @param {number} tokens  of the calibration text */
async function measureAll(key, on, model, tokens) {
  const asked = new RegExp(values.rows ?? '');
  const lacks = (/** @type {string} */ type, /** @type {string} */ how) =>
    asked.test(`${type} ${how}`) && on.some((each) => each.lacks(type, how));
  const missing = [...ROWS, ...MIXED[key]].filter(
    ([type, how, , long]) =>
      lacks(type, how) &&
      (key !== 'rescaled' || RESCALED.includes(`${type} ${how}`)) &&
      (typeof long === 'boolean' || key === 'model' || key === 'rescaled'),
  );
  /** Types by the text that their importance is of. @type {[number, string, string[]][]} */
  const theirs = [
    [tokens, THEIRS, LLAMA[key]],
    [LONG, THEIRS_LONG, LONGER[key] ?? []],
  ];
  const wanted = theirs.map(
    ([count, how, types]) =>
      /** @type {const} */ ([count, how, values.llama ? types.filter((type) => lacks(type, how)) : []]),
  );
  if (!missing.length && wanted.every(([, , types]) => !types.length)) return;
  const [floats, out] = ['f32.bq4', 'out.bq4'].map((end) => join(FOLDER, `${key}-${end}`));
  /** A text of its own. @param {number} count  tokens */
  const textOf = async (count) => {
    const path = join(FOLDER, `${key}-own${count === tokens ? '' : `-${count}`}.txt`);
    if (!existsSync(path)) writeFileSync(path, await ownText(model.endsWith('.gguf') ? model : floats, count, 1));
    return path;
  };
  if (!existsSync(floats) && key === 'rescaled') await rescale(join(FOLDER, 'model-f32.bq4'), floats);
  if (!existsSync(floats)) bq4('convert', model, floats, '--quant', 'f32');
  for (const each of on) await each.refer(floats);
  if (key === 'model') on[0].table.says = replyOf(floats);
  const add = async (
    /** @type {string} */ type,
    /** @type {string} */ how,
    /** @type {number} */ bits,
    /** @type {string} */ file,
  ) => {
    for (const each of on) await each.add(type, how, bits, file);
  };
  for (const [type, how, args, calibrated] of missing) {
    const count = typeof calibrated === 'number' ? calibrated : tokens;
    const report = JSON.parse(
      bq4(
        'quantize',
        floats,
        out,
        ...args,
        '--json',
        ...(calibrated ? ['--calibrate', await textOf(count), '--tokens', String(count)] : []),
      ),
    );
    await add(type, how, bitsOf(report.tensors), out);
  }
  for (const [count, how, types] of wanted) {
    if (!types.length) continue;
    const end = count === tokens ? '' : `-${count}`;
    const change = async (/** @type {string} */ path) => {
      if (key === 'rescaled') await rescaleGguf(path, JSON.parse(bq4('inspect', path, '--json')));
    };
    const quantize = await llamaQuantizer(model, await textOf(count), join(FOLDER, `${key}-llama`), change, end);
    const output = join(FOLDER, `${key}-llama.gguf`);
    for (const type of types) {
      await quantize(type, output);
      await add(type, how, bitsOf(JSON.parse(bq4('inspect', output, '--json')).tensors), output);
    }
    rmSync(output);
  }
  rmSync(out, { force: true });
}

const MATRIX = /^(h\.\d+\.(attn|mlp)\.\w+|blk\.\d+\.(attn_[qkv]|attn_output|ffn_(up|down|gate)))\.weight$/;

/** Bits per weight of the layers' matrices, of a report or what `inspect` says. @param {any[]} tensors */
function bitsOf(tensors) {
  let [bits, weights] = [0, 0];
  for (const { type, dims, bytes, weights: count } of tensors.filter((each) => MATRIX.test(each.name))) {
    const n = count ?? dims[0] * dims[1];
    // Of our own blocks, without what fills up rows and tiles: stories260K has rows of 172.
    const block = count && typeNamed(type);
    bits += block ? ((8 * block.blockBytes) / block.block) * n : 8 * bytes;
    weights += n;
  }
  return bits / weights;
}

/** Characters that a token has, at most, in all of a text. */
const CHARACTERS = 16;

/** @param {string} file @param {string} path @param {number} count */
async function windowsOfText(file, path, count) {
  const { createEngine } = await import('../../js/node.js');
  const engine = await createEngine();
  const model = await engine.load(fromFile(file), { contextTokens: 64 });
  const text = readFileSync(path, 'utf8').slice(0, CHARACTERS * count);
  const ids = (await model.tokenize(text)).slice(0, count);
  await engine.close();
  return Array.from({ length: Math.ceil(ids.length / WINDOW) }, (_, i) => [...ids.slice(i * WINDOW, (i + 1) * WINDOW)]);
}

function writeDocument() {
  const files = readdirSync(FOLDER).sort();
  const found = KEYS.flatMap((key) => files.filter((name) => new RegExp(`^${key}(-.+)?\\.json$`).test(name))).map(
    (name) => /** @type {Table} */ (JSON.parse(readFileSync(join(FOLDER, name), 'utf8'))),
  );
  const path = join(ROOT, 'docs/log/quality.md');
  const document = readFileSync(path, 'utf8');
  const [begin, end] = ['<!-- tables -->', '<!-- end -->'];
  const [before, rest] = document.split(begin);
  const [written, after] = rest.split(end);
  const tables = new Map(tablesIn(written).map((table) => [table.name, table]));
  for (const table of found) tables.set(table.name, joined(table, tables.get(table.name)));
  const all = [...tables.values()];
  const speeds = speedsOf();
  writeFileSync(
    path,
    `${before}${begin}\n\n${all.map((table) => markdown(table, speeds)).join('\n\n')}\n\n${end}${after}`,
  );
  // Of a model that is measured on several texts the first is drawn.
  const modelOf = (/** @type {Table} */ { name }) => name.replace(/,? on \S+$/, '');
  const drawn = all.filter((table) => all.find((other) => modelOf(other) === modelOf(table)) === table);
  const series = drawn.flatMap(({ name, reference, rows }) =>
    [name, `${name}, ${THEIRS}`].map((line, i) => ({
      name: line,
      points: rows
        .filter(({ bits, how }) => bits < 8 && how.startsWith(THEIRS) === Boolean(i))
        .map((row) => ({
          x: row.bits,
          y: 100 * (row.perplexity / reference - 1),
          text: `${row.type}, ${row.how}`,
        }))
        .filter(({ y }) => y <= DRAWN),
    })),
  );
  writeFileSync(
    join(ROOT, 'docs/quality.svg'),
    scatter(
      series.filter(({ points }) => points.length),
      'bits per weight of the matrices',
      'added to the perplexity, %',
    ),
  );
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tokens: { type: 'string', default: '4096' },
    only: { type: 'string' },
    rows: { type: 'string' },
    chat: { type: 'string' },
    llama: { type: 'boolean' },
  },
});
const [stories, model, ...texts] = positionals;
const only = (/** @type {string} */ key) => !values.only || values.only === key;
mkdirSync(FOLDER, { recursive: true });
if (stories && only('stories')) {
  const sample = JSON.parse(readFileSync(join(ROOT, 'tests/golden/stories_sample.json'), 'utf8'));
  const on = new Measured('stories', 'stories260K on text of its own', async () => sample.windows);
  await measureAll('stories', [on], stories, 16000);
}
/** Names of files of figures end with what tells texts apart. @param {string} key @param {string} name */
const measuredOn = (key, name) =>
  texts.map((path) => {
    const title = basename(path, '.txt');
    return new Measured(`${key}-${title}`, `${name} on ${title}`, () =>
      windowsOfText(model, path, Number(values.tokens)),
    );
  });
if (texts.length && only('model')) await measureAll('model', measuredOn('model', 'SmolLM2-135M-Instruct'), model, 2048);
if (texts.length && only('rescaled'))
  await measureAll('rescaled', measuredOn('rescaled', 'SmolLM2-135M-Instruct, rescaled,'), model, 2048);
if (values.chat) {
  const padded = join(FOLDER, 'chat.gguf');
  const other = join(FOLDER, 'chat-other.txt');
  await writePadded(values.chat, padded);
  const windowsOf = async () => {
    // What is predicted is another text than the one that is calibrated on.
    if (!existsSync(other)) writeFileSync(other, await ownText(padded, 4096, 2));
    return windowsOfText(padded, other, 4096);
  };
  await measureAll('chat', [new Measured('chat', 'A chat model of ours, on text of its own', windowsOf)], padded, 4096);
}
writeDocument();
