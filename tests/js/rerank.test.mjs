// Tests of rerankers and other classifiers: labels for pairs of texts and for single texts equal those of transformers.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { spawnSync } from 'node:child_process';
import { createProviderRegistry, rerank } from 'ai';
import { createProvider, rerankingModel } from '../../js/api/adapters/ai-sdk.js';
import { connect } from '../../js/connect.js';
import { serveModels } from '../../js/api/server/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { unusedParts } from '../../js/format/meta.js';
import { modelRows } from '../models-report.mjs';

const RERANKERS = fileURLToPath(new URL('../golden/rerankers', import.meta.url));
const TOLERANCE = 1e-3;
const folder = mkdtempSync(join(tmpdir(), 'bq4-rerank-'));
after(() => rmSync(folder, { recursive: true }));

/** @type {Record<string, string | number>[]} */
const rows = [];
after(() => modelRows('architectures', 'rerankers', rows));

/** @param {string} name */
const expectedOf = (name) => JSON.parse(readFileSync(join(RERANKERS, name, 'expected.json'), 'utf8'));

/** The model's file; of a checkpoint it is converted once. @param {string} name @param {string} source */
async function fileOf(name, source) {
  if (source === 'GGUF') return join(RERANKERS, name, `${name}.gguf`);
  const path = join(folder, `${name}.bq4`);
  await convert(join(RERANKERS, name), path, { quant: 'f32' });
  return path;
}

/** @param {any} t @param {string} name @param {string} source */
async function loaded(t, name, source) {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  t.after(() => engine.close());
  return engine.load(fromFile(await fileOf(name, source)));
}

/** @param {Float32Array | undefined} found @param {number[]} expected */
const distance = (found, expected) => Math.max(...expected.map((x, i) => Math.abs(x - Number(found?.[i]))));

/** @type {[string, string, string][]} */
const CASES = [
  ['bert', 'safetensors', 'BERT cross-encoder'],
  ['xlm-roberta', 'safetensors', 'XLM-RoBERTa reranker'],
  ['distilbert', 'safetensors', 'DistilBERT classifier'],
  ['modern-bert', 'safetensors', 'ModernBERT reranker'],
  ['mpnet', 'safetensors', 'MPNet reranker'],
  ['qwen3-reranker', 'safetensors', 'Qwen3-Reranker'],
  ['qwen3-reranker', 'GGUF', 'Qwen3-Reranker'],
  ['qwen3-labels', 'safetensors', 'Qwen 3 with labels'],
];
for (const [name, source, architecture] of CASES)
  test(`${name} from ${source}: logits of texts and pairs are those of transformers`, async (t) => {
    const { texts, ids, logits, made_with: versions } = expectedOf(name);
    const model = await loaded(t, name, source);
    const results = await model.classify(
      texts.map((/** @type {string[]} */ [text, textPair]) => (textPair === undefined ? text : { text, textPair })),
    );
    const error = Math.max(...results.map((result, i) => distance(result.logits, logits[i])));
    assert.ok(error < TOLERANCE, `${error}`);
    if (name !== 'bert') {
      const ofTokens = await model.classify(ids);
      const other = Math.max(...ofTokens.map((result, i) => distance(result.logits, logits[i])));
      assert.ok(other < TOLERANCE, `by tokens ${other}`);
    }
    rows.push({ architecture, source, error, against: `transformers ${versions.transformers}` });
  });

for (const [name, architecture] of [
  ['xlm-roberta', 'XLM-RoBERTa reranker'],
  ['modern-bert', 'ModernBERT reranker'],
])
  test(`${name} from GGUF, without a tokenizer: logits of tokens`, async (t) => {
    const { ids, logits, made_with: versions } = expectedOf(name);
    const model = await loaded(t, name, 'GGUF');
    assert.equal(model.info.reranks, null);
    const results = await model.classify(ids);
    const error = Math.max(...results.map((result, i) => distance(result.logits, logits[i])));
    assert.ok(error < TOLERANCE, `${error}`);
    rows.push({
      architecture,
      source: 'GGUF',
      error,
      against: `transformers ${versions.transformers}`,
    });
  });

