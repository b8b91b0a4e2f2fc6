// Draws the points of several series, each with its Pareto front, as an SVG file.
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
} from '../../js/quantize/svg-chart.js';

/** @typedef {{ name: string, points: { x: number, y: number, text: string }[] }} Series */

/** Sizes in pixels. */
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 420, 60, 20, 24, 48];
/** Smaller values of y are drawn at this value, since the axis is logarithmic. */
const MINIMUM_Y = 0.1;
/** Largest number of series whose names are drawn among the points. The names of more series are drawn below the chart. */
const INNER_LEGEND_LIMIT = 6;

/** Returns the Pareto front: the points that have a smaller y than all points with a smaller x. @param {Series['points']} points */
function paretoFront(points) {
  const sortedPoints = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  let minimumY = Infinity;
  return sortedPoints.filter(({ y }) => {
    const isLower = y < minimumY;
    if (isLower) minimumY = y;
    return isLower;
  });
}

/**
 * Returns a chart with a linear x axis and a logarithmic y axis.
 * @param {Series[]} allSeries @param {string} xTitle @param {string} yTitle @param {number} [xStep]  distance of the ticks of the x axis
 */
export function drawScatterPlot(allSeries, xTitle, yTitle, xStep = 0.5) {
  const allPoints = allSeries.flatMap(({ points }) => points);
  const xs = allPoints.map(({ x }) => x);
  const [minimumX, maximumX] = [Math.min(...xs) - 0.4 * xStep, Math.max(...xs) + 0.4 * xStep];
  const yTicks = logarithmicTicks(allPoints.map(({ y }) => Math.max(y, MINIMUM_Y)));
  const x = linear([minimumX, maximumX], [LEFT, WIDTH - RIGHT]);
  const y = logarithmic([yTicks[0], yTicks[yTicks.length - 1]], [HEIGHT - BOTTOM, TOP]);
  const markOf = (/** @type {Series['points'][0]} */ point) => ({ x: x(point.x), y: y(point.y), text: point.text });
  const firstTick = Math.ceil(minimumX / xStep);
  const xTicks = Array.from({ length: Math.floor(maximumX / xStep) - firstTick + 1 }, (_, i) =>
    Number(((firstTick + i) * xStep).toFixed(6)),
  );
  const longestName = Math.max(...allSeries.map(({ name }) => name.length));
  // Few names are drawn on the right, where larger values of x leave space above the points.
  const isBelow = allSeries.length > INNER_LEGEND_LIMIT;
  const [legendLeft, legendTop] = isBelow ? [LEFT, HEIGHT + 12] : [WIDTH - RIGHT - 6.5 * longestName, TOP + 12];
  return chart(
    {
      width: WIDTH,
      height: HEIGHT + (isBelow ? 16 * allSeries.length + 8 : 0),
      title: `${yTitle}, by ${xTitle}`,
      about: `The tables beside it as points, for ${allSeries.map(({ name }) => name).join('; ')}.`,
    },
    [
      ...drawGridLines(yTicks, y, [LEFT, WIDTH - RIGHT]),
      ...xTicks.map((tick) => drawText(x(tick), HEIGHT - BOTTOM + 18, String(tick), 'middle')),
      drawText((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, xTitle, 'middle'),
      drawVerticalText(14, HEIGHT / 2, yTitle),
      ...allSeries.map(({ name, points }, i) =>
        drawSeries(
          i,
          points.map((point) => markOf({ ...point, text: `${name}: ${point.text}` })),
          paretoFront(points).map(markOf),
        ),
      ),
      ...allSeries.map(({ name }, i) => drawLegendEntry(i, legendLeft, legendTop + 16 * i, name)),
    ],
  );
}
