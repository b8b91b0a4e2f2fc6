// Tests of runTools: functions of the caller, whose results are sent to the model.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { collectReply, pieces } from '../../js/api/adapters/translate.js';
import { runTools } from '../../js/api/openai/run-tools.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { tinyModel } from './fixture.mjs';

const parameters = {
  type: 'object',
  properties: { city: { enum: ['Rome', 'Oslo'] } },
  required: ['city'],
  additionalProperties: false,
};
/** @param {(args: any, more: any) => unknown} run */
const weather = (run) => [
  { type: /** @type {const} */ ('function'), function: { name: 'weather', parameters, function: run } },
];
const asked = [{ role: 'user', content: 'Hi' }];
const fields = { messages: asked, temperature: 0, seed: 1, max_tokens: 90 };

for (const [name, create] of /** @type {const} */ ([
  ['in this thread', createEngine],
  ['in a worker', createWorkerEngine],
])) {
  describe(`runTools ${name}`, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {import('../../js/shared/types.js').Model['chat']['completions']} */
    let completions;
    before(async () => {
      engine = await create();
      ({ completions } = (await engine.load(fromBytes(await tinyModel({ config: { context: 2048 } })))).chat);
    });
    after(() => engine.close());

    test('a function is called with arguments that match its schema, and the model receives its result', async () => {
      /** @type {any[]} */
      const given = [];
      const tools = weather((args, { call }) => {
        given.push([args, call.function.name]);
        return { degrees: 7 };
      });
      const run = await completions.runTools({ ...fields, tools, tool_choice: 'required' });
      assert.equal(given.length, 1);
      assert.ok(['Rome', 'Oslo'].includes(given[0][0].city));
      assert.equal(given[0][1], 'weather');
      const [first, reply, result, last] = run.messages;
      assert.equal(run.messages.length, 4);
      assert.deepEqual(first, asked[0]);
      assert.deepEqual(result, {
        role: 'tool',
        tool_call_id: /** @type {any} */ (reply).tool_calls[0].id,
        content: '{"degrees":7}',
      });
      assert.equal(run.completions.length, 2);
      assert.deepEqual(last, run.completions[1].choices[0].message);
      assert.deepEqual([run.content, run.finishReason], [last.content, run.completions[1].choices[0].finish_reason]);
      assert.equal(asked.length, 1);
      // What the model was told: the same conversation by hand.
      const { tools: _, ...rest } = { ...fields, tools };
      const described = [{ type: /** @type {const} */ ('function'), function: { name: 'weather', parameters } }];
      const byHand = await completions.create({ ...rest, tools: described, messages: run.messages.slice(0, 3) });
      assert.equal(byHand.choices[0].message.content, run.content);
    });

    test('runTools ends at its limit of steps', async () => {
      let calls = 0;
      const run = await completions.runTools({
        ...fields,
        tools: weather(() => ++calls),
        tool_choice: 'required',
        bq4: { maxSteps: 1 },
      });
      assert.deepEqual([calls, run.finishReason, run.content, run.messages.length], [1, 'maxSteps', null, 3]);
    });

    test('the error of a tool is sent to the model or thrown to the caller', async () => {
      const tools = weather(async () => {
        throw new RangeError('no such city');
      });
      const run = await completions.runTools({ ...fields, tools, tool_choice: 'required', bq4: { maxSteps: 1 } });
      assert.equal(run.messages[2].content, 'Error: no such city');
      await assert.rejects(
        completions.runTools({ ...fields, tools, tool_choice: 'required', bq4: { toolErrors: 'throw' } }),
        (/** @type {any} */ error) => {
          assert.deepEqual([error.code, error.cause.name], ['TOOL', 'RangeError']);
          assert.match(error.message, /"weather" failed: no such city/);
          assert.equal(error.details.messages.length, 2);
          return true;
        },
      );
    });

    test('an abort during a tool ends the run, whatever the tool does', async () => {
      const controller = new AbortController();
      const tools = weather((_, { signal }) => {
        assert.equal(signal, controller.signal);
        controller.abort();
        return new Promise(() => {});
      });
      const { signal } = controller;
      await assert.rejects(completions.runTools({ ...fields, tools, tool_choice: 'required' }, { signal }), {
        name: 'AbortError',
      });
    });

    test('invalid arguments are refused by name', async () => {
      const tools = weather(() => 1);
      /** @type {[any, string][]} */
      const wrong = [
        [{ messages: 5 }, 'messages'],
        [{ messages: 'Hello' }, 'messages'],
        [{ tools: [] }, 'tools'],
        [{ tools: undefined }, 'tools'],
        [{ tools: [{ type: 'function', function: { name: 'x' } }] }, 'tools'],
        [{ tools: [...tools, ...tools] }, 'tools'],
        [{ bq4: { maxSteps: 0 } }, 'bq4.maxSteps'],
        [{ bq4: { toolErrors: 'hide' } }, 'bq4.toolErrors'],
        [{ stream: true }, 'stream'],
        [{ n: 2 }, 'n'],
        [{ frob: 1 }, 'frob'],
      ];
      for (const [more, param] of wrong)
        await assert.rejects(
          completions.runTools({ ...fields, tools, ...more }),
          (/** @type {any} */ error) => error.code === 'ARGUMENT' && error.details.param === param,
          JSON.stringify(more),
        );
    });
  });
}

