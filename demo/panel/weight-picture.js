/**
 * Draws weights of a model as a picture: half bytes from the middle of its file as squares in 16 shades. Decoration, but with real data.
 */

const COLUMNS = 48;
const ROWS = 8;
/** Pixels of the canvas per square. */
const PIXELS = 12;

/** Number of squares: two per byte. */
const GLIMPSED = COLUMNS * ROWS;

/** Key in localStorage: address and bytes of the last picture, for offline visits. */
const KEY = 'bq4.glimpse';

/**
 * Returns the bytes to be shown; null if they are not available.
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
 * @returns {Promise<boolean>}  whether a picture was drawn
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

/**
 * Bytes that each canvas shows; it is drawn again when the theme changes.
 * @type {Map<HTMLCanvasElement, Uint8Array>}
 */
const shown = new Map();
new MutationObserver(() => shown.forEach((bytes, canvas) => draw(canvas, bytes))).observe(document.documentElement, {
  attributeFilter: ['data-theme'],
});

/** @param {HTMLCanvasElement} canvas @param {Uint8Array} bytes */
function draw(canvas, bytes) {
  // Without the graphics card, because WebKitGTK would lose the picture while the canvas is hidden.
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
