// Tests of receipts: they are created and reproduced in this thread and in a worker, by every build and number of threads; bq4 replay.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromBytes, fromFile, fromUrl } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { ENGINE, loadOptions, readReceipt, receiptOf, receiptOfReply, replay } from '../../js/api/receipts/index.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { serve } from '../../tools/serve.mjs';
import { tinyModel, tokenizer } from './fixture.mjs';

const path = (/** @type {string} */ name) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const BUNDLED = path('models/chat.bq4');
const GOLDEN = readFileSync(path('tests/golden/receipt.json'), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'bq4-receipts-'));
after(() => rmSync(folder, { recursive: true }));

const tiny = await tinyModel({ type: 'bq4', tokens: { ...tokenizer(), eog: [] } });
const LONG = { maxTokens: 40, temperature: 1.2, seed: 11 };

/** @param {import('../../js/shared/types.js').GenerateOptions} [options] */
async function output(options = LONG) {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(tiny), { kv: 'f16' });
  const session = await model.createSession();
  const run = session.generate([5, 6, 7], options);
  for await (const _ of run) if (options === STOPPED && (await session.tokens()).length === 9) break;
  const result = /** @type {import('../../js/shared/types.js').Result} */ (await run.result);
  return { engine, model, session, result, receipt: await receiptOf(model, session, result, options) };
}
const STOPPED = { ...LONG };

for (const [name, create] of /** @type {[string, () => Promise<any>][]} */ ([
  ['simd128', () => createEngine({ build: 'simd128', threads: 1 })],
  ['relaxed, 3 threads', () => createEngine({ build: 'relaxed', threads: 3 })],
  ['relaxed16, 2 threads', () => createEngine({ build: 'relaxed16', threads: 2 })],
  ['a worker', () => createWorkerEngine({ threads: 2 })],
]))
  test(`${name}: a receipt of the bundled model is computed again, equal to the bit`, async () => {
    const receipt = await readReceipt(GOLDEN);
    const engine = await create();
    const model = await engine.load(fromFile(BUNDLED), loadOptions(receipt));
    const found = await replay(model, receipt);
    assert.deepEqual(found, { equal: true, engine: ENGINE, tokens: receipt.tokens, differences: [] });
    await engine.close();
  });

test('a receipt of more or fewer tokens differs where the shorter one ends', async () => {
  const receipt = await readReceipt(GOLDEN);
  const engine = await createEngine({ build: 'simd128', threads: 1 });
  const model = await engine.load(fromFile(BUNDLED), loadOptions(receipt));
  const { tokens: ids } = receipt;
  const at = ids.length;
  const longer = await replay(model, { ...receipt, tokens: [...ids, 5] });
  assert.deepEqual([longer.equal, longer.differences], [false, [{ what: 'tokens', at, expected: 5, actual: null }]]);
  const shorter = await replay(model, { ...receipt, tokens: ids.slice(0, -1) });
  assert.deepEqual(shorter.differences, [{ what: 'tokens', at: at - 1, expected: null, actual: ids[at - 1] }]);
  await engine.close();
});

test('the version that receipts name is that of the package', () => {
  assert.equal(JSON.parse(readFileSync(path('package.json'), 'utf8')).version, ENGINE);
});

test('receipts keep values that JSON cannot express: a forbidden token and a pattern; and abandoned generations', async () => {
  const free = await output();
  await free.engine.close();
  const banned = free.receipt.tokens[0];
  const choices = [
    { ...LONG, logitBias: [{ token: banned, bias: -Infinity }] },
    { ...LONG, responseFormat: /** @type {const} */ ({ type: 'regex', pattern: /[a-z]{30}/ }) },
    STOPPED,
  ];
  for (const options of choices) {
    const { engine, model, session, receipt } = await output(options);
    assert.notDeepEqual(receipt.tokens, free.receipt.tokens);
    await session.close();
    const again = await readReceipt(JSON.stringify(receipt));
    assert.deepEqual(await replay(model, again), {
      equal: true,
      engine: ENGINE,
      tokens: receipt.tokens,
      differences: [],
    });
    await engine.close();
  }
});

test('the receipt of a KV cache of 4 bits names it, and another build and three threads reproduce it bit for bit', async () => {
  const one = await createEngine({ build: 'simd128', threads: 1 });
  const model = await one.load(fromBytes(tiny), { kv: 'i4' });
  const session = await model.createSession();
  const run = session.generate([5, 6, 7], LONG);
  const receipt = await receiptOf(model, session, await run.result, LONG);
  assert.equal(receipt.model.kv, 'i4');
  const again = await readReceipt(JSON.stringify(receipt));
  const other = await createEngine({ build: 'relaxed', threads: 3 });
  const loaded = await other.load(fromBytes(tiny), loadOptions(again));
  assert.equal(loaded.info.kv, 'i4');
  assert.deepEqual(await replay(loaded, again), {
    equal: true,
    engine: ENGINE,
    tokens: receipt.tokens,
    differences: [],
  });
  await Promise.all([one.close(), other.close()]);
});

