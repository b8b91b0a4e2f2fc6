// Compares the main states of the demo with docs/screenshots: pixels with the same fonts, otherwise the visible parts. For each difference,
// build/screenshots/difference contains a picture.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { compare } from '../../tools/screenshots/compare.mjs';
import { STATES } from '../../tools/screenshots/states.mjs';
import { visitStates } from '../../tools/screenshots/walk.mjs';
import { missing } from './launch.mjs';
import { ROOT } from './site.mjs';

const KEPT = join(ROOT, 'docs', 'screenshots');
const DIFFERENCE = join(ROOT, 'build', 'screenshots', 'difference');
const RENEW = 'if that is meant: BQ4_BROWSERS=chromium node tools/screenshots.mjs main';

test('the main states look like the stored pictures', { skip: missing() ?? false, timeout: 600_000 }, async (t) => {
  const { version, states } = JSON.parse(readFileSync(join(KEPT, 'layout.json'), 'utf8'));
  const main = STATES.filter((state) => state.main);
  assert.deepEqual(
    main.map(({ name }) => name),
    Object.keys(states),
    RENEW,
  );
  mkdirSync(DIFFERENCE, { recursive: true });
  /** @type {string[]} */
  const faults = [];
  let pixels = 0;
  const now = await visitStates('chromium', main, ({ name }, look) => {
    const kept = { picture: readFileSync(join(KEPT, `${name}.png`)), ...states[name] };
    const seen = compare(kept, look);
    pixels += Number(seen.fonts);
    if (!seen.faults.length) return;
    const file = join('build', 'screenshots', 'difference', name);
    writeFileSync(join(ROOT, `${file}.png`), look.picture);
    if (seen.difference) writeFileSync(join(ROOT, `${file}-difference.png`), seen.difference);
    faults.push(`${name}: ${seen.faults.join('; ')}; see ${file}*.png`);
  });
  t.diagnostic(`${now}, kept with ${version}: ${pixels} of ${main.length} compared pixel by pixel`);
  assert.deepEqual(faults, [], RENEW);
});
