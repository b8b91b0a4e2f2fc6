#!/usr/bin/env node
// Compiles each group of a JSON Schema test suite that something satisfies, writes texts for it at random, and asks ajv:
//
//   node tests/tools/schema_suite.mjs FOLDER [TEXTS]
//
// FOLDER has files of [{ description, schema, tests: [{ valid }] }], as JSON-Schema-Test-Suite's tests/draft7 does. Groups
// with references to elsewhere are left out, and those that ajv can't read. Says how many compiled, what was refused and why, and
// every invalid text.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { picker } from '../js/picker.mjs';
import { validator } from '../js/validator.mjs';

const [folder, count = '25'] = process.argv.slice(2);
const pick = await picker();

let groups = 0;
let compiled = 0;
let texts = 0;
let invalid = 0;
for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.json'))
  .sort())
  for (const { description, schema, tests } of JSON.parse(readFileSync(join(folder, file), 'utf8'))) {
    const remote = file.includes('refRemote') || /"\$ref":"(https?:|urn:)/.test(JSON.stringify(schema));
    if (remote || !tests.some((/** @type {any} */ t) => t.valid)) continue;
    let validate;
    try {
      validate = validator(schema);
    } catch (error) {
      console.log(`ajv refuses ${file}, ${description}: ${/** @type {Error} */ (error).message}`);
      continue;
    }
    groups++;
    try {
      for (let i = 0; i < Number(count); i++) {
        const text = await pick({ type: 'json_schema', schema }, 2 + 4 * i);
        texts++;
        if (validate(JSON.parse(text))) continue;
        invalid++;
        console.log(`INVALID ${file}, ${description}: ${text}`);
      }
      compiled++;
    } catch (error) {
      console.log(`refused ${file}, ${description}: ${/** @type {Error} */ (error).message}`);
    }
  }
console.log(
  `${compiled} of ${groups} groups compiled (${((100 * compiled) / groups).toFixed(1)} %), ${texts} texts, ${invalid} invalid`,
);
process.exitCode = invalid ? 1 : 0;
