/** Points of several series, each with its Pareto front, as an SVG of its own. */

/** @typedef {{ name: string, points: { x: number, y: number, text: string }[] }} Series */

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 420, 60, 20, 24, 48];
const COLORS = ['#0b6e99', '#b3541e', '#4f7a28', '#7a3e8f', '#8a6d00', '#a01f4e', '#3b4a9e', '#555'];
const escape = (/** @type {string} */ text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');

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

/** @param {Series[]} series @param {string} across @param {string} up  a logarithmic axis */
export function scatter(series, across, up) {
  const all = series.flatMap(({ points }) => points);
  const [x0, x1] = [Math.min(...all.map(({ x }) => x)) - 0.2, Math.max(...all.map(({ x }) => x)) + 0.2];
  const ys = all.map(({ y }) => Math.max(y, 0.1));
  const [y0, y1] = [Math.log10(Math.min(...ys)) - 0.1, Math.log10(Math.max(...ys)) + 0.1];
  const x = (/** @type {number} */ v) => (LEFT + ((v - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT)).toFixed(1);
  const y = (/** @type {number} */ v) =>
    (HEIGHT - BOTTOM - ((Math.log10(Math.max(v, 0.1)) - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM)).toFixed(1);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
  ];
  for (const tick of [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
    if (Math.log10(tick) >= y0 && Math.log10(tick) <= y1)
      parts.push(
        `<path d="M${LEFT} ${y(tick)}H${WIDTH - RIGHT}" stroke="#ddd"/><text x="${LEFT - 6}" y="${Number(y(tick)) + 4}" text-anchor="end" fill="#333">${tick}</text>`,
      );
  for (let tick = Math.ceil(2 * x0) / 2; tick <= x1; tick += 0.5)
    parts.push(`<text x="${x(tick)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#333">${tick}</text>`);
  parts.push(
    `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 10}" text-anchor="middle" fill="#333">${escape(across)}</text>`,
    `<text x="14" y="${HEIGHT / 2}" text-anchor="middle" fill="#333" transform="rotate(-90 14 ${HEIGHT / 2})">${escape(up)}</text>`,
  );
  series.forEach(({ name, points }, i) => {
    const color = COLORS[i % COLORS.length];
    const line = front(points).map((p) => `${x(p.x)} ${y(p.y)}`);
    parts.push(`<path d="M${line.join('L')}" fill="none" stroke="${color}" stroke-width="1.5"/>`);
    for (const p of points)
      parts.push(
        `<circle cx="${x(p.x)}" cy="${y(p.y)}" r="4" fill="${color}"><title>${escape(`${name}: ${p.text}`)}</title></circle>`,
      );
    // On the right, where more bits leave room above the points.
    const place = `x="${WIDTH - RIGHT - 12}" y="${TOP + 4 + 16 * i}" text-anchor="end"`;
    parts.push(`<text ${place} fill="${color}">${escape(name)}</text>`);
  });
  return `${[...parts, '</svg>'].join('\n')}\n`;
}
