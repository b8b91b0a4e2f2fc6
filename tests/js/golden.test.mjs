// Compares complete models with results of other programs: logits of NumPy and transformers, greedy tokens, perplexity. Every test runs
// with every build; results of the builds are compared bit for bit.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { xxh64 } from './xxh64.mjs';
import { fromFile } from '../../js/index.js';
import { modelRows, referenceOf } from '../models-report.mjs';
import { argmax, openLogits, surprisal } from './logits.mjs';

/** More than this machine may have cores, and numbers that divide no count of rows. */
const THREADS = [1, 2, 5, 8];
const BUILDS = /** @type {const} */ (['relaxed', 'simd128', 'relaxed16']);
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const GOLDEN = join(ROOT, 'tests/golden');
const SHARED = join(process.env.BQ4_SHARED ?? join(ROOT, '../shared'), 'data/models');
const noShared = !existsSync(SHARED) && 'no shared data';

const folder = mkdtempSync(join(tmpdir(), 'bq4-golden-'));
after(() => rmSync(folder, { recursive: true }));

const readJson = (/** @type {string} */ path) => JSON.parse(readFileSync(path, 'utf8'));
const tiny = readJson(join(GOLDEN, 'tiny.json'));

/** @param {string} from @param {import('../../js/convert/index.js').ConvertOptions} options @returns {Promise<import('../../js/index.js').Source>} */
async function converted(from, options) {
  const to = join(folder, `${Object.values(options).join('-').replaceAll(/\W/g, '_')}.bq4`);
  if (!existsSync(to)) await convert(from, to, options);
  return fromFile(to);
}
const stories = (/** @type {any} */ options, name = 'stories260K.bin') =>
  converted(join(SHARED, name), { ...options, tokenizer: join(SHARED, 'tok512.bin') });

/** Logits of every step along known ids. @param {Awaited<ReturnType<typeof openLogits>>} model @param {number[]} prompt @param {number[]} ids */
const along = (model, prompt, ids) => ids.map((_, i) => (i ? model.next(ids[i - 1]) : model.start(prompt)));

/** Greedy ids. @param {Awaited<ReturnType<typeof openLogits>>} model @param {number[]} prompt @param {number} count */
function greedy(model, prompt, count) {
  const ids = [argmax(model.start(prompt))];
  while (ids.length < count) ids.push(argmax(model.next(ids[ids.length - 1])));
  return ids;
}

/** @param {Float32Array[]} steps */
const hashOf = (steps) =>
  xxh64(Buffer.concat(steps.map((s) => new Uint8Array(s.buffer))))
    .toString(16)
    .padStart(16, '0');
