/** Charts as SVG files that stand alone: no script, a ground that is light or dark as its reader's, and words for who sees none. */

/** @typedef {[number, number]} Ends */
/** A mark, and what it says. @typedef {{ x: number, y: number, text: string }} Mark */

/** Of series in their order: on a light ground, on a dark one. */
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
/** Series differ in their marks, too. @type {((x: number, y: number) => string)[]} */
const MARKS = [
  (x, y) => `M${one(x - 3)} ${one(y)}a3 3 0 1 0 6 0a3 3 0 1 0-6 0z`,
  (x, y) => `M${one(x - 2.7)} ${one(y - 2.7)}h5.4v5.4h-5.4z`,
  (x, y) => `M${one(x)} ${one(y - 3.6)}l3.6 6.2h-7.2z`,
  (x, y) => `M${one(x)} ${one(y - 3.8)}l3.8 3.8l-3.8 3.8l-3.8-3.8z`,
];
const DARK = [
  '.ground{fill:#15191a}.ink{fill:#d9dfdb}.grid{stroke:#343c3e}',
  ...COLORS.map(([, dark], i) => `.c${i}{color:${dark}}`),
].join('');

const one = (/** @type {number} */ x) => Number(x.toFixed(1));
/** Controls have no place in XML. @param {string} text */
const escape = (text) =>
  text
    .replace(/\p{Cc}/gu, ' ')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;');

/** Where a value lies. @param {Ends} values @param {Ends} places @returns {(value: number) => number} */
export const linear =
  ([low, high], [from, to]) =>
  (value) =>
    from + ((value - low) / (high - low || 1)) * (to - from);

/** On a logarithmic axis; what is below it lies at its end. @param {Ends} values @param {Ends} places @returns {(value: number) => number} */
export function logarithmic([low, high], places) {
  const at = linear([Math.log10(low), Math.log10(high)], places);
  return (value) => at(Math.log10(Math.max(value, low)));
}

/** Powers of ten, and 2 and 5 times those where few are enough, from the last one below all values to the first one above. @param {number[]} values  positive */
export function steps(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const digits = high / low > 300 ? [1] : [1, 2, 5];
  /** @type {number[]} */
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 2; power++)
    for (const digit of digits) all.push(Number(`${digit}e${power}`));
  return all.filter((step, i) => (all[i + 1] ?? Infinity) > low && (all[i - 1] ?? 0) <= high);
}

/** @param {number} x @param {number} y @param {string} text @param {'start' | 'middle' | 'end'} [anchor] */
export const words = (x, y, text, anchor = 'start') =>
  `<text class="ink" x="${one(x)}" y="${one(y)}" text-anchor="${anchor}" fill="#333">${escape(text)}</text>`;

/** @param {number} x  of its middle @param {number} y @param {string} text */
export const upright = (x, y, text) => `<g transform="rotate(-90 ${x} ${y})">${words(x, y, text, 'middle')}</g>`;

/** Lines across, and what each stands for. @param {number[]} values @param {(value: number) => number} y @param {Ends} across */
export const lines = (values, y, [left, right]) =>
  values.map(
    (value) =>
      `<path class="grid" d="M${left} ${one(y(value))}H${right}" stroke="#ddd"/>${words(left - 6, y(value) + 4, value && value < 1e-3 ? value.toExponential(0) : String(value), 'end')}`,
  );

/**
 * The marks of a series, and a line through some places.
 * @param {number} i  which series it is @param {Mark[]} marks @param {Pick<Mark, 'x' | 'y'>[]} [line]
 */
export function series(i, marks, line = []) {
  const shape = MARKS[i % MARKS.length];
  const path = line.map(({ x, y }) => `${one(x)} ${one(y)}`).join('L');
  return [
    `<g class="c${i % COLORS.length}" color="${COLORS[i % COLORS.length][0]}" fill="currentColor">`,
    ...(line.length > 1 ? [`<path d="M${path}" fill="none" stroke="currentColor" opacity="0.5"/>`] : []),
    ...marks.map(({ x, y, text }) => `<path d="${shape(x, y)}"><title>${escape(text)}</title></path>`),
    '</g>',
  ].join('\n');
}

/** A mark of a series and its name. @param {number} i @param {number} x @param {number} y @param {string} name */
export const legend = (i, x, y, name) =>
  `<g class="c${i % COLORS.length}" color="${COLORS[i % COLORS.length][0]}" fill="currentColor"><path d="${MARKS[i % MARKS.length](x, y - 4)}"/></g>${words(x + 8, y, name)}`;

/** @param {{ width: number, height: number, title: string, about: string }} frame  about: what it shows, in words @param {string[]} parts */
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
