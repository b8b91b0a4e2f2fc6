// Tests of conversations and texts that exceed their context.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { SUMMARY_REQUEST, summaryTokens, withSummary } from '../../js/api/chat/summary-prompt.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { createCountingEngine } from './counting-engine.mjs';
import { tinyModel } from './fixture.mjs';

const system = { role: 'system', content: 'You are brief.' };
const endless = { temperature: 0, logitBias: [0, 3].map((id) => ({ token: id, bias: -Infinity })) };

/** A conversation of so many turns, each a little different. @param {number} turns */
const talk = (turns) => [
  system,
  ...Array.from({ length: turns }, (_, i) => [
    { role: 'user', content: `Question ${i}: what is the number of the house?` },
    { role: 'assistant', content: `It is ${i}.` },
  ]).flat(),
  { role: 'user', content: 'And now?' },
];

/** The turns that a reply is given, by what its prompt is equal to. @param {import('../../js/index.js').Model} model @param {any[]} messages @param {number} promptTokens */
async function keptOf(model, messages, promptTokens) {
  for (let from = 1; from < messages.length; from++) {
    if (messages[from].role !== 'user') continue;
    const left = [messages[0], ...messages.slice(from)];
    if ((await model.countTokens(left)) === promptTokens) return left;
  }
  throw new Error(`no turns have ${promptTokens} tokens`);
}

/** A tiny model with so much context, in an engine that ends with the test. @param {typeof createEngine | typeof createWorkerEngine} create */
const loading = (create) => async (/** @type {import('node:test').TestContext} */ t, /** @type {number} */ context) => {
  const engine = await create();
  t.after(() => engine.close());
  return { engine, model: await engine.load(fromBytes(await tinyModel({ config: { context } })), { sessions: 2 }) };
};
const LOADS = /** @type {const} */ ([
  ['in this thread', loading(createEngine)],
  ['in a worker', loading(createWorkerEngine)],
]);

for (const [name, load] of LOADS) {
  test(`shift within a generation, ${name}: the same bits as a prompt of the remaining tokens`, async (t) => {
    const { engine, model } = await load(t, 64);
    /** @type {any[]} */
    const reports = [];
    engine.events.addEventListener('shift', (/** @type {any} */ { detail }) => reports.push(detail));
    const prompt = [5, 6, 7, 8, 9, 10];
    const full = await model.generate(prompt, { ...endless }).result;
    assert.equal(full.finishReason, 'context');
    assert.equal(prompt.length + full.tokens.length, 65);
    const run = await model.generate(prompt, { ...endless, contextPolicy: 'shift', sinks: 3, maxTokens: 80 }).result;
    assert.equal(run.finishReason, 'length');
    assert.equal(run.tokens.length, 80);
    assert.deepEqual(run.tokens.slice(0, full.tokens.length), full.tokens);
    const all = [...prompt, ...full.tokens];
    const kept = [...all.slice(0, 3), ...all.slice(-30)];
    const next = await model.generate(kept, { ...endless, maxTokens: 80 - full.tokens.length }).result;
    assert.deepEqual(run.tokens.slice(full.tokens.length), next.tokens);
    assert.deepEqual(run.shifted, { messages: 0, tokens: 65 - 33 });
    assert.deepEqual(reports, [{ messages: 0, tokens: 32 }]);
    const drafted = await model.generate(prompt, {
      ...endless,
      contextPolicy: 'shift',
      sinks: 3,
      maxTokens: 80,
      speculate: { tokens: 3 },
    }).result;
    assert.deepEqual(drafted.tokens, run.tokens, 'with draft tokens');
    const twice = await model.generate(prompt, { ...endless, contextPolicy: 'shift', sinks: 3, maxTokens: 120 }).result;
    assert.deepEqual(twice.tokens.slice(0, 80), run.tokens);
    assert.equal(twice.shifted?.tokens, 64);
  });

  test(`a conversation, ${name}: the system's words and the newest turns stay, by turns, for some turns the same`, async (t) => {
    const { engine, model } = await load(t, 512);
    /** @type {any[]} */
    const reports = [];
    engine.events.addEventListener('shift', (/** @type {any} */ { detail }) => reports.push(detail));
    const options = { ...endless, maxTokens: 4, contextPolicy: /** @type {const} */ ('shift') };
    await assert.rejects(model.generate(talk(20), { ...endless, maxTokens: 4 }).result, { code: 'CONTEXT_FULL' });
    const starts = new Set();
    for (let turns = 6; turns < 20; turns++) {
      const messages = talk(turns);
      const { usage, shifted, tokens: ids } = await model.generate(messages, options).result;
      const left = await keptOf(model, messages, usage.promptTokens);
      assert.deepEqual((await model.generate(left, { ...endless, maxTokens: 4 }).result).tokens, ids, 'the same bits');
      assert.equal(shifted?.messages ?? 0, messages.length - left.length);
      assert.ok(usage.promptTokens <= 512 - 4);
      if (shifted) starts.add(shifted.messages);
      if (shifted) assert.equal(shifted.tokens, (await model.countTokens(messages)) - usage.promptTokens);
    }
    assert.ok(starts.size >= 2 && starts.size <= 6, `what stays began at ${[...starts]}`);
    assert.ok(reports.length > starts.size);
    const long = [system, { role: 'user', content: 'word '.repeat(400) }];
    await assert.rejects(model.generate(long, options).result, { code: 'CONTEXT_FULL' });
    // Old turns that are too long by themselves go, too.
    const { shifted } = await model.generate(
      [...long, { role: 'assistant', content: 'Yes.' }, ...talk(1).slice(1)],
      options,
    ).result;
    assert.equal(shifted?.messages, 2);
  });

  test(`chats and OpenAI's calls, ${name}`, async (t) => {
    const { model } = await load(t, 256);
    const chat = await model.createChat({ system: system.content, contextPolicy: 'shift' });
    let shifted = 0;
    for (let i = 0; i < 8; i++)
      shifted += (await chat.send(`Tell me of the number ${i}, please.`, { ...endless, maxTokens: 12 }).result).shifted
        ? 1
        : 0;
    assert.ok(shifted > 1);
    assert.equal(chat.messages.length, 17, 'what was said is still there');
    const request = { messages: talk(20), temperature: 0, max_tokens: 4, logit_bias: { 0: -100, 3: -100 } };
    const { bq4 } = await model.chat.completions.create({ ...request, bq4: { contextPolicy: 'shift' } });
    assert.ok(Number(bq4?.shiftedTokens) > 0);
    await assert.rejects(model.chat.completions.create(request), { code: 'CONTEXT_FULL' });
    const bad = { ...request, bq4: { contextPolicy: /** @type {any} */ ('cut') } };
    await assert.rejects(model.chat.completions.create(bad), { code: 'ARGUMENT' });
  });
}

