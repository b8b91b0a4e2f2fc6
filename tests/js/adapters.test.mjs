// Tests of LoRA adapters: files of PEFT and llama.cpp (tests/golden/make_adapters.py) have the logits of PEFT's merged models; sessions of
// one model use different adapters, or none; invalid ones are refused by name.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { LocalAdapter } from '../../js/engine/model/adapter.js';
import { connectEngine } from '../../js/index.js';
import { BqError, createEngine, fromBytes, fromFile, fromUrl } from '../../js/node.js';
import { receiptOf, receiptOfReply, replay } from '../../js/api/receipts/index.js';
import { faultServer } from '../server/faults.mjs';
import { safetensors } from './checkpoints.mjs';
import { openLogits } from './logits.mjs';

const GOLDEN = fileURLToPath(new URL('../golden/', import.meta.url));
const BQ4 = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
const ADAPTERS = join(GOLDEN, 'adapters');
const TOLERANCE = 1e-3;
const SPARE_BYTES = 1 << 20;
const readJson = (/** @type {string} */ path) => JSON.parse(readFileSync(path, 'utf8'));
const peft = (/** @type {string} */ name) => fromFile(join(ADAPTERS, name, 'adapter_model.safetensors'));
const gguf = (/** @type {string} */ name) => fromFile(join(ADAPTERS, name, 'adapter.gguf'));

const folder = mkdtempSync(join(tmpdir(), 'bq4-adapters-'));
after(() => rmSync(folder, { recursive: true }));

/** Converts a fixture to .bq4. @param {string} name @param {string} [quant] */
async function converted(name, quant = 'f32') {
  const to = join(folder, `${name}-${quant}.bq4`);
  if (!existsSync(to)) await convert(join(GOLDEN, 'fixtures', name), to, { quant });
  return fromFile(to);
}

/** Sets the adapter of a session of openLogits. @param {any} opened @param {import('../../js/index.js').Source} source */
async function adapt({ wasm, model, session }, source) {
  const conf = wasm.scope((/** @type {any} */ take) => {
    const out = take(8);
    wasm.check('bqw_model_section', model, Buffer.from('CONF').readUInt32LE(), out, out + 4);
    const [at, length] = wasm.u32(out, 2);
    return wasm.bytes(at, length).slice();
  });
  const room = { take: () => {}, release: () => {}, remove: () => {} };
  const adapter = await LocalAdapter.load(wasm, conf, source, {}, { sessions: 1, rows: 32 }, room);
  adapter.enter(session);
  return adapter;
}

/** Returns the largest difference of the logits of all positions, fed one by one. @param {any} opened @param {any} expected */
function errorOf(opened, { ids, vocab, logits }) {
  const wanted = new Float32Array(Uint8Array.from(Buffer.from(logits, 'base64')).buffer);
  return Math.max(
    ...ids.map((/** @type {number} */ id, /** @type {number} */ i) => {
      const got = i ? opened.next(id) : opened.start([id]);
      return got.reduce(
        (/** @type {number} */ most, /** @type {number} */ x, /** @type {number} */ k) =>
          Math.max(most, Math.abs(x - wanted[i * vocab + k])),
        0,
      );
    }),
  );
}

for (const name of readdirSync(ADAPTERS)) {
  const expected = readJson(join(ADAPTERS, name, 'expected.json'));
  const { fixture, ids } = expected;
  const bases = ['.bq4', '.gguf'].filter(
    (kind) => kind === '.bq4' || existsSync(join(GOLDEN, 'gguf', `${fixture}.gguf`)),
  );
  const files = [peft(name), gguf(name)].filter((source) => existsSync(/** @type {any} */ (source).path));
  for (const base of bases)
    for (const file of files) {
      const format = /** @type {any} */ (file).path.endsWith('.gguf') ? 'GGUF' : 'safetensors';
      test(`${name} from ${format} on ${base}: logits of the merged model at every position, for any batches`, async () => {
        const source = base === '.bq4' ? await converted(fixture) : fromFile(join(GOLDEN, 'gguf', `${fixture}.gguf`));
        const one = await openLogits(source, { adapterBytes: SPARE_BYTES });
        const without = one.start(ids);
        await adapt(one, file);
        const error = errorOf(one, expected);
        assert.ok(error < TOLERANCE, `${error}`);
        const last = one.start(ids);
        const moved = last.reduce((most, x, i) => Math.max(most, Math.abs(x - without[i])), 0);
        assert.ok(moved > 100 * TOLERANCE, `${moved}`);
        const batches = await openLogits(source, { adapterBytes: SPARE_BYTES, prefillBatch: 5, prefillWindow: 7 });
        await adapt(batches, file);
        assert.deepEqual(batches.start(ids), last);
        one.wasm.check('bqw_session_adapter', one.session, 0, 0);
        assert.deepEqual(one.start(ids), without);
      });
    }
}

