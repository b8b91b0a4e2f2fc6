// Tests of PyTorch checkpoints, which are read without executing their code: the tensors, and the errors of hostile files.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { listSafetensors } from '../../js/format/safetensors.js';
import { readTorch } from '../../js/format/torch/read.js';
import { matrixOf } from '../../js/format/bq4/write-v2.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { inspect } from '../../bin/inspect.js';
import { CONFIG, hfConfig, hfName, randomWeights } from './checkpoints.mjs';
import { dequantize } from './encode.mjs';
import { random } from './fixture.mjs';
import { testFolder } from './folders.mjs';
import { archive, torchPickle, torchZip } from './torch-writer.mjs';

const MADE = fileURLToPath(new URL('../py/checkpoints/', import.meta.url));
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SHARED = join(process.env.BQ4_SHARED ?? join(ROOT, '../shared'), 'data/import');
const { fresh } = testFolder('torch');

/** Name → dims and f32 values. @param {string} input */
async function converted(input) {
  const out = join(fresh(), 'out.bq4');
  await convert(input, out, { quant: 'f32' });
  const bytes = new Uint8Array(readFileSync(out));
  const { tensors, config } = await inspect(openBytes(bytes));
  return {
    config,
    tensors: new Map(
      tensors.map(({ name, dims, offset, bytes: n }) => [
        name,
        { dims, values: dequantize(0, 0, bytes.slice(offset, offset + n), matrixOf(dims).rows, matrixOf(dims).cols) },
      ]),
    ),
  };
}

/** What tests/py/checkpoint_weights.py puts into tensor k of its list. @param {number} k @param {number} n */
const formula = (k, n) => Float32Array.from({ length: n }, (_, i) => (((i * 37 + k * 11) % 201) - 100) / 256);

/** Tensors in the order of that file. @param {string} norm @param {boolean} gated */
function order(layers, norm, gated, learned, tied) {
  const biased = norm === 'layer';
  const modules = [
    'ln1',
    'attn.q',
    'attn.k',
    'attn.v',
    'attn.o',
    'ln2',
    'mlp.up',
    'mlp.down',
    ...(gated ? ['mlp.gate'] : []),
  ];
  const both = (/** @type {string} */ name) => [`${name}.weight`, ...(biased ? [`${name}.bias`] : [])];
  return [
    'wte.weight',
    ...(learned ? ['wpe.weight'] : []),
    ...Array.from({ length: layers }, (_, n) => modules.flatMap((m) => both(`h.${n}.${m}`))).flat(),
    ...both('ln_f'),
    ...(tied ? [] : ['lm_head.weight']),
  ];
}

test("checkpoints that PyTorch wrote: zip archives, the stream of before 1.6, llama2.c's and nanoGPT's own", async () => {
  const config = {
    ...hfConfig(CONFIG),
    hidden_size: 8,
    num_hidden_layers: 2,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    intermediate_size: 12,
    vocab_size: 20,
    max_position_embeddings: 24,
    tie_word_embeddings: false,
  };
  for (const name of ['hf-f16.bin', 'hf-bf16-legacy.bin', 'llama2c.pt', 'nanogpt.pt']) {
    const path = fresh();
    copyFileSync(join(MADE, name), join(path, name));
    if (name.startsWith('hf')) writeFileSync(join(path, 'config.json'), JSON.stringify(config));
    const names =
      name === 'nanogpt.pt'
        ? order(1, 'layer', false, true, true)
        : order(2, 'rms', true, false, name === 'llama2c.pt');
    for (const input of name.startsWith('hf') ? [path, join(path, name)] : [join(path, name)]) {
      const { tensors } = await converted(input);
      assert.deepEqual([...tensors.keys()].sort(), [...names].sort(), input);
      for (const [tensor, { values }] of tensors)
        assert.deepEqual(values, formula(names.indexOf(tensor), values.length), `${name}: ${tensor}`);
    }
  }
});

test('views with transposed, sliced and shared storages are read', async () => {
  const { tensors } = await readTorch(openBytes(new Uint8Array(readFileSync(join(MADE, 'views.pt')))));
  const rows = async (/** @type {string} */ name) => {
    const t = tensors.get(name);
    return [...(await t.read(0, matrixOf(t.dims).rows))];
  };
  assert.deepEqual(
    await rows('transposed'),
    Array.from({ length: 24 }, (_, i) => (i % 4) * 6 + Math.floor(i / 4)),
  );
  assert.deepEqual(tensors.get('transposed').dims, [6, 4]);
  assert.deepEqual(
    await rows('parameter'),
    Array.from({ length: 24 }, (_, i) => i + 0.5),
  );
  assert.equal((await rows('row')).length, 6);
  const t = tensors.get('transposed');
  assert.deepEqual([...(await t.read(2, 3))], [2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22], 'some rows of it');
});

