/** What a quantization did to each matrix, as a chart: the model's order across, a panel for each kind of figure. */
import { chart, legend, linear, lines, logarithmic, series, steps, upright, words } from './svg-chart.js';

/** @import { ConvertReport, TensorReport } from '../format/conversion-report.js' */

/** @typedef {TensorReport & { kind: string, layer: number | null }} Matrix */
/** @typedef {{ name: string, of: (matrix: Matrix) => number | undefined, say: (value: number) => string, log: boolean }} Panel */

const [WIDTH, LEFT, RIGHT, HEIGHT, BETWEEN] = [760, 64, 16, 190, 40];
/** Numbers of layers that are written at most. */
const NUMBERED = 16;
/** @type {Record<string, string>} */
const OUTSIDE = { wte: 'embedding', wpe: 'positions', wtt: 'token types', lm_head: 'head' };

/** What kind of matrix it is; '': none. @param {string} name  of a tensor */
function kindOf(name) {
  const [, layer, path] = /^(?:h\.(\d+)\.)?(.+)\.weight$/.exec(name) ?? [];
  if (!path || /^ln|_norm$/.test(path)) return { kind: '', layer: null };
  return layer === undefined
    ? { kind: OUTSIDE[path] ?? path, layer: null }
    : { kind: path.replace(/^(attn|mlp)\./, '').replaceAll('.', ' '), layer: Number(layer) };
}

const percent = (/** @type {number} */ value) => `${value.toFixed(2)} %`;
const short = (/** @type {number} */ value) => String(Number(value.toPrecision(3)));

/** @param {Matrix[]} matrices @returns {Panel[]} */
function panelsOf(matrices) {
  const mixed = new Set(matrices.filter(({ layer }) => layer !== null).map(({ type }) => type)).size > 1;
  /** @type {Panel[]} */
  const panels = [];
  if (matrices.some(({ product }) => product !== undefined))
    panels.push({
      name: 'error of products, %',
      of: ({ product }) => (product === undefined ? undefined : 100 * product),
      say: percent,
      log: true,
    });
  panels.push({ name: 'error of weights, rms', of: ({ rms }) => rms, say: short, log: true });
  if (mixed)
    panels.push({
      name: 'bits per weight',
      of: ({ bytes, weights }) => (8 * bytes) / weights,
      say: (bits) => `${bits.toFixed(2)} bits`,
      log: false,
    });
  return panels;
}

/** @param {Matrix[]} matrices @param {Panel} panel @param {number} top @param {string[]} kinds @param {(i: number) => number} x */
function drawn(matrices, { name, of, say, log }, top, kinds, x) {
  const values = matrices.map(of);
  const known = values.filter((value) => value !== undefined);
  const positive = known.filter((value) => value > 0);
  const shown = log
    ? steps(positive.length ? positive : [1])
    : Array.from({ length: Math.ceil(Math.max(...known) / 2) + 1 }, (_, i) => 2 * i);
  const y = (log ? logarithmic : linear)([shown[0], shown[shown.length - 1]], [top + HEIGHT, top]);
  return [
    `<g aria-label="${name}">`,
    ...lines(shown, y, [LEFT, WIDTH - RIGHT]),
    upright(14, top + HEIGHT / 2, name),
    ...kinds.map((kind, k) => {
      const marks = matrices.flatMap((matrix, i) => {
        const value = values[i];
        return matrix.kind === kind && value !== undefined
          ? [{ x: x(i), y: y(value), text: `${matrix.name}: ${say(value)}, ${matrix.type}` }]
          : [];
      });
      return marks.length ? series(k, marks, marks) : '';
    }),
    '</g>',
  ].filter(Boolean);
}

/** The least and the most of a panel, in words. @param {Matrix[]} matrices @param {Panel} panel */
function told(matrices, { name, of, say }) {
  const sorted = matrices
    .flatMap((matrix) => {
      const value = of(matrix);
      return value === undefined ? [] : [{ name: matrix.name, value }];
    })
    .sort((a, b) => a.value - b.value);
  const [least, most] = [sorted[0], sorted[sorted.length - 1]];
  return `${name}: from ${say(least.value)} (${least.name}) to ${say(most.value)} (${most.name}).`;
}

/** Names of kinds, side by side. @param {string[]} kinds */
function legends(kinds) {
  let [x, y] = [LEFT + 4, 50];
  const parts = kinds.map((kind, i) => {
    const width = 36 + 7 * kind.length;
    if (x + width > WIDTH - RIGHT) [x, y] = [LEFT + 4, y + 18];
    x += width;
    return legend(i, x - width, y, kind);
  });
  return { parts, below: y + 24 };
}

/** The numbers of layers, below where each begins. @param {Matrix[]} matrices @param {number} y @param {(i: number) => number} x */
function numbers(matrices, y, x) {
  const begins = matrices.flatMap(({ layer }, i) =>
    layer !== null && layer !== matrices[i - 1]?.layer ? [{ layer, i }] : [],
  );
  const every = Math.ceil(begins.length / NUMBERED);
  return begins
    .filter(({ layer }) => layer % every === 0)
    .map(({ layer, i }) => words(x(i), y, String(layer), 'middle'));
}

/** @param {ConvertReport} report @returns {string}  SVG */
export function plotReport(report) {
  const matrices = report.tensors
    .map((tensor) => ({ ...tensor, ...kindOf(tensor.name) }))
    .filter(({ kind }) => kind !== '');
  const kinds = [...new Set(matrices.map(({ kind }) => kind))];
  const panels = panelsOf(matrices);
  const x = linear([0, matrices.length - 1], [LEFT + 10, WIDTH - RIGHT - 10]);
  const { parts: names, below: top } = legends(kinds);
  const below = top + panels.length * (HEIGHT + BETWEEN) - BETWEEN;
  const title = `${report.output.split(/[\\/]/).pop()}: ${report.bitsPerWeight.toFixed(2)} bits per weight`;
  return chart(
    {
      width: WIDTH,
      height: below + 44,
      title,
      about: `${matrices.length} matrices in the model's order. ${panels.map((panel) => told(matrices, panel)).join(' ')}`,
    },
    [
      `<g font-size="15" font-weight="600">${words(LEFT, 26, title)}</g>`,
      ...names,
      ...panels.flatMap((panel, i) => drawn(matrices, panel, top + i * (HEIGHT + BETWEEN), kinds, x)),
      ...numbers(matrices, below + 18, x),
      words((LEFT + WIDTH - RIGHT) / 2, below + 36, 'layer', 'middle'),
    ],
  );
}