test('rerank with a classifier sorts by logits, returns topN and names the kind of score', async (t) => {
  const { texts, logits } = expectedOf('bert');
  const model = await loaded(t, 'bert', 'safetensors');
  assert.deepEqual([model.info.labels, model.info.reranks, model.info.unused], [['LABEL_0'], 'classifier', []]);
  const [query] = texts[0];
  const documents = texts
    .filter((/** @type {string[]} */ [text]) => text === query)
    .map((/** @type {string[]} */ [, pair]) => pair);
  const order = documents.map((/** @type {string} */ _, /** @type {number} */ i) => i);
  order.sort((/** @type {number} */ a, /** @type {number} */ b) => logits[b][0] - logits[a][0]);
  const ranked = await model.rerank(query, documents, { topN: 3 });
  assert.deepEqual(
    ranked.map(({ index, document, method }) => [index, document, method]),
    order.slice(0, 3).map((/** @type {number} */ i) => [i, documents[i], 'classifier']),
  );
  for (const { score, logit = NaN, index } of ranked) {
    assert.ok(Math.abs(logit - logits[index][0]) < TOLERANCE);
    assert.ok(Math.abs(score - 1 / (1 + Math.exp(-logit))) < 1e-6);
  }
  await assert.rejects(model.rerank(query, [documents.at(-1)], { truncate: false }), { code: 'CONTEXT_FULL' });
  assert.equal((await model.rerank(query, [''])).length, 1);
  await assert.rejects(model.rerank(query, ['x'], { topN: 0 }), { code: 'ARGUMENT' });
});

for (const name of ['bert', 'qwen3-reranker'])
  test(`${name}: a document that is too long even for the tokenizer is cut, or refused with its index`, async (t) => {
    const model = await loaded(t, name, 'safetensors');
    const [long, longer] = [3000, 400_000].map((count) => 'the museum opens at nine '.repeat(count));
    const documents = ['At nine.', longer];
    const [, ofLong] = await model.classify(['At nine.', long].map((textPair) => ({ text: 'When?', textPair })));
    const [, ofLonger] = await model.classify(documents.map((textPair) => ({ text: 'When?', textPair })));
    assert.deepEqual([ofLonger.logits, ofLonger.tokens], [ofLong.logits, ofLong.tokens]);
    assert.equal((await model.rerank('When?', documents)).length, 2);
    assert.equal((await model.rerank(longer, documents)).length, 2);
    await assert.rejects(model.rerank('When?', documents, { truncate: false }), (/** @type {any} */ error) => {
      assert.equal(error.code, 'CONTEXT_FULL');
      assert.match(error.message, /^pair 1 has 10000005 characters; the limit is \d+ tokens$/);
      assert.equal(error.details.index, 1);
      return true;
    });
  });

test('rerank by "yes" and "no" returns their softmax, in a worker too', async (t) => {
  const { texts, logits } = expectedOf('qwen3-reranker');
  const path = await fileOf('qwen3-reranker', 'GGUF');
  for (const engine of [await createEngine({ threads: 1 }), await createWorkerEngine({ threads: 1 })]) {
    t.after(() => engine.close());
    const model = await engine.load(fromFile(path));
    assert.deepEqual([model.info.labels, model.info.generates], [['yes', 'no'], false]);
    const [found] = await model.rerank(texts[1][0], [texts[1][1]]);
    const [yes, no] = logits[1];
    assert.ok(Math.abs(Number(found.logit) - (yes - no)) < TOLERANCE);
    assert.ok(Math.abs(found.score - 1 / (1 + Math.exp(no - yes))) < TOLERANCE);
  }
});

test('labels have names; a classifier that is no reranker is refused with its labels', async (t) => {
  const { texts, logits } = expectedOf('distilbert');
  const model = await loaded(t, 'distilbert', 'safetensors');
  const labels = ['bad', 'so-so', 'good'];
  assert.deepEqual([model.info.labels, model.info.reranks], [labels, null]);
  const results = await model.classify(texts.flat());
  results.forEach(({ label, index, score, scores }, i) => {
    assert.equal(index, logits[i].indexOf(Math.max(...logits[i])));
    assert.equal(label, labels[index]);
    assert.equal(score, scores[index]);
    assert.ok(Math.abs(scores.reduce((a, b) => a + b) - 1) < 1e-6);
  });
  await assert.rejects(model.rerank('a', ['b']), {
    code: 'UNSUPPORTED',
    message: /bad, so-so, good/,
    hint: /classify/,
  });
});

test('vectors of a classifier are the inputs of its layers', async (t) => {
  const model = await loaded(t, 'xlm-roberta', 'safetensors');
  const { vectors } = await model.embed('soup', { pooling: 'mean', normalize: false });
  assert.equal(vectors[0].length, model.info.hidden);
  assert.equal(model.info.embedding.width, model.info.hidden);
});

