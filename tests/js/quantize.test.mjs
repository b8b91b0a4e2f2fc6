// `bq4 quantize`: rounding with second moments of calibration texts. In C, in NumPy with the same bits, and end to end.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from '../../bin/inspect.js';
import { withInput } from '../../bin/model-input.js';
import { matchTensors } from '../../js/format/bq4/names.js';
import { ROWS, typeNamed } from '../../js/format/bq4/weight-types.js';
import { inputOf } from '../../js/quantize/calibration-model.js';
import { quantizing } from '../../js/quantize/abi.js';
import { spend, stepsWithin } from '../../js/quantize/type-choice.js';
import { chunksOf } from '../../js/quantize/text-chunks.js';
import { Rounder } from '../../js/quantize/rounder.js';
import { quantize } from '../../js/quantize/index.js';
import { smoothed } from '../../js/quantize/smooth.js';
import { fromFile } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { inTime, until } from '../waiting.mjs';
import { tokenizerBin } from './checkpoints.mjs';
import { random } from './fixture.mjs';
import { testFolder } from './folders.mjs';
import { openLogits } from './logits.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const { fresh } = testFolder('quantize');
const golden = JSON.parse(readFileSync(join(root, 'tests/golden/rounding.json'), 'utf8'));
const floats = (/** @type {string} */ text) => new Float32Array(new Uint8Array(Buffer.from(text, 'base64')).buffer);

