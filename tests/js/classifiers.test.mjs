// Tests of classifiers: the regression equals scikit-learn's, blocks equal those of the C encoder, invalid files are refused, and the
// classifiers of the package assign plausible labels.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createCodec } from '../../js/format/bq4/codec.js';
import { convert } from '../../js/convert/index.js';
import { ROWS, typeNamed } from '../../js/format/bq4/weight-types.js';
import { createEngine, fromFile } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { pack, unpack } from '../../js/api/classifiers/block-weights.js';
import { readClassifier, scores, split, trainClassifier, writeClassifier } from '../../js/api/classifiers/index.js';
import { train } from '../../js/api/classifiers/train.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { testFolder } from './folders.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const json = (/** @type {string} */ path) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
const { folder } = testFolder('heads');
const SMALL = join(ROOT, 'models/chat.bq4');

const { rows, classes, fits } = json('tests/golden/heads/regression.json');

for (const { penalty, weights, bias } of fits)
  test(`the optimum for a penalty of ${penalty} is scikit-learn's`, async () => {
    const items = await train(
      rows.map((/** @type {number[]} */ value) => ({ value })),
      classes,
      4,
      6,
      { penalty, iterations: 1000 },
    );
    // The loss is as good as flat there: what matters is what rows become.
    const head = {
      name: '',
      labels: ['a', 'b', 'c', 'd'],
      width: 6,
      pooling: /** @type {const} */ ('mean'),
      normalize: true,
    };
    const theirs = { ...head, weights: Float32Array.from(weights.flat()), bias: Float32Array.from(bias) };
    for (const row of rows) {
      const [a, b] = [scores({ ...head, ...items }, row), scores(theirs, row)];
      a.forEach((score, i) => assert.ok(Math.abs(score - b[i]) < 5e-3, `${score}, not ${b[i]}`));
    }
  });

test('sparse rows give the same classifier as dense rows', async () => {
  const dense = rows.map((/** @type {number[]} */ value) => ({ value: value.map((v, i) => (i % 2 ? v : 0)) }));
  const sparse = rows.map((/** @type {number[]} */ value) => ({
    index: Uint32Array.of(1, 3, 5),
    value: value.filter((_, i) => i % 2),
  }));
  assert.deepEqual(await train(sparse, classes, 4, 6), await train(dense, classes, 4, 6));
});

test('a step without curvature is not stored, so training continues where the loss is linear', async () => {
  // One row lies so far on the wrong side that its loss is linear in the weights, and the others add nothing.
  const items = [...Array(1000).fill(100), 50].map((value) => ({ value: [value] }));
  const itemClasses = [...Array(1000).fill(1), 0];
  /** @type {number[]} */
  const losses = [];
  const onProgress = (/** @type {{ loss: number }} */ { loss }) => losses.push(loss);
  await train(items, itemClasses, 2, 1, { penalty: 0, iterations: 20, onProgress });
  assert.equal(losses.length, 21, `${losses}`);
  for (const [i, loss] of losses.entries()) if (i) assert.ok(loss < losses[i - 1], `${losses}`);
});

test('blocks of a classifier equal those of the C encoder', async () => {
  const codec = await createCodec(1 << 20);
  const weights = Float32Array.from(
    { length: 5 * 64 },
    (_, i) => Math.sin(i * 12.9898) * (i % 7 ? 1 : 30) * (i > 200 && i < 240 ? 0 : 1),
  );
  const bytes = pack(weights, 5, 64);
  assert.deepEqual(bytes, codec.quantize(typeNamed('bq4_32'), ROWS, weights, 5, 64));
  const half = unpack(pack(weights.subarray(0, 120), 3, 40), 3, 40);
  half.forEach((w, i) => assert.ok(Math.abs(w - weights[i]) <= 30 / 7 / 2 + 1e-3));
});

/** @type {import('../../js/shared/types.js').Head} */
const HEAD = {
  name: 'h',
  labels: ['no', 'yes'],
  width: 3,
  pooling: 'mean',
  normalize: true,
  weights: Float32Array.of(1, 2, 3, -1, -2, -3),
  bias: Float32Array.of(0, 0.5),
};

test('a classifier in JSON is read as it was written', () => {
  const read = readClassifier(JSON.parse(JSON.stringify(writeClassifier(HEAD, { type: 'f32' }))));
  assert.deepEqual(read, HEAD);
  const packed = readClassifier(writeClassifier(HEAD));
  packed.weights.forEach((w, i) => assert.ok(Math.abs(w - HEAD.weights[i]) < 3 / 7));
});

