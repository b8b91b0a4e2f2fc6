// Measures the quality of KV cache types: prints the table of docs/decisions/0005-kv-cache-types.md.
//
//   npm run build && node tests/golden/kv_types.mjs
//
// Each model reads the same tokens with every type. "perplexity" is also given relative to the f32 cache; "KL" is the mean divergence of
// the next-token distribution from the one with an f32 cache, in thousandths of a nat; "same choice" is the share of positions with the
// same most probable token. The tokens: windows of 512, sampled from the model itself at temperature 1 (the bundled chat model;
// stories260K, if BQ4_SHARED or ../shared has it), and the beginning of a book for the chat model.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { argmax, openLogits } from '../js/logits.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SHARED = join(process.env.BQ4_SHARED ?? join(ROOT, '../shared'), 'data');
const LENGTH = 512, WINDOWS = 6;

/** Natural logarithm of the probability of every token. @param {Float32Array} logits */
function logProbabilities(logits) {
  const max = logits[argmax(logits)];
  let sum = 0;
  for (const v of logits) sum += Math.exp(v - max);
  const shift = max + Math.log(sum);
  return Float64Array.from(logits, (v) => v - shift);
}

/** A generator of uniform numbers in [0, 1): mulberry32. @param {number} seed */
function createRandom(seed) {
  return () => {
    let t = (seed = (seed + 0x6d2b79f5) | 0);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Samples a token at temperature 1. @param {Float64Array} logs  of probabilities @param {() => number} next  uniform in [0, 1) */
function sampleToken(logs, next) {
  let left = next();
  for (let i = 0; i < logs.length; i++) if ((left -= Math.exp(logs[i])) < 0) return i;
  return logs.length - 1;
}

/** @typedef {Awaited<ReturnType<typeof openLogits>>} Model */

/** Windows of tokens, sampled from a model. @param {import('../../js/shared/types.js').SourceLike} source @param {number} first  token of each window @returns {Promise<number[][]>} */
async function sampleWindows(source, first) {
  const model = await openLogits(source, { contextTokens: LENGTH });
  const next = createRandom(1);
  return Array.from({ length: WINDOWS }, () => {
    const ids = [first];
    let logits = model.start(ids);
    while (ids.length < LENGTH) {
      ids.push(sampleToken(logProbabilities(logits), next));
      logits = model.next(ids[ids.length - 1]);
    }
    return ids;
  });
}

/** Prints the rows of a model. @param {string} name @param {import('../../js/shared/types.js').SourceLike} source @param {number[][]} windows */
async function measure(name, source, windows) {
  const types = /** @type {const} */ (['f32', 'f16', 'i8', 'i4', 'i2']);
  const models = await Promise.all(types.map((kv) => openLogits(source, { kv, contextTokens: LENGTH })));
  const sums = types.map(() => ({ surprise: 0, kl: 0, same: 0, n: 0 }));
  for (const ids of windows)
    for (let i = 0; i + 1 < ids.length; i++) {
      const logs = models.map((m) => logProbabilities(i ? m.next(ids[i]) : m.start([ids[0]])));
      logs.forEach((typeLogs, k) => {
        const s = sums[k];
        s.n++;
        s.surprise -= typeLogs[ids[i + 1]];
        logs[0].forEach((p, t) => (s.kl += Math.exp(p) * (p - typeLogs[t])));
        s.same += Number(argmax(Float32Array.from(typeLogs)) === argmax(Float32Array.from(logs[0])));
      });
    }
  const f32 = sums[0].surprise / sums[0].n;
  sums.forEach((s, k) => {
    const ratio = Math.exp(s.surprise / s.n - f32) - 1;
    console.log(`| ${name} | ${types[k]} | ${Math.exp(s.surprise / s.n).toFixed(3)} | ${k ? `${ratio < 0 ? '−' : '+'}${(100 * Math.abs(ratio)).toFixed(3)} %` : ''} | ${(1000 * s.kl / s.n).toFixed(3)} | ${(100 * s.same / s.n).toFixed(2)} % |`);
  });
}

console.log('| model and text | cache | perplexity | against f32 | KL, 10⁻³ | same choice |\n|---|---|---|---|---|---|');
const chat = fromFile(join(ROOT, 'models/chat.bq4'));
await measure('chat.bq4, its own text', chat, await sampleWindows(chat, 0));
if (existsSync(SHARED)) {
  const engine = await createEngine({});
  const model = await engine.load(chat, {});
  const text = readFileSync(join(SHARED, 'eval/alice.txt'), 'utf8');
  const ids = [...(await model.tokenize(text.slice(2000, 18000), { addSpecial: false }))];
  await model.close();
  await measure('chat.bq4, *Alice*', chat, Array.from({ length: WINDOWS }, (_, i) => ids.slice(i * (LENGTH - 1), (i + 1) * (LENGTH - 1))).map((w) => [0, ...w]));
  const folder = mkdtempSync(join(tmpdir(), 'bq4-kv-'));
  const { windows } = JSON.parse(readFileSync(join(ROOT, 'tests/golden/stories_sample.json'), 'utf8'));
  for (const quant of /** @type {const} */ (['f32', 'bq4'])) {
    const to = join(folder, `${quant}.bq4`);
    await convert(join(SHARED, 'models/stories260K.bin'), to, { quant, embed: quant === 'f32' ? 'f32' : 'bq8', tokenizer: join(SHARED, 'models/tok512.bin') });
    await measure(`stories260K, ${quant} weights`, fromFile(to), windows.slice(0, WINDOWS));
  }
  rmSync(folder, { recursive: true });
}
