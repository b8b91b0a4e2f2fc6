#!/usr/bin/env node
// Measures models with the shapes of published models and random weights in Chromium: the planned and the used heap, the duration of
// a load from a local server, the time to the first token, and rates. Each shape with recurrent layers is measured in alternation with
// a LLaMA of the same number of weights, vocabulary, layers and hidden size.
//
//   node_modules/.bin/node tools/bench/shapes.mjs [--shapes lfm2-350m,qwen35-800m] [--rounds 5] [--threads 1] [--prompt 512] [--tokens 64]
//
// Writes a table to docs/benchmarks/shapes-*.md if no shape is selected. tools/bench/layer-table.mjs measures Gemma 4 E2B.
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { tensorTable } from '../../js/format/bq4/names.js';
import { SHAPES } from '../make_random.mjs';
import { command, ROOT } from '../setup/setup.mjs';
import { SetupError } from '../setup/shell.mjs';
import { readMachine } from './machine.mjs';
import { formatMegabytes as mb, openPagingPage, provideRandomModel } from './paging-kit.mjs';
import { formatNumber, median } from './stats.mjs';

const FOLDER = 'build/bench/models';
const CONTEXT = 2048;
/** Positions of a block of the KV cache. */
const BLOCK = 256;
/** Texts per call, and tokens per text, of the embedding model. */
const [TEXTS, TEXT_TOKENS] = [16, 64];
const RECURRENT = ['lfm2-350m', 'qwen35-800m', 'granite-h-350m'];
const EMBEDDERS = ['embedding-gemma'];

/** Returns the number of weights of a configuration's layers. @param {Record<string, any>} config */
const layerWeights = (config) =>
  tensorTable(config)
    .filter(({ embedding, required }) => required && !embedding)
    .reduce((sum, { dims }) => sum + dims.reduce((product, size) => product * size, 1), 0);

/** Returns the bytes of the states of a configuration's recurrent layers (c/session/recurrent_layers.h). @param {Record<string, any>} config */
function stateBytes({
  conv_layers,
  conv_size,
  hidden,
  state_key_heads: keyHeads,
  state_key_dim: keyDim,
  state_value_heads: heads = 0,
  state_value_dim: dim,
}) {
  const floats = heads
    ? (conv_size - 1) * (2 * keyHeads * keyDim + heads * dim) + heads * keyDim * dim
    : (conv_size - 1) * hidden;
  return 4 * floats * conv_layers.length;
}

/** Returns a LLaMA whose layers have the same number of weights: its MLP has the width that this needs. @param {Record<string, any>} config */
function plainShape({ layers, hidden, vocab, context, ...config }) {
  const heads = hidden / 64;
  const plain = { ...SHAPES['135m'], layers, hidden, vocab, context, heads, kv_heads: heads / 2, ffn: 32 };
  const missing = layerWeights({ layers, hidden, vocab, context, ...config }) - layerWeights(plain);
  return { ...plain, ffn: 32 + 32 * Math.round(missing / (layers * 3 * hidden * 32)) };
}

/** Returns the configuration of a shape, or of its LLaMA: `NAME-plain`. @param {string} name */
function configNamed(name) {
  const shape = name.replace(/-plain$/, '');
  return shape === name ? SHAPES[name] : plainShape(SHAPES[shape]);
}

/**
 * @typedef {{ name: string, plannedBytes: number, sessionBytes: number, kvBytes: number, loadMs: number, heapBytes: number, rates: Record<string, number[]> }} Row
 * @typedef {{ rounds: number, threads: number, prompt: number, tokens: number }} Options
 */

/**
 * Measures models in alternation.
 * @param {string[]} names  of the first model's shape, and of its LLaMA
 * @param {{ url: string, callPage: (name: string, options?: any) => Promise<any> }} page
 * @param {Options} options @returns {Promise<Row[]>}
 */
async function measure(names, { url, callPage }, { rounds, threads, prompt, tokens }) {
  /** @type {Row[]} */
  const rows = [];
  for (const name of names) {
    const path = `${FOLDER}/shape-${name}.bq4`;
    await provideRandomModel(path, configNamed(name), true);
    const opened = await callPage('open', { url: url + path, threads, context: CONTEXT });
    rows.push({ name, ...opened, heapBytes: 0, rates: {} });
  }
  for (let round = -1; round < rounds; round++)
    for (const [i, row] of rows.entries()) {
      const { heapBytes, ...rates } = EMBEDDERS.includes(row.name)
        ? await callPage('embed', { i, texts: TEXTS, tokens: TEXT_TOKENS })
        : await callPage('generate', { i, prompt, tokens, block: BLOCK });
      row.heapBytes = heapBytes;
      if (round < 0) continue; // warm-up
      for (const [key, value] of Object.entries(rates)) (row.rates[key] ??= []).push(value);
    }
  await callPage('closeModels');
  return rows;
}

