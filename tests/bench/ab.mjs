// Compares two builds of a C benchmark, OLD and NEW (kernels.js, attend.js, session.js, or types.js with ROUNDS MB --json).
//
//   node tests/bench/ab.mjs OLD/kernels.js NEW/kernels.js [--pairs N] [options of the bench]
//
// The programs run in turn, N times (9), so that other load of the machine affects both, with the options of this Node process (such as
// --no-liftoff: V8 optimizes all code before it runs). It prints for each measurement the minimum time of each build, and the median
// over the pairs of OLD's time / NEW's. For an older build: git worktree add ../old REVISION, then make -f emscripten.mk bench-kernels there.
import { execFileSync } from 'node:child_process';
import { median } from '../../tools/bench/stats.mjs';

const [oldProgram, newProgram, ...rest] = process.argv.slice(2);
if (!newProgram) {
  console.error('usage: ab.mjs OLD/BENCH.js NEW/BENCH.js [--pairs N] [options of the bench]');
  process.exit(2);
}
const at = rest.indexOf('--pairs');
const pairs = at < 0 ? 9 : Number(rest.splice(at, 2)[1]);

/** Runs a program. @param {string} program @returns {Map<string, number>} microseconds by name: minima, for session.js medians */
function run(program) {
  const lines = execFileSync(process.execPath, [...process.execArgv, program, ...rest], { encoding: 'utf8' })
    .trim()
    .split('\n');
  return new Map(
    lines.map((line) => {
      const r = JSON.parse(line.replace(/-?nan/g, '0')); // older builds: 0 of 0 seconds
      if (r.pass) return [`${r.pass}: ${r.stage}`, r.us];
      return [`${r.bench} ${r.table} ${r.of ?? `${r.kv} ${r.heads} x`} ${r.tokens}`, r.least_us];
    }),
  );
}

/** @type {Map<string, {old: number, new: number}[]>} */
const results = new Map();
for (let i = 0; i < pairs; i++) {
  const order = i % 2 ? [newProgram, oldProgram] : [oldProgram, newProgram];
  const [first, second] = order.map(run);
  const [a, b] = i % 2 ? [second, first] : [first, second];
  for (const [name, us] of a) {
    const other = b.get(name);
    if (other) results.set(name, [...(results.get(name) ?? []), { old: us, new: other }]);
  }
}
for (const [name, list] of results) {
  console.log(
    name.padEnd(28),
    `old ${Math.min(...list.map((p) => p.old)).toFixed(2)} us`.padEnd(18),
    `new ${Math.min(...list.map((p) => p.new)).toFixed(2)} us`.padEnd(18),
    `${median(list.map((pair) => pair.old / pair.new)).toFixed(2)} times as fast`,
  );
}
