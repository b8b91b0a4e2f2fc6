/** Search by meaning in the user's own texts. */
import { createWorkerEngine, fromBlob } from '../js/index.js';
import { decodeText } from './page/decode-text.js';
import { element } from './page/element.js';
import * as format from './page/format.js';
import { EMBEDDER, localEmbedder, OWN_FILE, OWN_RERANKER, storedReranker } from './search/embedder.js';
import { allowed } from './storage/local-storage.js';
import { keep, keepPassages, kept, keptPassages, nearest, passages, sentences, unit } from './search/passages.js';

/** @typedef {import('../js/shared/types.js').Model} Model */

/** Numbers of passages that are shown, that are compared sentence by sentence, and that are embedded at once. */
const [SHOWN, CONSIDERED, EMBED_BATCH] = [5, 15, 16];
/** Milliseconds without a key press before a search. */
const PAUSE = 150;
/** Smallest cosine similarity of a result. Unrelated texts have about 0 ± 0.1. */
const MIN_SIMILARITY = 0.2;
/** Keys in localStorage: addresses of models that are not local files. */
const [MODEL_NAME, RERANKER_NAME] = ['bq4.search.model', 'bq4.search.reranker'];
/** Largest number of sentences whose vectors are kept while the page is open. */
const MAX_SENTENCES = 2000;

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);
const say = (/** @type {string} */ text) => void ($('status').textContent = text);

/** The embedding model, which finds passages. @type {Model | null} */
let model = null;
/** Compares each result with the question, for a better order. @type {Model | null} */
let reranker = null;
/** @type {Map<string, Float32Array>} */
const sentenceVectors = new Map();
/** @type {import('./search/passages.js').Passage[]} */
let all = [];

/** Shows an error in place of the previous one. @param {unknown} error */
function show(error) {
  const { code = '', message, hint = '' } = /** @type {any} */ (error);
  const text = element('div', 'alert-text');
  text.append(element('p', 'what', format.sentence(String(message))));
  if (hint) text.append(element('p', 'hint', format.sentence(hint)));
  if (code) text.append(element('code', 'code', code));
  const card = element('div', 'alert');
  card.append(text);
  $('alerts').replaceChildren(card);
}

/** Runs work after all earlier work, and shows its error. @param {() => Promise<void>} work */
function next(work) {
  queue = queue.then(work).catch(show);
  return queue;
}
let queue = Promise.resolve();

const engine = createWorkerEngine({
  worker: () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
  threadUrl: new URL('./thread.js', import.meta.url),
});

/** @param {import('../js/shared/types.js').Progress} progress */
function showProgress({ phase, loaded, total }) {
  const bar = /** @type {HTMLProgressElement} */ ($('progress'));
  bar.hidden = phase === 'ready';
  if (total) bar.value = loaded / total;
  else bar.removeAttribute('value');
}

/** Opens an embedding model or a reranker. @param {File | string} source  a file, or an address */
async function open(source) {
  const name = typeof source === 'string' ? source.replace(/^hf:/, '') : source.name;
  say(`Loading ${name}…`);
  let loaded;
  try {
    loaded = await (
      await engine
    ).load(typeof source === 'string' ? source : fromBlob(source), {
      onProgress: showProgress,
    });
  } catch (error) {
    say(`${name} was not loaded.`);
    const { code } = /** @type {any} */ (error);
    if (code !== 'NETWORK') throw error;
    throw Object.assign(new Error('the model could not be downloaded', { cause: error }), {
      code,
      hint: navigator.onLine ? 'check the connection, then press Download again' : 'you are offline',
    });
  } finally {
    $('progress').hidden = true;
  }
  if (loaded.info.reranks === 'classifier') return useReranker(loaded, source, name);
  if (loaded.info.generates || loaded.info.reranks === null) {
    await loaded.close();
    throw new Error(
      `This model ${loaded.info.generates ? 'writes texts' : 'only classifies texts'}. The search needs an embedding model, such as all-MiniLM-L6-v2.`,
    );
  }
  await model?.close();
  model = loaded;
  sentenceVectors.clear();
  all = await keptPassages(model.info.hidden);
  $('need').hidden = true;
  $('ask').disabled = $('files').disabled = false;
  drawTexts();
  $('better').hidden = false;
  await remember(source, MODEL_NAME, OWN_FILE);
  say(all.length ? 'Ready.' : 'Ready: add a text to search in.');
}

