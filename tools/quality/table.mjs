#!/usr/bin/env node
// Measures the loss of quality of each compute type and method of rounding. Writes the tables of docs/log/quality.md and docs/quality.svg.
//   node tools/quality/table.mjs STORIES.bin MODEL.gguf TEXT [TEXT] [--tokens 4096] [--only stories|model|rescaled] [--rows PATTERN] [--llama]
//   node tools/quality/table.mjs --chat FOLDER [--rows PATTERN] [--llama]
// STORIES.bin: stories260K of llama2.c, in a folder with tok512.bin. It is measured on tests/golden/stories_sample.json. MODEL: a model that
// is measured on the first --tokens tokens of each TEXT in windows of 512 tokens, and again with rescaled weights (rescaled.mjs). --chat: a
// chat model as tools/train writes it. It is measured on a text that it generates, with its rows padded to a multiple of 256 (padded.mjs).
// Each model is calibrated on a text that it generates (own-text.mjs).
// Perplexity and KL divergence are relative to the same weights in f32, with activations of i16 and a KV cache of f32, so they are the loss
// of the weights alone. --llama: also measures files of llama.cpp's quantizer with an importance matrix of the same text and an embedding in
// Q8_0. --rows: measures only rows whose type and method match PATTERN. Results are stored in build/quality, so an interrupted run can be
// continued. Without arguments only the document is written. Rows of the document with the same reference stay in it.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { typeNamed } from '../../js/format/bq4/weight-types.js';
import { fromFile } from '../../js/node.js';
import { argmax, logSum } from '../../js/engine/model/probabilities.js';
import { createLlamaQuantizer } from './llama-quantize.mjs';
import { ownText } from './own-text.mjs';
import { writePadded } from './padded.mjs';
import { drawScatterPlot } from './plot.mjs';
import { readWindows } from './read-windows.mjs';
import { rescale, rescaleGguf } from './rescaled.mjs';
import {
  formatAdded,
  formatTable,
  mergeTables,
  parseTables,
  QUESTION,
  readAllDecodeRates,
  REPLY_TOKENS,
} from './rows.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const FOLDER = join(ROOT, 'build/quality');
/** Tokens of a window. */
const WINDOW = 512;
/** Rows that add more percent to the perplexity are not drawn. */
const DRAWN_PERCENT = 1000;

/**
 * Type, method, options of `bq4 quantize`, and the calibration text: false without calibration, true for the text of the table, a number
 * for a text of as many tokens.
 * @typedef {[type: string, method: string, options: string[], calibration: boolean | number]} RowSpec
 */
const GPTQ = ['--method', 'gptq'];