test(
  "others' files: columns first, under a key, of integers, which are no weights",
  { skip: !existsSync(SHARED) && 'no shared data' },
  async () => {
    const opened = (/** @type {string} */ name) => openBytes(new Uint8Array(readFileSync(join(SHARED, name))));
    for (const [name, key, tensor, dims, strides] of /** @type {const} */ ([
      ['fortran_tensor_3d.pth', '', 'tensor_fortran', [2, 3, 4], [1, 2, 6]],
      ['test.pt', '', 'test', [2, 4], [4, 1]],
      ['test_with_key.pt', 'model_state_dict', 'test', [2, 4], [4, 1]],
    ])) {
      const { tensors, value } = await readTorch(opened(name));
      assert.deepEqual([...tensors], [[tensor, null]], name);
      const found = (key ? value.get(key) : value).get(tensor);
      assert.deepEqual([found.storage.dtype, found.dims, found.strides], ['I64', dims, strides], name);
    }
    for (const [name, shapes] of /** @type {const} */ ([
      ['jfk-codes.safetensors', { codes: ['I64', [1, 2, 828]] }],
      ['voices.safetensors', { tokens: ['I64', [1, 982, 33]], mask: ['U8', [1, 982, 33]] }],
    ])) {
      const { entries } = await listSafetensors(opened(name));
      assert.deepEqual(Object.fromEntries(entries.map((e) => [e.name, [e.dtype, e.shape]])), shapes, name);
    }
  },
);

test('a folder with shards of pytorch_model.bin, nested under "model"', async () => {
  const weights = randomWeights();
  const named = [...weights].map(([name, tensor]) => /** @type {[string, any]} */ ([hfName(name), tensor]));
  const path = fresh();
  writeFileSync(join(path, 'config.json'), JSON.stringify(hfConfig()));
  const halves = [named.slice(0, 5), named.slice(5)];
  halves.forEach((half, i) =>
    writeFileSync(join(path, `pytorch_model-${i}.bin`), torchZip(half, i === 1 ? 'model' : '')),
  );
  const weight_map = Object.fromEntries(
    halves.flatMap((half, i) => half.map(([name]) => [name, `pytorch_model-${i}.bin`])),
  );
  writeFileSync(join(path, 'pytorch_model.bin.index.json'), JSON.stringify({ weight_map }));
  const { tensors } = await converted(path);
  assert.equal(tensors.size, weights.size);
  for (const [name, { values }] of weights) assert.deepEqual(tensors.get(name)?.values, values, name);
});

const text = (/** @type {string} */ s) => Buffer.from(s, 'latin1');
/** Tuples of two, each of the one before twice: 2^100 texts where they are written out. */
const DOUBLED = `U\x01a${'2\x86'.repeat(100)}`;
/** A dict of n entries of itself's value, k00000 and on. @param {number} n */
const entries = (n) => Array.from({ length: n }, (_, i) => `U\x06k${String(i).padStart(5, '0')}N`).join('');
/** n pairs of texts, as a list. @param {number} n */
const pairs = (n) => `](${Array.from({ length: n }, (_, i) => `U\x05${String(i).padStart(5, '0')}N\x86`).join('')}e`;