test('verification with another file reports it, and the first different token', async () => {
  const { engine, session, receipt } = await output();
  await session.close();
  const other = await engine.load(fromFile(BUNDLED), { kv: 'f16' });
  const { equal, differences } = await replay(other, receipt);
  assert.equal(equal, false);
  assert.deepEqual(
    differences.map(({ what }) => what),
    ['file', 'tokens'],
  );
  const at = /** @type {number} */ (differences[1].at);
  assert.equal(differences[1].expected, receipt.tokens[at]);
  assert.notEqual(differences[1].actual, receipt.tokens[at]);
  await engine.close();
});

test('changed and invalid receipts and continued sessions are refused', async () => {
  const { engine, model, session, result, receipt } = await output();
  const code = (/** @type {unknown} */ given) => readReceipt(given).then(String, (error) => error.code);
  assert.equal(await code(receipt), '[object Object]');
  assert.equal(await code({ ...receipt, tokens: [...receipt.tokens.slice(1), 9] }), 'MISMATCH');
  assert.equal(await code({ ...receipt, seed: 12 }), 'MISMATCH');
  assert.equal(await code({ ...receipt, options: { ...receipt.options, temperature: 0 } }), 'MISMATCH');
  assert.equal(await code({ ...receipt, options: { heat: 1 } }), 'FORMAT');
  for (const none of ['{', '[]', 'null', null, 7, { receipt: 2 }, { receipt: 1 }, { ...receipt, tokens: [-1] }])
    assert.equal(await code(none), 'FORMAT', JSON.stringify(none));
  await session.append([5]);
  await assert.rejects(receiptOf(model, session, result, LONG), { code: 'STATE' });
  await engine.close();
});

for (const [name, create] of /** @type {[string, () => Promise<any>][]} */ ([
  ['in this thread', () => createEngine({ threads: 1 })],
  ['in a worker', () => createWorkerEngine({ threads: 2 })],
]))
  test(`replies of a chat, ${name}: each has a receipt, which another engine computes again`, async () => {
    const engine = await create();
    const model = await engine.load(fromFile(BUNDLED), { contextTokens: 256 });
    const chat = await model.createChat({ contextPolicy: 'shift' });
    const options = { maxTokens: 24, temperature: 0.9, seed: 3, receipt: true, stop: ['!'] };
    const receipts = [];
    for (let i = 0; i < 8; i++) {
      const result = await chat.send(`Tell me a story about a dog and the number ${i}.`, options).result;
      receipts.push(JSON.stringify(await receiptOfReply(model, result, options)));
      if (i === 7) assert.ok(result.shifted, 'the last ones have lost turns');
    }
    const plain = await chat.send('Bye.', { maxTokens: 2 }).result;
    assert.equal(plain.origin, undefined);
    await assert.rejects(receiptOfReply(model, plain), { code: 'STATE' });
    const more = {
      ...options,
      maxTokens: 300,
      logitBias: [{ token: plain.tokens[0], bias: 0 }],
      stop: [],
      temperature: 2,
    };
    const long = await chat.send('And now a very long one.', { ...more, seed: 8 }).result;
    if (long.usage.promptTokens + long.tokens.length > 257)
      await assert.rejects(receiptOfReply(model, long, more), { code: 'UNSUPPORTED' });
    await engine.close();
    const other = await createEngine({ build: 'simd128', threads: 1 });
    for (const [i, text] of receipts.entries()) {
      const receipt = await readReceipt(text);
      assert.match(String(receipt.model.file), /^[0-9a-f]{32}$/);
      const again = await other.load(fromFile(BUNDLED), loadOptions(receipt));
      const found = await replay(again, receipt);
      assert.deepEqual(found.differences, [], `reply ${i}`);
      await again.close();
    }
    await other.close();
  });

test('missing arguments and unknown options are refused by name', async () => {
  const { engine, model, session, result, receipt } = await output();
  /** @type {any[]} */
  const none = [null, undefined, 5, 'x', {}, []];
  for (const value of none) {
    const at = JSON.stringify(value);
    const format = { code: 'FORMAT', message: /^expected a receipt of version 1/ };
    assert.throws(() => loadOptions(value), format, at);
    await assert.rejects(replay(model, value), format, at);
    await assert.rejects(
      replay(value, receipt),
      { code: 'ARGUMENT', message: /^the model: expected a model, found/ },
      at,
    );
    for (const call of [
      () => receiptOf(value, session, result),
      () => receiptOf(model, value, result),
      () => receiptOf(model, session, value),
      () => receiptOfReply(value, result),
      () => receiptOfReply(model, value),
    ])
      await assert.rejects(
        call,
        { code: 'ARGUMENT', message: /^the (model|session|result): expected a \1, found/ },
        at,
      );
    if (value === undefined || at === '{}') continue;
    for (const [call, name] of /** @type {const} */ ([
      [() => receiptOf(model, session, result, value), 'receiptOf'],
      [() => receiptOfReply(model, result, value), 'receiptOfReply'],
      [() => replay(model, receipt, value), 'replay'],
    ]))
      await assert.rejects(call, { code: 'ARGUMENT', message: new RegExp(`^the last argument of ${name}: `) }, at);
  }
  assert.throws(() => loadOptions(/** @type {any} */ ({ receipt: 1, model: {} })), { code: 'FORMAT' });
  for (const [call, message] of /** @type {[() => Promise<unknown>, RegExp][]} */ ([
    [() => receiptOf(model, session, result, /** @type {any} */ ({ temprature: 1 })), /did you mean "temperature"/],
    [() => receiptOf(model, session, result, /** @type {any} */ ({ tools: [] })), /unknown option "tools"/],
    [() => receiptOfReply(model, result, /** @type {any} */ ({ temprature: 1 })), /did you mean "temperature"/],
    [() => replay(model, receipt, /** @type {any} */ ({ singal: null })), /did you mean "signal"/],
  ]))
    await assert.rejects(call, { code: 'ARGUMENT', message });
  await engine.close();
});

