// Tests of a folder in Hugging Face's layout as selected or dropped files: it runs without a separate conversion.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { safetensors } from './checkpoints.mjs';
import { testFolder } from './folders.mjs';

const GOLDEN = fileURLToPath(new URL('../golden/', import.meta.url));
const { fresh } = testFolder('files');

/** Its files as a page gets them. @param {string} path @param {string} [place]  of the folder, where the browser tells */
const filesOf = (path, place) =>
  readdirSync(path).map((name) => fileAt(name, readFileSync(join(path, name)), place && `${place}/${name}`));

/** @param {string} name @param {Uint8Array | string} content @param {string} [place] */
function fileAt(name, content, place) {
  const file = new File([/** @type {any} */ (content)], name);
  return place ? Object.defineProperty(file, 'webkitRelativePath', { value: place }) : file;
}

/** @param {import('../../js/shared/types.js').Model} model */
async function message(model) {
  const session = await model.createSession();
  const { tokens: ids } = await session.generate('He said that', { temperature: 0, maxTokens: 24 }).result;
  await session.close();
  return ids;
}

const CHAT = '{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>';

/** The tiny model with a template, and its pooling in a folder of its own. */
function tinyFiles() {
  const files = filesOf(join(GOLDEN, 'tiny'), 'tiny');
  return [...files, fileAt('chat_template.jinja', CHAT, 'tiny/chat_template.jinja')];
}

/** @param {string} path @returns {Promise<number[]>} */
async function asConverted(path) {
  const to = join(fresh(), 'converted.bq4');
  await convert(path, to);
  const engine = await createEngine({ threads: 1 });
  const ids = await message(await engine.load(fromFile(to)));
  await engine.close();
  return ids;
}

test('selected files give the same tokens as the converted folder, here and in a worker, with its template and tokenizer', async () => {
  const wanted = await asConverted(join(GOLDEN, 'tiny'));
  for (const engine of [await createEngine({ threads: 1 }), await createWorkerEngine({ threads: 1 })]) {
    /** @type {import('../../js/shared/types.js').Progress[]} */
    const events = [];
    const model = await engine.load(tinyFiles(), { onProgress: (event) => events.push(event) });
    assert.deepEqual(await message(model), wanted);
    assert.equal(model.info.name, 'tiny');
    assert.equal((await model.countTokens([{ role: 'user', content: 'He' }])) > 1, true);
    const converted = events.filter(({ phase }) => phase === 'convert');
    assert.ok(converted.length && converted.at(-1)?.loaded === converted.at(-1)?.total);
    await model.close();
    await engine.close();
  }
});

test('selected files can be planned, and loaded by paths and bytes', async () => {
  const engine = await createEngine({ threads: 1 });
  const path = join(GOLDEN, 'tiny');
  const sources = readdirSync(path).map((name) => fromFile(join(path, name)));
  const plan = await engine.plan(sources);
  assert.ok(plan.weightBytes > 0 && plan.tokensPerSecond !== undefined);
  const model = await engine.load(sources, { contextTokens: 64 });
  assert.equal(model.info.name, 'tiny');
  await model.close();
  await assert.rejects(engine.load([fromBytes(new Uint8Array(9)), fromBytes(new Uint8Array(9))]), {
    code: 'NOT_A_MODEL',
  });
  await engine.close();
});

test('selected files can be shards of an index, with experts in some layers, without a tokenizer', async () => {
  const from = join(GOLDEN, 'fixtures/qwen3moe-dense');
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(filesOf(from));
  const session = await model.createSession();
  const { tokens: ids } = await session.generate([3, 1, 4], { temperature: 0, maxTokens: 5 }).result;
  assert.equal(ids.length, 5);
  await engine.close();
});

test('missing, ambiguous and damaged files are named', async () => {
  const engine = await createEngine({ threads: 1 });
  const tiny = filesOf(join(GOLDEN, 'tiny'));
  const without = (/** @type {string} */ isGone) => tiny.filter(({ name }) => name !== isGone);
  const index = fileAt('model.safetensors.index.json', JSON.stringify({ weight_map: { a: 'model-1.safetensors' } }));
  for (const [files, expected] of /** @type {[File[], object][]} */ ([
    [without('model.safetensors'), { code: 'NOT_A_MODEL', message: /no safetensors file/ }],
    [[...without('model.safetensors'), index], { code: 'NOT_A_MODEL', message: /model-1\.safetensors is missing/ }],
    [[...tiny, fileAt('config.json', '{}')], { code: 'ARGUMENT', message: /two files have the name config\.json/ }],
    [
      [...without('config.json'), fileAt('config.json', '{')],
      { code: 'FORMAT', message: /config\.json is not valid JSON/ },
    ],
    [
      [...without('config.json'), fileAt('config.json', '{"model_type": "mamba"}')],
      { code: 'UNSUPPORTED', message: /mamba/ },
    ],
    [
      [...without('model.safetensors'), fileAt('model.safetensors', safetensors(new Map()))],
      { code: 'SHAPE', message: /is missing/ },
    ],
    [without('config.json'), { code: 'NOT_A_MODEL' }],
  ]))
    await assert.rejects(engine.load(files), expected);
  const controller = new AbortController();
  controller.abort();
  await assert.rejects(engine.load(tiny, { signal: controller.signal }), { name: 'AbortError' });
  await engine.close();
});

test('files in subfolders of a selected folder are found by their paths', async () => {
  const engine = await createEngine({ threads: 1 });
  const bert = filesOf(join(GOLDEN, 'fixtures/bert'), 'bert');
  const modules = [
    { idx: 0, path: '', type: 'sentence_transformers.models.Transformer' },
    { idx: 1, path: '1_Pooling', type: 'sentence_transformers.models.Pooling' },
  ];
  const model = await engine.load([
    ...bert,
    fileAt('modules.json', JSON.stringify(modules), 'bert/modules.json'),
    fileAt('config.json', '{"pooling_mode_cls_token": true}', 'bert/1_Pooling/config.json'),
  ]);
  assert.equal(model.info.embedding.pooling, 'cls');
  await engine.close();
});