/** Pickles that do what no checkpoint does → what is said. @type {Record<string, [Buffer, RegExp]>} */
const HOSTILE = {
  'os.system, protocol 0': [text("cos\nsystem\n(S'touch /tmp/pwned'\ntR."), /os\.system/],
  'posix.system, protocol 2': [
    text('\x80\x02cposix\nsystem\nq\x00X\x02\x00\x00\x00idq\x01\x85q\x02Rq\x03.'),
    /posix\.system/,
  ],
  'builtins.eval by STACK_GLOBAL': [
    text('\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x031+1\x85R.'),
    /builtins\.eval/,
  ],
  'a dotted attribute of a harmless module': [
    text('\x80\x04\x8c\x0ccollections\x8c\x1aOrderedDict.__init__.x.y.z.\x93.'),
    /./,
  ],
  '__builtin__ getattr': [text('c__builtin__\ngetattr\n.'), /__builtin__\.getattr/],
  'a name of Object.prototype': [text('cconstructor\nconstructor\n.'), /constructor\.constructor/],
  __proto__: [text('c__proto__\n__proto__\n.'), /__proto__/],
  INST: [text("(S'id'\nios\nsystem\n."), /opcode 0x69/],
  OBJ: [text('(ccollections\nOrderedDict\no.'), /opcode 0x6f/],
  'an extension code': [text('\x80\x02\x82\x01.'), /opcode 0x82/],
  'a call of what is no function': [text('\x80\x02K\x01)R.'), /not a function/],
  'a call of a storage class': [text('\x80\x02ctorch\nFloatStorage\n)R.'), /a call of torch\.FloatStorage/],
  'a state for a function': [text('\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}b.'), /the state of torch/],
  'a text of 4 GB': [text('\x80\x02X\xff\xff\xff\xff.'), /declares \d+ bytes but only \d+ remain/],
  'bytes of 2^63': [
    Buffer.concat([text('\x80\x04\x8e'), Buffer.from([0, 0, 0, 0, 0, 0, 0, 0x80]), text('.')]),
    /declares \d+ bytes but only \d+ remain/,
  ],
  'an integer of 4 GB': [text('\x80\x02\x8b\xff\xff\xff\x7f.'), /integer/],
  'a memo that was never set': [text('\x80\x02j\xff\xff\xff\xff.'), /memo/],
  'a memo index without digits': [text('\x80\x02gx\n.'), /expected a memo index, found "x"/],
  'a float that is a word': [text('Fpig\n.'), /expected a float, found "pig"/],
  'a far memo': [text('\x80\x02}r\xff\xff\xff\xff0j\xff\xff\xff\xff.'), /no dict of tensors/],
  'lists in lists in lists': [
    Buffer.concat([text('\x80\x02'), Buffer.alloc(200000, ']'), Buffer.alloc(199999, 'a'), text('.')]),
    /no dict of tensors/,
  ],
  'dicts that hold themselves': [text('\x80\x02}q\x00U\x01ah\x00s.'), /64 levels/],
  'dicts that double at each level': [
    Buffer.concat([
      text('\x80\x02}q\x00'),
      ...Array.from({ length: 60 }, (_, i) =>
        Buffer.concat([
          text('}q'),
          Buffer.from([i + 1]),
          text('U\x01ah'),
          Buffer.from([i]),
          text('sU\x01bh'),
          Buffer.from([i]),
          text('s'),
        ]),
      ),
      text('.'),
    ]),
    /200000 entries/,
  ],
  'a module that is tuples of tuples, each used twice': [
    text(`\x80\x04${DOUBLED}U\x01b\x93.`),
    /a global name is not a string/,
  ],
  'a name that is tuples of tuples, each used twice': [
    text(`\x80\x04U\x01b${DOUBLED}\x93.`),
    /a global name is not a string/,
  ],
  'an OrderedDict of what is not pairs': [text('\x80\x02ccollections\nOrderedDict\n]K\x01a\x85R.'), /not a pair/],
  'an OrderedDict of numbers in tuples': [text('\x80\x02ccollections\nOrderedDict\nK\x01\x85\x85R.'), /not a pair/],
  'one list made an OrderedDict 10,000 times': [
    text(`\x80\x02${pairs(9000)}q\x00ccollections\nOrderedDict\nq\x01${'h\x01h\x00\x85R'.repeat(10000)}.`),
    /reading it takes more than 4000000 steps/,
  ],
  'one dict of 9,000 entries in 9,000 places': [
    text(`\x80\x02}(${entries(9000)}uq\x00}(${entries(9000).replaceAll('N', 'h\x00')}u.`),
    /200000 entries/,
  ],
  'names of a megabyte in dicts in dicts': [
    Buffer.concat([
      text('\x80\x02X\x00\x00\x10\x00'),
      Buffer.alloc(1 << 20, 'n'),
      text(`q\x00}q\x01h\x00Nsq\x01${Array.from({ length: 50 }, () => '}h\x00h\x01sq\x01').join('')}.`),
    ]),
    /characters of names/,
  ],
  'more bytes than a checkpoint has': [
    Buffer.concat([text('\x80\x04('), text('C\x00'.repeat(300_000)), text('l.')]),
    /reading it takes more than 4000000 steps/,
  ],
  'more instructions than a checkpoint has': [
    Buffer.concat([text('\x80\x02'), Buffer.alloc(3_000_000, '}'), text('.')]),
    /reading it takes more than 4000000 steps/,
  ],
  'no end': [text('\x80\x02}'), /declares \d+ bytes but only \d+ remain/],
  'an empty stack': [text('\x80\x020.'), /stack is empty/],
  'a storage out of nothing': [text('\x80\x02K\x01Q.'), /persistent reference/],
  'protocol 9': [text('\x80\x09.'), /protocol 9/],
  'an integer that is not one': [text('I12;import os\n.'), /expected an integer, found "12;import os"/],
};

for (const [what, [pickle, message]] of Object.entries(HOSTILE)) {
  test(`refused without being executed: ${what}`, async () => {
    for (const bytes of [pickle, archive([['a/data.pkl', pickle]])]) {
      // Protocol 0 has no sign: such a file is refused as no checkpoint when it is converted.
      await assert.rejects(readTorch(openBytes(new Uint8Array(bytes))), (/** @type {any} */ e) => {
        assert.equal(e.name, 'BqError', e.stack);
        assert.match(e.message, message);
        return true;
      });
    }
  });
}

