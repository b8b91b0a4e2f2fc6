// Tests of prompt caches: replies are the same, and only new tokens are computed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { loadWithPromptCache } from '../../js/engine/prompt/prompt-cache-file.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { faultServer } from '../server/faults.mjs';
import { until } from '../waiting.mjs';
import { tinyModel, tokenizer } from './fixture.mjs';
import { randomGguf } from './gguf-writer.mjs';

const path = (/** @type {string} */ name) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const BUNDLED = path('models/chat.bq4');
const folder = mkdtempSync(join(tmpdir(), 'bq4-prompt-state-'));
after(() => rmSync(folder, { recursive: true }));

const BEFORE = [
  { role: 'user', content: 'Tell me a story about a dog.' },
  { role: 'assistant', content: 'Once upon a time there was a dog who lived by the sea and barked at every wave.' },
];
const ASKED = [...BEFORE, { role: 'user', content: 'And then?' }];
const OPTIONS = { maxTokens: 12, temperature: 0 };

for (const [name, create] of /** @type {[string, () => Promise<any>][]} */ ([
  ['this thread', () => createEngine({ threads: 1 })],
  ['a worker', () => createWorkerEngine({ threads: 1 })],
]))
  test(`${name}: a reply computes only what a state does not hold, and is the same`, async () => {
    const maker = await createEngine({ build: 'simd128', threads: 1 });
    const output = await maker.load(fromFile(BUNDLED));
    const state = await output.savePromptCache(BEFORE);
    await maker.close();

    const engine = await create();
    const model = await engine.load(fromFile(BUNDLED));
    const plain = await model.generate(ASKED, OPTIONS).result;
    await model.close();
    const again = await engine.load(fromFile(BUNDLED));
    const { tokens } = await again.loadPromptCache(state);
    assert.ok(tokens > 20, String(tokens));
    assert.ok(tokens < plain.usage.promptTokens);
    const reply = await again.generate(ASKED, OPTIONS).result;
    assert.deepEqual([plain.usage.cachedTokens, reply.usage.cachedTokens], [0, tokens]);
    assert.deepEqual(reply.tokens, plain.tokens);
    // Another conversation with the same beginning finds it too.
    const other = await again.generate([...BEFORE, { role: 'user', content: 'Who was it?' }], OPTIONS).result;
    assert.ok(other.usage.cachedTokens >= tokens, String(other.usage.cachedTokens));
    await engine.close();
  });

test('a prompt cache of another file or KV type, a truncated or changed one is refused, and the model can be used', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile(BUNDLED));
  const state = await model.savePromptCache(BEFORE);
  const refusal = (/** @type {any} */ to, /** @type {any} */ bytes) =>
    to.loadPromptCache(bytes).then(
      () => 'none',
      (/** @type {any} */ error) => error.code,
    );
  assert.equal(await refusal(model, state.subarray(0, state.length - 1)), 'TRUNCATED');
  assert.equal(await refusal(model, new Uint8Array(4096)), 'FORMAT');
  assert.equal(await refusal(model, new Uint8Array(0)), 'TRUNCATED');
  assert.equal(await refusal(model, 'state'), 'ARGUMENT');
  // One bit of any byte of the head and of the last ones, of every thousandth between.
  for (let at = 0; at < state.length; at += at < 130 || at > state.length - 1010 ? 1 : 1000) {
    const changed = state.slice();
    changed[at] ^= 1 << (at % 8);
    const code = await refusal(model, changed);
    if (at >= 128) assert.equal(code, 'FORMAT', `byte ${at}`);
    else assert.match(code, /^(FORMAT|UNSUPPORTED|MISMATCH|CONTEXT_FULL|TRUNCATED)$/, `byte ${at}`);
  }
  const older = state.slice();
  older[4] = 2;
  await assert.rejects(model.loadPromptCache(older), {
    code: 'UNSUPPORTED',
    message: /by another version .*: save it again/,
    hint: /save the session with this version/,
  });
  const plain = await (await engine.load(fromFile(BUNDLED))).generate(ASKED, OPTIONS).result;
  assert.deepEqual((await model.generate(ASKED, OPTIONS).result).tokens, plain.tokens);
  const floats = await engine.load(fromFile(BUNDLED), { kv: 'f32' });
  assert.equal(await refusal(floats, state), 'MISMATCH');
  const other = await engine.load(fromBytes(await tinyModel({ type: 'bq4', tokens: { ...tokenizer(), eog: [] } })));
  assert.equal(await refusal(other, state), 'MISMATCH');
  await assert.rejects(
    model.savePromptCache([{ role: 'nobody', content: 'x' }]),
    (/** @type {any} */ { code }) => !!code,
  );
  const signal = AbortSignal.abort();
  await assert.rejects(model.savePromptCache(BEFORE, { signal }), { name: 'AbortError' });
  await engine.close();
});

