// What the first prompt of a page costs more than a later one, and why: 16 tokens and a first token of a reply, in a fresh
// process each, in Node. "optimized" has all of the module compiled by V8's optimizing compiler before.
//
//   npm run build && node tests/bench/start.mjs [CHECKOUT …] [--rounds 7] [--threads 1] [--model build/bench/135m-bq4h.bq4]
//
// Checkouts and modes take turns. One line each: medians in milliseconds of loading, of making the session with the first prompt, the
// second prompt, of the first and second prompt of another session (its memory is new, the code isn't), of a later prompt, and
// the median of the rounds' ratios of the first to a later one.
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
  WARM = 8,
  STEADY = 5;

/** @param {string} root */
async function child(root) {
  const { createEngine, fromFile } = await import(pathToFileURL(resolve(root, 'js/node.js')).href);
  const alive = setInterval(() => {}, 1000); // compiling does not keep Node alive
  let at = performance.now();
  const lap = () => -(at - (at = performance.now()));
  const engine = await createEngine({ build: 'relaxed', threads: Number(values.threads) });
  const model = await engine.load(fromFile(resolve(values.model)), { contextTokens: 2048, kv: 'i8', sessions: 2 });
  const load = lap();
  await new Promise((done) => setTimeout(done, Number(values.wait))); // as long as a page has until somebody asks something
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
  const output = lap();
  const first = output + (await prompt(session)),
    second = await prompt(session);
  for (let i = 0; i < WARM; i++) await prompt(session);
  const other = await model.createSession();
  const otherFirst = await prompt(other),
    otherSecond = await prompt(other);
  const all = [];
  for (let i = 0; i < STEADY; i++) all.push(await prompt(session));
  clearInterval(alive);
  console.log(JSON.stringify({ load, first, second, otherFirst, otherSecond, later: median(all) }));
  process.exit(0);
}

function parent() {
  const cells = (positionals.length ? positionals : ['.']).flatMap((root) =>
    Object.entries(MODES).map(([mode, flags]) => ({
      root,
      mode,
      flags,
      seen: /** @type {Record<string, number>[]} */ ([]),
    })),
  );
  for (let round = 0; round < Number(values.rounds); round++)
    for (const { root, flags, seen } of cells) {
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
      seen.push(JSON.parse(stdout));
    }
  for (const { root, mode, seen } of cells) {
    const of = (/** @type {(one: Record<string, number>) => number} */ what, digits = 1) =>
      median(seen.map(what)).toFixed(digits);
    const ms = Object.keys(seen[0])
      .map((name) => `${name} ${of((one) => one[name])}`)
      .join(', ');
    console.log(
      `${root}, ${mode}: ${ms}; first / later ${of((one) => one.first / one.later, 2)}, other's ${of((one) => one.otherFirst / one.later, 2)}`,
    );
    if (values.verbose) for (const one of seen) console.log('   ', JSON.stringify(one));
  }
}

if (values.child) await child(values.child);
else parent();
