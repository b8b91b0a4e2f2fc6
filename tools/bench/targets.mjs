// What is asked of the 135m shape and of our payload, what came of it, and where it fell short, why.
import { SCRIPT_LIMIT } from '../payload.mjs';
import { CONVERTER_MODULES, MODULE_LIMIT } from '../size.mjs';
import { short, shown, summary } from './stats.mjs';
import { ratioOf, stepOf, stepRatio } from './table.mjs';
import { titleOf } from './titles.mjs';

/** @typedef {import('./stats.mjs').Summary} Summary */
/** @typedef {import('./table.mjs').Limit} Limit */
/** @typedef {import('./table.mjs').Row} Row */
/** @typedef {import('./table.mjs').What} What */
/** @typedef {Record<string, { raw: number, gzip: number }>} Sizes */

/**
 * @typedef {object} Target
 * @property {string} group
 * @property {string} what
 * @property {string} target  '' for a figure that stands beside a target, to compare it with
 * @property {number | null} value
 * @property {Summary | null} range  of single rounds
 * @property {boolean | null} reached  null: not measured, or nothing is asked
 * @property {string} why  of what isn't reached: how that is known, too
 */

/** All JavaScript that a page loads, as a name among the modules'. */
export const SCRIPTS = 'JavaScript';

/** What a reader of "not reached" is told where nobody knows more. */
const UNKNOWN = 'Not looked into.';
const SHAPE = '135m';
const MAIN = 'bq4h+bq8';

/** "1.41", or a dash. @param {Summary | null} range */
const middle = (range) => (range ? short(range.median) : '–');
/** @param {Summary | null} range */
const percent = (range) => (range ? `${short(100 * range.median)} %` : '–');

/** Collects targets, and finds what they are asked of. */
class Targets {
  /** @type {Target[]} */
  list = [];

  /** @param {import('./table.mjs').Table} table */
  constructor(table) {
    this.table = table;
  }

  /** @param {string} group @param {string} what @param {'≥' | '≤'} sign @param {number} target @param {Summary | null} range @param {string} [why] if it isn't reached */
  add(group, what, sign, target, range, why = UNKNOWN) {
    const value = range?.median ?? null;
    const reached = value === null ? null : sign === '≥' ? value >= target : value <= target;
    this.list.push({
      group,
      what,
      target: `${sign} ${target}`,
      value,
      range,
      reached,
      why: reached === false ? why : '',
    });
  }

  /** A figure of the same run, to compare with. @param {string} group @param {string} what @param {Summary | null} range */
  beside(group, what, range) {
    this.list.push({ group, what, target: '', value: range?.median ?? null, range, reached: null, why: '' });
  }

  /** @param {number} threads  0: chosen by a measurement @param {string} [precision] @param {Partial<import('./cells.mjs').Visit>} [extra] */
  us(threads, precision = MAIN, extra = {}) {
    return this.table.where({
      runtime: 'us',
      shape: SHAPE,
      precision,
      threads,
      kv: 'i8',
      variant: 'best',
      ...extra,
    });
  }

  /** @param {number} threads @param {string} [precision] @param {string} [variant] */
  native(threads, precision = 'q4_0', variant = 'best') {
    return this.table.where({ runtime: 'native', shape: SHAPE, precision, threads, variant });
  }

  /** Released runtimes for browsers. @param {number} threads */
  web(threads) {
    return this.table.where({ shape: SHAPE, threads }).filter(({ visit }) => /wllama|ort|tjs/.test(visit.runtime));
  }

  /** @param {Row[]} a @param {Row[]} b @param {number} prompt @param {What} what */
  ratio(a, b, prompt, what) {
    return ratioOf(this.table.bestOf(a, prompt, what), this.table.bestOf(b, prompt, what), what);
  }
}

