/**
 * The numbers that a model is made of, as a picture: half bytes from the middle of its file, 16 shades, one square
 * each. Decoration that tells the truth.
 */

const COLUMNS = 48;
const ROWS = 8;
/** Of the canvas, per square. */
const PIXELS = 12;

/** Shown squares: two per byte. */
const GLIMPSED = COLUMNS * ROWS;

/** In localStorage, by address: what a visit without a network shows. */
const KEY = 'bq4.glimpse';

/**
 * The bytes that are shown; null: not to be had.
 * @param {Blob | string} source  a file, or the address of one on this site
 * @param {number} size  of the file
 * @returns {Promise<Uint8Array | null>}
 */
async function middle(source, size) {
  const start = Math.max(0, (size - GLIMPSED / 2) >> 1);
  const end = start + GLIMPSED / 2;
  if (typeof source !== 'string') return new Uint8Array(await source.slice(start, end).arrayBuffer());
  try {
    const [url, numbers] = (localStorage.getItem(KEY) ?? '').split(' ');
    if (url === source) return Uint8Array.from(numbers.split(','), Number);
    const controller = new AbortController();
    const response = await fetch(source, {
      headers: { Range: `bytes=${start}-${end - 1}` },
      signal: controller.signal,
    });
    if (response.status !== 206) {
      controller.abort(); // the whole file, on a host without ranges
      return null;
    }
    const bytes = new Uint8Array(await response.arrayBuffer());
    localStorage.setItem(KEY, `${source} ${bytes}`);
    return bytes;
  } catch {
    return null;
  }
}

/**
 * @param {HTMLCanvasElement} canvas  coloured by its style, again with every change of theme
 * @param {Blob | string} source @param {number} size
 * @returns {Promise<boolean>}  whether there is something to see
 */
export async function glimpse(canvas, source, size) {
  const bytes = await middle(source, size);
  if (!bytes) return false;
  canvas.width = COLUMNS * PIXELS;
  canvas.height = ROWS * PIXELS;
  draw(canvas, bytes);
  shown.set(canvas, bytes);
  return true;
}

/** What each canvas shows, to be drawn again with every change of theme. @type {Map<HTMLCanvasElement, Uint8Array>} */
const shown = new Map();
new MutationObserver(() => shown.forEach((bytes, canvas) => draw(canvas, bytes))).observe(document.documentElement, {
  attributeFilter: ['data-theme'],
});

/** @param {HTMLCanvasElement} canvas @param {Uint8Array} bytes */
function draw(canvas, bytes) {
  // Drawn without the graphics card: what it draws WebKitGTK loses while the canvas is hidden.
  const context = canvas.getContext('2d', { willReadFrequently: true });
  if (!context) return;
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = getComputedStyle(canvas).color;
  for (let i = 0; i < GLIMPSED; i++) {
    const nibble = (bytes[i >> 1] >> (4 * (i & 1))) & 15;
    context.globalAlpha = 0.06 + (0.94 * nibble) / 15;
    context.fillRect((i % COLUMNS) * PIXELS + 1, Math.floor(i / COLUMNS) * PIXELS + 1, PIXELS - 2, PIXELS - 2);
  }
}
