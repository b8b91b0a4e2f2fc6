// Tests of .bullet files: JavaScript and an independent program in Python, written from docs/FORMAT.md, read and write the same files; each
// error has a code.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { nameHash } from '../../js/format/bullet/blocks.js';
import { convert } from '../../js/convert/index.js';
import { readBullet } from '../../js/format/bullet/read.js';
import { KIND, TOKEN } from '../../js/text/tokenizers/section.js';
import { listedText } from '../../js/text/tokenizers/wordlist.js';
import { matrixOf } from '../../js/format/bq4/write-v2.js';
import { createEngine, fromFile } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { inspect } from '../../bin/inspect.js';
import { CONFIG, llama2c, randomWeights, safetensors, tokenizerBin } from './checkpoints.mjs';
import { dequantize } from './encode.mjs';
import { random } from './fixture.mjs';
import { testFolder } from './folders.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const { fresh } = testFolder('bullet');

const SMALL = {
  arch: 'bullet',
  layers: 1,
  hidden: 6,
  heads: 1,
  kv_heads: 1,
  ffn: 7,
  vocab: 11,
  context: 5,
  norm: 'layer',
  norm_eps: 0.00001,
  position: 'learned',
  activation: 'gelu',
  gated: true,
  tied: false,
};
const LLAMA = {
  ...CONFIG,
  arch: 'llama',
  layers: 2,
  hidden: 10,
  heads: 1,
  kv_heads: 1,
  ffn: 33,
  vocab: 37,
  context: 9,
  norm: 'rms',
  rope_theta: 10000,
};
const WORDS = ['<unk>', '<s>', '</s>', ' the', 'é', '', '\ufeffx', '漢字', '<0x0A>', '<0xE6><0xBC>'];

/** A folder in our own layout. @param {Record<string, any>} config @param {Map<string, any>} weights */
function ownFolder(config, weights) {
  const path = fresh();
  writeFileSync(join(path, 'config.json'), JSON.stringify({ model_type: 'bq4', ...config }));
  writeFileSync(join(path, 'model.safetensors'), safetensors([...weights]));
  return path;
}

/** Weights of every kind that a block makes something else of. @param {Record<string, any>} config @param {number} seed */
function oddWeights(config, seed) {
  const weights = randomWeights(config, { biases: seed % 2 === 0, seed });
  const next = random(seed + 100);
  /** @type {((at: number) => number)[]} */
  const kinds = [
    () => 0,
    () => next() * 2 ** -22,
    () => 3 + next(),
    () => -0.5 + 0.01 * next(),
    () => 1e5 * next(),
    () => 2 ** -149,
    () => next() * 2 ** -26,
    () => (next() > 0.8 ? -3 : 3),
    // Ties: of the weights, then of the zero point.
    (at) => (at % 32 ? Math.round(14 * next()) / 4 : 3.5),
    (at) => [7, 1, 1, 1, 1, 1, 1, 1, 1, 1][at % 32] ?? 0,
    (at) => [-7, -1, -1, -1, -1, -1, -1, -1, -1, -1][at % 32] ?? 0,
  ];
  [...weights.values()].forEach(({ values }, i) => {
    if (i % 3) for (let at = 0; at < values.length; at++) values[at] = kinds[(i + (at >> 5)) % kinds.length](at);
  });
  return weights;
}

/** @param {string} mode @param {string} from @param {string} to */
const python = (mode, from, to) =>
  execFileSync(process.env.BQ4_PYTHON ?? 'python3', ['-B', join(ROOT, 'tests/py/bullet_reference.py'), mode, from, to]);
/** @param {Float32Array} values */
const base64 = (values) => Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64');

/** @param {import('../../js/format/checkpoint-tensors.js').InTensor} tensor @param {number} [step]  rows at once */
async function whole({ dims, read }, step = Infinity) {
  const { rows, cols } = matrixOf(dims);
  const out = new Float32Array(rows * cols);
  for (let row = 0; row < rows; row += step) out.set(await read(row, Math.min(step, rows - row)), row * cols);
  return out;
}

test('hashes of names are FNV-1a', () => {
  assert.deepEqual(
    ['', 'a', 'foobar'].map((name) => nameHash(name).toString(16)),
    ['cbf29ce484222325', 'af63dc4c8601ec8c', '85944171f73967e8'],
  );
});