/** @param {Targets} t */
function oneThread(t) {
  const [us, native] = [t.us(1), t.native(1)];
  const first = 'decode, 1 thread';
  t.add(first, 'against native llama.cpp Q4_0, both with an 8-bit head', '≥', 1.0, t.ratio(us, native, 128, 'decode'));
  t.add(
    first,
    'the same, all 4-bit, against its --pure',
    '≥',
    0.9,
    t.ratio(t.us(1, 'bq4h+bq4h'), t.native(1, 'q4_0-pure'), 128, 'decode'),
  );
  const memory = `Theirs is bound by arithmetic, ours by memory, whose rate on this machine changes by up to two from hour to hour ([speed.md](speed.md)): in these rounds we made
  ${shown(t.table.bestOf(us, 128, 'decode')?.decode ?? null)} tokens/s.`;
  t.add(
    first,
    'against wllama 3.8.1 Q4_0',
    '≥',
    15,
    t.ratio(
      us,
      t.table.where({ runtime: 'wllama', version: '3.8.1', precision: 'q4_0', shape: SHAPE, threads: 1 }),
      128,
      'decode',
    ),
    memory,
  );
  t.add(first, 'against the best in a browser, at any precision', '≥', 6, t.ratio(us, t.web(1), 128, 'decode'), memory);
  t.add(
    first,
    'against llama.cpp built to wasm with its SIMD kernels, which no release ships, in Node',
    '≥',
    4,
    t.ratio(us, t.table.where({ runtime: 'llama-wasm', shape: SHAPE, precision: 'q4_0', threads: 1 }), 128, 'decode'),
  );
  const second = 'prefill, 1 thread';
  for (const prompt of [128, 512]) {
    const less = t.ratio(us, t.native(1, 'q4_0', 'no-amx'), prompt, 'prefill');
    t.add(
      second,
      `${prompt} tokens, against native`,
      '≥',
      0.45,
      t.ratio(us, native, prompt, 'prefill'),
      !less
        ? 'Native takes wider vectors where the CPU has them; wasm has 16 bytes.'
        : `Native multiplies batches with AMX here, tiles of 16 rows of 64 bytes
  in one instruction; wasm has vectors of 16 bytes and no way to reach those units. With AMX left out, native takes vectors of 64 bytes (AVX-512) and
  we are at ${middle(less)} of it, the next row of the table. The loops of our batches are near what ports and vectors of this width allow ([speed.md](speed.md), "Where the loops stand").`,
    );
    t.beside(second, `${prompt} tokens, against native with AMX left out`, less);
    const best = t.table.best(t.web(1), prompt, 'prefill');
    t.add(
      second,
      `${prompt} tokens, against the best in a browser`,
      '≥',
      2.5,
      t.ratio(us, t.web(1), prompt, 'prefill'),
      best ? `The best is ${titleOf(best.row)}.` : UNKNOWN,
    );
  }
}

/** Two threads of a row against one of another. @param {Targets} t @param {(threads: number) => Row[]} of @param {What} what */
const gain = (t, of, what) => t.ratio(of(2), of(1), 128, what);

