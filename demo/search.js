/** Search by meaning in one's own texts. */
import { createWorkerEngine, fromBlob } from '../js/index.js';
import { element } from './page/element.js';
import * as format from './page/format.js';
import { EMBEDDER, localEmbedder, OWN_FILE } from './search/embedder.js';
import { keep, keepPassages, kept, keptPassages, nearest, passages, sentences, unit } from './search/passages.js';

/** @typedef {import('../js/shared/types.js').Model} Model */

/** Passages that are shown, and computed at once. */
const [SHOWN, TOGETHER] = [5, 16];
/** Milliseconds without a key before what is typed is looked at. */
const PAUSE = 150;
/** Passages of less similarity are not shown: an unrelated text has 0, give or take 0.1. */
const MIN_SIMILARITY = 0.2;
/** Of a model without a file of its own, in localStorage: the name to load it by. */
const MODEL_NAME = 'bq4.search.model';

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);
const say = (/** @type {string} */ text) => void ($('status').textContent = text);

/** @type {Model | null} */
let model = null;
/** @type {import('./search/passages.js').Passage[]} */
let all = [];

/** @param {unknown} error */
function show(error) {
  const { code = '', message, hint = '' } = /** @type {any} */ (error);
  $('alerts').textContent = [message, hint, code].filter(Boolean).join(' · ');
}

/** One thing at a time; what fails is said. @param {() => Promise<void>} work */
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

/** @param {File | string} source  a file, or a name on the hub */
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
  } finally {
    $('progress').hidden = true;
  }
  if (loaded.info.generates) {
    await loaded.close();
    throw new Error('This model writes; one that makes vectors of texts is needed, such as all-MiniLM-L6-v2.');
  }
  await model?.close();
  model = loaded;
  all = await keptPassages(model.info.hidden);
  $('need').hidden = true;
  $('ask').disabled = $('files').disabled = false;
  drawTexts();
  if (typeof source === 'string') localStorage.setItem(MODEL_NAME, source);
  say('Ready.');
}

/** @param {File} file */
async function add(file) {
  if (!model) throw new Error('First open the model.');
  const texts = passages(await file.text());
  const items = [];
  for (let i = 0; i < texts.length; i += TOGETHER) {
    say(`Reading ${file.name}: ${format.count(i)} of ${format.counted(texts.length, 'passage')}…`);
    const { vectors } = await model.embed(texts.slice(i, i + TOGETHER));
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
  const found = nearest(all, query, SHOWN).filter(({ score }) => score >= MIN_SIMILARITY);
  const marked = await bestSentences(
    model,
    found.map(({ passage }) => passage.text),
    query,
  );
  $('found').replaceChildren(
    ...found.map(({ passage, score }, i) => {
      const item = element('li');
      const paragraph = element('p');
      const at = passage.text.indexOf(marked[i]);
      paragraph.append(
        passage.text.slice(0, at),
        element('mark', '', marked[i]),
        passage.text.slice(at + marked[i].length),
      );
      item.append(paragraph, element('small', '', `${passage.file} · similarity ${Math.round(100 * score)} %`));
      return item;
    }),
  );
  if (all.length && !found.length) $('found').append(element('li', 'none', 'Nothing in your texts is about this.'));
}

/** The sentence of each text that is nearest to the query; the whole text where it has one sentence. @param {Model} embedder @param {string[]} texts @param {Float32Array} query @returns {Promise<string[]>} */
async function bestSentences(embedder, texts, query) {
  const candidates = texts.map(sentences);
  const several = candidates.flatMap((list) => (list.length > 1 ? list : []));
  const { vectors } = several.length ? await embedder.embed(several) : { vectors: [] };
  const similarity = new Map(
    several.map((sentence, i) => [sentence, unit(vectors[i]).reduce((sum, x, j) => sum + x * query[j], 0)]),
  );
  return candidates.map((list) =>
    list.reduce((best, sentence) => ((similarity.get(sentence) ?? 0) > (similarity.get(best) ?? 0) ? sentence : best)),
  );
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
    else
      void next(() => open(file)).then(() => {
        if (!model) return;
        localStorage.removeItem(MODEL_NAME);
        return keep(OWN_FILE, file);
      });
  }
  void next(look);
}
for (const id of ['model', 'files'])
  $(id).addEventListener('change', (/** @type {any} */ { target }) => {
    take([...target.files]);
    target.value = '';
  });
$('download').addEventListener('click', () => void next(() => open(EMBEDDER.source)).then(() => void next(look)));
addEventListener('dragover', (event) => event.preventDefault());
addEventListener('drop', (event) => {
  event.preventDefault();
  take(event.dataTransfer?.files ?? []);
});
$('forget').addEventListener('click', () =>
  next(async () => {
    all = [];
    await keepPassages(all);
    drawTexts();
    await look();
    say('All texts are removed.');
  }),
);

await next(async () => {
  const before = await kept(OWN_FILE);
  const name = localStorage.getItem(MODEL_NAME);
  if (name) return open(name);
  if (before?.size) return open(new File([before], 'the model'));
  const here = await localEmbedder().catch(() => null);
  if (here) {
    $('here').textContent = `Use ${here.name} of this machine (${format.bytes(here.bytes)})`;
    $('here').hidden = false;
    $('here').addEventListener('click', () =>
      next(async () => take([new File([await (await fetch(here.url)).blob()], `${here.name}.bq4`)])),
    );
  }
  say('A model is needed first.');
});
