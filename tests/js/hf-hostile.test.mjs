// Tests of folders with arbitrary headers and configurations: `convert` and `inspect` give typed errors.
import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspectForeign } from '../../bin/inspect-foreign.js';
import { configOf, tablesOf } from '../../js/format/families/names.js';
import { FAMILIES } from '../../js/format/families/index.js';
import { convert } from '../../js/convert/index.js';
import { listSafetensors } from '../../js/format/safetensors.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { testFolder } from './folders.mjs';

const { fresh } = testFolder('hf-hostile');

/** @param {any} header @param {number} [data] bytes behind it */
function safetensors(header, data = 64) {
  const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, Buffer.alloc(data)]);
}

/** @param {Promise<any>} promise @param {string} what */
const typed = (promise, what) =>
  promise.then(
    () => 'done',
    (error) => (assert.equal(error.name, 'BqError', `${what}: ${error.stack}`), error.code),
  );

const LLAMA = {
  model_type: 'llama',
  num_hidden_layers: 1,
  hidden_size: 8,
  num_attention_heads: 2,
  intermediate_size: 8,
  vocab_size: 8,
};

/** @type {Record<string, [bytes: Buffer, config: string]>} */
const FOLDERS = {
  'no JSON': [safetensors('{ '), '{}'],
  'a list': [safetensors([]), JSON.stringify(LLAMA)],
  'a shape that is a text': [
    safetensors({ a: { dtype: 'F32', shape: 'x', data_offsets: [0, 4] } }),
    JSON.stringify(LLAMA),
  ],
  'nothing for a tensor': [safetensors({ a: null }), JSON.stringify(LLAMA)],
  'offsets behind the end': [
    safetensors({ a: { dtype: 'F32', shape: [1], data_offsets: [0, 4000] } }),
    JSON.stringify(LLAMA),
  ],
  'negative sizes': [safetensors({ a: { dtype: 'F32', shape: [-1], data_offsets: [0, 4] } }), JSON.stringify(LLAMA)],
  'sizes whose product is not 4 bytes': [
    safetensors({ a: { dtype: 'F32', shape: [2 ** 40, 2 ** 40], data_offsets: [0, 4] } }),
    JSON.stringify(LLAMA),
  ],
  'bytes in front of the first tensor': [
    safetensors({ a: { dtype: 'F32', shape: [15], data_offsets: [4, 64] } }),
    JSON.stringify(LLAMA),
  ],
  'bytes between two tensors': [
    safetensors({
      a: { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
      b: { dtype: 'F32', shape: [1], data_offsets: [60, 64] },
    }),
    JSON.stringify(LLAMA),
  ],
  'tensors that overlap': [
    safetensors({
      a: { dtype: 'F32', shape: [15], data_offsets: [0, 60] },
      b: { dtype: 'F32', shape: [2], data_offsets: [56, 64] },
    }),
    JSON.stringify(LLAMA),
  ],
  'bytes behind the last tensor': [
    safetensors({ a: { dtype: 'F32', shape: [15], data_offsets: [0, 60] } }),
    JSON.stringify(LLAMA),
  ],
  'a length beyond all': [Buffer.alloc(16, 255), '{}'],
  'no bytes': [Buffer.alloc(0), '{}'],
  'a configuration that is no JSON': [safetensors({}), '{'],
  'a configuration that is null': [safetensors({}), 'null'],
  'a model_type that is an object': [safetensors({}), '{"model_type":{}}'],
  'a model_type of all objects': [safetensors({}), '{"model_type":"__proto__"}'],
};

test('bytes of a safetensors file that belong to no tensor or to two: refused with the place', async () => {
  /** @type {[string, RegExp][]} */
  const cases = [
    ['bytes in front of the first tensor', /4 bytes before tensor "a"/],
    ['bytes between two tensors', /56 bytes before tensor "b"/],
    ['tensors that overlap', /tensor "b" .*overlaps the tensor before it by 4 bytes/],
    ['bytes behind the last tensor', /4 bytes after its last tensor/],
  ];
  for (const [what, message] of cases)
    await assert.rejects(listSafetensors(openBytes(new Uint8Array(FOLDERS[what][0]))), { code: 'FORMAT', message });
});

for (const [what, [bytes, config]] of Object.entries(FOLDERS))
  test(`refused with a reason: ${what}`, async () => {
    const folder = fresh();
    writeFileSync(join(folder, 'model.safetensors'), bytes);
    writeFileSync(join(folder, 'config.json'), config);
    writeFileSync(join(folder, 'tokenizer_config.json'), '{{');
    const before = readdirSync(folder);
    assert.notEqual(await typed(convert(folder, join(folder, 'out.bq4')), what), 'done');
    assert.deepEqual(readdirSync(folder), before);
    await typed(inspectForeign(folder, null), what);
  });

/** Files of a folder that this process has open, where Linux tells. @param {string} folder */
const openIn = (folder) =>
  existsSync('/proc/self/fd')
    ? readdirSync('/proc/self/fd')
        .map((fd) => {
          try {
            return readlinkSync(`/proc/self/fd/${fd}`);
          } catch {
            return ''; // closed in between
          }
        })
        .filter((path) => path.startsWith(folder))
    : [];

test('invalid lists of templates count as no template, and refused folders leave no file open', async () => {
  const tiny = fileURLToPath(new URL('../golden/tiny/', import.meta.url));
  const refusals = {
    'tokenizer_config.json': '{ "chat_template": ',
    'generation_config.json': '[',
  };
  for (const list of [[null], [null, { name: 'default', template: 1 }], ['x'], [{ template: null }], [[]]]) {
    const folder = fresh();
    cpSync(tiny, folder, { recursive: true });
    writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({ chat_template: list }));
    assert.equal(await typed(convert(folder, join(folder, 'out.bq4')), JSON.stringify(list)), 'done');
  }
  for (const [file, text] of Object.entries(refusals)) {
    const folder = fresh();
    cpSync(tiny, folder, { recursive: true });
    writeFileSync(join(folder, file), text);
    assert.equal(await typed(convert(folder, join(folder, 'out.bq4')), file), 'FORMAT');
    assert.deepEqual(openIn(folder), []);
  }
});