/** @param {Targets} t */
function twoThreads(t) {
  const group = '2 threads';
  const [one, two] = [t.us(1), t.us(2)];
  const reads = t.table.where({ runtime: 'read', shape: SHAPE })[0]?.twoReads ?? null;
  const ours = { decode: gain(t, (n) => t.us(n), 'decode'), prefill: gain(t, (n) => t.us(n), 'prefill') };
  const theirs = { decode: gain(t, (n) => t.native(n), 'decode'), prefill: gain(t, (n) => t.native(n), 'prefill') };
  const besideIt = `In the same run a second thread brought native llama.cpp ${middle(theirs.decode)}${reads ? `, and a plain read of as many bytes ${short(reads.median)}: a step is such a read at best` : ''}`;
  t.add(
    group,
    'decode against one thread',
    '≥',
    1.7,
    ours.decode,
    `${besideIt}. What is ours of it: 3 KV heads don't split evenly in two, and
  threads read what the other core wrote ([speed.md](speed.md), "Two threads").`,
  );
  t.beside(group, "native llama.cpp's own decode against its one thread", theirs.decode);
  t.beside(group, 'a plain read of as many bytes, against one thread (`build/native/bench-read`)', reads);
  t.add(
    group,
    'decode against native on two',
    '≥',
    1.3,
    t.ratio(two, t.native(2), 128, 'decode'),
    `It is our lead on one thread times what the second brings each: ${middle(ours.decode)} for us, ${middle(theirs.decode)} for native. ${besideIt}.`,
  );
  t.add(
    group,
    'prefill against one thread',
    '≥',
    1.85,
    ours.prefill,
    `A second thread brings native ${middle(theirs.prefill)} with AMX and ${middle(gain(t, (n) => t.native(n, 'q4_0', 'no-amx'), 'prefill'))}
  without. Steps of the same work with one and two threads in turn, as \`tests/bench/share.mjs\` times them, gave 1.81 to 1.90 ([speed.md](speed.md)).`,
  );
  t.beside(group, "native llama.cpp's own prefill against its one thread", theirs.prefill);
  const best = t.table.best(t.web(2), 128, 'decode');
  t.add(
    group,
    'decode against the best in a browser on two',
    '≥',
    6,
    t.ratio(two, t.web(2), 128, 'decode'),
    best
      ? `The best is ${titleOf(best.row)}: far below what memory gives, it is
  limited by arithmetic, so that a second thread brings it ${middle(
    ratioOf(
      best.cell,
      t.table.bestOf(
        t.web(1).filter(({ visit }) => titleOf({ visit }) === titleOf(best.row)),
        128,
        'decode',
      ),
      'decode',
    ),
  )} where it brings us ${middle(ours.decode)}.`
      : UNKNOWN,
  );
  t.add(group, 'prefill against the best in a browser on two', '≥', 2.5, t.ratio(two, t.web(2), 128, 'prefill'));
  t.add(
    'threads by measurement',
    'decode with as many as were chosen at the start, against one',
    '≥',
    1,
    t.ratio(t.us(0), one, 128, 'decode'),
    'The first choice is made by products alone; it is learned further while the model computes.',
  );
  const [auto, small] = [0, 1].map((threads) => t.us(threads, MAIN, { shape: '15m' }));
  t.add(
    'threads by measurement',
    'the same, 15M shape',
    '≥',
    1,
    t.ratio(auto, small, 128, 'decode'),
    'The first choice is made by products of a larger size: a token of so small a model spends more of its time at barriers.',
  );
}

/** @param {Targets} t */
function shareOfLimit(t) {
  const group = 'share of the limit';
  for (const [precision, head] of [
    [MAIN, '8-bit head'],
    ['bq4h+bq4h', 'all 4-bit'],
  ]) {
    const row = t.table.where({ runtime: 'limit', shape: SHAPE, precision })[0];
    const of = (/** @type {(limit: Limit) => number} */ value) => summary((row?.limits ?? []).map(value));
    const step = row && stepOf(row, 128);
    t.add(
      group,
      `weights per second of whole decode steps, against the bare matvec loop, ${head}`,
      '≥',
      0.85,
      of(({ ms }) => ms.bare / ms.step),
      `The rest is what a step does beside products: ${percent(step?.noProduct ?? null)} of a traced step, attention ${percent(step?.attend ?? null)} of it ("Where a step's time goes").`,
    );
    const ofRead = of(({ ms, bytes, bytesF32 }) => bytesF32 / ms.bareF32 / (bytes / ms.read));
    t.add(group, `bytes per second of that loop with f32 scales, against a plain read, ${head}`, '≥', 0.65, ofRead);
    t.add(
      group,
      `weights per second with f16 scales, against f32 scales, ${head}`,
      '≥',
      1,
      of(({ ms }) => ms.bareF32 / ms.bare),
      `${
        ofRead && ofRead.median > 1
          ? `The loop with f32 scales reads ${short(ofRead.median)} times as fast as a plain read, since it reads several streams; so bytes aren't its limit here and
  fewer of them gain nothing. `
          : ''
      }What widening f16 scales costs by itself was not told apart. Files are a tenth smaller in any case.`,
    );
  }
}