test('the same bits in every build, with 1 and 3 threads, for f32 and quantized weights', async () => {
  const { ids } = readJson(join(ADAPTERS, 'llama-gqa/expected.json'));
  for (const quant of ['f32', 'bq4']) {
    const source = await converted('llama-gqa', quant);
    const all = [];
    for (const build of /** @type {const} */ (['simd128', 'relaxed', 'relaxed16']))
      for (const threads of [0, 1, 3]) {
        const opened = await openLogits(source, { build, threads, adapterBytes: SPARE_BYTES, kv: 'i8' });
        await adapt(opened, peft('llama-gqa'));
        all.push([opened.start(ids.slice(0, 9)), ...ids.slice(9).map((/** @type {number} */ id) => opened.next(id))]);
      }
    for (const other of all.slice(1)) assert.deepEqual(other, all[0]);
  }
});

/** @param {import('../../js/index.js').Model} model @param {object} options */
const greedy = async (model, options) =>
  (await model.generate([1, 2, 3, 4], { maxTokens: 12, temperature: 0, ...options }).result).tokens;

for (const far of [false, true])
  test(`two adapters and none in turn, ${far ? 'through a port' : 'in this thread'}: each has its own text, and no cache of another`, async () => {
    const own = await createEngine({ build: 'relaxed', threads: 1 });
    const engine = far ? await connectEngine(await own.openPort()) : own;
    const model = await engine.load(await converted('llama-gqa'), {
      kv: 'f32',
      sessions: 3,
      forks: 1,
      adapterBytes: SPARE_BYTES,
    });
    const plain = await greedy(model, {});
    const a = await model.loadAdapter(peft('llama-gqa'));
    const b = await model.loadAdapter(gguf('llama-gqa-some'));
    const again = await model.loadAdapter(gguf('llama-gqa'));
    assert.deepEqual([a.info.format, a.info.changes, b.info.changes], ['peft', 14, 2]);
    const [ofA, ofB] = [await greedy(model, { adapter: a }), await greedy(model, { adapter: b })];
    assert.notDeepEqual(ofA, plain);
    assert.notDeepEqual(ofA, ofB);
    const session = await model.createSession({ adapter: a });
    const run = async (/** @type {object} */ options) =>
      session.generate([1, 2, 3, 4], { maxTokens: 12, temperature: 0, ...options }).result;
    assert.deepEqual((await run({})).tokens, ofA);
    const fork = await session.fork();
    assert.deepEqual((await fork.generate([1, 2, 3, 4], { maxTokens: 12, temperature: 0 }).result).tokens, ofA);
    const other = await run({ adapter: b });
    assert.deepEqual([other.tokens, other.usage.cachedTokens], [ofB, 0]);
    const none = await run({ adapter: null });
    assert.deepEqual([none.tokens, none.usage.cachedTokens], [plain, 0]);
    assert.ok((await run({})).usage.cachedTokens > 0);
    for (const [adapter, wanted] of /** @type {[any, number[]][]} */ ([
      [a, ofA],
      [b, ofB],
      [null, plain],
      [again, ofA],
    ]))
      assert.deepEqual(await greedy(model, { adapter }), wanted);
    await a.close();
    await assert.rejects(greedy(model, { adapter: a }), { code: 'CLOSED' });
    assert.deepEqual((await fork.generate([1, 2, 3, 4], { maxTokens: 12, temperature: 0 }).result).tokens, ofA);
    assert.deepEqual(await greedy(model, { adapter: b }), ofB);
    await engine.close();
    await own.close();
  });