test('JavaScript writes the same bytes as Python and reads the same weights', async () => {
  for (const [seed, config] of [SMALL, LLAMA, { ...SMALL, ffn: 131, vocab: 300, tied: true }].entries()) {
    const weights = oddWeights(config, seed);
    const path = fresh();
    const [json, theirs, ours, read, bq4] = ['in.json', 'py.bullet', 'js.bullet', 'out.json', 'out.bq4'].map((name) =>
      join(path, name),
    );
    const words = WORDS.slice(0, seed === 1 ? 0 : WORDS.length);
    const vocab = join(path, 'vocab.txt');
    writeFileSync(vocab, words.map((word) => `${word}\n`).join(''));
    const { arch, ...dimensions } = config;
    const model = {
      name: 'Ein Modell "é"',
      architecture: arch,
      dimensions,
      tokens: words,
      tensors: [...weights].map(([name, { dims, values }]) => [name, dims, base64(values)]),
    };
    writeFileSync(json, JSON.stringify(model));
    const report = await convert(ownFolder(config, weights), ours, {
      name: model.name,
      ...(words.length && { tokenizer: vocab }),
    });
    python('write', json, theirs);
    assert.ok(readFileSync(ours).equals(readFileSync(theirs)), `file ${seed}`);
    assert.equal(report.bytes, readFileSync(ours).length);

    python('read', ours, read);
    const expected = new Map(
      JSON.parse(readFileSync(read, 'utf8')).tensors.map((/** @type {any[]} */ [hash, ...rest]) => [hash, rest]),
    );
    const {
      tensors,
      name,
      tokenizer,
      config: found,
    } = await readBullet(openBytes(new Uint8Array(readFileSync(theirs))));
    assert.equal(name, model.name);
    assert.deepEqual(found, { ...dimensions, arch });
    assert.deepEqual(tokenizer?.tokens.map(listedText) ?? [], words);
    assert.deepEqual([...tensors.keys()], [...weights.keys()]);
    await convert(theirs, bq4, { quant: 'f32' });
    const bytes = new Uint8Array(readFileSync(bq4));
    const stored = new Map((await inspect(openBytes(bytes))).tensors.map((t) => [t.name, t]));
    for (const [tensor, { dims, values }] of weights) {
      const [shape, data] = expected.get(nameHash(tensor).toString(16).padStart(16, '0'));
      const back = await whole(tensors.get(tensor));
      assert.deepEqual([shape, base64(back)], [dims, data], tensor);
      assert.equal(base64(await whole(tensors.get(tensor), 3)), data, `${tensor}, three rows at a time`);
      const { offset, bytes: n } = stored.get(tensor);
      assert.equal(
        base64(dequantize(0, 0, bytes.slice(offset, offset + n), matrixOf(dims).rows, matrixOf(dims).cols)),
        data,
        `${tensor} of the .bq4 file`,
      );
      const most = Math.max(...values.map((v, i) => Math.abs(Math.fround(v - back[i]))));
      assert.equal(report.tensors.find((t) => t.name === tensor)?.maxAbs, most, tensor);
    }
  }
});

