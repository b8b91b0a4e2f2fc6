// Tests of the comparison of the demo's screenshots: differences that it detects and those that it accepts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PNG } from 'pngjs';
import { compare } from '../../tools/screenshots/compare.mjs';

/** @typedef {import('../../tools/screenshots/walk.mjs').Box} Box */

/** White, with black rectangles. @param {Box[]} boxes @param {number} [width] */
function drawn(boxes, width = 200) {
  const png = new PNG({ width, height: 100 });
  png.data.fill(255);
  for (const [x, y, w, h] of boxes)
    for (let row = y; row < y + h; row++)
      for (let at = x; at < x + w; at++) png.data.set([0, 0, 0], 4 * (row * width + at));
  return PNG.sync.write(png);
}

/** @param {Partial<import('../../tools/screenshots/walk.mjs').Look>} [change] */
const look = (change) => ({
  picture: drawn([[20, 20, 60, 10]]),
  layout: /** @type {Record<string, Box>} */ ({ main: [0, 0, 200, 80], '#send': [150, 80, 40, 20] }),
  masks: /** @type {Box[]} */ ([[20, 60, 50, 10]]),
  fonts: { sans: 100 },
  ...change,
});

test('a picture equals itself', () => {
  assert.deepEqual(compare(look(), look()), { faults: [], difference: null, fonts: true });
});

test('an additional word is detected and drawn; a masked one is not', () => {
  const { faults, difference } = compare(
    look(),
    look({
      picture: drawn([
        [20, 20, 60, 10],
        [100, 20, 20, 10],
      ]),
    }),
  );
  assert.match(faults.join(), /^200 pixels differ, 1\.00 % of all$/);
  assert.equal(PNG.sync.read(difference).width, 200);
  const masked = look({
    picture: drawn([
      [20, 20, 60, 10],
      [20, 60, 40, 10],
    ]),
  });
  assert.deepEqual(compare(look(), masked).faults, []);
});

test('another size and missing, new and moved parts are detected', () => {
  assert.match(
    compare(look(), look({ picture: drawn([], 100) })).faults.join(),
    /expected 200 x 100 pixels, found 100 x 100/,
  );
  const { faults } = compare(look(), look({ layout: { main: [0, 0, 200, 70], '#alert': [0, 70, 1, 1] } }));
  assert.deepEqual(faults, [
    '#send is missing',
    '#alert is new',
    'expected main at 0,0,200,80, found it at 0,0,200,70',
  ]);
});

test('with other fonts parts may be moved within the window', () => {
  const other = { fonts: { sans: 108 }, picture: drawn([]) };
  const taller = look({ ...other, layout: { main: [0, 0, 200, 95], '#send': [100, 95, 90, 20] } });
  assert.deepEqual(compare(look(), taller), { faults: [], difference: null, fonts: false });
  const wide = look({ ...other, layout: { main: [0, 0, 260, 80], '#send': [210, 80, 40, 20] } });
  assert.equal(compare(look(), wide).faults.length, 2);
});