test("BERT's classifier without its pooler, as llama.cpp's converter leaves it, is reported as unused", async (t) => {
  const model = await loaded(t, 'bert', 'GGUF');
  assert.deepEqual([model.info.labels, model.info.unused], [null, ['cls.output']]);
  await assert.rejects(model.classify(['x']), { code: 'UNSUPPORTED', message: /no classifier/ });
});

/** @param {string} name */
function questionOf(name) {
  const { texts } = expectedOf(name);
  const [query] = texts[0];
  return { query, documents: texts.filter(([text]) => text === query).map(([, pair]) => pair) };
}

test('POST /v1/rerank: as Jina, Cohere and llama.cpp answer', async (t) => {
  const model = await loaded(t, 'bert', 'safetensors');
  const server = await serveModels([{ id: 'ranker', model }], { port: 0 });
  t.after(() => server.close());
  const { query, documents } = questionOf('bert');
  const ask = async (/** @type {object} */ body) => {
    const headers = { 'Content-Type': 'application/json' };
    const response = await fetch(`${server.url}/rerank`, { method: 'POST', headers, body: JSON.stringify(body) });
    return { status: response.status, answer: await response.json() };
  };
  const ranked = await model.rerank(query, documents);
  const { answer } = await ask({ query, documents, top_n: 2, return_documents: true });
  const tokens = ranked.reduce((sum, one) => sum + one.tokens, 0);
  assert.deepEqual(answer, {
    object: 'list',
    model: 'ranker',
    usage: { prompt_tokens: tokens, total_tokens: tokens },
    results: ranked
      .slice(0, 2)
      .map(({ index, score, document }) => ({ index, relevance_score: score, document: { text: document } })),
  });
  const plain = (await ask({ model: 'ranker', query, documents: [{ text: documents[0] }, documents[1]] })).answer;
  assert.deepEqual(plain.results.map(({ index, document }) => [index, document]).sort(), [
    [0, undefined],
    [1, undefined],
  ]);
  /** @type {[object, string][]} */
  const refused = [
    [{ documents }, 'query'],
    [{ query }, 'documents'],
    [{ query, documents: [] }, 'documents'],
    [{ query, documents: [7] }, 'documents'],
    [{ query, documents, top_n: 0 }, 'top_n'],
    [{ query, documents, rank_fields: ['x'] }, 'rank_fields'],
  ];
  for (const [body, param] of refused) {
    const { status, answer: refusal } = await ask(body);
    assert.deepEqual([status, refusal.error.param], [400, param]);
  }
  const { data } = await (await fetch(`${server.url}/models`)).json();
  assert.equal(data[0].reranks, 'classifier');
});

