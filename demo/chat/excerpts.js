/**
 * Chooses the passages that a model reads of attachments longer than its context: those nearest to the question in meaning if the
 * search model is on this device, else those that share words with it. Loaded with the first attachment.
 */
import { showError, showNotice } from '../page/alerts.js';
import * as format from '../page/format.js';
import { say, showLoading, showProgress } from '../page/page.js';
import { EMBEDDER, localEmbedder, storedEmbedder } from '../search/embedder.js';
import { passages, unit } from '../search/passages.js';
import { excerptText, splitComposed } from './composed.js';

/** @typedef {import('../models/engine-host.js').Host} Host */
/** @typedef {import('./tree.js').Entry} Entry */
/**
 * `place`: lines or page in the file; `document`: index of the file, since two may have the same name.
 * @typedef {{ file: string, place: string, text: string, document: number }} Passage
 */
/**
 * The text that the model reads in place of a message with long attachments, made of the passages by `excerptText`. `by`: how the
 * passages were chosen; 'start' means that none fits the question, so they are the first ones. `of`: number of all passages.
 * `offer`: whether the search model was not on this device, so that its download is offered.
 * @typedef {{ text: string, by: 'meaning' | 'words' | 'start', of: number, offer: boolean, passages: Passage[] }} Excerpt
 */