/** name → hash, also of the C tests: XXH64 of the f32 logits of all steps along the reference ids. */
const recorded = new Map(
  readFileSync(join(GOLDEN, 'logit_hashes.txt'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => /** @type {[string, string]} */ (line.split(' '))),
);

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
const distance = (a, b) => Array.from(a).reduce((most, x, i) => Math.max(most, Math.abs(x - b[i])), 0);

/** Rows of docs/MODELS.md: of each fixture what the last build gave. @type {Map<string, Record<string, string | number>>} */
const architectures = new Map();
after(() => modelRows('architectures', 'safetensors', [...architectures.values()]));

/** Of the default types, relative to NumPy's with f32. @type {number | undefined} */
let defaultPerplexity;

for (const build of BUILDS) {
  test(`tiny, f32, ${build}: the 200 ids and the logits of the double-precision reference`, async () => {
    const source = await converted(join(GOLDEN, 'tiny'), { quant: 'f32' });
    const model = await openLogits(source, { build });
    assert.deepEqual(greedy(model, tiny.prompt_ids, tiny.ids.length), tiny.ids);
    const steps = along(await openLogits(source, { build }), tiny.prompt_ids, tiny.ids);
    for (const { step, values } of tiny.logits)
      assert.ok(distance(steps[step], values) < 1e-4, `step ${step}: ${distance(steps[step], values)}`);
  });

  for (const [name, options] of Object.entries({ f32: { quant: 'f32' }, bq4: { quant: 'bq4', embed: 'bq4' } })) {
    test(`tiny, ${name}, ${build}: the logit hash that every build has`, async () => {
      const model = await openLogits(await converted(join(GOLDEN, 'tiny'), options), { build });
      assert.equal(hashOf(along(model, tiny.prompt_ids, tiny.ids)), recorded.get(name));
    });
  }

  for (const kv of /** @type {const} */ (['i8', 'i4', 'i2'])) {
    test(`tiny, bq4 with an ${kv} cache, ${build}: the logit hash that every build has, on 1 and 3 threads`, async () => {
      const source = await converted(join(GOLDEN, 'tiny'), { quant: 'bq4', embed: 'bq4' });
      for (const threads of [0, 1, 3]) {
        const model = await openLogits(source, { build, threads, kv });
        assert.equal(hashOf(along(model, tiny.prompt_ids, tiny.ids)), recorded.get(`bq4-kv-${kv}`));
        model.close();
      }
    });
  }

  test(`tiny, bq4 with activations of i16, ${build}: the logit hash that every build has, on 1 and 3 threads`, async () => {
    const source = await converted(join(GOLDEN, 'tiny'), { quant: 'bq4', embed: 'bq4' });
    for (const threads of [0, 1, 3]) {
      const model = await openLogits(source, { build, threads, activations: 'i16' });
      assert.equal(hashOf(along(model, tiny.prompt_ids, tiny.ids)), recorded.get('bq4-i16'));
      model.close();
    }
  });

  test(`tiny, ${build}: the same logit hash on ${THREADS} threads, and however the prompt is sliced`, async () => {
    for (const [name, options] of Object.entries({ f32: { quant: 'f32' }, bq4: { quant: 'bq4', embed: 'bq4' } })) {
      const source = await converted(join(GOLDEN, 'tiny'), options);
      for (const threads of THREADS) {
        const model = await openLogits(source, {
          build,
          threads,
          prefillWindow: 1 + threads * 2,
          prefillBatch: threads,
        });
        assert.equal(
          hashOf(along(model, tiny.prompt_ids, tiny.ids)),
          recorded.get(name),
          `${name}, ${threads} threads`,
        );
        const long = await openLogits(source, {
          build,
          threads,
          prefillWindow: 19 - threads,
          prefillBatch: 3 + threads,
        });
        const whole = [...tiny.prompt_ids, ...tiny.ids];
        assert.deepEqual(
          long.start(whole.slice(0, -1)),
          model.start(whole.slice(0, -1)),
          `${name}, ${threads} threads, in one prompt`,
        );
        model.close();
        long.close();
      }
    }
  });

  for (const name of readdirSync(join(GOLDEN, 'fixtures')).filter(
    (fixture) => readJson(join(GOLDEN, 'fixtures', fixture, 'expected.json')).logits,
  )) {
    test(`${name}, ${build}: logits of PyTorch at every position, fed one by one and in batches`, async () => {
      const from = join(GOLDEN, 'fixtures', name);
      const { ids, vocab, positions, logits, made_with: output } = readJson(join(from, 'expected.json'));
      const bytes = Uint8Array.from(Buffer.from(logits, 'base64'));
      const wanted = new Float32Array(bytes.buffer);
      assert.equal(wanted.length, vocab * positions);
      const source = await converted(from, { quant: 'f32', name });
      const steps = along(await openLogits(source, { build }), [ids[0]], ids.slice(1).concat(0));
      const errors = steps.map((got, i) => distance(got, wanted.subarray(i * vocab, (i + 1) * vocab)));
      errors.forEach((error, i) => assert.ok(error < 1e-3, `position ${i}: ${error}`));
      const [error, against] = [Math.max(...errors), referenceOf(name, output)];
      architectures.set(name, { architecture: name, source: 'safetensors', error, against });
      const whole = (await openLogits(source, { build, prefillBatch: 5, prefillWindow: 7 })).start(ids);
      assert.deepEqual(whole, steps[ids.length - 1]);
    });
  }

  test(`phi3, ${build}: which factors longrope takes follows from the context length of the session, not from the length of its text`, async () => {
    const from = join(GOLDEN, 'fixtures/phi3');
    const { ids, vocab, logits } = readJson(join(from, 'expected.json'));
    const short = readJson(join(from, 'short.json'));
    const floats = (/** @type {string} */ text) =>
      new Float32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
    const source = await converted(from, { quant: 'f32', name: 'longrope' });
    // 16 positions are what its checkpoint was made for before it was stretched.
    for (const [context, wanted, count] of /** @type {[number, Float32Array, number][]} */ ([
      [16, floats(short.logits), short.positions],
      [17, floats(logits), 17],
      [64, floats(logits), ids.length],
    ])) {
      const steps = along(
        await openLogits(source, { build, contextTokens: context }),
        [ids[0]],
        ids.slice(1, count).concat(0),
      );
      steps.forEach((got, i) => {
        const error = distance(got, wanted.subarray(i * vocab, (i + 1) * vocab));
        assert.ok(error < 1e-3, `a session of ${context}, position ${i}: ${error}`);
      });
      const whole = await openLogits(source, { build, contextTokens: context, prefillBatch: 5, prefillWindow: 7 });
      assert.deepEqual(whole.start(ids.slice(0, count)), steps[count - 1]);
    }
  });

  test(
    `stories260K, ${build}: 200 reference ids, from both variants of the checkpoint`,
    { skip: noShared },
    async () => {
      const text = readFileSync(join(SHARED, 'stories260K.greedy200.txt'), 'utf8');
      const [first, ...ids] = JSON.parse(/ids (\[.*?\])/.exec(text)?.[1] ?? '[]');
      assert.equal(ids.length, 200);
      for (const name of ['stories260K.bin', 'stories260K-v1.bin']) {
        const model = await openLogits(await stories({ quant: 'f32', name }, name), { build });
        assert.deepEqual(greedy(model, [first], ids.length), ids, name);
      }
    },
  );

  test(`stories260K, ${build}: perplexity on 4,096 tokens of its own`, { skip: noShared }, async (t) => {
    const sample = readJson(join(GOLDEN, 'stories_sample.json'));
    const perplexity = async (/** @type {any} */ options) => {
      const model = await openLogits(await stories(options), { build });
      let sum = 0;
      for (const window of sample.windows)
        for (let i = 0; i + 1 < window.length; i++)
          sum += surprisal(i ? model.next(window[i]) : model.start([window[0]]), window[i + 1]);
      const value = Math.exp(sum / sample.predictions);
      t.diagnostic(
        `${options.quant ?? 'default'}, embedding ${options.embed ?? 'default'}: ${value.toFixed(4)} (${(100 * (value / sample.perplexity - 1)).toFixed(2)} %)`,
      );
      return value / sample.perplexity;
    };
    const ours = await perplexity({});
    assert.ok(ours <= 1.075, 'the default: bq4a, embedding bq8');
    defaultPerplexity ??= ours;
    assert.equal(ours, defaultPerplexity, `${BUILDS[0]} has another`);
    if (build !== BUILDS[0]) return;
    assert.ok(Math.abs((await perplexity({ quant: 'f32', embed: 'f32' })) - 1) < 1e-5, 'f32 as NumPy has it');
    assert.ok((await perplexity({ quant: 'bq4', embed: 'bq4' })) <= 1.22);
    for (const embed of ['bq8', 'f32']) assert.ok((await perplexity({ quant: 'bq4', embed })) <= 1.16);
  });
}
