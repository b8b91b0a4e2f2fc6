// The loop of tools: functions of the caller, whose results the model is told.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
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

    test('a function is called with arguments of its schema, and the model reads its result', async () => {
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

    test('a limit of steps', async () => {
      let calls = 0;
      const run = await completions.runTools({
        ...fields,
        tools: weather(() => ++calls),
        tool_choice: 'required',
        bq4: { maxSteps: 1 },
      });
      assert.deepEqual([calls, run.finishReason, run.content, run.messages.length], [1, 'maxSteps', null, 3]);
    });

    test('a tool that throws: the model reads the error, or the caller gets it', async () => {
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

    test('an abort amid a tool ends the run, whatever the tool goes on with', async () => {
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

    test('what is wrong is refused by name', async () => {
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

test('allowed_tools: replies behind the first may call no other tool, and need call none', async () => {
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
