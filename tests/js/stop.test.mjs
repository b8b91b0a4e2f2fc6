import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StopFilter } from '../../js/api/chat/stop-strings.js';

/** What is shown of `pieces`, and the stop string that was met. */
function show(stops, pieces) {
  const filter = new StopFilter(stops);
  let shown = '';
  for (const piece of pieces) {
    const { text, stop } = filter.push(piece);
    shown += text;
    if (stop !== null) return { shown, stop };
  }
  return { shown: shown + filter.flush(), stop: null };
}

test('a stop string over several tokens is never shown', () => {
  assert.deepEqual(show(['User:'], ['Hello\nUs', 'er', ': me']), { shown: 'Hello\n', stop: 'User:' });
});

test('the start of a stop string that continues differently is yielded later', () => {
  const filter = new StopFilter(['User:']);
  assert.deepEqual(filter.push('the Us'), { text: 'the ', stop: null });
  assert.deepEqual(filter.push('e of'), { text: 'Use of', stop: null });
  assert.deepEqual(filter.push(' U'), { text: ' ', stop: null });
  assert.equal(filter.flush(), 'U');
});

test('repeated starts of a stop string: the overlap is found within the delayed text', () => {
  assert.deepEqual(show(['aab'], ['aa', 'a', 'b', 'x']), { shown: 'a', stop: 'aab' });
  assert.deepEqual(show(['abac'], ['aba', 'bac']), { shown: 'ab', stop: 'abac' });
});

test('of several stop strings the first complete one ends the text; of equal ends the longest one', () => {
  assert.deepEqual(show(['b', 'abc'], ['abc']), { shown: 'a', stop: 'b' });
  assert.deepEqual(show(['b', 'ab'], ['ab']), { shown: '', stop: 'ab' });
});

test('without stop strings, or with empty ones, no text is delayed', () => {
  assert.deepEqual(new StopFilter(['']).push('abc'), { text: 'abc', stop: null });
});

test('any split of a text gives the same result as single characters', () => {
  let state = 1;
  const random = (n) => (state = (state * 48271) % 2147483647) % n;
  const word = (n) => Array.from({ length: n }, () => 'ab'[random(2)]).join('');
  let stopped = 0;
  for (let round = 0; round < 3000; round++) {
    const stops = Array.from({ length: 1 + random(3) }, () => word(1 + random(5)));
    const text = word(random(12));
    const pieces = [];
    for (let at = 0; at < text.length;) pieces.push(text.slice(at, (at += 1 + random(4))));
    const whole = show(stops, [...text]);
    assert.deepEqual(show(stops, pieces), whole, JSON.stringify({ stops, pieces }));
    if (whole.stop) stopped++;
    else assert.equal(whole.shown, text);
  }
  assert.ok(stopped > 300, 'the rounds met stop strings');
});
