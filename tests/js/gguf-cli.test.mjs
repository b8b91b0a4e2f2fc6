// Tests of GGUF files on the command line: inspect, convert, run.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { faultServer } from '../server/faults.mjs';
import { hfConfig, hfFolder, hfName, llama2c, randomWeights } from './checkpoints.mjs';
import { CONFIG } from './fixture.mjs';
import { bytesTokenizer, gguf, ggufTensor, llamaMetadata, randomParts } from './gguf-writer.mjs';
import { torchZip } from './torch-writer.mjs';

const program = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bq4-gguf-cli-'));
after(() => rmSync(folder, { recursive: true }));

const config = { ...CONFIG, hidden: 64, ffn: 96, layers: 2, context: 64, rope_pairs: 'adjacent' };
const weights = randomWeights(config);
const tensors = [...weights].map(([name, tensor]) =>
  ggufTensor(name, tensor, name.startsWith('wte') ? 'q8_0' : 'q4_1'),
);
const metadata = { ...llamaMetadata(config), ...bytesTokenizer(config.vocab) };
const path = join(folder, 'tiny.gguf');
writeFileSync(path, gguf(metadata, tensors));

/** @param {string[]} args */
const bq4 = (...args) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
};

test('inspect prints the properties of a GGUF file as text and as JSON', () => {
  const { status, stdout } = bq4('inspect', path);
  assert.equal(status, 0);
  for (const row of [
    /format +GGUF v3/,
    /architecture +llama/,
    /name +Tiny/,
    /licence +mit/,
    /integrity +sha256-/,
    /Q4_1 +14 tensors, .*5\.00 bits each/,
    /Q8_0 +1 tensors/,
    /F32 +5 tensors/,
    /split +gpt-2/,
    /chat template\n +jinja/,
    /norm_eps +0\.00001\n/,
    /heap +.* for 1 session of 64 tokens/,
  ])
    assert.match(stdout, row);
  const report = JSON.parse(bq4('inspect', path, '--json').stdout);
  assert.deepEqual(
    [
      report.format.container,
      report.format.version,
      report.tokenizer.tokens,
      report.config.layers,
      report.plan.weightBytes > 0,
    ],
    ['GGUF', 3, config.vocab, 2, true],
  );
  assert.deepEqual(
    report.types.map((/** @type {any} */ t) => [t.type, t.tensors]),
    [
      ['Q4_1', 14],
      ['Q8_0', 1],
      ['F32', 5],
    ],
  );
});

test('inspect names unsupported properties next to supported ones', () => {
  const other = join(folder, 'other.gguf');
  writeFileSync(
    other,
    gguf({ ...metadata, 'general.architecture': ['text', 'rwkv99'] }, [
      { ...tensors[0], type: 16 },
      ...tensors.slice(1),
    ]),
  );
  const { status, stdout } = bq4('inspect', other);
  assert.equal(status, 0);
  assert.match(stdout, /UNSUPPORTED: the GGUF file has the unsupported architecture "rwkv99"\n +expected one of llama/);
  assert.match(stdout, /IQ2_XXS +1 tensors/);
});

test('inspect handles a template, a name and an architecture that are no texts', () => {
  const other = join(folder, 'numbers.gguf');
  const number = /** @type {import('./gguf-writer.mjs').Value} */ (['u32', 7]);
  const keys = ['tokenizer.chat_template', 'general.name', 'general.license', 'general.architecture'];
  for (const key of keys) {
    writeFileSync(other, gguf({ ...metadata, [key]: number }, tensors));
    for (const more of [[], ['--json']]) {
      const { status, stderr } = bq4('inspect', other, ...more);
      assert.deepEqual([status, stderr], [0, ''], key);
    }
  }
});

test('inspect: a Hugging Face folder, a safetensors file and a llama2.c checkpoint', () => {
  const plain = { ...config, rope_pairs: 'half' };
  const hf = hfFolder(join(folder, 'hf'), weights, { config: hfConfig(plain), dtype: 'F16' });
  for (const name of [hf, join(hf, 'model.safetensors')]) {
    const report = JSON.parse(bq4('inspect', name, '--json').stdout);
    assert.deepEqual(
      [report.architecture, report.config.layers, report.types[0].type, report.types[0].tensors],
      ['llama', 2, 'F16', weights.size],
      name,
    );
  }
  assert.equal(JSON.parse(bq4('inspect', hf, '--json').stdout).template, null);
  writeFileSync(join(hf, 'chat_template.jinja'), '{{ messages[0].content }}');
  assert.deepEqual(JSON.parse(bq4('inspect', hf, '--json').stdout).template, { kind: 'jinja', bytes: 25 });
  mkdirSync(join(folder, 'l2'));
  const bin = join(folder, 'l2', 'model.bin');
  writeFileSync(bin, llama2c(weights, 'legacy', plain));
  const report = JSON.parse(bq4('inspect', bin, '--json').stdout);
  assert.deepEqual(
    [report.format.container, report.config.layers, report.tensors.length],
    ['llama2.c checkpoint', 2, weights.size],
  );
});

