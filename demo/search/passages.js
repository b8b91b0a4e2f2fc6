/** Texts cut into passages, their vectors, and where both stay: in the private files of this browser, where it has them. */

/** @typedef {{ file: string, text: string, vector: Float32Array }} Passage */

/** Characters of a passage: some 100 to 150 tokens, of the 256 that MiniLM reads. */
const LENGTH = 500;
/** A paragraph of fewer goes with the next: a heading, a line of a list. */
const SHORT = 60;
const FILE = 'bq4-passages.json';

/** Paragraphs, the short ones together, the long ones at the ends of sentences. @param {string} text @returns {string[]} */
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
    const whole = paragraph.replace(/\s+/g, ' ').trim();
    if (whole.length <= LENGTH) add(whole, '\n');
    else for (const sentence of whole.match(/.{1,480}(?:[.!?…。]+|$)|.{1,480}/gsu) ?? []) add(sentence.trim(), ' ');
  }
  return [...items, open].filter(Boolean);
}

/** The sentences of a passage, which are parts of it. @param {string} text @returns {string[]} */
export const sentences = (text) =>
  (text.match(/[^.!?…。！？\n]+(?:[.!?…。！？]+|)/g) ?? [text]).map((sentence) => sentence.trim()).filter(Boolean);

/** Length 1, so that a product is a cosine. @param {Float32Array} vector */
export function unit(vector) {
  const length = Math.hypot(...vector) || 1;
  return vector.map((x) => x / length);
}

/** The nearest ones. @param {Passage[]} all @param {Float32Array} vector  of length 1 @param {number} most @returns {{ passage: Passage, score: number }[]} */
export const nearest = (all, vector, most) =>
  all
    .map((passage) => ({ passage, score: passage.vector.reduce((sum, x, i) => sum + x * vector[i], 0) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, most);

/** @param {string} name @returns {Promise<File | null>}  null: no such file, or the browser has no such folder */
export async function kept(name) {
  try {
    return await (await (await navigator.storage.getDirectory()).getFileHandle(name)).getFile();
  } catch {
    return null;
  }
}

/** @param {string} name @param {Blob | string} content @returns {Promise<boolean>}  whether it is kept */
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

/** What lies there may be anything. @param {number} width  of the model's vectors @returns {Promise<Passage[]>} */
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
