// Compares this checkout with another one: prefill and decode of SmolLM2-135M-Instruct in Node, on one thread.
//
//   git worktree add --detach ../old REVISION    then in it: npm ci && make -f emscripten.mk wasm
//   node tests/bench/versions.mjs ../old [--pairs N] [--build relaxed]
//
// The checkouts run in turn, N times (15), each in a process of its own, so that other load of the machine affects both. It prints
// the median over the pairs of the other checkout's duration / ours, and whether the tokens are the same.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from '../../tools/bench/stats.mjs';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';

const [PROMPT_TOKENS, REPLY_TOKENS] = [256, 64];

const { values, positionals } = parseArgs({
  options: { pairs: { type: 'string', default: '15' }, build: { type: 'string' }, measure: { type: 'boolean' } },
  allowPositionals: true,
});

/** @typedef {{ prefill: number, decode: number, tokens: number[] }} Measurement  milliseconds */

/** Measures a checkout. @param {string} checkout @param {string} model @returns {Promise<Measurement>} */
async function measure(checkout, model) {
  // Before version 1.0.0-rc.1 the entry for the calling thread was engine.js.
  const entry = ['node.js', 'engine.js'].map((name) => join(checkout, 'js', name)).find((path) => existsSync(path));
  const { createEngine, fromFile } = await import(pathToFileURL(String(entry)).href);
  const engine = await createEngine({ threads: 1, ...(values.build && { build: values.build }) });
  const loaded = await engine.load(fromFile(model));
  const session = await loaded.createSession();
  const prompt = Array.from({ length: PROMPT_TOKENS }, (_, i) => 1000 + ((i * 7919) % 40_000));
  const start = performance.now();
  let first = 0;
  /** @type {number[]} */
  const tokens = [];
  const options = { temperature: 0, maxTokens: REPLY_TOKENS, speculate: false };
  for await (const part of session.generate(prompt, options)) {
    first ||= performance.now();
    tokens.push(part.token ?? part.id);
  }
  const decode = (performance.now() - first) / (tokens.length - 1);
  await engine.close();
  return { prefill: first - start, decode, tokens };
}

const model = realModel('smollm2');
if (!positionals[0] || !model) {
  console.error(model ? 'usage: versions.mjs CHECKOUT [--pairs N] [--build NAME]' : NO_REAL_MODEL);
  process.exit(2);
}
if (values.measure) {
  console.log(JSON.stringify(await measure(positionals[0], model)));
  process.exit(0);
}

/** Measures a checkout in a process of its own. @param {string} checkout @returns {Measurement} */
const run = (checkout) =>
  JSON.parse(
    execFileSync(
      process.execPath,
      [fileURLToPath(import.meta.url), checkout, '--measure', ...(values.build ? ['--build', values.build] : [])],
      { encoding: 'utf8' },
    ),
  );

const other = resolve(positionals[0]);
/** @type {{ other: Measurement, own: Measurement }[]} */
const pairs = [];
for (let i = 0; i < Number(values.pairs); i++) {
  const checkouts = i % 2 ? [ROOT, other] : [other, ROOT];
  const [first, second] = checkouts.map(run);
  pairs.push(i % 2 ? { own: first, other: second } : { other: first, own: second });
}
for (const kind of /** @type {const} */ (['prefill', 'decode'])) {
  const ratios = pairs.map((pair) => pair.other[kind] / pair.own[kind]);
  console.log(
    `${kind}: ${median(ratios).toFixed(3)} times as fast (median of ${ratios.length} pairs, ` +
      `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})`,
  );
}
const sequences = pairs.flatMap((pair) => [pair.own.tokens.join(), pair.other.tokens.join()]);
console.log(new Set(sequences).size === 1 ? 'all tokens are the same' : 'the tokens differ');