test('a reply that may call tools has no receipt: its sections are constrained by themselves', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await tinyModel({ config: { context: 1024 } })));
  const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'now', parameters: {} } }];
  const messages = [{ role: 'user', content: 'Hi' }];
  for (const toolChoice of /** @type {const} */ (['required', 'auto', 'none'])) {
    const options = { tools, toolChoice, receipt: true, maxTokens: 40, temperature: 0, seed: 1 };
    const receipt = receiptOfReply(model, await model.generate(messages, options).result, options);
    if (toolChoice === 'none') assert.ok((await replay(model, await receipt)).equal);
    else await assert.rejects(receipt, { code: 'UNSUPPORTED', message: /^receipts do not support calls of tools/ });
  }
  await engine.close();
});

test('a generation that a deadline ended is compared up to its end', async () => {
  const { engine, model, session, receipt } = await output({ ...LONG, deadline: 0 });
  await session.close();
  assert.deepEqual((await replay(model, receipt)).differences, []);
  assert.deepEqual([receipt.finishReason, receipt.tokens], ['deadline', []]);
  await engine.close();
});

test(
  'a GGUF file has an id, the same from a disk and from an address, with its length in it',
  { skip: realModel('smollm2') ? false : NO_REAL_MODEL },
  async (t) => {
    const file = String(realModel('smollm2'));
    const site = await serve({ root: dirname(dirname(file)), folders: ['smollm2'] });
    t.after(() => site.close());
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    t.after(() => engine.close());
    const options = { maxTokens: 4, temperature: 0, receipt: true };
    /** @type {(string | null)[]} */
    const found = [];
    for (const source of [fromFile(file), fromUrl(`${site.url}smollm2/${basename(file)}`)]) {
      const model = await engine.load(source, { contextTokens: 64 });
      const receipt = await receiptOfReply(
        model,
        await (await model.createChat()).send('Hello', options).result,
        options,
      );
      assert.deepEqual((await replay(model, receipt)).differences, []);
      found.push(receipt.model.file);
      await model.close();
    }
    assert.equal(found[0], found[1]);
    const length = statSync(file).size;
    assert.equal(Buffer.from(String(found[0]), 'hex').readBigUInt64LE(8), BigInt(length));
  },
);

test('bq4 run --receipt, bq4 replay', () => {
  const bq4 = (/** @type {string[]} */ ...words) =>
    spawnSync(process.execPath, [path('bin/bq4.js'), ...words], { encoding: 'utf8' });
  const [file, changed] = [join(folder, 'receipt.json'), join(folder, 'changed.json')];
  const run = bq4('run', BUNDLED, 'Once upon a time', '--max-tokens', '12', '--seed', '5', '--receipt', file, '--json');
  assert.equal(run.stderr, '');
  assert.deepEqual(JSON.parse(run.stdout).tokens, JSON.parse(readFileSync(file, 'utf8')).tokens);
  const again = bq4('replay', file, BUNDLED, '--build', 'simd128', '--threads', '1');
  assert.deepEqual([again.status, again.stderr], [0, '']);
  assert.match(again.stdout, /^equal: 12 tokens, by bq4 [\w.-]+, simd128, 1 thread\n$/);
  const other = join(folder, 'other.bq4');
  writeFileSync(other, tiny);
  const message = join(folder, 'said.json');
  const chat = ['run', BUNDLED, 'Tell me a story.', '--chat', '--max-tokens', '9', '--temperature', '1'];
  assert.equal(bq4(...chat, '--receipt', message).stderr, '');
  assert.match(bq4('replay', message, BUNDLED).stdout, /^equal: 9 tokens/);
  const not = bq4('replay', file, other, '--json');
  assert.equal(not.status, 1, not.stdout);
  writeFileSync(changed, readFileSync(file, 'utf8').replace('"seed":5', '"seed":6'));
  const refused = bq4('replay', changed, BUNDLED);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /the receipt was changed/);
});