test('an invalid classifier is refused with the reason', () => {
  const good = writeClassifier(HEAD, { type: 'f32' });
  const nan = writeClassifier({ ...HEAD, weights: HEAD.weights.map(() => NaN) }, { type: 'f32' });
  for (const [file, says] of /** @type {[any, RegExp][]} */ ([
    [null, /no "format"/],
    [{}, /no "format"/],
    [{ ...good, version: 2 }, /version 2/],
    [{ ...good, labels: ['a'] }, /labels/],
    [{ ...good, labels: 'ab' }, /labels/],
    [{ ...good, width: -1 }, /width/],
    [{ ...good, width: 2 ** 31 }, /width/],
    [{ ...good, width: 4 }, /bytes of weights/],
    [{ ...good, type: 'q9' }, /q9/],
    [{ ...good, weights: '????????????????????????????????' }, /base64/],
    [{ ...good, bias: [1] }, /bias/],
    [{ ...good, bias: [1, null] }, /bias/],
    [nan, /finite/],
    [{ ...good, pooling: 'max' }, /no valid "pooling"/],
  ]))
    assert.throws(
      () => readClassifier(file),
      (/** @type {any} */ error) => error.code === 'FORMAT' && says.test(error.message) && Boolean(error.hint),
      JSON.stringify(file),
    );
});

test('split uses every fifth example of a label for testing', () => {
  const parts = split(Array.from({ length: 25 }, (_, i) => ({ text: String(i), label: i % 2 ? 'odd' : 'even' })));
  assert.deepEqual(
    parts.test.map(({ text }) => text),
    ['8', '9', '18', '19'],
  );
  assert.equal(parts.train.length, 21);
});

test('examples and options of training are refused by name', async () => {
  const never = () => assert.fail('nothing is embedded');
  const model = /** @type {any} */ ({ info: { embedding: { width: 4 } }, embed: never });
  const examples = ['a', 'b'].map((label) => ({ text: `of ${label}`, label }));
  /** @type {[any, any, RegExp, string][]} */
  const wrong = [
    [undefined, {}, /^examples: expected a list of \{ text, label \}, found/, 'examples'],
    ['x', {}, /^examples: expected a list/, 'examples'],
    [[...examples, null], {}, /^examples\[2\]: expected \{ text, label \}, found null/, 'examples[2]'],
    [[{ text: 'x' }, ...examples], {}, /^examples\[0\]: expected \{ text, label \}/, 'examples[0]'],
    [[{ text: 'x', label: 1 }], {}, /^examples\[0\]/, 'examples[0]'],
    [examples, { test: [5] }, /^test\[0\]: expected \{ text, label \}, found 5/, 'test[0]'],
    [examples, { penality: 1 }, /^trainClassifier: unknown option "penality"/, 'penality'],
    [examples, { penalty: 'x' }, /^penalty: expected a number of at least 0, found "x"/, 'penalty'],
    [examples, { iterations: -1 }, /^iterations: expected an integer/, 'iterations'],
    [examples, { labels: ['a', 'b', 'a'] }, /^labels: expected a list of different strings/, 'labels'],
    [examples, null, /^the last argument: expected an options object, found null/, 'the last argument'],
  ];
  for (const [given, options, message, param] of wrong)
    await assert.rejects(trainClassifier(model, given, options), (/** @type {any} */ error) => {
      assert.deepEqual([error.code, error.details?.param], ['ARGUMENT', param], error.stack);
      assert.match(error.message, message);
      return true;
    });
});

test('a label without a training example is named, also the empty one', async () => {
  const model = /** @type {any} */ ({ info: { embedding: { width: 4 } } });
  const examples = [{ text: 'x', label: 'a' }];
  for (const label of ['b', ''])
    await assert.rejects(trainClassifier(model, examples, { labels: ['a', label] }), (/** @type {any} */ error) => {
      assert.deepEqual([error.code, error.message], ['ARGUMENT', `the label "${label}" has no training example`]);
      return true;
    });
});

test('a worker assigns the same labels as this thread, and a classifier of another model is refused', async () => {
  const found = [];
  for (const make of [createEngine, createWorkerEngine]) {
    const engine = await make({ threads: 1 });
    const model = await engine.load(fromFile(SMALL));
    const examples = Array.from({ length: 20 }, (_, i) => ({
      text: i % 2 ? `a ${'b '.repeat(i)}` : `c ${'d '.repeat(i + 1)}`,
      label: i % 2 ? 'b' : 'd',
    }));
    const { file } = await trainClassifier(
      model,
      examples.map(({ text, label }) => ({ text, label })),
      { name: 'letters', iterations: 20 },
    ).catch(async (error) => {
      await engine.close();
      throw error;
    });
    found.push(await model.classify(['a b b b', 'c d d d'], { classifier: file }));
    await assert.rejects(model.classify('a', { classifier: writeClassifier(HEAD) }), { code: 'SHAPE' });
    await assert.rejects(model.classify('a', { classifier: /** @type {any} */ ({}) }), { code: 'FORMAT' });
    await assert.rejects(trainClassifier(model, examples, { labels: ['b', 'e'] }), { code: 'ARGUMENT' });
    await assert.rejects(
      trainClassifier(model, examples, { signal: AbortSignal.abort(new Error('enough')) }),
      /enough/,
    );
    await engine.close();
  }
  assert.deepEqual(found[0], found[1]);
  for (const { scores: all } of found[0]) assert.ok(Math.abs(all.reduce((a, b) => a + b) - 1) < 1e-6);
});

