// Tests of v1 files and their companions, which are found next to the file or given by name; invalid ones are refused.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { dequantize, quantize } from './encode.mjs';
import { memorySink } from '../../js/format/output.js';
import { encodeTokenizer } from '../../js/text/tokenizers/section.js';
import { FLAT, ROWS, runLayout, typeNamed } from '../../js/format/bq4/weight-types.js';
import { v1Type } from '../../js/format/bq4/write-v1.js';
import { matrixOf, writeV2 } from '../../js/format/bq4/write-v2.js';
import { xxh64 } from './xxh64.mjs';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromBlob, fromBytes, fromFile, fromUrl } from '../../js/index.js';
import { CHAT, CONFIG, tokenizer } from './fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { singlePiece, v1, randomTensors } from './v1.mjs';

const GREEDY = { temperature: 0, maxTokens: 16 };
/** The same weights as a v2 file. */
async function v2(config) {
  const tensors = randomTensors(config).map(({ name, dims, data }) => {
    const { rows, cols } = matrixOf(dims);
    const type = v1Type(dims);
    const blocks = quantize(type.id, FLAT, data, 1, data.length);
    const exact = dequantize(type.id, FLAT, blocks, 1, data.length);
    const wanted = dims.length === 1 ? typeNamed('f32') : type;
    const layout = dims.length === 1 ? ROWS : runLayout(type);
    return {
      name,
      dims,
      type: wanted,
      layout,
      pieces: singlePiece(quantize(wanted.id, layout, dims.length === 1 ? exact : data, rows, cols)),
    };
  });
  const sink = memorySink();
  await writeV2(sink, { config, tensors, tokenizer: encodeTokenizer(tokenizer()) }, { hash: xxh64 });
  return sink.bytes;
}

const wide = { ...CONFIG, hidden: 64, ffn: 96 };
const odd = { ...CONFIG, hidden: 24, ffn: 40 };
const folder = mkdtempSync(join(tmpdir(), 'bq4-v1-'));
after(() => rmSync(folder, { recursive: true }));
const encode = (json) => new TextEncoder().encode(JSON.stringify(json));
const run = async (engine, source) => {
  const model = await engine.load(source);
  const { tokens: ids } = await (await model.createSession()).generate('Once upon a time', GREEDY).result;
  await model.close();
  return { ids, info: model.info };
};

test('a v1 file with its companion gives the tokens of the v2 file with the same weights', async () => {
  const { file, json, loose } = await v1(wide);
  assert.deepEqual(loose, []);
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const expected = await run(engine, fromBytes(await v2(wide)));
  const got = await run(engine, fromBytes(file, { companion: fromBytes(encode(json)) }));
  assert.deepEqual(got.ids, expected.ids);
  assert.equal(got.ids.length, 16);
  assert.deepEqual(
    [got.info.version, got.info.name, got.info.license, got.info.chatFormat, got.info.tokenizer?.kind],
    [1, 'tiny v1', 'CC0-1.0', CHAT, 'bpe'],
  );
  await engine.close();
});

test('a companion is found next to a path and next to an address, or given by name, also in a worker', async () => {
  const { file, json, loose } = await v1(odd);
  assert.ok(
    loose.includes('h.0.ln1.weight') && loose.includes('wte.weight'),
    'tensors that v1 cannot hold travel in the companion',
  );
  const path = join(folder, 'model.bq4');
  writeFileSync(path, file);
  writeFileSync(join(folder, 'model.json'), encode(json));
  writeFileSync(join(folder, 'other.json'), encode(json));
  const server = await faultServer({ '/model.bq4': file, '/model.json': encode(json) });
  const seen = new Set();
  for (const create of [createEngine, createWorkerEngine]) {
    const engine = await create();
    const sources = [
      fromFile(path),
      fromUrl(server.url),
      fromBlob(new Blob([/** @type {any} */ (file)]), { companion: fromFile(join(folder, 'other.json')) }),
    ];
    for (const source of sources) seen.add((await run(engine, source)).ids.join());
    assert.equal((await engine.plan(fromFile(path))).hidden, 24);
    await engine.close();
  }
  assert.equal(seen.size, 1);
  await server.close();
});

test('a missing or invalid companion is refused', async () => {
  const { file, json } = await v1(odd);
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const server = await faultServer({ '/model.bq4': file });
  const lonely = join(folder, 'lonely.bq4');
  writeFileSync(lonely, file);
  for (const source of [fromBytes(file), fromFile(lonely), fromUrl(server.url)])
    await assert.rejects(
      engine.load(source),
      (/** @type {any} */ e) => e.code === 'UNSUPPORTED' && /companion/.test(e.hint),
    );
  const wrong = {
    'no JSON': '{',
    'JSON of something else': {},
    'no layers': { ...json, config: { ...json.config, layers: undefined } },
    'no base64': { ...json, tokenizer: { ...json.tokenizer, tokens: [['*', 0, 0]] } },
    'no list': { ...json, tokenizer: { ...json.tokenizer, tokens: 5 } },
    'a tensor without values': { ...json, tensors: { 'wte.weight': { dims: [271, 24], f32: '' } } },
    'null tensors': { ...json, tensors: { 'wte.weight': null } },
  };
  for (const [what, text] of Object.entries(wrong)) {
    const companion = fromBytes(typeof text === 'string' ? new TextEncoder().encode(text) : encode(text));
    await assert.rejects(
      engine.load(fromBytes(file, { companion })),
      (/** @type {any} */ e) => e.code === 'FORMAT' && e.hint !== '',
      what,
    );
  }
  const small = fromBytes(encode({ ...json, config: { ...json.config, hidden: 48 }, tensors: {} }));
  await assert.rejects(
    engine.load(fromBytes(file, { companion: small })),
    (/** @type {any} */ e) => ['SHAPE', 'FORMAT'].includes(e.code),
    'of another model',
  );
  await server.close();
  await engine.close();
});

test('a companion of a file that needs none is refused', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const companion = fromBytes(encode({}));
  await assert.rejects(engine.load(fromBytes(await v2(wide), { companion })), {
    code: 'ARGUMENT',
    message: /only files of version 1 have a companion/,
  });
  await engine.close();
});
