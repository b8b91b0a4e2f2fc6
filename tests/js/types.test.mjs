// Tests of the declarations that are generated from JSDoc, as a TypeScript project uses them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { GENERATE_OPTIONS } from '../../js/shared/generate-options.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bq4-types-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args */
const tsc = (...args) =>
  spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), ...args], {
    cwd: folder,
    encoding: 'utf8',
  });

/** The modules of public types, one for each area. */
const AREAS = readdirSync(join(root, 'js/shared/types')).map((name) => `shared/types/${name.replace('.js', '')}`);

test('js/shared/types.js has the types of all areas', () => {
  const text = readFileSync(join(root, 'js/shared/types.js'), 'utf8');
  const exported = [...text.matchAll(/^export \* from '\.\/types\/(\w+)\.js';$/gm)].map(([, name]) => name);
  assert.deepEqual(exported.map((name) => `shared/types/${name}`).sort(), AREAS.sort());
});

test('types of all public values are exported', () => {
  const text = AREAS.map((name) => readFileSync(join(root, 'js', `${name}.js`), 'utf8')).join('\n');
  const names = [...text.matchAll(/@typedef \{.*\} (\w+)(?: \*\/)?$/gm)].map(([, name]) => name);
  assert.ok(names.length > 30, `${names}`);
  const exported = readFileSync(join(root, 'js/index.js'), 'utf8');
  assert.deepEqual(
    names.filter((name) => !exported.includes(`} ${name} */`)),
    [],
  );
});

/** The package as it is installed: package.json and the declarations it names. */
before(() => {
  const installed = join(folder, 'node_modules/bq4');
  mkdirSync(installed, { recursive: true });
  cpSync(join(root, 'package.json'), join(installed, 'package.json'));
  const output = spawnSync(process.execPath, [join(root, 'tools/types.mjs'), join(installed, 'build/types')], {
    encoding: 'utf8',
  });
  assert.equal(output.status, 0, output.stdout + output.stderr);
  for (const name of ['@types', '@ai-sdk', '@langchain', 'ai', 'openai', 'react'])
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  cpSync(join(root, 'tests/js/consumer'), folder, { recursive: true });
});

// Declarations of other libraries are theirs to check.
for (const [name, what, skipLibCheck] of /** @type {const} */ ([
  ['consumer', 'the package', false],
  ['adapters', 'the adapters, which know their libraries’ types', true],
]))
  test(`a TypeScript project compiles against ${what}`, () => {
    const compilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck,
      target: 'es2022',
      module: 'nodenext',
      lib: ['es2023', 'dom', 'dom.iterable', 'dom.asynciterable'],
      types: ['node'],
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: [`${name}.mts`] }));
    const used = tsc('-p', folder);
    assert.equal(used.status, 0, used.stdout);
  });

test('GenerateOptions has each option with its type and its comment', () => {
  const path = join(folder, 'node_modules/bq4/build/types/js/shared/generate-options.d.ts');
  const [, type] = /^export type GenerateOptions = \{\n([^]*?)^\};$/m.exec(readFileSync(path, 'utf8')) ?? [];
  const properties = [...String(type).matchAll(/^ {4}\/\*\*[^]*?\*\/\n {4}(\w+)\?: /gm)];
  assert.deepEqual(
    properties.map(([, name]) => name),
    Object.keys(GENERATE_OPTIONS),
  );
});

/** Where a declaration may say `any`: what callers narrow themselves, and what is as it is in a library that is extended. */
const ANY = {
  'api/adapters/langchain': ['withStructuredOutput(schema: any, options?: any): any;'],
  'shared/types/openai': ['function: (args: any, more: {'],
  'shared/errors': [
    'details: Record<string, any>;',
    'static [Symbol.hasInstance](value: any): boolean;',
    'details?: Record<string, any>;',
    'export declare function unpackError(packed: any): Error;',
  ],
};

test('public values have types, and `any` only where the list allows it', () => {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.values(exports).flatMap(
    ({ types }) => types?.replace(/^.*types\/js\/(.*)\.d\.ts$/, '$1') ?? [],
  );
  const all = [
    ...entries,
    ...AREAS,
    'storage/sources/types',
    'storage/cache/types',
    'shared/errors',
    'shared/generate-options',
  ];
  assert.ok(entries.length > 8 && all.includes('index'), `${all}`);
  /** @type {Record<string, string[]>} */
  const found = {};
  for (const name of all) {
    const text = readFileSync(join(folder, 'node_modules/bq4/build/types/js', `${name}.d.ts`), 'utf8');
    const code = text.replace(/\/\*[^]*?\*\/|\/\/.*$/gm, '');
    const lines = code.split('\n').flatMap((line) => (/\bany\b/.test(line) ? line.trim() : []));
    if (lines.length) found[name] = lines;
  }
  assert.deepEqual(found, ANY);
});
