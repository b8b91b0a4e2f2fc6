// Tests of Gemma 4: rows of per-layer embeddings that are read from storage, unused tensors of layers that share keys and values, and
// variants that are refused by name.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { canonicalTensors, configOf, tablesOf } from '../../js/format/families/names.js';
import { openGguf } from '../../js/format/gguf/open.js';
import { readHeader } from '../../js/format/gguf/header.js';
import { createEngine, fromFile, fromUrl } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { tokenizerBin } from './checkpoints.mjs';
import { testFolder } from './folders.mjs';
import { gguf } from './gguf-writer.mjs';
import { faultServer } from '../server/faults.mjs';

const FIXTURE = fileURLToPath(new URL('../golden/fixtures/gemma4/', import.meta.url));
const { fresh } = testFolder('layer-embeds');
const SIZES = { contextTokens: 48, prefillWindow: 8, prefillBatch: 4, kv: /** @type {const} */ ('i8') };
/** How often the vocabulary is repeated, for tables that are larger than everything else. */
const TIMES = 64;
const config = JSON.parse(readFileSync(join(FIXTURE, 'config.json'), 'utf8'));

/** A folder with the fixture, with a larger vocabulary. */
function folderOf() {
  const folder = fresh();
  const bytes = readFileSync(join(FIXTURE, 'model.safetensors'));
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  /** @type {Record<string, any>} */
  const header = {};
  /** @type {Buffer[]} */
  const parts = [];
  let at = 0;
  for (const [name, facts] of Object.entries(JSON.parse(bytes.toString('utf8', 8, start)))) {
    if (name === '__metadata__') continue;
    const times = name.includes('embed_tokens') ? TIMES : 1;
    const data = bytes.subarray(start + facts.data_offsets[0], start + facts.data_offsets[1]);
    for (let i = 0; i < times; i++) parts.push(data);
    const [rows, ...cols] = facts.shape;
    header[name] = { ...facts, shape: [rows * times, ...cols], data_offsets: [at, (at += times * data.length)] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(join(folder, 'model.safetensors'), Buffer.concat([length, text, ...parts]));
  const vocab = config.vocab_size * TIMES;
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify({ ...config, vocab_size: vocab, vocab_size_per_layer_input: vocab }),
  );
  writeFileSync(join(folder, 'tokenizer.bin'), tokenizerBin(vocab));
  return folder;
}

test('rows of per-layer embeddings are read as they are needed, and everything else stays: the same tokens', async () => {
  const path = join(fresh(), 'model.bq4');
  await convert(folderOf(), path, { quant: 'f32', embed: 'f32' });
  const engine = await createEngine({ cache: false });
  const whole = await engine.plan(fromFile(path), { ...SIZES, memoryBudget: Infinity });
  const table = config.vocab_size * TIMES * config.num_hidden_layers * config.hidden_size_per_layer_input * 4;
  const memoryBudget = whole.heapBytes - table / 2;
  const tokensOf = async (/** @type {object} */ options) => {
    const model = await engine.load(fromFile(path), { ...SIZES, ...options });
    const session = await model.createSession();
    const logitBias = [0, 1, 2, 3].map((token) => ({ token, bias: -Infinity }));
    const prompt = Array.from({ length: 20 }, (_, i) => 4 + ((i * 37) % 2000));
    const { tokens } = await session.generate(prompt, { temperature: 1, seed: 3, logitBias, maxTokens: 20 }).result;
    const { residency } = model.info;
    await model.close();
    return { residency, tokens: [...tokens] };
  };
  const planned = await engine.plan(fromFile(path), { ...SIZES, memoryBudget });
  const resident = await tokensOf({ memoryBudget: Infinity });
  const paged = await tokensOf({ memoryBudget });
  await engine.close();
  assert.equal(paged.tokens.length, 20);
  assert.deepEqual(paged.tokens, resident.tokens);
  assert.deepEqual([resident.residency, paged.residency], ['resident', 'paged']);
  assert.ok(planned.heapBytes <= memoryBudget);
});

test('a budget without room for the table of per-layer embeddings leaves all layers and the head in memory', async () => {
  const path = join(fresh(), 'model.bq4');
  await convert(folderOf(), path, { quant: 'f32', embed: 'f32' });
  const engine = await createEngine({ cache: false });
  const { heapBytes } = await engine.plan(fromFile(path), { ...SIZES, memoryBudget: Infinity });
  const model = await engine.load(fromFile(path), { ...SIZES, memoryBudget: heapBytes - 400_000 });
  const { residency, paging } = model.info;
  await engine.close();
  assert.equal(residency, 'paged');
  assert.deepEqual([paging?.layers, paging?.head, paging?.slotBytes], [config.num_hidden_layers, true, 0]);
});

const TABLE_VALUES = config.vocab_size * TIMES * config.num_hidden_layers * config.hidden_size_per_layer_input;

/** The golden GGUF file with its vocabulary repeated, as folderOf has it. */
async function ggufWithTable() {
  const bytes = readFileSync(new URL('../golden/gguf/gemma4.gguf', import.meta.url));
  const { tensors, end } = await readHeader(openBytes(bytes), bytes);
  const starts = [...tensors.map(({ offset }) => offset), bytes.length];
  const repeated = tensors.map(({ name, type, dims, offset }) => {
    const tensorBytes = bytes.subarray(offset, Math.min(...starts.filter((at) => at > offset)));
    const times = /^(token_embd|per_layer_token_embd)\./.test(name) ? TIMES : 1;
    const data = times > 1 ? tensorBytes.subarray(0, dims[0] * dims[1] * (type === 0 ? 4 : 2)) : tensorBytes;
    return { name, type, dims: [dims[0] * times, ...dims.slice(1)], bytes: Buffer.concat(Array(times).fill(data)) };
  });
  const listed = gguf({}, repeated);
  const listEnd = (await readHeader(openBytes(listed), listed)).end;
  const data = listed.subarray(Math.ceil(listEnd / 32) * 32);
  // The numbers of both lists, the metadata of the file, the other list.
  const head = Buffer.concat([bytes.subarray(0, 24), bytes.subarray(24, tensors[0].at), listed.subarray(24, listEnd)]);
  assert.ok(end > tensors[0].at);
  return Buffer.concat([head, Buffer.alloc(-head.length & 31), data]);
}

/** Tokens of a generation, with what the plan and the model say. @param {any} engine @param {any} source @param {object} [options] */
async function generated(engine, source, options = {}) {
  const plan = await engine.plan(source, { ...SIZES, ...options });
  const model = await engine.load(source, { ...SIZES, ...options });
  const session = await model.createSession();
  const logitBias = [0, 1, 2, 3].map((token) => ({ token, bias: -Infinity }));
  const prompt = Array.from({ length: 20 }, (_, i) => 4 + ((i * 37) % 2000));
  const { tokens } = await session.generate(prompt, { temperature: 1, seed: 3, logitBias, maxTokens: 20 }).result;
  const { info } = model;
  await model.close();
  return { plan, info, tokens: [...tokens] };
}

/** The table of per-layer embeddings is in the file, everything else in memory. @param {any} found @param {any} whole @param {number} tableBytes */
function assertPaged({ plan, info, tokens }, whole, tableBytes) {
  assert.deepEqual([whole.plan.residency, whole.plan.paging], ['resident', null]);
  for (const { residency, paging } of [plan, info])
    assert.deepEqual(
      [residency, paging.layers, paging.head, paging.slotBytes],
      ['paged', config.num_hidden_layers, true, 0],
    );
  assert.match(plan.fitsReason, /rows of the per-layer embeddings are read from the file/);
  assert.doesNotMatch(whole.plan.fitsReason, /per-layer/);
  assert.ok(whole.plan.heapBytes - plan.heapBytes > 0.8 * tableBytes, `${whole.plan.heapBytes} ${plan.heapBytes}`);
  assert.deepEqual(tokens, whole.tokens);
}

test('without a budget the table stays in a file that can be read: a path, a File; memoryBudget: Infinity loads it', async () => {
  const path = join(fresh(), 'model.bq4');
  await convert(folderOf(), path, { quant: 'f32', embed: 'f32' });
  const engine = await createEngine({ cache: false });
  const whole = await generated(engine, fromFile(path), { memoryBudget: Infinity });
  for (const source of [fromFile(path), new File([readFileSync(path)], 'model.bq4')])
    assertPaged(await generated(engine, source), whole, 4 * TABLE_VALUES);
  const inMemory = await generated(engine, readFileSync(path));
  assert.equal(inMemory.info.residency, 'resident', 'bytes are in memory anyway');
  const clustered = await engine.plan(fromFile(path), { ...SIZES, quality: { lmHeadFraction: 0.5 } });
  assert.equal(clustered.residency, 'resident', 'a head by clusters needs all weights in memory');
  await engine.close();
});

test('of a GGUF file of this machine rows are repacked as they are read, without a copy in the cache', async () => {
  const bytes = await ggufWithTable();
  const [folder, cache] = [fresh(), fresh()];
  const path = join(folder, 'model.gguf');
  writeFileSync(path, bytes);
  const engine = await createEngine({ cache });
  const whole = await generated(engine, fromFile(path), { memoryBudget: Infinity });
  for (const source of [fromFile(path), pathToFileURL(path), new File([bytes], 'model.gguf')])
    assertPaged(await generated(engine, source), whole, 4 * TABLE_VALUES);
  assert.deepEqual((await engine.store?.list())?.length, 0);
  await engine.close();
});

test('a file that another program writes while rows are read from it: an error, no text of two files', async () => {
  const converted = join(fresh(), 'model.bq4');
  await convert(folderOf(), converted, { quant: 'f32', embed: 'f32' });
  const engine = await createEngine({ cache: false });
  for (const [name, bytes] of /** @type {[string, Buffer][]} */ ([
    ['model.bq4', readFileSync(converted)],
    ['model.gguf', await ggufWithTable()],
  ]))
    for (const change of [
      (/** @type {string} */ path) => writeFileSync(path, Buffer.alloc(bytes.length), { flag: 'r+' }),
      (/** @type {string} */ path) => writeFileSync(path, bytes.subarray(0, bytes.length / 2)),
      (/** @type {string} */ path) => writeFileSync(path, ''),
    ]) {
      const path = join(fresh(), name);
      writeFileSync(path, bytes);
      const model = await engine.load(fromFile(path), SIZES);
      const session = await model.createSession();
      await session.generate([4, 5, 6], { maxTokens: 1 }).result;
      change(path);
      await assert.rejects(session.generate([7, 8, 9], { maxTokens: 4 }).result, {
        code: 'READ',
        message: new RegExp(`${name} can't be read any more`),
        hint: /was moved or changed/,
      });
      await model.close();
    }
  await engine.close();
});

test('over a network: from the cache where it can be read by ranges; whole without one, and where it is full', async (t) => {
  const path = join(fresh(), 'model.bq4');
  await convert(folderOf(), path, { quant: 'f32', embed: 'f32' });
  const server = await faultServer({ '/model.bq4': readFileSync(path), '/model.gguf': await ggufWithTable() });
  t.after(server.close);
  for (const [name, tableBytes] of /** @type {const} */ ([
    ['model.bq4', 4 * TABLE_VALUES],
    ['model.gguf', 4 * TABLE_VALUES],
  ])) {
    const source = fromUrl(new URL(`/${name}`, server.url));
    const plain = await createEngine({ cache: false });
    const whole = await generated(plain, source);
    await plain.close();
    assert.equal(whole.info.residency, 'resident');
    const engine = await createEngine({ cache: fresh() });
    for (const visit of ['first', 'second']) {
      const found = await generated(engine, source);
      assertPaged(found, whole, tableBytes);
      assert.equal(found.plan.cached.complete, visit === 'second');
    }
    await engine.close();
    // A cache that promises ranges and then takes nothing.
    const full = /** @type {any} */ ({
      pages: true,
      find: async () => null,
      open: async (/** @type {any} */ { fileBytes, prefixBytes }) => ({
        problem: new Error('storage is full'),
        chunks: Math.ceil((fileBytes - prefixBytes) / 2 ** 20),
        has: () => false,
        read: async () => null,
        write: async () => {},
        drop: async () => {},
        writePrefix: async () => {},
        close: async () => {},
      }),
    });
    const crowded = await createEngine({ cache: full });
    const { info, tokens } = await generated(crowded, source);
    assert.deepEqual([info.residency, tokens], ['resident', whole.tokens], name);
    await assert.rejects(
      crowded.load(source, { ...SIZES, memoryBudget: whole.plan.heapBytes - tableBytes / 2 }),
      { code: 'NOMEM' },
      'a budget is a budget',
    );
    await crowded.close();
  }
});

test('keys and values of layers that share them are passed over', () => {
  const ours = configOf(config);
  const named = (/** @type {number} */ layer) =>
    canonicalTensors(config, ours, `model.layers.${layer}.self_attn.k_proj.weight`, {
      dims: [16, 32],
      read: async () => new Float32Array(),
    }).map(([name]) => name);
  assert.deepEqual([named(2), named(3)], [['h.2.attn.k.weight'], []]);
});

for (const [change, says] of /** @type {[Record<string, any>, RegExp][]} */ ([
  [{ enable_moe_block: true }, /Gemma 4 with experts/],
  [{ use_bidirectional_attention: 'all' }, /bidirectional attention/],
  [{ vocab_size_per_layer_input: 32 }, /per-layer embeddings of 32 of 64 tokens/],
  [{ use_bidirectional_attention: true }, /bidirectional attention/],
  [{ per_layer_config: { 1: { head_dim: 16 }, 3: { head_dim: 32 } } }, /layers with 16 and 32 for head_dim/],
  [{ per_layer_config: { 1: { head_dim: 16, sliding_window: 3 } } }, /"sliding_window" in per_layer_config/],
]))
  test(`refused by name: ${JSON.stringify(change)}`, () => {
    assert.throws(() => configOf({ ...config, ...change }), { code: 'UNSUPPORTED', message: says });
  });

/** Divisors of the angles of global layers. @param {Record<string, any>} change  of their positions */
function divisorsOf(change) {
  const { full_attention: full, ...others } = config.rope_parameters;
  const rope = { ...others, full_attention: { ...full, ...change } };
  const changed = { ...config, rope_parameters: JSON.parse(JSON.stringify(rope)) };
  return tablesOf(changed, configOf(changed))['rope.factors'].read(0, 1);
}

test('positions of global layers follow config.json, with the defaults of transformers', async () => {
  // As _compute_proportional_rope_parameters of transformers 5.24 has them: inv_freq / factor, and of all angles without a share.
  const rotated = (/** @type {Float32Array} */ divisors) => [...divisors].filter((divisor) => divisor < 1e9);
  assert.deepEqual(rotated(await divisorsOf({})), [1, 1]);
  assert.deepEqual(rotated(await divisorsOf({ factor: 8 })), [8, 8]);
  assert.deepEqual(rotated(await divisorsOf({ partial_rotary_factor: undefined })), Array(8).fill(1));
});

for (const change of [{ factor: 0 }, { factor: 'x' }, { partial_rotary_factor: 2 }, { partial_rotary_factor: -1 }])
  test(`positions that no model has are refused: ${JSON.stringify(change)}`, () =>
    assert.rejects(async () => divisorsOf(change), { code: 'FORMAT', message: /of full_attention is/ }));

test('a GGUF file that does not say which part of a head is rotated is refused', async () => {
  const bytes = readFileSync(new URL('../golden/gguf/gemma4.gguf', import.meta.url));
  bytes.write('rope_freqz', bytes.indexOf('rope_freqs.weight'));
  await assert.rejects(openGguf(openBytes(bytes), bytes.subarray(0, 64)), {
    code: 'UNSUPPORTED',
    message: 'Gemma 4 without the tensor "rope_freqs.weight"',
  });
});
