/** Draws the report of a quantization: the matrices in the model's order on the x axis, a panel for each measure. */
import {
  chart,
  drawGridLines,
  drawLegendEntry,
  drawSeries,
  drawText,
  drawVerticalText,
  linear,
  logarithmic,
  logarithmicTicks,
} from './svg-chart.js';

/** @import { ConvertReport, TensorReport } from '../format/conversion-report.js' */

/** @typedef {TensorReport & { kind: string, layer: number | null }} Matrix */
/**
 * A measure of matrices. log: whether its axis is logarithmic.
 * @typedef {{ name: string, valueOf: (matrix: Matrix) => number | undefined, format: (value: number) => string,
 *   log: boolean }} Panel
 */

/** In pixels: width, left and right margin, height of a panel, gap between panels. */
const [WIDTH, LEFT, RIGHT, HEIGHT, GAP] = [760, 64, 16, 190, 40];
/** Largest number of layer labels. */
const MAX_LABELS = 16;
/** @type {Record<string, string>} */
const OUTER_KINDS = { wte: 'embedding', wpe: 'positions', wtt: 'token types', lm_head: 'head' };

/** Returns kind and layer of a matrix; kind '' for other tensors. @param {string} name  of a tensor */
function kindOf(name) {
  const [, layer, path] = /^(?:h\.(\d+)\.)?(.+)\.weight$/.exec(name) ?? [];
  if (!path || /^ln|_norm$/.test(path)) return { kind: '', layer: null };
  return layer === undefined
    ? { kind: OUTER_KINDS[path] ?? path, layer: null }
    : { kind: path.replace(/^(attn|mlp)\./, '').replaceAll('.', ' '), layer: Number(layer) };
}

const percent = (/** @type {number} */ value) => `${value.toFixed(2)} %`;
const shortNumber = (/** @type {number} */ value) => String(Number(value.toPrecision(3)));

/** @param {Matrix[]} matrices @returns {Panel[]} */
function panelsOf(matrices) {
  const mixed = new Set(matrices.filter(({ layer }) => layer !== null).map(({ type }) => type)).size > 1;
  /** @type {Panel[]} */
  const panels = [];
  if (matrices.some(({ product }) => product !== undefined))
    panels.push({
      name: 'error of products, %',
      valueOf: ({ product }) => (product === undefined ? undefined : 100 * product),
      format: percent,
      log: true,
    });
  panels.push({ name: 'error of weights, rms', valueOf: ({ rms }) => rms, format: shortNumber, log: true });
  if (mixed)
    panels.push({
      name: 'bits per weight',
      valueOf: ({ bytes, weights }) => (8 * bytes) / weights,
      format: (bits) => `${bits.toFixed(2)} bits`,
      log: false,
    });
  return panels;
}

/**
 * @param {Matrix[]} matrices @param {Panel} panel @param {number} top @param {string[]} kinds
 * @param {(i: number) => number} x
 */
function drawPanel(matrices, { name, valueOf, format, log }, top, kinds, x) {
  const values = matrices.map(valueOf);
  const present = values.filter((value) => value !== undefined);
  const positive = present.filter((value) => value > 0);
  const ticks = log
    ? logarithmicTicks(positive.length ? positive : [1])
    : Array.from({ length: Math.ceil(Math.max(...present) / 2) + 1 }, (_, i) => 2 * i);
  const y = (log ? logarithmic : linear)([ticks[0], ticks[ticks.length - 1]], [top + HEIGHT, top]);
  return [
    `<g aria-label="${name}">`,
    ...drawGridLines(ticks, y, [LEFT, WIDTH - RIGHT]),
    drawVerticalText(14, top + HEIGHT / 2, name),
    ...kinds.map((kind, k) => {
      const marks = matrices.flatMap((matrix, i) => {
        const value = values[i];
        return matrix.kind === kind && value !== undefined
          ? [{ x: x(i), y: y(value), text: `${matrix.name}: ${format(value)}, ${matrix.type}` }]
          : [];
      });
      return marks.length ? drawSeries(k, marks, marks) : '';
    }),
    '</g>',
  ].filter(Boolean);
}

/**
 * Describes the smallest and the largest value of a panel, for screen readers.
 * @param {Matrix[]} matrices @param {Panel} panel
 */
function describePanel(matrices, { name, valueOf, format }) {
  const sorted = matrices
    .flatMap((matrix) => {
      const value = valueOf(matrix);
      return value === undefined ? [] : [{ name: matrix.name, value }];
    })
    .sort((a, b) => a.value - b.value);
  const [min, max] = [sorted[0], sorted[sorted.length - 1]];
  return `${name}: from ${format(min.value)} (${min.name}) to ${format(max.value)} (${max.name}).`;
}

/** Draws the legend: names of kinds in rows. `below`: y coordinate below it. @param {string[]} kinds */
function drawLegend(kinds) {
  let [x, y] = [LEFT + 4, 50];
  const parts = kinds.map((kind, i) => {
    const width = 36 + 7 * kind.length;
    if (x + width > WIDTH - RIGHT) [x, y] = [LEFT + 4, y + 18];
    x += width;
    return drawLegendEntry(i, x - width, y, kind);
  });
  return { parts, below: y + 24 };
}

/**
 * Draws the labels of layers, each at the first matrix of its layer.
 * @param {Matrix[]} matrices @param {number} y @param {(i: number) => number} x
 */
function drawLayerLabels(matrices, y, x) {
  const firstMatrices = matrices.flatMap(({ layer }, i) =>
    layer !== null && layer !== matrices[i - 1]?.layer ? [{ layer, i }] : [],
  );
  const interval = Math.ceil(firstMatrices.length / MAX_LABELS);
  return firstMatrices
    .filter(({ layer }) => layer % interval === 0)
    .map(({ layer, i }) => drawText(x(i), y, String(layer), 'middle'));
}

/** Draws the chart of a report. @param {ConvertReport} report @returns {string}  SVG */
export function plotReport(report) {
  const matrices = report.tensors
    .map((tensor) => ({ ...tensor, ...kindOf(tensor.name) }))
    .filter(({ kind }) => kind !== '');
  const kinds = [...new Set(matrices.map(({ kind }) => kind))];
  const panels = panelsOf(matrices);
  const x = linear([0, matrices.length - 1], [LEFT + 10, WIDTH - RIGHT - 10]);
  const { parts: names, below: top } = drawLegend(kinds);
  const below = top + panels.length * (HEIGHT + GAP) - GAP;
  const title = `${report.output.split(/[\\/]/).pop()}: ${report.bitsPerWeight.toFixed(2)} bits per weight`;
  return chart(
    {
      width: WIDTH,
      height: below + 44,
      title,
      about: `${matrices.length} matrices in the model's order. ${panels.map((panel) => describePanel(matrices, panel)).join(' ')}`,
    },
    [
      `<g font-size="15" font-weight="600">${drawText(LEFT, 26, title)}</g>`,
      ...names,
      ...panels.flatMap((panel, i) => drawPanel(matrices, panel, top + i * (HEIGHT + GAP), kinds, x)),
      ...drawLayerLabels(matrices, below + 18, x),
      drawText((LEFT + WIDTH - RIGHT) / 2, below + 36, 'layer', 'middle'),
    ],
  );
}
