// Tests of EmbeddingGemma: a sentence-transformers folder with prompts and with dense layers after the pooling, and the same model in GGUF.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { spawnSync } from 'node:child_process';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { modelRows } from '../models-report.mjs';

const FOLDER = fileURLToPath(new URL('../golden/embedders/embedding-gemma', import.meta.url));
const {
  texts,
  ids,
  vectors: expected,
  made_with: versions,
} = JSON.parse(readFileSync(join(FOLDER, 'expected.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'bq4-embedders-'));
after(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'embedding-gemma.bq4');
await convert(FOLDER, path, { quant: 'f32' });

/** @type {Record<string, string | number>[]} */
const rows = [];
after(() => modelRows('architectures', 'embedders', rows));

/** @param {Float32Array[]} found @param {number[][]} wanted */
function distance(found, wanted) {
  assert.deepEqual(
    found.map((vector) => vector.length),
    wanted.map((vector) => vector.length),
  );
  return Math.max(...found.flatMap((vector, i) => Array.from(vector, (x, k) => Math.abs(x - wanted[i][k]))));
}

/** @param {any} t @param {string} file */
async function loaded(t, file) {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  t.after(() => engine.close());
  return engine.load(fromFile(file));
}

for (const source of ['safetensors', 'GGUF'])
  test(`from ${source}: vectors of sentence-transformers`, async (t) => {
    const model = await loaded(t, source === 'GGUF' ? join(FOLDER, 'embedding-gemma.gguf') : path);
    assert.equal(model.info.embedding.width, 24);
    const { vectors } = await model.embed(ids);
    const error = distance(vectors, expected['']);
    assert.ok(error < 1e-3, `${error}`);
    rows.push({
      architecture: 'EmbeddingGemma',
      source,
      error,
      against: `sentence-transformers ${versions['sentence-transformers']}`,
    });
  });

test('texts, with prompts by their names; a name that the model lacks is refused', async (t) => {
  const model = await loaded(t, path);
  assert.deepEqual(Object.keys(model.info.prompts), ['query', 'document']);
  for (const prompt of ['', 'query', 'document']) {
    const { vectors, truncated } = await model.embed(texts, { prompt });
    const error = distance(vectors, expected[prompt]);
    assert.ok(error < 1e-3, `${prompt}: ${error}`);
    assert.deepEqual(truncated, [2]);
  }
  await assert.rejects(model.embed('x', { prompt: 'Clustering' }), { code: 'ARGUMENT', hint: /query, document/ });
  await assert.rejects(model.embed([ids[0]], { prompt: 'query' }), { code: 'ARGUMENT', message: /token ids/ });
  const { status, stdout } = spawnSync(process.execPath, ['bin/bq4.js', 'embed', path, texts[0], '--prompt', 'query'], {
    encoding: 'utf8',
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
  });
  assert.equal(status, 0);
  assert.ok(distance([Float32Array.from(JSON.parse(stdout))], [expected.query[0]]) < 1e-3);
});

test('rerank by vectors takes the prompts of queries and of documents', async (t) => {
  const model = await loaded(t, path);
  const ranked = await model.rerank(texts[0], texts.slice(1));
  for (const { index, score, method } of ranked) {
    const cosine = expected.query[0].reduce(
      (/** @type {number} */ sum, /** @type {number} */ x, /** @type {number} */ k) =>
        sum + x * expected.document[index + 1][k],
      0,
    );
    assert.ok(Math.abs(score - cosine) < 1e-3);
    assert.equal(method, 'cosine');
  }
});

test('a default prompt is used; prompts that are not part of the vector are reported as unused', async (t) => {
  /** @param {string} name @param {string} file @param {(json: any) => void} change */
  const changed = async (name, file, change) => {
    const copy = join(folder, name);
    cpSync(FOLDER, copy, { recursive: true });
    const json = JSON.parse(readFileSync(join(copy, file), 'utf8'));
    change(json);
    writeFileSync(join(copy, file), JSON.stringify(json));
    await convert(copy, `${copy}.bq4`, { quant: 'f32' });
    return loaded(t, `${copy}.bq4`);
  };
  const usual = await changed(
    'usual',
    'config_sentence_transformers.json',
    (json) => (json.default_prompt_name = 'query'),
  );
  assert.equal(usual.info.defaultPrompt, 'query');
  assert.ok(distance((await usual.embed(texts)).vectors, expected.query) < 1e-3);
  assert.ok(distance((await usual.embed(texts, { prompt: '' })).vectors, expected['']) < 1e-3);
  const apart = await changed('apart', '1_Pooling/config.json', (json) => (json.include_prompt = false));
  assert.deepEqual([apart.info.prompts, apart.info.unused], [{}, ['prompts']]);
  await assert.rejects(
    changed('curved', '3_Dense/config.json', (json) => (json.activation_function = 'torch.nn.modules.activation.Tanh')),
    { code: 'UNSUPPORTED', message: /Tanh/ },
  );
});
