/**
 * The numbers that a model is made of, as a picture: half bytes from the middle of its file, 16 shades, one square
 * each. Decoration that tells the truth.
 */

const COLUMNS = 48;
const ROWS = 8;
/** Of the canvas, per square. */
const PIXELS = 12;

/** Shown squares: two per byte. */
export const GLIMPSED = COLUMNS * ROWS;

/** @param {HTMLCanvasElement} canvas  coloured by its style, again with every change of theme @param {Blob} file */
export async function glimpse(canvas, file) {
  const start = Math.max(0, (file.size - GLIMPSED / 2) >> 1);
  const bytes = new Uint8Array(await file.slice(start, start + GLIMPSED / 2).arrayBuffer());
  canvas.width = COLUMNS * PIXELS;
  canvas.height = ROWS * PIXELS;
  draw(canvas, bytes);
  new MutationObserver(() => draw(canvas, bytes)).observe(document.documentElement, { attributeFilter: ['data-theme'] });
}

/** @param {HTMLCanvasElement} canvas @param {Uint8Array} bytes */
function draw(canvas, bytes) {
  const context = canvas.getContext('2d');
  if (!context) return;
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = getComputedStyle(canvas).color;
  for (let i = 0; i < GLIMPSED; i++) {
    const nibble = (bytes[i >> 1] >> (4 * (i & 1))) & 15;
    context.globalAlpha = 0.06 + (0.94 * nibble) / 15;
    context.fillRect((i % COLUMNS) * PIXELS + 1, Math.floor(i / COLUMNS) * PIXELS + 1, PIXELS - 2, PIXELS - 2);
  }
}
