// Tests of the benchmarks without a clock: medians, rounds that can be interrupted, ratios, the report.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { contextOf, nameOf, visitsOf } from '../../tools/bench/cells.mjs';
import { visitNative } from '../../tools/bench/drivers.mjs';
import { figures, weightsPerToken } from '../../tools/bench/figures.mjs';
import { missingInstructions } from '../../tools/bench/install.mjs';
import { extraText } from '../../tools/bench/extras.mjs';
import { busyShare, dotInstruction, relaxedModule } from '../../tools/bench/machine.mjs';
import { replaceTable } from '../../tools/bench/main.mjs';
import { reportText, shortTable } from '../../tools/bench/report.mjs';
import { removeEntries, readEntries, runVisits } from '../../tools/bench/runner.mjs';
import { formatSummary, summary } from '../../tools/bench/stats.mjs';
import { ratioOf, stepOf, stepRatio } from '../../tools/bench/table.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';
import {
  entry,
  LIMIT,
  LIMIT_FACTS,
  MACHINE,
  NATIVE,
  visitNamed,
  OURS,
  PAYLOAD,
  SHAPE,
  WLLAMA,
} from './bench-entries.mjs';

const folder = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
after(() => rmSync(folder, { recursive: true, force: true }));

test('summary returns the median of odd and even numbers of values; it ignores values that are not finite', () => {
  assert.deepEqual(summary([3, 1, 2]), { median: 2, least: 1, most: 3, n: 3 });
  assert.equal(summary([4, 1, 2, 3])?.median, 2.5);
  assert.equal(summary([NaN, 5])?.n, 1);
  assert.equal(summary([]), null);
  assert.equal(formatSummary(summary([99.96, 101, 98])), '100 (98.0–101)');
});

test('each visit has a unique name, and its cells fit into the context', () => {
  for (const peers of [false, true]) {
    const visits = visitsOf({ shapes: ['15m', '135m', '500m'], peers, browsers: ['firefox'] });
    assert.equal(new Set(visits.map(nameOf)).size, visits.length);
    for (const { shape, cells } of visits)
      for (const { prompt, tokens } of cells) assert.ok(prompt + tokens < contextOf(shape), `${shape} ${prompt}`);
  }
});

test('runVisits stops at its time limit and continues there in the next run', async () => {
  const path = join(folder, 'results.jsonl');
  const visits = [OURS, NATIVE, WLLAMA].map((only) => visitNamed(only));
  let clock = 0;
  let output = /** @type {string[]} */ ([]);
  const run = (/** @type {number} */ budgetMs, subject = 'a') =>
    runVisits({
      path,
      visits,
      rounds: 2,
      budgetMs,
      subjectOf: ({ runtime }) => (runtime === 'bq4' ? subject : ''),
      say() {},
      now: () => clock,
      pause: async () => {},
      make: async (visit) => {
        output.push(visit.runtime);
        clock += 10_000;
        if (visit.runtime === 'wllama') throw new Error('no');
        return { facts: {}, cells: [] };
      },
    });
  // An unknown visit counts as 10 s, as much as these take: two fit.
  assert.equal(await run(25_000), 4);
  assert.equal(await run(Infinity), 0);
  assert.deepEqual(output, ['bq4', 'native', 'wllama', 'bq4', 'native', 'wllama']);
  assert.deepEqual(
    readEntries(path).map(({ round, error }) => [round, error]),
    [
      [0, undefined],
      [0, undefined],
      [0, 'no'],
      [1, undefined],
      [1, undefined],
      [1, 'no'],
    ],
  );
  // Another build of ours is measured again; the others are not, unless forgotten.
  output = [];
  await run(Infinity, 'b');
  assert.deepEqual(output, ['bq4', 'bq4']);
  removeEntries(path, ({ name }) => name.startsWith('wllama'));
  output = [];
  await run(Infinity, 'b');
  assert.deepEqual(output, ['wllama', 'wllama']);
});

test('some visits have fewer rounds, and rounds of some visits are postponed', async () => {
  const visits = [visitNamed(OURS), { ...visitNamed(WLLAMA), rounds: 1 }, { ...visitNamed(NATIVE), later: true }];
  const output = /** @type {string[]} */ ([]);
  await runVisits({
    path: join(folder, 'few.jsonl'),
    visits,
    rounds: 5,
    subjectOf: () => '',
    say() {},
    pause: async () => {},
    make: async ({ runtime }) => (output.push(runtime), { facts: {}, cells: [] }),
  });
  assert.deepEqual(output, [
    'bq4',
    'wllama',
    'native',
    'bq4',
    'native',
    'bq4',
    'native',
    'bq4',
    'bq4',
    'native',
    'native',
  ]);
});