/** Returns the cells of a row; rates have their ratio to those of the LLaMA. @param {Row} row @param {Row} [plain] */
function cellsOf({ name, plannedBytes, loadMs, heapBytes, rates }, plain) {
  const rate = (/** @type {string} */ key) => {
    if (!rates[key]) return '–';
    const ratio = plain ? `; ${median(rates[key].map((value, i) => value / plain.rates[key][i])).toFixed(2)}` : '';
    return `${formatNumber(median(rates[key]))}${ratio}`;
  };
  const firstToken = rates.firstTokenMs ? `${(median(rates.firstTokenMs) / 1e3).toFixed(2)} s` : '–';
  const embedded = rates.texts ? formatNumber(median(rates.texts)) : '–';
  const weights = formatNumber(layerWeights(configNamed(name)) / 1e6);
  return [
    name,
    weights,
    `${mb(heapBytes)} of ${mb(plannedBytes)}`,
    `${(loadMs / 1e3).toFixed(2)} s`,
    firstToken,
    rate('prefill'),
    rate('decode'),
    embedded,
  ];
}

/** Returns the cells of a row of the table of states. @param {Row} row */
function stateCells({ name, sessionBytes, kvBytes, rates }) {
  const times = ['byOneMs', 'intoBlockMs'].map((key) => `${formatNumber(median(rates[key]))} ms`);
  return [
    name,
    `${formatNumber(stateBytes(SHAPES[name]) / 1e3)} KB`,
    `${mb(sessionBytes)} MB`,
    `${mb(kvBytes)} MB`,
    ...times,
  ];
}

await command(async () => {
  const { values } = parseArgs({
    options: {
      shapes: { type: 'string' },
      rounds: { type: 'string', default: '5' },
      threads: { type: 'string', default: '1' },
      prompt: { type: 'string', default: '512' },
      tokens: { type: 'string', default: '64' },
    },
  });
  const [rounds, threads, prompt, tokens] = [values.rounds, values.threads, values.prompt, values.tokens].map(Number);
  if (!(prompt >= BLOCK)) throw new SetupError(`--prompt: expected at least ${BLOCK} tokens, found "${values.prompt}"`);
  const names = values.shapes?.split(',') ?? [...RECURRENT, ...EMBEDDERS];
  const unknown = names.find((name) => ![...RECURRENT, ...EMBEDDERS].includes(name));
  if (unknown)
    throw new SetupError(`--shapes: expected ${[...RECURRENT, ...EMBEDDERS].join(', ')}, found "${unknown}"`);
  const { browser, site, callPage, close } = await openPagingPage([FOLDER], 'shapes.html');
  const lines = [
    '| shape | M weights in layers | heap of plan, MB | load | first token | prefill | decode | texts/s |',
    '|---|---|---|---|---|---|---|---|',
  ];
  const stateLines = [
    '| shape | state | session | KV cache of it | return by one token | return to the end of a block |',
    '|---|---|---|---|---|---|',
  ];
  try {
    for (const name of names) {
      const models = RECURRENT.includes(name) ? [name, `${name}-plain`] : [name];
      const [row, plain] = await measure(models, { url: site.url, callPage }, { rounds, threads, prompt, tokens });
      for (const [one, other] of plain
        ? /** @type {const} */ ([[row, plain], [plain]])
        : /** @type {const} */ ([[row]])) {
        lines.push(`| ${cellsOf(one, other).join(' | ')} |`);
        console.log(lines.at(-1));
      }
      if (plain) console.log(stateLines[stateLines.push(`| ${stateCells(row).join(' | ')} |`) - 1]);
    }
    const { cpu, flags } = readMachine();
    const hasVnni = flags.includes('avx_vnni');
    const text = `# Shapes of published models

Written by \`tools/bench/shapes.mjs\`: models with random weights (\`bq4h\`, embedding \`bq8\`) in Chromium ${browser.version()},
${threads} thread${threads === 1 ? '' : 's'}, context ${CONTEXT.toLocaleString('en')}, a prompt of ${prompt} tokens, ${tokens} decoded tokens; embedding: ${TEXTS} texts of
${TEXT_TOKENS} tokens. Medians of ${rounds} rounds in alternation; rates in tokens per second, then the median ratio to the LLaMA below
(\`-plain\`), which has the same number of weights. ${cpu}, ${hasVnni ? 'with' : 'without'} AVX-VNNI,
load average of the machine ${loadavg()[2].toFixed(1)}.

${lines.join('\n')}

## States

A *state* is what all recurrent layers keep of the tokens before. A session has several snapshots of it
(decision 22 in the repository), one after each complete block of 256 positions. After a return, the tokens
since the last complete block are computed again: ${(prompt + tokens - 2) % BLOCK} after a return by one token, ${BLOCK - 1} after a return to the end of a block. The
times contain the next token.

${stateLines.join('\n')}
`;
    if (!values.shapes) writeFileSync(join(ROOT, `docs/benchmarks/shapes-${hasVnni ? 'vnni' : 'avx2'}.md`), text);
  } finally {
    await close();
  }
});