for (const far of [false, true])
  test(`OpenAI's calls with an adapter, ${far ? 'through a port' : 'in this thread'}`, async (t) => {
    const own = await createEngine({ build: 'relaxed', threads: 1 });
    const engine = far ? await connectEngine(await own.openPort()) : own;
    t.after(async () => {
      await engine.close();
      await own.close();
    });
    const model = await engine.load(await converted('llama-gqa'), { sessions: 2, adapterBytes: SPARE_BYTES });
    const adapter = await model.loadAdapter(peft('llama-gqa'));
    const [plain, changed] = [await greedy(model, {}), await greedy(model, { adapter })];
    // The fixture has no tokenizer: all messages have the same prompt.
    /** @type {number[][]} */
    const computed = [];
    const { generate } = model;
    model.generate = (_, options) => {
      const run = generate([1, 2, 3, 4], { ...options, stop: [] });
      void run.result.then(({ tokens: ids }) => computed.push(ids));
      return /** @type {any} */ ({ [Symbol.asyncIterator]: async function* () {}, result: run.result });
    };
    const fields = { temperature: 0, max_tokens: 12 };
    const messages = [{ role: 'user', content: 'Ahoy' }];
    for (const bq4 of [{ adapter }, {}, { adapter: null }]) {
      await model.completions.create({ ...fields, prompt: [1], bq4 });
      await model.chat.completions.create({ ...fields, messages, bq4 });
    }
    assert.deepEqual(computed, [changed, changed, plain, plain, plain, plain]);
    for (const wrong of ['pirate', {}, 3])
      await assert.rejects(
        model.chat.completions.create({ ...fields, messages, bq4: { adapter: /** @type {any} */ (wrong) } }),
        (/** @type {any} */ error) => error.code === 'ARGUMENT' && error.details.param === 'bq4.adapter',
      );
  });

test('a saved session continues only with its adapter', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(await converted('llama-gqa'), { sessions: 2, adapterBytes: SPARE_BYTES });
  const [a, b] = [await model.loadAdapter(peft('llama-gqa')), await model.loadAdapter(peft('llama-gqa-some'))];
  const session = await model.createSession({ adapter: a });
  await session.append([1, 2, 3, 4, 5]);
  const saved = await session.save();
  const { tokens: ids } = await session.continue({ maxTokens: 6, temperature: 0 }).result;
  for (const adapter of [null, b]) {
    const other = await model.createSession({ adapter });
    await assert.rejects(other.restore(saved), { code: 'MISMATCH' });
    await other.close();
  }
  await a.close();
  const same = await model.createSession({ adapter: await model.loadAdapter(peft('llama-gqa')) });
  await same.restore(saved);
  const { tokens: again, usage } = await same.continue({ maxTokens: 6, temperature: 0 }).result;
  assert.deepEqual([again, usage.cachedTokens], [ids, 4]);
  await engine.close();
});

for (const far of [false, true])
  test(`a result with an adapter has no receipt, ${far ? 'through a port' : 'in this thread'}`, async (t) => {
    const own = await createEngine({ build: 'relaxed', threads: 1 });
    const engine = far ? await connectEngine(await own.openPort()) : own;
    t.after(async () => {
      await engine.close();
      await own.close();
    });
    const model = await engine.load(await converted('llama-gqa'), { sessions: 2, adapterBytes: SPARE_BYTES });
    const adapter = await model.loadAdapter(peft('llama-gqa'));
    const refused = { code: 'UNSUPPORTED', message: 'receipts do not support adapters' };
    const options = { maxTokens: 4, temperature: 0 };
    const plain = await model.createSession();
    const changed = { ...options, adapter };
    const result = await plain.generate([1, 2, 3], changed).result;
    await assert.rejects(receiptOf(model, plain, result, changed), refused);
    await assert.rejects(receiptOf(model, plain, result, options), refused, 'nor where its options are left out');
    const origin = { file: null, prompt: [1, 2, 3], stop: [], stopTokens: [], sections: false };
    await assert.rejects(receiptOfReply(model, { ...result, origin }, changed), refused);
    const session = await model.createSession({ adapter });
    const output = await session.generate([1, 2, 3], options).result;
    await assert.rejects(receiptOf(model, session, output, options), refused, 'of a session that computes with one');
    const without = { ...options, adapter: null };
    const receipt = await receiptOf(model, plain, await plain.generate([1, 2, 3], without).result, without);
    await session.close();
    assert.deepEqual((await replay(model, receipt)).differences, []);
  });

test('bq4 run: --receipt and --adapter are refused together, before any file is read', () => {
  const file = join(ADAPTERS, 'llama-gqa/adapter_model.safetensors');
  const out = join(folder, 'receipt.json');
  for (const more of [[], ['--chat']]) {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [BQ4, 'run', 'nothing.bq4', 'Ahoy', ...more, '--adapter', file, '--receipt', out],
      { encoding: 'utf8' },
    );
    assert.deepEqual([status, stdout, existsSync(out)], [2, '', false], stderr);
    assert.match(stderr, /receipts do not support adapters/);
  }
});

