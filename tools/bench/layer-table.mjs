#!/usr/bin/env node
// Measures a model with Gemma 4 E2B's shape and random weights in Chromium, loaded from a local file. Prints the load plan without a
// memory budget (the table of per-layer embeddings stays in the file), the heap, times of loading and of the first token, and tokens
// per second.
//
//   node tools/bench/layer-table.mjs [--layers 35] [--threads 1] [--rounds 3] [--prompt 32] [--tokens 24] [--context 2048] [--whole]
//
// --layers: number of layers; the vocabulary stays the same. --whole: also measures the model with its table in memory, alternately.
// The file (4.0 GB with all layers) is made once, in build/bench/.
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SHAPES } from '../make_random.mjs';
import { command, ROOT } from '../setup/setup.mjs';
import { megabytes as mb, openPagingPage, provideRandomModel } from './paging-kit.mjs';
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
  const { shared_kv: shared, ...shape } = SHAPES[SHAPE];
  await provideRandomModel(path, { ...shape, layers, shared_kv: Math.round((shared * layers) / shape.layers) });
  const { browser, page, run, close } = await openPagingPage();
  try {
    await page.locator('input').setInputFiles(join(ROOT, path));
    const budgets = values.whole ? ['none', 'infinite'] : ['none'];
    const opened = /** @type {any} */ (await run('open_', { budgets, threads, context }));
    const cells = opened.info.map((/** @type {any} */ info) => ({
      ...info,
      decode: /** @type {number[]} */ ([]),
      firstTokenMs: /** @type {number[]} */ ([]),
      memory: 0,
    }));
    for (let round = -1; round < rounds; round++)
      for (const [i, cell] of cells.entries()) {
        const found = /** @type {any} */ (await run('decode', { i, prompt, tokens }));
        cell.memory = found.memory.total;
        if (round < 0) continue; // the first one warms up
        cell.decode.push(found.decode);
        cell.firstTokenMs.push(found.firstTokenMs);
      }
    const report = {
      cpu: cpus()[0]?.model,
      browser: `Chromium ${browser.version()}`,
      layers,
      rounds,
      prompt,
      tokens,
      context,
      fileBytes: opened.fileBytes,
      cells,
    };
    writeFileSync(join(ROOT, 'build', 'bench', 'layer-table.json'), `${JSON.stringify(report, null, 2)}\n`);
    console.log(
      `${report.cpu}, ${report.browser}, ${SHAPE} with ${layers} layers, file of ${mb(opened.fileBytes)} MB, ${threads} thread(s), medians of ${rounds}`,
    );
    for (const { heapBytes, weightBytes, paging, loadMs, memory, decode, firstTokenMs } of cells) {
      const where = paging
        ? `table in the file (${paging.streamedBytes} bytes a token), ${paging.layers} layers${paging.head ? ' and the head' : ''} in memory`
        : 'table in memory';
      console.log(
        `${where}: heap ${mb(memory)} of ${mb(heapBytes)} MB planned (weights ${mb(weightBytes)} MB), loaded in ${(loadMs / 1e3).toFixed(1)} s, first token of ${prompt} after ${(median(firstTokenMs) / 1e3).toFixed(2)} s, ${median(decode).toFixed(2)} tokens/s`,
      );
    }
  } finally {
    await close();
  }
});
