// The list of measurements, called visits. A visit opens one runtime with one model and measures its cells once; visits are
// repeated in rounds. A cell is a prompt and the tokens decoded after it; the prompt sets the depth of decoding.
// Visits whose ratio is reported are adjacent in a round, since the speed of the machine changes from minute to minute.
import { SHAPES } from '../make_random.mjs';

/**
 * @typedef {object} Cell
 * @property {number} prompt
 * @property {number} tokens
 */

/**
 * @typedef {object} Visit
 * @property {'us' | 'limit' | 'read' | 'wllama' | 'ort' | 'tjs' | 'native' | 'llama-wasm'} runtime  us: bq4; limit: bq4 with the bare loop
 *   and a plain read; read: plain reads by one thread and by two; llama-wasm: llama.cpp built to wasm with its SIMD kernels, in
 *   Node
 * @property {string} version    version of the runtime; '' for bq4: the present build
 * @property {string} precision  name of weight types, as in models.mjs
 * @property {string} shape      name of a shape in make_random.mjs
 * @property {number} threads   number of threads; 0 if the engine chooses it
 * @property {string} kv         type of the KV cache; '' if the runtime has none
 * @property {string} [variant]  us: 'best' (the relaxed module that is faster in this browser, see machine.mjs) or 'simd128';
 *   native: 'best', or 'no-amx' for the best without AMX
 * @property {string} [browser]  default chromium
 * @property {Cell[]} cells
 * @property {number} [rounds]   largest number of rounds; default: that of the run
 * @property {boolean} [later]   whether its rounds after the first FEW are measured after those of all other visits
 */

/** Returns the name of a visit, for output and --only. It identifies the visit across runs. @param {Visit} visit */
export function nameOf({ runtime, version, precision, shape, threads, kv, variant, browser }) {
  return [
    runtime + (version && ` ${version}`),
    precision,
    shape,
    threads ? `${threads}t` : 'threads chosen',
    kv && `kv ${kv}`,
    variant,
    browser,
  ]
    .filter(Boolean)
    .join(' / ');
}

/** Returns the context length in tokens: that of the largest cell, and room for warming up. @param {string} shape */
export const contextOf = (shape) => Math.min(SHAPES[shape].context, 2048);

/** Weight types of matrices, and of embedding and LM head. */
export const OURS = ['bq4h+bq8', 'bq4h+bq4h'];

/** Number of rounds for other shapes, and for visits with `later` before all others are complete. */
export const FEW = 3;
/** @type {Record<string, number>} */
const SHAPE_ROUNDS = { '15m': FEW, '500m': FEW };

/** @param {string} shape @returns {Cell[]} */
function ourCells(shape) {
  if (shape === '15m') return [{ prompt: 128, tokens: 64 }];
  if (shape === '500m')
    return [
      { prompt: 128, tokens: 32 },
      { prompt: 32, tokens: 16 },
    ];
  return [
    { prompt: 128, tokens: 64 },
    { prompt: 512, tokens: 32 },
    { prompt: 1900, tokens: 32 },
  ];
}

const THREADS = [1, 2];

/** @param {string} shape @param {number} threads @param {Partial<Visit>} [change] @returns {Visit} */
const us = (shape, threads, change = {}) => ({
  runtime: 'us',
  version: '',
  precision: OURS[0],
  shape,
  threads,
  kv: 'i8',
  variant: 'best',
  cells: ourCells(shape).slice(0, 1),
  ...change,
});

/** @param {string} shape @param {number} threads @param {Partial<Visit>} [change] @returns {Visit} */
const native = (shape, threads, change = {}) => ({
  runtime: 'native',
  version: '3.22.1',
  precision: 'q4_0',
  shape,
  threads,
  kv: 'f16',
  variant: 'best',
  cells: ourCells(shape).slice(0, 1),
  ...change,
});

/** Returns visits of bq4 and native llama.cpp, alternating between equal configurations. @param {string} shape @param {boolean} peers @returns {Visit[]} */
function mainVisits(shape, peers) {
  const cells = ourCells(shape);
  const visits = THREADS.flatMap((threads) => [
    us(shape, threads, { cells }),
    ...(peers ? [native(shape, threads, { cells })] : []),
    us(shape, threads, { precision: OURS[1] }),
    ...(peers ? [native(shape, threads, { precision: 'q4_0-pure' })] : []),
  ]);
  if (shape === '500m') return visits;
  const chosen = us(shape, 0);
  return shape === '15m'
    ? [...visits, chosen]
    : [...visits, chosen, us(shape, 2, { runtime: 'read', kv: '', variant: undefined, cells: [] })];
}