test('an adapter is loaded from an address, in ranges or in one response of a server without ranges', async (t) => {
  const names = ['adapter_model.safetensors', 'adapter_config.json', 'adapter.gguf'];
  const server = await faultServer(
    Object.fromEntries(names.map((name) => [`/${name}`, readFileSync(join(ADAPTERS, 'llama-gqa', name))])),
  );
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  t.after(async () => {
    await engine.close();
    await server.close();
  });
  const model = await engine.load(await converted('llama-gqa'), { adapterBytes: SPARE_BYTES });
  const near = await model.loadAdapter(peft('llama-gqa'));
  const wanted = await greedy(model, { adapter: near });
  await near.close();
  for (const faults of [
    [],
    [{ status: 200 }],
    [{ status: 200, length: 'none' }],
    [{ status: 200, drop: 5000, times: 1 }],
  ])
    for (const name of ['adapter_model.safetensors', 'adapter.gguf']) {
      server.faults = /** @type {any} */ (faults);
      const adapter = await model.loadAdapter(fromUrl(server.at(`/${name}`), { retryDelay: 1 }));
      assert.deepEqual(await greedy(model, { adapter }), wanted, `${name} ${JSON.stringify(faults)}`);
      await adapter.close();
    }
});

test('the plan includes memory for adapters; too little is refused with the required bytes', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const source = await converted('llama-gqa');
  const [none, some] = [await engine.plan(source), await engine.plan(source, { adapterBytes: SPARE_BYTES })];
  assert.equal(some.heapBytes - none.heapBytes, SPARE_BYTES);
  const without = await engine.load(source);
  const failed = await without.loadAdapter(peft('llama-gqa')).catch((error) => error);
  assert.equal(failed.code, 'NOMEM');
  assert.match(failed.hint, new RegExp(`adapterBytes: ${failed.details.needed} `));
  const model = await engine.load(source, { adapterBytes: failed.details.needed });
  const adapter = await model.loadAdapter(peft('llama-gqa'));
  const { used } = await model.memory();
  const session = await model.createSession({ adapter });
  await assert.rejects(model.loadAdapter(peft('llama-gqa-some')), { code: 'NOMEM' });
  await adapter.close();
  await assert.rejects(model.loadAdapter(peft('llama-gqa')), { code: 'NOMEM' }, 'a session still uses the other');
  await session.close();
  await (await model.loadAdapter(peft('llama-gqa'))).close();
  assert.ok((await model.memory()).used < used);
  const replies = await model.loadAdapter(peft('llama-gqa'));
  await greedy(model, { adapter: replies });
  await replies.close(); // the model's own session does not use it any more
  await (await model.loadAdapter(peft('llama-gqa'))).close();
  await engine.close();
});

/** Files of PEFT with one change. @param {(settings: any, tensors: Map<string, { dims: number[], values: Float32Array }>) => void} change */
function changed(change) {
  const file = readFileSync(join(ADAPTERS, 'llama-gqa/adapter_model.safetensors'));
  const length = Number(file.readBigUInt64LE());
  const header = JSON.parse(file.toString('utf8', 8, 8 + length));
  delete header.__metadata__;
  const tensors = new Map(
    Object.entries(header).map(
      ([
        name,
        {
          shape,
          data_offsets: [from, to],
        },
      ]) => [
        name,
        {
          dims: shape,
          values: new Float32Array(Uint8Array.from(file.subarray(8 + length + from, 8 + length + to)).buffer),
        },
      ],
    ),
  );
  const settings = readJson(join(ADAPTERS, 'llama-gqa/adapter_config.json'));
  change(settings, tensors);
  return fromBytes(safetensors(tensors), { companion: fromBytes(Buffer.from(JSON.stringify(settings))) });
}