test('inspect reads files saved by PyTorch, alone and in a folder', () => {
  const hf = hfFolder(join(folder, 'torch'), weights, { config: hfConfig({ ...config, rope_pairs: 'half' }) });
  rmSync(join(hf, 'model.safetensors'));
  const named = [...weights].map(([name, tensor]) => /** @type {[string, any]} */ ([hfName(name), tensor]));
  const [bin, pt] = [join(hf, 'pytorch_model.bin'), join(hf, 'model.pt')];
  for (const file of [bin, pt]) writeFileSync(file, torchZip(named));
  for (const file of [bin, pt, hf]) {
    const { status, stdout, stderr } = bq4('inspect', file, '--json');
    assert.equal(status, 0, stderr);
    const report = JSON.parse(stdout);
    assert.deepEqual(
      [report.format.container, report.architecture, report.config.layers, report.tensors.length],
      [file === hf ? 'Hugging Face folder' : 'PyTorch checkpoint', 'llama', 2, weights.size],
      file,
    );
    assert.deepEqual(
      report.types.map((/** @type {any} */ t) => [t.type, t.tensors]),
      [['F32', weights.size]],
      file,
    );
  }
});

test('inspect lists the tensors of all parts of a GGUF file, given the first part', () => {
  const parts = randomParts(config, 3);
  const names = parts.map((_, i) => join(folder, `m-0000${i + 1}-of-00003.gguf`));
  names.forEach((name, i) => writeFileSync(name, parts[i]));
  const { status, stdout, stderr } = bq4('inspect', names[0]);
  assert.equal(status, 0, stderr);
  assert.match(stdout, /format +GGUF v3, 3 files\n/);
  assert.match(stdout, new RegExp(`bytes +${parts.reduce((sum, { length }) => sum + length, 0)}\\n`));
  assert.match(stdout, /heap +.* for 1 session of 64 tokens/);
  const { config: found, tensors: list, integrity } = JSON.parse(bq4('inspect', names[0], '--json').stdout);
  assert.deepEqual([found.layers, list.length, integrity], [2, weights.size, undefined]);
  const alone = bq4('inspect', names[1]);
  assert.equal(alone.status, 0);
  assert.match(
    alone.stdout,
    /can't be planned: FORMAT: .* is one of 3 parts of a model, but 1 were given\n +load the first part/,
  );
});

test('inspect and run print the same for an address as for a path', async () => {
  const server = await faultServer({ '/tiny.gguf': readFileSync(path) });
  // The server lives in this process, so the program must not block it.
  const ask = async (/** @type {string[]} */ ...args) => {
    const child = spawn(process.execPath, [program, ...args]);
    const [out, error, [code]] = await Promise.all([
      child.stdout.toArray(),
      child.stderr.toArray(),
      once(child, 'exit'),
    ]);
    assert.equal(code, 0, error.join(''));
    return JSON.parse(out.join(''));
  };
  const url = server.at('/tiny.gguf');
  const [card, own] = [await ask('inspect', url, '--json'), JSON.parse(bq4('inspect', path, '--json').stdout)];
  const common = (/** @type {any} */ { file, plan, ...rest }) => ({ ...rest, weights: plan.weightBytes });
  assert.deepEqual(common(card), common(own));
  const options = ['Hello', '--temperature', '0', '--max-tokens', '6', '--json'];
  const { tokens: ids } = await ask('run', url, ...options);
  assert.equal(ids.length, 6);
  assert.deepEqual(ids, JSON.parse(bq4('run', path, ...options).stdout).tokens);
  assert.ok(server.asked().every(({ range }) => range));
  await server.close();
});

test('convert keeps every weight: the .bq4 file generates the same text as the GGUF file', () => {
  const to = join(folder, 'tiny.bq4');
  const report = JSON.parse(bq4('convert', path, to, '--json', '--hash', 'sha256').stdout);
  assert.ok(report.tensors.every((/** @type {any} */ t) => t.maxAbs === 0) && report.tensors.length === weights.size);
  const card = JSON.parse(bq4('inspect', to, '--json').stdout);
  assert.deepEqual([card.name, card.license, card.hashes.damaged, card.template.kind], ['Tiny', 'mit', [], 'jinja']);
  const answers = [path, to].map(
    (file) => JSON.parse(bq4('run', file, 'Hello', '--temperature', '0', '--max-tokens', '6', '--json').stdout).tokens,
  );
  assert.equal(answers[0].length, 6);
  assert.deepEqual(answers[0], answers[1]);
  const { status, stderr } = bq4('convert', path, to, '--activation-steps', 'steps.json');
  assert.equal(status, 1);
  assert.match(stderr, /--activation-steps is not supported for GGUF files/);
});

