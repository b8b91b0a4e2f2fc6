#!/usr/bin/env node
// Writes build/types/, the type declarations that the package ships: the output of tsc, with the type GenerateOptions written out. In the
// sources this type follows from the rows of js/shared/generate-options.js; some editors show no comments for the properties of such a type.
//
//   node tools/types.mjs [FOLDER]     FOLDER: where the declarations are written (build/types)
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** A row in the declaration of GENERATE_OPTIONS: the comment, the name, and the type of valid values. */
const ROW = /^ {4}(\/\*\*[^]*?\*\/)\n {4}(\w+): \{\n {8}check: Check<([^]*?)>;\n[^]*?^ {4}\};$/gm;

/** Writes out GenerateOptions in the declarations of generate-options.js. @param {string} declarations */
function withWrittenOptions(declarations) {
  const [, rows] = /^export declare const GENERATE_OPTIONS: \{\n([^]*?)^\};$/m.exec(declarations) ?? [];
  const properties = [...String(rows).matchAll(ROW)].map(([, comment, name, type]) => {
    const valueType = type.replace(/\n {4}/g, '\n');
    return `    ${comment}\n    ${name}?: ${valueType.includes('=>') ? `(${valueType})` : valueType} | undefined;\n`;
  });
  return declarations.replace(
    /^export type GenerateOptions = \{[^]*?^\};$/m,
    () => `export type GenerateOptions = {\n${properties.join('')}};`,
  );
}

const folder = resolve(process.argv[2] ?? join(ROOT, 'build/types'));
const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
const args = [tsc, '-p', join(ROOT, 'tsconfig.types.json'), '--outDir', folder];
const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
if (status === 0) {
  const path = join(folder, 'js/shared/generate-options.d.ts');
  writeFileSync(path, withWrittenOptions(readFileSync(path, 'utf8')));
}
process.exitCode = status ?? 1;
