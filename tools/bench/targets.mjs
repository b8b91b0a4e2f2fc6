// The targets for the 135m shape and for the size of downloads, their results, and the reasons for targets that are not reached.
import { SCRIPT_LIMIT } from '../payload.mjs';
import { CONVERTER_MODULES, MODULE_LIMIT } from '../size.mjs';
import { formatNumber, formatSummary, summary } from './stats.mjs';
import { ratioOf, stepOf, stepRatio } from './table.mjs';
import { titleOf } from './titles.mjs';

/** @typedef {import('./stats.mjs').Summary} Summary */
/** @typedef {import('./table.mjs').Limit} Limit */
/** @typedef {import('./table.mjs').Row} Row */
/** @typedef {import('./table.mjs').RateName} RateName */
/** @typedef {Record<string, { raw: number, gzip: number }>} Sizes */

/**
 * @typedef {object} Target
 * @property {string} group
 * @property {string} title
 * @property {string} target  '' for a figure that a target is compared with
 * @property {number | null} value
 * @property {Summary | null} range  median and extreme values of the rounds
 * @property {boolean | null} reached  null: not measured, or there is no target
 * @property {string} reason  why a target is not reached, with the measurements that show it
 */

/** Name of the sum of all JavaScript in the sizes of bq4's files. */
export const SCRIPTS = 'JavaScript';

/** Reason of targets whose shortfall was not examined. */
const UNKNOWN_REASON = 'Not examined.';
/** Shape with targets. */
const SHAPE = '135m';
/** Precision of bq4 with targets. */
const MAIN_PRECISION = 'bq4h+bq8';

/** Formats the median as "1.41". @param {Summary | null} range */
const formatMedian = (range) => (range ? formatNumber(range.median) : '–');
/** Formats the median as "14.1 %". @param {Summary | null} range */
const formatPercent = (range) => (range ? `${formatNumber(100 * range.median)} %` : '–');

/** Collects targets, and selects the rows that they compare. */
class Targets {
  /** @type {Target[]} */
  list = [];

  /** @param {import('./table.mjs').Table} table */
  constructor(table) {
    this.table = table;
  }

  /** Adds a target. @param {string} group @param {string} title @param {'≥' | '≤'} sign @param {number} target @param {Summary | null} range @param {string} [reason] */
  add(group, title, sign, target, range, reason = UNKNOWN_REASON) {
    const value = range?.median ?? null;
    const reached = value === null ? null : sign === '≥' ? value >= target : value <= target;
    this.list.push({
      group,
      title,
      target: `${sign} ${target}`,
      value,
      range,
      reached,
      reason: reached === false ? reason : '',
    });
  }

  /** Adds a figure of the same run that a target is compared with. @param {string} group @param {string} title @param {Summary | null} range */
  addComparison(group, title, range) {
    this.list.push({ group, title, target: '', value: range?.median ?? null, range, reached: null, reason: '' });
  }

  /** Returns rows of bq4. @param {number} threads  0: chosen by the engine @param {string} [precision] @param {Partial<import('./cells.mjs').Visit>} [extra] */
  bq4(threads, precision = MAIN_PRECISION, extra = {}) {
    return this.table.where({
      runtime: 'bq4',
      shape: SHAPE,
      precision,
      threads,
      kv: 'i8',
      variant: 'best',
      ...extra,
    });
  }

  /** Returns rows of native llama.cpp. @param {number} threads @param {string} [precision] @param {string} [variant] */
  native(threads, precision = 'q4_0', variant = 'best') {
    return this.table.where({ runtime: 'native', shape: SHAPE, precision, threads, variant });
  }

  /** Returns rows of the other runtimes for browsers. @param {number} threads */
  web(threads) {
    return this.table.where({ shape: SHAPE, threads }).filter(({ visit }) => /wllama|ort|tjs/.test(visit.runtime));
  }

  /** Returns the ratio of the best cells of two lists of rows. @param {Row[]} a @param {Row[]} b @param {number} prompt @param {RateName} rate */
  ratio(a, b, prompt, rate) {
    return ratioOf(this.table.bestOf(a, prompt, rate), this.table.bestOf(b, prompt, rate), rate);
  }
}