test('a prompt cache of another fine-tune of a GGUF file is refused, and leaves no state', async () => {
  const config = {
    arch: 'llama',
    layers: 2,
    hidden: 64,
    heads: 2,
    kv_heads: 2,
    ffn: 128,
    vocab: 128,
    context: 128,
    norm_eps: 1e-5,
    tied: true,
  };
  const [one, other] = [1, 2].map((seed) => randomGguf(config, { seed }));
  assert.equal(one.length, other.length);
  const messages = [{ role: 'system', content: 'what is said before' }];
  const engine = await createEngine({ threads: 1 });
  const state = await (await engine.load(fromBytes(one))).savePromptCache(messages);
  const same = await engine.load(fromBytes(one));
  const { tokens } = await same.loadPromptCache(state);
  assert.ok(tokens > 10, String(tokens));
  const model = await engine.load(fromBytes(other));
  await assert.rejects(model.loadPromptCache(state), { code: 'MISMATCH', message: /other weights/ });
  const { usage } = await model.generate([...messages, { role: 'user', content: 'x' }], { maxTokens: 1 }).result;
  assert.equal(usage.cachedTokens, 0);
  // Of a saved session the last token is not computed, so there is nothing to compare.
  const maker = await engine.load(fromBytes(one), { sessions: 2 });
  const talked = await maker.createSession();
  await talked.generate([5, 6, 7, 8], { maxTokens: 4 }).result;
  for (const bytes of [await talked.save(), await (await maker.createSession()).save()]) {
    await assert.rejects(model.loadPromptCache(bytes), { code: 'ARGUMENT', message: /found a saved session/ });
    const loaded = await engine.load(fromBytes(other), { promptCache: bytes });
    assert.equal(loaded.info.promptCache?.tokens, 0);
    assert.match(loaded.info.promptCache?.problem ?? '', /^ARGUMENT: expected a prompt cache, found a saved session/);
  }
  const { usage: after } = await model.generate([5, 6, 7, 8, 9], { maxTokens: 1 }).result;
  assert.equal(after.cachedTokens, 0);
  await engine.close();
});

/** A model with the file that the command writes beside it. */
function modelWithPrompt() {
  const file = join(mkdtempSync(join(folder, 'site-')), 'chat.bq4');
  copyFileSync(BUNDLED, file);
  const messages = join(folder, 'messages.json');
  writeFileSync(messages, JSON.stringify(BEFORE));
  const words = [path('bin/bq4.js'), 'prompt-cache', file, '--messages', messages];
  const output = spawnSync(process.execPath, words, { encoding: 'utf8' });
  assert.equal(output.status, 0, output.stderr);
  return { file, prompt: readFileSync(`${file}.prompt`) };
}

test('a prompt cache next to the model is found by path and by address, and a chat starts without its prefill', async (t) => {
  const { file, prompt } = modelWithPrompt();
  const server = await faultServer({
    '/a/chat.bq4': readFileSync(file),
    '/a/chat.bq4.prompt': prompt,
    '/b.prompt': prompt,
  });
  t.after(() => server.close());
  for (const create of [() => createEngine({ threads: 1 }), () => createWorkerEngine({ threads: 1 })]) {
    const engine = await create();
    const plain = await engine.load(fromFile(file));
    assert.equal(plain.info.promptCache, null);
    const expected = await plain.generate(ASKED, OPTIONS).result;
    await plain.close();
    for (const [source, promptCache] of /** @type {[any, any][]} */ ([
      [fromFile(file), true],
      [server.at('/a/chat.bq4'), true],
      [`${server.at('/a/chat.bq4')}?v=2#x`, true],
      [fromFile(file), server.at('/b.prompt')],
      [fromFile(file), fromBytes(new Uint8Array(prompt))],
    ])) {
      const model = await engine.load(source, { promptCache });
      const { tokens, problem } = model.info.promptCache ?? { tokens: 0, problem: 'none' };
      assert.equal(problem, '');
      assert.ok(tokens > 20, String(tokens));
      const reply = await model.generate(ASKED, OPTIONS).result;
      assert.equal(reply.usage.cachedTokens, tokens);
      assert.deepEqual(reply.tokens, expected.tokens);
      await model.close();
    }
    await engine.close();
  }
});

