// Runs the unchanged examples of docs/reference and docs/guides for Node. Addresses are those of a test server; `model` is the bundled
// model.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, mock, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { serveModels } from '../../js/api/server/index.js';
import { convert } from '../../js/convert/index.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { bodyOf, namedExamples, examplesRunIn, sourceOf } from './api-doc.mjs';
import { safetensors } from './checkpoints.mjs';
import { random, tinyModel } from './fixture.mjs';
import { testFolder } from './folders.mjs';

const ROOT = new URL('../../', import.meta.url);
const CHAT = fileURLToPath(new URL('models/chat.bq4', ROOT));
const { folder } = testFolder('api-examples');

/** Files that examples fetch, by path. @type {Map<string, Uint8Array | string>} */
const files = new Map();
const host = createServer((request, response) => {
  const body = Buffer.from(files.get(String(request.url).slice(1)) ?? '');
  const [, from = '0', to = ''] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? [];
  const part = body.subarray(Number(from), to ? Number(to) + 1 : body.length);
  const range = { 'content-range': `bytes ${from}-${Number(from) + part.length - 1}/${body.length}` };
  const status = !body.length ? 404 : request.headers.range ? 206 : 200;
  response.writeHead(status, { 'content-length': part.length, ...(status === 206 && range) }).end(part);
});
/** @type {string} */
let site;
/** @type {Awaited<ReturnType<typeof createEngine>>} */
let engine;
/** @type {import('../../js/index.js').Model} */
let model;
before(async () => {
  await new Promise((resolve) => host.listen(0, '127.0.0.1', () => resolve(undefined)));
  site = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (host.address()).port}/`;
  for (const name of ['chat.bq4', 'models/chat.bq4']) files.set(name, readFileSync(CHAT));
  process.chdir(fileURLToPath(ROOT));
  // Relative addresses are those of a page.
  Object.assign(globalThis, { location: new URL(site) });
  engine = await createEngine({ threads: 1 });
  model = await engine.load(fromFile(CHAT), { sessions: 2 });
  mock.method(Math, 'random', () => 0.5); // the seed if there is none
});
after(async () => {
  await engine.close();
  host.close();
  host.closeAllConnections();
});

/** Addresses of modules. @param {string} name */
const address = (name) => {
  const source = sourceOf(name);
  return source ? new URL(source, ROOT).href : import.meta.resolve(name);
};

/** @typedef {{ scope?: Record<string, any>, change?: (code: string) => string }} More  `scope`: names that an example has besides */
/** @typedef {{ [name: string]: any, out: string, log: any[][] }} Ran  values of its names, what it wrote, what it logged */

/** Examples that continue a session. */
const SESSION = new Set([
  'Pause and pace 0',
  'Sessions 0',
  'Speculative decoding 0',
  'Draft models 0',
  'Time of each stage 0',
  'Aborts and errors 0',
]);

/** Runs an example. @param {string} name @param {string[]} gives  names whose values are told @param {More} more @returns {Promise<Ran>} */
async function run(name, gives, { scope = {}, change = (code) => code }) {
  const { code } = /** @type {import('./api-doc.mjs').Block} */ (namedExamples.get(name));
  const session = SESSION.has(name) ? await model.createSession() : null;
  let out = '';
  /** @type {any[][]} */
  const log = [];
  const names = {
    engine,
    model,
    session,
    process: { stdout: { write: (/** @type {string} */ text) => void (out += text) } },
    console: {
      log: (/** @type {any[]} */ ...all) => log.push(all),
      table: (/** @type {any[]} */ rows) => log.push(rows),
    },
    localStorage: {},
    fetch: (/** @type {string} */ path) => fetch(new URL(path, site)),
    ...scope,
  };
  const AsyncFunction = /** @type {any} */ (async () => {}).constructor;
  try {
    const asyncFunction = new AsyncFunction(...Object.keys(names), bodyOf(change(code), address, gives));
    return { ...(await asyncFunction(...Object.values(names))), out, log };
  } finally {
    await session?.close();
  }
}

/** A model with a system message in its chat format, with a context of 4,096 tokens. @param {import('node:test').TestContext} t */
async function roomy(t) {
  const bytes = await tinyModel({ config: { context: 4096 }, type: 'bq8' });
  files.set('models/chat.bq4', bytes);
  t.after(() => void files.set('models/chat.bq4', readFileSync(CHAT)));
  const output = await engine.load(fromBytes(bytes));
  t.after(() => output.close());
  return output;
}

/** Serves a model and its prompt cache. Returns the minimum number of its tokens. @param {import('node:test').TestContext} t */
async function promptForShop(t) {
  const content = 'You answer questions about our shop.';
  const shop = await roomy(t);
  files.set('shop.gguf', /** @type {Uint8Array} */ (files.get('models/chat.bq4')));
  files.set('shop.gguf.prompt', await shop.savePromptCache([{ role: 'system', content }]));
  return (await shop.tokenize(content, { addSpecial: false })).length;
}

/** @type {Record<string, (run: (gives?: string[], more?: More) => Promise<Ran>, t: import('node:test').TestContext) => Promise<void>>} */
const CHECKS = {
  'Engines 0': async (run) => {
    const { log, own } = await run(['own']);
    assert.deepEqual(log, [[own.info.build, own.info.threads, own.info.threadsReason]]);
  },
  'Pause and pace 0': async (run) => {
    const { text, finishReason } = await run(['text', 'finishReason']);
    assert.ok(text.length > 0 && ['length', 'stop'].includes(finishReason), finishReason);
  },
  'Events 0': async (run) => {
    const { log } = await run();
    assert.deepEqual(log, [
      ['paused', undefined],
      ['resumed', undefined],
    ]);
  },
  'Ports 0': async (run) => {
    const { theirs } = await run(['theirs']);
    await assert.rejects(theirs.memory(), { code: 'CLOSED' });
    assert.ok((await model.memory()).used > 0);
  },
  'Sources 0': async (run) => {
    const { ofBytes, ofBlob, ofUrl } = await run(['ofBytes', 'ofBlob', 'ofUrl']);
    for (const output of [ofBytes, ofBlob, ofUrl]) {
      assert.equal(output.info.fileBytes, model.info.fileBytes);
      await output.close();
    }
  },
  'Plan and load 0': async (run) => {
    const { plan, log } = await run(['plan']);
    assert.equal(log[0][0], 512);
    assert.ok(log[0][1].total >= plan.heapBytes, 'in pages of 64 KiB');
  },
  'Memory budget 0': async (run) => {
    const { residency, paging, heapBytes, log } = await run(['residency', 'paging', 'heapBytes']);
    assert.deepEqual([residency, log], ['paged', [['paged', heapBytes, paging.streamedBytes]]]);
    assert.ok(heapBytes + paging.besideBytes <= 5e6);
  },
  'Models 0': async (run) => {
    const { tokens: ids, text, used, log } = await run(['tokens', 'text', 'used']);
    const [[kind, , back, user], [tokens, message]] = log;
    assert.deepEqual([kind, back.trim(), tokens, message], [model.info.tokenizer.kind, 'Once upon a time', used, text]);
    assert.ok(ids.length > 2 && user > 0 && used > 2);
  },
  'Embeddings 0': async (run) => {
    const { vectors, truncated, cosine } = await run(['vectors', 'truncated', 'cosine']);
    assert.deepEqual([vectors[1].length, truncated], [384, []]);
    assert.ok(cosine > 0.4 && cosine < 1, `${cosine}`);
  },
  'Rerank 0': async (run) => {
    await tinyReranker();
    const { best, log } = await run(['best']);
    assert.deepEqual(log, [[best.document, best.score, 'classifier']]);
  },
  'Rerank the best results 0': async (run) => {
    await tinyReranker();
    const passages = ['The museum opens at nine.', 'Soup of the day: leek.', 'Trains leave.'];
    const { ranked } = await run(['ranked'], { scope: { passages } });
    assert.equal(ranked.length, 2);
    assert.ok(ranked[0].score >= ranked[1].score);
  },
  'Classifiers 0': async (run, t) => {
    const { label, score } = await run(['label', 'score'], { scope: { model: await minilm(t) } });
    assert.deepEqual([label, score > 0.8], ['negative', true]);
  },
  'Training 0': async (run, t) => {
    const [wake, play] = ['at six', 'at noon', 'early', 'in an hour', 'on Monday']
      .map((when) => [`wake me ${when}\talarm`, `play some jazz ${when}\tmusic`])
      .reduce(
        ([a, b], [c, d]) => [
          [...a, c],
          [...b, d],
        ],
        /** @type {string[][]} */ ([[], []]),
      );
    files.set('requests.tsv', `${[...wake, ...play].join('\n')}\n`);
    const own = await minilm(t);
    const { file, report } = await run(['file', 'report'], { scope: { model: own } });
    const [{ label }] = await own.classify('play the blues', { classifier: file });
    assert.equal(label, 'music', JSON.stringify(report));
  },
  'Sessions 0': async (run) => {
    const { generation, out, log } = await run(['generation']);
    const { text, finishReason, usage } = await generation.result;
    assert.ok(out.length > 20);
    assert.equal(out, text);
    assert.deepEqual(log, [[finishReason, usage]]);
  },
  'Sessions 1': async (run) => {
    const { session, text, tokens, log } = await run(['session', 'text', 'tokens']);
    assert.ok(text.length > 20);
    assert.equal((await session.tokens()).length, tokens, 'restored, after it was cut');
    assert.ok(log.length > 0 && log.every(([loaded, total]) => loaded <= total));
    await session.close();
  },
  'Speculative decoding 0': async (run) => {
    const { text, log } = await run(['text']);
    assert.equal(log[0][0], text);
    assert.ok(log[0][1] > 0, 'it has drafted tokens');
    assert.deepEqual(log[1], [true]);
  },
  'Draft models 0': async (run) => {
    files.set('models/small.bq4', readFileSync(CHAT));
    const { small, usage, log } = await run(['small', 'usage']);
    assert.deepEqual(log, [[usage.draftedTokens, usage.acceptedTokens]]);
    // It is the same model: all are accepted, except those after the end of the reply.
    assert.ok(usage.acceptedTokens > 0 && usage.draftedTokens - usage.acceptedTokens < 4, JSON.stringify(usage));
    await small.close();
  },
  'Score options 0': async (run) => {
    const { best, options, log } = await run(['best', 'options']);
    assert.ok([' positive', ' negative'].includes(best));
    assert.ok(Math.abs(options[0].probability + options[1].probability - 1) < 1e-6);
    assert.deepEqual(log, [[best, options[0].probability, options[0].logprob]]);
  },
  'Structured output 0': async (run) => {
    const { text, finishReason, log } = await run(['text', 'finishReason']);
    const { name, age, mood } = JSON.parse(text);
    assert.deepEqual([finishReason, typeof name, ['good', 'bad'].includes(mood)], ['stop', 'string', true]);
    assert.deepEqual(log, [[age + 1]]);
  },
  'Prompt cache 0': async (run, t) => {
    const system = await promptForShop(t);
    const { log } = await run();
    const [[{ tokens, problem }], [cachedTokens]] = log;
    assert.deepEqual([problem, cachedTokens], ['', tokens]);
    assert.ok(tokens >= system, `${tokens}`);
  },
  'Prompt cache 1': async (run, t) => {
    const { bytes } = await run(['bytes'], { scope: { model: await roomy(t) } });
    assert.ok(bytes.length > 1000);
  },
  'A system prompt that all visitors share 0': async (run, t) => {
    const system = await promptForShop(t);
    const { usage, log } = await run(['usage']);
    assert.ok(usage.cachedTokens >= system, JSON.stringify(usage));
    assert.equal(log[0][0], usage.promptTokens - usage.cachedTokens);
  },
  'Receipts 0': async (run) => {
    const { session, receipt, equal, differences, same } = await run([
      'session',
      'receipt',
      'equal',
      'differences',
      'same',
    ]);
    assert.deepEqual([equal, differences, receipt.tokens.length > 5], [true, [], true]);
    await session.close();
    await same.close();
  },
  'Time of each stage 0': async (run) => {
    const { log } = await run();
    const stages = log[0].map(({ stage }) => stage);
    for (const stage of ['embed', 'qkv', 'attend', 'head', 'sample']) assert.ok(stages.includes(stage), stage);
  },
  'Adapters of a model (LoRA) 0': async (run) => {
    const next = random(3);
    const of = (/** @type {number[]} */ dims) => ({
      dims,
      values: Float32Array.from({ length: dims[0] * dims[1] }, next),
    });
    const { hidden } = model.info;
    const at = 'base_model.model.model.layers.0.self_attn.q_proj.lora_';
    const tensors = new Map(Object.entries({ [`${at}A.weight`]: of([4, hidden]), [`${at}B.weight`]: of([hidden, 4]) }));
    files.set('pirate/adapter_model.safetensors', safetensors(tensors));
    const config = { peft_type: 'LORA', r: 4, lora_alpha: 4, target_modules: ['q_proj'] };
    files.set('pirate/adapter_config.json', JSON.stringify(config));
    const { model: own, text, pirate, session } = await run(['model', 'text', 'pirate', 'session']);
    assert.deepEqual([pirate.info.changes, text.length > 0], [1, true]);
    await session.close();
    await assert.rejects(own.generate('Ahoy', { adapter: pirate }).result, { code: 'CLOSED' });
    await own.close();
  },
  'Chats 0': async (run, t) => {
    const { chat, text, reply, out } = await run(['chat', 'text', 'reply'], { scope: { model: await roomy(t) } });
    assert.deepEqual(
      chat.messages.map(({ role, content }) => [role, content]),
      [
        ['system', 'Be brief.'],
        ['user', 'Hello!'],
        ['assistant', text],
        ['user', 'Tell me more.'],
        ['assistant', out],
      ],
    );
    assert.ok(reply.text.length > 0 && out.length > 0);
  },
  'Long conversations 0': async (run) => {
    const { long, log } = await run(['long']);
    assert.equal(long.messages.length, 40);
    assert.match(log[0][0], /^\d+ messages are no longer read$/);
  },
  'Texts longer than the context 0': async (run) => {
    const { endless, text } = await run(['endless', 'text']);
    assert.ok(text.length > 0);
    assert.deepEqual([endless.info.contextTokens, endless.info.kvWindow, endless.info.kvSinks], [50_000, 200, 4]);
  },
  'Eviction by attention 0': async (run) => {
    const { held, text } = await run(['held', 'text']);
    assert.ok(text.length > 0);
    assert.deepEqual([held.info.kvWindow, held.info.kvEvict], [256, 'attention']);
  },
  'Skipped layers 0': async (run) => {
    const { text } = await run(['text']);
    assert.ok(text.length > 0);
  },
  'Clustered LM head 0': async (run) => {
    const { text } = await run(['text']);
    assert.ok(text.length > 0);
  },
  'Completions 0': async (run) => {
    const { choices, usage, text, list, out } = await run(['choices', 'usage', 'text', 'list']);
    assert.ok(choices[0].message.content.length > 0 && out.length > 0);
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    assert.ok(text.choices[0].logprobs.tokens.length > 0);
    assert.deepEqual([list.data.length, typeof list.data[1].embedding], [2, 'string']);
  },
  'Tools 0': async (run, t) => {
    const { message, weather } = await run(['message', 'weather'], { scope: { model: await roomy(t) } });
    assert.equal(message.tool_calls[0].function.name, 'weather');
    assert.equal(typeof weather.city, 'string');
  },
  'Tools 1': async (run, t) => {
    const { code } = /** @type {import('./api-doc.mjs').Block} */ (namedExamples.get('Tools 0'));
    const [tools, asked] = code.split('\n');
    const { run: ran, log } = await run(['run'], {
      scope: { model: await roomy(t) },
      change: (own) => `${tools}\n${asked}\n${own}`,
    });
    assert.deepEqual(log, [[ran.content, ran.messages, ran.finishReason]]);
    assert.ok(ran.completions.length > 0);
  },
  'Server and client 0': async (run, t) => {
    const server = await serveModels([{ id: 'qwen', model }], { port: 0, token: 'open sesame' });
    t.after(() => server.close());
    const own = (/** @type {string} */ code) => code.replace('https://models.example/v1', server.url);
    const {
      choices,
      where,
      model: found,
      remote,
    } = await run(['choices', 'where', 'model', 'remote'], { change: own });
    assert.ok(choices[0].message.content.length > 0);
    assert.equal(where === 'remote', found === remote, where);
    if (found !== remote) await found.close();
  },
  'AI SDK 0': async (run) => {
    const { textStream } = await run(['textStream']);
    let text = '';
    for await (const part of textStream) text += part;
    assert.ok(text.length > 0);
  },
  'LangChain 0': async (run) => {
    const { mood, vectors } = await run(['mood', 'vectors']);
    assert.ok(['good', 'bad'].includes(mood), mood);
    assert.deepEqual([vectors.length, vectors[0].length], [2, model.info.hidden]);
  },
  'Aborts and errors 0': async (run) => {
    const { log } = await run();
    assert.deepEqual([log[0].slice(0, 2), log[1]], [['HTTP_STATUS', 404], ['AbortError']]);
  },
  'Load 0': async (run) => {
    const { text } = await run(['text']);
    assert.ok(text.length > 0);
  },
  'In Node 0': async (run, t) => {
    // Node has no address of a page.
    const { location } = globalThis;
    Reflect.deleteProperty(globalThis, 'location');
    t.after(() => Object.assign(globalThis, { location }));
    const { log } = await run();
    assert.ok(log[0][0].length > 0 && log[0][1] > 0);
  },
  'Ask before you download 0': async (run) => {
    const { plan, log } = await run(['plan']);
    assert.deepEqual([plan.contextTokens, log.length], [512, 2]);
  },
  'Search 0': async (run) => {
    const { log, model: own } = await run(['model']);
    assert.deepEqual(log, [['The museum opens at nine.']]);
    await own.close();
  },
  'Answer from passages 0': async (run) => {
    const { text, writer } = await run(['text', 'writer'], { scope: { ranked: [{ document: 'It opens at nine.' }] } });
    assert.ok(text.length > 0);
    await writer.close();
  },
  'A file with a message 0': async (run) => {
    const { log, content } = await run(['content']);
    assert.equal(content, 'notes.md:\n```\nThe key is under the blue pot.\n```\n\nWhere is the key?');
    assert.ok(log[0][0].length > 0);
  },
  'A conversation 0': async (run) => {
    const { log } = await run();
    assert.ok(log[0][0].length > 0 && log[0][1].length > 0);
    assert.equal(log[0][2], 4);
  },
  'Stop and failures 0': async (run) => {
    const { log } = await run();
    assert.deepEqual(log, [['AbortError']]);
  },
  'How much 0': async (run) => {
    const { estimate } = await run(['estimate']);
    assert.equal(estimate.sessions, 2);
    assert.ok(estimate.heapBytes > estimate.weightBytes + 2 * estimate.kvBytes);
  },
  'A budget 0': async (run) => {
    const { limited } = await run(['limited']);
    assert.ok(limited.heapBytes <= 8e6);
  },
  'Measure 0': async (run) => {
    const { log } = await run();
    assert.ok(log[0][0] > 0);
    assert.ok(log[1].some(({ stage }) => stage === 'attend'));
  },
  'Leave CPU time to other programs 0': async (run) => void (await run()),
  'Fill a form 0': async (run, t) => {
    const { filled } = await run(['filled'], { scope: { model: await roomy(t) } });
    const { name, email } = JSON.parse(filled.text);
    assert.deepEqual([typeof name, email.includes('@')], ['string', true]);
  },
  'Pick from a list 0': async (run) => {
    const { log } = await run();
    assert.ok(log[0].every((/** @type {string} */ text) => [' good', ' bad'].includes(text)));
  },
  'Let the library run the functions 0': async (run, t) => {
    const { outcome, log } = await run(['outcome'], { scope: { model: await roomy(t) } });
    assert.deepEqual(log, [[outcome.content, outcome.completions.length]]);
  },
  'Read calls yourself 0': async (run, t) => {
    const { log } = await run([], { scope: { model: await roomy(t) } });
    assert.deepEqual([log[0][0], typeof log[0][1]], ['weather', 'string']);
  },
};

/** A small random cross-encoder of the same kind as in the examples. */
async function tinyReranker() {
  const to = join(folder, 'reranker.bq4');
  await convert(fileURLToPath(new URL('../golden/rerankers/bert', import.meta.url)), to, { quant: 'f32' });
  files.set('reranker.bq4', readFileSync(to));
}

/** Examples that need all-MiniLM-L6-v2. */
const REAL = ['Embeddings 0', 'Classifiers 0', 'Training 0', 'Search 0'];
/** @param {import('node:test').TestContext} t */
async function minilm(t) {
  const items = await engine.load(fromBytes(/** @type {Uint8Array} */ (files.get('minilm.bq4'))));
  t.after(() => items.close());
  return items;
}

test('each example has a test here', () => assert.deepEqual(Object.keys(CHECKS).sort(), examplesRunIn('node').sort()));

for (const [name, check] of Object.entries(CHECKS))
  test(name, { skip: REAL.includes(name) && !realModel('minilm') ? NO_REAL_MODEL : false }, async (t) => {
    if (REAL.includes(name) && !files.has('minilm.bq4')) {
      const to = join(folder, 'minilm.bq4');
      await convert(String(realModel('minilm')), to, { quant: 'bq8' });
      files.set('minilm.bq4', readFileSync(to));
    }
    await check((gives = [], more = {}) => run(name, gives, more), t);
  });