const real = realModel('smollm2');
for (const [name, path] of /** @type {const} */ ([
  ['the bundled model', new URL('../../models/chat.bq4', import.meta.url).pathname],
  ['SmolLM2', real],
]))
  test(`${name}: a reply that exceeds its context continues`, { skip: path ? false : NO_REAL_MODEL }, async (t) => {
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    t.after(() => engine.close());
    const model = await engine.load(fromFile(/** @type {string} */ (path)), { contextTokens: 96 });
    const options = { temperature: 0, contextPolicy: /** @type {const} */ ('shift'), maxTokens: 120 };
    const first = await model.tokenize('Once upon a time');
    const run = await model.generate(first, { ...options, sinks: 2, stopTokens: [] }).result;
    const full = await model.generate(first, { temperature: 0 }).result;
    assert.deepEqual(run.tokens.slice(0, full.tokens.length), full.tokens);
    if (full.finishReason !== 'context') return t.diagnostic('the model ended its text before the context was full');
    const all = [...first, ...full.tokens];
    const kept = [...all.slice(0, 2), ...all.slice(-47)];
    const next = await model.generate(kept, { temperature: 0, maxTokens: Math.min(40, 120 - full.tokens.length) })
      .result;
    assert.deepEqual(run.tokens.slice(full.tokens.length, full.tokens.length + next.tokens.length), next.tokens);
  });

/**
 * A conversation is given what the model itself says of the turns that it has no room for.
 * @param {import('../../js/index.js').Model} model @param {any[]} messages @param {any} options
 */
async function sumsUp(model, messages, options) {
  const { contextTokens: context } = model.info;
  const {
    tokens: ids,
    shifted,
    usage,
  } = await model.generate(messages, { ...options, contextPolicy: 'summarize' }).result;
  const summary = String(shifted?.summary);
  assert.ok(shifted && summary.length > 0 && shifted.messages > 0, JSON.stringify(shifted));
  assert.ok((await model.tokenize(summary)).length <= summaryTokens(context) + 2, summary);
  assert.ok(usage.promptTokens < context);
  const head = messages.slice(
    0,
    messages.findIndex(({ role }) => role === 'user'),
  );
  const [first, ...rest] = messages.slice(head.length + shifted.messages);
  const left = [...head, { ...first, content: withSummary(summary, first.content) }, ...rest];
  assert.equal(await model.countTokens(left), usage.promptTokens, 'system, summary, latest turns');
  assert.deepEqual((await model.generate(left, options).result).tokens, ids, 'the same bits');
  return { summary, ids, gone: messages.slice(head.length, head.length + shifted.messages) };
}