test('rerank of connect() sorts as the model on the server does, also with the AI SDK', async (t) => {
  const model = await loaded(t, 'bert', 'safetensors');
  const server = await serveModels([{ id: 'ranker', model }], { port: 0 });
  t.after(() => server.close());
  const remote = connect(server.url);
  const { query, documents } = questionOf('bert');
  const expected = (await model.rerank(query, documents)).map(({ index, score, document }) => ({
    index,
    score,
    document,
  }));
  assert.deepEqual(await remote.rerank(query, documents), expected);
  assert.deepEqual(await remote.rerank(query, documents, { topN: 2, model: 'ranker' }), expected.slice(0, 2));
  assert.deepEqual(await remote.rerank(query, []), []);
  const { ranking } = await rerank({ model: rerankingModel(remote, { modelId: 'ranker' }), query, documents });
  assert.deepEqual(
    ranking.map(({ originalIndex }) => originalIndex),
    expected.map(({ index }) => index),
  );
  await assert.rejects(remote.rerank(query, documents, { model: 'other' }), { code: 'HTTP_STATUS' });
  await assert.rejects(remote.rerank(query, documents, /** @type {any} */ ({ truncate: true })), { code: 'ARGUMENT' });
  await assert.rejects(remote.rerank(query, /** @type {any} */ ('one')), { code: 'ARGUMENT' });
  await assert.rejects(remote.rerank(/** @type {any} */ (null), documents), { code: 'ARGUMENT' });
  await assert.rejects(remote.rerank(query, documents, { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test("scores of other servers are sorted and checked; a request names no model that the caller didn't", async () => {
  /** @type {any[]} */
  const bodies = [];
  const rerankWith = (/** @type {any} */ results) =>
    connect('http://ranker.example/v1', {
      fetch: async (_, init) => {
        bodies.push(JSON.parse(String(init?.body)));
        return Response.json({ results });
      },
    }).rerank('q', ['a', 'b', 'c'], { topN: 2 });
  const unsorted = [0.1, 0.9, 0.5].map((score, index) => ({ index, relevance_score: score }));
  assert.deepEqual(await rerankWith(unsorted), [
    { index: 1, score: 0.9, document: 'b' },
    { index: 2, score: 0.5, document: 'c' },
  ]);
  assert.deepEqual(bodies, [{ query: 'q', documents: ['a', 'b', 'c'], top_n: 2 }]);
  for (const results of [
    null,
    [],
    [null],
    [{ index: 3, relevance_score: 1 }],
    [{ index: -1, relevance_score: 1 }],
    [{ index: 'length', relevance_score: 1 }],
    [{ relevance_score: 1 }],
    [{ index: 0 }],
    [{ index: 0, relevance_score: null }],
    [{ index: 0, relevance_score: '1' }],
  ])
    await assert.rejects(rerankWith(results), { code: 'FORMAT' }, JSON.stringify(results));
});

test("the AI SDK's rerank, of texts and of objects, by a registry too", async (t) => {
  const model = await loaded(t, 'xlm-roberta', 'safetensors');
  const { query, documents } = questionOf('xlm-roberta');
  const ranked = await model.rerank(query, documents, { topN: 2 });
  const registry = createProviderRegistry({ bq4: createProvider({ ranker: model }) });
  for (const ranker of [rerankingModel(model), registry.rerankingModel('bq4:ranker')]) {
    const { ranking } = await rerank({ model: ranker, query, documents, topN: 2 });
    assert.deepEqual(
      ranking.map(({ originalIndex, score, document }) => [originalIndex, score, document]),
      ranked.map(({ index, score, document }) => [index, score, document]),
    );
  }
  const objects = documents.map((text) => ({ text }));
  const texts = objects.map((one) => JSON.stringify(one));
  const { ranking } = await rerank({ model: rerankingModel(model), query, documents: objects });
  assert.deepEqual(
    ranking.map(({ score }) => score),
    (await model.rerank(query, texts)).map(({ score }) => score),
  );
});

test('bq4 rerank works, and inspect describes a classifier and unused parts', async () => {
  const path = await fileOf('bert', 'safetensors');
  const { query, documents } = questionOf('bert');
  const bq4 = (/** @type {string[]} */ ...args) =>
    spawnSync(process.execPath, ['bin/bq4.js', ...args], {
      encoding: 'utf8',
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
    });
  const { status, stdout, stderr } = bq4('rerank', path, query, ...documents, '--top-n', '2', '--json');
  assert.equal(status, 0, stderr);
  const { method, results } = JSON.parse(stdout);
  assert.deepEqual([method, results.length], ['classifier', 2]);
  const lines = bq4('rerank', path, query, ...documents)
    .stdout.trimEnd()
    .split('\n');
  assert.equal(lines.length, documents.length);
  assert.equal(lines[0], `${results[0].score.toFixed(4)}\t${results[0].index + 1}\t${results[0].document}`);
  assert.match(bq4('inspect', path).stdout, /labels +LABEL_0/);
  const gguf = bq4('inspect', await fileOf('bert', 'GGUF'));
  assert.match(gguf.stdout, /not used +cls\.output/);
  assert.match(bq4('inspect', join(RERANKERS, 'distilbert')).stdout, /labels +bad, so-so, good/);
});

test('parts of a checkpoint that are not used are named: the pooler of BERT without a classifier', async (t) => {
  const path = join(folder, 'plain-bert.bq4');
  await convert(join(RERANKERS, '../fixtures/bert'), path, { quant: 'f32' });
  const engine = await createEngine({ threads: 1 });
  t.after(() => engine.close());
  const model = await engine.load(fromFile(path));
  assert.deepEqual([model.info.unused, model.info.labels, model.info.reranks], [['pooler'], null, 'cosine']);
  const names = ['model.visual.blocks.0.w', 'cls.predictions.decoder.bias', 'h.attn.masked_bias', 'lm_head.weight'];
  assert.deepEqual(unusedParts(names), ['cls.predictions', 'lm_head', 'visual']);
});