test('a ratio compares figures of the same round', () => {
  const cell = (/** @type {[number, number][]} */ rounds) => ({
    prompt: 128,
    tokens: 1,
    prefill: null,
    decode: summary(rounds.map(([, rate]) => rate)),
    byRound: rounds.map(([round, decode]) => ({ round, prefill: 0, decode })),
  });
  // The machine was half as fast in round 1.
  assert.deepEqual(
    ratioOf(
      cell([
        [0, 100],
        [1, 50],
        [2, 100],
      ]),
      cell([
        [0, 50],
        [1, 25],
        [3, 7],
      ]),
      'decode',
    ),
    { median: 2, least: 2, most: 2, n: 2 },
  );
  assert.equal(ratioOf(cell([[0, 100]]), cell([[1, 50]]), 'decode')?.median, 2, 'without such rounds, of medians');
  assert.equal(ratioOf(cell([[0, 100]]), null, 'decode'), null);
  const timed = (/** @type {[number, number][]} */ rounds) => ({
    ...cell(rounds.map(([, rate], i) => [i, rate])),
    byRound: rounds.map(([minute, decode], round) => ({ round, at: minute * 60e3, prefill: 0, decode })),
  });
  assert.deepEqual(
    ratioOf(
      timed([
        [0, 100],
        [60, 100],
      ]),
      timed([
        [5, 50],
        [200, 10],
      ]),
      'decode',
    ),
    { median: 2, least: 2, most: 2, n: 1 },
    'one was measured hours later',
  );
});

test('the report compares a step with its bare loop, and lists its parts', () => {
  const output = figures([entry(visitNamed(OURS), 0, 500, 100), entry(visitNamed(LIMIT), 0, 1, 1, LIMIT_FACTS)], {
    machine: MACHINE,
    payload: PAYLOAD,
  });
  const target = (/** @type {RegExp} */ what) =>
    output.targets.find((each) => what.test(`${each.group}: ${each.title}`));
  assert.equal(target(/limit: weights.*decode steps.*8-bit/)?.value, 0.75);
  assert.ok(Math.abs(Number(target(/limit: bytes.*plain read, 8-bit/)?.value) - 88 / 6.6 / 20) < 1e-9);
  assert.equal(target(/including attention/)?.value, 0.125);
  assert.equal(target(/the same without attention/)?.value, 0.0625);
  assert.equal(stepOf(output.rows[1], 128)?.ms, 8);
  assert.equal(stepOf(output.rows[1], 1900), null);
  const text = reportText(output);
  assert.match(text, /\| bare loop \| 6\.00 \| 13\.3 \| 22\.0 \| 0\.667 \|/);
  assert.match(text, /\| attention \| 0\.500 \| 4\.00 \| 0\.200 \| 6\.25 % \|/);
});

test("the tables of README and of the benchmarks are the reports'", () => {
  const output = figures([entry(visitNamed(OURS), 0, 500, 100), entry(visitNamed(WLLAMA), 0, 20, 10)], {
    machine: MACHINE,
    payload: PAYLOAD,
  });
  assert.match(shortTable(output), /\| \*\*bq4\*\*, 4-bit \| 500 \| – \| 100 \| – \|/);
  assert.equal(
    replaceTable('a\n<!-- benchmarks: x -->\nold\n<!-- end of benchmarks -->\nb', 'new'),
    'a\n<!-- benchmarks: x -->\nnew\n<!-- end of benchmarks -->\nb',
  );
  const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), 'utf8');
  const between = (/** @type {string} */ path, /** @type {string} */ name) =>
    new RegExp(`<!-- ${name}: [^>]*-->\\n([^]*?)<!-- end of ${name} -->`).exec(read(path))?.[1] ?? '';
  const table = between('docs/benchmarks.md', 'benchmarks');
  assert.match(table, /\| \*\*bq4\*\*/);
  assert.ok(read('docs/log/benchmarks.md').includes(table), 'written by the same run');
  assert.match(between('README.md', 'real model'), /\| \*\*bq4\*\*/);
  assert.equal(between('docs/benchmarks.md', 'real model'), between('README.md', 'real model'));
  assert.equal(
    replaceTable('<!-- targets: x -->\nold\n<!-- end of targets -->', 'new', 'targets').split('\n')[1],
    'new',
  );
});

