// Compares a screenshot of the demo with the committed one. With the same fonts it compares pixels. With other fonts it checks that
// the same parts exist and that all of them are inside the window.
import pixelmatch from 'pixelmatch';
// @ts-ignore it has no types
import { PNG } from 'pngjs';

/** @typedef {import('./walk.mjs').Box} Box */
/** @typedef {import('./walk.mjs').Look} Look */
/** Data of a look that is stored in layout.json; the picture is a file. @typedef {Pick<Look, 'layout' | 'fonts' | 'masks'>} StoredLook */

/** Largest share of pixels that may differ. A wider scroll bar exceeds it, a single letter doesn't. */
const PIXEL_SHARE_LIMIT = 0.002;
/** Largest difference of a pixel's color, 0 to 1. pixelmatch ignores the edges of letters. */
const COLOR_THRESHOLD = 0.15;
/** Pixels added around masked parts. */
const MASK_MARGIN_PIXELS = 6;
/** Largest difference of a part's position and size, in pixels. */
const POSITION_TOLERANCE_PIXELS = 2;

/** Paints the masks gray. @param {{ width: number, height: number, data: Buffer }} png @param {Box[]} masks */
function coverMasks({ width, height, data }, masks) {
  for (const [x, y, w, h] of masks)
    for (let row = Math.max(0, y - MASK_MARGIN_PIXELS); row < Math.min(height, y + h + MASK_MARGIN_PIXELS); row++)
      data.fill(
        128,
        4 * (row * width + Math.min(width, Math.max(0, x - MASK_MARGIN_PIXELS))),
        4 * (row * width + Math.max(0, Math.min(width, x + w + MASK_MARGIN_PIXELS))),
      );
}

/** Compares two pictures. @param {Uint8Array} expected  PNG @param {Uint8Array} actual  PNG @param {Box[]} masks */
function comparePixels(expected, actual, masks) {
  const [a, b] = [expected, actual].map((bytes) => PNG.sync.read(Buffer.from(bytes)));
  if (a.width !== b.width || a.height !== b.height)
    return { faults: [`expected ${a.width} x ${a.height} pixels, found ${b.width} x ${b.height}`], difference: null };
  for (const png of [a, b]) coverMasks(png, masks);
  const difference = new PNG({ width: a.width, height: a.height });
  const differingPixels = pixelmatch(a.data, b.data, difference.data, a.width, a.height, {
    threshold: COLOR_THRESHOLD,
  });
  const share = differingPixels / (a.width * a.height);
  const faults =
    share > PIXEL_SHARE_LIMIT ? [`${differingPixels} pixels differ, ${(100 * share).toFixed(2)} % of all`] : [];
  return { faults, difference: faults.length ? PNG.sync.write(difference) : null };
}

/** Compares the positions of parts. @param {Record<string, Box>} expected @param {Record<string, Box>} actual @param {boolean} sameFonts  whether the fonts are the same */
function compareLayouts(expected, actual, sameFonts) {
  const [expectedNames, actualNames] = [Object.keys(expected), Object.keys(actual)];
  const missingFaults = expectedNames.filter((name) => !(name in actual)).map((name) => `${name} is missing`);
  const addedFaults = actualNames.filter((name) => !(name in expected)).map((name) => `${name} is new`);
  // The size of a text, and so the position of the next part, depends on the font. Parts must be inside the window with any font.
  const rightEdge = Math.max(...Object.values(expected).map(([x, , width]) => x + width));
  const isMoved = (/** @type {Box} */ a, /** @type {Box} */ b) =>
    sameFonts
      ? a.some((position, i) => Math.abs(position - b[i]) > POSITION_TOLERANCE_PIXELS)
      : b[0] + POSITION_TOLERANCE_PIXELS < Math.min(0, a[0]) || b[0] + b[2] > rightEdge + POSITION_TOLERANCE_PIXELS;
  const movedFaults = expectedNames
    .filter((name) => name in actual && isMoved(expected[name], actual[name]))
    .map((name) => `expected ${name} at ${expected[name]}, found it at ${actual[name]}`);
  return [...missingFaults, ...addedFaults, ...movedFaults];
}

/**
 * Compares a look with the stored one.
 * @param {{ picture: Uint8Array } & StoredLook} expected @param {Look} actual
 * @returns {{ faults: string[], difference: Uint8Array | null, fonts: boolean }}  `difference`: a PNG that shows the differences;
 *   `fonts`: whether the fonts are the same, so that pixels were compared
 */
export function compare(expected, actual) {
  const fonts = JSON.stringify(expected.fonts) === JSON.stringify(actual.fonts);
  const faults = compareLayouts(expected.layout, actual.layout, fonts);
  if (!fonts) return { faults, difference: null, fonts };
  const pixels = comparePixels(expected.picture, actual.picture, [...expected.masks, ...actual.masks]);
  return { faults: [...faults, ...pixels.faults], difference: pixels.difference, fonts };
}
