#!/usr/bin/env node
// Writes build/golden/: the golden tiny model as .bq4 files, and the reference ids as plain text; each checkpoint of
// tests/golden/fixtures as NAME.bq4 with its ids and expected logits (of encoders: hidden states); for tests/c/test_golden.c and test_families.c. The same conversion as `bq4 convert`, by the encoders in JavaScript.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const OUT = join(ROOT, 'build', 'golden');

/** What each file of build/golden is made with. */
export const GOLDEN_MODELS = { f32: { quant: 'f32' }, bq4: { quant: 'bq4', embed: 'bq4' } };

/** Checkpoints of other programs, and their logits at every position. */
async function makeFamilies() {
  const from = join(ROOT, 'tests/golden/fixtures');
  const names = readdirSync(from);
  for (const name of names) {
    const { ids, logits, states } = JSON.parse(readFileSync(join(from, name, 'expected.json'), 'utf8'));
    writeFileSync(join(OUT, `${name}.ids`), `${ids.length}\n${ids.join(' ')}\n`);
    writeFileSync(join(OUT, `${name}.f32`), Buffer.from(logits ?? states, 'base64'));
    await convert(join(from, name), join(OUT, `${name}.bq4`), { quant: 'f32' });
  }
  writeFileSync(join(OUT, 'families.txt'), `${names.join('\n')}\n`);
}

export async function makeGolden() {
  mkdirSync(OUT, { recursive: true });
  const { prompt_ids: prompt, ids } = JSON.parse(readFileSync(join(ROOT, 'tests/golden/tiny.json'), 'utf8'));
  // Number of prompt ids, number of greedy ids, then both.
  writeFileSync(join(OUT, 'tiny.ids'), `${prompt.length} ${ids.length}\n${[...prompt, ...ids].join(' ')}\n`);
  for (const [name, options] of Object.entries(GOLDEN_MODELS))
    await convert(join(ROOT, 'tests/golden/tiny'), join(OUT, `tiny-${name}.bq4`), options);
  await makeFamilies();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await makeGolden();