/** Adds targets for one thread. @param {Targets} t */
function oneThread(t) {
  const [bq4, native] = [t.bq4(1), t.native(1)];
  const decodeGroup = 'decode, 1 thread';
  t.add(
    decodeGroup,
    'relative to native llama.cpp Q4_0, both with an 8-bit LM head',
    '≥',
    1.0,
    t.ratio(bq4, native, 128, 'decode'),
  );
  t.add(
    decodeGroup,
    'the same with 4 bits everywhere, relative to its --pure',
    '≥',
    0.9,
    t.ratio(t.bq4(1, 'bq4h+bq4h'), t.native(1, 'q4_0-pure'), 128, 'decode'),
  );
  const memoryReason = `Its decode is limited by arithmetic. That of bq4 is limited by memory, whose rate on this machine changes by a factor of up to two from hour to hour
  ([speed.md](speed.md)): in these rounds bq4 decoded ${formatSummary(t.table.bestOf(bq4, 128, 'decode')?.decode ?? null)} tokens/s.`;
  t.add(
    decodeGroup,
    'relative to wllama 3.8.1 Q4_0',
    '≥',
    15,
    t.ratio(
      bq4,
      t.table.where({ runtime: 'wllama', version: '3.8.1', precision: 'q4_0', shape: SHAPE, threads: 1 }),
      128,
      'decode',
    ),
    memoryReason,
  );
  t.add(
    decodeGroup,
    'relative to the fastest runtime in a browser, at any precision',
    '≥',
    6,
    t.ratio(bq4, t.web(1), 128, 'decode'),
    memoryReason,
  );
  t.add(
    decodeGroup,
    'relative to llama.cpp built to wasm with its SIMD kernels, which no release contains, in Node',
    '≥',
    4,
    t.ratio(bq4, t.table.where({ runtime: 'llama-wasm', shape: SHAPE, precision: 'q4_0', threads: 1 }), 128, 'decode'),
  );
  const prefillGroup = 'prefill, 1 thread';
  for (const prompt of [128, 512]) {
    const noAmxRatio = t.ratio(bq4, t.native(1, 'q4_0', 'no-amx'), prompt, 'prefill');
    t.add(
      prefillGroup,
      `${prompt} tokens, relative to native`,
      '≥',
      0.45,
      t.ratio(bq4, native, prompt, 'prefill'),
      !noAmxRatio
        ? 'Native code uses wider vectors if the CPU has them; vectors of wasm have 16 bytes.'
        : `Native code multiplies batches with AMX on this machine: one instruction for tiles of 16 rows of 64 bytes. Vectors of wasm have 16
  bytes, and it has no instructions for AMX. Without AMX, native code uses vectors of 64 bytes (AVX-512), and bq4 has ${formatMedian(noAmxRatio)} of its rate (next row of the table).
  The loops of bq4's batches are near the limit of vectors of this width ([speed.md](speed.md), "Where the loops stand").`,
    );
    t.addComparison(prefillGroup, `${prompt} tokens, relative to native without AMX`, noAmxRatio);
    const best = t.table.best(t.web(1), prompt, 'prefill');
    t.add(
      prefillGroup,
      `${prompt} tokens, relative to the fastest runtime in a browser`,
      '≥',
      2.5,
      t.ratio(bq4, t.web(1), prompt, 'prefill'),
      best ? `The fastest is ${titleOf(best.row)}.` : UNKNOWN_REASON,
    );
  }
}

/** Returns the rate of two threads relative to one thread. @param {Targets} t @param {(threads: number) => Row[]} rowsOf @param {RateName} rate */
const threadGain = (t, rowsOf, rate) => t.ratio(rowsOf(2), rowsOf(1), 128, rate);

