// Tests of the calibration of `quantize`: a text passes through a model layer by layer, in parts.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { withInput } from '../../bin/model-input.js';
import { Calibrator } from '../../js/quantize/calibrate.js';
import { Drift } from '../../js/quantize/drift.js';
import { quantize } from '../../js/quantize/index.js';
import { Layers } from '../../js/quantize/layers.js';
import { openReading, sessionOf } from '../../js/quantize/calibration-model.js';
import { fromFile } from '../../js/storage/sources/index.js';
import { testFolder } from './folders.mjs';
import { writeLetterTokenizer } from './letter-tokenizer.mjs';

/** @import { Cut } from '../../js/quantize/layers.js' */

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = testFolder('reading').fresh();
const TEXT =
  'The rain fell in torrents, except at times, when a wind swept up the street and rattled along the roofs. ';
/** Attention and MLP side by side; norms around both; experts; ALiBi; biases; norms behind; an encoder; one after the other. */
const FAMILIES = ['falcon', 'gemma2-heads', 'mixtral', 'bloom', 'qwen2', 'olmo2', 'bert', 'llama-gqa'];
const tokenizer = writeLetterTokenizer(folder);

/** @param {string} family */
function modelOf(family) {
  const path = join(folder, `${family}.bq4`);
  const kept = ['--quant', 'f32', '--embed', 'f32', '--tokenizer', tokenizer];
  const args = ['convert', join(root, 'tests/golden/gguf', `${family}.gguf`), path, ...kept];
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'bin/bq4.js'), ...args], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return path;
}
const models = new Map(FAMILIES.map((family) => [family, modelOf(family)]));

/** @param {string} family @param {number} tokens @param {number} [threads] @param {string} [text] */
async function opened(family, tokens, threads, text = TEXT) {
  const reservedBytesOf = (/** @type {any} */ plan, /** @type {number} */ context) => 2 * Layers.bytes(plan, context);
  const from = fromFile(/** @type {string} */ (models.get(family)));
  const reading = await openReading(from, text, { tokens, threads, reservedBytesOf });
  const session = sessionOf(reading.wasm, reading.model, reading.context);
  return { ...reading, session, through: new Layers(reading, session) };
}

for (const family of FAMILIES)
  test(`${family}: a layer in parts is the layer, to the bit, and so are its inputs`, async () => {
    // 33: a batch of one token is the last; 5: all are in one.
    for (const tokens of [33, 5]) {
      const { wasm, through, windows, plan } = await opened(family, tokens);
      for (const ids of windows) {
        let states = await through.embedded(ids, plan.layers);
        for (let layer = 0; layer < plan.layers; layer++) {
          const [cuts, end] = [through.cutsOf(layer), through.endOf(layer)];
          assert.ok(cuts.length >= 2, `${cuts.length} cuts`);
          const whole = through.run(ids, layer, null, end, states);
          let [from, carried] = [/** @type {Cut | null} */ (null), states];
          for (const cut of cuts) {
            carried = through.run(ids, layer, from, cut, carried);
            const input = through.inputAt(ids, cut).slice();
            assert.ok(input.some((x) => x !== 0) && input.every(Number.isFinite), cut.key);
            through.run(ids, layer, null, cut, states);
            assert.deepEqual(through.inputAt(ids, cut).slice(), input, cut.key);
            from = cut;
          }
          assert.deepEqual(through.run(ids, layer, from, end, carried), whole, `layer ${layer}`);
          states = whole;
        }
      }
      wasm.release();
    }
  });

test('several threads compute the same moments and predictions', async () => {
  const from = fromFile(/** @type {string} */ (models.get('llama-gqa')));
  const names = ['attn.q', 'attn.o', 'mlp.up', 'mlp.down'].map((name) => `h.1.${name}.weight`);
  const found = [];
  for (const threads of [1, 2, 3]) {
    const calibrator = await Calibrator.open(from, TEXT, { threads });
    const moments = [];
    for (const name of names) {
      const { values, cols } = /** @type {any} */ (await calibrator.momentsOf(name));
      // What is above the diagonal may be anything.
      moments.push(values.filter((/** @type {number} */ _, /** @type {number} */ i) => i % cols <= i / cols));
    }
    found.push({ moments, predicted: await calibrator.predictions(20) });
    calibrator.close();
  }
  assert.deepEqual(found[1], found[0]);
  assert.deepEqual(found[2], found[0]);
});

/** The chat model as f32, 20.7 MB: memory in which it is read, and which of its layers, the head (embedding, too) stay there. @type {[number, number | null, boolean][]} */
const BUDGETS = [
  [4e9, null, true],
  [40e6, 1, true],
  [37e6, 0, true],
  [34e6, 0, false],
];

