#!/usr/bin/env node
// Writes build/golden/ for tests/c/test_golden.c and test_families.c: the golden tiny model as .bq4 files, with the reference tokens as
// plain text, and each checkpoint of tests/golden/fixtures as NAME.bq4, with its tokens and expected logits (of encoders: hidden states).
// The conversion is that of `bq4 convert`.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const OUT = join(ROOT, 'build', 'golden');

/** Options of the conversion for each file tiny-NAME.bq4. */
export const GOLDEN_MODELS = { f32: { quant: 'f32' }, bq4: { quant: 'bq4', embed: 'bq4' } };

/** Writes the checkpoints of other programs, with the logits of every position. */
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

/** Writes all files of build/golden. */
export async function makeGolden() {
  mkdirSync(OUT, { recursive: true });
  const { prompt_ids: prompt, ids } = JSON.parse(readFileSync(join(ROOT, 'tests/golden/tiny.json'), 'utf8'));
  // The number of prompt tokens, the number of greedy tokens, then the tokens of both.
  writeFileSync(join(OUT, 'tiny.ids'), `${prompt.length} ${ids.length}\n${[...prompt, ...ids].join(' ')}\n`);
  for (const [name, options] of Object.entries(GOLDEN_MODELS))
    await convert(join(ROOT, 'tests/golden/tiny'), join(OUT, `tiny-${name}.bq4`), options);
  await makeFamilies();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await makeGolden();