/** Adds targets for two threads, and for the number of threads that the engine chooses. @param {Targets} t */
function twoThreads(t) {
  const group = '2 threads';
  const [singleRows, doubleRows] = [t.bq4(1), t.bq4(2)];
  const reads = t.table.where({ runtime: 'read', shape: SHAPE })[0]?.twoReads ?? null;
  const bq4Gains = {
    decode: threadGain(t, (n) => t.bq4(n), 'decode'),
    prefill: threadGain(t, (n) => t.bq4(n), 'prefill'),
  };
  const nativeGains = {
    decode: threadGain(t, (n) => t.native(n), 'decode'),
    prefill: threadGain(t, (n) => t.native(n), 'prefill'),
  };
  const comparison = `In the same run, the rate of native llama.cpp with two threads was ${formatMedian(nativeGains.decode)} times that with one${reads ? `, and that of a plain read of as many bytes ${formatNumber(reads.median)} times; a step cannot be faster than such a read` : ''}`;
  t.add(
    group,
    'decode relative to one thread',
    '≥',
    1.7,
    bq4Gains.decode,
    `${comparison}. Two causes are in bq4: 3 KV heads cannot be divided evenly, and threads read
  data that the other core has written ([speed.md](speed.md), "Two threads").`,
  );
  t.addComparison(group, 'decode of native llama.cpp relative to one thread', nativeGains.decode);
  t.addComparison(group, 'a plain read of as many bytes, relative to one thread (`build/native/bench-read`)', reads);
  t.add(
    group,
    'decode relative to native with two threads',
    '≥',
    1.3,
    t.ratio(doubleRows, t.native(2), 128, 'decode'),
    `It is the ratio with one thread times the ratio of the gains: ${formatMedian(bq4Gains.decode)} for bq4, ${formatMedian(nativeGains.decode)} for native. ${comparison}.`,
  );
  t.add(
    group,
    'prefill relative to one thread',
    '≥',
    1.85,
    bq4Gains.prefill,
    `With two threads, native prefill is ${formatMedian(nativeGains.prefill)} times as fast with AMX and ${formatMedian(threadGain(t, (n) => t.native(n, 'q4_0', 'no-amx'), 'prefill'))}
  without. Steps of the same work with one and two threads in alternation (\`tests/bench/share.mjs\`) gave 1.81 to 1.90 ([speed.md](speed.md)).`,
  );
  t.addComparison(group, 'prefill of native llama.cpp relative to one thread', nativeGains.prefill);
  const best = t.table.best(t.web(2), 128, 'decode');
  t.add(
    group,
    'decode relative to the fastest runtime in a browser with two threads',
    '≥',
    6,
    t.ratio(doubleRows, t.web(2), 128, 'decode'),
    best
      ? `The fastest is ${titleOf(best.row)}. It is limited by arithmetic and reads far fewer bytes per second than memory
  delivers, so with two threads it is ${formatMedian(
    ratioOf(
      best.cell,
      t.table.bestOf(
        t.web(1).filter(({ visit }) => titleOf({ visit }) === titleOf(best.row)),
        128,
        'decode',
      ),
      'decode',
    ),
  )} times as fast, bq4 ${formatMedian(bq4Gains.decode)} times.`
      : UNKNOWN_REASON,
  );
  t.add(
    group,
    'prefill relative to the fastest runtime in a browser with two threads',
    '≥',
    2.5,
    t.ratio(doubleRows, t.web(2), 128, 'prefill'),
  );
  t.add(
    'threads by measurement',
    'decode with the number chosen at the start, relative to one thread',
    '≥',
    1,
    t.ratio(t.bq4(0), singleRows, 128, 'decode'),
    'The first choice is made by measuring products only; the thread tuner corrects it while the model computes.',
  );
  const [automatic, singleThread] = [0, 1].map((threads) => t.bq4(threads, MAIN_PRECISION, { shape: '15m' }));
  t.add(
    'threads by measurement',
    'the same, 15M shape',
    '≥',
    1,
    t.ratio(automatic, singleThread, 128, 'decode'),
    'The first choice is made by measuring larger products: a token of such a small model spends a larger share of its time at barriers.',
  );
}

/** Adds targets for steps relative to the limits of the machine. @param {Targets} t */
function shareOfLimit(t) {
  const group = 'share of the limit';
  for (const [precision, head] of [
    [MAIN_PRECISION, '8-bit LM head'],
    ['bq4h+bq4h', '4 bits everywhere'],
  ]) {
    const row = t.table.where({ runtime: 'limit', shape: SHAPE, precision })[0];
    const limitSummary = (/** @type {(limit: Limit) => number} */ value) => summary((row?.limits ?? []).map(value));
    const step = row && stepOf(row, 128);
    t.add(
      group,
      `weights per second of decode steps, relative to the bare loop of products, ${head}`,
      '≥',
      0.85,
      limitSummary(({ ms }) => ms.bare / ms.step),
      `The rest of a step is work other than products: ${formatPercent(step?.noProduct ?? null)} of a traced step, including attention with ${formatPercent(step?.attend ?? null)} ("Stages of a step").`,
    );
    const ofRead = limitSummary(({ ms, bytes, bytesF32 }) => bytesF32 / ms.bareF32 / (bytes / ms.read));
    t.add(group, `bytes per second of that loop with f32 scales, relative to a plain read, ${head}`, '≥', 0.65, ofRead);
    t.add(
      group,
      `weights per second with f16 scales, relative to f32 scales, ${head}`,
      '≥',
      1,
      limitSummary(({ ms }) => ms.bareF32 / ms.bare),
      `${
        ofRead && ofRead.median > 1
          ? `The loop with f32 scales reads ${formatNumber(ofRead.median)} times as fast as a plain read, since it reads several streams. So memory is not its limit on this machine, and
  fewer bytes make it no faster. `
          : ''
      }The cost of converting f16 scales was not measured separately. With f16 scales, files are 10% smaller.`,
    );
  }
}