/** Returns the stored address of a model; '' if no address is stored, or if storage is blocked. @param {string} nameKey */
const storedName = (nameKey) => allowed(() => localStorage.getItem(nameKey), '') ?? '';

/** Stores the address of a model. @param {string} nameKey @param {string} name  '' removes it */
const rememberName = (nameKey, name) =>
  allowed(() => (name ? localStorage.setItem(nameKey, name) : localStorage.removeItem(nameKey)), undefined);

/**
 * Remembers a model for the next visit.
 * @param {File | string} source
 * @param {string} nameKey
 * @param {string} ownFile
 */
async function remember(source, nameKey, ownFile) {
  rememberName(nameKey, typeof source === 'string' ? source : '');
  if (typeof source === 'string') return;
  if (source.name !== KEPT_NAME) await keep(ownFile, source);
}
/** Name of a local file that was opened at an earlier visit. */
const KEPT_NAME = 'the model';

/** @param {Model} loaded @param {File | string} source @param {string} name */
async function useReranker(loaded, source, name) {
  await reranker?.close();
  reranker = loaded;
  $('better-words').textContent = `The second model, ${name}, puts the best results first.`;
  $('better-here').hidden = true;
  $('better-remove').hidden = false;
  await remember(source, RERANKER_NAME, OWN_RERANKER);
  say(model ? 'Ready.' : 'The search model is missing: download it or open its file.');
}

async function removeReranker() {
  await reranker?.close();
  reranker = null;
  rememberName(RERANKER_NAME, '');
  await keep(OWN_RERANKER, '');
  $('better-words').textContent = WORDS;
  $('better-remove').hidden = true;
  await look();
  say('The second model is no longer used.');
}
const WORDS = $('better-words').textContent;

/** Returns the text of a text file or PDF. @param {File} file */
async function textOf(file) {
  if (/\.pdf$/i.test(file.name)) {
    const { textOfPdf } = await import('./chat/pdf.js');
    const onPage = (/** @type {number} */ page, /** @type {number} */ pages) =>
      say(`Reading ${file.name}: page ${page} of ${pages}…`);
    const { text } = await textOfPdf(file, Infinity, new AbortController().signal, onPage).catch((error) => {
      say(`${file.name} was not read.`);
      throw new Error(`“${file.name}” ${error.message}`, { cause: error });
    });
    return text;
  }
  const text = decodeText(new Uint8Array(await file.arrayBuffer()));
  if (!text || text.includes('\0')) throw new Error(`“${file.name}” isn't a text file or PDF`);
  return text;
}

/** @param {File} file */
async function add(file) {
  if (!model) throw new Error('Download the search model or open its file first.');
  const texts = passages(await textOf(file));
  const items = [];
  for (let i = 0; i < texts.length; i += EMBED_BATCH) {
    say(`Reading ${file.name}: ${format.count(i)} of ${format.counted(texts.length, 'passage')}…`);
    const { vectors } = await model.embed(texts.slice(i, i + EMBED_BATCH));
    items.push(...vectors.map((vector, j) => ({ file: file.name, text: texts[i + j], vector: unit(vector) })));
  }
  all = [...all.filter((one) => one.file !== file.name), ...items];
  const stored = await keepPassages(all);
  drawTexts();
  say(`${file.name} is read${stored ? '' : '; this browser keeps it only until the page is closed'}.`);
}

function drawTexts() {
  const names = [...new Set(all.map(({ file }) => file))];
  $('texts').replaceChildren(
    ...names.map((name) => {
      const n = all.filter(({ file }) => file === name).length;
      return element('li', '', `${name}: ${format.counted(n, 'passage')}`);
    }),
  );
  $('forget').hidden = !names.length;
}

async function look() {
  const text = $('ask').value.trim();
  if (!model || !text) return void $('found').replaceChildren();
  const { vectors } = await model.embed([text]);
  const query = unit(vectors[0]);
  const found = (await withSentences(model, nearest(all, query, CONSIDERED), query))
    .filter(({ score }) => score >= MIN_SIMILARITY)
    .sort((a, b) => b.score - a.score);
  draw(found.slice(0, SHOWN).map((hit) => ({ ...hit, note: `similarity ${Math.round(100 * hit.score)} %` })));
  if (!reranker || !found.length) return;
  const texts = found.map(({ passage }) => passage.text);
  const ranked = await reranker.rerank(text, texts, { topN: SHOWN, truncate: true });
  draw(ranked.map(({ index, score }) => ({ ...found[index], note: `fits ${Math.round(100 * score)} %` })));
}

