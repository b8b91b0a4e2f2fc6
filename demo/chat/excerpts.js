/**
 * What a model reads of attachments that are longer than its context: the passages nearest to the question, by their meaning where the
 * search model is on this device, else by the words that they share with it. Loaded when that happens first.
 */
import { showError, showNotice } from '../page/alerts.js';
import * as format from '../page/format.js';
import { say, showLoading, showProgress } from '../page/page.js';
import { EMBEDDER, localEmbedder, storedEmbedder } from '../search/embedder.js';
import { passages, unit } from '../search/passages.js';
import { excerptText, splitComposed } from './composed.js';

/** @typedef {import('../models/engine-host.js').Host} Host */
/** @typedef {import('./tree.js').Entry} Entry */
/** `place`: where in the file; `document`: number of the file, since two may have one name. @typedef {{ file: string, place: string, text: string, document: number }} Passage */
/**
 * What the model reads in place of a message's attachments: `text` is made of the passages (`excerptText`), so that all of it is shown. `by`: how its passages were chosen, `start`: none fits the question, so they are the first
 * ones; `of`: how many there are; `offer`: the search model was not on this device.
 * @typedef {{ text: string, by: 'meaning' | 'words' | 'start', of: number, offer: boolean, passages: Passage[] }} Excerpt
 */

/** Passages that are given at most, and vectors that are computed at once. */
const [MAX_PASSAGES, TOGETHER] = [12, 16];
/** Passages of less similarity to the question are not given: an unrelated text has 0, give or take 0.1. */
const MIN_SIMILARITY = 0.2;
/** Of the tokens of a prompt: what passages may take of a message with attachments, and of a later one. */
const [SHARE, LATER_SHARE] = [3 / 4, 1 / 3];
/** Characters of a token: no text has more. */
const TOKEN_LENGTH = 16;
/** Letters of a word that count: "serviced" finds "service". */
const STEM = 6;
/** "a", "is", "of": a text of a few headings may have one of them once. */
const SHORT_WORD = /^[\p{Script=Latin}'’]{1,2}$/u;
/** How much often repeated words count, and the length of a passage (BM25). */
const [REPEATED, LENGTH] = [1.2, 0.75];

/** @type {Promise<import('../../js/shared/types.js').Model> | null} */
let embedder = null;
/** Vectors of passages, while the page is open. @type {Map<string, Float32Array>} */
const vectors = new Map();

/** Passages word for word with their lines. @param {string} text @returns {{ text: string, first: number, last: number }[]} */
function slices(text) {
  let [at, line] = [0, 1];
  const step = () => {
    if (text[at++] === '\n') line++;
  };
  return passages(text).map((passage) => {
    // It has the letters of the text in their order; only the space between them differs.
    while (/\s/.test(text[at] ?? '')) step();
    const [from, first] = [at, line];
    for (let letters = passage.replace(/\s+/g, '').length; letters > 0; step()) if (/\S/.test(text[at])) letters--;
    return { text: text.slice(from, at), first, last: line };
  });
}

/** @param {import('./attachments.js').Attachment} attachment @returns {Omit<Passage, 'document'>[]} */
export function passagesOf({ name, text }) {
  // An ordinary text can begin with such words, too.
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

/** BM25: words of the question, the rarer the better. 0: no word, or only such as most passages have. @param {string[]} texts @param {string} question @returns {number[]} */
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

/** @param {import('../../js/shared/types.js').Model} model @param {string[]} texts @param {string} question @param {AbortSignal} signal @returns {Promise<number[]>} */
async function scoresByMeaning(model, texts, question, signal) {
  const missing = texts.filter((text) => !vectors.has(text));
  const report = (/** @type {number} */ done) =>
    showProgress(
      done,
      missing.length,
      `${format.count(done)} of ${format.counted(missing.length, 'passage')} searched`,
    );
  if (missing.length > TOGETHER) {
    say(`Searching ${format.counted(texts.length, 'passage')}…`);
    showLoading(true);
  }
  try {
    for (let i = 0; i < missing.length; i += TOGETHER) {
      signal.throwIfAborted();
      const some = missing.slice(i, i + TOGETHER);
      const embedded = await model.embed(some);
      for (const [j, text] of some.entries()) vectors.set(text, unit(embedded.vectors[j]));
      if (missing.length > TOGETHER) report(i + some.length);
    }
    const query = unit((await model.embed([question])).vectors[0]);
    return texts.map((text) =>
      /** @type {Float32Array} */ (vectors.get(text)).reduce((sum, x, i) => sum + x * query[i], 0),
    );
  } finally {
    showLoading(false);
  }
}

/** The search model, if it is on this device. @param {Host} host */
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

/** Loads the search model, from this machine's server or from the hub. @param {Host} host @param {() => void} again  asks for another reply */
export async function bringEmbedder(host, again) {
  showLoading(true);
  try {
    const source = (await storedEmbedder(host.store)) ?? (await localEmbedder().catch(() => null))?.url.href;
    await loadEmbedder(host, source ?? EMBEDDER.source);
    const regenerate = { text: 'Regenerate the reply', run: again };
    showNotice('The search model is ready: it finds passages from now on.', [regenerate]);
  } catch (error) {
    showError(error);
  }
  showLoading(false);
}

/**
 * Decides what the model reads in place of the last message, where its attachments, or those of a message before, are too long.
 * @param {Entry[]} path  ends with the message to reply to
 * @param {{ host: Host, limit: number, signal: AbortSignal }} page  `limit`: tokens that a prompt may have
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
  // Until here it may be stopped, and what the last reply was given stays.
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
  // Two files of one name are two.
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
  const most = limit * (own.attachments.length ? SHARE : LATER_SHARE);
  const inOrder = () => [...chosen].sort((a, b) => a - b).map((i) => all[i]);
  while (chosen.length && (await count(excerptText(inOrder(), own.text))) > most) chosen.pop();
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
