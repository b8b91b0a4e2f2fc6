// Tests that an option of `generate` is one row of js/shared/generate-options.js. In a copy of the package with additional rows, the
// options are in the check of `generate`, in the help of the command line, in OpenAI's requests (as a field or in the extension object),
// in receipts and in the sampler's record. types.test.mjs tests the type.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bq4-options-'));
const ROWS = join(folder, 'js/shared/generate-options.js');
const NEW_ROWS = `  /** Samples among typical tokens */
  typicalMass: {
    check: number(0, 1),
    default: 1,
    flag: 'P',
    flagHelp: 'samples among typical tokens with this total probability',
    openai: 'bq4',
    sampler: 'f32',
    receipt: true,
  },
  topA: { check: number(0, 1), flag: 'A', flagHelp: 'another limit', openai: 'top_a', openaiCheck: number(0, 0.5) },
`;

before(() => {
  for (const name of ['js', 'bin', 'package.json']) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const source = readFileSync(ROWS, 'utf8');
  const changed = source.replace('export const GENERATE_OPTIONS = {\n', (start) => start + NEW_ROWS);
  assert.notEqual(changed, source);
  writeFileSync(ROWS, changed);
});
after(() => rmSync(folder, { recursive: true }));

/** A module of the copy. @param {string} path @returns {Promise<any>} */
const load = (path) => import(pathToFileURL(join(folder, path)).href);

describe('a row that is added in one file', () => {
  test('is checked by generate, chats and both sides of a port', async () => {
    const { checkOptions } = await load('js/shared/options.js');
    for (const call of ['generate', 'generate or send']) {
      assert.deepEqual(checkOptions(call, { typicalMass: 0.5 }), { typicalMass: 0.5 });
      assert.throws(
        () => checkOptions(call, { typicalMass: 2 }),
        /typicalMass: expected a number from 0 to 1, found 2/,
      );
    }
  });

  test('is a flag of the commands that generate text, with its help', async () => {
    const { generateOptions } = await load('bin/generate-options.js');
    assert.equal((await generateOptions({ 'typical-mass': '0.25' })).typicalMass, 0.25);
    for (const command of ['run', 'chat']) {
      const { stdout } = spawnSync(process.execPath, [join(folder, 'bin/bq4.js'), command, '--help'], {
        encoding: 'utf8',
      });
      assert.match(stdout, /--typical-mass P +samples among typical tokens with this total\s+probability/);
    }
  });

  test("is a member of the extension object of OpenAI's requests, or a field", async () => {
    const { fieldsOf, generateOptions } = await load('js/api/openai/request.js');
    const messages = [{ role: 'user', content: 'Hello' }];
    const fields = fieldsOf('chat.completions.create', { messages, top_a: 0.5, bq4: { typicalMass: 0.75 } });
    const { typicalMass, topA } = generateOptions(fields);
    assert.deepEqual({ typicalMass, topA }, { typicalMass: 0.75, topA: 0.5 });
    const refuses = (/** @type {object} */ body, /** @type {string} */ param) =>
      assert.throws(
        () => fieldsOf('chat.completions.create', { messages, ...body }),
        (/** @type {any} */ error) => error.code === 'ARGUMENT' && error.details.param === param,
      );
    refuses({ bq4: { typicalMass: 2 } }, 'bq4.typicalMass');
    refuses({ top_a: 0.75 }, 'top_a');
  });

  test("is a field of the sampler's record if the row says so", async () => {
    const { structs } = await load('js/wasm/abi.js');
    const { fields } = structs.bq_sample_options;
    assert.deepEqual(fields[0], { name: 'typicalMass', kind: 'f32', offset: 0, count: 1 });
    assert.ok(!fields.some((/** @type {{ name: string }} */ { name }) => name === 'topA'));
  });
});

test('columns of the table agree: fields of OpenAI are unique, flags have a help, the sampler has a default for each of its fields', async () => {
  const { OPTION_ROWS } = await import('../../js/shared/generate-options.js');
  const fields = OPTION_ROWS.flatMap(([, { openai }]) => (openai && openai !== 'bq4' ? [openai] : []));
  assert.equal(new Set(fields).size, fields.length);
  for (const [name, { sampler, default: standard, check, flag, flagHelp }] of OPTION_ROWS) {
    assert.equal(Boolean(flag), Boolean(flagHelp), name);
    if (sampler) assert.equal(check(standard), '', name);
  }
});
