// The list of measurements, called visits. A visit opens one runtime with one model and measures its cells once; visits are
// repeated in rounds. A cell is a prompt and the tokens decoded after it; the length of the prompt is the depth at which decoding starts.
// Visits whose ratio is reported are adjacent in a round, since the speed of the machine changes from minute to minute.
import { SHAPES } from '../make_random.mjs';

/**
 * @typedef {object} Cell
 * @property {number} prompt  tokens of the prompt
 * @property {number} tokens  tokens decoded after it
 */

/**
 * @typedef {object} Visit
 * @property {'bq4' | 'limit' | 'read' | 'wllama' | 'ort' | 'tjs' | 'native' | 'llama-wasm'} runtime  limit: bq4 with the bare loop
 *   and a plain read; read: plain reads by one thread and by two; llama-wasm: llama.cpp built to wasm with its SIMD kernels, in
 *   Node
 * @property {string} version    version of the runtime; '' for bq4: the present build
 * @property {string} precision  name of weight types, as in models.mjs
 * @property {string} shape      name of a shape in make_random.mjs
 * @property {number} threads   number of threads; 0 if the engine chooses it
 * @property {string} kv         type of the KV cache; '' if the runtime has none
 * @property {string} [variant]  bq4: 'best' (the relaxed module that is faster in this browser, see machine.mjs) or 'simd128';
 *   native: 'best', or 'no-amx' for the best without AMX
 * @property {string} [browser]  default chromium
 * @property {Cell[]} cells
 * @property {number} [rounds]   largest number of rounds; default: that of the run
 * @property {boolean} [later]   whether its rounds after the first FEW_ROUNDS are measured after those of all other visits
 */

/** Returns the name of a visit, for output and --only. It identifies the visit across runs. @param {Visit} visit */
export function nameOf({ runtime, version, precision, shape, threads, kv, variant, browser }) {
  return [
    runtime + (version && ` ${version}`),
    precision,
    shape,
    threads ? `${threads}t` : 'automatic threads',
    kv && `kv ${kv}`,
    variant,
    browser,
  ]
    .filter(Boolean)
    .join(' / ');
}

/** Returns the context length in tokens, which is enough for the largest cell and the warm-up. @param {string} shape */
export const contextOf = (shape) => Math.min(SHAPES[shape].context, 2048);

/** Precisions of bq4: weight types of matrices, and of embedding and LM head. */
export const BQ4_PRECISIONS = ['bq4h+bq8', 'bq4h+bq4h'];

/** Number of rounds of shapes without targets, and of visits with `later` before all other visits are complete. */
export const FEW_ROUNDS = 3;
/** Largest number of rounds of a shape. @type {Record<string, number>} */
const SHAPE_ROUNDS = { '15m': FEW_ROUNDS, '500m': FEW_ROUNDS };

