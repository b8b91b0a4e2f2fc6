#!/usr/bin/env node
// Writes build/golden/: the golden tiny model as .bq4 files, and the reference ids as plain text, for
// tests/c/test_golden.c. The same conversion as `bq4 convert`, by the encoders in JavaScript.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const OUT = join(ROOT, 'build', 'golden');

/** What each file of build/golden is made with. */
export const GOLDEN_MODELS = { f32: { quant: 'f32' }, bq4: { quant: 'bq4', embed: 'bq4' } };

export async function makeGolden() {
  mkdirSync(OUT, { recursive: true });
  const { prompt_ids: prompt, ids } = JSON.parse(readFileSync(join(ROOT, 'tests/golden/tiny.json'), 'utf8'));
  // Number of prompt ids, number of greedy ids, then both.
  writeFileSync(join(OUT, 'tiny.ids'), `${prompt.length} ${ids.length}\n${[...prompt, ...ids].join(' ')}\n`);
  for (const [name, options] of Object.entries(GOLDEN_MODELS))
    await convert(join(ROOT, 'tests/golden/tiny'), join(OUT, `tiny-${name}.bq4`), options);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await makeGolden();
