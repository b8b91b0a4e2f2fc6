/**
 * Builds charts as standalone SVG files: without scripts, with light and dark colors, and with text alternatives for
 * screen readers.
 */

/** @typedef {[number, number]} Ends */
/** A mark with its tooltip. @typedef {{ x: number, y: number, text: string }} Mark */

/** Colors of series: on a light background, on a dark one. */
const COLORS = [
  ['#0b6e99', '#58b4dc'],
  ['#b3541e', '#ee9a66'],
  ['#4f7a28', '#98c76b'],
  ['#7a3e8f', '#cb98de'],
  ['#8a6d00', '#d9b840'],
  ['#a01f4e', '#f083aa'],
  ['#3b4a9e', '#98a7f5'],
  ['#00756a', '#4fc7b8'],
  ['#555555', '#bbbbbb'],
];
/** Shapes of marks, so that series differ not only by color. @type {((x: number, y: number) => string)[]} */
const MARKS = [
  (x, y) => `M${round(x - 3)} ${round(y)}a3 3 0 1 0 6 0a3 3 0 1 0-6 0z`,
  (x, y) => `M${round(x - 2.7)} ${round(y - 2.7)}h5.4v5.4h-5.4z`,
  (x, y) => `M${round(x)} ${round(y - 3.6)}l3.6 6.2h-7.2z`,
  (x, y) => `M${round(x)} ${round(y - 3.8)}l3.8 3.8l-3.8 3.8l-3.8-3.8z`,
];
const DARK = [
  '.ground{fill:#15191a}.ink{fill:#d9dfdb}.grid{stroke:#343c3e}',
  ...COLORS.map(([, dark], i) => `.c${i}{color:${dark}}`),
].join('');

const round = (/** @type {number} */ x) => Number(x.toFixed(1));
/** Escapes text for XML, which allows no control characters. @param {string} text */
const escape = (text) =>
  text
    .replace(/\p{Cc}/gu, ' ')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;');

/**
 * Returns a linear scale from values to coordinates.
 * @param {Ends} values @param {Ends} places @returns {(value: number) => number}
 */
export const linear =
  ([low, high], [from, to]) =>
  (value) =>
    from + ((value - low) / (high - low || 1)) * (to - from);

/**
 * Returns a logarithmic scale; values below its range are placed at its lower end.
 * @param {Ends} values @param {Ends} places @returns {(value: number) => number}
 */
export function logarithmic([low, high], places) {
  const at = linear([Math.log10(low), Math.log10(high)], places);
  return (value) => at(Math.log10(Math.max(value, low)));
}

/**
 * Returns the ticks of a logarithmic axis that enclose the values: powers of ten, for short ranges also 2 and 5 times
 * these.
 * @param {number[]} values  positive
 */
export function logarithmicTicks(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const digits = high / low > 300 ? [1] : [1, 2, 5];
  /** @type {number[]} */
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 2; power++)
    for (const digit of digits) ticks.push(Number(`${digit}e${power}`));
  return ticks.filter((tick, i) => (ticks[i + 1] ?? Infinity) > low && (ticks[i - 1] ?? 0) <= high);
}

/** @param {number} x @param {number} y @param {string} text @param {'start' | 'middle' | 'end'} [anchor] */
export const drawText = (x, y, text, anchor = 'start') =>
  `<text class="ink" x="${round(x)}" y="${round(y)}" text-anchor="${anchor}" fill="#333">${escape(text)}</text>`;

/** Draws vertical text. @param {number} x  center @param {number} y @param {string} text */
export const drawVerticalText = (x, y, text) =>
  `<g transform="rotate(-90 ${x} ${y})">${drawText(x, y, text, 'middle')}</g>`;

/**
 * Draws horizontal grid lines with their values.
 * @param {number[]} values @param {(value: number) => number} y @param {Ends} ends  x coordinates
 */
export const drawGridLines = (values, y, [left, right]) =>
  values.map(
    (value) =>
      `<path class="grid" d="M${left} ${round(y(value))}H${right}" stroke="#ddd"/>${drawText(left - 6, y(value) + 4, value && value < 1e-3 ? value.toExponential(0) : String(value), 'end')}`,
  );

/**
 * Draws the marks of a series, and optionally a line.
 * @param {number} i  index of the series @param {Mark[]} marks @param {Pick<Mark, 'x' | 'y'>[]} [line]
 */
export function drawSeries(i, marks, line = []) {
  const shape = MARKS[i % MARKS.length];
  const path = line.map(({ x, y }) => `${round(x)} ${round(y)}`).join('L');
  return [
    `<g class="c${i % COLORS.length}" color="${COLORS[i % COLORS.length][0]}" fill="currentColor">`,
    ...(line.length > 1 ? [`<path d="M${path}" fill="none" stroke="currentColor" opacity="0.5"/>`] : []),
    ...marks.map(({ x, y, text }) => `<path d="${shape(x, y)}"><title>${escape(text)}</title></path>`),
    '</g>',
  ].join('\n');
}

/**
 * Draws an entry of the legend: the mark of a series and its name.
 * @param {number} i @param {number} x @param {number} y @param {string} name
 */
export const drawLegendEntry = (i, x, y, name) =>
  `<g class="c${i % COLORS.length}" color="${COLORS[i % COLORS.length][0]}" fill="currentColor"><path d="${MARKS[i % MARKS.length](x, y - 4)}"/></g>${drawText(x + 8, y, name)}`;

/**
 * Returns the SVG file of a chart.
 * @param {{ width: number, height: number, title: string, about: string }} frame  about: a description for screen
 *   readers @param {string[]} parts
 */
export const chart = ({ width, height, title, about }, parts) =>
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title about" font-family="system-ui, sans-serif" font-size="12">`,
    `<title id="title">${escape(title)}</title>`,
    `<desc id="about">${escape(about)}</desc>`,
    `<style>@media (prefers-color-scheme: dark){${DARK}}</style>`,
    `<rect class="ground" width="${width}" height="${height}" fill="#fff"/>`,
    ...parts,
    '</svg>\n',
  ].join('\n');