test('invalid archives are refused: compressed, duplicated, too long, too many entries, without a pickle', async () => {
  const zip = torchZip([['a', { dims: [2], values: new Float32Array(2) }]]);
  const at = zip.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  const first = zip.indexOf(Buffer.from('PK\x01\x02', 'latin1'));
  const change = (/** @type {(b: Buffer) => void} */ edit) => {
    const copy = Buffer.from(zip);
    edit(copy);
    return new Uint8Array(copy);
  };
  /** @type {[Uint8Array, string, RegExp][]} */
  const cases = [
    [change((b) => b.writeUInt16LE(8, first + 10)), 'UNSUPPORTED', /compressed/],
    [change((b) => b.writeUInt16LE(1, first + 8)), 'UNSUPPORTED', /encrypted/],
    [
      change((b) => {
        b.writeUInt32LE(0xfffffff0, first + 20);
        b.writeUInt32LE(0xfffffff0, first + 24);
      }),
      'FORMAT',
      /declares \d+ bytes/,
    ],
    [change((b) => b.writeUInt32LE(0xfffffff0, first + 42)), 'FORMAT', /declares \d+ bytes/],
    [change((b) => b.writeUInt16LE(65535, at + 10)), 'FORMAT', /65535 entries/],
    [change((b) => b.writeUInt32LE(0x7fffffff, at + 16)), 'FORMAT', /directory/],
    [change((b) => b.fill(0, at, at + 4)), 'FORMAT', /no central directory/],
    [
      new Uint8Array(
        archive([
          ['a/data.pkl', Buffer.from('\x80\x02}.', 'latin1')],
          ['b/data.pkl', Buffer.from('\x80\x02}.', 'latin1')],
        ]),
      ),
      'FORMAT',
      /2 entries/,
    ],
    [
      new Uint8Array(
        archive([
          ['x', Buffer.from('')],
          ['x', Buffer.from('')],
        ]),
      ),
      'FORMAT',
      /twice/,
    ],
    [new Uint8Array(zip.subarray(0, 40)), 'FORMAT', /directory/],
  ];
  for (const [bytes, code, message] of cases) await assert.rejects(readTorch(openBytes(bytes)), { code, message });
});

test('a configuration of nested tuples, each used twice', async () => {
  const model = torchPickle([['tok_embeddings.weight', { dims: [1], values: [0] }]]);
  const args = text(`U\x0amodel_args}U\x03dim${DOUBLED}ss`);
  const pickle = Buffer.concat([model.subarray(0, -1), args, text('.')]);
  const folder = fresh();
  writeFileSync(join(folder, 'model.pt'), archive([['a/data.pkl', pickle], ['a/data/0', Buffer.alloc(4)]])); // prettier-ignore
  await assert.rejects(convert(join(folder, 'model.pt'), join(folder, 'out.bq4')), {
    name: 'BqError',
    code: 'FORMAT',
    message: /model_args of .* has \[\[/,
  });
});

test('a pickle that lists one storage twice is read', async () => {
  const tensors = torchPickle([['a', { dims: [1], values: [0] }]]);
  const magic = Buffer.from('8a0a6cfc9c46f9206aa85019', 'hex');
  const stream = (/** @type {string} */ keys) =>
    Buffer.concat([
      Buffer.concat([text('\x80\x02'), magic, text('.\x80\x02M\xe9\x03.\x80\x02}.')]),
      tensors,
      text(`\x80\x02](${keys}e.`),
      Buffer.concat([Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]), Buffer.alloc(4)]),
    ]);
  const read = (/** @type {string} */ keys) => readTorch(openBytes(new Uint8Array(stream(keys))));
  assert.deepEqual([...(await read('U\x010')).tensors.keys()], ['a']);
  await assert.rejects(read('U\x010q\x00h\x00'), { code: 'FORMAT', message: /list of storages/ });
});

test('randomly damaged files are read, or refused with a reason', async () => {
  const next = random(7);
  const bits = (/** @type {number} */ n) => Math.floor(((next() + 1) / 2) * n);
  for (const name of readdirSync(MADE)) {
    const good = new Uint8Array(readFileSync(join(MADE, name)));
    for (let round = 0; round < 300; round++) {
      const bytes = good.slice(0, round % 5 ? good.length : bits(good.length));
      for (let i = 0; i <= bits(6) && bytes.length; i++) bytes[bits(bytes.length)] = bits(256);
      try {
        const { tensors } = await readTorch(openBytes(bytes));
        for (const tensor of tensors.values()) if (tensor) await tensor.read(0, 1);
      } catch (/** @type {any} */ error) {
        assert.equal(error.name, 'BqError', `${name}, round ${round}: ${error.stack}`);
      }
    }
  }
});
