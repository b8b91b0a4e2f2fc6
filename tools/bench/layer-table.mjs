#!/usr/bin/env node
// Measures a model with Gemma 4 E2B's shape and random weights in Chromium, loaded from a local file. Prints the load plan without a
// memory budget (the table of per-layer embeddings stays in the file), the heap, times of loading and of the first token, and tokens
// per second.
//
//   node tools/bench/layer-table.mjs [--layers 35] [--threads 1] [--rounds 3] [--prompt 32] [--tokens 24] [--context 2048] [--whole]
//
// --layers: number of layers; the vocabulary stays the same. --whole: also measures the model with its table in memory, in alternation.
// The file (4.0 GB with all layers) is written once, to build/bench/.
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SHAPES } from '../make_random.mjs';
import { command, ROOT } from '../setup/setup.mjs';
import { formatMegabytes as mb, openPagingPage, provideRandomModel } from './paging-kit.mjs';
import { median } from './stats.mjs';

const SHAPE = 'gemma4-e2b';

await command(async () => {
  const { values } = parseArgs({
    options: {
      layers: { type: 'string', default: '35' },
      threads: { type: 'string', default: '1' },
      rounds: { type: 'string', default: '3' },
      prompt: { type: 'string', default: '32' },
      tokens: { type: 'string', default: '24' },
      context: { type: 'string', default: '2048' },
      whole: { type: 'boolean', default: false },
    },
  });
  const [layers, threads, rounds, prompt, tokens, context] = [
    values.layers,
    values.threads,
    values.rounds,
    values.prompt,
    values.tokens,
    values.context,
  ].map(Number);
  const path = `build/bench/${SHAPE}-${layers}-bq4h.bq4`;
  const { shared_kv: sharedLayers, ...shape } = SHAPES[SHAPE];
  await provideRandomModel(path, { ...shape, layers, shared_kv: Math.round((sharedLayers * layers) / shape.layers) });
  const { browser, page, callPage, close } = await openPagingPage();
  try {
    await page.locator('input').setInputFiles(join(ROOT, path));
    const memoryBudgets = values.whole ? ['none', 'infinite'] : ['none'];
    const result = /** @type {any} */ (await callPage('openModels', { budgets: memoryBudgets, threads, context }));
    const cells = result.info.map((/** @type {any} */ info) => ({
      ...info,
      decode: /** @type {number[]} */ ([]),
      firstTokenMs: /** @type {number[]} */ ([]),
      memory: 0,
    }));
    for (let round = -1; round < rounds; round++)
      for (const [i, cell] of cells.entries()) {
        const measurement = /** @type {any} */ (await callPage('decode', { i, prompt, tokens }));
        cell.memory = measurement.memory.total;
        if (round < 0) continue; // warm-up
        cell.decode.push(measurement.decode);
        cell.firstTokenMs.push(measurement.firstTokenMs);
      }
    const report = {
      cpu: cpus()[0]?.model,
      browser: `Chromium ${browser.version()}`,
      layers,
      rounds,
      prompt,
      tokens,
      context,
      fileBytes: result.fileBytes,
      cells,
    };
    writeFileSync(join(ROOT, 'build', 'bench', 'layer-table.json'), `${JSON.stringify(report, null, 2)}\n`);
    console.log(
      `${report.cpu}, ${report.browser}, ${SHAPE} with ${layers} layers, file of ${mb(result.fileBytes)} MB, ${threads} thread(s), medians of ${rounds}`,
    );
    for (const { heapBytes, weightBytes, paging, loadMs, memory, decode, firstTokenMs } of cells) {
      const tablePlace = paging
        ? `table in the file (${paging.streamedBytes} bytes per token), ${paging.layers} layers${paging.head ? ' and the LM head' : ''} in memory`
        : 'table in memory';
      console.log(
        `${tablePlace}: heap ${mb(memory)} of ${mb(heapBytes)} MB planned (weights ${mb(weightBytes)} MB), loaded in ${(loadMs / 1e3).toFixed(1)} s, first token of ${prompt} after ${(median(firstTokenMs) / 1e3).toFixed(2)} s, ${median(decode).toFixed(2)} tokens/s`,
      );
    }
  } finally {
    await close();
  }
});