test('sizes that no tensor has: refused before a list or a table of them is made', async () => {
  const fixtures = fileURLToPath(new URL('../golden/fixtures/', import.meta.url));
  for (const [name, key] of [
    ['internlm2', 'num_attention_heads'],
    ['internlm2', 'num_key_value_heads'],
    ['neox', 'num_attention_heads'],
    ['neox', 'hidden_size'],
    ['phi3', 'intermediate_size'],
    ['phi3', 'num_key_value_heads'],
    ['falcon-40b', 'num_kv_heads'],
    ['bloom', 'n_head'],
    ['mpt', 'd_model'],
    ['gpt2', 'n_embd'],
    ['exaone', 'head_dim'],
  ])
    for (const size of [1e9, 1e300]) {
      const folder = fresh();
      cpSync(join(fixtures, name), folder, { recursive: true });
      const path = join(folder, 'config.json');
      writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), [key]: size }));
      assert.notEqual(await typed(convert(folder, join(folder, 'out.bq4')), `${name}, ${key}`), 'done');
    }
});

test('heads of more dimensions than a table of angles may have are refused, those of global layers as well', () => {
  for (const change of [
    { rope_scaling: { rope_type: 'linear', factor: 2 }, head_dim: 65538 },
    { model_type: 'gemma4_text', num_hidden_layers: 6, vocab_size: 262144, global_head_dim: 65538 },
  ]) {
    const hf = { ...LLAMA, ...change };
    assert.throws(() => tablesOf(hf, configOf(hf)), { code: 'FORMAT', message: /^65538 dimensions of a head/ });
  }
});

test('RoPE scaling that divides angles by 0, by less or by no number is refused, as are values that are no objects', () => {
  const llama = { ...LLAMA, max_position_embeddings: 32 };
  const refused = (/** @type {object} */ change) =>
    assert.throws(
      () => {
        const hf = { ...llama, ...change };
        tablesOf(hf, configOf(hf));
      },
      { code: 'FORMAT' },
      JSON.stringify(change),
    );
  for (const factor of [0, -1, [], 'x', NaN, Infinity])
    for (const more of [{ rope_type: 'linear' }, { rope_type: 'llama3', original_max_position_embeddings: 2 }])
      refused({ rope_scaling: { ...more, factor } });
  for (const value of ['x', [], 7, true]) {
    refused({ rope_scaling: value });
    refused({ rope_parameters: value });
    refused({ model_type: 'gemma4_text', rope_parameters: value });
    refused({ model_type: 'gemma4_text', rope_parameters: { full_attention: value } });
    refused({ model_type: 'embedding_gemma2_text', rope_parameters: { sliding_attention: value } });
  }
});

test('config.json: every key that a family reads with a value of every kind', () => {
  const values = [null, 0, -1, Infinity, 'x', '', [], {}, [null], { a: 1 }, true, ['full_attention'], '__proto__'];
  let refused = 0;
  for (const model_type of Object.keys(FAMILIES)) {
    /** @type {Set<string>} */
    const keys = new Set();
    const base = {
      ...LLAMA,
      sliding_window: 4,
      rope_parameters: {},
      rope_scaling: { rope_type: 'yarn', factor: 2 },
      layer_types: ['full_attention'],
      model_type,
    };
    const watched = new Proxy(base, { get: (of, key) => (keys.add(String(key)), Reflect.get(of, key)) });
    for (const key of Object.keys(FAMILIES[model_type].defaults ?? {})) keys.add(key);
    try {
      FAMILIES[model_type].config(watched);
    } catch {
      // What it read so far is enough.
    }
    for (const key of keys)
      for (const value of values)
        try {
          configOf({ ...base, [key]: value });
        } catch (error) {
          assert.equal(
            /** @type {any} */ (error).name,
            'BqError',
            `${model_type}, ${key} is ${JSON.stringify(value)}: ${/** @type {any} */ (error).stack}`,
          );
          refused++;
        }
  }
  assert.ok(refused > 200, `${refused}`);
});
