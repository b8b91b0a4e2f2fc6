#!/usr/bin/env node
// Measures the cost of a memory budget in Chromium: tokens per second with all weights in memory and with a share of them. A worker
// that only reads the same file measures the storage before and after. The limit of a round is the smaller of two rates: that with all
// weights in memory, and the storage's bytes per second divided by the bytes read per token. Rounds are interleaved; figures are medians.
//
//   node tools/bench/paging.mjs [--shape 135m] [--shares 0.9,0.6,0.3] [--threads 1] [--rounds 5] [--tokens 24]
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SHAPES } from '../make_random.mjs';
import { command, ROOT } from '../setup/setup.mjs';
import { formatMegabytes as mb, openPagingPage, provideRandomModel } from './paging-kit.mjs';
import { median } from './stats.mjs';

await command(async () => {
  const { values } = parseArgs({
    options: {
      shape: { type: 'string', default: '135m' },
      shares: { type: 'string', default: '0.9,0.6,0.3' },
      threads: { type: 'string', default: '1' },
      rounds: { type: 'string', default: '5' },
      tokens: { type: 'string', default: '24' },
    },
  });
  const { shape } = values;
  const [threads, rounds, tokens] = [values.threads, values.rounds, values.tokens].map(Number);
  const path = `build/bench/${shape}-bq4h.bq4`;
  await provideRandomModel(path, SHAPES[shape]);
  const { site, browser, callPage, close } = await openPagingPage(['build/bench']);
  try {
    const shares = [1, ...values.shares.split(',').map(Number)];
    const { info } = /** @type {any} */ (
      await callPage('openModels', { url: `${site.url}${path}`, shares, threads, context: 512 })
    );
    const pieceBytes = info.at(-1).paging.slotBytes;
    /** @type {number[][]} */
    const rates = shares.map(() => []);
    /** Shares of the smaller limit in the same round. @type {number[][]} */
    const ratios = shares.map(() => []);
    const storage = { handle: /** @type {number[]} */ ([]), blob: /** @type {number[]} */ ([]) };
    /** @type {any[]} */
    const memory = [];
    const measureRead = (/** @type {'handle' | 'blob'} */ mode) =>
      /** @type {Promise<number>} */ (callPage('measureStorage', { mode, pieceBytes, durationMs: 300 }));
    for (let round = -1; round < rounds; round++) {
      // The first round is a warm-up.
      const blobRate = await measureRead('blob');
      let rateBefore = await measureRead('handle');
      let residentRate = 0;
      for (let i = 0; i < shares.length; i++) {
        const measurement = /** @type {any} */ (await callPage('decode', { i, prompt: 8, tokens }));
        const rateAfter = await measureRead('handle');
        const { paging } = info[i];
        if (i === 0) residentRate = measurement.decode;
        const limit = paging?.streamedBytes
          ? Math.min(residentRate, (rateBefore + rateAfter) / 2 / paging.streamedBytes)
          : residentRate;
        memory[i] = measurement.memory;
        if (round >= 0) {
          rates[i].push(measurement.decode);
          ratios[i].push(measurement.decode / limit);
          storage.handle.push(rateAfter);
        }
        rateBefore = rateAfter;
      }
      if (round >= 0) storage.blob.push(blobRate);
    }
    const bareRates = { handle: median(storage.handle), blob: median(storage.blob) };
    const cells = shares.map((share, i) => ({
      share,
      budget: info[i].budget,
      rate: median(rates[i]),
      ratio: median(ratios[i]),
      ratios: ratios[i],
      paging: info[i].paging,
      total: memory[i].total,
      threads: info[i].threads,
    }));
    const report = {
      cpu: cpus()[0]?.model,
      browser: `Chromium ${browser.version()}`,
      shape,
      rounds,
      tokens,
      bare: bareRates,
      pieceBytes,
      cells,
    };
    writeFileSync(join(ROOT, 'build', 'bench', `paging-${threads}.json`), `${JSON.stringify(report, null, 2)}\n`);
    console.log(`${report.cpu}, ${report.browser}, ${shape}, ${info[0].threads} thread(s), medians of ${rounds}`);
    console.log(
      `OPFS in pieces of ${mb(pieceBytes)} MB: ${mb(bareRates.handle)} MB/s by sync access handle, ${mb(bareRates.blob)} MB/s by Blob`,
    );
    for (const { share, budget, rate, ratio, paging, total } of cells) {
      const detail = paging
        ? `${paging.layers} layers${paging.head ? ' and the LM head' : ''} in memory, ${mb(paging.streamedBytes)} MB read per token, ${ratio.toFixed(2)} of its limit, memory ${mb(total + paging.besideBytes)} of ${mb(budget)} MB`
        : `all in memory, memory ${mb(total)} MB`;
      console.log(`${String(share).padEnd(4)} of the weights: ${rate.toFixed(1).padStart(6)} tokens/s; ${detail}`);
    }
  } finally {
    await close();
  }
});
