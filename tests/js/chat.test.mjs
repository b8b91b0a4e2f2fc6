// Tests of chats with both engines.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { CHAT, tinyModel } from './fixture.mjs';

const GREEDY = { temperature: 0 };

for (const [name, create] of /** @type {const} */ ([
  ['chat in this thread', createEngine],
  ['chat in a worker', createWorkerEngine],
])) {
  describe(name, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {import('../../js/shared/types.js').Model} */
    let model;
    before(async () => {
      engine = await create();
      model = await engine.load(fromBytes(await tinyModel()), { sessions: 2 });
    });
    after(() => engine.close());
    const chatting = async (use, options = {}) => {
      const chat = await model.createChat(options);
      try {
        return await use(chat);
      } finally {
        await chat.close();
      }
    };
    const encode = (text, parseSpecial) => model.tokenize(text, { addSpecial: false, parseSpecial });

    test('the chat format wraps a turn; text of a user never becomes a special token', async () => {
      const expected = [
        0,
        ...(await encode('<|system|>Be kind<|end|><|user|>', true)),
        ...(await encode('Hi <|end|>', false)),
        ...(await encode('<|end|><|assistant|>', true)),
      ];
      assert.ok(expected.length > 20);
      const reply = await chatting((chat) => chat.send('Hi <|end|>', { ...GREEDY, maxTokens: 6 }).result, {
        system: 'Be kind',
      });
      assert.equal(reply.usage.promptTokens, expected.length);
      const session = await model.createSession();
      const plain = await session.generate(expected, { ...GREEDY, maxTokens: 6, stopTokens: [3] }).result;
      await session.close();
      assert.deepEqual(reply.tokens, plain.tokens);
    });

    test('the second turn computes only its new tokens', () =>
      chatting(async (chat) => {
        const first = await chat.send('Hello there', { ...GREEDY, maxTokens: 12 }).result;
        const before = (await chat.stats()).tokens;
        const second = await chat.send('And then?', { ...GREEDY, maxTokens: 12 }).result;
        // All but the last generated token, which was never run.
        const inCache = first.usage.promptTokens + first.tokens.length - 1;
        assert.equal(before, inCache);
        assert.equal(second.usage.cachedTokens, inCache);
        const added = 1 + (await encode('<|end|><|user|>And then?<|end|><|assistant|>', true)).length;
        assert.equal(
          second.usage.promptTokens - second.usage.cachedTokens,
          added - (first.finishReason === 'stop' ? 1 : 0),
        );
      }));

    test('messages contains the conversation as text, including a running reply', () =>
      chatting(
        async (chat) => {
          const run = chat.send('Hello', { ...GREEDY, maxTokens: 30 });
          let text = '';
          for await (const part of run) {
            text += part.text;
            assert.deepEqual(chat.messages, [
              { role: 'system', content: 'S' },
              { role: 'user', content: 'Hello' },
              { role: 'assistant', content: text },
            ]);
          }
          assert.equal((await run.result)?.text, text);
          assert.equal(chat.messages.at(-1)?.content, text);
        },
        { system: 'S' },
      ));

    test('a restored conversation gives the same reply as the original one', async () => {
      const options = { ...GREEDY, maxTokens: 10, stopTokens: [] };
      // Replies of ASCII bytes survive as text; noise may not, so the history is given.
      const history = [
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: 'the you' },
      ];
      const ids = await chatting(
        async (chat) => {
          assert.deepEqual(chat.messages, history);
          return (await chat.send('More', options).result).tokens;
        },
        { messages: history },
      );
      const again = await chatting((chat) => chat.send('More', options).result, { messages: history });
      assert.deepEqual(again.tokens, ids);
    });

    test('regenerate generates another reply to the same message', () =>
      chatting(async (chat) => {
        const options = { temperature: 1, topK: 0, topP: 1, maxTokens: 10 };
        const first = await chat.send('Hello', { ...options, seed: 1 }).result;
        const second = await chat.regenerate({ ...options, seed: 2 }).result;
        assert.notDeepEqual(first.tokens, second.tokens);
        assert.deepEqual(
          chat.messages.map((m) => m.role),
          ['user', 'assistant'],
        );
        assert.equal(chat.messages[1].content, second.text);
        assert.equal(second.usage.cachedTokens, second.usage.promptTokens - 1);
        const third = await chat.regenerate({ ...options, seed: 1 }).result;
        assert.deepEqual(third.tokens, first.tokens);
      }));

    test('a stop string of the caller is not part of the conversation', () =>
      chatting(async (chat) => {
        const free = await chat.send('Hello', { ...GREEDY, maxTokens: 20 }).result;
        const stop = free.text.slice(4, 6);
        const cut = await chat.regenerate({ ...GREEDY, maxTokens: 20, stop: [stop] }).result;
        assert.equal(cut.stop, stop);
        assert.equal(chat.messages.at(-1)?.content, free.text.slice(0, free.text.indexOf(stop)));
        const next = await chat.send('Next', { maxTokens: 1 }).result;
        const turn =
          (await encode(cut.text, false)).length +
          (await encode('<|end|><|user|>Next<|end|><|assistant|>', true)).length;
        assert.equal(next.usage.promptTokens, cut.usage.promptTokens + turn);
      }));

    test('the end token of a reply appears once in the conversation', () =>
      chatting(async (chat) => {
        const free = await chat.send('Hello', { ...GREEDY, maxTokens: 8 }).result;
        const cut = await chat.regenerate({ ...GREEDY, stopTokens: [free.tokens[5]] }).result;
        const count = cut.tokens.length - 1;
        assert.equal(cut.stop, cut.tokens[count]);
        const next = await chat.send('Next', { maxTokens: 1 }).result;
        const turn = count + (await encode('<|end|><|user|>Next<|end|><|assistant|>', true)).length;
        assert.equal(next.usage.promptTokens, cut.usage.promptTokens + turn);
      }));

    test('an abort keeps the received part of the reply, and the conversation can continue', () =>
      chatting(async (chat) => {
        const controller = new AbortController();
        const run = chat.send('Hello', { ...GREEDY, signal: controller.signal });
        let n = 0;
        await assert.rejects(
          async () => {
            for await (const _ of run) if (++n === 3) controller.abort();
          },
          { name: 'AbortError' },
        );
        assert.equal((await run.result)?.finishReason, 'abort');
        assert.deepEqual(chat.messages, [
          { role: 'user', content: 'Hello' },
          { role: 'assistant', content: (await run.result)?.text },
        ]);
        const next = await chat.send('Go on', { ...GREEDY, maxTokens: 4 }).result;
        assert.ok(next.usage.cachedTokens >= (await run.result).usage.promptTokens);
      }));

    test('abort before the first token leaves the conversation as it was', () =>
      chatting(async (chat) => {
        const controller = new AbortController();
        const onProgress = () => controller.abort();
        const run = chat.send('Hello', { ...GREEDY, signal: controller.signal, onProgress });
        await assert.rejects(run.result, { name: 'AbortError' });
        assert.deepEqual((await run.result)?.tokens, []);
        assert.deepEqual(chat.messages, []);
      }));

    test('chat.messages returns complete copies of messages, which createChat accepts', async () => {
      const calls = [{ id: 'abcdefghi', type: 'function', function: { name: 'f', arguments: { a: [1] } } }];
      const messages = [
        { role: 'user', content: 'What is it?' },
        { role: 'assistant', content: '', tool_calls: calls, reasoning_content: 'Hm.' },
        { role: 'tool', content: '5', tool_call_id: 'abcdefghi', name: 'f' },
      ];
      const turns = '{% for m in messages %}{{ m | tojson }}{% endfor %}';
      const own = await engine.load(
        fromBytes(await tinyModel({ chat: null, template: turns, config: { context: 512 } })),
      );
      const chat = await own.createChat(/** @type {any} */ ({ messages }));
      assert.deepEqual(chat.messages, messages);
      assert.ok(Object.isFrozen(chat.messages) && chat.messages.every((message) => Object.isFrozen(message)));
      /** @type {any} */ (chat.messages[1]).tool_calls[0].id = 'x';
      assert.deepEqual(chat.messages, messages);
      assert.ok(!Object.isFrozen(calls));
      const again = await own.createChat({ messages: JSON.parse(JSON.stringify(chat.messages)) });
      assert.deepEqual(again.messages, messages);
      await own.close();
    });

    test('content may be parts or messages; unreadable content is refused', () =>
      chatting(async (chat) => {
        const any = (message) => /** @type {any} */ (message);
        await chat.send(
          [
            { type: 'text', text: 'one ' },
            { type: 'text', text: 'two' },
          ],
          { maxTokens: 1 },
        ).result;
        await chat.send(
          [
            { role: 'system', content: 'S' },
            { role: 'user', content: ['three'] },
          ],
          { maxTokens: 1 },
        ).result;
        assert.deepEqual(
          chat.messages.filter(({ role }) => role !== 'assistant').map(({ content }) => content),
          ['one two', 'S', 'three'],
        );
        const { length } = chat.messages;
        const refused = (message, pattern) =>
          assert.rejects(
            chat.send(any(message)).result,
            (/** @type {any} */ e) => e.code === 'ARGUMENT' && pattern.test(e.message),
          );
        await refused(undefined, /content: expected a string or a list of text parts, found undefined/);
        await refused([{ type: 'image_url', image_url: {} }], /expected { type: 'text', text }, found .*"image_url"/);
        await refused([{ role: 'user', contents: 'x' }], /message: unknown option "contents"; did you mean "content"/);
        await refused([{ role: 'bot', content: 'x' }], /unknown role "bot"/);
        await refused([{ role: 'user' }], /content: expected a string or a list of text parts, found undefined/);
        await refused([{ role: 'user', content: null }], /content: expected a string .*, found null/);
        await refused([{ role: 'assistant' }], /content: expected a string .*, found undefined/);
        assert.equal(chat.messages.length, length);
        assert.throws(() => any(chat.messages).push({ role: 'user', content: 'x' }), { name: 'TypeError' });
      }));

    test('more chats than sessions share the sessions, and compute displaced tokens again', async () => {
      const few = await engine.load(fromBytes(await tinyModel()));
      const [a, b] = [await few.createChat(), await few.createChat({ system: 'Other' })];
      const one = await a.send('One', { ...GREEDY, maxTokens: 5 }).result;
      await b.send('Two', { ...GREEDY, maxTokens: 5 }).result;
      assert.deepEqual((await a.regenerate({ ...GREEDY, maxTokens: 5 }).result).tokens, one.tokens);
      const session = await few.createSession(); // an idle one makes room
      await assert.rejects(b.send('Three').result, { code: 'NO_SESSION' });
      await session.close();
      await b.send('Three', { maxTokens: 1 }).result;
      const [first, second] = [a.send('x', GREEDY), b.send('y', GREEDY)].map((run) => run[Symbol.asyncIterator]());
      await first.next();
      const waiting = second.next();
      await first.return?.();
      assert.equal((await waiting).done, false, 'it waited for the session');
      await second.return?.();
      await few.close();
    });

    test('two alternating conversations keep their sessions', async () => {
      const [a, b] = [await model.createChat({ system: 'A' }), await model.createChat({ system: 'Quite another' })];
      for (const chat of [a, b, a, b]) {
        const { timings, usage } = await chat.send('Go on', { ...GREEDY, maxTokens: 3 }).result;
        if (chat.messages.length > 3) assert.ok(usage.cachedTokens > usage.promptTokens / 3, JSON.stringify(timings));
      }
    });

    /** Each way to have a conversation answered: of its prompt, how many tokens there are and how many were there. */
    const ways = {
      'model.reply': async (messages) => {
        const { usage } = await model.generate(messages, { ...GREEDY, maxTokens: 1 }).result;
        return [usage.promptTokens, usage.cachedTokens];
      },
      'chat.completions.create': async (messages) => {
        const { usage } = await model.chat.completions.create({ messages, ...GREEDY, max_tokens: 1 });
        return [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens];
      },
      'a chat taken up': async (messages) => {
        const { usage } = await chatting(
          (chat) => chat.send(messages.at(-1).content, { ...GREEDY, maxTokens: 1 }).result,
          { messages: messages.slice(0, -1) },
        );
        return [usage.promptTokens, usage.cachedTokens];
      },
    };
    for (const [mode, ask] of Object.entries(ways))
      test(`${mode}: a conversation that was edited, cut or branched computes what follows the change`, async () => {
        const user = (content) => ({ role: 'user', content });
        const assistant = (content) => ({ role: 'assistant', content });
        const system = `${mode}: be brief, and kind`; // so long that what is shared is worth copying to another session
        const start = [{ role: 'system', content: system }, user('one'), assistant('the')];
        const text = `<|system|>${system}<|end|><|user|>one<|end|><|assistant|>the<|end|><|user|>`;
        const before = 1 + (await encode(text, true)).length;

        const [whole] = await ask([...start, user('two'), assistant('you'), user('three')]);
        // A message in the middle is edited: all before it is there.
        const edited = [...start, user('Edited'), assistant('you'), user('three')];
        const [length, reused] = await ask(edited);
        assert.equal(reused, before);
        assert.ok(whole > before + 10 && length > before + 10);
        // The last turn is cut: all is there but the last token, which is computed for what it predicts.
        const [cut, known] = await ask(edited.slice(0, -2));
        assert.ok(cut < length);
        assert.equal(known, cut - 1);
        // Two branches that take turns: what they share is there; where each has more of its own than that, all that it had.
        for (const [long, kept] of /** @type {const} */ ([
          ['', false],
          ['long '.repeat(20), true],
        ])) {
          const branches = ['Left', 'right'].map((first) => [...start, user(first + long)]);
          const had = [before, before];
          for (const turn of ['a', 'b', 'c'])
            for (const [i, branch] of branches.entries()) {
              const [prompt, there] = await ask(branch);
              assert.equal(there, had[i], `${turn} ${i} ${long}`);
              if (kept) had[i] = prompt;
              branch.push(assistant(turn), user(turn));
            }
        }
      });

    test('a full context is reported with numbers, and loses nothing of the conversation or the message', () =>
      chatting(async (chat) => {
        await chat.send('Hello', { ...GREEDY, maxTokens: 4 }).result;
        const before = chat.messages;
        const text = 'far too long '.repeat(40);
        for (const too of [text, text.repeat(2000)]) {
          await assert.rejects(
            chat.send(too).result,
            (/** @type {any} */ e) => e.code === 'CONTEXT_FULL' && /256/.test(e.message) && e.details.unsent === too,
          );
          assert.deepEqual(chat.messages, before);
        }
        const next = await chat.send('Short', { ...GREEDY, maxTokens: 4 }).result;
        assert.equal(next.tokens.length, 4);
      }));

    test('a chat refuses a second simultaneous reply', () =>
      chatting(async (chat) => {
        const first = chat.send('One', { ...GREEDY, maxTokens: 5 });
        const parts = first[Symbol.asyncIterator]();
        await parts.next();
        await assert.rejects(chat.send('Two').result, { code: 'STATE' });
        assert.deepEqual(
          chat.messages.filter((m) => m.role === 'user').map((m) => m.content),
          ['One'],
        );
        while (!(await parts.next()).done);
      }));

    test('chat formats: missing and malformed ones and missing roles are refused, a given one is used', async () => {
      const bare = await engine.load(fromBytes(await tinyModel({ chat: null })));
      await assert.rejects(bare.createChat(), { code: 'NO_CHAT' });
      const bad = /** @type {any} */ ({ roles: { user: { before: '' } } });
      await assert.rejects(bare.createChat({ chatFormat: bad }), { code: 'FORMAT' });
      const lines = {
        roles: { user: { before: 'User: ', after: '\n' }, assistant: { before: 'Bot: ', after: '\n' } },
        stop: ['\n'],
      };
      await assert.rejects(bare.createChat({ chatFormat: lines, system: 'x' }), { code: 'ARGUMENT' });
      const chat = await bare.createChat({ chatFormat: lines }); // the failures left no session behind
      const { finishReason: reason, text } = await chat.send('Hi', {
        temperature: 1,
        topK: 0,
        topP: 1,
        seed: 3,
        maxTokens: 100,
      }).result;
      assert.ok(['stop', 'length'].includes(reason));
      assert.ok(!text.includes('\n'));
      await bare.close();
      await assert.rejects(
        chatting((c) => c.regenerate().result, { chatFormat: CHAT }),
        { code: 'STATE' },
      );
    });
  });
}
