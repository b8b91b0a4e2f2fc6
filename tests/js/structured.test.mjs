// Tests of replies with a format: with the model of the demo, with random weights, in this thread and in a worker.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createEngine } from '../../js/node.js';
import { Guide } from '../../js/engine/generation/grammar-guide.js';
import { Output } from '../../js/engine/generation/output.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { spaceTokenizer, tinyModel } from './fixture.mjs';
import { validator } from './validator.mjs';

const CHAT = readFileSync(new URL('../../models/chat.bq4', import.meta.url));
const ASK = [{ role: 'user', content: 'Who are you, and how old?' }];
const SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 30 },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    mood: { enum: ['good', 'bad'] },
    friends: {
      type: 'array',
      items: {
        type: 'object',
        properties: { name: { type: 'string' } },
        required: ['name'],
        additionalProperties: false,
      },
    },
  },
  required: ['name', 'age', 'mood', 'friends'],
  additionalProperties: false,
};
const validate = validator(SCHEMA);
const AS_SCHEMA = { type: /** @type {const} */ ('json_schema'), schema: SCHEMA };

describe('with the bundled model', () => {
  /** @type {any} */
  let engine;
  /** @type {any} */
  let model;
  before(async () => {
    engine = await createEngine({ threads: 1 });
    model = await engine.load(fromBytes(CHAT));
  });
  after(() => engine.close());

  test('replies to schemas with different required texts are valid at any limit', async () => {
    const schema = {
      type: 'array',
      items: { type: 'string', maxLength: 9 },
      uniqueItems: true,
      minItems: 3,
      maxItems: 12,
    };
    const valid = validator(schema);
    for (let seed = 0; seed < 12; seed++) {
      const { text, finishReason: reason } = await model.generate(ASK, {
        responseFormat: { type: /** @type {const} */ ('json_schema'), schema },
        temperature: seed % 4,
        topK: 0,
        topP: 1,
        seed,
        maxTokens: 16 + 5 * seed,
      }).result;
      assert.equal(reason, 'stop');
      assert.ok(valid(JSON.parse(text)), text);
    }
  });

  for (const temperature of [0, 1, 5])
    test(`a schema holds at temperature ${temperature}`, async () => {
      for (let seed = 0; seed < 4; seed++) {
        const {
          text,
          finishReason: reason,
          stop,
        } = await model.generate(ASK, {
          responseFormat: AS_SCHEMA,
          temperature,
          topK: 0,
          topP: 1,
          seed,
          maxTokens: 200,
        }).result;
        assert.ok(validate(JSON.parse(text)), `${text}: ${JSON.stringify(validate.errors)}`);
        assert.deepEqual([reason, stop], ['stop', null]);
      }
    });

  test('with any limit a reply is complete, or its finish reason reports that it did not fit', async () => {
    const reasons = [];
    // So hot that no text would come to its end by itself.
    const schema = { type: 'array', items: { type: 'string', minLength: 3 }, minItems: 3 };
    for (let maxTokens = 0; maxTokens < 60; maxTokens += 3) {
      const {
        text,
        finishReason: reason,
        tokens: ids,
      } = await model.generate(ASK, {
        responseFormat: { type: 'json_schema', schema },
        temperature: 9,
        topK: 0,
        topP: 1,
        seed: 3,
        maxTokens,
      }).result;
      assert.ok(ids.length <= maxTokens);
      if (reason === 'stop') assert.ok(validator(schema)(JSON.parse(text)), text);
      reasons.push(reason);
    }
    // From some limit on there is room for the shortest.
    const first = reasons.indexOf('stop');
    assert.ok(first > 0 && first < 15, reasons.join());
    assert.deepEqual(
      reasons,
      reasons.map((_, i) => (i < first ? 'length' : 'stop')),
    );
  });

  test('forced text has the tokens of the tokenizer and takes few batches', async () => {
    const schema = { const: { answer: 'forty-two', of: ['everything', 'and more'] } };
    const {
      text,
      tokens: ids,
      finishReason: reason,
    } = await model.generate(ASK, { responseFormat: { type: 'json_schema', schema } }).result;
    assert.equal(text, '{"answer": "forty-two", "of": ["everything", "and more"]}');
    assert.deepEqual([ids, reason], [await model.tokenize(text, { addSpecial: false }), 'stop']);
  });

  test('text that a choice forces is computed in the same batch', async (t) => {
    const [next, sample] = [t.mock.method(Guide.prototype, 'next'), t.mock.method(Output.prototype, 'sample')];
    const properties = { first_answer: { type: 'boolean' }, second_answer: { type: 'boolean' } };
    const schema = { type: 'object', properties, required: Object.keys(properties), additionalProperties: false };
    const { text, tokens: ids } = await model.generate(ASK, { responseFormat: { type: 'json_schema', schema } }).result;
    assert.ok(validator(schema)(JSON.parse(text)), text);
    const steps = next.mock.calls.map(({ result }) => result);
    assert.deepEqual(steps.flat(), ids);
    // But for what stands before the first choice, nothing is computed by itself.
    assert.ok(steps.length > 2);
    assert.equal(steps.length, sample.mock.callCount() + 1);
  });

  test('the result names ignored parts of the schema', async () => {
    const schema = { type: 'object', properties: { a: { type: 'null', format: 'colour' } }, readonly: true };
    const warnings = [
      '"readonly" is not a keyword of JSON Schema: it was ignored',
      '"colour" is not a format of JSON Schema: it was ignored',
    ];
    const responseFormat = { type: /** @type {const} */ ('json_schema'), schema };
    assert.deepEqual(
      (await model.generate(ASK, { responseFormat, maxTokens: 20 }).result).warnings?.sort(),
      warnings.sort(),
    );
    const { bq4 } = await model.chat.completions.create({
      messages: ASK,
      response_format: responseFormat,
      max_tokens: 20,
    });
    assert.deepEqual(bq4?.warnings?.sort(), warnings.sort());
    assert.equal((await model.generate(ASK, { responseFormat: AS_SCHEMA, maxTokens: 60 }).result).warnings, undefined);
  });

  test('the same seed gives the same text; so do OpenAI’s names of options, a regex, choices and an object', async () => {
    const response = {
      responseFormat: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: SCHEMA } },
      seed: 7,
      maxTokens: 120,
    };
    const [a, b] = [
      await model.chat.completions.create({
        messages: ASK,
        response_format: response.responseFormat,
        seed: 7,
        max_tokens: 120,
      }),
      await model.generate(ASK, response).result,
    ];
    assert.equal(a.choices[0].message.content, b.text);
    assert.equal(a.choices[0].finish_reason, 'stop');
    const texts = [];
    for (const responseFormat of [
      { type: 'regex', pattern: /[ab]{3}-\d+/ },
      { type: 'choice', choices: ['red', 'green'] },
    ])
      texts.push((await (await model.createChat()).send('Well?', { responseFormat, maxTokens: 12 }).result).text);
    assert.match(texts[0], /^[ab]{3}-\d+$/);
    assert.ok(['red', 'green'].includes(texts[1]));
    assert.equal(
      typeof JSON.parse(
        (await model.generate(ASK, { responseFormat: { type: 'json_object' }, maxTokens: 50 }).result).text,
      ),
      'object',
    );
  });

  test('a refused format leaves the session unchanged', async () => {
    const session = await model.createSession();
    await assert.rejects(session.generate('Once', { responseFormat: { type: 'xml' } }).result, {
      code: 'GRAMMAR',
      message: /unknown type of responseFormat: "xml"/,
    });
    await assert.rejects(session.generate('Once', { responseFormat: 'json' }).result, { code: 'ARGUMENT' });
    /** @type {any} */
    const itself = { type: 'object', properties: {} };
    itself.properties.a = itself;
    let deep = {};
    for (let i = 0; i < 100_000; i++) deep = { items: deep };
    for (const [schema, what] of /** @type {[any, RegExp][]} */ ([
      [itself, /contains itself/],
      [deep, /nested too deep/],
    ]))
      await assert.rejects(
        session.generate('Once', { responseFormat: { type: 'json_schema', schema } }).result,
        (/** @type {any} */ error) => error.code === 'GRAMMAR' && what.test(error.message),
      );
    assert.ok((await session.generate('Once', { maxTokens: 3 }).result).tokens.length);
    await session.close();
  });

  test('similar formats are distinguished', async () => {
    const written = async (/** @type {any} */ responseFormat) =>
      (await model.generate(ASK, { responseFormat }).result).text;
    for (const [pattern, text] of [
      ['/ab/', '/ab/'],
      [/ab/, 'ab'],
      ['/ab/', '/ab/'],
    ])
      assert.equal(await written({ type: 'regex', pattern }), text);
    assert.equal(await written({ type: 'json_schema', schema: { const: null } }), 'null');
    await assert.rejects(written({ type: 'json_schema', schema: { const: NaN } }), { code: 'GRAMMAR' });
  });

  test('many formats in succession work', async () => {
    for (let i = 0; i < 12; i++) {
      const { text } = await model.generate(ASK, { responseFormat: { type: 'regex', pattern: `[a-z]{2}${i}` } }).result;
      assert.match(text, new RegExp(`^[a-z]{2}${i}$`));
    }
  });
});