/** @param {Targets} t */
function builds(t) {
  const group = 'other builds';
  const firefox = (/** @type {number} */ threads) => t.us(threads, MAIN, { browser: 'firefox' });
  const simd128 = t.us(1, MAIN, { variant: 'simd128' });
  const why = `One instruction: the relaxed dot is one \`vpdpbusd\` in Chromium and three instructions in Firefox, seen in its source and timed alone. With
  SIMD128's kernels Firefox is as fast as Chromium (\`tests/bench/browsers.mjs\`; [speed.md](speed.md), "Firefox beside Chromium").`;
  for (const what of /** @type {const} */ (['decode', 'prefill']))
    t.add(group, `${what} with SIMD128 against relaxed SIMD`, '≥', 0.5, t.ratio(simd128, t.us(1), 128, what));
  for (const threads of [1, 2])
    for (const what of /** @type {const} */ (['decode', 'prefill']))
      t.add(
        group,
        `${what} in Firefox against Chromium, ${threads} thread${threads > 1 ? 's' : ''}`,
        '≥',
        0.8,
        t.ratio(firefox(threads), t.us(threads), 128, what),
        why,
      );
}

/** @param {Targets} t */
function contextAndRest(t) {
  const at = (/** @type {string} */ kv) => stepRatio(t.us(1, MAIN, { kv })[0], [128, 1900], 128, 2048);
  t.add(
    'context',
    'a decode step at 2,048 tokens against one at 128, KV i8',
    '≤',
    1.5,
    at('i8'),
    'Attention reads all positions, and one token of it waits for memory rather than for arithmetic ([speed.md](speed.md), "Decode at depth is bound by latency").',
  );
  for (const kv of ['f16', 'f32']) t.beside('context', `the same, KV ${kv}`, at(kv));
  const traced = t.table.where({ runtime: 'limit', shape: SHAPE, precision: MAIN })[0];
  const step = (traced && stepOf(traced, 128)) ?? null;
  t.add(
    'overheads',
    'share of a decode step that is no matmul, attention included',
    '≤',
    0.1,
    step?.noProduct ?? null,
    `Attention's own products of queries, keys and values are ${percent(step?.attend ?? null)} and counted here, as if they were no matmul; the next row leaves them out.`,
  );
  t.add(
    'overheads',
    'the same without attention',
    '≤',
    0.1,
    step?.others ?? null,
    `JavaScript, norms, stores of keys and values, the activation: "Where a step's time goes".`,
  );
  t.add(
    'overheads',
    'first token of a 16-token prompt, against the arithmetic of 17 tokens when warm',
    '≤',
    1.2,
    t.us(1)[0]?.startRatio ?? null,
    'V8 still makes better code of some functions while the first prompt runs ([speed.md](speed.md), "The first prompt").',
  );
}

/** @param {Targets} t @param {Sizes} ours */
function filesAndPayload(t, ours) {
  const rates = t.table.where({ runtime: 'limit', shape: SHAPE, precision: MAIN })[0]?.loadRates;
  t.add('files in memory, GB/s', 'blocks of version 1 become tiles', '≥', 1, rates?.tile ?? null);
  t.beside('files in memory, GB/s', 'a whole load of version 1, from its bytes to readiness', rates?.v1 ?? null);
  t.beside('files in memory, GB/s', 'a whole load of version 2, which is hashed and copied', rates?.v2 ?? null);
  const group = 'payload, bytes gzipped';
  t.add(
    group,
    'the largest module of a page',
    '≤',
    MODULE_LIMIT,
    summary([
      Math.max(
        ...Object.entries(ours)
          .filter(([name]) => name !== SCRIPTS && !CONVERTER_MODULES.test(name))
          .map(([, { gzip }]) => gzip),
      ),
    ]),
  );
  t.add(group, 'all JavaScript of a page', '≤', SCRIPT_LIMIT, summary([ours[SCRIPTS]?.gzip ?? NaN]));
}

/** @param {import('./table.mjs').Table} table @param {Sizes} ours @returns {Target[]} */
export function targetsOf(table, ours) {
  const t = new Targets(table);
  for (const part of [oneThread, twoThreads, shareOfLimit, builds, contextAndRest]) part(t);
  filesAndPayload(t, ours);
  return t.list;
}
