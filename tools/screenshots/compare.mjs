// Compares a screenshot of the demo with the committed one. With the same fonts it compares pixels. With other fonts it checks that
// the same parts exist and that all are inside the window.
import pixelmatch from 'pixelmatch';
// @ts-ignore it has no types
import { PNG } from 'pngjs';

/** @typedef {import('./walk.mjs').Box} Box */
/** @typedef {import('./walk.mjs').Look} Look */
/** Data of a look that is stored in addition to its picture. @typedef {Pick<Look, 'layout' | 'fonts' | 'masks'>} Kept */

/** Largest share of pixels that may differ. A wider scroll bar exceeds it, a single letter doesn't. */
const DIFFERENT = 0.002;
/** Largest difference of a pixel's color, 0 to 1. pixelmatch ignores the edges of letters. */
const COLOUR = 0.15;
/** Pixels added around masked parts. */
const AROUND = 6;
/** Largest difference of a part's position and size, in pixels. */
const NEAR = 2;

/** @param {{ width: number, height: number, data: Buffer }} png @param {Box[]} masks */
function cover({ width, height, data }, masks) {
  for (const [x, y, w, h] of masks)
    for (let row = Math.max(0, y - AROUND); row < Math.min(height, y + h + AROUND); row++)
      data.fill(
        128,
        4 * (row * width + Math.min(width, Math.max(0, x - AROUND))),
        4 * (row * width + Math.max(0, Math.min(width, x + w + AROUND))),
      );
}

/** @param {Uint8Array} before @param {Uint8Array} now @param {Box[]} masks */
function pixels(before, now, masks) {
  const [a, b] = [before, now].map((bytes) => PNG.sync.read(Buffer.from(bytes)));
  if (a.width !== b.width || a.height !== b.height)
    return { faults: [`${b.width} x ${b.height} pixels, ${a.width} x ${a.height} are kept`], difference: null };
  for (const png of [a, b]) cover(png, masks);
  const difference = new PNG({ width: a.width, height: a.height });
  const n = pixelmatch(a.data, b.data, difference.data, a.width, a.height, { threshold: COLOUR });
  const share = n / (a.width * a.height);
  const faults = share > DIFFERENT ? [`${n} pixels differ, ${(100 * share).toFixed(2)} % of all`] : [];
  return { faults, difference: faults.length ? PNG.sync.write(difference) : null };
}

/** @param {Record<string, Box>} before @param {Record<string, Box>} now @param {boolean} same  fonts */
function moved(before, now, same) {
  const [old, new_] = [Object.keys(before), Object.keys(now)];
  const missingPictures = old.filter((name) => !(name in now)).map((name) => `${name} is gone`);
  const more = new_.filter((name) => !(name in before)).map((name) => `${name} is new`);
  // The size of a text, and so the position of the next part, depends on the font. Parts must be inside the window with any font.
  const right = Math.max(...Object.values(before).map(([x, , width]) => x + width));
  const far = (/** @type {Box} */ a, /** @type {Box} */ b) =>
    same
      ? a.some((at, i) => Math.abs(at - b[i]) > NEAR)
      : b[0] + NEAR < Math.min(0, a[0]) || b[0] + b[2] > right + NEAR;
  const elsewhere = old
    .filter((name) => name in now && far(before[name], now[name]))
    .map((name) => `${name} is at ${now[name]}, kept ${before[name]}`);
  return [...missingPictures, ...more, ...elsewhere];
}

/**
 * @param {{ picture: Uint8Array } & Kept} before @param {Look} now
 * @returns {{ faults: string[], difference: Uint8Array | null, fonts: boolean }}  `difference`: a PNG that shows the differences;
 *   `fonts`: whether the fonts are the same, so that pixels were compared
 */
export function compare(before, now) {
  const fonts = JSON.stringify(before.fonts) === JSON.stringify(now.fonts);
  const faults = moved(before.layout, now.layout, fonts);
  if (!fonts) return { faults, difference: null, fonts };
  const seen = pixels(before.picture, now.picture, [...before.masks, ...now.masks]);
  return { faults: [...faults, ...seen.faults], difference: seen.difference, fonts };
}
