// Tests of a generation alone: its loop, its result, its text stream and its abort, with a source that counts computed tokens.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Generation } from '../../js/shared/generation.js';

/** A generation of `count` parts. @param {number} count @param {AbortSignal} [signal] */
function counting(count, signal) {
  const seen = { computed: 0 };
  /** @type {any} */
  const result = { text: '' };
  const generation = new Generation(async function* (end, reading) {
    try {
      for (let i = 0; i < count; i++) {
        await null;
        reading.signal.throwIfAborted();
        seen.computed++;
        result.text += i;
        yield /** @type {any} */ ({ text: `${i}` });
      }
    } finally {
      end(result);
    }
  }, signal);
  return { generation, seen };
}

/** @param {AsyncIterable<{ text: string }>} parts */
async function textOf(parts) {
  let text = '';
  for await (const part of parts) text += part.text;
  return text;
}

test('a generation is not thenable, so an async function can return it', async () => {
  const { generation, seen } = counting(3);
  assert.equal('then' in generation, false);
  const returned = await (async () => generation)();
  assert.equal(returned, generation);
  assert.equal(seen.computed, 0);
});

test('the result is the same during, before and after a loop, and consumes no part', async () => {
  const { generation } = counting(5);
  const early = generation.result;
  assert.equal(await textOf(generation), '01234');
  assert.equal((await early).text, '01234');
  assert.equal(await generation.result, await early);
});

test('a second loop is refused', async () => {
  const { generation } = counting(2);
  assert.equal(await textOf(generation), '01');
  assert.throws(() => generation[Symbol.asyncIterator](), { code: 'STATE' });
  assert.throws(() => generation.textStream, { code: 'STATE' });
});

test('abort() throws its reason to the loop and to a result that is awaited; afterwards the result is the computed part', async () => {
  const reason = new Error('enough');
  const { generation, seen } = counting(100);
  const awaited = [];
  await assert.rejects(async () => {
    for await (const { text } of generation)
      if (text === '3') {
        awaited.push(assert.rejects(generation.result, reason));
        generation.abort(reason);
      }
  }, reason);
  await Promise.all(awaited);
  assert.equal((await generation.result).text, '01234'.slice(0, seen.computed));
  assert.ok(seen.computed < 6);
});

test('abort() without a reason is an AbortError, also before anything is read; after the end it does nothing', async () => {
  const { generation } = counting(3);
  generation.abort();
  await assert.rejects(textOf(generation), { name: 'AbortError' });
  const whole = counting(2).generation;
  assert.equal((await whole.result).text, '01');
  whole.abort();
  assert.equal(await textOf(whole), '01');
});

test("the caller's signal aborts as abort() does, and is let go of at the end", async () => {
  const controller = new AbortController();
  const { generation } = counting(100, controller.signal);
  await assert.rejects(
    async () => {
      for await (const { text } of generation) if (text === '2') controller.abort();
    },
    { name: 'AbortError' },
  );
  const other = counting(2, controller.signal).generation;
  await assert.rejects(other.result, { name: 'AbortError' });
});