/** Adds targets for other instruction sets and browsers. @param {Targets} t */
function builds(t) {
  const group = 'other builds';
  const firefox = (/** @type {number} */ threads) => t.bq4(threads, MAIN_PRECISION, { browser: 'firefox' });
  const simd128 = t.bq4(1, MAIN_PRECISION, { variant: 'simd128' });
  const reason = `One instruction: the relaxed dot is one \`vpdpbusd\` in Chromium and three instructions in Firefox, according to its source and to a separate measurement. With
  the kernels of SIMD128, Firefox is as fast as Chromium (\`tests/bench/browsers.mjs\`; [speed.md](speed.md), "Firefox beside Chromium").`;
  for (const rate of /** @type {const} */ (['decode', 'prefill']))
    t.add(group, `${rate} with SIMD128 relative to relaxed SIMD`, '≥', 0.5, t.ratio(simd128, t.bq4(1), 128, rate));
  for (const threads of [1, 2])
    for (const rate of /** @type {const} */ (['decode', 'prefill']))
      t.add(
        group,
        `${rate} in Firefox relative to Chromium, ${threads} thread${threads > 1 ? 's' : ''}`,
        '≥',
        0.8,
        t.ratio(firefox(threads), t.bq4(threads), 128, rate),
        reason,
      );
}

/** Adds targets for long contexts and for work outside of products. @param {Targets} t */
function contextAndRest(t) {
  const stepRatioOf = (/** @type {string} */ kv) =>
    stepRatio(t.bq4(1, MAIN_PRECISION, { kv })[0], [128, 1900], 128, 2048);
  t.add(
    'context',
    'a decode step at 2,048 tokens relative to 128 tokens, KV i8',
    '≤',
    1.5,
    stepRatioOf('i8'),
    'Attention reads all positions; for one token it is limited by the latency of memory, not by arithmetic ([speed.md](speed.md), "Decode at depth is bound by latency").',
  );
  for (const kv of ['f16', 'f32']) t.addComparison('context', `the same, KV ${kv}`, stepRatioOf(kv));
  const limitRow = t.table.where({ runtime: 'limit', shape: SHAPE, precision: MAIN_PRECISION })[0];
  const step = (limitRow && stepOf(limitRow, 128)) ?? null;
  t.add(
    'overheads',
    'share of a decode step outside of weight products, including attention',
    '≤',
    0.1,
    step?.noProduct ?? null,
    `Attention, which also multiplies queries, keys and values, is ${formatPercent(step?.attend ?? null)} of a step; the next row excludes it.`,
  );
  t.add(
    'overheads',
    'the same without attention',
    '≤',
    0.1,
    step?.others ?? null,
    'It consists of JavaScript, norms, storing keys and values, and the activation function ("Stages of a step").',
  );
  t.add(
    'overheads',
    'first token of a 16-token prompt, relative to the arithmetic of 17 tokens when warm',
    '≤',
    1.2,
    t.bq4(1)[0]?.startRatio ?? null,
    'V8 optimizes some functions only while the first prompt is computed ([speed.md](speed.md), "The first prompt").',
  );
}

/** Adds targets for loading files from memory and for the size of downloads. @param {Targets} t @param {Sizes} bq4Sizes */
function filesAndPayload(t, bq4Sizes) {
  const rates = t.table.where({ runtime: 'limit', shape: SHAPE, precision: MAIN_PRECISION })[0]?.loadRates;
  t.add('files in memory, GB/s', 'repacking blocks of version 1 to tiles', '≥', 1, rates?.tile ?? null);
  t.addComparison(
    'files in memory, GB/s',
    'a complete load of version 1, from its bytes to readiness',
    rates?.v1 ?? null,
  );
  t.addComparison(
    'files in memory, GB/s',
    'a complete load of version 2, which is hashed and copied',
    rates?.v2 ?? null,
  );
  const group = 'payload, bytes gzipped';
  t.add(
    group,
    'the largest module of a page',
    '≤',
    MODULE_LIMIT,
    summary([
      Math.max(
        ...Object.entries(bq4Sizes)
          .filter(([name]) => name !== SCRIPTS && !CONVERTER_MODULES.test(name))
          .map(([, { gzip }]) => gzip),
      ),
    ]),
  );
  t.add(group, 'all JavaScript of a page', '≤', SCRIPT_LIMIT, summary([bq4Sizes[SCRIPTS]?.gzip ?? NaN]));
}

/** Returns all targets with their results. @param {import('./table.mjs').Table} table @param {Sizes} bq4Sizes @returns {Target[]} */
export function targetsOf(table, bq4Sizes) {
  const t = new Targets(table);
  for (const part of [oneThread, twoThreads, shareOfLimit, builds, contextAndRest]) part(t);
  filesAndPayload(t, bq4Sizes);
  return t.list;
}