/** Returns visits of bq4 by weight type, KV type, instruction set and browser, and of a step with its limits. @param {string} shape @param {readonly string[]} browsers @returns {Visit[]} */
function ourVariants(shape, browsers) {
  if (shape === '500m') return [];
  const cells = ourCells(shape);
  const far = shape === '135m' ? [cells[0], cells[2]] : cells.slice(0, 1);
  const browserVisits = browsers.flatMap((browser) => THREADS.map((threads) => us(shape, threads, { browser })));
  if (shape === '15m') return browserVisits;
  return [
    ...OURS.map((precision) => us(shape, 1, { runtime: 'limit', precision, cells: [] })),
    us(shape, 1, { variant: 'simd128' }),
    ...browserVisits,
    ...['f16', 'f32'].map((kv) => us(shape, 1, { kv, cells: far, later: true })),
    us(shape, 1, { precision: 'bq4+bq8', later: true }),
  ];
}

/** Returns visits of native llama.cpp in other configurations. @param {string} shape @returns {Visit[]} */
function nativeVariants(shape) {
  return THREADS.flatMap((threads) => [
    ...(shape === '500m' ? [] : [native(shape, threads, { precision: 'q8_0', later: true })]),
    native(shape, threads, {
      variant: 'no-amx',
      later: true,
      ...(shape === '135m' && { cells: ourCells(shape).slice(0, 2) }),
    }),
    native(shape, threads, { precision: 'q4_0-pure', variant: 'no-amx', later: true }),
  ]);
}

/** Returns visits of wllama. Slow versions decode fewer tokens. @param {string} shape @returns {Visit[]} */
function wllama(shape) {
  return THREADS.flatMap((threads) =>
    ['3.8.1', '2.3.7', '2.3.1'].flatMap((version) => {
      const precisions = shape === '500m' ? ['q4_0'] : ['q4_0', 'q8_0'];
      return precisions.map((precision) => {
        const cell =
          shape === '500m' ? { prompt: 32, tokens: 16 } : { prompt: 128, tokens: shape === '135m' ? 32 : 64 };
        return {
          runtime: /** @type {const} */ ('wllama'),
          version,
          precision,
          shape,
          threads,
          kv: 'f16',
          cells: [cell],
          ...(shape === '500m' && { rounds: 1 }),
        };
      });
    }),
  );
}

/** Returns visits of llama.cpp compiled to wasm with the SIMD kernels that wllama's releases don't contain. @param {string} shape @returns {Visit[]} */
function llamaWasm(shape) {
  if (shape !== '135m') return [];
  return THREADS.map((threads) =>
    native(shape, threads, { runtime: 'llama-wasm', variant: undefined, cells: [{ prompt: 128, tokens: 32 }] }),
  );
}

/** Returns visits of the ONNX runtimes. The 500m shape is omitted in f32, since it exceeds the limit of an ONNX file. @param {string} shape @returns {Visit[]} */
function onnx(shape) {
  /** @type {[Visit['runtime'], string][]} */
  const runtimes = [
    ['ort', '1.30.0'],
    ['tjs', '4.3.1'],
  ];
  const precisions = shape === '500m' ? ['q8', 'q4'] : ['q8', 'fp32', 'q4'];
  return THREADS.flatMap((threads) =>
    runtimes.flatMap(([runtime, version]) =>
      precisions.map((precision) => {
        const slow = precision === 'q4';
        const cells =
          shape === '500m' ? [{ prompt: 32, tokens: slow ? 4 : 16 }] : [{ prompt: 128, tokens: slow ? 16 : 32 }];
        if (shape === '135m' && runtime === 'ort' && precision === 'q8') cells.push({ prompt: 512, tokens: 16 });
        return {
          runtime,
          version,
          precision,
          shape,
          threads,
          kv: 'f32',
          cells,
          ...(shape === '500m' && { rounds: 1 }),
        };
      }),
    ),
  );
}

/** Whether a visit of a peer in a browser is in a target, or may be the fastest of them. @param {Visit} visit */
const contends = ({ runtime, version, precision }) =>
  runtime === 'wllama'
    ? precision === 'q4_0' && version !== '2.3.7'
    : runtime === 'llama-wasm' || (runtime === 'ort' && precision === 'q8');

/**
 * Returns all visits, those of the shape with targets first.
 * @param {{ shapes: readonly string[], peers: boolean, browsers?: readonly string[], only?: string }} wanted
 * @returns {Visit[]}
 */
export function visitsOf({ shapes, peers, browsers = [], only }) {
  const inTurn = [...shapes].sort((a, b) => Number(b === '135m') - Number(a === '135m'));
  const all = inTurn.flatMap((shape) => {
    const visits = [
      ...mainVisits(shape, peers),
      ...ourVariants(shape, browsers),
      ...(peers
        ? [
            ...nativeVariants(shape),
            ...[...wllama(shape), ...llamaWasm(shape), ...onnx(shape)].map((visit) => ({
              ...visit,
              later: !contends(visit),
            })),
          ]
        : []),
    ];
    return visits.map((visit) => ({
      ...visit,
      ...(shape in SHAPE_ROUNDS && { rounds: Math.min(visit.rounds ?? FEW, SHAPE_ROUNDS[shape]) }),
    }));
  });
  const pattern = only && new RegExp(only);
  return all.filter((visit) => !pattern || pattern.test(nameOf(visit)));
}
