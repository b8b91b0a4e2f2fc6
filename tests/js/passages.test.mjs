// Tests of texts of the search page: they are split into passages without loss, and the nearest passages are found.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nearest, passages, unit } from '../../demo/search/passages.js';

test('short paragraphs go together, long ones are cut at ends of sentences, nothing is lost', () => {
  assert.deepEqual(passages(''), []);
  assert.deepEqual(passages('one\n\ntwo\nlines'), ['one\ntwo lines']);
  const sentence = 'This is a sentence that says very little about what it is for. ';
  const text = `Title\n\n${sentence.repeat(30)}\n\n${'x'.repeat(3000)}\n\nend`;
  const output = passages(text);
  const bare = (/** @type {string} */ one) => one.replace(/\s+/g, '');
  assert.equal(bare(output.join('')), bare(text));
  assert.ok(
    output.every((one) => one.length <= 502),
    output.map((one) => one.length).join(),
  );
  for (const one of output.slice(0, 3)) assert.match(one, /for\.$/);
});

test('the nearest come first, whatever their length', () => {
  const passage = (/** @type {string} */ text, /** @type {number[]} */ v) => ({
    file: 'f',
    text,
    vector: unit(Float32Array.from(v)),
  });
  const all = [passage('up', [0, 9]), passage('right', [0.1, 0]), passage('both', [1, 1])];
  const found = nearest(all, unit(Float32Array.from([3, 1])), 2);
  assert.deepEqual(
    found.map(({ passage: { text } }) => text),
    ['right', 'both'],
  );
  assert.deepEqual([...unit(new Float32Array(2))], [0, 0], 'nothing has no direction');
});
