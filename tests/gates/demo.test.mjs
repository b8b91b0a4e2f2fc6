// Tests of the size of the demo's own scripts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEMO_LIMIT, demoScriptSizes } from '../../tools/size.mjs';

test(`the demo's own scripts of every visit have at most ${DEMO_LIMIT} bytes gzipped`, () => {
  const { gzip, plain } = demoScriptSizes();
  assert.ok(plain > 80_000, `${plain} bytes: its imports are found`);
  assert.ok(gzip <= DEMO_LIMIT, `${gzip} bytes`);
});
