// Compares the first prompt of a page with later ones: 16 tokens and the first token of the answer, in a new process of Node each.
// "optimized": V8 compiles the module with the optimizing compiler before it runs.
//
//   npm run build && node tests/bench/start.mjs [CHECKOUT …] [--rounds 7] [--threads 1] [--model build/bench/135m-bq4h.bq4]
//
// Checkouts and modes take turns. It prints one line each: medians in milliseconds of loading, of creating a session and its first prompt,
// of the second prompt, of the first and second prompt of another session (with new memory, but known code), of a later prompt, and the
// median of the ratios of the first to a later one.
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from '../../tools/bench/stats.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '7' },
    threads: { type: 'string', default: '1' },
    child: { type: 'string' },
    wait: { type: 'string', default: '100' },
    model: { type: 'string', default: 'build/bench/135m-bq4h.bq4' },
    verbose: { type: 'boolean' },
  },
});
const MODES = { 'as shipped': [], optimized: ['--no-liftoff', '--no-wasm-lazy-compilation'] };
const TOKENS = 16,
  WARM_UP_PROMPTS = 8,
  STEADY_PROMPTS = 5;

/** @param {string} root */
async function measureRoot(root) {
  const { createEngine, fromFile } = await import(pathToFileURL(resolve(root, 'js/node.js')).href);
  const keepAlive = setInterval(() => {}, 1000); // compiling does not keep Node alive
  let at = performance.now();
  const lap = () => -(at - (at = performance.now()));
  const engine = await createEngine({ build: 'relaxed', threads: Number(values.threads) });
  const model = await engine.load(fromFile(resolve(values.model)), { contextTokens: 2048, kv: 'i8', sessions: 2 });
  const load = lap();
  await new Promise((done) => setTimeout(done, Number(values.wait))); // the time before the first prompt of a user
  let prompts = 0;
  /** @param {any} session */
  const prompt = async (session) => {
    const first = ++prompts;
    lap();
    await session.generate(
      Array.from({ length: TOKENS }, (_, i) => 300 + ((first * 977 + i * 7919) % 40000)),
      { temperature: 0, maxTokens: 1 },
    ).result;
    return lap();
  };
  lap();
  const session = await model.createSession();
  const creation = lap();
  const first = creation + (await prompt(session)),
    second = await prompt(session);
  for (let i = 0; i < WARM_UP_PROMPTS; i++) await prompt(session);
  const other = await model.createSession();
  const otherFirst = await prompt(other),
    otherSecond = await prompt(other);
  const laterTimes = [];
  for (let i = 0; i < STEADY_PROMPTS; i++) laterTimes.push(await prompt(session));
  clearInterval(keepAlive);
  console.log(JSON.stringify({ load, first, second, otherFirst, otherSecond, later: median(laterTimes) }));
  process.exit(0);
}

function compareCheckouts() {
  const cells = (positionals.length ? positionals : ['.']).flatMap((root) =>
    Object.entries(MODES).map(([mode, flags]) => ({
      root,
      mode,
      flags,
      samples: /** @type {Record<string, number>[]} */ ([]),
    })),
  );
  for (let round = 0; round < Number(values.rounds); round++)
    for (const { root, flags, samples } of cells) {
      const { stdout, stderr } = spawnSync(
        process.execPath,
        [
          ...flags,
          fileURLToPath(import.meta.url),
          '--child',
          root,
          '--threads',
          values.threads,
          '--model',
          values.model,
          '--wait',
          values.wait,
        ],
        { encoding: 'utf8' },
      );
      if (!stdout) throw new Error(stderr);
      samples.push(JSON.parse(stdout));
    }
  for (const { root, mode, samples } of cells) {
    const formatMedian = (/** @type {(one: Record<string, number>) => number} */ select, digits = 1) =>
      median(samples.map(select)).toFixed(digits);
    const ms = Object.keys(samples[0])
      .map((name) => `${name} ${formatMedian((row) => row[name])}`)
      .join(', ');
    console.log(
      `${root}, ${mode}: ${ms}; first / later ${formatMedian((row) => row.first / row.later, 2)}, other's ${formatMedian((row) => row.otherFirst / row.later, 2)}`,
    );
    if (values.verbose) for (const row of samples) console.log('   ', JSON.stringify(row));
  }
}

if (values.child) await measureRoot(values.child);
else compareCheckouts();