test('random weights satisfy a schema too, also with an SPM tokenizer whose tokens begin with spaces', async () => {
  const engine = await createEngine({ threads: 1 });
  const noise = await engine.load(fromBytes(await tinyModel()));
  for (let seed = 0; seed < 3; seed++) {
    const { text } = await noise.generate(ASK, {
      responseFormat: AS_SCHEMA,
      temperature: 3,
      topK: 0,
      topP: 1,
      seed,
      maxTokens: 180,
    }).result;
    assert.ok(validate(JSON.parse(text)), text);
  }
  const spelled = await engine.load(fromBytes(await tinyModel({ tokens: spaceTokenizer(), chat: null })));
  const session = await spelled.createSession();
  const run = async (/** @type {string} */ pattern) =>
    (await session.generate([5], { responseFormat: { type: 'regex', pattern } }).result).text;
  assert.match(await run('( [d-z]){3}'), /^( [d-z]){3}$/);
  await assert.rejects(run('d'), { code: 'NO_TOKEN' });
  await engine.close();
});

test('a worker gives the same results', async () => {
  const engine = await createWorkerEngine({ threads: 1 });
  const model = await engine.load(fromBytes(CHAT));
  const { text } = await model.generate(ASK, {
    responseFormat: { type: 'regex', pattern: /(yes|no)!{1,3}/u },
    maxTokens: 8,
  }).result;
  assert.match(text, /^(yes|no)!{1,3}$/);
  await assert.rejects(
    model.generate(ASK, { responseFormat: { type: 'json_schema', schema: { divisibleBy: 1 } } }).result,
    {
      code: 'GRAMMAR',
      message: /divisibleBy/,
    },
  );
  await engine.close();
});
