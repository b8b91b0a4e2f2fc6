/** Points of several series, each with its Pareto front, as an SVG of its own. */
import {
  chart,
  legend,
  linear,
  lines,
  logarithmic,
  series,
  steps,
  upright,
  words,
} from '../../js/quantize/svg-chart.js';

/** @typedef {{ name: string, points: { x: number, y: number, text: string }[] }} Series */

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 420, 60, 20, 24, 48];
/** What is less than that is drawn as that. */
const MINIMUM = 0.1;
/** Series whose names have room among the points. */
const FEW = 6;

/** @param {Series['points']} points */
function front(points) {
  const sorted = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  let best = Infinity;
  return sorted.filter(({ y }) => {
    const better = y < best;
    if (better) best = y;
    return better;
  });
}

/** @param {Series[]} all @param {string} across @param {string} up  a logarithmic axis @param {number} [every]  of the other one */
export function scatter(all, across, up, every = 0.5) {
  const points = all.flatMap((one) => one.points);
  const xs = points.map(({ x }) => x);
  const [x0, x1] = [Math.min(...xs) - 0.4 * every, Math.max(...xs) + 0.4 * every];
  const shown = steps(points.map(({ y }) => Math.max(y, MINIMUM)));
  const x = linear([x0, x1], [LEFT, WIDTH - RIGHT]);
  const y = logarithmic([shown[0], shown[shown.length - 1]], [HEIGHT - BOTTOM, TOP]);
  const at = (/** @type {Series['points'][0]} */ p) => ({ x: x(p.x), y: y(p.y), text: p.text });
  const first = Math.ceil(x0 / every);
  const ticks = Array.from({ length: Math.floor(x1 / every) - first + 1 }, (_, i) =>
    Number(((first + i) * every).toFixed(6)),
  );
  const longest = Math.max(...all.map(({ name }) => name.length));
  // On the right, where more bits leave room above the points; many are below.
  const many = all.length > FEW;
  const [left, top] = many ? [LEFT, HEIGHT + 12] : [WIDTH - RIGHT - 6.5 * longest, TOP + 12];
  return chart(
    {
      width: WIDTH,
      height: HEIGHT + (many ? 16 * all.length + 8 : 0),
      title: `${up}, by ${across}`,
      about: `The tables beside it as points, for ${all.map(({ name }) => name).join('; ')}.`,
    },
    [
      ...lines(shown, y, [LEFT, WIDTH - RIGHT]),
      ...ticks.map((tick) => words(x(tick), HEIGHT - BOTTOM + 18, String(tick), 'middle')),
      words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, across, 'middle'),
      upright(14, HEIGHT / 2, up),
      ...all.map(({ name, points }, i) =>
        series(
          i,
          points.map((p) => at({ ...p, text: `${name}: ${p.text}` })),
          front(points).map(at),
        ),
      ),
      ...all.map(({ name }, i) => legend(i, left, top + 16 * i, name)),
    ],
  );
}