test('convert writes no file that the engine refuses, and refuses to replace its input or anything that is no file', () => {
  const [other, to] = [join(folder, 'refused.gguf'), join(folder, 'refused.bq4')];
  const refused = /** @type {[string, Buffer, RegExp][]} */ ([
    ['a tensor is missing', gguf(metadata, tensors.slice(0, -1)), /^bq4: SHAPE: tensor ".*" is missing/],
    ['no layers', gguf({ ...metadata, 'llama.block_count': ['u32', 0] }, tensors), /^bq4: FORMAT: layers is 0/],
    ['no context', gguf({ ...metadata, 'llama.context_length': ['u32', 0] }, tensors), /^bq4: FORMAT: context is 0/],
  ]);
  for (const [what, bytes, says] of refused) {
    writeFileSync(other, bytes);
    const { status, stderr } = bq4('convert', other, to);
    assert.equal(status, 1, what);
    assert.match(stderr, says);
    assert.ok(!existsSync(to) && !existsSync(`${to}.part`), what);
  }
  writeFileSync(other, '{');
  const chat = bq4('convert', path, to, '--chat', other);
  assert.equal(chat.status, 1);
  assert.match(chat.stderr, /^bq4: FORMAT: .* is not valid JSON/);
  assert.ok(!existsSync(to) && !existsSync(`${to}.part`));
  const before = readFileSync(path);
  for (const command of ['convert', 'quantize']) {
    const { status, stderr } = bq4(command, path, path);
    assert.equal(status, 2);
    assert.match(stderr, /would replace a file that it reads: choose another name for OUT/);
  }
  for (const [words, name] of /** @type {[string[], string][]} */ ([
    [['prompt-cache', path, path, '--system', 'x'], 'OUT'],
    [['bundle', path, path], 'PAGE.html'],
    [['train-classifier', path, other, other], 'CLASSIFIER.json'],
    [['train-classifier', path, other, path], 'CLASSIFIER.json'],
  ])) {
    const { status, stderr } = bq4(...words);
    assert.equal(status, 2, words.join(' '));
    assert.ok(stderr.includes(`would replace a file that it reads: choose another name for ${name}\n`), stderr);
  }
  assert.equal(readFileSync(other, 'utf8'), '{');
  assert.deepEqual(readFileSync(path), before);
  const inside = join(folder, 'a folder');
  mkdirSync(inside);
  assert.match(bq4('convert', path, inside).stderr, /^bq4: WRITE: .* can't be written: it is a folder/);
  assert.ok(!existsSync(`${inside}.part`));
});

for (const [what, value] of /** @type {[string, number][]} */ ([
  ['no number', NaN],
  ['infinite', -Infinity],
]))
  test(`a norm's weight that is ${what}: convert and run refuse it by the tensor's name`, async () => {
    const [other, to] = [join(folder, 'norm.gguf'), join(folder, 'norm.bq4')];
    const damaged = [...weights].map(([name, tensor]) => {
      if (name !== 'h.0.ln2.weight') return ggufTensor(name, tensor, name.startsWith('wte') ? 'q8_0' : 'q4_1');
      const values = Float32Array.from(tensor.values, (weight, i) => (i === 5 ? value : weight));
      return ggufTensor(name, { ...tensor, values }, 'f32');
    });
    writeFileSync(other, gguf(metadata, damaged));
    for (const args of [
      ['convert', other, to],
      ['convert', other, to, '--quant', 'bq8'],
      ['run', other, 'Hello'],
    ]) {
      const { status, stderr } = bq4(...args);
      assert.equal(status, 1, args.join(' '));
      assert.match(stderr, /^bq4: FORMAT: tensor "h\.0\.ln2\.weight"/m, args.join(' '));
      assert.ok(!existsSync(to) && !existsSync(`${to}.part`), args.join(' '));
    }
  });

test('chat gives the same replies with a GGUF file as with its .bq4 file', () => {
  const [from, to] = [join(folder, 'talk.gguf'), join(folder, 'talk.bq4')];
  const template =
    '{% for m in messages %}[{{ m.role }}] {{ m.content }}\\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}';
  writeFileSync(from, gguf({ ...metadata, 'tokenizer.chat_template': ['text', template] }, tensors));
  assert.equal(bq4('convert', from, to).status, 0);
  const [own, converted] = [from, to].map((file) => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [program, 'chat', file, '--max-tokens', '5', '--temperature', '0'],
      { encoding: 'utf8', input: 'Hello\n/again\n/new\nHello\n' },
    );
    assert.equal(status, 0, stderr);
    return stdout.replaceAll('> ', '');
  });
  const [first, again, anew] = own.split('\n');
  assert.ok(first.length > 0 && again === first && anew === first, own);
  assert.equal(own, converted);
});

test('convert to another type writes a .bq4 file with this type that generates text', () => {
  const to = join(folder, 'anew.bq4');
  const { tensors } = JSON.parse(bq4('convert', path, to, '--quant', 'bq4h', '--embed', 'bq4h', '--json').stdout);
  assert.deepEqual(new Set(tensors.map((/** @type {any} */ t) => t.type)), new Set(['bq4h_32', 'f32']));
  const card = JSON.parse(bq4('inspect', to, '--json').stdout);
  assert.deepEqual([card.name, card.license, card.hashes.damaged, card.template.kind], ['Tiny', 'mit', [], 'jinja']);
  const answer = bq4('run', to, 'Hello', '--temperature', '0', '--max-tokens', '6', '--json');
  assert.equal(JSON.parse(answer.stdout).tokens.length, 6);
});