test("the command: a vocabulary or the model's own tokenizer goes in, a card and a .bq4 file that runs come out", async () => {
  const path = fresh();
  const at = (/** @type {string} */ name) => join(path, name);
  writeFileSync(at('model.bin'), llama2c(randomWeights(), 'v1'));
  writeFileSync(at('tokenizer.bin'), tokenizerBin(CONFIG.vocab));
  writeFileSync(at('vocab.txt'), '<unk>\r\n<s>\r\n</s>\r\n the\r\n cat\r\n');
  const run = (/** @type {string[]} */ ...args) =>
    spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), ...args], { encoding: 'utf8' });
  const good = run('convert', at('model.bin'), at('out.bullet'), '--tokenizer', at('vocab.txt'), '--json');
  assert.equal(good.status, 0, good.stderr);
  assert.equal(JSON.parse(good.stdout).encoder, 'js');
  const card = JSON.parse(run('inspect', at('out.bullet'), '--json').stdout);
  assert.deepEqual(card.tensors[0], {
    name: 'wte.weight',
    type: 'bullet',
    layout: 'flat',
    dims: [52, 24],
    offset: 4160,
    bytes: 780,
  });
  assert.deepEqual(
    [card.format.container, card.architecture, card.name, card.tokenizer, card.tensors.length],
    ['bullet', 'llama', 'model', { kind: 'wordlist', tokens: 5 }, randomWeights().size],
  );
  assert.equal(run('convert', at('out.bullet'), at('out.bq4')).status, 0);
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromFile(at('out.bq4')));
  assert.deepEqual([...(await model.tokenize(' the cat the dog'))].slice(0, 3), [3, 4, 3]);
  assert.equal(
    (await (await model.createSession()).generate(' the cat', { maxTokens: 3, temperature: 0 }).result).tokens.length >
      0,
    true,
  );
  await model.close();
  await engine.close();

  // Its own tokenizer, of which bytes are written as SentencePiece writes them.
  await convert(at('model.bin'), at('own.bullet'));
  const { tokenizer } = await readBullet(openBytes(new Uint8Array(readFileSync(at('own.bullet')))));
  const { kind, bos, eos, unk, eog, tokens } = tokenizer;
  assert.deepEqual(
    { kind, bos, eos, unk, eog, tokens: tokens.length },
    { kind: KIND.wordlist, bos: 1, eos: 2, unk: 0, eog: [2], tokens: CONFIG.vocab },
  );
  assert.deepEqual(
    [tokens[3], tokens[4].bytes],
    [{ bytes: Uint8Array.of(10), score: 0, kind: TOKEN.byte }, new TextEncoder().encode(' w0')],
  );
  assert.deepEqual([tokens[0].kind, tokens[1].kind, tokens[4].kind], [TOKEN.unknown, TOKEN.control, TOKEN.normal]);
  // A tokenizer that is passed counts more than the file's.
  await convert(at('own.bullet'), at('again.bq4'), { tokenizer: at('tokenizer.bin') });
  assert.equal((await inspect(openBytes(new Uint8Array(readFileSync(at('again.bq4')))))).tokenizer?.kind, 'spm');
});

/** @param {string} tensor @param {number} value */
const withWeight = (tensor, value) => {
  const weights = randomWeights(SMALL);
  weights.get(tensor).values[3] = value;
  return ownFolder(SMALL, weights);
};

test('a refused file is not written and leaves no partial file', async () => {
  const wide = { ...SMALL, vocab: 65536, hidden: 2, ffn: 2 };
  const input = ownFolder(SMALL, randomWeights(SMALL));
  const long = join(fresh(), 'vocab.txt');
  writeFileSync(long, `a\n${'b'.repeat(65536)}\n`);
  const bert = join(fresh(), 'vocab.txt');
  writeFileSync(bert, '[CLS]\na\n##b\n');
  const many = join(fresh(), 'vocab.txt');
  writeFileSync(many, 'a\n'.repeat(12));
  for (const [from, options, code, message] of /** @type {[string, any, string, RegExp][]} */ ([
    [ownFolder(wide, randomWeights(wide)), {}, 'SHAPE', /"wte\.weight" is 65536 × 2; .* is 65535/],
    [withWeight('ln_f.weight', NaN), {}, 'FORMAT', /"ln_f\.weight", weight 3 is NaN/],
    [withWeight('wte.weight', -Infinity), {}, 'FORMAT', /"wte\.weight", weight 3 is -Infinity/],
    [withWeight('wte.weight', 5e5), {}, 'FORMAT', /"wte\.weight", weight 3 is 500000/],
    [input, { tokenizer: long }, 'SHAPE', /token 1 has 65536 bytes/],
    [input, { tokenizer: bert }, 'UNSUPPORTED', /WordPiece/],
    [input, { tokenizer: many }, 'SHAPE', /12 tokens; the model has 11/],
    [input, { name: 'x'.repeat(1 << 20) }, 'ARGUMENT', /JSON/],
    ...['quant', 'embed'].map((name) => [input, { [name]: 'bq4' }, 'ARGUMENT', new RegExp(`--${name}`)]),
    [input, { v1: true }, 'ARGUMENT', /--v1/],
    [input, { license: 'MIT' }, 'ARGUMENT', /--license/],
    [input, { hash: 'sha256' }, 'ARGUMENT', /--hash/],
  ])) {
    const out = fresh();
    await assert.rejects(convert(from, join(out, 'out.bullet'), options), { name: 'BqError', code, message });
    assert.deepEqual(readdirSync(out), []);
  }
  const gguf = join(fresh(), 'a.gguf');
  writeFileSync(gguf, 'GGUF....');
  const { stderr, status } = spawnSync(
    process.execPath,
    [join(ROOT, 'bin/bq4.js'), 'convert', gguf, join(fresh(), 'out.bullet')],
    { encoding: 'utf8' },
  );
  assert.match(`${status} ${stderr}`, /^1 bq4: UNSUPPORTED: GGUF files can be converted to \.bq4 only/);
});

