#!/usr/bin/env node
// `npm run bench`: how fast this engine is on this machine, in Chromium, on models with random weights.
// Cells are interleaved (every cell once, then every cell again, …) so that a noisy minute hits all of
// them; figures are medians. Absolute rates belong to the machine they are measured on; compare ratios.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileSink } from '../js/convert/output.js';
import { buildWasm } from './build.mjs';
import { makeRandom, SHAPES } from './make_random.mjs';
import { PUBLIC, serve } from './serve.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';
import { say } from './setup/shell.mjs';

/** @typedef {{ shape: string, quant: string, variant: 'relaxed' | 'simd128', kv: 'f32' | 'f16', threads: number, prompt: number, tokens: number }} Cell */

const HELP = `npm run bench -- [--shapes 15m,135m] [--threads 1,2] [--only PATTERN] [--runs 5] [--quick]

Times prefill and decode in Chromium and writes build/bench/report.json.
--shapes  of tools/make_random.mjs; default 15m,135m,500m
--threads numbers of threads; default 1,2; all but the first only for the best build
--only    cells whose name, as printed, matches
--runs    repetitions per cell, at least 3; default 5
--quick   3 runs of the 15m shape
`;

/** @param {string[]} shapes @param {number[]} threads @returns {Cell[]} */
function cellsOf(shapes, threads) {
  const cells = cellsOfOne(shapes);
  // The other builds and types are compared on one thread.
  const best = cells.filter(({ variant, quant }) => variant === 'relaxed' && quant === 'bq4h');
  return threads.flatMap((n, i) => (i ? best : cells).map((cell) => ({ ...cell, threads: n })));
}

/** @param {string[]} shapes @returns {Omit<Cell, 'threads'>[]} */
function cellsOfOne(shapes) {
  return shapes.flatMap((shape) => {
    const tokens = shape === '500m' ? 16 : 64;
    /** @type {Omit<Cell, 'prompt' | 'tokens' | 'threads'>} */
    const base = { shape, quant: 'bq4h', variant: 'relaxed', kv: 'f16' };
    /** @type {Omit<Cell, 'threads'>[]} */
    const cells = [
      { ...base, prompt: 128, tokens },
      { ...base, variant: 'simd128', prompt: 128, tokens },
      { ...base, quant: 'bq4', prompt: 128, tokens },
    ];
    if (shape === '135m') cells.push({ ...base, prompt: 512, tokens: 16 }, { ...base, prompt: 1900, tokens: 16 });
    return cells;
  });
}

/** @param {(number | null)[]} values */
function median(values) {
  const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
}

/** @param {string} shape @param {string} quant */
async function modelFile(shape, quant) {
  const path = join('build', 'bench', `${shape}-${quant}.bq4`);
  if (!existsSync(join(ROOT, path))) {
    say(`making ${path}`);
    mkdirSync(join(ROOT, 'build', 'bench'), { recursive: true });
    await makeRandom(SHAPES[shape], await fileSink(join(ROOT, path)), { quant, embed: 'bq8', tokenizer: false });
  }
  return path;
}

/** @param {Cell} cell */
const nameOf = (cell) => `${cell.shape} ${cell.quant} ${cell.variant} kv ${cell.kv}, prompt ${cell.prompt}, ${cell.threads} thread${cell.threads > 1 ? 's' : ''}`;

await command(async () => {
  const { values } = parseArgs({ options: { shapes: { type: 'string' }, threads: { type: 'string' }, only: { type: 'string' }, runs: { type: 'string' }, quick: { type: 'boolean' }, help: { type: 'boolean' } } });
  if (values.help) return void process.stdout.write(HELP);
  const tools = await setUp({ tests: true });
  await buildWasm(tools);
  const shapes = values.quick ? ['15m'] : (values.shapes ?? '15m,135m,500m').split(',');
  const runs = values.quick ? 3 : Math.max(3, Number(values.runs ?? 5));
  const only = new RegExp(values.only ?? '');
  const cells = cellsOf(shapes, (values.threads ?? '1,2').split(',').map(Number)).filter((cell) => only.test(nameOf(cell)));
  for (const { shape, quant } of cells) await modelFile(shape, quant);

  const { launch } = await import('../tests/browser/launch.mjs');
  const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench', 'build/bench'] });
  const browser = await launch();
  const results = cells.map((cell) => ({ cell, runs: /** @type {any[]} */ ([]) }));
  try {
    const page = await browser.newPage();
    await page.goto(`${site.url}tools/bench/page.html`);
    await page.waitForFunction('globalThis.benchReady');
    for (const shape of shapes) {
      const mine = results.filter(({ cell }) => cell.shape === shape);
      for (let run = -1; run < runs; run++) { // the first one warms up
        for (const { cell, runs: list } of mine) {
          const url = `${site.url}build/bench/${cell.shape}-${cell.quant}.bq4`;
          const context = Math.min(SHAPES[shape].context, 2048);
          const argument = JSON.stringify({ ...cell, url, context });
          const result = await page.evaluate(`measure(${argument})`);
          if (run >= 0) list.push(result);
        }
        say(`${shape}: run ${run + 2} of ${runs + 1}`);
      }
      await page.evaluate('closeAll()');
    }
    const report = {
      cpu: cpus()[0]?.model, browser: `Chromium ${browser.version()}`, runs,
      cells: results.map(({ cell, runs: list }) => ({
        ...cell, prefill: median(list.map((r) => r.prefill)), decode: median(list.map((r) => r.decode)),
        loadMs: median(list.map((r) => r.loadMs)), heap: list[0].heap, weightBytes: list[0].weightBytes,
      })),
    };
    writeFileSync(join(ROOT, 'build', 'bench', 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
    console.log(`${report.cpu}, ${report.browser}, medians of ${runs}, tokens per second`);
    for (const cell of report.cells) {
      console.log(`${nameOf(cell).padEnd(59)} prefill ${cell.prefill?.toFixed(1).padStart(8)}  decode ${cell.decode?.toFixed(1).padStart(7)}`);
    }
  } finally {
    await browser.close();
    await site.close();
  }
});