const FIRST = 'base_model.model.model.layers.0.self_attn.q_proj';
/** @type {[string, (settings: any, tensors: Map<string, any>) => void, string, RegExp][]} */
const REFUSED = [
  ['DoRA', (s) => (s.use_dora = true), 'UNSUPPORTED', /"use_dora"/],
  ['biases', (s) => (s.bias = 'all'), 'UNSUPPORTED', /bias "all"/],
  ['modules_to_save', (s) => (s.modules_to_save = ['lm_head']), 'UNSUPPORTED', /"modules_to_save"/],
  ['PiSSA', (s) => (s.init_lora_weights = 'pissa_niter_4'), 'UNSUPPORTED', /init_lora_weights/],
  ['another method', (s) => (s.peft_type = 'LOHA'), 'UNSUPPORTED', /peft_type "LOHA"/],
  ['no alpha', (s) => (s.lora_alpha = 'x'), 'FORMAT', /"lora_alpha"/],
  ['a pattern that is an expression', (s) => (s.rank_pattern = { '(a+)+$': 3 }), 'UNSUPPORTED', /\(a\+\)\+\$/],
  ['another rank than it says', (s) => (s.r = 3), 'SHAPE', /rank 8.*specifies 3/],
  ['half a pair', (_, t) => t.delete(`${FIRST}.lora_B.weight`), 'SHAPE', /q_proj\.lora_B\.weight" is missing/],
  [
    'a vector of DoRA',
    (_, t) => t.set(`${FIRST}.lora_magnitude_vector`, { dims: [32], values: new Float32Array(32) }),
    'UNSUPPORTED',
    /lora_magnitude_vector/,
  ],
  ['a layer too many', (_, t) => rename(t, 'layers.1.', 'layers.7.'), 'SHAPE', /layers\.7.*only 2 layers/],
  ['a module that no such model has', (_, t) => rename(t, 'q_proj', 'query'), 'UNSUPPORTED', /self_attn\.query/],
  ['the head', (_, t) => rename(t, 'model.layers.0.self_attn.q_proj', 'lm_head'), 'UNSUPPORTED', /lm_head/],
  [
    'a matrix of another model',
    (_, t) => t.set(`${FIRST}.lora_A.weight`, { dims: [8, 48], values: new Float32Array(384) }),
    'SHAPE',
    /8 × 48; the model.s matrix is 32 × 32/,
  ],
  [
    'a weight that is no number',
    (_, t) => (t.get(`${FIRST}.lora_A.weight`).values[5] = NaN),
    'FORMAT',
    /expected finite weights/,
  ],
  ['nothing', (_, t) => t.clear(), 'FORMAT', /is not an adapter: it has no LoRA matrices/],
];

/** @param {Map<string, any>} tensors @param {string} from @param {string} to */
function rename(tensors, from, to) {
  for (const [name, tensor] of [...tensors]) {
    if (!name.includes(from)) continue;
    tensors.delete(name);
    tensors.set(name.replace(from, to), tensor);
  }
}

test('invalid adapters are refused by name, and release their memory', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(await converted('llama-gqa'), { adapterBytes: 60000 });
  const { used } = await model.memory();
  await (await model.loadAdapter(changed(() => {}))).close();
  for (const [what, change, code, message] of REFUSED)
    await assert.rejects(model.loadAdapter(changed(change)), { code, message }, what);
  await assert.rejects(model.loadAdapter(gguf('phi3')), { code: 'SHAPE', message: /architecture "phi3"/ });
  await assert.rejects(model.loadAdapter(fromFile(join(GOLDEN, 'gguf/llama-gqa.gguf'))), {
    code: 'FORMAT',
    message: /not an adapter/,
  });
  const one = changed(() => {});
  await assert.rejects(model.loadAdapter({ ...one, companion: undefined }), { code: 'ARGUMENT' });
  await assert.rejects(model.loadAdapter({ ...one, companion: fromBytes(Buffer.from('{')) }), { code: 'FORMAT' });
  assert.equal((await model.memory()).used, used);
  await assert.rejects(greedy(model, { adapter: 'of another model' }), { code: 'CLOSED' });
  await engine.close();
});

test('truncated and changed adapter files give a typed error', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(await converted('llama-gqa'), { adapterBytes: SPARE_BYTES });
  for (const name of ['adapter_model.safetensors', 'adapter.gguf']) {
    const whole = readFileSync(join(ADAPTERS, 'llama-gqa', name));
    const companion = fromFile(join(ADAPTERS, 'llama-gqa/adapter_config.json'));
    for (let i = 0; i < 200; i++) {
      const bytes = Uint8Array.from(i % 2 ? whole : whole.subarray(0, (i * 7919) % whole.length));
      for (let k = 0; i % 2 && k < 3; k++)
        bytes[(i * 104729 + k * 15485863) % Math.min(bytes.length, 3000)] ^= 1 << ((i + k) % 8);
      try {
        await (await model.loadAdapter(fromBytes(bytes, { companion }))).close();
      } catch (error) {
        assert.ok(error instanceof BqError, `${name} ${i}: ${error.stack}`);
      }
    }
  }
  await engine.close();
});