/** A small file, and where its parts lie. */
async function sample() {
  const path = join(fresh(), 'a.bullet');
  const vocab = join(fresh(), 'vocab.txt');
  writeFileSync(vocab, 'a\nbb\n\u00e9\n');
  await convert(ownFolder(SMALL, randomWeights(SMALL)), path, { tokenizer: vocab });
  const bytes = readFileSync(path);
  const { tokenizer, tensors, footer } = JSON.parse(bytes.subarray(0, bytes.indexOf(0)).toString()).file_offsets;
  return { path, bytes, tokenizer, tensors, footer };
}

/** What reading all of it says. @param {Uint8Array} bytes @returns {Promise<string>} */
async function verdict(bytes) {
  try {
    const { tensors } = await readBullet(openBytes(bytes));
    for (const tensor of tensors.values()) await whole(tensor);
    return '';
  } catch (error) {
    assert.equal(error.name, 'BqError', error.stack);
    return `${error.code}: ${error.message}`;
  }
}

test('all hashes that match no name of the configuration are reported', async () => {
  const { path, bytes, tensors } = await sample();
  const hash = nameHash('h.0.ln1.weight').toString(16).padStart(16, '0');
  const at = bytes.indexOf(Buffer.from(hash, 'hex').reverse(), tensors);
  bytes[at] ^= 1;
  bytes[tensors + 8 + 7] ^= 0x80;
  writeFileSync(path, bytes);
  const names = [nameHash('wte.weight') ^ (0x80n << 56n), nameHash('h.0.ln1.weight') ^ 1n].map(
    (h) => `0x${h.toString(16).padStart(16, '0')}`,
  );
  await assert.rejects(convert(path, join(fresh(), 'out.bq4')), {
    code: 'SHAPE',
    message: new RegExp(`"${names.join('", "')}" have no counterpart`),
    details: { tensors: names },
  });
  const card = spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), 'inspect', path, '--json'], { encoding: 'utf8' });
  assert.deepEqual(
    JSON.parse(card.stdout)
      .tensors.map((/** @type {any} */ t) => t.name)
      .filter((/** @type {string} */ name) => name.startsWith('0x')),
    names,
  );
});

