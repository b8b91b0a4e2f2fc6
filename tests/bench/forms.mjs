#!/usr/bin/env node
// Filling the forms of tests/bench/forms/, against writing freely: milliseconds per token that the one thread computes, side by side,
// the best of several turns. (A wall clock would tell what else the machine does.)
//
//   node tests/bench/forms.mjs MODEL [TURNS]
import { readdirSync, readFileSync } from 'node:fs';
import { createEngine, fromFile } from '../../js/node.js';

const [path, turns = '5'] = process.argv.slice(2);
const folder = new URL('forms/', import.meta.url);
const engine = await createEngine({ threads: 1 });
const model = await engine.load(fromFile(path), { contextTokens: 512, activations: 'i8' });
const session = await model.createSession();

/** @param {string} prompt @param {object} options @returns {Promise<{ ms: number, tokens: number }>} per token */
async function timed(prompt, options) {
  const { threadCpuUsage } = /** @type {any} */ (process);
  const since = threadCpuUsage();
  const { tokens: ids } = await session.generate(prompt, { temperature: 0, seed: 1, speculate: false, ...options })
    .result;
  const { user, system } = threadCpuUsage(since);
  return { ms: (user + system) / 1000 / ids.length, tokens: ids.length };
}

console.log('form         tokens   free ms   form ms   faster');
for (const name of readdirSync(folder).sort()) {
  const schema = JSON.parse(readFileSync(new URL(name, folder), 'utf8'));
  const prompt = `A filled in ${name.replace('.json', '')} form for John Miller, 34 years old, of 12 Main Street in Springfield, as JSON:\n`;
  const responseFormat = /** @type {const} */ ({ type: 'json_schema', schema });
  let [free, form, tokens] = [Infinity, Infinity, 0];
  for (let i = 0; i <= Number(turns); i++) {
    const held = await timed(prompt, { responseFormat, maxTokens: 200 });
    const other = await timed(prompt, { maxTokens: held.tokens });
    if (!i) continue; // the first time compiles
    [free, form, tokens] = [Math.min(free, other.ms), Math.min(form, held.ms), held.tokens];
  }
  console.log(
    `${name.padEnd(14)}${String(tokens).padStart(5)}${free.toFixed(2).padStart(10)}${form.toFixed(2).padStart(10)}${(free / form).toFixed(2).padStart(9)}`,
  );
}
await engine.close();