test('allowed_tools: later replies may call only these tools, and need not call any', async () => {
  /** @type {any[]} */
  const choices = [];
  const tool_calls = [{ id: 'a', type: 'function', function: { name: 'weather', arguments: '{}' } }];
  const create = async (/** @type {any} */ { tool_choice }) => {
    choices.push(tool_choice);
    const message = { role: 'assistant', content: '', ...(choices.length < 3 && { tool_calls }) };
    return /** @type {any} */ ({ choices: [{ message, finish_reason: 'stop' }] });
  };
  const tools = [{ type: 'function', function: { name: 'weather' } }];
  const choice = (/** @type {string} */ mode) => ({ type: 'allowed_tools', allowed_tools: { mode, tools } });
  const request = { ...fields, tools: weather(() => 'cold'), tool_choice: choice('required') };
  await runTools(create, /** @type {any} */ (request));
  assert.deepEqual(choices, [choice('required'), choice('auto'), choice('auto')]);
});

test('a call of an unknown tool: the model gets the list of known ones', async () => {
  /** @type {any[]} */
  const bodies = [];
  const call = { id: '1', type: 'function', function: { name: 'frob', arguments: '{}' } };
  const replies = [
    { message: { role: 'assistant', content: null, tool_calls: [call] }, finish_reason: 'tool_calls' },
    { message: { role: 'assistant', content: 'Well.' }, finish_reason: 'stop' },
  ];
  const create = async (/** @type {any} */ body) => {
    bodies.push(structuredClone(body));
    return /** @type {any} */ ({ choices: [replies[bodies.length - 1]] });
  };
  const run = await runTools(create, { messages: asked, tools: weather(() => 1) });
  assert.equal(bodies[1].messages[2].content, 'Error: unknown tool "frob", expected one of weather');
  assert.equal(run.content, 'Well.');
});

/** The messages of a run whose only call returns a value. @param {(args: any) => unknown} run @param {object} [bq4] */
async function runOnce(run, bq4) {
  const call = { id: '1', type: 'function', function: { name: 'weather', arguments: '{}' } };
  const create = async () => /** @type {any} */ ({ choices: [{ message: { role: 'assistant', tool_calls: [call] } }] });
  const { messages } = await runTools(create, { messages: asked, tools: weather(run), bq4: { maxSteps: 1, ...bq4 } });
  return /** @type {any} */ (messages[2]).content;
}

