#!/usr/bin/env node
// Compiles the schema of each group of a JSON Schema test suite that has a valid value, generates random texts for it, and validates them
// with ajv:
//
//   node tests/tools/schema_suite.mjs FOLDER [TEXTS of each group, default 25]
//
// FOLDER has files of [{ description, schema, tests: [{ valid }] }], as JSON-Schema-Test-Suite's tests/draft7 does. Groups with references
// to other files, and groups that ajv does not compile, are left out. Prints the number of compiled groups, the refused ones with the
// reason, and every invalid text. tests/js/schema-suite.long.mjs does the same.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { picker } from '../js/random-texts.mjs';
import { validator } from '../js/validator.mjs';

/**
 * Runs the suite.
 * @param {string} folder
 * @param {number} count  number of texts of each group
 * @param {(line: string) => void} [report]  receives a line for each group that is left out or refused and for each invalid text
 */
export async function runSuite(folder, count, report = () => {}) {
  const pick = await picker();
  const result = {
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
        report(`ajv refuses ${name}: ${/** @type {Error} */ (error).message}`);
        continue;
      }
      result.groups++;
      try {
        for (let i = 0; i < count; i++) {
          const text = await pick({ type: 'json_schema', schema }, 2 + 4 * i);
          result.texts++;
          if (validate(JSON.parse(text))) continue;
          result.invalid.push(`${name}: ${text}`);
          report(`INVALID ${result.invalid.at(-1)}`);
        }
        result.compiled++;
      } catch (error) {
        result.refused.push(`${name}: ${/** @type {Error} */ (error).message}`);
        report(`refused ${result.refused.at(-1)}`);
      }
    }
  return result;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, count = '25'] = process.argv.slice(2);
  const { groups, compiled, texts, invalid } = await runSuite(folder, Number(count), console.log);
  console.log(
    `${compiled} of ${groups} groups compiled (${((100 * compiled) / groups).toFixed(1)} %), ${texts} texts, ${invalid.length} invalid`,
  );
  process.exitCode = invalid.length ? 1 : 0;
}
