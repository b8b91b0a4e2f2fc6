#!/usr/bin/env node
// Measures structured output with the schemas of tests/bench/forms/ relative to free text: CPU milliseconds of one thread per token, the
// minimum of several turns. (Wall time would depend on other load of the machine.)
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
async function generateTimed(prompt, options) {
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
    const constrained = await generateTimed(prompt, { responseFormat, maxTokens: 200 });
    const unconstrained = await generateTimed(prompt, { maxTokens: constrained.tokens });
    if (!i) continue; // the first turn warms up
    [free, form, tokens] = [Math.min(free, unconstrained.ms), Math.min(form, constrained.ms), constrained.tokens];
  }
  console.log(
    `${name.padEnd(14)}${String(tokens).padStart(5)}${free.toFixed(2).padStart(10)}${form.toFixed(2).padStart(10)}${(free / form).toFixed(2).padStart(9)}`,
  );
}
await engine.close();