test('a model that is too large is read from its file by layers, with the same inputs, states and predictions', async () => {
  const path = join(folder, 'chat-f32.bq4');
  const args = ['quantize', join(root, 'models/chat.bq4'), path, '--quant', 'f32', '--embed', 'f32'];
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'bin/bq4.js'), ...args], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  const reservedBytesOf = (/** @type {any} */ plan, /** @type {number} */ context) => Layers.bytes(plan, context);
  const found = [];
  for (const [budget, layers, head] of BUDGETS) {
    const reading = await openReading(fromFile(path), TEXT.repeat(40), {
      tokens: 1200,
      budget,
      threads: 2,
      reservedBytesOf,
    });
    const { wasm, model, context, plan, windows, pages } = reading;
    assert.deepEqual([plan.paging?.layers ?? null, plan.paging?.head ?? true], [layers, head]);
    assert.equal(pages !== null, layers !== null);
    assert.ok(wasm.memoryBytes <= budget, `${wasm.memoryBytes} of ${budget}`);
    const through = new Layers(reading, sessionOf(wasm, model, context));
    const states = [];
    for (const ids of windows) states.push(await through.embedded(ids, plan.layers));
    const inputs = [];
    for (let layer = 0; layer < plan.layers; layer++) {
      await through.enter(layer);
      for (const [i, ids] of windows.entries())
        states[i] = through.runAll(ids, layer, through.cutsOf(layer), states[i], (cut) => {
          inputs.push(through.inputAt(ids, cut).reduce((sum, x) => sum + x * x, 0));
        });
    }
    // Another one has its place.
    if (!layers && pages)
      assert.throws(() => through.run(windows[0], 4, null, through.endOf(4), states[0]), { code: 'STATE' });
    wasm.release();
    found.push({ states, inputs });
  }
  assert.equal(found[0].states.length, 2);
  for (const other of found.slice(1)) assert.deepEqual(other, found[0]);
  const predicted = [];
  for (const budget of [undefined, 37e6]) {
    const calibrator = await Calibrator.open(fromFile(path), TEXT, { budget });
    predicted.push(await calibrator.predictions(12));
    assert.equal(calibrator.isResident, !budget);
    calibrator.close();
  }
  assert.deepEqual(predicted[1], predicted[0]);
  // What is too little says what is enough.
  for (const budget of [20e6, 100_000]) {
    const error = await Calibrator.open(fromFile(path), TEXT, { budget }).then(
      () => null,
      (error) => error,
    );
    assert.equal(error?.code, 'NOMEM');
    const { needed } = error.details;
    assert.match(error.message, new RegExp(`calibration needs ${needed} bytes of memory; the budget is \\d+`));
    await assert.rejects(Calibrator.open(fromFile(path), TEXT, { budget: needed - 1 }), { code: 'NOMEM' });
    (await Calibrator.open(fromFile(path), TEXT, { budget: needed })).close();
  }
});

test('quantize with less memory than the model needs writes the same file with each method', async () => {
  const [from, text] = [join(root, 'models/chat.bq4'), TEXT.repeat(20)];
  for (const options of [{}, { smooth: 0.25, method: 'search' }]) {
    const files = [];
    // As f32 the weights alone take 20.7 MB, and what reads them 17.
    for (const budget of [undefined, 36e6]) {
      const to = join(folder, `in-${budget}.bq4`);
      const asked = { quant: 'bq4h', calibrate: text, tokens: 64, threads: 1, budget, .../** @type {any} */ (options) };
      await withInput(from, undefined, (input) => quantize(input, to, asked));
      files.push(readFileSync(to));
    }
    assert.ok(files[1].equals(files[0]), JSON.stringify(options));
  }
  const targeted = (/** @type {import('../../js/quantize/index.js').Input} */ input) =>
    quantize(input, join(folder, 'none.bq4'), { calibrate: text, targetSize: 3_700_000, tokens: 64, budget: 36e6 });
  await assert.rejects(withInput(from, undefined, targeted), {
    code: 'NOMEM',
    message: /choosing types needs the whole model/,
  });
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('none')),
    [],
  );
});

