/**
 * Splits texts into passages, compares their vectors, and stores both in the browser's private files if it supports
 * them.
 */

/** @typedef {{ file: string, text: string, vector: Float32Array }} Passage */

/** Largest passage in characters: 100 to 150 tokens of the 256 that MiniLM reads. */
const LENGTH = 500;
/** Shorter paragraphs, in characters, are joined with the next: headings, lines of a list. */
const SHORT = 60;
const FILE = 'bq4-passages.json';

/**
 * Splits a text into paragraphs; short ones are joined, long ones split after sentences.
 * @param {string} text
 * @returns {string[]}
 */
export function passages(text) {
  /** @type {string[]} */
  const items = [];
  let open = '';
  const add = (/** @type {string} */ part, /** @type {string} */ between) => {
    const ends = between === '\n' && open.length >= SHORT;
    if (open && (ends || open.length + part.length > LENGTH)) {
      items.push(open);
      open = '';
    }
    open += open ? between + part : part;
  };
  for (const paragraph of text.split(/\n\s*\n/)) {
    const line = paragraph.replace(/\s+/g, ' ').trim();
    if (line.length <= LENGTH) add(line, '\n');
    else for (const sentence of line.match(/.{1,480}(?:[.!?…。]+|$)|.{1,480}/gsu) ?? []) add(sentence.trim(), ' ');
  }
  return [...items, open].filter(Boolean);
}

/** Splits a passage into sentences, unchanged. @param {string} text @returns {string[]} */
export const sentences = (text) =>
  (text.match(/[^.!?…。！？\n]+(?:[.!?…。！？]+|)/g) ?? [text]).map((sentence) => sentence.trim()).filter(Boolean);

/** Scales a vector to length 1, so that a dot product is a cosine. @param {Float32Array} vector */
export function unit(vector) {
  const length = Math.hypot(...vector) || 1;
  return vector.map((x) => x / length);
}

/**
 * Returns the nearest passages.
 * @param {Passage[]} all
 * @param {Float32Array} vector  of length 1
 * @param {number} max  largest number of results
 * @returns {{ passage: Passage, score: number }[]}
 */
export const nearest = (all, vector, max) =>
  all
    .map((passage) => ({ passage, score: passage.vector.reduce((sum, x, i) => sum + x * vector[i], 0) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, max);

/**
 * Reads a private file.
 * @param {string} name
 * @returns {Promise<File | null>}  null if it does not exist, or the browser has no private files
 */
export async function kept(name) {
  try {
    return await (await (await navigator.storage.getDirectory()).getFileHandle(name)).getFile();
  } catch {
    return null;
  }
}

/**
 * Writes a private file.
 * @param {string} name
 * @param {Blob | string} content
 * @returns {Promise<boolean>}  whether it is stored
 */
export async function keep(name, content) {
  try {
    const handle = await (await navigator.storage.getDirectory()).getFileHandle(name, { create: true });
    const writer = await handle.createWritable();
    await writer.write(content);
    await writer.close();
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the stored passages; invalid ones are ignored.
 * @param {number} width  length of the model's vectors
 * @returns {Promise<Passage[]>}
 */
export async function keptPassages(width) {
  try {
    const list = JSON.parse((await (await kept(FILE))?.text()) ?? '[]');
    return list
      .map((/** @type {any} */ { file, text, vector }) => ({
        file: String(file),
        text: String(text),
        vector: Float32Array.from(vector),
      }))
      .filter((/** @type {Passage} */ { vector }) => vector.length === width && vector.every(Number.isFinite));
  } catch {
    return [];
  }
}

/** @param {Passage[]} all */
export const keepPassages = (all) =>
  keep(FILE, JSON.stringify(all.map(({ file, text, vector }) => ({ file, text, vector: Array.from(vector) }))));