test('ratios of targets are medians, with the newest build of bq4 and the best peer', () => {
  const [us, native, slow, fast] = [
    visitNamed(OURS),
    visitNamed(NATIVE),
    visitNamed(WLLAMA),
    visitNamed('^ort .*/ q8 / 135m / 1t'),
  ];
  const output = figures(
    [
      { ...entry(us, 0, 1, 1), subject: 'an older build' },
      entry(us, 0, 500, 90),
      entry(us, 1, 500, 100),
      entry(us, 2, 500, 150),
      entry(native, 0, 1000, 125),
      entry(slow, 0, 20, 10),
      entry(fast, 0, 250, 25),
    ],
    { machine: MACHINE, payload: PAYLOAD },
  );
  const target = (/** @type {RegExp} */ what) =>
    output.targets.find((each) => what.test(`${each.group}: ${each.title}`));
  assert.deepEqual(target(/^decode, 1.*native llama.cpp Q4_0/), {
    group: 'decode, 1 thread',
    title: 'relative to native llama.cpp Q4_0, both with an 8-bit LM head',
    target: '≥ 1',
    value: 0.72,
    range: { median: 0.72, least: 0.72, most: 0.72, n: 1 },
    reached: false,
    reason: 'Not examined.',
  });
  assert.equal(target(/^prefill, 1.*128 tokens, relative to native/)?.reached, true);
  assert.equal(target(/^decode, 1.*fastest runtime in a browser/)?.value, 3.6);
  assert.equal(target(/^decode, 1.*pure/)?.reached, null);
  const text = reportText(output);
  assert.match(text, /native llama.cpp Q4_0, both.*\| ≥ 1 \| 0\.720 \| 1 \| \*\*not reached\*\* \|/);
  assert.match(text, /--pure \| ≥ 0.9 \| – \| – \| not measured \|/);
  assert.match(text, /\*\*bq4\*\*, 4-bit \(f16 scales\), 8-bit LM head, KV i8 \| 100 \(90\.0–150\)/);
  assert.match(text, /vpdpbusd/);
});

test('a target that is not reached has a reason with figures of the same run; a reached one has none', () => {
  const both = (/** @type {string} */ only, /** @type {number} */ threads) =>
    visitNamed(only.replace('1t', `${threads}t`));
  const read = visitNamed('^read / ');
  const output = figures(
    [
      entry(both(OURS, 1), 0, 500, 100),
      entry(both(OURS, 2), 0, 950, 140),
      entry(both(NATIVE, 1), 0, 1000, 100),
      entry(both(NATIVE, 2), 0, 1600, 120),
      entry({ ...visitNamed(NATIVE), variant: 'no-amx' }, 0, 400, 90),
      entry(visitNamed(WLLAMA), 0, 400, 5),
      entry(read, 0, 1, 1, { read: { MB: 86, GB_per_s: 10, of_two: 15, ratio: 1.5 } }),
    ],
    { machine: MACHINE, payload: PAYLOAD },
  );
  const of = (/** @type {RegExp} */ what) => output.targets.filter((each) => what.test(`${each.group}: ${each.title}`));
  const [gain] = of(/^2 threads: decode relative to one/);
  assert.deepEqual([gain.value, gain.reached], [1.4, false]);
  assert.match(
    gain.reason,
    /native llama\.cpp with two threads was 1\.20 times .*, and that of a plain read of as many bytes 1\.50 times/,
  );
  assert.deepEqual(
    of(/^2 threads: prefill relative to one/).map(({ reached, reason }) => [reached, reason]),
    [[true, '']],
  );
  const [less] = of(/128 tokens, relative to native without AMX/);
  assert.deepEqual([less.target, less.value, less.reached], ['', 1.25, null]);
  const text = reportText(output);
  assert.match(text, /\| a plain read of as many bytes, relative to one thread .* \| – \| 1\.50 \| 1 \| to compare \|/);
  assert.match(
    text,
    /\*\*2 threads: decode relative to one thread\*\*, 1\.40 instead of ≥ 1\.7\.\n {2}In the same run/,
  );
  assert.doesNotMatch(text.slice(text.indexOf('### Targets that are not reached')), /prefill relative to one thread/);
  const [best] = of(/^prefill, 1.*128 tokens, relative to the fastest runtime in a browser/);
  assert.equal(best.reason, 'The fastest is wllama 3.8.1, Q4_0, Q8_0 LM head.');
});

test('stepRatio interpolates a decode step linearly between two depths', () => {
  const cell = (/** @type {number} */ prompt, /** @type {number} */ tokens, /** @type {number[]} */ rates) => ({
    prompt,
    tokens,
    prefill: null,
    decode: summary(rates),
    byRound: rates.map((decode, round) => ({ round, prefill: 0, decode })),
  });
  // 1 ms, and 1 ms more for every thousand positions: 1.16 ms at 160, 2.916 at 1,916.
  const row = /** @type {any} */ ({ cells: [cell(128, 64, [1000 / 1.16, 1]), cell(1900, 32, [1000 / 2.916])] });
  const ratio = stepRatio(row, [128, 1900], 128, 2048);
  assert.ok(Math.abs(Number(ratio?.median) - 3.048 / 1.128) < 1e-9 && ratio?.n === 1, JSON.stringify(ratio));
  assert.equal(stepRatio(row, [128, 512], 128, 2048), null);
});