/** Returns the cells of bq4 and native llama.cpp. @param {string} shape @returns {Cell[]} */
function cellsOf(shape) {
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

/** Numbers of threads with which each runtime is measured. */
const THREAD_COUNTS = [1, 2];

/** Returns a visit of bq4. @param {string} shape @param {number} threads @param {Partial<Visit>} [overrides] @returns {Visit} */
const bq4Visit = (shape, threads, overrides = {}) => ({
  runtime: 'bq4',
  version: '',
  precision: BQ4_PRECISIONS[0],
  shape,
  threads,
  kv: 'i8',
  variant: 'best',
  cells: cellsOf(shape).slice(0, 1),
  ...overrides,
});

/** Returns a visit of native llama.cpp. @param {string} shape @param {number} threads @param {Partial<Visit>} [overrides] @returns {Visit} */
const nativeVisit = (shape, threads, overrides = {}) => ({
  runtime: 'native',
  version: '3.22.1',
  precision: 'q4_0',
  shape,
  threads,
  kv: 'f16',
  variant: 'best',
  cells: cellsOf(shape).slice(0, 1),
  ...overrides,
});

/** Returns visits of bq4 and native llama.cpp, alternating between equal configurations. @param {string} shape @param {boolean} peers @returns {Visit[]} */
function mainVisits(shape, peers) {
  const cells = cellsOf(shape);
  const visits = THREAD_COUNTS.flatMap((threads) => [
    bq4Visit(shape, threads, { cells }),
    ...(peers ? [nativeVisit(shape, threads, { cells })] : []),
    bq4Visit(shape, threads, { precision: BQ4_PRECISIONS[1] }),
    ...(peers ? [nativeVisit(shape, threads, { precision: 'q4_0-pure' })] : []),
  ]);
  if (shape === '500m') return visits;
  const automaticVisit = bq4Visit(shape, 0);
  return shape === '15m'
    ? [...visits, automaticVisit]
    : [...visits, automaticVisit, bq4Visit(shape, 2, { runtime: 'read', kv: '', variant: undefined, cells: [] })];
}

/** Returns visits of bq4 by weight type, KV type, instruction set and browser, and of a step with its limits. @param {string} shape @param {readonly string[]} browsers @returns {Visit[]} */
function bq4Variants(shape, browsers) {
  if (shape === '500m') return [];
  const cells = cellsOf(shape);
  const depthCells = shape === '135m' ? [cells[0], cells[2]] : cells.slice(0, 1);
  const browserVisits = browsers.flatMap((browser) =>
    THREAD_COUNTS.map((threads) => bq4Visit(shape, threads, { browser })),
  );
  if (shape === '15m') return browserVisits;
  return [
    ...BQ4_PRECISIONS.map((precision) => bq4Visit(shape, 1, { runtime: 'limit', precision, cells: [] })),
    bq4Visit(shape, 1, { variant: 'simd128' }),
    ...browserVisits,
    ...['f16', 'f32'].map((kv) => bq4Visit(shape, 1, { kv, cells: depthCells, later: true })),
    bq4Visit(shape, 1, { precision: 'bq4+bq8', later: true }),
  ];
}

/** Returns visits of native llama.cpp in other configurations. @param {string} shape @returns {Visit[]} */
function nativeVariants(shape) {
  return THREAD_COUNTS.flatMap((threads) => [
    ...(shape === '500m' ? [] : [nativeVisit(shape, threads, { precision: 'q8_0', later: true })]),
    nativeVisit(shape, threads, {
      variant: 'no-amx',
      later: true,
      ...(shape === '135m' && { cells: cellsOf(shape).slice(0, 2) }),
    }),
    nativeVisit(shape, threads, { precision: 'q4_0-pure', variant: 'no-amx', later: true }),
  ]);
}

/** Returns visits of wllama. Slow versions decode fewer tokens. @param {string} shape @returns {Visit[]} */
function wllamaVisits(shape) {
  return THREAD_COUNTS.flatMap((threads) =>
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
function llamaWasmVisits(shape) {
  if (shape !== '135m') return [];
  return THREAD_COUNTS.map((threads) =>
    nativeVisit(shape, threads, { runtime: 'llama-wasm', variant: undefined, cells: [{ prompt: 128, tokens: 32 }] }),
  );
}

/** Returns visits of the ONNX runtimes. The 500m shape is omitted in f32, since it exceeds the limit of an ONNX file. @param {string} shape @returns {Visit[]} */
function onnxVisits(shape) {
  /** @type {[Visit['runtime'], string][]} */
  const runtimes = [
    ['ort', '1.30.0'],
    ['tjs', '4.3.1'],
  ];
  const precisions = shape === '500m' ? ['q8', 'q4'] : ['q8', 'fp32', 'q4'];
  return THREAD_COUNTS.flatMap((threads) =>
    runtimes.flatMap(([runtime, version]) =>
      precisions.map((precision) => {
        const isSlow = precision === 'q4';
        const cells =
          shape === '500m' ? [{ prompt: 32, tokens: isSlow ? 4 : 16 }] : [{ prompt: 128, tokens: isSlow ? 16 : 32 }];
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
const isContender = ({ runtime, version, precision }) =>
  runtime === 'wllama'
    ? precision === 'q4_0' && version !== '2.3.7'
    : runtime === 'llama-wasm' || (runtime === 'ort' && precision === 'q8');

/**
 * Returns all visits; the shape with targets is first.
 * @param {{ shapes: readonly string[], peers: boolean, browsers?: readonly string[], only?: string }} selection  `peers`: whether other
 *   runtimes are included; `browsers`: additional browsers for bq4; `only`: regular expression for names of visits
 * @returns {Visit[]}
 */
export function visitsOf({ shapes, peers, browsers = [], only }) {
  const orderedShapes = [...shapes].sort((a, b) => Number(b === '135m') - Number(a === '135m'));
  const allVisits = orderedShapes.flatMap((shape) => {
    const visits = [
      ...mainVisits(shape, peers),
      ...bq4Variants(shape, browsers),
      ...(peers
        ? [
            ...nativeVariants(shape),
            ...[...wllamaVisits(shape), ...llamaWasmVisits(shape), ...onnxVisits(shape)].map((visit) => ({
              ...visit,
              later: !isContender(visit),
            })),
          ]
        : []),
    ];
    return visits.map((visit) => ({
      ...visit,
      ...(shape in SHAPE_ROUNDS && { rounds: Math.min(visit.rounds ?? FEW_ROUNDS, SHAPE_ROUNDS[shape]) }),
    }));
  });
  const pattern = only && new RegExp(only);
  return allVisits.filter((visit) => !pattern || pattern.test(nameOf(visit)));
}
