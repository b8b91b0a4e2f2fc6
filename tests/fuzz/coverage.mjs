#!/usr/bin/env node
// Prints the line coverage of the fuzzers, for each file of c/. Each fuzzer runs for some seconds with its corpus (build/fuzz/corpus) and
// its seeds (tests/fuzz/corpus).
//
//   node tests/fuzz/coverage.mjs [SECONDS of each fuzzer, default 20] [FUZZER...]
//
// Requires clang with libFuzzer, llvm-profdata and llvm-cov. A line counts if any of the fuzzers reaches it.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const OUT = 'build/fuzz-coverage';
const [seconds = '20', ...selection] = process.argv.slice(2);
const names = readdirSync(join(ROOT, 'tests/fuzz'))
  .flatMap((file) => /^fuzz_(.*)\.c$/.exec(file)?.[1] ?? [])
  .filter((name) => !selection.length || selection.includes(name));
const run = (/** @type {string} */ program, /** @type {string[]} */ args, env = {}) =>
  execFileSync(program, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    maxBuffer: 1 << 28,
  });

mkdirSync(join(ROOT, OUT), { recursive: true });
const sources = readdirSync(join(ROOT, 'c'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.c'))
  .map((file) => `c/${file}`);
for (const name of names) {
  const flags = '-w -std=c11 -ffp-contract=off -fno-math-errno -Ic -Itests/c -O1 -DBQ_ASSERTS -fsanitize=fuzzer';
  const program = `${OUT}/${name}`;
  const coverage = ['-fprofile-instr-generate', '-fcoverage-mapping', `tests/fuzz/fuzz_${name}.c`, ...sources];
  run(process.env.CLANG ?? 'clang', [...flags.split(' '), ...coverage, '-o', program]);
  const corpus = `build/fuzz/corpus/${name}`;
  mkdirSync(join(ROOT, corpus), { recursive: true });
  const seeds = `tests/fuzz/corpus/${name}`;
  const profile = { LLVM_PROFILE_FILE: `${program}.profraw` };
  run(program, [`-max_total_time=${seconds}`, corpus, ...(existsSync(join(ROOT, seeds)) ? [seeds] : [])], profile);
}
const all = `${OUT}/all.profdata`;
run('llvm-profdata', ['merge', ...names.map((name) => `${OUT}/${name}.profraw`), '-o', all]);
const programs = names.map((name, i) => (i ? `-object=${OUT}/${name}` : `${OUT}/${name}`));
const report = JSON.parse(run('llvm-cov', ['export', '-summary-only', `-instr-profile=${all}`, ...programs]));
for (const { filename, summary } of report.data[0].files) {
  const file = filename.replace(ROOT, '').replace(/^.*?(?=c\/)/, '');
  const { count, covered, percent } = summary.lines;
  if (file.startsWith('c/')) console.log(`${percent.toFixed(0).padStart(4)} %  ${covered} of ${count}  ${file}`);
}