for (const [name, load] of LOADS) {
  test(`summaries, ${name}: of the messages alone, made once, bounded`, async (t) => {
    const { engine, model } = await load(t, 1024);
    /** @type {any[]} */
    const reports = [];
    engine.events.addEventListener('shift', (/** @type {any} */ { detail }) => reports.push(detail));
    const options = { temperature: 0, maxTokens: 4 };
    for (const turns of [22, 40]) {
      const messages = talk(turns);
      const found = await sumsUp(model, messages, options);
      assert.equal(reports.at(-1).summary, found.summary);
      // A model that saw none of what came before says the same.
      const other = (await load(t, 1024)).model;
      const again = await other.generate(messages, { ...options, contextPolicy: 'summarize' }).result;
      assert.deepEqual([again.tokens, again.shifted?.summary], [found.ids, found.summary]);
    }
    const few = await model.generate(talk(2), { ...options, contextPolicy: 'summarize' }).result;
    assert.equal(few.shifted, undefined);
    // What is too long to be read is passed over; a last turn that is too long is refused as ever.
    const long = { role: 'user', content: 'word '.repeat(900) };
    const passed = await model.generate([system, long, { role: 'assistant', content: 'Yes.' }, ...talk(2).slice(1)], {
      ...options,
      contextPolicy: 'summarize',
    }).result;
    assert.deepEqual([passed.shifted?.messages, passed.shifted?.summary], [2, undefined]);
    await assert.rejects(model.generate([system, long], { ...options, contextPolicy: 'summarize' }).result, {
      code: 'CONTEXT_FULL',
    });
  });

  test(`summaries, ${name}: aborts, deadlines, chats, OpenAI's calls`, async (t) => {
    const { model } = await load(t, 512);
    const options = { temperature: 0, maxTokens: 4, contextPolicy: /** @type {const} */ ('summarize') };
    await assert.rejects(
      model.generate(talk(20), { ...options, signal: AbortSignal.abort(new Error('no')) }).result,
      /no/,
    );
    const late = await model.generate(talk(20), { ...options, deadline: 0 }).result;
    assert.deepEqual([late.finishReason, late.shifted?.summary], ['deadline', undefined]);
    const chat = await model.createChat({ system: system.content, contextPolicy: 'summarize' });
    let summaries = 0;
    for (let i = 0; i < 12; i++)
      if (
        (await chat.send(`Tell me of the number ${i}, please.`, { ...endless, maxTokens: 16 }).result).shifted?.summary
      )
        summaries++;
    assert.ok(summaries > 1);
    assert.equal(chat.messages.length, 25, 'what was said is still there, and no summary');
    const request = {
      messages: talk(20),
      temperature: 0,
      max_tokens: 4,
      bq4: { contextPolicy: /** @type {const} */ ('summarize') },
    };
    const { bq4 } = await model.chat.completions.create(request);
    assert.ok(Number(bq4?.shiftedTokens) > 0);
  });
}

test('a summary of the same turns is generated once', async (t) => {
  const { model, session, read } = await createCountingEngine(t);
  await session.close();
  const options = { temperature: 0, maxTokens: 3, contextPolicy: /** @type {const} */ ('summarize') };
  const samples = async (/** @type {any[]} */ messages) => {
    const { samples } = read();
    const { shifted, tokens: ids } = await model.generate(messages, options).result;
    return { shifted, left: read().samples - samples - ids.length };
  };
  const first = await samples(talk(24));
  assert.ok(first.left > 0 && first.left <= summaryTokens(1024), `${first.left}`);
  const second = await samples([
    ...talk(24),
    { role: 'assistant', content: 'Yes.' },
    { role: 'user', content: 'And?' },
  ]);
  assert.deepEqual([second.shifted?.summary, second.left], [first.shifted?.summary, 0]);
});

for (const [name, path, context] of /** @type {const} */ ([
  ['the bundled model', new URL('../../models/chat.bq4', import.meta.url).pathname, 256],
  ['SmolLM2', real, 512],
]))
  test(`${name}: older turns are summed up by it`, { skip: path ? false : NO_REAL_MODEL }, async (t) => {
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    t.after(() => engine.close());
    const model = await engine.load(fromFile(/** @type {string} */ (path)), { contextTokens: context, sessions: 2 });
    const facts = ['a dog named Rex', 'a red boat', 'a house on a hill', 'a friend named Lily', 'a blue hat'];
    const system = model.info.chatFormat?.roles.system || model.info.chatTemplate.includes('system');
    const messages = [
      { role: system ? 'system' : 'user', content: 'You answer in one sentence.' },
      ...(system ? [] : [{ role: 'assistant', content: 'Yes.' }]),
      ...[...facts, ...facts].flatMap((fact) => [
        { role: 'user', content: `I have ${fact}. Tell me something about it, and say how you like it.` },
        { role: 'assistant', content: `You have ${fact}, and I like it very much, since it is yours.` },
      ]),
      { role: 'user', content: 'What is the name of my dog?' },
    ];
    const { summary, gone: isGone } = await sumsUp(model, messages, { temperature: 0, maxTokens: 12 });
    assert.ok(isGone.length >= 2);
    t.diagnostic(summary);
    assert.notEqual(summary, SUMMARY_REQUEST);
  });
