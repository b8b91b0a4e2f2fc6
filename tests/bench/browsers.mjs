// Compares browsers with the same page, in turn: loops over the matrices of a token and over their bytes (token.c), single dot products
// (dot.c), and a trace of decode and of prefill by stage. It prints medians of the rounds in milliseconds, and the medians of the ratios
// of the first browser's time to the others'.
//
//   npm run build && make -f emscripten.mk bench-token && node tests/bench/browsers.mjs [chromium firefox …] [--rounds 3] [--model 135m-bq4h.bq4] [--build relaxed16] [--activations i16] [--head bq4h] [--depth 1900]
//
// The model (tools/make_random.mjs) has to be in build/bench/.
import { parseArgs } from 'node:util';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { SHAPES } from '../../tools/make_random.mjs';
import { median } from '../../tools/bench/stats.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';
import { start } from '../browser/browsers.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '3' },
    model: { type: 'string', default: '135m-bq4h.bq4' },
    activations: { type: 'string', default: 'i8' },
    head: { type: 'string', default: 'bq8' },
    build: { type: 'string', default: 'relaxed' },
    depth: { type: 'string', default: '128' },
  },
});
const names = /** @type {import('../browser/browsers.mjs').Name[]} */ (
  positionals.length ? positionals : ['chromium', 'firefox']
);
/** The layers are BQ4H_32, the LM head has the type of `--head`. */
const { layers, hidden, heads, kv_heads: kvHeads = heads, ffn, vocab } = /** @type {any} */ (SHAPES['135m']);

/** Runs in the page. @param {any} o */
const measure = async (o) => {
  const { createWorkerEngine, fromUrl } = await import(/** @type {any} */ ('/js/index.js'));
  const { typeNamed } = await import(/** @type {any} */ ('/js/format/bq4/weight-types.js'));
  const worker = new Worker('/tools/bench/pages/limit-worker.js', { type: 'module' });
  /** @param {any} message @returns {Promise<any>} */
  const request = (message) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message || 'the worker with the loops could not start'));
      worker.postMessage(message);
    });
  const repetitions = 16;
  await request({
    sets: [{ table: o.build, dims: [...o.dims, typeNamed('bq4h').id, typeNamed(o.head).id] }],
  });
  const { instance } = await WebAssembly.instantiateStreaming(fetch('/build/bench/dot.wasm'));
  const engine = await createWorkerEngine({ build: o.build, threads: 1 });
  const model = await engine.load(fromUrl(`/build/bench/${o.model}`), {
    contextTokens: 2048,
    kv: 'i8',
    activations: o.activations,
  });
  const session = await model.createSession();
  /** @type {Record<string, number[]>} */
  const timesByName = {};
  const add = (/** @type {string} */ name, /** @type {number} */ ms) => (timesByName[name] ??= []).push(ms);
  for (let round = -1; round < (o.depth > 512 ? 2 : 5); round++) {
    const ids = Array.from({ length: o.depth }, (_, i) => (i ? 500 + ((i * 37) % 5000) : 300 + round));
    /** @param {number} tokens @param {string} name @param {number} per */
    const traceGeneration = async (tokens, name, per) => {
      await session.trace({ on: true });
      const { timings } = await session.generate(ids, { temperature: 0, maxTokens: tokens, seed: 1, speculate: false })
        .result;
      const stages = await session.trace({ on: false });
      if (round < 0) return;
      for (const { stage, ms } of stages) add(`${name} ${stage}`, ms / per);
      add(`${name}, all`, (tokens > 1 ? timings.decodeMs : timings.prefillMs) / (tokens > 1 ? tokens - 1 : 1));
    };
    await traceGeneration(1, `prefill of ${o.depth}`, 1);
    await traceGeneration(repetitions + 1, 'decode', repetitions + 1); // the last token of the prompt is computed again
    const read = (await request({ work: 'read', set: 0, times: repetitions })).ms / repetitions;
    const multiplied = (await request({ work: 'multiply', set: 0, times: repetitions })).ms / repetitions;
    if (round >= 0) {
      add('plain read', read);
      add('matrices alone', multiplied);
    }
    for (const name of ['dot_1', 'dot_8']) {
      let minimum = Infinity; // of 5 measurements, each long enough for a coarse clock
      for (let i = 0; i < 5; i++) {
        const start = performance.now();
        /** @type {any} */ (instance.exports)[name](100_000);
        minimum = Math.min(minimum, performance.now() - start);
      }
      if (round >= 0) add(`${name}, ns`, (minimum * 1e6) / 100_000 / 64);
    }
  }
  worker.terminate();
  await engine.close();
  return Object.fromEntries(
    Object.entries(timesByName).map(([name, list]) => [name, list.sort((a, b) => a - b)[list.length >> 1]]),
  );
};

const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench/pages', 'build/bench'] });
const browsers = await Promise.all(names.map((name) => start(name)));
/** @type {Record<string, number>[][]} */
const rounds = [];
for (let round = 0; round < Number(values.rounds); round++) {
  const row = [];
  for (const browser of browsers) {
    const page = await browser.open(`${site.url}models/README.md`);
    row.push(
      await page.evaluate(
        /** @type {any} */ (
          `(${measure})(${JSON.stringify({ dims: [layers, hidden, kvHeads * (hidden / heads), ffn, vocab], model: values.model, build: values.build, activations: values.activations, head: values.head, depth: Number(values.depth) })})`
        ),
      ),
    );
    await page.close();
  }
  rounds.push(row);
}
console.log(['measurement', ...browsers.map(({ name, version }) => `${name} ${version}`), 'first / other'].join(' | '));
for (const measurement of Object.keys(rounds[0][0])) {
  const ratios = browsers
    .slice(1)
    .map((_, i) => median(rounds.map((row) => row[0][measurement] / row[i + 1][measurement])).toFixed(2));
  console.log(
    [
      measurement,
      ...browsers.map((_, i) => median(rounds.map((row) => row[i][measurement])).toFixed(3)),
      ...ratios,
    ].join(' | '),
  );
}
for (const browser of browsers) await browser.close();
await site.close();
process.exit(0);