/** @param {{ passage: import('./search/passages.js').Passage, sentence: string, note: string }[]} hits */
function draw(hits) {
  $('found').replaceChildren(
    ...hits.map(({ passage, sentence, note }) => {
      const item = element('li');
      const paragraph = element('p');
      const at = passage.text.indexOf(sentence);
      paragraph.append(
        passage.text.slice(0, at),
        element('mark', '', sentence),
        passage.text.slice(at + sentence.length),
      );
      item.append(paragraph, element('small', '', `${passage.file} · ${note}`));
      return item;
    }),
  );
  if (all.length && !hits.length) $('found').append(element('li', 'none', 'Nothing in your texts is about this.'));
}

/**
 * Finds the sentence of each passage that is nearest to the query. A passage about several topics is far from each of them, so the
 * score is the mean of the similarities of this sentence and of the passage.
 * @param {Model} embedder @param {ReturnType<typeof nearest>} hits @param {Float32Array} query
 */
async function withSentences(embedder, hits, query) {
  const candidates = hits.map(({ passage }) => sentences(passage.text));
  const fresh = new Set(candidates.flatMap((list) => (list.length > 1 ? list : [])));
  const missing = [...fresh].filter((sentence) => !sentenceVectors.has(sentence));
  if (sentenceVectors.size + missing.length > MAX_SENTENCES) {
    sentenceVectors.clear();
    missing.splice(0, Infinity, ...fresh);
  }
  for (let i = 0; i < missing.length; i += EMBED_BATCH) {
    const batch = missing.slice(i, i + EMBED_BATCH);
    const { vectors } = await embedder.embed(batch);
    for (const [j, sentence] of batch.entries()) sentenceVectors.set(sentence, unit(vectors[j]));
  }
  return hits.map(({ passage, score }, i) => {
    const scores = candidates[i].map(
      (sentence) => sentenceVectors.get(sentence)?.reduce((sum, x, j) => sum + x * query[j], 0) ?? score,
    );
    const best = Math.max(...scores);
    return { passage, sentence: candidates[i][scores.indexOf(best)], score: (score + best) / 2 };
  });
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
$('ask').addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(() => void next(look), PAUSE);
});

/** @param {Iterable<File>} files */
function take(files) {
  $('alerts').textContent = '';
  for (const file of files) {
    if (!/\.(bq4|gguf)$/i.test(file.name)) void next(() => add(file));
    else void next(() => open(file));
  }
  void next(look);
}
for (const id of ['model', 'reranker', 'files'])
  $(id).addEventListener('change', (/** @type {any} */ { target }) => {
    take([...target.files]);
    target.value = '';
  });
$('download').addEventListener('click', () => {
  $('alerts').textContent = '';
  void next(() => open(EMBEDDER.source));
  void next(look);
});
addEventListener('dragover', (event) => event.preventDefault());
addEventListener('drop', (event) => {
  event.preventDefault();
  take(event.dataTransfer?.files ?? []);
});
$('forget').addEventListener('click', () =>
  next(async () => {
    all = [];
    sentenceVectors.clear();
    await keepPassages(all);
    drawTexts();
    await look();
    say('All texts are removed.');
  }),
);

$('better-remove').addEventListener('click', () => next(removeReranker));

/** Opens the reranker of an earlier visit, else offers one that was downloaded on the chat page. */
async function openReranker() {
  const name = storedName(RERANKER_NAME);
  const file = await kept(OWN_RERANKER);
  if (name) return open(name);
  if (file?.size) return open(new File([file], KEPT_NAME));
  const stored = await storedReranker((await engine).store);
  if (!stored) return;
  $('better-here').textContent = `Use ${stored.name} (${format.bytes(stored.fileBytes)}, on this device)`;
  $('better-here').hidden = false;
  $('better-here').addEventListener('click', () => next(() => open(stored.url)).then(() => next(look)));
}

await next(async () => {
  const before = await kept(OWN_FILE);
  const name = storedName(MODEL_NAME);
  if (name) return open(name);
  if (before?.size) return open(new File([before], KEPT_NAME));
  const here = await localEmbedder().catch(() => null);
  if (here) {
    $('here').textContent = `Use ${here.name} of this machine (${format.bytes(here.bytes)})`;
    $('here').hidden = false;
    $('here').addEventListener('click', () =>
      next(async () => take([new File([await (await fetch(here.url)).blob()], `${here.name}.bq4`)])),
    );
  }
  say('Download the search model, or open its file, to begin.');
});
void next(openReranker);