/** @param {string[]} args */
function bq4(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'bin/bq4.js'), ...args], {
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

/** @param {string} path */
const tensorsOf = async (path) => (await inspect(openBytes(new Uint8Array(readFileSync(path))))).tensors;

test('the exports of the convert module are those of web/convert.h', () => {
  const header = readFileSync(join(root, 'web/convert.h'), 'utf8').replace(/\/\*[^]*?\*\//g, '');
  const letter = (/** @type {string} */ type) =>
    type.includes('*')
      ? 'u'
      : /** @type {any} */ ({ uint32_t: 'u', double: 'f', float: 'f', void: 'v' })[type.split(' ')[0]];
  const declared = [...header.matchAll(/^(\w+) (bqw_\w+)\(([^)]*)\);/gm)].map(([, result, name, args]) => [
    name,
    [result, ...args.split(',').map((arg) => arg.trim().replace(/^const /, ''))].map(letter).join(''),
  ]);
  assert.deepEqual(
    Object.entries(quantizing).map(([name, signature]) => [name, signature.replace('s', 'u')]),
    declared,
  );
});

test('the blocks of NumPy, to the bit: each type, with search, sweeps and feedback', async () => {
  const { rows, cols, damp } = golden;
  for (const [type, methods] of Object.entries(golden.blocks))
    for (const [method, blocks] of Object.entries(/** @type {Record<string, string>} */ (methods))) {
      const rounder = await Rounder.create([[rows, cols]], { ...golden.methods[method], damp });
      rounder.use({ key: 'x', cols, values: floats(golden.moments) });
      const { bytes, errors } = rounder.round(typeNamed(type), ROWS, floats(golden.weights), rows, cols);
      assert.equal(Buffer.from(bytes).toString('base64'), blocks, `${type}, ${method}`);
      assert.ok(errors.error > 0 && errors.error < 0.02 * errors.of, `${errors.error} of ${errors.of}`);
      rounder.close();
    }
});

test('matrices that share an input share its moments', () => {
  assert.deepEqual(inputOf('h.3.attn.k.weight'), { layer: 3, module: 2, key: 'h.3.attn.q' });
  assert.equal(inputOf('h.3.mlp.gate.weight')?.key, inputOf('h.3.mlp.up.weight')?.key);
  assert.equal(inputOf('h.0.attn.q.bias'), null);
  assert.equal(inputOf('h.0.mlp.experts.up.weight'), null);
  assert.equal(inputOf('wte.weight'), null);
});

const TEXT =
  'The Project Gutenberg eBook of a long winter: she said that she would go to the park, and he went with her. '.repeat(
    20,
  );
const tiny = join(root, 'tests/golden/tiny');

/** @param {string[]} args @returns {any} the report */
function quantized(...args) {
  const { status, stdout, stderr } = bq4('quantize', ...args, '--json');
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

/** Returns types and bytes of all tensors. @param {string} path */
async function contents(path) {
  const file = readFileSync(path);
  return (await tensorsOf(path)).map(({ name, type, offset, bytes }) => [
    name,
    type,
    file.subarray(offset, offset + bytes).toString('base64'),
  ]);
}

for (const [name, modules] of /** @type {const} */ ([
  ['lfm2', ['conv.in', 'conv.out']],
  ['lfm3', ['conv.in', 'conv.out', 'attn.gate']],
  ['qwen35', ['delta.in', 'delta.z', 'delta.out']],
  ['granite-hybrid', ['mamba.in', 'mamba.out']],
  ['falcon-h1', ['mamba.in', 'mamba.out', 'attn.q', 'attn.o']],
]))
  test(`quantize: recurrent layers of ${name}, errors of products below those of \`search\``, () => {
    const folder = fresh();
    cpSync(join(root, 'tests/golden/fixtures', name), folder, { recursive: true });
    writeFileSync(join(folder, 'tokenizer.bin'), tokenizerBin(64));
    const text = join(folder, 'text.txt');
    writeFileSync(text, Array.from({ length: 4000 }, (_, i) => ` w${(i * i * 7 + (i >> 3)) % 60}`).join(''));
    const productsBy = (/** @type {string} */ method) =>
      quantized(
        folder,
        join(folder, `${method}.bq4`),
        '--calibrate',
        text,
        '--quant',
        'bq4',
        '--method',
        method,
      ).tensors.filter((/** @type {any} */ t) => modules.some((module) => t.name.endsWith(`${module}.weight`)));
    const [calibrated, searched] = [productsBy('gptaq'), productsBy('search')];
    assert.ok(calibrated.length >= modules.length);
    for (const [i, { name: tensor, product }] of calibrated.entries())
      assert.ok(product < searched[i].product, `${tensor}: ${product}, ${searched[i].product}`);
  });

test('quantize: a folder and a .bq4 file have the same result, the same bytes twice; errors of products are below those of `search`', async () => {
  const folder = fresh();
  const [text, floats, a, b, searched] = ['text.txt', 'f32.bq4', 'a.bq4', 'b.bq4', 'search.bq4'].map((n) =>
    join(folder, n),
  );
  writeFileSync(text, TEXT);
  assert.equal(bq4('convert', tiny, floats, '--quant', 'f32').status, 0);
  const report = quantized(tiny, a, '--calibrate', text, '--quant', 'bq4h');
  quantized(floats, b, '--calibrate', text, '--quant', 'bq4h');
  const search = quantized(tiny, searched, '--calibrate', text, '--quant', 'bq4h', '--method', 'search');
  assert.deepEqual(await contents(a), await contents(b));
  const again = join(folder, 'again.bq4');
  quantized(tiny, again, '--calibrate', text, '--quant', 'bq4h');
  assert.ok(readFileSync(again).equals(readFileSync(a)), 'the same file, its id too');
  const ids = [a, searched].map((path) => readFileSync(path).subarray(40, 56).toString('hex'));
  assert.notEqual(ids[0], ids[1]);
  assert.notEqual(ids[0], '0'.repeat(32));
  const types = new Map((await tensorsOf(a)).map(({ name, type }) => [name, type]));
  assert.deepEqual(
    ['h.0.mlp.up.weight', 'wte.weight', 'ln_f.weight'].map((name) => types.get(name)),
    ['bq4h_32', 'bq8_32', 'f32'],
  );
  const products = (/** @type {any} */ of) => of.tensors.filter((/** @type {any} */ t) => t.product !== undefined);
  assert.ok(products(report).length >= 14);
  for (const [i, { name, product }] of products(report).entries())
    assert.ok(product < products(search)[i].product, `${name}: ${product}, ${products(search)[i].product}`);
  const converted = join(folder, 'converted.bq4');
  assert.equal(bq4('convert', tiny, converted, '--quant', 'bq4h', '--calibrate', text).status, 0);
  assert.deepEqual(await contents(converted), await contents(a));
  const other = bq4('convert', tiny, join(folder, 'o.bq4'), '--calibrate', text, '--v1');
  assert.equal(other.status, 2);
  assert.match(other.stderr, /--v1 and --calibrate exclude each other/);
  const { status, stdout } = bq4('run', a, 'The', '--max-tokens', '8', '--temperature', '0', '--json');
  assert.equal(status, 0);
  assert.equal(JSON.parse(stdout).tokens.length, 8);
});

/**
 * Quantizes with types for a target size and a chart, with a number of threads; results are cached.
 * @type {Map<string, { out: string, svg: string, report: any }>}
 */
const mixed = new Map();
const SIZE = 75000;

/** @param {string} threads */
function mixedBy(threads) {
  if (!mixed.has(threads)) {
    const folder = fresh();
    const [text, out, svg] = ['text.txt', 'a & <b>.bq4', 'plot.svg'].map((name) => join(folder, name));
    writeFileSync(text, TEXT);
    const sized = ['--calibrate', text, '--target-size', String(SIZE)];
    mixed.set(threads, { out, svg, report: quantized(tiny, out, ...sized, '--plot', svg, '--threads', threads) });
  }
  return /** @type {{ out: string, svg: string, report: any }} */ (mixed.get(threads));
}

test('quantize --threads: one thread and three write the same file', async () => {
  const folder = fresh();
  const text = join(folder, 'text.txt');
  writeFileSync(text, TEXT);
  const plainBy = (/** @type {string[]} */ ...given) => {
    const out = join(folder, `${given.length} ${given.at(-1)}.bq4`);
    return { out, report: quantized(tiny, out, ...given) };
  };
  for (const by of [
    (/** @type {string} */ threads) => plainBy('--threads', threads),
    (/** @type {string} */ threads) => plainBy('--calibrate', text, '--threads', threads),
    mixedBy,
  ]) {
    const [one, three] = ['1', '3'].map(by);
    assert.ok(readFileSync(one.out).equals(readFileSync(three.out)), `${by}`);
    assert.deepEqual({ ...three.report, output: '' }, { ...one.report, output: '' });
  }
});

for (const threads of ['1', '3'])
  test(`quantize: Ctrl-C before a tensor is complete leaves no file, threads ${threads}`, async (t) => {
    const folder = fresh();
    const text = join(folder, 'text.txt');
    writeFileSync(text, TEXT.repeat(100));
    const temporary = join(folder, 'tmp');
    mkdirSync(temporary);
    const args = [join(root, 'bin/bq4.js'), 'quantize', tiny, join(folder, 'o.bq4'), '--calibrate', text];
    // Many tokens take long enough.
    const child = spawn(process.execPath, [...args, '--tokens', '5000000', '--threads', threads], {
      env: { ...process.env, TMPDIR: temporary },
    });
    t.after(() => child.kill('SIGKILL'));
    let message = '';
    child.stderr.on('data', (data) => (message += data));
    const ended = once(child, 'exit');
    const left = () => readdirSync(folder, { recursive: true }).map(String);
    // Moments are collected after the output file is created.
    await until('the file to be begun', () => existsSync(join(folder, 'o.bq4.part')), {
      state: () => [message, left()],
    });
    child.kill('SIGINT');
    assert.deepEqual(await inTime('its end', ended, { state: () => message }), [130, null]);
    assert.match(message, /stopped, nothing was written/);
    assert.deepEqual(left().sort(), ['text.txt', 'tmp']);
  });

test('quantize --target-size: types by the errors of each matrix, and the file is at most that large', async () => {
  const folder = fresh();
  const text = join(folder, 'text.txt');
  writeFileSync(text, TEXT);
  const sizes = [];
  const less = join(folder, 'a.bq4');
  for (const [size, out, report] of /** @type {[number, string, any][]} */ ([
    [62000, less, quantized(tiny, less, '--calibrate', text, '--target-size', '62000')],
    [SIZE, mixedBy('1').out, mixedBy('1').report],
  ])) {
    assert.ok(report.bytes <= size && report.bytes > 0.9 * size, `${report.bytes} of ${size}`);
    const types = (await tensorsOf(out)).filter(({ dims }) => dims.length === 2).map(({ type }) => type);
    assert.ok(new Set(types).size > 1, types.join());
    sizes.push(report.bytes);
  }
  assert.ok(sizes[0] < sizes[1]);
  const { status, stderr } = bq4('quantize', tiny, join(folder, 'o.bq4'), '--calibrate', text, '--target-size', '30KB');
  assert.equal(status, 2);
  assert.match(stderr, /--target-size: expected .* found "30KB"/);
  const small = bq4('quantize', tiny, join(folder, 'o.bq4'), '--calibrate', text, '--target-size', '0.03MB');
  assert.match(small.stderr, /the target size is \d+ bytes too small for the smallest types/);
});

/** Parses well-formed markup of a chart; throws otherwise. @param {string} xml */
function parsed(xml) {
  const text = String.raw`(?:[^<&"]|&(?:amp|lt|gt);)*`;
  const token = new RegExp(String.raw`<(/?)([a-z]+)((?: [\w:-]+="${text}")*)(/?)>|(${text.replace('"', '')})`, 'y');
  const root = { name: '', attributes: {}, text: '', children: [] };
  const open = [root];
  while (token.lastIndex < xml.length) {
    const at = token.lastIndex;
    const [all, close, name, attributes, alone, words] = token.exec(xml) ?? [''];
    assert.ok(all, `no XML: ${xml.slice(at, at + 80)}`);
    const [inside] = open.slice(-1);
    if (!name) inside.text += words;
    else if (close) assert.equal(open.pop()?.name, name);
    else {
      const pairs = [...attributes.matchAll(/ ([\w:-]+)="([^"]*)"/g)].map(([, key, value]) => [key, value]);
      const record = { name, attributes: Object.fromEntries(pairs), text: '', children: [] };
      assert.equal(Object.keys(record.attributes).length, pairs.length, `an attribute twice: ${all}`);
      inside.children.push(record);
      if (!alone) open.push(record);
    }
  }
  assert.deepEqual([open.length, root.children.length, root.text.trim()], [1, 1, ''], 'one root');
  return root.children[0];
}

test('quantize --plot: one mark for each matrix in each panel, in the order of the model, with its bits', async () => {
  const { out, svg, report } = mixedBy('1');
  const root = parsed(readFileSync(svg, 'utf8'));
  const [title, about, style] = root.children;
  assert.deepEqual([root.name, root.attributes.role, title.name, about.name], ['svg', 'img', 'title', 'desc']);
  assert.equal(root.attributes['aria-labelledby'], [title, about].map(({ attributes }) => attributes.id).join(' '));
  assert.equal(title.text, `a &amp; &lt;b&gt;.bq4: ${report.bitsPerWeight.toFixed(2)} bits per weight`);
  assert.match(style.text, /prefers-color-scheme: dark/);
  assert.doesNotMatch(readFileSync(svg, 'utf8'), /<script|https?:(?!\/\/www\.w3\.org\/2000\/svg")| on\w+=/);

  const dims = new Map((await tensorsOf(out)).map((tensor) => [tensor.name, tensor.dims]));
  const matrices = report.tensors.filter((/** @type {any} */ { name }) => dims.get(name)?.length === 2);
  assert.ok(matrices.length >= 15 && about.text.startsWith(`${matrices.length} matrices`), about.text);
  const all = (/** @type {any} */ node) => [node, ...node.children.flatMap(all)];
  const panels = root.children.filter(({ attributes }) => attributes['aria-label']);
  assert.deepEqual(
    panels.map(({ attributes }) => attributes['aria-label']),
    ['error of products, %', 'error of weights, rms', 'bits per weight'],
  );
  const values = [
    (/** @type {any} */ t) => t.product !== undefined && `${(100 * t.product).toFixed(2)} %`,
    (/** @type {any} */ t) => String(Number(t.rms.toPrecision(3))),
    (/** @type {any} */ t) => `${((8 * t.bytes) / t.weights).toFixed(2)} bits`,
  ];
  for (const [i, panel] of panels.entries()) {
    const marks = all(panel)
      .filter(({ name, children }) => name === 'path' && children[0]?.name === 'title')
      .map(({ attributes: { d }, children: [{ text }] }) => ({ x: Number(/^M([\d.]+)/.exec(d)?.[1]), text }));
    const reports = matrices.filter(values[i]).map((t) => `${t.name}: ${values[i](t)}, ${t.type}`);
    assert.deepEqual(
      // The offsets of marks differ by less than the distance of matrices.
      marks.sort((a, b) => a.x - b.x).map((mark) => mark.text),
      reports,
    );
  }
  const over = bq4('quantize', tiny, out, '--plot', out);
  assert.deepEqual([over.status, /--plot would replace/.test(over.stderr)], [2, true]);
});

test('quantize --target-ppl: the smallest file that meets the limit; invalid targets are refused', async () => {
  const folder = fresh();
  const text = join(folder, 'text.txt');
  writeFileSync(text, TEXT);
  const loose = quantized(tiny, join(folder, 'a.bq4'), '--calibrate', text, '--target-ppl', '50%');
  const tight = quantized(tiny, join(folder, 'b.bq4'), '--calibrate', text, '--target-ppl', '1');
  assert.ok(loose.bytes < tight.bytes, `${loose.bytes}, ${tight.bytes}`);
  for (const [given, words] of /** @type {[string[], RegExp][]} */ ([
    [['--calibrate', text, '--target-ppl', '0'], /--target-ppl: expected a percentage above 0, .* found "0"/],
    [['--target-ppl', '3%'], /choosing types needs a calibration text/],
    [['--calibrate', text, '--target-ppl', '3%', '--target-size', '1MB'], /exclude each other/],
  ]))
    assert.match(bq4('quantize', tiny, join(folder, 'o.bq4'), ...given).stderr, words);
  assert.deepEqual(readdirSync(folder).sort(), ['a.bq4', 'b.bq4', 'text.txt']);
});

test('quantize --smooth: other weights, the same function; models without norms for the factors are refused', async () => {
  const folder = fresh();
  const [text, plain, smooth, rounded] = ['text.txt', 'plain.bq4', 'smooth.bq4', 'rounded.bq4'].map((name) =>
    join(folder, name),
  );
  writeFileSync(text, TEXT);
  const floats = ['--quant', 'f32', '--embed', 'f32'];
  quantized(tiny, plain, ...floats);
  quantized(tiny, smooth, ...floats, '--calibrate', text, '--smooth', '0.5');
  const [before, after] = await Promise.all([plain, smooth].map(contents));
  const same = before.filter(([, , bytes], i) => bytes === after[i][2]).map(([name]) => String(name));
  // Every layer has factors, or compensates for them.
  assert.deepEqual(
    same.filter((name) => /^h\./.test(name)),
    [],
  );
  assert.ok(same.includes('wte.weight') && same.includes('ln_f.weight'), same.join());
  const { status, stdout, stderr } = bq4('perplexity', smooth, text, '--against', plain, '--kv', 'f32', '--json');
  assert.equal(status, 0, stderr);
  const { kl, agreement } = JSON.parse(stdout).against;
  assert.ok(kl < 1e-6 && agreement > 0.99, stdout);
  quantized(tiny, rounded, '--calibrate', text, '--smooth', '0.25', '--quant', 'bq4h');
  for (const [given, words] of /** @type {[string[], RegExp][]} */ ([
    [['--smooth', '0.5'], /--smooth needs a calibration text/],
    [['--calibrate', text, '--smooth', '2'], /--smooth: expected a number from 0 to 1, found 2/],
  ]))
    assert.match(bq4('quantize', tiny, join(folder, 'o.bq4'), ...given).stderr, words);
  assert.ok(!existsSync(join(folder, 'o.bq4')));
  // OLMo 2 has norms after attention and MLP.
  await withInput(join(root, 'tests/golden/fixtures/olmo2'), undefined, async ({ config, tensors }) => {
    const none = /** @type {any} */ (null); // refused before any computation
    await assert.rejects(smoothed(matchTensors(config, tensors), config, none, 0.5), {
      code: 'ARGUMENT',
      message: /layer 0 .* norm/,
    });
  });
});

// Operations between a product and its factors: norms and limits of values, norms of inputs, a second reader of a norm.
for (const [family, hasGates = false] of /** @type {[string, boolean?][]} */ ([
  ['llama-gqa'],
  ['llama-gqa', true],
  ['bitnet'],
  ['mpt'],
  ['falcon-h1'],
  ['gemma4'],
  ['gemma4-keys'],
]))
  test(`smoothed weights of ${family}${hasGates ? ' with gates of heads' : ''} compute the same`, async () => {
    const [folder, next] = [fresh(), random(3)];
    const fixture = join(root, 'tests/golden/fixtures', family);
    const { ids } = JSON.parse(readFileSync(join(fixture, 'expected.json'), 'utf8'));
    const [plain, smooth] = ['plain.bq4', 'smooth.bq4'].map((name) => join(folder, name));
    await withInput(fixture, undefined, async (input) => {
      const { config, tensors } = input;
      if (hasGates) {
        config.attn_gate = 'heads';
        for (const layer of Array(config.layers).keys()) {
          const gates = Float32Array.from({ length: config.heads * config.hidden }, next);
          tensors.set(`h.${layer}.attn.gate.weight`, {
            dims: [config.heads, config.hidden],
            read: async (row, n) => gates.subarray(row * config.hidden, (row + n) * config.hidden),
          });
        }
      }
      const momentsOf = async (/** @type {string} */ name) => {
        const cols = /** @type {number} */ (tensors.get(name)?.dims[1]);
        const values = new Float32Array(cols * cols);
        for (let i = 0; i < cols; i++) values[i * (cols + 1)] = Math.exp(2 * next());
        return { cols, values };
      };
      const matches = matchTensors(config, tensors);
      const changed = await smoothed(matches, config, /** @type {any} */ ({ momentsOf }), 0.5);
      const floats = { quant: 'f32', embed: 'f32' };
      await quantize(input, plain, floats);
      const others = new Map(changed.map(({ slot, tensor }) => [slot.name, tensor]));
      await quantize({ ...input, tensors: others }, smooth, floats);
    });
    const [before, after] = await Promise.all([plain, smooth].map(contents));
    assert.notDeepEqual(before, after);
    const logitsOf = async (/** @type {string} */ path) => {
      const model = await openLogits(fromFile(path), { contextTokens: 40 });
      const rows = ids.map((/** @type {number} */ id, /** @type {number} */ i) =>
        i ? model.next(id) : model.start([id]),
      );
      model.close();
      return rows.flatMap((/** @type {Float32Array} */ row) => [...row]);
    };
    const [wanted, found] = [await logitsOf(plain), await logitsOf(smooth)];
    const most = Math.max(...wanted.map(Math.abs));
    wanted.forEach((/** @type {number} */ x, /** @type {number} */ i) =>
      assert.ok(Math.abs(x - found[i]) < 1e-4 * most, `logit ${i} is ${found[i]}, not ${x}`),
    );
  });

test('a perplexity limit is met with few files, or an error says that no file meets it', async () => {
  const choices = Array.from({ length: 20 }, (_, i) => ({
    name: `${i}`,
    bytes: [100, 120, 200],
    loss: [0.02 * (i + 1), 0.005 * (i + 1), 0.00001],
  }));
  const taken = (/** @type {Map<string, number>} */ steps) =>
    choices.reduce((sum, { name, bytes }) => sum + bytes[steps.get(name) ?? 0], 0);
  // Together, their loss differs from the sum of single losses.
  for (const times of [0.1, 1, 7]) {
    /** @type {{ bytes: number, grown: number }[]} */
    const tried = [];
    const steps = await stepsWithin(choices, 5, async (steps) => {
      const loss = choices.reduce((sum, { name, loss }) => sum + loss[steps.get(name) ?? 0], 0);
      const grown = 100 * Math.expm1(times * loss);
      tried.push({ bytes: taken(steps), grown });
      return grown;
    });
    const right = tried.filter(({ grown }) => grown <= 5);
    assert.equal(taken(steps), Math.min(...right.map(({ bytes }) => bytes)), `${times}`);
    assert.ok(tried.length <= 6 && Math.max(...right.map(({ grown }) => grown)) > 2.5, JSON.stringify(tried));
  }
  await assert.rejects(
    stepsWithin(choices, 5, async () => 6),
    { code: 'ARGUMENT', message: /perplexity grows by more than 5 % with all types that were tried/ },
  );
  const grown = [6, 4];
  await stepsWithin(choices.slice(0, 1), 5, async () => Number(grown.shift())); // the same steps with a smaller allowed loss
  assert.deepEqual(grown, []);
  assert.equal(taken(await stepsWithin(choices, 5, async () => -1)), 2000, 'the smallest, where nothing is lost');
});

test('bits are assigned where they reduce the error most per byte', () => {
  const choices = [
    { name: 'a', bytes: [10, 12, 20], loss: [8, 4, 0] },
    { name: 'b', bytes: [10, 12, 20], loss: [1, 0.5, 0] },
    { name: 'c', bytes: [100, 120, 200], loss: [8, 4, 0] },
  ];
  const chosen = (/** @type {number} */ room) => [...spend(choices, room).values()].join('');
  assert.equal(chosen(120), '000');
  assert.equal(chosen(121.9), '000');
  assert.equal(chosen(122), '100');
  assert.equal(chosen(130), '200');
  assert.equal(chosen(132), '210');
  assert.equal(chosen(1000), '222');
  assert.throws(() => chosen(119), { code: 'ARGUMENT' });
});

test('a text far longer than memory: moments include all of it', async () => {
  for (const [text, count] of /** @type {const} */ ([
    ['', 0],
    ['a'.repeat(100), 1],
    ['a'.repeat(100 + 1), 2],
    ['abc '.repeat(100), 5],
    [`a${'🎈'.repeat(100)}`, 3],
  ])) {
    const pieces = [...chunksOf(text, 100)];
    assert.equal(pieces.join(''), text);
    // An unpaired surrogate would throw.
    for (const piece of pieces) assert.ok(piece.length <= 100 && encodeURI(piece), `${piece.length}`);
    assert.equal(pieces.length, count);
  }
  const folder = fresh();
  const [long, short, wide] = ['long.txt', 'short.txt', 'wide.txt'].map((name) => join(folder, name));
  writeFileSync(long, TEXT.repeat(300));
  writeFileSync(short, TEXT.slice(0, 1000));
  writeFileSync(wide, '百年孤独'.repeat(50000));
  const items = [long, short, wide].map((text) => {
    const out = join(folder, 'out.bq4');
    quantized(tiny, out, '--calibrate', text, '--tokens', '100');
    return readFileSync(out).toString('base64');
  });
  assert.equal(items[0], items[1]);
  assert.notEqual(items[0], items[2]);
  const perplexity = [long, short].map((text) => {
    const { status, stdout, stderr } = bq4('perplexity', tiny, text, '--tokens', '100', '--json');
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout).perplexity;
  });
  assert.equal(perplexity[0], perplexity[1]);
});

test('moments are increased by fractions of their mean and of their diagonal', async () => {
  const { rows, cols } = golden;
  // One input is far larger than all others and determines the mean.
  const moments = floats(golden.moments).map((x, i) => x * (i % cols ? 1 : 100) * (i < cols ? 100 : 1));
  const blocks = async (/** @type {{ damp: number, relativeDamp?: number }} */ raised) => {
    const rounder = await Rounder.create([[rows, cols]], { feedback: true, sweeps: 0, ...raised });
    rounder.use({ key: 'x', cols, values: moments });
    const { bytes, errors } = rounder.round(typeNamed('bq4h_32'), ROWS, floats(golden.weights), rows, cols);
    rounder.close();
    return { text: Buffer.from(bytes).toString('base64'), errors };
  };
  const usual = await blocks({ damp: 0.001 });
  assert.deepEqual(await blocks({ damp: 0.001, relativeDamp: 0 }), usual);
  assert.notEqual((await blocks({ damp: 0.001, relativeDamp: 0.1 })).text, usual.text);
  // The result of C, computed here: twice the diagonal.
  const twice = moments.map((x, i) => (i % (cols + 1) ? x : 2 * x));
  const rounder = await Rounder.create([[rows, cols]], { feedback: true, sweeps: 0, damp: 0.001 });
  rounder.use({ key: 'x', cols, values: twice });
  const { bytes } = rounder.round(typeNamed('bq4h_32'), ROWS, floats(golden.weights), rows, cols);
  rounder.close();
  assert.equal((await blocks({ damp: 0.001, relativeDamp: 1 })).text, Buffer.from(bytes).toString('base64'));
});

test('quantize: wrong arguments', () => {
  const folder = fresh();
  const empty = join(folder, 'empty.txt');
  writeFileSync(empty, '');
  for (const [args, message] of /** @type {const} */ ([
    [['--calibrate', join(folder, 'none.txt')], /none\.txt can't be read/],
    [['--calibrate', empty], /calibration text has no tokens/],
    [['--method', 'magic'], /--method: expected one of search, gptq/],
    [['--quant', 'q9'], /unknown weight type "q9"/],
    [['--threads', '0'], /--threads: expected an integer of at least 1, found 0/],
    [['--target-size', '1MB'], /choosing types needs a calibration text/],
  ])) {
    const { status, stderr } = bq4('quantize', tiny, join(folder, 'out.bq4'), ...args);
    assert.equal(status, 1);
    assert.match(stderr, message);
    assert.ok(!existsSync(join(folder, 'out.bq4')));
  }
  writeFileSync(empty, 'a text');
  const mute = bq4(
    'quantize',
    join(root, 'tests/golden/gguf/llama-gqa.gguf'),
    join(folder, 'o.bq4'),
    '--calibrate',
    empty,
  );
  assert.match(mute.stderr, /the model has no tokenizer/);
});