test('results that JSON converts to empty objects are sent with their content, or refused with their class', async () => {
  class Celsius {
    #degrees = 7;
    get degrees() {
      return this.#degrees;
    }
  }
  class Fahrenheit {
    degrees = 45;
    print = () => `${this.degrees}`;
  }
  const shared = { a: 1 };
  /** @type {[unknown, string][]} */
  const results = [
    [new Map([['Oslo', new Set([7, 8])]]), '{"Oslo":[7,8]}'],
    [new Map([[5, 'five']]), '[[5,"five"]]'],
    [new Set(['a', 'b']), '["a","b"]'],
    [Uint8Array.of(1, 2), '[1,2]'],
    [{ n: 12345678901234567890n, low: -Infinity }, '{"n":"12345678901234567890","low":"-Infinity"}'],
    [2n ** 64n, '18446744073709551616'],
    [NaN, 'NaN'],
    [
      { error: Object.assign(new Error('no city'), { code: 5 }) },
      '{"error":{"name":"Error","message":"no city","code":5}}',
    ],
    [new Fahrenheit(), '{"degrees":45}'],
    [Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [{}, '{}'],
    [[], '[]'],
    [[shared, shared], '[{"a":1},{"a":1}]'],
    [undefined, ''],
    [null, 'null'],
    [false, 'false'],
    [7, '7'],
    [new Number(7), '7'],
  ];
  for (const [result, content] of results) assert.equal(await runOnce(() => result), content);
  const ownParent = /** @type {any} */ ({ a: {} });
  ownParent.a.parent = ownParent;
  const ownKey = new Map();
  ownKey.set('self', new Set([ownKey]));
  let deep = /** @type {any} */ ([]);
  for (let i = 0; i < 1e5; i++) deep = new Set([deep]);
  for (const [result, found] of /** @type {[unknown, string][]} */ ([
    [new Response('x'), 'an object of the class Response'],
    [[{ deep: new Headers() }], 'an object of the class Headers'],
    [new Celsius(), 'an object of the class Celsius'],
    [new ArrayBuffer(4), 'an object of the class ArrayBuffer'],
    [[Promise.resolve(1)], 'an object of the class Promise'],
    [/x/, 'an object of the class RegExp'],
    [() => 7, 'a function'],
    [Symbol('x'), 'a symbol'],
    [ownParent, 'an object that contains itself'],
    [{ list: [ownKey] }, 'an object that contains itself'],
    [deep, 'an object that is nested too deeply'],
  ])) {
    const message = `expected a result that JSON can represent, found ${found}: return `;
    assert.ok((await runOnce(() => result)).startsWith(`Error: ${message}`), found);
    await assert.rejects(
      runOnce(() => result, { toolErrors: 'throw' }),
      (/** @type {any} */ error) => {
        return error.code === 'TOOL' && error.message.startsWith(`the tool "weather" failed: ${message}`);
      },
    );
  }
});

test('a returned error is treated like a thrown one, and any value can be thrown', async () => {
  for (const act of [(/** @type {any} */ value) => value, (/** @type {any} */ value) => Promise.reject(value)]) {
    assert.equal(await runOnce(() => act(new RangeError('no such city'))), 'Error: no such city');
    assert.equal(await runOnce(() => act(new RangeError())), 'Error: RangeError');
    await assert.rejects(
      runOnce(() => act(new RangeError('no such city')), { toolErrors: 'throw' }),
      (/** @type {any} */ error) => error.code === 'TOOL' && error.cause.name === 'RangeError',
    );
  }
  for (const [thrown, message] of /** @type {[unknown, string][]} */ ([
    [Object.create(null), '{}'],
    [{ code: 5 }, '{"code":5}'],
    [{ message: 'down' }, 'down'],
    [Symbol('x'), 'Symbol(x)'],
    ['down', 'down'],
    [undefined, 'undefined'],
    [null, 'null'],
  ])) {
    const throwIt = () => {
      throw thrown;
    };
    assert.equal(await runOnce(throwIt), `Error: ${message}`);
    await assert.rejects(runOnce(throwIt, { toolErrors: 'throw' }), {
      code: 'TOOL',
      message: `the tool "weather" failed: ${message}`,
    });
  }
});

test('a call whose arguments are an empty text has no arguments', async () => {
  for (const text of ['', ' \n']) {
    const call = { id: '1', type: 'function', function: { name: 'weather', arguments: text } };
    const create = async () =>
      /** @type {any} */ ({ choices: [{ message: { role: 'assistant', tool_calls: [call] } }] });
    const run = await runTools(create, { messages: asked, tools: weather((args) => args), bq4: { maxSteps: 1 } });
    assert.equal(/** @type {any} */ (run.messages[2]).content, '{}');
    const chunk = { choices: [{ delta: { tool_calls: [{ index: 0, ...call }] }, finish_reason: 'tool_calls' }] };
    const stream = async () =>
      (async function* () {
        yield chunk;
      })();
    const { calls } = await collectReply(
      pieces(/** @type {any} */ ({ chat: { completions: { create: stream } } }), {}),
    );
    assert.deepEqual(calls, [{ id: '1', name: 'weather', input: '{}' }]);
  }
});

const real = realModel('smollm2');
test('SmolLM2: asks for the weather and answers', { skip: real ? false : NO_REAL_MODEL }, async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromFile(/** @type {string} */ (real)), { contextTokens: 1024 });
  /** @type {any[]} */
  const given = [];
  const run = await model.chat.completions.runTools({
    messages: [{ role: 'user', content: 'What is the weather in Oslo?' }],
    tools: weather((args) => {
      given.push(args);
      return 'Rain, 7 degrees';
    }),
    tool_choice: 'required',
    temperature: 0,
    max_tokens: 40,
    bq4: { maxSteps: 3 },
  });
  assert.deepEqual(given[0], { city: 'Oslo' });
  assert.equal(run.messages[2].content, 'Rain, 7 degrees');
  await engine.close();
});