/** Rows of all tables. Embedding and LM head are bq8 in all of them. */
const ROWS = /** @type {RowSpec[]} */ ([
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

/** Types that llama.cpp's quantizer writes with an importance matrix of the same calibration text, by model. @type {Record<string, string[]>} */
const LLAMA_TYPES = {
  stories: [],
  model: ['Q4_0', 'IQ4_NL', 'Q4_1'],
  rescaled: ['Q4_0', 'IQ4_NL', 'Q4_1'],
  chat: ['Q2_K', 'Q3_K_S', 'Q3_K_M', 'Q4_0', 'IQ4_NL', 'Q4_K_S', 'Q4_K_M', 'Q5_K_M', 'Q6_K'],
};
const LLAMA_METHOD = 'llama.cpp, importance';
/** Types that are also written with the importance matrix of a longer text, by model. @type {Record<string, string[]>} */
const LONG_TEXT_LLAMA_TYPES = { model: ['Q4_0', 'IQ4_NL'], rescaled: ['Q4_0', 'IQ4_NL'] };
/** Tokens of the longer text. */
const LONG_TEXT_TOKENS = 16384;
const LONG_TEXT_LLAMA_METHOD = `${LLAMA_METHOD}, ${LONG_TEXT_TOKENS.toLocaleString('en')} tokens`;

/** Rows with several types of weights for a given size of the file, by model. @type {Record<string, RowSpec[]>} */
const MIXED_ROWS = {
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

/** Names of the models. */
const MODEL_KEYS = Object.keys(LLAMA_TYPES);

/** Rows of the rescaled model, which computes the same function as MODEL: those whose results differ from MODEL's. */
const RESCALED_ROWS = [
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

/** Runs the command line `bq4` and returns its output. @param {string[]} args */
function bq4(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), ...args], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

/** Returns a model's greedy reply to QUESTION in one line. @param {string} file */
function replyOf(file) {
  const options = ['--chat', '--prompt', QUESTION, '--temperature', '0', '--max-tokens', String(REPLY_TOKENS)];
  return JSON.parse(bq4('run', file, ...options, '--json'))
    .text.replace(/\s+/g, ' ')
    .trim();
}

/**
 * Prediction of the reference at a position: probabilities, their negative entropy in nats, and the likeliest token.
 * @typedef {{ probabilities: Float32Array, negativeEntropy: number, choice: number }} Prediction
 */

/** Returns the prediction of logits. Replaces them by probabilities. @param {Float32Array} logits @returns {Prediction} */
function predictionOf(logits) {
  const [choice, sum] = [argmax(logits), logSum(logits)];
  let negativeEntropy = 0;
  for (let i = 0; i < logits.length; i++) {
    const logProbability = logits[i] - sum;
    logits[i] = Math.exp(logProbability);
    negativeEntropy += logits[i] * logProbability;
  }
  return { probabilities: logits, negativeEntropy, choice };
}

/** Returns perplexity, mean KL divergence and top-1 agreement of a model. @param {string} file @param {number[][]} windows @param {Prediction[]} reference */
async function measure(file, windows, reference) {
  const sums = { surprisal: 0, kl: 0, top1: 0 };
  await readWindows(file, windows, WINDOW, (logits, nextToken, position) => {
    const { probabilities, negativeEntropy, choice } = reference[position];
    const sum = logSum(logits);
    let [meanLogit, probabilitySum] = [0, 0];
    for (let i = 0; i < logits.length; i++) {
      meanLogit += probabilities[i] * logits[i];
      probabilitySum += probabilities[i];
    }
    sums.surprisal += sum - logits[nextToken];
    sums.kl += negativeEntropy - (meanLogit - probabilitySum * sum);
    sums.top1 += Number(argmax(logits) === choice);
  });
  const n = reference.length;
  // For weights that equal those of the reference, rounding of the sums can make the divergence slightly negative.
  return { perplexity: Math.exp(sums.surprisal / n), kl: Math.max(sums.kl / n, 0), top1: sums.top1 / n };
}

/** The measurements of a model and its quantized files on one text, stored in a file. */
class TextMeasurement {
  #path;
  /** @type {Table} */
  table;
  /** @type {number[][]} */
  #windows = [];
  /** @type {Prediction[]} */
  #reference = [];

  /** @param {string} file  name of the file of results, without extension @param {string} name  title of the table @param {() => Promise<number[][]>} makeWindows */
  constructor(file, name, makeWindows) {
    this.#path = join(FOLDER, `${file}.json`);
    this.makeWindows = makeWindows;
    this.table = existsSync(this.#path)
      ? JSON.parse(readFileSync(this.#path, 'utf8'))
      : { name, reference: 0, predictions: 0, rows: [] };
  }

  /** Whether a row was not measured yet. @param {string} type @param {string} method */
  lacks = (type, method) => !this.table.rows.some((row) => row.type === type && row.method === method);

  /** Measures the reference. @param {string} referencePath  model in f32 */
  async measureReference(referencePath) {
    this.#windows = await this.makeWindows();
    let surprisal = 0;
    await readWindows(referencePath, this.#windows, WINDOW, (logits, nextToken) => {
      surprisal += logSum(logits) - logits[nextToken];
      this.#reference.push(predictionOf(logits));
    });
    this.table.reference = Math.exp(surprisal / this.#reference.length);
    this.table.predictions = this.#reference.length;
  }

  /** Measures a row if it is missing. @param {string} type @param {string} method @param {number} bits  per weight @param {string} file */
  async addRow(type, method, bits, file) {
    if (!this.lacks(type, method)) return;
    const { table } = this;
    const reply = table.reply && replyOf(file);
    const measured = await measure(file, this.#windows, this.#reference);
    table.rows.push({
      type,
      method,
      bits,
      bytes: statSync(file).size,
      ...measured,
      ...(reply !== undefined && { reply }),
    });
    console.log(`${table.name}: ${type}, ${method}: ${formatAdded(measured, table)}, KL ${measured.kl.toFixed(4)}`);
    writeFileSync(this.#path, JSON.stringify(table, null, 1));
  }
}

/** Returns the path of a calibration text that a model generates. The text is generated if it does not exist. @param {string} key @param {string} model @param {number} tokens @param {string} suffix  of the name of the file */
async function provideOwnText(key, model, tokens, suffix) {
  const path = join(FOLDER, `${key}-own${suffix}.txt`);
  if (!existsSync(path)) writeFileSync(path, await ownText(model, tokens, 1));
  return path;
}

/**
 * Measures the missing rows of a model.
 * @param {string} key  name of the model, of MODEL_KEYS
 * @param {TextMeasurement[]} measurements  one for each text
 * @param {string} model  path of the file @param {number} calibrationTokens
 */
async function measureAll(key, measurements, model, calibrationTokens) {
  const pattern = new RegExp(values.rows ?? '');
  const isMissing = (/** @type {string} */ type, /** @type {string} */ method) =>
    pattern.test(`${type} ${method}`) && measurements.some((measurement) => measurement.lacks(type, method));
  const hasLongText = key === 'model' || key === 'rescaled';
  const missingRows = [...ROWS, ...MIXED_ROWS[key]].filter(
    ([type, method, , calibration]) =>
      isMissing(type, method) &&
      (key !== 'rescaled' || RESCALED_ROWS.includes(`${type} ${method}`)) &&
      (typeof calibration === 'boolean' || hasLongText),
  );
  /** Types of llama.cpp, by the calibration text. @type {{ tokens: number, method: string, types: string[] }[]} */
  const llamaGroups = [
    { tokens: calibrationTokens, method: LLAMA_METHOD, types: LLAMA_TYPES[key] },
    { tokens: LONG_TEXT_TOKENS, method: LONG_TEXT_LLAMA_METHOD, types: LONG_TEXT_LLAMA_TYPES[key] ?? [] },
  ]
    .map((group) => ({
      ...group,
      types: values.llama ? group.types.filter((type) => isMissing(type, group.method)) : [],
    }))
    .filter(({ types }) => types.length);
  if (!missingRows.length && !llamaGroups.length) return;
  const [referencePath, outputPath] = ['f32.bq4', 'out.bq4'].map((suffix) => join(FOLDER, `${key}-${suffix}`));
  const suffixOf = (/** @type {number} */ tokens) => (tokens === calibrationTokens ? '' : `-${tokens}`);
  const provideText = (/** @type {number} */ tokens) =>
    provideOwnText(key, model.endsWith('.gguf') ? model : referencePath, tokens, suffixOf(tokens));
  if (!existsSync(referencePath) && key === 'rescaled') await rescale(join(FOLDER, 'model-f32.bq4'), referencePath);
  if (!existsSync(referencePath)) bq4('convert', model, referencePath, '--quant', 'f32');
  for (const measurement of measurements) await measurement.measureReference(referencePath);
  if (key === 'model') measurements[0].table.reply = replyOf(referencePath);
  const addRow = async (
    /** @type {string} */ type,
    /** @type {string} */ method,
    /** @type {any[]} */ tensors,
    /** @type {string} */ file,
  ) => {
    for (const measurement of measurements) await measurement.addRow(type, method, bitsPerWeight(tensors), file);
  };
  for (const [type, method, options, calibration] of missingRows) {
    const tokens = typeof calibration === 'number' ? calibration : calibrationTokens;
    const calibrationOptions = calibration
      ? ['--calibrate', await provideText(tokens), '--tokens', String(tokens)]
      : [];
    const report = bq4('quantize', referencePath, outputPath, ...options, '--json', ...calibrationOptions);
    await addRow(type, method, JSON.parse(report).tensors, outputPath);
  }
  for (const { tokens, method, types } of llamaGroups) {
    const changeWeights = async (/** @type {string} */ path) => {
      if (key === 'rescaled') await rescaleGguf(path, JSON.parse(bq4('inspect', path, '--json')));
    };
    const quantizeWithLlama = await createLlamaQuantizer(
      model,
      await provideText(tokens),
      join(FOLDER, `${key}-llama`),
      changeWeights,
      suffixOf(tokens),
    );
    const llamaPath = join(FOLDER, `${key}-llama.gguf`);
    for (const type of types) {
      await quantizeWithLlama(type, llamaPath);
      await addRow(type, method, JSON.parse(bq4('inspect', llamaPath, '--json')).tensors, llamaPath);
    }
    rmSync(llamaPath);
  }
  rmSync(outputPath, { force: true });
}

/** Names of the matrices of layers, in bq4 and GGUF files. */
const MATRIX = /^(h\.\d+\.(attn|mlp)\.\w+|blk\.\d+\.(attn_[qkv]|attn_output|ffn_(up|down|gate)))\.weight$/;

/** Returns the bits per weight of the layers' matrices. @param {any[]} tensors  of a report of `bq4 quantize`, or of `bq4 inspect` */
function bitsPerWeight(tensors) {
  let [bits, weights] = [0, 0];
  for (const { type, dims, bytes, weights: weightCount } of tensors.filter(({ name }) => MATRIX.test(name))) {
    const n = weightCount ?? dims[0] * dims[1];
    // Blocks of bq4 are counted without the padding of rows and tiles: stories260K has rows of 172 weights.
    const block = weightCount && typeNamed(type);
    bits += block ? ((8 * block.blockBytes) / block.block) * n : 8 * bytes;
    weights += n;
  }
  return bits / weights;
}

/** Upper estimate of the mean number of characters of a token. */
const CHARACTERS_PER_TOKEN = 16;

/** Returns the first tokens of a text in windows. @param {string} file  model @param {string} path  text @param {number} count */
async function windowsOfText(file, path, count) {
  const { createEngine } = await import('../../js/node.js');
  const engine = await createEngine();
  const model = await engine.load(fromFile(file), { contextTokens: 64 });
  const text = readFileSync(path, 'utf8').slice(0, CHARACTERS_PER_TOKEN * count);
  const tokens = (await model.tokenize(text)).slice(0, count);
  await engine.close();
  return Array.from({ length: Math.ceil(tokens.length / WINDOW) }, (_, i) => [
    ...tokens.slice(i * WINDOW, (i + 1) * WINDOW),
  ]);
}

/** Returns the tables that are stored in build/quality. @returns {Table[]} */
function readMeasuredTables() {
  const files = readdirSync(FOLDER).sort();
  return MODEL_KEYS.flatMap((key) => files.filter((name) => new RegExp(`^${key}(-.+)?\\.json$`).test(name))).map(
    (name) => JSON.parse(readFileSync(join(FOLDER, name), 'utf8')),
  );
}

/** Writes the tables of docs/log/quality.md. @returns {Table[]}  all its tables */
function writeTables() {
  const path = join(ROOT, 'docs/log/quality.md');
  const document = readFileSync(path, 'utf8');
  const [begin, end] = ['<!-- tables -->', '<!-- end -->'];
  const [textBefore, rest] = document.split(begin);
  const [documentTables, textAfter] = rest.split(end);
  const tables = new Map(parseTables(documentTables).map((table) => [table.name, table]));
  for (const table of readMeasuredTables()) tables.set(table.name, mergeTables(table, tables.get(table.name)));
  const allTables = [...tables.values()];
  const decodeRates = readAllDecodeRates();
  const text = allTables.map((table) => formatTable(table, decodeRates)).join('\n\n');
  writeFileSync(path, `${textBefore}${begin}\n\n${text}\n\n${end}${textAfter}`);
  return allTables;
}

/** Writes docs/quality.svg. @param {Table[]} tables */
function writePlot(tables) {
  // Of a model with several texts only the first table is drawn.
  const modelOf = (/** @type {Table} */ { name }) => name.replace(/,? on \S+$/, '');
  const drawnTables = tables.filter((table) => tables.find((other) => modelOf(other) === modelOf(table)) === table);
  const series = drawnTables.flatMap(({ name, reference, rows }) =>
    [false, true].map((isLlama) => ({
      name: isLlama ? `${name}, ${LLAMA_METHOD}` : name,
      points: rows
        .filter(({ bits, method }) => bits < 8 && method.startsWith(LLAMA_METHOD) === isLlama)
        .map((row) => ({
          x: row.bits,
          y: 100 * (row.perplexity / reference - 1),
          text: `${row.type}, ${row.method}`,
        }))
        .filter(({ y }) => y <= DRAWN_PERCENT),
    })),
  );
  const svg = drawScatterPlot(
    series.filter(({ points }) => points.length),
    'bits per weight of the matrices',
    'added to the perplexity, %',
  );
  writeFileSync(join(ROOT, 'docs/quality.svg'), svg);
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
const isSelected = (/** @type {string} */ key) => !values.only || values.only === key;
mkdirSync(FOLDER, { recursive: true });
if (stories && isSelected('stories')) {
  const sample = JSON.parse(readFileSync(join(ROOT, 'tests/golden/stories_sample.json'), 'utf8'));
  const measurement = new TextMeasurement('stories', 'stories260K on text of its own', async () => sample.windows);
  await measureAll('stories', [measurement], stories, 16000);
}
/** Returns a measurement for each TEXT. @param {string} key @param {string} name  of the model */
const measurementsOfTexts = (key, name) =>
  texts.map((path) => {
    const title = basename(path, '.txt');
    return new TextMeasurement(`${key}-${title}`, `${name} on ${title}`, () =>
      windowsOfText(model, path, Number(values.tokens)),
    );
  });
if (texts.length && isSelected('model'))
  await measureAll('model', measurementsOfTexts('model', 'SmolLM2-135M-Instruct'), model, 2048);
if (texts.length && isSelected('rescaled'))
  await measureAll('rescaled', measurementsOfTexts('rescaled', 'SmolLM2-135M-Instruct, rescaled,'), model, 2048);
if (values.chat) {
  const padded = join(FOLDER, 'chat.gguf');
  const testText = join(FOLDER, 'chat-other.txt');
  await writePadded(values.chat, padded);
  const makeWindows = async () => {
    // The calibration text has another seed.
    if (!existsSync(testText)) writeFileSync(testText, await ownText(padded, 4096, 2));
    return windowsOfText(padded, testText, 4096);
  };
  await measureAll(
    'chat',
    [new TextMeasurement('chat', 'A chat model of ours, on text of its own', makeWindows)],
    padded,
    4096,
  );
}
writePlot(writeTables());
