#!/usr/bin/env node
// Compiles each group of a JSON Schema test suite that something satisfies, writes texts for it at random, and asks ajv:
//
//   node tests/tools/schema_suite.mjs FOLDER [TEXTS]
//
// FOLDER has files of [{ description, schema, tests: [{ valid }] }], as JSON-Schema-Test-Suite's tests/draft7 does. Groups
// with references to elsewhere are left out, and those that ajv can't read. Says how many compiled, what was refused and why, and
// every invalid text. tests/js/schema-suite.long.mjs does the same.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { picker } from '../js/random-texts.mjs';
import { validator } from '../js/validator.mjs';

/**
 * @param {string} folder
 * @param {number} count  texts of each group
 * @param {(line: string) => void} [say]  of what is left out, refused or invalid, as it is found
 */
export async function runSuite(folder, count, say = () => {}) {
  const pick = await picker();
  const found = {
    groups: 0,
    compiled: 0,
    texts: 0,
    invalid: /** @type {string[]} */ ([]),
    refused: /** @type {string[]} */ ([]),
  };
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.json'))
    .sort())
    for (const { description, schema, tests } of JSON.parse(readFileSync(join(folder, file), 'utf8'))) {
      const remote = file.includes('refRemote') || /"\$ref":"(https?:|urn:)/.test(JSON.stringify(schema));
      if (remote || !tests.some((/** @type {{ valid: boolean }} */ t) => t.valid)) continue;
      const name = `${file}, ${description}`;
      let validate;
      try {
        validate = validator(schema);
      } catch (error) {
        say(`ajv refuses ${name}: ${/** @type {Error} */ (error).message}`);
        continue;
      }
      found.groups++;
      try {
        for (let i = 0; i < count; i++) {
          const text = await pick({ type: 'json_schema', schema }, 2 + 4 * i);
          found.texts++;
          if (validate(JSON.parse(text))) continue;
          found.invalid.push(`${name}: ${text}`);
          say(`INVALID ${found.invalid.at(-1)}`);
        }
        found.compiled++;
      } catch (error) {
        found.refused.push(`${name}: ${/** @type {Error} */ (error).message}`);
        say(`refused ${found.refused.at(-1)}`);
      }
    }
  return found;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, count = '25'] = process.argv.slice(2);
  const { groups, compiled, texts, invalid } = await runSuite(folder, Number(count), console.log);
  console.log(
    `${compiled} of ${groups} groups compiled (${((100 * compiled) / groups).toFixed(1)} %), ${texts} texts, ${invalid.length} invalid`,
  );
  process.exitCode = invalid.length ? 1 : 0;
}