for (const family of ['llama-gqa', 'bert'])
  test(`${family}: common beginnings of windows count once if no token attends to later ones`, async () => {
    const from = fromFile(/** @type {string} */ (models.get(family)));
    const causal = family !== 'bert';
    for (const text of [TEXT.repeat(3), 'a'.repeat(300)]) {
      const calibrator = await Calibrator.open(from, text, { causal });
      const found = /** @type {any} */ (await calibrator.momentsOf('h.1.attn.q.weight'));
      const { through, windows, plan, wasm } = await opened(family, 16384, 1, text);
      const [cut] = through.cutsOf(1);
      let wanted = 0;
      for (const [i, ids] of windows.entries()) {
        const states = through.run(ids, 0, null, through.endOf(0), await through.embedded(ids, plan.layers));
        through.run(ids, 1, null, cut, states);
        const input = through.inputAt(ids, cut);
        const before = windows[i - 1] ?? [];
        let same = 0;
        while (causal && same < ids.length && ids[same] === before[same]) same++;
        if (same === ids.length && before.length > same) same--;
        for (const x of input.subarray(same * cut.cols)) wanted += x * x;
      }
      const { cols } = found;
      let trace = 0;
      for (let i = 0; i < cols; i++) trace += found.values[i * (cols + 1)];
      assert.ok(windows.length > 1 && Math.abs(trace / wanted - 1) < 1e-4, `${trace}, ${wanted}`);
      calibrator.close();
      wasm.release();
    }
  });

test('more threads than an instance supports are reduced to its limit', async () => {
  const from = fromFile(/** @type {string} */ (models.get('llama-gqa')));
  const calibrator = await Calibrator.open(from, TEXT, { threads: 40 });
  assert.ok(Number.isFinite(await calibrator.perplexity()));
  calibrator.close();
});

test('after a failed read threads are released, and read the next text', async () => {
  const from = fromFile(/** @type {string} */ (models.get('llama-gqa')));
  await assert.rejects(Calibrator.open(from, '', { threads: 3 }), { code: 'ARGUMENT', message: /no tokens/ });
  await assert.rejects(Drift.open(from, '', [], { threads: 3 }), { code: 'ARGUMENT', message: /no tokens/ });
  const calibrator = await Calibrator.open(from, TEXT, { threads: 3 });
  assert.ok(Number.isFinite(await calibrator.perplexity()));
  calibrator.close();
});

test('parts that a layer does not have are refused, and the reader can continue', async () => {
  const { wasm, session, through, windows, plan } = await opened('llama-gqa', 5);
  const states = await through.embedded(windows[0], plan.layers);
  const end = through.endOf(0);
  const [first, second] = through.cutsOf(0);
  const run = (/** @type {number} */ from, /** @type {number} */ to, layer = 0) =>
    wasm.check('bqw_layer_part', session, layer, from, to, 0, 0, 0);
  for (const [from, to] of [
    [second.step, first.step], // back
    [0, first.step + 1], // in front of no product
    [0, end.step + 1],
  ])
    assert.throws(() => run(from, to), { code: 'ARGUMENT', message: /no part from step/ });
  assert.throws(() => run(0, 0, plan.layers + 1), { code: 'ARGUMENT', message: /layer \d+ of \d+/ });
  assert.ok(through.run(windows[0], 0, null, end, states).every(Number.isFinite));
  wasm.release();
});

test('for a model that is rounded in order, each layer is computed once with and once without rounding', async (t) => {
  const path = /** @type {string} */ (models.get('llama-gqa'));
  const { through, plan, wasm } = await opened('llama-gqa', 5);
  const modules = ['attn.q', 'attn.k', 'attn.v', 'attn.o', 'mlp.gate', 'mlp.up', 'mlp.down'];
  const names = Array.from({ length: plan.layers }, (_, layer) => modules.map((m) => `h.${layer}.${m}.weight`)).flat();
  const ends = Array.from({ length: plan.layers }, (_, layer) => through.endOf(layer).step);
  wasm.release();
  const steps = ends.map((end) => new Array(end).fill(0));
  const run = Layers.prototype.run;
  t.mock.method(
    Layers.prototype,
    'run',
    /** @this {Layers} @param {any[]} given */ function (...given) {
      const [, layer, from, to] = given;
      for (let i = from?.step ?? 0; layer < plan.layers && i < to.step; i++) steps[layer][i]++;
      return run.apply(this, /** @type {any} */ (given));
    },
  );
  const matches = names.map((name) => ({ slot: { name, dims: [1, 1] } }));
  const drift = await Drift.open(fromFile(path), TEXT, /** @type {any} */ (matches), { tokens: 20 });
  for (const name of names) await drift.enter(name);
  drift.close();
  // Behind the last input nothing is asked for.
  const last = steps.length - 1;
  for (const [layer, counts] of steps.entries())
    assert.deepEqual(
      counts,
      counts.map((_, i) => (layer === last && i === counts.length - 1 ? 1 : 2)),
    );
});