test('an unusable prompt cache next to the model is ignored with a reason, and replies are unchanged', async (t) => {
  const { file, prompt } = modelWithPrompt();
  const damaged = Uint8Array.from(prompt);
  damaged[damaged.length >> 1] ^= 1;
  const server = await faultServer({
    '/short': prompt.subarray(0, -1),
    '/damaged': damaged,
    '/whole': prompt,
    '/page': new TextEncoder().encode('<!doctype html>'.repeat(20)),
  });
  t.after(() => server.close());
  const engine = await createEngine({ threads: 1 });
  const plain = await engine.load(fromFile(file));
  const expected = (await plain.generate(ASKED, OPTIONS).result).tokens;
  await plain.close();
  const other = await tinyModel({ type: 'bq4', tokens: { ...tokenizer(), eog: [] } });
  for (const [code, source, options] of /** @type {[string, any, any][]} */ ([
    ['TRUNCATED', fromFile(file), { promptCache: server.at('/short') }],
    ['FORMAT', fromFile(file), { promptCache: server.at('/damaged') }],
    ['FORMAT', fromFile(file), { promptCache: server.at('/page') }],
    ['HTTP_STATUS', fromFile(file), { promptCache: server.at('/none') }],
    ['MISMATCH', fromFile(file), { promptCache: server.at('/whole'), kv: 'f32' }],
    ['CONTEXT_FULL', fromFile(file), { promptCache: server.at('/whole'), contextTokens: 16 }],
    ['MISMATCH', fromBytes(other), { promptCache: server.at('/whole') }],
    ['READ', fromFile(BUNDLED), { promptCache: true }],
    ['ARGUMENT', fromBytes(other), { promptCache: true }],
  ])) {
    const model = await engine.load(source, options);
    const { tokens, problem } = model.info.promptCache ?? { tokens: -1, problem: '' };
    assert.deepEqual([tokens, problem.split(':')[0]], [0, code], problem);
    if (source.kind === 'file' && !options.contextTokens && !options.kv) {
      const reply = await model.generate(ASKED, OPTIONS).result;
      assert.deepEqual([reply.tokens, reply.usage.cachedTokens], [expected, 0]);
    }
    await model.close();
  }
  // Another system prompt: what it has in common with the file is used, and nothing else.
  const model = await engine.load(fromFile(file), { promptCache: true });
  const asked = [{ role: 'user', content: 'Tell me about a cat.' }];
  const [reply, alone] = [model, await engine.load(fromFile(file))].map((m) => m.generate(asked, OPTIONS).result);
  assert.deepEqual((await reply).tokens, (await alone).tokens);
  await assert.rejects(engine.load(fromFile(file), { promptCache: true, streaming: true }), {
    code: 'ARGUMENT',
    message: /streaming/,
  });
  await assert.rejects(engine.load(fromFile(file), { promptCache: /** @type {any} */ (7) }), { code: 'ARGUMENT' });
  const signal = AbortSignal.abort();
  await assert.rejects(engine.load(fromFile(file), { promptCache: true, signal }), { name: 'AbortError' });
  await engine.close();
});

test('promptCache: false loads without a prompt cache; other values are refused by the name of the option', async () => {
  const { file } = modelWithPrompt();
  for (const engine of [await createEngine({ threads: 1 }), await createWorkerEngine({ threads: 1 })]) {
    const model = await engine.load(fromFile(file), { promptCache: false, streaming: true });
    assert.equal(model.info.promptCache, null);
    for (const value of /** @type {any[]} */ (['', 0, NaN, null, 7, {}, [], [new Blob(['x'])], () => 1, new Date()]))
      await assert.rejects(engine.load(fromFile(file), { promptCache: value }), {
        code: 'ARGUMENT',
        message: /^promptCache: expected true, false or the source of a file/,
      });
    await engine.close();
  }
});

test('no prompt cache is searched for data: and blob: addresses: the model is not read twice', async () => {
  const { file } = modelWithPrompt();
  const engine = await createEngine({ threads: 1 });
  const bytes = readFileSync(file);
  const url = URL.createObjectURL(new Blob([bytes]));
  for (const source of [url, `data:application/octet-stream;base64,${bytes.toString('base64')}`]) {
    const model = await engine.load(source, { promptCache: true });
    assert.match(model.info.promptCache?.problem ?? '', /^ARGUMENT: the model has no address/);
    await model.close();
  }
  URL.revokeObjectURL(url);
  await engine.close();
});