test('files with false sizes are refused with the reason', async () => {
  const { bytes, tokenizer, tensors, footer } = await sample();
  assert.equal(await verdict(bytes), '');
  const end = bytes.indexOf(0);
  const json = bytes.subarray(0, end).toString();
  const entry = tensors + 8;
  const patched = (/** @type {number} */ at, /** @type {number[]} */ ...values) => {
    const copy = Buffer.from(bytes);
    copy.set(values, at);
    return copy;
  };
  /** With another JSON of the same length or less. @param {string | RegExp} from @param {string} to */
  const messageOf = (from, to) => {
    const text = Buffer.from(json.replace(from, to));
    assert.notEqual(text.toString(), json);
    return Buffer.concat([text, Buffer.alloc(tokenizer - text.length), bytes.subarray(tokenizer)]);
  };
  const data = Math.ceil((entry + 18) / 32) * 32;
  for (const [file, expected] of /** @type {[Uint8Array, RegExp][]} */ ([
    [Buffer.from('{"a": 1}'), /^NOT_A_MODEL: .*not a \.bullet file/],
    [Buffer.concat([Buffer.from('{"a": 1}'), Buffer.alloc(4096)]), /^NOT_A_MODEL: .*no bullet_version/],
    [Buffer.concat([Buffer.from('{}}'), Buffer.alloc(4096)]), /^FORMAT: .*JSON header is not valid JSON/],
    [
      Buffer.concat([Buffer.from('{"a":"\xff"}', 'latin1'), Buffer.alloc(4096)]),
      /^FORMAT: .*JSON header is not valid JSON/,
    ],
    [Buffer.alloc((1 << 20) + 8, '{'), /^FORMAT: .*exceeds 1048576 bytes/],
    [patched(end + 2, 1), /^FORMAT: .*four zero bytes/],
    [messageOf('"1.0"', '"2.0"'), /^UNSUPPORTED: .*version "2\.0"/],
    [messageOf(/"dimensions":\{[^}]*\}/, '"dimensions":[]'), /^FORMAT: .*"dimensions"/],
    [messageOf(/"file_offsets":\{[^}]*\}/, '"file_offsets":null'), /^FORMAT: .*"file_offsets"/],
    [messageOf(`"footer":${footer}`, '"footer":"9"'), /^FORMAT: .*file_offsets/],
    [messageOf(`"tensors":${tensors}`, `"tensors":${tokenizer}`), /^FORMAT: .*overlap/],
    [messageOf(`"tokenizer":${tokenizer}`, '"tokenizer":8192'), /^FORMAT: .*tokenizer is 8192/],
    [messageOf(`"footer":${footer}`, `"footer":${footer - 1}`), /^FORMAT: .*1 bytes follow/],
    [messageOf(`"footer":${footer}`, '"footer":9e15'), /^TRUNCATED: /],
    [messageOf('"architecture":"bullet"', '"architecture":"other?"'), /^FORMAT: .*"arch" is "other\?"/],
    [messageOf('"layers":1', '"layers":4e9'), /^FORMAT: .*"layers" is 4000000000/],
    [messageOf('"heads":1', '"heads":0'), /^FORMAT: /],
    [patched(tokenizer, 0x62), /^FORMAT: .*BULK/],
    [patched(tokenizer + 4, 255, 255, 255, 255), /^FORMAT: .*4294967295 tokens/],
    [patched(tokenizer + 4, 4), /^FORMAT: .*token/],
    [patched(tokenizer + 8, 255, 255), /^FORMAT: .*token 0 of 3 extends into the tensors/],
    [patched(tokenizer + 10, 255), /^FORMAT: .*token 0 is not valid UTF-8/],
    [patched(tensors, 0x62), /^FORMAT: .*BWT0/],
    [patched(tensors + 4, 255, 255, 255, 255), /^FORMAT: .*4294967295 tensors/],
    [patched(tensors + 4, bytes[tensors + 4] + 1), /^FORMAT: .*extends into the footer/],
    [patched(tensors + 4, bytes[tensors + 4] - 1), /^FORMAT: .*expected its footer/],
    [patched(entry + 8, 0), /^FORMAT: .*0 dimensions/],
    [patched(entry + 8, 9), /^FORMAT: .*9 dimensions/],
    [patched(entry + 9, 0, 0), /^FORMAT: .*dimension of 0/],
    [patched(entry + 9, 255, 255, 255, 255), /^FORMAT: .*65535 × 65535 has/],
    [patched(entry + 13, 1), /^UNSUPPORTED: .*quant_type 1/],
    [patched(entry + 14, 255, 255, 255, 255), /^FORMAT: .*has 4294967295 bytes/],
    [patched(data, 0x00, 0x7c), /^FORMAT: .*scale of block 0 is Infinity/],
    [patched(data + 20, 0x01, 0xfe), /^FORMAT: .*scale of block 1 is NaN/],
    [patched(footer, 0x65), /^FORMAT: .*END!/],
    [Buffer.concat([bytes, Buffer.alloc(1)]), /^FORMAT: .*1 bytes follow/],
  ]))
    assert.match(await verdict(file), expected);
  const second = data + Math.ceil(66 / 32) * 20;
  assert.match(
    await verdict(patched(second, ...bytes.subarray(entry, entry + 8))),
    /^FORMAT: .*"wte\.weight" appears twice/,
  );
});

test('truncated and changed files give a typed error or other weights', async () => {
  const { bytes, tokenizer, tensors } = await sample();
  const seen = new Set();
  for (let size = 0; size < bytes.length; size += size > 1000 && size < tokenizer - 8 ? 61 : 1) {
    const found = await verdict(bytes.subarray(0, size));
    assert.match(found, /^(TRUNCATED|NOT_A_MODEL): /, `${size} bytes`);
  }
  const end = bytes.indexOf(0) + 4;
  for (let at = 0; at < bytes.length; at++) {
    if (at === end) at = tokenizer;
    for (const value of [0, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x80]) {
      if (value === bytes[at]) continue;
      const copy = new Uint8Array(bytes);
      copy[at] = value;
      const found = await verdict(copy);
      seen.add(found.split(':')[0]);
      if (at < 4 || (at >= tensors && at < tensors + 8)) assert.notEqual(found, '', `byte ${at}`);
    }
  }
  assert.deepEqual([...seen].sort(), ['', 'FORMAT', 'NOT_A_MODEL', 'TRUNCATED', 'UNSUPPORTED']);
});