/** @param {...string} args */
function cli(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), ...args], {
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

test('bq4 train-classifier and bq4 classify', () => {
  const [data, head] = [join(folder, 'data.tsv'), join(folder, 'head.json')];
  writeFileSync(
    data,
    Array.from({ length: 20 }, (_, i) =>
      i % 2 ? `a ${'b '.repeat(i)}\tfirst` : `c ${'d '.repeat(i + 1)}\tsecond`,
    ).join('\n'),
  );
  const output = cli('train-classifier', SMALL, data, head, '--name', 'letters', '--json');
  assert.equal(output.status, 0, output.stderr);
  assert.deepEqual([JSON.parse(output.stdout).train, JSON.parse(output.stdout).test], [16, 4]);
  const { status, stdout, stderr } = cli('classify', SMALL, head, 'a b b b', 'c d', '--json');
  assert.equal(status, 0, stderr);
  assert.deepEqual(
    stdout
      .trim()
      .split('\n')
      .map((line) => Object.keys(JSON.parse(line).scores)),
    [
      ['first', 'second'],
      ['first', 'second'],
    ],
  );
  writeFileSync(data, 'no tab here');
  assert.match(cli('train-classifier', SMALL, data, head).stderr, /FORMAT: line 1 of /);
  writeFileSync(data, 'a\tx\nb\ty\n');
  assert.match(
    cli('train-classifier', SMALL, data, head).stdout,
    /^trained on 2 texts; no texts were left for a test: .* --test FILE\n$/,
  );
  assert.match(cli('classify', SMALL, data, 'x').stderr, /FORMAT: .* is not valid JSON/);
  assert.equal(cli('train-classifier', SMALL, data, head, '--type', 'q9').status, 2);
});

/** Not among what the heads learned from. */
const SAID = {
  sentiment: {
    positive: [
      'I love it, best purchase this year!',
      'The food was delicious and the staff were friendly.',
      'A moving, beautifully acted film.',
    ],
    negative: [
      'A complete waste of money.',
      'The soup was cold and the waiter was rude.',
      'It broke after two days.',
      'I was bored from beginning to end.',
    ],
    neutral: [
      'The parcel contains a lamp and a cable.',
      'The bakery is next to the town hall.',
      'What time does the next train leave?',
    ],
  },
  intents: {
    weather: ['will it rain in Pune tomorrow'],
    alarm: ['wake me at six in the morning'],
    translate: ['how do you say thank you in Marathi'],
    balance: ['how much money is in my savings account'],
    timer: ['count down ten minutes for the eggs'],
  },
};
const minilm = realModel('minilm');

for (const name of Object.keys(SAID))
  test(`classifiers/README.md has the figures of the file of the classifier ${name}`, () => {
    const { train: learned, test: held, right, bagOfWords } = json(`classifiers/${name}.json`).facts;
    const cells = readFileSync(join(ROOT, 'classifiers/README.md'), 'utf8')
      .split('\n')
      .find((line) => line.includes(`\`${name}.json\``))
      ?.split(' | ')
      .slice(2);
    const percent = (/** @type {number} */ n) => `${((100 * n) / held).toFixed(1)} %`;
    assert.deepEqual(cells, [
      learned.toLocaleString('en'),
      held.toLocaleString('en'),
      percent(right),
      `${percent(bagOfWords)} |`,
    ]);
    assert.ok(right > bagOfWords);
  });

for (const [name, message] of Object.entries(SAID))
  test(`the classifier ${name} assigns plausible labels`, { skip: !minilm && NO_REAL_MODEL }, async (t) => {
    const path = join(folder, 'minilm.bq4');
    await convert(/** @type {string} */ (minilm), path, { quant: 'bq8' });
    const engine = await createEngine({ threads: 1 });
    const model = await engine.load(fromFile(path));
    const head = json(`classifiers/${name}.json`);
    const texts = Object.entries(message).flatMap(([label, list]) =>
      list.map((/** @type {string} */ text) => ({ text, label })),
    );
    const found = await model.classify(
      texts.map(({ text }) => text),
      { classifier: head },
    );
    t.diagnostic(
      `${name}: ${head.facts.right} of ${head.facts.test} held out, a bag of words ${head.facts.bagOfWords}`,
    );
    assert.deepEqual(
      found.map(({ label }) => label),
      texts.map(({ label }) => label),
    );
    await engine.close();
  });