test('a prompt cache is requested once: a failed or invalid one is ignored, and a failed load ends the request', async (t) => {
  const { file, prompt } = modelWithPrompt();
  const other = new Uint8Array(64e6).fill(1);
  const server = await faultServer({ '/m.bq4': readFileSync(file), '/m.bq4.prompt': prompt, '/other': other });
  t.after(() => server.close());
  const engine = await createEngine({ threads: 1 });
  const beside = { path: '/m.bq4.prompt' };
  for (const fault of [{ status: 503 }, { status: 429, headers: { 'Retry-After': '30' } }, { refuse: true }]) {
    server.faults = [{ ...beside, ...fault }];
    const before = server.asked().length;
    const model = await engine.load(server.at('/m.bq4'), { promptCache: true });
    assert.match(model.info.promptCache?.problem ?? '', /^(HTTP_STATUS|NETWORK)/);
    const requests = server.asked().slice(before);
    assert.equal(requests.filter(({ path }) => path === '/m.bq4.prompt').length, 1, JSON.stringify(fault));
    await model.close();
  }
  // A file that begins otherwise is not read to its end.
  const plain = await engine.load(fromFile(file), { promptCache: server.at('/other') });
  assert.match(plain.info.promptCache?.problem ?? '', /^FORMAT: .*\/other is not a prompt cache$/);
  const [request] = server.asked().filter(({ path }) => path === '/other');
  assert.ok(request.sent < other.length, `${request.sent} bytes`);
  // A model that can't be loaded.
  server.faults = [{ ...beside, stall: 1000 }];
  const requestsBefore = server.asked().length;
  await assert.rejects(engine.load(fromFile(`${file}.none`), { promptCache: server.at('/m.bq4.prompt') }), {
    code: 'READ',
  });
  // A model that is closed, with its engine, before its prompt cache is there.
  const model = /** @type {any} */ (await engine.load(fromFile(file)));
  const load = async () => (await engine.close(), model);
  await assert.rejects(loadWithPromptCache(load, fromFile(file), { promptCache: true }), { code: 'CLOSED' });
  const ends = () =>
    server
      .asked()
      .slice(requestsBefore)
      .map(({ end }) => end);
  await until('the request for the prompt cache to be left', () => !ends().includes('open'));
});

const real = realModel('smollm2');
test(
  "SmolLM2's GGUF: the same reply, of which a state's tokens are not computed",
  { skip: real ? false : NO_REAL_MODEL },
  async () => {
    const out = join(folder, 'smollm2.state');
    const system = 'You answer questions about our shop in Bergen. It sells boats, oars and sails.';
    const words = ['prompt-cache', String(real), out, '--system', system, '--context', '256'];
    const output = spawnSync(process.execPath, [path('bin/bq4.js'), ...words], { encoding: 'utf8' });
    assert.equal(output.status, 0, output.stderr);
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    const asked = [
      { role: 'system', content: system },
      { role: 'user', content: 'What is sold?' },
    ];
    const plain = await (await engine.load(fromFile(String(real)), { contextTokens: 256 })).generate(asked, OPTIONS)
      .result;
    const model = await engine.load(fromFile(String(real)), { contextTokens: 256 });
    const { tokens } = await model.loadPromptCache(new Uint8Array(readFileSync(out)));
    const reply = await model.generate(asked, OPTIONS).result;
    assert.deepEqual(reply.tokens, plain.tokens);
    assert.ok(tokens > 20, String(tokens));
    assert.deepEqual([plain.usage.cachedTokens, reply.usage.cachedTokens], [0, tokens]);
    // One byte of its weights.
    const bytes = new Uint8Array(readFileSync(String(real)));
    bytes[Math.floor(bytes.length * 0.6)] ^= 4;
    const tuned = await engine.load(fromBytes(bytes), { contextTokens: 256 });
    await assert.rejects(tuned.loadPromptCache(new Uint8Array(readFileSync(out))), { code: 'MISMATCH' });
    await engine.close();
  },
);

test('bq4 prompt-cache', async () => {
  const [messages, out] = [join(folder, 'messages.json'), join(folder, 'out.state')];
  writeFileSync(messages, JSON.stringify(BEFORE));
  const bq4 = (/** @type {string[]} */ ...words) =>
    spawnSync(process.execPath, [path('bin/bq4.js'), 'prompt-cache', ...words], { encoding: 'utf8' });
  const output = bq4(BUNDLED, out, '--messages', messages);
  assert.equal(output.status, 0, output.stderr);
  const [, tokens] = /: (\d+) tokens, \d+ bytes\n$/.exec(output.stderr) ?? [];
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile(BUNDLED));
  assert.deepEqual(await model.loadPromptCache(new Uint8Array(readFileSync(out))), { tokens: Number(tokens) });
  await engine.close();
  assert.equal(bq4(BUNDLED, out).status, 2);
});
