#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/smollm2.mjs [rounds]`: SmolLM2-135M-Instruct's GGUF file in bq4 and in wllama 3.8.1, in Chromium, one thread each, in
// turns, a page of its own each time: decode and prefill in tokens per second, and the milliseconds from opening a runtime in a
// page whose cache has the file to the first token of a reply.
import { launch } from '../../tests/browser/launch.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { modelsFolder, provideModels, REAL_MODELS } from '../setup/models.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { benchPython, providePeers } from './install.mjs';
import { machine } from './machine.mjs';
import { median, shown, summary } from './stats.mjs';

const rounds = Number(process.argv[2] ?? 5);
const WHO = /** @type {const} */ (['bq4', 'wllama']);

await command(async () => {
  const tools = await setUp({ tests: true });
  await providePeers();
  await provideModels(await benchPython(tools));
  // The peers' workers come from blob: addresses, which our own policy forbids.
  const pages = await serve({
    root: ROOT,
    folders: [...PUBLIC, 'tools/bench/pages', 'build/bench'],
    policy: false,
    models: modelsFolder(),
  });
  const model = `/local/smollm2/${REAL_MODELS.smollm2.file}`;
  const browser = await launch();
  const context = await browser.newContext();
  /** @param {Record<string, any>} options */
  const visit = async (options) => {
    const page = await context.newPage();
    try {
      await page.goto(`${pages.url}tools/bench/pages/page.html`);
      await page.waitForFunction('globalThis.benchReady');
      await page.evaluate(`prepare(${JSON.stringify({ runtime: 'smollm2', model, ...options })})`);
      return await page.evaluate('run([])');
    } finally {
      await page.close();
    }
  };
  try {
    console.log(`${machine().cpu}, Chromium ${browser.version()}, ${rounds} rounds: median (least–most)`);
    /** @type {Record<string, Record<string, number[]>>} */
    const all = { decode: { bq4: [], wllama: [] }, prefill: { bq4: [], wllama: [] }, firstMs: { bq4: [], wllama: [] } };
    for (const who of WHO) await visit({ who, warm: true, seed: 0 }); // fills the caches
    for (let round = 0; round < rounds; round++)
      for (const who of WHO) {
        const { decode, prefill } = await visit({ who, warm: false, seed: 3 + 2 * round });
        const { firstMs } = await visit({ who, warm: true, seed: 0 });
        for (const [name, value] of Object.entries({ decode, prefill, firstMs })) all[name][who].push(value);
      }
    for (const [name, { bq4, wllama }] of Object.entries(all)) {
      const ratio = median(bq4.map((value, i) => value / wllama[i])).toFixed(2);
      console.log(
        `${{ decode: 'decode, tokens/s', prefill: 'prefill, tokens/s', firstMs: 'warm cache to first token, ms' }[name]?.padEnd(32)}bq4 ${shown(summary(bq4)).padEnd(26)}wllama 3.8.1 ${shown(summary(wllama)).padEnd(26)}ratio ${ratio}`,
      );
    }
  } finally {
    await browser.close();
    await pages.close();
  }
});