test('the report names the measured module, and extras name their command', () => {
  const build = (/** @type {string} */ name) => ({ ...entry(visitNamed(OURS), 0, 500, 100, { build: name }) });
  const text = reportText(figures([build('relaxed16')], { machine: MACHINE, payload: PAYLOAD }));
  assert.match(text, /\| bq4's module \| relaxed16 in Chromium \|/);
  const extra = {
    name: 'a',
    title: 'Some rows',
    description: 'They have a description.',
    args: ['a.mjs', '--build', 'relaxed'],
  };
  const printed = extraText(extra, '\n1 session: 5 tokens/s\n', MACHINE);
  assert.match(
    printed,
    /^## Some rows: Some CPU\n\nThey have a description\. 2 cores, .*`node_modules\/\.bin\/node a\.mjs --build relaxed`/,
  );
  assert.match(printed, /```\n1 session: 5 tokens\/s\n```/);
  assert.match(extraText({ ...extra, table: true }, '| a |\n', MACHINE), /\n\n\| a \|\n$/);
});

test('the report contains the errors of visits', () => {
  const failed = { ...entry(visitNamed(WLLAMA), 0, 1, 1), result: undefined, error: 'it broke\nsomewhere' };
  const text = reportText(
    figures([entry(visitNamed(OURS), 0, 500, 100), failed], { machine: MACHINE, payload: PAYLOAD }),
  );
  assert.match(text, /Measurements that failed:\n\n- wllama 3\.8\.1 .*: it broke\n/);
});

test('native llama.cpp without an instruction set of this CPU is refused as a peer', () => {
  const system = 'CPU : AVX2 = 1 | AVX512 = 1 | AVX512_VNNI = 1 | ';
  assert.deepEqual(missingInstructions(system, ['avx2', 'avx512f', 'avx512_vnni']), []);
  assert.deepEqual(missingInstructions(system, ['avx2', 'amx_int8', 'avx512_bf16']), ['AVX512_BF16', 'AMX_INT8']);
});

test('a CPU with AVX-VNNI and without AVX-512 requires the use of AVX-VNNI', () => {
  const system = 'CPU : AVX2 = 1 | AVX512 = 0 | ';
  assert.deepEqual(missingInstructions(system, ['avx2', 'avx_vnni']), ['AVX_VNNI']);
  assert.deepEqual(missingInstructions(`${system}AVX_VNNI = 1 | `, ['avx2', 'avx_vnni']), []);
  assert.deepEqual(
    missingInstructions('CPU : AVX2 = 1 | AVX512_VNNI = 1 | ', ['avx2', 'avx512_vnni', 'avx_vnni']),
    [],
    'the backends for AVX-512 do without',
  );
});

test(
  'a native program that does not use this CPU, or other threads than asked for, is an error of its visit',
  { skip: process.platform === 'win32' && 'a shell script' },
  async () => {
    const visit = visitNamed(NATIVE);
    /** @param {string} system @param {number} threads */
    const native = (system, threads) => {
      const program = join(folder, 'native.sh');
      const report = {
        cells: [{ prompt: 128, tokens: 64, prefillMs: 1, decodeMs: 1 }],
        facts: { system, threads, backend: 'libggml-cpu-zen4.so' },
      };
      writeFileSync(program, `#!/bin/sh\necho '${JSON.stringify(report)}'\n`, { mode: 0o755 });
      return { program, best: folder, noAmx: null, backends: [] };
    };
    const good = 'CPU : AVX2 = 1 | AVX512 = 1 | AMX_INT8 = 1 | ';
    assert.equal((await visitNative(visit, native(good, 1), ['avx2', 'amx_int8'])).cells.length, 1);
    await assert.rejects(
      visitNative(visit, native('CPU : AVX2 = 1 | AVX512 = 1 | ', 1), ['avx2', 'amx_int8']),
      /libggml-cpu-zen4\.so without AMX_INT8: the comparison would be unfair/,
    );
    await assert.rejects(visitNative(visit, native(good, 2), ['avx2']), /expected 1 threads, found 2/);
    await assert.rejects(
      visitNative({ ...visit, variant: 'no-amx' }, native(good, 1), ['avx2']),
      /unsupported: llama\.cpp has no backend with AMX/,
    );
  },
);

test('a page refuses a runtime that generated fewer tokens than timed, or had another prompt', async (t) => {
  const set = (/** @type {any} */ values) => Object.assign(globalThis, values);
  t.after(() => set({ crossOriginIsolated: undefined }));
  await import('../../tools/bench/pages/page.js');
  const { prepare, run } = /** @type {any} */ (globalThis);
  const options = {
    runtime: '../../../tests/js/scripted-runtime',
    version: '',
    model: '',
    threads: 1,
    contextTokens: 256,
    shape: {},
  };
  set({ crossOriginIsolated: false });
  await assert.rejects(prepare(options), /expected a cross-origin isolated page/);
  set({ crossOriginIsolated: true });
  const cells = [{ prompt: 100, tokens: 20 }];
  for (const [lie, expected] of /** @type {const} */ ([
    [{}, null],
    [{ promptTokens: 99 }, /expected 100 prompt tokens, found 99/],
    [{ tokens: 19 }, /expected 20 decoded tokens, found 19/],
    [{ tokens: 21 }, /expected 20 decoded tokens, found 21/],
  ])) {
    await prepare({ ...options, lie });
    if (expected) await assert.rejects(run(cells), expected);
    else
      assert.deepEqual((await run(cells)).cells, [
        { prompt: 100, promptTokens: 100, tokens: 20, prefillMs: 10, decodeMs: 10 },
      ]);
  }
});

test('pages of the benchmarks have the functions that the benchmarks call in them', () => {
  const bench = join(ROOT, 'tools/bench');
  const read = (/** @type {string} */ path) => readFileSync(join(bench, path), 'utf8');
  const scripts = readdirSync(bench, { recursive: true, encoding: 'utf8' }).filter((path) => /page\.js$/.test(path));
  const defined = scripts.flatMap((path) =>
    [...read(path).matchAll(/Object\.assign\(globalThis, \{([^]*?)\}\);/g)].flatMap(([, names]) =>
      // Names of properties, without their values.
      [...names.matchAll(/(?:^|,)\s*(\w+)\s*(?=[,:]|$)/g)].map(([, name]) => name),
    ),
  );
  const calls = readdirSync(bench)
    .filter((path) => path.endsWith('.mjs'))
    .flatMap((path) =>
      [
        ...read(path).matchAll(/(?:evaluate|evaluateInPage)\((?:[^`'()]*, )?[`'](\w+)\(/g),
        ...read(path).matchAll(/callPage\('(\w+)'/g),
        ...read(path).matchAll(/'globalThis\.(\w+)'/g),
      ].map(([, name]) => ({ path, name })),
    );
  assert.ok(calls.length > 20, `${calls.length} calls found`);
  assert.deepEqual(
    calls.filter(({ name }) => !defined.includes(name)),
    [],
  );
});

test('each visit records the load by other programs before it', async () => {
  const path = join(folder, 'busy.jsonl');
  await runVisits({
    path,
    visits: [visitNamed(OURS)],
    rounds: 1,
    subjectOf: () => '',
    say() {},
    make: async () => ({ facts: {}, cells: [] }),
  });
  const [{ busy }] = readEntries(path);
  if (existsSync('/proc/stat')) assert.ok(typeof busy === 'number' && busy >= 0 && busy <= 1, String(busy));
  assert.equal(busyShare({ stolen: 0, idle: 10, all: 20 }, { stolen: 0, idle: 25, all: 40 }), 0.25);
  assert.equal(busyShare(null, null), null);
});

test('dotInstruction returns the instruction of the relaxed dot product', () => {
  const of = (/** @type {string[]} */ ...flags) => dotInstruction({ ...MACHINE, flags });
  assert.match(of('ssse3', 'avx_vnni'), /vpdpbusd/);
  assert.match(of('ssse3', 'avx512_vnni'), /pmaddubsw/);
  assert.match(of('asimddp'), /sdot/);
  const module = (/** @type {string} */ browser, /** @type {string[]} */ ...flags) =>
    relaxedModule({ ...MACHINE, flags }, browser);
  assert.equal(module('chromium', 'ssse3', 'avx_vnni'), 'relaxed');
  assert.equal(module('firefox', 'ssse3', 'avx_vnni'), 'relaxed16');
  assert.equal(module('chromium', 'ssse3', 'avx2'), 'relaxed16');
  assert.equal(module('chromium', 'asimddp'), 'relaxed');
});

test('weightsPerToken counts the weights that a token is multiplied with', () =>
  assert.equal(weightsPerToken(SHAPE), 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 96) + 700 * 64));
