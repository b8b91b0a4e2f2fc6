#!/usr/bin/env node
// Generates random tokens for each format of formats.json with bq4's masks over a model's vocabulary, and writes every mask to FOLDER,
// for compare.py:
//
//   node tests/tools/masks/walk.mjs MODEL FOLDER [STEPS, default 40]
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createEngine, fromFile } from '../../../js/node.js';
import { Grammars } from '../../../js/engine/generation/grammar-guide.js';
import { compile } from '../../../js/text/grammar/index.js';
import { random } from '../../js/fixture.mjs';

const [path, folder, steps = '40'] = process.argv.slice(2);
const formats = JSON.parse(readFileSync(new URL('formats.json', import.meta.url), 'utf8'));
const engine = await createEngine({ threads: 1 });
const model = /** @type {any} */ (await engine.load(fromFile(path), { contextTokens: 64 }));
/** @type {Grammars | undefined} */
let guides;
const create = Grammars.create;
Grammars.create = async (...args) => (guides = await create(...args));
await model.guide({ responseFormat: { type: 'choice', choices: ['a'] } });
const { machine, words } = /** @type {Grammars} */ (guides);
const { vocabSize: vocab } = model.info;
const next = random(7);

mkdirSync(folder, { recursive: true });
const hex = (/** @type {Uint8Array} */ bytes) => Buffer.from(bytes).toString('hex');
writeFileSync(
  join(folder, 'tokens.json'),
  JSON.stringify(Array.from({ length: vocab }, (_, id) => hex(machine.token(id)))),
);
const walks = [];
for (const format of formats)
  for (let turn = 0; turn < 3; turn++) {
    const matcher = await machine.matcher(JSON.stringify(format), () => compile(format));
    const walk = [];
    for (let n = 0; n < Number(steps) && matcher.continues; n++) {
      const mask = matcher.mask(words).slice();
      const ids = Array.from({ length: vocab }, (_, id) => id).filter((id) => (mask[id >>> 5] >>> (id & 31)) & 1);
      const id = ids[Math.floor(((next() + 1) / 2) * ids.length)];
      walk.push({ id, complete: matcher.complete, mask: hex(new Uint8Array(mask.buffer)) });
      matcher.accept(id);
    }
    machine.give(matcher);
    walks.push({ format, walk });
  }
writeFileSync(join(folder, 'walks.json'), JSON.stringify(walks));
await engine.close();
console.log(`${walks.length} walks, ${walks.reduce((sum, { walk }) => sum + walk.length, 0)} masks of ${vocab} tokens`);