/** Largest number of passages in an excerpt, and number of texts that are embedded at once. */
const [MAX_PASSAGES, EMBED_BATCH] = [12, 16];
/** Smallest cosine similarity of a chosen passage to the question. Unrelated texts have about 0 ± 0.1. */
const MIN_SIMILARITY = 0.2;
/** Largest share of the prompt's tokens for passages: in a message with attachments, and in a later message. */
const [SHARE, LATER_SHARE] = [3 / 4, 1 / 3];
/** Upper bound of the characters per token of a text. */
const TOKEN_LENGTH = 16;
/** Letters of a word that are compared, so that "serviced" finds "service". */
const STEM = 6;
/** Words that are not compared, such as "a", "is", "of": in a short text they may look rare. */
const SHORT_WORD = /^[\p{Script=Latin}'’]{1,2}$/u;
/** The parameters k1 (weight of repeated words) and b (weight of a passage's length) of BM25. */
const [REPEATED, LENGTH] = [1.2, 0.75];

/** @type {Promise<import('../../js/shared/types.js').Model> | null} */
let embedder = null;
/** Vectors of passages, kept while the page is open. @type {Map<string, Float32Array>} */
const vectors = new Map();

/**
 * Splits a text into passages, unchanged, with the numbers of their first and last lines.
 * @param {string} text
 * @returns {{ text: string, first: number, last: number }[]}
 */
function slices(text) {
  let [at, line] = [0, 1];
  const step = () => {
    if (text[at++] === '\n') line++;
  };
  return passages(text).map((passage) => {
    // A passage has the same letters as the text in the same order; only white space differs.
    while (/\s/.test(text[at] ?? '')) step();
    const [from, first] = [at, line];
    for (let letters = passage.replace(/\s+/g, '').length; letters > 0; step()) if (/\S/.test(text[at])) letters--;
    return { text: text.slice(from, at), first, last: line };
  });
}

/** @param {import('./attachments.js').Attachment} attachment @returns {Omit<Passage, 'document'>[]} */
export function passagesOf({ name, text }) {
  // The text of a PDF begins with a line [Page n].
  if (!/^\[Page \d+\]$/m.test(text.split('\n', 1)[0]))
    return slices(text).map(({ text, first, last }) => ({
      file: name,
      place: first === last ? `line ${first}` : `lines ${first}–${last}`,
      text,
    }));
  const pages = text.split(/^\[Page (\d+)\]$/m).slice(1);
  return pages.flatMap((number, i) =>
    i % 2 ? [] : slices(pages[i + 1]).map(({ text }) => ({ file: name, place: `page ${number}`, text })),
  );
}

/** @param {string} text */
function wordsOf(text) {
  const segments = Intl.Segmenter && new Intl.Segmenter(undefined, { granularity: 'word' }).segment(text.toLowerCase());
  const words = segments
    ? [...segments].filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment)
    : (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  return words.filter((word) => !SHORT_WORD.test(word)).map((word) => word.slice(0, STEM));
}

/**
 * Returns the BM25 score of each text for a question. 0 if a text has no word of it, or only words that most texts
 * have.
 * @param {string[]} texts
 * @param {string} question
 * @returns {number[]}
 */
export function scoresByWords(texts, question) {
  const all = texts.map(wordsOf);
  const mean = all.reduce((sum, { length }) => sum + length, 0) / all.length;
  const scores = texts.map(() => 0);
  for (const word of new Set(wordsOf(question))) {
    const counts = all.map((words) => words.filter((other) => other === word).length);
    const having = counts.filter(Boolean).length;
    if (!having || having * 2 > texts.length) continue;
    const rarity = Math.log(1 + (texts.length - having + 0.5) / (having + 0.5));
    for (const [i, count] of counts.entries())
      scores[i] +=
        (rarity * count * (REPEATED + 1)) / (count + REPEATED * (1 - LENGTH + (LENGTH * all[i].length) / mean));
  }
  return scores;
}

/**
 * @param {import('../../js/shared/types.js').Model} model
 * @param {string[]} texts
 * @param {string} question
 * @param {AbortSignal} signal
 * @returns {Promise<number[]>}
 */
async function scoresByMeaning(model, texts, question, signal) {
  const missing = texts.filter((text) => !vectors.has(text));
  const report = (/** @type {number} */ done) =>
    showProgress(
      done,
      missing.length,
      `${format.count(done)} of ${format.counted(missing.length, 'passage')} searched`,
    );
  if (missing.length > EMBED_BATCH) {
    say(`Searching ${format.counted(texts.length, 'passage')}…`);
    showLoading(true);
  }
  try {
    for (let i = 0; i < missing.length; i += EMBED_BATCH) {
      signal.throwIfAborted();
      const batch = missing.slice(i, i + EMBED_BATCH);
      const embedded = await model.embed(batch);
      for (const [j, text] of batch.entries()) vectors.set(text, unit(embedded.vectors[j]));
      if (missing.length > EMBED_BATCH) report(i + batch.length);
    }
    const query = unit((await model.embed([question])).vectors[0]);
    return texts.map((text) =>
      /** @type {Float32Array} */ (vectors.get(text)).reduce((sum, x, i) => sum + x * query[i], 0),
    );
  } finally {
    showLoading(false);
  }
}

/** Returns the search model if it is on this device, else null. @param {Host} host */
async function storedModel(host) {
  if (embedder) return embedder;
  const source = await storedEmbedder(host.store);
  return source ? loadEmbedder(host, source).catch(() => null) : null;
}

/** @param {Host} host @param {string | File} source */
async function loadEmbedder(host, source) {
  const onProgress = (/** @type {import('../../js/shared/types.js').Progress} */ progress) =>
    showProgress(progress.loaded, progress.total, format.progress(progress));
  embedder = host.prepare(source, {}, onProgress, new AbortController().signal).then(({ model }) => model);
  embedder.catch(() => (embedder = null));
  return embedder;
}

/**
 * Loads the search model: from this device, from the server of this page, or from Hugging Face.
 * @param {Host} host
 * @param {() => void} regenerate  generates another reply
 */
export async function bringEmbedder(host, regenerate) {
  showLoading(true);
  try {
    const source = (await storedEmbedder(host.store)) ?? (await localEmbedder().catch(() => null))?.url.href;
    await loadEmbedder(host, source ?? EMBEDDER.source);
    const action = { text: 'Regenerate the reply', run: regenerate };
    showNotice('The search model is ready: it finds passages from now on.', [action]);
  } catch (error) {
    showError(error);
  }
  showLoading(false);
}

/**
 * Sets the excerpt that the model reads in place of the last message, if its attachments or those of an earlier message are too long.
 * @param {Entry[]} path  ends with the message to reply to
 * @param {{ host: Host, limit: number, signal: AbortSignal }} page  `limit`: largest number of tokens of a prompt
 */
export async function chooseExcerpt(path, { host, limit, signal }) {
  const last = /** @type {Entry} */ (path.at(-1));
  const own = splitComposed(last.content);
  const count = (/** @type {string} */ content) => host.count([{ role: 'user', content }]);
  const isShort =
    own.attachments.length > 0 && last.content.length < limit * TOKEN_LENGTH && (await count(last.content)) <= limit;
  const documents = isShort
    ? []
    : own.attachments.length
      ? own.attachments
      : path.filter(({ reads }) => reads).flatMap(({ content }) => splitComposed(content).attachments);
  const different = documents.filter(({ text }, i) => documents.findIndex((other) => other.text === text) === i);
  const reads = await excerptOf(different, own, { host, limit, signal, count });
  // Nothing is changed before this point, so that an aborted call leaves the previous excerpt in place.
  if (reads) last.reads = reads;
  else delete last.reads;
}

/**
 * @param {import('./attachments.js').Attachment[]} documents
 * @param {ReturnType<typeof splitComposed>} own  the message
 * @param {{ host: Host, limit: number, signal: AbortSignal, count: (content: string) => Promise<number> }} page
 * @returns {Promise<Excerpt | undefined>}
 */
async function excerptOf(documents, own, { host, limit, signal, count }) {
  const all = documents.map(passagesOf).flatMap((passages, document) => passages.map((one) => ({ ...one, document })));
  if (!all.length) return;
  const texts = all.map(({ text }) => text);
  const question = own.text.trim();
  const model = question ? await storedModel(host) : null;
  const scores = !question
    ? []
    : model
      ? await scoresByMeaning(model, texts, question, signal)
      : scoresByWords(texts, question);
  const least = model ? MIN_SIMILARITY : Number.MIN_VALUE;
  let chosen = all
    .map((_, i) => i)
    .filter((i) => scores[i] >= least)
    .sort((a, b) => scores[b] - scores[a])
    .slice(0, MAX_PASSAGES);
  const found = chosen.length > 0;
  if (!found && !own.attachments.length) return;
  if (!found) chosen = all.map((_, i) => i).slice(0, MAX_PASSAGES);
  const maxTokens = limit * (own.attachments.length ? SHARE : LATER_SHARE);
  const inOrder = () => [...chosen].sort((a, b) => a - b).map((i) => all[i]);
  while (chosen.length && (await count(excerptText(inOrder(), own.text))) > maxTokens) chosen.pop();
  if (!chosen.length) return;
  signal.throwIfAborted();
  const passages = inOrder();
  return {
    text: excerptText(passages, own.text),
    passages,
    by: !found ? 'start' : model ? 'meaning' : 'words',
    of: all.length,
    offer: !model,
  };
}
